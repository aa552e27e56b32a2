//! The API of Ryu.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod changes;
mod controller;
mod errors;
mod flow_entries;
mod replies;
