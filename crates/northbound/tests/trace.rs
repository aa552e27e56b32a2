//! Traces through a network of switches whose tables are given as text.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_northbound::{Server, serve};
use sluice_openflow::{
    DatapathId, FlowDesc, FlowMod, FlowModCommand, GroupCommand, GroupDesc, GroupMod, MacAddr,
    Message, Multipart, MultipartReply, MultipartRequest, MultipartType, Port, PortNo,
    SwitchFeatures, TableStats, Version, VlanId,
};
use sluice_sdk::view::{
    Fact, Host, HostId, Link, NetworkView, PortInfo, PortRole, PublishedFact, Stamp, SwitchInfo,
    SwitchPort, ViewPublisher, ViewSubscription,
};
use sluice_sdk::{
    Answer, Controller, OnAnswer, ReceivedMultipart, Request, SessionStatistics, SwitchSession,
};
use support::wait_until;

/// `OFPMP_GROUP_DESC`. §7.3.5.
const GROUP_DESC: MultipartType = MultipartType(7);

/// What a switch answers instead of its tables; `None` if it answers as others do.
type OtherAnswer = fn(&MultipartRequest) -> Option<Answer>;

/// A line of switches: port 1 leads to a host, port 2 to the next switch, port 3 to the one before.
struct Line {
    /// Flow entries of each switch.
    flows: Vec<Vec<&'static str>>,
    groups: Vec<&'static str>,
    /// Number of a switch that gives another answer, and which.
    other: Option<(u64, OtherAnswer)>,
    version: Version,
    /// Flow entries that each switch claims to have besides.
    claimed_entries: u32,
    /// Whether switches answer later: with what is kept here.
    is_silent: bool,
    kept: Arc<Mutex<Vec<OnAnswer>>>,
    publisher: Mutex<Option<ViewPublisher>>,
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

fn at(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

fn link(from: SwitchPort, to: SwitchPort) -> Fact {
    Fact::Link(to, Some(Link { from, to }))
}

fn reply(version: Version, kind: MultipartType, reply: MultipartReply) -> Answer {
    let bytes = Message::MultipartReply(Multipart::single(reply)).to_vec(version, 1).unwrap();
    // Behind the headers of message and multipart.
    let header = if version == Version::V1_0 { 12 } else { 16 };
    Answer::Multipart(ReceivedMultipart::new(version, kind, bytes[header..].to_vec()))
}

fn entry(text: &&str) -> FlowDesc {
    let flow =
        FlowMod::from_text(text, FlowModCommand::ADD).unwrap_or_else(|e| panic!("{text}: {e}"));
    FlowDesc {
        table_id: flow.table_id,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching,
        instructions: flow.instructions,
        ..FlowDesc::default()
    }
}

impl Line {
    fn of(flows: Vec<Vec<&'static str>>) -> Self {
        Self {
            flows,
            groups: vec![],
            other: None,
            version: Version::V1_3,
            claimed_entries: 0,
            is_silent: false,
            kept: Arc::default(),
            publisher: Mutex::new(None),
        }
    }

    fn switches_count(&self) -> u64 {
        self.flows.len() as u64
    }

    fn facts(&self) -> Vec<Fact> {
        let last = self.switches_count();
        let role = |port| if port == 1 { PortRole::Edge } else { PortRole::Link };
        let mut facts = vec![];
        for n in 1..=last {
            let port = |no: u32| {
                let name = format!("s{n}-eth{no}").as_str().into();
                let hw_addr = MacAddr::from_u64(u64::from(no));
                (PortNo(no), PortInfo { name, hw_addr, is_up: true, role: role(no) })
            };
            let ports = [1, 2, 3].map(port).into();
            facts.push(Fact::Switch(DatapathId(n), Some(SwitchInfo { ports })));
            if n < last {
                facts.push(link(at(n, 2), at(n + 1, 3)));
                facts.push(link(at(n + 1, 3), at(n, 2)));
            }
            let number = u8::try_from(n).unwrap();
            let id = HostId { mac: MacAddr([2, 0, 0, 0, 0, number]), vlan: VlanId(0) };
            let addrs = vec![[10, 0, 0, number].into()];
            facts.push(Fact::Host(id, Some(Host { at: at(n, 1), addrs })));
        }
        facts
    }
}

impl Controller for Line {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        let [Message::MultipartRequest(Multipart { body, .. })] = &request.messages[..] else {
            panic!("{request:?}")
        };
        if self.is_silent {
            return self.kept.lock().unwrap().push(on_answer);
        }
        let other = self.other.filter(|other| DatapathId(other.0) == to);
        if let Some(answer) = other.and_then(|(_, answer)| answer(body)) {
            return on_answer(answer);
        }
        let entries = &self.flows[usize::try_from(to.0).unwrap() - 1];
        on_answer(match body {
            MultipartRequest::TableStats => {
                let active_count = u32::try_from(entries.len()).unwrap() + self.claimed_entries;
                let tables = vec![TableStats { active_count, ..TableStats::default() }];
                reply(self.version, MultipartType::TABLE, MultipartReply::TableStats { tables })
            }
            MultipartRequest::FlowDesc(_) => {
                let flows = entries.iter().map(entry).collect();
                reply(self.version, MultipartType::FLOW, MultipartReply::FlowDesc { flows })
            }
            MultipartRequest::GroupDesc(_) => {
                let desc = |text: &&str| {
                    let group = GroupMod::from_text(text, GroupCommand::ADD).unwrap();
                    let (group_type, group_id) = (group.group_type, group.group_id);
                    GroupDesc { group_type, group_id, buckets: group.buckets, ..<_>::default() }
                };
                let groups = self.groups.iter().map(desc).collect();
                reply(self.version, GROUP_DESC, MultipartReply::GroupDesc { groups })
            }
            // Asked once of each switch, not for the trace.
            MultipartRequest::Desc => Answer::TimedOut,
            other => panic!("{other:?}"),
        });
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let stamp = Stamp::new(Instant::now(), 0);
        publisher.send_initial_state(&NetworkView::default());
        let facts = self.facts().into_iter().map(|fact| PublishedFact { fact, stamp });
        publisher.publish(&facts.collect());
        *self.publisher.lock().unwrap() = Some(publisher);
        subscription
    }

    fn switches(&self) -> Vec<SwitchSession> {
        let session = |n: u64| {
            let port = |no: u32| Port {
                port_no: PortNo(no),
                name: format!("s{n}-eth{no}").as_str().into(),
                ..Port::default()
            };
            let local = Port {
                port_no: PortNo::LOCAL,
                name: format!("s{n}").as_str().into(),
                config: sluice_openflow::PortConfig::PORT_DOWN,
                ..Port::default()
            };
            SwitchSession {
                datapath_id: DatapathId(n),
                version: self.version,
                addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
                worker: 0,
                connected_at: Duration::from_secs(1_700_000_000),
                features: Arc::new(SwitchFeatures {
                    datapath_id: DatapathId(n),
                    ports: [1, 2, 3].into_iter().map(port).chain([local]).collect(),
                    ..SwitchFeatures::default()
                }),
                role: None,
                description: None,
                last_errors: vec![],
                statistics: SessionStatistics::default(),
            }
        };
        (1..=self.switches_count()).map(session).collect()
    }
}

fn server(line: Line) -> Server {
    let hosts = line.switches_count();
    let controller = Arc::new(line);
    let server =
        serve(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(NoMetrics), controller).unwrap();
    wait_until("the hosts", || call(&server, "GET", "/v1/controller", "").1["hosts"] == hosts);
    server
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    // The server may close the connection before it has read a body that is too long.
    let _ = client.write_all(body.as_bytes());
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}")))
}

fn trace(server: &Server, request: &Value) -> Value {
    let (status, document) = call(server, "POST", "/v1/trace", &request.to_string());
    assert_eq!(status, 200, "{request}: {document}");
    document
}

fn ping() -> Value {
    json!({"from": "10.0.0.1", "to": "10.0.0.2"})
}

/// Outcome and summary of a ping from the first host to the second.
fn result(line: Line) -> (String, String) {
    let document = trace(&server(line), &ping());
    let text = |key: &str| document[key].as_str().unwrap().to_owned();
    (text("outcome"), text("summary"))
}

const TO_2: &str = "priority=5,dl_dst=02:00:00:00:00:02,actions=output:2";
const TO_1: &str = "priority=5,dl_dst=02:00:00:00:00:02,actions=output:1";

#[test]
fn a_packet_is_followed_to_its_host_and_paths_agree_with_it() {
    let server = server(Line::of(vec![vec![TO_2], vec![TO_1], vec![]]));
    let expected = "delivered at s2 port 1 (s2-eth1) to host 02:00:00:00:00:02 (10.0.0.2)";
    let text = "icmp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02";
    let packet = "02000000000202000000000188b500000000";
    for request in [
        ping(),
        json!({"from": "02:00:00:00:00:01", "to": "02-00-00-00-00-02"}),
        json!({"at": {"switch": "s1", "port": 1}, "flow": text}),
        json!({"at": {"switch": "1", "port": 1}, "packet": packet}),
        json!({"at": {"switch": "s1", "port": 1},
               "fields": {"eth_dst": "02:00:00:00:00:02", "eth_type": 2048, "ip_proto": 6, "tcp_dst": 80}}),
    ] {
        let document = trace(&server, &request);
        assert_eq!(document["outcome"], "delivered", "{document:#}");
        assert_eq!(document["summary"], expected);
        assert_eq!(document["hops"].as_array().unwrap().len(), 2);
        assert_eq!(document["hops"][0]["steps"][2]["hop"], 1, "{document:#}");
        assert_eq!(document["hops"][0]["steps"][0]["text"], format!("{TO_2}"));
    }
    let (status, paths) = call(&server, "GET", "/v1/paths?from=10.0.0.1&to=10.0.0.2", "");
    assert_eq!((status, &paths["agrees"]), (200, &json!(true)), "{paths:#}");
    assert_eq!(paths["installed"]["path"], paths["computed"]["paths"][0]);
    let (_, paths) = call(&server, "GET", "/v1/paths?from=10.0.0.2&to=10.0.0.3", "");
    assert_eq!((&paths["agrees"], &paths["computed"]["switches"]), (&Value::Null, &json!(2)));
}

#[test]
fn the_reason_is_named_for_which_a_packet_does_not_arrive() {
    let drop = "priority=9,ip,nw_dst=10.0.0.2,actions=drop";
    let (back, again) = ("priority=5,actions=in_port", "priority=9,in_port=2,actions=in_port");
    for (flows, outcome, summary) in [
        (
            vec![vec![TO_2], vec![TO_1, drop]],
            "dropped",
            "dropped at s2: the flow entry sends it nowhere",
        ),
        (vec![vec![TO_2], vec![]], "dropped", "dropped at s2: no flow entry matches"),
        (
            vec![vec![TO_2], vec!["actions=output:9"]],
            "dropped",
            "dropped at s2: there is no port 9",
        ),
        (vec![vec![TO_2, again], vec![back]], "loop", "loop: it arrives as it has at hop 2"),
        (
            vec![vec!["priority=0,actions=CONTROLLER:65535"], vec![]],
            "controller",
            "sent to the controller by s1: no flow entry matches but the table-miss entry, table 0",
        ),
        (
            vec![vec!["actions=NORMAL"], vec![]],
            "unknown",
            "forwarded by the switch's own pipeline (NORMAL), not followed",
        ),
        (
            vec![vec!["actions=output:1,load:1->NXM_NX_REG0[],output:2"], vec![]],
            "unknown",
            "not followed: the action",
        ),
        (
            vec![vec!["actions=in_port"], vec![]],
            "left",
            "leaves at s1 port 1 (s1-eth1), where no host with its destination address is known",
        ),
    ] {
        let line = Line::of(flows.clone());
        let found = result(line);
        assert_eq!(found.0, outcome, "{flows:?}: {found:?}");
        assert!(found.1.starts_with(summary), "{flows:?}: {found:?}");
    }
    let document = trace(&server(Line::of(vec![vec![TO_2], vec![TO_1, drop]])), &ping());
    assert_eq!(document["ends"][0]["entry"]["text"], drop);
    let line = Line { version: Version::V1_0, ..Line::of(vec![vec![], vec![]]) };
    assert_eq!(result(line).0, "controller", "in 1.0 there is no table-miss entry");
}

#[test]
fn select_groups_are_alternatives_and_uncertain_matches_are_noted() {
    let flows = vec![
        vec!["priority=5,actions=group:1", "priority=7,ip,nw_ttl=64,actions=drop"],
        vec![TO_1],
    ];
    let groups = vec!["group_id=1,type=select,bucket=actions=output:2,bucket=actions=output:9"];
    let document = trace(&server(Line { groups, ..Line::of(flows) }), &ping());
    assert_eq!(document["outcome"], "delivered", "{document:#}");
    assert!(document["ends"].as_array().unwrap().iter().all(|end| end["one_of"] == true));
    let text = document.to_string();
    assert!(text.contains("an entry of priority 7 may match instead: the field nw_ttl"), "{text}");
}

#[test]
fn a_switch_that_cannot_be_read_ends_its_branch_with_the_reason() {
    fn disconnects_later(request: &MultipartRequest) -> Option<Answer> {
        matches!(request, MultipartRequest::FlowDesc(_)).then_some(Answer::Disconnected)
    }
    fn has_many_entries(request: &MultipartRequest) -> Option<Answer> {
        let tables = vec![TableStats { active_count: 100_000, ..TableStats::default() }];
        let stats = MultipartReply::TableStats { tables };
        matches!(request, MultipartRequest::TableStats)
            .then(|| reply(Version::V1_3, MultipartType::TABLE, stats))
    }
    let answers: [(OtherAnswer, &str); 3] = [
        (|_| Some(Answer::Disconnected), "connect"),
        (disconnects_later, "connect"),
        (has_many_entries, "it has 100000 flow entries: at most 16384 are read"),
    ];
    for (answer, why) in answers {
        let line = Line { other: Some((2, answer)), ..Line::of(vec![vec![TO_2], vec![TO_1]]) };
        let (outcome, summary) = result(line);
        assert_eq!(outcome, "unknown", "{summary}");
        let start = "the tables of s2 could not be read: ";
        assert!(summary.starts_with(start) && summary.contains(why), "{summary}");
    }
}

#[test]
fn a_trace_reads_a_bounded_number_of_entries() {
    // Eight switches have 131 072 entries, one by one not too many.
    let flows = vec![vec!["actions=output:2"]; 20];
    let server = server(Line { claimed_entries: 16_383, ..Line::of(flows) });
    let document = trace(&server, &json!({"at": {"switch": "s1", "port": 1}, "flow": "icmp"}));
    assert_eq!((&document["outcome"], &document["hops"][8]["hop"]), (&json!("unknown"), &json!(8)));
    let summary = document["summary"].as_str().unwrap();
    assert!(
        summary.ends_with("s9 could not be read: it has 16384 flow entries: the trace may read 0"),
        "{summary}"
    );
}

#[test]
fn two_packets_are_traced_at_a_time_for_one_client() {
    let line = Line { is_silent: true, ..Line::of(vec![vec![TO_2], vec![TO_1]]) };
    let kept = line.kept.clone();
    let server = server(line);
    let of_other_requests = kept.lock().unwrap().len();
    std::thread::scope(|scope| {
        let traces = [0; 2].map(|_| scope.spawn(|| trace(&server, &ping())));
        wait_until("both", || kept.lock().unwrap().len() >= of_other_requests + 2);
        let (status, document) = call(&server, "POST", "/v1/trace", &ping().to_string());
        assert_eq!((status, &document["error"]["code"]), (503, &json!("busy")));
        let (status, _) = call(&server, "GET", "/v1/paths?from=10.0.0.1&to=10.0.0.2", "");
        assert_eq!(status, 503);
        for on_answer in kept.lock().unwrap().drain(..) {
            on_answer(Answer::Disconnected);
        }
        for trace in traces {
            assert_eq!(trace.join().unwrap()["outcome"], "unknown");
        }
    });
}

/// Otherwise a client that connects, asks and leaves again and again would make a switch answer without a limit.
#[test]
fn what_a_switch_was_asked_counts_until_it_has_answered_even_if_the_client_has_left() {
    let line = Line { is_silent: true, ..Line::of(vec![vec![TO_2], vec![TO_1]]) };
    let kept = line.kept.clone();
    let server = server(line);
    let asked = || kept.lock().unwrap().len();
    let of_other_requests = asked();
    let ask_and_leave = || {
        let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
        let request = b"GET /v1/switches/s1/tables HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(request).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(client.read(&mut [0]).is_err(), "the switch is silent");
    };
    for _ in 0..4 {
        ask_and_leave();
    }
    assert_eq!(asked() - of_other_requests, 2);
    for on_answer in kept.lock().unwrap().drain(..) {
        on_answer(Answer::Disconnected);
    }
    ask_and_leave();
    wait_until("the next request", || asked() == 1);
}

#[test]
fn what_would_never_end_has_limits() {
    // Each switch sends two packets that differ from those before.
    let many = "group_id=1,type=all,bucket=actions=push_vlan:0x8100,output:2,\
                bucket=actions=push_vlan:0x8100,output:3,bucket=actions=push_vlan:0x8100,in_port";
    let flows = vec![vec!["actions=group:1"]; 4];
    let server = server(Line { groups: vec![many], ..Line::of(flows) });
    let request = json!({"at": {"switch": "s2", "port": 2}, "flow": "icmp"});
    let document = trace(&server, &request);
    assert_eq!(document["hops"].as_array().unwrap().len(), 128);
    let text = document.to_string();
    assert!(text.contains("not followed beyond 128 hops"), "{}", document["summary"]);
    assert!(text.len() < 4 << 20, "{}", text.len());
}

#[test]
fn invalid_requests_are_refused_with_what_is_wrong() {
    let server = server(Line::of(vec![vec![], vec![]]));
    let at = r#""at":{"switch":"s1","port":1}"#;
    let digits = |n: usize| format!(r#"{{{at},"packet":"{}"}}"#, "a".repeat(n));
    let nested = "[".repeat(100_000);
    for (body, status, words) in [
        (String::new(), 400, "EOF"),
        ("{}".to_owned(), 400, "from and to"),
        (nested, 400, "invalid type"),
        (format!("{{{at}}}"), 400, "one of packet"),
        (format!(r#"{{{at},"flow":"icmp","packet":""}}"#), 400, "one of packet"),
        (format!(r#"{{{at},"flow":"icmp","from":"10.0.0.1"}}"#), 400, "from and to"),
        (format!(r#"{{{at},"color":1}}"#), 400, "unknown field `color`"),
        (format!(r#"{{{at},"flow":"color=1"}}"#), 400, "flow: column 1"),
        (format!(r#"{{{at},"flow":"ip,nw_dst=10.0.0.0/8"}}"#), 400, "without a mask"),
        (format!(r#"{{{at},"fields":{{"a,b":1}}}}"#), 400, "expected a name and a value"),
        (format!(r#"{{{at},"fields":{{"eth_dst":{{}}}}}}"#), 400, "fields"),
        (digits(29), 400, "29 digits"),
        (digits(26), 400, "13 bytes"),
        (digits(131_072), 400, "65536 bytes"),
        (digits(400_000), 413, "length limit"),
        (format!(r#"{{{at},"packet":"zz"}}"#), 400, "'z' is no hexadecimal digit"),
        (r#"{"at":{"switch":"s1","port":7},"flow":"icmp"}"#.to_owned(), 404, "no port 7"),
        (r#"{"at":{"switch":"s7","port":1},"flow":"icmp"}"#.to_owned(), 404, "s7"),
        (r#"{"at":{"switch":"s1","port":-1},"flow":"icmp"}"#.to_owned(), 400, "port"),
        (r#"{"from":"10.0.0.1","to":"10.9.9.9"}"#.to_owned(), 404, "to: no host"),
    ] {
        let (found, document) = call(&server, "POST", "/v1/trace", &body);
        let shown: String = body.chars().take(80).collect();
        assert_eq!(found, status, "{shown}: {document}");
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{shown}: {message}");
    }
    for (path, status) in [
        ("/v1/paths?from=10.0.0.1", 400),
        ("/v1/paths?from=10.0.0.1&to=10.0.0.2&x=1", 400),
        ("/v1/paths?from=10.0.0.1&to=x", 404),
    ] {
        assert_eq!(call(&server, "GET", path, "").0, status, "{path}");
    }
}
