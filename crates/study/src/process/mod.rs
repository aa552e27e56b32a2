//! Controllers as processes: found, started, ready, observed, stopped.

mod command_line;
mod discovery;
mod identity;
mod inherited;
mod placeholders;
mod readiness;
mod running;
mod usage_log;

pub(crate) use command_line::{command_line, shell_word};
pub(crate) use discovery::executable;
pub use discovery::{Found, find};
pub(crate) use identity::identity;
pub(crate) use inherited::inherited_variables;
pub(crate) use placeholders::NAMES as PLACEHOLDERS;
pub use placeholders::{Placeholders, free_port};
pub use running::{RunningController, StartError};
