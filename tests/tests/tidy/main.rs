//! Checks of the sources and documents in this checkout: layers, dependencies, links, words.
//!
//! Rules that people read are taken from the documents: which crate may use which from `ARCHITECTURE.md`, unreleased
//! changes from `CHANGELOG.md`.

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
mod patches;
mod sources;
mod words;
