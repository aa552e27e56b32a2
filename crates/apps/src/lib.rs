//! The applications that come with Sluice.
//!
//! They do not know each other: what one of them learns, it publishes as facts about the network, and others find that in
//! their view. [`registry`] has them all, for chains that are chosen by name ([`sluice_sdk::Chain`]).
//!
//! An application need not be in this crate: `docs/first-application.md` has an example. To add one here, write a module with a
//! `Config` and a type that implements [`App`](sluice_sdk::App), declare it here, and add a row to the list in `registry.rs`.

pub mod forwarding;
pub mod hosts;
pub mod hub;
mod internet;
mod iteration_budget;
pub mod learning;
pub mod limiter;
mod packet;
mod permanent_entries;
mod port_map;
mod rate_limit;
mod registry;
pub mod topology;

pub use registry::{Config, chain, registry};
