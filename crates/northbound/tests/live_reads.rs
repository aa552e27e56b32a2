//! Reads of switches over HTTP: what limits them, and what does not delay whom.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_io::clock;
use sluice_northbound::{Config, Listeners, Server};
use sluice_openflow::{
    DatapathId, Message, Multipart, MultipartReply, MultipartRequest, MultipartType,
    SwitchFeatures, Version,
};
use sluice_sdk::view::{ViewPublisher, ViewSubscription};
use sluice_sdk::{
    Answer, Controller, OnAnswer, ReceivedMultipart, Request, SessionStatistics, SwitchSession,
};

use support::wait_until;

/// What a switch answers to a request, of which it has had so many; `None` if it does not answer.
type Answers = fn(DatapathId, &Message, usize) -> Option<Answer>;

struct ManySwitches {
    count: u64,
    version: Version,
    answers: Answers,
    requests: Mutex<Vec<(DatapathId, &'static str)>>,
    unanswered: Mutex<Vec<OnAnswer>>,
}

impl ManySwitches {
    /// How many requests of a name the switches have received.
    fn requests(&self, name: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|it| it.1 == name).count()
    }

    fn requests_to(&self, id: u64) -> usize {
        self.requests.lock().unwrap().iter().filter(|it| it.0.0 == id).count()
    }
}

impl Controller for ManySwitches {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        let message = &request.messages[0];
        let earlier = self.requests_to(to.0);
        self.requests.lock().unwrap().push((to, message.name()));
        match (self.answers)(to, message, earlier) {
            Some(answer) => on_answer(answer),
            None => self.unanswered.lock().unwrap().push(on_answer),
        }
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        ViewPublisher::new(notify).1
    }

    fn switches(&self) -> Vec<SwitchSession> {
        let session = |id| SwitchSession {
            datapath_id: DatapathId(id),
            version: self.version,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: Duration::ZERO,
            features: Arc::new(SwitchFeatures::default()),
            role: None,
            // So that they are not asked for it.
            description: Some(Arc::default()),
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        };
        (1..=self.count).map(session).collect()
    }
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

/// A server with a TCP listener and a Unix socket, whose clients are different ones.
struct TestApi {
    server: Server,
    socket: PathBuf,
    switches: Arc<ManySwitches>,
}

impl TestApi {
    fn new(name: &str, count: u64, version: Version, answers: Answers) -> Self {
        let socket =
            std::env::temp_dir().join(format!("sluice-{}-{name}.sock", std::process::id()));
        let switches = Arc::new(ManySwitches {
            count,
            version,
            answers,
            requests: Mutex::default(),
            unanswered: Mutex::default(),
        });
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let config = Config { listen, socket: Some(socket.clone()), ..Config::default() };
        let server = Listeners::open(config).unwrap();
        let server = server.serve(Arc::new(NoMetrics), switches.clone()).unwrap();
        Self { server, socket, switches }
    }

    /// Sends a request; the connection to read the response from.
    fn open(&self, line: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(client, "{line} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        client
    }

    fn open_unix(&self, line: &str) -> UnixStream {
        let mut client = UnixStream::connect(&self.socket).unwrap();
        write!(client, "{line} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        client
    }

    fn get(&self, path: &str) -> String {
        response(self.open(&format!("GET {path}"))).1
    }

    /// The value of a metric of the API.
    fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let prefix = format!("sluice_api_{name} ");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        lines.next().unwrap().trim_end_matches(".0").parse().unwrap()
    }

    /// What is in use of a limit.
    fn in_use(&self, limit: &str) -> u64 {
        let document: Value = serde_json::from_str(&self.get("/v1/limits")).unwrap();
        let mut limits = document["limits"].as_array().unwrap().iter();
        let limit = limits.find(|it| it["name"] == limit).unwrap();
        assert!(
            limit["value"].as_u64().unwrap() > 0 && !limit["help"].as_str().unwrap().is_empty()
        );
        limit["in_use"].as_u64().unwrap()
    }
}

/// Status and body of a response.
fn response(mut client: impl Read) -> (u16, String) {
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn silent(_: DatapathId, _: &Message, _: usize) -> Option<Answer> {
    None
}

/// Flow entries are counted and deleted, everything else is not answered.
fn counting(_: DatapathId, message: &Message, _: usize) -> Option<Answer> {
    match message {
        Message::MultipartRequest(Multipart { body, .. }) => {
            let is_count = matches!(body, MultipartRequest::AggregateStats(_));
            let body = [&[0; 16], &7_u32.to_be_bytes()[..], &[0; 4]].concat();
            let kind = MultipartType::AGGREGATE;
            let reply = ReceivedMultipart::new(Version::V1_3, kind, body);
            is_count.then_some(Answer::Multipart(reply))
        }
        _ => Some(Answer::Done),
    }
}

fn no_ports() -> Answer {
    let reply =
        Message::MultipartReply(Multipart::single(MultipartReply::PortStats { ports: vec![] }));
    let bytes = reply.to_vec(Version::V1_3, 1).unwrap();
    let kind = MultipartType::PORT_STATS;
    Answer::Multipart(ReceivedMultipart::new(Version::V1_3, kind, bytes[16..].to_vec()))
}

#[test]
fn one_client_does_not_keep_another_one_from_reading() {
    let api = TestApi::new("shares", 40, Version::V1_3, silent);
    let readers: Vec<_> =
        (1..=30).map(|id| api.open(&format!("GET /v1/switches/{id:x}/description"))).collect();
    wait_until("reads", || api.switches.requests("multipart_request") >= 8);
    let _other = api.open_unix("GET /v1/switches/28/description");
    wait_until("the read of the other client", || api.switches.requests_to(40) == 1);
    assert!(api.switches.requests("multipart_request") <= 13, "its share");
    drop(readers);
}

#[test]
fn deletions_do_not_wait_for_clients_that_read() {
    let api = TestApi::new("deletions", 30, Version::V1_3, counting);
    let readers: Vec<_> =
        (1..=30).map(|id| api.open(&format!("GET /v1/switches/{id:x}/description"))).collect();
    wait_until("reads", || api.switches.requests("multipart_request") >= 8);
    let (status, body) = response(api.open("DELETE /v1/flows?cookie=7"));
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &document["deleted"]), (200, &(30 * 7).into()), "{body}");
    drop(readers);
}

#[test]
fn every_read_of_the_api_of_ryu_is_limited_and_visible() {
    for (version, path) in [
        (Version::V1_3, "role/1"),
        (Version::V1_3, "queueconfig/1"),
        (Version::V1_0, "portdesc/1"),
        (Version::V1_3, "desc/1"),
    ] {
        let name = path.replace('/', "-");
        let api = TestApi::new(&name, 1, version, silent);
        let readers: Vec<_> = (0..3).map(|_| api.open(&format!("GET /stats/{path}"))).collect();
        wait_until("two reads, and one that waits", || {
            let in_progress = api.metric("live_reads_in_progress");
            (in_progress, api.metric("live_reads_waiting")) == (2, 1)
        });
        assert_eq!(api.switches.requests_to(1), 2, "{path}");
        assert_eq!((api.in_use("live_reads"), api.in_use("deletion_reads")), (2, 0));
        let answered = api.switches.unanswered.lock().unwrap().pop();
        answered.unwrap()(Answer::TimedOut);
        wait_until("the third read", || api.switches.requests_to(1) == 3);
        assert_eq!(api.metric("live_reads_refused_total"), 0);
        drop(readers);
    }
}

#[test]
fn the_limits_of_connections_traces_captures_and_reads_are_listed() {
    let api = TestApi::new("limits", 1, Version::V1_3, silent);
    assert!(api.in_use("connections") >= 1);
    for limit in ["traces", "captures", "event_streams", "live_reads_per_second"] {
        assert_eq!(api.in_use(limit), 0, "{limit}");
    }
}

#[test]
fn the_statistics_of_all_ports_are_read_within_the_rate_of_all_reads() {
    let api = TestApi::new("statistics", 600, Version::V1_3, |_, _, _| Some(no_ports()));
    let started = clock::now();
    api.get("/v1/ports/busiest");
    let requests = || api.switches.requests("multipart_request");
    let mut counts = Vec::new();
    wait_until("more than the burst", || {
        let count = requests();
        counts.push((count, clock::now().saturating_duration_since(started)));
        count >= 300
    });
    for (count, time) in counts {
        let most = 101 + 120 * time.as_millis() / 1000;
        assert!(count as u128 <= most, "{count} reads in {time:?}");
    }
}

#[test]
fn switches_that_do_not_answer_do_not_delay_the_statistics_of_others() {
    // After the first time.
    fn answers(id: DatapathId, _: &Message, earlier: usize) -> Option<Answer> {
        match (id.0, earlier) {
            (21.., _) => Some(no_ports()),
            (_, 0) => Some(Answer::TimedOut),
            _ => None,
        }
    }
    let api = TestApi::new("silent", 40, Version::V1_3, answers);
    wait_until("the third reading of the others", || {
        api.get("/v1/ports/busiest");
        (21..=40).all(|id| api.switches.requests_to(id) >= 3)
    });
    let silent = (1..=20).filter(|&id| api.switches.requests_to(id) > 1).count();
    assert!(silent <= 2, "{silent} of them at a time");
}
