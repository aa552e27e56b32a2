//! Requests with answers to Open vSwitch, by the interface that other threads of the controller use.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use sluice_engine::{Config, Engine, Pin};
use sluice_openflow::{
    Action, DatapathId, Field, FlowMod, FlowStatsRequest, MacAddr, Message, Multipart,
    MultipartReply, MultipartRequest, PortNo,
};
use sluice_sdk::{Answer, App, Controller, Request};
use sluice_system_tests::{
    OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, every_version, wait_until,
};

every_version! {
    requests_are_answered_with_what_the_switch_has_done() = requests;
}

const ADDR: ([u8; 4], u16) = ([127, 0, 0, 1], 6653);

/// As many as a request may have messages, or fewer.
const ENTRIES: u16 = 1000;

/// No application: all that the switch gets are the requests.
struct NoApp;

impl App for NoApp {}

fn ask(controller: &dyn Controller, messages: Vec<Message>) -> Answer {
    let (sender, receiver) = mpsc::channel();
    let request = Request { messages, timeout: Duration::from_secs(10) };
    let on_answer = Box::new(move |answer| sender.send(answer).unwrap());
    controller.request(DatapathId(1), request, on_answer);
    receiver.recv_timeout(SHORT_TIMEOUT).unwrap()
}

fn entry(n: u16) -> Message {
    let to = MacAddr::from_u64(0x0200_0000_0000 | u64::from(n));
    Message::FlowMod(FlowMod::add([Field::eth_dst(to)], [Action::output(PortNo::CONTROLLER)]))
}

fn multipart(request: MultipartRequest) -> Message {
    Message::MultipartRequest(Multipart::single(request))
}

fn requests(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    network.bridge("s1", 1);
    network.limit_flow_entries("s1", ENTRIES);
    let mut config = Config { listen: vec![SocketAddr::from(ADDR)], ..Config::default() };
    (config.workers.threads, config.workers.pin) = (2, Pin::Off);
    let engine = network.env().within(|| Engine::start(config, |_| NoApp).unwrap());
    let controller = engine.handle();
    network.set_controller_at("s1", &SocketAddr::from(ADDR).to_string());
    wait_until(SHORT_TIMEOUT, "the switch", || controller.switches().len() == 1);
    assert_eq!(ask(&controller, (0..ENTRIES).map(entry).collect()), Answer::Done);
    let answer = ask(&controller, vec![entry(0), entry(ENTRIES), entry(1)]).to_string();
    // ALL_TABLES_FULL in 1.0.
    assert!(answer.starts_with("refused: message 2 of the request: FLOW_MOD_FAILED/"), "{answer}");
    assert!(answer.ends_with("TABLE_FULL") || answer.ends_with("TABLES_FULL"), "{answer}");
    assert_eq!(network.flows("s1").len(), usize::from(ENTRIES));
    let all = FlowStatsRequest::default();
    let reply = ask(&controller, vec![multipart(MultipartRequest::FlowDesc(all))]);
    let Answer::Multipart(reply) = reply else { panic!("{reply}") };
    match reply.parse().unwrap() {
        MultipartReply::FlowDesc { flows } => assert_eq!(flows.len(), usize::from(ENTRIES)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        ask(&controller, vec![multipart(MultipartRequest::Desc)]),
        Answer::Multipart(_)
    ));
    let sessions = controller.switches();
    let description = sessions.first().and_then(|session| session.description.as_ref()).unwrap();
    assert_eq!(description.hw.to_string(), "Open vSwitch");
    engine.stop();
    assert_eq!(ask(&controller, vec![entry(0)]), Answer::NotConnected);
}
