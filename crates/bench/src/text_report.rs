//! A report as text for the terminal, at most 80 columns wide.

use std::fmt::Write;
use std::time::Duration;

use crate::entries::{Entries, NO_BREAK_SPACE, WARNING, unbroken};
use crate::paths::{Directions, NetworkPlan, PathFigures};
use crate::plan::{Load, ReplyCounting};
use crate::provenance::rfc3339;
use crate::report::{OfferedRates, SwitchFigures};
use crate::requests::Buffering;
use crate::statistics::DurationSummary;
use crate::text_chart::{fairness_rows, latency_rows};
use crate::{Arrivals, ControllerProcess, LatencyDistribution, Plan, Provenance, Quantile, Report};

/// Number of switches in the list of the slowest ones.
const SLOWEST: usize = 3;

/// Formats `report` as text: one labelled entry per line.
pub fn of(report: &Report) -> String {
    entries(report).to_string()
}

/// The entries of `report`, warnings included.
pub(crate) fn entries(report: &Report) -> Entries {
    let is_matched = report.plan.counting == ReplyCounting::Answers;
    let mut text = Entries::default();
    heading(&mut text, &report.plan);
    text.entry("Throughput", &throughput(report));
    if matches!(report.plan.load, Load::Rate(_)) && is_matched {
        text.entry("Offered", &offered(report));
    }
    if is_matched {
        text.entry("Latency", &latency(&report.latency));
        text.chart("Distribution", latency_rows(&report.latency));
        if report.plan.load == Load::Unlimited && report.counts.answered > 0 {
            text.entry("", &queueing_note(report));
        }
    }
    if report.switches.len() > 1 {
        let fairness = format!("{:.4} by Jain's index (1 = all switches equal)", report.fairness);
        text.entry("Fairness", &fairness);
        text.chart("", fairness_rows(&report.switches));
    }
    if report.switches.len() > SLOWEST {
        slowest(&mut text, report);
    }
    text.entry("Requests", &requests(report));
    match report.paths {
        Some(figures) => text.entry("Messages", &messages(figures)),
        None => text.entry("Replies", &replies(report)),
    }
    text.entry("Errors", &errors(report));
    text.entry("Connect", &durations(report.connect));
    text.entry("Handshake", &durations(report.handshake));
    if is_matched {
        text.entry("Outstanding", &outstanding(report));
    }
    text.entry("Generator", &generator(report));
    provenance(&mut text, &report.provenance);
    for warning in &report.warnings {
        text.entry(WARNING, warning);
    }
    text
}

/// Controller, switches and load.
pub(crate) fn heading(text: &mut Entries, plan: &Plan) {
    let targets: Vec<_> = plan.targets.iter().map(ToString::to_string).collect();
    let tls = if plan.tls.is_some() { ", over TLS" } else { "" };
    text.entry("Controller", &format!("{}{tls}", targets.join(", ")));
    match &plan.network {
        Some(network) => text.entry("Network", &network_line(plan, network)),
        None => text.entry("Switches", &switches(plan)),
    }
    let outstanding = |n: u32| counted(n.into(), "outstanding request", "outstanding requests");
    let load = match plan.load {
        Load::Window(n) => format!("{} per switch", outstanding(n)),
        Load::WindowTotal(n) => {
            // A network may have too few hosts for all of them.
            let n = plan.network.as_ref().map_or(n, |network| network.window(plan.load));
            format!("{} over all switches", outstanding(n))
        }
        Load::Unlimited => "as many outstanding requests as the sockets accept".to_owned(),
        Load::Rate(rate) => {
            let arrivals = match plan.arrivals {
                Arrivals::Fixed => "at equal intervals".to_owned(),
                Arrivals::Poisson => "at random (Poisson)".to_owned(),
                Arrivals::Burst(n) => format!("{} at a time", grouped(n.into())),
            };
            format!("{} requests/s {arrivals}, answered or not", quantity(rate))
        }
    };
    text.entry("Load", &load);
    if plan.network.is_none() {
        text.entry("Packets", &packets(plan));
    }
    text.entry("Loops", &loops(plan));
}

fn switches(plan: &Plan) -> String {
    let (switches, hosts) = (grouped(plan.switches.into()), grouped(plan.hosts.into()));
    let each = if plan.switches == 1 { "" } else { " each" };
    format!("{switches}, OpenFlow {}, {hosts} hosts{each}", plan.version)
}

fn network_line(plan: &Plan, network: &NetworkPlan) -> String {
    let NetworkPlan { shape, topology, path_len, directions, .. } = network;
    let switches = counted(topology.switches.len() as u64, "switch", "switches");
    let hosts = counted(topology.hosts.len() as u64, "host", "hosts");
    let directions = match directions {
        Directions::None => "arrival of the first packet",
        Directions::One => "one direction",
        Directions::Both => "both directions",
    };
    let path_len = counted(*path_len as u64, "switch", "switches");
    format!(
        "{shape}: {switches}, OpenFlow {}, {hosts}; paths over {path_len}, {directions}",
        plan.version
    )
}

fn packets(plan: &Plan) -> String {
    let buffering = match plan.buffering {
        Buffering::Buffered => "buffered by the switches",
        Buffering::Unbuffered => "not buffered",
    };
    let mut packets = format!("{} bytes, {buffering}", plan.frame_len);
    if plan.new_sources > 0.0 {
        let _ = write!(packets, ", {:.1} % from new sources", plan.new_sources * 100.0);
    }
    packets
}

fn loops(plan: &Plan) -> String {
    let ms = plan.loop_time.as_millis();
    let time =
        if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") };
    let mut text = format!("{} of {time}", plan.measured().len());
    if plan.warmup > 0 {
        let _ = write!(text, ", after {} of warm-up", plan.warmup);
    }
    if plan.cooldown > 0 {
        let _ = write!(text, ", before {} of cool-down", plan.cooldown);
    }
    text
}

fn throughput(report: &Report) -> String {
    let rate = report.rate;
    let deviation = if rate.mean > 0.0 { rate.deviation / rate.mean * 100.0 } else { 0.0 };
    let [low, high] = [rate.confidence.low, rate.confidence.high].map(|n| unbroken(&quantity(n)));
    format!(
        "{} {} ± {deviation:.1} %, min {}, max {}; 95 % confidence interval of the mean {low} to {high}",
        unbroken(&quantity(rate.mean)),
        unit(&report.plan),
        unbroken(&quantity(rate.min)),
        unbroken(&quantity(rate.max)),
    )
}

/// What became of the requests of an open-loop load.
fn offered(report: &Report) -> String {
    let OfferedRates { offered, sent, not_sent, answered } = report.offered;
    let rates = [
        (offered, "requests/s due"),
        (sent, "sent"),
        (answered, "answered"),
        (not_sent, "not sent"),
    ];
    rates.map(|(rate, what)| unbroken(&format!("{} {what}", quantity(rate)))).join(", ")
}

fn latency(latency: &LatencyDistribution) -> String {
    if latency.answered.is_empty() {
        return "none: no request was answered".to_owned();
    }
    let at = |q: f64| bounded_time(latency.quantile(q));
    let mean = unbroken(&seconds(latency.mean_ns() / 1e9));
    let of = if latency.unanswered > 0 { " of those answered" } else { "" };
    format!(
        "median {}, 90th percentile {}, 99th {}, 99.9th {}, max {}, mean {mean}{of}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        bounded_time(latency.max()),
    )
}

/// A latency, or its lower bound.
pub(crate) fn bounded_time(quantile: Quantile) -> String {
    let text = time(Duration::from_nanos(quantile.ns()));
    if matches!(quantile, Quantile::AtLeast(_)) {
        format!("≥{NO_BREAK_SPACE}{text}")
    } else {
        text
    }
}

/// Explains why the latency under an unlimited load says nothing about the controller.
fn queueing_note(report: &Report) -> String {
    let law = report.littles_law;
    format!(
        "Note: this is the queueing delay of {} outstanding requests (Little's law), not the response time of \
         the controller. Measure that without -t, or with --rate.",
        unbroken(&quantity(law.outstanding))
    )
}

fn slowest(text: &mut Entries, report: &Report) {
    // In a network, switches without hosts request nothing.
    let requests = |switch: &&SwitchFigures| report.paths.is_none() || switch.counts.sent > 0;
    let mut switches: Vec<_> = report.switches.iter().filter(requests).collect();
    switches.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    for (at, switch) in switches.iter().take(SLOWEST).enumerate() {
        let label = if at == 0 { "Slowest" } else { "" };
        let [median, p99, _] = switch.latency.map(bounded_time);
        let mut entry = format!(
            "{}: {} {}",
            switch.datapath_id,
            unbroken(&quantity(switch.rate)),
            unit(&report.plan)
        );
        if report.plan.counting == ReplyCounting::Answers {
            let _ = write!(entry, ", median {median}, 99th {p99}");
        }
        text.entry(label, &entry);
    }
}

fn requests(report: &Report) -> String {
    let c = report.counts;
    let counts = [
        (c.sent, "sent"),
        (c.answered, "answered"),
        (c.late, "answered late"),
        (c.never_answered, "never answered"),
    ];
    counts.map(|(n, what)| unbroken(&format!("{} {what}", grouped(n)))).join(", ")
}

fn replies(report: &Report) -> String {
    let c = report.counts;
    let always = [(c.duplicate, "duplicate"), (c.unsolicited, "unsolicited")];
    let others = [
        (c.unmatched, "that match no single request"),
        (c.two_part, "as flow entry and packet-out"),
        (c.broadcasts, "broadcast"),
        (c.other, "unrelated to requests"),
        (c.malformed, "malformed"),
    ];
    let entries = always.into_iter().chain(others.into_iter().filter(|&(n, _)| n > 0));
    let entries: Vec<_> =
        entries.map(|(n, what)| format!("{} {what}", unbroken(&grouped(n)))).collect();
    entries.join(", ")
}

/// The messages that the switches of a network executed.
fn messages(figures: PathFigures) -> String {
    format!(
        "{} flow-mods/s, {} packet-outs/s",
        unbroken(&quantity(figures.flow_mods_per_second)),
        unbroken(&quantity(figures.packet_outs_per_second))
    )
}

/// What is counted per second.
pub(crate) fn unit(plan: &Plan) -> &'static str {
    if plan.network.is_some() { "paths/s" } else { "responses/s" }
}

fn errors(report: &Report) -> String {
    let by_reason = report.errors.by_reason.iter();
    let entries: Vec<_> =
        by_reason.map(|(reason, n)| format!("{} × {reason}", unbroken(&grouped(*n)))).collect();
    if entries.is_empty() { "none".to_owned() } else { entries.join(", ") }
}

fn durations(summary: Option<DurationSummary>) -> String {
    match summary {
        None => "none".to_owned(),
        Some(DurationSummary { min, median, max }) => {
            format!("min {}, median {}, max {}", time(min), time(median), time(max))
        }
    }
}

fn outstanding(report: &Report) -> String {
    let law = report.littles_law;
    format!(
        "{} requests on average; Little's law gives {} ({:.1} % off)",
        unbroken(&quantity(law.outstanding)),
        unbroken(&quantity(law.rate * law.latency_s)),
        law.disagreement_percent
    )
}

fn generator(report: &Report) -> String {
    let busy: Vec<_> =
        report.threads.iter().map(|thread| format!("{:.0} %", thread.busy * 100.0)).collect();
    let threads = counted(busy.len() as u64, "thread", "threads");
    let spins = if report.plan.spin.is_zero() { "" } else { ", polling without sleep" };
    let mut text = format!("{threads}, busy {}{spins}", unbroken(&busy.join(", ")));
    if let Some(lag) = report.schedule_lag {
        let [median, p99, max] =
            [lag.p50_ns, lag.p99_ns, lag.max_ns].map(|ns| time(Duration::from_nanos(ns)));
        let _ = write!(text, "; sent requests late by: median {median}, 99th {p99}, max {max}");
    }
    text
}

/// Time and machine, and the process of each controller.
pub(crate) fn provenance(text: &mut Entries, provenance: &Provenance) {
    if provenance.version.is_empty() {
        return;
    }
    text.entry("Machine", &machine(provenance));
    for process in provenance.controllers.iter().flatten() {
        text.entry("Process", &controller_process(process));
    }
    let started_at = unbroken(&rfc3339(provenance.started_at));
    text.entry("Measured", &format!("{started_at}, by sluice {}", provenance.version));
}

pub(crate) fn machine(provenance: &Provenance) -> String {
    let host = &provenance.host;
    let unknown = || "unknown".to_owned();
    let cores = host.cores.map(|n| unbroken(&counted(n as u64, "core", "cores")));
    let mut parts = vec![
        host.cpu_model.clone().unwrap_or_else(unknown),
        cores.unwrap_or_else(unknown),
        host.memory_bytes.map_or_else(unknown, bytes),
        host.kernel.clone().unwrap_or_else(unknown),
    ];
    if let [Some([start, ..]), Some([end, ..])] = provenance.load_average {
        parts.push(format!("load average {start:.2} at the start, {end:.2} at the end"));
    }
    parts.join(", ")
}

pub(crate) fn controller_process(process: &ControllerProcess) -> String {
    let mut text = process.command_line.join(" ");
    if let Some(threads) = process.threads {
        let _ = write!(text, "; {}", unbroken(&counted(threads, "thread", "threads")));
    }
    if let Some(cores) = &process.allowed_cpus {
        let _ = write!(text, " on CPU cores {cores}");
    }
    if let Some(cpu) = &process.cpu {
        let [all, busiest] = [cpu.process, cpu.busiest_thread]
            .map(|share| format!("{:.0}{NO_BREAK_SPACE}%", share * 100.0));
        let _ =
            write!(text, "; busy {all}, busiest thread {busiest} ({})", cpu.busiest_thread_name);
    }
    if let [Some(before), Some(after)] = process.resident_bytes.map(|it| it.map(bytes)) {
        let _ = write!(text, "; memory {before} before, {after} after");
    }
    text
}

/// A number of bytes with an SI prefix.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn bytes(n: u64) -> String {
    let text = quantity(n as f64);
    let text = if text.contains(' ') { format!("{text}B") } else { format!("{text} B") };
    unbroken(&text)
}

/// A number with three significant digits and an SI prefix.
pub(crate) fn quantity(n: f64) -> String {
    let (n, prefix) = match n {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let digits = match n {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{n:.digits$}{prefix}")
}

/// A number with the noun in singular or plural.
pub(crate) fn counted(n: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { singular } else { plural })
}

/// A duration with three significant digits.
pub(crate) fn short_time(t: Duration) -> String {
    seconds(t.as_secs_f64())
}

/// A number with a space between groups of three digits.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A duration of which number and unit stay on one line.
fn time(t: Duration) -> String {
    unbroken(&short_time(t))
}

pub(crate) fn seconds(s: f64) -> String {
    let (n, unit) = match s {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    format!("{} {unit}", quantity(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::WIDTH;
    use crate::report::ThreadResults;

    #[test]
    fn numbers_have_three_digits_and_counts_all_of_them() {
        let quantities = [0.0, 1.5, 12.34, 999.0, 1234.0, 39_472_885.0].map(quantity);
        assert_eq!(quantities, ["0.00", "1.50", "12.3", "999", "1.23 k", "39.5 M"]);
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1 000", "1 234 567"]);
        assert_eq!([6e-6, 0.0123, 2.0].map(seconds), ["6.00 µs", "12.3 ms", "2.00 s"]);
        let switches = [1, 2, 1500].map(|n| counted(n, "switch", "switches"));
        assert_eq!(switches, ["1 switch", "2 switches", "1 500 switches"]);
    }

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let plan = Plan { load: Load::Rate(123_456.0), new_sources: 0.5, ..Plan::default() };
        let mut report = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        report.warnings.push("word ".repeat(40));
        report.latency.answered.record_n(123_456_789, u64::from(u32::MAX)).unwrap();
        report.latency.answered.record(1).unwrap();
        report.provenance.version = "0.1.0";
        report.provenance.controllers = vec![Some(ControllerProcess {
            command_line: vec!["java".to_owned(), "-jar".to_owned(), "controller.jar".to_owned()],
            resident_bytes: [Some(1 << 30), Some(2 << 30)],
            ..ControllerProcess::default()
        })];
        let text = of(&report);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
        assert!(text.starts_with("Controller"), "{text}");
        assert!(text.contains("\nDistribution 1.00 ns to "), "{text}");
        assert!(
            text.contains("java -jar controller.jar; memory 1.07 GB before, 2.15 GB"),
            "{text}"
        );
        assert!(
            text.contains("word\n             word"),
            "continuation lines are indented: {text}"
        );
    }
}
