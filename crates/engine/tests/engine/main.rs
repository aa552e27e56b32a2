//! A whole engine on loopback, and peers of every sort.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod changes;
mod duplicates;
mod facts;
mod garbage;
mod lab;
mod limits;
mod mail;
mod peer;
mod replies;
mod sessions;
mod slow;
