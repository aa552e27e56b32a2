//! Flows whose flow entries are in flight to the switches, so that further packet-ins do not install them again.

mod holds;
mod touched_pairs;

use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use sluice_base::folded_multiply;
use sluice_base::hash::{HashState, derive_secret};
use sluice_openflow::{EthHeader, MacAddr};
use sluice_sdk::SwitchIndex;

use super::flow::Flow;
use touched_pairs::{PairList, TouchedPairs};

/// Pairs of hosts per bucket, which is one cache line.
const SLOTS: usize = 5;

/// Number of buckets; they have slots for 20 480 pairs, in 256 KiB. If more paths are being installed at one time, the oldest
/// are forgotten, and packets of these flows install their paths again.
const BUCKETS: usize = 4096;

/// Longest time for which flow entries are assumed to be in flight. Packets that arrive later install the path again.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Time between two sweeps, each of which visits all slots.
const SWEEP_INTERVAL: Duration = Duration::from_secs(8);

/// Longest time between two sweeps: the wrapping times cannot be compared across more, and all flows are forgotten.
const SWEEP_GAP_MAX: Duration = Duration::from_secs(10);

const _: () = assert!(2 * TIME_MAX.as_millis() + SWEEP_GAP_MAX.as_millis() < 1 << 15);

/// Flows for which flow entries were sent a short time ago. Packet-ins of these flows were sent before the entries arrived at
/// the switch.
///
/// Both directions of a flow share a slot, chosen by a secret hash. Two flows with the same hash are taken for one,
/// which does no harm: for a short time, the controller forwards packets of the second with packet-outs.
#[derive(Debug)]
pub(super) struct PendingFlows {
    /// Empty until the first flow.
    buckets: Vec<FlowBucket>,
    hash_state: HashState,
    keys: [u64; 2],
    started: Option<Instant>,
    last_sweep: Option<Instant>,
    /// Start of the current event-loop iteration.
    now: Option<Instant>,
    /// Until when a flow may be pending or remembered; `None` if there is none.
    pending_until: Option<Instant>,
    touched: TouchedPairs,
    /// For how many milliseconds any installation is remembered, and at which time that was found out.
    longest: Option<(Instant, WrappingMillis)>,
}

/// Milliseconds since the first event-loop iteration; wraps around.
type WrappingMillis = u16;

/// The installation of the flow entries of one direction of a flow.
#[derive(Debug, Clone, Copy)]
struct Installation {
    /// When the entries are assumed to have arrived; 0 if nothing is pending.
    until: WrappingMillis,
    /// Assumed duration of the installation; the highest bit is [`HIT`].
    time: WrappingMillis,
}

const NOT_PENDING: Installation = Installation { until: 0, time: 0 };

/// Set if packets of the flow arrived during the installation.
const HIT: WrappingMillis = 1 << 15;

#[expect(clippy::cast_possible_truncation, reason = "asserted below")]
const TIME_MS_MAX: WrappingMillis = TIME_MAX.as_millis() as WrappingMillis;

const _: () = assert!(TIME_MAX.as_millis() < HIT as u128);

/// For how long flow entries, and packets that were sent before they arrived, are in flight: `base`, and one and a
/// half round-trip times if known. Zero if `base` is zero.
pub(super) fn installation_time(base: Duration, rtt: Option<Duration>) -> Duration {
    if base.is_zero() {
        return base;
    }
    let rtt = rtt.unwrap_or_default();
    (base + rtt + rtt / 2).min(TIME_MAX)
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct FlowBucket {
    tags: [u32; SLOTS],
    /// One installation per direction.
    installations: [[Installation; 2]; SLOTS],
    /// The slot that is replaced next.
    next_slot: u32,
}

const _: () = assert!(size_of::<FlowBucket>() == 64);

const EMPTY_BUCKET: FlowBucket =
    FlowBucket { tags: [0; SLOTS], installations: [[NOT_PENDING; 2]; SLOTS], next_slot: 0 };

/// A flow: the hash of its pair of hosts, and the direction.
#[derive(Debug, Clone, Copy)]
struct FlowHash {
    hash: u64,
    direction: usize,
}

impl FlowHash {
    #[inline]
    fn bucket(self) -> usize {
        (self.hash >> 32) as usize % BUCKETS
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the other half chooses the bucket")]
    fn tag(self) -> u32 {
        self.hash as u32
    }
}

impl Default for PendingFlows {
    fn default() -> Self {
        let keys = keys([0, 1].map(|n| derive_secret(("pending flows", n))));
        Self {
            buckets: Vec::new(),
            hash_state: HashState::default(),
            keys,
            started: None,
            last_sweep: None,
            now: None,
            pending_until: None,
            touched: TouchedPairs::default(),
            longest: None,
        }
    }
}

impl PendingFlows {
    /// Records that flow entries for `flow` are in flight for `time`. If packets arrived throughout the previous
    /// installation and still do, the switch is farther away than was assumed, and the time is doubled.
    pub(super) fn begin(&mut self, flow: Flow, now: Instant, time: Duration) {
        let flow_hash = self.flow_hash(&flow);
        self.record_begun(now);
        let mut burst = self.burst(now, time);
        let (now, time) = (burst.now, burst.time);
        if time > 0
            && let Some([forward, _]) = burst.installations_of(flow_hash)
        {
            forward.begin(now, time);
        }
    }

    /// Records that a packet of `flow` has arrived, and returns whether flow entries for it are in flight.
    pub(super) fn packet_arrived(&mut self, flow: &Flow, now: Instant) -> bool {
        let flow_hash = self.flow_hash(flow);
        let now = self.millis(now);
        self.buckets.get_mut(flow_hash.bucket()).is_some_and(|bucket| {
            let slot = bucket.find(flow_hash);
            let installation = slot
                .and_then(|slot| bucket.installations.get_mut(slot)?.get_mut(flow_hash.direction));
            installation.is_some_and(|installation| installation.packet_arrived(now))
        })
    }

    /// Records that installations have begun at `now`.
    pub(super) fn record_begun(&mut self, now: Instant) {
        // An installation may take twice as long, and is remembered for as long again.
        self.pending_until = self.pending_until.max(Some(now + 2 * TIME_MAX));
        self.longest = None;
    }

    /// Borrows the table for the packets of one event-loop iteration, which `switch` has sent; installations take `time`. If one begins, the
    /// caller records it with [`record_begun`](Self::record_begun).
    pub(super) fn burst_of(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        time: Duration,
    ) -> PendingBurst<'_> {
        let (touched, burst) = self.burst_and_touched(now, time);
        PendingBurst { touched: touched.list(switch), ..burst }
    }

    fn burst(&mut self, now: Instant, time: Duration) -> PendingBurst<'_> {
        self.burst_and_touched(now, time).1
    }

    fn burst_and_touched(
        &mut self,
        now: Instant,
        time: Duration,
    ) -> (&mut TouchedPairs, PendingBurst<'_>) {
        self.started.get_or_insert(now);
        if self.buckets.is_empty() {
            self.buckets = vec![EMPTY_BUCKET; BUCKETS];
        }
        let now = self.millis(now);
        let time = u16::try_from(time.min(TIME_MAX).as_micros().div_ceil(1000)).unwrap_or(0);
        let (keys, touched) = (self.keys, None);
        let burst = PendingBurst { buckets: &mut self.buckets, keys, now, time, touched };
        (&mut self.touched, burst)
    }

    /// Starts an event-loop iteration.
    pub(super) fn on_iteration(&mut self, now: Instant) {
        self.started.get_or_insert(now);
        self.now = Some(now);
    }

    /// Forgets installations that have ended, if a sweep is due. Called once per second.
    pub(super) fn sweep(&mut self, now: Instant) {
        let passed = self.last_sweep.map(|last| now.saturating_duration_since(last));
        if self.pending_until.is_some() && passed.is_some_and(|passed| passed < SWEEP_INTERVAL) {
            return;
        }
        self.last_sweep = Some(now);
        let Some(pending_until) = self.pending_until else { return };
        if passed.is_some_and(|passed| passed > SWEEP_GAP_MAX) {
            return self.clear();
        }
        let millis = self.millis(now);
        for installation in
            self.buckets.iter_mut().flat_map(|bucket| bucket.installations.as_flattened_mut())
        {
            if !installation.is_remembered(millis) {
                *installation = NOT_PENDING;
            }
        }
        self.pending_until = Some(pending_until).filter(|&until| now < until);
    }

    /// Number of flows in flight.
    pub(super) fn len(&self) -> usize {
        let (Some(now), Some(_)) = (self.now, self.pending_until) else { return 0 };
        let now = self.millis(now);
        let all = self.buckets.iter().flat_map(|bucket| bucket.installations.as_flattened());
        all.filter(|installation| installation.is_pending(now)).count()
    }

    /// Forgets all flows: flow entries have another match from now on, or some may be lost.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
        self.longest = None;
    }

    fn millis(&self, now: Instant) -> WrappingMillis {
        let passed = now.saturating_duration_since(self.started.unwrap_or(now));
        #[expect(clippy::cast_possible_truncation, reason = "wraps around")]
        let millis = passed.as_millis() as WrappingMillis;
        millis
    }

    fn flow_hash(&self, flow: &Flow) -> FlowHash {
        let [dst, src] = [flow.dst, flow.src].map(MacAddr::bits);
        if flow.is_pair() {
            let vlan = flow.vlan.map_or(0, |vlan| 0x1000 | u64::from(vlan.0));
            return hash_pair(self.keys, [dst | vlan, src | vlan]);
        }
        let direction = usize::from(src > dst);
        let first = if direction == 0 { *flow } else { flow.reversed() };
        FlowHash { hash: self.hash_state.hash_one(first), direction }
    }
}

/// The pending flows during one event-loop iteration.
#[derive(Debug)]
pub(super) struct PendingBurst<'a> {
    buckets: &'a mut [FlowBucket],
    keys: [u64; 2],
    now: WrappingMillis,
    time: WrappingMillis,
    /// If an engine answers to the switch.
    touched: Option<PairList<'a>>,
}

impl PendingBurst<'_> {
    /// Records that an untagged packet with these addresses has arrived, and returns whether flow entries for it are in
    /// flight. If not, records that they are from now on, with `both` also those of the reverse direction.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn check_or_begin(&mut self, eth: &EthHeader, both: bool) -> bool {
        if self.time == 0 {
            return false;
        }
        let pair = [eth.dst_bits(), eth.src_bits()];
        if let Some(touched) = &mut self.touched {
            touched.add(pair);
        }
        self.check_or_begin_pair(pair, both)
    }

    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn check_or_begin_pair(&mut self, pair: [u64; 2], both: bool) -> bool {
        let (now, time) = (self.now, self.time);
        let flow_hash = hash_pair(self.keys, pair);
        let Some(bucket) = self.buckets.get_mut(flow_hash.bucket()) else { return false };
        let Some(slot) = bucket.find(flow_hash) else {
            let fresh = Installation::new(now, time);
            let back = if both { fresh } else { NOT_PENDING };
            bucket.replace_oldest(
                flow_hash,
                if flow_hash.direction == 0 { [fresh, back] } else { [back, fresh] },
            );
            return false;
        };
        let Some([forward, back]) = bucket.directions(slot, flow_hash) else { return false };
        if forward.packet_arrived(now) {
            return true;
        }
        forward.begin(now, time);
        if both {
            back.begin(now, time);
        }
        false
    }

    /// The installations of a flow and of its reverse. Replaces the oldest pair in the bucket if it has no slot.
    fn installations_of(&mut self, flow_hash: FlowHash) -> Option<[&mut Installation; 2]> {
        let bucket = self.buckets.get_mut(flow_hash.bucket())?;
        let slot = bucket
            .find(flow_hash)
            .unwrap_or_else(|| bucket.replace_oldest(flow_hash, [NOT_PENDING; 2]));
        bucket.directions(slot, flow_hash)
    }
}

impl FlowBucket {
    /// The slot of a pair of hosts.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn find(&self, flow_hash: FlowHash) -> Option<usize> {
        let tag = flow_hash.tag();
        let (hits, _) = self.tags.iter().fold((0, 1), |(hits, bit), &known| {
            (if known == tag { hits | bit } else { hits }, bit << 1)
        });
        let hits: u32 = hits;
        if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
    }

    /// The installations of a flow and of its reverse.
    #[inline]
    fn directions(&mut self, slot: usize, flow_hash: FlowHash) -> Option<[&mut Installation; 2]> {
        let [first, second] = self.installations.get_mut(slot)?;
        Some(if flow_hash.direction == 0 { [first, second] } else { [second, first] })
    }

    /// Replaces the oldest pair by a new one, with the installations of both directions. Returns the slot.
    #[inline]
    fn replace_oldest(&mut self, flow_hash: FlowHash, both: [Installation; 2]) -> usize {
        let slot = self.next_slot as usize;
        self.next_slot = if slot + 1 == SLOTS { 0 } else { self.next_slot + 1 };
        if let (Some(tag), Some(installations)) =
            (self.tags.get_mut(slot), self.installations.get_mut(slot))
        {
            (*tag, *installations) = (flow_hash.tag(), both);
        }
        slot
    }
}

impl Installation {
    /// An installation that takes `time` from now on.
    #[inline]
    fn new(now: WrappingMillis, time: WrappingMillis) -> Self {
        // 0 would mean that nothing is pending.
        Self { until: now.wrapping_add(time).max(1), time }
    }

    /// Starts an installation that takes `time`, or twice as long as the previous one if packets arrived throughout
    /// that and still do.
    #[inline]
    fn begin(&mut self, now: WrappingMillis, time: WrappingMillis) {
        let was_hit = self.time >= HIT && self.is_remembered(now);
        let time = if was_hit { (2 * (self.time & !HIT)).clamp(time, TIME_MS_MAX) } else { time };
        *self = Self::new(now, time);
    }

    /// Records that a packet has arrived, and returns whether the entries are in flight.
    #[inline]
    fn packet_arrived(&mut self, now: WrappingMillis) -> bool {
        let is_pending = self.is_pending(now);
        if is_pending {
            self.time |= HIT;
        }
        is_pending
    }

    #[inline]
    const fn is_pending(self, now: WrappingMillis) -> bool {
        self.until != 0 && is_future(self.until, now)
    }

    /// Whether the entries are in flight, or were and packets arrived meanwhile. The latter is remembered for as long again
    /// as the installation took, so that [`begin`](Self::begin) can double the time.
    #[inline]
    const fn is_remembered(self, now: WrappingMillis) -> bool {
        self.remembered(now) > 0
    }

    /// For how many milliseconds the installation [is remembered](Self::is_remembered).
    #[inline]
    const fn remembered(self, now: WrappingMillis) -> WrappingMillis {
        let more = if self.time >= HIT { self.time & !HIT } else { 0 };
        let until = self.until.wrapping_add(more);
        if self.until != 0 && is_future(until, now) { until.wrapping_sub(now) } else { 0 }
    }
}

/// Whether a time is in the future.
#[inline]
const fn is_future(until: WrappingMillis, now: WrappingMillis) -> bool {
    let ahead = until.wrapping_sub(now);
    ahead != 0 && ahead < 1 << 15
}

/// The second key is a factor, and odd, so that the hash is injective.
fn keys([first, second]: [u64; 2]) -> [u64; 2] {
    [first, second | 1]
}

/// Hashes a flow between the addresses with these bits.
#[inline]
fn hash_pair([first_key, second_key]: [u64; 2], [dst, src]: [u64; 2]) -> FlowHash {
    let (first, second) = (src.min(dst), src.max(dst));
    // With some keys, the halves differ only in low bits if the addresses differ little: the multiplication spreads
    // them.
    let hash = folded_multiply(first ^ first_key, second ^ second_key).wrapping_mul(second_key);
    FlowHash { hash, direction: usize::from(src > dst) }
}

#[cfg(test)]
mod tests {

    use sluice_base::{HashMap, Rng};
    use sluice_openflow::{Ethernet, VlanId};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TIME: Duration = Duration::from_millis(50);

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn mac(n: u32) -> MacAddr {
        MacAddr::from_u64(0x0200_0000_0000 | u64::from(n))
    }

    #[test]
    fn directions_and_vlans_are_separate_and_both_lookups_agree() {
        let (mut pending, start) = (PendingFlows::default(), now());
        let forward = Flow::pair(mac(1), mac(2));
        let mut tagged = forward;
        tagged.vlan = Some(VlanId(0));
        assert!(!pending.packet_arrived(&forward, start));
        pending.on_iteration(start);
        pending.begin(forward, start, TIME);
        assert!(
            pending.packet_arrived(&forward, start)
                && !pending.packet_arrived(&forward.reversed(), start)
        );
        assert!(!pending.packet_arrived(&tagged, start) && pending.len() == 1);
        let frame = [&mac(1).0[..], &mac(2).0, &[8, 0]].concat();
        let eth = Ethernet::new(&frame).unwrap().header;
        let check_or_begin = |pending: &mut PendingFlows, now, both| {
            pending.burst(now, TIME).check_or_begin(eth, both)
        };
        assert!(!check_or_begin(&mut pending, start, false), "the reverse direction");
        assert!(check_or_begin(&mut pending, start, false));
        assert!(pending.packet_arrived(&forward.reversed(), start) && pending.len() == 2);
        let over = start + TIME;
        assert!(pending.packet_arrived(&forward, start + 49 * MS));
        assert!(!pending.packet_arrived(&forward, over));
        assert!(!check_or_begin(&mut pending, over, true));
        assert!(pending.packet_arrived(&forward, over), "both directions");
        pending.clear();
        assert!(!pending.packet_arrived(&forward, over) && pending.len() == 0);
    }

    /// Hosts with consecutive addresses, each of which talks to the next, do not collide in a bucket, whatever the
    /// keys.
    #[test]
    fn consecutive_addresses_do_not_share_buckets() {
        let mut rng = Rng::new(3);
        for n in 0..20_000 {
            let keys = keys([rng.next_u64(), rng.next_u64()]);
            let mut buckets = HashMap::default();
            for host in 0..40 {
                let [dst, src] = [host + 1, host].map(|n| mac(n).bits());
                *buckets.entry(hash_pair(keys, [dst, src]).bucket()).or_insert(0) += 1;
            }
            let most = buckets.values().max();
            assert!(most <= Some(&SLOTS), "{most:?} in one bucket of draw {n}, {keys:x?}");
        }
    }

    #[test]
    fn the_installation_time_grows_with_the_round_trip_time() {
        assert_eq!(installation_time(50 * MS, None), 50 * MS);
        assert_eq!(installation_time(50 * MS, Some(1000 * MS)), 1550 * MS);
        assert_eq!(installation_time(50 * MS, Some(60_000 * MS)), TIME_MAX);
        assert_eq!(installation_time(Duration::ZERO, Some(1000 * MS)), Duration::ZERO, "disabled");
    }

    #[test]
    fn the_installation_time_doubles_while_packets_keep_arriving() {
        let (mut pending, start) = (PendingFlows::default(), now());
        let (flow, other) = (Flow::pair(mac(1), mac(2)), Flow::pair(mac(1), mac(3)));
        let mut installations = 0;
        // A packet each millisecond, and flow entries that arrive after a second.
        for ms in 0..1000 {
            let now = start + ms * MS;
            if !pending.packet_arrived(&flow, now) {
                pending.begin(flow, now, 50 * MS);
                installations += 1;
            }
        }
        assert_eq!(installations, 5, "after 0, 50, 150, 350 and 750 ms");
        // No packet arrived during the installation: it was complete, and the entries are missing for another reason.
        pending.begin(other, start, 50 * MS);
        pending.begin(other, start + 60 * MS, 50 * MS);
        assert!(!pending.packet_arrived(&other, start + 110 * MS));
    }

    /// While no bucket is full, the table is a map from flows to times.
    #[test]
    fn pending_flows_agree_with_a_map_under_random_use() {
        let (mut pending, mut map) = (PendingFlows::default(), HashMap::default());
        let (mut rng, mut now) = (Rng::new(5), now());
        for step in 0..100_000 {
            let [src, dst] = [0; 2].map(|_| mac(rng.below(40)));
            let flow = Flow::pair(src, dst);
            let known: Option<&mut (Instant, Duration, bool)> = map.get_mut(&flow);
            let is_in_flight = known.as_ref().is_some_and(|known| now < known.0);
            assert_eq!(pending.packet_arrived(&flow, now), is_in_flight, "step {step}");
            if let Some(known) = known {
                known.2 |= is_in_flight;
            }
            if rng.below(3) == 0 {
                pending.begin(flow, now, TIME);
                let hit = map.get(&flow).filter(|known| known.2 && now < known.0 + known.1);
                let time = hit.map_or(TIME, |known| (2 * known.1).min(TIME_MAX));
                map.insert(flow, (now + time, time, false));
            }
            // No bucket is ever full of pending flows.
            now += rng.below(3) * MS;
            if step % 500 == 0 {
                pending.on_iteration(now);
                pending.sweep(now);
                let len = map.values().filter(|known| now < known.0).count();
                assert_eq!(pending.len(), len, "step {step}");
            }
        }
    }

    #[test]
    fn flows_are_forgotten_if_sweeps_are_too_far_apart() {
        let (mut pending, start) = (PendingFlows::default(), now());
        pending.sweep(start);
        pending.begin(Flow::pair(mac(1), mac(2)), start, TIME);
        // The milliseconds have wrapped around.
        let later = start + Duration::from_millis(u64::from(WrappingMillis::MAX) + 1);
        assert!(pending.packet_arrived(&Flow::pair(mac(1), mac(2)), later));
        pending.sweep(later);
        assert!(!pending.packet_arrived(&Flow::pair(mac(1), mac(2)), later));
    }
}
