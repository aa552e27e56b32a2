//! Metrics and the API over HTTP, on a thread of their own.
//!
//! Metrics are the current values of counters. The API reads a copy of the network view that follows the facts of the workers, and
//! sends requests to switches through their workers ([`Controller`]).

mod api;
mod audit;
mod config;
mod connection;
mod connection_limit;
mod descriptions;
mod events;
mod exposition;
mod isolated_ports;
mod metrics;
mod packed;
mod peer;
mod port_statistics;
mod routes;
mod ryu;
mod server;
mod settings;
mod source_limit;
mod streaming;
mod time_series;
pub mod tokens;
mod unix_socket;
mod view_copy;
mod web;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_base::metrics::MetricsSource;
use sluice_sdk::Controller;

pub use api::openapi_document;
pub use config::{AccessConfig, AuditTarget, Config};
pub use server::{EventLog, ListenError, Listeners, PassedListeners, Server};
pub use settings::{ApplicationSettings, LimitSetting, Settings};

/// Serves the API of `controller` and the metrics of `source` on `listen` until the [`Server`] is dropped, to programs on this machine.
///
/// `GET /metrics` returns `OpenMetrics` text, `GET /` the web page, and paths under `/v1` are the API.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and other errors of the system.
pub fn serve(
    listen: SocketAddr,
    source: Arc<dyn MetricsSource>,
    controller: Arc<dyn Controller>,
) -> io::Result<Server> {
    Listeners::open(Config::on(listen)).map_err(|e| e.error)?.serve(source, controller)
}
