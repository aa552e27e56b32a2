//! Metrics over HTTP, on a thread of its own.
//!
//! Each request reads the current values of the counters; the server has no other access to the controller.

mod exposition;
mod places;
mod server;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_base::metrics::MetricsSource;

pub use server::{Listener, Server};

/// Serves the values of `source` at `listen` until the [`Server`] is dropped.
///
/// `GET /metrics` is `OpenMetrics` text, `GET /` a page that links to it.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and what else the system says, before anything is started.
pub fn serve(listen: SocketAddr, source: Arc<dyn MetricsSource>) -> io::Result<Server> {
    Listener::new(listen)?.serve(source)
}
