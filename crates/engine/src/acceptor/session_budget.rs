//! How much of a worker's time the beginning and the end of sessions may take.

use std::time::{Duration, Instant};

use crate::counters::{CounterRegistry, ThreadCounters};

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

/// The time that each worker has for beginnings and ends of sessions, so that a flood of connections that complete the handshake and
/// leave does not take the time of connected switches.
///
/// It is measured afterwards: what was handed over is paid for before more is handed over.
#[derive(Debug)]
pub(super) struct SessionBudgets(Vec<SessionBudget>);

/// The budget of one worker.
#[derive(Debug)]
struct SessionBudget {
    updated_at: Instant,
    in_sessions: Duration,
    /// When it was last known how long the worker had been idle, and for how long it had been busy then. That is known while it waits: of
    /// an iteration, it is known only at its end how long it was.
    waited_at: Instant,
    busy: Duration,
    /// Time left for sessions, in nanoseconds; less than 0 if they have taken more.
    left_ns: i64,
    /// Switches that were handed over.
    handed_over: u64,
}

impl SessionBudgets {
    pub(super) fn new(workers: usize, now: Instant) -> Self {
        Self((0..workers).map(|_| SessionBudget::new(now)).collect())
    }

    /// Adds the time that has passed, and takes off what sessions have taken.
    pub(super) fn update(&mut self, registry: &CounterRegistry, now: Instant) {
        for (budget, counters) in self.0.iter_mut().zip(registry.threads.iter().skip(1)) {
            budget.update(counters, now);
        }
    }

    /// Whether a worker has time for a switch, as of the last update.
    pub(super) fn has_time(&self, registry: &CounterRegistry, worker: usize) -> bool {
        let budget = self.0.get(worker).zip(registry.threads.get(worker + 1));
        budget.is_some_and(|(budget, counters)| budget.has_time(counters))
    }

    /// Counts a switch that is handed over to a worker.
    pub(super) fn count(&mut self, worker: usize) {
        if let Some(budget) = self.0.get_mut(worker) {
            budget.handed_over += 1;
        }
    }
}

impl SessionBudget {
    fn new(now: Instant) -> Self {
        Self {
            updated_at: now,
            in_sessions: Duration::ZERO,
            waited_at: now,
            busy: Duration::ZERO,
            left_ns: nanoseconds(SAVED_MAX),
            handed_over: 0,
        }
    }

    fn has_time(&self, counters: &ThreadCounters) -> bool {
        let in_flight = self.handed_over.saturating_sub(counters.sessions_begun.get());
        self.left_ns > 0 && in_flight < self.in_flight_max()
    }

    fn in_flight_max(&self) -> u64 {
        let sessions = self.left_ns / nanoseconds(SESSION_ESTIMATE);
        u64::try_from(sessions).unwrap_or(0).clamp(1, IN_FLIGHT_MAX)
    }

    fn update(&mut self, counters: &ThreadCounters, now: Instant) {
        let mut added = now.saturating_duration_since(self.updated_at) / SHARE;
        if counters.is_waiting() {
            let busy = counters.busy();
            let elapsed = now.saturating_duration_since(self.waited_at);
            // `now` may be older than what the worker has counted; such a difference must not add up.
            if let Some(idle) = elapsed.checked_sub(busy.saturating_sub(self.busy)) {
                added += idle;
                (self.waited_at, self.busy) = (now, busy);
            }
        }
        let in_sessions = counters.in_sessions();
        let taken = in_sessions.saturating_sub(self.in_sessions);
        let left =
            self.left_ns.saturating_add(nanoseconds(added)).saturating_sub(nanoseconds(taken));
        self.left_ns = left.clamp(-nanoseconds(OVERDRAWN_MAX), nanoseconds(SAVED_MAX));
        (self.updated_at, self.in_sessions) = (now, in_sessions);
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A worker in iterations that each take `load` and the time of the sessions that begin, and after which it waits for `idle`.
    struct WorkerTime {
        counters: ThreadCounters,
        now: Instant,
        budget: SessionBudget,
        load: Duration,
        idle: Duration,
        session: Duration,
    }

    impl WorkerTime {
        fn new(load: Duration, idle: Duration, session: Duration) -> Self {
            let (counters, now) = (ThreadCounters::default(), sluice_io::clock::now());
            Self { counters, now, budget: SessionBudget::new(now), load, idle, session }
        }

        /// Looks every 100 µs whether there is time for sessions, for `time`, if there are always more.
        fn hand_over(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                self.now = end.min(self.now + MS / 10);
                self.budget.update(&self.counters, self.now);
                while self.budget.has_time(&self.counters) {
                    self.budget.handed_over += 1;
                }
            }
        }

        /// Sessions that begin in `time`.
        fn begun(&mut self, time: Duration) -> u128 {
            let begun = |counters: &ThreadCounters| u128::from(counters.sessions_begun.get());
            let (before, end) = (begun(&self.counters), self.now + time);
            while self.now < end {
                self.counters.begin_iteration();
                let sessions = self.budget.handed_over - self.counters.sessions_begun.get();
                let in_sessions = self.session * u32::try_from(sessions).unwrap();
                self.hand_over(self.load + in_sessions);
                self.counters.sessions_begun.add(sessions);
                self.counters.add_in_sessions(in_sessions);
                self.counters.end_iteration(Duration::ZERO, self.load + in_sessions);
                self.hand_over(self.idle);
            }
            begun(&self.counters) - before
        }
    }

    /// However long its iterations are.
    #[test]
    fn sessions_have_a_hundredth_of_the_time_of_a_saturated_worker() {
        let session = Duration::from_micros(80);
        let share = Duration::from_secs(1).as_nanos() / session.as_nanos();
        for iteration in [MS / 5, MS, 3 * MS, 30 * MS] {
            let mut worker = WorkerTime::new(iteration, Duration::ZERO, session);
            worker.begun(Duration::from_secs(1));
            let begun = worker.begun(Duration::from_secs(100));
            let expected = share * 95 / 100..=share * 101 / 100;
            assert!(expected.contains(&begun), "{iteration:?}: {begun} of {share}");
        }
    }

    /// A worker that is nearly saturated, as a closed loop of requests makes it.
    #[test]
    fn sessions_have_the_idle_time_in_addition() {
        let session = Duration::from_micros(80);
        let (load, idle) = (Duration::from_micros(198), Duration::from_micros(2));
        let mut worker = WorkerTime::new(load, idle, session);
        worker.begun(Duration::from_secs(1));
        let begun = worker.begun(Duration::from_secs(100));
        let share = Duration::from_secs(2).as_nanos() / session.as_nanos();
        assert!((share * 95 / 100..=share * 101 / 100).contains(&begun), "{begun} of {share}");
    }

    #[test]
    fn sessions_have_half_of_the_time_of_a_worker_with_nothing_else_to_do() {
        let session = Duration::from_micros(40);
        let mut worker = WorkerTime::new(Duration::ZERO, MS / 5, session);
        let begun = worker.begun(Duration::from_secs(10));
        let possible = Duration::from_secs(10).as_nanos() / session.as_nanos();
        assert!(begun >= possible * 48 / 100, "{begun} of {possible}");
    }

    #[test]
    fn what_a_mass_of_sessions_has_overdrawn_is_paid_off_within_a_second() {
        let mut worker = WorkerTime::new(MS, Duration::ZERO, Duration::from_micros(80));
        worker.begun(Duration::from_secs(1));
        // Ten thousand switches disconnect.
        worker.counters.add_in_sessions(Duration::from_millis(400));
        worker.begun(2 * MS);
        assert_eq!(worker.begun(Duration::from_millis(980)), 0);
        assert!(worker.begun(Duration::from_millis(40)) > 0);
    }

    #[test]
    fn no_more_are_in_flight_than_there_is_time_for() {
        let mut worker = WorkerTime::new(MS, Duration::ZERO, MS);
        worker.hand_over(MS);
        assert_eq!(worker.budget.handed_over, 32);
        worker.counters.sessions_begun.add(32);
        worker.counters.add_in_sessions(Duration::from_micros(2_900));
        worker.hand_over(Duration::from_nanos(1));
        assert_eq!(worker.budget.handed_over, 32 + 2);
        // The worker is stuck.
        worker.counters.begin_iteration();
        worker.hand_over(Duration::from_secs(9));
        assert_eq!(worker.budget.handed_over, 32 + 32);
    }

    /// The acceptor reads its clock at the beginning of an iteration, and the counters of the worker later in it.
    #[test]
    fn a_saturated_worker_is_not_idle_because_the_acceptors_clock_was_read_earlier() {
        let mut worker = WorkerTime::new(MS, Duration::ZERO, MS);
        let start = worker.now;
        for n in 1..110 {
            if n == 10 {
                worker.budget.left_ns = 0;
            }
            worker.counters.end_iteration(Duration::ZERO, MS);
            let tenths = if n % 2 == 0 { 9 } else { 1 };
            worker.budget.update(&worker.counters, start + MS * (n - 1) + MS * tenths / 10);
        }
        // A hundredth of 100 ms.
        let left = worker.budget.left_ns;
        assert!((nanoseconds(MS) * 9 / 10..nanoseconds(MS) * 2).contains(&left), "{left}");
    }

    #[test]
    fn a_worker_that_sleeps_has_time_at_once() {
        let mut worker = WorkerTime::new(MS, MS, MS);
        worker.budget.left_ns = -nanoseconds(OVERDRAWN_MAX);
        worker.hand_over(OVERDRAWN_MAX);
        assert!(worker.budget.handed_over > 0);
    }

    #[test]
    fn a_clock_that_steps_back_takes_no_time_away() {
        let now = sluice_io::clock::now();
        let mut budget = SessionBudget::new(now);
        budget.update(&ThreadCounters::default(), now.checked_sub(MS).unwrap());
        assert_eq!(budget.left_ns, nanoseconds(SAVED_MAX));
    }
}
