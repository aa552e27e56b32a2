//! `/v1/bench`: measurements of controllers that report here while they run. They are kept in memory only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sluice_io::clock;
use utoipa::ToSchema;

use super::ApiState;
use super::error::{ApiError, ErrorDocument};
use super::extract::{ApiJson, ApiQuery};
use crate::routes::{Routes, routes};

/// Shortest and longest time without a report after which a bench is forgotten.
const SILENCE_MIN: Duration = Duration::from_secs(10);
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Intervals without a report after which a bench is forgotten, within these limits.
const INTERVALS_MISSED_MAX: f64 = 3.0;

/// Maximum number of concurrent benches; more would distort each other.
const BENCHES_MAX: usize = 4;

/// Intervals of a bench that are kept: a quarter of an hour, by the second.
const INTERVALS_MAX: usize = 900;

/// The longest text in a report.
const TEXT_BYTES_MAX: usize = 200;

/// The highest rate and the longest time in a report.
const RATE_MAX: f64 = 1e12;
const SECONDS_MAX: f64 = 1e6;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(benches)).routes(routes!(report))
}

/// The benches that have reported recently.
#[derive(Debug, Default)]
pub(super) struct Benches(Mutex<BenchState>);

#[derive(Debug, Default)]
struct BenchState {
    benches: Vec<Bench>,
    /// The number of the last interval that was reported.
    last_number: u64,
}

#[derive(Debug)]
struct Bench {
    description: BenchDescription,
    reported_at: Instant,
    /// The oldest first.
    intervals: VecDeque<IntervalDocument>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
struct BenchDescription {
    /// Identifies the bench among those that report at the same time.
    bench: String,
    /// Number of its run, from 1. The first report of another run replaces the intervals of the one before.
    run: u32,
    /// The controller that is measured, as the bench connects to it.
    target: String,
    /// In words, such as `unlimited` or `1 per switch`.
    load: String,
    switches: u32,
    /// What the rate counts, such as `responses/s`.
    unit: String,
    /// Time between two reports. A bench is forgotten after three intervals without a report: 10 s at least, 10 min at most.
    interval_s: f64,
}

/// Figures of one interval.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
struct IntervalFigures {
    /// From the first request to the end of the interval.
    running_s: f64,
    rate_per_s: f64,
    /// Median latency of the requests that were sent in the interval and answered before its end; `null` if there were none. It is
    /// too low if the controller is overloaded: requests with later answers are missing.
    latency_p50_s: Option<f64>,
    /// 99th percentile of the same latencies.
    latency_p99_s: Option<f64>,
    /// Whether the interval is part of the result, and not of warm-up or cool-down.
    is_measured: bool,
}

/// What a bench reports at the end of an interval.
#[derive(Debug, Deserialize, ToSchema)]
struct BenchReport {
    #[serde(flatten)]
    description: BenchDescription,
    #[serde(flatten)]
    figures: IntervalFigures,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
struct IntervalDocument {
    /// Intervals of all benches have ascending numbers, from 1, in the order of their reports.
    number: u64,
    /// When it was reported.
    at_unix_s: f64,
    #[serde(flatten)]
    figures: IntervalFigures,
}

#[derive(Serialize, ToSchema)]
struct BenchDocument {
    #[serde(flatten)]
    description: BenchDescription,
    /// The oldest first.
    intervals: Vec<IntervalDocument>,
}

#[derive(Serialize, ToSchema)]
struct BenchesDocument {
    benches: Vec<BenchDocument>,
    /// The number of the last interval that was reported: `after` of the next request. It is lower than before after a restart of the controller.
    last_number: u64,
}

/// The answer to a report.
#[derive(Serialize, ToSchema)]
struct ReportedDocument {
    /// Intervals of this run that are kept.
    intervals: usize,
}

/// Which intervals are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct BenchQuery {
    /// Only intervals with higher numbers.
    #[serde(default)]
    after: u64,
}

/// The benches that report here: each until three intervals have passed without a report, and for ten seconds at least.
#[utoipa::path(
    get,
    path = "/v1/bench",
    params(BenchQuery),
    responses((status = 200, body = BenchesDocument))
)]
async fn benches(
    State(state): State<ApiState>,
    ApiQuery(query): ApiQuery<BenchQuery>,
) -> Json<BenchesDocument> {
    let state = state.benches.lock(clock::now());
    let documents = state.benches.iter().map(|bench| BenchDocument {
        description: bench.description.clone(),
        intervals: bench
            .intervals
            .iter()
            .filter(|interval| interval.number > query.after)
            .copied()
            .collect(),
    });
    Json(BenchesDocument { benches: documents.collect(), last_number: state.last_number })
}

/// Reports an interval of a bench, which `sluice bench --publish` does.
#[utoipa::path(
    put,
    path = "/v1/bench",
    request_body = BenchReport,
    responses(
        (status = 200, body = ReportedDocument),
        (status = 503, body = ErrorDocument, description = "Too many benches report")
    )
)]
async fn report(
    State(state): State<ApiState>,
    ApiJson(report): ApiJson<BenchReport>,
) -> Result<Json<ReportedDocument>, ApiError> {
    report.check()?;
    let intervals = state.benches.add(report, clock::now(), clock::since_epoch())?;
    Ok(Json(ReportedDocument { intervals }))
}

impl BenchReport {
    fn check(&self) -> Result<(), ApiError> {
        let BenchDescription { bench, target, load, unit, interval_s, .. } = &self.description;
        for (name, text) in [("bench", bench), ("target", target), ("load", load), ("unit", unit)] {
            if text.len() > TEXT_BYTES_MAX {
                let length = text.len();
                let message =
                    format!("{name} has {length} bytes: expected at most {TEXT_BYTES_MAX}");
                return Err(ApiError::invalid(message));
            }
        }
        let figures = &self.figures;
        for (name, value, max) in [
            ("interval_s", Some(*interval_s), SECONDS_MAX),
            ("running_s", Some(figures.running_s), SECONDS_MAX),
            ("rate_per_s", Some(figures.rate_per_s), RATE_MAX),
            ("latency_p50_s", figures.latency_p50_s, SECONDS_MAX),
            ("latency_p99_s", figures.latency_p99_s, SECONDS_MAX),
        ] {
            // No range contains a value that is not a number.
            if let Some(value) = value.filter(|value| !(0.0..=max).contains(value)) {
                let message = format!("{name} is {value}: expected 0 to {max}");
                return Err(ApiError::invalid(message));
            }
        }
        Ok(())
    }
}

impl Bench {
    /// Whether it has not reported for too long.
    fn is_silent(&self, now: Instant) -> bool {
        let max = Duration::try_from_secs_f64(self.description.interval_s * INTERVALS_MISSED_MAX);
        let max = max.unwrap_or(SILENCE_MAX).clamp(SILENCE_MIN, SILENCE_MAX);
        now.saturating_duration_since(self.reported_at) >= max
    }
}

impl Benches {
    /// How many report.
    pub(super) fn count(&self, now: Instant) -> usize {
        self.lock(now).benches.len()
    }

    /// The state without those that have been silent for too long.
    fn lock(&self, now: Instant) -> MutexGuard<'_, BenchState> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.benches.retain(|it| !it.is_silent(now));
        state
    }

    /// Keeps an interval; how many of the run are kept then.
    fn add(&self, report: BenchReport, now: Instant, at: Duration) -> Result<usize, ApiError> {
        let mut state = self.lock(now);
        let BenchState { benches, last_number } = &mut *state;
        let BenchReport { description, figures } = report;
        let known = benches.iter_mut().find(|it| it.description.bench == description.bench);
        let (number, at_unix_s) = (*last_number + 1, at.as_secs_f64());
        let interval = IntervalDocument { number, at_unix_s, figures };
        let Some(bench) = known else {
            if benches.len() >= BENCHES_MAX {
                let message = format!("{BENCHES_MAX} benches report already");
                let code = "too_many_benches";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message));
            }
            let intervals = VecDeque::from([interval]);
            benches.push(Bench { description, reported_at: now, intervals });
            *last_number = number;
            return Ok(1);
        };
        if bench.description.run != description.run {
            bench.intervals.clear();
        }
        bench.description = description;
        bench.reported_at = now;
        if bench.intervals.len() >= INTERVALS_MAX {
            bench.intervals.pop_front();
        }
        bench.intervals.push_back(interval);
        *last_number = number;
        Ok(bench.intervals.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bench: &str) -> BenchReport {
        let [target, load, unit] =
            ["127.0.0.1:6653", "unlimited", "responses/s"].map(str::to_owned);
        let bench = bench.to_owned();
        let description =
            BenchDescription { bench, run: 1, target, load, switches: 16, unit, interval_s: 1.0 };
        let figures = IntervalFigures {
            running_s: 1.0,
            rate_per_s: 5e5,
            latency_p50_s: Some(1e-4),
            latency_p99_s: None,
            is_measured: true,
        };
        BenchReport { description, figures }
    }

    fn with_interval(interval_s: f64) -> BenchReport {
        let mut report = report("a");
        report.description.interval_s = interval_s;
        report
    }

    #[test]
    fn a_bench_is_forgotten_after_three_intervals_and_ten_seconds_without_a_report() {
        for (interval_s, silence_s) in [(0.5, 10), (1.0, 10), (20.0, 60), (1e6, 600)] {
            let (benches, start) = (Benches::default(), clock::now());
            let at = |seconds| start + Duration::from_secs(seconds);
            let add = |seconds| benches.add(with_interval(interval_s), at(seconds), Duration::ZERO);
            assert_eq!(add(0).unwrap(), 1);
            assert_eq!(add(9).unwrap(), 2);
            assert_eq!(benches.count(at(9 + silence_s - 1)), 1, "{interval_s}");
            assert_eq!(benches.count(at(9 + silence_s)), 0, "{interval_s}");
            assert_eq!(add(9 + silence_s).unwrap(), 1);
        }
    }

    #[test]
    fn another_run_of_a_bench_replaces_the_one_before() {
        let (benches, now) = (Benches::default(), clock::now());
        benches.add(report("b"), now, Duration::ZERO).unwrap();
        benches.add(report("a"), now, Duration::ZERO).unwrap();
        let mut next = report("a");
        (next.description.run, next.description.switches) = (2, 32);
        assert_eq!(benches.add(next, now, Duration::ZERO).unwrap(), 1);
        let state = benches.lock(now);
        let numbers = |bench: &Bench| bench.intervals.iter().map(|it| it.number).collect();
        let numbers: Vec<Vec<_>> = state.benches.iter().map(numbers).collect();
        assert_eq!((numbers, state.last_number), (vec![vec![1], vec![3]], 3));
        assert_eq!(state.benches[1].description.switches, 32);
    }

    #[test]
    fn benches_and_their_intervals_are_bounded() {
        let (benches, now) = (Benches::default(), clock::now());
        for bench in ["a", "b", "c", "d"] {
            benches.add(report(bench), now, Duration::ZERO).unwrap();
        }
        let error = benches.add(report("e"), now, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("4 benches"), "{error}");
        for _ in 0..INTERVALS_MAX {
            benches.add(report("a"), now, Duration::ZERO).unwrap();
        }
        assert_eq!(benches.add(report("a"), now, Duration::ZERO).unwrap(), INTERVALS_MAX);
    }

    #[test]
    fn a_report_with_a_long_text_or_an_impossible_figure_is_refused_by_the_name_of_the_field() {
        report("a").check().unwrap();
        let refuse = |expected: &str, change: fn(&mut BenchReport)| {
            let mut report = report("a");
            change(&mut report);
            let error = report.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        refuse("load has 201 bytes", |it| it.description.load = "x".repeat(201));
        refuse("interval_s is -1", |it| it.description.interval_s = -1.0);
        refuse("running_s is 1000001", |it| it.figures.running_s = 1_000_001.0);
        refuse("rate_per_s is NaN", |it| it.figures.rate_per_s = f64::NAN);
        refuse("latency_p50_s is inf", |it| it.figures.latency_p50_s = Some(f64::INFINITY));
        refuse("latency_p99_s is -0.5", |it| it.figures.latency_p99_s = Some(-0.5));
    }
}
