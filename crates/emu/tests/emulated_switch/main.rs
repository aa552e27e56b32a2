//! The emulated switch as a controller sees it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod buffers;
mod byte_transcripts;
mod flow_entries;
mod following;
mod groups;
mod ovs_ofctl;
mod pipeline;
mod properties;
mod rewriting;
mod statistics;
mod support;
