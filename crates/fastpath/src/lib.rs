//! Message templates and the loops in which applications answer bursts of `PACKET_IN` messages.
//!
//! An application that answers most packet-ins with messages of the same shape encodes that shape once, as a
//! [`Stencil`], and patches a few values into a copy for each answer. For the most frequent packet-ins there are loops that
//! read the message and write the answer with offsets known at compile time.

mod install_flows;
mod install_paths;
mod template;

pub use install_flows::{install_flows_v1_0, install_flows_v1_3};
pub use install_paths::{Course, Ways, install_paths_v1_0, install_paths_v1_3};
pub use template::{Fill, Stencil};
