//! `store_error`: the store could not be opened at the start, or the last write has failed.

use std::fs;

use serde_json::{Value, json};

use crate::test_server::{NONE, TestServer};

fn store_error(server: &TestServer) -> Value {
    server.ok("GET", "/v1/controller", &NONE)["store_error"].clone()
}

#[track_caller]
fn assert_error(server: &TestServer, operation: &str) {
    let shown = store_error(server);
    assert_eq!(shown["operation"], operation, "{shown}");
    assert!(shown["message"].as_str().unwrap().contains("static.redb: "), "{shown}");
}

#[test]
fn a_store_that_could_not_be_written_is_reported_until_a_change_is_stored() {
    let server = TestServer::new("unwritable");
    assert_eq!(store_error(&server), NONE);
    // The directory cannot be made.
    fs::write(server.state_dir(), "").unwrap();
    let names = json!({ "switches": { "1": "core" } });
    let refusal = server.error("PUT", "/v1/names", &names);
    assert_eq!((refusal.0, refusal.1.as_str()), (503, "store_unavailable"));
    assert_error(&server, "write");
    // What does not have to be stored, or is invalid, says nothing about the store.
    for (path, body) in [("/v1/names?dry_run=true", &names), ("/v1/declared", &json!({}))] {
        server.ok("PUT", path, body);
        assert_error(&server, "write");
    }
    assert_eq!(server.error("DELETE", "/v1/static/flows/a", &NONE).1, "no_such_entry");
    assert_error(&server, "write");
    fs::remove_file(server.state_dir()).unwrap();
    server.ok("PUT", "/v1/names", &names);
    assert_eq!(store_error(&server), NONE);
}

#[test]
fn a_quarantine_that_could_not_be_stored_is_reported_until_one_is() {
    let server = TestServer::new("unwritable-quarantine");
    let path = "/v1/hosts/02:00:00:00:00:03/quarantine";
    fs::write(server.state_dir(), "").unwrap();
    assert_eq!(server.error("POST", path, &json!({})).1, "store_unavailable");
    assert_error(&server, "write");
    fs::remove_file(server.state_dir()).unwrap();
    server.ok("POST", path, &json!({}));
    assert_eq!(store_error(&server), NONE);
}

#[test]
fn a_store_that_could_not_be_opened_is_reported_until_a_restart() {
    let mut server = TestServer::new("damaged");
    let file = server.state_dir().join("static.redb");
    fs::create_dir_all(server.state_dir()).unwrap();
    fs::write(&file, "damaged").unwrap();
    server.restart();
    assert_error(&server, "open");
    assert_eq!(server.error("GET", "/v1/static/flows", &NONE).1, "store_unavailable");
    assert_eq!(server.error("PUT", "/v1/names", &json!({})).1, "store_unavailable");
    assert_error(&server, "open");
    fs::remove_file(&file).unwrap();
    server.restart();
    assert_eq!(store_error(&server), NONE);
}
