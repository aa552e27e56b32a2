//! How the controller did in the last hour, and who asks.

use axum::Json;
use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ApiState;
use super::access::Identity;
use super::extract::ApiQuery;
use crate::routes::{Routes, routes};
use crate::time_series::{INTERVAL, SampleDocument};
use crate::tokens::Role;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(time_series)).routes(routes!(identity))
}

#[derive(Serialize, ToSchema)]
struct TimeSeriesDocument {
    /// Time between two samples.
    interval_s: u64,
    /// The oldest first.
    samples: Vec<SampleDocument>,
}

/// Which samples are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct TimeSeriesQuery {
    /// Only samples after this time.
    #[serde(default)]
    after_unix_s: f64,
}

/// Rates, latency and memory of the controller in the last hour.
#[utoipa::path(
    get,
    path = "/v1/time-series",
    params(TimeSeriesQuery),
    responses((status = 200, body = TimeSeriesDocument))
)]
async fn time_series(
    State(state): State<ApiState>,
    ApiQuery(query): ApiQuery<TimeSeriesQuery>,
) -> Json<TimeSeriesDocument> {
    let samples = state.time_series.after(query.after_unix_s);
    Json(TimeSeriesDocument { interval_s: INTERVAL.as_secs(), samples })
}

/// Who sends the request.
#[derive(Serialize, ToSchema)]
struct IdentityDocument {
    /// `token NAME`, `uid NUMBER` on the Unix socket, or `local`.
    who: String,
    role: Role,
    /// When the token expires.
    expires_unix_s: Option<u64>,
}

/// Who the controller takes the client to be, and the role that it has.
#[utoipa::path(get, path = "/v1/identity", responses((status = 200, body = IdentityDocument)))]
async fn identity(Extension(identity): Extension<Identity>) -> Json<IdentityDocument> {
    Json(IdentityDocument {
        role: identity.role(),
        expires_unix_s: identity.expires_unix_s(),
        who: identity.who,
    })
}
