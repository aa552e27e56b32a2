//! Listener, front and workers: threads, connections, applications.
//!
//! Three tiers, after Ivashchenko, Shalimov and Smeliansky ("High performance in-kernel SDN/OpenFlow controller"):
//! a listener accepts, a front proves that a peer is a switch before it costs anything, workers do nothing but
//! serve. Listener and front share a thread; every worker has one of its own, bound to a core.
//!
//! A worker shares nothing on the way of a `PACKET_IN`: no lock, no atomic read-modify-write, no allocation, no
//! system call per message. What crosses threads goes by [`mailbox`].

mod acceptor;
mod admission;
mod backpressure;
mod close_reason;
mod config;
mod connection;
mod counters;
mod dispatch;
mod engine;
mod error_log;
mod log_limit;
mod mailbox;
mod message_batches;
mod registry;
mod worker;

pub use close_reason::CloseReason;
pub use config::{Config, Limits, Pin, Workers};
pub use engine::{Engine, StartError};
