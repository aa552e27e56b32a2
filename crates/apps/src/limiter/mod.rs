//! Blocks or rate-limits ports that send too many packet-ins, so that the other ports keep their share of the control link.
//!
//! After Phemius and Bouet ("OpenFlow: why latency does matter", section V.B). Only table misses are limited: packets that
//! match a flow entry do not use the control link.

mod capacity;
mod flow_entries;
mod leaky_bucket;

use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, Ethernet, MultipartReply, MultipartRequest, MultipartType, PacketOutRef, PortNo,
    SwitchFeatures,
};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use capacity::{Change, Demand, LinkCapacity};
use flow_entries::{PacketKind, PacketRateLimit};
use leaky_bucket::{LeakyBucket, Level};

/// Configuration of the limiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Packet-ins per second that a port may send; 0 disables the limiter.
    pub packets_per_s_max: u32,
    /// Packet-ins that a port may send at once.
    pub burst_packets: u32,
    /// Seconds for which a port is blocked.
    pub block_s: u16,
    /// Whether a port is limited by a meter where the switch supports meters, instead of being blocked by a flow entry that
    /// drops.
    pub meters: bool,
    /// Whether every edge port gets its meter as soon as it is known, where the switch supports meters. Otherwise the
    /// controller reacts a round trip late, which is long if it is far away.
    pub proactive: bool,
    /// Whether packets of ECN-capable senders are marked before their port is blocked. RFC 3168.
    pub ecn: bool,
    /// Bytes of a packet that the limiter's flow entries send to the controller; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets_per_s_max: 1000,
            burst_packets: 500,
            block_s: 5,
            meters: true,
            proactive: false,
            ecn: true,
            miss_send_len: Action::WHOLE,
        }
    }
}

/// Interval at which a port that stays over the limit is logged again.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Seconds for which a port over its share of a saturated control link is blocked where there are no meters.
const SHARE_BLOCK_S: u16 = 1;

/// Ports of a switch that are limited. No real switch has more.
const PORTS_MAX: usize = 4096;

/// Blocks ports that send too many packet-ins.
#[derive(Debug, Default)]
pub struct Limiter {
    cfg: Config,
    switches: Vec<Option<SwitchLimits>>,
    counters: Counters,
}

/// Numbers of events since the start, as in the metrics.
#[derive(Debug, Default)]
struct Counters {
    blocks: u64,
    ecn_marks: u64,
    dropped: u64,
    saturations: u64,
}

/// The limited ports of one switch.
#[derive(Debug, Default)]
struct SwitchLimits {
    capacity: LinkCapacity,
    /// When the rates of the ports were last measured.
    measured_at: Option<Instant>,
    /// Packet-ins received by then.
    measured_packets: u64,
    /// No port sent any for a while.
    is_quiet: bool,
    saturation_reported_at: Option<Instant>,
    /// Whether meters have another limit than that of their ports.
    has_outdated_meters: bool,
    ports: HashMap<PortNo, PortLimits>,
    /// Id of the next meter to be used. Ids are used from the highest down, since people begin with the lowest.
    next_meter: Option<u32>,
    /// First and last transaction id of the messages that installed the last meter, to which an error may refer.
    last_meter_xids: Option<(u32, u32)>,
    /// Version of the view for which the proactive meters were last updated.
    metered_version: Option<u64>,
}

#[derive(Debug)]
struct PortLimits {
    misses: PacketLimit,
    probes: PacketLimit,
    marked_until: Instant,
    /// Whether a proactive meter limits its table misses.
    has_proactive_meter: bool,
    /// Table misses since the rate was last measured.
    received: u32,
    packets_per_s: u32,
}

/// The rate of one kind of packet-in of a port, and until when that kind is blocked.
#[derive(Debug, Clone, Copy)]
struct PacketLimit {
    bucket: LeakyBucket,
    until: Instant,
    meter: Option<u32>,
    reported_at: Option<Instant>,
}

impl PortLimits {
    fn new(now: Instant) -> Self {
        let limit = PacketLimit {
            bucket: LeakyBucket::new(now),
            until: now,
            meter: None,
            reported_at: None,
        };
        Self {
            misses: limit,
            probes: limit,
            marked_until: now,
            has_proactive_meter: false,
            received: 0,
            packets_per_s: 0,
        }
    }

    fn limit_mut(&mut self, kind: PacketKind) -> &mut PacketLimit {
        match kind {
            PacketKind::Misses => &mut self.misses,
            PacketKind::Probes => &mut self.probes,
        }
    }
}

impl Limiter {
    /// A limiter with this configuration.
    pub fn new(cfg: &Config) -> Self {
        Self { cfg: cfg.clone(), ..Self::default() }
    }

    /// Applies a new configuration. Ports that are blocked stay blocked until their time is over.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        for switch in self.switches.iter_mut().flatten() {
            switch.metered_version = None;
        }
    }
}

impl App for Limiter {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let index = ctx.switch_index.index();
        if self.switches.len() <= index {
            self.switches.resize_with(index + 1, || None);
        }
        let mut switch = SwitchLimits::default();
        if self.cfg.packets_per_s_max > 0 {
            // Measured now, while the link is idle.
            switch.send_barrier(ctx);
        }
        if let Some(slot) = self.switches.get_mut(index) {
            *slot = Some(switch);
        }
        if self.cfg.meters {
            // Fails in versions without meters. Ports are then blocked by flow entries that drop.
            let _ = ctx.request(MultipartRequest::MeterFeatures);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        if let Some(slot) = self.switches.get_mut(sw.index()) {
            *slot = None;
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else { return };
        if switch.metered_version != Some(ctx.view().version()) && ctx.has_room() {
            switch.update_proactive_meters(&self.cfg, ctx);
        }
        if self.cfg.packets_per_s_max > 0 {
            switch.update_share(&self.cfg, ctx, &mut self.counters);
        }
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        if let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) {
            switch.capacity.on_barrier_reply(xid, ctx.now);
        }
    }

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) {
            switch.restore(&self.cfg, ctx);
        }
    }

    fn inspects_every_packet(&self) -> bool {
        self.cfg.packets_per_s_max > 0
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        if self.cfg.packets_per_s_max == 0 {
            return Verdict::Continue;
        }
        let role =
            ctx.view().port(SwitchPort::new(ctx.datapath_id, p.in_port)).map(|port| port.role);
        let kind = Ethernet::new(p.frame).map_or(PacketKind::Misses, |eth| PacketKind::of(&eth));
        // Probes of a known link are never dropped: they keep it alive.
        if role == Some(PortRole::Link) && kind == PacketKind::Probes {
            return Verdict::Continue;
        }
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else {
            return Verdict::Continue;
        };
        if switch.capacity.needs_barrier() {
            switch.send_barrier(ctx);
        }
        switch.capacity.count_received();
        let source = (p.in_port, kind);
        if !switch.exceeds_limit(source, role, &self.cfg, ctx, &mut self.counters) {
            switch.capacity.count_answered();
            return Verdict::Continue;
        }
        self.counters.dropped += 1;
        if p.buffer_id.is_some() {
            // Without actions, this frees the buffer.
            let dropped = PacketOutRef { actions: &[], frame: &[], ..PacketOutRef::answer(p) };
            let written = ctx.switch.packet_out(&dropped);
            debug_assert!(written.is_ok(), "every version can express it");
        }
        Verdict::Stop
    }

    fn on_multipart_reply(&mut self, _: u32, kind: MultipartType, body: &[u8], ctx: &mut Ctx<'_>) {
        if kind != MultipartType::METER_FEATURES {
            return;
        }
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else { return };
        if let Ok(MultipartReply::MeterFeatures(features)) = ctx.parse_reply(kind, body) {
            switch.next_meter =
                flow_entries::supports_meters(&features).then_some(features.max_meter);
            switch.metered_version = None;
        }
    }

    /// If a switch announces meters but refuses one, its ports are blocked by flow entries that drop.
    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else { return };
        let Some((first, last)) = switch.last_meter_xids else { return };
        if error.xid.wrapping_sub(first) <= last.wrapping_sub(first) {
            switch.next_meter = None;
            switch.last_meter_xids = None;
            for port in switch.ports.values_mut() {
                port.has_proactive_meter = false;
                for limit in [&mut port.misses, &mut port.probes] {
                    limit.meter = None;
                    limit.until = ctx.now;
                }
            }
        }
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let Counters { blocks, ecn_marks, dropped, saturations } = self.counters;
        let rows = [
            ("limiter_blocks", "Times that a port was blocked or rate-limited", blocks),
            ("limiter_ecn_marks", "Times that a switch began to mark packets of a port", ecn_marks),
            ("limiter_packets_dropped", "Packet-ins dropped in the controller", dropped),
            (
                "limiter_links_saturated",
                "Times that packet-ins saturated the control link of a switch",
                saturations,
            ),
        ];
        for (name, help, value) in rows {
            put(AppMetric::counter(name, help, value));
        }
    }
}

impl SwitchLimits {
    /// Counts a packet-in of a port. Returns whether it is over the limit of the port, which is limited at the switch if it
    /// can be.
    fn exceeds_limit(
        &mut self,
        (no, kind): (PortNo, PacketKind),
        role: Option<PortRole>,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) -> bool {
        let rtt = self.capacity.idle_delay().or_else(|| ctx.rtt()).unwrap_or_default();
        let Some(port) = port_mut(&mut self.ports, no, ctx.now) else { return false };
        port.received += u32::from(kind == PacketKind::Misses);
        // A meter in the switch limits these already. Over a distant control link they arrive in bursts, since TCP's window
        // opens once in a round trip, and must not be taken for too many. Packets from a link were metered at the far edge.
        let is_limited_by_switch =
            port.has_proactive_meter || (cfg.proactive && role == Some(PortRole::Link));
        if is_limited_by_switch && kind == PacketKind::Misses {
            return false;
        }
        let limit = rate_limit(kind, port.misses.until > ctx.now, &self.capacity, cfg);
        let level = port.limit_mut(kind).bucket.add(limit.rate(rtt), ctx.now);
        // A link has many hosts behind it, so it is not blocked: its packet-ins beyond the limit are dropped here.
        if role != Some(PortRole::Link) {
            match level {
                Level::High if cfg.ecn && kind == PacketKind::Misses => {
                    self.mark_ecn(no, cfg, ctx, counters);
                }
                Level::Low | Level::High => {}
                Level::OverLimit => self.block(no, kind, cfg, ctx, counters),
            }
        }
        level == Level::OverLimit
    }

    fn send_barrier(&mut self, ctx: &mut Ctx<'_>) {
        let xid = ctx.switch.barrier_request();
        self.capacity.on_barrier_sent(xid, ctx.now);
    }

    /// Lets the limits of the ports follow the capacity of the control link.
    fn update_share(&mut self, cfg: &Config, ctx: &mut Ctx<'_>, counters: &mut Counters) {
        let mut demands = self.measure_demands(ctx.now);
        let change = self.capacity.update(ctx.now, cfg.packets_per_s_max, &mut demands);
        if let Change::Saturated { capacity } = change {
            counters.saturations += 1;
            self.report_saturation(capacity, ctx);
        }
        self.has_outdated_meters |= change != Change::Unchanged;
        if self.has_outdated_meters && ctx.has_room() {
            self.has_outdated_meters = false;
            self.modify_meters(cfg, ctx);
        }
        if self.capacity.needs_barrier_at_tick() {
            self.send_barrier(ctx);
        }
    }

    /// Table misses of each port that sends any.
    fn measure_demands(&mut self, now: Instant) -> Vec<Demand> {
        let time = now.saturating_duration_since(self.measured_at.unwrap_or(now));
        self.measured_at = Some(now);
        let mut demands = Vec::new();
        let received = self.capacity.received();
        if std::mem::replace(&mut self.measured_packets, received) == received && self.is_quiet {
            return demands;
        }
        for port in self.ports.values_mut() {
            let rate = capacity::per_second(port.received.into(), time);
            port.received = 0;
            // Packets arrive in bursts.
            port.packets_per_s = rate.max(u32::midpoint(port.packets_per_s, rate));
            let is_limited = port.misses.until > now;
            if port.packets_per_s > 0 || is_limited {
                demands.push(Demand { packets_per_s: port.packets_per_s, is_limited });
            }
        }
        self.is_quiet = demands.is_empty();
        demands
    }

    #[cold]
    fn report_saturation(&mut self, capacity: u32, ctx: &mut Ctx<'_>) {
        if self.saturation_reported_at.is_some_and(|at| ctx.now - at < REPORT_INTERVAL) {
            return;
        }
        self.saturation_reported_at = Some(ctx.now);
        let id = ctx.datapath_id;
        ctx.network.report(|| {
            format!(
                "packet-ins saturate the control link, and each port is limited to its share dpid={id} \
                 packets_per_s={capacity}"
            )
        });
    }

    /// Changes the limits of the meters that are in use.
    fn modify_meters(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
        let limit = |port: &PortLimits| {
            let is_limited = port.misses.until > ctx.now;
            let is_in_use = is_limited || port.has_proactive_meter;
            let limit = rate_limit(PacketKind::Misses, is_limited, &self.capacity, cfg);
            port.misses.meter.filter(|_| is_in_use).map(|meter| (meter, limit))
        };
        let mut meters: Vec<_> = self.ports.values().filter_map(limit).collect();
        meters.sort_unstable_by_key(|&(meter, _)| meter);
        let mut out = ctx.urgent();
        let first = out.next_xid();
        for (meter, limit) in meters {
            let modified = flow_entries::modify_meter(&mut out, meter, limit);
            if let Ok(last) = modified {
                self.last_meter_xids = Some((first, last));
            }
        }
    }

    /// Meters edge ports before they send anything, and removes the meters of ports that are no longer edge ports.
    fn update_proactive_meters(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
        self.metered_version = Some(ctx.view().version());
        let id = ctx.datapath_id;
        let is_enabled = cfg.proactive && cfg.meters && cfg.packets_per_s_max > 0;
        let ports = ctx.view().switch(id).into_iter().flat_map(|switch| &switch.ports);
        let ports: Vec<_> = ports.map(|(&no, port)| (no, port.is_up, port.role)).collect();
        let first = ctx.switch.next_xid();
        for (no, is_up, role) in ports {
            let at = SwitchPort::new(id, no);
            let is_edge = is_up && (role == PortRole::Edge || role == PortRole::SharedSegment(at));
            let has_proactive_meter =
                self.ports.get(&no).is_some_and(|port| port.has_proactive_meter);
            if is_enabled && is_edge && !has_proactive_meter {
                let kind = (no, PacketKind::Misses);
                if port_mut(&mut self.ports, no, ctx.now).is_some()
                    && let Some(meter) = self.meter(no, PacketKind::Misses)
                {
                    let limit = rate_limit(PacketKind::Misses, false, &self.capacity, cfg);
                    let meter = (meter, limit);
                    let installed =
                        flow_entries::install_meter(&mut ctx.switch, kind, meter, 0, cfg);
                    self.last_meter_xids = installed.ok().map(|last| (first, last));
                    if let Some(port) = self.ports.get_mut(&no) {
                        port.has_proactive_meter = installed.is_ok();
                    }
                }
            } else if has_proactive_meter && !(is_enabled && is_edge) {
                let written = flow_entries::remove_meter(&mut ctx.switch, no);
                debug_assert!(written.is_ok(), "every version can express it");
                if let Some(port) = self.ports.get_mut(&no) {
                    port.has_proactive_meter = false;
                }
            }
        }
    }

    /// Installs proactive meters again and removes those of other ports. A port that is blocked will be blocked again by
    /// its next packet-in over the limit.
    fn restore(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
        let is_free = |port: &PortLimits| !port.has_proactive_meter && port.misses.until <= ctx.now;
        let had_meter = self.ports.iter().filter(|(_, port)| port.misses.meter.is_some());
        let mut unlimited: Vec<_> =
            had_meter.filter(|(_, port)| is_free(port)).map(|(&no, _)| no).collect();
        unlimited.sort_unstable();
        for no in unlimited {
            let written = flow_entries::remove_meter(&mut ctx.switch, no);
            debug_assert!(written.is_ok(), "every version can express it");
        }
        for port in self.ports.values_mut() {
            (port.misses.until, port.probes.until, port.marked_until) = (ctx.now, ctx.now, ctx.now);
        }
        // First those that are to be removed, with the old flags; then all that are to be there.
        self.update_proactive_meters(cfg, ctx);
        self.ports.values_mut().for_each(|port| port.has_proactive_meter = false);
        self.update_proactive_meters(cfg, ctx);
    }

    /// The id of the meter for a kind of packet-in of a port; `None` if no id is left.
    fn meter(&mut self, no: PortNo, kind: PacketKind) -> Option<u32> {
        let limit = self.ports.get_mut(&no)?.limit_mut(kind);
        if limit.meter.is_none() {
            limit.meter = self.next_meter;
            self.next_meter = self.next_meter.and_then(|n| n.checked_sub(1)).filter(|&n| n > 0);
        }
        limit.meter
    }

    /// Blocks one kind of packet-in of a port, unless it is blocked already.
    #[cold]
    fn block(
        &mut self,
        no: PortNo,
        kind: PacketKind,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        let rate_limit = rate_limit(kind, true, &self.capacity, cfg);
        let is_share = rate_limit.packets_per_s() < kind.limit(cfg).packets_per_s();
        let Some(port) = self.ports.get_mut(&no) else { return };
        let has_proactive_meter = port.has_proactive_meter && kind == PacketKind::Misses;
        let limit = port.limit_mut(kind);
        if limit.until > ctx.now || has_proactive_meter {
            return;
        }
        let existing_meter = limit.meter;
        let meter = if cfg.meters { self.meter(no, kind) } else { existing_meter };
        // A port that may send its share must not wait for long.
        let block_s =
            if is_share && meter.is_none() { SHARE_BLOCK_S.min(cfg.block_s) } else { cfg.block_s };
        counters.blocks += 1;
        self.report_block((no, kind), rate_limit, block_s, ctx);
        if let Some(port) = self.ports.get_mut(&no) {
            port.limit_mut(kind).until = ctx.now + Duration::from_secs(block_s.into());
        }
        // Urgent: behind the backlog of an overloaded switch it would come too late.
        let mut out = ctx.urgent();
        if let Some(meter) = meter {
            let first = out.next_xid();
            let meter = (meter, rate_limit);
            if let Ok(last) = flow_entries::install_meter(&mut out, (no, kind), meter, block_s, cfg)
            {
                self.last_meter_xids = Some((first, last));
                return;
            }
        }
        let written = flow_entries::install_drop(&mut out, (no, kind), block_s, cfg);
        debug_assert!(written.is_ok(), "every version can express it");
    }

    /// Logs that a port is blocked, unless that was logged a moment ago.
    fn report_block(
        &mut self,
        (no, kind): (PortNo, PacketKind),
        limit: PacketRateLimit,
        block_s: u16,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        let reported_at = &mut port.limit_mut(kind).reported_at;
        if reported_at.is_some_and(|at| ctx.now - at < REPORT_INTERVAL) {
            return;
        }
        *reported_at = Some(ctx.now);
        let (id, name, max) = (ctx.datapath_id, kind.name(), limit.packets_per_s());
        ctx.network.report(|| {
            format!(
                "port sends too many packet-ins and is limited for {block_s} s at a time dpid={id} port={no} \
                 packets=\"{name}\" packets_per_s_max={max}"
            )
        });
    }

    /// Makes the switch mark packets of ECN-capable senders at a port, if it can and does not already.
    #[cold]
    fn mark_ecn(&mut self, no: PortNo, cfg: &Config, ctx: &mut Ctx<'_>, counters: &mut Counters) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        // The flow entry of a proactive meter has a higher priority than those that mark.
        if port.marked_until > ctx.now || port.has_proactive_meter {
            return;
        }
        port.marked_until = ctx.now + Duration::from_secs(cfg.block_s.into());
        if flow_entries::mark_ecn(&mut ctx.urgent(), no, cfg).is_ok() {
            counters.ecn_marks += 1;
        }
    }
}

/// The limits of a port; `None` if there are too many ports.
fn port_mut(
    ports: &mut HashMap<PortNo, PortLimits>,
    no: PortNo,
    now: Instant,
) -> Option<&mut PortLimits> {
    if ports.len() >= PORTS_MAX && !ports.contains_key(&no) {
        return None;
    }
    Some(ports.entry(no).or_insert_with(|| PortLimits::new(now)))
}

/// How many packet-ins of a kind a port may send that is limited or not.
fn rate_limit(
    kind: PacketKind,
    is_limited: bool,
    capacity: &LinkCapacity,
    cfg: &Config,
) -> PacketRateLimit {
    let limit = kind.limit(cfg);
    match capacity.share(is_limited) {
        Some(share) if kind == PacketKind::Misses => limit.at_most(share),
        _ => limit,
    }
}
