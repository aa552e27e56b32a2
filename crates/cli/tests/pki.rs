//! `sluice pki`: what it writes, and that it replaces nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sluice_io::{ClientAuth, TlsServer};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("pki-{name}-{}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    /// Runs `sluice pki` with these words.
    fn pki(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("pki").args(words.split_whitespace()).arg("--dir").arg(&self.0);
        command.output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only a temporary folder stays if it fails.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_authority_issues_certificates_that_the_controller_can_use_and_only_the_owner_reads_the_keys()
{
    let folder = Folder::new("issue");
    let commands =
        ["init", "issue controller", "issue switch edge --dpid 1 --dpid 00000000000000a2"];
    let [init, controller, switch] = commands.map(|words| {
        let output = folder.pki(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    });
    assert!(init.contains("sluice pki issue controller --dir "), "{init}");
    assert!(controller.contains("sluice run --tls-listen 6654 --tls-cert "), "{controller}");
    assert!(switch.contains("ovs-vsctl set-ssl /"), "{switch}");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.0.clone()), 0o700);
    for name in ["ca", "controller", "edge"] {
        assert_eq!(mode(folder.file(&format!("{name}.key"))), 0o600);
    }
    let ca = ClientAuth::Required(folder.file("ca.pem"));
    for name in ["controller", "edge"] {
        let [pem, key] = ["pem", "key"].map(|it| folder.file(&format!("{name}.{it}")));
        TlsServer::load(&pem, &key, &ca).unwrap();
    }
}

#[test]
fn no_file_is_replaced_and_an_error_says_what_to_do() {
    let folder = Folder::new("replace");
    let error = |words: &str| {
        let output = folder.pki(words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        text(&output.stderr)
    };
    let message = error("issue controller");
    assert!(message.contains("`sluice pki init` makes an authority"), "{message}");
    assert!(folder.pki("init").status.success());
    let before = fs::read(folder.file("ca.key")).unwrap();
    fs::remove_file(folder.file("ca.pem")).unwrap();
    let message = error("init");
    assert!(message.contains("ca.key exists, and no file is replaced"), "{message}");
    assert_eq!(fs::read(folder.file("ca.key")).unwrap(), before);
    assert!(!folder.file("ca.pem").exists());
    for words in ["issue switch ca", "issue switch ../x", "issue switch --dpid xyz"] {
        assert_eq!(folder.pki(words).status.code(), Some(2), "{words}");
    }
}
