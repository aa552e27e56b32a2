//! Open vSwitch decodes encoded messages with the meaning that this crate gives them.
//!
//! Messages whose bytes do not change by parsing and encoding need no comparison. Compared are those that change, and
//! those that are encoded in another version.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use sluice_openflow::{Message, RawMessage, Version};
use support::golden_message::{GoldenMessage, encoded, golden_messages, hex};
use support::ofctl::printed;

/// Golden messages whose bytes change by parsing and encoding: start of the origin, reason.
const CHANGED: &[(&str, &str)] = &[(
    "1.0_flow_mod_osken",
    "the 6-bit wildcard of `nw_src` is 63 there and 32 here; 32 to 63 all ignore the whole address (OpenFlow 1.0.0 §5.2.3)",
)];

/// Golden messages that are refused: start of the origin, reason.
const REFUSED: &[(&str, &str)] = &[
    ("actions_malformed.txt: ", "malformed on purpose"),
    (
        "live/1.1.hex: ovs-ofctl monitor BR",
        "Open vSwitch writes a SET_DL_DST of 40 bytes into WRITE_ACTIONS, which it refuses itself; it has 16 bytes \
         (OpenFlow 1.1.0 §A.2.5)",
    ),
    (
        "live/1.5.hex: ovs-ofctl add-flow BR ip,actions=set_field:10.1.2.3/255.255.255.0->ip_dst",
        "`ovs-ofctl` sets value bits outside the mask, which Open vSwitch refuses too (OpenFlow 1.5.0 §7.2.3.3)",
    ),
];

/// All golden messages that can be parsed.
fn parsed() -> Vec<(GoldenMessage, Message)> {
    let all = golden_messages().into_iter();
    all.filter_map(|golden| golden.parse().ok().map(|message| (golden, message))).collect()
}

fn reencoded(golden: &GoldenMessage, message: &Message) -> Vec<u8> {
    let bytes = encoded(message, golden.version(), golden.raw().xid());
    bytes.unwrap_or_else(|| panic!("{} cannot be encoded in its own version", golden.origin))
}

/// Fails if an origin in `found` is not in `listed`, or the other way round.
fn assert_listed(found: &[(String, String)], listed: &[(&str, &str)]) {
    let is_listed = |origin: &str| listed.iter().any(|row| origin.starts_with(row.0));
    let new: Vec<_> = found.iter().filter(|(origin, _)| !is_listed(origin)).collect();
    let is_stale = |row: &&(&str, &str)| !found.iter().any(|(origin, _)| origin.starts_with(row.0));
    let stale: Vec<_> = listed.iter().filter(is_stale).collect();
    assert!(new.is_empty(), "{} are not listed: {new:#?}", new.len());
    assert!(stale.is_empty(), "listed, but no longer found: {stale:#?}");
}

#[test]
fn golden_messages_are_parsed_unless_the_list_says_why_not() {
    let refused = golden_messages().into_iter().filter_map(|golden| {
        let error = golden.parse().err()?;
        Some((golden.origin, format!("{error}: {}", hex(&golden.bytes))))
    });
    assert_listed(&refused.collect::<Vec<_>>(), REFUSED);
}

#[test]
fn golden_messages_survive_a_roundtrip_through_the_neutral_form() {
    for (golden, message) in parsed() {
        let value = message.to_value(golden.version());
        let same = Message::from_value(&value, golden.version());
        assert_eq!(same.as_ref(), Ok(&message), "{}: {value:?}", golden.origin);
    }
}

#[test]
fn changed_bytes_mean_the_same_to_open_vswitch() {
    let mut changed = vec![];
    let (mut before, mut after) = (vec![], vec![]);
    for (golden, message) in parsed() {
        let ours = reencoded(&golden, &message);
        if ours == golden.bytes {
            continue;
        }
        let same = RawMessage::new(&ours).and_then(Message::parse_raw);
        assert_eq!(same.as_ref(), Ok(&message), "{}", golden.origin);
        let at = ours.iter().zip(&golden.bytes).take_while(|(a, b)| a == b).count();
        let (ours_hex, theirs_hex) = (hex(&ours[at..]), hex(&golden.bytes[at..]));
        changed.push((golden.origin, format!("byte {at}: ours {ours_hex}, theirs {theirs_hex}")));
        before.push(golden.bytes);
        after.push(ours);
    }
    assert_listed(&changed, CHANGED);
    let (before, after) = (printed("before.bin", &before), printed("after.bin", &after));
    for (((origin, _), before), after) in changed.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{origin}");
    }
}

/// Messages encoded in another version that Open vSwitch refuses: part of its error message, reason.
const COMPLAINTS: &[(&str, &str)] = &[
    (
        "OFPFMFC_BAD_TABLE_ID",
        "table 255 means any table in an ADD of 1.0 with Nicira's table IDs, and all tables in a DELETE since 1.2 \
         (OpenFlow 1.2 §A.3.4.1); elsewhere it is invalid, but kept",
    ),
    (
        "OFPBAC_MATCH_INCONSISTENT",
        "since 1.2 an action sets the ports of one protocol, before of any; actions are converted without their \
         match, to TCP",
    ),
    (
        "OFPBMC_BAD_PREREQ",
        "a match of 1.0 for untagged packets may contain a VLAN priority, which since 1.2 requires a tag (§7.2.3.8); \
         the field is kept",
    ),
    (
        "decode error: <invalid>",
        "flow entries of 1.0 for ARP with type of service and ports, which 1.0 ignores; the fields are kept",
    ),
    (
        "OFPMOFC_BAD_FLAGS",
        "Nicira's flag `own` becomes `no_abbrev` of 1.4 (OpenFlow 1.4.0 §7.3.5.17), which Open vSwitch does not support",
    ),
    (
        "OFPACFC_INVALID",
        "undefined bits of masks of reasons are kept; Open vSwitch ignores them in 1.3 and refuses them in 1.4",
    ),
    (
        "OFPQOFC_BAD_PORT",
        "1.0 and 1.1 request the queues of a single port (OpenFlow 1.0.0 §5.3.4); port `any` is kept",
    ),
];

#[test]
fn messages_encoded_in_another_version_are_decoded_by_open_vswitch() {
    let mut translated: Vec<(String, Vec<u8>, Vec<u8>)> = vec![];
    for (golden, message) in parsed() {
        for version in (1..=6).map(Version).filter(|&version| version != golden.version()) {
            if let Some(bytes) = encoded(&message, version, golden.raw().xid()) {
                let title = format!("{} in {version}", golden.origin);
                translated.push((title, golden.bytes.clone(), bytes));
            }
        }
    }
    assert!(translated.len() > 2000, "only {} messages in other versions", translated.len());
    let (mut before, mut after, mut refused) = (vec![], vec![], vec![]);
    for (_, original, translation) in &translated {
        before.push(original.clone());
        after.push(translation.clone());
    }
    let (before, after) = (printed("here.bin", &before), printed("there.bin", &after));
    for (((title, _, translation), before), after) in translated.iter().zip(before).zip(after) {
        // If Open vSwitch refuses the original too, there is nothing to compare.
        if after.contains("***") && !before.contains("***") {
            let error = after.lines().next().unwrap();
            refused.push(format!("{title}: {before}{error}{}", hex(translation)));
        }
    }
    let is_listed = |text: &String| COMPLAINTS.iter().any(|row| text.contains(row.0));
    let stale = COMPLAINTS.iter().filter(|row| !refused.iter().any(|text| text.contains(row.0)));
    assert_eq!(stale.collect::<Vec<_>>(), [] as [&(&str, &str); 0], "listed, but no longer found");
    refused.retain(|text| !is_listed(text));
    assert!(refused.is_empty(), "{} of {}: {refused:#?}", refused.len(), translated.len());
}
