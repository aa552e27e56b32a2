//! Tests of sessions, errors, roles, events and bundles over the bytes of `session.txt`.

use std::collections::BTreeSet;

use super::codec::Choice;
use super::roundtrip::parse;
use super::vectors::{Seen, damage, prove, translate};
use super::{
    AsyncProp, BundleFeaturesProp, BundleProp, ControllerStatusProp, HelloElement, Message,
    MultipartReply, MultipartRequest, NxCtProp, NxCtTupleProp, RoleProp,
};
use crate::{MessageType, Version};

const FILE: &str = "session.txt";

#[test]
fn sessions_are_read_as_the_file_says_and_come_back() {
    prove(FILE);
}

#[test]
fn sessions_are_the_same_in_every_version_that_can_say_them() {
    translate(FILE);
}

#[test]
fn damaged_bytes_of_sessions_are_errors_or_something_else() {
    damage(FILE);
}

#[test]
fn every_row_about_sessions_has_bytes_in_every_version() {
    let seen = Seen::of(FILE);
    let own = [
        "hello",
        "error",
        "echo",
        "experimenter",
        "features",
        "get_",
        "set_",
        "barrier",
        "role",
        "requestforward",
        "bundle",
        "controller",
        "nx_",
    ];
    let theirs = ["nx_flow_mod", "nx_flow_removed", "nx_packet_in", "nx_resume", "nx_flow_monitor"];
    let mine = |name: &str| {
        let starts = |start: &&str| name.starts_with(start);
        own.iter().any(&starts) && (name == "nx_flow_mod_table_id" || !theirs.iter().any(starts))
    };
    seen.all::<Message>(&[""], |row| mine(row.name));
    let asked = [
        "desc",
        "controller_status",
        "bundle_features",
        "nx_ipfix_bridge",
        "nx_ipfix_flow",
        "experimenter",
    ];
    seen.all::<MultipartRequest>(&["multipart_request.body"], |row| asked.contains(&row.name));
    seen.all::<MultipartReply>(&["multipart_reply.body"], |row| asked.contains(&row.name));
    seen.all::<HelloElement>(&["hello.elements"], |_| true);
    let events = [
        "set_async.properties",
        "get_async_reply.properties",
        "nx_set_async_config.properties",
        "nx_set_async_config2.properties",
    ];
    seen.all::<AsyncProp>(&events, |_| true);
    seen.all::<RoleProp>(&["role_status.properties"], |_| true);
    seen.all::<BundleProp>(&["bundle_control.properties"], |_| true);
    seen.all::<BundleProp>(&["bundle_add_message.properties"], |_| true);
    seen.all::<BundleFeaturesProp>(&["bundle_features.properties"], |_| true);
    seen.all::<ControllerStatusProp>(&["controller_status.properties"], |_| true);
    seen.all::<ControllerStatusProp>(&["controller_status.controllers.properties"], |_| true);
    seen.all::<NxCtProp>(&["nx_ct_flush.properties"], |_| true);
    seen.all::<NxCtTupleProp>(&["orig_tuple.tuple"], |_| true);
    seen.all::<NxCtTupleProp>(&["reply_tuple.tuple"], |_| true);
}

#[test]
fn a_message_inside_another_is_of_the_same_version_and_not_too_deep() {
    let wrong = |hex: &str| parse(hex).unwrap_err().to_string();
    let other_version = "0522 0018 00000001 00000001 0000 0000 04 14 0008 00000001";
    assert_eq!(wrong(other_version), "message at byte 16: unsupported version 4 (must be 5)");
    let too_long = "0522 0018 00000001 00000001 0000 0000 05 14 0009 00000001";
    assert_eq!(wrong(too_long), "message at byte 16: invalid length 9 (must be at most 8)");
    let too_short = "0522 0018 00000001 00000001 0000 0000 05 14 0007 00000001";
    assert_eq!(wrong(too_short), "message at byte 16: invalid length 7 (must be at least 8)");
    let inside = "0522 001a 00000001 00000001 0000 0000 05 09 000a 00000001 0001";
    assert_eq!(wrong(inside), "miss_send_len at byte 26: truncated (needs 2 bytes, 0 left)");

    let nested = |levels: usize| {
        let head = |level: usize| format!("0520 {:04x} 00000001", 8 * (levels - level + 1));
        (0..levels).map(head).collect::<String>() + "0514 0008 00000001"
    };
    assert!(parse(&nested(8)).is_ok());
    assert_eq!(
        wrong(&nested(9)),
        "message at byte 72: nested too deeply: level 9 (must be at most 8)"
    );
    assert_eq!(parse(&nested(1)).unwrap().name(), "requestforward");
}

#[test]
fn every_kind_is_a_message_in_every_version_that_has_it() {
    for &(kind, name, since) in MessageType::ALL {
        let gone = name.starts_with("QUEUE_GET_CONFIG");
        let last = if gone { Version::V1_3 } else { Version::V1_5 };
        for version in (since.0..=last.0).map(Version) {
            let code = Some(u64::from(kind.0));
            let mut rows = Message::ROWS.iter().filter(|row| (row.code)(version) == code);
            assert_eq!(rows.next().map(|row| row.name.to_uppercase()).as_deref(), Some(name));
            assert!(rows.next().is_none(), "{name} twice in {version}");
        }
    }
    let names: BTreeSet<_> = Message::ROWS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), Message::ROWS.len());
}
