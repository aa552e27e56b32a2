//! Blocks or rate-limits ports that send too many packet-ins, so that the other ports keep their share of the control link.
//!
//! After Phemius and Bouet ("OpenFlow: why latency does matter", section V.B). Only table misses are limited: packets that
//! match a flow entry do not use the control link.

mod blocks;
mod capacity;
mod flow_entries;
mod leaky_bucket;
mod main_source;
mod switch_limits;

use std::time::Instant;

use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, Ethernet, MultipartReply, MultipartRequest, MultipartType, PacketOutRef, SwitchFeatures,
};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use flow_entries::PacketKind;
use switch_limits::{Counters, Source, SwitchLimits};

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

/// Blocks ports that send too many packet-ins.
#[derive(Debug, Default)]
pub struct Limiter {
    cfg: Config,
    switches: Vec<Option<SwitchLimits>>,
    counters: Counters,
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
            switch.configure();
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

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        let switch = self.switches.get_mut(sw.index()).and_then(Option::take);
        if let Some(switch) = switch {
            switch.end(now, network);
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else { return };
        switch.tick(&self.cfg, ctx, &mut self.counters);
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        if let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) {
            switch.on_barrier_reply(xid, ctx.now);
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
        let eth = Ethernet::new(p.frame);
        let kind = eth.as_ref().map_or(PacketKind::Misses, PacketKind::of);
        // Probes of a known link are never dropped: they keep it alive.
        if role == Some(PortRole::Link) && kind == PacketKind::Probes {
            return Verdict::Continue;
        }
        let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) else {
            return Verdict::Continue;
        };
        let from = Source { port: p.in_port, role, host: eth.map(|eth| eth.src), kind };
        if switch.admit(from, &self.cfg, ctx, &mut self.counters) {
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
            switch.use_meters(&features);
        }
    }

    /// If a switch announces meters but refuses one, its ports are blocked by flow entries that drop.
    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        if let Some(Some(switch)) = self.switches.get_mut(ctx.switch_index.index()) {
            switch.on_error(error.xid, ctx.now);
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
