//! Summary statistics: mean, standard deviation, median, fairness.

use std::time::Duration;

/// Rates of several loops, summarized.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RateSummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Population standard deviation (divided by `n`), as `cbench` computes it.
    pub deviation: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl RateSummary {
    /// Summarizes `figures`; all zeros if there are none.
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

/// Minimum, median and maximum of several durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationSummary {
    /// Minimum.
    pub min: Duration,
    /// Median; of an even number, the lower of the two middle values.
    pub median: Duration,
    /// Maximum.
    pub max: Duration,
}

impl DurationSummary {
    /// Summarizes `all`; `None` if there are none.
    pub(crate) fn of(all: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        let median = *all.get(all.len().saturating_sub(1) / 2)?;
        Some(Self { min: *all.first()?, median, max: *all.last()? })
    }
}

/// Jain's fairness index, `(Σx)² / (n Σx²)`: 1 if all shares are equal or there are none, `1 / n` if one has everything.
///
/// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
#[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
pub(crate) fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// Rate of `n` events in `time`, per second; 0 if `time` is zero.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no 16 digits")]
pub(crate) fn per_second(n: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_shares_and_one_nth_if_one_has_everything() {
        assert!((jain_index(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain_index(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!((jain_index(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_standard_deviation_divides_by_n() {
        let summary = RateSummary::of(&[1.0, 3.0]);
        assert_eq!(summary, RateSummary { mean: 2.0, deviation: 1.0, min: 1.0, max: 3.0 });
        assert_eq!(RateSummary::of(&[]), RateSummary::default());
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle_value() {
        let ms = |n| Duration::from_millis(n);
        let summary = DurationSummary::of([4, 1, 3, 2].map(ms).into_iter()).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (ms(1), ms(2), ms(4)));
        assert_eq!(DurationSummary::of(std::iter::empty()), None);
    }
}
