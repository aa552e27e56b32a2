//! What the model writes is read by Open vSwitch and by Wireshark as what was meant.
//!
//! Bytes that are written as they came are read as they were; so what is shown to others here is what differs, and
//! what is said again in other versions than it came in.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use sluice_openflow::{Message, RawMessage, Version};
use support::ofctl::printed;
use support::said::{Said, hex, written};

/// Golden messages that are not written as they came, by the beginning of their origin, and why.
const REWRITTEN: &[(&str, &str)] = &[
    (
        "1.0_flow_mod_osken",
        "six bits say how much of `nw_src` is a wildcard, and 32 to 63 mean all of it (OpenFlow 1.0.0 §5.2.3)",
    ),
    (
        "live/1.1.hex: ovs-ofctl monitor BR",
        "Open vSwitch has the `hard_timeout` of 1.2 where FLOW_REMOVED of 1.1 has padding (OpenFlow 1.1.0 §A.4.2)",
    ),
];

/// Golden messages that are not read, by the beginning of their origin, and why.
const REFUSED: &[(&str, &str)] = &[
    ("actions_malformed.txt: ", "they are there to be refused"),
    (
        "live/1.1.hex: ovs-ofctl dump-flows BR",
        "Open vSwitch answers with the match that 1.2 brought; 1.1 has but one, of type 0 (OpenFlow 1.1.0 §A.2.3)",
    ),
    (
        "live/1.1.hex: ovs-ofctl monitor BR",
        "Open vSwitch writes a SET_DL_DST of 40 bytes into WRITE_ACTIONS, which it refuses itself; §A.2.5 of 1.1.0 \
         has 16",
    ),
    (
        "live/1.5.hex: ovs-ofctl add-flow BR ip,actions=set_field:10.1.2.3/255.255.255.0->ip_dst",
        "`ovs-ofctl` leaves bits where the mask has none, which Open vSwitch refuses too (OpenFlow 1.5.0 §7.2.3.3)",
    ),
];

/// Every golden message that is read.
fn read() -> Vec<(Said, Message)> {
    let all = support::said::all().into_iter();
    all.filter_map(|said| said.read().ok().map(|message| (said, message))).collect()
}

fn again(said: &Said, message: &Message) -> Vec<u8> {
    let again = written(message, said.version(), said.frame().xid());
    again.unwrap_or_else(|| panic!("{} cannot be said again", said.origin))
}

/// Fails if `wrong` has an origin that is not in `listed`, or `listed` one that nothing in `wrong` has.
fn must_be_listed(wrong: &[(String, String)], listed: &[(&str, &str)]) {
    let is = |origin: &str| listed.iter().any(|row| origin.starts_with(row.0));
    let new: Vec<_> = wrong.iter().filter(|(origin, _)| !is(origin)).collect();
    let gone = |row: &&(&str, &str)| !wrong.iter().any(|(origin, _)| origin.starts_with(row.0));
    let gone: Vec<_> = listed.iter().filter(gone).collect();
    assert!(new.is_empty(), "{} are not listed: {new:#?}", new.len());
    assert!(gone.is_empty(), "listed, and no longer so: {gone:#?}");
}

#[test]
fn golden_messages_are_read_or_the_list_says_why_not() {
    let all = support::said::all().into_iter();
    let wrong = all.filter_map(|said| {
        let error = said.read().err()?;
        Some((said.origin, format!("{error}: {}", hex(&said.bytes))))
    });
    must_be_listed(&wrong.collect::<Vec<_>>(), REFUSED);
}

#[test]
fn golden_messages_come_back_from_the_neutral_form() {
    for (said, message) in read() {
        let value = message.to_value(said.version());
        let same = Message::from_value(&value, said.version());
        assert_eq!(same.as_ref(), Ok(&message), "{}: {value:?}", said.origin);
    }
}

#[test]
fn what_is_written_otherwise_means_the_same_to_open_vswitch() {
    let mut wrong = vec![];
    let (mut before, mut after) = (vec![], vec![]);
    for (said, message) in read() {
        let again = again(&said, &message);
        if again == said.bytes {
            continue;
        }
        let same = RawMessage::new(&again).and_then(Message::parse_raw);
        assert_eq!(same.as_ref(), Ok(&message), "{}", said.origin);
        let at = again.iter().zip(&said.bytes).take_while(|(a, b)| a == b).count();
        let (ours, theirs) = (hex(&again[at..]), hex(&said.bytes[at..]));
        wrong.push((said.origin, format!("byte {at}: ours {ours}, theirs {theirs}")));
        before.push(said.bytes);
        after.push(again);
    }
    must_be_listed(&wrong, REWRITTEN);
    let (before, after) = (printed("before.bin", &before), printed("after.bin", &after));
    for (((origin, _), before), after) in wrong.iter().zip(before).zip(after) {
        // Open vSwitch reads the padding that it wrote, see above.
        if before.contains("hard600") && !after.contains("hard600") {
            continue;
        }
        assert_eq!(before, after, "{origin}");
    }
}

/// What is said in another version, by a piece of what was said or of what is complained of, and why Open vSwitch
/// does not read it.
const COMPLAINTS: &[(&str, &str)] = &[
    (
        "OFPFMFC_BAD_TABLE_ID",
        "table 255 is any table in an ADD of 1.0 with Nicira's table ids, and all tables in a DELETE since 1.2 \
         (OpenFlow 1.2 §A.3.4.1); elsewhere it is no table, and the model keeps the number",
    ),
    (
        "OFPBAC_MATCH_INCONSISTENT",
        "ports set in 1.0 and 1.1 are those of any protocol, set later they are those of one; an action does not \
         know the match around it, and is taken to mean TCP",
    ),
    (
        "OFPBMC_BAD_PREREQ",
        "a rule of 1.0 for frames without a tag may say a priority of the tag all the same; a match of fields that \
         says so needs a tag (§7.2.3.8), and the model keeps the field",
    ),
    (
        "decode error: <invalid>",
        "the same of a rule of 1.0 in a dump: type of service and ports of what is ARP, told since they are no \
         wildcards; 1.0 ignores them",
    ),
    (
        "OFPMOFC_BAD_FLAGS",
        "Nicira's `own` wants what the asker does in full, which is the `no_abbrev` of 1.4 (OpenFlow 1.4.0 §7.3.5.17), \
         and is kept as that; Open vSwitch does not have it",
    ),
    (
        "OFPACFC_INVALID",
        "bits of reasons that have no name stay in another version, as flags do; Open vSwitch passes over them in 1.3 \
         and refuses them in the properties of 1.4",
    ),
    (
        "OFPQOFC_BAD_PORT",
        "1.0 and 1.1 have queues asked for one port at a time (OpenFlow 1.0.0 §5.3.4); the model keeps `any`",
    ),
    ("OFPFMFC_BAD_FLAGS", "flags are open sets: those of 1.3 stay in 1.2, where they have no name"),
    (
        "OFPBRC_BAD_PORT",
        "Open vSwitch has no packets come from `any`; 1.5 has a match say where they come from (OpenFlow 1.5.0 §7.3.6)",
    ),
];

#[test]
fn what_is_said_in_another_version_is_read_by_open_vswitch() {
    let mut said_in: Vec<(String, Vec<u8>, Vec<u8>)> = vec![];
    for (said, message) in read() {
        for version in (1..=6).map(Version).filter(|&version| version != said.version()) {
            if let Some(bytes) = written(&message, version, said.frame().xid()) {
                let what = format!("{} in {version}", said.origin);
                said_in.push((what, said.bytes.clone(), bytes));
            }
        }
    }
    assert!(said_in.len() > 2000, "only {} are said in other versions", said_in.len());
    let (mut here, mut there, mut wrong) = (vec![], vec![], vec![]);
    for (_, before, after) in &said_in {
        here.push(before.clone());
        there.push(after.clone());
    }
    let (here, there) = (printed("here.bin", &here), printed("there.bin", &there));
    for ((said, before), after) in said_in.iter().zip(here).zip(there) {
        // What Open vSwitch does not read in the original is nothing to compare with.
        if after.contains("***") && !before.contains("***") {
            wrong.push(format!(
                "{}: {before}{}{}",
                said.0,
                after.lines().next().unwrap(),
                hex(&said.2)
            ));
        }
    }
    let is_listed = |text: &String| COMPLAINTS.iter().any(|row| text.contains(row.0));
    let gone = COMPLAINTS.iter().filter(|row| !wrong.iter().any(|text| text.contains(row.0)));
    assert_eq!(gone.collect::<Vec<_>>(), [] as [&(&str, &str); 0], "listed, and no longer so");
    wrong.retain(|text| !is_listed(text));
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), said_in.len());
}
