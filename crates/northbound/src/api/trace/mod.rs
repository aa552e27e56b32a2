//! How a packet would travel through the flow tables of all switches. See `docs/trace.md`.

mod documents;
mod packet;
mod paths;
mod read;
mod walk;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;

use super::ApiState;
use super::access::Permission;
use super::error::ApiError;
use super::extract::{ApiJson, ApiQuery};
use super::openapi::{OfHosts, OfTrace};
use crate::routes::{Routes, routes};
use documents::{PathsDocument, TraceDocument};
use packet::TraceRequest;

use crate::source_limit::SourcePermit;

/// Packets that are traced at a time, since each trace keeps the flow entries of all switches that the packet passes.
pub(super) const TRACES_MAX: usize = 4;

/// Bytes of the body of a request: more than the digits of a packet.
const BODY_BYTES_MAX: usize = 256 << 10;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(trace)).limit_bodies(BODY_BYTES_MAX).routes(routes!(paths))
}

/// Two hosts, each by its Ethernet or IP address.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PathsQuery {
    /// The host that sends.
    from: String,
    /// The host that it sends to.
    to: String,
}

/// Traces a packet.
#[utoipa::path(
    post,
    path = "/v1/trace",
    request_body = TraceRequest,
    responses((status = 200, body = TraceDocument), OfTrace)
)]
pub(super) async fn trace(
    State(state): State<ApiState>,
    Extension(permission): Extension<Permission>,
    ApiJson(request): ApiJson<TraceRequest>,
) -> Result<Json<TraceDocument>, ApiError> {
    let start = packet::start(&state, request)?;
    let _permit = permit(&state, &permission)?;
    walk::trace(&state, permission.client(), start).await.map(Json)
}

/// The paths between two hosts, as installed and as computed.
#[utoipa::path(
    get,
    path = "/v1/paths",
    params(PathsQuery),
    responses((status = 200, body = PathsDocument), OfHosts)
)]
pub(super) async fn paths(
    State(state): State<ApiState>,
    Extension(permission): Extension<Permission>,
    ApiQuery(query): ApiQuery<PathsQuery>,
) -> Result<Json<PathsDocument>, ApiError> {
    let _permit = permit(&state, &permission)?;
    paths::paths(&state, permission.client(), query).await.map(Json)
}

/// Permits a trace, if there are not too many.
fn permit(state: &ApiState, permission: &Permission) -> Result<SourcePermit, ApiError> {
    state.traces.try_admit(permission.source()).map_err(|why| {
        let message = format!("too many packets are being traced: {why}; repeat it");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    })
}
