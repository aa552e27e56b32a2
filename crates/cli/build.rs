//! Finds the commit and the target, which `sluice --version` prints.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

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

/// The commit of the checkout, with `-dirty` if the sources of the program have changes that it does not contain; `None` if this is no checkout.
fn commit() -> Option<String> {
    // In an archive that was unpacked in another checkout, git would answer for that one.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Changes with each commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for path in watched().iter().chain([&log]).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    // Without a lock, so that a commit at the same time succeeds.
    let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=normal", "--"];
    let changes = git(&[&status[..], SOURCES].concat())?;
    let suffix = if changes.is_empty() { "" } else { "-dirty" };
    git(&["rev-parse", "--short=12", "HEAD"]).map(|commit| commit + suffix)
}

/// What the program is built of, for git. Tests are not part of it.
const SOURCES: &[&str] = &[
    ":/Cargo.toml",
    ":/Cargo.lock",
    ":/crates",
    ":/docs/openapi.json",
    ":/study",
    ":/web",
    ":(top,exclude)crates/testkit",
    ":(top,exclude)crates/*/tests",
    ":(top,exclude)crates/*/benches",
    ":(top,exclude)web/tests",
];

/// What the program is built of, relative to this crate. A change of tests alone does not link the program again.
fn watched() -> Vec<String> {
    let crates = fs::read_dir("..").into_iter().flatten().flatten();
    let crates = crates.map(|it| it.path().to_string_lossy().into_owned());
    let crates = crates.filter(|path| !path.ends_with("testkit"));
    let parts = ["Cargo.toml", "build.rs", "src", "bpf"];
    let of_crates = crates.flat_map(|path| parts.map(|part| format!("{path}/{part}")));
    let others = ["Cargo.toml", "Cargo.lock", "docs/openapi.json", "study", "web/src"];
    let others = others.map(|path| format!("../../{path}"));
    of_crates.filter(|path| Path::new(path).exists()).chain(others).collect()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
