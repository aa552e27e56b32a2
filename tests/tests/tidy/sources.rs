//! What no source may have: too many lines, work left undone, `unsafe` in the wrong place.

use crate::checkout::{File, assert_none, files, root};

/// Lines of a file at which it needs a second subject. Files of that length are shown.
const LINES_SOFT: usize = 600;

/// Lines of a file that are a wall.
const LINES_MAX: usize = 1000;

/// Where system calls are, and with them `unsafe`.
const UNSAFE_MAY_BE_IN: [&str; 2] = ["crates/io/", "crates/kernel/"];

// In pieces, so that this file does not find itself.
const UNDONE: [&str; 5] = [
    concat!("FIX", "ME"),
    concat!("XX", "X "),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ign", "ore"),
];

const MACHINE: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("arti", "factory"),
    concat!("registry+sparse+", "http"),
];

fn is_source(file: &File) -> bool {
    file.is_any(&[".rs", ".sh", ".py", ".toml", "Makefile", ".ci/run"])
}

/// Places of lines in which `is_bad` finds something.
fn places(file: &File, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
    let bad = file.lines().filter(|(_, line)| is_bad(line));
    bad.map(|(place, line)| format!("{place}: {}", line.trim())).collect()
}

#[test]
fn no_file_is_longer_than_the_wall() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".rs"])) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{}: {lines} lines", file.path));
        } else if lines > LINES_SOFT {
            println!("look for the second subject: {}: {lines} lines", file.path);
        }
    }
    assert_none(&faults, &format!("files of more than {LINES_MAX} lines"));
}

#[test]
fn no_work_is_left_undone_and_no_test_is_passed_over() {
    let undone = |line: &str| UNDONE.iter().any(|word| line.contains(word));
    let sources = files().into_iter().filter(is_source);
    let faults: Vec<_> = sources.flat_map(|file| places(&file, undone)).collect();
    assert_none(&faults, "marks of work that is not done");
}

/// The compiler refuses `unsafe` wherever the lints of the workspace hold, unless a source asks for it.
#[test]
fn unsafe_is_asked_for_only_where_system_calls_are() {
    let asks = |line: &str| {
        ["allow", "expect", "warn"].iter().any(|lift| line.contains(&format!("{lift}(unsafe_code")))
    };
    let rust = files().into_iter().filter(|file| file.is_any(&[".rs"]));
    let elsewhere = rust.filter(|f| !UNSAFE_MAY_BE_IN.iter().any(|at| f.path.starts_with(at)));
    let faults: Vec<_> = elsewhere.flat_map(|file| places(&file, asks)).collect();
    assert_none(&faults, "`unsafe` outside of the crates that may have it");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let local = |line: &str| MACHINE.iter().any(|word| line.contains(word));
    let faults: Vec<_> = files().iter().flat_map(|file| places(file, local)).collect();
    assert_none(&faults, "paths and addresses of one machine");
}

/// A measurement that somebody refers to is there, so that it can be done again.
#[test]
fn what_sources_and_pages_refer_to_is_there() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".rs", ".md"])) {
        for (place, line) in file.lines() {
            let said = line.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
            let referred = said.map(|word| word.trim_end_matches(['.', '/'])).filter(|word| {
                let is_page = word.starts_with("docs/") && word.contains(".md");
                is_page || word.starts_with("network/") && word.len() > 4
            });
            let missing = referred.filter(|word| !root().join(word).exists());
            faults.extend(missing.map(|word| format!("{place}: {word}")));
        }
    }
    assert_none(&faults, "references to what is not there");
}
