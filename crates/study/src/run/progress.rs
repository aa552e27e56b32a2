//! How far the tasks of a study have got: which samples count, which are to be repeated, and what has failed.

use std::collections::{BTreeMap, BTreeSet};

use super::Failures;
use super::sample::{self, SampleKey};
use crate::record::{MachineState, Sample};

/// How often a disturbed sample is taken again, whether it has figures or has failed.
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
        if is_disturbed && self.has_repetitions_left(sample) {
            self.disturbed.insert(key, (sample.attempt + 1, elapsed_s));
            return None;
        }
        if is_disturbed {
            self.disturbed_in_turn += 1;
        } else if shows_the_machine(sample) {
            self.disturbed_in_turn = 0;
        }
        self.failures.add(sample);
        self.done.insert(key);
        Some(elapsed_s)
    }

    /// Whether a sample would be taken again if it were disturbed.
    fn has_repetitions_left(&self, sample: &Sample) -> bool {
        sample.attempt < REPETITIONS_MAX && self.disturbed_in_turn < DISTURBED_MAX
    }

    /// Why a sample that is about to be added counts although it is disturbed, if that is so.
    pub(super) fn why_not_repeated(&self, sample: &Sample) -> Option<String> {
        if !sample.machine.is_disturbed || self.has_repetitions_left(sample) {
            return None;
        }
        let until = "disturbed samples are not repeated until one is undisturbed";
        Some(if sample.attempt < REPETITIONS_MAX {
            format!(
                "it was disturbed and not repeated: since {DISTURBED_MAX} samples stayed disturbed, {until}"
            )
        } else if self.disturbed_in_turn + 1 == DISTURBED_MAX {
            format!(
                "it was still disturbed after {REPETITIONS_MAX} repetitions, as the {} samples before it: from now on, {until}",
                DISTURBED_MAX - 1
            )
        } else {
            format!(
                "it was still disturbed after {REPETITIONS_MAX} repetitions, and is not repeated again"
            )
        })
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

/// Whether a sample says what else ran on the machine: one that was skipped does not, nor does a start that failed within a second.
fn shows_the_machine(sample: &Sample) -> bool {
    let is_started = sample.failure.is_none() || sample.usage.is_some();
    is_started || sample.machine != MachineState::default()
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_failure_counts_only_if_it_was_not_disturbed_or_stays_disturbed() {
        let failed =
            |attempt| Sample { failure: Some("no handshake".to_owned()), ..disturbed(1, attempt) };
        let key = sample::key(&failed(0));
        let mut samples = vec![failed(0), failed(1)];
        let progress_so_far = progress(&samples);
        assert!(progress_so_far.is_left(&key));
        assert_eq!((progress_so_far.attempt(&key), samples.len()), (2, 2));
        samples.push(failed(2));
        assert!(progress(&samples).is_done(&key));
        let undisturbed = Sample { machine: MachineState::default(), ..failed(0) };
        assert!(progress(&[undisturbed]).is_done(&key));
        // What was repeated is no reason to give up the other rounds: only the last one of three failures counts.
        let next = Sample { round: 1, ..failed(0) };
        assert_eq!(progress(&samples).reason_to_skip(&sample::key(&next)), None);
    }

    #[test]
    fn the_end_of_repetitions_has_a_reason() {
        let mut progress = TaskProgress::default();
        let mut why = |sample: Sample| {
            let why = progress.why_not_repeated(&sample).unwrap_or_default();
            let is_counted = progress.add(&sample).is_some();
            assert_eq!(is_counted, !sample.machine.is_disturbed || !why.is_empty());
            why
        };
        let still = "it was still disturbed after 2 repetitions";
        for threads in 1..=3 {
            assert_eq!([0, 1].map(|attempt| why(disturbed(threads, attempt))), [""; 2]);
            let reason = why(disturbed(threads, 2));
            assert!(reason.starts_with(still), "{reason}");
            assert_eq!(reason.contains("from now on"), threads == 3, "{reason}");
        }
        let reason = why(disturbed(4, 0));
        assert!(reason.starts_with("it was disturbed and not repeated"), "{reason}");
        assert_eq!([why(sample_with(5, None)), why(disturbed(6, 0))], [""; 2]);
    }

    #[test]
    fn on_a_machine_that_is_always_disturbed_nothing_is_repeated_after_an_interruption_either() {
        let samples = (1..=3).flat_map(|threads| (0..3).map(move |n| disturbed(threads, n)));
        let mut progress = progress(&samples.collect::<Vec<_>>());
        assert!(progress.add(&disturbed(4, 0)).is_some());
        // Nor after samples that say nothing of the machine: one that was skipped, and a start that failed at once.
        for elapsed_s in [0.0, 0.3] {
            let failed = Sample { elapsed_s, ..sample_with(7, Some("not tried")) };
            assert!(progress.add(&failed).is_some());
        }
        assert!(progress.add(&disturbed(8, 0)).is_some());
        // One that is not disturbed makes repetitions worth while again.
        assert!(progress.add(&sample_with(5, None)).is_some());
        assert!(progress.add(&disturbed(6, 0)).is_none());
    }
}
