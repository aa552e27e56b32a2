//! Histograms, metrics, seeded random numbers and hash maps. Nothing about networks.

mod folded_multiply;
pub mod hash;
mod histogram;
pub mod metrics;
mod rng;

pub use folded_multiply::folded_multiply;
pub use hash::{HashMap, HashSet};
pub use histogram::{Histogram, HistogramSnapshot};
pub use rng::Rng;
