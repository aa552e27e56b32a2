//! Forwards packets: installs flow entries for those that follow, and sends the packet itself to its destination.

use std::time::Instant;

use sluice_openflow::{Action, DatapathId, Field, FlowMod, Message, PacketOutRef, PortNo};
use sluice_sdk::view::{AppEvent, HostId, NetworkView, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::flood::{FloodArea, FloodDecision, is_edge};
use super::flow::Flow;
use super::match_ranks::PathStart;
use super::multicast::{EthernetGroup, FloodScope};
use super::{
    Forwarding, Ingress, Matching, ReceivedPacket, debug_assert_encoded, flow_entries, pending,
};
use sluice_sdk::routes::{Hop, PathChoice};

/// Bytes of a frame that fit a `PACKET_OUT` in every version, whatever the actions.
const FRAME_MAX: usize = 60_000;

/// Seed of the hash that chooses among paths of equal length; the same in all workers, so that they choose the same path.
const PATH_SEED: u64 = 0;

/// Outputs of one `PACKET_OUT`, so that there is room for the frame: 16 bytes each.
pub(super) const OUTPUTS_MAX: usize = 256;

const _: () = assert!(FRAME_MAX + OUTPUTS_MAX * 16 + 128 <= 0xffff);

/// Flow entries by which a switch sends packets for a host to another switch are stale, since the host is unknown. Its worker
/// deletes them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StaleHop {
    /// The port to which they send.
    pub(super) at: SwitchPort,
    pub(super) host: HostId,
}

impl AppEvent for StaleHop {}

impl Forwarding {
    /// Forwards a packet to the host at `to`, and installs the path of its flow.
    pub(super) fn forward(
        &mut self,
        packet: &ReceivedPacket<'_>,
        to: SwitchPort,
        ctx: &mut Ctx<'_>,
    ) {
        // Between two ports of one switch, only what that switch matches counts.
        let ends_here = packet.ingress == Ingress::Edge && to.switch == ctx.datapath_id;
        let matching =
            if ends_here { self.ranks.at(ctx.datapath_id) } else { self.ranks.network() };
        let Some(flow) = Flow::parse(&packet.eth, packet.p.frame, matching) else {
            return self.send_packet(packet, to, ctx);
        };
        let is_matchable = !flow.is_ipv6() || self.switches.supports_ipv6_match(ctx.datapath_id);
        if !is_matchable || self.switches.is_paused(ctx.datapath_id, ctx.now) {
            return self.send_packet(packet, to, ctx);
        }
        self.pending.touch(ctx.switch_index, &flow);
        if self.pending.packet_arrived(&flow, ctx.now) {
            self.counters.packets_during_installation += 1;
            return self.send_behind_entries(packet, to, ctx);
        }
        let view = ctx.view();
        let source = view.host(packet.src()).map(|host| host.at);
        let source = source.filter(|&source| is_edge(view, source));
        let start = match packet.ingress {
            Ingress::Edge => packet.at,
            Ingress::Link => source.unwrap_or(packet.at),
        };
        // The replies leave by the port of the host, also if this packet has arrived at another port of its bundle.
        let source = source
            .filter(|&source| source == packet.attached_at || packet.ingress == Ingress::Link);
        let has_source = source.is_some();
        let Some(path) = self.path(flow, start, to, ctx.view()) else {
            self.counters.no_path += 1;
            return packet.discard(ctx);
        };
        let back = source.filter(|_| self.cfg.both_directions);
        let back = back.and_then(|source| self.path(flow.reversed(), to, source, ctx.view()));
        let time = pending::installation_time(self.cfg.path_pending, ctx.rtt());
        self.pending.begin(flow, ctx.now, time);
        if back.is_some() {
            self.pending.begin(flow.reversed(), ctx.now, time);
        }
        let is_from_edge = packet.ingress == Ingress::Edge || has_source;
        let path_start = if is_from_edge { PathStart::EdgePort } else { PathStart::Link };
        let hops_back = back.as_deref().unwrap_or_default();
        let paths = [(&*path, path_start), (hops_back, PathStart::EdgePort)];
        if self.simplify_for_transit(paths, ctx) {
            return self.send_packet(packet, to, ctx);
        }
        self.counters.paths_installed += 1;
        let is_local = |path: &[Hop]| matches!(path, [hop] if hop.switch == ctx.datapath_id);
        if is_local(&path) && back.as_deref().is_none_or(is_local) {
            self.install_locally(packet, flow, to, back.is_some(), ctx);
        } else {
            self.install_path(packet, flow, &path, back.as_deref(), ctx);
        }
    }

    /// The path of a flow. Both directions use the same path; if flow entries match the destination only, all paths
    /// to a host form a tree.
    ///
    /// The simplest match of a switch at an end decides: flows that share its flow entries must use the same path.
    /// Otherwise they would replace each other's entries in turn.
    pub(super) fn path(
        &mut self,
        flow: Flow,
        from: SwitchPort,
        to: SwitchPort,
        view: &NetworkView,
    ) -> Option<Vec<Hop>> {
        let matching = self.ranks.at(from.switch).or_simpler(self.ranks.at(to.switch));
        let choice = match matching {
            Matching::Dst => PathChoice::PerDestination(flow.hash_dst(PATH_SEED)),
            Matching::Pair | Matching::FiveTuple => {
                PathChoice::Symmetric(flow.simplified(matching).hash_symmetric(PATH_SEED))
            }
        };
        self.routes.path(view, from, to, choice)
    }

    /// Installs the flow entries of a path that consists of this switch only.
    fn install_locally(
        &mut self,
        packet: &ReceivedPacket<'_>,
        flow: Flow,
        to: SwitchPort,
        back: bool,
        ctx: &mut Ctx<'_>,
    ) {
        if back {
            self.counters.flow_entries_written += 1;
            let out_port = packet.attached_at.port;
            let hop = Hop { switch: to.switch, in_port: to.port, out_port };
            debug_assert_encoded(ctx.switch.flow_mod(&self.flow_entry(flow.reversed(), hop)));
        }
        self.counters.flow_entries_written += 1;
        let buffer_id = packet.p.buffer_id;
        let hop = Hop { switch: to.switch, in_port: packet.at.port, out_port: to.port };
        let entry = FlowMod { buffer_id, ..self.flow_entry(flow, hop) };
        debug_assert_encoded(ctx.switch.flow_mod(&entry));
        if buffer_id.is_none() {
            self.send_packet(packet, to, ctx);
        }
    }

    /// Installs the flow entries of a path, those of the last switch first. They are sent as messages to the
    /// switches' workers, which keep that order.
    fn install_path(
        &mut self,
        packet: &ReceivedPacket<'_>,
        flow: Flow,
        path: &[Hop],
        back: Option<&[Hop]>,
        ctx: &mut Ctx<'_>,
    ) {
        // If the switch has buffered more of the frame than it sent, the flow entry releases it.
        let mut buffered = packet.p.buffer_id.filter(|_| !packet.is_complete());
        for hop in path.iter().rev().filter(|hop| hop.in_port != hop.out_port) {
            let buffer_id = if hop.switch == ctx.datapath_id && hop.out_port != packet.at.port {
                buffered.take()
            } else {
                None
            };
            let entry = FlowMod { buffer_id, ..self.flow_entry(flow, *hop) };
            self.write_entry(hop.switch, entry, ctx);
        }
        for hop in back.into_iter().flatten().rev() {
            self.write_entry(hop.switch, self.flow_entry(flow.reversed(), *hop), ctx);
        }
        let is_released =
            packet.p.buffer_id.is_some() && !packet.is_complete() && buffered.is_none();
        match path.last() {
            Some(last) if !is_released => {
                self.send_packet(packet, SwitchPort::new(last.switch, last.out_port), ctx);
            }
            _ => {}
        }
    }

    /// The flow entry of a flow at a switch on its path.
    fn flow_entry(&self, flow: Flow, hop: Hop) -> FlowMod {
        flow_entries::flow_entry(&self.cfg, self.ranks.at(hop.switch), flow, hop.ports())
    }

    fn write_entry(&mut self, to: DatapathId, entry: FlowMod, ctx: &mut Ctx<'_>) {
        if self.switches.is_paused(to, ctx.now) {
            // An older entry with the same match could lead back.
            return ctx.send_to(to, Message::FlowMod(flow_entries::delete_strict(entry)));
        }
        self.counters.flow_entries_written += 1;
        ctx.send_to(to, Message::FlowMod(entry));
    }

    /// Sends the packet out of the last port of its path, so that it causes no packet-in at other switches.
    fn send_packet(&mut self, packet: &ReceivedPacket<'_>, to: SwitchPort, ctx: &mut Ctx<'_>) {
        if to.switch == ctx.datapath_id && (packet.is_complete() || packet.p.buffer_id.is_some()) {
            let actions = [Action::output(to.port)];
            debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef {
                actions: &actions,
                ..PacketOutRef::answer(&packet.p)
            }));
            return;
        }
        if packet.p.buffer_id.is_some() {
            // Behind the flow entries, so that packets buffered after this one are forwarded by these.
            let release = release_buffer(packet, vec![]);
            ctx.send_to(ctx.datapath_id, Message::PacketOut(release));
        }
        self.send_copy(to.switch, [to.port], packet, ctx);
    }

    /// Sends the packet after the flow entries that were written for it: out of the last port of its path, or by
    /// these entries if the switch has buffered more of it than it sent.
    fn send_behind_entries(
        &mut self,
        packet: &ReceivedPacket<'_>,
        to: SwitchPort,
        ctx: &mut Ctx<'_>,
    ) {
        if to.switch == ctx.datapath_id || packet.p.buffer_id.is_none() || packet.is_complete() {
            return self.send_packet(packet, to, ctx);
        }
        let by_entries = release_buffer(packet, vec![Action::output(PortNo::TABLE)]);
        ctx.send_to(ctx.datapath_id, Message::PacketOut(by_entries));
    }

    /// Sends a copy of the packet out of ports of another switch.
    fn send_copy(
        &mut self,
        at: DatapathId,
        ports: impl IntoIterator<Item = PortNo>,
        packet: &ReceivedPacket<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        if !packet.is_complete() || packet.p.frame.len() > FRAME_MAX {
            self.counters.truncated += 1;
            return;
        }
        let actions: Vec<_> = ports.into_iter().map(Action::output).collect();
        for actions in actions.chunks(OUTPUTS_MAX) {
            let out = sluice_openflow::PacketOut {
                buffer_id: None,
                matching: [Field::in_port(PortNo::CONTROLLER)].into(),
                actions: actions.to_vec(),
                data: packet.p.frame.to_vec(),
            };
            ctx.send_to(at, Message::PacketOut(out));
        }
    }

    /// Floods a packet to the edge ports of all switches to which there is a path, except for its ingress port; along
    /// the spanning tree as far as that leads.
    ///
    /// # Cost
    /// Copies the packet for each switch that the tree does not reach.
    pub(super) fn flood(
        &mut self,
        packet: &ReceivedPacket<'_>,
        scope: FloodScope,
        ctx: &mut Ctx<'_>,
    ) {
        let max = self.cfg.floods_per_s_max;
        let decision = self.floods.check(packet.attached_at, packet.p.frame, ctx.now, max);
        if packet.eth.dst.is_group() && scope != FloodScope::Routers {
            self.group_streams.count_flood(ctx.now);
        }
        let count = match decision {
            FloodDecision::Flood(_) => &mut self.counters.floods,
            FloodDecision::LimitExceeded => &mut self.counters.floods_over_limit,
            FloodDecision::Looped(_) | FloodDecision::Repeated(_) => {
                &mut self.counters.floods_looped
            }
        };
        *count += 1;
        let FloodDecision::Flood(frame) = decision else {
            if let Some(line) = self.floods.report(decision, packet.attached_at, max, ctx.now) {
                ctx.network.report(|| line);
            }
            if let Some(event) = self.floods.loop_event(decision, packet.attached_at, ctx.now) {
                ctx.publish_event(event);
            }
            // The switches may forward a source that repeats itself.
            if packet.eth.dst.is_group() && packet.ingress == Ingress::Edge {
                self.install_stream(packet, ctx);
            }
            return packet.discard(ctx);
        };
        if let Some(frame) = frame {
            ctx.publish_event(frame);
        }
        let group = (packet.eth.vlan, packet.eth.dst);
        let ingress = packet.ingress;
        let area = self.flood_area(ctx.datapath_id, group, ingress, scope, ctx.network);
        self.counters.floods_along_tree += u64::from(area.tree_part.is_some());
        let source = match packet.ingress {
            Ingress::Edge => Some(packet.attached_at),
            Ingress::Link => ctx.view().host(packet.src()).map(|host| host.at),
        };
        let here = ctx.datapath_id;
        let is_source = |switch, port| Some(SwitchPort::new(switch, port)) == source;
        let outputs = area.local_ports().filter(|&port| port != packet.at.port);
        let outputs = outputs.filter(|&port| !is_source(here, port));
        let actions: Vec<_> = outputs.map(Action::output).collect();
        let has_packet =
            packet.p.buffer_id.is_some() || (packet.is_complete() && !actions.is_empty());
        if has_packet {
            debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef {
                actions: &actions,
                ..PacketOutRef::answer(&packet.p)
            }));
        }
        for (switch, ports) in area.others() {
            let ports = ports.into_iter().filter(|&port| !is_source(switch, port));
            self.send_copy(switch, ports, packet, ctx);
        }
        if packet.eth.dst.is_group() {
            self.install_stream(packet, ctx);
        }
    }

    /// Has the switch forward the packets of a stream to a group by itself, if this was one of many.
    fn install_stream(&mut self, packet: &ReceivedPacket<'_>, ctx: &mut Ctx<'_>) {
        let flow = Flow::parse(&packet.eth, packet.p.frame, Matching::FiveTuple);
        let Some(flow) = flow.filter(Flow::is_group_stream) else { return };
        if flow.is_ipv6() && !self.switches.supports_ipv6_match(ctx.datapath_id) {
            return;
        }
        let (at, now) = (packet.at, ctx.now);
        if !self.group_streams.packet_arrived(at, flow, now) {
            return;
        }
        let Some(outputs) = self.stream_outputs(at, flow, ctx.network) else { return };
        let time = pending::installation_time(self.cfg.path_pending, ctx.rtt());
        let priority = self.cfg.priority;
        let entry = self.group_streams.install(at, flow, outputs, priority, (now, time));
        if let Some(entry) = entry {
            self.counters.flow_entries_written += 1;
            ctx.send_to(at.switch, Message::FlowMod(entry));
        }
    }

    /// The ports out of which a switch is to send the packets of a stream from one of its ports; `None` if the controller is
    /// to flood them.
    fn stream_outputs(
        &mut self,
        at: SwitchPort,
        flow: Flow,
        network: &Network,
    ) -> Option<Vec<PortNo>> {
        let view = network.view();
        let attached_at = view.attachment_port(at).filter(|&port| is_edge(view, port))?;
        let source = HostId { mac: flow.src, vlan: flow.vlan.unwrap_or_default() };
        if view.host(source).is_none_or(|host| host.at != attached_at) {
            return None;
        }
        let group = (flow.vlan.unwrap_or_default(), flow.dst);
        let area = self.flood_area(at.switch, group, Ingress::Edge, FloodScope::Group, network);
        let outputs = area.local_ports().filter(|&port| port != attached_at.port).collect();
        area.others().next().is_none().then_some(outputs)
    }

    /// Where a packet to an address in a VLAN is flooded from a switch.
    ///
    /// # Cost
    /// That of [`EdgePortCache::reachable_from`](super::flood::EdgePortCache::reachable_from).
    fn flood_area(
        &mut self,
        here: DatapathId,
        group: EthernetGroup,
        ingress: Ingress,
        scope: FloodScope,
        network: &Network,
    ) -> FloodArea {
        let view = network.view();
        let tree = self.trees.link_ports(view);
        let area = self.edge_ports.reachable_from(view, &mut self.routes, tree, here);
        // Reports must not reach other members, which would not report then, so they do not use the tree.
        let tree_part = match (ingress, scope) {
            (Ingress::Edge, FloodScope::All | FloodScope::Group) => {
                self.trees.part(here, group.1, network)
            }
            (Ingress::Link, _) | (_, FloodScope::Routers) => None,
        };
        FloodArea { here, area, tree_part, filter: self.multicast.filter_in(scope, group) }
    }

    /// Has the flow entries for streams of a switch follow the edge ports and the spanning tree.
    pub(super) fn refresh_streams(&mut self, id: DatapathId, now: Instant, network: &mut Network) {
        let mut streams = std::mem::take(&mut self.group_streams);
        let priority = self.cfg.priority;
        let changes =
            streams.refresh(id, priority, now, |at, flow| self.stream_outputs(at, flow, network));
        self.group_streams = streams;
        for change in changes {
            network.send_to(id, Message::FlowMod(change));
        }
    }

    /// Has the flow entries deleted by which another switch sent a packet here for a host that is unknown now, so that the
    /// next packet goes to the controller.
    pub(super) fn delete_previous_hop_entry(
        &mut self,
        packet: &ReceivedPacket<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(link) = ctx.view().link_to(packet.at) else { return };
        let from = link.from;
        let Some(flow) = Flow::parse(&packet.eth, packet.p.frame, Matching::Pair) else { return };
        self.pending.touch(ctx.switch_index, &flow);
        if !self.pending.packet_arrived(&flow, ctx.now) {
            self.pending.begin(
                flow,
                ctx.now,
                pending::installation_time(self.cfg.path_pending, ctx.rtt()),
            );
            ctx.publish_event(StaleHop { at: from, host: packet.dst() });
        }
    }
}

/// A packet-out that applies actions to the packet which the switch has buffered.
fn release_buffer(packet: &ReceivedPacket<'_>, actions: Vec<Action>) -> sluice_openflow::PacketOut {
    sluice_openflow::PacketOut {
        buffer_id: packet.p.buffer_id,
        matching: [Field::in_port(packet.p.in_port)].into(),
        actions,
        data: Vec::new(),
    }
}
