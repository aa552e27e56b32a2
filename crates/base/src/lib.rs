//! Histograms, counters and seeded randomness. Nothing about networks.

mod histogram;
pub mod metrics;
mod rng;

pub use histogram::{Histogram, HistogramSnapshot};
pub use rng::Rng;
