//! Third-party packages: licences, source, and duplicates.
//!
//! `docs/adr/0001-dependencies-are-checked-by-a-test.md` says why this is a test, and what it does not check.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::checkout::{assert_none, file, packages, text};

/// Accepted licences: none of them restricts the users of Sluice.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "NCSA", // libFuzzer, for tests only
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The registry of all packages.
const ORIGIN: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages in more than one incompatible version, and why that cannot be avoided.
const KNOWN_DUPLICATES: [(&str, &str); 7] = [
    ("base64", "hdrhistogram uses an older version than rcgen"),
    ("getrandom", "ring uses an older version"),
    (
        "nom",
        "an optional dependency of rcgen, which is not built, uses an older version than pcap-parser",
    ),
    ("rusticata-macros", "as nom"),
    ("signal-hook", "crossterm, a dependency of `sluice play`, uses an older version"),
    ("syn", "the macros of zerocopy and tracing use an older version; build time only"),
    ("windows-sys", "ring uses an older version; not built here"),
];

/// The workspace, and the fuzzer and the example, which are workspaces of their own.
const MANIFESTS: [&str; 3] = ["Cargo.toml", "fuzz/Cargo.toml", "examples/access-list/Cargo.toml"];

/// Packages from the registry.
fn third_party() -> impl Iterator<Item = Value> {
    MANIFESTS.into_iter().flat_map(packages).filter(|package| !package["source"].is_null())
}

fn name(package: &Value) -> String {
    format!("{} {}", text(package, "name"), text(package, "version"))
}

/// Whether accepted licences satisfy an SPDX expression. Exceptions (`WITH`) are ignored, since they only permit more.
fn is_accepted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let (met, rest) = any_of(&words);
    met && rest.is_empty()
}

fn any_of<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = all_of(words);
    while let ["OR", after @ ..] = rest {
        let (also, left) = all_of(after);
        (met, rest) = (met | also, left);
    }
    (met, rest)
}

fn all_of<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = one(words);
    while let ["AND", after @ ..] = rest {
        let (also, left) = one(after);
        (met, rest) = (met & also, left);
    }
    (met, rest)
}

fn one<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => match any_of(inner) {
            (met, [")", rest @ ..]) => (met, rest),
            (_, rest) => (false, rest),
        },
        [licence, "WITH", _, rest @ ..] | [licence, rest @ ..] => {
            (LICENCES.contains(licence), rest)
        }
        [] => (false, words),
    }
}

#[test]
fn licence_expressions_are_parsed_as_spdx() {
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0"] {
        assert!(is_accepted(good), "{good}");
    }
    assert!(is_accepted("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND SSPL-1.0", "MIT )"] {
        assert!(!is_accepted(bad), "{bad}");
    }
}

#[test]
fn every_package_has_an_accepted_licence() {
    let bad = third_party().filter(|package| !is_accepted(text(package, "license")));
    let faults: Vec<_> =
        bad.map(|package| format!("{}: {}", name(&package), package["license"])).collect();
    assert_none(&faults, "licences that are not accepted");
}

#[test]
fn every_package_comes_from_the_registry() {
    let wrong = third_party().filter(|package| text(package, "source") != ORIGIN);
    let faults: Vec<_> =
        wrong.map(|package| format!("{}: {}", name(&package), package["source"])).collect();
    assert_none(&faults, "packages from other sources");
}

/// The part of a version that changes with incompatible releases.
fn major(version: &str) -> String {
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("0"), Some(minor)) => format!("0.{minor}"),
        (major, _) => major.unwrap_or_default().to_owned(),
    }
}

#[test]
fn duplicate_packages_are_known_and_explained() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages("Cargo.toml") {
        let majors = versions.entry(text(&package, "name").to_owned()).or_default();
        majors.insert(major(text(&package, "version")));
    }
    versions.retain(|_, majors| majors.len() > 1);
    let found: BTreeSet<_> = versions.keys().map(String::as_str).collect();
    let known: BTreeSet<_> = KNOWN_DUPLICATES.iter().map(|&(package, _)| package).collect();
    assert_eq!(found, known, "duplicate packages, and those that are explained");
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = file("Cargo.toml").text;
    let (_, rest) = manifest.split_once("[workspace.dependencies]").unwrap();
    let rows = rest.split("\n[").next().unwrap_or_default().lines();
    let external = rows.filter(|row| row.contains(" = ") && !row.starts_with("sluice-"));
    let undocumented = external.filter(|row| !row.contains("# ")).map(str::to_owned);
    assert_none(&undocumented.collect::<Vec<_>>(), "dependencies without a comment that says why");
}
