//! The limits of one switch and its ports.

use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{MacAddr, MeterFeatures, PortNo};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::Config;
use super::blocks::Blocks;
use super::capacity::{self, Change, Demand, LinkCapacity};
use super::flow_entries::{self, PacketKind, PacketRateLimit};
use super::leaky_bucket::{LeakyBucket, Level};
use super::main_source::MainSource;

/// Interval at which a port that stays over the limit is logged again.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Seconds for which a port over its share of a saturated control link is blocked where there are no meters.
const SHARE_BLOCK_S: u16 = 1;

/// Ports of a switch that are limited. No real switch has more.
const PORTS_MAX: usize = 4096;

/// Numbers of events since the start, as in the metrics.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) blocks: u64,
    pub(super) ecn_marks: u64,
    pub(super) dropped: u64,
    pub(super) saturations: u64,
}

/// The limited ports of one switch.
#[derive(Debug, Default)]
pub(super) struct SwitchLimits {
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
    blocks: Blocks,
    /// Id of the next meter to be used. Ids are used from the highest down, since people begin with the lowest.
    next_meter: Option<u32>,
    /// First and last transaction id of the messages that installed the last meter, to which an error may refer.
    last_meter_xids: Option<(u32, u32)>,
    /// Version of the switch for which the proactive meters were last updated.
    metered_version: Option<u64>,
}

/// Where a packet-in comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) port: PortNo,
    pub(super) role: Option<PortRole>,
    /// Its source address, if it is an Ethernet frame.
    pub(super) host: Option<MacAddr>,
    pub(super) kind: PacketKind,
}

#[derive(Debug)]
struct PortLimits {
    misses: PacketLimit,
    probes: PacketLimit,
    /// Table misses of the one host that is limited apart from the others, or was last.
    host: PacketLimit,
    limited_host: Option<MacAddr>,
    main_source: MainSource,
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
            host: limit,
            limited_host: None,
            main_source: MainSource::new(now),
            marked_until: now,
            has_proactive_meter: false,
            received: 0,
            packets_per_s: 0,
        }
    }

    fn limit_mut(&mut self, kind: PacketKind) -> &mut PacketLimit {
        match kind {
            PacketKind::Misses => &mut self.misses,
            PacketKind::HostMisses(_) => &mut self.host,
            PacketKind::Probes => &mut self.probes,
        }
    }

    /// Meters whose rate follows the share of the port: their kind, and whether the port has exceeded it.
    fn meters_in_use(&self, now: Instant) -> impl Iterator<Item = (u32, PacketKind, bool)> {
        let is_limited = self.misses.until > now;
        let of_port = self.misses.meter.filter(|_| is_limited || self.has_proactive_meter);
        let of_port = of_port.map(|meter| (meter, PacketKind::Misses, is_limited));
        let host = self.limited_host.filter(|_| self.host.until > now);
        let of_host = self
            .host
            .meter
            .zip(host)
            .map(|(meter, host)| (meter, PacketKind::HostMisses(host), true));
        of_port.into_iter().chain(of_host)
    }
}

impl SwitchLimits {
    /// Counts a packet-in. Returns whether the other applications may handle it. A port over its limit is limited at the
    /// switch if it can be.
    pub(super) fn admit(
        &mut self,
        from: Source,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) -> bool {
        if self.capacity.needs_barrier() {
            self.send_barrier(ctx);
        }
        self.capacity.count_received();
        let is_admitted = !self.exceeds_limit(from, cfg, ctx, counters);
        if is_admitted {
            self.capacity.count_answered();
        }
        is_admitted
    }

    fn exceeds_limit(
        &mut self,
        from: Source,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) -> bool {
        let (no, kind) = (from.port, from.kind);
        let rtt = self.capacity.idle_delay().or_else(|| ctx.rtt()).unwrap_or_default();
        let Some(port) = port_mut(&mut self.ports, no, ctx.now) else { return false };
        port.received += u32::from(kind == PacketKind::Misses);
        // A meter in the switch limits these already. Over a distant control link they arrive in bursts, since TCP's window
        // opens once in a round trip, and must not be taken for too many. Packets from a link were metered at the far edge.
        let is_limited_by_switch =
            port.has_proactive_meter || (cfg.proactive && from.role == Some(PortRole::Link));
        if is_limited_by_switch && kind == PacketKind::Misses {
            return false;
        }
        if port.host.until > ctx.now
            && kind == PacketKind::Misses
            && let Some(host) = port.limited_host.filter(|&host| Some(host) == from.host)
        {
            let limit = rate_limit(PacketKind::HostMisses(host), true, &self.capacity, cfg);
            if port.host.bucket.add(limit.rate(rtt), ctx.now) == Level::OverLimit {
                return true;
            }
        }
        let limit = rate_limit(kind, port.misses.until > ctx.now, &self.capacity, cfg);
        let level = port.limit_mut(kind).bucket.add(limit.rate(rtt), ctx.now);
        if level != Level::Low {
            self.on_high_level(from, level, cfg, ctx, counters);
        }
        level == Level::OverLimit
    }

    /// More than half of the burst of a port is used.
    #[cold]
    fn on_high_level(
        &mut self,
        from: Source,
        level: Level,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        // A link has many hosts behind it, so it is not blocked: its packet-ins beyond the limit are dropped here.
        if from.role == Some(PortRole::Link) {
            return;
        }
        let (no, kind) = (from.port, from.kind);
        if kind == PacketKind::Misses
            && let Some(port) = self.ports.get_mut(&no)
            && let Some(host) = from.host
        {
            port.main_source.add(host, ctx.now);
        }
        if level == Level::OverLimit {
            if let Some(kind) = self.kind_to_block(no, kind, ctx) {
                self.block(no, kind, cfg, ctx, counters);
            }
        } else if cfg.ecn && kind == PacketKind::Misses {
            self.mark_ecn(no, cfg, ctx, counters);
        }
    }

    /// What is to be blocked at a port over its limit: one of its hosts, if the port has several and one sends most, and the
    /// port itself otherwise, or if there is such a host already. `None` until enough packets have been counted.
    fn kind_to_block(&mut self, no: PortNo, kind: PacketKind, ctx: &Ctx<'_>) -> Option<PacketKind> {
        let port = self.ports.get_mut(&no)?;
        let is_limited = port.misses.until > ctx.now || port.host.until > ctx.now;
        let at = SwitchPort::new(ctx.datapath_id, no);
        if kind != PacketKind::Misses || is_limited || ctx.view().hosts_at(at).nth(1).is_none() {
            return Some(kind);
        }
        if !port.main_source.is_decided() {
            return None;
        }
        port.limited_host = port.main_source.host();
        Some(port.limited_host.map_or(PacketKind::Misses, PacketKind::HostMisses))
    }

    /// The configuration has changed.
    pub(super) fn configure(&mut self) {
        self.metered_version = None;
    }

    /// The switch supports these meters.
    pub(super) fn use_meters(&mut self, features: &MeterFeatures) {
        self.next_meter = flow_entries::supports_meters(features).then_some(features.max_meter);
        self.metered_version = None;
    }

    /// If it was a meter that the switch has refused, no more meters are used.
    pub(super) fn on_error(&mut self, xid: u32, now: Instant) {
        let Some((first, last)) = self.last_meter_xids else { return };
        if xid.wrapping_sub(first) > last.wrapping_sub(first) {
            return;
        }
        self.next_meter = None;
        self.last_meter_xids = None;
        for port in self.ports.values_mut() {
            port.has_proactive_meter = false;
            for limit in [&mut port.misses, &mut port.probes, &mut port.host] {
                limit.meter = None;
                limit.until = now;
            }
        }
    }

    pub(super) fn on_barrier_reply(&mut self, xid: u32, now: Instant) {
        self.capacity.on_barrier_reply(xid, now);
    }

    /// Updates the proactive meters if the switch has changed, and the share of the ports.
    pub(super) fn tick(&mut self, cfg: &Config, ctx: &mut Ctx<'_>, counters: &mut Counters) {
        let version = ctx.view().switch_version(ctx.datapath_id);
        if self.metered_version != Some(version) && ctx.has_room() {
            self.update_proactive_meters(cfg, ctx);
        }
        self.blocks.tick(ctx);
        if cfg.packets_per_s_max > 0 {
            self.update_share(cfg, ctx, counters);
        }
    }

    /// The switch has disconnected.
    pub(super) fn end(self, now: Instant, network: &mut Network) {
        self.blocks.end(now, network);
    }

    /// Measures the delay of the link.
    pub(super) fn send_barrier(&mut self, ctx: &mut Ctx<'_>) {
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
            let is_limited = port.misses.until > now || port.host.until > now;
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
        let ports = self.ports.values();
        let mut meters: Vec<_> = ports.flat_map(|port| port.meters_in_use(ctx.now)).collect();
        meters.sort_unstable_by_key(|&(meter, ..)| meter);
        let mut out = ctx.urgent();
        let first = out.next_xid();
        for (meter, kind, is_limited) in meters {
            let limit = rate_limit(kind, is_limited, &self.capacity, cfg);
            let modified = flow_entries::modify_meter(&mut out, meter, limit);
            if let Ok(last) = modified {
                self.last_meter_xids = Some((first, last));
            }
        }
    }

    /// Meters edge ports before they send anything, and removes the meters of ports that are no longer edge ports.
    fn update_proactive_meters(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
        let id = ctx.datapath_id;
        self.metered_version = Some(ctx.view().switch_version(id));
        let is_enabled = cfg.proactive && cfg.meters && cfg.packets_per_s_max > 0;
        let ports = ctx.view().switch(id).into_iter().flat_map(|switch| &switch.ports);
        let ports: Vec<_> = ports.map(|(&no, port)| (no, port.is_up, port.role)).collect();
        let first = ctx.switch.next_xid();
        for (no, is_up, role) in ports {
            let at = SwitchPort::new(id, no);
            let is_edge = is_up
                && (matches!(role, PortRole::Edge | PortRole::Bundle(_))
                    || role == PortRole::SharedSegment(at));
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
    pub(super) fn restore(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
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
            for limit in [&mut port.misses, &mut port.probes, &mut port.host] {
                limit.until = ctx.now;
            }
            port.marked_until = ctx.now;
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
        let rtt = self.capacity.idle_delay().unwrap_or_default();
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
        self.blocks.add((no, kind), rate_limit, block_s, ctx);
        if let Some(port) = self.ports.get_mut(&no) {
            let limit = port.limit_mut(kind);
            limit.until = ctx.now + Duration::from_secs(block_s.into());
            if let PacketKind::HostMisses(_) = kind {
                // The burst was that of this host.
                limit.bucket = LeakyBucket::full(rate_limit.rate(rtt), ctx.now);
                port.misses.bucket = LeakyBucket::new(ctx.now);
            }
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
        let (sender, host) = match kind {
            PacketKind::HostMisses(host) => ("host", format!(" host={host}")),
            PacketKind::Misses | PacketKind::Probes => ("port", String::new()),
        };
        ctx.network.report(|| {
            format!(
                "{sender} sends too many packet-ins and is limited for {block_s} s at a time dpid={id} port={no}{host} \
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
        Some(share) if kind != PacketKind::Probes => limit.at_most(kind, share),
        _ => limit,
    }
}
