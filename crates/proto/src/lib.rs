//! One OpenFlow conversation as a pure state machine, both ends.
//!
//! [`ControllerSession`] is the controller's end, [`SwitchSession`] the switch's. Both are fed a time and a message and answer with
//! bytes in a buffer, at most one event, and the next deadline. Neither owns a socket, a clock, a thread or a
//! logger.

mod controller;
mod error;
mod reassembly;
mod switch;

pub use controller::{Config, ControllerEvent, ControllerSession};
pub use error::SessionError;
pub use reassembly::ReassemblyBudget;
pub use switch::{SwitchEvent, SwitchProfile, SwitchSession};
