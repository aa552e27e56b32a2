//! Networks for tests: random links, switches whose tables are lists, and workers that serve some of the switches
//! each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorCode, ErrorReason, ErrorType, FieldId, FlowMod,
    FlowModCommand, MacAddr, Message, PacketInReason, PortNo, RawMessage, SwitchFeatures, Version,
    VlanId, split_message,
};
use sluice_sdk::view::{
    Cable, DrainedLink, Fact, Host, HostId, Link, PortInfo, PortRole, RecordFact, SwitchInfo,
    SwitchPort,
};
use sluice_sdk::{App, Ctx, SwitchIndex};
use sluice_testkit::{AppWorker, CalledSwitch, run_iterations};

use super::{Config, Forwarding, flow_entries};

/// The port of the host of each switch.
pub(super) const HOST: PortNo = PortNo(100);

const VERSION: Version = Version::V1_3;

/// Links between switches, as pairs of ports.
#[derive(Debug, Clone)]
pub(super) struct TestLinks {
    pub(super) switches: u64,
    pub(super) pairs: Vec<[SwitchPort; 2]>,
}

impl TestLinks {
    /// A connected network of `switches` switches, with `more` links in addition to a tree.
    pub(super) fn random(rng: &mut Rng, switches: u64, more: u64) -> Self {
        let mut links = Self { switches, pairs: Vec::new() };
        let mut below = |n: u64| u64::from(rng.below(u32::try_from(n).unwrap()));
        for n in 2..=switches {
            links.add(1 + below(n - 1), n);
        }
        for _ in 0..more {
            let a = 1 + below(switches);
            links.add(a, 1 + (a + below(switches - 1)) % switches);
        }
        links
    }

    /// A leaf-spine network.
    pub(super) fn leaf_spine(spines: u64, leaves: u64) -> Self {
        let mut links = Self { switches: spines + leaves, pairs: Vec::new() };
        for leaf in spines + 1..=spines + leaves {
            (1..=spines).for_each(|spine| links.add(spine, leaf));
        }
        links
    }

    pub(super) fn add(&mut self, a: u64, b: u64) {
        let no = u32::try_from(self.pairs.len() + 1).unwrap();
        // No port is in two links, and the two ends of a link differ.
        let port = |id, no| SwitchPort::new(DatapathId(id), PortNo(no + HOST.0));
        self.pairs.push([port(a, 2 * no), port(b, 2 * no + 1)]);
    }

    /// A switch of this network, and its host.
    fn switch_info(&self, n: u64) -> SwitchInfo {
        let edge = PortInfo {
            name: "host".into(),
            hw_addr: MacAddr::default(),
            is_up: true,
            role: PortRole::Edge,
        };
        let ports = self.pairs.iter().flatten().filter(|at| at.switch.0 == n);
        let linked = PortInfo { role: PortRole::Link, ..edge.clone() };
        SwitchInfo {
            ports: ports.map(|at| (at.port, linked.clone())).chain([(HOST, edge)]).collect(),
        }
    }

    /// The number of links between each switch and `from`.
    pub(super) fn lengths(&self, from: u64) -> BTreeMap<u64, usize> {
        let (mut lengths, mut next) = (BTreeMap::new(), VecDeque::from([(from, 0)]));
        while let Some((at, length)) = next.pop_front() {
            if lengths.contains_key(&at) {
                continue;
            }
            lengths.insert(at, length);
            for [a, b] in &self.pairs {
                for (a, b) in [(a, b), (b, a)] {
                    if a.switch.0 == at {
                        next.push_back((b.switch.0, length + 1));
                    }
                }
            }
        }
        lengths
    }
}

/// The host at switch `n`.
pub(super) fn host(n: u64) -> HostId {
    HostId { mac: MacAddr::from_u64(0x0200_0000_0000 | n), vlan: VlanId(0) }
}

/// Where a packet ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It was sent out of this port, which has no link.
    Out(SwitchPort),
    /// No flow entry matched it at this ingress port.
    Miss(SwitchPort),
    /// A flow entry sends it into a link that is down.
    LinkDown(SwitchPort),
    /// It loops.
    Loop,
}

/// A network and its controller.
#[derive(Debug)]
pub(super) struct TestNetwork {
    pub(super) now: Instant,
    pub(super) links: Vec<[SwitchPort; 2]>,
    pub(super) workers: Vec<AppWorker<Forwarding>>,
    pub(super) tables: BTreeMap<u64, Vec<FlowMod>>,
    /// Switches that do not support matching source addresses.
    pub(super) refusing: BTreeSet<u64>,
    /// Switches that have refused a flow entry, and the error messages about these.
    errors: Vec<(u64, Vec<u8>)>,
    /// The switches at which hosts are that have moved.
    moved: BTreeMap<u64, u64>,
    /// Ports out of which packets were sent by `PACKET_OUT`.
    pub(super) sent: Vec<SwitchPort>,
    /// Flow entries written to all switches.
    pub(super) written: usize,
    next_xid: u32,
}

impl TestNetwork {
    /// The network with these links and a host at each switch, all of which the view contains.
    pub(super) fn new(cfg: &Config, links: &TestLinks, workers: usize) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = (0..workers).map(|n| AppWorker::new(n, Forwarding::new(cfg))).collect();
        let mut net = Self {
            now,
            links: Vec::new(),
            workers,
            tables: BTreeMap::new(),
            refusing: BTreeSet::new(),
            errors: Vec::new(),
            moved: BTreeMap::new(),
            sent: Vec::new(),
            written: 0,
            next_xid: 1,
        };
        for n in 1..=links.switches {
            net.publish(&Fact::Switch(DatapathId(n), Some(links.switch_info(n))));
            net.tables.insert(n, Vec::new());
            net.with(n, |app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
            let at = SwitchPort::new(DatapathId(n), HOST);
            net.publish(&Fact::Host(host(n), Some(Host { at, addrs: vec![] })));
        }
        links.pairs.iter().for_each(|&ends| net.add_link(ends));
        net
    }

    pub(super) fn add_link(&mut self, [a, b]: [SwitchPort; 2]) {
        self.links.push([a, b]);
        for (from, to) in [(a, b), (b, a)] {
            self.publish(&Fact::Link(to, Some(Link { from, to })));
        }
    }

    pub(super) fn remove_link(&mut self, n: usize) -> [SwitchPort; 2] {
        let [a, b] = self.links.swap_remove(n);
        self.publish(&Fact::Link(a, None));
        self.publish(&Fact::Link(b, None));
        [a, b]
    }

    /// Takes a cable out of service, or back.
    pub(super) fn drain(&mut self, cable: Cable, is_drained: bool) {
        let drained = is_drained.then_some(DrainedLink { requested_at: Duration::ZERO });
        self.publish(&Fact::Record(RecordFact::new(cable, drained)));
    }

    /// The port of a host.
    pub(super) fn location(&self, host: u64) -> SwitchPort {
        SwitchPort::new(DatapathId(self.moved.get(&host).copied().unwrap_or(host)), HOST)
    }

    /// Moves a host to the port for hosts of a switch.
    pub(super) fn move_host(&mut self, n: u64, to: u64) {
        self.moved.insert(n, to);
        let at = self.location(n);
        self.publish(&Fact::Host(host(n), Some(Host { at, addrs: vec![] })));
    }

    /// All timers of all switches are checked.
    pub(super) fn tick(&mut self) {
        let switches: Vec<_> = self.tables.keys().copied().collect();
        for switch in switches {
            self.with(switch, App::on_tick);
        }
    }

    /// The worker that serves a switch.
    fn worker(&self, switch: u64) -> usize {
        usize::try_from(switch).unwrap() % self.workers.len()
    }

    /// Publishes a fact to all workers, and delivers the messages that they send.
    pub(super) fn publish(&mut self, fact: &Fact) {
        self.now += Duration::from_millis(1);
        self.workers[0].network.publish(self.now, fact.clone());
        self.deliver();
    }

    /// A switch connects again, as switch `index` of its worker, before the worker notices that its connection is lost.
    pub(super) fn reconnect(&mut self, switch: u64, index: u32) {
        self.with_index(switch, SwitchIndex(index), |app, ctx| {
            app.on_switch_connected(&SwitchFeatures::default(), ctx);
        });
        let worker = self.worker(switch);
        let AppWorker { app, network } = &mut self.workers[worker];
        let lost = SwitchIndex(u32::try_from(switch).unwrap());
        app.on_switch_disconnected(lost, self.now, network);
        self.deliver();
    }

    /// A switch of the network with these links disconnects, and connects again. Its flow entries stay.
    pub(super) fn disconnect_and_connect(&mut self, switch: u64, links: &TestLinks, index: u32) {
        let id = DatapathId(switch);
        self.publish(&Fact::Switch(id, None));
        let ends = self.links.iter().filter(|ends| ends.iter().any(|at| at.switch == id));
        let ends: Vec<_> = ends.copied().collect();
        for &to in ends.iter().flatten() {
            self.publish(&Fact::Link(to, None));
        }
        self.publish(&Fact::Switch(id, Some(links.switch_info(switch))));
        self.reconnect(switch, index);
        for [a, b] in ends {
            for (from, to) in [(a, b), (b, a)] {
                self.publish(&Fact::Link(to, Some(Link { from, to })));
            }
        }
    }

    fn with(&mut self, switch: u64, call: impl FnOnce(&mut Forwarding, &mut Ctx<'_>)) {
        self.with_index(switch, SwitchIndex(u32::try_from(switch).unwrap()), call);
    }

    fn with_index(
        &mut self,
        switch: u64,
        index: SwitchIndex,
        call: impl FnOnce(&mut Forwarding, &mut Ctx<'_>),
    ) {
        let worker = self.worker(switch);
        let worker = &mut self.workers[worker];
        let (id, next_xid) = (DatapathId(switch), &mut self.next_xid);
        let called = CalledSwitch { index, id, version: VERSION, next_xid, has_room: true };
        worker.app.on_iteration(self.now);
        let ((), output) = worker.call(called, self.now, call);
        let mut rest = &*output.all();
        while let Some((msg, after)) = split_message(rest).unwrap() {
            self.receive(switch, Message::parse_raw(msg).unwrap());
            rest = after;
        }
        self.deliver();
    }

    /// Delivers facts to all workers and messages to all switches and from them, until there are none left.
    fn deliver(&mut self) {
        self.deliver_to_switches();
        while let Some((switch, error)) = self.errors.pop() {
            let error = ErrorMsg::new(RawMessage::new(&error).unwrap()).unwrap();
            self.with(switch, |app, ctx| app.on_error(&error, ctx));
        }
    }

    fn deliver_to_switches(&mut self) {
        while self.workers.iter().any(|worker| !worker.network.is_idle()) {
            run_iterations(&mut self.workers, self.now);
            for from in 0..self.workers.len() {
                // The switches of this network answer no requests.
                drop(self.workers[from].network.take_requests());
                for (to, message) in self.workers[from].take_output().messages {
                    self.receive(to.0, message);
                }
            }
        }
    }

    /// A switch handles a message.
    fn receive(&mut self, switch: u64, message: Message) {
        match message {
            Message::FlowMod(f)
                if f.matching.get(FieldId::ETH_SRC).is_some()
                    && f.command == FlowModCommand::ADD
                    && self.refusing.contains(&switch) =>
            {
                let kind = ErrorType::BAD_MATCH;
                let reason = ErrorReason::Standard { kind, code: ErrorCode(6) };
                let (mut flow_mod, mut error, mut xid) = (Vec::new(), Vec::new(), 1);
                Encoder::new(&mut flow_mod, VERSION, &mut xid).flow_mod(&f).unwrap();
                let mut encoder = Encoder::new(&mut error, VERSION, &mut xid);
                encoder.error_with(1, reason, &flow_mod).unwrap();
                self.errors.push((switch, error));
            }
            Message::FlowMod(f) if f.command == FlowModCommand::ADD => {
                self.written += 1;
                let table = self.tables.get_mut(&switch).unwrap();
                table.retain(|old| old.matching != f.matching || old.priority != f.priority);
                table.push(f);
            }
            Message::FlowMod(f) => {
                assert_eq!(f.command, FlowModCommand::DELETE);
                let is_covered = |entry: &FlowMod| {
                    f.matching.iter().all(|field| entry.matching.get(field.id) == Some(field))
                        && (f.out_port == PortNo::ANY
                            || flow_entries::out_port(&entry.instructions) == Some(f.out_port))
                        && entry.cookie & f.cookie_mask == f.cookie & f.cookie_mask
                };
                self.tables.get_mut(&switch).unwrap().retain(|entry| !is_covered(entry));
            }
            Message::PacketOut(p) => self.sent.extend(p.actions.iter().map(|action| {
                let Action::Output { port, .. } = action else { panic!("{action:?}") };
                SwitchPort::new(DatapathId(switch), *port)
            })),
            Message::MultipartRequest(_) | Message::BarrierRequest => {}
            other => panic!("{other:?}"),
        }
    }

    /// Sends a packet from one host to another: by flow entries as far as they lead, then by the controller. Returns
    /// `true` if it arrived.
    pub(super) fn send(&mut self, from: u64, to: u64) -> bool {
        let goal = self.location(to);
        match self.follow_entries(from, to) {
            Delivery::Out(at) => at == goal,
            Delivery::Miss(at) => {
                let frame = [&host(to).mac.0[..], &host(from).mac.0, &[8, 0, 0x55, 0x55]].concat();
                self.sent.clear();
                self.packet_in(at, &frame);
                self.sent == [goal]
            }
            Delivery::LinkDown(_) | Delivery::Loop => false,
        }
    }

    pub(super) fn packet_in(&mut self, at: SwitchPort, frame: &[u8]) {
        let p = PacketIn {
            buffer_id: None,
            in_port: at.port,
            total_len: u16::try_from(frame.len()).unwrap(),
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: 0,
            frame,
        };
        self.with(at.switch.0, |app, ctx| _ = app.on_packet_in(&p, ctx));
    }

    /// Where a packet from one host to another ends up by flow entries alone.
    pub(super) fn follow_entries(&self, from: u64, to: u64) -> Delivery {
        self.follow_entries_at(self.location(from), from, to)
    }

    /// As [`follow_entries`](Self::follow_entries), if the packet is received at this port.
    pub(super) fn follow_entries_at(&self, at: SwitchPort, from: u64, to: u64) -> Delivery {
        let mut at = at;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(at) {
                return Delivery::Loop;
            }
            let entries = self.tables[&at.switch.0].iter();
            let matches = |entry: &&FlowMod| {
                entry.matching.iter().all(|field| match field.id {
                    FieldId::IN_PORT => field.value == at.port.0.into(),
                    FieldId::ETH_DST => field.value == host(to).mac.to_u64().into(),
                    FieldId::ETH_SRC => field.value == host(from).mac.to_u64().into(),
                    _ => field.value == 0,
                }) && entry.priority > 0
            };
            let Some(entry) =
                entries.max_by_key(|entry| (matches(entry), entry.priority)).filter(matches)
            else {
                return Delivery::Miss(at);
            };
            let out =
                SwitchPort::new(at.switch, flow_entries::out_port(&entry.instructions).unwrap());
            if out == at {
                return Delivery::LinkDown(at);
            }
            if out.port == HOST {
                return Delivery::Out(out);
            }
            let ends = self.links.iter().find(|ends| ends.contains(&out));
            match ends {
                Some(&[a, b]) => at = if a == out { b } else { a },
                None => return Delivery::LinkDown(out),
            }
        }
    }
}
