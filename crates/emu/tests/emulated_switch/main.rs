//! The emulated switch as a controller sees it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod answers;
mod buffers;
mod bytes;
mod flows;
mod foreign;
mod groups;
mod pipeline;
mod props;
mod rewriting;
mod support;
