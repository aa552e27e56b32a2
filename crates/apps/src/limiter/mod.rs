//! Blocks or rate-limits ports that send too many packet-ins, so that the other ports keep their share of the control link.
//!
//! After Phemius and Bouet ("OpenFlow: why latency does matter", section V.B). Only table misses are limited: packets that
//! match a flow entry do not use the control link.

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

use flow_entries::PacketKind;
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
}

/// The limited ports of one switch.
#[derive(Debug, Default)]
struct SwitchLimits {
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
        Self { misses: limit, probes: limit, marked_until: now, has_proactive_meter: false }
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
        if let Some(slot) = self.switches.get_mut(index) {
            *slot = Some(SwitchLimits::default());
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
        let Some(port) = switch.port(p.in_port, ctx.now) else { return Verdict::Continue };
        // A meter in the switch limits these already. Over a distant control link they arrive in bursts, since TCP's window
        // opens once in a round trip, and must not be taken for too many. Packets from a link were metered at the far edge.
        let is_limited_by_switch =
            port.has_proactive_meter || (self.cfg.proactive && role == Some(PortRole::Link));
        if is_limited_by_switch && kind == PacketKind::Misses {
            return Verdict::Continue;
        }
        let rate = kind.limit(&self.cfg).rate(ctx.rtt().unwrap_or_default());
        let level = port.limit_mut(kind).bucket.add(rate, ctx.now);
        if level == Level::Low {
            return Verdict::Continue;
        }
        // A link has many hosts behind it, so it is not blocked: its packet-ins beyond the limit are dropped here.
        if role != Some(PortRole::Link) {
            if level == Level::OverLimit {
                switch.block(p.in_port, kind, &self.cfg, ctx, &mut self.counters);
            } else if self.cfg.ecn && kind == PacketKind::Misses {
                switch.mark_ecn(p.in_port, &self.cfg, ctx, &mut self.counters);
            }
        }
        if level == Level::High {
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
        let Counters { blocks, ecn_marks, dropped } = self.counters;
        let rows = [
            ("limiter_blocks", "Times that a port was blocked or rate-limited", blocks),
            ("limiter_ecn_marks", "Times that a switch began to mark packets of a port", ecn_marks),
            ("limiter_packets_dropped", "Packet-ins dropped in the controller", dropped),
        ];
        for (name, help, value) in rows {
            put(AppMetric::counter(name, help, value));
        }
    }
}

impl SwitchLimits {
    fn port(&mut self, port: PortNo, now: Instant) -> Option<&mut PortLimits> {
        if self.ports.len() >= PORTS_MAX && !self.ports.contains_key(&port) {
            return None;
        }
        Some(self.ports.entry(port).or_insert_with(|| PortLimits::new(now)))
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
                if self.port(no, ctx.now).is_some()
                    && let Some(meter) = self.meter(no, PacketKind::Misses)
                {
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
        let Some(port) = self.ports.get_mut(&no) else { return };
        let has_proactive_meter = port.has_proactive_meter && kind == PacketKind::Misses;
        let limit = port.limit_mut(kind);
        if limit.until > ctx.now || has_proactive_meter {
            return;
        }
        limit.until = ctx.now + Duration::from_secs(cfg.block_s.into());
        counters.blocks += 1;
        if limit.reported_at.is_none_or(|at| ctx.now - at >= REPORT_INTERVAL) {
            limit.reported_at = Some(ctx.now);
            let (id, name) = (ctx.datapath_id, kind.name());
            let (max, block_s) = (kind.limit(cfg).packets_per_s(), cfg.block_s);
            ctx.network.report(|| {
                format!(
                    "port sends too many packet-ins and is limited for {block_s} s at a time dpid={id} port={no} \
                     packets=\"{name}\" packets_per_s_max={max}"
                )
            });
        }
        let existing_meter = limit.meter;
        let meter = if cfg.meters { self.meter(no, kind) } else { existing_meter };
        // Urgent: behind the backlog of an overloaded switch it would come too late.
        let mut out = ctx.urgent();
        if let Some(meter) = meter {
            let first = out.next_xid();
            if let Ok(last) =
                flow_entries::install_meter(&mut out, (no, kind), meter, cfg.block_s, cfg)
            {
                self.last_meter_xids = Some((first, last));
                return;
            }
        }
        let written = flow_entries::install_drop(&mut out, (no, kind), cfg);
        debug_assert!(written.is_ok(), "every version can express it");
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
