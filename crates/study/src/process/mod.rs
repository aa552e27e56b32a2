//! Controllers as processes: found, started, ready, observed, stopped.

mod discovery;
mod placeholders;
mod readiness;
mod running;

pub(crate) use discovery::executable;
pub use discovery::{Found, find};
pub(crate) use placeholders::NAMES as PLACEHOLDERS;
pub use placeholders::{Placeholders, free_port};
pub use running::{RunningController, StartError};
