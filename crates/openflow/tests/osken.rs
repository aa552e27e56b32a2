//! Messages from the tests of os-ken (the successor of Ryu) are parsed with the same values as by os-ken.
//!
//! `make setup` installs os-ken; without it these tests fail. None of its files are copied into this repository.

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
use support::golden_message::{GoldenMessage, encoded};

/// The folder with os-ken's tests.
fn osken_tests() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let find = |dir: &Path, prefix: &str| {
        let entries = std::fs::read_dir(dir).unwrap_or_else(|e| {
            panic!("{}: {e}; run `make setup`, which installs os-ken", dir.display())
        });
        let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix));
        found.sort();
        found.pop().unwrap_or_else(|| panic!("{} has no {prefix}*", dir.display()))
    };
    let python = find(&find(&cache, "osken-").join("lib"), "python3");
    python.join("site-packages/os_ken/tests")
}

/// All recorded messages; the origin is folder and file, `of13/4-2-ofp_flow_mod`.
fn recorded() -> Vec<GoldenMessage> {
    let mut all = vec![];
    for folder in ["of10", "of12", "of13", "of14", "of15"] {
        let dir = osken_tests().join("packet_data").join(folder);
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension() == Some("packet".as_ref()) {
                let name = path.file_stem().unwrap().to_string_lossy();
                let bytes = std::fs::read(&path).unwrap();
                all.push(GoldenMessage { origin: format!("{folder}/{name}"), bytes });
            }
        }
    }
    all.sort_by(|a, b| a.origin.cmp(&b.origin));
    assert!(all.len() >= 300, "only {} messages: is os-ken installed completely?", all.len());
    all
}

/// Messages that are refused, or whose bytes change by parsing and encoding: origin, reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "of10/1-2-ofp_flow_mod",
        "both are valid: the 6-bit wildcard of `nw_src` is 63 there and 32 here, and 32 to 63 all ignore the whole \
         address (OpenFlow 1.0.0 §5.2.3)",
    ),
    (
        "of15/libofproto-OFP15-flow_desc_reply",
        "malformed: the instruction is longer than the enclosing record (OpenFlow 1.5.0 §7.3.5.2)",
    ),
    (
        "of15/libofproto-OFP15-meter_features_reply",
        "malformed: the length in the header is not that of the file (§7.1)",
    ),
];

#[test]
fn recorded_messages_survive_a_roundtrip_through_bytes_and_the_neutral_form() {
    let mut wrong = BTreeMap::new();
    for golden in recorded() {
        if let Err(why) = check_roundtrip(&golden) {
            wrong.insert(golden.origin, why);
        }
    }
    let listed: BTreeSet<_> = EXCEPTIONS.iter().map(|row| row.0.to_owned()).collect();
    let stale: Vec<_> = listed.iter().filter(|name| !wrong.contains_key(*name)).collect();
    assert!(stale.is_empty(), "listed, but they pass: {stale:#?}");
    wrong.retain(|name, _| !listed.contains(name));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check_roundtrip(golden: &GoldenMessage) -> Result<(), String> {
    let message = golden.parse().map_err(|error| error.to_string())?;
    let (version, xid) = (golden.version(), golden.raw().xid());
    let reencoded = encoded(&message, version, xid).ok_or("cannot be encoded")?;
    if reencoded != golden.bytes {
        let again = RawMessage::new(&reencoded).and_then(Message::parse_raw);
        assert_eq!(again, Ok(message), "{}: the meaning changed", golden.origin);
        let at = reencoded.iter().zip(&golden.bytes).take_while(|(a, b)| a == b).count();
        let (ours, theirs) = (&reencoded[at..], &golden.bytes[at..]);
        return Err(format!("from byte {at}: ours {ours:02x?}, theirs {theirs:02x?}"));
    }
    let value = message.to_value(version);
    match Message::from_value(&value, version) {
        Ok(same) if same == message => Ok(()),
        other => Err(format!("{value:?} is converted to {other:?}")),
    }
}

/// Names whose values are not compared: name, reason.
const NOT_COMPARED: &[(&str, &str)] = &[
    (
        "len",
        "theirs are lengths of records, which ours do not show; ours are unusual lengths of fields in table features",
    ),
    ("value", "theirs include values of fields, which are compared by the names of the fields"),
];

/// Numbers that differ: origin, name, reason.
const NUMBER_EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "of13/ovs-ofctl-of13-action_resubmit",
    "table_id",
    "both are right: theirs use this name for the `table` of a resubmit too",
)];

/// Experimenter IDs that ours do not show because the extension has a name: Nicira, ONF.
const NAMED_EXPERIMENTERS: [u64; 2] = [0x2320, 0x4f4e_4600];

/// `OFPVID_PRESENT`, which ours do not show for a VLAN ID. §7.2.3.7.
const VLAN_PRESENT: u64 = 0x1000;

/// The numbers in a tree by name, sorted.
type Numbers = BTreeMap<String, Vec<u64>>;

/// Collects the numbers of os-ken's JSON.
fn theirs(json: &Json, under: &str, numbers: &mut Numbers) {
    match json {
        Json::Object(entries) => {
            // Fields without mask are named as ours are.
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

/// Collects the numbers of a neutral form; `None` for names that also have other values.
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
fn numbers_equal_those_that_osken_has_by_the_same_name() {
    let (mut compared, mut wrong) = (0, BTreeMap::new());
    for golden in recorded() {
        let Ok(message) = golden.parse() else { continue };
        if message.name() == "other" {
            continue;
        }
        let json_path =
            osken_tests().join("unit/ofproto/json").join(format!("{}.packet.json", golden.origin));
        let json = serde_json::from_slice(&std::fs::read(&json_path).unwrap()).unwrap();
        let (mut left, mut right) = (Numbers::new(), BTreeMap::new());
        theirs(&json, "", &mut left);
        ours(&message.to_value(golden.version()), "", &mut right);
        for (name, mut theirs) in left {
            let Some(Some(mut ours)) = right.remove(&name) else { continue };
            if NOT_COMPARED.iter().any(|row| row.0 == name) {
                continue;
            }
            theirs.retain(|n| name != "experimenter" || !NAMED_EXPERIMENTERS.contains(n));
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
                wrong.insert((golden.origin.clone(), name), all);
            }
        }
    }
    let key = |row: &(&str, &str, &str)| (row.0.to_owned(), row.1.to_owned());
    let stale: Vec<_> =
        NUMBER_EXCEPTIONS.iter().filter(|row| wrong.remove(&key(row)).is_none()).collect();
    assert!(stale.is_empty(), "listed, but they are equal: {stale:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 3000, "only {compared} numbers were compared");
}

#[test]
fn the_version_is_that_of_the_folder() {
    for golden in recorded() {
        let version = format!("of{}", golden.version().to_string().replace('.', ""));
        assert!(golden.origin.starts_with(&version), "{}", golden.origin);
        assert!((Version::V1_0..=Version::V1_5).contains(&golden.version()));
    }
}
