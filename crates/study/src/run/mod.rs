//! Carries out a study.

mod journal;
mod machine;
mod plan;
mod sample;

use std::collections::BTreeMap;
use std::time::Duration;

pub use journal::{Journal, JournalError, read};
pub use plan::{PlanError, StudyOptions, StudyPlan, Task, can_run};

use crate::record::Sample;

/// How often a disturbed sample is taken again.
const REPETITIONS_MAX: u32 = 2;

/// Failures of one controller in one experiment, one after the other, after which its other cells there are not tried.
const FAILURES_MAX: u32 = 3;

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
    let mut elapsed_s = BTreeMap::new();
    let mut disturbed = 0;
    let mut failures: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (number, task) in plan.tasks.iter().enumerate() {
        if earlier.iter().any(|sample| plan.is_of(sample, task)) {
            continue;
        }
        let left = plan.estimate(number, &elapsed_s);
        observer.on_task(number, plan.tasks.len(), &plan.describe(task), left);
        let failed = failures.entry((task.experiment, task.controller)).or_default();
        let mut attempt = 0;
        let sample = loop {
            if observer.is_interrupted() {
                return Ok(StudyEnd::Interrupted);
            }
            let sample = if *failed >= FAILURES_MAX {
                sample::skipped(plan, task, *failed)
            } else {
                sample::take(plan, task, attempt, journal.folder(), &|| observer.is_interrupted())
            };
            let is_repeated = sample.machine.is_disturbed
                && sample.failure.is_none()
                && attempt < REPETITIONS_MAX
                && disturbed < DISTURBED_MAX;
            if !is_repeated {
                break sample;
            }
            attempt += 1;
        };
        if observer.is_interrupted() {
            return Ok(StudyEnd::Interrupted);
        }
        disturbed = if sample.machine.is_disturbed { disturbed + 1 } else { 0 };
        *failed = if sample.failure.is_some() { *failed + 1 } else { 0 };
        elapsed_s.insert((task.experiment, task.controller), sample.elapsed_s);
        journal.add(&sample)?;
        observer.on_sample(&sample);
    }
    Ok(StudyEnd::Complete)
}
