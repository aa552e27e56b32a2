//! IGMP and MLD snooping: multicast goes to ports with members and to routers only.
//!
//! The worker of a switch learns from the reports and queries that arrive at its edge ports, and publishes for each port a
//! [`PortGroups`]. All workers derive from these where packets go. `docs/adr/0023-multicast-snooping.md` has the reasons.

mod group_index;
mod members;
mod messages;
mod querier;
mod switch_ports;
mod tree_groups;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{Action, DatapathId, MacAddr, PacketOutRef, PortNo, VlanId};
use sluice_sdk::view::{AppRecord, Fact, NetworkView, SwitchPort};
use sluice_sdk::{AppMetric, Ctx, Network};

use super::install::OUTPUTS_MAX;
use super::{ReceivedPacket, debug_assert_encoded};
use crate::packet::has_all_bytes;
pub(super) use group_index::{EthernetGroup, PortFilter};
use group_index::{GroupIndex, PortGroups, RouterSign};
use members::{GROUPS_PER_PORT_MAX, MemberPort, UnknownGroups};
pub(super) use messages::is_filterable;
use messages::{Family, GroupMessage, MembershipChange, QUERY_MAC, Query};
use switch_ports::{SwitchPorts, snooped_vlans};
use tree_groups::TreeGroups;
pub(super) use tree_groups::{ENTRIES_MAX, SwitchGroups};

/// Configuration of IGMP and MLD snooping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Time without a report after which a group has no members at a port.
    pub membership: Duration,
    /// Where packets to groups without members go.
    pub unregistered: UnregisteredGroups,
}

impl Default for Config {
    fn default() -> Self {
        Self { membership: Duration::from_secs(260), unregistered: UnregisteredGroups::Flood }
    }
}

/// Where packets to groups go that have no members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnregisteredGroups {
    /// To all edge ports.
    Flood,
    /// To the ports of routers.
    RouterPorts,
}

/// A group of IP, in a VLAN.
type IpGroup = (VlanId, IpAddr);

/// VLANs that are snooped at one time. Multicasts of others are flooded.
const VLANS_MAX: usize = 64;

/// Time after which a VLAN without multicasts is not snooped any more.
const VLAN_IDLE_TIME: Duration = Duration::from_secs(600);

/// Groups of all ports together. If there are more, ports with new ones get every multicast.
const MEMBERSHIPS_MAX: usize = 65_536;

/// Time between two log lines about a port, and about VLANs.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A worker has seen multicasts in a VLAN. Untagged packets are always snooped.
#[derive(Debug, Clone, PartialEq)]
struct VlanInUse;

impl AppRecord for VlanInUse {
    /// The VLAN and the worker.
    type Key = (VlanId, usize);
}

/// Times that follow from the configuration, by the relations of RFC 3376 §8.
#[derive(Debug, Clone, Copy)]
struct Timing {
    membership: Duration,
}

impl Timing {
    /// Time without a query after which there is no router (other querier present interval).
    fn router(self) -> Duration {
        self.membership.saturating_sub(Duration::from_secs(5))
    }

    /// Time between two general queries.
    fn query_interval(self) -> Duration {
        self.membership.saturating_sub(messages::RESPONSE_TIME) / 2
    }
}

/// To which ports a packet is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloodScope {
    /// To all edge ports.
    All,
    /// To those that get packets to its destination.
    Group,
    /// To those with routers.
    Routers,
}

/// Numbers of events since the start.
#[derive(Debug, Default)]
struct Counters {
    filtered: u64,
    queries_sent: u64,
    reports_over_limit: u64,
    malformed: u64,
}

/// What a worker knows of multicast groups.
#[derive(Debug)]
pub(super) struct Multicast {
    /// `None` if snooping is off.
    cfg: Option<Config>,
    messages_per_s_max: u32,
    /// The edge ports of this worker's switches.
    switches: BTreeMap<DatapathId, SwitchPorts>,
    /// Also in filters, of which none is kept.
    index: Arc<GroupIndex>,
    tree_groups: TreeGroups,
    /// When this worker saw multicasts in each VLAN last.
    vlans: BTreeMap<VlanId, Instant>,
    vlans_logged_at: Option<Instant>,
    /// Disconnected switches of any worker of which something is known.
    disconnected: BTreeMap<DatapathId, Instant>,
    /// Changes of the configuration.
    configurations: u64,
    last_tick: Option<Instant>,
    counters: Counters,
}

impl Multicast {
    pub(super) fn new(cfg: Option<Config>, messages_per_s_max: u32) -> Self {
        Self {
            cfg,
            messages_per_s_max,
            switches: BTreeMap::new(),
            index: Arc::default(),
            tree_groups: TreeGroups::default(),
            vlans: BTreeMap::new(),
            vlans_logged_at: None,
            disconnected: BTreeMap::new(),
            configurations: 0,
            last_tick: None,
            counters: Counters::default(),
        }
    }

    pub(super) fn configure(&mut self, cfg: Option<Config>, messages_per_s_max: u32) {
        self.configurations += u64::from(self.cfg != cfg);
        (self.cfg, self.messages_per_s_max) = (cfg, messages_per_s_max);
    }

    /// Number that changes when flow entries for groups should.
    pub(super) fn tree_groups_version(&self) -> (u64, u64) {
        self.tree_groups.version()
    }

    /// Where a switch with these edge ports sends multicasts, with flow entries for at most `max` groups.
    pub(super) fn groups_of_switch(
        &self,
        id: DatapathId,
        edges: &[PortNo],
        max: usize,
    ) -> SwitchGroups {
        self.tree_groups.of_switch(&self.index, id, edges, max)
    }

    /// Learns from a packet to a group from an edge port. Returns where it goes; `None` if it is dropped.
    pub(super) fn on_packet(
        &mut self,
        packet: &ReceivedPacket<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Option<FloodScope> {
        let Some(cfg) = self.cfg else { return Some(FloodScope::Group) };
        let vlan = packet.eth.vlan;
        let Some(message) = messages::parse(&packet.eth, packet.p.frame, has_all_bytes(&packet.p))
        else {
            if is_filterable(packet.eth.dst) && self.use_vlan(vlan, ctx.now, ctx.network) {
                self.counters.filtered += u64::from(self.filter(vlan, packet.eth.dst).is_some());
            }
            return Some(FloodScope::Group);
        };
        if packet.eth.src == QUERY_MAC {
            return None;
        }
        if !self.use_vlan(vlan, ctx.now, ctx.network) {
            return Some(FloodScope::All);
        }
        let (timing, at, now) = (cfg.timing(), packet.attached_at, ctx.now);
        let port = self.switches.entry(at.switch).or_default().get_or_insert(at.port);
        if !port.admit_message(self.messages_per_s_max, now) {
            self.counters.reports_over_limit += 1;
            self.on_unknown_groups(at, UnknownGroups::TooManyMessages, timing, ctx);
            return None;
        }
        let (sign, scope) = match message {
            GroupMessage::Query { is_from_router } => {
                (is_from_router.then_some(RouterSign::Query), FloodScope::All)
            }
            GroupMessage::RouterHello => (Some(RouterSign::Hello), FloodScope::Group),
            GroupMessage::Unknown => (None, FloodScope::All),
            GroupMessage::Report(changes) => {
                self.on_report(at, vlan, &changes, timing, ctx);
                return Some(FloodScope::Routers);
            }
            GroupMessage::Truncated => {
                self.on_unknown_groups(at, UnknownGroups::TruncatedReport, timing, ctx);
                return Some(FloodScope::Routers);
            }
            GroupMessage::Malformed => {
                self.counters.malformed += 1;
                return None;
            }
        };
        if sign.is_some_and(|sign| port.on_router(vlan, sign, timing, now)) {
            self.publish(at, ctx);
        }
        Some(scope)
    }

    fn on_report(
        &mut self,
        at: SwitchPort,
        vlan: VlanId,
        changes: &[MembershipChange],
        timing: Timing,
        ctx: &mut Ctx<'_>,
    ) {
        let room = MEMBERSHIPS_MAX.saturating_sub(self.index.memberships());
        let Some(port) = self.port_mut(at) else { return };
        let is_learned = |change: &&MembershipChange| is_filterable(messages::mac_of(change.group));
        let changes: Vec<_> = changes.iter().filter(is_learned).copied().collect();
        let before = port.group_count();
        let result = port.on_report(vlan, &changes, room, (timing, ctx.now));
        if port.group_count() != before {
            self.publish(at, ctx);
        }
        if let Err(reason) = result {
            self.counters.reports_over_limit += 1;
            self.on_unknown_groups(at, reason, timing, ctx);
        }
        self.do_due_work(at.port, ctx);
    }

    /// Some groups at a port may not be known: it gets every multicast for a while.
    fn on_unknown_groups(
        &mut self,
        at: SwitchPort,
        reason: UnknownGroups,
        timing: Timing,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(port) = self.port_mut(at) else { return };
        let is_new = port.set_unfiltered(timing, ctx.now);
        let is_recent = |at: Instant| ctx.now.saturating_duration_since(at) < LOG_INTERVAL;
        if !port.logged_at.is_some_and(is_recent) {
            port.logged_at = Some(ctx.now);
            let max = self.messages_per_s_max;
            let reason = match reason {
                UnknownGroups::TooManyGroups => {
                    format!("more than {GROUPS_PER_PORT_MAX} groups, or too many new ones at once")
                }
                UnknownGroups::TooManyMessages => {
                    format!("more IGMP and MLD messages than forwarding.floods_per_s_max = {max}")
                }
                UnknownGroups::TruncatedReport => {
                    "the switch sent only a part of a report, see session.miss_send_len".to_owned()
                }
            };
            let (SwitchPort { switch, port }, time) = (at, timing.membership.as_secs_f64());
            ctx.network.report(|| {
                format!("port gets all multicasts for {time} s as its groups may not be known: {reason} dpid={switch} port={port}")
            });
        }
        if is_new {
            self.publish_now(at, ctx);
        }
    }

    /// The ports that packets to a group are sent to; `None` for all.
    pub(super) fn filter(&self, vlan: VlanId, dst: MacAddr) -> Option<PortFilter> {
        PortFilter::of_group(&self.index, (vlan, dst), self.cfg?.unregistered)
    }

    /// The ports that a packet is flooded to; `None` for all.
    pub(super) fn filter_in(&self, scope: FloodScope, group: EthernetGroup) -> Option<PortFilter> {
        match scope {
            FloodScope::All => None,
            FloodScope::Group => self.filter(group.0, group.1),
            FloodScope::Routers => Some(PortFilter::routers(&self.index, group.0)),
        }
    }

    pub(super) fn on_connected(&mut self, ctx: &mut Ctx<'_>) {
        let Some(cfg) = self.cfg else { return };
        let (timing, now) = (cfg.timing(), ctx.now);
        let known = self.index.ports_of(ctx.datapath_id);
        let adopted = known.map(|(at, port)| (at.port, MemberPort::adopt(port, timing, now)));
        let adopted = SwitchPorts::adopt(adopted.collect());
        let ports = adopted.numbers();
        self.switches.insert(ctx.datapath_id, adopted);
        // Whoever has joined meanwhile is not known.
        for port in ports {
            self.publish_now(SwitchPort::new(ctx.datapath_id, port), ctx);
        }
    }

    pub(super) fn on_disconnected(&mut self, id: DatapathId) {
        self.switches.remove(&id);
    }

    pub(super) fn on_fact(&mut self, fact: &Fact, now: Instant, view: &NetworkView) {
        if let Some((at, _)) = fact.record::<PortGroups>() {
            debug_assert_eq!(Arc::strong_count(&self.index), 1, "it would be copied");
            Arc::make_mut(&mut self.index).set_port(at, view.record::<PortGroups>(at));
            if self.index.ports_of(at.switch).next().is_none() {
                self.disconnected.remove(&at.switch);
            }
        }
        match fact {
            Fact::Host(id, Some(host)) => {
                if let Some(port) = self.port_mut(host.at) {
                    port.on_host(id.vlan);
                }
            }
            Fact::Switch(id, None) if self.index.ports_of(*id).next().is_some() => {
                self.disconnected.insert(*id, now);
            }
            Fact::Switch(id, Some(_)) => _ = self.disconnected.remove(id),
            _ => {}
        }
    }

    /// Performs what is due at a switch.
    pub(super) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let id = ctx.datapath_id;
        if self.last_tick != Some(ctx.now) {
            self.last_tick = Some(ctx.now);
            self.expire(ctx.now, ctx.network);
        }
        self.tree_groups.update(self.cfg, self.configurations, &self.index, ctx);
        let Some(cfg) = self.cfg else {
            self.switches.remove(&id);
            return self.withdraw_ports(ctx);
        };
        if ctx.view().switch(id).is_none() {
            return;
        }
        let has_room = ctx.has_room();
        let switch = self.switches.entry(id).or_default();
        switch.update(id, ctx.now, ctx.view());
        switch.set_room(has_room, ctx.now);
        let due = if has_room {
            let delay = ctx.rtt().unwrap_or_default();
            switch.take_due_queries(delay, cfg.timing(), ctx.now)
        } else {
            BTreeMap::new()
        };
        let ports = switch.numbers();
        self.withdraw_ports(ctx);
        for no in ports {
            self.do_due_work(no, ctx);
            let at = SwitchPort::new(id, no);
            if self.port_mut(at).is_some_and(|port| port.is_unpublished()) {
                self.publish_now(at, ctx);
            }
        }
        for (vlan, ports) in due {
            for family in [Family::V4, Family::V6] {
                let general = Query::General(family, cfg.timing().query_interval());
                self.send_query(general, vlan, &ports, ctx);
            }
        }
    }

    /// Publishes that nothing is known of ports where hosts are not any more.
    fn withdraw_ports(&mut self, ctx: &mut Ctx<'_>) {
        let id = ctx.datapath_id;
        let switch = self.switches.get(&id);
        let is_kept = |at: &SwitchPort| switch.is_some_and(|switch| switch.keeps(at.port));
        let known = self.index.ports_of(id).map(|(at, _)| at);
        let gone: Vec<_> = known.filter(|at| !is_kept(at)).collect();
        for at in gone {
            ctx.publish_record::<PortGroups>(at, None);
        }
    }

    /// Sends the queries for groups that somebody has left, and forgets what has expired.
    fn do_due_work(&mut self, no: PortNo, ctx: &mut Ctx<'_>) {
        let at = SwitchPort::new(ctx.datapath_id, no);
        let (delay, now) = (ctx.rtt().unwrap_or_default(), ctx.now);
        if !ctx.has_room() {
            // Whoever cannot be asked does not expire either.
            return;
        }
        let Some(port) = self.port_mut(at) else { return };
        let work = port.take_due(delay, now);
        for (vlan, group) in work.queries {
            self.send_query(Query::Group(group), vlan, &[no], ctx);
        }
        if work.has_changed {
            self.publish(at, ctx);
        }
    }

    fn send_query(&mut self, query: Query, vlan: VlanId, ports: &[PortNo], ctx: &mut Ctx<'_>) {
        let frame = messages::encode_query(query, vlan);
        for ports in ports.chunks(OUTPUTS_MAX) {
            self.counters.queries_sent += ports.len() as u64;
            let actions: Vec<_> = ports.iter().copied().map(Action::output).collect();
            let in_port = PortNo::CONTROLLER;
            debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef {
                buffer_id: None,
                in_port,
                actions: &actions,
                frame: &frame,
            }));
        }
    }

    fn port_mut(&mut self, at: SwitchPort) -> Option<&mut MemberPort> {
        self.switches.get_mut(&at.switch)?.get_mut(at.port)
    }

    /// Publishes what is known of a port; in the next tick if it has changed often just before.
    fn publish(&mut self, at: SwitchPort, ctx: &mut Ctx<'_>) {
        if self.port_mut(at).is_some_and(|port| port.admit_publication(ctx.now)) {
            self.publish_now(at, ctx);
        }
    }

    fn publish_now(&mut self, at: SwitchPort, ctx: &mut Ctx<'_>) {
        let Some(port) = self.port_mut(at) else { return };
        let record = port.take_record(ctx.now);
        ctx.publish_record(at, Some(record));
    }

    /// A VLAN has multicasts: it is snooped, if there are not too many others. Returns whether it is.
    fn use_vlan(&mut self, vlan: VlanId, now: Instant, network: &mut Network) -> bool {
        if vlan.0 == 0 {
            return true;
        }
        if let Some(used_at) = self.vlans.get_mut(&vlan) {
            *used_at = now;
            return true;
        }
        let snooped = snooped_vlans(network.view());
        if snooped.len() > VLANS_MAX && !snooped.contains(&vlan) {
            let is_recent = |at: Instant| now.saturating_duration_since(at) < LOG_INTERVAL;
            if !self.vlans_logged_at.is_some_and(is_recent) {
                self.vlans_logged_at = Some(now);
                network.report(|| {
                    format!(
                        "multicasts of a VLAN are flooded: {VLANS_MAX} others are snooped vlan={}",
                        vlan.0
                    )
                });
            }
            return false;
        }
        self.vlans.insert(vlan, now);
        network.publish_record(now, (vlan, network.worker()), Some(VlanInUse));
        true
    }

    /// Forgets VLANs without multicasts, and switches that do not come back.
    fn expire(&mut self, now: Instant, network: &mut Network) {
        let is_on = self.cfg.is_some();
        let worker = network.worker();
        self.vlans.retain(|&vlan, used_at| {
            let is_used = is_on && now.saturating_duration_since(*used_at) < VLAN_IDLE_TIME;
            if !is_used {
                network.publish_record::<VlanInUse>(now, (vlan, worker), None);
            }
            is_used
        });
        let kept = self.cfg.unwrap_or_default().membership;
        let index = &self.index;
        self.disconnected.retain(|&id, since| {
            let is_kept = now.saturating_duration_since(*since) < kept;
            if !is_kept {
                for (at, _) in index.ports_of(id) {
                    network.publish_record::<PortGroups>(now, at, None);
                }
            }
            is_kept
        });
    }

    pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let count = |of: &dyn Fn(&MemberPort) -> usize| -> u64 {
            self.switches.values().flat_map(SwitchPorts::iter).map(|port| of(port) as u64).sum()
        };
        put(AppMetric::gauge(
            "forwarding_multicast_members",
            "Multicast groups of all edge ports that have members there",
            count(&MemberPort::group_count),
        ));
        put(AppMetric::gauge(
            "forwarding_multicast_router_ports",
            "Edge ports with a router for multicast",
            count(&|port| usize::from(port.has_router())),
        ));
        put(AppMetric::gauge(
            "forwarding_multicast_ports_unfiltered",
            "Edge ports that get all multicasts as their groups may not be known",
            count(&|port| usize::from(port.is_unfiltered())),
        ));
        let Counters { filtered, queries_sent, reports_over_limit, malformed } = self.counters;
        let counters = [
            (
                "forwarding_multicast_filtered",
                "Packets to multicast groups that go to members and routers only, as far as the controller floods them",
                filtered,
            ),
            (
                "forwarding_multicast_queries_sent",
                "IGMP and MLD queries sent, by port",
                queries_sent,
            ),
            (
                "forwarding_multicast_reports_over_limit",
                "IGMP and MLD messages not processed as their port has too many groups or sends too many messages",
                reports_over_limit,
            ),
            (
                "forwarding_multicast_malformed",
                "Invalid IGMP and MLD messages, which were dropped",
                malformed,
            ),
        ];
        for (name, help, value) in counters {
            put(AppMetric::counter(name, help, value));
        }
    }
}

impl Config {
    fn timing(self) -> Timing {
        Timing { membership: self.membership }
    }
}
