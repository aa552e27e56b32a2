//! Whether the kernel or the worker answers the switches of the worker, by how many of the kernel's answers wait for each other.
//!
//! The kernel answers each packet-in with work items of its own, so that the last of several that arrive at once waits for all others. The worker handles
//! them at a fraction of that cost, once it is awake. One switch that sends one request at a time never waits, whatever its rate.

use std::time::{Duration, Instant};

use sluice_kernel::RelayQueue;

use super::pauses::Pauses;

/// The most answers that may be ahead of one on average: bursts of seven. To wake a worker takes as long as the kernel takes for so many.
pub(super) const AHEAD_MAX: u64 = 3;

/// Answers after which the average is computed anew.
pub(super) const INTERVAL: u64 = 100;

/// A pause may end before its time when the worker receives fewer packet-ins per second than their peak in this pause, divided by this, in
/// [`CALM_CHECKS`] checks in a row.
const CALM_DIVISOR: u64 = 2;

/// Checks in a second.
const CALM_CHECKS: u32 = 4;

/// How many answers of a worker's switches have waited for each other, and what follows from that.
#[derive(Debug, Default)]
pub(super) struct Crowding {
    /// The queue before the current interval, and when that was, if it was at a check.
    before: RelayQueue,
    before_at: Option<Instant>,
    pauses: Pauses,
    /// Packet-ins that the worker had received by the last check, and when that was.
    checked: Option<(u64, Instant)>,
    /// The most packet-ins per second in this pause, or answers per second in the interval before it.
    peak: u64,
    /// Checks in a row with few packet-ins.
    calm: u32,
}

impl Crowding {
    /// A worker whose relay has been used before.
    pub(super) fn new(before: RelayQueue) -> Self {
        Self { before, ..Self::default() }
    }

    /// Whether the kernel may answer.
    pub(super) fn may_answer(&self, now: Instant) -> bool {
        self.pauses.may_answer(now)
    }

    /// Checks, four times a second, how many answers are ahead of others in the queue. Returns for how long the worker answers from now on, if there were
    /// too many. `packet_ins` is the number of those that the worker itself has received so far: while it answers, they are the load.
    pub(super) fn update(
        &mut self,
        queue: RelayQueue,
        packet_ins: u64,
        now: Instant,
    ) -> Option<Duration> {
        let since = self.checked.replace((packet_ins, now));
        let load =
            since.map_or(0, |(before, at)| per_second(packet_ins.saturating_sub(before), at, now));
        let relayed = queue.relayed.saturating_sub(self.before.relayed);
        let ahead = queue.ahead.saturating_sub(self.before.ahead);
        let is_paused = !self.may_answer(now);
        if !is_paused && relayed < INTERVAL {
            return None;
        }
        self.before = queue;
        let since = self.before_at.replace(now);
        if is_paused {
            // The answers were on their way.
            self.peak = self.peak.max(load);
            self.calm = if load < self.peak / CALM_DIVISOR { self.calm + 1 } else { 0 };
            if self.calm >= CALM_CHECKS {
                self.pauses.end_early(now);
            }
            return None;
        }
        if ahead > relayed * AHEAD_MAX {
            self.peak = since.map_or(0, |at| per_second(relayed, at, now));
            self.calm = 0;
            return Some(self.pauses.begin(now));
        }
        self.pauses.record_quick(now);
        None
    }
}

/// So many since `at`, per second.
fn per_second(count: u64, at: Instant, now: Instant) -> u64 {
    let elapsed_ms = u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX);
    count.saturating_mul(1000) / elapsed_ms.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker with simulated switches that send `burst` packet-ins at once, and the next ones when these are answered.
    struct Load {
        crowding: Crowding,
        queue: RelayQueue,
        packet_ins: u64,
        now: Instant,
    }

    impl Load {
        fn new() -> Self {
            let (crowding, queue) = (Crowding::default(), RelayQueue::default());
            Self { crowding, queue, packet_ins: 0, now: sluice_io::clock::now() }
        }

        /// A quarter of a second with so many bursts of that length. Returns the pause that begins, in seconds.
        fn tick(&mut self, bursts: u64, burst: u64) -> Option<u64> {
            if self.crowding.may_answer(self.now) {
                self.queue.relayed += bursts * burst;
                self.queue.ahead += bursts * (0..burst).sum::<u64>();
            } else {
                self.packet_ins += bursts * burst;
            }
            self.now += Duration::from_millis(250);
            let pause = self.crowding.update(self.queue, self.packet_ins, self.now);
            pause.map(|pause| pause.as_secs())
        }

        /// Ticks until a pause begins, and its length, if one begins among so many ticks.
        fn next_pause(&mut self, bursts: u64, burst: u64) -> Option<(u64, u64)> {
            (1..=1000).find_map(|tick| Some((tick, self.tick(bursts, burst)?)))
        }

        /// Ticks until the kernel may answer.
        fn ticks_until_end(&mut self, bursts: u64, burst: u64) -> u64 {
            (0..1000)
                .find(|_| {
                    self.crowding.may_answer(self.now) || {
                        assert_eq!(self.tick(bursts, burst), None);
                        false
                    }
                })
                .unwrap()
        }
    }

    #[test]
    fn bursts_of_seven_are_the_kernels_and_longer_ones_the_workers_at_any_rate() {
        for bursts in [100, 1000, 40_000] {
            for burst in 1..=7 {
                assert_eq!(Load::new().next_pause(bursts, burst), None, "{bursts} of {burst}");
            }
            for burst in 8..=16 {
                let mut load = Load::new();
                assert_eq!(load.tick(bursts, burst), Some(1), "{bursts} of {burst}");
                assert!(!load.crowding.may_answer(load.now));
            }
        }
    }

    #[test]
    fn one_long_burst_says_nothing_and_several_do() {
        let mut load = Load::new();
        assert_eq!(load.tick(1, 60), None);
        assert_eq!(load.tick(1, 60), Some(1), "more than a hundred answers by now");
        // Among many packet-ins that arrive alone.
        let mut load = Load::new();
        assert_eq!(load.tick(1, 60), None);
        assert_eq!(load.next_pause(1000, 1), None);
    }

    #[test]
    fn under_lasting_load_the_kernel_is_tried_ever_more_rarely() {
        let mut load = Load::new();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let (ticks, pause) = load.next_pause(1000, 16).unwrap();
            // One tick in which the kernel is tried, after those of the pause before.
            assert_eq!(ticks, 1 + 4 * pauses.last().unwrap_or(&0));
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn the_kernel_is_tried_again_after_a_second_with_less_than_half_of_the_load() {
        let long_pause = || {
            let mut load = Load::new();
            for _ in 0..7 {
                load.next_pause(1000, 16).unwrap();
            }
            load
        };
        for (calm, expected) in [(0, 4), (499, 4), (500, 64 * 4 - 10), (1000, 64 * 4 - 10)] {
            let mut load = long_pause();
            (0..10).for_each(|_| assert_eq!(load.tick(1000, 16), None));
            assert_eq!(load.ticks_until_end(calm, 16), expected, "{calm}");
        }
        // A load that ends when the pause begins.
        let mut load = long_pause();
        assert_eq!(load.ticks_until_end(0, 16), 4);
        // A load that grows before it falls counts as its peak.
        let mut load = long_pause();
        for bursts in [1000, 1500, 2000, 1000] {
            assert_eq!(load.tick(bursts, 16), None);
        }
        assert_eq!(load.ticks_until_end(999, 16), 4);
        // The next pause is as long as if this one had not ended.
        assert_eq!(load.tick(1000, 16), Some(64));
    }

    #[test]
    fn pauses_are_short_again_only_after_little_was_waiting_for_long() {
        let mut load = Load::new();
        for pause in [1, 2, 4] {
            assert_eq!(load.next_pause(1000, 16).unwrap().1, pause);
        }
        assert_eq!(load.tick(1000, 16), None);
        assert_eq!(load.ticks_until_end(1000, 1), 4);
        for _ in 0..31 {
            assert_eq!(load.tick(1000, 1), None);
        }
        assert_eq!(load.next_pause(1000, 16), Some((1, 8)));
        // The second one does not end before its time.
        assert_eq!(load.ticks_until_end(1000, 1), 8 * 4);
        for _ in 0..64 {
            assert_eq!(load.tick(1000, 1), None);
        }
        assert_eq!(load.next_pause(1000, 16), Some((1, 1)));
    }

    /// Each time that there is less load, the kernel could be tried again.
    #[test]
    fn a_load_that_comes_and_goes_is_the_workers_in_the_end() {
        for (on, off) in [(1, 1), (2, 2), (1, 8), (8, 8), (40, 40)] {
            let mut load = Load::new();
            let mut attempts = 0;
            for tick in 0..10_000 {
                let bursts = if tick % (on + off) < on { 1000 } else { 0 };
                let before = load.queue.relayed;
                let _ = load.tick(bursts, 16);
                // The first pauses are short.
                attempts += u32::from(tick >= 1000 && load.queue.relayed > before);
            }
            assert!(attempts <= 9000 / (64 * 4) + 1, "{attempts}, {on} on, {off} off");
        }
    }

    #[test]
    fn answers_that_were_on_their_way_when_a_pause_began_do_not_count() {
        let mut load = Load::new();
        assert_eq!(load.tick(1000, 16), Some(1));
        load.queue.relayed += 200;
        load.queue.ahead += 2000;
        assert_eq!(load.next_pause(1000, 1), None);
    }

    #[test]
    fn what_went_through_the_relay_before_does_not_count() {
        let before = RelayQueue { relayed: 1000, ahead: 100_000 };
        let mut crowding = Crowding::new(before);
        let now = sluice_io::clock::now();
        assert_eq!(crowding.update(before, 0, now), None);
        let after = RelayQueue { relayed: 1100, ahead: 100_300 };
        assert_eq!(crowding.update(after, 0, now), None);
        let after = RelayQueue { relayed: 1200, ahead: 100_601 };
        assert!(crowding.update(after, 0, now).is_some());
    }
}
