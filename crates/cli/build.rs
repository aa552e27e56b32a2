//! Finds the commit and the target, which `sluice --version` prints.

use std::env;
use std::path::Path;
use std::process::Command;

/// The commit, for builds from an archive of the sources.
const COMMIT: &str = "SLUICE_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = env::var(COMMIT).ok().filter(|given| !given.is_empty()).or_else(commit);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={COMMIT}={commit}");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=SLUICE_TARGET={target}");
    if target == "x86_64-unknown-linux-gnu" && env::var("PROFILE").is_ok_and(|it| it == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all,-z,pack-relative-relocs");
    }
}

/// The commit of the checkout; `None` if this is none.
fn commit() -> Option<String> {
    // In an archive that was unpacked in another checkout, git would answer for that one.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Changes with each commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
