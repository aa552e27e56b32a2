//! Carries out a study.

mod estimate;
mod journal;
mod machine;
mod plan;
mod progress;
mod sample;

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_base::ordered;
use sluice_io::{cores, limits};

pub use journal::{Journal, JournalError, read};
pub use plan::{PlanError, StudyOptions, StudyPlan, Task, can_run};

use crate::record::Sample;
use estimate::Durations;
use progress::TaskProgress;
use sample::SampleKey;

/// Failures of one controller in one experiment without any success, after which its other cells there are not tried.
const FAILURES_MAX: u32 = 3;

/// Failures of one controller in one cell, one after the other, after which its other rounds are not tried.
const CELL_FAILURES_MAX: u32 = 2;

/// More open files than any measurement needs. The limit is raised before the first controller starts, so that all have the same.
const OPEN_FILES: u64 = 1 << 16;

/// A sample that is about to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyProgress {
    /// Number of the sample, from 0, without repetitions.
    pub number: usize,
    /// How many there are, without repetitions.
    pub of: usize,
    /// How often it was taken before, and disturbed.
    pub attempt: u32,
    /// Experiment, controller and cell.
    pub description: String,
    /// How long it and all others will take, by what those so far have taken.
    pub left: Duration,
}

/// Receives the progress of a study, and says whether it was interrupted.
pub trait StudyObserver {
    /// Called before each sample, also before each repetition.
    fn on_start(&mut self, progress: &StudyProgress);

    /// Called after each sample that counts.
    fn on_sample(&mut self, sample: &Sample);

    /// Called when no repetition is left of a sample that is still disturbed: `why` is part of its warnings.
    fn on_repetitions_end(&mut self, sample: &Sample, why: &str);

    /// Whether the study is to end.
    fn is_interrupted(&self) -> bool;
}

/// How a study ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyEnd {
    /// All samples were taken.
    Complete,
    /// It was interrupted; the same command goes on with it.
    Interrupted,
}

/// Takes all samples of a plan that `journal` does not have yet.
///
/// # Errors
/// A sample could not be written.
pub fn run(
    plan: &StudyPlan,
    journal: &mut Journal,
    earlier: &[Sample],
    observer: &mut dyn StudyObserver,
) -> Result<StudyEnd, JournalError> {
    limits::raise_open_files(OPEN_FILES);
    // Whatever loads the controllers runs in threads of this one, on the same cores; controllers get cores of their own.
    cores::pin_to(&plan.record.machine.generator_cores).map_err(JournalError::Cores)?;
    let keys: Vec<_> = plan.tasks.iter().map(|task| plan.key(task)).collect();
    let (mut progress, mut durations) = resume(plan, &keys, earlier);
    for (number, (task, key)) in plan.tasks.iter().zip(&keys).enumerate() {
        while !progress.is_done(key) {
            if observer.is_interrupted() {
                return Ok(StudyEnd::Interrupted);
            }
            let attempt = progress.attempt(key);
            let sample = sample::empty(plan, task, attempt);
            let mut sample = if let Some(why) = progress.reason_to_skip(key) {
                Sample { failure: Some(why), ..sample }
            } else {
                let others = plan.tasks.iter().zip(&keys).skip(number + 1);
                let others = others.filter(|(_, key)| progress.is_left(key)).map(|(task, _)| task);
                observer.on_start(&StudyProgress {
                    number,
                    of: plan.tasks.len(),
                    attempt,
                    description: plan.describe(task),
                    left: durations.left(plan, (task, attempt), others),
                });
                let is_interrupted = || observer.is_interrupted();
                sample::take(plan, task, sample, journal.folder(), &is_interrupted)
            };
            if observer.is_interrupted() && !plan.is_complete(task, &sample) {
                return Ok(StudyEnd::Interrupted);
            }
            warn_if_not_repeated(&progress, &mut sample, observer);
            journal.add(&sample)?;
            durations.add_sample(task, &sample);
            if let Some(elapsed_s) = progress.add(&sample) {
                // Those that were skipped say nothing.
                if elapsed_s > 0.0 {
                    durations.add_task(plan, task, elapsed_s);
                }
                observer.on_sample(&sample);
            }
        }
    }
    Ok(StudyEnd::Complete)
}

/// Says of a sample that counts although it is disturbed why it is not repeated.
fn warn_if_not_repeated(
    progress: &TaskProgress,
    sample: &mut Sample,
    observer: &mut dyn StudyObserver,
) {
    let Some(why) = progress.why_not_repeated(sample) else { return };
    // Of samples without any repetition, the last sentence about one with repetitions has said it.
    if sample.attempt > 0 {
        observer.on_repetitions_end(sample, &why);
    }
    sample.warnings.push(why);
}

/// How far an earlier run of the same study has got, and how long its samples took.
fn resume(plan: &StudyPlan, keys: &[SampleKey], earlier: &[Sample]) -> (TaskProgress, Durations) {
    let tasks: BTreeMap<_, _> = ordered(keys.iter().zip(&plan.tasks));
    let (mut progress, mut durations) = (TaskProgress::default(), Durations::default());
    for sample in earlier {
        let elapsed_s = progress.add(sample).filter(|it| *it > 0.0);
        if let Some((elapsed_s, task)) = elapsed_s.zip(tasks.get(&sample::key(sample))) {
            durations.add_task(plan, task, elapsed_s);
        }
    }
    (progress, durations)
}

/// What has failed so far.
#[derive(Debug, Default)]
struct Failures {
    /// By experiment and controller: failures, and whether a sample succeeded.
    experiments: BTreeMap<(String, String), (u32, bool)>,
    /// By experiment, controller and cell: failures one after the other.
    cells: BTreeMap<(String, String, String), u32>,
}

impl Failures {
    /// A sample was taken or skipped; skipped ones have failed like those before.
    fn add(&mut self, sample: &Sample) {
        let (experiment, controller, cell, _) = sample::key(sample);
        let has_failed = sample.failure.is_some();
        let in_cell = self.cells.entry((experiment.clone(), controller.clone(), cell)).or_default();
        *in_cell = if has_failed { *in_cell + 1 } else { 0 };
        let (failed, has_succeeded) = self.experiments.entry((experiment, controller)).or_default();
        *failed += u32::from(has_failed);
        *has_succeeded |= !has_failed;
    }

    /// Why a sample is not tried, if it is not.
    fn reason_to_skip(&self, key: &SampleKey) -> Option<String> {
        let (experiment, controller, cell, _) = key;
        let in_experiment = self.experiments.get(&(experiment.clone(), controller.clone()));
        let in_cell = self.cells.get(&(experiment.clone(), controller.clone(), cell.clone()));
        if in_experiment.is_some_and(|&(failed, ok)| failed >= FAILURES_MAX && !ok) {
            return Some(format!(
                "not tried: the first {FAILURES_MAX} samples of this experiment failed"
            ));
        }
        in_cell.is_some_and(|&failed| failed >= CELL_FAILURES_MAX).then(|| {
            format!(
                "not tried: {CELL_FAILURES_MAX} samples of this cell failed one after the other"
            )
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::definition::{Axis, AxisValue, Cell};
    use crate::record::MachineState;

    pub(super) fn sample_with(threads: u64, failure: Option<&str>) -> Sample {
        let cell: Cell = [(Axis::Threads, AxisValue::Integer(threads))].into_iter().collect();
        let text = r#"{"experiment":"e","controller":"c","cell":{},"round":0,"attempt":0,"started_at":"","elapsed_s":0,
            "controller_command":"","command":"","failure":null,"figures":{},"usage":null,
            "machine":{"other_cores":0,"stolen_cores":0,"is_disturbed":false},"warnings":[]}"#;
        let sample: Sample = serde_json::from_str(text).unwrap();
        Sample { cell, failure: failure.map(str::to_owned), ..sample }
    }

    #[test]
    fn a_cell_that_fails_does_not_cost_those_that_succeed() {
        let mut failures = Failures::default();
        failures.add(&sample_with(1, None));
        for _ in 0..2 {
            assert_eq!(failures.reason_to_skip(&sample::key(&sample_with(8, None))), None);
            failures.add(&sample_with(8, Some("too many")));
        }
        assert!(
            failures
                .reason_to_skip(&sample::key(&sample_with(8, None)))
                .unwrap()
                .contains("this cell")
        );
        assert_eq!(failures.reason_to_skip(&sample::key(&sample_with(4, None))), None);
        assert_eq!(failures.reason_to_skip(&sample::key(&sample_with(1, None))), None);
    }

    #[test]
    fn a_controller_that_never_succeeds_is_given_up() {
        let mut failures = Failures::default();
        (1..=3).for_each(|threads| failures.add(&sample_with(threads, Some("no handshake"))));
        assert!(
            failures
                .reason_to_skip(&sample::key(&sample_with(4, None)))
                .unwrap()
                .contains("this experiment")
        );
    }

    #[derive(Default)]
    struct Sentences(Vec<String>);

    impl StudyObserver for Sentences {
        fn on_start(&mut self, _: &StudyProgress) {}

        fn on_sample(&mut self, _: &Sample) {}

        fn on_repetitions_end(&mut self, _: &Sample, why: &str) {
            self.0.push(why.to_owned());
        }

        fn is_interrupted(&self) -> bool {
            false
        }
    }

    #[test]
    fn that_disturbed_samples_are_not_repeated_any_more_is_said_and_recorded() {
        let (mut progress, mut observer) = (TaskProgress::default(), Sentences::default());
        let mut warnings = Vec::new();
        let attempts = (1..=3).flat_map(|threads| (0..3).map(move |attempt| (threads, attempt)));
        for (threads, attempt) in attempts.chain([(4, 0)]) {
            let machine = MachineState { is_disturbed: true, ..MachineState::default() };
            let failure = (threads == 2).then_some("no handshake");
            let mut sample = Sample { attempt, machine, ..sample_with(threads, failure) };
            warn_if_not_repeated(&progress, &mut sample, &mut observer);
            progress.add(&sample);
            warnings.extend(sample.warnings);
        }
        // The three that were repeated twice, and the one that was not repeated for that.
        assert_eq!((warnings.len(), &warnings[..3]), (4, &observer.0[..]));
        assert!(warnings[2].contains("from now on, disturbed samples are not repeated"));
        assert!(warnings[3].starts_with("it was disturbed and not repeated"));
    }
}
