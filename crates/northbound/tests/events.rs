//! Events of the API: streams, resumption, filters and limits, with a controller whose facts the test publishes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_northbound::{ApplicationSettings, LimitSetting, Server, Settings, serve};
use sluice_openflow::{DatapathId, MacAddr, Port, PortNo, SwitchFeatures, Version, VlanId};
use sluice_sdk::view::{
    EventFact, Fact, Host, HostId, Link, NetworkView, PortInfo, PortRole, PublishedFact, Stamp,
    SwitchInfo, SwitchPort, ViewPublisher, ViewSubscription,
};
use sluice_sdk::{Answer, Controller, Notification, OnAnswer, Request, SwitchSession};
use support::{wait_for, wait_until};

/// Events that are kept, as `docs/events.md` says.
const HISTORY_MAX: u64 = 4096;

/// Streams at a time.
const STREAMS_MAX: usize = 16;

/// Metrics of two workers, and one of an application that does not run.
#[derive(Debug)]
struct SomeMetrics;

impl MetricsSource for SomeMetrics {
    fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
        let mut put = |name, value| emit(MetricSample { name, help: "", labels: vec![], value });
        for _ in 0..2 {
            put("hosts", MetricValue::Gauge(1.0));
            put("hosts_moved", MetricValue::Counter(3));
        }
        put("hostsmith_x", MetricValue::Counter(1));
    }
}

/// A controller that publishes what the test says.
#[derive(Default)]
struct FactPublisher {
    publisher: Mutex<Option<ViewPublisher>>,
    stamp: Mutex<Option<Instant>>,
}

impl FactPublisher {
    /// Publishes facts, each later than the one before.
    fn publish(&self, facts: impl IntoIterator<Item = Fact>) {
        while self.publisher.lock().unwrap().is_none() {
            std::thread::yield_now();
        }
        let mut last = self.stamp.lock().unwrap();
        let facts = facts.into_iter().map(|fact| {
            #[expect(clippy::disallowed_methods, reason = "the time of the facts")]
            let at = last.unwrap_or_else(Instant::now) + Duration::from_nanos(1);
            *last = Some(at);
            PublishedFact { fact, stamp: Stamp::new(at, 0) }
        });
        let facts = facts.collect();
        self.publisher.lock().unwrap().as_ref().unwrap().publish(&facts);
    }
}

impl Controller for FactPublisher {
    fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
        on_answer(Answer::NotConnected);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        publisher.send_initial_state(&NetworkView::default());
        *self.publisher.lock().unwrap() = Some(publisher);
        subscription
    }

    fn switches(&self) -> Vec<SwitchSession> {
        vec![]
    }
}

struct TestApi {
    controller: Arc<FactPublisher>,
    server: Server,
}

impl TestApi {
    fn new() -> Self {
        let controller = Arc::new(FactPublisher::default());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = serve(listen, Arc::new(SomeMetrics), controller.clone()).unwrap();
        Self { controller, server }
    }

    fn request(&self, path: &str, header: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(client, "GET {path} HTTP/1.0\r\nhost: localhost\r\n{header}\r\n").unwrap();
        client
    }

    /// Status and document.
    fn get(&self, path: &str) -> (u16, Value) {
        let mut response = String::new();
        self.request(path, "").read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}")))
    }

    /// An open stream, whose head was received.
    fn stream(&self, query: &str, header: &str) -> EventReader {
        let mut reader = BufReader::new(self.request(&format!("/v1/events{query}"), header));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        EventReader(reader)
    }

    /// Waits until the history has an event whose text contains `text`.
    fn wait_for(&self, text: &str) -> Value {
        wait_for(text, || {
            let (_, document) = self.get("/v1/events/history?limit=20");
            document.to_string().contains(text).then_some(document)
        })
    }
}

struct EventReader(BufReader<TcpStream>);

impl EventReader {
    /// The name, id and document of the next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", it)) => it.clone_into(&mut name),
                Some(("id", it)) => it.clone_into(&mut id),
                Some(("data", it)) => data = serde_json::from_str(it).unwrap(),
                None if line == "\n" && !name.is_empty() => return Some((name, id, data)),
                _ => {}
            }
        }
    }

    fn text(&mut self) -> String {
        let (_, _, document) = self.next().unwrap();
        document.get("text").and_then(Value::as_str).unwrap().to_owned()
    }
}

fn at(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

fn port(at: SwitchPort, is_up: bool) -> PortInfo {
    let name = format!("s{}-eth{}", at.switch.0, at.port).as_str().into();
    PortInfo { name, hw_addr: MacAddr([0; 6]), is_up, role: PortRole::Edge }
}

/// A switch with two ports connects.
fn connected(id: u64) -> Vec<Fact> {
    let local =
        Port { port_no: PortNo::LOCAL, name: format!("s{id}").as_str().into(), ..Port::default() };
    let features = SwitchFeatures { ports: vec![local], ..SwitchFeatures::default() };
    let ports = [1, 2].map(|no| (PortNo(no), port(at(id, no), true))).into();
    vec![
        Fact::Event(EventFact::new(Notification::SwitchConnected {
            switch: DatapathId(id),
            addr: ([192, 0, 2, 1], 4000).into(),
            version: Version::V1_3,
            features: Arc::new(features),
        })),
        Fact::Switch(DatapathId(id), Some(SwitchInfo { ports })),
    ]
}

fn host(n: u64, at: Option<SwitchPort>) -> Fact {
    let id = HostId { mac: MacAddr::from_u64(n), vlan: VlanId(0) };
    Fact::Host(id, at.map(|at| Host { at, addrs: vec![] }))
}

fn set_port(at: SwitchPort, is_up: bool) -> Fact {
    Fact::Port(at, Some(port(at, is_up)))
}

#[test]
fn what_happens_is_sent_in_order_with_names() {
    let api = TestApi::new();
    let mut stream = api.stream("", "");
    let (a, b) = (at(1, 2), at(2, 2));
    let link = Fact::Link(b, Some(Link { from: a, to: b }));
    api.controller.publish(connected(1).into_iter().chain(connected(2)));
    api.controller.publish([link, host(7, Some(at(1, 1))), host(7, Some(at(2, 1)))]);
    api.controller.publish([Fact::Link(b, None), set_port(a, false), host(7, None)]);
    for expected in [
        "switch connected: s1 address=192.0.2.1:4000 OpenFlow=1.3 count=1",
        "switch connected: s2 address=192.0.2.1:4000 OpenFlow=1.3 count=1",
        "link up: s1 port 2 (s1-eth2) to s2 port 2 (s2-eth2)",
        "host learned: 00:00:00:00:00:07 at s1 port 1 (s1-eth1)",
        "host moved: 00:00:00:00:00:07 from s1 port 1 (s1-eth1) to s2 port 1 (s2-eth1)",
        "link down: s1 port 2 (s1-eth2) to s2 port 2 (s2-eth2) reason=port-down",
        "port down: s1 port 2 (s1-eth2)",
        "host removed: 00:00:00:00:00:07 at s2 port 1 (s2-eth1)",
    ] {
        assert_eq!(stream.text(), expected);
    }
    let (_, document) = api.get("/v1/events/history?kind=host-moved");
    let moved = document.pointer("/events/0").unwrap();
    for (pointer, expected) in [
        ("/kind", "host-moved".into()),
        ("/from/dpid", "0000000000000001".into()),
        ("/to/switch", "s2".into()),
        ("/to/port", 1.into()),
        ("/host/mac", "00:00:00:00:00:07".into()),
        ("/host/vlan", Value::from(0)),
    ] {
        assert_eq!(moved.pointer(pointer), Some(&expected), "{pointer} in {moved}");
    }
}

#[test]
fn a_stream_has_the_events_that_its_filters_select() {
    let api = TestApi::new();
    let mut of_s2 = api.stream("?switch=s2&kind=port-down,port-up", "");
    let mut by_id = api.stream("?switch=0x2", "");
    api.controller.publish(connected(1).into_iter().chain(connected(2)));
    api.controller.publish([set_port(at(1, 1), false), set_port(at(2, 1), false)]);
    assert_eq!(of_s2.text(), "port down: s2 port 1 (s2-eth1)");
    assert!(by_id.text().starts_with("switch connected: s2 "));
    assert_eq!(by_id.text(), "port down: s2 port 1 (s2-eth1)");
    for (path, part) in [
        ("/v1/events?kind=fire", "unknown kind \\\"fire\\\": expected switch-connected, "),
        ("/v1/events?color=red", "color"),
        ("/v1/events?after=yesterday", "last event id"),
        ("/v1/events/history?limit=-1", "limit"),
    ] {
        let (status, document) = api.get(path);
        assert_eq!(status, 400, "{path}: {document}");
        assert!(document.to_string().contains(part), "{path}: {document}");
    }
}

#[test]
fn a_stream_resumes_behind_the_last_event_that_was_received() {
    let api = TestApi::new();
    let mut stream = api.stream("", "");
    api.controller.publish(connected(1));
    let (_, id, _) = stream.next().unwrap();
    drop(stream);
    api.controller.publish([set_port(at(1, 1), false), set_port(at(1, 1), true)]);
    api.wait_for("port up");
    for (query, header) in
        [("", format!("last-event-id: {id}\r\n")), (&*format!("?after={id}"), String::new())]
    {
        let mut resumed = api.stream(query, &header);
        assert_eq!(resumed.text(), "port down: s1 port 1 (s1-eth1)");
        assert_eq!(resumed.text(), "port up: s1 port 1 (s1-eth1)");
    }
}

#[test]
fn a_client_that_comes_back_too_late_or_from_another_run_learns_it() {
    let api = TestApi::new();
    let mut stream = api.stream("", "");
    api.controller.publish(connected(1));
    let (_, id, _) = stream.next().unwrap();
    drop(stream);
    // The first event is the oldest that is kept, and then 10 more than fit.
    let total = HISTORY_MAX + 10;
    for n in 0..total {
        api.controller.publish([host(n, Some(at(1, 1)))]);
    }
    api.wait_for(&MacAddr::from_u64(total - 1).to_string());
    let mut resumed = api.stream("", &format!("last-event-id: {id}\r\n"));
    let (name, _, document) = resumed.next().unwrap();
    assert_eq!((name.as_str(), document.get("lost")), ("gap", Some(&Value::from(10))));
    let oldest = MacAddr::from_u64(10).to_string();
    assert!(resumed.text().contains(&oldest), "the oldest that is kept");

    let mut reset = api.stream("?after=1-1", "");
    let (name, _, document) = reset.next().unwrap();
    assert_eq!((name.as_str(), document.get("reason")), ("reset", Some(&"another-run".into())));
    assert!(reset.text().contains(&oldest));
}

/// In this time, which a busy machine takes for it, another stream receives all of the events.
#[test]
fn a_client_that_does_not_read_loses_its_stream_and_delays_nobody() {
    let api = TestApi::new();
    api.controller.publish(connected(1));
    api.wait_for("switch connected");
    let mut slow = api.stream("", "");
    let mut other = api.stream("?kind=port-down", "");
    // Ten seconds of a storm of 10 000 events per second.
    for second in 0..10 {
        let hosts = (0..10_000).map(|n| host(second * 10_000 + n, Some(at(1, 1))));
        api.controller.publish(hosts);
        api.wait_for(&MacAddr::from_u64(second * 10_000 + 9_999).to_string());
    }
    api.controller.publish([set_port(at(1, 2), false)]);
    assert_eq!(other.text(), "port down: s1 port 2 (s1-eth2)");
    let (_, history) = api.get("/v1/events/history?limit=4096");
    let kept = history.get("events").and_then(Value::as_array).unwrap().len();
    assert_eq!(u64::try_from(kept).unwrap(), HISTORY_MAX, "memory is bounded");
    let mut last = slow.next().unwrap();
    while let Some(next) = slow.next() {
        last = next;
    }
    let (name, _, document) = last;
    assert_eq!((name.as_str(), document.get("reason")), ("end", Some(&"too-slow".into())));
    assert!(document.get("lost").and_then(Value::as_u64).unwrap() > 0, "{document}");
}

#[test]
fn streams_are_limited_and_do_not_count_as_connections() {
    let api = TestApi::new();
    // One address has half of them.
    let mut streams: Vec<_> = (0..STREAMS_MAX / 2).map(|_| api.stream("", "")).collect();
    let (status, document) = api.get("/v1/events");
    assert_eq!(status, 503, "{document}");
    assert_eq!(document.pointer("/error/code"), Some(&"too_many_streams".into()));
    // More than the limit of connections, of which the oldest are closed.
    let others: Vec<_> = (0..100).map(|_| api.request("/v1/controller", "")).collect();
    api.controller.publish(connected(1));
    for stream in &mut streams {
        assert!(stream.text().starts_with("switch connected: s1 "));
    }
    drop((streams.pop(), others));
    wait_until("the server to notice that the client has left", || {
        let mut client = api.request("/v1/events", "");
        let mut status = [0; 12];
        client.read_exact(&mut status).unwrap();
        &status == b"HTTP/1.0 200"
    });
}

#[test]
fn applications_and_limits_are_those_of_the_last_configuration() {
    let api = TestApi::new();
    let settings = [("per_port_max".to_owned(), 5.into())].into();
    api.server.set_settings(Settings {
        applications: vec![ApplicationSettings { name: "hosts".to_owned(), settings }],
        limits: vec![LimitSetting {
            key: "hosts.hosts_max".to_owned(),
            value: 100.into(),
            help: "Hosts that are known at a time.".to_owned(),
        }],
        worker_cores: vec![Some(3), None],
    });
    api.controller.publish(connected(1).into_iter().chain([host(1, Some(at(1, 1)))]));
    api.wait_for("host learned");
    let _stream = api.stream("", "");
    let (_, document) = api.get("/v1/applications");
    let expected = r#"{"applications":[{"name":"hosts","settings":{"per_port_max":5},"metrics":{"hosts":2.0,"hosts_moved":6.0}}]}"#;
    assert_eq!(document, serde_json::from_str::<Value>(expected).unwrap());
    let (_, document) = api.get("/v1/controller");
    let expected = r#"[{"core":3,"switches":0},{"core":null,"switches":0}]"#;
    assert_eq!(document["workers"], serde_json::from_str::<Value>(expected).unwrap());
    let (_, document) = api.get("/v1/limits");
    for (pointer, expected) in [
        ("/limits/0/name", "hosts.hosts_max".into()),
        ("/limits/0/value", 100.into()),
        ("/limits/0/in_use", 1.into()),
        ("/limits/1/name", "event_streams".into()),
        ("/limits/1/in_use", 1.into()),
        ("/limits/1/is_configurable", Value::from(false)),
    ] {
        assert_eq!(document.pointer(pointer), Some(&expected), "{pointer} in {document}");
    }
}

#[test]
fn a_reload_of_the_configuration_is_an_event() {
    let api = TestApi::new();
    let mut stream = api.stream("?kind=configuration-reloaded", "");
    api.server.publish_reload("log.level hosts.hosts_max");
    let text = "configuration reloaded: changed=\"log.level hosts.hosts_max\"";
    assert_eq!(stream.text(), text);
}
