//! Links stay out of service when the controller is started again.

use serde_json::json;
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{Fact, Link, SwitchInfo, SwitchPort};

use crate::test_server::{NONE, TestServer};

const NEAR: SwitchPort = SwitchPort::new(DatapathId(1), PortNo(2));
const FAR: SwitchPort = SwitchPort::new(DatapathId(2), PortNo(7));

#[test]
fn a_drained_link_is_drained_after_a_restart_before_it_is_found() {
    let mut server = TestServer::new("drain");
    server.controller.publish_facts(vec![
        Fact::Switch(DatapathId(1), Some(SwitchInfo::default())),
        Fact::Link(FAR, Some(Link { from: NEAR, to: FAR })),
    ]);
    while server.ok("GET", "/v1/controller", &NONE)["links"] != 1 {}
    assert_eq!(server.ok("GET", "/v1/controller", &NONE)["cables"], 1, "found in one direction");
    let path = "/v1/switches/1/ports/2/drain";
    let drain = server.ok("PUT", path, &NONE);
    server.restart();
    assert_eq!(server.ok("GET", "/v1/controller", &NONE)["links"], 0);
    while server.ok("GET", "/v1/drains", &NONE)["drains"] == json!([]) {}
    let again = server.ok("GET", path, &NONE);
    assert_eq!(again["requested_at_unix_s"], drain["requested_at_unix_s"]);
    assert_eq!((&again["is_up"], &again["state"]), (&json!(false), &json!("draining")));
    // It can be put back before the link is found, too.
    assert_eq!(server.ok("DELETE", path, &NONE)["was_drained"], true);
    server.restart();
    assert_eq!(server.ok("GET", "/v1/drains", &NONE)["drains"], json!([]));
    assert_eq!(server.error("GET", path, &NONE).1, "not_drained");
}
