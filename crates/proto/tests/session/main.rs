//! The controller's end of a conversation, as stories: what the peer says, what it is told, what becomes of it.
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
mod peer;
