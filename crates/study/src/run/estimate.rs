//! How long the rest of a study takes, learned from the samples that were taken.

use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::{StudyPlan, Task};
use crate::record::Sample;

/// Seconds that tasks of one kind took.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum_s: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, seconds: f64) {
        self.sum_s += seconds;
        self.count += 1;
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_s / f64::from(self.count))
    }
}

/// What the samples so far took: with the start and the stop of the controller, and with their repetitions.
#[derive(Debug, Clone, Default)]
pub(super) struct Durations {
    /// Tasks by experiment and controller.
    tasks: BTreeMap<(usize, usize), Mean>,
    /// Single samples by experiment and controller.
    samples: BTreeMap<(usize, usize), Mean>,
    /// By how much tasks took longer than planned, by controller: mainly its start.
    of_controllers: BTreeMap<usize, Mean>,
    /// The same by experiment.
    of_experiments: BTreeMap<usize, Mean>,
}

impl Durations {
    /// A sample was taken, also one that is repeated.
    pub(super) fn add_sample(&mut self, task: &Task, sample: &Sample) {
        self.samples.entry(pair(task)).or_default().add(sample.elapsed_s);
    }

    /// All samples of a task were taken, within `elapsed_s` together.
    pub(super) fn add_task(&mut self, plan: &StudyPlan, task: &Task, elapsed_s: f64) {
        self.tasks.entry(pair(task)).or_default().add(elapsed_s);
        let excess_s = elapsed_s - plan.planned_s(task);
        self.of_controllers.entry(task.controller).or_default().add(excess_s);
        self.of_experiments.entry(task.experiment).or_default().add(excess_s);
    }

    /// Seconds that a task will take.
    pub(super) fn of_task(&self, plan: &StudyPlan, task: &Task) -> f64 {
        self.tasks.get(&pair(task)).and_then(|it| it.get()).unwrap_or_else(|| {
            let excess_s = self.of_controllers.get(&task.controller);
            let excess_s = excess_s.or_else(|| self.of_experiments.get(&task.experiment));
            let excess_s = excess_s.and_then(|it| it.get()).unwrap_or_default();
            (plan.planned_s(task) + excess_s).max(0.0)
        })
    }

    /// Seconds that one more sample of a task will take.
    fn of_sample(&self, plan: &StudyPlan, task: &Task) -> f64 {
        let known = self.samples.get(&pair(task)).and_then(|it| it.get());
        known.unwrap_or_else(|| self.of_task(plan, task))
    }

    /// The time until the end of a study, of which `current` is being taken for the time number `attempt` (from 0), and `others` are left.
    pub(super) fn left<'t>(
        &self,
        plan: &StudyPlan,
        (current, attempt): (&Task, u32),
        others: impl Iterator<Item = &'t Task>,
    ) -> Duration {
        let current_s =
            if attempt == 0 { self.of_task(plan, current) } else { self.of_sample(plan, current) };
        let seconds = current_s + others.map(|task| self.of_task(plan, task)).sum::<f64>();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

fn pair(task: &Task) -> (usize, usize) {
    (task.experiment, task.controller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::plan::tests::plan;
    use crate::run::tests::sample_with;

    fn seconds(plan: &StudyPlan, durations: &Durations, from: usize) -> f64 {
        let (current, others) = plan.tasks[from..].split_first().unwrap();
        durations.left(plan, (current, 0), others.iter()).as_secs_f64()
    }

    /// Takes the samples of a task.
    fn take(plan: &StudyPlan, durations: &mut Durations, task: &Task, samples_s: &[f64]) {
        for elapsed_s in samples_s {
            durations.add_sample(task, &Sample { elapsed_s: *elapsed_s, ..sample_with(1, None) });
        }
        durations.add_task(plan, task, samples_s.iter().sum());
    }

    #[test]
    fn the_time_left_falls_by_what_was_taken_once_each_controller_is_known() {
        // Two experiments of three rounds, with a controller that starts at once and one that takes 20 s.
        let plan = plan(2, 2, 3);
        let mut durations = Durations::default();
        let elapsed_s =
            |task: &Task| plan.planned_s(task) + if task.controller == 0 { -1.5 } else { 18.0 };
        let total: f64 = plan.tasks.iter().map(elapsed_s).sum();
        let (mut taken, mut before) = (0.0, f64::INFINITY);
        for (number, task) in plan.tasks.iter().enumerate() {
            let left = seconds(&plan, &durations, number);
            if number >= 2 {
                assert!((left - (total - taken)).abs() < 1e-6, "{number}: {left}");
                assert!(left < before);
                before = left;
            }
            taken += elapsed_s(task);
            take(&plan, &mut durations, task, &[elapsed_s(task)]);
        }
    }

    #[test]
    fn repetitions_are_expected_where_there_were_some() {
        let plan = plan(1, 1, 4);
        let mut durations = Durations::default();
        take(&plan, &mut durations, &plan.tasks[0], &[10.0, 10.0, 10.0]);
        // Thirty seconds for each of the three that are left.
        assert!((seconds(&plan, &durations, 1) - 90.0).abs() < 1e-9);
        // A repetition is one sample only.
        let left = durations.left(&plan, (&plan.tasks[3], 2), [].into_iter());
        assert!((left.as_secs_f64() - 10.0).abs() < 1e-9);
    }
}
