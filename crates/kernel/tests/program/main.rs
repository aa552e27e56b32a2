//! The program on real connections.
//!
//! Loading it needs privileges, and a program that was built with clang: both are part of the set-up of the tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod answers;
mod paths;
mod switch;
