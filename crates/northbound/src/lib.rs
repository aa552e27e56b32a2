//! Metrics and the API over HTTP, on a thread of their own.
//!
//! Metrics are the current values of counters. The API reads a copy of the network view that follows the facts of the workers, and
//! sends requests to switches through their workers ([`Controller`]).

mod api;
mod connection_limit;
mod exposition;
mod server;
mod view_copy;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_base::metrics::MetricsSource;
use sluice_sdk::Controller;

pub use server::{Listener, Server};

/// Serves the API of `controller` and the metrics of `source` on `listen` until the [`Server`] is dropped.
///
/// `GET /metrics` returns `OpenMetrics` text, `GET /` a page with links, and paths under `/v1` are the API.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and other errors of the system.
pub fn serve(
    listen: SocketAddr,
    source: Arc<dyn MetricsSource>,
    controller: Arc<dyn Controller>,
) -> io::Result<Server> {
    Listener::new(listen)?.serve(source, controller)
}
