//! The switches of this worker: their ports, when these are probed, and the control round-trip time.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_fastpath::{MessageTemplate, TemplateValues};
use sluice_openflow::{
    Action, DatapathId, EncodeError, Encoder, Ethernet, Field, FlowMod, Instruction, PacketOutRef,
    PortNo, SwitchFeatures,
};
use sluice_sdk::flow_space::LINK_PROBES;
use sluice_sdk::view::{SwitchInfo, SwitchPort};
use sluice_sdk::{Ctx, LINK_PROBE_TYPES, SwitchIndex, permanent};

use super::bundle::StaticBundle;
use super::counters::{Counters, PortCounts};
use super::port::{Port, PortPhase, PortTimers, is_physical};
use super::probe::{Probe, ProbeKind, ProbeTemplate, Secret, WallClock};

/// Barrier requests in flight per switch; with more, the next is sent later.
const BARRIERS_MAX: usize = 8;
/// How long to wait for a barrier reply: some switches never send one.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two measurements of the round-trip time, in probe intervals; one interval after it has fallen by much, so that
/// others do not wait for long because of a delay that is over.
const RTT_INTERVAL_PROBES: u32 = 8;
/// Ports probed per switch. No real switch has more; an attacker's must not take the time of others.
pub(super) const PORTS_MAX: usize = 4096;
/// Ports probed at one time. The probes of larger switches are spread over the interval.
const PORTS_PER_BATCH: usize = 64;
/// Batches of one interval.
const BATCHES: u64 = 16;
/// Probes that a switch gets at once at first, at least and at most. As long as it takes them, the number is doubled with each
/// tick; when it does not, the number is halved, so that few wait in front of other urgent messages.
const WINDOW_FIRST: usize = 1024;
const WINDOW_MIN: usize = 16;
const WINDOW_MAX: usize = 2 * PORTS_MAX;
/// A port is late when it has not been probed for this many intervals: fewer than a link may be silent.
const LATE_AFTER: u32 = super::LOST_PROBES_MAX - 1;

/// Switches with neighbors at ports of this worker that are remembered at least, before it is checked whether they still are.
const NEIGHBORS_MAX_MIN: usize = 1024;

/// Settings that all probes of a worker share.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeSettings {
    pub(super) clock: WallClock,
    pub(super) secret: Secret,
    /// Time between two LLDP probes of a port.
    pub(super) lldp_interval: Duration,
    /// Time between two broadcast probes of a port.
    pub(super) broadcast_interval: Duration,
    pub(super) timers: PortTimers,
}

/// A switch of this worker.
#[derive(Debug)]
pub(super) struct ProbedSwitch {
    pub(super) id: DatapathId,
    /// In the order of their numbers.
    pub(super) ports: Vec<Port>,
    pub(super) bundles: Vec<StaticBundle>,
    /// The numbers of ports by role; `None` if a port may have changed since they were counted.
    pub(super) counts: Option<PortCounts>,
    /// When its previous connection was lost, by the clock of the worker that served it: probes must not be older, or they
    /// count as outdated. The iteration in which this worker takes the switch over may have begun before.
    went_down: Option<Instant>,
    pub(super) connected_at: Instant,
    /// Smoothed control round-trip time.
    pub(super) rtt: Option<Duration>,
    /// The last sample was much shorter than the round-trip time that others assume.
    pub(super) rtt_has_fallen: bool,
    packet_out: MessageTemplate,
    probe: ProbeTemplate,
    /// Transaction id and time of each barrier request in flight, in the order of sending.
    barriers: VecDeque<(u32, Instant)>,
    last_barrier: Option<Instant>,
    /// Probes that are sent at once at most.
    window: usize,
    /// The port with which the next probes begin.
    next_port: usize,
    /// Whether probes that were due have not been sent, as the switch does not take them fast enough.
    is_behind: bool,
}

impl ProbedSwitch {
    /// A switch whose ports are all down. `went_down` is when its previous connection was lost.
    ///
    /// # Errors
    /// If its version cannot express a packet-out, which every version can.
    pub(super) fn new(
        features: &SwitchFeatures,
        went_down: Option<Instant>,
        ctx: &Ctx<'_>,
        settings: &ProbeSettings,
    ) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let (in_port, frame) = (PortNo::CONTROLLER, &[][..]);
        let packet_out = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame };
        let physical = features.ports.iter().filter(|port| is_physical(port.port_no));
        let mut ports: Vec<_> = physical
            .map(|port| Port::new(SwitchPort::new(ctx.datapath_id, port.port_no), port, ctx.now))
            .collect();
        ports.sort_by_key(|port| port.at);
        ports.dedup_by_key(|port| port.at);
        ports.truncate(PORTS_MAX);
        let lifetime = settings.lldp_interval * super::LOST_PROBES_MAX;
        Ok(Self {
            id: ctx.datapath_id,
            ports,
            bundles: Vec::new(),
            counts: None,
            went_down,
            connected_at: ctx.now,
            rtt: None,
            rtt_has_fallen: false,
            packet_out: MessageTemplate::packet_out(&ctx.switch, &packet_out)?,
            probe: ProbeTemplate::new(ctx.datapath_id, lifetime),
            barriers: VecDeque::new(),
            last_barrier: None,
            window: WINDOW_FIRST,
            next_port: 0,
            is_behind: false,
        })
    }

    /// The switch as it is published.
    pub(super) fn info(&self) -> SwitchInfo {
        SwitchInfo { ports: self.ports.iter().map(|port| (port.at.port, port.info())).collect() }
    }

    /// The index of a port, or the index at which it would have to be inserted.
    pub(super) fn find(&self, port_no: PortNo) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port_no, |port| port.at.port)
    }

    /// Sends a probe out of the port with index `n`, ahead of all queued messages.
    pub(super) fn send_probe(
        &mut self,
        n: usize,
        kind: ProbeKind,
        ctx: &mut Ctx<'_>,
        settings: &ProbeSettings,
        counters: &mut Counters,
    ) {
        let Some(port) = self.ports.get_mut(n) else { return };
        let port_no = port.at.port;
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let rtt_us = self.rtt.map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX));
        let sent_us = settings.clock.us(self.went_down.map_or(ctx.now, |at| at.max(ctx.now)));
        let interval = match kind {
            ProbeKind::Lldp => settings.lldp_interval,
            ProbeKind::Broadcast => settings.broadcast_interval,
        };
        // The receiver derives from it how long a link may be silent. Behind a slow connection that is longer.
        let passed = port.last_lldp.map_or(interval, |at| ctx.now.saturating_duration_since(at));
        let stated =
            if kind == ProbeKind::Lldp && self.is_behind { interval.max(passed) } else { interval };
        if kind == ProbeKind::Lldp {
            (port.last_lldp, port.stated_interval_ms) = (Some(ctx.now), ms(stated));
        }
        let probe = Probe {
            from: port.at,
            sent_us,
            rtt_us,
            interval_ms: ms(stated),
            connected_ms: ms(ctx.now.saturating_duration_since(self.connected_at)),
            edge_ms: ms(port.edge_for(ctx.now)),
        };
        let frame = self.probe.encode(kind, port.hw_addr, &probe, &settings.secret);
        let Some(eth) = Ethernet::new(frame) else { return };
        let values = TemplateValues {
            buffer_id: None,
            in_port: PortNo::CONTROLLER,
            eth: eth.header,
            vlan: None,
            out_port: port_no,
        };
        // Cannot fail: the switch named the port in its own version.
        let _ = self.packet_out.encode_with_frame(&mut ctx.urgent(), &values, frame);
        let next = ctx.now + time_to_next_probe(self.id, n, sent_us, interval);
        match kind {
            ProbeKind::Lldp => port.next_lldp = next,
            ProbeKind::Broadcast => port.next_broadcast = next,
        }
        counters.sent += 1;
    }

    /// Sends the probes that are due, and a barrier request if a first probe is among them or the round-trip time is to be
    /// measured. Sends nothing while the switch does not take what was sent earlier, and continues later with the ports
    /// that were left out.
    pub(super) fn send_due_probes(
        &mut self,
        ctx: &mut Ctx<'_>,
        settings: &ProbeSettings,
        counters: &mut Counters,
    ) {
        if !ctx.has_room() {
            self.is_behind |= self.ports.iter().any(|port| port.is_lldp_due(ctx.now));
            return;
        }
        let (count, first) = (self.ports.len(), self.next_port);
        let mut sent = 0;
        let mut left_out = None;
        for n in (first..count).chain(0..first.min(count)) {
            let Some(port) = self.ports.get(n).filter(|port| port.is_up()) else { continue };
            let is_lldp_due = port.is_lldp_due(ctx.now);
            let is_broadcast_due = port.next_broadcast <= ctx.now && port.needs_broadcast_probes();
            if !is_lldp_due && !is_broadcast_due {
                continue;
            }
            if sent >= self.window {
                left_out = Some(n);
                break;
            }
            if is_lldp_due {
                self.send_probe(n, ProbeKind::Lldp, ctx, settings, counters);
            }
            if is_broadcast_due {
                self.send_probe(n, ProbeKind::Broadcast, ctx, settings, counters);
            }
            sent += usize::from(is_lldp_due) + usize::from(is_broadcast_due);
        }
        (self.is_behind, self.next_port) = (left_out.is_some(), left_out.unwrap_or(0));
        self.send_barrier(ctx, settings);
    }

    /// Sends a barrier request if first probes were sent that the switch has not confirmed, or the round-trip time is to be
    /// measured.
    fn send_barrier(&mut self, ctx: &mut Ctx<'_>, settings: &ProbeSettings) {
        let now = ctx.now;
        let is_first_sent =
            |port: &Port| port.phase == PortPhase::Probing(None) && !port.is_lldp_due(now);
        let has_first_probe = self.ports.iter().any(is_first_sent);
        let probes = if self.rtt_has_fallen { 1 } else { RTT_INTERVAL_PROBES };
        let rtt_interval = settings.lldp_interval * probes;
        let is_rtt_due = self
            .last_barrier
            .is_none_or(|at| ctx.now.saturating_duration_since(at) >= rtt_interval);
        if (has_first_probe || is_rtt_due) && self.barriers.len() < BARRIERS_MAX {
            let xid = ctx.urgent().barrier_request();
            self.barriers.push_back((xid, ctx.now));
            self.last_barrier = Some(ctx.now);
            for port in self.ports.iter_mut().filter(|port| is_first_sent(port)) {
                port.phase = PortPhase::Probing(Some(xid));
            }
        }
    }

    /// Adapts the number of probes that are sent at once to what the switch takes. Called with each tick.
    pub(super) fn adapt_window(&mut self, ctx: &Ctx<'_>) {
        let window = if ctx.has_room() { self.window * 2 } else { self.window / 2 };
        self.window = window.clamp(WINDOW_MIN, WINDOW_MAX);
    }

    /// Whether a port has not been probed for longer than its last probe said, as the switch does not take probes.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let is_late = |port: &Port| {
            let since = port.last_lldp.map(|at| now.saturating_duration_since(at));
            let stated = Duration::from_millis(port.stated_interval_ms.into());
            port.is_up() && since.is_some_and(|since| since > stated * LATE_AFTER)
        };
        self.is_behind && self.ports.iter().any(is_late)
    }

    /// Treats barrier requests without a reply as if it had come.
    pub(super) fn expire_barriers(&mut self, now: Instant) {
        while let Some(&(xid, sent)) = self.barriers.front()
            && now.saturating_duration_since(sent) >= BARRIER_TIMEOUT
        {
            self.barriers.pop_front();
            self.ports.iter_mut().for_each(|port| port.on_barrier_reply(xid, now));
        }
    }

    /// Handles a barrier reply. Returns the round-trip time of this one and the smoothed one, if the request was sent here.
    pub(super) fn on_barrier_reply(
        &mut self,
        xid: u32,
        now: Instant,
    ) -> Option<(Duration, Duration)> {
        let index = self.barriers.iter().position(|&(known, _)| known == xid)?;
        let (_, sent) = self.barriers.remove(index)?;
        self.ports.iter_mut().for_each(|port| port.on_barrier_reply(xid, now));
        let sample = now.saturating_duration_since(sent);
        // A busy switch replies late, so shorter samples have more weight.
        let smoothed = self.rtt.map_or(sample, |rtt| {
            if sample < rtt { (rtt + sample) / 2 } else { (rtt * 7 + sample) / 8 }
        });
        self.rtt = Some(smoothed);
        Some((sample, smoothed))
    }
}

/// Encodes the flow entries that send probes to the controller whole, whatever other entries match.
pub(super) fn install_probe_entries(out: &mut Encoder<'_>) {
    for ethertype in LINK_PROBE_TYPES {
        let to_controller = Action::Output { port: PortNo::CONTROLLER, max_len: Action::WHOLE };
        let written = out.flow_mod(&permanent(FlowMod {
            priority: LINK_PROBES.priority(),
            matching: [Field::eth_type(ethertype.0)].into(),
            instructions: vec![Instruction::apply([to_controller])],
            ..FlowMod::default()
        }));
        debug_assert!(written.is_ok(), "every version can express it");
    }
}

/// Time from `now_us` to the next probe of the port with index `n` of switch `id`. Each switch has its own offset in the
/// interval, so that the switches are not all probed at once. The second probe follows the first after half to one and a
/// half intervals.
fn time_to_next_probe(id: DatapathId, n: usize, now_us: u64, interval: Duration) -> Duration {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).max(1);
    let batch = (n / PORTS_PER_BATCH) as u64 % BATCHES;
    let offset = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let offset = (offset % interval + batch * interval / BATCHES) % interval;
    let earliest = now_us.saturating_add(interval / 2);
    let wait = (offset + interval - earliest % interval) % interval;
    Duration::from_micros(interval / 2 + wait)
}

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct ProbedSwitches {
    by_index: Vec<Option<Box<ProbedSwitch>>>,
    by_id: HashMap<DatapathId, SwitchIndex>,
    /// By switch: those of this worker with a port that has a neighbor there, and some that had one.
    with_neighbor_at: HashMap<DatapathId, BTreeSet<SwitchIndex>>,
    /// With more of them, those are removed that had one.
    neighbors_max: usize,
}

impl ProbedSwitches {
    pub(super) fn insert(&mut self, sw: SwitchIndex, switch: ProbedSwitch) {
        if self.by_index.len() <= sw.index() {
            self.by_index.resize_with(sw.index() + 1, || None);
        }
        self.by_id.insert(switch.id, sw);
        if let Some(slot) = self.by_index.get_mut(sw.index()) {
            *slot = Some(Box::new(switch));
        }
    }

    pub(super) fn remove(&mut self, sw: SwitchIndex) -> Option<Box<ProbedSwitch>> {
        let switch = self.by_index.get_mut(sw.index())?.take()?;
        self.by_id.remove(&switch.id);
        Some(switch)
    }

    pub(super) fn get_mut(&mut self, sw: SwitchIndex) -> Option<&mut ProbedSwitch> {
        let switch = self.by_index.get_mut(sw.index())?.as_deref_mut()?;
        switch.counts = None;
        Some(switch)
    }

    /// A port, if its switch is one of this worker.
    pub(super) fn port_mut(&mut self, at: SwitchPort) -> Option<&mut Port> {
        let &sw = self.by_id.get(&at.switch)?;
        let switch = self.get_mut(sw)?;
        let n = switch.find(at.port).ok()?;
        switch.ports.get_mut(n)
    }

    /// Must be called before a neighbor at a port of `neighbor` is added to a port of the switch `sw`.
    pub(super) fn mark_with_neighbor_at(&mut self, neighbor: DatapathId, sw: SwitchIndex) {
        self.with_neighbor_at.entry(neighbor).or_default().insert(sw);
        // Switches of another controller with the same secret do not disconnect here.
        if self.with_neighbor_at.len() > self.neighbors_max {
            self.forget_outdated_neighbors((neighbor, sw));
        }
    }

    /// Removes what was marked and has no such neighbor any more, but for what was marked last.
    fn forget_outdated_neighbors(&mut self, last: (DatapathId, SwitchIndex)) {
        let by_index = &self.by_index;
        self.with_neighbor_at.retain(|&neighbor, switches| {
            switches.retain(|&sw| {
                let switch = by_index.get(sw.index()).and_then(Option::as_deref);
                (neighbor, sw) == last
                    || switch.is_some_and(|switch| {
                        switch.ports.iter().any(|port| port.has_neighbor_at(neighbor))
                    })
            });
            !switches.is_empty()
        });
        self.neighbors_max = NEIGHBORS_MAX_MIN.max(self.with_neighbor_at.len() * 2);
    }

    /// A port to which a neighbor at a port of `neighbor` may be added, if its switch is one of this worker.
    pub(super) fn port_with_neighbor_at_mut(
        &mut self,
        neighbor: DatapathId,
        at: SwitchPort,
    ) -> Option<&mut Port> {
        let &sw = self.by_id.get(&at.switch)?;
        self.mark_with_neighbor_at(neighbor, sw);
        self.port_mut(at)
    }

    /// Applies the bundles of a new configuration.
    pub(super) fn configure_bundles(&mut self, bundles: &[StaticBundle]) {
        for switch in self.by_index.iter_mut().flatten() {
            switch.configure_bundles(bundles);
        }
    }

    /// Whether two ports belong to one bundle of a switch of this worker.
    pub(super) fn has_bundle_of(&self, ports: [SwitchPort; 2]) -> bool {
        let [SwitchPort { switch: id, .. }, _] = ports;
        let switch = self.by_id.get(&id).and_then(|sw| self.by_index.get(sw.index())?.as_deref());
        switch.is_some_and(|switch| switch.has_bundle_of(ports))
    }

    /// Calls `act` for each port that has a neighbor at a port of the switch `neighbor`.
    ///
    /// # Cost
    /// None for switches whose ports have none.
    pub(super) fn for_each_port_with_neighbor_at(
        &mut self,
        neighbor: DatapathId,
        mut act: impl FnMut(&mut Port),
    ) {
        let Some(switches) = self.with_neighbor_at.get_mut(&neighbor) else { return };
        switches.retain(|sw| {
            let switch = self.by_index.get_mut(sw.index()).and_then(Option::as_deref_mut);
            let mut is_kept = false;
            let Some(switch) = switch else { return false };
            for port in switch.ports.iter_mut().filter(|port| port.has_neighbor_at(neighbor)) {
                switch.counts = None;
                act(port);
                is_kept |= port.has_neighbor_at(neighbor);
            }
            is_kept
        });
        if switches.is_empty() {
            self.with_neighbor_at.remove(&neighbor);
        }
    }

    /// The numbers of all ports by role.
    ///
    /// # Cost
    /// Only the ports of switches in which a port may have changed since the last tick are counted.
    pub(super) fn count_ports(&self) -> PortCounts {
        let mut counts = PortCounts::default();
        for switch in self.iter() {
            match &switch.counts {
                Some(known) => counts.add_all(known),
                None => switch.ports.iter().for_each(|port| counts.add(port)),
            }
        }
        counts
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ProbedSwitch> {
        self.by_index.iter().filter_map(Option::as_deref)
    }
}
