//! How a packet would travel through the flow tables of all switches. See `docs/trace.md`.

mod documents;
mod packet;
mod paths;
mod read;
mod walk;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::ApiState;
use super::error::ApiError;
use documents::{PathsDocument, TraceDocument};
use packet::TraceRequest;

/// Bytes of the body of a request: more than the digits of a packet.
const BODY_BYTES_MAX: usize = 256 << 10;

pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v1/trace", post(trace))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .route("/v1/paths", get(paths))
}

/// Two hosts, each by its Ethernet or IP address.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathsQuery {
    from: String,
    to: String,
}

/// Traces a packet.
pub(super) async fn trace(
    State(state): State<ApiState>,
    request: Result<Json<TraceRequest>, JsonRejection>,
) -> Result<Json<TraceDocument>, ApiError> {
    let Json(request) = request.map_err(|error| ApiError::invalid(error.body_text()))?;
    let start = packet::start(&state, request)?;
    walk::trace(&state, start).await.map(Json)
}

/// The paths between two hosts, as installed and as computed.
pub(super) async fn paths(
    State(state): State<ApiState>,
    query: Result<Query<PathsQuery>, QueryRejection>,
) -> Result<Json<PathsDocument>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::invalid(error.body_text()))?;
    paths::paths(&state, query).await.map(Json)
}
