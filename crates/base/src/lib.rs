//! Histograms, counters, seeded randomness, products as hashes. Nothing about networks.

mod fold;
mod histogram;
pub mod metrics;
mod rng;

pub use fold::fold;
pub use histogram::{Histogram, HistogramSnapshot};
pub use rng::Rng;
