//! Controllers for tests: one that floods every packet-in, and one that installs flow entries for all paths.

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

/// What a test controller does when a switch connects and when a packet-in arrives.
pub(crate) trait ControllerLogic {
    fn on_switch_connected(&mut self, switch: usize, out: &mut Encoder<'_>);
    fn on_packet_in(&mut self, p: &PacketIn<'_>, out: &mut Encoder<'_>);
}

/// A controller: the sessions of its switches, and its logic.
#[derive(Debug)]
pub(crate) struct TestController<L> {
    pub(crate) logic: L,
    pub(crate) cfg: Config,
    /// Connections that were opened.
    pub(crate) opened: usize,
    /// Connections that were closed by the network.
    pub(crate) closed: usize,
    pub(crate) packet_ins: usize,
    /// All bytes received, to compare runs.
    pub(crate) received: Vec<u8>,
    /// Sessions, each with the start of an incomplete message.
    sessions: BTreeMap<ConnectionId, (ControllerSession, Vec<u8>)>,
}

impl<L: ControllerLogic> TestController<L> {
    pub(crate) fn new(logic: L) -> Self {
        Self {
            logic,
            cfg: Config::default(),
            opened: 0,
            closed: 0,
            packet_ins: 0,
            received: vec![],
            sessions: BTreeMap::new(),
        }
    }

    /// The open connection of the first switch that has one.
    pub(crate) fn first_connection(&self) -> Option<ConnectionId> {
        self.sessions.keys().next().copied()
    }

    /// A controller that supports `versions`.
    pub(crate) fn with_versions(versions: Versions, logic: L) -> Self {
        let mut controller = Self::new(logic);
        controller.cfg.versions = versions;
        controller
    }
}

impl<L: ControllerLogic> Controller for TestController<L> {
    fn on_open(&mut self, now: Instant, conn: ConnectionId, replies: &mut ControllerOutput) {
        self.opened += 1;
        let session = ControllerSession::open(&self.cfg, 1, now, replies.bytes_to(conn));
        self.sessions.insert(conn, (session, vec![]));
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        replies: &mut ControllerOutput,
    ) -> usize {
        self.received.extend(bytes);
        let Some((session, partial)) = self.sessions.get_mut(&conn) else { return bytes.len() };
        session.record_activity(now);
        let mut all = std::mem::take(partial);
        all.extend(bytes);
        let mut rest = &*all;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            rest = after;
            let tx = replies.bytes_to(conn);
            match session.on_message(&self.cfg, msg, tx).unwrap() {
                Some(ControllerEvent::SwitchConnected(_)) => {
                    self.logic.on_switch_connected(conn.switch(), &mut session.encoder(tx));
                }
                Some(ControllerEvent::PacketIn(p)) => {
                    self.packet_ins += 1;
                    self.logic.on_packet_in(&p, &mut session.encoder(tx));
                }
                Some(ControllerEvent::Error(e)) => panic!("a switch sent an error: {e:?}"),
                Some(ControllerEvent::Malformed(kind, e)) => panic!("malformed {kind:?}: {e}"),
                _ => {}
            }
        }
        *partial = rest.to_vec();
        bytes.len()
    }

    fn on_closed(&mut self, _: Instant, conn: ConnectionId, _: &mut ControllerOutput) {
        self.closed += 1;
        self.sessions.remove(&conn);
    }

    fn on_tick(&mut self, now: Instant, replies: &mut ControllerOutput) {
        self.sessions.retain(|&conn, (session, _)| {
            let is_alive = session.handle_timeouts(&self.cfg, now, replies.bytes_to(conn)).is_ok();
            if !is_alive {
                replies.close(conn);
            }
            is_alive
        });
    }

    fn deadline(&self) -> Option<Instant> {
        self.sessions.values().map(|(session, _)| session.deadline(&self.cfg)).min()
    }
}

/// Floods every packet-in.
#[derive(Debug)]
pub(crate) struct FloodPacketIns;

impl ControllerLogic for FloodPacketIns {
    fn on_switch_connected(&mut self, _: usize, out: &mut Encoder<'_>) {
        out.send_misses_up(Action::WHOLE).unwrap();
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, out: &mut Encoder<'_>) {
        let actions = [Action::output(PortNo::FLOOD)];
        out.packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(p) }).unwrap();
    }
}

/// Installs all flow entries of a switch when it connects: shortest paths to every host of a known topology, and a
/// tree for broadcasts.
#[derive(Debug)]
pub(crate) struct InstallPaths {
    /// The flow entries of each switch.
    flow_mods: Vec<Vec<FlowMod>>,
}

impl InstallPaths {
    pub(crate) fn new(topology: &Topology) -> Self {
        let n = topology.switches.len();
        let mut flow_mods = vec![vec![]; n];
        for host in &topology.hosts {
            let towards = ports_towards(topology, host.port.switch);
            for (switch, flow_mods) in flow_mods.iter_mut().enumerate() {
                let port =
                    if switch == host.port.switch { Some(host.port.port) } else { towards[switch] };
                flow_mods
                    .extend(port.map(|port| flow_mod(10, vec![Field::eth_dst(host.mac)], &[port])));
            }
        }
        let towards = ports_towards(topology, 0);
        let mut tree: Vec<BTreeSet<PortNo>> = vec![BTreeSet::new(); n];
        for link in &topology.links {
            let leads_to_root =
                |end: sluice_emu::topology::PortRef| towards[end.switch] == Some(end.port);
            if leads_to_root(link.a) || leads_to_root(link.b) {
                tree[link.a.switch].insert(link.a.port);
                tree[link.b.switch].insert(link.b.port);
            }
        }
        for host in &topology.hosts {
            tree[host.port.switch].insert(host.port.port);
        }
        for (flow_mods, tree) in flow_mods.iter_mut().zip(tree) {
            for &port in &tree {
                let others: Vec<_> = tree.iter().copied().filter(|&other| other != port).collect();
                flow_mods.push(flow_mod(1, vec![Field::in_port(port)], &others));
            }
        }
        Self { flow_mods }
    }
}

fn flow_mod(priority: u16, fields: Vec<Field>, ports: &[PortNo]) -> FlowMod {
    let actions: Vec<_> = ports.iter().map(|&port| Action::output(port)).collect();
    FlowMod {
        priority,
        matching: fields.into_iter().collect(),
        instructions: vec![Instruction::ApplyActions { actions }],
        ..FlowMod::default()
    }
}

/// The port of each switch on a shortest path to `to`.
fn ports_towards(topology: &Topology, to: usize) -> Vec<Option<PortNo>> {
    let mut towards = vec![None; topology.switches.len()];
    let mut neighbours = vec![vec![]; topology.switches.len()];
    for link in &topology.links {
        neighbours[link.a.switch].push(link.b);
        neighbours[link.b.switch].push(link.a);
    }
    let (mut visited, mut queue) = (BTreeSet::from([to]), VecDeque::from([to]));
    while let Some(switch) = queue.pop_front() {
        for neighbour in &neighbours[switch] {
            if visited.insert(neighbour.switch) {
                towards[neighbour.switch] = Some(neighbour.port);
                queue.push_back(neighbour.switch);
            }
        }
    }
    towards
}

impl ControllerLogic for InstallPaths {
    fn on_switch_connected(&mut self, switch: usize, out: &mut Encoder<'_>) {
        for flow_mod in &self.flow_mods[switch] {
            out.flow_mod(flow_mod).unwrap();
        }
    }

    fn on_packet_in(&mut self, _: &PacketIn<'_>, _: &mut Encoder<'_>) {}
}

/// A network of a topology, given as text, and a controller.
pub(crate) fn network<L: ControllerLogic>(
    text: &str,
    options: &NetworkOptions,
    controller: impl FnOnce(&Topology) -> TestController<L>,
) -> NetworkSimulation<TestController<L>> {
    let topology = Topology::from_text(text).unwrap();
    let controller = controller(&topology);
    NetworkSimulation::new(topology, options, sluice_io::clock::now(), controller).unwrap()
}

/// A network in which all flow entries are installed.
pub(crate) fn network_with_paths(
    text: &str,
    options: &NetworkOptions,
) -> NetworkSimulation<TestController<InstallPaths>> {
    let mut net =
        network(text, options, |topology| TestController::new(InstallPaths::new(topology)));
    net.run_for(S).unwrap();
    assert_eq!(net.connected_switches(), net.data_plane().topology().switches.len(), "{text}");
    net
}
