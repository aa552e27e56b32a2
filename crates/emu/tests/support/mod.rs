//! Controllers for tests: one that floods, and one that knows the topology.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sluice_emu::net::{
    ConnectionId, Controller, ControllerOutput, NetworkOptions, NetworkSimulation,
};
use sluice_emu::topology::Topology;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, Encoder, Field, FlowMod, Instruction, PacketOutRef, PortNo, Versions, split_message,
};
use sluice_proto::{Config, ControllerEvent, ControllerSession};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// How a controller handles switches and packet-ins.
pub(crate) trait Mind {
    fn up(&mut self, switch: usize, out: &mut Encoder<'_>);
    fn packet_in(&mut self, p: &PacketIn<'_>, out: &mut Encoder<'_>);
}

/// A controller: sessions, and the logic under test.
#[derive(Debug)]
pub(crate) struct Brain<M> {
    pub(crate) mind: M,
    pub(crate) cfg: Config,
    pub(crate) opened: usize,
    pub(crate) closed: usize,
    pub(crate) packet_ins: usize,
    /// All bytes received, to compare runs.
    pub(crate) heard: Vec<u8>,
    sessions: BTreeMap<ConnectionId, (ControllerSession, Vec<u8>)>,
}

impl<M: Mind> Brain<M> {
    pub(crate) fn new(mind: M) -> Self {
        Self {
            mind,
            cfg: Config::default(),
            opened: 0,
            closed: 0,
            packet_ins: 0,
            heard: vec![],
            sessions: BTreeMap::new(),
        }
    }

    pub(crate) fn speaking(versions: Versions, mind: M) -> Self {
        let mut brain = Self::new(mind);
        brain.cfg.versions = versions;
        brain
    }
}

impl<M: Mind> Controller for Brain<M> {
    fn on_open(&mut self, now: Instant, conn: ConnectionId, replies: &mut ControllerOutput) {
        self.opened += 1;
        let session = ControllerSession::open(&self.cfg, now, replies.bytes_to(conn));
        self.sessions.insert(conn, (session, vec![]));
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        replies: &mut ControllerOutput,
    ) {
        self.heard.extend(bytes);
        let Some((session, torn)) = self.sessions.get_mut(&conn) else { return };
        session.record_activity(now);
        let mut all = std::mem::take(torn);
        all.extend(bytes);
        let mut rest = &*all;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            rest = after;
            let tx = replies.bytes_to(conn);
            match session.on_message(&self.cfg, msg, tx).unwrap() {
                Some(ControllerEvent::SwitchConnected(_)) => {
                    self.mind.up(conn.switch(), &mut session.encoder(tx));
                }
                Some(ControllerEvent::PacketIn(p)) => {
                    self.packet_ins += 1;
                    self.mind.packet_in(&p, &mut session.encoder(tx));
                }
                Some(ControllerEvent::Error(e)) => panic!("a switch refuses: {e:?}"),
                Some(ControllerEvent::Malformed(kind, e)) => panic!("{kind:?} is malformed: {e}"),
                _ => {}
            }
        }
        *torn = rest.to_vec();
    }

    fn on_closed(&mut self, _: Instant, conn: ConnectionId, _: &mut ControllerOutput) {
        self.closed += 1;
        self.sessions.remove(&conn);
    }

    fn on_tick(&mut self, now: Instant, replies: &mut ControllerOutput) {
        self.sessions.retain(|&conn, (session, _)| {
            let goes_on = session.handle_timeouts(&self.cfg, now, replies.bytes_to(conn)).is_ok();
            if !goes_on {
                replies.close(conn);
            }
            goes_on
        });
    }

    fn deadline(&self) -> Option<Instant> {
        self.sessions.values().map(|(session, _)| session.deadline(&self.cfg)).min()
    }
}

/// Floods every packet-in.
#[derive(Debug)]
pub(crate) struct Flood;

impl Mind for Flood {
    fn up(&mut self, _: usize, out: &mut Encoder<'_>) {
        out.send_misses_up(Action::WHOLE).unwrap();
    }

    fn packet_in(&mut self, p: &PacketIn<'_>, out: &mut Encoder<'_>) {
        let actions = [Action::output(PortNo::FLOOD)];
        out.packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(p) }).unwrap();
    }
}

/// Knows the topology and installs all flow entries when a switch connects: shortest paths to every host, and a tree
/// for
/// broadcasts.
#[derive(Debug)]
pub(crate) struct Oracle {
    rules: Vec<Vec<FlowMod>>,
}

impl Oracle {
    pub(crate) fn new(topology: &Topology) -> Self {
        let n = topology.switches.len();
        let mut rules = vec![vec![]; n];
        for host in &topology.hosts {
            let towards = paths(topology, host.port.switch);
            for (switch, rules) in rules.iter_mut().enumerate() {
                let port =
                    if switch == host.port.switch { Some(host.port.port) } else { towards[switch] };
                rules.extend(port.map(|port| rule(10, vec![Field::eth_dst(host.mac)], &[port])));
            }
        }
        let towards = paths(topology, 0);
        let mut tree: Vec<BTreeSet<PortNo>> = vec![BTreeSet::new(); n];
        for link in &topology.links {
            let up =
                |place: sluice_emu::topology::PortRef| towards[place.switch] == Some(place.port);
            if up(link.a) || up(link.b) {
                tree[link.a.switch].insert(link.a.port);
                tree[link.b.switch].insert(link.b.port);
            }
        }
        for host in &topology.hosts {
            tree[host.port.switch].insert(host.port.port);
        }
        for (rules, tree) in rules.iter_mut().zip(tree) {
            for &port in &tree {
                let others: Vec<_> = tree.iter().copied().filter(|&other| other != port).collect();
                rules.push(rule(1, vec![Field::in_port(port)], &others));
            }
        }
        Self { rules }
    }
}

fn rule(priority: u16, fields: Vec<Field>, ports: &[PortNo]) -> FlowMod {
    let actions: Vec<_> = ports.iter().map(|&port| Action::output(port)).collect();
    FlowMod {
        priority,
        matching: fields.into_iter().collect(),
        instructions: vec![Instruction::ApplyActions { actions }],
        ..FlowMod::default()
    }
}

/// The port of each switch on a shortest path to `to`.
fn paths(topology: &Topology, to: usize) -> Vec<Option<PortNo>> {
    let mut towards = vec![None; topology.switches.len()];
    let mut near = vec![vec![]; topology.switches.len()];
    for link in &topology.links {
        near[link.a.switch].push(link.b);
        near[link.b.switch].push(link.a);
    }
    let (mut seen, mut next) = (BTreeSet::from([to]), VecDeque::from([to]));
    while let Some(switch) = next.pop_front() {
        for far in &near[switch] {
            if seen.insert(far.switch) {
                towards[far.switch] = Some(far.port);
                next.push_back(far.switch);
            }
        }
    }
    towards
}

impl Mind for Oracle {
    fn up(&mut self, switch: usize, out: &mut Encoder<'_>) {
        for rule in &self.rules[switch] {
            out.flow_mod(rule).unwrap();
        }
    }

    fn packet_in(&mut self, _: &PacketIn<'_>, _: &mut Encoder<'_>) {}
}

pub(crate) fn network<M: Mind>(
    text: &str,
    options: &NetworkOptions,
    brain: impl FnOnce(&Topology) -> Brain<M>,
) -> NetworkSimulation<Brain<M>> {
    let topology = Topology::from_text(text).unwrap();
    let brain = brain(&topology);
    NetworkSimulation::new(topology, options, sluice_io::clock::now(), brain).unwrap()
}

/// A network in which all flow entries are installed.
pub(crate) fn wise(text: &str, options: &NetworkOptions) -> NetworkSimulation<Brain<Oracle>> {
    let mut net = network(text, options, |topology| Brain::new(Oracle::new(topology)));
    net.run_for(S).unwrap();
    assert_eq!(net.connected_switches(), net.data_plane().topology().switches.len(), "{text}");
    net
}
