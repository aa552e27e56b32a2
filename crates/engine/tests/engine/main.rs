//! Runs an engine on the loopback interface and connects switches and misbehaving peers to it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod datapath_binding;
mod duplicates;
mod facts;
mod in_kernel;
mod in_kernel_paths;
mod limits;
mod malformed;
mod messages;
mod optimisations;
mod reconfigure;
mod replies;
mod sessions;
mod slow_switches;
mod switch_metrics;
mod test_engine;
mod test_peer;
mod tls;
mod tls_peer;
