//! All bytes of `tests/golden` as whole messages, whatever the form of the file.

use std::fmt::Write as _;
use std::path::Path;

use sluice_openflow::{Encoder, Message, RawMessage, Version};

/// One message and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) origin: String,
    pub(crate) bytes: Vec<u8>,
}

impl Said {
    fn new(origin: impl Into<String>, bytes: Vec<u8>) -> Self {
        let origin = origin.into();
        assert!(RawMessage::new(&bytes).is_ok(), "{origin} is not one message: {}", hex(&bytes));
        Self { origin, bytes }
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.bytes[0])
    }

    pub(crate) fn frame(&self) -> RawMessage<'_> {
        RawMessage::new(&self.bytes).unwrap()
    }

    pub(crate) fn read(&self) -> sluice_openflow::Result<Message> {
        RawMessage::new(&self.bytes).and_then(Message::parse_raw)
    }
}

/// Every message of `tests/golden`.
pub(crate) fn all() -> Vec<Said> {
    let mut all: Vec<_> =
        super::all().into_iter().map(|golden| Said::new(golden.name, golden.bytes)).collect();
    all.extend(blocks());
    all.extend(parts());
    all.extend(fields());
    all.extend(live());
    all
}

/// What Open vSwitch and `ovs-ofctl` said, by the command that they said it for.
pub(crate) fn live() -> Vec<Said> {
    let mut all = vec![];
    for version in ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"] {
        let mut command = String::new();
        for (n, line) in read(&format!("live/{version}.hex")).lines().enumerate() {
            match line.strip_prefix("# ") {
                Some(comment) if comment.starts_with("shortened") => {}
                Some(comment) => comment.clone_into(&mut command),
                None => {
                    let origin = format!("live/{version}.hex: {command} (line {})", n + 1);
                    all.push(Said::new(origin, unhex(line)));
                }
            }
        }
    }
    all
}

/// Files whose blocks are messages: `# version: origin`, bytes, what is read in them.
const BLOCKS: [&str; 4] = ["flows.txt", "groups.txt", "ports.txt", "session.txt"];

fn blocks() -> Vec<Said> {
    let mut all = vec![];
    for file in BLOCKS {
        for (title, bytes) in titled(&read(file)) {
            all.push(Said::new(format!("{file}: {title}"), bytes));
        }
    }
    all
}

/// Actions and instructions, each in a message of every version that the title names.
fn parts() -> Vec<Said> {
    let mut all = vec![];
    for file in ["actions.txt", "actions_malformed.txt"] {
        for (title, bytes) in titled(&read(file)) {
            let (versions, _) = title.split_once(' ').unwrap();
            let (from, to) = versions.split_once("..").unwrap_or((versions, versions));
            let versions = (version(from).0..=version(to).0).map(Version);
            let kind = if title.contains("instruction") { instructed } else { acted };
            for version in versions {
                all.push(Said::new(format!("{file}: {title}"), kind(version, &bytes)));
            }
        }
    }
    all
}

fn fields() -> Vec<Said> {
    let lines = read("fields.txt");
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let said = lines.map(|line| {
        let mut words = line.split(' ');
        let version = version(words.next().unwrap());
        let field = unhex(words.next().unwrap());
        Said::new(format!("fields.txt: {line}"), matched(version, &field))
    });
    said.collect()
}

/// The blocks of a file that start with a title: it, and the lines of bytes under it.
fn titled(text: &str) -> Vec<(String, Vec<u8>)> {
    let blocks = text.split("\n\n").skip(1).map(|block| {
        let (title, rest) = block.trim_start().split_once('\n').unwrap();
        let bytes = rest.lines().filter(|line| !line.starts_with(['{', '[', '#']));
        (title[2..].to_owned(), bytes.flat_map(unhex).collect())
    });
    blocks.collect()
}

/// A `PACKET_OUT` with these actions.
fn acted(version: Version, actions: &[u8]) -> Vec<u8> {
    let len = u16::try_from(actions.len()).unwrap().to_be_bytes();
    let from_controller = [0xff, 0xff, 0xff, 0xfd];
    let mut body = vec![0xff; 4];
    match version {
        Version::V1_0 => body.extend([0xff, 0xfd, len[0], len[1]]),
        // A match with the field that §7.3.7 of 1.5.0 demands: class 8000, number 0, in 12 bytes and 4 of padding.
        Version::V1_5 => {
            body.extend([len[0], len[1], 0, 0, 0, 1, 0, 12, 0x80, 0, 0, 4]);
            body.extend(from_controller);
            body.extend([0; 4]);
        }
        _ => {
            body.extend(from_controller);
            body.extend([len[0], len[1], 0, 0, 0, 0, 0, 0]);
        }
    }
    body.extend(actions);
    whole(version, 13, &body)
}

/// A `FLOW_MOD` with these instructions.
fn instructed(version: Version, instructions: &[u8]) -> Vec<u8> {
    let mut body = flow_mod_head();
    if version == Version::V1_1 {
        // A match of a fixed form with all its wildcards set.
        body.extend([0, 0, 0, 88, 0, 0, 0, 0, 0, 0, 3, 0xff]);
        for (zeros, ones) in [(6, 6), (6, 6), (12, 4), (4, 4), (20, 8)] {
            body.resize(body.len() + zeros, 0);
            body.resize(body.len() + ones, 0xff);
        }
        assert_eq!(body.len(), 40 + 88, "OpenFlow 1.1.0 §A.2.3");
    } else {
        body.extend([0, 1, 0, 4, 0, 0, 0, 0]);
    }
    body.extend(instructions);
    whole(version, 14, &body)
}

/// A `FLOW_MOD` that matches this field.
fn matched(version: Version, field: &[u8]) -> Vec<u8> {
    let len = u16::try_from(field.len()).unwrap();
    if version < Version::V1_2 {
        // Nicira's, which has a match of fields in all versions.
        let mut body = vec![0, 0, 0x23, 0x20, 0, 0, 0, 13];
        body.extend([0; 16]);
        body.extend([0xff; 4]);
        body.extend([0xff, 0xff, 0, 0]);
        body.extend(len.to_be_bytes());
        body.extend([0; 6]);
        body.extend(field);
        body.resize(body.len().next_multiple_of(8), 0);
        return whole(version, 4, &body);
    }
    let mut body = flow_mod_head();
    body.extend([0, 1]);
    body.extend((len + 4).to_be_bytes());
    body.extend(field);
    body.resize(body.len().next_multiple_of(8), 0);
    whole(version, 14, &body)
}

/// Adds a rule to table 0: cookies, times, priority 32768, no buffer, any port and group.
fn flow_mod_head() -> Vec<u8> {
    let mut head = vec![0; 22];
    head.extend([0x80, 0]);
    head.extend([0xff; 12]);
    head.extend([0; 4]);
    assert_eq!(head.len(), 40, "§7.3.4.1 without the header");
    head
}

fn whole(version: Version, kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
    [&[version.0, kind, len[0], len[1], 0, 0, 0, 7], body].concat()
}

fn version(name: &str) -> Version {
    let all = (1..=6).map(Version);
    all.into_iter().find(|version| version.to_string() == name).unwrap_or_else(|| panic!("{name}?"))
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Bytes from hex digits, with or without blanks.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The bytes of `message`, `None` if `version` cannot say it.
pub(crate) fn written(message: &Message, version: Version, xid: u32) -> Option<Vec<u8>> {
    let (mut tx, mut next_xid) = (vec![], 1);
    let said = message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid));
    assert!(said.is_ok() || tx.is_empty(), "what cannot be said leaves nothing behind");
    said.ok().map(|()| tx)
}
