//! Bytes of messages and what is read in them, from files that `SLUICE_BLESS=1 cargo test` writes anew.
//!
//! A file is blocks with blank lines between: `# version: origin`, the bytes, and the neutral form in one line.

use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::codec::{Choice, ChoiceRow};
use super::{Message, Value};
use crate::{Encoder, HEADER_LEN, RawMessage, Version};

/// One message of a file.
#[derive(Debug)]
pub(super) struct Vector {
    /// Version and origin.
    pub(super) title: String,
    /// The message.
    pub(super) bytes: Vec<u8>,
    /// What is read in it.
    expected: String,
}

impl Vector {
    /// Its version.
    pub(super) fn version(&self) -> Version {
        Version(self.bytes[0])
    }

    /// What is read in it.
    pub(super) fn message(&self) -> Message {
        let read = RawMessage::new(&self.bytes).and_then(Message::parse_raw);
        read.unwrap_or_else(|error| panic!("{}: {error}\n{:02x?}", self.title, self.bytes))
    }
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// The messages of `file`.
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

/// As JSON, on one line.
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

/// The bytes of `message`.
pub(super) fn written(message: &Message, version: Version, xid: u32) -> Vec<u8> {
    let (mut tx, mut next_xid) = (vec![], 1);
    message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid)).unwrap();
    tx
}

/// Proves that the messages of `file` are read as it says, and come back from bytes and from the neutral form.
pub(super) fn prove(file: &str) {
    let vectors = vectors(file);
    for Vector { title, bytes, expected } in &vectors {
        let (frame, version) = (RawMessage::new(bytes).unwrap(), Version(bytes[0]));
        assert!(title.starts_with(&format!("{version}: ")), "{title}");
        let message = Message::parse_raw(frame).unwrap_or_else(|e| panic!("{title}: {e}"));
        let value = message.to_value(version);
        if std::env::var_os("SLUICE_BLESS").is_none() {
            assert_eq!(&json(&value), expected, "{title}: SLUICE_BLESS=1 if this is meant");
        }
        assert_eq!(Message::from_value(&value, version).as_ref(), Ok(&message), "{title}");
        assert_eq!(written(&message, version, frame.xid()), *bytes, "{title}");
    }
    if std::env::var_os("SLUICE_BLESS").is_some() {
        bless(file, &vectors);
    }
}

/// Proves that what is wrong in the messages of `file` is an error or something else that can be said, and no panic.
pub(super) fn damage(file: &str) {
    for vector in vectors(file) {
        let Vector { title, bytes, .. } = &vector;
        // Of long messages not every byte is worth the time.
        let step = bytes.len() / 120 + 1;
        for len in (HEADER_LEN..bytes.len()).step_by(step) {
            let mut cut = bytes[..len].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            read_again(title, &cut);
        }
        for at in (HEADER_LEN..bytes.len()).step_by(step) {
            for byte in [0, 1, 0x7f, 0xff, bytes[at].wrapping_add(1), bytes[at].wrapping_sub(1)] {
                let mut hurt = bytes.clone();
                hurt[at] = byte;
                let read = read_again(title, &hurt);
                // Once for each place; the rest would say the same.
                if let Some(message) = read.filter(|_| byte == 0xff) {
                    elsewhere(title, &message, vector.version());
                }
            }
        }
        let mut long = bytes.clone();
        long.extend([0xff; 8]);
        let len = u16::try_from(long.len()).unwrap().to_be_bytes();
        long[2..4].copy_from_slice(&len);
        read_again(title, &long);
    }
}

fn read_again(title: &str, bytes: &[u8]) -> Option<Message> {
    let frame = RawMessage::new(bytes).unwrap();
    let message = match Message::parse_raw(frame) {
        Ok(message) => message,
        Err(error) => {
            assert!(usize::from(error.at) <= bytes.len(), "{title}: {error}");
            return None;
        }
    };
    let again = written(&message, frame.version(), frame.xid());
    let read = Message::parse_raw(RawMessage::new(&again).unwrap());
    assert_eq!(read.as_ref(), Ok(&message), "{title}");
    assert_eq!(again.len(), bytes.len(), "{title}: {bytes:02x?}");
    Some(message)
}

/// Proves that `message` comes back from the neutral form, and that what other versions make of it is settled.
fn elsewhere(title: &str, message: &Message, version: Version) {
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(message), "{title}");
    for version in (1..=6).map(Version) {
        let (mut tx, mut xid) = (vec![], 1);
        if message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid)).is_ok() {
            let again = Message::parse_raw(RawMessage::new(&tx).unwrap()).unwrap();
            assert_eq!(written(&again, version, 7), tx, "{title} in {version}");
        }
    }
}

/// Proves that what the messages of `file` say is the same in every other version that can say it.
pub(super) fn translate(file: &str) {
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

/// What alternatives the messages of a file have: where each stands, its version, its name.
///
/// Where it stands is the path from the alternative around it: `port_desc.ports.properties`.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeSet<(String, Version, String)>);

impl Seen {
    /// Those of the messages of `file`.
    pub(super) fn of(file: &str) -> Self {
        let mut seen = Self::default();
        for vector in vectors(file) {
            seen.walk("", vector.version(), &vector.message().to_value(vector.version()));
        }
        seen
    }

    fn walk(&mut self, path: &str, version: Version, value: &Value) {
        match value {
            Value::Map(entries) => {
                let mut path = path.to_owned();
                if let Some(Value::Text(name)) = value.get("type") {
                    self.0.insert((path, version, name.clone()));
                    path = name.clone();
                }
                for (name, value) in entries {
                    self.walk(&format!("{path}.{name}"), version, value);
                }
            }
            Value::List(items) => {
                for item in items {
                    self.walk(path, version, item);
                }
            }
            _ => {}
        }
    }

    /// Proves that each of the rows of `T` that `mine` picks stands in one of `paths` in every version that has it.
    pub(super) fn all<T: Choice>(&self, paths: &[&str], mine: impl Fn(&ChoiceRow) -> bool) {
        for row in T::ROWS.iter().filter(|row| mine(row)) {
            for version in (1..=6).map(Version).filter(|v| (row.code)(*v).is_some()) {
                let key = |path: &&str| ((*path).to_owned(), version, row.name.to_owned());
                let found = paths.iter().any(|path| self.0.contains(&key(path)));
                assert!(found, "no bytes of {} in {version} in {paths:?}", row.name);
            }
        }
    }
}
