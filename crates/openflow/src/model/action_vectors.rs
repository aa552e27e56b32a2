//! Bytes of actions and instructions, foreign ones where there are, and what is read in them.
//!
//! `tests/golden/actions.txt` is blocks with blank lines between: `# versions kind: origin`, the bytes, the neutral
//! form in one line, which `SLUICE_BLESS=1 cargo test` writes anew. `actions_malformed.txt` has the error that the
//! bytes deserve instead, `type/code` or `any`.

use core::fmt::Write as _;
use std::path::PathBuf;

use super::action::Action;
use super::codec::{Choice, Codec, ListItem};
use super::encap::EncapProp;
use super::instruction::Instruction;
use super::learn::{LearnDst, LearnSrc};
use super::nicira_action::Controller2Prop;
use super::reader::Reader;
use super::set_action::SET_ROWS;
use super::value::{NeutralForm, Value, unhex};
use super::vectors::json;
use crate::{Encoder, ParseError, Version};

/// One block of a file.
#[derive(Debug)]
struct Vector {
    title: String,
    versions: core::ops::RangeInclusive<u8>,
    kind: String,
    /// The error that they deserve, in the file of malformed ones.
    error: String,
    bytes: Vec<u8>,
    expected: String,
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

fn version(text: &str) -> u8 {
    let all = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
    u8::try_from(all.iter().position(|name| *name == text).unwrap() + 1).unwrap()
}

fn vectors(file: &str) -> Vec<Vector> {
    let text = std::fs::read_to_string(path(file)).unwrap();
    let blocks = text.split("\n\n").skip(1).map(|block| {
        let (title, rest) = block.split_once('\n').unwrap();
        let title = title.strip_prefix("# ").unwrap();
        let mut words = title.split_once(": ").unwrap().0.split(' ');
        let range = words.next().unwrap();
        let (from, to) = range.split_once("..").unwrap_or((range, range));
        let (expected, hex): (Vec<_>, Vec<_>) =
            rest.lines().partition(|line| line.starts_with(['{', '[']));
        Vector {
            title: title.into(),
            versions: version(from)..=version(to),
            kind: words.next().unwrap().into(),
            error: words.next().unwrap_or_default().into(),
            bytes: unhex(&hex.concat()).unwrap(),
            expected: expected.concat(),
        }
    });
    blocks.collect()
}

fn read<T: ListItem>(bytes: &[u8], version: u8) -> Result<Vec<T>, ParseError> {
    Vec::parse(&mut Reader::new(Version(version), bytes, 0))
}

fn written<T: ListItem>(list: &Vec<T>, version: u8) -> Vec<u8> {
    let (mut tx, mut xid) = (vec![], 1);
    list.encode(&mut Encoder::new(&mut tx, Version(version), &mut xid)).unwrap();
    tx
}

/// Reads the bytes in `version`, proves that they come back, also by the neutral form, which is returned.
fn both_ways<T>(vector: &Vector, version: u8) -> Value
where
    T: ListItem + NeutralForm + PartialEq + core::fmt::Debug,
{
    let title = &vector.title;
    let list: Vec<T> =
        read(&vector.bytes, version).unwrap_or_else(|e| panic!("{title} in {version}: {e}"));
    assert_eq!(written(&list, version), vector.bytes, "{title}: {list:?}");
    let value = list.to_value(Version(version));
    assert_eq!(Vec::from_value(&value, Version(version)), Ok(list), "{title}");
    value
}

fn value_of(vector: &Vector, version: u8) -> Value {
    match vector.kind.as_str() {
        "action" => both_ways::<Action>(vector, version),
        _ => both_ways::<Instruction>(vector, version),
    }
}

#[test]
fn actions_and_instructions_are_read_as_the_file_says_and_come_back() {
    let (mut vectors, bless) = (vectors("actions.txt"), std::env::var_os("SLUICE_BLESS").is_some());
    for vector in &mut vectors {
        if bless {
            vector.expected = json(&value_of(vector, *vector.versions.start()));
        }
        for version in vector.versions.clone() {
            assert_eq!(json(&value_of(vector, version)), vector.expected, "{}", vector.title);
        }
    }
    if bless {
        let old = std::fs::read_to_string(path("actions.txt")).unwrap();
        let mut text = old.split_once("\n\n").unwrap().0.to_owned() + "\n";
        for Vector { title, bytes, expected, .. } in &vectors {
            writeln!(text, "\n# {title}").unwrap();
            for line in bytes.chunks(32) {
                let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "{}", line.join(" ")).unwrap();
            }
            writeln!(text, "{expected}").unwrap();
        }
        std::fs::write(path("actions.txt"), text).unwrap();
    }
}

/// The numbers of the outermost actions or instructions of all vectors of `kind`, each with a version.
fn numbers<T: ListItem + Choice>(kind: &str) -> Vec<(u8, u64)> {
    let mut numbers = vec![];
    for vector in vectors("actions.txt").iter().filter(|vector| vector.kind == kind) {
        for version in vector.versions.clone() {
            let list = read::<T>(&vector.bytes, version).unwrap();
            let codes = list.iter().filter_map(|it| it.code(Version(version)).ok());
            numbers.extend(codes.map(|code| (version, code)));
        }
    }
    numbers
}

fn each_row_has_bytes<T: ListItem + Choice>(kind: &str) {
    let numbers = numbers::<T>(kind);
    for row in T::ROWS {
        for version in 1..=6 {
            let Some(code) = (row.code)(Version(version)) else { continue };
            assert!(numbers.contains(&(version, code)), "{} in {}", row.name, Version(version));
        }
    }
}

#[test]
fn each_action_and_instruction_has_bytes_in_each_of_its_versions() {
    each_row_has_bytes::<Action>("action");
    each_row_has_bytes::<Instruction>("instruction");
}

#[test]
fn each_action_that_sets_one_field_has_bytes() {
    let vectors = vectors("actions.txt");
    for row in SET_ROWS {
        let found = vectors.iter().any(|vector| {
            let [kind, subtype] = [row.code.min(0xffff), row.code & 0xffff]
                .map(|n| u16::try_from(n).unwrap().to_be_bytes());
            let is_it = vector.bytes.starts_with(&kind)
                && (row.code <= 0xffff || vector.bytes.get(8..10) == Some(&subtype[..]));
            is_it
                && vector.kind == "action"
                && vector.versions.contains(&row.version.0)
                && vector.expected.contains("set_field")
        });
        assert!(found, "{} in {}", row.name, row.version);
    }
}

#[test]
fn each_property_and_source_within_actions_has_bytes() {
    let text = std::fs::read_to_string(path("actions.txt")).unwrap();
    let rows = [EncapProp::ROWS, Controller2Prop::ROWS, LearnSrc::ROWS, LearnDst::ROWS];
    for row in rows.concat() {
        assert!(text.contains(&format!("{{\"type\":{:?}", row.name)), "{}", row.name);
    }
}

fn refusal(kind: &str, bytes: &[u8], version: u8) -> Option<ParseError> {
    match kind {
        "action" => read::<Action>(bytes, version).err(),
        _ => read::<Instruction>(bytes, version).err(),
    }
}

#[test]
fn what_is_malformed_is_refused_with_the_error_it_deserves() {
    for Vector { title, versions, kind, error, bytes, .. } in vectors("actions_malformed.txt") {
        let found = refusal(&kind, &bytes, *versions.start()).unwrap_or_else(|| panic!("{title}"));
        let (of, code) = found.code();
        if error != "any" {
            assert_eq!(format!("{}/{}", of.0, code.0), error, "{title}: {found}");
        }
    }
}

#[test]
fn whatever_is_changed_is_refused_or_comes_back() {
    for Vector { title, versions, kind, bytes, .. } in vectors("actions.txt") {
        let version = *versions.start();
        for len in 0..bytes.len() {
            assert!(len % 8 == 0 || refusal(&kind, &bytes[..len], version).is_some(), "{title}");
        }
        for (at, new) in (0..bytes.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|new| (at, new))) {
            let mut hurt = bytes.clone();
            hurt[at] = new;
            let again = match kind.as_str() {
                "action" => read::<Action>(&hurt, version).map(|it| written(&it, version)),
                _ => read::<Instruction>(&hurt, version).map(|it| written(&it, version)),
            };
            match again {
                Ok(again) => assert_eq!(again.len(), hurt.len(), "{title}: {hurt:02x?}"),
                Err(error) => assert!(usize::from(error.at) <= hurt.len(), "{title}: {error}"),
            }
        }
    }
}
