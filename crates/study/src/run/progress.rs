//! How far the tasks of a study have got: which samples count, which are to be repeated, and what has failed.

use std::collections::{BTreeMap, BTreeSet};

use super::Failures;
use super::sample::{self, SampleKey};
use crate::record::Sample;

/// How often a disturbed sample is taken again.
const REPETITIONS_MAX: u32 = 2;

/// Samples, one after the other, that were still disturbed when they had been repeated. From then on none is repeated until one is
/// undisturbed: on a machine that is always busy, repetitions only cost time.
const DISTURBED_MAX: u32 = 3;

/// How far the tasks of a study have got. It follows from the samples in the order in which they were taken, and is therefore the same
/// after an interruption.
#[derive(Debug, Default)]
pub(super) struct TaskProgress {
    /// Tasks that have the sample that counts.
    done: BTreeSet<SampleKey>,
    /// Tasks whose samples so far were disturbed: how many there are, and the seconds that they took.
    disturbed: BTreeMap<SampleKey, (u32, f64)>,
    /// Samples, one after the other, that count although they are disturbed.
    disturbed_in_turn: u32,
    failures: Failures,
}

impl TaskProgress {
    /// A sample was taken or skipped. If it counts, returns the seconds that its task took with all repetitions; otherwise the task is to
    /// be repeated.
    pub(super) fn add(&mut self, sample: &Sample) -> Option<f64> {
        let key = sample::key(sample);
        let (_, before_s) = self.disturbed.remove(&key).unwrap_or_default();
        let elapsed_s = before_s + sample.elapsed_s;
        let is_disturbed = sample.machine.is_disturbed;
        let is_repeated = is_disturbed
            && sample.failure.is_none()
            && sample.attempt < REPETITIONS_MAX
            && self.disturbed_in_turn < DISTURBED_MAX;
        if is_repeated {
            self.disturbed.insert(key, (sample.attempt + 1, elapsed_s));
            return None;
        }
        self.disturbed_in_turn = if is_disturbed { self.disturbed_in_turn + 1 } else { 0 };
        self.failures.add(sample);
        self.done.insert(key);
        Some(elapsed_s)
    }

    /// Whether a task has the sample that counts.
    pub(super) fn is_done(&self, key: &SampleKey) -> bool {
        self.done.contains(key)
    }

    /// Whether a sample of a task will be taken.
    pub(super) fn is_left(&self, key: &SampleKey) -> bool {
        !self.is_done(key) && self.reason_to_skip(key).is_none()
    }

    /// How many samples of a task were disturbed, so that it is to be repeated.
    pub(super) fn attempt(&self, key: &SampleKey) -> u32 {
        self.disturbed.get(key).map_or(0, |(samples, _)| *samples)
    }

    /// Why a sample is not tried, if it is not.
    pub(super) fn reason_to_skip(&self, key: &SampleKey) -> Option<String> {
        self.failures.reason_to_skip(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MachineState;
    use crate::run::tests::sample_with;

    /// A disturbed sample of the cell with this number of threads.
    fn disturbed(threads: u64, attempt: u32) -> Sample {
        let machine = MachineState { is_disturbed: true, ..MachineState::default() };
        Sample { attempt, machine, elapsed_s: 5.0, ..sample_with(threads, None) }
    }

    /// The progress of a study that goes on with these samples.
    fn progress(samples: &[Sample]) -> TaskProgress {
        let mut progress = TaskProgress::default();
        for sample in samples {
            progress.add(sample);
        }
        progress
    }

    #[test]
    fn a_disturbed_sample_before_an_interruption_is_still_repeated() {
        let key = sample::key(&disturbed(1, 0));
        let mut samples = Vec::new();
        for attempt in 0..2 {
            samples.push(disturbed(1, attempt));
            let progress = progress(&samples);
            assert!(!progress.is_done(&key) && progress.is_left(&key));
            assert_eq!(progress.attempt(&key), attempt + 1);
        }
        // Until one is undisturbed, or the repetitions are used up.
        let undisturbed = Sample { attempt: 2, elapsed_s: 5.0, ..sample_with(1, None) };
        for last in [undisturbed, disturbed(1, 2)] {
            let mut progress = progress(&samples);
            let elapsed_s = progress.add(&last).unwrap();
            assert!((elapsed_s - 15.0).abs() < 1e-9);
            assert!(progress.is_done(&key) && !progress.is_left(&key));
        }
    }

    #[test]
    fn a_failure_counts_although_it_was_disturbed() {
        let failed = Sample { failure: Some("no handshake".to_owned()), ..disturbed(1, 0) };
        assert!(progress(std::slice::from_ref(&failed)).is_done(&sample::key(&failed)));
    }

    #[test]
    fn on_a_machine_that_is_always_disturbed_nothing_is_repeated_after_an_interruption_either() {
        let samples = (1..=3).flat_map(|threads| (0..3).map(move |n| disturbed(threads, n)));
        let mut progress = progress(&samples.collect::<Vec<_>>());
        assert!(progress.add(&disturbed(4, 0)).is_some());
        // One that is not disturbed makes repetitions worth while again.
        assert!(progress.add(&sample_with(5, None)).is_some());
        assert!(progress.add(&disturbed(6, 0)).is_none());
    }
}
