//! A learning switch: a host is at the port where it was last seen. IEEE 802.1D §7.8.

#[cfg(test)]
mod answers_tests;
mod bridge;
mod messages;
mod table;

use std::time::{Duration, Instant};

use sluice_base::hash::derive_secret;
use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{
    Action, Encoder, FlowMod, FlowModCommand, PortReason, PortStatus, SwitchFeatures,
};
use sluice_sdk::{AnswerCache, App, AppMetric, Ctx, Network, SwitchIndex, Verdict, send_misses_up};

use bridge::{Ageing, Bridge, Counters, debug_assert_encoded};
use table::{Table, Tick};

/// Configuration of the learning switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Hosts per switch. If there are more, those that were not seen for longest are evicted.
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
    /// Whether the memory of large tables is prefetched for the packet-ins of a burst.
    pub prefetching: bool,
    /// Whether messages are patched templates. Otherwise each is encoded anew, and an engine cannot answer in the place of the
    /// application.
    pub templates: bool,
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
            prefetching: true,
            templates: true,
        }
    }
}

/// Seconds in which a sweep visits each bucket of a table once.
const SWEEP_SECONDS: u16 = 64;

/// Total size of tables up to which they stay in the cache of a core. With larger tables, bursts are handled with
/// prefetching. `lab/look-ahead` has measurements.
const CACHED_BYTES_MAX: usize = 512 << 10;

/// Longest timeout that the wrapping count of seconds can express, with a margin of two sweeps.
const TIMEOUT_MAX: Tick = Tick::MAX - 2 * SWEEP_SECONDS;

/// Learns at which ports hosts are, installs a flow entry for each conversation between known hosts, and floods the rest.
#[derive(Debug)]
pub struct Learning {
    cfg: Config,
    host_timeout: Tick,
    bridges: Vec<Option<Box<Bridge>>>,
    /// Whether all tables together are small enough for the cache of the core.
    fits_cache: bool,
    started: Option<Instant>,
    now: Tick,
    counters: Counters,
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
            bridges: Vec::new(),
            fits_cache: true,
            started: None,
            now: 0,
            counters: Counters::default(),
        }
    }

    /// Seconds since the first call.
    fn tick(&mut self, now: Instant) -> Tick {
        let started = *self.started.get_or_insert(now);
        #[expect(clippy::cast_possible_truncation, reason = "the count wraps")]
        let tick = (now - started).as_secs() as Tick;
        tick
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
    fn can_publish_answers(&self) -> bool {
        true
    }

    fn update_from_answers(&mut self, now: Instant, cache: &mut dyn AnswerCache) {
        let (last, tick) = (self.now, self.tick(now));
        if tick == last {
            return;
        }
        let bridges = &mut self.bridges;
        cache.for_each_seen(last, &mut |switch, host, seen| {
            if let Some(Some(bridge)) = bridges.get_mut(switch.index()) {
                bridge.table.record_seen(host, seen, tick);
            }
        });
        cache.set_tick(tick);
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        _: Instant,
        _: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        match self.bridges.get_mut(switch.index()) {
            Some(Some(bridge)) if self.cfg.templates => {
                bridge.publish_answers(switch, self.host_timeout, cache)
            }
            _ => false,
        }
    }

    fn on_iteration(&mut self, now: Instant) {
        let tick = self.tick(now);
        if self.now != tick {
            // Once, even if several seconds have passed: a flood has not ended because the worker was busy.
            self.bridges.iter_mut().flatten().for_each(|bridge| bridge.table.next_second());
        }
        while self.now != tick {
            self.now = self.now.wrapping_add(1);
            let (part, parts) = (self.now % SWEEP_SECONDS, SWEEP_SECONDS.into());
            let mut size = 0;
            for bridge in self.bridges.iter_mut().flatten() {
                size += bridge.table.size_bytes();
                bridge.table.sweep(part.into(), parts, self.now, self.host_timeout);
            }
            self.fits_cache = size <= CACHED_BYTES_MAX;
        }
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let written = send_misses_up(out, self.cfg.miss_send_len);
        debug_assert!(written.is_ok(), "every version can express it");
    }

    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let index = ctx.switch_index.index();
        if self.bridges.len() <= index {
            self.bridges.resize_with(index + 1, || None);
        }
        let seed = derive_secret(("learning", index));
        let created = Bridge::new(&self.cfg, seed, &ctx.switch);
        debug_assert!(created.is_ok(), "every version can express it");
        if let (Some(slot), Ok(bridge)) = (self.bridges.get_mut(index), created) {
            *slot = Some(Box::new(bridge));
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        if let Some(bridge) = self.bridges.get_mut(sw.index()).and_then(Option::take) {
            self.counters.evicted += bridge.table.evicted();
        }
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let ageing = Ageing { now: self.now, timeout: self.host_timeout };
        match self.bridges.get_mut(ctx.switch_index.index()) {
            Some(Some(bridge)) if self.cfg.templates => {
                bridge.handle::<true>(*p, ageing, ctx, &mut self.counters)
            }
            Some(Some(bridge)) => bridge.handle::<false>(*p, ageing, ctx, &mut self.counters),
            _ => Verdict::Continue,
        }
    }

    #[inline]
    fn on_packet_ins(&mut self, packets: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(bridge)) = self.bridges.get_mut(ctx.switch_index.index()) else { return };
        let ageing = Ageing { now: self.now, timeout: self.host_timeout };
        let (prefetches, counters) = (self.cfg.prefetching && !self.fits_cache, &mut self.counters);
        if !self.cfg.templates {
            bridge.handle_burst_without_templates(prefetches, packets, ageing, ctx, counters);
        } else if prefetches {
            bridge.handle_burst_prefetching::<true>(packets, ageing, ctx, counters);
        } else {
            bridge.handle_burst::<true>(packets, ageing, ctx, counters);
        }
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        if status.reason != PortReason::DELETE && status.port.is_up() {
            return;
        }
        let port = status.port.port_no;
        if let Some(Some(bridge)) = self.bridges.get_mut(ctx.switch_index.index()) {
            bridge.table.remove_port(port);
        }
        debug_assert_encoded(ctx.switch.flow_mod(&FlowMod {
            command: FlowModCommand::DELETE,
            out_port: port,
            ..FlowMod::default()
        }));
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let tables = || self.bridges.iter().flatten().map(|bridge| &bridge.table);
        let hosts = tables().map(Table::len).sum::<usize>() as u64;
        let evicted = self.counters.evicted + tables().map(Table::evicted).sum::<u64>();
        let moved = self.counters.moved;
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
    use std::iter;

    use sluice_base::Rng;
    use sluice_openflow::{
        DatapathId, Encoder, MacAddr, PacketInReason, PortNo, Version, Versions, VlanId,
    };

    use super::table::Key;
    use super::*;

    /// The application with one switch, and the messages sent to it.
    pub(super) struct TestSwitch {
        pub(super) now: Instant,
        pub(super) app: Learning,
        pub(super) version: Version,
        pub(super) tx: Vec<u8>,
        pub(super) xid: u32,
    }

    impl TestSwitch {
        pub(super) fn new(cfg: &Config, version: Version, seed: u64) -> Self {
            #[expect(clippy::disallowed_methods, reason = "start of the simulated time")]
            let now = Instant::now();
            let mut switch = Self { now, app: Learning::new(cfg), version, tx: Vec::new(), xid: 0 };
            switch.with_ctx(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
            if let Some(Some(bridge)) = switch.app.bridges.first_mut() {
                bridge.table = Table::new(cfg.hosts_max as usize, seed);
            }
            switch
        }

        pub(super) fn with_ctx(&mut self, call: impl FnOnce(&mut Learning, &mut Ctx<'_>)) {
            let (mut urgent, mut network) = (Vec::new(), Network::new(0));
            let encoder = Encoder::new(&mut self.tx, self.version, &mut self.xid);
            call(
                &mut self.app,
                &mut Ctx::new(
                    self.now,
                    SwitchIndex(0),
                    DatapathId(1),
                    encoder,
                    &mut urgent,
                    &mut network,
                ),
            );
        }

        /// Values of the metrics: hosts, moves, evictions.
        pub(super) fn metrics(&self) -> Vec<u64> {
            let mut values = Vec::new();
            self.app.metrics(&mut |metric| values.push(metric.value));
            values
        }
    }

    /// Lengths of frames, around those that are copied at once.
    const FRAME_LENS: [usize; 8] = [17, 60, 64, 65, 127, 128, 129, 1500];

    /// Appends a packet-in with random addresses of `hosts` hosts at four ports. Some are tagged, to a group,
    /// truncated, or not sent whole; of ten, `buffered` are buffered.
    pub(super) fn put_frame(rng: &mut Rng, hosts: u32, buffered: u8, out: &mut Encoder<'_>) {
        let host = |n: u32| match n {
            0 => [3, 0, 0, 0, 0, 0],
            n => MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)).0,
        };
        let (dst, src) = (rng.below(hosts), rng.below(hosts));
        let mut few = |n| u8::try_from(rng.below(n)).unwrap();
        let in_port = PortNo(if few(40) == 0 { few(4).into() } else { src % 4 } + 1);
        let tag: &[u8] = if few(10) == 0 { &[0x81, 0, 0, few(2)] } else { &[] };
        let mut frame = [&host(dst)[..], &host(src), tag, &[8, 0, 69]].concat();
        frame.resize(FRAME_LENS[usize::from(few(8))].max(frame.len()), few(250));
        let missing = [0, 4, 5][usize::from(few(20)).saturating_sub(17)];
        let total_len = u16::try_from(frame.len() + missing).unwrap();
        if few(50) == 0 {
            frame.truncate(13);
        }
        let buffer_id = (few(10) < buffered).then_some(7);
        let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
        let p = PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame: &frame };
        p.encode(out).unwrap();
    }

    /// Packet-ins are handled alike one by one, in bursts, and in bursts with prefetching, each with templates and without, for every
    /// version and match.
    fn compare(cfg: &Config, version: Version, hosts: u32, seed: u64) {
        let mut rng = Rng::new(seed);
        let without_templates = Config { templates: false, ..cfg.clone() };
        let without_prefetching = Config { prefetching: false, ..cfg.clone() };
        let cases = [
            (cfg, true),
            (&without_templates, true),
            (cfg, true),
            (cfg, false),
            (&without_prefetching, false),
            (&without_templates, true),
            (&without_templates, false),
        ];
        let mut all = cases.map(|(cfg, _)| TestSwitch::new(cfg, version, seed));
        for second in 0..100 {
            let (mut rx, mut xid) = (Vec::new(), 0);
            let mut out = Encoder::new(&mut rx, version, &mut xid);
            let buffered = [9, 5, 1, 0][usize::from(second) % 4];
            (0..rng.below(120)).for_each(|_| put_frame(&mut rng, hosts, buffered, &mut out));
            for (switch, (_, fits_cache)) in all.iter_mut().zip(cases) {
                (switch.app.now, switch.app.fits_cache) = (second, fits_cache);
            }
            let [one_by_one, encoded_one_by_one, bursts @ ..] = &mut all;
            for p in PacketIns::new(version, &rx) {
                for switch in [&mut *one_by_one, &mut *encoded_one_by_one] {
                    switch.with_ctx(|app, ctx| _ = app.on_packet_in(&p, ctx));
                }
            }
            for burst in &mut *bursts {
                burst
                    .with_ctx(|app, ctx| app.on_packet_ins(&mut PacketIns::new(version, &rx), ctx));
            }
            for switch in iter::once(encoded_one_by_one).chain(bursts) {
                assert!(switch.tx == one_by_one.tx, "{version} {:?} {second}", switch.app.cfg);
                assert_eq!(switch.metrics(), one_by_one.metrics());
            }
        }
        let [entries, moved, evicted] = all[0].metrics()[..] else { panic!() };
        assert!(moved > 10 && all[0].xid > 1000 && entries <= cfg.hosts_max.into());
        assert_eq!(evicted > 0, cfg.hosts_max < 2 * hosts);
    }

    #[test]
    fn a_burst_is_handled_like_its_packets_one_by_one() {
        let host_timeout = Duration::from_secs(3);
        for version in Versions::SUPPORTED.iter() {
            for matching in [Matching::Dst, Matching::Pair, Matching::PortPair] {
                compare(&Config { host_timeout, matching, ..Config::default() }, version, 20, 3);
            }
        }
    }

    #[test]
    fn a_burst_is_handled_like_its_packets_if_most_hosts_are_new_and_the_table_is_full() {
        for version in [Version::V1_0, Version::V1_3] {
            for seed in 0..20 {
                let hosts_max = if seed % 2 == 0 { 30 } else { 100 };
                compare(&Config { hosts_max, ..Config::default() }, version, 150, seed);
            }
        }
    }

    /// `PACKET_IN` of 1.0 has a shorter header than `PACKET_OUT`.
    #[test]
    fn a_packet_that_is_too_long_for_a_packet_out_is_lost_and_takes_no_transaction_id() {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
        frame.resize(65_514, 0);
        let total_len = u16::try_from(frame.len()).unwrap();
        for templates in [true, false] {
            let cfg = Config { templates, ..Config::default() };
            let mut switch = TestSwitch::new(&cfg, Version::V1_0, 3);
            let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
            let (buffer_id, in_port) = (None, PortNo(1));
            let p =
                PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame: &frame };
            switch.with_ctx(|app, ctx| _ = app.on_packet_in(&p, ctx));
            assert_eq!((switch.tx.len(), switch.xid), (0, 0), "templates: {templates}");
        }
    }

    #[test]
    fn a_flood_does_not_end_because_the_worker_was_busy_for_some_seconds() {
        let cfg = Config { hosts_max: 16_384, ..Config::default() };
        let mut switch = TestSwitch::new(&cfg, Version::V1_0, 7);
        switch.app.on_iteration(switch.now);
        let flood = |switch: &mut TestSwitch| {
            let table = &mut switch.app.bridges[0].as_mut().unwrap().table;
            for n in 0..40_000u64 {
                let hashed = table.hashed(Key::new(n << 16, VlanId(0)));
                table.learn(hashed, PortNo(1), 0);
                let _ = table.for_burst(0, 300);
            }
            table.is_flooded()
        };
        assert!(flood(&mut switch));
        let later = switch.now + Duration::from_secs(3);
        switch.app.on_iteration(later);
        assert!(switch.app.bridges[0].as_ref().unwrap().table.is_flooded());
        switch.app.on_iteration(later + Duration::from_secs(1));
        assert!(!switch.app.bridges[0].as_ref().unwrap().table.is_flooded());
    }
}
