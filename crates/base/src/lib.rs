//! Histograms, metrics, seeded random numbers, hash maps and other collections, sorting. Nothing about networks.

mod collections;
mod folded_multiply;
pub mod hash;
mod histogram;
pub mod metrics;
mod rng;
mod sort;

pub use collections::{Sorted, ordered};
pub use folded_multiply::folded_multiply;
pub use hash::{HashMap, HashSet};
pub use histogram::{Histogram, HistogramSnapshot};
pub use rng::Rng;
pub use sort::{sort_by, sort_by_key};
