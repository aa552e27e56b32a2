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

/// A bench that has not reported for this long is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Benches at a time: more make a figure of none of them useful.
const BENCHES_MAX: usize = 4;

/// Intervals of a bench that are kept: a quarter of an hour, by the second.
const INTERVALS_MAX: usize = 900;

/// The longest text in a report.
const TEXT_BYTES_MAX: usize = 200;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(benches)).routes(routes!(report))
}

/// The benches that have reported in the last seconds.
#[derive(Debug, Default)]
pub(super) struct Benches(Mutex<Vec<Bench>>);

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
    /// Identifies the run among those that report at the same time.
    run: String,
    /// The controller that is measured, as the bench connects to it.
    target: String,
    /// In words, such as `unlimited` or `1 per switch`.
    load: String,
    switches: u32,
    /// What the rate counts, such as `responses/s`.
    unit: String,
}

/// Figures of one interval.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
struct IntervalFigures {
    /// From the first request to the end of the interval.
    running_s: f64,
    rate_per_s: f64,
    /// Latency of the requests that were answered in the interval; `null` if there were none.
    latency_p50_s: Option<f64>,
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
    /// Only intervals that were reported after this time.
    #[serde(default)]
    after_unix_s: f64,
}

/// The benches that report here: each until ten seconds after its last report.
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
    let benches = state.benches.lock(clock::now());
    let documents = benches.iter().map(|bench| BenchDocument {
        description: bench.description.clone(),
        intervals: bench
            .intervals
            .iter()
            .filter(|interval| interval.at_unix_s > query.after_unix_s)
            .copied()
            .collect(),
    });
    Json(BenchesDocument { benches: documents.collect() })
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
        let BenchDescription { run, target, load, unit, .. } = &self.description;
        for (name, text) in [("run", run), ("target", target), ("load", load), ("unit", unit)] {
            if text.len() > TEXT_BYTES_MAX {
                let length = text.len();
                let message =
                    format!("{name} has {length} bytes: expected at most {TEXT_BYTES_MAX}");
                return Err(ApiError::invalid(message));
            }
        }
        Ok(())
    }
}

impl Benches {
    /// How many report.
    pub(super) fn count(&self, now: Instant) -> usize {
        self.lock(now).len()
    }

    /// Those that have not been silent for too long.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Vec<Bench>> {
        let mut benches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        benches.retain(|it| now.saturating_duration_since(it.reported_at) < SILENCE_MAX);
        benches
    }

    /// Keeps an interval; how many of the run are kept then.
    fn add(&self, report: BenchReport, now: Instant, at: Duration) -> Result<usize, ApiError> {
        let mut benches = self.lock(now);
        let BenchReport { description, figures } = report;
        let known = benches.iter().position(|it| it.description.run == description.run);
        let place = match known {
            Some(place) => place,
            None if benches.len() < BENCHES_MAX => {
                let intervals = VecDeque::new();
                benches.push(Bench { description, reported_at: now, intervals });
                benches.len() - 1
            }
            None => {
                let message = format!("{BENCHES_MAX} benches report already");
                let code = "too_many_benches";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message));
            }
        };
        let Some(bench) = benches.get_mut(place) else { return Ok(0) };
        bench.reported_at = now;
        if bench.intervals.len() >= INTERVALS_MAX {
            bench.intervals.pop_front();
        }
        bench.intervals.push_back(IntervalDocument { at_unix_s: at.as_secs_f64(), figures });
        Ok(bench.intervals.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(run: &str) -> BenchReport {
        let [target, load, unit] =
            ["127.0.0.1:6653", "unlimited", "responses/s"].map(str::to_owned);
        let description =
            BenchDescription { run: run.to_owned(), target, load, switches: 16, unit };
        let figures = IntervalFigures {
            running_s: 1.0,
            rate_per_s: 5e5,
            latency_p50_s: Some(1e-4),
            latency_p99_s: None,
            is_measured: true,
        };
        BenchReport { description, figures }
    }

    #[test]
    fn a_bench_is_forgotten_ten_seconds_after_its_last_report() {
        let (benches, start) = (Benches::default(), clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(benches.add(report("a"), at(0), Duration::ZERO).unwrap(), 1);
        assert_eq!(benches.add(report("a"), at(9), Duration::ZERO).unwrap(), 2);
        assert_eq!(benches.count(at(18)), 1);
        assert_eq!(benches.count(at(19)), 0);
        assert_eq!(benches.add(report("a"), at(19), Duration::ZERO).unwrap(), 1);
    }

    #[test]
    fn benches_and_their_intervals_are_bounded() {
        let (benches, now) = (Benches::default(), clock::now());
        for run in ["a", "b", "c", "d"] {
            benches.add(report(run), now, Duration::ZERO).unwrap();
        }
        let error = benches.add(report("e"), now, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("4 benches"), "{error}");
        for _ in 0..INTERVALS_MAX {
            benches.add(report("a"), now, Duration::ZERO).unwrap();
        }
        assert_eq!(benches.add(report("a"), now, Duration::ZERO).unwrap(), INTERVALS_MAX);
        let long = BenchReport {
            description: BenchDescription { load: "x".repeat(201), ..report("a").description },
            ..report("a")
        };
        long.check().unwrap_err();
    }
}
