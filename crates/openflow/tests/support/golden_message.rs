//! All bytes in `tests/golden` as whole messages, whatever the format of the file.

use std::fmt::Write as _;
use std::path::Path;

use sluice_openflow::{Encoder, Message, RawMessage, Version};

/// A message from another implementation, and its origin.
#[derive(Debug, Clone)]
pub(crate) struct GoldenMessage {
    pub(crate) origin: String,
    pub(crate) bytes: Vec<u8>,
}

impl GoldenMessage {
    fn new(origin: impl Into<String>, bytes: Vec<u8>) -> Self {
        let origin = origin.into();
        assert!(RawMessage::new(&bytes).is_ok(), "{origin} is not one message: {}", hex(&bytes));
        Self { origin, bytes }
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.bytes[0])
    }

    pub(crate) fn raw(&self) -> RawMessage<'_> {
        RawMessage::new(&self.bytes).unwrap()
    }

    pub(crate) fn parse(&self) -> sluice_openflow::Result<Message> {
        RawMessage::new(&self.bytes).and_then(Message::parse_raw)
    }
}

/// Every message in `tests/golden`.
pub(crate) fn golden_messages() -> Vec<GoldenMessage> {
    let mut all: Vec<_> = super::golden_files()
        .into_iter()
        .map(|file| GoldenMessage::new(file.name, file.bytes))
        .collect();
    all.extend(messages_of_block_files());
    all.extend(messages_with_actions_and_instructions());
    all.extend(messages_with_fields());
    all.extend(live_messages());
    all
}

/// Messages that Open vSwitch and `ovs-ofctl` exchanged; the origin is the command that caused them.
pub(crate) fn live_messages() -> Vec<GoldenMessage> {
    let mut all = vec![];
    for version in ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"] {
        let mut command = String::new();
        for (n, line) in read_golden(&format!("live/{version}.hex")).lines().enumerate() {
            match line.strip_prefix("# ") {
                Some(comment) if comment.starts_with("shortened") => {}
                Some(comment) => comment.clone_into(&mut command),
                None => {
                    let origin = format!("live/{version}.hex: {command} (line {})", n + 1);
                    all.push(GoldenMessage::new(origin, unhex(line)));
                }
            }
        }
    }
    all
}

/// Files that consist of blocks: `# version: origin`, the message in hex, its neutral form.
const BLOCK_FILES: [&str; 4] = ["flows.txt", "groups.txt", "ports.txt", "session.txt"];

fn messages_of_block_files() -> Vec<GoldenMessage> {
    let mut all = vec![];
    for file in BLOCK_FILES {
        for (title, bytes) in titled_blocks(&read_golden(file)) {
            all.push(GoldenMessage::new(format!("{file}: {title}"), bytes));
        }
    }
    all
}

/// Messages with the actions and instructions of the golden files, in every version that their titles name.
fn messages_with_actions_and_instructions() -> Vec<GoldenMessage> {
    let mut all = vec![];
    for file in ["actions.txt", "actions_malformed.txt"] {
        for (title, bytes) in titled_blocks(&read_golden(file)) {
            let (versions, _) = title.split_once(' ').unwrap();
            let (from, to) = versions.split_once("..").unwrap_or((versions, versions));
            let versions = (version(from).0..=version(to).0).map(Version);
            let message = if title.contains("instruction") {
                flow_mod_with_instructions
            } else {
                packet_out_with_actions
            };
            for version in versions {
                all.push(GoldenMessage::new(format!("{file}: {title}"), message(version, &bytes)));
            }
        }
    }
    all
}

/// Messages with the match fields of `fields.txt`.
fn messages_with_fields() -> Vec<GoldenMessage> {
    let lines = read_golden("fields.txt");
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let messages = lines.map(|line| {
        let mut columns = line.split(' ');
        let version = version(columns.next().unwrap());
        let field = unhex(columns.next().unwrap());
        GoldenMessage::new(format!("fields.txt: {line}"), flow_mod_with_match(version, &field))
    });
    messages.collect()
}

/// The blocks of a file: title and bytes.
fn titled_blocks(text: &str) -> Vec<(String, Vec<u8>)> {
    let blocks = text.split("\n\n").skip(1).map(|block| {
        let (title, rest) = block.trim_start().split_once('\n').unwrap();
        let bytes = rest.lines().filter(|line| !line.starts_with(['{', '[', '#']));
        (title[2..].to_owned(), bytes.flat_map(unhex).collect())
    });
    blocks.collect()
}

/// A `PACKET_OUT` with encoded actions.
fn packet_out_with_actions(version: Version, actions: &[u8]) -> Vec<u8> {
    let len = u16::try_from(actions.len()).unwrap().to_be_bytes();
    let from_controller = [0xff, 0xff, 0xff, 0xfd];
    let mut body = vec![0xff; 4];
    match version {
        Version::V1_0 => body.extend([0xff, 0xfd, len[0], len[1]]),
        // A match with the required in_port (OpenFlow 1.5.0 §7.3.6): 12 bytes and 4 bytes of padding.
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
    message(version, 13, &body)
}

/// A `FLOW_MOD` with encoded instructions.
fn flow_mod_with_instructions(version: Version, instructions: &[u8]) -> Vec<u8> {
    let mut body = flow_mod_start();
    if version == Version::V1_1 {
        // A match with all wildcards.
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
    message(version, 14, &body)
}

/// A `FLOW_MOD` whose match is the encoded field.
fn flow_mod_with_match(version: Version, field: &[u8]) -> Vec<u8> {
    let len = u16::try_from(field.len()).unwrap();
    if version < Version::V1_2 {
        // NXT_FLOW_MOD, whose match is a list of OXM fields in all versions.
        let mut body = vec![0, 0, 0x23, 0x20, 0, 0, 0, 13];
        body.extend([0; 16]);
        body.extend([0xff; 4]);
        body.extend([0xff, 0xff, 0, 0]);
        body.extend(len.to_be_bytes());
        body.extend([0; 6]);
        body.extend(field);
        body.resize(body.len().next_multiple_of(8), 0);
        return message(version, 4, &body);
    }
    let mut body = flow_mod_start();
    body.extend([0, 1]);
    body.extend((len + 4).to_be_bytes());
    body.extend(field);
    body.resize(body.len().next_multiple_of(8), 0);
    message(version, 14, &body)
}

/// Start of a `FLOW_MOD` that adds a flow entry to table 0: priority 32768, no buffer, any port and group.
fn flow_mod_start() -> Vec<u8> {
    let mut start = vec![0; 22];
    start.extend([0x80, 0]);
    start.extend([0xff; 12]);
    start.extend([0; 4]);
    assert_eq!(start.len(), 40, "§7.3.4.1 without the header");
    start
}

/// A message of type `kind`.
fn message(version: Version, kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
    [&[version.0, kind, len[0], len[1], 0, 0, 0, 7], body].concat()
}

fn version(name: &str) -> Version {
    let all = (1..=6).map(Version);
    all.into_iter().find(|version| version.to_string() == name).unwrap_or_else(|| panic!("{name}?"))
}

fn read_golden(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Decodes hex digits; other characters are ignored.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Encodes bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Encodes `message`; `None` if `version` does not support it.
pub(crate) fn encoded(message: &Message, version: Version, xid: u32) -> Option<Vec<u8>> {
    let (mut tx, mut next_xid) = (vec![], 1);
    let result = message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid));
    assert!(
        result.is_ok() || tx.is_empty(),
        "a message that cannot be encoded leaves the buffer unchanged"
    );
    result.ok().map(|()| tx)
}
