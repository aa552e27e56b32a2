//! What the application that knows hosts does.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod ageing;

mod conflicts;
mod frames;
mod learning;
mod moving;
mod net;
mod proxy;
mod random;
