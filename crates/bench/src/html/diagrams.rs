//! The diagrams of a page: rates and latencies per loop and per run, percentiles, fairness.

use super::Scale;
use super::chart::{Caption, Chart, Tick};
use crate::report::{LoopFigures, Report};
use crate::text_report::{counted, quantity, seconds};
use crate::{LatencyDistribution, Quantile};

/// Points of the line of percentiles.
const PERCENTILE_POINTS: u32 = 240;

/// Most powers of ten on the axis of percentiles: up to 99.9999 %.
const NINES_MAX: f64 = 6.0;

/// Most switches with a bar of their own.
const SWITCH_BARS_MAX: usize = 64;

/// Most points of a line of sorted switches.
const SWITCH_POINTS_MAX: usize = 500;

/// Most labels of loops, runs or switches along the axis.
const LABELS_MAX: usize = 16;

/// The requests answered per second in each loop.
pub(super) fn rate_per_loop(id: &str, report: &Report) -> String {
    let bars: Vec<_> = report.loops.iter().map(|it| (it.rate, it.measured)).collect();
    let rate = report.rate;
    let [mean, low, high] = [rate.mean, rate.confidence.low, rate.confidence.high]
        .map(|n| format!("{}/s", quantity(n)));
    let caption = Caption {
        id: format!("{id}-rate"),
        title: "Throughput per loop",
        description: format!(
            "Bars of {}: mean {mean}, 95 % confidence interval of the mean {low} to {high}.",
            counted(bars.len() as u64, "loop", "loops")
        ),
    };
    let note = "dotted: mean of the measured loops; shaded: its 95 % confidence interval; pale: warm-up and cool-down";
    rate_bars(caption, "loop", &bars, (rate.mean, [rate.confidence.low, rate.confidence.high]))
        .figure(note)
}

/// The requests answered per second in each run.
pub(super) fn rate_per_run(reports: &[Report], summary: &crate::RunsSummary) -> String {
    let bars: Vec<_> = reports.iter().map(|report| (report.rate.mean, true)).collect();
    let rate = summary.rate;
    let [median, min, max] =
        [rate.median, rate.min, rate.max].map(|n| format!("{}/s", quantity(n)));
    let caption = Caption {
        id: "runs-rate".to_owned(),
        title: "Throughput per run",
        description: format!(
            "Bars of {}: median {median}, minimum {min}, maximum {max}.",
            counted(bars.len() as u64, "run", "runs")
        ),
    };
    let note = "dotted: mean of the runs; shaded: its 95 % confidence interval";
    rate_bars(caption, "run", &bars, (rate.mean, [rate.confidence.low, rate.confidence.high]))
        .figure(note)
}

/// Bars of rates, pale if they are not measured, with the mean and its confidence interval.
fn rate_bars<'c>(
    caption: Caption<'c>,
    unit: &str,
    bars: &[(f64, bool)],
    (mean, confidence): (f64, [f64; 2]),
) -> Chart<'c> {
    let y = Scale::from_zero(bars.iter().map(|bar| bar.0).fold(mean, f64::max));
    let ticks = labelled(y, |rate| format!("{}/s", quantity(rate)));
    let mut chart = Chart::new(caption, numbers(bars.len()), (y, ticks), [unit, "answers"]);
    for (number, &(rate, is_measured)) in (1u32..).zip(bars) {
        let class = if is_measured { "bar" } else { "bar unmeasured" };
        let at = f64::from(number);
        let tooltip = format!("{unit} {number}: {}/s", quantity(rate));
        chart.bar(class, [at - 0.4, at + 0.4], rate, &tooltip);
    }
    let [xs, _] = chart.ranges();
    chart.band(xs, confidence);
    chart.reference(mean);
    chart
}

/// The round values along an axis, with labels.
fn labelled(axis: Scale, label: impl Fn(f64) -> String) -> Vec<Tick> {
    axis.ticks(0.0).into_iter().map(|value| (value, label(value))).collect()
}

/// The axis of the numbers 1 to `n`.
fn numbers(n: usize) -> (Scale, Vec<Tick>) {
    let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
    let every = n.div_ceil(u32::try_from(LABELS_MAX).unwrap_or(1)).max(1);
    let labelled = (1..=n).filter(|number| *number == 1 || number.is_multiple_of(every));
    let ticks = labelled.map(|number| (f64::from(number), number.to_string())).collect();
    (Scale::linear(0.4, f64::from(n) + 0.6), ticks)
}

/// Median and 99th percentile of each loop; empty if no loop has an answer.
pub(super) fn latency_per_loop(id: &str, report: &Report) -> String {
    let latencies: Vec<_> =
        report.loops.iter().map(|figures: &LoopFigures| &figures.latency).collect();
    latency_lines(&format!("{id}-latency"), "Latency per loop", "loop", &latencies)
}

/// Median and 99th percentile of each run; empty if no run has an answer.
pub(super) fn latency_per_run(reports: &[Report]) -> String {
    let latencies: Vec<_> = reports.iter().map(|report| &report.latency).collect();
    latency_lines("runs-latency", "Latency per run", "run", &latencies)
}

fn latency_lines(id: &str, title: &str, unit: &str, latencies: &[&LatencyDistribution]) -> String {
    let points = |q: f64| {
        let numbered = (1u32..).zip(latencies).filter(|(_, latency)| !latency.answered.is_empty());
        let point = move |(number, latency): (u32, &&LatencyDistribution)| {
            let quantile = latency.quantile(q);
            let bound = if matches!(quantile, Quantile::AtLeast(_)) { "at least " } else { "" };
            let text = format!("{unit} {number}: {bound}{}", time(as_f64(quantile.ns())));
            ([f64::from(number), as_f64(quantile.ns())], text)
        };
        numbered.map(point).collect::<Vec<_>>()
    };
    let (median, p99) = (points(0.5), points(0.99));
    let all = median.iter().chain(&p99).map(|(point, _)| point[1]);
    let (min, max) = all.fold((f64::INFINITY, 0.0), |(min, max), ns| (ns.min(min), ns.max(max)));
    let (Some(first), Some(last)) = (median.last(), p99.last()) else { return String::new() };
    let caption = Caption {
        id: id.to_owned(),
        title,
        description: format!(
            "Two lines over {} {unit}s on a logarithmic scale, between {} and {}: the median and the 99th percentile.",
            latencies.len(),
            time(min),
            time(max)
        ),
    };
    let y = Scale::round_logarithmic(min.max(1.0), max);
    let mut chart =
        Chart::new(caption, numbers(latencies.len()), (y, labelled(y, time)), [unit, "latency"]);
    for (class, dots, points, (end, label)) in [
        ("first", "dot-first", &median, (first.0, "median")),
        ("second", "dot-second", &p99, (last.0, "99th percentile")),
    ] {
        chart.line(class, &points.iter().map(|point| point.0).collect::<Vec<_>>());
        chart.dots(dots, points);
        chart.annotate(end[0], end[1], "end", label);
    }
    chart.figure(
        "of the requests that were sent or due in it; solid: median, dashed: 99th percentile",
    )
}

/// Latency by percentile, both on a logarithmic scale; empty if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
pub(super) fn percentiles(id: &str, latency: &LatencyDistribution) -> String {
    if latency.answered.is_empty() {
        return String::new();
    }
    // The slowest of n requests is the percentile 1 - 1 / n.
    let nines = as_f64(latency.len()).log10().clamp(1.0, NINES_MAX);
    let at = |point: u32| nines * f64::from(point) / f64::from(PERCENTILE_POINTS);
    let quantiles = (0..=PERCENTILE_POINTS)
        .map(|point| (at(point), latency.quantile(1.0 - 10f64.powf(-at(point)))));
    let exact = quantiles.filter_map(|(x, quantile)| match quantile {
        Quantile::Exactly(ns) => Some([x, as_f64(ns)]),
        Quantile::AtLeast(_) => None,
    });
    let points: Vec<_> = exact.collect();
    let [p50, p99] = [0.5, 0.99].map(|q| latency.quantile(q));
    let shown = |quantile: Quantile| {
        let bound = if matches!(quantile, Quantile::AtLeast(_)) { "at least " } else { "" };
        format!("{bound}{}", time(as_f64(quantile.ns())))
    };
    let caption = Caption {
        id: format!("{id}-percentiles"),
        title: "Latency by percentile",
        description: format!(
            "A line from the fastest to the slowest request on logarithmic scales: median {}, 99th percentile {}, \
             maximum {}.",
            shown(p50),
            shown(p99),
            shown(latency.max())
        ),
    };
    let ends = points.first().map(|it| it[1]).zip(points.last().map(|it| it[1]));
    let (min, max) = ends.unwrap_or((1.0, 1.0));
    let y = Scale::round_logarithmic(min.max(1.0), max);
    let x = (Scale::linear(0.0, nines), percentile_ticks(nines));
    let mut chart = Chart::new(caption, x, (y, labelled(y, time)), ["percentile", "latency"]);
    let [xs, ys] = chart.ranges();
    if latency.unanswered > 0 {
        let share = latency.unanswered as f64 / latency.len() as f64;
        let from = (-share.log10()).clamp(0.0, nines);
        chart.band([from, xs[1]], ys);
        let anchor = if from > nines / 2.0 { "end" } else { "start" };
        chart.annotate(from, ys[1], anchor, &format!("no answer: {:.3} %", share * 100.0));
    }
    chart.line("first", &points);
    let marked =
        [(0.5, "median"), (0.9, "90th"), (0.99, "99th"), (0.999, "99.9th"), (0.9999, "99.99th")];
    let dots = marked.into_iter().filter_map(|(q, name)| match latency.quantile(q) {
        Quantile::Exactly(ns) if -(1.0 - q).log10() <= nines => {
            let ns = as_f64(ns);
            Some(([-(1.0f64 - q).log10(), ns], format!("{name}: {}", time(ns))))
        }
        _ => None,
    });
    chart.dots("dot-first", &dots.collect::<Vec<_>>());
    chart.figure("the further to the right, the rarer; shaded: requests without an answer in time")
}

/// Labels at 50 %, 90 %, 99 % and so on.
fn percentile_ticks(nines: f64) -> Vec<Tick> {
    let labels = ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
    let mut ticks = vec![(2f64.log10(), "50 %".to_owned())];
    let powers = (1u32..).zip(labels).map(|(n, label)| (f64::from(n), label.to_owned()));
    ticks.extend(powers.filter(|(n, _)| *n <= nines));
    ticks
}

/// The rate of each switch relative to the mean; empty if there is only one.
pub(super) fn fairness(id: &str, report: &Report) -> String {
    let rates: Vec<_> = report.switches.iter().map(|switch| switch.rate).collect();
    let mean = crate::statistics::mean(&rates);
    if rates.len() < 2 || mean <= 0.0 {
        return String::new();
    }
    let mut shares: Vec<_> = rates.iter().map(|rate| rate / mean * 100.0).collect();
    let (min, max) = shares.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &n| (a.min(n), b.max(n)));
    let caption = Caption {
        id: format!("{id}-fairness"),
        title: "Fairness between switches",
        description: format!(
            "Rate of each of {} switches relative to their mean: {min:.1} % to {max:.1} %; Jain's index {:.4}.",
            rates.len(),
            report.fairness
        ),
    };
    let y = Scale::from_zero(max.max(100.0));
    let ticks = labelled(y, |percent| format!("{percent:.0} %"));
    let has_bars = shares.len() <= SWITCH_BARS_MAX;
    let name = if has_bars { "switch" } else { "switches, slowest first" };
    let mut chart =
        Chart::new(caption, numbers(shares.len()), (y, ticks), [name, "of the mean rate"]);
    if has_bars {
        for ((number, share), switch) in (1u32..).zip(&shares).zip(&report.switches) {
            let at = f64::from(number);
            let tooltip = format!("{}: {}/s", switch.datapath_id, quantity(switch.rate));
            chart.bar("bar", [at - 0.4, at + 0.4], *share, &tooltip);
        }
    } else {
        shares.sort_unstable_by(f64::total_cmp);
        let every = shares.len().div_ceil(SWITCH_POINTS_MAX);
        let numbered = (1u32..).zip(&shares).map(|(number, &share)| [f64::from(number), share]);
        let last = shares.len() - 1;
        let points = numbered.enumerate().filter(|(at, _)| at.is_multiple_of(every) || *at == last);
        chart.line("first", &points.map(|(_, point)| point).collect::<Vec<_>>());
    }
    chart.reference(100.0);
    chart.figure("dotted: mean of all switches")
}

#[expect(clippy::cast_precision_loss, reason = "a diagram needs few digits")]
fn as_f64(n: u64) -> f64 {
    n as f64
}

fn time(ns: f64) -> String {
    seconds(ns / 1e9)
}
