//! Carries out a study.

mod journal;
mod machine;
mod plan;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice_io::{cores, limits};

pub use journal::{Journal, JournalError, read};
pub use plan::{PlanError, StudyOptions, StudyPlan, Task, can_run};

use crate::record::Sample;

/// How often a disturbed sample is taken again.
const REPETITIONS_MAX: u32 = 2;

/// Failures of one controller in one experiment without any success, after which its other cells there are not tried.
const FAILURES_MAX: u32 = 3;

/// Failures of one controller in one cell, one after the other, after which its other rounds are not tried.
const CELL_FAILURES_MAX: u32 = 2;

/// More open files than any measurement needs. The limit is raised before the first controller starts, so that all have the same.
const OPEN_FILES: u64 = 1 << 16;

/// Samples, one after the other, that were still disturbed when they had been repeated. From then on none is repeated until one is
/// undisturbed: on a machine that is always busy, repetitions only cost time.
const DISTURBED_MAX: u32 = 3;

/// Receives the progress of a study, and says whether it was interrupted.
pub trait StudyObserver {
    /// Called before each sample: its number from 0, how many there are, and how long the others will take.
    fn on_task(&mut self, number: usize, of: usize, description: &str, left: Duration);

    /// Called after each sample.
    fn on_sample(&mut self, sample: &Sample);

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
    let mut elapsed_s = BTreeMap::new();
    let mut disturbed = 0;
    let done: BTreeSet<_> = earlier.iter().map(sample::key).collect();
    let mut failures = Failures::default();
    for sample in earlier {
        failures.add(sample);
    }
    for (number, task) in plan.tasks.iter().enumerate() {
        if done.contains(&plan.key(task)) {
            continue;
        }
        let left = plan.estimate(number, &elapsed_s);
        observer.on_task(number, plan.tasks.len(), &plan.describe(task), left);
        let mut attempt = 0;
        let sample = loop {
            if observer.is_interrupted() {
                return Ok(StudyEnd::Interrupted);
            }
            let sample = sample::empty(plan, task, attempt);
            let sample = match failures.reason_to_skip(&sample) {
                Some(why) => Sample { failure: Some(why), ..sample },
                None => sample::take(plan, task, sample, journal.folder(), &|| {
                    observer.is_interrupted()
                }),
            };
            let is_repeated = sample.machine.is_disturbed
                && sample.failure.is_none()
                && attempt < REPETITIONS_MAX
                && disturbed < DISTURBED_MAX;
            if !is_repeated || observer.is_interrupted() {
                break sample;
            }
            journal.add(&sample)?;
            attempt += 1;
        };
        if observer.is_interrupted() && !plan.is_complete(task, &sample) {
            return Ok(StudyEnd::Interrupted);
        }
        disturbed = if sample.machine.is_disturbed { disturbed + 1 } else { 0 };
        failures.add(&sample);
        elapsed_s.insert((task.experiment, task.controller), sample.elapsed_s);
        journal.add(&sample)?;
        observer.on_sample(&sample);
    }
    Ok(StudyEnd::Complete)
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
    fn reason_to_skip(&self, sample: &Sample) -> Option<String> {
        let (experiment, controller, cell, _) = sample::key(sample);
        let in_cell = self.cells.get(&(experiment.clone(), controller.clone(), cell));
        let in_experiment = self.experiments.get(&(experiment, controller));
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
mod tests {
    use super::*;
    use crate::definition::{Axis, AxisValue, Cell};

    fn sample(threads: u64, failure: Option<&str>) -> Sample {
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
        failures.add(&sample(1, None));
        for _ in 0..2 {
            assert_eq!(failures.reason_to_skip(&sample(8, None)), None);
            failures.add(&sample(8, Some("too many")));
        }
        assert!(failures.reason_to_skip(&sample(8, None)).unwrap().contains("this cell"));
        assert_eq!(failures.reason_to_skip(&sample(4, None)), None);
        assert_eq!(failures.reason_to_skip(&sample(1, None)), None);
    }

    #[test]
    fn a_controller_that_never_succeeds_is_given_up() {
        let mut failures = Failures::default();
        (1..=3).for_each(|threads| failures.add(&sample(threads, Some("no handshake"))));
        assert!(failures.reason_to_skip(&sample(4, None)).unwrap().contains("this experiment"));
    }
}
