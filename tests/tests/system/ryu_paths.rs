//! Each path of Ryu's `ofctl_rest` and `rest_topology`, asked with Open vSwitch: the keys of the answers are those that Ryu 4.34 has for the
//! version of OpenFlow.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::collections::BTreeSet;
use std::slice;

use serde_json::Value;
use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

use crate::queue_setup::add_queue;
use crate::ryu::{API, ask, get};

both_versions! {
    every_path_of_ryu_answers_in_the_form_of_ryu() = every_path;
}

/// A path, and the answers to a request there.
struct Row {
    method: &'static str,
    /// As in `docs/ryu.md`, with names for what varies.
    path: &'static str,
    body: &'static str,
    /// Where to look in an item, as a JSON pointer; empty for the item itself.
    at: &'static str,
    v1_0: &'static str,
    v1_3: &'static str,
}

/// The answer to a change: 200 and an empty body.
const DONE: &str = "done";
/// An answer without items.
const NO_ITEM: &str = r#"{"1":[]}"#;
/// What the version of OpenFlow does not have.
const NOT_IN_VERSION: &str = "501";
const REFUSED: &str = "502";

/// A question, with the keys in OpenFlow 1.0 and 1.3; instead of keys, a status or the whole answer.
const fn read(path: &'static str, v1_0: &'static str, v1_3: &'static str) -> Row {
    Row { method: "GET", path, body: "", at: "", v1_0, v1_3 }
}

/// The keys of something within the first item.
const fn within(
    path: &'static str,
    at: &'static str,
    v1_0: &'static str,
    v1_3: &'static str,
) -> Row {
    Row { method: "GET", path, body: "", at, v1_0, v1_3 }
}

const fn post(
    path: &'static str,
    body: &'static str,
    v1_0: &'static str,
    v1_3: &'static str,
) -> Row {
    Row { method: "POST", path, body, at: "", v1_0, v1_3 }
}

const DESC: &str = "dp_desc hw_desc mfr_desc serial_num sw_desc";
const FLOW_1_0: &str = "actions byte_count cookie duration_nsec duration_sec hard_timeout idle_timeout match packet_count \
                        priority table_id";
const FLOW_1_3: &str = "actions byte_count cookie duration_nsec duration_sec flags hard_timeout idle_timeout length match \
                        packet_count priority table_id";
const SUMS: &str = "byte_count flow_count packet_count";
const TABLE_1_0: &str =
    "active_count lookup_count matched_count max_entries name table_id wildcards";
const TABLE_1_3: &str = "active_count lookup_count matched_count table_id";
const TABLE_FEATURES: &str =
    "config max_entries metadata_match metadata_write name properties table_id";
const PORT_1_0: &str = "collisions port_no rx_bytes rx_crc_err rx_dropped rx_errors rx_frame_err rx_over_err rx_packets \
                        tx_bytes tx_dropped tx_errors tx_packets";
const PORT_1_3: &str = "collisions duration_nsec duration_sec port_no rx_bytes rx_crc_err rx_dropped rx_errors rx_frame_err \
                        rx_over_err rx_packets tx_bytes tx_dropped tx_errors tx_packets";
const PORT_DESC_1_0: &str = "advertised config curr hw_addr name peer port_no state supported";
const PORT_DESC_1_3: &str =
    "advertised config curr curr_speed hw_addr max_speed name peer port_no state supported";
const QUEUE_1_0: &str = "port_no queue_id tx_bytes tx_errors tx_packets";
const QUEUE_1_3: &str = "duration_nsec duration_sec port_no queue_id tx_bytes tx_errors tx_packets";
const QUEUE_CONFIG: &str = "port queues";
const GROUP: &str =
    "bucket_stats byte_count duration_nsec duration_sec group_id length packet_count ref_count";
const GROUP_DESC: &str = "buckets group_id type";
const METER: &str =
    "band_stats byte_in_count duration_nsec duration_sec flow_count len meter_id packet_in_count";
const METER_CONFIG: &str = "bands flags meter_id";

const FLOW: &str = r#"{"dpid":1,"cookie":5,"priority":30000,"match":{"in_port":55},"actions":[{"type":"OUTPUT","port":2}]}"#;
const GROUP_BODY: &str = r#"{"dpid":1,"group_id":7,"type":"SELECT","buckets":[{"weight":1,"actions":[{"type":"OUTPUT","port":1}]}]}"#;
const METER_BODY: &str =
    r#"{"dpid":1,"meter_id":3,"flags":"KBPS","bands":[{"type":"DROP","rate":1000}]}"#;
const FILTER: &str = r#"{"table_id":0,"out_port":2,"match":{"in_port":55},"priority":30000}"#;

/// In this order: what is added is read, and deleted at the end.
const ROWS: &[Row] = &[
    post("/stats/flowentry/add", FLOW, DONE, DONE),
    post("/stats/flowentry/modify", FLOW, DONE, DONE),
    post("/stats/flowentry/modify_strict", FLOW, DONE, DONE),
    // What Ryu 4.34 answers in 1.0, too.
    post("/stats/meterentry/add", METER_BODY, NOT_IN_VERSION, DONE),
    post("/stats/meterentry/modify", METER_BODY, NOT_IN_VERSION, DONE),
    post("/stats/role", r#"{"dpid":1,"role":"EQUAL"}"#, NOT_IN_VERSION, DONE),
    post("/stats/portdesc/modify", r#"{"dpid":1,"port_no":PORT,"config":0,"mask":1}"#, DONE, DONE),
    // Open vSwitch knows Nicira, whose message 15 is 8 bytes long, and no experimenter 1.
    post(
        "/stats/experimenter/D",
        r#"{"dpid":1,"experimenter":8992,"exp_type":15,"data_type":"base64","data":"AAAAAAAAAAA="}"#,
        NOT_IN_VERSION,
        DONE,
    ),
    post("/stats/experimenter/D", r#"{"dpid":1,"experimenter":1,"data":"a"}"#, REFUSED, REFUSED),
    read("/stats/switches", "[1,2]", "[1,2]"),
    read("/stats/desc/D", DESC, DESC),
    read("/stats/desc/0x1", DESC, DESC),
    read("/stats/flow/D", FLOW_1_0, FLOW_1_3),
    post("/stats/flow/D", FILTER, FLOW_1_0, FLOW_1_3),
    read("/stats/flowdesc/D", FLOW_1_0, FLOW_1_3),
    post("/stats/flowdesc/D", FILTER, FLOW_1_0, FLOW_1_3),
    read("/stats/aggregateflow/D", SUMS, SUMS),
    post("/stats/aggregateflow/D", FILTER, SUMS, SUMS),
    read("/stats/table/D", TABLE_1_0, TABLE_1_3),
    read("/stats/tablefeatures/D", NOT_IN_VERSION, TABLE_FEATURES),
    within("/stats/tablefeatures/D", "/properties/0", NOT_IN_VERSION, "instruction_ids type"),
    read("/stats/port/D", PORT_1_0, PORT_1_3),
    read("/stats/port/D/PORT", PORT_1_0, PORT_1_3),
    read("/stats/port/D/ALL", PORT_1_0, PORT_1_3),
    read("/stats/port/D/60000", NO_ITEM, NO_ITEM),
    read("/stats/portdesc/D", PORT_DESC_1_0, PORT_DESC_1_3),
    read("/stats/portdesc/D/PORT", PORT_DESC_1_0, PORT_DESC_1_3),
    read("/stats/portdesc/D/ALL", PORT_DESC_1_0, PORT_DESC_1_3),
    read("/stats/queue/D", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/PORT", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/PORT/QUEUE", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/ALL", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/ALL/QUEUE", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/PORT/ALL", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/ALL/ALL", QUEUE_1_0, QUEUE_1_3),
    read("/stats/queue/D/PORT/8", NO_ITEM, NO_ITEM),
    // OpenFlow 1.0 has the configuration of one port only.
    read("/stats/queueconfig/D", REFUSED, QUEUE_CONFIG),
    read("/stats/queueconfig/D/PORT", QUEUE_CONFIG, QUEUE_CONFIG),
    read("/stats/queueconfig/D/ALL", REFUSED, QUEUE_CONFIG),
    within(
        "/stats/queueconfig/D/PORT",
        "/queues/0",
        "port properties queue_id",
        "port properties queue_id",
    ),
    read("/stats/queuedesc/D", NOT_IN_VERSION, NOT_IN_VERSION),
    read("/stats/queuedesc/D/PORT", NOT_IN_VERSION, NOT_IN_VERSION),
    read("/stats/queuedesc/D/PORT/QUEUE", NOT_IN_VERSION, NOT_IN_VERSION),
    // Without groups; those of Open vSwitch are an extension in 1.0.
    read("/stats/group/D", NO_ITEM, NO_ITEM),
    read("/stats/groupdesc/D", NO_ITEM, NO_ITEM),
    read("/stats/meter/D", NOT_IN_VERSION, METER),
    read("/stats/meter/D/METER", NOT_IN_VERSION, METER),
    read("/stats/meter/D/ALL", NOT_IN_VERSION, METER),
    read("/stats/meter/D/9", NOT_IN_VERSION, NO_ITEM),
    within("/stats/meter/D", "/band_stats/0", NOT_IN_VERSION, "byte_band_count packet_band_count"),
    read("/stats/meterconfig/D", NOT_IN_VERSION, METER_CONFIG),
    read("/stats/meterconfig/D/METER", NOT_IN_VERSION, METER_CONFIG),
    read("/stats/meterconfig/D/ALL", NOT_IN_VERSION, METER_CONFIG),
    within("/stats/meterconfig/D", "/bands/0", NOT_IN_VERSION, "burst_size rate type"),
    read("/stats/meterdesc/D", NOT_IN_VERSION, METER_CONFIG),
    read("/stats/meterdesc/D/METER", NOT_IN_VERSION, METER_CONFIG),
    read(
        "/stats/meterfeatures/D",
        NOT_IN_VERSION,
        "band_types capabilities max_bands max_color max_meter",
    ),
    read("/stats/role/D", NOT_IN_VERSION, "generation_id role"),
    read("/v1.0/topology/switches", "dpid ports", "dpid ports"),
    read("/v1.0/topology/switches/ID", "dpid ports", "dpid ports"),
    within("/v1.0/topology/switches", "/ports/0", TOPOLOGY_PORT, TOPOLOGY_PORT),
    read("/v1.0/topology/links", "dst src", "dst src"),
    read("/v1.0/topology/links/ID", "dst src", "dst src"),
    within("/v1.0/topology/links", "/src", TOPOLOGY_PORT, TOPOLOGY_PORT),
    within("/v1.0/topology/links", "/dst", TOPOLOGY_PORT, TOPOLOGY_PORT),
    read("/v1.0/topology/hosts", "ipv4 ipv6 mac port", "ipv4 ipv6 mac port"),
    read("/v1.0/topology/hosts/ID", "ipv4 ipv6 mac port", "ipv4 ipv6 mac port"),
    within("/v1.0/topology/hosts", "/port", TOPOLOGY_PORT, TOPOLOGY_PORT),
    // Errors, as Ryu has them.
    read("/stats/desc/9", "404", "404"),
    read("/stats/nothing/D", "404", "404"),
    read("/v1.0/topology/switches/1", "404", "404"),
    post("/stats/flowentry/frobnicate", FLOW, "404", "404"),
    post("/stats/flowentry/add", "{", "400", "400"),
    post("/stats/flowentry/delete_strict", FLOW, DONE, DONE),
    post("/stats/flow/D", FILTER, NO_ITEM, NO_ITEM),
    post("/stats/flowentry/delete", FLOW, DONE, DONE),
    post("/stats/meterentry/delete", r#"{"dpid":1,"meter_id":3}"#, NOT_IN_VERSION, DONE),
    read("/stats/meterconfig/D", NOT_IN_VERSION, NO_ITEM),
    Row {
        method: "DELETE",
        path: "/stats/flowentry/clear/D",
        body: "",
        at: "",
        v1_0: DONE,
        v1_3: DONE,
    },
];

/// The rows about groups, which Open vSwitch has in OpenFlow 1.0, too, as an extension.
const GROUP_ROWS: &[Row] = &[
    read("/stats/groupdesc/D", NO_ITEM, NO_ITEM),
    post("/stats/groupentry/add", GROUP_BODY, DONE, DONE),
    post("/stats/groupentry/modify", GROUP_BODY, DONE, DONE),
    read("/stats/group/D", GROUP, GROUP),
    read("/stats/group/D/GROUP", GROUP, GROUP),
    read("/stats/group/D/ALL", GROUP, GROUP),
    read("/stats/group/D/9", NO_ITEM, NO_ITEM),
    within(
        "/stats/group/D",
        "/bucket_stats/0",
        "byte_count packet_count",
        "byte_count packet_count",
    ),
    read("/stats/groupdesc/D", GROUP_DESC, GROUP_DESC),
    read("/stats/groupdesc/D/GROUP", GROUP_DESC, GROUP_DESC),
    within(
        "/stats/groupdesc/D",
        "/buckets/0",
        "actions watch_group watch_port weight",
        "actions watch_group watch_port weight",
    ),
    read(
        "/stats/groupfeatures/D",
        "actions capabilities max_groups types",
        "actions capabilities max_groups types",
    ),
    post("/stats/groupentry/delete", r#"{"dpid":1,"group_id":7}"#, DONE, DONE),
    read("/stats/groupdesc/D", NO_ITEM, NO_ITEM),
];

const TOPOLOGY_PORT: &str = "dpid hw_addr name port_no";

/// The queue of the first host's port.
const QUEUE: u32 = 7;

/// Two switches, a host at each, and a queue at the port of the first.
fn network(version: OpenFlow) -> (OvsNetwork, [Host; 2], Controller) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    let hosts = ["s1", "s2"].map(|switch| network.host(switch));
    add_queue(&network, &hosts[0], QUEUE);
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
        hosts[0].ping(&hosts[1], 1).lost() == 0
    });
    (network, hosts, controller)
}

fn check(rows: &[Row], version: OpenFlow, port: u16) {
    for row in rows {
        check_row(row, version, port);
    }
}

/// Sends the request of a row, and compares the answer.
fn check_row(row: &Row, version: OpenFlow, port: u16) {
    let port = port.to_string();
    let values = [
        ("PORT", port.as_str()),
        ("QUEUE", "7"),
        ("GROUP", "7"),
        ("METER", "3"),
        ("ID", "0000000000000001"),
        ("D", "1"),
    ];
    let segments = row.path.split('/').map(|segment| {
        values.iter().find(|value| value.0 == segment).map_or(segment, |value| value.1)
    });
    let path = segments.collect::<Vec<_>>().join("/");
    let (status, body) = ask(row.method, &path, &row.body.replace("PORT", &port));
    let expected = if version == OpenFlow::V10 { row.v1_0 } else { row.v1_3 };
    let request = format!("{version:?} {} {path} {}", row.method, row.body);
    if expected == DONE {
        assert_eq!((status, body.as_str()), (200, ""), "{request}");
    } else if let Ok(expected) = expected.parse::<u16>() {
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status, expected, "{request}: {body}");
        assert!(answer["error"]["message"].is_string(), "{request}: {body}");
    } else if expected.starts_with(['{', '[']) {
        assert_eq!((status, body.as_str()), (200, expected), "{request}");
    } else {
        assert_eq!(status, 200, "{request}: {body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        has_keys(answer.get("1").unwrap_or(&answer), row.at, expected, &request);
    }
}

/// Compares the keys of all items of an answer, or of what is `at` a place in the first one.
#[track_caller]
fn has_keys(answer: &Value, at: &str, expected: &str, request: &str) {
    let items = answer.as_array().map_or_else(|| slice::from_ref(answer), Vec::as_slice);
    assert!(!items.is_empty(), "{request}: no items");
    let expected: BTreeSet<_> = expected.split_whitespace().collect();
    for item in items.iter().take(if at.is_empty() { usize::MAX } else { 1 }) {
        let object = item.pointer(at).and_then(Value::as_object);
        let object = object.unwrap_or_else(|| panic!("{request}: nothing at {at:?} in {item}"));
        let keys: BTreeSet<_> = object.keys().map(String::as_str).collect();
        assert_eq!(keys, expected, "{request} {at}");
    }
}

fn every_path(version: OpenFlow) {
    let (network, [host, _], _controller) = network(version);
    network.env().within(|| {
        queues_are_those_of_the_switch(version, host.port());
        check(GROUP_ROWS, version, host.port());
        check(ROWS, version, host.port());
    });
}

fn queues_are_those_of_the_switch(version: OpenFlow, port: u16) {
    let named = format!("/{port}/{QUEUE}");
    for part in ["", "/ALL", "/ALL/ALL", &format!("/{port}"), &format!("/{port}/ALL"), &named] {
        let answer = get(&format!("/stats/queue/1{part}"));
        let queues = answer["1"].as_array().unwrap();
        let is_wanted = |it: &&Value| it["port_no"] == port && it["queue_id"] == QUEUE;
        assert_eq!(queues.iter().filter(is_wanted).count(), 1, "{part}: {answer}");
        // Open vSwitch has added queue 0.
        assert_eq!(queues.len(), if part == named { 1 } else { 2 }, "{part}: {answer}");
    }
    let parts = if version == OpenFlow::V10 { &["PORT"][..] } else { &["", "ALL", "PORT"] };
    for part in parts {
        let path = format!("/stats/queueconfig/1/{}", part.replace("PORT", &port.to_string()));
        let answer = get(path.trim_end_matches('/'));
        let config = &answer["1"][0];
        let all = if *part == "PORT" { Value::from(port) } else { "ANY".into() };
        assert_eq!(config["port"], all, "{answer}");
        let queues = config["queues"].as_array().unwrap();
        let is_wanted = |it: &&Value| it["port"] == port && it["queue_id"] == QUEUE;
        assert_eq!(queues.iter().filter(is_wanted).count(), 1, "{answer}");
    }
}

/// The paths in the first column of the table of `docs/ryu.md`, with and without what is in brackets.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/ryu.md");
    let mut paths = BTreeSet::new();
    let rows = page.lines().filter(|line| {
        ["| GET", "| POST", "| DELETE"].iter().any(|method| line.starts_with(method))
    });
    for row in rows {
        let (methods, cell) = row.trim_start_matches("| ").split_once(" | ").unwrap();
        let cell = cell.split(" | ").next().unwrap();
        let mut parent = "";
        for name in cell.split('`').skip(1).step_by(2) {
            let before = name.split('[').next().unwrap();
            let is_relative = !name.starts_with('/');
            let path = if is_relative { format!("{parent}/{name}") } else { name.to_owned() };
            if !is_relative {
                parent = before.rsplit_once('/').unwrap().0;
            }
            let optional = path.split('[').collect::<Vec<_>>();
            for count in 1..=optional.len() {
                let path = optional[..count].concat().replace(']', "");
                let all = methods.split(", ").map(|method| format!("{method} {path}"));
                paths.extend(all);
            }
        }
    }
    paths
}

#[test]
fn every_path_that_is_documented_is_asked() {
    let asked: BTreeSet<_> =
        ROWS.iter().chain(GROUP_ROWS).map(|row| format!("{} {}", row.method, row.path)).collect();
    let documented = documented();
    assert!(documented.len() > 40, "{documented:?}");
    let left_out: Vec<_> = documented.difference(&asked).collect();
    assert!(left_out.is_empty(), "not asked: {left_out:?}");
}
