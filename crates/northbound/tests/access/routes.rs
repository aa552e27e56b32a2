//! Every route: which role it needs, and whether it is recorded.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_northbound::tokens::Role;
use sluice_northbound::{AccessConfig, AuditTarget, openapi_document};

use super::bearer;
use super::test_server::{Folder, status_of, with_access};

/// The routes of Ryu, which the OpenAPI document does not have.
const OF_RYU: [(&str, &str); 43] = [
    ("GET", "/stats/switches"),
    ("GET", "/stats/desc/1"),
    ("GET", "/stats/flow/1"),
    ("POST", "/stats/flow/1"),
    ("GET", "/stats/flowdesc/1"),
    ("POST", "/stats/flowdesc/1"),
    ("GET", "/stats/aggregateflow/1"),
    ("POST", "/stats/aggregateflow/1"),
    ("GET", "/stats/table/1"),
    ("GET", "/stats/tablefeatures/1"),
    ("GET", "/stats/port/1"),
    ("GET", "/stats/port/1/1"),
    ("GET", "/stats/portdesc/1"),
    ("GET", "/stats/queue/1"),
    ("GET", "/stats/queue/1/1/1"),
    ("GET", "/stats/queueconfig/1"),
    ("GET", "/stats/queuedesc/1"),
    ("GET", "/stats/group/1"),
    ("GET", "/stats/groupdesc/1"),
    ("GET", "/stats/groupfeatures/1"),
    ("GET", "/stats/meter/1"),
    ("GET", "/stats/meterconfig/1"),
    ("GET", "/stats/meterdesc/1"),
    ("GET", "/stats/meterfeatures/1"),
    ("GET", "/stats/role/1"),
    ("GET", "/v1.0/topology/switches"),
    ("GET", "/v1.0/topology/links"),
    ("GET", "/v1.0/topology/hosts"),
    ("POST", "/stats/flowentry/add"),
    ("POST", "/stats/flowentry/modify"),
    ("POST", "/stats/flowentry/modify_strict"),
    ("POST", "/stats/flowentry/delete"),
    ("POST", "/stats/flowentry/delete_strict"),
    ("DELETE", "/stats/flowentry/clear/1"),
    ("POST", "/stats/groupentry/add"),
    ("POST", "/stats/groupentry/modify"),
    ("POST", "/stats/groupentry/delete"),
    ("POST", "/stats/meterentry/add"),
    ("POST", "/stats/meterentry/modify"),
    ("POST", "/stats/meterentry/delete"),
    ("POST", "/stats/portdesc/modify"),
    ("POST", "/stats/role"),
    ("POST", "/stats/experimenter/1"),
];

/// Questions whose text is in the body.
const QUESTIONS: [&str; 4] =
    ["/v1/trace", "/stats/flow/1", "/stats/flowdesc/1", "/stats/aggregateflow/1"];

/// All routes, with `x` for each parameter.
fn routes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&openapi_document()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document.get("paths").and_then(Value::as_object).unwrap() {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let methods = item.as_object().unwrap().keys();
        routes.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    routes.extend(OF_RYU.map(|(method, path)| (method.to_owned(), path.to_owned())));
    routes
}

#[test]
fn every_change_needs_a_role_and_is_recorded_and_no_question() {
    let folder = Folder::new("routes");
    let tokens = [("r", Role::Read), ("o", Role::Operate)];
    let tokens = tokens.map(|(name, role)| folder.add_token(name, role, None));
    let log = folder.file("audit.log");
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        local_role: None,
        audit: AuditTarget::File(log.clone()),
        ..AccessConfig::default()
    });
    let mut expected = Vec::new();
    for (method, path) in routes() {
        let is_question = method == "GET" || QUESTIONS.contains(&path.as_str());
        let (of_read, of_operate, is_recorded) = match path.as_str() {
            "/v1/tokens" => (false, false, false),
            "/v1/capture" => (false, true, true),
            // Each second, while a bench runs.
            "/v1/bench" => (is_question, true, false),
            _ => (is_question, true, !is_question),
        };
        let body = "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        for (token, is_allowed) in tokens.iter().zip([of_read, of_operate]) {
            let body = if method == "GET" { "" } else { body };
            let headers = bearer(token) + body;
            let status = status_of(&server, &format!("{method} {path}"), &headers);
            assert_eq!(status != 403, is_allowed, "{method} {path}: {status}");
            if is_recorded {
                expected.push((method.clone(), path.clone(), status));
            }
        }
    }
    assert!(expected.len() > 50, "{expected:?}");
    // Writes what is not written yet.
    drop(server);
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name| line.get(name).and_then(Value::as_str).unwrap().to_owned();
        let status = line.get("status").and_then(Value::as_u64);
        (text("method"), text("path"), u16::try_from(status.unwrap_or(0)).unwrap())
    });
    let lines: BTreeSet<_> = lines.collect();
    assert_eq!(lines, expected.iter().cloned().collect());
    assert_eq!(text.lines().count(), expected.len(), "one line for each");
}
