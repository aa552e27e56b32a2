//! Which switches move to another worker because the workers are unevenly busy.
//!
//! A worker that is nearly always busy keeps the packet-ins of all its switches waiting, those of idle switches too. If another one is
//! much less busy for some seconds, switches move there: as many as make the two more alike, the busiest that fit first. A switch that
//! keeps a worker busy alone stays, and the others leave it, as far as they have sent something in these seconds.

use std::time::{Duration, Instant};

use sluice_base::hash::HashMap;
use sluice_openflow::DatapathId;

/// How often the load is measured.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Share of time that a worker must be busy: below it, hardly anything waits.
const BUSY_MIN: f64 = 0.7;

/// By how much another worker must be less busy.
const GAP_MIN: f64 = 0.25;

/// Measurements in a row that must find that.
const MEASUREMENTS: u32 = 3;

/// How long a switch that has moved stays.
const REST: Duration = Duration::from_secs(30);

/// Switches that move at a time.
const MOVES_MAX: usize = 16;

/// What a worker has done since it started.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerSample {
    /// Time that it was busy.
    pub(super) busy: Duration,
    /// Messages of each of its switches that it has processed.
    pub(super) messages: Vec<(DatapathId, u64)>,
}

/// Switches that are to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) switches: Vec<DatapathId>,
}

/// What was measured before.
#[derive(Debug, Default)]
pub(super) struct Balancer {
    measured_at: Option<Instant>,
    busy: Vec<Duration>,
    messages: HashMap<DatapathId, u64>,
    moved_at: HashMap<DatapathId, Instant>,
    /// The worker that was too busy in the last measurements, and in how many.
    uneven: (usize, u32),
    /// Messages of its switches in these measurements.
    since_uneven: HashMap<DatapathId, u64>,
    /// Workers that were too busy for further switches in the last measurement.
    saturated: Vec<bool>,
}

impl Balancer {
    /// Whether it is time for another measurement.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next(now) <= now
    }

    /// When it is.
    pub(super) fn next(&self, now: Instant) -> Instant {
        self.measured_at.map_or(now, |at| at + INTERVAL)
    }

    /// Whether a worker was too busy for further switches in the last measurement.
    pub(super) fn is_saturated(&self, worker: usize) -> bool {
        self.saturated.get(worker).copied().unwrap_or_default()
    }

    /// Takes a measurement, and says which switches are to move.
    pub(super) fn measure(&mut self, now: Instant, workers: &[WorkerSample]) -> Option<Moves> {
        let loads = self.loads(now, workers);
        self.saturated = loads.iter().map(|load| load.busy >= BUSY_MIN).collect();
        let Some((from, to)) = uneven_pair(&loads) else {
            self.uneven.1 = 0;
            return None;
        };
        if self.uneven.0 != from || self.uneven.1 == 0 {
            self.uneven = (from, 0);
            self.since_uneven.clear();
        }
        self.uneven.1 += 1;
        let (busiest, least) = (loads.get(from)?, loads.get(to)?);
        for &(id, count) in &busiest.messages {
            *self.since_uneven.entry(id).or_default() += count;
        }
        if self.uneven.1 < MEASUREMENTS {
            return None;
        }
        self.uneven.1 = 0;
        let switches = self.fitting(now, busiest, least.busy);
        if switches.is_empty() {
            return None;
        }
        self.moved_at.extend(switches.iter().map(|id| (*id, now)));
        Some(Moves { from, to, switches })
    }

    /// The load of each worker since the last measurement; empty if there was none.
    fn loads(&mut self, now: Instant, workers: &[WorkerSample]) -> Vec<Load> {
        let elapsed = self.measured_at.map(|at| now.saturating_duration_since(at));
        let busy_before = std::mem::take(&mut self.busy);
        let messages_before = std::mem::take(&mut self.messages);
        self.measured_at = Some(now);
        self.busy = workers.iter().map(|worker| worker.busy).collect();
        self.messages = workers.iter().flat_map(|worker| worker.messages.iter().copied()).collect();
        self.moved_at.retain(|_, at| now.saturating_duration_since(*at) < REST);
        let Some(elapsed) = elapsed.filter(|it| !it.is_zero()) else { return vec![] };
        let load = |(worker, before): (&WorkerSample, &Duration)| {
            let busy = worker.busy.saturating_sub(*before).div_duration_f64(elapsed).min(1.0);
            // A switch that has connected again counts from 0.
            let since = |&(id, count): &(DatapathId, u64)| {
                let before = messages_before.get(&id).copied().unwrap_or(count);
                (id, count.checked_sub(before).unwrap_or(count))
            };
            let messages: Vec<_> = worker.messages.iter().map(since).collect();
            Load { busy, messages }
        };
        workers.iter().zip(&busy_before).map(load).collect()
    }

    /// The switches whose move makes the two workers more alike: the share of a switch is that of its messages in the last measurements.
    fn fitting(&self, now: Instant, from: &Load, to_busy: f64) -> Vec<DatapathId> {
        let counts = from.messages.iter().map(|(id, _)| (*id, self.count_since_uneven(*id)));
        let counts: Vec<_> = counts.collect();
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        let has_rested = |id: &DatapathId| {
            self.moved_at.get(id).is_none_or(|at| now.saturating_duration_since(*at) >= REST)
        };
        let mut candidates = counts;
        candidates.retain(|(id, count)| *count > 0 && has_rested(id));
        candidates.sort_unstable_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        let mut gap = from.busy - to_busy;
        let mut switches = vec![];
        for (id, count) in candidates {
            let share = from.busy * ratio(count, total);
            if 2.0 * share <= gap && switches.len() < MOVES_MAX {
                gap -= 2.0 * share;
                switches.push(id);
            }
        }
        switches
    }

    fn count_since_uneven(&self, id: DatapathId) -> u64 {
        self.since_uneven.get(&id).copied().unwrap_or_default()
    }
}

/// What a worker has done since the last measurement.
#[derive(Debug)]
struct Load {
    /// Share of time that it was busy.
    busy: f64,
    /// Messages of each of its switches.
    messages: Vec<(DatapathId, u64)>,
}

/// The busiest and the least busy worker, if they differ enough.
fn uneven_pair(loads: &[Load]) -> Option<(usize, usize)> {
    let by_busy = |a: &(usize, &Load), b: &(usize, &Load)| a.1.busy.total_cmp(&b.1.busy);
    let (from, most) = loads.iter().enumerate().max_by(by_busy)?;
    let (to, least) = loads.iter().enumerate().min_by(by_busy)?;
    (most.busy >= BUSY_MIN && most.busy - least.busy >= GAP_MIN).then_some((from, to))
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers whose switches send a number of messages per second; a worker is busy for a microsecond of each.
    struct Workers {
        balancer: Balancer,
        now: Instant,
        rates: Vec<Vec<(DatapathId, u64)>>,
        samples: Vec<WorkerSample>,
        counts: HashMap<DatapathId, u64>,
    }

    impl Workers {
        fn new(rates: &[&[u64]]) -> Self {
            let mut id = 0;
            let mut switch = |rate: &u64| {
                id += 1;
                (DatapathId(id), *rate)
            };
            let rates = rates.iter().map(|it| it.iter().map(&mut switch).collect()).collect();
            let (balancer, counts) = (Balancer::default(), HashMap::default());
            let mut new =
                Self { balancer, now: sluice_io::clock::now(), rates, samples: vec![], counts };
            new.samples = vec![WorkerSample::default(); new.rates.len()];
            new
        }

        /// A second passes. Returns what moves, and moves it.
        fn second(&mut self) -> Option<Moves> {
            self.now += INTERVAL;
            for (sample, rates) in self.samples.iter_mut().zip(&self.rates) {
                let total: u64 = rates.iter().map(|(_, rate)| rate).sum();
                sample.busy += Duration::from_micros(total).min(INTERVAL);
                // A worker that is too busy processes less of each.
                let processed = total.min(1_000_000);
                for (id, rate) in rates {
                    *self.counts.entry(*id).or_default() += rate * processed / total.max(1);
                }
                sample.messages = rates.iter().map(|(id, _)| (*id, self.counts[id])).collect();
            }
            let moves = self.balancer.measure(self.now, &self.samples)?;
            for id in &moves.switches {
                let at = self.rates[moves.from].iter().position(|(it, _)| it == id).unwrap();
                let switch = self.rates[moves.from].remove(at);
                self.rates[moves.to].push(switch);
            }
            Some(moves)
        }

        fn run(&mut self, seconds: usize) -> Vec<Moves> {
            (0..seconds).filter_map(|_| self.second()).collect()
        }

        fn ids(&self, worker: usize) -> Vec<u64> {
            self.rates[worker].iter().map(|(id, _)| id.0).collect()
        }
    }

    #[test]
    fn light_switches_leave_the_worker_of_a_heavy_one() {
        let mut workers = Workers::new(&[&[950_000, 10_000, 10_000, 10_000], &[10_000; 4]]);
        let moves = workers.run(60);
        assert_eq!(moves.len(), 1, "{moves:?}");
        assert_eq!((workers.ids(0), workers.ids(1).len()), (vec![1], 7));
    }

    #[test]
    fn a_switch_with_a_message_in_any_of_the_measurements_leaves_the_worker_of_a_heavy_one() {
        let mut workers = Workers::new(&[&[950_000, 1], &[0]]);
        workers.run(2);
        workers.rates[0][1].1 = 0;
        workers.run(2);
        assert_eq!((workers.ids(0), workers.ids(1)), (vec![1], vec![3, 2]));
        // One that connects next is not given to the worker that is too busy.
        assert!(workers.balancer.is_saturated(0) && !workers.balancer.is_saturated(1));
    }

    #[test]
    fn half_of_several_heavy_switches_move() {
        let mut workers = Workers::new(&[&[400_000, 400_000, 300_000, 300_000], &[0; 4]]);
        workers.run(60);
        let total = |worker: usize| workers.rates[worker].iter().map(|(_, rate)| rate).sum::<u64>();
        assert_eq!((total(0), total(1)), (700_000, 700_000));
    }

    #[test]
    fn nothing_moves_without_need() {
        for rates in [
            // Evenly busy, all idle, not busy enough, a single heavy switch, and one worker.
            &[&[500_000, 400_000][..], &[800_000]][..],
            &[&[10; 4], &[0; 4]],
            &[&[300_000, 300_000], &[0]],
            &[&[2_000_000], &[0; 4]],
            &[&[2_000_000, 500_000]],
        ] {
            let mut workers = Workers::new(rates);
            assert_eq!(workers.run(60), [], "{rates:?}");
        }
    }

    #[test]
    fn a_burst_moves_nothing_and_no_switch_moves_twice_in_a_short_time() {
        let mut workers = Workers::new(&[&[600_000, 300_000], &[0]]);
        assert_eq!(workers.run(3), []);
        workers.rates[0][0].1 = 0;
        assert_eq!(workers.run(5), []);
        // The load changes over to the other worker every 4 s.
        let mut workers = Workers::new(&[&[500_000, 400_000], &[0, 0]]);
        let mut times: HashMap<DatapathId, Vec<Instant>> = HashMap::default();
        for second in 0..200 {
            for (worker, rates) in workers.rates.iter_mut().enumerate() {
                let is_busy = (second / 4) % 2 == worker;
                for (_, rate) in rates {
                    *rate = if is_busy { 450_000 } else { 0 };
                }
            }
            for id in workers.second().into_iter().flat_map(|moves| moves.switches) {
                times.entry(id).or_default().push(workers.now);
            }
        }
        for times in times.values() {
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= REST), "{times:?}");
        }
    }

    #[test]
    fn a_switch_that_connects_again_is_counted_from_zero() {
        let mut workers = Workers::new(&[&[900_000, 50_000], &[0]]);
        workers.run(2);
        workers.counts.insert(DatapathId(2), 0);
        workers.run(10);
        assert_eq!(workers.ids(1), [3, 2]);
    }
}
