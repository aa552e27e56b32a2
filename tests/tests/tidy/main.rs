//! The rules of the house, checked on the files of this checkout.
//!
//! Rules that a person must be able to read stand in a document and are read from there: which crate may use which
//! in `ARCHITECTURE.md`, what is new in `CHANGELOG.md`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod checkout;
mod dependencies;
mod documents;
mod layers;
mod sources;
