//! Requests with answers: each gets exactly one, whatever happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_engine::Config;
use sluice_io::simulated::{BufferSizes, ClockError};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, ControllerStatus, DatapathId, ErrorReason, ErrorType, FlowMod, GroupMod, Message,
    MessageType, Multipart, MultipartReply, MultipartRequest, PacketOut, PortNo,
};
use sluice_sdk::{Answer, App, Controller, Ctx, Network, Request, Ticket, Verdict};

use crate::packet_in;
use crate::test_engine::{TestEngine, TestSwitch};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the request that it is configured with when a packet-in arrives, and records the answers.
#[derive(Default)]
struct Asker {
    next: Vec<(DatapathId, Vec<Message>)>,
    answers: BTreeMap<Ticket, Vec<Answer>>,
    /// Replies that came without a ticket.
    without_ticket: u32,
}

impl App for Asker {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for (to, messages) in std::mem::take(&mut self.next) {
            let ticket = ctx.network.request_all(to, messages, TIMEOUT);
            assert!(self.answers.insert(ticket, Vec::new()).is_none());
        }
        Verdict::Stop
    }

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, _: Instant, _: &mut Network) {
        self.answers.get_mut(&ticket).unwrap().push(answer.clone());
    }

    fn on_barrier_reply(&mut self, _: u32, _: &mut Ctx<'_>) {
        self.without_ticket += 1;
    }
}

/// The answers to requests of a thread that is no worker.
#[derive(Clone, Default)]
struct Answered(Arc<Mutex<Vec<Answer>>>);

impl Answered {
    fn request<A: App + 'static>(&self, test: &TestEngine<A>, to: u64, messages: Vec<Message>) {
        let answered = self.0.clone();
        let on_answer = Box::new(move |answer| answered.lock().unwrap().push(answer));
        let request = Request { messages, timeout: TIMEOUT };
        test.engine.handle().request(DatapathId(to), request, on_answer);
    }

    fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn take_one(&self) -> Answer {
        let [answer] = <[Answer; 1]>::try_from(self.take()).unwrap();
        answer
    }
}

fn flow_mod(cookie: u64) -> Message {
    Message::FlowMod(FlowMod { cookie, ..FlowMod::delete([]) })
}

fn packet_out() -> Message {
    Message::PacketOut(PacketOut {
        actions: vec![Action::output(PortNo(1))],
        data: vec![0; 64],
        ..PacketOut::default()
    })
}

fn desc_request() -> Message {
    Message::MultipartRequest(Multipart::single(MultipartRequest::Desc))
}

fn engine() -> TestEngine<Asker> {
    TestEngine::new(&[ClockError::default(); 2], |_| Asker::default())
}

/// The types of the messages that a switch has received, with their transaction ids.
fn received(switch: &mut TestSwitch, test: &TestEngine<Asker>) -> Vec<(MessageType, u32)> {
    switch.receive_raw(&test.kernel, |msg| (msg.kind(), msg.xid()))
}

#[test]
fn a_message_without_a_reply_is_done_when_the_barrier_behind_it_is_answered() {
    let mut test = engine();
    let (mut switch, answered) = (test.connect(1), Answered::default());
    received(&mut switch, &test);
    for _ in 0..3 {
        answered.request(&test, 1, vec![flow_mod(1)]);
    }
    test.run_all();
    let messages = received(&mut switch, &test);
    let kinds: Vec<_> = messages.iter().map(|&(kind, _)| kind).collect();
    let (flow_mod, barrier) = (MessageType::FLOW_MOD, MessageType::BARRIER_REQUEST);
    assert_eq!(
        kinds,
        [flow_mod, flow_mod, flow_mod, barrier],
        "one barrier for all of an iteration"
    );
    assert!(answered.take().is_empty());
    let (_, second) = *messages.get(1).unwrap();
    let refused = ErrorReason::Standard {
        kind: ErrorType::FLOW_MOD_FAILED,
        code: sluice_openflow::ErrorCode(1),
    };
    switch.send_error(&test.kernel, second, refused);
    test.run_all();
    assert_eq!(answered.take_one().to_string(), "refused: FLOW_MOD_FAILED/TABLE_FULL");
    switch.send_with_xid(&test.kernel, messages.last().unwrap().1, &Message::BarrierReply);
    test.run_all();
    assert_eq!(answered.take(), [Answer::Done, Answer::Done]);
    assert!(test.engine.apps().all(|app| app.without_ticket == 0));
}

#[test]
fn of_several_messages_the_first_that_is_refused_is_named_when_all_are_processed() {
    let mut test = engine();
    let (mut switch, answered) = (test.connect(1), Answered::default());
    received(&mut switch, &test);
    answered.request(&test, 1, vec![flow_mod(1), desc_request(), flow_mod(2), flow_mod(3)]);
    test.run_all();
    let xids: Vec<_> = received(&mut switch, &test).iter().map(|&(_, xid)| xid).collect();
    for index in [3, 2] {
        switch.send_error(&test.kernel, *xids.get(index).unwrap(), ErrorReason::BAD_LEN);
    }
    test.run_all();
    assert!(answered.take().is_empty());
    switch.send_with_xid(&test.kernel, *xids.last().unwrap(), &Message::BarrierReply);
    test.run_all();
    assert_eq!(
        answered.take_one().to_string(),
        "refused: message 3 of the request: BAD_REQUEST/BAD_LEN"
    );
}

#[test]
fn a_request_with_a_reply_gets_it_whoever_asks_and_wherever_the_switch_is() {
    let mut test = engine();
    // The workers of the two switches differ.
    let (mut first, mut second, answered) = (test.connect(1), test.connect(2), Answered::default());
    answered.request(&test, 2, vec![Message::GetConfigRequest]);
    answered.request(&test, 2, vec![Message::EchoRequest { data: b"sluice".to_vec() }]);
    answered.request(&test, 2, vec![desc_request()]);
    for app in test.engine.apps_mut() {
        app.next = [1, 2].map(|to| (DatapathId(to), vec![Message::BarrierRequest])).into();
    }
    first.send(&test.kernel, &packet_in());
    second.send(&test.kernel, &packet_in());
    for _ in 0..3 {
        test.run_all();
        first.answer(&test.kernel);
        second.answer(&test.kernel);
    }
    test.run_all();
    let answers = answered.take();
    assert!(matches!(answers.first(), Some(Answer::Reply(Message::GetConfigReply(_)))));
    let echo = Message::EchoReply { data: b"sluice".to_vec() };
    assert_eq!(answers.get(1), Some(&Answer::Reply(echo)));
    let Some(Answer::Multipart(reply)) = answers.get(2) else { panic!("{answers:?}") };
    assert!(matches!(reply.parse(), Ok(MultipartReply::Desc(_))));
    for app in test.engine.apps() {
        let reply = vec![Answer::Reply(Message::BarrierReply)];
        assert_eq!(app.answers.values().collect::<Vec<_>>(), [&reply, &reply]);
        assert_eq!(app.without_ticket, 0);
    }
    let described = test.engine.handle().switches();
    let described: Vec<_> =
        described.iter().map(|it| (it.datapath_id.0, &it.description)).collect();
    assert!(matches!(*described, [(1, None), (2, Some(_))]), "{described:?}");
}

#[test]
fn what_cannot_be_sent_is_answered_at_once() {
    let mut test = engine();
    let (mut switch, answered) = (test.connect(1), Answered::default());
    received(&mut switch, &test);
    answered.request(&test, 9, vec![flow_mod(1)]);
    test.run_all();
    assert_eq!(answered.take_one(), Answer::NotConnected);
    let controller_status = Message::ControllerStatus(ControllerStatus::default());
    answered.request(&test, 1, vec![flow_mod(1), controller_status]);
    test.run_all();
    assert!(matches!(answered.take_one(), Answer::Unsupported { index: 1, .. }));
    assert_eq!(received(&mut switch, &test), [], "nothing was sent");
    for count in [1025, 1024, 1] {
        answered.request(&test, 1, vec![Message::BarrierRequest; count]);
        test.run_all();
    }
    assert_eq!(answered.take(), [Answer::TooMany, Answer::TooMany]);
    test.kernel.peer_reset(switch.peer);
    test.run_all();
    assert_eq!(answered.take_one(), Answer::Disconnected);
}

#[test]
fn a_request_is_refused_while_its_switch_is_paused_and_when_queues_are_full() {
    let mut cfg = Config::default();
    cfg.limits.backlog_bytes_max = 4096;
    cfg.limits.queue_capacity = 16;
    let mut test = TestEngine::with_config(cfg, &[ClockError::default()], |_| Asker::default());
    let (switch, answered) = (test.connect(1), Answered::default());
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 100, receive: 1 << 20 });
    for _ in 0..6 {
        answered.request(&test, 1, vec![packet_out(); 12]);
        answered.request(&test, 1, vec![packet_out()]);
        test.run_all();
    }
    let answers = answered.take();
    assert!(answers.contains(&Answer::Paused) && answers.contains(&Answer::TooMany));
    assert!(answers.iter().all(Answer::is_unsent), "{answers:?}");
}

#[test]
fn a_lost_answer_is_a_timeout_and_one_that_is_late_goes_to_nobody() {
    let mut test = engine();
    let (mut switch, answered) = (test.connect(1), Answered::default());
    received(&mut switch, &test);
    answered.request(&test, 1, vec![flow_mod(1)]);
    answered.request(&test, 1, vec![Message::GetConfigRequest]);
    test.run_all();
    let messages = received(&mut switch, &test);
    test.pass(Duration::from_millis(4900));
    switch.send(&test.kernel, &Message::EchoRequest { data: vec![] });
    test.run_all();
    assert!(answered.take().is_empty());
    test.pass(Duration::from_millis(200));
    test.run_all();
    assert_eq!(answered.take(), [Answer::TimedOut, Answer::TimedOut]);
    for (kind, xid) in messages {
        if kind == MessageType::BARRIER_REQUEST {
            switch.send_with_xid(&test.kernel, xid, &Message::BarrierReply);
        }
    }
    test.run_all();
    assert!(answered.take().is_empty());
}

/// Changes of the tables overtake packet-outs that wait to be sent, and so would the barrier.
#[test]
fn a_packet_out_is_confirmed_by_a_barrier_that_nothing_overtakes() {
    let mut test = engine();
    let (mut switch, answered) = (test.connect(1), Answered::default());
    received(&mut switch, &test);
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 100, receive: 1 << 20 });
    answered.request(&test, 1, vec![packet_out(); 3]);
    test.run_all();
    answered.request(&test, 1, vec![flow_mod(1)]);
    answered.request(&test, 1, vec![packet_out()]);
    let mut messages = Vec::new();
    for _ in 0..100 {
        test.run_all();
        messages.extend(received(&mut switch, &test));
    }
    let kinds: Vec<_> = messages.iter().map(|&(kind, _)| kind).collect();
    let barrier = MessageType::BARRIER_REQUEST;
    let flow_mod_at = kinds.iter().position(|&kind| kind == MessageType::FLOW_MOD).unwrap();
    assert!(flow_mod_at < 3, "the flow-mod does not overtake: {kinds:?}");
    let packet_outs = kinds.iter().filter(|&&kind| kind == MessageType::PACKET_OUT).count();
    assert_eq!((packet_outs, *kinds.last().unwrap()), (4, barrier), "{kinds:?}");
    for (_, xid) in messages.into_iter().filter(|&(kind, _)| kind == barrier) {
        switch.send_with_xid(&test.kernel, xid, &Message::BarrierReply);
    }
    test.run_all();
    assert_eq!(answered.take(), [Answer::Done, Answer::Done, Answer::Done]);
}

/// Random requests of applications and of another thread, to switches of both workers that answer late, never or with errors,
/// disconnect and connect again, and move between workers at any moment; threads run in random order.
#[test]
fn every_request_gets_exactly_one_answer_whatever_happens() {
    let mut kinds = BTreeMap::new();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut cfg = Config::default();
        cfg.limits.queue_capacity = [4096, 8].get(rng.below(2) as usize).copied().unwrap();
        let clocks = [ClockError::default(); 3];
        let mut test = TestEngine::with_config(cfg, &clocks, |_| Asker::default());
        let mut switches: Vec<_> = (1..=4).map(|id| test.connect(id)).collect();
        let (answered, mut asked) = (Answered::default(), 0);
        for _ in 0..500 {
            let (n, to) = (rng.below(4) as usize, u64::from(rng.below(5) + 1));
            match rng.below(12) {
                0 | 1 => {
                    answered.request(&test, to, random_messages(&mut rng));
                    asked += 1;
                }
                2 | 3 => {
                    let app = test.engine.apps_mut().nth(rng.below(3) as usize).unwrap();
                    app.next.push((DatapathId(to), random_messages(&mut rng)));
                    switches.get(n).unwrap().send(&test.kernel, &packet_in());
                }
                4 => test.engine.move_switch(DatapathId(to), rng.below(3) as usize),
                5 | 6 => answer_at_random(switches.get_mut(n).unwrap(), &test, &mut rng),
                7 if rng.below(8) == 0 => {
                    let id = n as u64 + 1;
                    test.kernel.peer_reset(switches.get(n).unwrap().peer);
                    for _ in 0..rng.below(6) {
                        test.run(rng.below(4) as usize);
                    }
                    *switches.get_mut(n).unwrap() = test.connect(id);
                }
                8 if rng.below(20) == 0 => test.pass(Duration::from_secs(1)),
                _ => test.run(rng.below(4) as usize),
            }
        }
        test.run_all();
        test.pass(TIMEOUT + Duration::from_secs(1));
        test.run_all();
        let answers = answered.take();
        assert_eq!(answers.len(), asked, "seed {seed}");
        let of_apps = test.engine.apps().flat_map(|app| app.answers.values());
        for (answers, ticket) in of_apps.zip(0..) {
            assert_eq!(answers.len(), 1, "seed {seed}, ticket {ticket}: {answers:?}");
        }
        let of_apps = test.engine.apps().flat_map(|app| app.answers.values().flatten());
        for answer in of_apps.chain(&answers) {
            *kinds.entry(kind(answer)).or_insert(0) += 1;
        }
    }
    let missing = ["done", "multipart", "refused", "disconnected", "timed out", "not connected"];
    assert!(missing.iter().all(|kind| kinds.contains_key(kind)), "{kinds:?}");
}

#[test]
fn requests_are_answered_when_the_engine_stops() {
    let mut test = engine();
    let (_switch, answered) = (test.connect(1), Answered::default());
    answered.request(&test, 1, vec![flow_mod(1)]);
    test.run_all();
    let handle = test.engine.handle();
    test.engine.stop();
    answered.request(&test, 1, vec![flow_mod(1)]);
    (0..3).for_each(|thread| test.run(thread));
    drop(test);
    assert_eq!(answered.take(), [Answer::Disconnected, Answer::Disconnected]);
    let again = answered.0.clone();
    let request = Request { messages: vec![flow_mod(1)], timeout: TIMEOUT };
    handle.request(DatapathId(1), request, Box::new(move |it| again.lock().unwrap().push(it)));
    assert_eq!(answered.take(), [Answer::NotConnected]);
}

fn random_messages(rng: &mut Rng) -> Vec<Message> {
    match rng.below(6) {
        0 => vec![desc_request()],
        1 => vec![Message::GetConfigRequest],
        2 => vec![packet_out()],
        3 => (0..rng.below(4)).map(|n| flow_mod(n.into())).collect(),
        4 => vec![Message::GroupMod(GroupMod::default())],
        _ => vec![flow_mod(7)],
    }
}

/// Answers each message that has arrived, unless that gets lost, or refuses it.
fn answer_at_random(switch: &mut TestSwitch, test: &TestEngine<Asker>, rng: &mut Rng) {
    let messages = switch.receive_raw(&test.kernel, |msg| msg.bytes().to_vec());
    for bytes in messages {
        let msg = sluice_openflow::RawMessage::new(&bytes).unwrap();
        match rng.below(8) {
            0 => {}
            1 => switch.send_error(&test.kernel, msg.xid(), ErrorReason::BAD_LEN),
            _ => switch.answer_message(&test.kernel, msg),
        }
    }
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done => "done",
        Answer::Multipart(_) => "multipart",
        Answer::Refused(_) => "refused",
        Answer::Disconnected => "disconnected",
        Answer::TimedOut => "timed out",
        Answer::NotConnected => "not connected",
        _ => "other",
    }
}
