//! Histograms, metrics, seeded random numbers and a hash. Nothing about networks.

mod folded_multiply;
mod histogram;
pub mod metrics;
mod rng;

pub use folded_multiply::folded_multiply;
pub use histogram::{Histogram, HistogramSnapshot};
pub use rng::Rng;
