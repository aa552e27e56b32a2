//! Summary statistics: mean, standard deviation, median, fairness.

use std::time::Duration;

use sluice_base::Rng;

/// Figures of several loops or runs, summarized.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FigureSummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median; of an even number, the mean of the two middle figures.
    pub median: f64,
    /// Sample standard deviation (divided by `n - 1`); 0 of fewer than two figures.
    pub deviation: f64,
    /// 95 % confidence interval of the mean.
    pub confidence: ConfidenceInterval,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl FigureSummary {
    /// Summarizes `figures`; all zeros if there are none.
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    pub fn of(figures: &[f64]) -> Self {
        if figures.is_empty() {
            return Self::default();
        }
        let n = figures.len() as f64;
        let mean = mean(figures);
        let square = |figure: &f64| (figure - mean) * (figure - mean);
        let squares = figures.iter().map(square).sum::<f64>();
        Self {
            mean,
            median: median(figures),
            deviation: if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
            confidence: ConfidenceInterval::of_mean(figures),
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            max: figures.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The median of `figures`; of an even number, the mean of the two middle ones.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// An interval that contains the true value with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ConfidenceInterval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Samples drawn for a bootstrap.
const RESAMPLES: usize = 10_000;

impl ConfidenceInterval {
    /// That of the mean of `figures`, by the percentile bootstrap: the means of samples of the same size, drawn with replacement.
    /// Always the same for the same figures.
    ///
    /// B. Efron, R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    pub fn of_mean(figures: &[f64]) -> Self {
        Self::bootstrap(figures, |sample| mean(sample))
    }

    /// That of a statistic of `figures`, by the percentile bootstrap.
    pub(crate) fn bootstrap(figures: &[f64], statistic: impl Fn(&mut [f64]) -> f64) -> Self {
        if figures.is_empty() {
            return Self::default();
        }
        let mut resampler = Resampler::new(0);
        Self::of_resamples(|| statistic(resampler.draw(figures)))
    }

    /// That of the ratio of the means of two independent sets of figures, `above` / `below`.
    pub fn of_ratio(above: &[f64], below: &[f64]) -> Self {
        let [mut first, mut second] = [0, 1].map(Resampler::new);
        Self::of_resamples(|| mean(first.draw(above)) / mean(second.draw(below)))
    }

    /// The middle 95 % of many results of `resample`.
    fn of_resamples(resample: impl FnMut() -> f64) -> Self {
        let mut results: Vec<_> = std::iter::repeat_with(resample).take(RESAMPLES).collect();
        results.sort_unstable_by(f64::total_cmp);
        let at = |permille: usize| results.get((RESAMPLES - 1) * permille / 1000);
        let [low, high] = [at(25), at(975)].map(|bound| bound.copied().unwrap_or_default());
        Self { low, high }
    }

    /// Whether `figure` is in the interval.
    pub fn contains(self, figure: f64) -> bool {
        (self.low..=self.high).contains(&figure)
    }
}

/// Draws samples with replacement.
struct Resampler {
    rng: Rng,
    sample: Vec<f64>,
}

impl Resampler {
    fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), sample: Vec::new() }
    }

    /// A sample of as many figures as there are.
    fn draw(&mut self, figures: &[f64]) -> &mut [f64] {
        let n = u32::try_from(figures.len()).unwrap_or(u32::MAX);
        let rng = &mut self.rng;
        self.sample.clear();
        self.sample.extend((0..n).filter_map(|_| figures.get(rng.below(n) as usize)));
        &mut self.sample
    }
}

/// The arithmetic mean; 0 of no figures.
#[expect(clippy::cast_precision_loss, reason = "there are few")]
pub(crate) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
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
    fn the_standard_deviation_divides_by_n_minus_one() {
        let summary = FigureSummary::of(&[1.0, 3.0]);
        assert_eq!((summary.mean, summary.min, summary.max), (2.0, 1.0, 3.0));
        assert!((summary.deviation - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(FigureSummary::of(&[5.0]).deviation.to_bits(), 0);
        assert_eq!(FigureSummary::of(&[]), FigureSummary::default());
    }

    /// Samples of ten normally distributed figures, by sums of twelve uniform ones.
    #[test]
    fn nine_in_ten_confidence_intervals_of_ten_figures_contain_the_true_mean() {
        let mut rng = Rng::new(3);
        let mut normal =
            |_| (0..12).map(|_| f64::from(rng.below(1 << 20))).sum::<f64>() / f64::from(1 << 20);
        let n = 200;
        let samples = (0..n).map(|_| (0..10).map(&mut normal).collect::<Vec<_>>());
        let contains = |figures: &Vec<f64>| {
            let ConfidenceInterval { low, high } = ConfidenceInterval::of_mean(figures);
            low <= 6.0 && 6.0 <= high
        };
        let good = samples.filter(contains).count();
        // The bootstrap of so few figures is a little narrow.
        assert!((n * 85 / 100..=n * 98 / 100).contains(&good), "{good} of {n}");
    }

    #[test]
    fn the_median_of_figures_is_between_the_middle_ones() {
        let medians = [&[3.0, 1.0, 2.0][..], &[4.0, 1.0, 2.0, 10.0], &[]].map(median);
        assert_eq!(medians.map(f64::to_bits), [2.0, 3.0, 0.0].map(f64::to_bits));
    }

    #[test]
    fn the_interval_of_a_ratio_contains_the_ratio_of_the_means() {
        let (above, below) = ([9.0, 10.0, 11.0, 10.0], [5.0, 5.5, 4.5, 5.0]);
        let interval = ConfidenceInterval::of_ratio(&above, &below);
        assert!(interval.contains(2.0) && !interval.contains(1.0), "{interval:?}");
        assert!(interval.high - interval.low < 0.5, "{interval:?}");
        assert!(ConfidenceInterval::of_ratio(&above, &above).contains(1.0));
    }

    #[test]
    fn the_confidence_interval_of_equal_figures_is_their_value() {
        let interval = ConfidenceInterval::of_mean(&[7.0; 5]);
        assert_eq!(interval, ConfidenceInterval { low: 7.0, high: 7.0 });
        assert_eq!(ConfidenceInterval::of_mean(&[]), ConfidenceInterval::default());
        let one = ConfidenceInterval::of_mean(&[3.0]);
        assert_eq!((one.low, one.high), (3.0, 3.0));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle_value() {
        let ms = |n| Duration::from_millis(n);
        let summary = DurationSummary::of([4, 1, 3, 2].map(ms).into_iter()).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (ms(1), ms(2), ms(4)));
        assert_eq!(DurationSummary::of(std::iter::empty()), None);
    }
}
