//! Intervals of means and ratios of few samples, at the confidence that many comparisons need.

use sluice_bench::ConfidenceInterval;

/// Probability that an interval does not contain the true ratio.
pub(crate) const ERROR: f64 = 0.05;

/// The quantile of the normal distribution that bounds its middle 95 %.
const NORMAL: f64 = 1.959_964;

/// The bootstrap interval of the ratio of means, `second` / `first`, and the factor by which its distances are too small.
///
/// The percentile bootstrap of few samples is too narrow: of five samples, it excludes the true value in about 15 % of the cases instead
/// of 5 %. It is widened as T. Hesterberg proposes (What Teachers Should Know About the Bootstrap, The American Statistician 69, 2015,
/// section 4.2), by the quantiles of Student's t distribution and by the bias of the deviation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatioBootstrap {
    interval: ConfidenceInterval,
    ratio: f64,
    /// Samples of the study that has fewer.
    n: u32,
    /// Degrees of freedom.
    freedom: u32,
}

impl RatioBootstrap {
    /// Of samples whose means are greater than 0, at least two on each side.
    pub(crate) fn new(first: &[f64], second: &[f64], ratio: f64) -> Self {
        let n = first.len().min(second.len()).max(2);
        let all = first.len() + second.len();
        Self {
            interval: ConfidenceInterval::of_ratio(second, first),
            ratio,
            n: u32::try_from(n).unwrap_or(u32::MAX),
            freedom: u32::try_from(all.saturating_sub(2).max(1)).unwrap_or(u32::MAX),
        }
    }

    /// The interval that excludes the true ratio with the probability `error`.
    pub(crate) fn at(&self, error: f64) -> ConfidenceInterval {
        let factor = factor(self.n, self.freedom, error);
        // Distances are widened as factors, so that no bound is below 0.
        let widened = |bound: f64| {
            if bound > 0.0 && self.ratio > 0.0 {
                self.ratio * (bound / self.ratio).powf(factor)
            } else {
                bound
            }
        };
        let ConfidenceInterval { low, high } = self.interval;
        ConfidenceInterval { low: widened(low), high: widened(high) }
    }
}

/// The 95 % interval of a mean of `n` samples, at least two, from its percentile bootstrap.
pub(crate) fn widened(interval: ConfidenceInterval, mean: f64, n: usize) -> ConfidenceInterval {
    let n = u32::try_from(n).unwrap_or(u32::MAX).max(2);
    let factor = factor(n, n - 1, ERROR);
    let ConfidenceInterval { low, high } = interval;
    ConfidenceInterval { low: mean - (mean - low) * factor, high: mean + (high - mean) * factor }
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
    order.sort_by(|a, b| probability(a).total_cmp(&probability(b)));
    let all = probabilities.len();
    let is_found =
        |(rank, at): &(usize, &usize)| probability(at) <= GREATER_ERROR / (all - rank) as f64;
    let found: Vec<usize> =
        order.iter().enumerate().take_while(is_found).map(|(_, at)| *at).collect();
    (0..all).map(|at| found.contains(&at)).collect()
}

/// The probability of means that differ as much as those of `first` and `second`, the greater one, if both have the same distribution, by the t
/// test: for values that may be 0, of which there is no ratio. `None` with fewer than three samples.
#[expect(clippy::cast_precision_loss, reason = "there are few samples")]
pub(crate) fn probability_of_greater(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.len() < 3 || second.len() < 3 {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance_of_mean = |values: &[f64]| {
        let center = mean(values);
        let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
        squares / (values.len() - 1) as f64 / values.len() as f64
    };
    let freedom = u32::try_from(first.len().min(second.len()) - 1).unwrap_or(u32::MAX);
    let difference = mean(second) - mean(first);
    if difference <= 0.0 {
        return Some(1.0);
    }
    let error = (variance_of_mean(first) + variance_of_mean(second)).sqrt();
    Some((1.0 - student_within(freedom, difference / error)) / 2.0)
}

/// The factor by which the distances of a percentile bootstrap of `n` samples are too small.
fn factor(n: u32, freedom: u32, error: f64) -> f64 {
    let n = f64::from(n.max(2));
    (n / (n - 1.0)).sqrt() * student_quantile(freedom, error) / NORMAL
}

/// The `t` that a variable with Student's t distribution exceeds in magnitude with the probability `error`.
fn student_quantile(freedom: u32, error: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if 1.0 - student_within(freedom, middle) > error {
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
        let bootstrap = RatioBootstrap::new(&first, &second, ratio);
        let [wide, narrow] = [0.001, 0.05].map(|error| bootstrap.at(error));
        assert!(narrow.contains(ratio) && wide.low < narrow.low && narrow.high < wide.high);
        let equal = RatioBootstrap::new(&[2.0; 3], &[4.0; 3], 2.0).at(0.01);
        assert_eq!((equal.low, equal.high), (2.0, 2.0));
    }
}
