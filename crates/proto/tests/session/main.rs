//! The controller's end of a session: what it sends and reports for what a switch sends.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod cbench;
mod established;
mod features;
mod hello;
mod multipart;
mod test_switch;
