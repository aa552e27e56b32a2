//! A controller of one switch that records what is sent to it, and its API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_northbound::{Server, serve};
use sluice_openflow::{
    DatapathId, MacAddr, Message, Multipart, MultipartReply, MultipartType, Port, PortNo,
    SwitchFeatures, Version,
};
use sluice_sdk::view::{ViewPublisher, ViewSubscription};
use sluice_sdk::{
    Answer, Controller, OnAnswer, ReceivedMultipart, Request, SessionStatistics, SwitchSession,
};

/// The datapath id of the switch.
pub(crate) const DPID: u64 = 1;

pub(crate) struct Recorder {
    version: Version,
    /// What the switch answers; a barrier's reply to what has no other.
    answer: fn(&Message, Version) -> Answer,
    pub(crate) sent: Mutex<Vec<Message>>,
}

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

impl Controller for Recorder {
    fn request(&self, _: DatapathId, request: Request, on_answer: OnAnswer) {
        let [message] = <[Message; 1]>::try_from(request.messages).unwrap();
        // As the engine does.
        let answer = match message.to_vec(self.version, 1) {
            Ok(_) => (self.answer)(&message, self.version),
            Err(error) => Answer::Unsupported { index: 0, error },
        };
        self.sent.lock().unwrap().push(message);
        on_answer(answer);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        ViewPublisher::new(notify).1
    }

    fn switches(&self) -> Vec<SwitchSession> {
        let port = Port {
            port_no: PortNo(1),
            hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
            name: "s1-eth1".into(),
            ..Port::default()
        };
        let features = SwitchFeatures { ports: vec![port], ..SwitchFeatures::default() };
        vec![SwitchSession {
            datapath_id: DatapathId(DPID),
            version: self.version,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: Duration::ZERO,
            features: Arc::new(features),
            role: None,
            // So that it is not asked for it.
            description: Some(Arc::default()),
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        }]
    }
}

pub(crate) struct Api {
    server: Server,
    pub(crate) recorder: Arc<Recorder>,
}

impl Api {
    pub(crate) fn new(version: Version, answer: fn(&Message, Version) -> Answer) -> Self {
        let recorder = Arc::new(Recorder { version, answer, sent: Mutex::default() });
        let controller = Arc::clone(&recorder) as Arc<dyn Controller>;
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { server: serve(listen, Arc::new(NoMetrics), controller).unwrap(), recorder }
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.request_of("localhost:8080", method, path, body)
    }

    /// A request whose header `Host` has this name.
    pub(crate) fn request_of(
        &self,
        host: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, String) {
        let mut client = TcpStream::connect(self.server.address().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let length = body.len();
        // As curl sends it: the type of the content is not that of JSON.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-length: {length}\r\n\
             content-type: application/x-www-form-urlencoded\r\n\r\n"
        );
        client.write_all((head + body).as_bytes()).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.request("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The message that a request sends; the answer must be Ryu's.
    pub(crate) fn sent(&self, method: &str, path: &str, body: &str) -> Message {
        assert_eq!(self.request(method, path, body), (200, String::new()), "{path} {body}");
        self.recorder.sent.lock().unwrap().pop().unwrap()
    }

    /// The status of a refused request, and the message of its error.
    pub(crate) fn error(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, answer) = self.request(method, path, body);
        let document: Value = serde_json::from_str(&answer)
            .unwrap_or_else(|_| panic!("{path} {body}: {status} {answer}"));
        (status, document["error"]["message"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn done(_: &Message, _: Version) -> Answer {
    Answer::Done
}

pub(crate) fn received(reply: MultipartReply, version: Version) -> Answer {
    let message = Message::MultipartReply(Multipart::single(reply));
    let bytes = message.to_vec(version, 1).unwrap();
    // Behind the headers of message and multipart.
    let start = if version == Version::V1_0 { 12 } else { 16 };
    let kind = MultipartType(u16::from_be_bytes([bytes[8], bytes[9]]));
    Answer::Multipart(ReceivedMultipart::new(version, kind, bytes[start..].to_vec()))
}

/// The change of flow entries that a request to add one makes, in the syntax of `ovs-ofctl`.
pub(crate) fn added(version: Version, flow: &str) -> String {
    let body = format!("{{\"dpid\": {DPID}, {flow}}}");
    match Api::new(version, done).sent("POST", "/stats/flowentry/add", &body) {
        Message::FlowMod(flow_mod) => flow_mod.to_text(),
        other => panic!("{other:?}"),
    }
}
