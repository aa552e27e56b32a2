//! Hosts in quarantine.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};
use sluice_sdk::view::{Fact, Host, HostId, SwitchInfo, SwitchPort};

use crate::test_server::{NONE, TestServer};

fn host(number: u8, port: u32, addresses: &[u8]) -> Fact {
    let id = HostId { mac: MacAddr([2, 0, 0, 0, 0, number]), vlan: VlanId(0) };
    let address = |&n: &u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    let at = SwitchPort::new(DatapathId(1), PortNo(port));
    Fact::Host(id, Some(Host { at, addrs: addresses.iter().map(address).collect() }))
}

/// Hosts 1 and 2 at port 1, 3 at port 3; both 1 and 3 have the address 10.0.0.9.
fn server(name: &str) -> TestServer {
    let server = TestServer::new(name);
    server.controller.publish_facts(vec![
        Fact::Switch(DatapathId(1), Some(SwitchInfo::default())),
        host(1, 1, &[1, 9]),
        host(2, 1, &[2]),
        host(3, 3, &[3, 9]),
    ]);
    while server.ok("GET", "/v1/controller", &NONE)["hosts"] != 3 {}
    server
}

fn path(host: &str) -> String {
    format!("/v1/hosts/{host}/quarantine")
}

const MAC: &str = "02:00:00:00:00:03";

#[test]
fn a_host_is_quarantined_shown_and_released() {
    let mut server = server("quarantine");
    let body = json!({ "reason": "scans the network" });
    let shown = server.ok("POST", &format!("{}?wait=true", path("10.0.0.3")), &body);
    for (field, value) in [
        ("/mac", json!(MAC)),
        ("/reason", json!("scans the network")),
        ("/by", json!("local")),
        ("/addresses", json!(["10.0.0.3", "10.0.0.9"])),
        ("/at/port", json!(3)),
        ("/state", json!("installed")),
        ("/switches/0/dpid", json!("0000000000000001")),
        ("/switches/0/state", json!("installed")),
    ] {
        assert_eq!(shown.pointer(field), Some(&value), "{field} of {shown}");
    }
    assert!(shown["since_unix_s"].as_u64().unwrap() > 1_700_000_000);
    let events = server.ok("GET", "/v1/events/history?kind=host-quarantined", &NONE);
    let text = "host quarantined: 02:00:00:00:00:03 (10.0.0.3, 10.0.0.9) at 0000000000000001 port 3 reason=\"scans the network\" by=local";
    assert_eq!(events["events"][0]["text"], text);

    // It is no static entry: it is neither listed among them, nor removed with them.
    server.ok("PUT", "/v1/declared?wait=true", &json!({}));
    assert_eq!(server.ok("GET", "/v1/static/flows", &NONE)["total"], 0);
    // Others behind its port would not be flooded to: 3 is alone there.
    while server.isolated_ports() != [3] {}

    // It is still there after a restart, when nothing is known of hosts yet.
    server.restart();
    while server.ok("GET", &path(MAC), &NONE)["state"] != "installed" {}
    let list = server.ok("GET", "/v1/quarantines", &NONE);
    assert_eq!(list["quarantines"][0]["addresses"], shown["addresses"]);
    let hosts = server.ok("GET", "/v1/hosts", &NONE);
    assert_eq!(
        (&hosts["total"], &hosts["hosts"][0]["mac"], &hosts["hosts"][0]["is_quarantined"]),
        (&json!(1), &json!(MAC), &json!(true))
    );
    while server.isolated_ports() != [3] {}
    // Another host at its port gets broadcasts.
    server.controller.publish_facts(vec![host(4, 3, &[4])]);
    while !server.isolated_ports().is_empty() {}

    let released = server.ok("DELETE", &format!("{}?wait=true", path("10.0.0.3")), &NONE);
    assert_eq!(released["mac"], MAC);
    assert_eq!(server.ok("GET", "/v1/quarantines", &NONE)["quarantines"], json!([]));
    let events = server.ok("GET", "/v1/events/history?kind=host-released", &NONE);
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
}

#[test]
fn a_host_that_shares_its_port_leaves_it_open() {
    let server = server("shared");
    server.ok("POST", &path("10.0.0.2"), &json!({}));
    server.ok("POST", &path("10.0.0.3"), &json!({}));
    while server.isolated_ports() != [3] {}
}

#[test]
fn a_host_is_named_by_its_name_or_an_address() {
    let server = server("names");
    server.ok("PUT", "/v1/names", &json!({ "hosts": { MAC: "printer" } }));
    for name in ["printer", MAC, "02-00-00-00-00-03", "2:0:0:0:0:3", "10.0.0.3"] {
        let shown = server.ok("POST", &path(name), &json!({}));
        assert_eq!((&shown["mac"], &shown["name"]), (&json!(MAC), &json!("printer")), "{name}");
        server.ok("DELETE", &path(name), &NONE);
    }
    // A host that is not known, by its Ethernet address.
    let shown = server.ok("POST", &path("02:00:00:00:00:77"), &json!({}));
    assert_eq!((&shown["at"], &shown["addresses"]), (&Value::Null, &json!([])));
}

#[test]
fn mistakes_are_refused() {
    let server = server("mistakes");
    server.ok("POST", &path(MAC), &json!({}));
    let long = json!({ "reason": "x".repeat(257) });
    for (method, host, body, status, code, words) in [
        ("POST", MAC, json!({}), 409, "already_quarantined", "already"),
        ("POST", "01:00:5e:00:00:01", json!({}), 400, "invalid_value", "multicast"),
        ("POST", "ff:ff:ff:ff:ff:ff", json!({}), 400, "invalid_value", "multicast"),
        ("POST", "00:00:00:00:00:00", json!({}), 400, "invalid_value", "zero"),
        ("POST", "scanner", json!({}), 404, "no_such_host", "\"scanner\""),
        ("POST", "10.0.0.77", json!({}), 404, "no_such_host", "10.0.0.77"),
        ("POST", "10.0.0.9", json!({}), 409, "ambiguous_host", "2 hosts"),
        ("POST", "10.0.0.2", long, 400, "invalid_value", "256 characters"),
        ("POST", "10.0.0.2", json!({ "reson": "" }), 400, "invalid_value", "reson"),
        ("DELETE", "10.0.0.2", NONE, 404, "not_quarantined", "02:00:00:00:00:02"),
        ("GET", "10.0.0.2", NONE, 404, "not_quarantined", "02:00:00:00:00:02"),
    ] {
        let error = server.error(method, &path(host), &body);
        assert_eq!((error.0, error.1.as_str()), (status, code), "{method} {host}: {error:?}");
        assert!(error.2.contains(words), "{method} {host}: {error:?}");
    }
}
