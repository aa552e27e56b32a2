//! Intervals of means and ratios of few samples, at the confidence that many comparisons need.

use sluice_base::sort_by;
use sluice_bench::ConfidenceInterval;

/// Probability that a comparison of many rows finds any difference, if nothing has changed.
pub(crate) const ERROR: f64 = 0.05;

/// The part of [`ERROR`] for ratios; the rest is that of values without a ratio.
pub(crate) const RATIO_ERROR: f64 = ERROR - GREATER_ERROR;

/// Probability that the interval of a mean does not contain the true mean.
const MEAN_ERROR: f64 = 0.05;

/// The quantile of the normal distribution that bounds its middle 95 %.
const NORMAL: f64 = 1.959_964;

/// Relative error of means by rounding.
const ROUNDING: f64 = 1e-12;

/// The greatest quantile of Student's t distribution that is looked for.
const T_MAX: f64 = 1e6;

/// The ratio of the means of two sets of samples, `second` / `first`, as its intervals need it.
///
/// An interval contains two, each of Student's t distribution with the degrees of freedom of B. L. Welch (The Generalization of "Student's"
/// Problem When Several Different Population Variances Are Involved, Biometrika 34, 1947): that of the ratio of the arithmetic means, and
/// that of the ratio of the geometric ones. The first one alone excludes the true ratio of skewed samples too often. `lab/study-error` has their
/// errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatioEstimate {
    arithmetic: LogRatio,
    /// `None` if a value is 0.
    geometric: Option<LogRatio>,
    /// By how much the logarithm may differ from the true one because of the instrument.
    resolution: f64,
    /// If the second side has only zeros: the probability of a first side so much greater, if nothing has changed.
    zero_by_chance: Option<f64>,
}

impl RatioEstimate {
    /// Of at least two samples on each side. Those of `first` are greater than 0, those of `second` not less.
    pub(crate) fn new(first: &[f64], second: &[f64], resolution: f64) -> Self {
        let samples = [first.len(), second.len()];
        let sides = [first, second].map(MeanEstimate::of);
        let relative = sides.map(MeanEstimate::relative_variance);
        let value = (sides[1].mean / sides[0].mean).ln();
        let arithmetic = LogRatio::new(value, relative, samples);
        let are_positive = first.iter().chain(second).all(|&value| value > 0.0);
        let geometric = are_positive.then(|| {
            let logarithms = |values: &[f64]| values.iter().map(|it| it.ln()).collect::<Vec<_>>();
            let sides = [first, second].map(|values| MeanEstimate::of(&logarithms(values)));
            let value = sides[1].mean - sides[0].mean;
            LogRatio::new(value, sides.map(|it| it.variance), samples)
        });
        let is_zero = second.iter().all(|&value| value == 0.0);
        let zero_by_chance = is_zero.then(|| probability_of_greater(second, first).unwrap_or(1.0));
        Self { arithmetic, geometric, resolution: resolution.max(ROUNDING), zero_by_chance }
    }

    /// The interval that excludes the true ratio with the probability `error`.
    ///
    /// The ratio of zeros to other values is 0, which has no logarithm: its interval is 0 alone if the t test tells both sides apart, and reaches
    /// up to 1 otherwise.
    pub(crate) fn at(&self, error: f64) -> ConfidenceInterval {
        if let Some(probability) = self.zero_by_chance {
            let high = if probability <= error / 2.0 { 0.0 } else { 1.0 };
            return ConfidenceInterval { low: 0.0, high };
        }
        let [mut low, mut high] = self.arithmetic.bounds(error);
        if let Some([other_low, other_high]) = self.geometric.map(|it| it.bounds(error)) {
            low = low.min(other_low);
            high = high.max(other_high);
        }
        ConfidenceInterval {
            low: (low - self.resolution).exp(),
            high: (high + self.resolution).exp(),
        }
    }
}

/// The mean of samples, and the variance of that mean.
#[derive(Debug, Clone, Copy)]
struct MeanEstimate {
    mean: f64,
    variance: f64,
}

impl MeanEstimate {
    /// Of at least two values.
    fn of(values: &[f64]) -> Self {
        let n = number(values.len());
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, variance: squares / (n - 1.0) / n }
    }

    /// The variance divided by the square of the mean; 0 if all values are 0.
    fn relative_variance(self) -> f64 {
        if self.mean > 0.0 { self.variance / (self.mean * self.mean) } else { 0.0 }
    }
}

/// The logarithm of a ratio, with its deviation.
#[derive(Debug, Clone, Copy)]
struct LogRatio {
    value: f64,
    deviation: f64,
    /// Degrees of freedom.
    freedom: u32,
}

impl LogRatio {
    /// From the variances of the logarithms of both sides, and their numbers of samples.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and the number of samples"
    )]
    fn new(value: f64, variances: [f64; 2], samples: [usize; 2]) -> Self {
        let [n, m] = samples.map(|it| number(it) - 1.0);
        let variance = variances[0] + variances[1];
        let divisor = variances[0].powi(2) / n + variances[1].powi(2) / m;
        let freedom = if divisor > 0.0 { variance.powi(2) / divisor } else { n + m };
        // Rounded down, but for errors of rounding.
        let freedom = ((freedom + ROUNDING) as u32).max(1);
        Self { value, deviation: variance.sqrt(), freedom }
    }

    /// The bounds of the interval that excludes the true value with the probability `error`.
    fn bounds(self, error: f64) -> [f64; 2] {
        let distance = student_quantile(self.freedom, error) * self.deviation;
        [self.value - distance, self.value + distance]
    }
}

fn number(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The 95 % interval of a mean of `n` values, at least two and none negative, from its percentile bootstrap.
///
/// The percentile bootstrap of few samples is too narrow. It is widened as T. Hesterberg proposes (What Teachers Should Know About the
/// Bootstrap, The American Statistician 69, 2015, section 4.2), by the quantiles of Student's t distribution and by the bias of the deviation;
/// as factors, so that no bound is negative.
pub(crate) fn widened(interval: ConfidenceInterval, mean: f64, n: usize) -> ConfidenceInterval {
    let n = u32::try_from(n).unwrap_or(u32::MAX).max(2);
    let factor = factor(n, n - 1, MEAN_ERROR);
    let widened = |bound: f64| {
        if bound > 0.0 && mean > 0.0 { mean * (bound / mean).powf(factor) } else { bound }
    };
    ConfidenceInterval { low: widened(interval.low), high: widened(interval.high) }
}

/// Probability that [`greater_beyond_noise`] finds any row, if the distributions of all of them are equal.
const GREATER_ERROR: f64 = 0.01;

/// Which of several values have become greater beyond noise, by their probabilities from [`probability_of_greater`].
///
/// Holm's correction: it bounds the probability of a single error in all rows, as a gate needs it, which must not fail a study by chance. It holds
/// for figures of the same samples, which depend on each other, and finds no less than Bonferroni's. Benjamini and Hochberg's
/// would bound the share of errors among the rows that are found, so that it could fail a study by chance.
#[expect(clippy::cast_precision_loss, reason = "there are few rows")]
pub(crate) fn greater_beyond_noise(probabilities: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let probability = |at: &usize| probabilities.get(*at).copied().unwrap_or(1.0);
    sort_by(&mut order, |a, b| probability(a).total_cmp(&probability(b)));
    let all = probabilities.len();
    let is_found =
        |(rank, at): &(usize, &usize)| probability(at) <= GREATER_ERROR / (all - rank) as f64;
    let found: Vec<usize> =
        order.iter().enumerate().take_while(is_found).map(|(_, at)| *at).collect();
    (0..all).map(|at| found.contains(&at)).collect()
}

/// The probability, by the t test, that the mean of `second` exceeds that of `first` by so much if both have the same distribution: for values
/// that may be 0, of which there is no ratio. `None` with fewer than three samples.
pub(crate) fn probability_of_greater(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.len() < 3 || second.len() < 3 {
        return None;
    }
    let freedom = u32::try_from(first.len().min(second.len()) - 1).unwrap_or(u32::MAX);
    let [before, after] = [first, second].map(MeanEstimate::of);
    let difference = after.mean - before.mean;
    if difference <= 0.0 {
        return Some(1.0);
    }
    let error = (before.variance + after.variance).sqrt();
    Some((1.0 - student_within(freedom, difference / error)) / 2.0)
}

/// The factor by which the distances of a percentile bootstrap of `n` samples are too small.
fn factor(n: u32, freedom: u32, error: f64) -> f64 {
    let n = f64::from(n.max(2));
    (n / (n - 1.0)).sqrt() * student_quantile(freedom, error) / NORMAL
}

/// The `t` that a variable with Student's t distribution exceeds in magnitude with the probability `error`.
fn student_quantile(freedom: u32, error: f64) -> f64 {
    let is_less = |t| 1.0 - student_within(freedom, t) > error;
    let (mut low, mut high) = (0.0, 1.0);
    while is_less(high) && high < T_MAX {
        (low, high) = (high, 2.0 * high);
    }
    while high - low > ROUNDING * high {
        let middle = f64::midpoint(low, high);
        if is_less(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability that a variable with Student's t distribution is within ±`t`.
///
/// M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
fn student_within(freedom: u32, t: f64) -> f64 {
    // Beyond that, the distribution is the normal one for our purposes, and the sum would be long.
    let freedom = freedom.min(1000);
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cos } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = if is_odd { 3 } else { 2 };
    while power + 2 <= freedom {
        term *= cos * cos * f64::from(power - 1) / f64::from(power);
        sum += term;
        power += 2;
    }
    if is_odd { (angle + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_students_distribution_are_those_of_the_tables() {
        let expected = [
            (1, 0.05, 12.706),
            (2, 0.05, 4.303),
            (3, 0.05, 3.182),
            (4, 0.05, 2.776),
            (5, 0.05, 2.571),
            (8, 0.05, 2.306),
            (9, 0.01, 3.250),
            (8, 0.001, 5.041),
            (1000, 0.05, 1.962),
        ];
        for (freedom, error, t) in expected {
            let actual = student_quantile(freedom, error);
            assert!((actual - t).abs() < 0.001, "{freedom} {error}: {actual}");
        }
    }

    #[test]
    fn losses_that_appear_are_greater_and_single_ones_are_not() {
        let is_greater = |first: &[f64], second: &[f64]| {
            probability_of_greater(first, second).is_some_and(|p| greater_beyond_noise(&[p])[0])
        };
        let none = [0.0; 5];
        assert!(is_greater(&none, &[1.0, 1.0, 1.0, 1.0, 0.0]));
        assert!(is_greater(&[0.0, 1e-4, 0.0, 0.0, 0.0], &[1.0; 5]));
        assert!(is_greater(&none, &[1.0; 5]));
        assert!(!is_greater(&none, &[0.0, 0.0, 1.0, 0.0, 0.0]));
        assert!(!is_greater(&none, &none) && !is_greater(&[1.0; 5], &none));
        assert_eq!(probability_of_greater(&none, &[1.0; 2]), None, "too few to tell");
    }

    #[test]
    fn the_more_rows_are_tested_the_less_is_found_by_chance() {
        // Holm's example: the smallest one is compared with a hundredth of the error, the next ones with a little more.
        let mut probabilities = vec![0.5; 100];
        probabilities[7] = 0.000_09;
        assert_eq!(greater_beyond_noise(&probabilities).iter().filter(|it| **it).count(), 1);
        probabilities[7] = 0.000_11;
        assert!(!greater_beyond_noise(&probabilities).contains(&true));
        assert_eq!(greater_beyond_noise(&[0.004, 0.02, 0.001]), [true, false, true]);
        // One that is not small enough ends the search, also for those that would be on their own.
        assert_eq!(greater_beyond_noise(&[0.006, 0.007]), [false, false]);
        assert_eq!(greater_beyond_noise(&[]), [false; 0]);
    }

    #[test]
    fn a_smaller_error_has_a_wider_interval_around_the_ratio() {
        let (first, second) = ([9.0, 10.0, 11.0, 10.0, 10.5], [8.0, 9.0, 8.5, 9.0, 8.2]);
        let ratio = 42.7 / 50.5;
        let estimate = RatioEstimate::new(&first, &second, 0.0);
        let [wide, narrow] = [0.001, 0.05].map(|error| estimate.at(error));
        assert!(narrow.contains(ratio) && wide.low < narrow.low && narrow.high < wide.high);
        // Of 7 degrees of freedom.
        assert!((narrow.low - 0.7681).abs() < 1e-4 && (narrow.high - 0.9327).abs() < 1e-4);
    }

    #[test]
    fn ratios_to_zero_have_an_interval_without_impossible_values() {
        let to_zero = |first: &[f64]| RatioEstimate::new(first, &[0.0; 3], 0.0).at(0.003);
        let none = to_zero(&[100.0, 101.0, 99.0]);
        assert_eq!((none.low, none.high), (0.0, 0.0));
        // A packet or two that were lost in each sample, and none later, may be chance among a dozen of rows.
        assert!(to_zero(&[1.0, 1.0, 2.0]).contains(1.0));
        let some = RatioEstimate::new(&[1.0, 1.1, 0.9], &[0.0, 0.0, 1.0], 0.0).at(0.05);
        assert!(some.low >= 0.0 && some.contains(1.0), "{some:?}");
    }

    #[test]
    fn the_interval_of_a_positive_mean_is_positive() {
        let values = [1.0, 1.0, 1.0, 30.0];
        let interval = widened(ConfidenceInterval::of_mean(&values), 8.25, 4);
        assert!(interval.low > 0.0 && interval.contains(8.25), "{interval:?}");
        let zeros = widened(ConfidenceInterval { low: 0.0, high: 0.5 }, 0.25, 4);
        assert!(zeros.low == 0.0 && zeros.high > 0.5, "{zeros:?}");
    }
}
