//! Static entries over HTTP.

use serde_json::{Value, json};

use crate::test_server::{NONE, TestServer};

fn entry(switch: &str, port: u32) -> Value {
    json!({"switch": switch, "flow": format!("priority=200,in_port={port},actions=drop")})
}

#[test]
fn an_entry_is_declared_and_its_state_is_shown() {
    let server = TestServer::new("declare");
    let shown = server.ok("PUT", "/v1/static/flows/a?wait=true", &entry("1", 1));
    assert_eq!(
        (&shown["state"], &shown["at"][0]["dpid"]),
        (&json!("installed"), &json!("0000000000000001"))
    );
    let shown = server.ok("PUT", "/v1/static/flows/b?wait=true", &entry("all", 13));
    assert_eq!(
        (&shown["state"], &shown["reason"]),
        (&json!("refused"), &json!("BAD_REQUEST/BAD_LEN"))
    );
    let shown = server.ok("PUT", "/v1/static/flows/c?wait=true", &entry("s9", 3));
    assert_eq!(
        (&shown["reason"], &shown["not_connected"]),
        (&json!("switch not connected"), &json!(["s9"]))
    );
    for (filter, names) in [
        ("", json!(["a", "b", "c"])),
        ("?state=refused", json!(["b"])),
        ("?switch=1", json!(["a", "b"])),
        ("?switch=1&state=installed", json!(["a"])),
        ("?limit=1&offset=1", json!(["b"])),
    ] {
        let list = server.ok("GET", &format!("/v1/static/flows{filter}"), &NONE);
        let found: Vec<_> =
            list["entries"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(json!(found), names, "{filter}");
    }
    let removed = server.ok("DELETE", "/v1/static/flows/a?wait=true", &NONE);
    assert_eq!(removed["changes"][0]["change"], "remove");
    assert_eq!(server.error("GET", "/v1/static/flows/a", &NONE).1, "no_such_entry");
    let refused = json!({"set": [{"name": "d", "switch": "1", "flow": "in_port=13,actions=drop"}]});
    let made = server.ok("POST", "/v1/static?wait=true", &refused);
    assert_eq!(
        (&made["state"]["is_settled"], &made["state"]["refused"]),
        (&json!(true), &json!(1))
    );
    let path = "/v1/static/flows/e?dry_run=true";
    assert_eq!(server.error("PUT", path, &entry("1", 1)).1, "invalid_value");
}

#[test]
fn of_two_changes_of_the_same_revision_the_second_is_refused() {
    let server = TestServer::new("revisions");
    let path = "/v1/static/flows/a";
    let at = |revision: u64| format!("{path}?if_revision={revision}");
    let first = server.ok("PUT", &at(0), &entry("1", 1))["revision"].as_u64().unwrap();
    assert_eq!(server.error("PUT", &at(0), &entry("1", 2)).1, "revision_differs", "it exists");
    let second = server.ok("PUT", &at(first), &entry("1", 2))["revision"].as_u64().unwrap();
    assert!(second > first);
    let (status, code, message) = server.error("PUT", &at(first), &entry("1", 3));
    assert_eq!((status, code.as_str()), (409, "revision_differs"));
    assert!(message.contains(&second.to_string()), "{message}");
    assert_eq!(server.error("DELETE", &at(first), &NONE).1, "revision_differs");
    let shown = server.ok("GET", path, &NONE);
    assert!(shown["flow"].as_str().unwrap().contains("in_port=2"), "nothing was changed: {shown}");
    server.ok("DELETE", &at(second), &NONE);
    assert_eq!(server.error("PUT", &at(second), &entry("1", 3)).1, "revision_differs", "removed");
}

#[test]
fn a_change_is_checked_as_a_whole() {
    let server = TestServer::new("whole");
    server.ok("PUT", "/v1/static/flows/old", &entry("all", 9));
    let good = json!({"name": "good", "switch": "1", "flow": "in_port=1,actions=drop"});
    for (bad, words) in [
        (
            json!({"name": "x", "switch": "1", "flow": "in_port=1,colour=red,actions=drop"}),
            "colour",
        ),
        (json!({"name": "x", "switch": "1", "flow": "priority=101,actions=drop"}), "100 to 102"),
        (json!({"name": "x", "switch": "1", "flow": "priority=0,actions=drop"}), "priority 0"),
        (
            json!({"name": "x", "switch": "1", "flow": "idle_timeout=3,actions=drop"}),
            "idle_timeout",
        ),
        (json!({"name": "x", "switch": "1", "flow": "cookie=3,actions=drop"}), "cookie"),
        (json!({"name": "x", "switch": "1", "flow": "nw_src=10.0.0.1,actions=drop"}), "requires"),
        (json!({"name": "a b", "switch": "1", "flow": "actions=drop"}), "invalid name"),
        (json!({"name": "x", "flow": "actions=drop"}), "switch"),
        (json!({"name": "x", "switches": [], "flow": "actions=drop"}), "no switch"),
        (json!({"name": "x", "switch": "1", "group": "group_id=1"}), "type"),
        (json!({"name": "x", "switch": "1", "meter": "meter=0,kbps"}), "reserved"),
        (
            json!({"name": "x", "switch": "1", "flow": "priority=200,in_port=9,actions=output:1"}),
            "\"old\"",
        ),
        (json!({"name": "good", "switch": "2", "flow": "in_port=2,actions=drop"}), "twice"),
    ] {
        let (status, code, message) =
            server.error("POST", "/v1/static", &json!({"set": [good, bad]}));
        assert_eq!((status, code.as_str()), (400, "invalid_value"), "{bad}: {message}");
        assert!(message.contains(words), "{bad}: {message}");
    }
    let list = server.ok("GET", "/v1/static/flows", &NONE);
    assert_eq!(list["total"], 1);
    let unknown =
        server.error("POST", "/v1/static", &json!({"set": [good], "remove": [{"flow": "z"}]}));
    assert_eq!((unknown.0, unknown.1.as_str()), (404, "no_such_entry"));
    let change = json!({"set": [good], "remove": [{"flow": "old"}]});
    let planned = server.ok("POST", "/v1/static?dry_run=true", &change);
    assert_eq!((&planned["revision"], planned["changes"].as_array().unwrap().len()), (&NONE, 2));
    assert_eq!(planned["state"], NONE);
    let made = server.ok("POST", "/v1/static?wait=true", &change);
    assert_eq!(made["changes"], planned["changes"]);
    assert_eq!(server.ok("GET", "/v1/static/flows/good", &NONE)["state"], "installed");
}

#[test]
fn what_is_declared_is_replaced_as_a_whole_with_names() {
    let server = TestServer::new("declared");
    let declared = json!({
        "names": {"switches": {"1": "core"}, "hosts": {"02:00:00:00:00:05": "printer"}},
        "groups": [{"name": "g", "switch": "core", "group": "group_id=1,type=all"}],
        "flows": [{"name": "f", "switches": ["core", "2"], "flow": "in_port=1,actions=group:1"}],
    });
    let made = server.ok("PUT", "/v1/declared?wait=true", &declared);
    assert_eq!(made["changes"].as_array().unwrap().len(), 4);
    let state = json!({
        "is_settled": true, "installed": 1, "pending": 0, "refused": 0, "not_connected": 1
    });
    assert_eq!(made["state"], state);
    let again = server.ok("PUT", "/v1/declared?wait=true", &declared);
    assert_eq!((&again["changes"], &again["state"]), (&json!([]), &state));
    assert_eq!(server.ok("GET", "/v1/switches/core", &NONE)["name"], "core");
    let entry = server.ok("GET", "/v1/static/flows/f", &NONE);
    assert_eq!(
        (&entry["at"][0]["switch"], &entry["not_connected"]),
        (&json!("core"), &json!(["2"]))
    );
    let read = server.ok("GET", "/v1/declared", &NONE);
    assert_eq!(server.ok("PUT", "/v1/declared?dry_run=true", &read)["changes"], json!([]));
    let names = json!({"switches": {"1": "a", "2": "a"}});
    assert!(server.error("PUT", "/v1/names", &names).2.contains("same name"));
    server.ok("PUT", "/v1/declared?wait=true", &json!({}));
    assert_eq!(server.ok("GET", "/v1/static/groups", &NONE)["total"], 0);
}
