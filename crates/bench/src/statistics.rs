//! Means, spreads and fairness.

use std::time::Duration;

/// How figures of several loops lie.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RateSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation over all of them, as `cbench` has it: divided by `n`.
    pub deviation: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl RateSummary {
    /// Of `figures`; zeros if there are none.
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    pub(crate) fn of(figures: &[f64]) -> Self {
        if figures.is_empty() {
            return Self::default();
        }
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        let square = |figure: &f64| (figure - mean) * (figure - mean);
        Self {
            mean,
            deviation: (figures.iter().map(square).sum::<f64>() / n).sqrt(),
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            max: figures.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The least, the middle and the greatest of several durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationSummary {
    /// Least.
    pub min: Duration,
    /// Half are at most so long.
    pub median: Duration,
    /// Greatest.
    pub max: Duration,
}

impl DurationSummary {
    /// Of `all`; `None` if there are none.
    pub(crate) fn of(all: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        let median = *all.get(all.len().saturating_sub(1) / 2)?;
        Some(Self { min: *all.first()?, median, max: *all.last()? })
    }
}

/// Jain's index: `(Σx)² / (n Σx²)`; 1 if all are the same, or there are none.
/// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
#[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// `n` per second of `time`.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no 16 digits")]
pub(crate) fn ratio(n: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_when_fair_and_a_share_when_one_has_all() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_spread_divides_by_n() {
        let spread = RateSummary::of(&[1.0, 3.0]);
        assert_eq!(spread, RateSummary { mean: 2.0, deviation: 1.0, min: 1.0, max: 3.0 });
        assert_eq!(RateSummary::of(&[]), RateSummary::default());
    }

    #[test]
    fn the_middle_of_an_even_number_is_the_lower_one() {
        let ms = |n| Duration::from_millis(n);
        let three = DurationSummary::of([4, 1, 3, 2].map(ms).into_iter()).unwrap();
        assert_eq!((three.min, three.median, three.max), (ms(1), ms(2), ms(4)));
        assert_eq!(DurationSummary::of(std::iter::empty()), None);
    }
}
