//! How much of a worker's time the beginning and the end of sessions may take.

use std::time::{Duration, Instant};

use crate::counters::ThreadCounters;

/// The beginnings and ends of sessions have one part in this many of a worker's time, however busy it is, and in addition as much as the
/// worker is idle: half of its time if it has nothing else to do.
const SHARE: u32 = 100;

/// Time that is saved for later, and time that is overdrawn, at most.
const SAVED_MAX: Duration = Duration::from_millis(3);
const OVERDRAWN_MAX: Duration = Duration::from_millis(10);

/// What a session takes, about, to hand over no more at once than there is time for.
const SESSION_ESTIMATE: Duration = Duration::from_micros(50);

/// Switches that were handed over and not taken over yet, at most.
const IN_FLIGHT_MAX: u64 = 32;

/// The time that a worker has for beginnings and ends of sessions, so that a flood of connections that complete the handshake and
/// leave does not take the time of connected switches.
///
/// It is measured afterwards: what was handed over is paid for before more is handed over.
#[derive(Debug)]
pub(super) struct SessionBudget {
    updated_at: Instant,
    /// The counters of the worker then.
    busy: Duration,
    in_sessions: Duration,
    /// Time left for sessions, in nanoseconds; less than 0 if they have taken more.
    left_ns: i64,
    /// Switches that were handed over.
    handed_over: u64,
}

impl SessionBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            updated_at: now,
            busy: Duration::ZERO,
            in_sessions: Duration::ZERO,
            left_ns: nanoseconds(SAVED_MAX),
            handed_over: 0,
        }
    }

    /// Whether the worker has time for a switch. `counters` are those of the worker.
    pub(super) fn has_time(&mut self, counters: &ThreadCounters, now: Instant) -> bool {
        self.update(counters.busy(), counters.in_sessions(), now);
        let in_flight = self.handed_over.saturating_sub(counters.sessions_begun.get());
        self.left_ns > 0 && in_flight < self.in_flight_max()
    }

    /// Counts a switch that is handed over.
    pub(super) fn count(&mut self) {
        self.handed_over += 1;
    }

    fn in_flight_max(&self) -> u64 {
        let sessions = self.left_ns / nanoseconds(SESSION_ESTIMATE);
        u64::try_from(sessions).unwrap_or(0).clamp(1, IN_FLIGHT_MAX)
    }

    /// Adds the time since the last update, and takes off what sessions have taken since.
    fn update(&mut self, busy: Duration, in_sessions: Duration, now: Instant) {
        let elapsed = now.saturating_duration_since(self.updated_at);
        let idle = elapsed.saturating_sub(busy.saturating_sub(self.busy));
        let taken = in_sessions.saturating_sub(self.in_sessions);
        let added = idle.saturating_add(elapsed / SHARE);
        let left =
            self.left_ns.saturating_add(nanoseconds(added)).saturating_sub(nanoseconds(taken));
        self.left_ns = left.clamp(-nanoseconds(OVERDRAWN_MAX), nanoseconds(SAVED_MAX));
        (self.updated_at, self.busy, self.in_sessions) = (now, busy, in_sessions);
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A worker that is busy for a share of each millisecond in which it has no session to begin, and takes `session` for each.
    struct WorkerTime {
        counters: ThreadCounters,
        now: Instant,
        budget: SessionBudget,
        load: Duration,
        session: Duration,
    }

    impl WorkerTime {
        fn new(load: Duration, session: Duration) -> Self {
            let (counters, now) = (ThreadCounters::default(), sluice_io::clock::now());
            Self { counters, now, budget: SessionBudget::new(now), load, session }
        }

        /// Sessions that begin in `time` if there are always more.
        fn begun(&mut self, time: Duration) -> u128 {
            let before = self.budget.handed_over;
            let end = self.now + time;
            while self.now < end {
                let handed_over = self.budget.handed_over;
                while self.budget.has_time(&self.counters, self.now) {
                    self.budget.count();
                }
                let sessions = u32::try_from(self.budget.handed_over - handed_over).unwrap();
                let in_sessions = self.session * sessions;
                self.counters.sessions_begun.add(sessions.into());
                self.counters.add_in_sessions(in_sessions);
                // What has the load catches up when there is time.
                let busy = (self.load + in_sessions).min(MS).max(in_sessions);
                self.counters.iteration(Duration::ZERO, busy);
                self.now += MS.max(in_sessions);
            }
            u128::from(self.budget.handed_over - before)
        }
    }

    #[test]
    fn sessions_have_a_hundredth_of_the_time_of_a_saturated_worker() {
        let session = Duration::from_micros(80);
        let mut worker = WorkerTime::new(MS, session);
        worker.begun(Duration::from_secs(1));
        let begun = worker.begun(Duration::from_secs(100));
        let share = Duration::from_secs(1).as_nanos() / session.as_nanos();
        assert!((share * 99 / 100..=share * 101 / 100).contains(&begun), "{begun} of {share}");
    }

    #[test]
    fn sessions_have_half_of_the_time_of_a_worker_with_nothing_else_to_do() {
        let session = Duration::from_micros(40);
        let mut worker = WorkerTime::new(Duration::ZERO, session);
        let begun = worker.begun(Duration::from_secs(10));
        let possible = Duration::from_secs(10).as_nanos() / session.as_nanos();
        assert!(begun >= possible / 2, "{begun} of {possible}");
    }

    #[test]
    fn what_a_mass_of_sessions_has_overdrawn_is_paid_off_within_a_second() {
        let mut worker = WorkerTime::new(MS, Duration::from_micros(80));
        worker.begun(Duration::from_secs(1));
        // Ten thousand switches disconnect.
        worker.counters.add_in_sessions(Duration::from_millis(400));
        assert_eq!(worker.begun(Duration::from_millis(990)), 0);
        assert!(worker.begun(Duration::from_millis(30)) > 0);
    }

    #[test]
    fn no_more_are_in_flight_than_there_is_time_for() {
        let now = sluice_io::clock::now();
        let (counters, mut budget) = (ThreadCounters::default(), SessionBudget::new(now));
        let mut handed_over = |now| {
            let mut n = 0;
            while budget.has_time(&counters, now) {
                budget.count();
                n += 1;
            }
            n
        };
        assert_eq!(handed_over(now), 32);
        counters.sessions_begun.add(32);
        counters.add_in_sessions(Duration::from_micros(2_900));
        assert_eq!(handed_over(now), 2);
        // The worker, which is stuck, has not taken them over.
        counters.iteration(Duration::ZERO, 100 * MS);
        assert_eq!(handed_over(now + 100 * MS), 20);
    }

    #[test]
    fn a_clock_that_steps_back_takes_no_time_away() {
        let now = sluice_io::clock::now();
        let mut budget = SessionBudget::new(now);
        budget.update(Duration::ZERO, Duration::ZERO, now.checked_sub(MS).unwrap());
        assert_eq!(budget.left_ns, nanoseconds(SAVED_MAX));
    }
}
