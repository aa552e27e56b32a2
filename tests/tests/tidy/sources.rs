//! Limits of source files: length, unfinished work, `unsafe`, paths of one machine.

use std::collections::BTreeMap;

use crate::checkout::{CheckoutFile, assert_none, files, root};

/// Files with more lines are listed, since they may have a second subject.
const LINES_SOFT: usize = 600;

/// Maximum lines of a file.
const LINES_MAX: usize = 1000;

/// Crates that make system calls and may use `unsafe`.
const UNSAFE_MAY_BE_IN: [&str; 2] = ["crates/io/", "crates/kernel/"];

// In pieces, so that this file does not match.
const UNFINISHED_MARKS: [&str; 5] = [
    concat!("FIX", "ME"),
    concat!("XX", "X "),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ign", "ore"),
];

const LOCAL_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("arti", "factory"),
    concat!("registry+sparse+", "http"),
];

fn is_source(file: &CheckoutFile) -> bool {
    file.is_any(&[".rs", ".sh", ".py", ".toml", "Makefile", ".ci/run"])
}

/// Locations of lines for which `is_bad` is true.
fn matches(file: &CheckoutFile, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
    let bad = file.lines().filter(|(_, line)| is_bad(line));
    bad.map(|(location, line)| format!("{location}: {}", line.trim())).collect()
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".rs"])) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{}: {lines} lines", file.path));
        } else if lines > LINES_SOFT {
            println!("longer than comfortable: {}: {lines} lines", file.path);
        }
    }
    assert_none(&faults, &format!("files of more than {LINES_MAX} lines"));
}

/// A schema of the OpenAPI document has the name of its type, unless another one is given: the second of two with the same name would replace the first.
#[test]
fn no_two_schemas_of_the_api_have_the_same_name() {
    let mut names = BTreeMap::new();
    for file in files().iter().filter(|file| file.path.starts_with("crates/northbound/src/")) {
        let (mut is_schema, mut given) = (false, None);
        for (location, line) in file.lines() {
            if let Some((_, name)) = line.split_once("schema(as = ") {
                given = name.split(|c: char| !c.is_alphanumeric()).next();
            }
            is_schema |= line.contains("derive(") && line.contains("ToSchema");
            let words: Vec<_> = line.split(|c: char| !c.is_alphanumeric()).collect();
            let kind = words.iter().position(|word| ["struct", "enum"].contains(word));
            let Some(name) = kind.and_then(|at| words.get(at + 1)) else { continue };
            let name = given.take().unwrap_or(name);
            if std::mem::take(&mut is_schema) {
                names.entry(name.to_owned()).or_insert_with(Vec::new).push(location);
            }
        }
    }
    assert!(names.len() > 50, "only {} found", names.len());
    let twice = names.into_iter().filter(|(_, locations)| locations.len() > 1);
    let faults: Vec<_> =
        twice.map(|(name, locations)| format!("{name}: {}", locations.join(", "))).collect();
    assert_none(&faults, "schemas with the same name");
}

#[test]
fn no_work_is_unfinished_and_no_test_is_ignored() {
    let is_unfinished = |line: &str| UNFINISHED_MARKS.iter().any(|word| line.contains(word));
    let sources = files().into_iter().filter(is_source);
    let faults: Vec<_> = sources.flat_map(|file| matches(&file, is_unfinished)).collect();
    assert_none(&faults, "marks of unfinished work");
}

/// The lints of the workspace deny `unsafe`; this finds sources that lift the lint.
#[test]
fn only_crates_with_system_calls_allow_unsafe() {
    let lifts = |line: &str| {
        ["allow", "expect", "warn"].iter().any(|lift| line.contains(&format!("{lift}(unsafe_code")))
    };
    let rust = files().into_iter().filter(|file| file.is_any(&[".rs"]));
    let elsewhere = rust.filter(|f| !UNSAFE_MAY_BE_IN.iter().any(|at| f.path.starts_with(at)));
    let faults: Vec<_> = elsewhere.flat_map(|file| matches(&file, lifts)).collect();
    assert_none(&faults, "`unsafe` outside of the crates that may use it");
}

#[test]
fn no_file_contains_paths_or_addresses_of_one_machine() {
    let is_local = |line: &str| LOCAL_PATHS.iter().any(|word| line.contains(word));
    let faults: Vec<_> = files().iter().flat_map(|file| matches(file, is_local)).collect();
    assert_none(&faults, "paths and addresses of one machine");
}

/// References to `lab/` and `docs/` in sources and pages.
#[test]
fn files_that_sources_and_pages_refer_to_exist() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".rs", ".md"])) {
        for (location, line) in file.lines() {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
            let referred = words.map(|word| word.trim_end_matches(['.', '/'])).filter(|word| {
                let is_page = word.starts_with("docs/") && word.contains(".md");
                is_page || word.starts_with("lab/") && word.len() > 4
            });
            let missing = referred.filter(|word| !root().join(word).exists());
            faults.extend(missing.map(|word| format!("{location}: {word}")));
        }
    }
    assert_none(&faults, "references to files that do not exist");
}
