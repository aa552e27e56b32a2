//! Histograms, counters and seeded randomness. Nothing about networks.
