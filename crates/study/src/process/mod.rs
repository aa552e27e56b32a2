//! Controllers as processes: found, started, ready, observed, stopped.

mod discovery;
mod placeholders;
mod readiness;
mod running;

pub use discovery::{Found, find};
pub use placeholders::Placeholders;
pub use running::{RunningController, StartError};
