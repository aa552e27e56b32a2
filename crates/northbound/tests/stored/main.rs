//! What the store keeps, over HTTP: static entries and names, quarantined hosts, drained links; and its errors.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod drains;
mod policies;
mod quarantines;
mod static_entries;
mod store_error;
mod test_server;
