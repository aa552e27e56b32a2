//! Checks of the golden files with actions and instructions.
//!
//! `tests/golden/actions.txt` consists of blocks separated by blank lines: `# versions kind: origin`, the bytes, and the
//! neutral form on one line, which `SLUICE_BLESS=1 cargo test` rewrites. The blocks of `actions_malformed.txt` have the
//! expected error code, `type/code` or `any`, after the kind.

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

/// A block of a golden file.
#[derive(Debug)]
struct Vector {
    title: String,
    versions: core::ops::RangeInclusive<u8>,
    kind: String,
    /// Expected error code, in the file of malformed actions.
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

fn parsed<T: ListItem>(bytes: &[u8], version: u8) -> Result<Vec<T>, ParseError> {
    Vec::parse(&mut Reader::new(Version(version), bytes, 0))
}

fn encoded<T: ListItem>(list: &Vec<T>, version: u8) -> Vec<u8> {
    let (mut tx, mut xid) = (vec![], 1);
    list.encode(&mut Encoder::new(&mut tx, Version(version), &mut xid)).unwrap();
    tx
}

/// Checks that the bytes survive a roundtrip in `version`, also through the neutral form; returns the neutral form.
fn check_roundtrip<T>(vector: &Vector, version: u8) -> Value
where
    T: ListItem + NeutralForm + PartialEq + core::fmt::Debug,
{
    let title = &vector.title;
    let list: Vec<T> =
        parsed(&vector.bytes, version).unwrap_or_else(|e| panic!("{title} in {version}: {e}"));
    assert_eq!(encoded(&list, version), vector.bytes, "{title}: {list:?}");
    let value = list.to_value(Version(version));
    assert_eq!(Vec::from_value(&value, Version(version)), Ok(list), "{title}");
    value
}

fn neutral_form(vector: &Vector, version: u8) -> Value {
    match vector.kind.as_str() {
        "action" => check_roundtrip::<Action>(vector, version),
        _ => check_roundtrip::<Instruction>(vector, version),
    }
}

#[test]
fn action_vectors_parse_and_encode_as_recorded() {
    let (mut vectors, bless) = (vectors("actions.txt"), std::env::var_os("SLUICE_BLESS").is_some());
    for vector in &mut vectors {
        if bless {
            vector.expected = json(&neutral_form(vector, *vector.versions.start()));
        }
        for version in vector.versions.clone() {
            assert_eq!(json(&neutral_form(vector, version)), vector.expected, "{}", vector.title);
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

/// Version and code of the outermost actions or instructions in all vectors of `kind`.
fn covered_codes<T: ListItem + Choice>(kind: &str) -> Vec<(u8, u64)> {
    let mut covered = vec![];
    for vector in vectors("actions.txt").iter().filter(|vector| vector.kind == kind) {
        for version in vector.versions.clone() {
            let list = parsed::<T>(&vector.bytes, version).unwrap();
            let codes = list.iter().filter_map(|it| it.code(Version(version)).ok());
            covered.extend(codes.map(|code| (version, code)));
        }
    }
    covered
}

fn assert_every_row_has_a_vector<T: ListItem + Choice>(kind: &str) {
    let covered = covered_codes::<T>(kind);
    for row in T::ROWS {
        for version in 1..=6 {
            let Some(code) = (row.code)(Version(version)) else { continue };
            assert!(covered.contains(&(version, code)), "{} in {}", row.name, Version(version));
        }
    }
}

#[test]
fn every_action_and_instruction_has_a_vector_in_every_version() {
    assert_every_row_has_a_vector::<Action>("action");
    assert_every_row_has_a_vector::<Instruction>("instruction");
}

#[test]
fn every_set_action_has_a_vector() {
    let vectors = vectors("actions.txt");
    for row in SET_ROWS {
        let found = vectors.iter().any(|vector| {
            let [kind, subtype] = [row.code.min(0xffff), row.code & 0xffff]
                .map(|n| u16::try_from(n).unwrap().to_be_bytes());
            let is_this = vector.bytes.starts_with(&kind)
                && (row.code <= 0xffff || vector.bytes.get(8..10) == Some(&subtype[..]));
            is_this
                && vector.kind == "action"
                && vector.versions.contains(&row.version.0)
                && vector.expected.contains("set_field")
        });
        assert!(found, "{} in {}", row.name, row.version);
    }
}

#[test]
fn every_property_and_source_inside_actions_has_a_vector() {
    let text = std::fs::read_to_string(path("actions.txt")).unwrap();
    let rows = [EncapProp::ROWS, Controller2Prop::ROWS, LearnSrc::ROWS, LearnDst::ROWS];
    for row in rows.concat() {
        assert!(text.contains(&format!("{{\"type\":{:?}", row.name)), "{}", row.name);
    }
}

fn parse_error(kind: &str, bytes: &[u8], version: u8) -> Option<ParseError> {
    match kind {
        "action" => parsed::<Action>(bytes, version).err(),
        _ => parsed::<Instruction>(bytes, version).err(),
    }
}

#[test]
fn malformed_actions_are_refused_with_the_expected_error_code() {
    for Vector { title, versions, kind, error, bytes, .. } in vectors("actions_malformed.txt") {
        let found =
            parse_error(&kind, &bytes, *versions.start()).unwrap_or_else(|| panic!("{title}"));
        let (kind, code) = found.newest_code();
        if error != "any" {
            assert_eq!(format!("{}/{}", kind.0, code.0), error, "{title}: {found}");
        }
    }
}

#[test]
fn corrupted_actions_are_refused_or_survive_a_roundtrip() {
    for Vector { title, versions, kind, bytes, .. } in vectors("actions.txt") {
        let version = *versions.start();
        for len in 0..bytes.len() {
            assert!(
                len % 8 == 0 || parse_error(&kind, &bytes[..len], version).is_some(),
                "{title}"
            );
        }
        for (at, new) in (0..bytes.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|new| (at, new))) {
            let mut corrupted = bytes.clone();
            corrupted[at] = new;
            let reencoded = match kind.as_str() {
                "action" => parsed::<Action>(&corrupted, version).map(|it| encoded(&it, version)),
                _ => parsed::<Instruction>(&corrupted, version).map(|it| encoded(&it, version)),
            };
            match reencoded {
                Ok(reencoded) => {
                    assert_eq!(reencoded.len(), corrupted.len(), "{title}: {corrupted:02x?}");
                }
                Err(error) => assert!(usize::from(error.at) <= corrupted.len(), "{title}: {error}"),
            }
        }
    }
}
