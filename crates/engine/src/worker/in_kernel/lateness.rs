//! Whether the kernel or the worker answers a switch, by how long the kernel's answers have waited for a processor.
//!
//! The kernel answers on the core that has received the packet-ins. If a program polls there, its answers wait until that program's time
//! slice is over, and a worker, which may run on another core, is faster.

use std::time::{Duration, Instant};

use sluice_kernel::Waits;

use super::pauses::Pauses;

/// The share of late answers with which the kernel is too slow: more than one in so many.
const LATE_ONE_IN: u64 = 100;

/// Timed answers after which the share is computed anew. Before, it is computed as if there were so many.
const INTERVAL: u64 = 100;

/// The waits of one switch, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// Waits before the current interval.
    before: Waits,
    pauses: Pauses,
}

impl Lateness {
    /// Whether the kernel may answer.
    pub(super) fn may_answer(&self, now: Instant) -> bool {
        self.pauses.may_answer(now)
    }

    /// Takes note of how long answers have waited. Returns for how long the worker answers from now on, if the kernel has just been too slow, unless
    /// the worker answers all switches anyway.
    pub(super) fn update(
        &mut self,
        waits: Waits,
        is_crowded: bool,
        now: Instant,
    ) -> Option<Duration> {
        let timed = waits.timed - self.before.timed;
        let late = waits.late - self.before.late;
        if is_crowded || !self.may_answer(now) {
            // What was on its way.
            self.before = waits;
            return None;
        }
        if late * LATE_ONE_IN > timed.max(INTERVAL) {
            self.before = waits;
            return Some(self.pauses.begin(now));
        }
        if timed >= INTERVAL {
            self.before = waits;
            self.pauses.record_quick(now);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::pauses::PAUSE_MIN;
    use super::*;

    /// A switch with simulated answers.
    struct Switch {
        lateness: Lateness,
        waits: Waits,
        now: Instant,
    }

    impl Switch {
        fn new() -> Self {
            let (lateness, waits) = (Lateness::default(), Waits::default());
            Self { lateness, waits, now: sluice_io::clock::now() }
        }

        /// A quarter of a second passes, with `timed` answers if the kernel may answer, of which `late` are late. Returns the pause that begins.
        fn tick(&mut self, timed: u64, late: u64) -> Option<Duration> {
            if self.lateness.may_answer(self.now) {
                self.waits.timed += timed;
                self.waits.late += late;
            }
            self.now += Duration::from_millis(250);
            self.lateness.update(self.waits, false, self.now)
        }

        /// Ticks until a pause begins, and its length, if one begins among so many ticks.
        fn next_pause(&mut self, timed: u64, late: u64) -> Option<(u32, u64)> {
            let mut pauses = (1..=1000).map(|tick| (tick, self.tick(timed, late)));
            pauses.find_map(|(tick, pause)| Some((tick, pause?.as_secs())))
        }
    }

    #[test]
    fn one_late_answer_in_a_hundred_is_no_reason_and_more_are() {
        for timed in [1, 10, 99, 100, 101, 5000] {
            let most = timed.max(INTERVAL) / LATE_ONE_IN;
            for late in 0..=most.min(timed) {
                let mut switch = Switch::new();
                assert_eq!(switch.tick(timed, late), None, "{late} of {timed}");
                assert!(switch.lateness.may_answer(switch.now));
            }
            let mut switch = Switch::new();
            if most < timed {
                assert_eq!(switch.tick(timed, most + 1), Some(PAUSE_MIN), "{timed}");
                assert!(!switch.lateness.may_answer(switch.now));
            }
        }
    }

    #[test]
    fn late_answers_do_not_count_while_the_worker_answers_all_switches() {
        let (mut lateness, now) = (Lateness::default(), sluice_io::clock::now());
        let waits = Waits { timed: 1000, late: 500 };
        assert_eq!(lateness.update(waits, true, now), None);
        assert_eq!(lateness.update(waits, false, now), None);
        assert!(lateness.may_answer(now));
    }

    #[test]
    fn rare_late_answers_do_not_add_up_over_intervals() {
        let mut switch = Switch::new();
        assert_eq!(switch.next_pause(1000, 10), None);
        // One in a hundred is in each interval, but never two.
        assert_eq!(switch.next_pause(100, 1), None);
        // With few answers, an interval lasts longer than a tick: there are more than one late one in it.
        assert_eq!(switch.next_pause(10, 1), Some((2, 1)));
    }

    #[test]
    fn while_a_program_polls_the_kernel_is_tried_ever_more_rarely() {
        let mut switch = Switch::new();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let (ticks, pause) = switch.next_pause(20, 5).unwrap();
            // One tick in which the kernel is tried, after those of the pause before.
            assert_eq!(u64::from(ticks), 1 + 4 * pauses.last().unwrap_or(&0));
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn pauses_are_short_again_only_after_the_kernel_was_quick_for_long() {
        let mut switch = Switch::new();
        let next = |switch: &mut Switch| switch.next_pause(1000, 500).unwrap().1;
        assert_eq!([1, 2, 4].map(|_| next(&mut switch)), [1, 2, 4]);
        // The pause of four seconds, and quick answers for less than eight.
        for _ in 0..16 + 31 {
            assert_eq!(switch.tick(1000, 0), None);
        }
        assert_eq!(next(&mut switch), 8);
        for _ in 0..32 + 64 {
            assert_eq!(switch.tick(1000, 0), None);
        }
        assert_eq!(next(&mut switch), 1);
        // A switch that sends nothing says nothing about the kernel.
        for _ in 0..1000 {
            assert_eq!(switch.tick(0, 0), None);
        }
        assert_eq!(next(&mut switch), 2);
    }

    #[test]
    fn answers_that_were_on_their_way_when_a_pause_began_do_not_count() {
        let mut switch = Switch::new();
        assert_eq!(switch.tick(100, 50), Some(PAUSE_MIN));
        switch.waits.timed += 20;
        switch.waits.late += 20;
        for _ in 0..100 {
            assert_eq!(switch.tick(100, 0), None);
        }
    }
}
