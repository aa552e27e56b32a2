//! The applications that come with Sluice, strangers to one another.

pub mod forwarding;
pub mod hosts;
pub mod hub;
pub mod learning;
pub mod limiter;
mod stack;
pub mod topology;

pub use stack::{Config, NAMES, RowError, Stack, check, stack};
