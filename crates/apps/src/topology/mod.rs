//! Discovers the links between switches and the role of every port. `docs/topology.md` describes the behavior.
//!
//! Probes (LLDP frames, IEEE 802.1AB) are sent out of every port. Where a probe is received, there is a link. Ports at which
//! none is received become edge ports.

mod bundle;
mod config;
mod counters;
mod link_memory;
mod port;
mod port_facts;
mod probe;
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
use port::{HeardProbe, Port, PortPhase, PortTimers, is_physical};
use port_facts::{peer_state, publish, publish_replaced_ports};
use probe::{Probe, ProbeError, ProbeKind};
pub use probe::{Secret, WallClock};
use switch::{PORTS_MAX, ProbeSettings, ProbedSwitch, ProbedSwitches, install_probe_entries};
use unexpected_link::UnexpectedLink;
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

    /// Handles a frame that may be a probe.
    fn receive(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        kind: ProbeKind,
        ctx: &mut Ctx<'_>,
    ) {
        let settings = self.probe_settings(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let Ok(n) = switch.find(p.in_port) else { return };
        let Some(port) = switch.ports.get_mut(n) else { return };
        if !port.admit_lldp(ctx.now) {
            self.counters.over_limit += 1;
            return;
        }
        let to = port.at;
        let probe = match probe::parse(p.frame, eth, kind, &settings.secret) {
            Ok(probe) => probe,
            Err(error) => return self.reject(error, to, ctx),
        };
        self.counters.received += 1;
        let now_us = settings.clock.us(ctx.now);
        if u128::from(now_us.abs_diff(probe.sent_us)) > PROBE_AGE_MAX.as_micros() {
            self.counters.expired += 1;
        } else if self.is_outdated(&probe, to, &settings) {
            self.counters.outdated += 1;
        } else {
            self.handle_probe(n, kind, &probe, ctx, &settings);
        }
    }

    /// Whether the port that sent a probe, or its switch, has gone down since, or the receiving port is down.
    fn is_outdated(&mut self, probe: &Probe, to: SwitchPort, settings: &ProbeSettings) -> bool {
        // Compares times, not states: a port of another worker may be up again, which this worker does not know yet.
        let switch = SwitchPort::new(probe.from.switch, PortNo::ANY);
        let times = [probe.from, switch].map(|at| self.went_down.get(&at).copied());
        let is_before = |down: Instant| probe.sent_us < settings.clock.us(down);
        times.into_iter().flatten().any(is_before)
            || self.switches.port_mut(to).is_none_or(|port| !port.is_up())
    }

    /// Handles a valid probe that was received at the port with index `n` of this switch.
    fn handle_probe(
        &mut self,
        n: usize,
        kind: ProbeKind,
        probe: &Probe,
        ctx: &mut Ctx<'_>,
        settings: &ProbeSettings,
    ) {
        let (now, from) = (ctx.now, probe.from);
        self.switches.mark_with_neighbors(ctx.switch_index);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let Some(port) = switch.ports.get_mut(n) else { return };
        let to = port.at;
        if from == to && port.phase != PortPhase::Looped {
            let SwitchPort { switch, port } = to;
            ctx.network.report(|| {
                format!("port receives its own probes; nothing is flooded to it dpid={switch} port={port}")
            });
        }
        let interval = Duration::from_millis(probe.interval_ms.into());
        let link = UnexpectedLink::new(kind, probe, port, switch.connected_at, settings, now);
        let policy = self.cfg.unexpected_links;
        let confirm_after = link.map_or(Duration::ZERO, |link| link.confirm_after(policy));
        let age = Duration::from_micros(settings.clock.us(now).saturating_sub(probe.sent_us));
        // With the age: on a congested control link, the next probe may be delayed by as much.
        let lifetime = interval * LOST_PROBES_MAX + age + TICK_INTERVAL;
        let heard = HeardProbe { from, kind, lifetime, confirm_after };
        let is_new = port.add_neighbor(&heard, now);
        let is_unconfirmed = port.has_unconfirmed_link();
        if let Some(link) = link.filter(|_| is_new) {
            self.counters.unexpected_links += 1;
            if port.admit_warning(now) {
                ctx.network.report(|| link.warning(policy));
            }
        }
        let is_link = port.link_from() == Some(from);
        self.longest_rtt.add(Duration::from_micros(probe.rtt_us.into()), now);
        publish(port, now, ctx.network, &mut self.counters);
        let may_be_shared = port.phase == PortPhase::SharedSegment || port.may_be_link();
        // If the other direction of a link is unknown, the last probe may have been too early for the other switch.
        let with_lldp = if is_link {
            port.link_to() != Some(from)
        } else {
            is_new && (port.may_be_link() || is_unconfirmed)
        };
        let with_broadcast = !is_link && is_new && may_be_shared;
        // If they cannot be answered now, they are with the next probes.
        if with_lldp {
            port.next_lldp = now;
        }
        if with_broadcast {
            port.next_broadcast = now;
        }
        if (with_lldp || with_broadcast) && ctx.has_room() && port.admit_answer(now) {
            let kinds = [(with_lldp, ProbeKind::Lldp), (with_broadcast, ProbeKind::Broadcast)];
            for (_, kind) in kinds.into_iter().filter(|(is_sent, _)| *is_sent) {
                switch.send_probe(n, kind, ctx, settings, &mut self.counters);
            }
        }
        if from == to {
            return;
        }
        // Updates the other end if it is a port of this worker; other workers receive the fact.
        if is_link {
            self.set_link(from, Some(to), now, ctx.network);
        } else if may_be_shared
            && link.is_none()
            && let Some(port) = self.switches.port_with_neighbors_mut(from)
            && port.is_up()
        {
            port.add_neighbor(&HeardProbe { from: to, ..heard }, now);
            publish(port, now, ctx.network, &mut self.counters);
        }
    }

    /// Sets or removes the link that starts at `from`, if that is a port of this worker.
    fn set_link(
        &mut self,
        from: SwitchPort,
        to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(port) = self.switches.port_mut(from) else { return };
        if port.link_to() == to || (to.is_some() && !port.is_up()) {
            return;
        }
        if let Some(before) = port.link_to() {
            self.link_starts.remove(&before);
        }
        port.set_link_to(to, now);
        if let Some(to) = to {
            self.link_starts.insert(to, from);
        }
        publish(port, now, network, &mut self.counters);
    }

    /// Counts and logs a frame that is not a valid probe.
    fn reject(&mut self, error: ProbeError, at: SwitchPort, ctx: &mut Ctx<'_>) {
        let counter = match error {
            ProbeError::Foreign => &mut self.counters.foreign,
            ProbeError::Malformed => &mut self.counters.malformed,
            ProbeError::Forged => &mut self.counters.forged,
        };
        *counter += 1;
        let what = match error {
            ProbeError::Foreign => return,
            ProbeError::Malformed => "malformed LLDP frame",
            ProbeError::Forged => "LLDP probe with a wrong signature",
        };
        let SwitchPort { switch, port } = at;
        self.report(ctx, || format!("{what} received dpid={switch} port={port}"));
    }

    /// Writes a log line, at most one per [`LOG_INTERVAL`].
    fn report(&mut self, ctx: &mut Ctx<'_>, line: impl FnOnce() -> String) {
        let last = self.last_log;
        if last.is_none_or(|at| ctx.now.saturating_duration_since(at) >= LOG_INTERVAL) {
            self.last_log = Some(ctx.now);
            ctx.network.report(line);
        }
    }

    /// Handles a port that was added or changed.
    fn update_port(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let settings = self.probe_settings(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let description = &status.port;
        let at = SwitchPort::new(ctx.datapath_id, description.port_no);
        let n = match switch.find(at.port) {
            Ok(n) => n,
            Err(_) if switch.ports.len() >= PORTS_MAX => {
                let SwitchPort { switch, port } = at;
                return self.report(ctx, || {
                    format!(
                        "port is ignored: its switch already has {PORTS_MAX} ports dpid={switch} port={port}"
                    )
                });
            }
            Err(n) => {
                switch.ports.insert(n, Port::new(at, description, ctx.now));
                n
            }
        };
        let Some(port) = switch.ports.get_mut(n) else { return };
        port.update_description(description);
        match (port.is_up(), description.is_up()) {
            (false, true) => {
                port.set_up(ctx.now);
                switch.send_due_probes(ctx, &settings, &mut self.counters);
            }
            (true, false) => {
                let link_to = port.link_to();
                port.set_down();
                self.went_down.insert(at, ctx.now);
                switch.replace_in_bundle(at.port, ctx.now, ctx.network, &mut self.counters);
                self.remove_links(at, link_to, ctx.now, ctx.network);
            }
            _ => {}
        }
        if let Some(port) = self.switches.port_mut(at) {
            publish(port, ctx.now, ctx.network, &mut self.counters);
        }
    }

    /// Removes the links at a port of this worker that went down or has no switch any more, in both directions.
    fn remove_links(
        &mut self,
        at: SwitchPort,
        link_to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        link_to.map(|to| self.link_starts.remove(&to));
        if let Some(to) = network.view().link_from(at).map(|link| link.to) {
            self.counters.links_lost += 1;
            network.publish(now, Fact::Link(to, None));
        }
        if network.view().link_to(at).is_some() {
            self.counters.links_lost += 1;
            network.publish(now, Fact::Link(at, None));
        }
        if let Some(port) = self.switches.port_mut(at) {
            port.publish_link(None);
        }
    }

    /// Has the next tick look for an unmanaged segment between two ports.
    fn probe_for_segment(&mut self, suspected: &SuspectedConnection, now: Instant) {
        for at in suspected.ports {
            if let Some(port) = self.switches.port_mut(at)
                && port.needs_broadcast_probes()
                && port.admit_answer(now)
            {
                port.next_broadcast = now;
            }
        }
    }

    /// Removes a port that went down, or with [`PortNo::ANY`] a whole switch, from the neighbors of all ports.
    fn remove_neighbors(&mut self, gone: SwitchPort, now: Instant, network: &mut Network) {
        self.went_down.insert(gone, now);
        let is_gone =
            |at: SwitchPort| at == gone || (gone.port == PortNo::ANY && at.switch == gone.switch);
        self.switches.for_each_port_with_neighbors(|port| {
            port.remove_neighbors(is_gone, now);
            publish(port, now, network, &mut self.counters);
        });
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
        let settings = self.probe_settings(ctx.now);
        let now = ctx.now;
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
        if let Some((id, None)) = published.fact.record::<LateProbes>() {
            self.switches.for_each_port_with_neighbors(|port| port.excuse_silence(id, now));
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
        if status.reason != PortReason::DELETE {
            return self.update_port(status, ctx);
        }
        if let Some(switch) = self.switches.get_mut(ctx.switch_index)
            && let Ok(n) = switch.find(at.port)
        {
            let port = switch.ports.remove(n);
            switch.replace_in_bundle(at.port, ctx.now, ctx.network, &mut self.counters);
            self.went_down.insert(at, ctx.now);
            self.remove_links(at, port.link_to(), ctx.now, ctx.network);
        }
        ctx.publish(Fact::Port(at, None));
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
