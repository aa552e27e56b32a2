//! The result of a measurement.

use std::time::Duration;

use sluice_openflow::DatapathId;

use crate::Plan;
use crate::coordination::{SwitchResult, ThreadLoopResult, ThreadResult};
use crate::counts::{ErrorCounts, NotSent, RequestCounts};
use crate::distribution::{LatencyDistribution, Quantile};
use crate::offered_load::ScheduleLag;
use crate::paths::PathFigures;
use crate::provenance::Provenance;
use crate::request_records::LoopRequests;
use crate::statistics::{DurationSummary, FigureSummary, jain_index, per_second};
use crate::{cpu_warnings, warnings};

/// The result of a measurement.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was measured.
    pub plan: Plan,
    /// All loops, those of warm-up and cool-down included.
    pub loops: Vec<LoopFigures>,
    /// Requests answered per second in the measured loops.
    pub rate: FigureSummary,
    /// Requests of the measured loops: how many were due, sent and not sent.
    pub offered: OfferedRates,
    /// Latencies of the requests of the measured loops.
    pub latency: LatencyDistribution,
    /// Requests and replies of the whole run.
    pub counts: RequestCounts,
    /// `ERROR` messages received.
    pub errors: ErrorCounts,
    /// Figures of each switch.
    pub switches: Vec<SwitchFigures>,
    /// Jain's fairness index of the switches' rates: 1 if all are equal, 1 / n if one switch gets everything.
    pub fairness: f64,
    /// Time to open the TCP connection.
    pub connect: Option<DurationSummary>,
    /// Time from there until the controller requested the switch's features.
    pub handshake: Option<DurationSummary>,
    /// Consistency check by Little's law.
    pub littles_law: LittlesLaw,
    /// Figures of each generator thread.
    pub threads: Vec<ThreadFigures>,
    /// How late requests were sent; `None` unless the load is open loop.
    pub schedule_lag: Option<ScheduleLag>,
    /// The longest time for which the process was stopped.
    pub paused: Duration,
    /// The longest time in the measured loops in which a generator thread got no answer although it had outstanding requests.
    pub longest_silence: Duration,
    /// Figures of paths; `None` unless paths through a network were measured.
    pub paths: Option<PathFigures>,
    /// Program, time, machine, and the process of the controller.
    pub provenance: Provenance,
    /// Reasons to distrust the figures, as sentences.
    pub warnings: Vec<String>,
}

/// Requests per second of the measured loops, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OfferedRates {
    /// Those that were due: `sent` and `not_sent` together. In a closed loop, those that were sent.
    pub offered: f64,
    /// Those that were sent.
    pub sent: f64,
    /// Those that were due and not sent.
    pub not_sent: f64,
    /// Those that were answered in time, whenever the answer came. [`Report::rate`] counts the answers that came in the loops.
    pub answered: f64,
}

/// Figures of one loop.
#[derive(Debug, Clone)]
pub struct LoopFigures {
    /// Number of the loop, from 0.
    pub number: u32,
    /// `false` for warm-up and cool-down.
    pub measured: bool,
    /// Actual duration.
    pub elapsed: Duration,
    /// Requests answered, by switch.
    pub answered: Vec<u64>,
    /// Requests answered per second: the sum over all threads, each by its own duration.
    pub rate: f64,
    /// Latencies of the requests that were sent or due in this loop. Before the end of the run, only of those that were answered before the
    /// end of the loop, and only if [`Plan::has_interim_latencies`] is set and the loop is [interim](Plan::is_interim).
    pub latency: LatencyDistribution,
    /// Requests that were due in this loop and not sent.
    pub not_sent: NotSent,
}

/// Figures of one switch.
#[derive(Debug, Clone)]
pub struct SwitchFigures {
    /// Datapath id.
    pub datapath_id: DatapathId,
    /// Requests answered per second in the measured loops.
    pub rate: f64,
    /// Median, 99th percentile and maximum of its latency, accurate to within 12 %.
    pub latency: [Quantile; 3],
    /// Its requests and replies.
    pub counts: RequestCounts,
    /// Time to open its TCP connection.
    pub connect: Option<Duration>,
    /// Time from there until the controller requested its features.
    pub handshake: Option<Duration>,
    /// Hosts that announced themselves.
    pub hosts_announced: u32,
    /// Why its connection ended, if it did.
    pub disconnect_reason: Option<String>,
}

/// Little's law, `L = λ W`: three figures that were measured independently, and how well they agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LittlesLaw {
    /// `L`: outstanding requests, averaged over time.
    pub outstanding: f64,
    /// `λ`: requests answered per second.
    pub rate: f64,
    /// `W`: mean latency in seconds.
    pub latency_s: f64,
    /// Difference between `λ W` and `L`, in percent of `L`.
    pub disagreement_percent: f64,
}

/// Figures of one generator thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadFigures {
    /// CPU time divided by elapsed time, 0 to 1.
    pub cpu: f64,
    /// Share of the time not spent waiting for events, 0 to 1. The same as `cpu` unless the thread spins.
    pub busy: f64,
    /// Share of the time that it was ready to run and waited for a CPU core; `None` if the kernel does not say.
    pub delayed: Option<f64>,
}

/// The results of all threads.
pub(crate) struct ThreadResults {
    pub(crate) loops: Vec<ThreadLoopResult>,
    pub(crate) totals: Vec<ThreadResult>,
}

impl LoopFigures {
    /// Combines the results of all threads for one loop.
    pub(crate) fn new(plan: &Plan, results: &[&ThreadLoopResult]) -> Self {
        let number = results.first().map_or(0, |result| result.number);
        let mut answered = vec![0; plan.switches as usize];
        let mut rate = 0.0;
        for result in results {
            let own = answered.iter_mut().skip(result.thread).step_by(plan.threads);
            own.zip(&result.answered).for_each(|(total, &n)| *total = n);
            rate += per_second(result.answered.iter().sum(), result.elapsed);
        }
        let elapsed = results.iter().map(|result| result.elapsed).max().unwrap_or_default();
        let measured = plan.measured().contains(&number);
        let (mut latency, not_sent) = (LatencyDistribution::empty(), NotSent::default());
        for latencies in results.iter().filter_map(|result| result.latencies.as_ref()) {
            // Does not fail: the histogram is resized as needed.
            let _ = latency.answered.add(latencies);
        }
        Self { number, measured, elapsed, answered, rate, latency, not_sent }
    }
}

impl Report {
    pub(crate) fn new(plan: &Plan, mut results: ThreadResults) -> Self {
        results.totals.sort_unstable_by_key(|result| result.thread);
        let unanswered_min_ns =
            results.totals.iter().map(|result| result.unanswered_min_ns).min().unwrap_or(0);
        let mut of_measured = LoopRequests::new();
        let mut loops: Vec<_> = (0..plan.loops)
            .map(|n| results.loops.iter().filter(|r| r.number == n).collect::<Vec<_>>())
            .map(|of_loop| LoopFigures::new(plan, &of_loop))
            .collect();
        for figures in &mut loops {
            let mut requests = LoopRequests::new();
            let of_threads = results.totals.iter();
            for own in of_threads.filter_map(|result| result.loops.get(figures.number as usize)) {
                requests.add(own);
            }
            if figures.measured {
                of_measured.add(&requests);
            }
            figures.not_sent = requests.not_sent;
            figures.latency = requests.into_latencies(unanswered_min_ns);
        }
        let measured: Vec<_> = loops.iter().filter(|figures| figures.measured).collect();
        let rates: Vec<_> = measured.iter().map(|figures| figures.rate).collect();
        let switches = switches(plan, &measured, &results.totals);
        let (mut counts, mut errors) = (RequestCounts::default(), ErrorCounts::default());
        for switch in &switches {
            counts += switch.counts;
        }
        for result in &results.totals {
            errors.merge(&result.errors);
        }
        // In a network, switches without hosts request nothing.
        let requests = |switch: &&SwitchFigures| plan.network.is_none() || switch.counts.sent > 0;
        let rates_by_switch: Vec<_> =
            switches.iter().filter(requests).map(|switch| switch.rate).collect();
        let rate = FigureSummary::of(&rates);
        let measured: Vec<_> =
            results.loops.iter().filter(|r| plan.measured().contains(&r.number)).collect();
        let longest = |of: fn(&ThreadResult) -> Duration| {
            results.totals.iter().map(of).max().unwrap_or_default()
        };
        let lags = results.totals.iter().filter_map(|result| result.schedule_lag);
        let offered = OfferedRates::of(plan, &of_measured);
        let latency = of_measured.into_latencies(unanswered_min_ns);
        let mut report = Self {
            rate,
            fairness: jain_index(&rates_by_switch),
            connect: DurationSummary::of(switches.iter().filter_map(|s| s.connect)),
            handshake: DurationSummary::of(switches.iter().filter_map(|s| s.handshake)),
            littles_law: LittlesLaw::of(&measured, rate.mean, &latency),
            threads: threads(plan, &measured),
            schedule_lag: lags.reduce(ScheduleLag::merge),
            paused: longest(|result| result.paused),
            longest_silence: longest(|result| result.longest_silence),
            paths: PathFigures::of(&measured, &results.totals),
            provenance: Provenance::default(),
            warnings: Vec::new(),
            plan: plan.clone(),
            loops,
            offered,
            latency,
            counts,
            errors,
            switches,
        };
        let drain_cut_short = results.totals.iter().any(|result| result.drain_cut_short);
        report.warnings = warnings::of(&report, drain_cut_short);
        report
    }

    /// Adds where the report comes from, and the warnings that follow from the CPU time of both ends.
    pub(crate) fn with_provenance(mut self, provenance: Provenance) -> Self {
        for (thread, &delayed) in self.threads.iter_mut().zip(&provenance.generator_delayed) {
            thread.delayed = delayed;
        }
        self.provenance = provenance;
        self.warnings.extend(cpu_warnings::of(&self));
        self
    }
}

fn switches(
    plan: &Plan,
    measured: &[&LoopFigures],
    threads: &[ThreadResult],
) -> Vec<SwitchFigures> {
    let elapsed = measured.iter().map(|figures| figures.elapsed).sum();
    let one = |index: usize| {
        let result = threads.get(index % plan.threads)?.switches.get(index / plan.threads)?;
        let &SwitchResult { counts, latency, connect, handshake, hosts_announced, .. } = result;
        let answered = measured.iter().filter_map(|figures| figures.answered.get(index)).sum();
        Some(SwitchFigures {
            datapath_id: DatapathId(plan.dpid_offset.wrapping_add(index as u64)),
            rate: per_second(answered, elapsed),
            latency,
            counts,
            connect,
            handshake,
            hosts_announced,
            disconnect_reason: result.disconnect_reason.clone(),
        })
    };
    (0..plan.switches as usize).filter_map(one).collect()
}

fn threads(plan: &Plan, measured: &[&ThreadLoopResult]) -> Vec<ThreadFigures> {
    let one = |thread: usize| {
        let own = measured.iter().filter(|result| result.thread == thread);
        let (mut elapsed, mut cpu, mut waited) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for result in own {
            elapsed += result.elapsed;
            cpu += result.cpu;
            waited += result.waited;
        }
        let cpu = cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let waited = waited.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let busy = if plan.spin.is_zero() { cpu } else { 1.0 - waited };
        ThreadFigures { cpu, busy, delayed: None }
    };
    (0..plan.threads).map(one).collect()
}

impl OfferedRates {
    fn of(plan: &Plan, requests: &LoopRequests) -> Self {
        let time = plan.loop_time * u32::try_from(plan.measured().len()).unwrap_or(u32::MAX);
        let answered = requests.answered.len();
        let (sent, not_sent) = (answered + requests.unanswered, requests.not_sent.total());
        let rate = |n: u64| per_second(n, time);
        Self {
            offered: rate(sent + not_sent),
            sent: rate(sent),
            not_sent: rate(not_sent),
            answered: rate(answered),
        }
    }
}

impl LittlesLaw {
    fn of(measured: &[&ThreadLoopResult], rate: f64, latencies: &LatencyDistribution) -> Self {
        let loops = measured.iter().map(|r| r.number).collect::<std::collections::BTreeSet<_>>();
        let outstanding_in = |number: u32| {
            let same = measured.iter().filter(|result| result.number == number);
            same.map(|r| r.outstanding_area_s / r.elapsed.as_secs_f64().max(1e-9)).sum::<f64>()
        };
        #[expect(clippy::cast_precision_loss, reason = "there are few loops")]
        let outstanding =
            loops.iter().map(|&n| outstanding_in(n)).sum::<f64>() / loops.len().max(1) as f64;
        // The sum of no loops is -0.0.
        let outstanding = outstanding.abs();
        let latency_s = latencies.mean_ns() / 1e9;
        let product = rate * latency_s;
        let disagreement_percent = if outstanding > 0.0 {
            (product - outstanding).abs() / outstanding * 100.0
        } else {
            0.0
        };
        Self { outstanding, rate, latency_s, disagreement_percent }
    }
}
