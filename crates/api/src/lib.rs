//! Metrics over HTTP.
