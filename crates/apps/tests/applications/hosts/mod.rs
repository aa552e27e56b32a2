//! The application `hosts`, on workers and switches without engine or sockets.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod addresses;
mod ageing;
mod bundles;
mod conflicts;
mod eviction;
mod frames;
mod lacp;
mod learning;
mod moving;
mod proxy;
mod random;
mod removal;
mod test_network;
