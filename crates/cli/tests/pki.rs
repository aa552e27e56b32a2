//! `sluice pki`: what it writes, and that it replaces nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

/// A controller that is killed at the end.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_bench_connects_over_tls_with_a_certificate_and_not_without() {
    let folder = Folder::new("bench");
    for words in ["init", "issue controller", "issue switch"] {
        assert!(folder.pki(words).status.success());
    }
    let path = |name: &str| folder.file(name).display().to_string();
    let [ca, cert, key] = ["ca.pem", "controller.pem", "controller.key"].map(path);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "--threads=1", "--no-api", "--app=learning", "--listen="]);
    command.args([
        "--tls-listen=127.0.0.1:0",
        "--tls-ca",
        &ca,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    let mut controller = Controller(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(controller.0.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        Some(line.unwrap().strip_prefix("listening on ")?.strip_suffix(" (TLS)")?.to_owned())
    });
    let address = address.unwrap();
    let bench = |identity: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args([
            "bench",
            "-c",
            &address,
            "-s=2",
            "-l=2",
            "-m=50",
            "-M=10",
            "--handshake-timeout=5",
        ]);
        command.args(["--tls", "--tls-ca", &ca]).args(identity).output().unwrap()
    };
    let output = bench(&["--tls-cert", &path("switch.pem"), "--tls-key", &path("switch.key")]);
    let report = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(report.contains(&format!("{address}, over TLS")), "{report}");
    assert!(!report.contains(" 0 responses"), "{report}");
    let output = bench(&[]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("it requires a certificate"), "{error}");
}

#[test]
fn certificates_are_valid_for_a_day_to_a_century() {
    let folder = Folder::new("days");
    assert!(folder.pki("init").status.success());
    for days in ["0", "36501", "4294967295"] {
        let output = folder.pki(&format!("issue switch --days {days}"));
        assert_eq!(output.status.code(), Some(2), "{days}");
        let error = text(&output.stderr);
        assert!(error.contains(&format!("{days} is not in 1..=36500")), "{error}");
        assert!(!folder.file("switch.key").exists());
    }
    for days in ["1", "36500"] {
        assert!(folder.pki(&format!("issue switch days{days} --days {days}")).status.success());
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
