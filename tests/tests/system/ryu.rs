//! Scripts written for Ryu's REST API, unchanged, with Open vSwitch as the witness.
//!
//! `ryu-forms.jsonl` has, for each form of Ryu's documentation, the flow entry that Open vSwitch 3.1 had after Ryu 4.34 received the form,
//! and how Ryu wrote the entry in its reply. Where Ryu loses something, it has what the form says.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, ListedFlow, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv,
    binary, both_versions, output_of, wait_until,
};

mod each_form_has_the_effect_that_it_has_with_ryu {
    sluice_system_tests::over!(over_openflow_1_0, V10, forms());
    sluice_system_tests::over!(over_openflow_1_2, V12, forms());
    sluice_system_tests::over!(over_openflow_1_3, V13, forms());
    sluice_system_tests::over!(over_openflow_1_4, V14, forms());
    sluice_system_tests::over!(over_openflow_1_5, V15, forms());
}

mod groups_meters_ports_and_roles_are_changed {
    sluice_system_tests::over!(over_openflow_1_3, V13, groups_and_meters());
    sluice_system_tests::over!(over_openflow_1_4, V14, groups_and_meters());
    sluice_system_tests::over!(over_openflow_1_5, V15, groups_and_meters());
}

both_versions! {
    flow_entries_are_modified_and_deleted() = modify_and_delete;
    the_topology_has_the_form_of_ryu() = topology;
    a_script_in_python_works_unchanged() = script;
}

const FORMS: &str = include_str!("../../ryu-forms.jsonl");

/// The port that Ryu's API has, unless it is configured otherwise.
pub(crate) const API: &str = "127.0.0.1:8080";

/// Status and body of the answer to a request; runs in the namespace of the controller.
pub(crate) fn ask(method: &str, path: &str, body: &str) -> (u16, String) {
    let mut client = TcpStream::connect(API).unwrap();
    client.set_read_timeout(Some(LONG_TIMEOUT)).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.0\r\nhost: {API}\r\ncontent-length: {length}\r\n\r\n");
    client.write_all((head + body).as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[track_caller]
pub(crate) fn get(path: &str) -> Value {
    let (status, body) = ask("GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Sends a change, which must be answered as Ryu answers.
#[track_caller]
pub(crate) fn change(path: &str, body: &Value) {
    let answer = ask("POST", path, &body.to_string());
    assert_eq!(answer, (200, String::new()), "{path} {body}");
}

/// One switch, `s1`, whose datapath id is 1, with two hosts.
fn one_switch(version: OpenFlow) -> (OvsNetwork, [Host; 2], Controller) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    let hosts = [network.host("s1"), network.host("s1")];
    network.connect(&controller);
    (network, hosts, controller)
}

/// The flow entries with these cookies, by what is behind priority and cookie.
fn listed(network: &OvsNetwork, cookie: usize) -> Option<String> {
    let cookie = format!("{cookie:#x}");
    let flows = network.flows("s1");
    let text = flows
        .iter()
        .find(|flow| flow.value("cookie") == Some(&cookie))
        .map(ListedFlow::to_string)?;
    let (head, actions) = text.split_once(" actions=").unwrap();
    let parts = head.split([',', ' ']).filter(|part| !part.is_empty());
    let rest: Vec<_> = parts
        .filter(|part| !part.starts_with("cookie=") && !part.starts_with("priority="))
        .collect();
    Some(format!("{} actions={actions}", rest.join(",")).trim_start().to_owned())
}

fn forms(version: OpenFlow) {
    let (network, _hosts, _controller) = one_switch(version);
    let number = version.name().trim_start_matches("OpenFlow1");
    let forms: Vec<Value> = FORMS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let forms: Vec<_> =
        forms.iter().filter(|form| form["version"] == format!("1.{number}")).collect();
    assert!(forms.len() >= 30, "{} forms", forms.len());
    let list = if version < OpenFlow::V14 { "actions" } else { "instructions" };
    let got = network.env().within(|| {
        if version > OpenFlow::V10 {
            let bucket = json!({"actions": [{"type": "OUTPUT", "port": 1}]});
            change("/stats/groupentry/add", &json!({"dpid": 1, "type": "ALL", "group_id": 1, "buckets": [bucket]}));
        }
        if version >= OpenFlow::V13 {
            let band = json!({"type": "DROP", "rate": 1000});
            change("/stats/meterentry/add", &json!({"dpid": 1, "flags": "KBPS", "meter_id": 1, "bands": [band]}));
        }
        for (n, form) in forms.iter().enumerate() {
            let flow = json!({"dpid": 1, "cookie": n + 1, "priority": 1000 + n, "match": form["match"], list: form[list]});
            let (status, body) = ask("POST", "/stats/flowentry/add", &flow.to_string());
            if form["ovs"].is_null() {
                // What Ryu does not say: Open vSwitch has refused it.
                assert!(status == 502 && body.contains("switch_refused"), "{form}: {status} {body}");
            } else {
                assert_eq!((status, body.as_str()), (200, ""), "{form}");
            }
        }
        get("/stats/flow/1")["1"].as_array().unwrap().clone()
    });
    for (n, form) in forms.iter().enumerate() {
        let expected = form["ovs"].as_str().map(str::trim_start);
        assert_eq!(listed(&network, n + 1).as_deref(), expected, "{form}");
        if let Some(ryu) = form.get("ryu") {
            let flow = got.iter().find(|flow| flow["cookie"] == n + 1).unwrap();
            assert_eq!((&flow["match"], &flow[list]), (&ryu["match"], &ryu[list]), "{form}");
        }
    }
}

fn groups_and_meters(version: OpenFlow) {
    let (network, [host, _], _controller) = one_switch(version);
    let port = format!("port/1/{}", host.port());
    let env = network.env();
    let text = |what: &str| {
        let mut ofctl = env.command("ovs-ofctl");
        let socket = format!("unix:{}", env.file("s1.mgmt").display());
        output_of(ofctl.args(["-O", version.name(), what, &socket]))
    };
    env.within(|| {
        let bucket = |port: u8, weight: u8| {
            let actions = json!([{"type": "OUTPUT", "port": port}]);
            if version < OpenFlow::V15 {
                return json!({"weight": weight, "watch_port": 4_294_967_295_u32, "watch_group": 4_294_967_295_u32, "actions": actions});
            }
            json!({"bucket_id": port, "actions": actions, "properties": [{"type": "WEIGHT", "weight": weight}]})
        };
        let mut group = json!({"dpid": 1, "type": "SELECT", "group_id": 7, "buckets": [bucket(1, 3), bucket(2, 1)]});
        change("/stats/groupentry/add", &group);
        assert!(text("dump-groups").contains("group_id=7,type=select"), "{}", text("dump-groups"));
        let desc = get("/stats/groupdesc/1")["1"][0].clone();
        assert_eq!((&desc["group_id"], &desc["type"], desc["buckets"].as_array().unwrap().len()), (&json!(7), &json!("SELECT"), 2));
        assert_eq!(get("/stats/group/1/7")["1"][0]["bucket_stats"].as_array().unwrap().len(), 2);
        // Only buckets of select groups have weights.
        group["type"] = "ALL".into();
        group["buckets"] = json!([{"bucket_id": 1, "actions": [{"type": "OUTPUT", "port": 1}]}]);
        change("/stats/groupentry/modify", &group);
        assert!(text("dump-groups").contains("type=all"), "{}", text("dump-groups"));
        change("/stats/groupentry/delete", &json!({"dpid": 1, "group_id": 7}));
        assert_eq!(get("/stats/groupdesc/1"), json!({"1": []}));

        let meter = |rate: u32| json!({"dpid": 1, "flags": "KBPS", "meter_id": 3, "bands": [{"type": "DROP", "rate": rate}]});
        change("/stats/meterentry/add", &meter(1000));
        change("/stats/meterentry/modify", &meter(2000));
        assert!(text("dump-meters").contains("rate=2000"), "{}", text("dump-meters"));
        let config = get("/stats/meterconfig/1/3")["1"][0].clone();
        assert_eq!((&config["flags"], &config["bands"][0]["rate"]), (&json!(["KBPS"]), &json!(2000)));
        assert_eq!(get("/stats/meter/1/3")["1"][0]["meter_id"], 3);
        assert_eq!(get("/stats/meter/1/4"), json!({"1": []}));
        change("/stats/meterentry/delete", &json!({"dpid": 1, "meter_id": 3}));
        assert_eq!(get("/stats/meterconfig/1"), json!({"1": []}));

        change("/stats/role", &json!({"dpid": 1, "role": "MASTER"}));
        assert_eq!(get("/stats/role/1")["1"][0]["role"], "MASTER");
        change("/stats/role", &json!({"dpid": 1, "role": "EQUAL"}));
        for path in ["desc", "table", "tablefeatures", "port", &port, "queue", "groupfeatures", "meterfeatures", "portdesc", "aggregateflow"] {
            let path = if path == port { path.to_owned() } else { format!("{path}/1") };
            assert!(get(&format!("/stats/{path}"))["1"] != json!([]) || path == "queue/1", "{path}");
        }
    });
}

fn modify_and_delete(version: OpenFlow) {
    let (network, [host, _], _controller) = one_switch(version);
    let flow = |cookie: u8, port: u16, output: u8| {
        json!({"dpid": 1, "cookie": cookie, "priority": 11111, "idle_timeout": 30, "flags": 1,
            "match": {"in_port": port}, "actions": [{"type": "OUTPUT", "port": output}]})
    };
    let entry = |cookie| listed(&network, cookie);
    network.env().within(|| {
        change("/stats/flowentry/add", &flow(1, 1, 2));
        change("/stats/flowentry/add", &flow(2, 2, 1));
        change("/stats/flowentry/modify_strict", &flow(1, 1, 7));
        change("/stats/flowentry/modify", &flow(2, 2, 8));
    });
    assert!(entry(1).unwrap().ends_with("in_port=1 actions=output:7"), "{:?}", entry(1));
    assert!(entry(2).unwrap().ends_with("in_port=2 actions=output:8"), "{:?}", entry(2));
    network.env().within(|| {
        let filter = r#"{"match": {"in_port": 2}, "priority": 11111}"#;
        let (status, body) = ask("POST", "/stats/flow/1", filter);
        let found: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &found["1"][0]["cookie"], found["1"].as_array().unwrap().len()),
            (200, &json!(2), 1)
        );
        change(
            "/stats/flowentry/delete_strict",
            &json!({"dpid": 1, "priority": 11111, "match": {"in_port": 1}}),
        );
    });
    assert_eq!((entry(1), entry(2).is_some()), (None, true));
    // The applications write their permanent entries again.
    let permanent =
        network.flows("s1").iter().filter(|flow| flow.actions().starts_with("CONTROLLER")).count();
    let answer = network.env().within(|| ask("DELETE", "/stats/flowentry/clear/1", ""));
    assert_eq!((answer, entry(2)), ((200, String::new()), None));
    wait_until(SHORT_TIMEOUT, "the entries of the applications", || {
        network.flows("s1").iter().filter(|flow| flow.actions().starts_with("CONTROLLER")).count()
            == permanent
    });
    network.env().within(|| {
        let port = json!({"dpid": 1, "port_no": host.port(), "config": 1, "mask": 1});
        change("/stats/portdesc/modify", &port);
        let ports = get("/stats/portdesc/1")["1"].as_array().unwrap().clone();
        let down = ports.iter().find(|port| port["port_no"] == host.port()).unwrap();
        assert_eq!(down["config"].as_u64().unwrap() & 1, 1, "{down}");
    });
}

fn topology(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (name, id) in [("s1", 1), ("s2", 2)] {
        network.bridge(name, id);
    }
    network.link("s1", "s2");
    let [a, b] = ["s1", "s2"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    let from = network.link_port("s1", "s2");
    network.env().within(|| {
        assert_eq!(get("/stats/switches"), json!([1, 2]));
        let switch = get("/v1.0/topology/switches/0000000000000001");
        let port = json!({"dpid": "0000000000000001", "port_no": format!("{from:08x}")});
        let ports = switch[0]["ports"].as_array().unwrap();
        assert!(
            ports.iter().any(|it| it["port_no"] == port["port_no"] && it["name"].is_string()),
            "{switch}"
        );
        let links = get("/v1.0/topology/links/0000000000000001");
        assert_eq!(
            (links.as_array().unwrap().len(), &links[0]["src"]["port_no"]),
            (1, &port["port_no"]),
            "{links}"
        );
        assert_eq!(links[0]["dst"]["dpid"], "0000000000000002", "{links}");
        assert_eq!(get("/v1.0/topology/links").as_array().unwrap().len(), 2);
        let hosts = get("/v1.0/topology/hosts/0000000000000002");
        assert_eq!(
            (&hosts[0]["mac"], &hosts[0]["ipv4"]),
            (&json!(b.mac()), &json!([b.ipv4()])),
            "{hosts}"
        );
        assert_eq!(hosts[0]["port"]["port_no"], format!("{:08x}", b.port()), "{hosts}");
    });
}

/// Calls as scripts make them: the body by `json.dumps`, or by `str`, as `requests` sends it; keys that Ryu does not know.
const SCRIPT: &str = r#"
import json, urllib.request
URL = "http://127.0.0.1:8080"
def post(path, data):
    request = urllib.request.Request(URL + path, data=data.encode(), method="POST")
    response = urllib.request.urlopen(request)
    assert response.status == 200 and response.read() == b"", path
def get(path):
    return json.load(urllib.request.urlopen(URL + path))
for dpid in get("/stats/switches"):
    ports = get("/stats/portdesc/%d" % dpid)[str(dpid)]
    assert any(port["port_no"] == "LOCAL" for port in ports), ports
    flow = {"dpid": dpid, "cookie": 77, "priority": 300, "hard_timeout": 0, "operation": "add",
            "match": {"in_port": 1, "dl_type": 0x800, "nw_dst": "10.0.0.1/32"},
            "actions": [{"type": "OUTPUT", "port": 2}]}
    post("/stats/flowentry/add", json.dumps(flow))
    post("/stats/flowentry/add", str(dict(flow, cookie=78, priority=301, actions=[])))
    flows = {flow["cookie"]: flow for flow in get("/stats/flow/%d" % dpid)[str(dpid)]}
    assert flows[77]["actions"] == ["OUTPUT:2"] and flows[77]["match"]["nw_dst"] == "10.0.0.1", flows
    assert flows[78]["actions"] == [] and flows[78]["priority"] == 301, flows
    post("/stats/flowentry/delete_strict", json.dumps({key: flow[key] for key in ("dpid", "priority", "match")}))
    assert 77 not in {flow["cookie"] for flow in get("/stats/flow/%d" % dpid)[str(dpid)]}
print("done", sum(port["rx_packets"] for port in get("/stats/port/1")["1"]) >= 0)
"#;

fn script(version: OpenFlow) {
    let (network, _hosts, _controller) = one_switch(version);
    let file = network.env().write("script.py", SCRIPT);
    let output = output_of(network.env().command("python3").arg(file));
    assert_eq!(output, "done True\n");
    // As the documentation of Ryu calls it.
    let curl =
        |arguments: &[&str]| output_of(network.env().command("curl").arg("-s").args(arguments));
    let flow = r#"{"dpid": 1, "cookie": 79, "table_id": 0, "priority": 11111, "flags": 1, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]}"#;
    curl(&["-X", "POST", "-d", flow, "http://localhost:8080/stats/flowentry/add"]);
    // The statistics of 1.0 have no flags.
    let flags = if version > OpenFlow::V10 { "send_flow_rem," } else { "" };
    let expected = format!("{flags}in_port=1 actions=output:2");
    assert_eq!(listed(&network, 79), Some(expected));
    curl(&["-X", "DELETE", "http://localhost:8080/stats/flowentry/clear/1"]);
    assert_eq!(listed(&network, 79), None);
}
