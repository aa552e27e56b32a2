//! A controller of one switch that has an empty table and accepts everything but port 13, with a store and the API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_declared::reconcile::Timing;
use sluice_declared::{Config, DEFAULT_TAGS, Declared, Reserved};
use sluice_northbound::{Config as ApiConfig, Listeners, Server};
use sluice_openflow::{
    DatapathId, ErrorReason, Message, MultipartType, Port, PortNo, SwitchFeatures, Version,
};
use sluice_sdk::allocation::Allocations;
use sluice_sdk::view::{
    Fact, IsolatedPort, NetworkView, PublishedFact, RecordFact, Stamp, ViewPublisher,
    ViewSubscription,
};
use sluice_sdk::{
    Answer, Controller, OnAnswer, ReceivedMultipart, Refusal, Request, SessionStatistics,
    SwitchSession,
};

/// The switch, and a view with what was published.
#[derive(Default)]
pub(crate) struct EmptySwitch {
    view: Mutex<View>,
}

#[derive(Default)]
struct View {
    publishers: Vec<ViewPublisher>,
    facts: Vec<PublishedFact>,
}

impl EmptySwitch {
    pub(crate) fn publish_facts(&self, facts: Vec<Fact>) {
        let mut view = self.view.lock().unwrap();
        let first = view.facts.len();
        for fact in facts {
            let later = Duration::from_nanos(u64::try_from(view.facts.len()).unwrap());
            let stamp = Stamp::new(sluice_io::clock::now() + later, 0);
            view.facts.push(PublishedFact { fact, stamp });
        }
        let new: Arc<[_]> = view.facts[first..].into();
        view.publishers.iter().for_each(|publisher| publisher.publish(&new));
    }
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
        let mut view = self.view.lock().unwrap();
        publisher.publish(&view.facts.clone().into());
        view.publishers.push(publisher);
        subscription
    }

    fn publish(&self, records: Vec<RecordFact>) -> bool {
        self.publish_facts(records.into_iter().map(Fact::Record).collect());
        true
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
                ports: vec![Port { port_no: PortNo(2), ..Port::default() }],
                ..SwitchFeatures::default()
            }),
            role: None,
            description: None,
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        }]
    }
}

/// A server with a store, which is empty at first and removed at the end.
pub(crate) struct TestServer {
    server: Option<Server>,
    pub(crate) controller: Arc<EmptySwitch>,
    dir: PathBuf,
}

impl TestServer {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sluice-api-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let mut new = Self { server: None, controller: Arc::default(), dir };
        new.start();
        new
    }

    fn start(&mut self) {
        let config = Config {
            state_dir: self.dir.clone(),
            reserved: Reserved::new(&Allocations::default(), [("forwarding", 100..=102)]),
            timing: Timing::default(),
            policy_tags: DEFAULT_TAGS,
        };
        let controller = self.controller.clone();
        let declared = Arc::new(Declared::start(&config, controller.clone()).unwrap());
        let listen = ApiConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listeners = Listeners::open(listen).unwrap();
        let server = listeners.with_declared(declared).serve(Arc::new(NoMetrics), controller);
        self.server = Some(server.unwrap());
    }

    /// The controller is another one, with the same store; its view is empty.
    pub(crate) fn restart(&mut self) {
        self.server.take();
        self.controller = Arc::default();
        self.start();
    }

    /// The directory of the store, which is made with the first change.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.dir
    }

    /// The ports to which nothing is flooded.
    pub(crate) fn isolated_ports(&self) -> Vec<u32> {
        let mut view = NetworkView::default();
        for fact in &self.controller.view.lock().unwrap().facts {
            view.apply(fact);
        }
        view.records::<IsolatedPort>().map(|(at, _)| at.port.0).collect()
    }

    fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address().unwrap()
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
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
    pub(crate) fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, document) = self.call(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {document}");
        document
    }

    #[track_caller]
    pub(crate) fn error(&self, method: &str, path: &str, body: &Value) -> (u16, String, String) {
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

pub(crate) const NONE: Value = Value::Null;
