//! The Debian package, the size of the binary, and what is shipped for Prometheus and Grafana.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sluice_system_tests::{TestEnv, binary, output_of};

/// Largest release binary without debug information, in bytes: `docs/adr/0041-packages.md` says what it is made of.
const BINARY_BYTES_MAX: u64 = 18_200_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The package of the binary under test, which is made once for all tests.
fn package() -> PathBuf {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let mut deb = Command::new(root().join("scripts/deb.sh"));
        deb.arg(binary()).arg(binary().with_file_name("package-test")).arg("0.0.1-1");
        let output = output_of(deb.env("DEB_FLAGS", "--fast"));
        output.lines().last().unwrap().into()
    };
    PACKAGE.get_or_init(make).clone()
}

#[test]
fn the_binary_without_debug_information_is_small() {
    let env = TestEnv::shared();
    let stripped = env.file("stripped");
    output_of(Command::new("strip").args(["--strip-all", "-o"]).args([&stripped, &binary()]));
    let bytes = fs::metadata(&stripped).unwrap().len();
    assert!(bytes < BINARY_BYTES_MAX, "{bytes} bytes");
}

/// `dpkg-shlibdeps` is not asked, so the binary must not need a newer glibc or another library than the package says.
#[test]
fn the_package_depends_on_each_package_once_and_on_what_the_binary_needs() {
    let depends = output_of(Command::new("dpkg-deb").arg("--field").arg(package()).arg("Depends"));
    assert_eq!(depends.trim(), "adduser, libc6 (>= 2.36)");
    let headers = output_of(Command::new("objdump").arg("--private-headers").arg(binary()));
    let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
    // Every Debian has libgcc-s1, which apt needs.
    let known = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
    let others: Vec<_> = needed.map(str::trim).filter(|name| !known.contains(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    let versions = headers.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_2."));
    let newest = versions.filter_map(|minor| minor.split('.').next()?.parse::<u32>().ok()).max();
    assert!(newest.is_some_and(|minor| minor <= 36), "glibc 2.{newest:?}");
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    let env = TestEnv::shared();
    let script = root().join("tests/package.sh");
    // In the namespace of the test, whose ports are free.
    let mut command = env.command("unshare");
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    let output = output_of(command.arg(script).arg(package()));
    assert!(output.ends_with("== done\n"), "{output}");
}

/// Real units under the real systemd, in namespaces of their own.
#[test]
fn the_service_runs_under_systemd_and_an_upgrade_refuses_no_connection() {
    let env = TestEnv::shared();
    let script = root().join("tests/systemd.sh");
    let mut command = env.command("bash");
    let output = output_of(command.arg(script).arg(package()));
    assert!(output.ends_with("== done\n"), "{output}");
}

#[test]
fn the_bill_of_materials_names_what_is_linked() {
    let target = "x86_64-unknown-linux-gnu";
    let sbom = root().join("scripts/sbom.py");
    let text = output_of(Command::new(sbom).args(["0.1.0", target]).current_dir(root()));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let components = document["components"].as_array().unwrap();
    let names: Vec<_> = components.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for linked in ["sluice-engine", "rustls", "redb"] {
        assert!(names.contains(&linked), "{linked} is missing: {names:?}");
    }
    for other in ["syn", "proptest", "sluice-testkit", "windows-sys"] {
        assert!(!names.contains(&other), "{other} is not linked");
    }
    let licences = components.iter().filter(|it| it["licenses"][0]["expression"].is_string());
    assert_eq!(licences.count(), components.len());
}

#[test]
fn the_alerts_are_valid_and_fire_when_they_should() {
    let folder = root().join("packaging/prometheus");
    let promtool = |arguments: &[&str]| {
        output_of(Command::new("promtool").args(arguments).current_dir(&folder))
    };
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}
