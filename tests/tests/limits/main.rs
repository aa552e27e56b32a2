//! The limits that protect the process, each with an attacker that exceeds it and a bystander at another address.
//!
//! The bystander's switches stay connected and are answered without noticeable delay, new switches get in, and the memory of
//! the process stays within its documented bound. Bounds of time must hold in the best of several rounds, so that they do on a busy
//! machine, too; `-- --nocapture` shows the figures.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too, and prints what it has measured"
)]

mod handshakes;
mod peer;
mod ports;
mod scenario;
mod switches;
