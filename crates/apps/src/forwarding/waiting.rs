//! Flows whose rules are on their way.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sluice_base::folded_multiply;
use sluice_openflow::{EthHeader, MacAddr};

use super::flow::Flow;

/// Conversations per line, which is one of the cache's.
const WAYS: usize = 5;

/// Lines: 20 480 conversations, 256 KiB. Of more within the time that rules take, the oldest are forgotten, and packets of
/// theirs that come up meanwhile load a way again.
const LINES: usize = 4096;

/// The longest that rules are taken to be on their way: what comes up later asks for others.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How often those that have arrived are forgotten, which takes a look at all places.
const SWEPT_EVERY: Duration = Duration::from_secs(8);

/// Times are told from one another for so long; what was not swept meanwhile is forgotten.
const SWEPT_WITHIN: Duration = Duration::from_secs(10);

const _: () = assert!(2 * TIME_MAX.as_millis() + SWEPT_WITHIN.as_millis() < 1 << 15);

/// Flows for which rules were written just now: a packet of theirs that comes up nevertheless was on its way before.
///
/// Both directions of a conversation stand in one place, by a hash that nobody outside knows. Two conversations with the
/// same hash would be taken for one, and that does no harm: packets of the second are sent on one by one for a while.
#[derive(Debug)]
pub(super) struct Waiting {
    /// None until there is a flow.
    lines: Vec<Line>,
    seeds: RandomState,
    keys: [u64; 2],
    started: Option<Instant>,
    swept: Option<Instant>,
    /// When this turn began.
    now: Option<Instant>,
    /// Until when there may be one.
    last: Option<Instant>,
}

/// Milliseconds since the first of all, counted round.
type Millis = u16;

/// Rules that are on their way.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Until when, or 0 for none.
    until: Millis,
    /// For how long, and above that whether packets came up meanwhile.
    time: Millis,
}

const NONE: Rules = Rules { until: 0, time: 0 };

/// The mark of rules while which packets came up.
const ASKED: Millis = 1 << 15;

#[expect(clippy::cast_possible_truncation, reason = "asserted below")]
const MOST: Millis = TIME_MAX.as_millis() as Millis;

const _: () = assert!(TIME_MAX.as_millis() < ASKED as u128);

/// How long rules are on their way to a switch, and what was on its way before is on its own: `least`, and half as much
/// again as the switch takes to answer, if that is known. No time if `least` is none.
pub(super) fn time(least: Duration, rtt: Option<Duration>) -> Duration {
    if least.is_zero() {
        return least;
    }
    let far = rtt.unwrap_or_default();
    (least + far + far / 2).min(TIME_MAX)
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line {
    marks: [u32; WAYS],
    /// For each direction.
    rules: [[Rules; 2]; WAYS],
    /// The place that goes next.
    turn: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

const EMPTY: Line = Line { marks: [0; WAYS], rules: [[NONE; 2]; WAYS], turn: 0 };

/// A flow: the hash of its conversation, and which direction it is.
#[derive(Debug, Clone, Copy)]
struct Spot {
    hash: u64,
    direction: usize,
}

impl Spot {
    #[inline]
    fn line(self) -> usize {
        (self.hash >> 32) as usize % LINES
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the other half chooses the line")]
    fn mark(self) -> u32 {
        self.hash as u32
    }
}

impl Default for Waiting {
    fn default() -> Self {
        let seeds = RandomState::new();
        let keys = keys([seeds.hash_one(0), seeds.hash_one(1)]);
        Self { lines: Vec::new(), seeds, keys, started: None, swept: None, now: None, last: None }
    }
}

impl Waiting {
    /// Notes that rules for `flow` are on their way for `time`. Where packets came up all the while and still do, the
    /// switch is farther away than was thought: the next time is twice as long.
    pub(super) fn begin(&mut self, flow: Flow, now: Instant, time: Duration) {
        let spot = self.spot(&flow);
        let mut passing = self.passing(now, time);
        let (now, time) = (passing.now, passing.time);
        if time > 0
            && let Some([there, _]) = passing.place(spot)
        {
            there.begin(now, time);
        }
    }

    /// Whether rules for `flow` are on their way; a packet of it has come up.
    pub(super) fn has(&mut self, flow: &Flow, now: Instant) -> bool {
        let spot = self.spot(flow);
        let now = self.millis(now);
        self.lines.get_mut(spot.line()).is_some_and(|line| {
            let way = line.find(spot);
            let rules = way.and_then(|way| line.rules.get_mut(way)?.get_mut(spot.direction));
            rules.is_some_and(|rules| rules.has(now))
        })
    }

    /// The same for many frames of one turn: rules take `time`.
    pub(super) fn passing(&mut self, now: Instant, time: Duration) -> Passing<'_> {
        self.started.get_or_insert(now);
        if self.lines.is_empty() {
            self.lines = vec![EMPTY; LINES];
        }
        // Twice as long where packets come up all the while, and then it matters for as long again that they did.
        self.last = self.last.max(Some(now + 2 * TIME_MAX));
        let now = self.millis(now);
        let time = u16::try_from(time.min(TIME_MAX).as_micros().div_ceil(1000)).unwrap_or(0);
        Passing { lines: &mut self.lines, keys: self.keys, now, time }
    }

    /// A turn begins.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.started.get_or_insert(now);
        self.now = Some(now);
    }

    /// Forgets those that have arrived, if it is time. Once a second.
    pub(super) fn sweep(&mut self, now: Instant) {
        let passed = self.swept.map(|swept| now.saturating_duration_since(swept));
        if self.last.is_some() && passed.is_some_and(|passed| passed < SWEPT_EVERY) {
            return;
        }
        self.swept = Some(now);
        let Some(last) = self.last else { return };
        if passed.is_some_and(|passed| passed > SWEPT_WITHIN) {
            return self.clear();
        }
        let millis = self.millis(now);
        for rules in self.lines.iter_mut().flat_map(|line| line.rules.as_flattened_mut()) {
            if !rules.last(millis) {
                *rules = NONE;
            }
        }
        self.last = Some(last).filter(|&last| now < last);
    }

    /// Flows that are remembered.
    pub(super) fn len(&self) -> usize {
        let (Some(now), Some(_)) = (self.now, self.last) else { return 0 };
        let now = self.millis(now);
        let all = self.lines.iter().flat_map(|line| line.rules.as_flattened());
        all.filter(|rules| rules.are_on_their_way(now)).count()
    }

    /// Forgets all: what was loaded may not be right any more.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    fn millis(&self, now: Instant) -> Millis {
        let passed = now.saturating_duration_since(self.started.unwrap_or(now));
        #[expect(clippy::cast_possible_truncation, reason = "counted round")]
        let millis = passed.as_millis() as Millis;
        millis
    }

    fn spot(&self, flow: &Flow) -> Spot {
        let [dst, src] = [flow.dst, flow.src].map(MacAddr::bits);
        if flow.is_pair() {
            let vlan = flow.vlan.map_or(0, |vlan| 0x1000 | u64::from(vlan.0));
            return pair(self.keys, [dst | vlan, src | vlan]);
        }
        let direction = usize::from(src > dst);
        let first = if direction == 0 { *flow } else { flow.reversed() };
        Spot { hash: self.seeds.hash_one(first), direction }
    }
}

/// Flows whose rules are on their way, within one turn.
#[derive(Debug)]
pub(super) struct Passing<'a> {
    lines: &'a mut [Line],
    keys: [u64; 2],
    now: Millis,
    time: Millis,
}

impl Passing<'_> {
    /// Whether rules for frames like this, without a tag, are on their way. If not, they are from now on, with `both` in
    /// both directions.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn has_or_begins(&mut self, eth: &EthHeader, both: bool) -> bool {
        let (now, time) = (self.now, self.time);
        if time == 0 {
            return false;
        }
        let spot = pair(self.keys, [eth.dst_bits(), eth.src_bits()]);
        let Some(line) = self.lines.get_mut(spot.line()) else { return false };
        let Some(way) = line.find(spot) else {
            let fresh = Rules::new(now, time);
            let back = if both { fresh } else { NONE };
            line.give(spot, if spot.direction == 0 { [fresh, back] } else { [back, fresh] });
            return false;
        };
        let Some([there, back]) = line.directions(way, spot) else { return false };
        if there.has(now) {
            return true;
        }
        there.begin(now, time);
        if both {
            back.begin(now, time);
        }
        false
    }

    /// The rules of a flow and of the other direction, in the place of the oldest in its line if it had none.
    fn place(&mut self, spot: Spot) -> Option<[&mut Rules; 2]> {
        let line = self.lines.get_mut(spot.line())?;
        let way = line.find(spot).unwrap_or_else(|| line.give(spot, [NONE; 2]));
        line.directions(way, spot)
    }
}

impl Line {
    /// The place of a conversation.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn find(&self, spot: Spot) -> Option<usize> {
        let mark = spot.mark();
        let (hits, _) = self.marks.iter().fold((0, 1), |(hits, bit), &known| {
            (if known == mark { hits | bit } else { hits }, bit << 1)
        });
        let hits: u32 = hits;
        if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
    }

    /// The rules of a flow and of the other direction.
    #[inline]
    fn directions(&mut self, way: usize, spot: Spot) -> Option<[&mut Rules; 2]> {
        let [first, second] = self.rules.get_mut(way)?;
        Some(if spot.direction == 0 { [first, second] } else { [second, first] })
    }

    /// The place of the oldest, for a conversation that has none, with rules of both directions.
    #[inline]
    fn give(&mut self, spot: Spot, both: [Rules; 2]) -> usize {
        let way = self.turn as usize;
        self.turn = if way + 1 == WAYS { 0 } else { self.turn + 1 };
        if let (Some(mark), Some(rules)) = (self.marks.get_mut(way), self.rules.get_mut(way)) {
            (*mark, *rules) = (spot.mark(), both);
        }
        way
    }
}

impl Rules {
    /// They are on their way for `time` from now on.
    #[inline]
    fn new(now: Millis, time: Millis) -> Self {
        // 0 is none.
        Self { until: now.wrapping_add(time).max(1), time }
    }

    /// They are on their way for `time` from now on, or twice as long as before, if packets came up all the while and
    /// still do.
    #[inline]
    fn begin(&mut self, now: Millis, time: Millis) {
        let is_asked = self.time >= ASKED && self.last(now);
        let time = if is_asked { (2 * (self.time & !ASKED)).clamp(time, MOST) } else { time };
        *self = Self::new(now, time);
    }

    /// Whether they are on their way; a packet has come up.
    #[inline]
    fn has(&mut self, now: Millis) -> bool {
        let is_there = self.are_on_their_way(now);
        if is_there {
            self.time |= ASKED;
        }
        is_there
    }

    #[inline]
    const fn are_on_their_way(self, now: Millis) -> bool {
        self.until != 0 && is_ahead(self.until, now)
    }

    /// Whether they are on their way, or it matters that they were: that packets came up, for as long again.
    #[inline]
    const fn last(self, now: Millis) -> bool {
        let more = if self.time >= ASKED { self.time & !ASKED } else { 0 };
        self.until != 0 && is_ahead(self.until.wrapping_add(more), now)
    }
}

/// Whether a time is still to come.
#[inline]
const fn is_ahead(until: Millis, now: Millis) -> bool {
    let ahead = until.wrapping_sub(now);
    ahead != 0 && ahead < 1 << 15
}

/// The last is a factor, and odd, so that it maps no two numbers to one.
fn keys([first, second]: [u64; 2]) -> [u64; 2] {
    [first, second | 1]
}

/// The flow from one address to another, of which these are the bits.
#[inline]
fn pair([first_key, second_key]: [u64; 2], [dst, src]: [u64; 2]) -> Spot {
    let (first, second) = (src.min(dst), src.max(dst));
    // Under some keys the halves differ only in low bits where addresses differ little: the product spreads them.
    let hash = folded_multiply(first ^ first_key, second ^ second_key).wrapping_mul(second_key);
    Spot { hash, direction: usize::from(src > dst) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluice_base::Rng;
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
    fn directions_and_vlans_are_apart_and_both_ways_to_ask_agree() {
        let (mut waiting, start) = (Waiting::default(), now());
        let there = Flow::pair(mac(1), mac(2));
        let mut tagged = there;
        tagged.vlan = Some(VlanId(0));
        assert!(!waiting.has(&there, start));
        waiting.on_time(start);
        waiting.begin(there, start, TIME);
        assert!(waiting.has(&there, start) && !waiting.has(&there.reversed(), start));
        assert!(!waiting.has(&tagged, start) && waiting.len() == 1);
        let frame = [&mac(1).0[..], &mac(2).0, &[8, 0]].concat();
        let eth = Ethernet::new(&frame).unwrap().header;
        let asks =
            |waiting: &mut Waiting, now, both| waiting.passing(now, TIME).has_or_begins(eth, both);
        assert!(!asks(&mut waiting, start, false), "the way back");
        assert!(asks(&mut waiting, start, false));
        assert!(waiting.has(&there.reversed(), start) && waiting.len() == 2);
        let over = start + TIME;
        assert!(waiting.has(&there, start + 49 * MS));
        assert!(!waiting.has(&there, over));
        assert!(!asks(&mut waiting, over, true));
        assert!(waiting.has(&there, over), "both at once");
        waiting.clear();
        assert!(!waiting.has(&there, over) && waiting.len() == 0);
    }

    /// Hosts with addresses in a row, each of which talks to the next: whatever the keys, they do not meet in one line.
    #[test]
    fn neighbours_have_lines_of_their_own() {
        let mut rng = Rng::new(3);
        for n in 0..20_000 {
            let keys = keys([rng.next_u64(), rng.next_u64()]);
            let mut lines = HashMap::new();
            for host in 0..40 {
                let [dst, src] = [host + 1, host].map(|n| mac(n).bits());
                *lines.entry(pair(keys, [dst, src]).line()).or_insert(0) += 1;
            }
            let most = lines.values().max();
            assert!(most <= Some(&WAYS), "{most:?} in one line of draw {n}, {keys:x?}");
        }
    }

    #[test]
    fn the_time_follows_how_far_the_switch_is() {
        assert_eq!(time(50 * MS, None), 50 * MS);
        assert_eq!(time(50 * MS, Some(1000 * MS)), 1550 * MS);
        assert_eq!(time(50 * MS, Some(60_000 * MS)), TIME_MAX);
        assert_eq!(time(Duration::ZERO, Some(1000 * MS)), Duration::ZERO, "it is off");
    }

    #[test]
    fn a_flow_that_goes_on_asking_has_its_rules_waited_for_longer() {
        let (mut waiting, start) = (Waiting::default(), now());
        let (flow, other) = (Flow::pair(mac(1), mac(2)), Flow::pair(mac(1), mac(3)));
        let mut loads = 0;
        // A packet each millisecond, and rules that arrive after a second.
        for ms in 0..1000 {
            let now = start + ms * MS;
            if !waiting.has(&flow, now) {
                waiting.begin(flow, now, 50 * MS);
                loads += 1;
            }
        }
        assert_eq!(loads, 5, "after 0, 50, 150, 350 and 750 ms");
        // Nobody asked meanwhile: the rules had arrived, and are gone for another reason.
        waiting.begin(other, start, 50 * MS);
        waiting.begin(other, start + 60 * MS, 50 * MS);
        assert!(!waiting.has(&other, start + 110 * MS));
    }

    /// As long as there is room, it is a map from flows to times.
    #[test]
    fn it_agrees_with_a_map_under_random_use() {
        let (mut waiting, mut map) = (Waiting::default(), HashMap::new());
        let (mut rng, mut now) = (Rng::new(5), now());
        for step in 0..100_000 {
            let [src, dst] = [0; 2].map(|_| mac(rng.below(40)));
            let flow = Flow::pair(src, dst);
            let known: Option<&mut (Instant, Duration, bool)> = map.get_mut(&flow);
            let is_on_its_way = known.as_ref().is_some_and(|known| now < known.0);
            assert_eq!(waiting.has(&flow, now), is_on_its_way, "step {step}");
            if let Some(known) = known {
                known.2 |= is_on_its_way;
            }
            if rng.below(3) == 0 {
                waiting.begin(flow, now, TIME);
                let asked = map.get(&flow).filter(|known| known.2 && now < known.0 + known.1);
                let time = asked.map_or(TIME, |known| (2 * known.1).min(TIME_MAX));
                map.insert(flow, (now + time, time, false));
            }
            // No line is ever full of those on their way.
            now += rng.below(3) * MS;
            if step % 500 == 0 {
                waiting.on_time(now);
                waiting.sweep(now);
                let len = map.values().filter(|known| now < known.0).count();
                assert_eq!(waiting.len(), len, "step {step}");
            }
        }
    }

    #[test]
    fn what_is_not_swept_for_long_is_forgotten() {
        let (mut waiting, start) = (Waiting::default(), now());
        waiting.sweep(start);
        waiting.begin(Flow::pair(mac(1), mac(2)), start, TIME);
        // The count has gone round.
        let later = start + Duration::from_millis(u64::from(Millis::MAX) + 1);
        assert!(waiting.has(&Flow::pair(mac(1), mac(2)), later));
        waiting.sweep(later);
        assert!(!waiting.has(&Flow::pair(mac(1), mac(2)), later));
    }
}
