//! Words that the project does not use, because readers cannot search for them or have to guess their meaning.

use crate::checkout::{assert_none, files};

/// Refused words in lower case, and what to write instead. Whole words, in any case.
const REFUSED: [(&str, &str); 18] = [
    ("abode", "host entry, location"),
    ("doorkeeper", "port security"),
    ("frames for all", "broadcasts"),
    ("frames to all", "broadcasts"),
    ("household", "hosts of a switch"),
    ("inexpressible", "not supported by the version"),
    ("lobby", "admission, handshake queue"),
    ("mended", "restored, repaired, reassembled"),
    ("octet", "byte"),
    ("octets", "bytes"),
    ("otherwise than", "different from"),
    ("played switch", "emulated switch"),
    ("played switches", "emulated switches"),
    ("station", "host"),
    ("stations", "hosts"),
    ("stencil", "message template"),
    ("ways loaded", "paths installed"),
    ("who is told", "notified, subscriber"),
];

/// Pages that list the refused words to explain them, and this list.
const EXEMPT: [&str; 2] = ["docs/adr/0011-plain-names.md", "tests/tests/tidy/words.rs"];

/// Files of other implementations, whose words are theirs.
const FOREIGN: &str = "/golden/";

/// Whether `line` contains `word` as whole words; `octets()` of the standard library is a function name.
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + word.len()..];
        let is_part = |c: char| c.is_alphanumeric();
        !before.is_some_and(is_part)
            && !after.chars().next().is_some_and(is_part)
            && !after.starts_with("()")
    })
}

#[test]
fn refused_words_are_found_as_whole_words() {
    assert!(contains("an octet of", "octet") && contains("octet_len", "octet"));
    assert!(!contains("workstation", "station") && !contains("ip.octets()", "octets"));
}

#[test]
fn no_refused_word_is_used() {
    let mut faults = Vec::new();
    let ends = [".rs", ".md", ".toml", ".py", ".sh", "Makefile"];
    for file in files().iter().filter(|file| file.is_any(&ends)) {
        if EXEMPT.contains(&file.path.as_str()) || file.path.contains(FOREIGN) {
            continue;
        }
        for (location, line) in file.lines() {
            let line = line.to_lowercase();
            let refused = REFUSED.iter().filter(|(word, _)| contains(&line, word));
            faults.extend(refused.map(|(word, instead)| format!("{location}: {word} ({instead})")));
        }
    }
    assert_none(&faults, "words that are not used here; write the ones in parentheses");
}
