//! Metrics over HTTP, on a thread of its own.
//!
//! Each request reads the current values of the counters. The server has no other access to the controller.

mod connection_limit;
mod exposition;
mod server;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_base::metrics::MetricsSource;

pub use server::{Listener, Server};

/// Serves the metrics of `source` on `listen` until the [`Server`] is dropped.
///
/// `GET /metrics` returns `OpenMetrics` text, `GET /` a page with a link to it.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and other errors of the system.
pub fn serve(listen: SocketAddr, source: Arc<dyn MetricsSource>) -> io::Result<Server> {
    Listener::new(listen)?.serve(source)
}
