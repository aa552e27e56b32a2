//! Shortest-path forwarding: the first packet of a flow installs the flow entries of its whole path.
//!
//! `docs/forwarding.md` says what it does, `docs/adr/0008-rules-and-floods.md` why there are no loops and no broadcast storms.

mod answers;
mod drain;
mod fast_path;
mod flood;
mod flow;
mod flow_entries;
mod group_streams;
mod install;
mod listed_deletions;
mod match_fallback;
mod match_ranks;
mod match_retries;
mod metrics;
pub mod multicast;
mod pending;
#[cfg(test)]
mod random_changes;
mod repair;
#[cfg(test)]
mod route_tests;
mod segment_ports;
mod switches;
#[cfg(test)]
mod test_network;
mod tree;
mod verify;

use std::time::{Duration, Instant};

use sluice_openflow::value::Value;
use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{
    Action, DatapathId, EncodeError, Encoder, ErrorType, Ethernet, MultipartType, PacketOutRef,
    SwitchFeatures,
};
use sluice_sdk::routes::Routes;
use sluice_sdk::view::{
    Fact, HostId, HostInDoubt, IsolatedPort, NetworkView, PortRole, PublishedFact, SwitchPort,
};
use sluice_sdk::{
    Answer, AnswerCache, AnsweredPacket, App, AppMetric, Ctx, Network, SwitchIndex, Ticket,
    Verdict, send_misses_up,
};

use crate::permanent_entries::PermanentEntries;
use drain::Drains;
use fast_path::SwitchFastPath;
use flood::{EdgePortCache, FloodFilter, is_edge};
use flow_entries::EntryFilter;
use group_streams::{GroupStreams, TreeDemand};
use install::StaleHop;
use match_ranks::{MatchRanks, RefusedMatch};
use match_retries::Retries;
use metrics::Counters;
use multicast::{FloodScope, Multicast};
use pending::PendingFlows;
use repair::Repair;
use segment_ports::SegmentPorts;
pub use sluice_sdk::flow_space::CONFIGURABLE_PRIORITIES as PRIORITIES;
use switches::{LocalSwitches, PriorityLimits};
use tree::Trees;
pub use tree::{Flooding, SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};

/// Configuration of forwarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What flow entries match.
    pub matching: Matching,
    /// Whether the path for the replies is installed together with that of the first packet.
    pub both_directions: bool,
    /// Priority of flow entries.
    pub priority: u16,
    /// Seconds without a matching packet after which a flow entry expires; 0 disables.
    pub idle_timeout_s: u16,
    /// Seconds after which a flow entry expires; 0 disables.
    pub hard_timeout_s: u16,
    /// For how long flow entries are assumed to be in flight to a switch, in addition to one and a half round-trip times.
    /// Packets of the flow that arrive meanwhile do not install the path again. Zero disables this.
    pub path_pending: Duration,
    /// For how long a switch that has refused a flow entry gets no others.
    pub refused_retry: Duration,
    /// Time between two verifications of the flow entries of a switch; zero disables them.
    pub verify_interval: Duration,
    /// How broadcasts, multicasts and packets to unknown hosts reach all edge ports.
    pub flooding: Flooding,
    /// Packets per second that are flooded from one port; more are dropped.
    pub floods_per_s_max: u32,
    /// How multicasts are filtered; `None` if they are not.
    pub multicast: Option<multicast::Config>,
    /// Bytes of a table miss that switches of OpenFlow 1.3 and later send to the controller; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
    /// Whether common packet-ins are answered in a loop that patches templates. Otherwise each message is encoded anew.
    pub templates: bool,
}

/// What a flow entry matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Destination address: the fewest flow entries. All paths to a host form one tree.
    Dst,
    /// Destination and source address.
    Pair,
    /// Also the Ethernet type, and for IP the addresses, protocol and ports. Each connection has a path of its own.
    FiveTuple,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            matching: Matching::Pair,
            both_directions: true,
            priority: 100,
            idle_timeout_s: 60,
            hard_timeout_s: 0,
            path_pending: Duration::from_millis(50),
            refused_retry: Duration::from_secs(10),
            verify_interval: Duration::from_secs(300),
            flooding: Flooding::Auto,
            floods_per_s_max: 1000,
            multicast: None,
            miss_send_len: Action::WHOLE,
            templates: true,
        }
    }
}

/// Installs shortest paths between hosts, and floods broadcasts to edge ports.
#[derive(Debug)]
pub struct Forwarding {
    cfg: Config,
    ranks: MatchRanks,
    retries: Retries,
    routes: Routes,
    drains: Drains,
    edge_ports: EdgePortCache,
    floods: FloodFilter,
    group_streams: GroupStreams,
    multicast: Multicast,
    pending: PendingFlows,
    repair: Repair,
    segment_ports: SegmentPorts,
    permanent: PermanentEntries,
    switches: LocalSwitches,
    trees: Trees,
    /// By [`SwitchIndex`].
    fast_paths: Vec<Option<Box<SwitchFastPath>>>,
    counters: Counters,
    last_sweep: Option<Instant>,
    last_tick: Option<Instant>,
}

/// A packet-in with its parsed Ethernet header and its origin.
#[derive(Debug, Clone, Copy)]
struct ReceivedPacket<'a> {
    p: PacketIn<'a>,
    eth: Ethernet<'a>,
    at: SwitchPort,
    /// The port at which its source is: another than `at` if that belongs to a bundle.
    attached_at: SwitchPort,
    ingress: Ingress,
}

/// The kind of port at which a packet was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ingress {
    /// A port to hosts.
    Edge,
    /// A link to another switch of this network.
    Link,
}

impl ReceivedPacket<'_> {
    /// Whether the packet-in contains the whole frame and not only a part.
    fn is_complete(&self) -> bool {
        crate::packet::is_complete(&self.p)
    }

    fn dst(&self) -> HostId {
        HostId { mac: self.eth.dst, vlan: self.eth.vlan }
    }

    fn src(&self) -> HostId {
        HostId { mac: self.eth.src, vlan: self.eth.vlan }
    }

    /// Drops the packet, and frees its buffer in the switch.
    fn discard(&self, ctx: &mut Ctx<'_>) {
        if self.p.buffer_id.is_some() {
            debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef::answer(&self.p)));
        }
    }
}

impl Default for Forwarding {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Forwarding {
    /// Forwarding with this configuration.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            ranks: MatchRanks::new(cfg.matching),
            retries: Retries::default(),
            routes: Routes::default(),
            drains: Drains::default(),
            edge_ports: EdgePortCache::default(),
            floods: FloodFilter::default(),
            group_streams: GroupStreams::default(),
            multicast: Multicast::new(cfg.multicast, cfg.floods_per_s_max),
            pending: PendingFlows::default(),
            repair: Repair::default(),
            segment_ports: SegmentPorts::default(),
            permanent: PermanentEntries::default(),
            switches: LocalSwitches::default(),
            trees: Trees::default(),
            fast_paths: Vec::new(),
            counters: Counters::default(),
            last_sweep: None,
            last_tick: None,
        }
    }

    /// Applies a new configuration. Installed flow entries stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        self.multicast.configure(cfg.multicast, cfg.floods_per_s_max);
        self.ranks.configure(cfg.matching);
        self.apply_matching(None);
    }

    /// What is done once for all switches whose ticks are in the same iteration.
    fn tick_once(&mut self, ctx: &mut Ctx<'_>) {
        self.expire_refused_matches(ctx);
        if let Some(has_demand) = self.group_streams.demand(ctx.now) {
            let worker = ctx.network.worker();
            ctx.publish_record(worker, has_demand.then_some(TreeDemand));
        }
        self.counters.stale_deletions +=
            self.repair.repeat_due(ctx.now, &mut self.switches, ctx.network);
        self.counters.stale_deletions += self.switches.delete_conflicting(ctx.now, ctx.network);
    }

    /// Forgets the streams of a switch, and deletes their flow entries.
    fn forget_streams(&mut self, ctx: &mut Ctx<'_>) {
        let selector = self.switches.selector(ctx.datapath_id);
        let deletions = self.group_streams.forget(ctx.datapath_id, selector, self.cfg.priority);
        for deletion in deletions {
            debug_assert_encoded(ctx.switch.flow_mod(&deletion));
        }
    }

    /// Notes which ports of a switch are edge ports now.
    fn note_ports(&mut self, id: DatapathId, now: Instant, view: &NetworkView) {
        let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
        for &port in ports {
            self.note_port(SwitchPort::new(id, port), now, view);
        }
    }

    fn note_port(&mut self, at: SwitchPort, now: Instant, view: &NetworkView) {
        if self.switches.selector(at.switch).is_some() {
            let is_edge = view.attachment_port(at).is_some();
            self.group_streams.on_port(at, is_edge, now);
        }
    }

    /// The kind of port at which a packet was received, and the port at which its source is then; `None`, counted, if packets from this
    /// port are not forwarded.
    fn ingress(&mut self, at: SwitchPort, view: &NetworkView) -> Option<(Ingress, SwitchPort)> {
        let role = view.port_role(at);
        if let Some(attached_at) = role.attachment_port(at) {
            return Some((Ingress::Edge, attached_at));
        }
        if role == PortRole::Link {
            return Some((Ingress::Link, at));
        }
        self.counters.from_pending_port += 1;
        None
    }

    fn handle(&mut self, packet: &ReceivedPacket<'_>, ctx: &mut Ctx<'_>) {
        let view = ctx.view();
        let host = if packet.eth.dst.is_group() { None } else { view.host(packet.dst()) };
        let to = host.map(|host| host.at).filter(|&to| is_edge(view, to));
        match (to, packet.ingress) {
            (Some(to), _) if to == packet.attached_at => packet.discard(ctx),
            (Some(to), _) => self.forward(packet, to, ctx),
            (None, Ingress::Edge) if packet.eth.dst.is_group() => {
                match self.multicast.on_packet(packet, ctx) {
                    Some(scope) => self.flood(packet, scope, ctx),
                    None => packet.discard(ctx),
                }
            }
            (None, Ingress::Edge) => self.flood(packet, FloodScope::All, ctx),
            (None, Ingress::Link) => {
                self.counters.unknown_from_link += 1;
                if packet.eth.dst.is_group() {
                    packet.discard(ctx);
                } else {
                    // The host may exist nevertheless, so the packet is flooded. It goes to edge ports only, so it
                    // does not loop.
                    self.delete_previous_hop_entry(packet, ctx);
                    self.flood(packet, FloodScope::All, ctx);
                }
            }
        }
    }
}

impl App for Forwarding {
    fn can_publish_answers(&self) -> bool {
        true
    }

    fn publishes_paths(&self) -> bool {
        true
    }

    fn on_answered(&mut self, answered: &AnsweredPacket, network: &mut Network) {
        self.record_answered(answered, network);
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        self.publish(switch, now, network, cache)
    }

    fn on_iteration(&mut self, now: Instant) {
        self.trees.on_iteration(now);
        self.pending.on_iteration(now);
        self.repair.on_iteration();
        let last_sweep = *self.last_sweep.get_or_insert(now);
        if now.saturating_duration_since(last_sweep) >= Duration::from_secs(1) {
            self.last_sweep = Some(now);
            self.pending.sweep(now);
            self.floods.sweep(now);
        }
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        write_permanent(out, self.cfg.miss_send_len);
    }

    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.counters.stale_deletions += self.switches.on_connected(ctx);
        self.segment_ports.on_connected(ctx);
        self.permanent.on_connected(ctx);
        // Also those that only this switch has: some may be from a time when all switches had them.
        self.delete_simpler_entries(self.ranks.network(), ctx);
        self.forget_streams(ctx);
        self.note_ports(ctx.datapath_id, ctx.now, ctx.view());
        self.trees.on_connected(self.cfg.flooding, ctx);
        self.multicast.on_connected(ctx);
        self.drain_at_switch(ctx.datapath_id, ctx.now, ctx.network);
        let index = ctx.switch_index.index();
        if self.fast_paths.len() <= index {
            self.fast_paths.resize_with(index + 1, || None);
        }
        let created = SwitchFastPath::new(ctx.datapath_id, &self.cfg, &self.ranks, &ctx.switch);
        debug_assert!(created.is_ok(), "every version can express it");
        if let Some(slot) = self.fast_paths.get_mut(index) {
            *slot = created.ok().map(Box::new);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        if let Some(id) = self.switches.on_disconnected(sw) {
            if self.switches.selector(id).is_none() {
                self.segment_ports.on_disconnected(id);
                self.permanent.on_disconnected(id);
                self.group_streams.on_disconnected(id);
                self.multicast.on_disconnected(id);
                self.forget_drains(id, now, network);
            }
            self.trees.on_disconnected(id, sw, now, network);
        }
        if let Some(slot) = self.fast_paths.get_mut(sw.index()) {
            *slot = None;
        }
        self.pending.on_disconnected(sw);
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.counters.stale_deletions += self.switches.tick(self.cfg.verify_interval, ctx);
        self.segment_ports.tick(ctx);
        let miss_send_len = self.cfg.miss_send_len;
        self.permanent.tick(
            self.cfg.verify_interval,
            |out| write_permanent(out, miss_send_len),
            ctx,
        );
        self.multicast.tick(ctx);
        self.tick_drains(ctx.datapath_id, ctx.now, ctx.network);
        self.trees.tick(self.cfg.flooding, &self.multicast, ctx);
        if self.group_streams.has_streams(ctx.datapath_id) {
            self.refresh_streams(ctx.datapath_id, ctx.now, ctx.network);
        }
        if self.last_tick != Some(ctx.now) {
            self.last_tick = Some(ctx.now);
            self.tick_once(ctx);
        }
    }

    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        self.multicast.on_fact(&published.fact, now, network.view());
        self.trees.on_fact(&published.fact, self.cfg.flooding, now, network);
        let are_streams_affected = published.fact.record::<SpanningTree>().is_some()
            || published.fact.record::<IsolatedPort>().is_some();
        if are_streams_affected {
            for id in self.group_streams.switches() {
                self.refresh_streams(id, now, network);
            }
        }
        self.counters.stale_deletions +=
            self.repair.on_fact(&published.fact, now, &mut self.switches, network);
        match published.fact {
            Fact::Port(at, ref port) => {
                self.counters.stale_deletions +=
                    self.delete_simpler_at_link(at, port.as_ref(), now, network);
                self.segment_ports.on_port(at, now, &self.switches, network);
                self.note_port(at, now, network.view());
                self.counters.stale_deletions += self.switches.on_port_known(at, now, network);
            }
            Fact::Switch(id, _) => {
                self.schedule_retry(id, now, network.view());
                self.note_ports(id, now, network.view());
            }
            _ => {}
        }
        if let Some(cable) = drain::drained_cable(&published.fact) {
            self.on_drain(cable, now, network);
        }
        if let Some(&HostInDoubt { host, at }) = published.fact.event() {
            for port in network.view().arrival_ports(at) {
                let filter = EntryFilter::FromHost(host, port);
                let deleted = self.switches.delete(at.switch, filter, now, network);
                self.counters.stale_deletions += u64::from(deleted);
            }
        }
        if let Some(&frame) = published.fact.event() {
            self.floods.on_flooded(frame, now);
        }
        if let Some(&StaleHop { at, host }) = published.fact.event() {
            let filter = EntryFilter::ToHost(host, at.port);
            let deleted = self.switches.delete(at.switch, filter, now, network);
            self.counters.stale_deletions += u64::from(deleted);
        }
        if let Some((id, _)) = published.fact.record::<RefusedMatch>() {
            self.counters.stale_deletions += self.on_refused_match(id, now, network);
        }
    }

    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        self.trees.on_deferred_work(self.cfg.flooding, now, network);
        self.counters.stale_deletions += self.repair.repeat_due(now, &mut self.switches, network);
    }

    fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
        self.switches.start_deletions(ctx);
    }

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        // Entries that were being installed may be lost.
        self.pending.clear();
        self.segment_ports.on_connected(ctx);
        self.delete_simpler_entries(self.ranks.at(ctx.datapath_id), ctx);
        self.forget_streams(ctx);
        self.switches.verify_entries(ctx);
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.trees.on_multipart_reply(xid, kind, body, ctx);
        let miss_send_len = self.cfg.miss_send_len;
        let write = |out: &mut Encoder<'_>| write_permanent(out, miss_send_len);
        self.permanent.on_multipart_reply((xid, kind, body), write, ctx);
        let limits = PriorityLimits {
            at_edge: flow_entries::priority(&self.cfg, self.ranks.at(ctx.datapath_id)),
            in_transit: flow_entries::priority(&self.cfg, self.ranks.network()),
        };
        self.counters.stale_deletions +=
            self.switches.on_multipart_reply(xid, kind, body, (&self.cfg, limits), ctx);
        self.counters.stale_deletions += self.switches.delete_wrong_entries(&mut self.routes, ctx);
    }

    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        if group_streams::is_ours(removed.cookie) {
            self.group_streams.on_removed(ctx.datapath_id, removed.cookie);
        }
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.trees.on_barrier_reply(xid, ctx);
    }

    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.counters.stale_deletions += self.switches.on_error(error.xid, ctx);
        self.trees.on_error(error, ctx);
        if error.cookie().is_some_and(tree::is_ours) {
            self.counters.flow_entries_refused += u64::from(self.trees.on_refused(error, ctx));
            return;
        }
        if let Some(cookie) = error.cookie().filter(|&cookie| group_streams::is_ours(cookie)) {
            self.counters.flow_entries_refused += 1;
            let until = ctx.now + self.cfg.refused_retry;
            return self.group_streams.on_refused(ctx.datapath_id, cookie, until);
        }
        // BAD_REQUEST means that the buffer no longer exists, not that the switch refuses the flow entry that was to
        // release it.
        let is_flow_entry = error.cookie().is_some_and(flow_entries::is_ours)
            && error.reason.kind() != ErrorType::BAD_REQUEST;
        if !is_flow_entry {
            return;
        }
        self.counters.flow_entries_refused += 1;
        // It is sent again, and what it should have deleted is found when the entries are verified.
        if error.cookie().is_some_and(flow_entries::is_deletion) {
            return;
        }
        if self.fall_back(error, ctx) {
            return;
        }
        let (id, retry, reason) = (ctx.datapath_id, self.cfg.refused_retry, error.reason);
        if self.switches.pause(id, ctx.now, retry) {
            ctx.network.report(|| {
                let time = retry.as_secs_f64();
                format!(
                    "switch refused a flow entry; the controller forwards its packets for {time} s dpid={id} reason=\"{reason}\""
                )
            });
        }
    }

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, now: Instant, network: &mut Network) {
        self.on_drain_answer(ticket, answer, now, network);
    }

    fn fast_path(&mut self, packets: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        if self.cfg.templates {
            self.handle_fast_path(packets, ctx);
        }
    }

    fn inspects_every_packet(&self) -> bool {
        false
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let eth = Ethernet::new(p.frame);
        let eth = eth.filter(|eth| !eth.src.is_group() && !eth.dst.is_bridge_reserved());
        let packet = eth.and_then(|eth| {
            let (ingress, attached_at) = self.ingress(at, ctx.view())?;
            Some(ReceivedPacket { p: *p, eth, at, attached_at, ingress })
        });
        match packet {
            Some(packet) => self.handle(&packet, ctx),
            None if p.buffer_id.is_some() => {
                debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef::answer(p)));
            }
            None => {}
        }
        Verdict::Stop
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        self.counters.metrics(put);
        self.multicast.metrics(put);
        self.put_gauges(put);
    }

    fn state(&self) -> Option<Value> {
        Some(self.switches.state())
    }
}

/// Writes the permanent flow entries.
fn write_permanent(out: &mut Encoder<'_>, miss_send_len: u16) {
    debug_assert_encoded(send_misses_up(out, miss_send_len));
}

/// Checks, in debug builds, that a message was encoded. Every version can express the messages that are passed here, except
/// for a frame that fits a `PACKET_IN` but not a `PACKET_OUT`: it is lost.
fn debug_assert_encoded<T>(encoded: Result<T, EncodeError>) {
    debug_assert!(
        encoded.as_ref().err().is_none_or(|error| error.what == "length"),
        "{:?}",
        encoded.err()
    );
}
