//! Networks for tests: links drawn at random, switches whose tables are lists, workers that serve some of them each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, DatapathId, Encoder, FlowMod, FlowModCommand, MacAddr, Message, PacketInReason, PortNo,
    SwitchFeatures, Version, VlanId, split_message,
};
use sluice_sdk::view::{Fact, Host, HostId, Link, PortInfo, PortRole, SwitchInfo, SwitchPort};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use super::{Config, Forwarding, rules};

/// The port at which each switch has its host.
pub(super) const HOST: PortNo = PortNo(100);

const VERSION: Version = Version::V1_3;

/// Links between switches, by the places at their ends.
#[derive(Debug, Clone)]
pub(super) struct Wires {
    pub(super) switches: u64,
    pub(super) all: Vec<[SwitchPort; 2]>,
}

impl Wires {
    /// A connected network of so many switches, with `more` links beyond a tree.
    pub(super) fn random(rng: &mut Rng, switches: u64, more: u64) -> Self {
        let mut wires = Self { switches, all: Vec::new() };
        let mut below = |n: u64| u64::from(rng.below(u32::try_from(n).unwrap()));
        for n in 2..=switches {
            wires.add(1 + below(n - 1), n);
        }
        for _ in 0..more {
            let a = 1 + below(switches);
            wires.add(a, 1 + (a + below(switches - 1)) % switches);
        }
        wires
    }

    /// So many switches in the middle, each linked with all of the others.
    pub(super) fn leaf_spine(spines: u64, leaves: u64) -> Self {
        let mut wires = Self { switches: spines + leaves, all: Vec::new() };
        for leaf in spines + 1..=spines + leaves {
            (1..=spines).for_each(|spine| wires.add(spine, leaf));
        }
        wires
    }

    pub(super) fn add(&mut self, a: u64, b: u64) {
        let no = u32::try_from(self.all.len() + 1).unwrap();
        // No port is in two links, and both ends differ.
        let place = |id, no| SwitchPort::new(DatapathId(id), PortNo(no + HOST.0));
        self.all.push([place(a, 2 * no), place(b, 2 * no + 1)]);
    }

    /// How many links each switch is away from `from`.
    pub(super) fn lengths(&self, from: u64) -> BTreeMap<u64, usize> {
        let (mut lengths, mut next) = (BTreeMap::new(), VecDeque::from([(from, 0)]));
        while let Some((at, length)) = next.pop_front() {
            if lengths.contains_key(&at) {
                continue;
            }
            lengths.insert(at, length);
            for [a, b] in &self.all {
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

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It went out of this port, which has no link.
    Out(SwitchPort),
    /// No rule matched it here.
    Miss(SwitchPort),
    /// A rule sends it into a link that is dead.
    Dead(SwitchPort),
    /// It goes round.
    Loop,
}

/// A network, and the controller of it.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) links: Vec<[SwitchPort; 2]>,
    pub(super) workers: Vec<(Forwarding, Network)>,
    tables: BTreeMap<u64, Vec<FlowMod>>,
    /// Frames that were sent out of a port by `PACKET_OUT`.
    pub(super) sent: Vec<SwitchPort>,
    /// Rules that were written, over all switches.
    pub(super) written: usize,
    next_xid: u32,
}

impl Net {
    /// That of `wires`, with a host at each switch; all is known.
    pub(super) fn new(cfg: &Config, wires: &Wires, workers: usize) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = (0..workers).map(|n| (Forwarding::new(cfg), Network::new(n))).collect();
        let (tables, sent) = (BTreeMap::new(), Vec::new());
        let mut net =
            Self { now, links: Vec::new(), workers, tables, sent, written: 0, next_xid: 1 };
        for n in 1..=wires.switches {
            let edge = PortInfo {
                name: "host".into(),
                hw_addr: MacAddr::default(),
                is_up: true,
                role: PortRole::Edge,
            };
            let ports = wires.all.iter().flatten().filter(|at| at.switch.0 == n);
            let linked = PortInfo { role: PortRole::Link, ..edge.clone() };
            let ports = ports.map(|at| (at.port, linked.clone())).chain([(HOST, edge)]).collect();
            net.tell(&Fact::Switch(DatapathId(n), Some(SwitchInfo { ports })));
            net.tables.insert(n, Vec::new());
            net.with(n, |app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
            let at = SwitchPort::new(DatapathId(n), HOST);
            net.tell(&Fact::Host(host(n), Some(Host { at, addrs: vec![] })));
        }
        wires.all.iter().for_each(|&ends| net.link(ends));
        net
    }

    pub(super) fn link(&mut self, [a, b]: [SwitchPort; 2]) {
        self.links.push([a, b]);
        for (from, to) in [(a, b), (b, a)] {
            self.tell(&Fact::Link(to, Some(Link { from, to, delay: Duration::ZERO })));
        }
    }

    pub(super) fn cut(&mut self, n: usize) -> [SwitchPort; 2] {
        let [a, b] = self.links.swap_remove(n);
        self.tell(&Fact::Link(a, None));
        self.tell(&Fact::Link(b, None));
        [a, b]
    }

    /// Which worker serves a switch.
    fn worker(&self, switch: u64) -> usize {
        usize::try_from(switch).unwrap() % self.workers.len()
    }

    /// Tells all workers, and lets them say what they have to say.
    pub(super) fn tell(&mut self, fact: &Fact) {
        self.now += Duration::from_millis(1);
        self.workers[0].1.publish(self.now, fact.clone());
        self.carry();
    }

    fn with(&mut self, switch: u64, tell: impl FnOnce(&mut Forwarding, &mut Ctx<'_>)) {
        let worker = self.worker(switch);
        let (app, network) = &mut self.workers[worker];
        let (mut tx, mut ahead) = (Vec::new(), Vec::new());
        let here = Encoder::new(&mut tx, VERSION, &mut self.next_xid);
        let sw = SwitchIndex(u32::try_from(switch).unwrap());
        app.on_iteration(self.now);
        tell(app, &mut Ctx::new(self.now, sw, DatapathId(switch), here, &mut ahead, network));
        let mut rest = &*tx;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            self.hear(switch, Message::parse_raw(msg).unwrap());
            rest = after;
        }
        self.carry();
    }

    /// Carries facts to all workers and mail to all switches until nobody has anything to say.
    fn carry(&mut self) {
        while self.workers.iter().any(|(_, network)| !network.is_idle()) {
            for from in 0..self.workers.len() {
                for told in self.workers[from].1.take_facts() {
                    for (to, (app, network)) in self.workers.iter_mut().enumerate() {
                        if to == from || network.apply_remote(&told) {
                            app.on_fact(&told, self.now, network);
                        }
                    }
                }
                self.workers[from].1.take_reports();
                for (to, message) in self.workers[from].1.take_messages() {
                    self.hear(to.0, message);
                }
            }
        }
    }

    /// A switch hears a message.
    fn hear(&mut self, switch: u64, message: Message) {
        match message {
            Message::FlowMod(f) if f.command == FlowModCommand::ADD => {
                self.written += 1;
                let table = self.tables.get_mut(&switch).unwrap();
                table.retain(|old| old.matching != f.matching || old.priority != f.priority);
                table.push(f);
            }
            Message::FlowMod(f) => {
                assert_eq!(f.command, FlowModCommand::DELETE);
                let covered = |rule: &FlowMod| {
                    f.matching.iter().all(|field| rule.matching.get(field.id) == Some(field))
                        && rules::out_port(&rule.instructions) == Some(f.out_port)
                        && rule.cookie & f.cookie_mask == f.cookie & f.cookie_mask
                };
                self.tables.get_mut(&switch).unwrap().retain(|rule| !covered(rule));
            }
            Message::PacketOut(p) => self.sent.extend(p.actions.iter().map(|action| {
                let Action::Output { port, .. } = action else { panic!("{action:?}") };
                SwitchPort::new(DatapathId(switch), *port)
            })),
            Message::MultipartRequest(_) | Message::BarrierRequest => {}
            other => panic!("{other:?}"),
        }
    }

    /// A frame from one host to another: by the rules as far as they go, then by the controller. Whether it arrived.
    pub(super) fn send(&mut self, from: u64, to: u64) -> bool {
        let goal = SwitchPort::new(DatapathId(to), HOST);
        match self.walk(from, to) {
            End::Out(at) => at == goal,
            End::Miss(at) => {
                let frame = [&host(to).mac.0[..], &host(from).mac.0, &[8, 0, 0x55, 0x55]].concat();
                self.sent.clear();
                self.comes_up(at, &frame);
                self.sent == [goal]
            }
            End::Dead(_) | End::Loop => false,
        }
    }

    pub(super) fn comes_up(&mut self, at: SwitchPort, frame: &[u8]) {
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

    /// Where a frame from one host to another gets by the rules alone.
    pub(super) fn walk(&self, from: u64, to: u64) -> End {
        let mut at = SwitchPort::new(DatapathId(from), HOST);
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(at) {
                return End::Loop;
            }
            let rules = self.tables[&at.switch.0].iter();
            let fits = |rule: &&FlowMod| {
                rule.matching.iter().all(|field| match field.id {
                    sluice_openflow::FieldId::ETH_DST => {
                        field.value == host(to).mac.to_u64().into()
                    }
                    sluice_openflow::FieldId::ETH_SRC => {
                        field.value == host(from).mac.to_u64().into()
                    }
                    _ => field.value == 0,
                }) && rule.priority > 0
            };
            let Some(rule) = rules.max_by_key(|rule| (fits(rule), rule.priority)).filter(fits)
            else {
                return End::Miss(at);
            };
            let out = SwitchPort::new(at.switch, rules::out_port(&rule.instructions).unwrap());
            if out == at {
                return End::Dead(at);
            }
            if out.port == HOST {
                return End::Out(out);
            }
            let ends = self.links.iter().find(|ends| ends.contains(&out));
            match ends {
                Some(&[a, b]) => at = if a == out { b } else { a },
                None => return End::Dead(out),
            }
        }
    }
}
