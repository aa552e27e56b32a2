//! Holds a port whose frames come up faster than a limit, so that the others keep their share of the control link.
//!
//! After Phemius and Bouet ("OpenFlow: why latency does matter", section V.B). What has a rule of its own is not held:
//! only frames that no rule matches take room on the control link.

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

/// How the limiter is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Frames a second that may come up from a port; 0 for any number.
    pub packets_per_s_max: u32,
    /// Frames that may come up at once.
    pub burst_packets: u32,
    /// Seconds for which a port is held.
    pub block_s: u16,
    /// Whether a port is held by a meter where the switch has them, rather than by a rule that drops.
    pub meters: bool,
    /// Whether the ports of hosts are held from the beginning, where the switch has meters. What the controller does about
    /// a port that sends up too much comes a round trip too late, which is long where it is far away.
    pub proactive: bool,
    /// Whether frames of senders that know of congestion are marked before a port is held. RFC 3168.
    pub ecn: bool,
    /// Bytes of a frame that come up from a port that is held or marked; [`Action::WHOLE`] for all.
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

/// Ports of a switch that are looked after; a switch that names more is not one that has them.
const PORTS_MAX: usize = 4096;

/// Holds ports from which too much comes up.
#[derive(Debug, Default)]
pub struct Limiter {
    cfg: Config,
    guards: Vec<Option<Guard>>,
    counts: Counts,
}

/// What is counted for people.
#[derive(Debug, Default)]
struct Counts {
    holds: u64,
    marks: u64,
    dropped: u64,
}

/// One switch.
#[derive(Debug, Default)]
struct Guard {
    ports: HashMap<PortNo, Port>,
    /// The number of the next meter, the highest first: people begin with the lowest.
    next_meter: Option<u32>,
    /// The transaction ids of the last hold by a meter.
    held_by_meter: Option<(u32, u32)>,
    /// Which ports are held from the beginning was last looked at in this version of the view.
    looked: Option<u64>,
}

#[derive(Debug)]
struct Port {
    misses: Hold,
    probes: Hold,
    marked_until: Instant,
    /// Whether its misses are held from the beginning.
    is_ahead: bool,
}

/// How much of one kind comes up from a port, and how it is held.
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
    /// A limiter set so.
    pub fn new(cfg: &Config) -> Self {
        Self { cfg: cfg.clone(), ..Self::default() }
    }

    /// Sets it otherwise. What is held stays so for as long as it was to be.
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
            // Versions without meters cannot ask, and hold by rules that drop.
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
        // Whether a link is alive must be heard, however much comes through it.
        if role == Some(PortRole::Link) && kind == Kind::Probes {
            return Verdict::Continue;
        }
        let Some(Some(guard)) = self.guards.get_mut(ctx.switch_index.index()) else {
            return Verdict::Continue;
        };
        let Some(port) = guard.port(p.in_port, ctx.now) else { return Verdict::Continue };
        // What a switch lets through at the rate is not too much when it comes in one go, as it does over a control link
        // that is far away: windows of TCP open once in a round trip. What comes through a link was let through there.
        let is_let_through = port.is_ahead || (self.cfg.proactive && role == Some(PortRole::Link));
        if is_let_through && kind == Kind::Misses {
            return Verdict::Continue;
        }
        let rate = kind.limit(&self.cfg).rate(ctx.rtt().unwrap_or_default());
        let level = port.hold(kind).bucket.put(rate, ctx.now);
        if level == Level::Low {
            return Verdict::Continue;
        }
        // Behind a link is not a host but a network: what comes too fast is dropped here, and not there.
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
            // Without actions, the buffer is let go.
            let dropped = PacketOutRef { actions: &[], frame: &[], ..PacketOutRef::answer(p) };
            let written = ctx.switch.packet_out(&dropped);
            debug_assert!(written.is_ok(), "every version can say it");
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

    /// A switch that says it has meters and refuses one is held by rules that drop.
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

    /// Holds the ports of hosts before anything comes up from them, and lets go of those that are no more ports of hosts.
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
                debug_assert!(written.is_ok(), "every version can say it");
                if let Some(port) = self.ports.get_mut(&no) {
                    port.is_ahead = false;
                }
            }
        }
    }

    /// The meter of a kind at a port, if there is one left.
    fn meter(&mut self, no: PortNo, kind: Kind) -> Option<u32> {
        let hold = self.ports.get_mut(&no)?.hold(kind);
        if hold.meter.is_none() {
            hold.meter = self.next_meter;
            self.next_meter = self.next_meter.and_then(|n| n.checked_sub(1)).filter(|&n| n > 0);
        }
        hold.meter
    }

    /// Holds what is of one kind at a port, unless it is held.
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
        // Behind what waits for a switch that is asked too much, it would come too late.
        let mut out = ctx.urgent();
        if let Some(meter) = meter {
            let first = out.next_xid();
            if let Ok(last) = rules::hold_by_meter(&mut out, (no, kind), meter, cfg.block_s, cfg) {
                self.held_by_meter = Some((first, last));
                return;
            }
        }
        let written = rules::hold_by_drop(&mut out, (no, kind), cfg);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    /// Has the switch mark what comes up from a port, where it can and unless it does.
    #[cold]
    fn mark(&mut self, no: PortNo, cfg: &Config, ctx: &mut Ctx<'_>, counts: &mut Counts) {
        let Some(port) = self.ports.get_mut(&no) else { return };
        // The rule that holds it is above those that mark.
        if port.marked_until > ctx.now || port.is_ahead {
            return;
        }
        port.marked_until = ctx.now + Duration::from_secs(cfg.block_s.into());
        if rules::mark(&mut ctx.urgent(), no, cfg).is_ok() {
            counts.marks += 1;
        }
    }
}
