//! The messages that os-ken keeps for its own tests: what the model reads in them is what os-ken reads.
//!
//! `make setup` installs os-ken; without it these tests fail. Nothing of it is copied here.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sluice_openflow::value::Value;
use sluice_openflow::{Message, RawMessage, Version};
use support::said::{Said, written};

/// Where the messages are: one folder a version.
fn tests() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let below = |dir: &Path, prefix: &str| {
        let entries = std::fs::read_dir(dir).unwrap_or_else(|e| {
            panic!("{}: {e}; run `make setup`, which installs os-ken", dir.display())
        });
        let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix));
        found.sort();
        found.pop().unwrap_or_else(|| panic!("{} has no {prefix}*", dir.display()))
    };
    let python = below(&below(&cache, "osken-").join("lib"), "python3");
    python.join("site-packages/os_ken/tests")
}

/// Every recorded message: `of13/4-2-ofp_flow_mod`, bytes.
fn recorded() -> Vec<Said> {
    let mut all = vec![];
    for folder in ["of10", "of12", "of13", "of14", "of15"] {
        let dir = tests().join("packet_data").join(folder);
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension() == Some("packet".as_ref()) {
                let name = path.file_stem().unwrap().to_string_lossy();
                let bytes = std::fs::read(&path).unwrap();
                all.push(Said { origin: format!("{folder}/{name}"), bytes });
            }
        }
    }
    all.sort_by(|a, b| a.origin.cmp(&b.origin));
    assert!(all.len() >= 300, "{} messages: is os-ken whole?", all.len());
    all
}

/// Messages that are not read, or not written as they came: the message, why, and who is right.
const DISAGREED: &[(&str, &str)] = &[
    (
        "of10/1-2-ofp_flow_mod",
        "both: six bits say how much of `nw_src` is a wildcard, and 32 to 63 mean all of it; theirs is 63, ours 32 \
         (OpenFlow 1.0.0 §5.2.3)",
    ),
    (
        "of15/libofproto-OFP15-flow_desc_reply",
        "we are: the instruction is longer than the record around it (OpenFlow 1.5.0 §7.3.5.2)",
    ),
    (
        "of15/libofproto-OFP15-meter_features_reply",
        "we are: the file has another number of bytes than the length in its header says (§7.1)",
    ),
];

#[test]
fn recorded_messages_come_back_from_bytes_and_from_the_neutral_form() {
    let mut wrong = BTreeMap::new();
    for said in recorded() {
        if let Err(why) = comes_back(&said) {
            wrong.insert(said.origin, why);
        }
    }
    let listed: BTreeSet<_> = DISAGREED.iter().map(|row| row.0.to_owned()).collect();
    let gone: Vec<_> = listed.iter().filter(|name| !wrong.contains_key(*name)).collect();
    assert!(gone.is_empty(), "listed, and yet they come back: {gone:#?}");
    wrong.retain(|name, _| !listed.contains(name));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn comes_back(said: &Said) -> Result<(), String> {
    let message = said.read().map_err(|error| error.to_string())?;
    let (version, xid) = (said.version(), said.frame().xid());
    let again = written(&message, version, xid).ok_or("cannot be said again")?;
    if again != said.bytes {
        let same = RawMessage::new(&again).and_then(Message::parse_raw);
        assert_eq!(
            same,
            Ok(message),
            "{}: written otherwise, the meaning is the same",
            said.origin
        );
        let at = again.iter().zip(&said.bytes).take_while(|(a, b)| a == b).count();
        let (ours, theirs) = (&again[at..], &said.bytes[at..]);
        return Err(format!("from byte {at} ours {ours:02x?} theirs {theirs:02x?}"));
    }
    let value = message.to_value(version);
    match Message::from_value(&value, version) {
        Ok(same) if same == message => Ok(()),
        other => Err(format!("{value:?} is read as {other:?}")),
    }
}

/// Values under a name that are not compared, and why.
const NOT_COMPARED: &[(&str, &str)] = &[
    (
        "len",
        "theirs of records, which ours do not tell; ours of fields of table features that have an unusual one",
    ),
    ("value", "theirs of fields too, which are compared under the names of the fields"),
];

/// Numbers that differ: the message, the name, and who is right.
const NUMBERS_DISAGREED: &[(&str, &str, &str)] = &[(
    "of13/ovs-ofctl-of13-action_resubmit",
    "table_id",
    "both: theirs has the `table` of a resubmit under this name too",
)];

/// Identities that ours say by the name of what they added. Nicira, the Open Networking Foundation.
const NAMED: [u64; 2] = [0x2320, 0x4f4e_4600];

/// The bit of `vlan_vid` that says that there is a tag, which ours do not show where a tag is named. §7.2.3.7
const VLAN_PRESENT: u64 = 0x1000;

/// All numbers of a tree by the name that they stand under, in order of size.
type Numbers = BTreeMap<String, Vec<u64>>;

fn theirs(json: &Json, under: &str, numbers: &mut Numbers) {
    match json {
        Json::Object(entries) => {
            // A field is under its name, as ours are, unless it has a mask.
            if let (Some(Json::String(field)), Some(Json::Null)) =
                (entries.get("field"), entries.get("mask"))
            {
                theirs(&entries["value"], field, numbers);
            }
            entries.iter().for_each(|(name, value)| theirs(value, name, numbers));
        }
        Json::Array(items) => items.iter().for_each(|item| theirs(item, under, numbers)),
        Json::Number(n) => numbers.entry(under.into()).or_default().extend(n.as_u64()),
        _ => {}
    }
}

/// The numbers of ours; a name under which something else stands is not there.
fn ours(value: &Value, under: &str, numbers: &mut BTreeMap<String, Option<Vec<u64>>>) {
    match value {
        Value::Map(entries) => entries.iter().for_each(|(name, it)| ours(it, name, numbers)),
        Value::List(items) if items.iter().any(|item| matches!(item, Value::Text(_))) => {
            numbers.insert(under.into(), None);
        }
        Value::List(items) => items.iter().for_each(|item| ours(item, under, numbers)),
        Value::Number(n) => {
            if let Some(list) = numbers.entry(under.into()).or_insert(Some(vec![])) {
                list.push(*n);
            }
        }
        Value::Text(text) if text.starts_with("0x") => {
            let n = u64::from_str_radix(&text[2..], 16).ok().map(Value::Number);
            ours(&n.unwrap_or(Value::Null), under, numbers);
        }
        Value::Text(_) | Value::Null | Value::Bool(_) => _ = numbers.insert(under.into(), None),
    }
}

#[test]
fn numbers_are_what_osken_reads_under_the_same_name() {
    let (mut compared, mut wrong) = (0, BTreeMap::new());
    for said in recorded() {
        let Ok(message) = said.read() else { continue };
        if message.name() == "other" {
            continue;
        }
        let twin = tests().join("unit/ofproto/json").join(format!("{}.packet.json", said.origin));
        let twin = serde_json::from_slice(&std::fs::read(&twin).unwrap()).unwrap();
        let (mut left, mut right) = (Numbers::new(), BTreeMap::new());
        theirs(&twin, "", &mut left);
        ours(&message.to_value(said.version()), "", &mut right);
        for (name, mut theirs) in left {
            let Some(Some(mut ours)) = right.remove(&name) else { continue };
            if NOT_COMPARED.iter().any(|row| row.0 == name) {
                continue;
            }
            theirs.retain(|n| name != "experimenter" || !NAMED.contains(n));
            if name == "vlan_vid" {
                for n in &mut theirs {
                    *n &= !VLAN_PRESENT;
                }
            }
            theirs.sort_unstable();
            ours.sort_unstable();
            compared += ours.len();
            if theirs != ours {
                let all = format!("ours {ours:x?}, theirs {theirs:x?}");
                wrong.insert((said.origin.clone(), name), all);
            }
        }
    }
    let key = |row: &(&str, &str, &str)| (row.0.to_owned(), row.1.to_owned());
    let gone: Vec<_> =
        NUMBERS_DISAGREED.iter().filter(|row| wrong.remove(&key(row)).is_none()).collect();
    assert!(gone.is_empty(), "listed, and yet they are the same: {gone:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 3000, "only {compared} numbers are compared");
}

#[test]
fn versions_are_those_of_the_folders() {
    for said in recorded() {
        let version = format!("of{}", said.version().to_string().replace('.', ""));
        assert!(said.origin.starts_with(&version), "{}", said.origin);
        assert!((Version::V1_0..=Version::V1_5).contains(&said.version()));
    }
}
