//! Checks of the golden files that contain whole messages.
//!
//! A file consists of blocks separated by blank lines: `# version: origin`, the bytes, and the neutral form on one line,
//! which `SLUICE_BLESS=1 cargo test` rewrites.

use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::codec::{Choice, ChoiceRow};
use super::{Message, Value};
use crate::{Encoder, HEADER_LEN, RawMessage, Version};

/// A block of a golden file: a message and its expected neutral form.
#[derive(Debug)]
pub(super) struct Vector {
    /// `version: origin`.
    pub(super) title: String,
    /// The encoded message.
    pub(super) bytes: Vec<u8>,
    /// Expected neutral form, as JSON.
    expected: String,
}

impl Vector {
    pub(super) fn version(&self) -> Version {
        Version(self.bytes[0])
    }

    /// The parsed message.
    pub(super) fn message(&self) -> Message {
        let parsed = RawMessage::new(&self.bytes).and_then(Message::parse_raw);
        parsed.unwrap_or_else(|error| panic!("{}: {error}\n{:02x?}", self.title, self.bytes))
    }
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// All blocks of `file`.
pub(super) fn vectors(file: &str) -> Vec<Vector> {
    let text = std::fs::read_to_string(path(file)).unwrap();
    let blocks = text.split("\n\n").skip(1).map(|block| {
        let mut vector = Vector { title: String::new(), bytes: vec![], expected: String::new() };
        for line in block.lines() {
            match line.as_bytes().first() {
                Some(b'#') => line[2..].clone_into(&mut vector.title),
                Some(b'{') => line.clone_into(&mut vector.expected),
                _ => vector.bytes.extend(super::value::unhex(line).unwrap()),
            }
        }
        vector
    });
    blocks.collect()
}

/// Rewrites the expected neutral forms in `file`.
fn bless(file: &str, vectors: &[Vector]) {
    let old = std::fs::read_to_string(path(file)).unwrap();
    let mut text = old.split_once("\n\n").unwrap().0.to_owned() + "\n";
    for vector in vectors {
        writeln!(text, "\n# {}", vector.title).unwrap();
        for line in vector.bytes.chunks(32) {
            let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{}", line.join(" ")).unwrap();
        }
        writeln!(text, "{}", json(&vector.message().to_value(vector.version()))).unwrap();
    }
    std::fs::write(path(file), text).unwrap();
}

/// JSON on one line.
pub(super) fn json(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(",");
    match value {
        Value::Null => "null".into(),
        Value::Bool(yes) => yes.to_string(),
        Value::Number(n) => n.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::List(items) => format!("[{}]", list(items.iter().map(json).collect())),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(name, value)| format!("{name:?}:{}", json(value)));
            format!("{{{}}}", list(entries.collect()))
        }
    }
}

pub(super) fn encoded(message: &Message, version: Version, xid: u32) -> Vec<u8> {
    let (mut tx, mut next_xid) = (vec![], 1);
    message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid)).unwrap();
    tx
}

/// Checks that the messages of `file` have the expected neutral form, and survive a roundtrip through bytes and through
/// the neutral form.
pub(super) fn check_vectors(file: &str) {
    let vectors = vectors(file);
    for Vector { title, bytes, expected } in &vectors {
        let (raw, version) = (RawMessage::new(bytes).unwrap(), Version(bytes[0]));
        assert!(title.starts_with(&format!("{version}: ")), "{title}");
        let message = Message::parse_raw(raw).unwrap_or_else(|e| panic!("{title}: {e}"));
        let value = message.to_value(version);
        if std::env::var_os("SLUICE_BLESS").is_none() {
            assert_eq!(
                &json(&value),
                expected,
                "{title}: run with SLUICE_BLESS=1 if this is intended"
            );
        }
        assert_eq!(Message::from_value(&value, version).as_ref(), Ok(&message), "{title}");
        assert_eq!(encoded(&message, version, raw.xid()), *bytes, "{title}");
    }
    if std::env::var_os("SLUICE_BLESS").is_some() {
        bless(file, &vectors);
    }
}

/// Truncates, extends and modifies the messages of `file`: the result is refused, or parsed to another message that
/// survives a roundtrip.
pub(super) fn check_corrupted(file: &str) {
    for vector in vectors(file) {
        let Vector { title, bytes, .. } = &vector;
        // Long messages are tried at 120 positions, which saves time.
        let step = bytes.len() / 120 + 1;
        for len in (HEADER_LEN..bytes.len()).step_by(step) {
            let mut cut = bytes[..len].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            check_reencoded(title, &cut);
        }
        for at in (HEADER_LEN..bytes.len()).step_by(step) {
            for byte in [0, 1, 0x7f, 0xff, bytes[at].wrapping_add(1), bytes[at].wrapping_sub(1)] {
                let mut corrupted = bytes.clone();
                corrupted[at] = byte;
                let parsed = check_reencoded(title, &corrupted);
                // Once per position, which saves time.
                if let Some(message) = parsed.filter(|_| byte == 0xff) {
                    check_conversions(title, &message, vector.version());
                }
            }
        }
        let mut long = bytes.clone();
        long.extend([0xff; 8]);
        let len = u16::try_from(long.len()).unwrap().to_be_bytes();
        long[2..4].copy_from_slice(&len);
        check_reencoded(title, &long);
    }
}

/// Parses `bytes`; checks that a parsed message survives a roundtrip, and that an error is inside the message.
fn check_reencoded(title: &str, bytes: &[u8]) -> Option<Message> {
    let raw = RawMessage::new(bytes).unwrap();
    let message = match Message::parse_raw(raw) {
        Ok(message) => message,
        Err(error) => {
            assert!(usize::from(error.at) <= bytes.len(), "{title}: {error}");
            return None;
        }
    };
    let reencoded = encoded(&message, raw.version(), raw.xid());
    let again = Message::parse_raw(RawMessage::new(&reencoded).unwrap());
    assert_eq!(again.as_ref(), Ok(&message), "{title}");
    assert_eq!(reencoded.len(), bytes.len(), "{title}: {bytes:02x?}");
    Some(message)
}

/// Checks that `message` survives a roundtrip through the neutral form, and its translations to other versions a
/// roundtrip through bytes.
fn check_conversions(title: &str, message: &Message, version: Version) {
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(message), "{title}");
    for version in (1..=6).map(Version) {
        let (mut tx, mut xid) = (vec![], 1);
        if message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid)).is_ok() {
            let again = Message::parse_raw(RawMessage::new(&tx).unwrap()).unwrap();
            assert_eq!(encoded(&again, version, 7), tx, "{title} in {version}");
        }
    }
}

/// Checks that the messages of `file` are parsed as the same messages after encoding in any version that supports them.
pub(super) fn check_other_versions(file: &str) {
    for vector in vectors(file) {
        let message = vector.message();
        for version in (1..=6).map(Version) {
            let (mut tx, mut xid) = (vec![], 1);
            if message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid)).is_ok() {
                let again = Message::parse_raw(RawMessage::new(&tx).unwrap());
                assert_eq!(again.as_ref(), Ok(&message), "{} in {version}", vector.title);
            }
        }
    }
}

/// The alternatives that occur in the messages of a file: path, version and name.
///
/// The path starts at the enclosing alternative: `port_desc.ports.properties`.
#[derive(Debug, Default)]
pub(super) struct RowCoverage(BTreeSet<(String, Version, String)>);

impl RowCoverage {
    /// Collects the alternatives in `file`.
    pub(super) fn of_file(file: &str) -> Self {
        let mut coverage = Self::default();
        for vector in vectors(file) {
            coverage.collect("", vector.version(), &vector.message().to_value(vector.version()));
        }
        coverage
    }

    fn collect(&mut self, path: &str, version: Version, value: &Value) {
        match value {
            Value::Map(entries) => {
                let mut path = path.to_owned();
                if let Some(Value::Text(name)) = value.get("type") {
                    self.0.insert((path, version, name.clone()));
                    path = name.clone();
                }
                for (name, value) in entries {
                    self.collect(&format!("{path}.{name}"), version, value);
                }
            }
            Value::List(items) => {
                for item in items {
                    self.collect(path, version, item);
                }
            }
            _ => {}
        }
    }

    /// Asserts that each row of `T` that `filter` selects occurs at one of `paths` in every version that has it.
    pub(super) fn assert_all<T: Choice>(
        &self,
        paths: &[&str],
        filter: impl Fn(&ChoiceRow) -> bool,
    ) {
        for row in T::ROWS.iter().filter(|row| filter(row)) {
            for version in (1..=6).map(Version).filter(|v| (row.code)(*v).is_some()) {
                let key = |path: &&str| ((*path).to_owned(), version, row.name.to_owned());
                let found = paths.iter().any(|path| self.0.contains(&key(path)));
                assert!(found, "no vector of {} in {version} at {paths:?}", row.name);
            }
        }
    }
}
