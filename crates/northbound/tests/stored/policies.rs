//! Policies: what is refused before a switch is asked. The switch of the test has no bundles.

use serde_json::json;

use crate::test_server::{NONE, TestServer};

#[test]
fn what_cannot_be_put_into_effect_is_refused_with_a_code() {
    let server = TestServer::new("policies");
    let flow = |flow: &str| json!({ "flows": [{ "name": "a", "switch": "all", "flow": flow }] });
    let group = json!({ "name": "g", "switch": "all", "group": "group_id=1,type=all" });
    let drop = "priority=200,udp,actions=drop";
    for (body, status, code, why) in [
        (flow(drop), 409, "policy_not_possible", "switch 0000000000000001 has no bundles"),
        (flow("priority=200,actions=flood"), 400, "invalid_value", "is not possible in a policy"),
        (flow("priority=100,actions=drop"), 400, "invalid_value", "belongs to an application"),
        (json!({ "flows": [] }), 400, "invalid_value", "no flow entry"),
        (json!({ "flows": [group] }), 400, "invalid_value", "flow entries only"),
        (
            json!({ "flows": [{ "name": "a", "switch": "s9", "flow": drop }] }),
            409,
            "policy_not_possible",
            "switch s9 is not connected",
        ),
    ] {
        for path in ["/v1/policies/p", "/v1/policies/p?dry_run=true"] {
            let (found, found_code, message) = server.error("PUT", path, &body);
            assert_eq!((found, found_code.as_str()), (status, code), "{message}");
            assert!(message.contains(why), "{why}: {message}");
        }
    }
    let name = format!("/v1/policies/{}", "p".repeat(65));
    assert_eq!(server.error("PUT", &name, &flow(drop)).0, 400);
    for method in ["GET", "DELETE"] {
        let (status, code, _) = server.error(method, "/v1/policies/p", &NONE);
        assert_eq!((status, code.as_str()), (404, "no_such_policy"), "{method}");
    }
    assert_eq!(server.ok("GET", "/v1/policies", &NONE), json!({ "policies": [] }));
}
