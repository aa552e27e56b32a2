//! Distributions of several rounds as one.

use std::collections::BTreeSet;

use sluice_base::ordered;

use crate::record::Sample;

/// The median of the rounds' latencies at each share, in microseconds, by share. Requests without an answer are slower than all others: the function
/// ends at the last share of which the median has an answer. A round without a distribution has no answers.
pub(crate) fn quantile_function<'s>(samples: impl Iterator<Item = &'s Sample>) -> Vec<(f64, f64)> {
    let rounds: Vec<&[(f64, f64)]> = samples.map(|it| it.distribution.as_slice()).collect();
    // Shares as bits, which have the order of the numbers since these are not negative.
    let shares: BTreeSet<u64> =
        ordered(rounds.iter().copied().flatten().map(|(share, _)| share.clamp(0.0, 1.0).to_bits()));
    let median = |share: f64| {
        let latency = |round: &&[(f64, f64)]| latency_at(round, share).unwrap_or(f64::INFINITY);
        let all: Vec<_> = rounds.iter().map(latency).collect();
        sluice_bench::median(&all)
    };
    let point = |bits: u64| {
        let share = f64::from_bits(bits);
        (share, median(share))
    };
    shares.into_iter().map(point).take_while(|(_, latency)| latency.is_finite()).collect()
}

/// Whether [`quantile_function`] has a point.
pub(crate) fn has_median<'s>(samples: impl Iterator<Item = &'s Sample>) -> bool {
    let (answered, others): (Vec<_>, Vec<_>) =
        samples.partition(|sample| !sample.distribution.is_empty());
    answered.len() > others.len()
}

/// The latency at `share`, interpolated between the shares that were recorded; `None` beyond the last of them.
fn latency_at(round: &[(f64, f64)], share: f64) -> Option<f64> {
    let after = round.iter().position(|(it, _)| *it >= share)?;
    let (to, high) = *round.get(after)?;
    let Some((from, low)) = after.checked_sub(1).and_then(|at| round.get(at)) else {
        return Some(high);
    };
    let part = if to > *from { (share - from) / (to - from) } else { 1.0 };
    Some(low + part * (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_between_two_shares_is_interpolated() {
        let round = [(0.0, 10.0), (0.5, 20.0), (1.0, 100.0)];
        let all = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| latency_at(&round, share).unwrap());
        assert_eq!(all.map(f64::to_bits), [10.0, 15.0, 20.0, 60.0, 100.0f64].map(f64::to_bits));
        assert_eq!(latency_at(&[], 0.5), None);
        assert_eq!(latency_at(&round[..2], 0.75), None, "the requests beyond have no answer");
    }
}
