//! Discovers the links between switches and the role of every port. `docs/topology.md` describes the behavior.
//!
//! Probes (LLDP frames, IEEE 802.1AB) are sent out of every port. Where a probe is received, there is a link. Ports at which
//! none is received become edge ports.

mod bundle;
mod config;
mod counters;
mod link_memory;
mod port;
mod port_changes;
mod port_facts;
mod probe;
mod received_probes;
mod switch;
mod unexpected_link;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Ethernet, MultipartType, PacketOutRef, PortNo, PortReason, PortStatus,
    SwitchFeatures,
};
use sluice_sdk::view::{AppRecord, Fact, PublishedFact, SuspectedConnection, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use crate::permanent_entries::PermanentEntries;
pub use bundle::StaticBundle;
pub use config::Config;
use counters::{Counters, PortCounts, RecentMax};
use link_memory::LinkMemory;
use port::{PortTimers, is_physical};
use port_facts::{peer_state, publish, publish_replaced_ports};
use probe::ProbeKind;
pub use probe::{Secret, WallClock};
use received_probes::FirstProbeReceived;
use switch::{ProbeSettings, ProbedSwitch, ProbedSwitches, install_probe_entries};
pub use unexpected_link::UnexpectedLinks;

/// Consecutive probes that must be lost until a link counts as down. Congestion may lose one or two.
const LOST_PROBES_MAX: u32 = 3;

/// How long a port is taken for part of a link through which no probe comes, while both ports are up or the switch at the other
/// end is not connected. Such a switch still forwards, and hosts behind it must not be learned at this port.
const SILENT_LINK_HOLD: Duration = Duration::from_secs(30);

/// How long a port of a switch that reconnected is taken for part of the link it had before, although no probe is received over
/// it while both switches are connected.
const RESTORED_LINK_HOLD: Duration = Duration::from_secs(5);
/// Time between two ticks of a switch.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// Ports of a switch whose changes are published in one tick. Each is a fact that all applications of all workers handle, so that
/// thousands at once would delay other switches for milliseconds. The changes of further ports follow with the next ticks.
const CHANGES_PER_TICK_MAX: usize = 1024;
/// Age above which a probe is ignored: more than the delay of a distant, congested control link.
const PROBE_AGE_MAX: Duration = Duration::from_secs(5);
/// Time between two runs of the cleanup.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two verifications of the flow entries that send probes to the controller.
const VERIFY_INTERVAL: Duration = Duration::from_secs(300);
/// Without an event-loop iteration for this long, the process was suspended; probes that were due meanwhile are not lost.
const SUSPENDED_AFTER: Duration = Duration::from_secs(2);
/// Time between two log lines about rejected frames.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The switch does not take probes as fast as they are due, so that its neighbors receive none. Not a reason to take its links
/// for failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LateProbes;

impl AppRecord for LateProbes {
    type Key = DatapathId;
}

/// Discovers links and port roles.
#[derive(Debug)]
pub struct Topology {
    cfg: Config,
    switches: ProbedSwitches,
    /// By the port that a link leads to, of any worker: the port of this worker where it starts.
    link_starts: HashMap<SwitchPort, SwitchPort>,
    memory: LinkMemory,
    permanent: PermanentEntries,
    /// When a port, or with [`PortNo::ANY`] a switch, went down last: probes sent before then are outdated.
    went_down: HashMap<SwitchPort, Instant>,
    clock: Option<WallClock>,
    last_iteration: Option<Instant>,
    resumed: Option<Instant>,
    longest_rtt: RecentMax,
    /// Those of the last tick, and when it was: all switches that tick at the same time have the same.
    tick_settings: Option<(Instant, ProbeSettings)>,
    last_log: Option<Instant>,
    last_cleanup: Option<Instant>,
    /// Number of ports at the last cleanup.
    ports: u32,
    counters: Counters,
}

/// The clock of all workers of a process that was configured without one.
static PROCESS_CLOCK: OnceLock<WallClock> = OnceLock::new();

impl Default for Topology {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Topology {
    /// A topology without switches.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            switches: ProbedSwitches::default(),
            link_starts: HashMap::default(),
            memory: LinkMemory::default(),
            permanent: PermanentEntries::default(),
            went_down: HashMap::default(),
            clock: cfg.clock,
            last_iteration: None,
            resumed: None,
            longest_rtt: RecentMax::default(),
            tick_settings: None,
            last_log: None,
            last_cleanup: None,
            ports: 0,
            counters: Counters::default(),
        }
    }

    /// Applies a new configuration.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        self.switches.configure_bundles(&cfg.bundles);
    }

    fn probe_settings(&mut self, now: Instant) -> ProbeSettings {
        let first_use =
            || *PROCESS_CLOCK.get_or_init(|| WallClock { at: now, since_1970: Duration::ZERO });
        let cfg = &self.cfg;
        let wanted = cfg.probe_interval.max(TICK_INTERVAL);
        let shortest = Duration::from_secs(1) * self.ports / cfg.probes_per_s_max.max(1);
        let lldp_interval = wanted.max(shortest);
        let mut broadcast_interval = cfg.shared_interval.max(TICK_INTERVAL);
        if lldp_interval > wanted {
            let slowdown = lldp_interval.div_duration_f64(wanted);
            broadcast_interval = broadcast_interval.mul_f64(slowdown);
        }
        let timers = PortTimers {
            // It starts with the reply to the barrier after the probe. If another switch received the probe, its packet-in
            // arrives within the longest round-trip time.
            settle: cfg.settle.max(self.longest_rtt.get(now)),
            resumed: self.resumed,
        };
        let clock = *self.clock.get_or_insert_with(first_use);
        let secret = cfg.secret.unwrap_or_else(Secret::of_process);
        ProbeSettings { clock, secret, lldp_interval, broadcast_interval, timers }
    }

    /// Writes a log line, at most one per [`LOG_INTERVAL`].
    fn report(&mut self, ctx: &mut Ctx<'_>, line: impl FnOnce() -> String) {
        let last = self.last_log;
        if last.is_none_or(|at| ctx.now.saturating_duration_since(at) >= LOG_INTERVAL) {
            self.last_log = Some(ctx.now);
            ctx.network.report(line);
        }
    }
}

impl App for Topology {
    fn on_iteration(&mut self, now: Instant) {
        let last = self.last_iteration;
        if last.is_some_and(|last| now.saturating_duration_since(last) > SUSPENDED_AFTER) {
            self.resumed = Some(now);
        }
        self.last_iteration = Some(now);
        let last = self.last_cleanup;
        if last.is_none_or(|last| now.saturating_duration_since(last) >= CLEANUP_INTERVAL) {
            self.last_cleanup = Some(now);
            let is_recent = |at: Instant| now.saturating_duration_since(at) <= PROBE_AGE_MAX;
            self.went_down.retain(|_, &mut at| is_recent(at));
            self.memory.expire(now);
            let ports: usize = self.switches.iter().map(|switch| switch.ports.len()).sum();
            self.ports = u32::try_from(ports).unwrap_or(u32::MAX);
        }
    }

    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let settings = self.probe_settings(ctx.now);
        let went_down = self.went_down.get(&SwitchPort::new(ctx.datapath_id, PortNo::ANY)).copied();
        let switch = ProbedSwitch::new(features, went_down, ctx, &settings);
        debug_assert!(switch.is_ok(), "its messages can be encoded in every version");
        let Ok(mut switch) = switch else { return };
        let replaced = self.memory.switch_connected(switch.id, &switch.info(), ctx.now);
        for description in features.ports.iter().filter(|port| port.is_up()) {
            if let Ok(n) = switch.find(description.port_no)
                && let Some(port) = switch.ports.get_mut(n)
            {
                port.set_up(ctx.now);
                if let Some(peer) = self.memory.peer(port.at) {
                    port.restore_link(peer);
                }
            }
        }
        switch.configure_bundles(&self.cfg.bundles);
        for port in &mut switch.ports {
            port.publish_state();
        }
        ctx.publish(Fact::Switch(ctx.datapath_id, Some(switch.info())));
        if !replaced.is_empty() {
            publish_replaced_ports(&switch, &replaced, ctx);
        }
        install_probe_entries(&mut ctx.urgent());
        self.permanent.on_connected(ctx);
        switch.send_due_probes(ctx, &settings, &mut self.counters);
        // These probes may be lost, since a switch that had no controller may still drop their packet-ins for a moment. So
        // they are repeated soon.
        for port in &mut switch.ports {
            port.next_lldp = port.next_lldp.min(ctx.now + TICK_INTERVAL);
        }
        self.switches.insert(ctx.switch_index, switch);
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        network.forget_rtt(sw);
        let Some(switch) = self.switches.remove(sw) else { return };
        network.publish_record::<LateProbes>(now, switch.id, None);
        self.permanent.on_disconnected(switch.id);
        // Before the facts about its links, so that others see that the links were lost with the switch and did not fail.
        network.publish(now, Fact::Switch(switch.id, None));
        for port in &switch.ports {
            self.remove_links(port.at, port.link_to(), now, network);
        }
        self.went_down.insert(SwitchPort::new(switch.id, PortNo::ANY), now);
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.permanent.tick(VERIFY_INTERVAL, install_probe_entries, ctx);
        let now = ctx.now;
        let settings = match self.tick_settings {
            Some((at, settings)) if at == now => settings,
            _ => self.probe_settings(now),
        };
        self.tick_settings = Some((now, settings));
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        switch.expire_barriers(now);
        switch.update_bundles();
        let (mut counts, mut changes) = (PortCounts::default(), 0);
        for port in &mut switch.ports {
            if changes >= CHANGES_PER_TICK_MAX {
                counts.add(port);
                continue;
            }
            let view = ctx.network.view();
            port.expire(now, &settings.timers, |id| view.record::<LateProbes>(id).is_some());
            if let Some(peer) = port.silent_link() {
                let state = peer_state(port.at, peer, ctx.network);
                port.check_silent_link(state, now);
            }
            changes += usize::from(publish(port, now, ctx.network, &mut self.counters));
            counts.add(port);
        }
        switch.counts = Some(counts);
        switch.adapt_window(ctx);
        switch.send_due_probes(ctx, &settings, &mut self.counters);
        let late = switch.is_late(now).then_some(LateProbes);
        ctx.publish_record(ctx.datapath_id, late);
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.permanent.on_multipart_reply((xid, kind, body), install_probe_entries, ctx);
    }

    /// Writes the flow entries that send probes to the controller again.
    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        install_probe_entries(&mut ctx.urgent());
    }

    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        self.memory.on_fact(&published.fact, now, network.view());
        match published.fact {
            Fact::Link(to, Some(link)) => self.set_link(link.from, Some(to), now, network),
            Fact::Link(to, None) => {
                if network.view().link_to(to).is_some() {
                    return;
                }
                if let Some(&from) = self.link_starts.get(&to) {
                    self.set_link(from, None, now, network);
                }
                // The worker of the other end removed the link.
                if let Some(port) = self.switches.port_mut(to)
                    && port.publish_link(None).is_some()
                {
                    port.remove_neighbors(|_| true, now);
                    publish(port, now, network, &mut self.counters);
                }
            }
            Fact::Switch(id, None) => {
                let gone = SwitchPort::new(id, PortNo::ANY);
                self.remove_neighbors(gone, published.stamp.at(), network);
            }
            Fact::Port(at, ref port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                self.remove_neighbors(at, published.stamp.at(), network);
            }
            _ => {}
        }
        if let Some(suspected) = published.fact.event::<SuspectedConnection>() {
            self.probe_for_segment(suspected, now);
        }
        if let Some(received) = published.fact.event::<FirstProbeReceived>() {
            self.on_first_probe_received(received, now, network);
        }
        if let Some((id, None)) = published.fact.record::<LateProbes>() {
            self.switches.for_each_port_with_neighbor_at(id, |port| port.excuse_silence(id, now));
        }
    }

    fn inspects_every_packet(&self) -> bool {
        false
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Continue };
        let Some(kind) = ProbeKind::of(&eth) else { return Verdict::Continue };
        if p.buffer_id.is_some() {
            // A packet-out without actions drops the packet and frees the buffer. It can be encoded in every version.
            let _ =
                ctx.switch.packet_out(&PacketOutRef { actions: &[], ..PacketOutRef::answer(p) });
        }
        self.receive(p, &eth, kind, ctx);
        Verdict::Stop
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let at = SwitchPort::new(ctx.datapath_id, status.port.port_no);
        if !is_physical(at.port) {
            return;
        }
        if status.reason == PortReason::DELETE {
            self.remove_port(at, ctx);
        } else {
            self.update_port(status, ctx);
        }
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        if let Some((sample, smoothed)) = switch.on_barrier_reply(xid, ctx.now) {
            self.longest_rtt.add(smoothed, ctx.now);
            ctx.network.record_rtt(ctx.switch_index, sample);
            switch.rtt_has_fallen = ctx.rtt().is_some_and(|rtt| rtt > sample * 2);
        }
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let ports = self.switches.count_ports();
        let switches = self.switches.iter().count() as u64;
        put(AppMetric::gauge("topology_switches", "Switches whose ports are probed", switches));
        ports.metrics(put);
        self.counters.metrics(put);
        let help = "Times the flow entries that send probes to the controller were written again as one was missing or modified";
        put(AppMetric::counter("topology_probe_entries_restored", help, self.permanent.restored()));
    }
}
