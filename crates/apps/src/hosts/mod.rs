//! Learns where hosts are and which IP addresses they have, from packet-ins. `docs/hosts.md` describes the behavior.
//!
//! The network view contains location and addresses of every host; all workers share it. A host is learned by the worker of
//! its switch, whose [`HostTable`] contains what only this worker needs: when the host was last seen. The fast path of the
//! forwarding applications handles packets of known hosts without this application and keeps the time of the last one
//! (`sluice_sdk::FastPathHosts`).

mod address_info;
mod ageing;
mod claims;
mod conflicts;
mod control_delay;
mod counters;
mod eviction;
mod evidence;
mod frames;
mod headers;
mod host_table;
mod known_addresses;
mod lacp;
mod learn;
mod leases;
mod pending_ports;
mod port_hosts;
mod proxy;
mod removal;
mod segment_split;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, DatapathId, Ethernet, Field, Message, PacketOut, PacketOutRef, PortNo, SwitchFeatures,
};
use sluice_sdk::view::{
    Fact, HostId, HostInDoubt, NetworkView, PortInfo, PortRole, PublishedFact, SwitchPort,
};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use crate::port_map::remove_switch;
use crate::rate_limit::RateLimit;
use address_info::AddressInfo;
use conflicts::{Claims, MoveLimiter};
use counters::{Counters, PortFields};
use eviction::EvictionLog;
use evidence::HostEvidence;
use frames::{AGEING_PROBE_MAC, CONFLICT_PROBE_MAC};
use host_table::{AddrSource, HostTable};
use lacp::AggregatedPorts;
use learn::{LearnOutcome, is_probe_source};
use leases::Leases;
use pending_ports::PendingPorts;
use removal::Removals;
use segment_split::SegmentSplits;

/// Settings of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Hosts in the whole network. New ones replace those that have not answered a probe, or are not learned.
    pub hosts_max: u32,
    /// IP addresses per host. A new one replaces the one that was stated longest ago.
    pub addrs_max: u16,
    /// Hosts at one port. New ones replace those that have not answered a probe, or are not learned. 0 sets no limit.
    pub per_port_max: u32,
    /// Silence after which a host is probed.
    pub timeout: Duration,
    /// Probes without an answer, one per second, after which a host is removed.
    pub probes: u8,
    /// Whether the controller answers ARP requests and neighbor solicitations for known hosts.
    pub arp_proxy: bool,
    /// What to do about a host that claims the Ethernet or IP address of another host.
    pub address_conflicts: ConflictPolicy,
    /// How often per second a host may move to another port, and an IP address to another host.
    pub moves_per_s_max: u32,
    /// ARP, neighbor discovery and DHCP packets per second and port; more are dropped.
    pub requests_per_s_max: u32,
    /// Whether the controller answers devices that aggregate links by LACP, so that they use one of them.
    pub lacp: bool,
}

/// What to do about a host that claims the Ethernet or IP address of another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Accept every claim without a probe.
    Off,
    /// Probe the owner, and accept the claim if it is silent. Packets with the claim are forwarded meanwhile. If the owner answers,
    /// the claim is ignored and the conflict is logged.
    Report,
    /// The same, but packets with the claim are dropped, unless it is accepted.
    Refuse,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // About 85 MiB with one worker.
            hosts_max: 131_072,
            addrs_max: 8,
            // More than behind most uplinks to networks without OpenFlow; 128 ports can fill the table.
            per_port_max: 1024,
            timeout: Duration::from_secs(300),
            probes: 2,
            arp_proxy: true,
            address_conflicts: ConflictPolicy::Refuse,
            moves_per_s_max: 5,
            requests_per_s_max: 1000,
            lacp: true,
        }
    }
}

/// How long a host is in doubt: longer than a claim is verified.
const IN_DOUBT_TIME: Duration = Duration::from_secs(5);

/// Hosts of a worker that are in doubt at one time. The claims against others are accepted if they do not answer.
const IN_DOUBT_MAX: usize = 16_384;

/// Learns hosts, and answers ARP requests and neighbor solicitations for them.
#[derive(Debug)]
pub struct Hosts {
    cfg: Config,
    table: HostTable,
    /// The switches of this worker, by switch index.
    switches: Vec<Option<DatapathId>>,
    switch_indexes: HashMap<DatapathId, SwitchIndex>,
    /// Switches of this worker that do not take what is sent. Their hosts are not probed.
    without_room: BTreeSet<DatapathId>,
    /// Disconnected switches of any worker that have hosts, with the time of the disconnect.
    disconnected: BTreeMap<DatapathId, Instant>,
    /// Requests from each port in the current second.
    requests: BTreeMap<SwitchPort, RateLimit>,
    pending_ports: PendingPorts,
    move_limiter: MoveLimiter,
    claims: Claims,
    leases: Leases,
    /// Hosts of this worker that are in doubt, and since when.
    in_doubt: BTreeMap<HostId, Instant>,
    removals: Removals,
    segment_splits: SegmentSplits,
    aggregated_ports: AggregatedPorts,
    eviction_log: EvictionLog,
    counters: Counters,
    last_tick: Option<Instant>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Hosts {
    /// An application that knows no host.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            table: HostTable::default(),
            switches: Vec::new(),
            switch_indexes: HashMap::default(),
            without_room: BTreeSet::new(),
            disconnected: BTreeMap::new(),
            requests: BTreeMap::new(),
            pending_ports: PendingPorts::default(),
            move_limiter: MoveLimiter::default(),
            claims: Claims::default(),
            leases: Leases::default(),
            in_doubt: BTreeMap::new(),
            removals: Removals::default(),
            segment_splits: SegmentSplits::default(),
            aggregated_ports: AggregatedPorts::default(),
            eviction_log: EvictionLog::default(),
            counters: Counters::default(),
            last_tick: None,
        }
    }

    /// Applies a new configuration. Known hosts are kept, even if there are more than the new limits allow.
    pub fn configure(&mut self, cfg: &Config) {
        if self.cfg.timeout != cfg.timeout {
            self.table.set_timeout(cfg.timeout);
        }
        self.cfg = cfg.clone();
    }

    /// Learns from a packet that may contain something new, and answers it if it asks for a known host.
    #[cold]
    fn learn_and_answer(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        info: AddressInfo,
        ctx: &mut Ctx<'_>,
    ) -> Verdict {
        let received_at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let id = HostId { mac: eth.src, vlan: eth.vlan };
        let is_probe_reply = [AGEING_PROBE_MAC, CONFLICT_PROBE_MAC].contains(&eth.dst);
        let is_rate_limited =
            is_probe_reply || !matches!(info, AddressInfo::None | AddressInfo::Source(_));
        let Some(at) = ctx.view().attachment_port(received_at) else {
            self.pending_ports.frame_received(id, received_at, ctx.now, ctx.network);
            return if is_probe_reply { discard(p, ctx) } else { Verdict::Continue };
        };
        // Otherwise hosts would send so many answers that those to real probes exceed the limit.
        if is_probe_source(id.mac) {
            return discard(p, ctx);
        }
        // There are no more such answers than probes.
        if eth.dst == AGEING_PROBE_MAC
            && let AddressInfo::Reply(Some(addr)) = info
            && self.table.confirm(id, (at, addr), (ctx.now, self.cfg.timeout))
        {
            return discard(p, ctx);
        }
        if is_rate_limited && !self.admit_request(at, ctx.now, ctx.network) {
            return discard(p, ctx);
        }
        if is_probe_reply {
            if eth.dst == CONFLICT_PROBE_MAC
                && let AddressInfo::Reply(Some(addr)) = info
            {
                ctx.publish_event(HostEvidence::ProbeAnswered { host: id, at, addr });
            } else if eth.dst == AGEING_PROBE_MAC
                && ctx.view().host(id).is_some_and(|known| known.at != at)
            {
                self.learn_location(id, at, ctx.now, ctx.network);
            }
            return discard(p, ctx);
        }
        match self.learn_location(id, at, ctx.now, ctx.network) {
            LearnOutcome::Known => {}
            LearnOutcome::NotLearned => return Verdict::Continue,
            LearnOutcome::Pending(claim) => {
                self.hold_packet(claim, p);
                return discard(p, ctx);
            }
            LearnOutcome::Rejected => return discard(p, ctx),
        }
        let outcome = match info {
            AddressInfo::None
            | AddressInfo::Request { sender: None, .. }
            | AddressInfo::Reply(None) => LearnOutcome::Known,
            AddressInfo::Source(addr) => self.learn_source_addr(id, addr, ctx.now, ctx.network),
            AddressInfo::Request { sender: Some(addr), .. } | AddressInfo::Reply(Some(addr)) => {
                self.learn_stated_addr(id, (addr, AddrSource::Stated), ctx.now, ctx.network)
            }
            AddressInfo::DhcpLease { client, addr, server } => {
                self.on_lease(HostId { mac: client, ..id }, addr, (id, server, at), ctx);
                LearnOutcome::Known
            }
        };
        match outcome {
            LearnOutcome::Known => self.answer_request(p, eth, info, ctx),
            LearnOutcome::NotLearned => Verdict::Continue,
            LearnOutcome::Pending(claim) => {
                self.hold_packet(claim, p);
                discard(p, ctx)
            }
            LearnOutcome::Rejected => discard(p, ctx),
        }
    }

    /// Counts an ARP, neighbor discovery or DHCP packet from a port. Returns `false` if there were too many in this second.
    fn admit_request(&mut self, at: SwitchPort, now: Instant, network: &mut Network) -> bool {
        let max = self.cfg.requests_per_s_max;
        if self.requests.entry(at).or_default().admit(max, now) {
            return true;
        }
        self.counters.rate_limited.report(now, network, || {
            format!(
                "ARP, neighbor discovery and DHCP packets dropped: more than hosts.requests_per_s_max = {max} \
                 from one port {}",
                PortFields(at)
            )
        });
        false
    }

    fn remove_host(&mut self, id: HostId, now: Instant, network: &mut Network) {
        self.table.remove(id, network.fast_path_hosts());
        network.publish(now, Fact::Host(id, None));
    }

    /// Whether a switch is one of this worker.
    fn is_local(&self, switch: DatapathId) -> bool {
        self.switch_indexes.contains_key(&switch)
    }

    /// Updates the host table to what the network view contains of a host.
    fn update_table(&mut self, id: HostId, now: Instant, network: &mut Network) {
        let (view, fast_path) = network.view_and_fast_path_hosts();
        if view.host(id).is_none_or(|host| !host.addrs.is_empty()) {
            // It can be asked by now, and its packets may take the fast path.
            self.in_doubt.remove(&id);
        }
        match view.host(id) {
            Some(host) if self.is_local(host.at.switch) => {
                self.table.insert(id, host, (now, self.cfg.timeout), None, fast_path);
            }
            _ => self.table.remove(id, fast_path),
        }
    }
}

impl App for Hosts {
    fn on_iteration(&mut self, _: Instant) {
        self.removals.on_iteration();
    }

    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        self.continue_removals(now, network);
        self.continue_claims(now, network);
    }

    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let index = ctx.switch_index.index();
        if self.switches.len() <= index {
            self.switches.resize(index + 1, None);
        }
        if let Some(slot) = self.switches.get_mut(index) {
            *slot = Some(ctx.datapath_id);
        }
        self.switch_indexes.insert(ctx.datapath_id, ctx.switch_index);
        // Hosts that were here before the switch disconnected get the full timeout again.
        let (view, fast_path) = ctx.network.view_and_fast_path_hosts();
        fast_path.add_switch(ctx.switch_index, ctx.datapath_id);
        for (id, host) in view.hosts_of(ctx.datapath_id) {
            self.table.insert(id, host, (ctx.now, self.cfg.timeout), None, fast_path);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        network.fast_path_hosts().remove_switch(sw);
        let Some(switch) = self.switches.get_mut(sw.index()).and_then(Option::take) else { return };
        // The switch may have reconnected before its old connection was closed.
        if self.switch_indexes.get(&switch) != Some(&sw) {
            return;
        }
        self.switch_indexes.remove(&switch);
        self.without_room.remove(&switch);
        self.aggregated_ports.on_switch_disconnected(switch, now, network);
        control_delay::forget(switch, now, network);
        Self::withdraw_fullest_port(now, network);
        let (view, fast_path) = network.view_and_fast_path_hosts();
        for (id, _) in view.hosts_of(switch) {
            self.table.remove(id, fast_path);
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.has_room() {
            self.without_room.remove(&ctx.datapath_id);
        } else {
            self.without_room.insert(ctx.datapath_id);
        }
        control_delay::update(ctx);
        // Called for every switch, but all of this is for all switches.
        if self.last_tick == Some(ctx.now) {
            return;
        }
        self.last_tick = Some(ctx.now);
        self.probe_silent_hosts(ctx.now, ctx.network);
        self.relieve_table(ctx.now, ctx.network);
        self.search_split_segments(ctx.network);
        self.continue_claims(ctx.now, ctx.network);
        self.remove_hosts_of_disconnected_switches(ctx.now, ctx.network);
        self.move_limiter.expire(ctx.now);
        self.aggregated_ports.expire(&self.cfg, ctx.now, ctx.network);
        self.in_doubt.retain(|_, since| ctx.now.saturating_duration_since(*since) < IN_DOUBT_TIME);
    }

    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        self.aggregated_ports.on_fact(published, now, network);
        if let Fact::Port(at, port) = &published.fact {
            self.segment_splits.on_port(*at, port.as_ref(), self.is_local(at.switch));
        }
        match &published.fact {
            Fact::Host(id, _) => self.update_table(*id, now, network),
            Fact::Port(at, port) if !can_have_hosts(*at, port.as_ref()) => {
                if self.is_local(at.switch) {
                    self.remove_hosts_at(*at, now, network);
                }
            }
            Fact::Switch(id, None) => {
                if network.view().hosts_of(*id).next().is_some() {
                    self.disconnected.insert(*id, now);
                }
                remove_switch(&mut self.requests, *id);
                self.segment_splits.on_switch_removed(*id);
            }
            Fact::Switch(id, Some(_)) => {
                self.disconnected.remove(id);
                if self.is_local(*id) {
                    self.remove_hosts_at_changed_ports(*id, now, network);
                }
            }
            Fact::Port(..) | Fact::Link(..) | Fact::Record(_) | Fact::Event(_) => {}
        }
        if let Some(&HostInDoubt { host, at }) = published.fact.event()
            && self.table.get(host).is_some_and(|known| known.at == at)
            && self.in_doubt.len() < IN_DOUBT_MAX
        {
            self.in_doubt.insert(host, now);
        }
        match published.fact.event() {
            Some(&HostEvidence::SeenAtPort { host, at }) => {
                self.on_owner_seen(host, (at, None), now, network);
            }
            Some(&HostEvidence::ProbeAnswered { host, at, addr }) => {
                self.on_owner_seen(host, (at, Some(addr)), now, network);
            }
            Some(&HostEvidence::AddressLeased { host, addr, server }) => {
                if let Some(server) = server {
                    self.leases.record(host, addr, server, (now, network.view()));
                }
                if self.table.get(host).is_some() {
                    self.learn_stated_addr(host, (addr, AddrSource::Leased), now, network);
                }
            }
            None => {}
        }
    }

    #[inline]
    fn inspects_every_packet(&self) -> bool {
        false
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Continue };
        if eth.dst.is_group() && eth.dst.is_bridge_reserved() {
            return self.receive_reserved(p, &eth, ctx);
        }
        let info = AddressInfo::parse(&eth, p.frame);
        let id = HostId { mac: eth.src, vlan: eth.vlan };
        let received_at = SwitchPort::new(ctx.datapath_id, p.in_port);
        if let Some(host) = self.table.get_mut(id)
            && (host.at == received_at
                || ctx.view().port_role(received_at) == PortRole::Bundle(host.at))
        {
            let at = host.at;
            host.mark_seen(ctx.now);
            if !self.in_doubt.is_empty() && self.in_doubt.remove(&id).is_some() {
                ctx.publish_event(HostEvidence::SeenAtPort { host: id, at });
            }
            let is_probe_reply = eth.dst == AGEING_PROBE_MAC || eth.dst == CONFLICT_PROBE_MAC;
            if host.knows(&info) && !is_probe_reply {
                return Verdict::Continue;
            }
        }
        self.learn_and_answer(p, &eth, info, ctx)
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        put(AppMetric::gauge("hosts", "Hosts in the host table", self.table.len() as u64));
        let addrs = self.table.addr_count() as u64;
        put(AppMetric::gauge("hosts_addresses", "IP addresses in the host table", addrs));
        let [ports, in_use, changes] = self.aggregated_ports.counts();
        put(AppMetric::gauge(
            "hosts_lacp_ports",
            "Ports whose devices aggregate links by LACP",
            ports,
        ));
        put(AppMetric::gauge("hosts_lacp_ports_in_use", "Those of them that are in use", in_use));
        let help = "Times a port of a link aggregation came into use, or was not in use any more";
        put(AppMetric::counter("hosts_lacp_changes", help, changes));
        self.counters.metrics(put);
    }
}

/// Whether hosts are learned at a port.
fn is_attachment_port(view: &NetworkView, at: SwitchPort) -> bool {
    view.attachment_port(at) == Some(at)
}

/// Whether hosts that were learned at a port may still be there. A pending port may become an edge port again.
fn can_have_hosts(at: SwitchPort, port: Option<&PortInfo>) -> bool {
    port.is_some_and(|port| {
        port.is_up
            && match port.role {
                PortRole::Edge | PortRole::Pending => true,
                PortRole::SharedSegment(used) | PortRole::Bundle(used) => used == at,
                PortRole::Link => false,
            }
    })
}

/// The last known address of each family of a host.
fn last_addrs(id: HostId, view: &NetworkView) -> impl Iterator<Item = IpAddr> + use<> {
    let addrs = view.host(id).map_or(&[][..], |host| &host.addrs);
    let last = |is_family: fn(&&IpAddr) -> bool| addrs.iter().rev().find(is_family).copied();
    [last(|addr| addr.is_ipv4()), last(|addr| addr.is_ipv6())].into_iter().flatten()
}

/// Whether packets can be sent to a host at a port.
fn is_reachable(view: &NetworkView, at: SwitchPort) -> bool {
    view.port(at).is_some_and(|port| port.is_up)
}

/// Sends a frame out of a port.
fn send_frame(at: SwitchPort, data: Vec<u8>, network: &mut Network) {
    let matching = [Field::in_port(PortNo::CONTROLLER)].into();
    let actions = vec![Action::output(at.port)];
    let message = Message::PacketOut(PacketOut { buffer_id: None, matching, actions, data });
    network.send_to(at.switch, message);
}

/// Drops a packet; frees the buffer of the switch that holds it.
fn discard(p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
    if p.buffer_id.is_some() {
        // Every version can express it.
        let _ = ctx.switch.packet_out(&PacketOutRef { frame: &[], ..PacketOutRef::answer(p) });
    }
    Verdict::Stop
}
