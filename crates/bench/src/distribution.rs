//! Latencies of a set of requests, of which some may have got no answer.

use hdrhistogram::Histogram;

use crate::latency::histogram;

/// The latencies of all requests of a period. Those without an answer in time are *censored*: known to take at least so long.
#[derive(Debug, Clone)]
pub struct LatencyDistribution {
    /// Latencies of the requests that were answered in time, nanoseconds.
    pub answered: Histogram<u64>,
    /// Requests that were not answered in time, or were due and not sent.
    pub unanswered: u64,
    /// How long each of these was waited for at least, nanoseconds.
    pub unanswered_min_ns: u64,
}

/// A quantile of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// This many nanoseconds.
    Exactly(u64),
    /// Of a request without an answer: at least this many nanoseconds.
    AtLeast(u64),
}

impl Quantile {
    /// The latency in nanoseconds, or its lower bound.
    pub fn ns(self) -> u64 {
        match self {
            Self::Exactly(ns) | Self::AtLeast(ns) => ns,
        }
    }
}

impl LatencyDistribution {
    /// The distribution of no requests.
    pub fn empty() -> Self {
        Self { answered: histogram(), unanswered: 0, unanswered_min_ns: 0 }
    }

    /// Number of requests.
    pub fn len(&self) -> u64 {
        self.answered.len() + self.unanswered
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latency at quantile `q` (0 to 1) of all requests; one without an answer counts as slower than every one with an answer.
    pub fn quantile(&self, q: f64) -> Quantile {
        let rank = quantile_rank(q, self.len());
        if rank > self.answered.len() {
            return Quantile::AtLeast(self.unanswered_min_ns);
        }
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2⁵³ requests")]
        let q = (rank as f64 - 0.5) / self.answered.len().max(1) as f64;
        Quantile::Exactly(self.answered.value_at_quantile(q))
    }

    /// The quantiles that reports list, with the names of their fields.
    pub(crate) fn named_quantiles(&self) -> [(&'static str, Quantile); 5] {
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]
            .map(|(name, q)| (name, self.quantile(q)))
    }

    /// The longest latency.
    pub fn max(&self) -> Quantile {
        self.quantile(1.0)
    }

    /// Mean latency of the requests that were answered in time, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.answered.mean()
    }
}

/// The rank from 1 of the value at quantile `q` among `len` sorted ones; 0 if there are none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a quantile of a count is a count"
)]
pub(crate) fn quantile_rank(q: f64, len: u64) -> u64 {
    // The product of 0.99 and 100 is a little more than 99.
    let rank = (q * len as f64 * (1.0 - 1e-12)).ceil() as u64;
    rank.clamp(len.min(1), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers after 1 to `answered` µs, and requests without one for 5 s.
    fn latencies(answered: u64, unanswered: u64) -> LatencyDistribution {
        let unanswered_min_ns = 5_000_000_000;
        let mut latencies =
            LatencyDistribution { unanswered, unanswered_min_ns, ..LatencyDistribution::empty() };
        (1..=answered).for_each(|us| latencies.answered.record(us * 1000).unwrap());
        latencies
    }

    #[test]
    fn requests_without_an_answer_are_the_slowest() {
        let latencies = latencies(99, 1);
        assert_eq!(latencies.len(), 100);
        let is_near = |quantile: Quantile, us: u64| matches!(quantile, Quantile::Exactly(ns) if ns.abs_diff(us * 1000) < us);
        assert!(is_near(latencies.quantile(0.5), 50), "{:?}", latencies.quantile(0.5));
        assert!(is_near(latencies.quantile(0.99), 99), "{:?}", latencies.quantile(0.99));
        assert_eq!(latencies.quantile(0.991), Quantile::AtLeast(5_000_000_000));
        assert_eq!(latencies.max(), Quantile::AtLeast(5_000_000_000));
    }

    #[test]
    fn without_lost_answers_the_quantiles_are_those_of_the_answers() {
        let latencies = latencies(1000, 0);
        for q in [0.1_f64, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let expected = (q * 1e6).round();
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let found = latencies.quantile(q).ns() as f64;
            assert!((found / expected - 1.0).abs() < 0.001, "{found} at {q}");
        }
    }

    #[test]
    fn a_quantile_is_the_latency_of_its_rank() {
        for n in 1..200 {
            let latencies = latencies(n, 0);
            let median = latencies.quantile(0.5).ns();
            let expected = n.div_ceil(2) * 1000;
            assert!(median.abs_diff(expected) < 500, "{median} instead of {expected} of {n}");
        }
    }

    #[test]
    fn nothing_and_nothing_answered() {
        assert!(LatencyDistribution::empty().is_empty());
        assert_eq!(LatencyDistribution::empty().quantile(0.5), Quantile::Exactly(0));
        assert_eq!(latencies(0, 3).quantile(0.0), Quantile::AtLeast(5_000_000_000));
    }
}
