//! The API, with a controller of one switch, one link and two hosts.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_northbound::{Server, serve};
use sluice_openflow::{
    Action, DatapathId, ErrorReason, Field, FlowDesc, Instruction, MacAddr, Message, MessageType,
    Multipart, MultipartReply, MultipartRequest, MultipartType, Port, PortNo, PortStats,
    SwitchFeatures, Version, VlanId,
};
use sluice_sdk::flow_space::PATHS;
use sluice_sdk::view::{
    Fact, Host, HostId, Link, NetworkView, PortInfo, PortRole, PublishedFact, Stamp, SwitchInfo,
    SwitchPort, ViewPublisher, ViewSubscription,
};
use sluice_sdk::{
    Answer, AppState, Controller, OnAnswer, OnState, ReceivedMultipart, Request, SessionStatistics,
    SwitchError, SwitchSession,
};

use support::{wait_for, wait_until};

const S1: DatapathId = DatapathId(1);

/// What the switch answers to a request.
type Answers = fn(&MultipartRequest) -> Answer;

struct OneSwitch {
    answers: Answers,
    publisher: Mutex<Option<ViewPublisher>>,
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

fn port(no: u32, role: PortRole) -> (PortNo, PortInfo) {
    let name = format!("s1-eth{no}").as_str().into();
    (PortNo(no), PortInfo { name, hw_addr: MacAddr::from_u64(no.into()), is_up: true, role })
}

fn facts() -> Vec<Fact> {
    let at = |port| SwitchPort::new(S1, PortNo(port));
    let switch = SwitchInfo { ports: [port(1, PortRole::Edge), port(2, PortRole::Link)].into() };
    let far = SwitchPort::new(DatapathId(2), PortNo(7));
    let host = |n: u8| {
        let id = HostId { mac: MacAddr([2, 0, 0, 0, 0, n]), vlan: VlanId(0) };
        Fact::Host(id, Some(Host { at: at(1), addrs: vec![[10, 0, 0, n].into()] }))
    };
    vec![
        Fact::Switch(S1, Some(switch)),
        Fact::Link(far, Some(Link { from: at(2), to: far })),
        host(9),
        host(5),
    ]
}

impl Controller for OneSwitch {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        assert_eq!(to, S1);
        let [Message::MultipartRequest(Multipart { body, .. })] = &request.messages[..] else {
            panic!("{request:?}")
        };
        on_answer((self.answers)(body));
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let stamp = Stamp::new(Instant::now(), 0);
        publisher.send_initial_state(&NetworkView::default());
        let facts = facts().into_iter().map(|fact| PublishedFact { fact, stamp });
        publisher.publish(&facts.collect());
        *self.publisher.lock().unwrap() = Some(publisher);
        subscription
    }

    fn switches(&self) -> Vec<SwitchSession> {
        let local = Port { port_no: PortNo::LOCAL, name: "s1".into(), ..Port::default() };
        let features = SwitchFeatures {
            datapath_id: S1,
            n_tables: 254,
            ports: vec![local],
            ..SwitchFeatures::default()
        };
        vec![SwitchSession {
            datapath_id: S1,
            version: Version::V1_3,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: Duration::from_secs(1_700_000_000),
            features: Arc::new(features),
            role: None,
            description: None,
            statistics: SessionStatistics { packet_ins_received: 12, ..Default::default() },
            last_errors: vec![last_error()],
        }]
    }

    /// Two workers, of which the second answers first, and a third that does not answer.
    fn read_state(&self, application: &str, on_state: OnState) {
        let state = |n| sluice_openflow::value::Value::Map(vec![("blocked".into(), n)]);
        let number = sluice_openflow::value::Value::Number;
        match application {
            "firewall" => {
                on_state(AppState::new(1, Some(state(number(7)))));
                on_state(AppState::new(0, Some(state(number(5)))));
            }
            "large" => {
                let list = sluice_openflow::value::Value::List(vec![number(1); 5000]);
                on_state(AppState::new(0, Some(list)));
            }
            _ => on_state(AppState::new(0, None)),
        }
    }
}

fn last_error() -> SwitchError {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let at = Instant::now();
    let request = Some(MessageType::FLOW_MOD);
    SwitchError { at, reason: ErrorReason::BAD_LEN, xid: 7, request }
}

/// The reply to a request for port statistics: port 1 has received ten packets more than at the last one.
fn port_statistics(request: &MultipartRequest) -> Answer {
    static PACKETS: AtomicU64 = AtomicU64::new(0);
    if !matches!(request, MultipartRequest::PortStats(_)) {
        return Answer::NotConnected;
    }
    let rx_packets = PACKETS.fetch_add(10, Relaxed);
    let stats = PortStats { port_no: PortNo(1), rx_packets, rx_bytes: 100, ..PortStats::default() };
    let reply = MultipartReply::PortStats { ports: vec![stats] };
    let bytes = Message::MultipartReply(Multipart::single(reply)).to_vec(Version::V1_3, 1).unwrap();
    let kind = MultipartType::PORT_STATS;
    Answer::Multipart(ReceivedMultipart::new(Version::V1_3, kind, bytes[16..].to_vec()))
}

#[test]
fn ports_have_statistics_and_after_the_second_reading_rates() {
    let server = server(port_statistics);
    wait_for_view(&server);
    let first = value(&server, "/v1/switches/s1/ports", "/ports/0");
    assert_eq!(first["statistics"]["rx_bytes"], 100, "{first}");
    assert_eq!(value(&server, "/v1/switches/s1/ports", "/ports/1/statistics"), Value::Null);
    let measured = wait_for("rates", || {
        let port = value(&server, "/v1/switches/s1/ports", "/ports/0");
        (!port["rates"].is_null()).then_some(port)
    });
    assert!(measured["rates"]["rx_packets_per_s"].as_f64().unwrap() > 0.0, "{measured}");
    let busiest = value(&server, "/v1/ports/busiest?limit=1", "/ports/0");
    assert_eq!((&busiest["at"]["port"], &busiest["at"]["switch"]), (&1.into(), &"s1".into()));
    assert_eq!(busiest["hosts"][1], "02:00:00:00:00:09", "{busiest}");
}

#[test]
fn the_map_has_all_connected_switches_and_links_between_them() {
    let server = server(port_statistics);
    wait_for_view(&server);
    assert_eq!(get(&server, "/v1/topology?loads=maybe").0, 400);
    let (status, map) = get(&server, "/v1/topology?loads=true");
    assert_eq!(status, 200);
    let s1 = &map["switches"][0];
    assert_eq!((&s1["name"], &s1["hosts"]), (&"s1".into(), &2.into()), "{map}");
    // The other end of the link is not connected.
    assert_eq!(map["links"].as_array().unwrap().len(), 0, "{map}");
    let (_, who) = get(&server, "/v1/identity");
    assert_eq!((&who["who"], &who["role"]), (&"local".into(), &"administer".into()));
    let (status, series) = get(&server, "/v1/time-series?after_unix_s=0");
    assert_eq!((status, &series["interval_s"]), (200, &2.into()));
    assert_eq!(get(&server, "/v1/time-series?after_unix_s=yesterday").0, 400);
}

/// The reply to a request for flow entries: one of `forwarding` and one of somebody else.
fn flows(_: &MultipartRequest) -> Answer {
    let entry = |cookie, priority, port| FlowDesc {
        cookie,
        priority,
        matching: [Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9]))].into(),
        instructions: vec![Instruction::apply([Action::output(PortNo(port))])],
        ..FlowDesc::default()
    };
    let flows = vec![entry(7, 5, 1), entry(PATHS.cookie | 1, 100, 2)];
    let message = Message::MultipartReply(Multipart::single(MultipartReply::FlowDesc { flows }));
    let bytes = message.to_vec(Version::V1_3, 1).unwrap();
    // Behind the headers of message and multipart.
    Answer::Multipart(ReceivedMultipart::new(
        Version::V1_3,
        MultipartType::FLOW,
        bytes[16..].to_vec(),
    ))
}

fn server(answers: Answers) -> Server {
    let controller = Arc::new(OneSwitch { answers, publisher: Mutex::new(None) });
    serve(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(NoMetrics), controller).unwrap()
}

/// Status and body of the response to a `GET`.
fn get_with(server: &Server, path: &str, headers: &str) -> (u16, String) {
    let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(client, "GET {path} HTTP/1.0\r\n{headers}\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let (status, body) = get_with(server, path, "host: localhost\r\n");
    (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}")))
}

/// What is at `pointer` in the document at `path`.
fn value(server: &Server, path: &str, pointer: &str) -> Value {
    let (status, document) = get(server, path);
    assert_eq!(status, 200, "{path}: {document}");
    document.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {document}")).clone()
}

/// Waits until the view was received.
fn wait_for_view(server: &Server) {
    wait_until("the hosts", || value(server, "/v1/controller", "/hosts") == 2);
}

#[test]
fn the_network_is_listed_with_names() {
    let server = server(flows);
    wait_for_view(&server);
    for (path, pointer, expected) in [
        ("/v1/controller", "/switches", "1"),
        ("/v1/controller", "/is_complete", "true"),
        ("/v1/switches", "/switches/0/dpid", r#""0000000000000001""#),
        ("/v1/switches", "/switches/0/name", r#""s1""#),
        ("/v1/switches", "/switches/0/session/packet_ins_received", "12"),
        ("/v1/switches/s1", "/openflow", r#""1.3""#),
        ("/v1/switches/1", "/tables", "254"),
        ("/v1/switches/1", "/last_errors/0/error", r#""BAD_REQUEST/BAD_LEN""#),
        ("/v1/switches/1", "/last_errors/0/request", r#""FLOW_MOD""#),
        ("/v1/switches/0x1/ports", "/ports/1/peer/port", "7"),
        ("/v1/switches/00:00:00:00:00:00:00:01/ports", "/ports/0/hosts", "2"),
        ("/v1/links", "/links/0/from/switch", r#""s1""#),
        ("/v1/links", "/links/0/to/switch", "null"),
        ("/v1/hosts", "/hosts/0/mac", r#""02:00:00:00:00:05""#),
        ("/v1/hosts?limit=1&offset=1", "/hosts/0/addresses/0", r#""10.0.0.9""#),
        ("/v1/hosts?limit=1", "/total", "2"),
        ("/v1/hosts?ip=10.0.0.9", "/hosts/0/at/port_name", r#""s1-eth1""#),
        ("/v1/hosts?mac=02:00:00:00:00:05&switch=s1&port=1", "/total", "1"),
        ("/v1/hosts?port=2", "/total", "0"),
        ("/v1/applications/firewall/state", "/application", r#""firewall""#),
        ("/v1/applications/firewall/state", "/workers/0", r#"{"state":{"blocked":5},"worker":0}"#),
        ("/v1/applications/firewall/state", "/workers/1/state/blocked", "7"),
        ("/v1/applications/large/state", "/workers/0/state", "null"),
        ("/v1/applications/large/state", "/workers/0/omitted_values", "5001"),
    ] {
        assert_eq!(value(&server, path, pointer).to_string(), expected, "{path} {pointer}");
    }
}

#[test]
fn flow_entries_are_read_from_the_switch_with_their_owner() {
    let server = server(flows);
    let path = "/v1/switches/s1/flows";
    assert_eq!(value(&server, path, "/flows/0/owner"), "forwarding");
    assert_eq!(value(&server, path, "/flows/1/owner"), Value::Null);
    assert_eq!(value(&server, path, "/flows/1/priority"), 5);
    let (status, text) =
        get_with(&server, &format!("{path}?format=ovs-ofctl"), "host: 127.0.0.1\r\n");
    let last = text.lines().last().unwrap();
    let expected = "cookie=0x7,priority=5,dl_dst=02:00:00:00:00:09,actions=output:1";
    assert_eq!((status, last), (200, expected), "{text}");
}

/// The reply to a request for aggregate statistics. §7.3.5.3 of 1.3: packets, bytes, flow entries.
fn count(entries: u32) -> Answer {
    let body = [&[0; 16], &entries.to_be_bytes()[..], &[0; 4]].concat();
    Answer::Multipart(ReceivedMultipart::new(Version::V1_3, MultipartType::AGGREGATE, body))
}

#[test]
fn errors_say_what_is_wrong() {
    let server = server(|request| match request {
        MultipartRequest::Desc => Answer::TimedOut,
        MultipartRequest::TableStats => Answer::TooMany,
        MultipartRequest::AggregateStats(selected) if selected.table_id == 3 => count(16_385),
        MultipartRequest::AggregateStats(_) => count(16_384),
        MultipartRequest::FlowDesc(_) => {
            Answer::Multipart(ReceivedMultipart::new(Version::V1_3, MultipartType::FLOW, vec![1]))
        }
        _ => Answer::NotConnected,
    });
    for (path, status, code) in [
        ("/v1/switches/s9", 404, "switch_not_connected"),
        ("/v1/switches/s1/x", 404, "no_such_path"),
        ("/v1/x", 404, "no_such_path"),
        ("/v1/hosts?limit=10001", 400, "invalid_value"),
        ("/v1/hosts?ip=x", 400, "invalid_value"),
        ("/v1/hosts?color=red", 400, "invalid_value"),
        ("/v1/switches/s1/flows?table=256", 400, "invalid_value"),
        ("/v1/switches/s1/flows", 502, "switch_reply_malformed"),
        ("/v1/switches/s1/flows?table=3", 409, "too_many_entries"),
        ("/v1/switches/s1/%66lows", 404, "no_such_path"),
        ("/v1/hosts?mac=x", 400, "invalid_value"),
        ("/v1/events/history?limit=4097", 400, "invalid_value"),
        ("/v1/switches/s1/description", 504, "switch_timed_out"),
        ("/v1/switches/s1/tables", 503, "busy"),
        ("/v1/switches/s1/groups", 404, "switch_not_connected"),
        ("/v1/applications/hub/state", 404, "no_such_application"),
    ] {
        let (found, document) = get(&server, path);
        let error = &document["error"];
        assert_eq!((found, error["code"].as_str()), (status, Some(code)), "{path}: {document}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{path}");
    }
}

#[test]
fn pages_of_others_get_nothing() {
    let server = server(flows);
    for headers in ["host: evil.example\r\n", "", "host: localhost\r\norigin: http://x.example\r\n"]
    {
        let (status, body) = get_with(&server, "/v1/switches", headers);
        assert_eq!(status, 403, "{headers}: {body}");
    }
}
