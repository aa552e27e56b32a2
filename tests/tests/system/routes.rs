//! Every operation of the OpenAPI document, asked with Open vSwitch, which is the witness for those that write.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

use crate::queue_setup::add_queue;

both_versions! {
    every_operation_of_the_api_succeeds() = every_operation;
}

/// Where the API listens.
const API: &str = "http://127.0.0.1:8653";

/// The queue of the first host's port.
const QUEUE: u32 = 7;

/// A network, and the operations of the API that have succeeded there.
struct Asked<'a> {
    network: &'a OvsNetwork,
    operations: BTreeSet<String>,
}

impl Asked<'_> {
    /// Performs an operation, for example `GET /v1/static/{kind}`, with these values of its parameters, the query, and a body. Returns
    /// the answer.
    #[track_caller]
    fn ask(&mut self, operation: &str, values: &[&str], query: &str, body: &str) -> String {
        let (status, answer) = self.send(operation, values, query, body);
        assert_eq!(status, "200", "{operation} {values:?}{query} {body}: {answer}");
        answer
    }

    /// As [`ask`](Self::ask), for an operation that the network does not permit.
    #[track_caller]
    fn refused(&mut self, operation: &str, values: &[&str], body: &str, part: &str) {
        let (status, answer) = self.send(operation, values, "", body);
        assert!(status.starts_with('4') && answer.contains(part), "{operation}: {status} {answer}");
    }

    /// Status and answer.
    fn send(
        &mut self,
        operation: &str,
        values: &[&str],
        query: &str,
        body: &str,
    ) -> (String, String) {
        let (method, path) = operation.split_once(' ').unwrap();
        let mut path = path.to_owned();
        for value in values {
            let (start, end) = (path.find('{').unwrap(), path.find('}').unwrap());
            path.replace_range(start..=end, value);
        }
        let mut curl = self.network.env().command("curl");
        // Streams do not end.
        curl.args(["-s", "--max-time", "2", "-w", "\n%{http_code}", "-X", method]);
        if !body.is_empty() {
            curl.args(["-H", "Content-Type: application/json", "-d", body]);
        }
        let output = curl.arg(format!("{API}{path}{query}")).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let (answer, status) = output.rsplit_once('\n').unwrap();
        self.operations.insert(operation.to_owned());
        (status.to_owned(), answer.to_owned())
    }

    /// As [`ask`](Self::ask), for operations without query and body; the answer must contain `part`.
    #[track_caller]
    fn get(&mut self, operation: &str, values: &[&str], part: &str) {
        let answer = self.ask(operation, values, "", "");
        assert!(answer.contains(part), "{operation} {values:?}: no {part} in {answer}");
    }

    /// Number of flow entries of a bridge that contain `part`, as Open vSwitch prints them.
    fn entries_with(&self, bridge: &str, part: &str) -> usize {
        let entries = self.network.flows(bridge);
        entries.iter().filter(|entry| entry.to_string().contains(part)).count()
    }
}

fn every_operation(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let [a, b] = ["s1", "s3"].map(|switch| network.host(switch));
    let env = network.env();
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(env.file("state"));
    let controller = Controller::with(command, env.dir());
    add_queue(&network, &a, QUEUE);
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    let mut asked = Asked { network: &network, operations: BTreeSet::new() };
    read(&mut asked, (&a, &b));
    statistics(&mut asked, &a, version);
    declare(&mut asked);
    policies(&mut asked, version);
    operate(&mut asked, (&a, &b));

    let document = asked.ask("GET /v1/openapi.json", &[], "", "");
    let document: Value = serde_json::from_str(&document).unwrap();
    let paths = document.get("paths").and_then(|paths| paths.as_object()).unwrap();
    let of_path = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    let documented = paths.iter().flat_map(of_path).collect::<BTreeSet<_>>();
    let left_out = documented.difference(&asked.operations).collect::<Vec<_>>();
    assert!(left_out.is_empty(), "not asked: {left_out:?}");
}

fn read(asked: &mut Asked<'_>, (a, b): (&Host, &Host)) {
    let (mac, port) = (a.mac(), a.port().to_string());
    asked.get("GET /v1/controller", &[], "\"version\"");
    asked.get("GET /v1/applications", &[], "forwarding");
    asked.get("GET /v1/applications/{application}/state", &["forwarding"], "{");
    asked.get("GET /v1/limits", &[], "ports");
    asked.get("GET /v1/switches", &[], "\"s3\"");
    asked.get("GET /v1/switches/{switch}", &["s1"], "Open vSwitch");
    asked.get("GET /v1/switches/{switch}/ports", &["s1"], "\"rx_packets\"");
    asked.get("GET /v1/switches/{switch}/flows", &["s1"], "forwarding");
    asked.get("GET /v1/ports/busiest", &[], "\"ports\"");
    asked.get("GET /v1/links", &[], "\"from\"");
    asked.get("GET /v1/topology", &[], "\"links\"");
    let report = r#"{"bench":"1","run":1,"interval_s":1.0,"target":"127.0.0.1:6653","load":"unlimited","switches":16,"unit":"responses/s","running_s":1.0,"rate_per_s":1e6,"latency_p50_s":null,"latency_p99_s":null,"is_measured":true}"#;
    asked.ask("PUT /v1/bench", &[], "", report);
    asked.get("GET /v1/bench", &[], "\"rate_per_s\":1000000.0");
    asked.get("GET /v1/time-series", &[], "\"samples\"");
    asked.get("GET /v1/identity", &[], "administer");
    asked.get("GET /v1/hosts", &[], &mac);
    let query = format!("?from={mac}&to={}", b.mac());
    let paths = asked.ask("GET /v1/paths", &[], &query, "");
    assert!(paths.contains("\"installed\"") && paths.contains("s3"), "{paths}");
    let packet = format!(
        "{{\"at\":{{\"switch\":\"s1\",\"port\":{port}}},\"fields\":{{\"eth_src\":\"{mac}\",\"eth_dst\":\"{}\",\"eth_type\":2048}}}}",
        b.mac()
    );
    wait_until(LONG_TIMEOUT, "a path", || {
        a.ping(b, 1);
        asked.ask("POST /v1/trace", &[], "", &packet).contains("delivered")
    });
    let history = asked.ask("GET /v1/events/history", &[], "", "");
    let history: Value = serde_json::from_str(&history).unwrap();
    let first = history.pointer("/events/0/id").and_then(|id| id.as_str()).unwrap();
    let later = asked.ask("GET /v1/events/history", &[], &format!("?after={first}"), "");
    assert!(!later.contains(&format!("\"id\":\"{first}\"")), "{later}");
    let events = asked.ask("GET /v1/events", &[], &format!("?after={first}"), "");
    assert!(events.contains("host-learned"), "{events}");
    asked.get("GET /v1/tokens", &[], "tokens");
}

/// Without bundles, no policy is possible.
fn policies(asked: &mut Asked<'_>, version: OpenFlow) {
    let body = json!({"flows": [{"name": "a", "switch": "all", "flow": "priority=300,udp,tp_dst=9,actions=drop"}]});
    let (one, body) = ("/v1/policies/{name}", body.to_string());
    let [put, get, delete] = ["PUT", "GET", "DELETE"].map(|method| format!("{method} {one}"));
    if version == OpenFlow::V10 {
        asked.refused(&put, &["p"], &body, "has no bundles");
        asked.refused(&get, &["p"], "", "no_such_policy");
        asked.refused(&delete, &["p"], "", "no_such_policy");
        return asked.get("GET /v1/policies", &[], "\"policies\":[]");
    }
    asked.ask(&put, &["p"], "", &body);
    assert!(asked.entries_with("s2", "tp_dst=9") > 0);
    asked.get("GET /v1/policies", &[], "\"installed\"");
    asked.get(&get, &["p"], "\"outdated\":null");
    asked.ask(&delete, &["p"], "?force=true", "");
}

/// What `GET /v1/switches/{switch}/{what}` has: in each list an item that Open vSwitch is known to have, and a counter that has counted.
fn statistics(asked: &mut Asked<'_>, host: &Host, version: OpenFlow) {
    let port = host.port();
    let reply = |asked: &mut Asked<'_>, what: &str| -> Value {
        let answer = asked.ask("GET /v1/switches/{switch}/{what}", &["s1", what], "", "");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer.get("reply").unwrap().clone()
    };
    let description = reply(asked, "description");
    assert!(is_part(&json!({"type": "desc", "hw": "Open vSwitch"}), &description), "{description}");
    let mut known = vec![
        ("tables", "tables", json!({"table_id": 0}), "matched_count"),
        ("port-stats", "ports", json!({"port_no": port}), "rx_packets"),
        ("queues", "queues", json!({"port_no": port, "queue_id": QUEUE}), ""),
        ("queues", "queues", json!({"port_no": port, "queue_id": 0}), "tx_packets"),
    ];
    // OpenFlow 1.0 has neither groups nor meters, and describes ports when a switch connects.
    if version > OpenFlow::V10 {
        let network = asked.network;
        network.ofctl("add-group", "s1", &["group_id=7,type=select,bucket=weight:3,output:1"]);
        network.ofctl("add-meter", "s1", &["meter=3,kbps,band=type=drop,rate=1000"]);
        let entry = format!("priority=30000,udp,in_port={port},actions=meter:3,group:7");
        network.ofctl("add-flow", "s1", &[&entry]);
        // Nobody listens there.
        host.udp(0).send_to(&[0], "10.0.0.255:9").unwrap();
        let band = json!({"type": "drop", "rate": 1000});
        let bucket = json!({"actions": [{"type": "output", "port": 1}], "properties": [{"type": "weight", "weight": 3}]});
        known.extend([
            (
                "port-descriptions",
                "ports",
                json!({"port_no": port, "name": format!("interface{port}")}),
                "",
            ),
            (
                "groups",
                "groups",
                json!({"group_id": 7, "group_type": "select", "buckets": [bucket]}),
                "",
            ),
            ("group-stats", "groups", json!({"group_id": 7}), "packet_count"),
            ("meters", "meters", json!({"meter_id": 3, "flags": ["kbps"], "bands": [band]}), ""),
            ("meter-stats", "meters", json!({"meter_id": 3}), "packet_in_count"),
        ]);
    }
    for (what, list, item, counter) in known {
        wait_until(LONG_TIMEOUT, &format!("{item} with {counter:?} in {what}"), || {
            let reply = reply(asked, what);
            let items = reply.get(list).and_then(Value::as_array).unwrap();
            let found: Vec<_> = items.iter().filter(|it| is_part(&item, it)).collect();
            let has_counted = |it: &&Value| it.get(counter).is_some_and(|it| it.as_u64() > Some(0));
            found.len() == 1 && (counter.is_empty() || found.iter().all(has_counted))
        });
    }
    if version > OpenFlow::V10 {
        asked.network.ofctl("del-groups", "s1", &[]);
        asked.network.ofctl("del-meter", "s1", &["meter=3"]);
    }
}

/// Whether `whole` has all entries and items of `part`.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|whole| is_part(value, whole))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len()
                && part.iter().zip(whole).all(|(it, whole)| is_part(it, whole))
        }
        _ => part == whole,
    }
}

fn declare(asked: &mut Asked<'_>) {
    let wait = "?wait=true";
    let entry = r#"{"switch":"s1","flow":"priority=200,in_port=55,actions=drop"}"#;
    asked.ask("PUT /v1/static/{kind}/{name}", &["flows", "one"], wait, entry);
    assert_eq!(asked.entries_with("s1", "in_port=55"), 1);
    asked.get("GET /v1/static/{kind}", &["flows"], "installed");
    asked.get("GET /v1/static/{kind}/{name}", &["flows", "one"], "installed");
    let change = r#"{"set":[{"name":"two","switch":"s2","flow":"priority=200,in_port=56,actions=drop"}],"remove":[{"flow":"one"}]}"#;
    asked.ask("POST /v1/static", &[], wait, change);
    assert_eq!(
        (asked.entries_with("s1", "in_port=55"), asked.entries_with("s2", "in_port=56")),
        (0, 1)
    );
    asked.get("GET /v1/declared", &[], "\"two\"");
    asked.ask("DELETE /v1/static/{kind}/{name}", &["flows", "two"], wait, "");
    assert_eq!(asked.entries_with("s2", "in_port=56"), 0);
    let all = r#"{"names":{"switches":{"0000000000000004":"edge"}},"flows":[{"name":"three","switch":"edge","flow":"priority=200,in_port=57,actions=drop"}]}"#;
    asked.ask("PUT /v1/declared", &[], wait, all);
    assert_eq!(asked.entries_with("s4", "in_port=57"), 1);
    asked.ask("PUT /v1/names", &[], "", r#"{"switches":{"0000000000000004":"far"}}"#);
    asked.get("GET /v1/names", &[], "\"far\"");
    asked.get("GET /v1/switches/{switch}", &["far"], "0000000000000004");
}

fn operate(asked: &mut Asked<'_>, (a, b): (&Host, &Host)) {
    let (mac, port) = (a.mac(), a.port().to_string());
    let quarantine = "POST /v1/hosts/{host}/quarantine";
    asked.ask(quarantine, &[&mac], "?wait=true", r#"{"reason":"a test"}"#);
    assert_eq!(asked.entries_with("s1", "priority=65532"), 2);
    asked.get("GET /v1/hosts/{host}/quarantine", &[&mac], "a test");
    asked.get("GET /v1/quarantines", &[], &mac);
    asked.ask("DELETE /v1/hosts/{host}/quarantine", &[&mac], "?wait=true", "");
    assert_eq!(asked.entries_with("s1", "priority=65532"), 0);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(b, 1).lost() == 0);

    let drained = asked.network.link_port("s1", "s2").to_string();
    asked.ask("PUT /v1/switches/{switch}/ports/{port}/drain", &["s1", &drained], "", "");
    asked.get("GET /v1/switches/{switch}/ports/{port}/drain", &["s1", &drained], "state");
    asked.get("GET /v1/drains", &[], "\"s2\"");
    asked.ask("DELETE /v1/switches/{switch}/ports/{port}/drain", &["s1", &drained], "", "");

    let state = "PUT /v1/switches/{switch}/ports/{port}";
    let ports_down = |asked: &Asked<'_>| {
        let ports = asked.network.ofctl_output("show", "s1", &[]);
        ports.matches("PORT_DOWN").count()
    };
    let before = ports_down(asked);
    asked.ask(state, &["s1", &port], "", r#"{"is_enabled":false}"#);
    assert_eq!(ports_down(asked), before + 1);
    asked.ask(state, &["s1", &port], "", r#"{"is_enabled":true}"#);
    assert_eq!(ports_down(asked), before);

    let received = a.frames_received();
    let frame = format!("ffffffffffff02000000000188b5{}", "00".repeat(46));
    let packet = format!(r#"{{"port":{port},"data":"{frame}"}}"#);
    asked.ask("POST /v1/switches/{switch}/packets", &["s1"], "", &packet);
    wait_until(LONG_TIMEOUT, "the frame", || a.frames_received() > received);
    let capture = asked.ask("GET /v1/capture", &[], "?switch=s1&format=json&seconds=1", "");
    assert!(capture.contains("\"end\""), "{capture}");

    asked.network.ofctl(
        "add-flow",
        "s1",
        &["cookie=0x1234,priority=20000,dl_type=0x9999,actions=drop"],
    );
    asked.ask("DELETE /v1/switches/{switch}/flows", &["s1"], "?cookie=0x1234", "");
    assert_eq!(asked.entries_with("s1", "dl_type=0x9999"), 0);
    asked.network.ofctl(
        "add-flow",
        "s2",
        &["cookie=0x1234,priority=20000,dl_type=0x9999,actions=drop"],
    );
    asked.ask("DELETE /v1/flows", &[], "?cookie=0x1234", "");
    assert_eq!(asked.entries_with("s2", "dl_type=0x9999"), 0);
}
