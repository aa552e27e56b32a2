//! What differs between the machines and plans of two studies.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Study;
use crate::record::{ControllerRecord, ExperimentRecord, StudyRecord};

/// Sentences about differences that may explain those of the figures.
pub(super) fn warnings(first: &StudyRecord, second: &StudyRecord) -> Vec<String> {
    let mut warnings = Vec::new();
    if first.version != second.version {
        let (a, b) = (&first.version, &second.version);
        warnings.push(format!(
            "the versions of Sluice, and with it of the load generator, differ: {a} and {b}"
        ));
    } else if are_other_builds(first, second) {
        warnings.push(
            "measured by different builds of sluice (the load generator): differences may be those of the generator"
                .to_owned(),
        );
    }
    if first.is_short != second.is_short {
        warnings.push("one study is the short form, the other the long form".to_owned());
    }
    let machines = fields(&first.machine, &second.machine, &[]);
    if !machines.is_empty() {
        warnings.push(format!("the machines differ: {}", machines.join(", ")));
    }
    for experiment in &first.experiments {
        let other = second.experiments.iter().find(|it| it.id == experiment.id);
        warnings.extend(other.and_then(|other| of_experiment(experiment, other)));
    }
    let named = |name: &str, only: Vec<&str>| {
        (!only.is_empty())
            .then(|| format!("experiments of the {name} study only: {}", only.join(", ")))
    };
    warnings.extend(named("first", missing_in(first, second)));
    warnings.extend(named("second", missing_in(second, first)));
    for controller in &first.controllers {
        let other = second.controllers.iter().find(|it| it.id == controller.id);
        warnings.extend(other.and_then(|other| of_controller(controller, other)));
    }
    warnings
}

/// A sentence about samples of a study that were taken while the machine was disturbed.
pub(super) fn disturbed(study: &Study<'_>) -> Option<String> {
    let disturbed = study.samples.iter().filter(|it| it.machine.is_disturbed).count();
    (disturbed > 0).then(|| {
        let (name, all) = (study.name, study.samples.len());
        format!("{disturbed} of {all} samples of {name} were disturbed by other programs; those that were not repeated count")
    })
}

/// Whether the programs are known and differ.
fn are_other_builds(first: &StudyRecord, second: &StudyRecord) -> bool {
    let are_known = [first, second].iter().all(|it| !it.program.is_empty());
    are_known && first.program != second.program
}

fn missing_in<'s>(own: &'s StudyRecord, other: &StudyRecord) -> Vec<&'s str> {
    let is_missing = |it: &&ExperimentRecord| !other.experiments.iter().any(|o| o.id == it.id);
    own.experiments.iter().filter(is_missing).map(|it| it.id.as_str()).collect()
}

fn of_experiment(first: &ExperimentRecord, second: &ExperimentRecord) -> Option<String> {
    let different = fields(&first.experiment.measure, &second.experiment.measure, &[]);
    (!different.is_empty())
        .then(|| format!("the settings of {} differ: {}", first.id, different.join(", ")))
}

fn of_controller(first: &ControllerRecord, second: &ControllerRecord) -> Option<String> {
    let mut different = Vec::new();
    if first.missing.is_some() != second.missing.is_some() {
        let study = if first.missing.is_some() { "first" } else { "second" };
        different.push(format!("not found in the {study} study"));
    } else if first.version != second.version {
        let [a, b] = [first, second].map(|it| {
            let version = it.version.as_deref().unwrap_or("unknown");
            version.lines().next().unwrap_or_default().to_owned()
        });
        different.push(format!("version ({a} and {b})"));
    }
    if first.command != second.command {
        different.push(format!("command ({} and {})", first.command, second.command));
    }
    let rows = fields(&first.row, &second.row, &["title", "source", "start"]);
    different.extend(rows);
    different.extend(fields(&first.environment, &second.environment, &[]));
    (!different.is_empty())
        .then(|| format!("the controller {} differs: {}", first.id, different.join(", ")))
}

/// The fields that differ, or entries of a map, with both values.
pub(crate) fn fields<T: Serialize>(first: &T, second: &T, ignored: &[&str]) -> Vec<String> {
    let object = |it: &T| match serde_json::to_value(it) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let [first, second] = [first, second].map(object);
    let names = first.keys().chain(second.keys().filter(|name| !first.contains_key(*name)));
    let of =
        |object: &Map<String, Value>, name: &str| object.get(name).cloned().unwrap_or_default();
    let pairs = names.map(|name| (name, of(&first, name), of(&second, name)));
    let different = pairs.filter(|(name, a, b)| a != b && !ignored.contains(&name.as_str()));
    different.map(|(name, a, b)| format!("{name} ({a} and {b})")).collect()
}
