//! One OpenFlow conversation as a pure state machine, both ends.
//!
//! [`Session`] is the controller's end, [`Switch`] the switch's. Both are fed a time and a message and answer with
//! bytes in a buffer, at most one event, and the next deadline. Neither owns a socket, a clock, a thread or a
//! logger.

mod assembly;
mod fault;
mod session;
mod switch;

pub use assembly::Pool;
pub use fault::Fault;
pub use session::{Config, Event, Session};
pub use switch::{Heard, Switch, SwitchPlan};
