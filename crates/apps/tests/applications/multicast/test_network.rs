//! Workers with the application `forwarding`, switches that forward by their flow entries, and the links, port roles and hosts
//! that `topology` and `hosts` would publish.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{Config, Forwarding, SpanningTree, TreePhase};
use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, DatapathId, ErrorCode, ErrorReason, ErrorType, Ethernet, Field, FieldId, FixedString,
    FlowMod, FlowModCommand, Instruction, MacAddr, Message, MultipartType, PacketInReason, PortNo,
    SwitchFeatures, Version, VlanId, split_message,
};
use sluice_sdk::view::{
    Fact, Host, HostId, Link, PortInfo, PortRole, PublishedFact, SwitchInfo, SwitchPort,
};
use sluice_sdk::{App, Ctx, SwitchIndex};
use sluice_testkit::{AppOutput, AppWorker, CalledSwitch, run_iterations};

use crate::multicast::frames::udp_fields;

/// Edge ports of each switch: 1 to 4, each with a host.
pub(crate) const PORTS: u32 = 4;

/// The engine's time between two ticks of a switch.
const TICK: Duration = Duration::from_millis(250);

const VERSION: Version = Version::V1_3;

/// Port `port` of switch `switch`.
pub(crate) fn at(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

/// The MAC address of the host at an edge port.
pub(crate) fn mac(at: SwitchPort) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | at.switch.0 << 8 | u64::from(at.port.0))
}

/// What a switch does instead of listing its flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListFault {
    Silence,
    Error,
}

/// Switches in a line. Switch `n` belongs to worker `n` modulo their number; links use ports from 11 on.
pub(crate) struct TestNetwork {
    pub(crate) now: Instant,
    pub(crate) workers: Vec<AppWorker<Forwarding>>,
    /// The worker of each connected switch.
    serving: BTreeMap<u64, usize>,
    tables: BTreeMap<u64, Vec<FlowMod>>,
    links: BTreeMap<SwitchPort, SwitchPort>,
    roles: BTreeMap<SwitchPort, PortRole>,
    /// Frames that left through edge ports.
    pub(crate) delivered: Vec<(SwitchPort, Vec<u8>)>,
    packet_outs: VecDeque<(SwitchPort, Vec<u8>)>,
    /// Barrier requests, and when they are answered.
    barriers: VecDeque<(Instant, u64, u32)>,
    /// Time that switches take to answer them.
    pub(crate) barrier_delay: Duration,
    /// A switch that takes this time for each flow entry before a barrier request.
    pub(crate) slow: Option<(u64, Duration)>,
    /// A switch that does not take what is sent.
    pub(crate) without_room: Option<u64>,
    /// Records that workers have published.
    pub(crate) records: usize,
    /// Flow entries since the last barrier request of each switch.
    unconfirmed: BTreeMap<u64, u32>,
    /// When each switch got the flow entry for all groups.
    pub(crate) renewals: BTreeMap<u64, Vec<Instant>>,
    /// Queries for flow entries, which get an empty reply.
    requests: VecDeque<(u64, u32)>,
    /// How a switch answers these queries otherwise.
    pub(crate) list_fault: Option<(u64, ListFault)>,
    pub(crate) packet_ins: usize,
    /// Bytes of a packet that switches send to the controller.
    pub(crate) miss_send_len: usize,
    pub(crate) log: Vec<String>,
    /// A switch that refuses flow entries for single groups, and how many it has refused.
    pub(crate) refusing: Option<u64>,
    pub(crate) refused: usize,
    errors: VecDeque<(u64, u32, u64)>,
    /// Flow entries written and deleted.
    pub(crate) flow_mods: usize,
    xid: u32,
}

impl TestNetwork {
    pub(crate) fn new(cfg: &Config, switches: u64, workers: usize) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = (0..workers).map(|n| AppWorker::new(n, Forwarding::new(cfg))).collect();
        let mut net = Self {
            now,
            workers,
            serving: BTreeMap::new(),
            tables: BTreeMap::new(),
            links: BTreeMap::new(),
            roles: BTreeMap::new(),
            delivered: Vec::new(),
            packet_outs: VecDeque::new(),
            barriers: VecDeque::new(),
            barrier_delay: Duration::ZERO,
            slow: None,
            without_room: None,
            records: 0,
            unconfirmed: BTreeMap::new(),
            renewals: BTreeMap::new(),
            requests: VecDeque::new(),
            list_fault: None,
            packet_ins: 0,
            miss_send_len: usize::MAX,
            log: Vec::new(),
            refusing: None,
            refused: 0,
            errors: VecDeque::new(),
            flow_mods: 0,
            xid: 1,
        };
        for n in 1..switches {
            let (a, b) = (at(n, 11), at(n + 1, 12));
            net.links.extend([(a, b), (b, a)]);
        }
        for n in 1..=switches {
            net.tables.insert(n, Vec::new());
            let edges = (1..=PORTS).map(|port| (at(n, port), PortRole::Edge));
            let links = [11, 12].into_iter().map(|port| at(n, port));
            let links: Vec<_> = links.filter(|end| net.links.contains_key(end)).collect();
            net.roles.extend(edges.chain(links.into_iter().map(|end| (end, PortRole::Link))));
            net.connect(n);
        }
        for (to, from) in net.links.clone() {
            net.publish(Fact::Link(to, Some(Link { from, to })));
        }
        let edges = net.edges();
        for at in edges {
            for vlan in [0, 5] {
                let id = HostId { mac: mac(at), vlan: VlanId(vlan) };
                net.publish(Fact::Host(id, Some(Host { at, addrs: vec![] })));
            }
        }
        net
    }

    /// The edge ports of all switches.
    pub(crate) fn edges(&self) -> Vec<SwitchPort> {
        let edges = self.roles.iter().filter(|&(_, &role)| role == PortRole::Edge);
        edges.map(|(&at, _)| at).collect()
    }

    fn info(&self, switch: u64) -> SwitchInfo {
        let ports = self.roles.iter().filter(|(at, _)| at.switch.0 == switch);
        let info = |role| PortInfo {
            name: FixedString::default(),
            hw_addr: MacAddr::default(),
            is_up: true,
            role,
        };
        SwitchInfo { ports: ports.map(|(at, &role)| (at.port, info(role))).collect() }
    }

    /// A switch connects to its worker.
    pub(crate) fn connect(&mut self, switch: u64) {
        let worker = usize::try_from(switch).unwrap() % self.workers.len();
        self.connect_to(switch, worker);
    }

    /// A switch connects to a worker.
    pub(crate) fn connect_to(&mut self, switch: u64, worker: usize) {
        self.serving.insert(switch, worker);
        self.publish(Fact::Switch(DatapathId(switch), Some(self.info(switch))));
        self.with(switch, |app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
    }

    pub(crate) fn disconnect(&mut self, switch: u64) {
        let worker = self.serving.remove(&switch).unwrap();
        let AppWorker { app, network } = &mut self.workers[worker];
        app.on_switch_disconnected(index(switch), self.now, network);
        self.publish(Fact::Switch(DatapathId(switch), None));
    }

    /// The role of a port changes.
    pub(crate) fn set_role(&mut self, at: SwitchPort, role: PortRole) {
        self.roles.insert(at, role);
        let port = self.info(at.switch.0).ports.remove(&at.port);
        self.publish(Fact::Port(at, port));
    }

    pub(crate) fn configure(&mut self, cfg: &Config) {
        for worker in &mut self.workers {
            worker.app.configure(cfg);
        }
    }

    pub(crate) fn publish(&mut self, fact: Fact) {
        self.now += Duration::from_millis(1);
        self.workers[0].network.publish(self.now, fact);
        self.deliver();
    }

    fn with(&mut self, switch: u64, call: impl FnOnce(&mut Forwarding, &mut Ctx<'_>)) {
        let worker = &mut self.workers[self.serving[&switch]];
        let called = CalledSwitch {
            index: index(switch),
            id: DatapathId(switch),
            version: VERSION,
            next_xid: &mut self.xid,
            has_room: self.without_room != Some(switch),
        };
        worker.app.on_iteration(self.now);
        let ((), output) = worker.call(called, self.now, call);
        let mut rest = &*output.all();
        while let Some((msg, after)) = split_message(rest).unwrap() {
            self.receive(switch, msg.xid(), Message::parse_raw(msg).unwrap());
            rest = after;
        }
        self.deliver();
    }

    /// Delivers facts to all workers and messages to all switches, until there are none left.
    fn deliver(&mut self) {
        while self.workers.iter().any(|worker| !worker.network.is_idle()) {
            let published = run_iterations(&mut self.workers, self.now);
            let is_record = |fact: &&PublishedFact| matches!(fact.fact, Fact::Record(_));
            self.records += published.iter().filter(is_record).count();
            for from in 0..self.workers.len() {
                let AppOutput { messages, log } = self.workers[from].take_output();
                self.log.extend(log);
                for (to, message) in messages {
                    self.receive(to.0, 0, message);
                }
            }
        }
    }

    /// A switch handles a message.
    fn receive(&mut self, switch: u64, xid: u32, message: Message) {
        let Some(table) =
            self.tables.get_mut(&switch).filter(|_| self.serving.contains_key(&switch))
        else {
            return;
        };
        if matches!(message, Message::FlowMod(_)) {
            *self.unconfirmed.entry(switch).or_default() += 1;
        }
        match message {
            Message::FlowMod(f) if f.priority == 6 && self.refusing == Some(switch) => {
                self.refused += usize::from(f.command == FlowModCommand::ADD);
                self.errors.push_back((switch, xid, f.cookie));
            }
            Message::FlowMod(f) if f.command == FlowModCommand::ADD => {
                self.flow_mods += 1;
                if f.priority == 4 {
                    self.renewals.entry(switch).or_default().push(self.now);
                }
                table.retain(|old| !is_same_entry(old, &f));
                table.push(f);
            }
            Message::FlowMod(f) if f.command == FlowModCommand::DELETE_STRICT => {
                self.flow_mods += 1;
                table.retain(|old| !is_same_entry(old, &f));
            }
            Message::FlowMod(f) => {
                assert_eq!(f.command, FlowModCommand::DELETE);
                let is_covered = |entry: &FlowMod| {
                    f.matching.iter().all(|field| entry.matching.get(field.id) == Some(field))
                        && (f.out_port == PortNo::ANY || outputs(entry).contains(&f.out_port))
                        && entry.cookie & f.cookie_mask == f.cookie & f.cookie_mask
                };
                table.retain(|entry| !is_covered(entry));
            }
            Message::PacketOut(p) => {
                for action in &p.actions {
                    let Action::Output { port, .. } = action else { panic!("{action:?}") };
                    let at = SwitchPort::new(DatapathId(switch), *port);
                    self.packet_outs.push_back((at, p.data.clone()));
                }
            }
            Message::BarrierRequest => {
                let entries = self.unconfirmed.remove(&switch).unwrap_or_default();
                let slow = self.slow.filter(|&(slow, _)| slow == switch);
                let delay = slow.map_or(self.barrier_delay, |(_, time)| time * entries);
                self.barriers.push_back((self.now + delay, switch, xid));
            }
            Message::MultipartRequest(_) => self.requests.push_back((switch, xid)),
            other => panic!("{other:?}"),
        }
    }

    /// Forwards what packet-outs sent, and answers barrier requests, until there is nothing left.
    fn settle(&mut self) {
        loop {
            if let Some((from, frame)) = self.packet_outs.pop_front() {
                match self.links.get(&from) {
                    Some(&to) => self.arrive(to, &frame),
                    None => self.delivered.push((from, frame)),
                }
            } else if let Some((switch, xid, cookie)) = self.errors.pop_front() {
                let header = [4, 14, 0, 64, 0, 0, 0, 0];
                let data = [&header[..], &cookie.to_be_bytes(), &[0; 48]].concat();
                let (kind, code) = (ErrorType::FLOW_MOD_FAILED, ErrorCode(1));
                let reason = ErrorReason::Standard { kind, code };
                let error = ErrorMsg { xid, reason, data: &data };
                self.with(switch, |app, ctx| app.on_error(&error, ctx));
            } else if let Some(n) = self.barriers.iter().position(|(due, ..)| *due <= self.now) {
                let Some((_, switch, xid)) = self.barriers.remove(n) else { return };
                self.with(switch, |app, ctx| app.on_barrier_reply(xid, ctx));
            } else if let Some((switch, xid)) = self.requests.pop_front() {
                let kind = MultipartType::FLOW;
                match self.list_fault.filter(|&(faulty, _)| faulty == switch) {
                    Some((_, ListFault::Silence)) => continue,
                    Some((_, ListFault::Error)) => {
                        let error = ErrorMsg { xid, reason: ErrorReason::BAD_MULTIPART, data: &[] };
                        self.with(switch, |app, ctx| app.on_error(&error, ctx));
                        continue;
                    }
                    None => {}
                }
                self.with(switch, |app, ctx| app.on_multipart_reply(xid, kind, &[], ctx));
            } else {
                return;
            }
        }
    }

    /// A frame arrives at a port.
    fn arrive(&mut self, at: SwitchPort, frame: &[u8]) {
        let table = &self.tables[&at.switch.0];
        let matching = table.iter().filter(|entry| {
            entry.priority > 0 && entry.matching.iter().all(|field| is_matched(field, at, frame))
        });
        let Some(entry) = matching.max_by_key(|entry| entry.priority) else {
            return self.packet_in(at, frame);
        };
        let ports = outputs(entry);
        if ports == [PortNo::CONTROLLER] {
            return self.packet_in(at, frame);
        }
        for port in ports.into_iter().filter(|&port| port != at.port) {
            let from = SwitchPort::new(at.switch, port);
            self.packet_outs.push_back((from, frame.to_vec()));
        }
    }

    fn packet_in(&mut self, at: SwitchPort, frame: &[u8]) {
        self.packet_ins += 1;
        let p = PacketIn {
            buffer_id: None,
            in_port: at.port,
            total_len: u16::try_from(frame.len()).unwrap(),
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: 0,
            frame: &frame[..frame.len().min(self.miss_send_len)],
        };
        if self.serving.contains_key(&at.switch.0) {
            self.with(at.switch.0, |app, ctx| _ = app.on_packet_in(&p, ctx));
        }
    }

    /// A host sends a frame. Returns the edge ports that get it.
    pub(crate) fn send(&mut self, from: SwitchPort, frame: &[u8]) -> Vec<SwitchPort> {
        self.now += Duration::from_millis(1);
        self.delivered.clear();
        self.arrive(from, frame);
        self.settle();
        let to = self.delivered.iter().filter(|(_, sent)| sent == frame).map(|&(at, _)| at);
        let to: Vec<_> = to.collect();
        let set: BTreeSet<_> = to.iter().copied().collect();
        assert_eq!(set.len(), to.len(), "a frame was delivered twice: {to:?}");
        set.into_iter().collect()
    }

    /// Time passes. Returns the frames that hosts get.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<(SwitchPort, Vec<u8>)> {
        self.delivered.clear();
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + TICK);
            for switch in self.serving.keys().copied().collect::<Vec<_>>() {
                self.with(switch, App::on_tick);
            }
            self.settle();
        }
        std::mem::take(&mut self.delivered)
    }

    pub(crate) fn wait_s(&mut self, seconds: u64) -> Vec<(SwitchPort, Vec<u8>)> {
        self.wait(Duration::from_secs(seconds))
    }

    /// The sum of a metric over all workers.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for AppWorker { app, .. } in &self.workers {
            app.metrics(&mut |metric| {
                if metric.name == name {
                    sum += metric.value;
                }
            });
        }
        sum
    }

    /// The number of the tree.
    pub(crate) fn tree_generation(&self) -> u64 {
        SpanningTree::of(self.workers[0].network.view()).map_or(0, |tree| tree.generation)
    }

    /// The number of links of the tree that is in use; 0 if there is none.
    pub(crate) fn tree_links(&self) -> usize {
        let tree =
            SpanningTree::of(self.workers[0].network.view()).filter(|_| self.has_active_tree());
        tree.map_or(0, |tree| tree.links.len())
    }

    pub(crate) fn has_active_tree(&self) -> bool {
        let tree = SpanningTree::of(self.workers[0].network.view());
        tree.is_some_and(|tree| tree.phase == TreePhase::Active)
    }

    /// The flow entries of a switch.
    pub(crate) fn table(&self, switch: u64) -> &[FlowMod] {
        &self.tables[&switch]
    }
}

fn index(switch: u64) -> SwitchIndex {
    SwitchIndex(u32::try_from(switch).unwrap())
}

fn is_same_entry(a: &FlowMod, b: &FlowMod) -> bool {
    a.matching == b.matching && a.priority == b.priority
}

/// The ports to which a flow entry sends.
fn outputs(entry: &FlowMod) -> Vec<PortNo> {
    let [Instruction::ApplyActions { actions }] = &entry.instructions[..] else { return vec![] };
    let port = |action: &Action| match action {
        Action::Output { port, .. } => *port,
        other => panic!("{other:?}"),
    };
    actions.iter().map(port).collect()
}

fn is_matched(field: &Field, at: SwitchPort, frame: &[u8]) -> bool {
    let eth = Ethernet::new(frame).unwrap();
    let value = match field.id {
        FieldId::IN_PORT => at.port.0.into(),
        FieldId::ETH_DST => eth.dst.to_u64().into(),
        FieldId::ETH_SRC => eth.src.to_u64().into(),
        FieldId::ETH_TYPE => eth.ethertype.0.into(),
        FieldId::VLAN_VID if eth.tagged => 0x1000 | u128::from(eth.vlan.0),
        FieldId::VLAN_VID => 0,
        id => match udp_fields(frame).into_iter().find(|&(known, _)| known == id) {
            Some((_, value)) => value,
            None => return false,
        },
    };
    let mask = field.mask.unwrap_or(u128::MAX);
    value & mask == field.value & mask
}
