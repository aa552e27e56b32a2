//! Errors.

use serde_json::json;
use sluice_openflow::spec::ErrorNumbers;
use sluice_openflow::{ErrorReason, Message, Multipart, MultipartRequest, MultipartType, Version};
use sluice_sdk::{Answer, ReceivedMultipart, Refusal};

use crate::controller::{Api, done};

/// Bodies of requests to add a flow entry, and a part of the error.
const INVALID: &[(&str, &str)] = &[
    ("{", "the body: line 1, column 2: expected '}'"),
    ("[]", "the body is a list: expected an object"),
    ("{}", "dpid is missing"),
    (r#"{"dpid": "s1"}"#, "dpid is \"s1\": expected a datapath id, such as 1 or 0x1"),
    (r#"{"dpid": 1, "priority": 65536}"#, "priority is 65536: expected a number of 16 bits"),
    (r#"{"dpid": 1, "priority": null}"#, "priority is null: expected a number of 16 bits"),
    (r#"{"dpid": 1, "priority": 1.5}"#, "priority is 1.5: expected a number of 16 bits"),
    (r#"{"dpid": 1, "cookie": -1}"#, "cookie is -1: expected a number of 64 bits"),
    (r#"{"dpid": 1, "match": []}"#, "match is a list: expected an object"),
    (
        r#"{"dpid": 1, "match": {"nw_sorce": "10.0.0.1"}}"#,
        "match.nw_sorce is not the name of a match field",
    ),
    (
        r#"{"dpid": 1, "match": {"nw_src": "10.0.0"}}"#,
        "match.nw_src is \"10.0.0\": expected an IPv4 address",
    ),
    (
        r#"{"dpid": 1, "match": {"ipv4_src": "10.0.0.0/33"}}"#,
        "match.ipv4_src is \"10.0.0.0/33\": expected an IPv4 address",
    ),
    (r#"{"dpid": 1, "match": {"dl_vlan": 8192}}"#, "match.dl_vlan is 8192: expected a VLAN id"),
    (
        r#"{"dpid": 1, "match": {"vlan_pcp": 8}}"#,
        "match.vlan_pcp is 8: expected a number from 0 to 7",
    ),
    (r#"{"dpid": 1, "match": {"dl_src": 5}}"#, "match.dl_src is 5: expected an Ethernet address"),
    (r#"{"dpid": 1, "match": {"tp_src": 80}}"#, "match.tp_src requires nw_proto (or ip_proto)"),
    (
        r#"{"dpid": 1, "match": {"dl_src": "02:00:00:00:00:01", "eth_src": "02:00:00:00:00:01"}}"#,
        "is there under another name already",
    ),
    (
        r#"{"dpid": 1, "match": {"in_port": "UPLINK"}}"#,
        "match.in_port is \"UPLINK\": expected a port number of 32 bits or one of",
    ),
    (r#"{"dpid": 1, "actions": {"type": "OUTPUT"}}"#, "actions is an object: expected a list"),
    (r#"{"dpid": 1, "actions": ["OUTPUT:1"]}"#, "actions[0] is \"OUTPUT:1\": expected an object"),
    (r#"{"dpid": 1, "actions": [{"port": 1}]}"#, "actions[0].type is missing"),
    (
        r#"{"dpid": 1, "actions": [{"type": "OUTPUT"}, {"type": "OUT"}]}"#,
        "actions[1].type is \"OUT\": expected one of OUTPUT",
    ),
    (r#"{"dpid": 1, "actions": [{"type": "PUSH_VLAN"}]}"#, "actions[0].ethertype is missing"),
    (
        r#"{"dpid": 1, "actions": [{"type": "SET_FIELD", "field": "color", "value": 1}]}"#,
        "actions[0].field is \"color\"",
    ),
    (
        r#"{"dpid": 1, "actions": [{"type": "EXPERIMENTER", "experimenter": 1, "data": "é!", "data_type": "base64"}]}"#,
        "actions[0].data is",
    ),
];

#[test]
fn invalid_requests_are_refused_with_the_name_of_what_is_wrong() {
    let api = Api::new(Version::V1_3, done);
    for &(body, message) in INVALID {
        let (status, error) = api.error("POST", "/stats/flowentry/add", body);
        assert!(status == 400 && error.contains(message), "{body:.80}: {status} {error}");
    }
    let long = format!("{{\"dpid\": 1, \"cookie\": \"{}\"}}", "9".repeat(1000));
    let (_, error) = api.error("POST", "/stats/flowentry/add", &long);
    assert!(error.len() < 200 && error.contains("…: expected a number of 64 bits"), "{error}");
    assert_eq!(*api.recorder.sent.lock().unwrap(), []);
}

#[test]
fn what_does_not_exist_is_named() {
    let api = Api::new(Version::V1_3, done);
    for (method, path, body, status, message) in [
        ("GET", "/stats/desc/9", "", 404, "no switch with the datapath id 9 is connected"),
        ("GET", "/stats/desc/x", "", 400, "dpid is \"x\""),
        ("GET", "/stats/color/1", "", 404, "there is nothing at /stats/color"),
        ("GET", "/stats/desc/1/1", "", 404, "there is nothing at /stats/desc"),
        ("GET", "/stats/port/1/x", "", 400, "port is \"x\""),
        (
            "POST",
            "/stats/flow/1",
            "{'match': {'x': 1}}",
            400,
            "match.x is not the name of a match field",
        ),
        ("POST", "/stats/flowentry/remove", "{'dpid': 1}", 404, "expected add, modify"),
        (
            "POST",
            "/stats/portdesc/modify",
            "{'dpid': 1, 'port_no': 7}",
            404,
            "the switch has no port 7",
        ),
        ("POST", "/stats/groupentry/add", "{'dpid': 1, 'type': 'SOME'}", 400, "type is \"SOME\""),
        (
            "POST",
            "/stats/meterentry/add",
            "{'dpid': 1, 'bands': [{'type': 'X'}]}",
            400,
            "bands[0].type is \"X\"",
        ),
        ("POST", "/stats/role", "{'dpid': 1, 'role': 'X'}", 400, "role is \"X\""),
        (
            "GET",
            "/v1.0/topology/switches/1",
            "",
            404,
            "is not a datapath id of 16 hexadecimal digits",
        ),
    ] {
        let (found, error) = api.error(method, path, body);
        assert!(
            found == status && error.contains(message),
            "{method} {path} {body}: {found} {error}"
        );
    }
}

#[test]
fn a_change_that_the_switch_refuses_is_an_error() {
    let refused = |_: &Message, version| {
        let reason = ErrorReason::from_numbers(ErrorNumbers::Standard(5, 1), version);
        Answer::Refused(Refusal { index: 0, reason })
    };
    let api = Api::new(Version::V1_3, refused);
    let (status, error) = api.error("POST", "/stats/flowentry/add", "{'dpid': 1}");
    assert!(status == 502 && error.contains("TABLE_FULL"), "{status} {error}");
    // Ryu's answer about what does not exist.
    assert_eq!(api.get("/stats/meter/1/7"), json!({ "1": [] }));
    assert_eq!(api.error("GET", "/stats/meter/1", "").0, 502);
    let (status, error) = Api::new(Version::V1_0, done).error("GET", "/stats/meter/1", "");
    assert!(status == 501 && error.contains("1.0"), "{status} {error}");
}

#[test]
fn a_page_of_somebody_else_changes_nothing() {
    let api = Api::new(Version::V1_3, done);
    let (status, body) =
        api.request_of("evil.example", "POST", "/stats/flowentry/add", "{\"dpid\": 1}");
    assert!(status == 403 && body.contains("host_not_allowed"), "{status} {body}");
    assert_eq!(*api.recorder.sent.lock().unwrap(), []);
}

#[test]
fn flow_entries_that_are_too_many_for_one_reply_are_not_read() {
    fn many(message: &Message, version: Version) -> Answer {
        let Message::MultipartRequest(Multipart {
            body: MultipartRequest::AggregateStats(_), ..
        }) = message
        else {
            panic!("{message:?}")
        };
        // §7.3.5.3 of 1.3: packets, bytes, flow entries.
        let body = [&[0; 16], &16_385_u32.to_be_bytes()[..], &[0; 4]].concat();
        Answer::Multipart(ReceivedMultipart::new(version, MultipartType::AGGREGATE, body))
    }
    for version in [Version::V1_0, Version::V1_3] {
        let (status, body) = Api::new(version, many).request("GET", "/stats/flow/1", "");
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("too_many_entries"), "{body}");
    }
}
