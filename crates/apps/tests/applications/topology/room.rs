//! Switches that do not take probes as fast as these are due.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::view::{PacketIn, PacketOut};
use sluice_openflow::{
    DatapathId, MessageType, PacketInReason, Port, PortNo, RawMessage, SwitchFeatures,
    split_message,
};
use sluice_sdk::view::{Fact, PublishedFact};
use sluice_sdk::{App, Ctx, SwitchIndex};
use sluice_testkit::{AppWorker, CalledSwitch};

use super::*;

const TICK: Duration = Duration::from_millis(250);

/// What a connection of 0.8 Mbit/s takes between two ticks.
const SLOW_BYTES_PER_TICK: usize = 25_000;

/// A worker and a switch with a queue of urgent messages, which its connection takes slowly or not at all.
struct SlowSwitch {
    worker: AppWorker<Topology>,
    now: Instant,
    id: DatapathId,
    queue: Vec<u8>,
    bytes_per_tick: usize,
    next_xid: u32,
    /// Probes taken, by port, with their frames.
    taken: BTreeMap<PortNo, Vec<Vec<u8>>>,
}

impl SlowSwitch {
    fn new(worker: usize, id: u64, ports: u32, now: Instant) -> Self {
        Self::of_worker(AppWorker::new(worker, Topology::default()), id, ports, now)
    }

    /// A switch that connects to a worker which has received facts.
    fn of_worker(worker: AppWorker<Topology>, id: u64, ports: u32, now: Instant) -> Self {
        let id = DatapathId(id);
        let (queue, taken) = (Vec::new(), BTreeMap::new());
        let bytes_per_tick = usize::MAX;
        let mut switch = Self { worker, now, id, queue, bytes_per_tick, next_xid: 1, taken };
        let ports = (1..=ports).map(|no| Port { port_no: PortNo(no), ..Port::default() }).collect();
        let features = SwitchFeatures { datapath_id: id, ports, ..SwitchFeatures::default() };
        switch.call(|app, ctx| app.on_switch_connected(&features, ctx));
        switch
    }

    fn call(&mut self, call: impl FnOnce(&mut Topology, &mut Ctx<'_>)) {
        let called = CalledSwitch {
            index: SwitchIndex(0),
            id: self.id,
            version: Version::V1_3,
            next_xid: &mut self.next_xid,
            has_room: self.queue.is_empty(),
        };
        let ((), mut output) = self.worker.call(called, self.now, call);
        self.queue.append(&mut output.urgent);
    }

    /// The connection takes what it can, then there is a tick. Returns the facts that were published.
    fn tick(&mut self) -> Vec<PublishedFact> {
        self.now += TICK;
        let mut left = self.bytes_per_tick;
        let mut rest = &*std::mem::take(&mut self.queue);
        let mut barriers = Vec::new();
        while let Ok(Some((msg, after))) = split_message(rest) {
            let len = rest.len() - after.len();
            if len > left {
                break;
            }
            (left, rest) = (left - len, after);
            if msg.kind() == MessageType::PACKET_OUT {
                let out = PacketOut::new(msg).unwrap();
                let port = std::str::from_utf8(&out.frame[36..44]);
                let port = port.ok().and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let frames = self.taken.entry(PortNo(port.unwrap())).or_default();
                frames.push(out.frame.to_vec());
            } else if msg.kind() == MessageType::BARRIER_REQUEST {
                barriers.push(msg.xid());
            }
        }
        self.queue = rest.to_vec();
        self.worker.app.on_iteration(self.now);
        for xid in barriers {
            self.call(|app, ctx| app.on_barrier_reply(xid, ctx));
        }
        self.call(Topology::on_tick);
        self.deliver()
    }

    fn deliver(&mut self) -> Vec<PublishedFact> {
        self.worker.deliver(self.now).iter().flat_map(|facts| facts.to_vec()).collect()
    }

    fn receive(&mut self, in_port: u32, frame: &[u8]) {
        let p = PacketIn {
            buffer_id: None,
            in_port: PortNo(in_port),
            total_len: u16::try_from(frame.len()).unwrap(),
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: u64::MAX,
            frame,
        };
        self.call(|app, ctx| _ = app.on_packet_in(&p, ctx));
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

#[test]
fn a_switch_that_takes_nothing_gets_no_more_probes() {
    let mut switch = SlowSwitch::new(0, 1, 4000, now());
    switch.bytes_per_tick = 0;
    let queued = switch.queue.len();
    assert!(queued > 0);
    for _ in 0..400 {
        switch.tick();
        assert_eq!(switch.queue.len(), queued);
    }
}

#[test]
fn all_ports_behind_a_slow_connection_are_probed_in_turn_and_few_probes_wait() {
    const PORTS: u32 = 4000;
    let mut switch = SlowSwitch::new(0, 1, PORTS, now());
    switch.bytes_per_tick = SLOW_BYTES_PER_TICK;
    for tick in 0..400 {
        switch.tick();
        if tick > 40 {
            assert!(switch.queue.len() < 4 * SLOW_BYTES_PER_TICK, "{}", switch.queue.len());
        }
    }
    let counts: Vec<_> = switch.taken.values().map(Vec::len).collect();
    assert_eq!(counts.len(), PORTS as usize, "every port is probed");
    let [min, max] = [counts.iter().min(), counts.iter().max()].map(Option::unwrap);
    assert!(*min >= 3 && *max <= 2 * min, "{min} to {max}");
    let roles = switch.worker.network.view().switch(DatapathId(1)).unwrap().ports.values();
    assert!(roles.into_iter().all(|port| port.role == PortRole::Edge));
}

/// All at once, they would delay other switches.
#[test]
fn the_roles_of_thousands_of_ports_are_published_over_several_ticks() {
    const PORTS: usize = 4000;
    let mut switch = SlowSwitch::new(0, 1, 4000, now());
    let is_port = |published: &&PublishedFact| matches!(published.fact, Fact::Port(_, Some(_)));
    let counts: Vec<_> =
        (0..40).map(|_| switch.tick().iter().filter(is_port).count()).filter(|&n| n > 0).collect();
    assert!(counts.iter().all(|&n| n <= 1024), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), PORTS);
}

/// Two workers with a switch each, and a link from port 1 of the first to port 1 of the second.
struct LinkedSwitches {
    sender: SlowSwitch,
    receiver: SlowSwitch,
    is_link_up: bool,
}

impl LinkedSwitches {
    fn tick(&mut self) {
        let (sender, receiver) = (&mut self.sender, &mut self.receiver);
        let (from_sender, from_receiver) = (sender.tick(), receiver.tick());
        let (now, back) = (sender.now, receiver.taken.remove(&PortNo(1)).unwrap_or_default());
        sender.worker.receive(&from_receiver, now);
        receiver.worker.receive(&from_sender, now);
        let there = sender.taken.remove(&PortNo(1)).unwrap_or_default();
        if self.is_link_up {
            for frame in &there {
                receiver.receive(1, frame);
            }
            for frame in &back {
                sender.receive(1, frame);
            }
        }
        for _ in 0..3 {
            let (from_sender, from_receiver) = (sender.deliver(), receiver.deliver());
            sender.worker.receive(&from_receiver, now);
            receiver.worker.receive(&from_sender, now);
        }
    }

    fn links(&self) -> [bool; 2] {
        [switch_port(2, 1), switch_port(1, 1)]
            .map(|to| self.sender.worker.network.view().link_to(to).is_some())
    }
}

#[test]
fn a_link_is_not_lost_because_its_probes_could_not_be_sent() {
    let now = now();
    let (sender, receiver) = (SlowSwitch::new(0, 1, 4, now), SlowSwitch::new(1, 2, 4, now));
    let mut net = LinkedSwitches { sender, receiver, is_link_up: true };
    let run = |net: &mut LinkedSwitches, ticks| (0..ticks).for_each(|_| net.tick());
    run(&mut net, 40);
    assert_eq!(net.links(), [true; 2]);
    net.sender.bytes_per_tick = 0;
    for _ in 0..200 {
        net.tick();
        assert_eq!(net.links(), [true; 2]);
    }
    net.sender.bytes_per_tick = usize::MAX;
    for _ in 0..40 {
        net.tick();
        assert_eq!(net.links(), [true; 2]);
    }
    net.is_link_up = false;
    run(&mut net, 40);
    assert_eq!(net.links(), [false; 2], "its probes are sent and do not arrive");
}

/// As in an iteration that began before the one in which the other worker has lost the switch, and has taken messages after it.
#[test]
fn the_first_probes_of_a_switch_count_though_their_worker_has_an_earlier_time_than_the_loss() {
    let begin = now();
    let lost_at = begin + S;
    let [mut worker, mut other] = [(); 2].map(|()| AppWorker::new(1, Topology::default()));
    let mut old = SlowSwitch::new(0, 1, 1, begin);
    for lost in [false, true] {
        if lost {
            let AppWorker { app, network } = &mut old.worker;
            app.on_switch_disconnected(SwitchIndex(0), lost_at, network);
        }
        let facts = old.deliver();
        assert!(!facts.is_empty());
        worker.receive(&facts, lost_at);
        other.receive(&facts, lost_at);
    }
    let mut receiver = SlowSwitch::of_worker(other, 2, 1, lost_at);
    let mut new = SlowSwitch::of_worker(worker, 1, 1, begin + MS * 999);
    new.tick();
    let first = new.taken[&PortNo(1)][0].clone();
    receiver.receive(1, &first);
    assert!(receiver.worker.network.view().link_to(switch_port(2, 1)).is_some());
}

#[test]
fn after_lost_changes_the_flow_entries_for_probes_are_written_again() {
    let mut switch = SlowSwitch::new(0, 1, 4, now());
    switch.tick();
    switch.queue.clear();
    switch.call(Topology::on_changes_lost);
    let (first, rest) = split_message(&switch.queue).unwrap().unwrap();
    let (second, rest) = split_message(rest).unwrap().unwrap();
    assert_eq!([first, second].map(RawMessage::kind), [MessageType::FLOW_MOD; 2]);
    assert!(rest.is_empty());
}

/// It used to take more than a minute, in which hosts that had moved silently were not believed.
#[test]
fn a_delay_of_the_control_connection_that_is_over_is_soon_forgotten() {
    let mut switch = SlowSwitch::new(0, 1, 4, now());
    for _ in 0..40 {
        switch.tick();
    }
    let round_trip = |switch: &SlowSwitch| switch.worker.network.rtt(SwitchIndex(0)).unwrap();
    assert!(round_trip(&switch) <= TICK);
    let has_barrier = |switch: &SlowSwitch| {
        let mut rest = &*switch.queue;
        while let Ok(Some((msg, after))) = split_message(rest) {
            if msg.kind() == MessageType::BARRIER_REQUEST {
                return true;
            }
            rest = after;
        }
        false
    };
    while !has_barrier(&switch) {
        switch.tick();
    }
    switch.bytes_per_tick = 0;
    for _ in 0..16 {
        switch.tick();
    }
    switch.bytes_per_tick = usize::MAX;
    switch.tick();
    assert!(round_trip(&switch) >= TICK * 16, "{:?}", round_trip(&switch));
    for _ in 0..60 {
        switch.tick();
    }
    assert!(round_trip(&switch) <= TICK * 5, "{:?}", round_trip(&switch));
}
