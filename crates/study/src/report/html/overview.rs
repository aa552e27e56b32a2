//! The summary of all controllers, and the machine.

use super::super::escape::html;
use super::super::format::{self, THIN_SPACE, counted};
use super::super::headline::{Headline, ProcessSummary};
use super::super::processes::{self, ProcessGroup};
use super::super::summary::StudySummary;
use super::experiment_id;
use super::table::{Table, TableCell, headings};
use crate::record::{ControllerRecord, Machine};

/// A table with a row for each controller.
pub(super) fn summary(study: &StudySummary<'_>) -> String {
    let columns = [Headline::throughput(study), Headline::latency(study)];
    let names = [
        "Controller",
        "Language",
        "Application",
        "OpenFlow",
        "Version",
        "Start-up, mean",
        "Peak memory",
        "Throughput, best cell",
        "Latency, best cell",
        "Survived",
        "Restarts",
    ];
    let mut table = Table::new("Controllers", headings(names)).below_heading();
    for controller in &study.record.controllers {
        table.row(row(study, controller, columns.as_ref()));
    }
    let sources = ["throughput", "latency"].iter().zip(&columns).filter_map(|(name, column)| {
        let Headline { experiment, figure, .. } = column.as_ref()?;
        let id = experiment_id(experiment);
        let title = html(&experiment.record.experiment.title);
        let figure = html(&figure.title);
        Some(format!("{name}: “{figure}” of <a href=\"#{id}\">{title}</a>"))
    });
    let sources: Vec<_> = sources.collect();
    let table = table.finish();
    let disturbed = if table.contains('†') { " †: with disturbed samples." } else { "" };
    let note = if sources.is_empty() {
        String::new()
    } else {
        format!(
            "<p class=\"note\">The best cell is the combination of settings with the best mean; {}. The experiments show all cells.{disturbed}</p>\n",
            sources.join("; ")
        )
    };
    format!("<h2>Summary</h2>\n{table}{note}{}", processes(study))
}

/// The processes of controllers that have several; empty if none has.
fn processes(study: &StudySummary<'_>) -> String {
    let names = [
        "Controller",
        "Process",
        "Number",
        "Processor time",
        "Peak memory",
        "Threads",
        "Ended early",
    ];
    let mut table = Table::new("Processes", headings(names)).below_heading();
    let mut is_empty = true;
    for controller in &study.record.controllers {
        let groups = processes::of_controller(study.samples, &controller.id);
        if groups.iter().map(|group| group.most).sum::<usize>() < 2 {
            continue;
        }
        is_empty = false;
        let total_s: f64 = groups.iter().map(|group| group.cpu_s).sum();
        for group in groups {
            table.row(process_row(controller, &group, total_s));
        }
    }
    if is_empty {
        return String::new();
    }
    format!(
        "<h3>Processes</h3>\n<p class=\"note\">Controllers of which more than one process ran after they were ready, over all samples: the largest number \
         of processes of a name at a time, their share of the processor time in this table, and the largest memory and number of threads of one \
         of them. Processes that start and end between two readings are not seen. What each of them used over time is in \
         <code>samples.jsonl</code>.</p>\n{}",
        table.finish()
    )
}

fn process_row(
    controller: &ControllerRecord,
    group: &ProcessGroup<'_>,
    total_s: f64,
) -> Vec<TableCell> {
    let share = if total_s > 0.0 { group.cpu_s / total_s * 100.0 } else { 0.0 };
    let ended = group.samples_ended_early;
    vec![
        TableCell::Head(controller.row.title.clone()),
        TableCell::Text(group.name.to_owned()),
        TableCell::Number(group.most.to_string()),
        TableCell::Number(format!("{}{THIN_SPACE}%", format::three_digits(share))),
        TableCell::Number(memory_text(group.peak_resident_bytes)),
        TableCell::Number(group.peak_threads.to_string()),
        if ended == 0 {
            TableCell::Text("no".to_owned())
        } else {
            TableCell::Failed(format!(
                "in {ended} of {}",
                counted(group.samples, "sample", "samples")
            ))
        },
    ]
}

fn row(
    study: &StudySummary<'_>,
    controller: &ControllerRecord,
    columns: &[Option<Headline<'_, '_>>],
) -> Vec<TableCell> {
    let none = || TableCell::Text("–".to_owned());
    let row = &controller.row;
    let mut cells = vec![
        TableCell::Head(row.title.clone()),
        TableCell::Text(row.language.clone()),
        TableCell::Text(row.application_name().to_owned()),
        TableCell::Text(versions(&row.openflow)),
    ];
    cells.push(match (&controller.missing, &controller.version) {
        (Some(missing), _) => TableCell::Failed(format!("not found: {missing}")),
        (None, Some(version)) => TableCell::Text(version.lines().next().unwrap_or("").to_owned()),
        (None, None) => TableCell::Text("found".to_owned()),
    });
    let process = ProcessSummary::of(study.samples, &controller.id);
    cells.push(process.start_up_s.map_or_else(none, |mean| {
        // Of studies by earlier versions, it is not known.
        let resolution = process.start_up_resolution_s;
        let mean_text = html(&format::value(mean, "s"));
        if resolution >= mean {
            return TableCell::Markup(format!("≤{THIN_SPACE}{mean_text}"));
        }
        let less = if resolution > 0.0 {
            let resolution = html(&format::value(resolution, "s"));
            format!("<br><small>or up to {resolution} less</small>")
        } else {
            String::new()
        };
        TableCell::Markup(format!("{mean_text}{less}"))
    }));
    let peak = process.peak_mib.map(|it| TableCell::Number(format::value(it, "MiB")));
    cells.push(peak.unwrap_or_else(none));
    for column in columns {
        let best = column.as_ref().and_then(|it| Some((it, it.best(&controller.id)?)));
        cells.push(best.map_or_else(none, |(column, (cell, metric))| {
            let value = html(&metric.mean_text(&column.figure.unit));
            let cell = html(&cell.text());
            TableCell::Markup(format!("<strong>{value}</strong><br><small>{cell}</small>"))
        }));
    }
    cells.push(survival(&process));
    let ProcessSummary { observed, restarts, .. } = process;
    cells.push(match restarts {
        0 if observed == 0 => none(),
        0 => TableCell::Text("none".to_owned()),
        n => TableCell::Failed(format!("{n}: it ended before it was ready, and was started again")),
    });
    cells
}

/// Whether it was ready in each sample, and ran until it was stopped.
fn survival(process: &ProcessSummary) -> TableCell {
    let ProcessSummary { tried, observed, survived, .. } = *process;
    let ended = observed.saturating_sub(survived);
    let started = || format!("started in {observed} of {}", counted(tried, "sample", "samples"));
    match (observed < tried, ended) {
        (false, _) if observed == 0 => TableCell::Text("–".to_owned()),
        (false, 0) => TableCell::Text("yes".to_owned()),
        (false, n) => TableCell::Failed(format!("no, ended early in {n} of {observed} samples")),
        (true, 0) => TableCell::Failed(started()),
        (true, n) => TableCell::Failed(format!("{}, ended early in {n} of them", started())),
    }
}

/// The version that is measured, and the others.
fn versions(all: &[String]) -> String {
    match all.split_first() {
        None => String::new(),
        Some((first, [])) => first.clone(),
        Some((first, others)) => format!("{first} (also {})", others.join(", ")),
    }
}

/// The machine, and what else happened on it.
pub(super) fn machine(study: &StudySummary<'_>) -> String {
    let Machine {
        cpu_model,
        cores,
        sockets,
        governor,
        kernel,
        memory_bytes,
        congestion,
        generator_cores,
        controller_cores,
    } = &study.record.machine;
    let text = |it: &Option<String>| it.clone().unwrap_or_else(|| "unknown".to_owned());
    let list = |cores: &[usize]| {
        let numbers: Vec<_> = cores.iter().map(ToString::to_string).collect();
        if numbers.is_empty() { "not pinned".to_owned() } else { numbers.join(", ") }
    };
    let n = cores.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let sockets = if sockets.is_empty() {
        String::new()
    } else {
        format!(" ({}: {})", counted(sockets.len(), "socket", "sockets"), sockets.join("; "))
    };
    let memory = memory_bytes.map_or_else(|| "unknown".to_owned(), memory_text);
    let entries = [
        ("Processor", text(cpu_model)),
        ("Cores (hardware threads)", format!("{n}{sockets}")),
        ("Memory", memory),
        ("Frequency governor", text(governor)),
        ("Kernel", text(kernel)),
        ("TCP congestion control", text(congestion)),
        ("Cores of the load generator", list(generator_cores)),
        ("Cores of the controller", list(controller_cores)),
        ("Samples", counted(study.samples.len(), "sample", "samples")),
        ("Disturbed samples", disturbed(study)),
        ("Taken by the hypervisor (steal)", steal(study)),
    ];
    let mut table = Table::new("Machine", headings(["Property", "Value"])).below_heading();
    for (name, value) in entries {
        table.row(vec![TableCell::Head(name.to_owned()), TableCell::Text(value)]);
    }
    format!("<h2>Machine</h2>\n{}", table.finish())
}

#[expect(clippy::cast_precision_loss, reason = "a text of three digits")]
fn memory_text(bytes: u64) -> String {
    format::value(bytes as f64, "B")
}

fn disturbed(study: &StudySummary<'_>) -> String {
    let cells = || study.experiments.iter().flat_map(|experiment| &experiment.cells);
    let repeated: usize = cells().map(|cell| cell.repeated.len()).sum();
    let samples = cells().flat_map(|cell| &cell.samples);
    let kept = samples.filter(|sample| sample.machine.is_disturbed).count();
    if repeated + kept == 0 {
        return "none".to_owned();
    }
    format!("{repeated} repeated, {kept} kept although they were disturbed, and marked †")
}

fn steal(study: &StudySummary<'_>) -> String {
    let stolen = || study.samples.iter().map(|sample| sample.machine.stolen_cores);
    let n = f64::from(u32::try_from(study.samples.len().max(1)).unwrap_or(u32::MAX));
    let [mean, max] = [stolen().sum::<f64>() / n, stolen().fold(0.0, f64::max)]
        .map(|it| format!("{}{THIN_SPACE}cores", format::three_digits(it)));
    format!("mean {mean}, at most {max} in a sample")
}
