//! Metrics over HTTP, on a thread of its own.
//!
//! It reads what can be counted through [`Source`] whenever somebody asks, and has no other way into the rest.

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
