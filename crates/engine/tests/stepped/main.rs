//! Runs the threads of an engine in an order that the test chooses, on simulated connections and clocks.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod migration;
mod queues;
mod reconnects;
mod test_engine;
