//! An engine that answers in the place of `forwarding` sends what `hosts` and `forwarding` would send, whatever happens to hosts, ports and the
//! switch.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Matching};
use sluice_base::Rng;
use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{
    DatapathId, ErrorType, Ethernet, FlowModCommand, MacAddr, Message, NO_BUFFER, PacketInReason,
    PortNo, Version,
};
use sluice_sdk::view::{Fact, Host, HostInDoubt, PortRole, PublishedFact, Stamp, SwitchPort};
use sluice_sdk::{
    AnswerCache, AnswerForm, AnswerRule, AnsweredPacket, App, HostEntry, SwitchIndex,
};

use crate::fast_path::{
    Input, Output, PAIR_COOKIE, REMOTE_SWITCH, ReadMetrics, SWITCH, TestWorker, flow_mod_error,
    handle_one_by_one, host, port, random_input,
};

const SW: SwitchIndex = SwitchIndex(0);

/// What an engine knows that answers in the place of the application, and how it decides.
#[derive(Debug, Default)]
struct ModelCache {
    flow_mod: Vec<u8>,
    packet_out: Vec<u8>,
    hold_time: Duration,
    hosts: BTreeMap<MacAddr, HostEntry>,
    held_until: BTreeMap<[MacAddr; 2], Instant>,
    answered: VecDeque<AnsweredPacket>,
    /// Answers in another form are on their way.
    is_busy: bool,
}

impl AnswerCache for ModelCache {
    fn set_tick(&mut self, tick: u16) {
        panic!("{tick}");
    }

    fn for_each_seen(&self, tick: u16, _: &mut dyn FnMut(SwitchIndex, MacAddr, u16)) {
        panic!("{tick}");
    }

    fn set_form(&mut self, _: SwitchIndex, form: &AnswerForm<'_>) -> bool {
        let AnswerRule::Paths { hold_time } = form.rule else { panic!("{form:?}") };
        if self.is_busy {
            return false;
        }
        self.hold_time = hold_time;
        (self.flow_mod, self.packet_out) = (form.flow_mod.to_vec(), form.packet_out.to_vec());
        true
    }

    fn publish(&mut self, _: SwitchIndex, host: MacAddr, _: PortNo, _: u16) {
        panic!("{host}");
    }

    fn publish_path_host(&mut self, _: SwitchIndex, host: MacAddr, entry: HostEntry) {
        self.hosts.insert(host, entry);
    }

    fn withdraw(&mut self, _: SwitchIndex, host: MacAddr) {
        self.hosts.remove(&host);
    }

    fn withdraw_all(&mut self, _: SwitchIndex) {
        self.hosts.clear();
    }

    fn hold(&mut self, hosts: [MacAddr; 2], until: Instant) {
        let held_until = self.held_until.entry(sorted(hosts)).or_insert(until);
        *held_until = until.max(*held_until);
    }
}

fn sorted(mut pair: [MacAddr; 2]) -> [MacAddr; 2] {
    pair.sort_unstable();
    pair
}

/// Offsets of the values in both messages: buffer, ingress port, source, destination and output of the flow entry, ingress port and
/// output of the packet-out.
const OFFSETS_V1_0: [usize; 7] = [64, 12, 14, 20, 76, 12, 20];
const OFFSETS_V1_3: [usize; 7] = [32, 56, 64, 74, 100, 12, 28];

impl ModelCache {
    /// Answers a packet-in, if the engine may. Returns whether it does.
    fn answer(&mut self, p: &PacketIn<'_>, at: Instant, worker: &mut TestWorker) -> bool {
        let Some(eth) = Ethernet::new(p.frame).filter(|eth| !eth.tagged) else { return false };
        let is_incomplete = p.buffer_id.is_none() && p.frame.len() + 4 < p.total_len.into();
        let entries = (self.hosts.get(&eth.src).copied(), self.hosts.get(&eth.dst).copied());
        let (false, 38..=2048, (Some(src), Some(dst))) = (is_incomplete, p.frame.len(), entries)
        else {
            return false;
        };
        let is_between_hosts = src.port() == p.in_port && dst.port() != p.in_port;
        if !is_between_hosts || !src.is_ordinary(eth.header, p.frame) {
            return false;
        }
        let pair = sorted([eth.src, eth.dst]);
        if self.hold_time > Duration::ZERO {
            if self.held_until.get(&pair).is_some_and(|&until| until > at) {
                return false;
            }
            self.held_until.insert(pair, at + self.hold_time);
        }
        let (buffer, ports) = (p.buffer_id.unwrap_or(NO_BUFFER), [p.in_port, dst.port()]);
        self.append_flow_mod(worker, NO_BUFFER, [eth.dst, eth.src], [ports[1], ports[0]]);
        self.append_flow_mod(worker, buffer, [eth.src, eth.dst], ports);
        if p.buffer_id.is_none() {
            self.append_packet_out(worker, ports, p.frame);
        }
        self.answered.push_back(AnsweredPacket { switch: SW, src: eth.src, dst: eth.dst, at });
        true
    }

    fn append_flow_mod(
        &self,
        worker: &mut TestWorker,
        buffer: u32,
        [src, dst]: [MacAddr; 2],
        [in_port, out_port]: [PortNo; 2],
    ) {
        let mut message = self.flow_mod.clone();
        let [buffer_at, in_at, src_at, dst_at, out_at, ..] = offsets(&message);
        put(&mut message, buffer_at, &buffer.to_be_bytes());
        put(&mut message, src_at, &src.0);
        put(&mut message, dst_at, &dst.0);
        put_port(&mut message, in_at, in_port);
        put_port(&mut message, out_at, out_port);
        append(worker, message);
    }

    fn append_packet_out(&self, worker: &mut TestWorker, ports: [PortNo; 2], frame: &[u8]) {
        let mut message = [&self.packet_out, frame].concat();
        let [.., in_at, out_at] = offsets(&message);
        let len = u16::try_from(message.len()).unwrap();
        put(&mut message, 2, &len.to_be_bytes());
        put_port(&mut message, in_at, ports[0]);
        put_port(&mut message, out_at, ports[1]);
        append(worker, message);
    }
}

fn offsets(message: &[u8]) -> [usize; 7] {
    if message[0] == 1 { OFFSETS_V1_0 } else { OFFSETS_V1_3 }
}

fn put(message: &mut [u8], at: usize, value: &[u8]) {
    message[at..at + value.len()].copy_from_slice(value);
}

fn put_port(message: &mut [u8], at: usize, port: PortNo) {
    if message[0] == 1 {
        put(message, at, &u16::try_from(port.0).unwrap().to_be_bytes());
    } else {
        put(message, at, &port.0.to_be_bytes());
    }
}

fn append(worker: &mut TestWorker, mut message: Vec<u8>) {
    put(&mut message, 4, &worker.next_xid.to_be_bytes());
    worker.next_xid += 1;
    worker.tx.extend(message);
}

/// The engine of a worker, which answers in its place while the gate is open.
#[derive(Debug, Default)]
struct ModelEngine {
    cache: ModelCache,
    is_open: bool,
    answered: u32,
    /// How often the application was asked to publish.
    publications: u32,
}

impl ModelEngine {
    /// Has the applications take over what the engine has answered.
    fn update(&mut self, worker: &mut TestWorker, now: Instant) {
        worker.apps.1.update_from_answers(now, &mut self.cache);
        while let Some(answered) = self.cache.answered.pop_front() {
            worker.apps.1.on_answered(&answered, &mut worker.network);
        }
    }

    /// Before the applications handle anything of the switch.
    fn close(&mut self, worker: &mut TestWorker, now: Instant) {
        self.is_open = false;
        self.update(worker, now);
    }

    fn handle(&mut self, worker: &mut TestWorker, mut packets: PacketIns<'_>, now: Instant) {
        while self.is_open {
            let Some(p) = packets.next() else { return };
            if self.cache.answer(&p, now, worker) {
                self.answered += 1;
            } else {
                self.close(worker, now);
                worker.call(|app, ctx| app.on_packet_in(&p, ctx));
            }
        }
        worker.call(|app, ctx| app.on_packet_ins(&mut packets, ctx));
    }

    fn process(&mut self, worker: &mut TestWorker, input: &Input, now: Instant) {
        if matches!(input, Input::Tick | Input::TableFull) {
            self.close(worker, now);
        }
        input.process(worker, now, |worker, packets| self.handle(worker, packets, now));
        self.update(worker, now);
    }

    /// The end of an iteration.
    fn publish(&mut self, worker: &mut TestWorker, now: Instant) {
        let changed = worker.network.fast_path_hosts().take_changed_switches();
        if !self.is_open || changed.contains(&SW) {
            self.close(worker, now);
            self.publications += 1;
            let (network, cache) = (&mut worker.network, &mut self.cache);
            self.is_open = worker.apps.1.publish_answers(SW, now, network, cache);
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

/// Asserts that a worker in whose place an engine answers sends, publishes and counts the same as one alone. Returns the number of
/// answers of the engine.
fn compare(cfg: &forwarding::Config, version: Version, hosts: u32, seed: u64) -> u32 {
    let (mut rng, mut now) = (Rng::new(seed), now());
    let [mut alone, mut behind] = [(); 2].map(|()| TestWorker::new(cfg, version, now));
    let mut engine = ModelEngine::default();
    for worker in [&mut alone, &mut behind] {
        worker.iterate(now, ReadMetrics::No, |_| ());
    }
    for step in 0..1000 {
        now += Duration::from_micros(rng.below(40_000).into());
        let input = random_input(&mut rng, hosts, version);
        let read_metrics = if step % 20 == 19 { ReadMetrics::Yes } else { ReadMetrics::No };
        let expected = alone.iterate(now, read_metrics, |worker| {
            input.process(worker, now, handle_one_by_one);
        });
        engine.update(&mut behind, now);
        let output = behind.iterate(now, read_metrics, |worker| {
            engine.process(worker, &input, now);
        });
        assert_eq!(output, expected, "{version} {cfg:?} seed {seed} step {step}");
        engine.publish(&mut behind, now);
    }
    engine.answered
}

#[test]
fn an_engine_that_repeats_what_was_published_sends_what_the_applications_would_send() {
    let refused_retry = Duration::from_millis(30);
    for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
        for path_pending in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(50)] {
            let cfg = forwarding::Config { path_pending, refused_retry, ..Default::default() };
            for (hosts, seed) in [(12, 1), (40, 2), (40, 3)] {
                let answered = compare(&cfg, version, hosts, seed);
                assert!(answered > 100, "{version} {path_pending:?} {hosts}: {answered}");
            }
        }
    }
}

#[test]
fn an_engine_answers_nothing_if_the_answers_are_not_flow_entries_for_both_directions_of_a_pair() {
    let common = forwarding::Config::default();
    let others = [
        forwarding::Config { matching: Matching::Dst, ..common.clone() },
        forwarding::Config { matching: Matching::FiveTuple, ..common.clone() },
        forwarding::Config { both_directions: false, ..common.clone() },
        forwarding::Config { templates: false, ..common.clone() },
    ];
    for cfg in others {
        assert_eq!(compare(&cfg, Version::V1_3, 12, 1), 0, "{cfg:?}");
    }
    assert_eq!(compare(&common, Version::V1_5, 12, 1), 0, "no program has its layout");
}

/// A worker with hosts 1 and 2 at the ports of the same numbers, and an engine that knows them.
struct Scenario {
    worker: TestWorker,
    engine: ModelEngine,
    now: Instant,
}

impl Scenario {
    fn new() -> Self {
        let now = now();
        let worker = TestWorker::new(&forwarding::Config::default(), Version::V1_3, now);
        let mut scenario = Self { worker, engine: ModelEngine::default(), now };
        scenario.iterate(|_| ());
        for n in [1, 2] {
            scenario.send(n, 3 - n);
        }
        // Until the first path is no longer being installed.
        scenario.pass(Duration::from_secs(1));
        assert_eq!(scenario.ports(), [(1, 1), (2, 2)]);
        scenario
    }

    /// An iteration. Whether the engine was asked to look at anything is up to the worker.
    fn iterate(&mut self, process: impl FnOnce(&mut TestWorker)) {
        let Self { worker, engine, now } = self;
        engine.update(worker, *now);
        worker.iterate(*now, ReadMetrics::No, process);
        engine.publish(worker, *now);
    }

    /// Lets time pass, and ticks.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.engine.close(&mut self.worker, now);
        self.iterate(|worker| worker.call(App::on_tick));
    }

    /// Something changes, and before the end of the iteration the engine answers a packet from host 1 to host 2. Returns what was sent to the switch
    /// after the answer.
    fn answer_after(&mut self, change: impl FnOnce(&mut TestWorker, Instant)) -> Vec<Message> {
        let Self { worker, engine, now } = self;
        engine.update(worker, *now);
        assert!(engine.is_open);
        let mut answer_len = 0;
        let Output { tx, messages, .. } = worker.iterate(*now, ReadMetrics::No, |worker| {
            change(worker, *now);
            let frame = ipv4_frame(1, 2);
            assert!(engine.cache.answer(&packet_in(1, &frame), *now, worker));
            answer_len = worker.tx.len();
        });
        assert_eq!(tx.len(), answer_len);
        engine.publish(worker, *now);
        messages.into_iter().filter(|(to, _)| *to == SWITCH).map(|(_, message)| message).collect()
    }

    /// Sends a packet from a host at its port. Returns whether the engine answers it.
    fn send(&mut self, src: u32, dst: u32) -> bool {
        self.send_at(src, src, dst)
    }

    fn send_at(&mut self, in_port: u32, src: u32, dst: u32) -> bool {
        let frame = ipv4_frame(src, dst);
        let p = packet_in(in_port, &frame);
        let (now, before) = (self.now, self.engine.answered);
        if self.engine.is_open && self.engine.cache.answer(&p, now, &mut self.worker) {
            self.engine.answered += 1;
            self.iterate(|_| ());
        } else {
            self.engine.close(&mut self.worker, now);
            self.iterate(|worker| _ = worker.call(|app, ctx| app.on_packet_in(&p, ctx)));
        }
        self.engine.answered > before
    }

    fn publish_fact(&mut self, fact: Fact) {
        let now = self.now;
        self.iterate(|worker| assert!(worker.network.publish(now, fact)));
    }

    fn publish_remote(&mut self, fact: Fact) {
        // Later than what this worker has published itself.
        self.now += Duration::from_millis(1);
        let now = self.now;
        let published = PublishedFact { stamp: Stamp::new(now, 1), fact };
        self.iterate(|worker| {
            assert!(worker.network.apply_remote(&published));
            worker.apps.on_fact(&published, now, &mut worker.network);
        });
    }

    /// The published hosts and their ports.
    fn ports(&self) -> Vec<(u8, u32)> {
        let hosts = self.engine.cache.hosts.iter();
        hosts.map(|(mac, entry)| (mac.0[5], entry.port().0)).collect()
    }
}

fn ipv4_frame(src: u32, dst: u32) -> Vec<u8> {
    let source = u8::try_from(src).unwrap();
    let ip = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, source, 10, 0, 0, 99];
    [&host(dst).mac.0[..], &host(src).mac.0, &ip, &[0; 26]].concat()
}

fn packet_in(in_port: u32, frame: &[u8]) -> PacketIn<'_> {
    PacketIn {
        buffer_id: Some(7),
        in_port: PortNo(in_port),
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: u64::MAX,
        frame,
    }
}

/// Whether flow entries are deleted.
fn has_deletions(messages: &[Message]) -> bool {
    let delete = FlowModCommand::DELETE;
    messages.iter().any(|it| matches!(it, Message::FlowMod(entry) if entry.command == delete))
}

fn at(switch: DatapathId, port: u32) -> SwitchPort {
    SwitchPort::new(switch, PortNo(port))
}

fn location(n: u32, at: SwitchPort) -> Fact {
    Fact::Host(host(n), Some(Host { at, addrs: vec![] }))
}

#[test]
fn packets_between_a_pair_of_hosts_go_to_the_application_while_a_path_is_being_installed() {
    let mut scenario = Scenario::new();
    assert!(scenario.send(1, 2));
    assert!(!scenario.send(1, 2) && !scenario.send(2, 1));
    // Packets arrived during the installation, which is remembered for as long again.
    scenario.pass(Duration::from_millis(60));
    assert!(!scenario.send(1, 2));
    scenario.pass(Duration::from_secs(1));
    assert!(scenario.send(2, 1));
    scenario.pass(Duration::from_millis(60));
    assert!(scenario.send(1, 2));
}

#[test]
fn a_host_that_moves_or_is_removed_is_withdrawn() {
    let mut scenario = Scenario::new();
    scenario.publish_fact(location(2, at(SWITCH, 4)));
    // Its address is not known there yet.
    assert!(!scenario.send_at(4, 2, 1));
    assert_eq!(scenario.ports(), [(1, 1), (2, 4)]);
    scenario.publish_remote(location(2, at(REMOTE_SWITCH, 2)));
    assert_eq!(scenario.ports(), [(1, 1)]);
    assert!(!scenario.send(1, 2));
    scenario.publish_remote(Fact::Host(host(1), None));
    assert_eq!(scenario.ports(), []);
}

#[test]
fn hosts_are_published_while_their_port_is_an_edge_port() {
    let mut scenario = Scenario::new();
    scenario.publish_remote(Fact::Port(at(SWITCH, 2), Some(port(PortRole::Pending, true))));
    assert_eq!(scenario.ports(), [(1, 1)]);
    assert!(!scenario.send(1, 2) && !scenario.send(2, 1));
    scenario.publish_remote(Fact::Port(at(SWITCH, 2), Some(port(PortRole::Edge, true))));
    assert_eq!(scenario.ports(), [(1, 1), (2, 2)]);
    scenario.publish_remote(Fact::Port(at(SWITCH, 1), Some(port(PortRole::Edge, false))));
    assert!(!scenario.ports().contains(&(1, 1)));
}

#[test]
fn a_switch_that_refuses_a_flow_entry_is_left_to_the_application_for_a_while() {
    let mut scenario = Scenario::new();
    let error = flow_mod_error(Version::V1_3, PAIR_COOKIE, ErrorType::FLOW_MOD_FAILED, 1);
    let now = scenario.now;
    scenario.engine.close(&mut scenario.worker, now);
    scenario.iterate(|worker| worker.receive_error(&error));
    assert!(!scenario.engine.is_open);
    // Hosts that are silent for three seconds are removed.
    for _ in 0..9 {
        scenario.pass(Duration::from_secs(1));
        assert!(!scenario.send(1, 2) && !scenario.send(2, 1));
    }
    scenario.pass(Duration::from_secs(2));
    assert!(scenario.send(1, 2));
}

/// A host that sends only what the engine answers is there.
#[test]
fn hosts_whose_packets_the_engine_answers_are_not_probed() {
    let mut scenario = Scenario::new();
    // Three times the timeout of hosts.
    for _ in 0..18 {
        scenario.pass(Duration::from_millis(500));
        assert!(scenario.send(1, 2));
        scenario.pass(Duration::from_millis(60));
        assert!(scenario.send(2, 1));
        assert_eq!(scenario.ports(), [(1, 1), (2, 2)]);
    }
}

#[test]
fn an_answer_before_a_move_is_known_precedes_the_deletion_of_its_flow_entries() {
    for moved_to in [at(SWITCH, 4), at(REMOTE_SWITCH, 2)] {
        let mut scenario = Scenario::new();
        let after = scenario.answer_after(|worker, now| {
            assert!(worker.network.publish(now, location(2, moved_to)));
        });
        assert!(has_deletions(&after), "{moved_to:?}: {after:?}");
        assert!(!scenario.ports().contains(&(2, 2)));
    }
}

/// If the port of a host turns out to be a link, the host is behind that link, and flow entries to it are right.
#[test]
fn an_answer_before_a_port_is_known_to_be_down_precedes_the_deletion_of_its_flow_entries() {
    for (role, is_up) in [(PortRole::Link, true), (PortRole::Edge, false)] {
        let mut scenario = Scenario::new();
        let after = scenario.answer_after(|worker, now| {
            let changed = Fact::Port(at(SWITCH, 2), Some(port(role, is_up)));
            assert!(worker.network.publish(now, changed));
        });
        assert_eq!(has_deletions(&after), !is_up, "{role:?}: {after:?}");
        assert_eq!(scenario.ports(), [(1, 1)]);
        scenario.pass(Duration::from_secs(1));
        assert!(!scenario.send(1, 2) && !scenario.send(2, 1));
    }
}

/// None of its addresses is known, so that its own packets are never answered by the engine.
#[test]
fn an_answer_to_a_host_in_doubt_precedes_the_deletion_of_its_flow_entries() {
    let mut scenario = Scenario::new();
    scenario.publish_remote(location(2, at(SWITCH, 2)));
    assert_eq!(scenario.ports(), [(1, 1), (2, 2)]);
    let doubt = HostInDoubt { host: host(2), at: at(SWITCH, 2) };
    let after = scenario.answer_after(|worker, now| worker.network.publish_event(now, doubt));
    assert!(has_deletions(&after), "{after:?}");
    scenario.pass(Duration::from_secs(1));
    assert!(!scenario.send(2, 1));
}

/// Facts that are published in answer to facts are delivered in a limited number of rounds. Those of the next round are in the view already.
#[test]
fn a_match_that_a_switch_has_refused_is_not_used_once_the_application_knows() {
    let mut scenario = Scenario::new();
    let error = flow_mod_error(Version::V1_3, PAIR_COOKIE, ErrorType::BAD_MATCH, 6);
    let Scenario { worker, engine, now } = &mut scenario;
    engine.close(worker, *now);
    worker.receive_error(&error);
    engine.publish(worker, *now);
    assert!(engine.is_open, "it is not delivered yet");
    let after = scenario.answer_after(|_, _| ());
    assert!(has_deletions(&after), "{after:?}");
    assert!(!scenario.engine.is_open);
    scenario.pass(Duration::from_secs(1));
    assert!(!scenario.send(1, 2) && !scenario.send(2, 1));
}

#[test]
fn a_new_configuration_counts_from_the_moment_when_no_older_answers_are_on_their_way() {
    let mut scenario = Scenario::new();
    let priority = |scenario: &Scenario| scenario.engine.cache.flow_mod[30..32].to_vec();
    assert_eq!(priority(&scenario), 100_u16.to_be_bytes());
    scenario.engine.cache.is_busy = true;
    let cfg = forwarding::Config { priority: 200, ..forwarding::Config::default() };
    scenario.worker.apps.1.configure(&cfg);
    scenario.pass(Duration::from_millis(500));
    assert!(!scenario.engine.is_open && !scenario.send(1, 2));
    assert_eq!(priority(&scenario), 100_u16.to_be_bytes());
    scenario.engine.cache.is_busy = false;
    scenario.pass(Duration::from_millis(500));
    assert!(scenario.engine.is_open && scenario.send(1, 2));
    assert_eq!(priority(&scenario), 200_u16.to_be_bytes());
}

#[test]
fn a_change_elsewhere_does_not_interrupt_the_engine() {
    let mut scenario = Scenario::new();
    let before = scenario.engine.publications;
    let remote = at(REMOTE_SWITCH, 3);
    scenario.publish_remote(Fact::Port(remote, Some(port(PortRole::Pending, true))));
    scenario.publish_remote(location(9, remote));
    assert!(scenario.send(1, 2));
    assert_eq!(scenario.engine.publications, before);
    scenario.publish_remote(Fact::Port(at(SWITCH, 3), Some(port(PortRole::Pending, true))));
    assert_eq!(scenario.engine.publications, before + 1);
}
