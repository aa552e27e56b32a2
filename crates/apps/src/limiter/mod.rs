//! Blocks or rate-limits ports that send too many packet-ins, so that the other ports keep their share of the control link.
//!
//! After Phemius and Bouet ("OpenFlow: why latency does matter", section V.B). Only table misses are limited: packets that
//! match a flow entry do not use the control link.

mod bucket;
mod rules;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, Ethernet, MultipartReply, MultipartRequest, MultipartType, PacketOutRef, PortNo,
    SwitchFeatures,
};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use bucket::{Bucket, Level};
use rules::Kind;

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

/// Ports of a switch that are limited. A switch that names more of them is not to be believed.
const PORTS_MAX: usize = 4096;

/// Blocks ports that send too many packet-ins.
#[derive(Debug, Default)]
pub struct Limiter {
    cfg: Config,
    guards: Vec<Option<Guard>>,
    counts: Counts,
}

/// Numbers of events since the start.
#[derive(Debug, Default)]
struct Counts {
    holds: u64,
    marks: u64,
    dropped: u64,
}

/// The state of one switch.
#[derive(Debug, Default)]
struct Guard {
    ports: HashMap<PortNo, Port>,
    /// Id of the next meter to be used. Ids are used from the highest down, since people begin with the lowest.
    next_meter: Option<u32>,
    /// First and last transaction id of the messages that installed the last meter.
    held_by_meter: Option<(u32, u32)>,
    /// The version of the view for which proactive meters were last updated.
    looked: Option<u64>,
}

#[derive(Debug)]
struct Port {
    misses: Hold,
    probes: Hold,
    marked_until: Instant,
    /// Whether its table misses are metered proactively.
    is_ahead: bool,
}

/// How many packet-ins of one kind a port sends, and until when it is blocked for them.
#[derive(Debug, Clone, Copy)]
struct Hold {
    bucket: Bucket,
    until: Instant,
    meter: Option<u32>,
}

impl Port {
    fn new(now: Instant) -> Self {
        let hold = Hold { bucket: Bucket::new(now), until: now, meter: None };
        Self { misses: hold, probes: hold, marked_until: now, is_ahead: false }
    }

    fn hold(&mut self, kind: Kind) -> &mut Hold {
        match kind {
            Kind::Misses => &mut self.misses,
            Kind::Probes => &mut self.probes,
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
        for guard in self.guards.iter_mut().flatten() {
            guard.looked = None;
        }
    }
}

impl App for Limiter {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let at = ctx.switch_index.index();
        if self.guards.len() <= at {
            self.guards.resize_with(at + 1, || None);
        }
        if let Some(place) = self.guards.get_mut(at) {
            *place = Some(Guard::default());
        }
        if self.cfg.meters {
            // Fails in versions without meters. Ports are then blocked by flow entries that drop.
            let _ = ctx.request(MultipartRequest::MeterFeatures);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        if let Some(place) = self.guards.get_mut(sw.index()) {
            *place = None;
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let Some(Some(guard)) = self.guards.get_mut(ctx.switch_index.index()) else { return };
        if guard.looked != Some(ctx.view().version()) {
            guard.look_ahead(&self.cfg, ctx);
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
        let kind = Ethernet::new(p.frame).map_or(Kind::Misses, |eth| Kind::of(&eth));
        // Probes of a known link are never dropped: they keep it alive.
        if role == Some(PortRole::Link) && kind == Kind::Probes {
            return Verdict::Continue;
        }
        let Some(Some(guard)) = self.guards.get_mut(ctx.switch_index.index()) else {
            return Verdict::Continue;
        };
        let Some(port) = guard.port(p.in_port, ctx.now) else { return Verdict::Continue };
        // A meter in the switch limits these already. Over a distant control link they arrive in bursts, since TCP's window
        // opens once in a round trip, and must not be taken for too many. Packets from a link were metered at the far edge.
        let is_metered = port.is_ahead || (self.cfg.proactive && role == Some(PortRole::Link));
        if is_metered && kind == Kind::Misses {
            return Verdict::Continue;
        }
        let rate = kind.limit(&self.cfg).rate(ctx.rtt().unwrap_or_default());
        let level = port.hold(kind).bucket.put(rate, ctx.now);
        if level == Level::Low {
            return Verdict::Continue;
        }
        // A link has many hosts behind it, so it is not blocked: its packet-ins beyond the limit are dropped here.
        if role != Some(PortRole::Link) {
            if level == Level::Over {
                guard.hold(p.in_port, kind, &self.cfg, ctx, &mut self.counts);
            } else if self.cfg.ecn && kind == Kind::Misses {
                guard.mark(p.in_port, &self.cfg, ctx, &mut self.counts);
            }
        }
        if level == Level::High {
            return Verdict::Continue;
        }
        self.counts.dropped += 1;
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
        let Some(Some(guard)) = self.guards.get_mut(ctx.switch_index.index()) else { return };
        if let Ok(MultipartReply::MeterFeatures(features)) = ctx.parse_reply(kind, body) {
            guard.next_meter = rules::can_meter(&features).then_some(features.max_meter);
            guard.looked = None;
        }
    }

    /// If a switch announces meters but refuses one, its ports are blocked by flow entries that drop.
    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(guard)) = self.guards.get_mut(ctx.switch_index.index()) else { return };
        let Some((first, last)) = guard.held_by_meter else { return };
        if error.xid.wrapping_sub(first) <= last.wrapping_sub(first) {
            guard.next_meter = None;
            guard.held_by_meter = None;
            for port in guard.ports.values_mut() {
                port.is_ahead = false;
                for hold in [&mut port.misses, &mut port.probes] {
                    hold.meter = None;
                    hold.until = ctx.now;
                }
            }
        }
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let Counts { holds, marks, dropped } = self.counts;
        let rows = [
            ("limiter_blocks", "Times that a port was blocked or rate-limited", holds),
            ("limiter_ecn_marks", "Times that a switch began to mark packets of a port", marks),
            ("limiter_packets_dropped", "Packet-ins dropped in the controller", dropped),
        ];
        for (name, help, value) in rows {
            put(AppMetric::counter(name, help, value));
        }
    }
}

impl Guard {
    fn port(&mut self, port: PortNo, now: Instant) -> Option<&mut Port> {
        if self.ports.len() >= PORTS_MAX && !self.ports.contains_key(&port) {
            return None;
        }
        Some(self.ports.entry(port).or_insert_with(|| Port::new(now)))
    }

    /// Meters edge ports before they send anything, and removes the meters of ports that are no longer edge ports.
    fn look_ahead(&mut self, cfg: &Config, ctx: &mut Ctx<'_>) {
        self.looked = Some(ctx.view().version());
        let id = ctx.datapath_id;
        let is_wanted = cfg.proactive && cfg.meters && cfg.packets_per_s_max > 0;
        let ports = ctx.view().switch(id).into_iter().flat_map(|switch| &switch.ports);
        let ports: Vec<_> = ports.map(|(&no, port)| (no, port.is_up, port.role)).collect();
        let first = ctx.switch.next_xid();
        for (no, is_up, role) in ports {
            let at = SwitchPort::new(id, no);
            let is_hosts = is_up && (role == PortRole::Edge || role == PortRole::SharedSegment(at));
            let is_ahead = self.ports.get(&no).is_some_and(|port| port.is_ahead);
            if is_wanted && is_hosts && !is_ahead {
                let kind = (no, Kind::Misses);
                if self.port(no, ctx.now).is_some()
                    && let Some(meter) = self.meter(no, Kind::Misses)
                {
                    let held = rules::hold_by_meter(&mut ctx.switch, kind, meter, 0, cfg);
                    self.held_by_meter = held.ok().map(|last| (first, last));
                    if let Some(port) = self.ports.get_mut(&no) {
                        port.is_ahead = held.is_ok();
                    }
                }
            } else if is_ahead && !(is_wanted && is_hosts) {
                let written = rules::let_go(&mut ctx.switch, no);
                debug_assert!(written.is_ok(), "every version can express it");
                if let Some(port) = self.ports.get_mut(&no) {
                    port.is_ahead = false;
                }
            }
        }
    }

    /// The meter for a kind of packet-in of a port; `None` if no id is left.
    fn meter(&mut self, no: PortNo, kind: Kind) -> Option<u32> {
        let hold = self.ports.get_mut(&no)?.hold(kind);
        if hold.meter.is_none() {
            hold.meter = self.next_meter;
            self.next_meter = self.next_meter.and_then(|n| n.checked_sub(1)).filter(|&n| n > 0);
        }
        hold.meter
    }

    /// Blocks one kind of packet-in of a port, unless it is blocked already.
    #[cold]
    fn hold(
        &mut self,
        no: PortNo,
        kind: Kind,
        cfg: &Config,
        ctx: &mut Ctx<'_>,
        counts: &mut Counts,
    ) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        let is_ahead = port.is_ahead && kind == Kind::Misses;
        let hold = port.hold(kind);
        if hold.until > ctx.now || is_ahead {
            return;
        }
        hold.until = ctx.now + Duration::from_secs(cfg.block_s.into());
        counts.holds += 1;
        let own = hold.meter;
        let meter = if cfg.meters { self.meter(no, kind) } else { own };
        // Urgent: behind the backlog of an overloaded switch it would come too late.
        let mut out = ctx.urgent();
        if let Some(meter) = meter {
            let first = out.next_xid();
            if let Ok(last) = rules::hold_by_meter(&mut out, (no, kind), meter, cfg.block_s, cfg) {
                self.held_by_meter = Some((first, last));
                return;
            }
        }
        let written = rules::hold_by_drop(&mut out, (no, kind), cfg);
        debug_assert!(written.is_ok(), "every version can express it");
    }

    /// Has the switch mark packets of ECN-capable senders at a port, where it can, unless it does already.
    #[cold]
    fn mark(&mut self, no: PortNo, cfg: &Config, ctx: &mut Ctx<'_>, counts: &mut Counts) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        // The flow entry of a proactive meter has a higher priority than those that mark.
        if port.marked_until > ctx.now || port.is_ahead {
            return;
        }
        port.marked_until = ctx.now + Duration::from_secs(cfg.block_s.into());
        if rules::mark(&mut ctx.urgent(), no, cfg).is_ok() {
            counts.marks += 1;
        }
    }
}
