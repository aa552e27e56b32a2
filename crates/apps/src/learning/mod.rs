//! A learning switch: a host is at the port where it was last seen. IEEE 802.1D §7.8.

mod bridge;
mod table;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{
    Action, Encoder, FlowMod, FlowModCommand, PortReason, PortStatus, SwitchFeatures,
};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use bridge::{Bridge, Clock, Counts, say};
use table::{Table, Tick};

/// Configuration of the learning switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Hosts per switch. If there are more, those that were not seen for longest are removed.
    pub hosts_max: u32,
    /// How long a host stays in the table after it was last seen; at most 18 hours.
    pub host_timeout: Duration,
    /// Seconds without a matching packet after which a flow entry expires; 0 disables.
    pub idle_timeout_s: u16,
    /// Seconds after which a flow entry expires; 0 disables.
    pub hard_timeout_s: u16,
    /// Priority of flow entries.
    pub priority: u16,
    /// What flow entries match.
    pub matching: Matching,
    /// Bytes of a table miss that switches of OpenFlow 1.3 and later send to the controller; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

/// What a flow entry matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Destination address: the fewest flow entries. A host that sends only to known hosts is never learned.
    Dst,
    /// Destination and source address.
    Pair,
    /// Destination and source address and ingress port: a host that moves is noticed at once.
    PortPair,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Half of the slots of a table of 4 MiB.
            hosts_max: 131_072,
            host_timeout: Duration::from_secs(300),
            idle_timeout_s: 60,
            hard_timeout_s: 0,
            priority: 100,
            matching: Matching::PortPair,
            miss_send_len: Action::WHOLE,
        }
    }
}

/// Seconds in which each slot of a table is checked once for expiry.
const SWEEP_PARTS: u16 = 64;

/// Bytes of tables that stay in the cache of a core. With larger tables, bursts are handled with prefetching.
/// `lab/look-ahead` has measurements.
const NEAR_MAX: usize = 512 << 10;

/// Longest timeout that the wrapping count of seconds can express, with a margin of two sweeps.
const TIMEOUT_MAX: Tick = Tick::MAX - 2 * SWEEP_PARTS;

/// Learns at which ports hosts are, installs a flow entry for each conversation between known hosts, and floods the rest.
#[derive(Debug)]
pub struct Learning {
    cfg: Config,
    host_timeout: Tick,
    seeds: RandomState,
    bridges: Vec<Option<Box<Bridge>>>,
    /// Whether all tables together are small enough for the cache of the core.
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
    /// A learning switch with this configuration.
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

    /// Applies a new configuration. Installed flow entries stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        self.host_timeout = ticks(cfg.host_timeout);
        for bridge in self.bridges.iter_mut().flatten() {
            bridge.configure(cfg);
        }
    }
}

impl App for Learning {
    fn on_iteration(&mut self, now: Instant) {
        let started = *self.started.get_or_insert(now);
        #[expect(clippy::cast_possible_truncation, reason = "the count wraps")]
        let tick = (now - started).as_secs() as Tick;
        if self.now != tick {
            // Once, even if several seconds have passed: a flood of new hosts is not over because the worker was busy.
            self.bridges.iter_mut().flatten().for_each(|bridge| bridge.table.next_second());
        }
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

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let written = out.send_misses_up(self.cfg.miss_send_len);
        debug_assert!(written.is_ok(), "every version can express it");
    }

    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let at = ctx.switch_index.index();
        if self.bridges.len() <= at {
            self.bridges.resize_with(at + 1, || None);
        }
        let seed = self.seeds.hash_one(at);
        let drawn = Bridge::new(&self.cfg, seed, &ctx.switch);
        debug_assert!(drawn.is_ok(), "every version can express it");
        if let (Some(place), Ok(bridge)) = (self.bridges.get_mut(at), drawn) {
            *place = Some(Box::new(bridge));
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        if let Some(bridge) = self.bridges.get_mut(sw.index()).and_then(Option::take) {
            self.counts.forgotten += bridge.table.forgotten();
        }
    }

    fn inspects_every_packet(&self) -> bool {
        true
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let clock = Clock { now: self.now, timeout: self.host_timeout };
        match self.bridges.get_mut(ctx.switch_index.index()) {
            Some(Some(bridge)) => bridge.hear(*p, clock, ctx, &mut self.counts),
            _ => Verdict::Continue,
        }
    }

    #[inline]
    fn on_packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(bridge)) = self.bridges.get_mut(ctx.switch_index.index()) else { return };
        let clock = Clock { now: self.now, timeout: self.host_timeout };
        if self.is_near {
            bridge.hear_near(frames, clock, ctx, &mut self.counts);
        } else {
            bridge.hear_far(frames, clock, ctx, &mut self.counts);
        }
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        if status.reason != PortReason::DELETE && status.port.is_up() {
            return;
        }
        let port = status.port.port_no;
        if let Some(Some(bridge)) = self.bridges.get_mut(ctx.switch_index.index()) {
            bridge.table.forget_port(port);
        }
        say(ctx.switch.flow_mod(&FlowMod {
            command: FlowModCommand::DELETE,
            out_port: port,
            ..FlowMod::default()
        }));
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let tables = || self.bridges.iter().flatten().map(|bridge| &bridge.table);
        let hosts = tables().map(Table::len).sum::<usize>() as u64;
        let evicted = self.counts.forgotten + tables().map(Table::forgotten).sum::<u64>();
        let moved = self.counts.moved;
        put(AppMetric::gauge("learning_hosts", "Entries in the host tables", hosts));
        let help = "Hosts that were seen at another port than before";
        put(AppMetric::counter("learning_hosts_moved", help, moved));
        let help = "Hosts removed from a full table to make room for others";
        put(AppMetric::counter("learning_hosts_evicted", help, evicted));
    }
}

fn ticks(time: Duration) -> Tick {
    Tick::try_from(time.as_secs()).unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX)
}

#[cfg(test)]
mod tests {
    use sluice_base::Rng;
    use sluice_openflow::{
        DatapathId, Encoder, MacAddr, PacketInReason, PortNo, Version, Versions, VlanId,
    };

    use super::table::Key;
    use super::*;

    /// An application with one switch, and what it said.
    struct Stage {
        now: Instant,
        app: Learning,
        version: Version,
        tx: Vec<u8>,
        xid: u32,
    }

    impl Stage {
        fn new(cfg: &Config, version: Version, seed: u64) -> Self {
            #[expect(clippy::disallowed_methods, reason = "some time; it stands still")]
            let now = Instant::now();
            let mut stage = Self { now, app: Learning::new(cfg), version, tx: Vec::new(), xid: 0 };
            stage.tell(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
            if let Some(Some(bridge)) = stage.app.bridges.first_mut() {
                bridge.table = Table::new(cfg.hosts_max as usize, seed);
            }
            stage
        }

        fn tell(&mut self, tell: impl FnOnce(&mut Learning, &mut Ctx<'_>)) {
            let (mut ahead, mut network) = (Vec::new(), Network::new(0));
            let here = Encoder::new(&mut self.tx, self.version, &mut self.xid);
            tell(
                &mut self.app,
                &mut Ctx::new(
                    self.now,
                    SwitchIndex(0),
                    DatapathId(1),
                    here,
                    &mut ahead,
                    &mut network,
                ),
            );
        }

        /// Hosts, those that moved, those that went for others.
        fn metrics(&self) -> Vec<u64> {
            let mut values = Vec::new();
            self.app.metrics(&mut |metric| values.push(metric.value));
            values
        }
    }

    /// A frame among so many hosts at few ports: most are usual, some are tagged, of a group, without a slot, cut off.
    fn put_frame(rng: &mut Rng, hosts: u32, out: &mut Encoder<'_>) {
        let host = |n: u32| match n {
            0 => [3, 0, 0, 0, 0, 0],
            n => MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)).0,
        };
        let (dst, src) = (rng.below(hosts), rng.below(hosts));
        let mut few = |n| u8::try_from(rng.below(n)).unwrap();
        let in_port = PortNo(if few(40) == 0 { few(4).into() } else { src % 4 } + 1);
        let tag: &[u8] = if few(10) == 0 { &[0x81, 0, 0, few(2)] } else { &[] };
        let mut frame = [&host(dst)[..], &host(src), tag, &[8, 0, 69]].concat();
        if few(50) == 0 {
            frame.truncate(13);
        }
        let buffer_id = (few(10) != 0).then_some(7);
        let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
        let p =
            PacketIn { buffer_id, in_port, total_len: 19, reason, table_id, cookie, frame: &frame };
        p.encode(out).unwrap();
    }

    /// Frames are answered alike one by one, in bursts, and in bursts that are looked at ahead, whatever the version and
    /// the rules.
    fn compare(cfg: &Config, version: Version, hosts: u32, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut all = [0; 3].map(|_| Stage::new(cfg, version, seed));
        for second in 0..100 {
            let (mut rx, mut xid) = (Vec::new(), 0);
            let mut out = Encoder::new(&mut rx, version, &mut xid);
            (0..rng.below(120)).for_each(|_| put_frame(&mut rng, hosts, &mut out));
            for (stage, is_near) in all.iter_mut().zip([true, true, false]) {
                (stage.app.now, stage.app.is_near) = (second, is_near);
            }
            let [one_by_one, bursts @ ..] = &mut all;
            for p in PacketIns::new(version, &rx) {
                one_by_one.tell(|app, ctx| _ = app.on_packet_in(&p, ctx));
            }
            for burst in bursts {
                burst.tell(|app, ctx| app.on_packet_ins(&mut PacketIns::new(version, &rx), ctx));
                assert!(burst.tx == one_by_one.tx, "{version} {cfg:?} {second}");
                assert_eq!(burst.metrics(), one_by_one.metrics());
            }
        }
        let [entries, moved, forgotten] = all[0].metrics()[..] else { panic!() };
        assert!(moved > 10 && all[0].xid > 1000 && entries <= cfg.hosts_max.into());
        assert_eq!(forgotten > 0, cfg.hosts_max < 2 * hosts);
    }

    #[test]
    fn a_burst_is_answered_like_its_frames() {
        let host_timeout = Duration::from_secs(3);
        for version in Versions::SPOKEN.iter() {
            for matching in [Matching::Dst, Matching::Pair, Matching::PortPair] {
                compare(&Config { host_timeout, matching, ..Config::default() }, version, 20, 3);
            }
        }
    }

    #[test]
    fn so_it_is_when_most_are_new_and_there_are_few_places() {
        for version in [Version::V1_0, Version::V1_3] {
            for seed in 0..20 {
                let hosts_max = if seed % 2 == 0 { 30 } else { 100 };
                compare(&Config { hosts_max, ..Config::default() }, version, 150, seed);
            }
        }
    }

    #[test]
    fn a_flood_is_not_over_because_nobody_had_time_for_some_seconds() {
        let cfg = Config { hosts_max: 16_384, ..Config::default() };
        let mut stage = Stage::new(&cfg, Version::V1_0, 7);
        stage.app.on_iteration(stage.now);
        let flood = |stage: &mut Stage| {
            let table = &mut stage.app.bridges[0].as_mut().unwrap().table;
            for n in 0..40_000u64 {
                let spot = table.spot(Key::new(n << 16, VlanId(0)));
                table.learn(spot, PortNo(1), 0);
                let _ = table.standing(0, 300);
            }
            table.is_flooded()
        };
        assert!(flood(&mut stage));
        let later = stage.now + Duration::from_secs(3);
        stage.app.on_iteration(later);
        assert!(stage.app.bridges[0].as_ref().unwrap().table.is_flooded());
        stage.app.on_iteration(later + Duration::from_secs(1));
        assert!(!stage.app.bridges[0].as_ref().unwrap().table.is_flooded());
    }
}
