//! One OpenFlow connection as a state machine without I/O, for both ends.
//!
//! [`ControllerSession`] is the controller's end, [`SwitchSession`] the switch's. The owner of a session passes it raw
//! messages and the time; the session appends its messages to a transmit buffer of the owner, and returns at most
//! one event for each message. Sessions have no socket, clock, thread or logger.

mod budget;
mod controller;
mod error;
mod reassembly;
mod switch;

pub use budget::{ReassemblyBudget, SourceId};
pub use controller::{Config, ControllerEvent, ControllerSession};
pub use error::SessionError;
pub use switch::{SwitchEvent, SwitchProfile, SwitchSession};
