//! The applications that come with Sluice.
//!
//! They do not know each other: what one of them learns, it publishes as facts about the network, and others find that in
//! their view. [`Chain`] runs several of them, chosen by name.
//!
//! To add an application, write a module with a `Config` and a type that implements [`App`](sluice_sdk::App), declare it
//! here, and add a row to the list at the end of `chain.rs`. `docs/first-application.md` has the details.

mod chain;
pub mod forwarding;
pub mod hosts;
pub mod hub;
mod internet;
mod iteration_budget;
pub mod learning;
pub mod limiter;
mod packet;
mod permanent_entries;
mod rate_limit;
pub mod topology;

pub use chain::{Chain, ChainError, Config, NAMES, check};
