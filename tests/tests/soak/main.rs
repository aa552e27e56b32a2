//! A soak: a controller under a measured load, while everything fails around it, in turns and together.
//!
//! The switches of the load lose no answer and get none twice; each fault shows in the metrics or in the log; memory at rest does not
//! grow after the first minute; the process survives and stops cleanly. `SLUICE_SOAK_SECONDS` is the duration, two minutes by default;
//! `-- --nocapture` shows each round. No bound is one of time: on a busy machine there are fewer rounds.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too, and prints what it has measured"
)]

mod attacks;
mod clock;
mod course;
mod descriptors;
mod disk;
mod load;
mod memory;
#[path = "../limits/peer.rs"]
#[expect(
    dead_code,
    clippy::indexing_slicing,
    reason = "written for the tests of the limits, which use all of it"
)]
mod peer;
mod subject;

use crate::course::soak;

/// The default applications.
#[test]
fn a_network_withstands_all_faults() {
    // Without the paths of the replies, each request has one answer, and anything more is noticed.
    soak("--app topology,hosts,forwarding", &[("SLUICE_FORWARDING__BOTH_DIRECTIONS", "false")]);
}

#[test]
fn a_learning_switch_withstands_all_faults() {
    soak("--app learning", &[]);
}
