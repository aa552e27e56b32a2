//! The HTTP API, version 1: the network as the controller sees it, and the tables of its switches. See `docs/api.md`.

mod access;
mod documents;
mod error;
mod handlers;
mod names;
mod requests;

use std::sync::Arc;
use std::time::Instant;

use axum::routing::get;
use axum::{Router, middleware};
use sluice_sdk::Controller;
use tokio::sync::Semaphore;

use crate::view_copy::ViewCopy;

/// What the handlers use.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) controller: Arc<dyn Controller>,
    pub(crate) view: Arc<ViewCopy>,
    pub(crate) started: Instant,
    /// Limits how many replies of switches are read at a time.
    reads: Arc<Semaphore>,
}

impl ApiState {
    pub(crate) fn new(controller: Arc<dyn Controller>, started: Instant) -> Self {
        let reads = Arc::new(Semaphore::new(requests::READS_MAX));
        Self { controller, view: Arc::default(), started, reads }
    }
}

/// The routes under `/v1`.
pub(crate) fn routes(state: ApiState) -> Router {
    Router::new()
        .route("/v1/controller", get(handlers::controller))
        .route("/v1/switches", get(handlers::switches))
        .route("/v1/switches/{switch}", get(handlers::switch))
        .route("/v1/switches/{switch}/ports", get(handlers::ports))
        .route("/v1/switches/{switch}/flows", get(handlers::flows))
        .route("/v1/switches/{switch}/{what}", get(handlers::multipart))
        .route("/v1/links", get(handlers::links))
        .route("/v1/hosts", get(handlers::hosts))
        .route_layer(middleware::from_fn(access::check))
        .fallback(handlers::not_found)
        .with_state(state)
}
