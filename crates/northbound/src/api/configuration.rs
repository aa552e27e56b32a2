//! The applications with their settings and metrics, and the limits with what is in use.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use sluice_base::metrics::MetricValue;
use sluice_base::ordered;
use utoipa::ToSchema;

use super::{ApiState, capture, events, reads, trace};
use crate::connection_limit::CONNECTIONS_MAX;
use crate::routes::{Routes, routes};

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(applications)).routes(routes!(limits))
}

#[derive(Serialize, ToSchema)]
struct ApplicationsDocument {
    /// In the order of the chain: an application that handles a packet keeps it from those behind it.
    applications: Vec<ApplicationDocument>,
}

#[derive(Serialize, ToSchema)]
struct ApplicationDocument {
    name: String,
    /// The keys of its section of the configuration.
    settings: BTreeMap<String, Value>,
    /// Its metrics, of all workers together, without the prefix `sluice_`.
    #[schema(value_type = BTreeMap<String, f64>)]
    metrics: BTreeMap<&'static str, f64>,
}

#[derive(Serialize, ToSchema)]
struct LimitsDocument {
    limits: Vec<LimitDocument>,
}

#[derive(Serialize, ToSchema)]
struct LimitDocument {
    /// The key of the configuration; a name for limits that are constants.
    name: String,
    value: Value,
    /// What is in use now; `null` if that is not known.
    in_use: Option<u64>,
    is_configurable: bool,
    help: String,
}

/// The applications with their settings and metrics.
#[utoipa::path(
    get,
    path = "/v1/applications",
    responses((status = 200, body = ApplicationsDocument))
)]
#[expect(clippy::cast_precision_loss, reason = "metrics need no more than 52 bits")]
async fn applications(State(state): State<ApiState>) -> Json<ApplicationsDocument> {
    let mut metrics = BTreeMap::new();
    state.metrics.collect(&mut |sample| {
        let value = match sample.value {
            MetricValue::Counter(count) => count as f64,
            MetricValue::SecondsCounter(value) | MetricValue::Gauge(value) => value,
            MetricValue::Histogram(_) => return,
        };
        *metrics.entry(sample.name).or_default() += value;
    });
    let of_application = |name: &str| {
        let is_its = |metric: &str| {
            metric.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let its = metrics.iter().filter(|(metric, _)| is_its(metric));
        ordered(its.map(|(&it, &value)| (it, value)))
    };
    let settings = state.settings();
    let applications = settings.applications.into_iter().map(|it| ApplicationDocument {
        metrics: of_application(&it.name),
        name: it.name,
        settings: it.settings,
    });
    Json(ApplicationsDocument { applications: applications.collect() })
}

/// The limits, and what is in use.
#[utoipa::path(get, path = "/v1/limits", responses((status = 200, body = LimitsDocument)))]
async fn limits(State(state): State<ApiState>) -> Json<LimitsDocument> {
    let sessions = state.controller.switches();
    let hosts = state.view.lock().view.host_count();
    let in_use = |key: &str| match key {
        "limits.switches_max" => u64::try_from(sessions.len()).ok(),
        "limits.ports_max" => {
            u64::try_from(sessions.iter().map(|it| it.features.ports.len()).sum::<usize>()).ok()
        }
        "limits.backlog_bytes_max" => sessions.iter().map(|it| it.statistics.backlog_bytes).max(),
        "hosts.hosts_max" => u64::try_from(hosts).ok(),
        _ => None,
    };
    let configured = state.settings().limits.into_iter().map(|limit| LimitDocument {
        in_use: in_use(&limit.key),
        name: limit.key,
        value: limit.value,
        is_configurable: true,
        help: limit.help,
    });
    Json(LimitsDocument { limits: configured.chain(constant_limits(&state)).collect() })
}

/// Fixed limits of the API, which no configuration key changes.
fn constant_limits(state: &ApiState) -> Vec<LimitDocument> {
    let reads = state.reads.usage();
    let units_per_second = usize::try_from(reads.units_per_second).unwrap_or(usize::MAX);
    let constant = |name: &str, value: usize, in_use: usize, help: String| LimitDocument {
        name: name.to_owned(),
        value: value.into(),
        in_use: u64::try_from(in_use).ok(),
        is_configurable: false,
        help,
    };
    let plain = |name, max, in_use, help: &str| constant(name, max, in_use, help.to_owned());
    vec![
        plain(
            "event_streams",
            events::STREAMS_MAX,
            state.streams.in_use(),
            "Streams of events that are open at a time.",
        ),
        plain(
            "captures",
            capture::CAPTURES_MAX,
            state.captures.in_use(),
            "Captures of packet-ins that run at a time.",
        ),
        plain(
            "traces",
            trace::TRACES_MAX,
            state.traces.in_use(),
            "Packets that are traced at a time.",
        ),
        plain(
            "connections",
            CONNECTIONS_MAX,
            state.connections.in_use(),
            "Connections to the API at a time, without those of streams and captures.",
        ),
        constant("live_reads", reads::READS_MAX, reads.queries, reads::queries_help()),
        plain(
            "deletion_reads",
            reads::READS_MAX,
            reads.deletions,
            "Replies of switches that are read at a time to delete flow entries.",
        ),
        constant(
            "live_reads_per_second",
            usize::try_from(reads::READS_PER_SECOND).unwrap_or(usize::MAX),
            units_per_second,
            reads::rate_help(),
        ),
    ]
}
