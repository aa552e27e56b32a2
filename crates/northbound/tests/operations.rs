//! Operations over HTTP, with a controller of one switch with a link.
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

use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader, traits::PcapReaderIterator};
use serde_json::{Value, json};
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_northbound::{Server, serve};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, FlowDesc, FlowMod, FlowModCommand, FlowStatsRequest, MacAddr, Message, Multipart,
    MultipartReply, MultipartRequest, MultipartType, PacketInReason, Port, PortConfig, PortNo,
    SwitchFeatures, Version,
};
use sluice_sdk::flow_space::{PATHS, TREE};
use sluice_sdk::view::{
    DrainProgress, Fact, Link, NetworkView, PublishedFact, RecordFact, Stamp, SwitchInfo,
    SwitchPort, ViewPublisher, ViewSubscription,
};
use sluice_sdk::{
    Answer, Capture, CaptureFilter, CaptureSender, Controller, OnAnswer, ReceivedMultipart,
    Request, SessionStatistics, SwitchSession,
};
use support::wait_until;

const S1: DatapathId = DatapathId(1);
const NEAR: SwitchPort = SwitchPort::new(S1, PortNo(2));
const FAR: SwitchPort = SwitchPort::new(DatapathId(2), PortNo(7));

/// A controller whose switch does what it is told.
struct OneSwitch {
    version: Version,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    publisher: Option<ViewPublisher>,
    facts: u64,
    is_port_down: bool,
    /// Messages that change something.
    changes: Vec<Message>,
    captures: Vec<CaptureSender>,
    more_flows: u16,
    flows_that_are_not_listed: u32,
    /// After so many changes the switch does not answer.
    answers_left: Option<usize>,
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

impl State {
    fn publish(&mut self, facts: Vec<Fact>) {
        let facts: Vec<_> = facts
            .into_iter()
            .map(|fact| {
                self.facts += 1;
                let stamp = Stamp::new(now() + Duration::from_nanos(self.facts), 0);
                PublishedFact { fact, stamp }
            })
            .collect();
        self.publisher.as_ref().unwrap().publish(&facts.into());
    }
}

impl OneSwitch {
    fn features(&self) -> SwitchFeatures {
        let is_down = self.state.lock().unwrap().is_port_down;
        let config = if is_down { PortConfig::PORT_DOWN } else { PortConfig::default() };
        let port = |no: PortNo, name: &str| Port {
            port_no: no,
            name: name.into(),
            hw_addr: MacAddr::from_u64(no.0.into()),
            ..Port::default()
        };
        let ports = vec![
            port(PortNo::LOCAL, "s1"),
            Port { config, ..port(PortNo(1), "s1-eth1") },
            port(PortNo(2), "s1-eth2"),
        ];
        SwitchFeatures { datapath_id: S1, ports, ..SwitchFeatures::default() }
    }
}

/// Two entries of forwarding, `more` of the first kind, and one of somebody else, as far as a request selects them.
fn flows(more: u16, cookie: u64, mask: u64) -> Vec<FlowDesc> {
    let entry = |cookie, priority| FlowDesc { cookie, priority, ..FlowDesc::default() };
    let mut flows = vec![entry(7, 5), entry(PATHS.cookie | 1, 100), entry(TREE.cookie, 4)];
    flows.extend((0..more).map(|n| FlowDesc { table_id: 1, ..entry(PATHS.cookie | 1, n) }));
    flows.retain(|entry| entry.cookie & mask == cookie & mask);
    flows
}

fn listed(version: Version, flows: Vec<FlowDesc>) -> Answer {
    let message = Message::MultipartReply(Multipart::single(MultipartReply::FlowDesc { flows }));
    let bytes = message.to_vec(version, 1).unwrap();
    let headers = if version == Version::V1_0 { 12 } else { 16 };
    let body = bytes[headers..].to_vec();
    Answer::Multipart(ReceivedMultipart::new(version, MultipartType::FLOW, body))
}

/// The reply to a request for aggregate statistics: packets, bytes and flow entries, in these versions.
fn counted(version: Version, flows: u32) -> Answer {
    assert!(version <= Version::V1_4);
    let body = [&[0; 16], &flows.to_be_bytes()[..], &[0; 4]].concat();
    Answer::Multipart(ReceivedMultipart::new(version, MultipartType::AGGREGATE, body))
}

impl Controller for OneSwitch {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        assert_eq!(to, S1);
        if let [Message::MultipartRequest(Multipart { body, .. })] = &request.messages[..] {
            let state = self.state.lock().unwrap();
            let selected =
                |it: &FlowStatsRequest| flows(state.more_flows, it.cookie, it.cookie_mask);
            return on_answer(match body {
                MultipartRequest::FlowDesc(request) => listed(self.version, selected(request)),
                MultipartRequest::AggregateStats(request) => {
                    let count = u32::try_from(selected(request).len()).unwrap();
                    counted(self.version, count + state.flows_that_are_not_listed)
                }
                body => panic!("{body:?}"),
            });
        }
        let mut state = self.state.lock().unwrap();
        if state.answers_left == Some(0) {
            return on_answer(Answer::TimedOut);
        }
        state.answers_left = state.answers_left.map(|left| left - 1);
        for message in &request.messages {
            assert!(message.to_vec(self.version, 1).is_ok(), "{message:?}");
            if let Message::PortMod(change) = message {
                assert_eq!((change.port_no, change.hw_addr), (PortNo(1), MacAddr::from_u64(1)));
                assert_eq!(change.mask, PortConfig::PORT_DOWN);
                state.is_port_down = change.config.contains(PortConfig::PORT_DOWN);
            }
        }
        state.changes.extend(request.messages);
        drop(state);
        on_answer(Answer::Done);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        publisher.send_initial_state(&NetworkView::default());
        let mut state = self.state.lock().unwrap();
        state.publisher = Some(publisher);
        state.publish(vec![
            Fact::Switch(S1, Some(SwitchInfo::default())),
            Fact::Link(FAR, Some(Link { from: NEAR, to: FAR })),
            Fact::Link(NEAR, Some(Link { from: FAR, to: NEAR })),
        ]);
        subscription
    }

    fn publish(&self, records: Vec<RecordFact>) -> bool {
        self.state.lock().unwrap().publish(records.into_iter().map(Fact::Record).collect());
        true
    }

    fn capture(
        &self,
        filter: CaptureFilter,
        notify: Box<dyn Fn() + Send + Sync>,
    ) -> Option<Capture> {
        let (sender, capture) = CaptureSender::new(filter, notify);
        self.state.lock().unwrap().captures.push(sender);
        Some(capture)
    }

    fn switches(&self) -> Vec<SwitchSession> {
        vec![SwitchSession {
            datapath_id: S1,
            version: self.version,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: Duration::ZERO,
            features: Arc::new(self.features()),
            role: None,
            // So that it is not asked for it.
            description: Some(Arc::default()),
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        }]
    }
}

fn server(version: Version) -> (Server, Arc<OneSwitch>) {
    let controller = Arc::new(OneSwitch { version, state: Mutex::default() });
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = serve(listen, Arc::new(NoMetrics), controller.clone()).unwrap();
    wait_until("the links", || send(&server, "GET", "/v1/controller", None).1["links"] == 2);
    (server, controller)
}

/// Sends a request; the connection to read the response from.
fn open(server: &Server, method: &str, path: &str, body: Option<&Value>) -> TcpStream {
    let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let headers = format!(
        "host: localhost\r\ncontent-type: application/json\r\ncontent-length: {}",
        body.len()
    );
    write!(client, "{method} {path} HTTP/1.0\r\n{headers}\r\n\r\n{body}").unwrap();
    client
}

/// The status and the body of the response.
fn receive(mut client: TcpStream) -> (u16, Vec<u8>) {
    let mut response = Vec::new();
    client.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), response[end + 4..].to_vec())
}

fn send(server: &Server, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let (status, body) = receive(open(server, method, path, body));
    (status, serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{e}: {body:?}")))
}

#[test]
fn a_link_is_drained_from_either_end_and_put_back() {
    let (server, controller) = server(Version::V1_3);
    let path = "/v1/switches/s1/ports/2/drain";
    assert_eq!(send(&server, "GET", path, None).1["error"]["code"], "not_drained");
    let (status, drain) = send(&server, "PUT", path, None);
    assert_eq!((status, &drain["state"], &drain["is_up"]), (200, &json!("draining"), &json!(true)));
    assert_eq!(drain["ends"][1]["at"]["port"], 7);
    assert_eq!(drain["ends"][0]["progress"], Value::Null);
    let requested = drain["requested_at_unix_s"].clone();
    assert!(requested.as_f64().unwrap() > 1e9);
    assert_eq!(send(&server, "GET", "/v1/controller", None).1["cables"], 1);
    let links = send(&server, "GET", "/v1/links", None).1;
    assert_eq!([&links["links"][0]["is_drained"], &links["links"][1]["is_drained"]], [true; 2]);
    let done = DrainProgress { is_quiet: true, ..DrainProgress::default() };
    let progress = |at, it| RecordFact::new(at, Some(it));
    let _ = controller.publish(vec![progress(NEAR, done)]);
    let _ = controller.publish(vec![progress(FAR, DrainProgress { entries: 3, ..done })]);
    let entries = || send(&server, "GET", path, None).1["ends"][1]["progress"]["entries"].clone();
    wait_until("the progress", || entries() == 3);
    assert_eq!(send(&server, "PUT", path, None).1["state"], "draining");
    let _ = controller.publish(vec![progress(FAR, done)]);
    wait_until("the progress", || entries() == 0);
    let drains = send(&server, "GET", "/v1/drains", None).1;
    assert_eq!(drains["drains"][0]["state"], "drained");
    assert_eq!(
        drains["drains"][0]["requested_at_unix_s"], requested,
        "asking again changes nothing"
    );
    // It stays while the cable is unplugged, under the same name.
    controller.state.lock().unwrap().publish(vec![Fact::Link(FAR, None), Fact::Link(NEAR, None)]);
    wait_until("the link to be down", || send(&server, "GET", path, None).1["is_up"] == false);
    let by_name = "/v1/switches/s1/ports/s1-eth2/drain";
    assert_eq!(send(&server, "DELETE", by_name, None), (200, json!({ "was_drained": true })));
    assert_eq!(send(&server, "DELETE", path, None), (200, json!({ "was_drained": false })));
    assert_eq!(send(&server, "GET", "/v1/drains", None).1["drains"], json!([]));
    for (path, code) in [
        (path, "no_link"),
        ("/v1/switches/s1/ports/1/drain", "no_link"),
        ("/v1/switches/s1/ports/9/drain", "no_such_port"),
        ("/v1/switches/s9/ports/1/drain", "switch_not_connected"),
    ] {
        let (status, error) = send(&server, "PUT", path, None);
        assert_eq!((status, &error["error"]["code"]), (404, &json!(code)), "{path}");
    }
}

#[test]
fn a_port_is_set_down_and_up_in_every_version() {
    for version in (1..=6).map(Version) {
        let (server, _controller) = server(version);
        let path = "/v1/switches/s1/ports/s1-eth1";
        for is_enabled in [false, true] {
            let body = json!({ "is_enabled": is_enabled });
            let (status, port) = send(&server, "PUT", path, Some(&body));
            assert_eq!(
                (status, &port["is_enabled"], &port["port"]),
                (200, &json!(is_enabled), &json!(1))
            );
        }
        for body in [json!({ "is_enabled": 1 }), json!({ "is_enabled": true, "x": 1 }), json!([])] {
            assert_eq!(send(&server, "PUT", path, Some(&body)).0, 400, "{body}");
        }
    }
}

#[test]
fn entries_of_an_owner_are_deleted_by_cookie_or_one_by_one() {
    for version in [Version::V1_0, Version::V1_3] {
        let (server, controller) = server(version);
        let path = "/v1/switches/s1/flows?owner=forwarding";
        assert_eq!(send(&server, "DELETE", path, None), (200, json!({ "deleted": 2 })));
        let changes = std::mem::take(&mut controller.state.lock().unwrap().changes);
        let deletions = changes.iter().map(|message| match message {
            Message::FlowMod(FlowMod { command, cookie, priority, .. }) => {
                (*command, *cookie, *priority)
            }
            other => panic!("{other:?}"),
        });
        let deletions: Vec<_> = deletions.collect();
        if version == Version::V1_0 {
            let strict = FlowModCommand::DELETE_STRICT;
            assert_eq!(deletions, [(strict, 0, 100), (strict, 0, 4)]);
        } else {
            let cookies: Vec<_> = deletions.iter().map(|(_, cookie, _)| *cookie).collect();
            assert!(cookies.contains(&PATHS.cookie) && cookies.contains(&TREE.cookie));
            assert!(deletions.iter().all(|(command, ..)| *command == FlowModCommand::DELETE));
        }
        let (_, everywhere) = send(&server, "DELETE", "/v1/flows?cookie=7", None);
        assert_eq!(
            (&everywhere["deleted"], &everywhere["switches"][0]["deleted"]),
            (&json!(1), &json!(1))
        );
        for query in ["", "?owner=x", "?cookie=x", "?owner=hub&cookie=1", "?color=red"] {
            let path = format!("/v1/switches/s1/flows{query}");
            assert_eq!(send(&server, "DELETE", &path, None).0, 400, "{query}");
        }
    }
}

#[test]
fn any_number_of_entries_is_deleted_by_cookie_but_only_some_one_by_one() {
    let path = "/v1/switches/s1/flows?owner=forwarding";
    for (version, status) in [(Version::V1_0, 409), (Version::V1_3, 200)] {
        let (server, controller) = server(version);
        controller.state.lock().unwrap().flows_that_are_not_listed = 1_000_000;
        let (found, document) = send(&server, "DELETE", path, None);
        assert_eq!(found, status, "{document}");
        if status == 200 {
            assert!(document["deleted"].as_u64().unwrap() >= 1_000_000, "{document}");
        } else {
            assert_eq!(document["error"]["code"], "too_many_entries");
            assert_eq!(controller.state.lock().unwrap().changes, []);
        }
    }
}

#[test]
fn what_was_deleted_before_an_error_is_reported() {
    let (server, controller) = server(Version::V1_0);
    let fail = || {
        let mut state = controller.state.lock().unwrap();
        (state.more_flows, state.answers_left) = (500, Some(1));
    };
    fail();
    let (status, error) = send(&server, "DELETE", "/v1/switches/s1/flows?owner=forwarding", None);
    assert_eq!((status, &error["error"]["code"]), (504, &json!("switch_timed_out")));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("; 256 entries were deleted before"), "{message}");
    fail();
    let (_, everywhere) = send(&server, "DELETE", "/v1/flows?owner=forwarding", None);
    assert_eq!(everywhere["deleted"], 256);
    let of_s1 = &everywhere["switches"][0];
    assert!(of_s1["deleted"] == 256 && of_s1["error"].is_string(), "{everywhere}");
}

#[test]
fn a_packet_is_sent_out_of_a_port_or_with_actions() {
    let (server, controller) = server(Version::V1_3);
    let path = "/v1/switches/s1/packets";
    let data = "ffffffffffff0200000000010806";
    for (body, actions) in [
        (json!({ "port": 2, "data": data }), "output:2"),
        (json!({ "port": "s1-eth2", "in_port": 1, "data": data }), "output:2"),
        (json!({ "actions": "output:1,output:2", "data": data }), "output:1,output:2"),
    ] {
        assert_eq!(send(&server, "POST", path, Some(&body)), (200, json!({ "length": 14 })));
        let sent = controller.state.lock().unwrap().changes.pop().unwrap();
        let Message::PacketOut(packet) = sent else { panic!("{sent:?}") };
        assert_eq!(sluice_openflow::Action::list_to_text(&packet.actions), actions);
        assert_eq!((packet.data.len(), packet.data[13]), (14, 6));
    }
    for (body, status) in [
        (json!({ "data": data }), 400),
        (json!({ "port": 2, "actions": "drop", "data": data }), 400),
        (json!({ "port": 9, "data": data }), 404),
        (json!({ "port": 2, "data": "00" }), 400),
        (json!({ "actions": "fly", "data": data }), 400),
        (json!({ "actions": "x".repeat(5000), "data": data }), 413),
    ] {
        let (found, error) = send(&server, "POST", path, Some(&body));
        assert_eq!(found, status, "{body}: {error}");
    }
}

/// Waits for a capture to begin, and has the switch send packets from two ports.
fn send_packet_ins(controller: &OneSwitch) {
    wait_until("the capture", || !controller.state.lock().unwrap().captures.is_empty());
    for n in 0..4_u8 {
        let frame = [&[n; 12][..], &[8, 6, n]].concat();
        let packet = PacketIn {
            buffer_id: None,
            in_port: PortNo(1 + u32::from(n) % 2),
            total_len: 100,
            reason: PacketInReason::NO_MATCH,
            table_id: 3,
            cookie: 0x77,
            frame: &frame,
        };
        controller.state.lock().unwrap().captures[0].offer(now(), S1, &packet);
    }
}

#[test]
fn a_capture_as_pcapng_is_read_back_by_another_parser() {
    let (server, controller) = server(Version::V1_3);
    let client = open(&server, "GET", "/v1/capture?switch=s1&limit=4", None);
    send_packet_ins(&controller);
    let (status, file) = receive(client);
    assert_eq!(status, 200);
    let mut reader = PcapNGReader::new(65_536, &file[..]).unwrap();
    let (mut interfaces, mut packets, mut statistics) = (Vec::new(), Vec::new(), 0);
    loop {
        let read = match reader.next() {
            Ok((read, PcapBlockOwned::NG(block))) => {
                match block {
                    Block::SectionHeader(_) => assert!(interfaces.is_empty()),
                    Block::InterfaceDescription(it) => {
                        let name = it.options.iter().find(|option| option.code.0 == 2).unwrap();
                        interfaces.push(
                            String::from_utf8(name.value[..usize::from(name.len)].to_vec())
                                .unwrap(),
                        );
                    }
                    Block::EnhancedPacket(it) => {
                        let comment = it.options.iter().find(|option| option.code.0 == 1).unwrap();
                        assert_eq!(
                            &comment.value[..usize::from(comment.len)],
                            b"packet-in reason=NO_MATCH table=3 cookie=0x77"
                        );
                        assert_eq!((it.caplen, it.origlen), (15, 100));
                        packets.push((it.if_id, it.data[0]));
                    }
                    Block::InterfaceStatistics(_) => statistics += 1,
                    other => panic!("{other:?}"),
                }
                read
            }
            Ok(_) => panic!("not pcapng"),
            Err(PcapError::Eof) => break,
            // It finds out whether there is more; a part of a block is then an unexpected end.
            Err(PcapError::Incomplete(_)) => {
                reader.refill().unwrap();
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        reader.consume(read);
    }
    assert_eq!(interfaces, ["s1:s1-eth1", "s1:s1-eth2"]);
    assert_eq!(packets, [(0, 0), (1, 1), (0, 2), (1, 3)]);
    assert_eq!(statistics, 1);
}

#[test]
fn a_capture_as_json_ends_after_its_time() {
    let (server, controller) = server(Version::V1_3);
    let path = "/v1/capture?format=json&seconds=1&sample=2&port=1&switch=s1";
    let client = open(&server, "GET", path, None);
    send_packet_ins(&controller);
    let (status, text) = receive(client);
    let lines: Vec<Value> = String::from_utf8(text)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((status, lines.len()), (200, 2));
    let packet = &lines[0];
    assert_eq!([&packet["switch"], &packet["port_name"]], ["s1", "s1-eth1"]);
    assert_eq!((&packet["port"], &packet["cookie"]), (&json!(1), &json!("0x77")));
    assert_eq!(packet["data"].as_str().unwrap().len(), 30);
    assert_eq!(lines[1], json!({ "end": { "reason": "time", "packets": 1, "dropped": 0 } }));
}

#[test]
fn captures_are_limited_and_their_filters_checked() {
    let (server, _controller) = server(Version::V1_3);
    for query in
        ["port=1", "mac=x", "ip=x", "ethertype=x", "sample=0", "seconds=3601", "format=x", "a=b"]
    {
        assert_eq!(send(&server, "GET", &format!("/v1/capture?{query}"), None).0, 400, "{query}");
    }
    // Half of them: all are of the same address.
    let running: Vec<_> = (0..2).map(|_| open(&server, "GET", "/v1/capture", None)).collect();
    for mut client in &running {
        // The head of the response: the capture has begun.
        client.read_exact(&mut [0; 12]).unwrap();
    }
    let (status, error) = send(&server, "GET", "/v1/capture", None);
    assert_eq!((status, &error["error"]["code"]), (503, &json!("too_many_captures")));
    drop(running);
    // Another one can begin when the server has noticed.
    wait_until("another capture", || {
        let client = open(&server, "GET", "/v1/capture?seconds=0", None);
        receive(client).0 == 200
    });
}
