//! Tests of the handshake, errors, roles, asynchronous messages and bundles with the vectors of `session.txt`.

use std::collections::BTreeSet;

use super::codec::Choice;
use super::roundtrip::parse;
use super::vectors::{RowCoverage, check_corrupted, check_other_versions, check_vectors};
use super::{
    AsyncProp, BundleFeaturesProp, BundleProp, ControllerStatusProp, HelloElement, Message,
    MultipartReply, MultipartRequest, NxCtProp, NxCtTupleProp, RoleProp,
};
use crate::{MessageType, Version};

const FILE: &str = "session.txt";

#[test]
fn session_vectors_parse_and_encode_as_recorded() {
    check_vectors(FILE);
}

#[test]
fn session_vectors_mean_the_same_in_every_version_that_supports_them() {
    check_other_versions(FILE);
}

#[test]
fn corrupted_session_vectors_never_panic() {
    check_corrupted(FILE);
}

#[test]
fn every_session_row_has_a_vector_in_every_version() {
    let coverage = RowCoverage::of_file(FILE);
    let prefixes = [
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
    let exceptions =
        ["nx_flow_mod", "nx_flow_removed", "nx_packet_in", "nx_resume", "nx_flow_monitor"];
    let is_session = |name: &str| {
        let has_prefix = |prefix: &&str| name.starts_with(prefix);
        prefixes.iter().any(&has_prefix)
            && (name == "nx_flow_mod_table_id" || !exceptions.iter().any(has_prefix))
    };
    coverage.assert_all::<Message>(&[""], |row| is_session(row.name));
    let multiparts = [
        "desc",
        "controller_status",
        "bundle_features",
        "nx_ipfix_bridge",
        "nx_ipfix_flow",
        "experimenter",
    ];
    coverage.assert_all::<MultipartRequest>(&["multipart_request.body"], |row| {
        multiparts.contains(&row.name)
    });
    coverage.assert_all::<MultipartReply>(&["multipart_reply.body"], |row| {
        multiparts.contains(&row.name)
    });
    coverage.assert_all::<HelloElement>(&["hello.elements"], |_| true);
    let async_properties = [
        "set_async.properties",
        "get_async_reply.properties",
        "nx_set_async_config.properties",
        "nx_set_async_config2.properties",
    ];
    coverage.assert_all::<AsyncProp>(&async_properties, |_| true);
    coverage.assert_all::<RoleProp>(&["role_status.properties"], |_| true);
    coverage.assert_all::<BundleProp>(&["bundle_control.properties"], |_| true);
    coverage.assert_all::<BundleProp>(&["bundle_add_message.properties"], |_| true);
    coverage.assert_all::<BundleFeaturesProp>(&["bundle_features.properties"], |_| true);
    coverage.assert_all::<ControllerStatusProp>(&["controller_status.properties"], |_| true);
    coverage
        .assert_all::<ControllerStatusProp>(&["controller_status.controllers.properties"], |_| {
            true
        });
    coverage.assert_all::<NxCtProp>(&["nx_ct_flush.properties"], |_| true);
    coverage.assert_all::<NxCtTupleProp>(&["orig_tuple.tuple"], |_| true);
    coverage.assert_all::<NxCtTupleProp>(&["reply_tuple.tuple"], |_| true);
}

#[test]
fn an_embedded_message_has_the_same_version_and_limited_nesting() {
    let error = |hex: &str| parse(hex).unwrap_err().to_string();
    let other_version = "0522 0018 00000001 00000001 0000 0000 04 14 0008 00000001";
    assert_eq!(error(other_version), "message at byte 16: unsupported version 4 (must be 5)");
    let too_long = "0522 0018 00000001 00000001 0000 0000 05 14 0009 00000001";
    assert_eq!(error(too_long), "message at byte 16: invalid length 9 (must be at most 8)");
    let too_short = "0522 0018 00000001 00000001 0000 0000 05 14 0007 00000001";
    assert_eq!(error(too_short), "message at byte 16: invalid length 7 (must be at least 8)");
    let truncated = "0522 001a 00000001 00000001 0000 0000 05 09 000a 00000001 0001";
    assert_eq!(error(truncated), "miss_send_len at byte 26: truncated (needs 2 bytes, 0 left)");

    let nested = |levels: usize| {
        let head = |level: usize| format!("0520 {:04x} 00000001", 8 * (levels - level + 1));
        (0..levels).map(head).collect::<String>() + "0514 0008 00000001"
    };
    assert!(parse(&nested(8)).is_ok());
    assert_eq!(
        error(&nested(9)),
        "message at byte 72: nested too deeply: level 9 (must be at most 8)"
    );
    assert_eq!(parse(&nested(1)).unwrap().name(), "requestforward");
}

#[test]
fn every_message_type_is_a_message_in_every_version_that_has_it() {
    for &(kind, name, since) in MessageType::ALL {
        let is_removed = name.starts_with("QUEUE_GET_CONFIG");
        let last = if is_removed { Version::V1_3 } else { Version::V1_5 };
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
