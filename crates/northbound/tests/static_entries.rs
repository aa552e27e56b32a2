//! Static entries over HTTP, with a controller of one switch that has an empty table and accepts everything but port 13.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_declared::reconcile::Timing;
use sluice_declared::{Config, Declared, Reserved};
use sluice_northbound::{Config as ApiConfig, Listeners, Server};
use sluice_openflow::{DatapathId, ErrorReason, Message, MultipartType, SwitchFeatures, Version};
use sluice_sdk::allocation::Allocations;
use sluice_sdk::view::{NetworkView, ViewPublisher, ViewSubscription};
use sluice_sdk::{
    Answer, Controller, OnAnswer, ReceivedMultipart, Refusal, Request, SessionStatistics,
    SwitchSession,
};

#[derive(Default)]
struct EmptySwitch {
    publishers: Mutex<Vec<ViewPublisher>>,
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

impl Controller for EmptySwitch {
    fn request(&self, _: DatapathId, request: Request, on_answer: OnAnswer) {
        if let [Message::MultipartRequest(_)] = &request.messages[..] {
            let reply = ReceivedMultipart::new(Version::V1_3, MultipartType::FLOW, vec![]);
            return on_answer(Answer::Multipart(reply));
        }
        let is_refused = |it: &Message| it.to_text(Version::V1_3, 0).contains("in_port=13,");
        on_answer(match request.messages.iter().position(is_refused) {
            Some(index) => Answer::Refused(Refusal { index, reason: ErrorReason::BAD_LEN }),
            None => Answer::Done,
        });
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        publisher.send_initial_state(&NetworkView::default());
        self.publishers.lock().unwrap().push(publisher);
        subscription
    }

    fn switches(&self) -> Vec<SwitchSession> {
        vec![SwitchSession {
            datapath_id: DatapathId(1),
            version: Version::V1_3,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: Duration::from_secs(1_700_000_000),
            features: Arc::new(SwitchFeatures {
                datapath_id: DatapathId(1),
                ..SwitchFeatures::default()
            }),
            role: None,
            description: None,
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        }]
    }
}

/// A server with an empty store, which is removed at the end.
struct TestServer {
    server: Option<Server>,
    dir: PathBuf,
}

impl TestServer {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sluice-api-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let config = Config {
            state_dir: dir.clone(),
            reserved: Reserved::new(&Allocations::default(), [("forwarding", 100..=102)]),
            timing: Timing::default(),
        };
        let controller = Arc::new(EmptySwitch::default());
        let declared = Arc::new(Declared::start(&config, controller.clone()).unwrap());
        let listen = ApiConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listeners = Listeners::open(listen).unwrap();
        let server = listeners.with_declared(declared).serve(Arc::new(NoMetrics), controller);
        Self { server: Some(server.unwrap()), dir }
    }

    fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address().unwrap()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut client = TcpStream::connect(self.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            client,
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}")))
    }

    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, document) = self.call(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {document}");
        document
    }

    #[track_caller]
    fn error(&self, method: &str, path: &str, body: &Value) -> (u16, String, String) {
        let (status, document) = self.call(method, path, body);
        let text = |name: &str| document["error"][name].as_str().unwrap_or_default().to_owned();
        (status, text("code"), text("message"))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.server.take();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

const NONE: Value = Value::Null;

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
    assert_eq!(server.ok("PUT", "/v1/declared", &declared)["changes"], json!([]));
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
