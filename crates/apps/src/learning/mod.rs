//! A learning bridge: stations are where they were last seen. IEEE 802.1D §7.8.

mod bridge;
mod table;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sluice_app::{App, Ctx, Gauge, Sw, Then};
use sluice_wire::{
    Action, Command, Features, FlowMod, PacketIn, PacketIns, PortReason, PortStatus,
};

use bridge::{Bridge, Clock, Counts, say};
use table::Tick;

/// How the bridge is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Stations per switch; the ones not seen for longest go as new ones come.
    pub hosts_max: u32,
    /// How long a station is believed to be where it was last seen, at most 18 hours.
    pub host_timeout: Duration,
    /// Seconds without a packet after which a rule goes; 0 never.
    pub idle_timeout_s: u16,
    /// Seconds after which a rule goes; 0 never.
    pub hard_timeout_s: u16,
    /// Priority of the rules.
    pub priority: u16,
    /// What the rules match.
    pub matching: Matching,
    /// Octets of a frame that come up where a rule sends misses up; [`Action::WHOLE`] for all.
    pub miss_len: u16,
}

/// What a rule matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The destination: the fewest rules. A station that only speaks to known ones stays unseen.
    Dst,
    /// Destination and source.
    Pair,
    /// Destination, source and ingress port: a station that moves is seen at once.
    PortPair,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Half the places of a table of 4 MiB.
            hosts_max: 131_072,
            host_timeout: Duration::from_secs(300),
            idle_timeout_s: 60,
            hard_timeout_s: 0,
            priority: 100,
            matching: Matching::PortPair,
            miss_len: Action::WHOLE,
        }
    }
}

/// In so many seconds every place of a table is swept once.
const SWEEP_PARTS: u16 = 64;

/// Octets of tables that a core keeps in its own cache, beside a burst and its answers. `lab/look-ahead` compares.
const NEAR_MAX: usize = 512 << 10;

/// Longest time-out that the round count of seconds can tell, with a sweep to spare.
const TIMEOUT_MAX: Tick = Tick::MAX - 2 * SWEEP_PARTS;

/// Learns where stations are, writes a rule for each conversation it can, and floods the rest.
#[derive(Debug)]
pub struct Learning {
    cfg: Config,
    host_timeout: Tick,
    seeds: RandomState,
    bridges: Vec<Option<Box<Bridge>>>,
    /// Whether all tables together stay in the core's own cache anyway.
    is_near: bool,
    started: Option<Instant>,
    now: Tick,
    counts: Counts,
}

impl Default for Learning {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Learning {
    /// A bridge set so.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            host_timeout: ticks(cfg.host_timeout),
            seeds: RandomState::new(),
            bridges: Vec::new(),
            is_near: true,
            started: None,
            now: 0,
            counts: Counts::default(),
        }
    }

    /// Sets it otherwise. Rules that are written stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        self.host_timeout = ticks(cfg.host_timeout);
        for bridge in self.bridges.iter_mut().flatten() {
            bridge.configure(cfg);
        }
    }
}

impl App for Learning {
    fn on_time(&mut self, now: Instant) {
        let started = *self.started.get_or_insert(now);
        #[expect(clippy::cast_possible_truncation, reason = "ticks go round")]
        let tick = (now - started).as_secs() as Tick;
        while self.now != tick {
            self.now = self.now.wrapping_add(1);
            let (part, parts) = (self.now % SWEEP_PARTS, SWEEP_PARTS.into());
            let mut size = 0;
            for bridge in self.bridges.iter_mut().flatten() {
                size += bridge.table.size();
                bridge.table.sweep(part.into(), parts, self.now, self.host_timeout);
            }
            self.is_near = size <= NEAR_MAX;
        }
    }

    fn switch_up(&mut self, _: &Features, ctx: &mut Ctx<'_>) {
        let at = ctx.sw.index();
        if self.bridges.len() <= at {
            self.bridges.resize_with(at + 1, || None);
        }
        let seed = self.seeds.hash_one(at);
        let drawn = Bridge::new(&self.cfg, seed, &ctx.here);
        debug_assert!(drawn.is_ok(), "every version can say it");
        if let (Some(place), Ok(bridge)) = (self.bridges.get_mut(at), drawn) {
            *place = Some(Box::new(bridge));
        }
        let written = ctx.here.send_misses_up(self.cfg.miss_len);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    fn switch_down(&mut self, sw: Sw) {
        if let Some(place) = self.bridges.get_mut(sw.index()) {
            *place = None;
        }
    }

    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let clock = Clock { now: self.now, timeout: self.host_timeout };
        match self.bridges.get_mut(ctx.sw.index()) {
            Some(Some(bridge)) => bridge.hear(*p, clock, ctx, &mut self.counts),
            _ => Then::PassOn,
        }
    }

    #[inline]
    fn packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(bridge)) = self.bridges.get_mut(ctx.sw.index()) else { return };
        let clock = Clock { now: self.now, timeout: self.host_timeout };
        if self.is_near {
            for p in frames {
                bridge.hear(p, clock, ctx, &mut self.counts);
            }
        } else {
            bridge.look_ahead(frames, clock, ctx, &mut self.counts);
        }
    }

    fn port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        if status.reason != PortReason::DELETE && status.port.is_up() {
            return;
        }
        let port = status.port.port_no;
        if let Some(Some(bridge)) = self.bridges.get_mut(ctx.sw.index()) {
            bridge.table.forget_port(port);
        }
        say(ctx.here.flow_mod(&FlowMod {
            command: Command::DELETE,
            table_id: FlowMod::TABLE_ALL,
            out_port: port,
            ..FlowMod::default()
        }));
    }

    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        let hosts: usize = self.bridges.iter().flatten().map(|bridge| bridge.table.len()).sum();
        put(("learning_hosts", "Stations in the tables of learning", hosts as u64));
        put(("learning_hosts_moved", "Stations that were seen at another port", self.counts.moved));
        put(("learning_hosts_forgotten", "Stations that went for others", self.counts.forgotten));
    }
}

fn ticks(time: Duration) -> Tick {
    Tick::try_from(time.as_secs()).unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX)
}
