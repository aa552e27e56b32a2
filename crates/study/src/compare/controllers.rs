//! Two controllers of one study, each as a study of its own.

use crate::record::{Sample, StudyRecord};

/// The samples of `controller`, and the plan with it alone, under `name`: two controllers of one study are compared as two studies of a
/// controller of the same name. `None` if the study does not have it.
///
/// Their rounds were interleaved and measured by one load generator, so that neither a drift of the machine nor another build of the generator
/// is among the differences.
pub fn of_controller(
    record: &StudyRecord,
    samples: &[Sample],
    controller: &str,
    name: &str,
) -> Option<(StudyRecord, Vec<Sample>)> {
    let mut record = record.clone();
    record.controllers.retain(|it| it.id == controller);
    name.clone_into(&mut record.controllers.first_mut()?.id);
    let takes_part = |all: &[String]| all.is_empty() || all.iter().any(|it| it == controller);
    record.experiments.retain(|it| takes_part(&it.experiment.controllers));
    for it in &mut record.experiments {
        it.experiment.controllers.clear();
    }
    let own = samples.iter().filter(|it| it.controller == controller);
    let samples = own.map(|it| Sample { controller: name.to_owned(), ..it.clone() }).collect();
    Some((record, samples))
}
