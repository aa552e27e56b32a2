//! An authority, and the certificates that it issues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::controller::binary;
use crate::process::output_of;
use crate::test_env::TestEnv;

/// What `openssl ca` needs to choose the validity of a certificate.
const OPENSSL_CONFIG: &str = "\
[ca]
default_ca = authority
[authority]
database = index
new_certs_dir = .
rand_serial = yes
policy = policy
default_md = sha256
[policy]
commonName = supplied
[extensions]
subjectAltName = DNS:expired
";

/// An authority in a folder of its own.
#[derive(Debug)]
pub struct Pki(PathBuf);

impl Pki {
    /// Makes an authority with `sluice pki init`, in the folder `name` of `env`.
    ///
    /// # Panics
    /// When it cannot be made.
    #[track_caller]
    pub fn new(env: &TestEnv, name: &str) -> Self {
        let new = Self(env.file(name));
        new.run("init");
        new
    }

    /// Runs `sluice pki issue` with `words`.
    #[track_caller]
    pub fn issue(&self, words: &str) {
        self.run(&format!("issue {words}"));
    }

    /// Issues a certificate with the name `expired`, which was valid until the end of the year 2000.
    #[track_caller]
    pub fn issue_expired(&self) {
        self.write("openssl.cnf", OPENSSL_CONFIG);
        self.write("index", "");
        self.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout expired.key -out expired.csr \
             -subj /CN=expired",
        );
        self.openssl(
            "ca -batch -notext -config openssl.cnf -extensions extensions -cert ca.pem -keyfile ca.key \
             -in expired.csr -out expired.pem -startdate 20000101000000Z -enddate 20001231000000Z",
        );
    }

    /// Path of a file of the authority.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Replaces a file of the authority.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) {
        assert!(fs::write(self.file(name), text).is_ok(), "{name} cannot be written");
    }

    /// Removes a certificate and its key, so that they can be issued again.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn remove(&self, name: &str) {
        for extension in ["pem", "key"] {
            let file = self.file(&format!("{name}.{extension}"));
            assert!(fs::remove_file(&file).is_ok(), "{} cannot be removed", file.display());
        }
    }

    /// Arguments of a controller that listens with TLS and uses this authority.
    pub fn controller_arguments(&self) -> String {
        let path = |name: &str| self.file(name).display().to_string();
        format!(
            "--tls-listen 127.0.0.1:0 --tls-cert {} --tls-key {} --tls-ca {}",
            path("controller.pem"),
            path("controller.key"),
            path("ca.pem")
        )
    }

    #[track_caller]
    fn run(&self, words: &str) {
        let mut command = Command::new(binary());
        output_of(
            command.arg("pki").args(words.split_whitespace()).arg("--dir").arg(self.folder()),
        );
    }

    #[track_caller]
    fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        output_of(command.args(words.split_whitespace()).current_dir(self.folder()));
    }

    fn folder(&self) -> &Path {
        &self.0
    }
}
