//! What was measured.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Plan;
use crate::coordination::{SwitchResult, ThreadLoopResult, ThreadResult};
use crate::counts::{ErrorCounts, RequestCounts};
use crate::latency::histogram;
use crate::offered_load::ScheduleLag;
use crate::statistics::{DurationSummary, RateSummary, jain, ratio};
use crate::warnings;

/// What was measured.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was to be measured.
    pub plan: Plan,
    /// Every loop, those that do not count included.
    pub loops: Vec<LoopFigures>,
    /// Requests answered per second, over the loops that count.
    pub rate: RateSummary,
    /// Latencies of the loops that count, nanoseconds; one histogram per loop in [`loops`](Self::loops).
    pub latency_ns: Histogram<u64>,
    /// What became of requests and replies, over the whole run.
    pub counts: RequestCounts,
    /// `ERROR` messages received.
    pub errors: ErrorCounts,
    /// Every switch.
    pub switches: Vec<SwitchFigures>,
    /// Jain's index of the switches' answers in the loops that count: 1 is fair, 1 divided by their number is not.
    pub fairness: f64,
    /// From the start of a connection until it stood.
    pub connect: Option<DurationSummary>,
    /// From then until the controller had asked who it is.
    pub handshake: Option<DurationSummary>,
    /// Little's law.
    pub little: LittlesLaw,
    /// The generator's threads.
    pub threads: Vec<ThreadFigures>,
    /// How far the worst thread ran behind its schedule, in open loop.
    pub behind: Option<ScheduleLag>,
    /// What casts doubt on the figures, in sentences.
    pub warnings: Vec<String>,
}

/// One loop.
#[derive(Debug, Clone)]
pub struct LoopFigures {
    /// Which, from 0.
    pub number: u32,
    /// Whether it counts.
    pub measured: bool,
    /// How long it was.
    pub elapsed: Duration,
    /// Requests answered, by switch.
    pub answered: Vec<u64>,
    /// Requests answered per second: each thread's by its own clock, together.
    pub rate: f64,
    /// Latencies, nanoseconds.
    pub latency_ns: Histogram<u64>,
}

/// One switch.
#[derive(Debug, Clone)]
pub struct SwitchFigures {
    /// Its datapath id.
    pub datapath_id: u64,
    /// Requests answered per second, over the loops that count.
    pub rate: f64,
    /// Latency that half, 99 of a hundred and all answers stayed below, nanoseconds, to within 12 %.
    pub latency_ns: [u64; 3],
    /// What became of its requests.
    pub counts: RequestCounts,
    /// From the start of its connection until it stood.
    pub connect: Option<Duration>,
    /// From then until the controller had asked who it is.
    pub handshake: Option<Duration>,
    /// Hosts that announced themselves.
    pub announced: u32,
    /// Why its connection ended, if it did.
    pub ended: Option<String>,
}

/// Little's law, `L = λ W`: three figures that were taken apart, and how well they agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LittlesLaw {
    /// Requests open, on average over time.
    pub open: f64,
    /// Requests answered per second.
    pub rate: f64,
    /// Mean latency, seconds.
    pub latency_s: f64,
    /// How far `λ W` is from `L`, in percent of `L`.
    pub disagreement_percent: f64,
}

/// One thread of the generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadFigures {
    /// Share of one processor that it used, 0 to 1.
    pub processor: f64,
    /// Share of the time that it did not wait. Where it blocks, that is the same.
    pub busy: f64,
}

/// What the threads told.
pub(crate) struct ThreadResults {
    pub(crate) tallies: Vec<ThreadLoopResult>,
    pub(crate) ends: Vec<ThreadResult>,
}

impl LoopFigures {
    /// Puts together what the threads told of one loop.
    pub(crate) fn new(plan: &Plan, tallies: &[&ThreadLoopResult]) -> Self {
        let number = tallies.first().map_or(0, |tally| tally.number);
        let mut answered = vec![0; plan.switches as usize];
        let mut latency_ns = histogram();
        let mut rate = 0.0;
        for tally in tallies {
            let own = answered.iter_mut().skip(tally.thread).step_by(plan.threads);
            own.zip(&tally.answered).for_each(|(place, &n)| *place = n);
            rate += ratio(tally.answered.iter().sum(), tally.elapsed);
            // Both have the same bounds.
            let _ = latency_ns.add(&tally.latencies);
        }
        let elapsed = tallies.iter().map(|tally| tally.elapsed).max().unwrap_or_default();
        let measured = plan.measured().contains(&number);
        Self { number, measured, elapsed, answered, rate, latency_ns }
    }
}

impl Report {
    pub(crate) fn new(plan: &Plan, mut gathered: ThreadResults) -> Self {
        gathered.ends.sort_by_key(|end| end.thread);
        let loops: Vec<_> = (0..plan.loops)
            .map(|n| gathered.tallies.iter().filter(|t| t.number == n).collect::<Vec<_>>())
            .map(|tallies| LoopFigures::new(plan, &tallies))
            .collect();
        let measured: Vec<_> = loops.iter().filter(|figures| figures.measured).collect();
        let rates: Vec<_> = measured.iter().map(|figures| figures.rate).collect();
        let mut latency_ns = histogram();
        for figures in &measured {
            // All have the same bounds.
            let _ = latency_ns.add(&figures.latency_ns);
        }
        let switches = switches(plan, &measured, &gathered.ends);
        let (mut counts, mut errors) = (RequestCounts::default(), ErrorCounts::default());
        for switch in &switches {
            counts += switch.counts;
        }
        for end in &gathered.ends {
            errors.merge(&end.errors);
        }
        let rates_by_switch: Vec<_> = switches.iter().map(|switch| switch.rate).collect();
        let spread = RateSummary::of(&rates);
        let tallies: Vec<_> =
            gathered.tallies.iter().filter(|t| plan.measured().contains(&t.number)).collect();
        let mut report = Self {
            rate: spread,
            fairness: jain(&rates_by_switch),
            connect: DurationSummary::of(switches.iter().filter_map(|s| s.connect)),
            handshake: DurationSummary::of(switches.iter().filter_map(|s| s.handshake)),
            little: LittlesLaw::of(&tallies, spread.mean, &latency_ns),
            threads: threads(plan, &tallies),
            behind: gathered.ends.iter().filter_map(|end| end.behind).max_by_key(|b| b.p99_ns),
            warnings: Vec::new(),
            plan: plan.clone(),
            loops,
            latency_ns,
            counts,
            errors,
            switches,
        };
        let still_answering = gathered.ends.iter().any(|end| end.still_answering);
        report.warnings = warnings::of(&report, still_answering);
        report
    }
}

fn switches(plan: &Plan, measured: &[&LoopFigures], ends: &[ThreadResult]) -> Vec<SwitchFigures> {
    let elapsed = measured.iter().map(|figures| figures.elapsed).sum();
    let one = |number: usize| {
        let end = ends.get(number % plan.threads)?.players.get(number / plan.threads)?;
        let SwitchResult { counts, latency_ns, connect, handshake, announced, ref ended } = *end;
        let answered = measured.iter().filter_map(|figures| figures.answered.get(number)).sum();
        Some(SwitchFigures {
            datapath_id: plan.dpid_offset.wrapping_add(number as u64),
            rate: ratio(answered, elapsed),
            latency_ns,
            counts,
            connect,
            handshake,
            announced,
            ended: ended.clone(),
        })
    };
    (0..plan.switches as usize).filter_map(one).collect()
}

fn threads(plan: &Plan, tallies: &[&ThreadLoopResult]) -> Vec<ThreadFigures> {
    let one = |thread: usize| {
        let own = tallies.iter().filter(|tally| tally.thread == thread);
        let (mut elapsed, mut cpu, mut waited) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for tally in own {
            elapsed += tally.elapsed;
            cpu += tally.cpu;
            waited += tally.waited;
        }
        let processor = cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let waited = waited.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let busy = if plan.spin.is_zero() { processor } else { 1.0 - waited };
        ThreadFigures { processor, busy }
    };
    (0..plan.threads).map(one).collect()
}

impl LittlesLaw {
    fn of(tallies: &[&ThreadLoopResult], rate: f64, latencies: &Histogram<u64>) -> Self {
        let loops = tallies.iter().map(|t| t.number).collect::<std::collections::BTreeSet<_>>();
        let open_in = |number: u32| {
            let same = tallies.iter().filter(|tally| tally.number == number);
            same.map(|t| t.area_s / t.elapsed.as_secs_f64().max(1e-9)).sum::<f64>()
        };
        #[expect(clippy::cast_precision_loss, reason = "there are few loops")]
        let open = loops.iter().map(|&n| open_in(n)).sum::<f64>() / loops.len().max(1) as f64;
        let latency_s = latencies.mean() / 1e9;
        let product = rate * latency_s;
        let disagreement_percent =
            if open > 0.0 { (product - open).abs() / open * 100.0 } else { 0.0 };
        Self { open, rate, latency_s, disagreement_percent }
    }
}
