//! The section of an experiment: question, command, figures, data.

use super::super::escape::html;
use super::super::figure_data::FigureData;
use super::super::format::counted;
use super::super::summary::ExperimentSummary;
use super::{cells, experiment_id, figures, published};
use crate::definition::{Axis, Experiment};
use crate::process::shell_word;
use crate::record::StudyRecord;

pub(super) fn section(
    number: usize,
    experiment: &ExperimentSummary<'_>,
    study: &StudyRecord,
) -> String {
    let definition = &experiment.record.experiment;
    let id = experiment_id(experiment);
    let mut page = format!(
        "<section class=\"experiment\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{number}. {}</h2>\n<p>{}</p>\n",
        html(&definition.title),
        html(&definition.question)
    );
    page += &facts(experiment, study);
    for (figure, name) in experiment.figures() {
        let data = FigureData::new(experiment, figure);
        page += &figures::figure(&data, name);
        page += &published::tables(experiment, figure);
    }
    page += &published::of_unknown_figures(experiment);
    page += &cells::details(experiment);
    page + "</section>\n"
}

/// What is repeated, varied and set, and the command that repeats it.
fn facts(experiment: &ExperimentSummary<'_>, study: &StudyRecord) -> String {
    let definition = &experiment.record.experiment;
    let mut facts = Vec::new();
    if let Some(repeats) = &definition.repeats {
        facts.push(("Repeats", html(repeats)));
    }
    let axes = definition.axes.iter().map(|(axis, values)| {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        format!("{} {}", experiment.axis_name(*axis), values.join(", "))
    });
    let axes: Vec<_> = axes.collect();
    if !axes.is_empty() {
        facts.push(("Varied", html(&axes.join("; "))));
    }
    facts.push(("Settings", html(&settings(definition))));
    let rounds = counted(definition.rounds as usize, "sample", "samples");
    facts.push(("Samples", format!("{rounds} of each cell")));
    let command = html(&repeating_command(experiment, study));
    let note = if uses_home(experiment) && home(study).is_none() {
        " with the option <code>--home</code> or the variable <code>SLUICE_CONTROLLERS</code>, unless the controllers are installed in the default folder"
    } else {
        ""
    };
    facts.push(("Repeat it", format!("<code>{command}</code>{note}")));
    let entry = |(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n");
    let entries: String = facts.into_iter().map(entry).collect();
    format!("<dl class=\"facts\">\n{entries}</dl>\n")
}

/// The command that carries out the experiment as in this study: with the same controllers and as many rounds.
fn repeating_command(experiment: &ExperimentSummary<'_>, study: &StudyRecord) -> String {
    let mut words = vec!["sluice study run".to_owned()];
    if study.is_short {
        words.push("--short".to_owned());
    }
    words.push(format!("--experiments {}", experiment.record.id));
    let controllers = experiment.controllers.iter().filter(|it| it.missing.is_none());
    let controllers: Vec<_> = controllers.map(|it| it.id.as_str()).collect();
    if !controllers.is_empty() {
        words.push(format!("--controllers {}", controllers.join(",")));
    }
    words.push(format!("--rounds {}", experiment.record.experiment.rounds));
    if let Some(folder) = &study.definitions {
        words.push(format!("--definitions {}", shell_word(folder)));
    }
    if let Some(folder) = home(study).filter(|_| uses_home(experiment)) {
        words.push(format!("--home {}", shell_word(folder)));
    }
    words.join(" ")
}

/// The folder of the controllers. Studies of older versions have it only if their command line names it.
fn home(study: &StudyRecord) -> Option<&str> {
    if study.home.is_empty() { home_option(&study.command) } else { Some(&study.home) }
}

/// The folder that the option `--home` of a command line names.
fn home_option(command: &[String]) -> Option<&str> {
    let next = command.iter().skip(1).map(Some).chain([None]);
    command.iter().zip(next).find_map(|(word, next)| match word.strip_prefix("--home") {
        Some("") => next.map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    })
}

/// Whether a controller that was found is started from the folder of controllers.
fn uses_home(experiment: &ExperimentSummary<'_>) -> bool {
    let mut found = experiment.controllers.iter().filter(|it| it.missing.is_none());
    found.any(|it| serde_json::to_string(&it.row).is_ok_and(|row| row.contains("{home}")))
}

/// The settings that are the same in all cells, such as `bench: hosts 1000, switches 16`, without what is switched off.
fn settings(experiment: &Experiment) -> String {
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(&experiment.measure)
    else {
        return String::new();
    };
    let is_varied = |name: &str| {
        experiment.axes.keys().any(|axis| match axis {
            Axis::Window | Axis::WindowTotal | Axis::Rate => name == "load",
            Axis::DelayMs | Axis::RateMbit => name == "link",
            _ => axis.name().replace('-', "_") == name,
        })
    };
    let is_off = |value: &serde_json::Value| match value {
        serde_json::Value::Object(fields) => {
            fields.values().all(|it| it.as_f64().is_some_and(|it| it == 0.0))
        }
        other => other.as_f64() == Some(0.0) || other == &serde_json::Value::Bool(false),
    };
    fields.retain(|name, value| !is_varied(name) && !is_off(value));
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, it)| format!("{name} {it}")).collect();
            fields.join(" ")
        }
        other => other.to_string(),
    };
    let kind = fields.remove("kind").map(|it| text(&it)).unwrap_or_default();
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), text(value)))
        .collect();
    format!("{kind}: {}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_controllers_is_read_from_the_command_line() {
        let of = |command: &[&str]| {
            let command: Vec<_> = command.iter().map(|&it| it.to_owned()).collect();
            home_option(&command).map(str::to_owned)
        };
        assert_eq!(of(&["sluice", "--home", "a b", "--short"]).as_deref(), Some("a b"));
        assert_eq!(of(&["sluice", "--home=c"]).as_deref(), Some("c"));
        assert_eq!(of(&["sluice", "--short"]), None);
        assert_eq!(of(&["sluice", "--home"]), None);
    }
}
