//! The report as a page: one file that needs no network and no scripts.

mod cells;
mod controllers;
mod experiment;
mod figures;
mod overview;
mod published;
mod table;
mod warnings;

use super::escape::html;
use super::format::counted;
use super::summary::{ExperimentSummary, StudySummary};
use crate::definition::Figure;
use crate::record::{LeftOut, StudyRecord};

/// Colors and layout, for light and dark screens, for telephones and for paper.
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(super) fn page(study: &StudySummary<'_>) -> String {
    let record = study.record;
    let title = title(record);
    let mut content = lead(record);
    content += &overview::summary(study);
    content += &overview::machine(study);
    content += &warnings::section(study);
    content += &contents(study);
    for (number, experiment) in (1..).zip(&study.experiments) {
        content += &experiment::section(number, experiment, record);
    }
    content += &controllers::section(study);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{content}</main>\n</body>\n</html>\n"
    )
}

fn title(record: &StudyRecord) -> String {
    let n = record.controllers.iter().filter(|it| it.missing.is_none()).count();
    format!("Study of {}", counted(n, "OpenFlow controller", "OpenFlow controllers"))
}

fn lead(record: &StudyRecord) -> String {
    let StudyRecord { version, started_at, command, is_short, .. } = record;
    let form = if *is_short {
        "the short form, with fewer values and shorter measurements than the long form; its figures show the method, not the last word"
    } else {
        "the long form"
    };
    format!(
        "<p class=\"lead\">{} on one machine, one controller at a time, measured with the same emulated switches. This is {form}. \
         Started {}, with <code>{}</code> (Sluice {}). All values are in <code>samples.csv</code>, <code>processes.csv</code>, <code>summary.csv</code> and \
         <code>report.json</code> beside this page; figures for papers are in <code>latex/</code>.</p>\n",
        counted(record.experiments.len(), "experiment", "experiments"),
        html(started_at),
        html(&command.join(" ")),
        html(version),
    )
}

fn contents(study: &StudySummary<'_>) -> String {
    let one = |experiment: &ExperimentSummary<'_>| {
        let id = experiment_id(experiment);
        let figure = |(figure, name): (&Figure, &str)| {
            format!("<li><a href=\"#{}\">{}</a></li>", figure_id(name), html(&figure.title))
        };
        let figures: String = experiment.figures().map(figure).collect();
        let title = html(&experiment.record.experiment.title);
        format!("<li><a href=\"#{id}\">{title}</a><ul>{figures}</ul></li>\n")
    };
    let entries: String = study.experiments.iter().map(one).collect();
    let left_out = study.record.left_out.iter().map(|LeftOut { experiment, why }| {
        format!("<p>Left out: {}, since {}.</p>\n", html(experiment), html(why))
    });
    let left_out: String = left_out.collect();
    format!(
        "<nav aria-labelledby=\"contents\">\n<h2 id=\"contents\">Experiments</h2>\n<ol>\n{entries}</ol>\n{left_out}\
         <p><a href=\"#controllers\">How each controller was run</a></p>\n</nav>\n"
    )
}

/// The id of an experiment's heading.
fn experiment_id(experiment: &ExperimentSummary<'_>) -> String {
    format!("experiment-{}", experiment.name)
}

/// The id of a figure with this unique name.
fn figure_id(name: &str) -> String {
    format!("figure-{name}")
}
