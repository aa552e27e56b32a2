//! The tables of a page.

use std::time::Duration;

use super::escape;
use crate::entries::{Entries, Entry, EntryContent, WARNING};
use crate::report::Report;
use crate::text_report::{bounded_time, bytes, grouped, quantity, short_time};
use crate::{LatencyDistribution, Provenance, Quantile};

/// Most switches in a table: the slowest ones.
const SWITCHES_MAX: usize = 200;

/// A table with a heading; the columns from the second on are numbers.
fn table(caption: &str, headings: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let heading = |(at, heading): (usize, &&str)| {
        let class = if at == 0 { "" } else { " class=\"number\"" };
        format!("<th scope=\"col\"{class}>{}</th>", escape(heading))
    };
    let row = |(class, cells): &(&str, Vec<String>)| {
        let cell = |(at, cell): (usize, &String)| match at {
            0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
            _ => format!("<td class=\"number\">{}</td>", escape(cell)),
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr class=\"{class}\">{cells}</tr>\n")
    };
    let headings: String = headings.iter().enumerate().map(heading).collect();
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<details><summary>{}</summary>\n<div class=\"scroll\"><table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div></details>\n",
        escape(caption)
    )
}

/// The entries of the text report, without charts and warnings, which the page has elsewhere.
pub(super) fn entries(entries: &Entries) -> String {
    let texts = entries.0.iter().filter_map(|Entry { label, content }| match content {
        EntryContent::Text(text) if label != WARNING => Some((label.as_str(), text.as_str())),
        _ => None,
    });
    let rows = texts.map(|(label, text)| (label.to_owned(), text.to_owned())).collect::<Vec<_>>();
    facts(&rows)
}

/// A table of names and values.
fn facts(rows: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(name), escape(value))
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<div class=\"scroll\"><table>\n<tbody>\n{rows}</tbody>\n</table></div>\n")
}

/// Rate and latency of each report.
pub(super) fn runs(reports: &[Report]) -> String {
    let headings = [
        "Run",
        "Switches",
        "Responses/s",
        "Median",
        "99th",
        "Max",
        "Not answered",
        "Generator busy",
    ];
    let row = |(number, report): (u32, &Report)| {
        let busy = report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
        let mut cells = vec![
            number.to_string(),
            grouped(report.plan.switches.into()),
            quantity(report.rate.mean),
        ];
        cells.extend([0.5, 0.99, 1.0].map(|q| bounded_time(report.latency.quantile(q))));
        cells.push(grouped(report.latency.unanswered));
        cells.push(format!("{:.0} %", busy * 100.0));
        ("", cells)
    };
    let rows: Vec<_> = (1..).zip(reports).map(row).collect();
    table("Table of all measurements", &headings, &rows)
}

/// The percentiles of all latencies.
pub(super) fn percentiles(report: &Report) -> String {
    let row = |q: f64| {
        let percent = (q * 1e6).round() / 1e4;
        ("", vec![format!("{percent} %"), bounded_time(report.latency.quantile(q))])
    };
    let rows = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0].map(row);
    table("Table of percentiles", &["Percentile", "Latency"], &rows)
}

/// Each loop.
pub(super) fn loops(report: &Report) -> String {
    let headings = [
        "Loop",
        "Measured",
        "Responses/s",
        "Requests",
        "Median",
        "90th",
        "99th",
        "99.9th",
        "Max",
        "Not answered",
    ];
    let row = |figures: &crate::LoopFigures| {
        let latency: &LatencyDistribution = &figures.latency;
        let mut cells = vec![
            (figures.number + 1).to_string(),
            if figures.measured { "yes" } else { "no" }.to_owned(),
            quantity(figures.rate),
            grouped(latency.len()),
        ];
        cells.extend(latency.named_quantiles().map(|(_, quantile)| bounded_time(quantile)));
        cells.push(grouped(latency.unanswered));
        (if figures.measured { "" } else { "unmeasured" }, cells)
    };
    let rows: Vec<_> = report.loops.iter().map(row).collect();
    table("Table of loops", &headings, &rows)
}

/// Each switch, or the slowest ones if there are many.
pub(super) fn switches(report: &Report) -> String {
    let mut switches: Vec<_> = report.switches.iter().collect();
    let caption = if switches.len() > SWITCHES_MAX {
        switches.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        switches.truncate(SWITCHES_MAX);
        format!("Table of the {SWITCHES_MAX} slowest switches")
    } else {
        "Table of switches".to_owned()
    };
    let headings = [
        "Switch",
        "Responses/s",
        "Median",
        "99th",
        "Max",
        "Sent",
        "Late",
        "Never answered",
        "Handshake",
        "Disconnected",
    ];
    let row = |switch: &&crate::SwitchFigures| {
        let mut cells = vec![switch.datapath_id.to_string(), quantity(switch.rate)];
        cells.extend(switch.latency.map(|quantile: Quantile| bounded_time(quantile)));
        let counts = switch.counts;
        cells.extend([counts.sent, counts.late, counts.never_answered].map(grouped));
        cells.push(switch.handshake.map_or_else(|| "none".to_owned(), short_time));
        cells.push(switch.disconnect_reason.clone().unwrap_or_else(|| "no".to_owned()));
        ("", cells)
    };
    let rows: Vec<_> = switches.iter().map(row).collect();
    table(&caption, &headings, &rows)
}

/// Where the report comes from, and all arguments.
pub(super) fn provenance(report: &Report) -> String {
    let Provenance { command_line, restart, socket, .. } = &report.provenance;
    let mut rows = vec![("Command".to_owned(), command_line.join(" "))];
    let mut add = |name: &str, value: String| rows.push((name.to_owned(), value));
    if let Some(restart) = restart {
        add("Restart", restart.clone());
    }
    let host = &report.provenance.host;
    let unknown = || "unknown".to_owned();
    add("CPU", host.cpu_model.clone().unwrap_or_else(unknown));
    add("Cores", host.cores.map_or_else(unknown, |n| n.to_string()));
    add("Memory", host.memory_bytes.map_or_else(unknown, bytes));
    add("Kernel", host.kernel.clone().unwrap_or_else(unknown));
    add("Clock source", host.clock_source.clone().unwrap_or_else(unknown));
    for (when, load) in ["at the start", "at the end"].iter().zip(report.provenance.load_average) {
        let load = load.map(|load| load.map(|n| format!("{n:.2}")).join(", "));
        add(&format!("Load average {when}"), load.unwrap_or_else(unknown));
    }
    if let Some(socket) = socket {
        let size = |n: Option<usize>| n.map_or_else(unknown, |n| bytes(n as u64));
        add("Congestion control", socket.congestion.clone().unwrap_or_else(unknown));
        add("Send buffer", size(socket.send_buffer));
        add("Receive buffer", size(socket.recv_buffer));
        add(
            "TCP_NODELAY",
            socket
                .no_delay
                .map_or_else(unknown, |is_on| if is_on { "on" } else { "off" }.to_owned()),
        );
    }
    for process in report.provenance.controllers.iter().flatten() {
        add("Controller process", crate::text_report::controller_process(process));
        add("Controller executable", process.executable.clone().unwrap_or_else(unknown));
    }
    let plan = &report.plan;
    add("Polling", if plan.spin.is_zero() { "off".to_owned() } else { short_time(plan.spin) });
    add("Pinned to cores", format!("{:?}", plan.pin));
    add(
        "Timeout",
        short_time(Duration::from_nanos(
            u64::try_from(plan.timeout.as_nanos()).unwrap_or(u64::MAX),
        )),
    );
    add("Seed", plan.seed.to_string());
    facts(&rows)
}
