//! Measurements of `sluice bench` and `sluice bench paths`.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_bench::paths::{Directions, NetworkPlan};
use sluice_bench::{
    Buffering, LatencyDistribution, Load, NotSent, Plan, Quantile, Report, SwitchFigures,
};
use sluice_openflow::Version;

use super::beside::Beside;
use super::control_link::{self, ControlLink, link_command};
use super::observer::{Observer, Used};
use super::{LOOPS, Measured, Subject, churn, loops};
use crate::definition::{
    Axis, AxisValue, BenchSettings, Cell, ControllerRow, LoadSetting, PathsSettings,
};

/// Share of a flood below which a sample has a warning.
const FLOOD_SHARE_MIN: f64 = 0.9;

/// Points of a recorded distribution.
const QUANTILES: u32 = 200;

/// The settings of a cell: those of the experiment, overridden by the axes, with the warm-up that the controller needs.
pub(super) fn resolve(settings: &BenchSettings, cell: &Cell, row: &ControllerRow) -> BenchSettings {
    let mut resolved = settings.clone();
    resolved.warm_up_s = resolved.warm_up_s.max(row.warm_up_s);
    for (axis, value) in cell {
        match axis {
            Axis::Switches => resolved.switches = whole(value),
            Axis::Hosts => resolved.hosts = whole(value),
            Axis::Window => resolved.load = LoadSetting::Window(whole(value)),
            Axis::WindowTotal => resolved.load = LoadSetting::WindowTotal(whole(value)),
            Axis::Rate => resolved.load = LoadSetting::Rate(number(value)),
            Axis::NewSources => resolved.new_sources = number(value),
            Axis::Flood => resolved.flood = whole(value),
            Axis::Churn => resolved.churn = whole(value),
            Axis::DelayMs => resolved.link.delay_ms = number(value),
            Axis::RateMbit => resolved.link.rate_mbit = number(value),
            // Those of the controller, and those that were refused when the experiment was read.
            Axis::Threads
            | Axis::Cores
            | Axis::Variant
            | Axis::Topology
            | Axis::Invalid
            | Axis::FrameBytes => {}
        }
    }
    resolved
}

/// The same of paths.
pub(super) fn resolve_paths(
    settings: &PathsSettings,
    cell: &Cell,
    row: &ControllerRow,
) -> PathsSettings {
    let mut resolved = settings.clone();
    resolved.warm_up_s = resolved.warm_up_s.max(row.warm_up_s);
    if let Some(AxisValue::Text(topology)) = cell.get(&Axis::Topology) {
        resolved.topology.clone_from(topology);
    }
    if let Some(window) = cell.get(&Axis::Window) {
        resolved.window = whole(window);
    }
    resolved
}

/// A value as a whole number; 0 if it is none.
pub(crate) fn whole(value: &AxisValue) -> u32 {
    match value {
        AxisValue::Integer(n) => u32::try_from(*n).unwrap_or(u32::MAX),
        _ => 0,
    }
}

pub(super) fn number(value: &AxisValue) -> f64 {
    value.as_number().unwrap_or_default()
}

fn milliseconds(seconds: f64) -> u128 {
    Duration::try_from_secs_f64(seconds).unwrap_or_default().as_millis()
}

/// The plan of the bench.
fn plan(settings: &BenchSettings, target: SocketAddr, version: Version, cores: &[usize]) -> Plan {
    let (loop_time, warmup) = loops(settings.seconds, settings.warm_up_s);
    Plan {
        targets: vec![target],
        switches: settings.switches,
        version,
        hosts: settings.hosts,
        load: match settings.load {
            LoadSetting::Unlimited => Load::Unlimited,
            LoadSetting::Window(n) => Load::Window(n),
            LoadSetting::WindowTotal(n) => Load::WindowTotal(n),
            LoadSetting::Rate(rate) => Load::Rate(rate),
        },
        buffering: if settings.buffered { Buffering::Buffered } else { Buffering::Unbuffered },
        new_sources: settings.new_sources,
        loops: warmup + LOOPS,
        warmup,
        loop_time,
        delay: Duration::try_from_secs_f64(settings.delay_s).unwrap_or_default(),
        pin: cores.to_vec(),
        dpid_offset: if settings.churn > 0 { churn::DPID_OFFSET } else { 1 },
        ..Plan::default()
    }
}

/// The command line of the same measurement.
pub(super) fn command(settings: &BenchSettings, version: Version, cores: &[usize]) -> String {
    let (loop_time, warm_up) = loops(settings.seconds, settings.warm_up_s);
    let load = match settings.load {
        LoadSetting::Unlimited => "-t".to_owned(),
        LoadSetting::Window(n) => format!("--window {n}"),
        LoadSetting::WindowTotal(n) => format!("--window-total {n}"),
        LoadSetting::Rate(rate) => format!("--rate {rate} --spin 0"),
    };
    let option = |is_given: bool, text: String| if is_given { text } else { String::new() };
    let parts = [
        link_command(&settings.link),
        format!(
            "sluice bench -s {} -M {} {load} --openflow {version} -l {} -w {warm_up} -m {} -D {}",
            settings.switches,
            settings.hosts,
            warm_up + LOOPS,
            loop_time.as_millis(),
            milliseconds(settings.delay_s),
        ),
        option(!settings.link.is_ideal(), format!(" -p {}", control_link::PORT)),
        option(!settings.buffered, " --no-buffer".to_owned()),
        option(settings.new_sources > 0.0, format!(" --new-sources {}", settings.new_sources)),
        pinning(cores),
        option(
            settings.flood > 0,
            format!(" & sluice bench flood --rate {} --seconds 3600", settings.flood),
        ),
    ];
    parts.concat()
}

fn pinning(cores: &[usize]) -> String {
    let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
    if cores.is_empty() { String::new() } else { format!(" --pin {}", cores.join(",")) }
}

/// Measures packet-ins of single switches.
pub(super) fn measure(
    settings: &BenchSettings,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let settings = resolve(settings, cell, subject.row);
    let link = ControlLink::open(&settings.link, subject.target)?;
    let plan = plan(&settings, link.target(), subject.version, subject.generator_cores);
    let beside = Beside {
        target: link.target(),
        version: subject.version,
        flood: settings.flood,
        churn: settings.churn,
    };
    let mut observer = Observer::new(subject.controller, &plan);
    let bench = || sluice_bench::run(&plan, &mut observer).map_err(|error| error.to_string());
    let (report, counts) = beside.run_with(bench)?;
    require_all_switches(&report)?;
    require_answers(&report)?;
    let mut measured = figures(&report, &observer.used());
    if let Some(flood) = counts.flood {
        measured.set("flood_per_s", flood.established_per_s);
        if flood.established_per_s < FLOOD_SHARE_MIN * f64::from(settings.flood) {
            measured.warnings.push(format!(
                "the flood opened {:.0} connections per second instead of {}",
                flood.established_per_s, settings.flood
            ));
        }
    }
    if let Some(churn) = counts.churn {
        measured.set("changes", f64::from(u32::try_from(churn.changes).unwrap_or(u32::MAX)));
        if churn.connected_most < churn.switches {
            measured.warnings.push(format!(
                "at most {} of {} switches of the network that changes were connected",
                churn.connected_most, churn.switches
            ));
        }
    }
    if settings.distribution {
        measured.distribution = distribution(&report);
    }
    if settings.after_s > 0.0 {
        let after = Duration::try_from_secs_f64(settings.after_s).unwrap_or_default();
        subject.controller.observe_for(after, is_interrupted);
        #[expect(clippy::cast_precision_loss, reason = "memory is below 2^53")]
        let resident = subject.controller.resident_bytes() as f64;
        measured.set("resident_after_mib", resident / MIB);
    }
    Ok(measured)
}

/// Fails unless all switches of the plan took part: with fewer, the figures would be those of another number of switches. A switch that was
/// disconnected has taken part if it had answers in the measured loops.
pub(crate) fn require_all_switches(report: &Report) -> Result<(), String> {
    let takes_part = |it: &&SwitchFigures| {
        it.handshake.is_some() && (it.disconnect_reason.is_none() || it.rate > 0.0)
    };
    let mut others = report.switches.iter().filter(|it| !takes_part(it));
    let why = others.find_map(|it| it.disconnect_reason.as_deref());
    let ready = report.switches.iter().filter(takes_part).count();
    let all = report.plan.switches;
    if u32::try_from(ready).is_ok_and(|ready| ready >= all) {
        return Ok(());
    }
    let why = why.unwrap_or("the others did not complete the handshake in time");
    Err(format!("only {ready} of {all} switches took part: {why}"))
}

/// Fails unless a request was answered in the measured loops. Answers before or after them are no rate.
fn require_answers(report: &Report) -> Result<(), String> {
    if report.rate.mean > 0.0 {
        return Ok(());
    }
    Err("no request was answered in the measured time".to_owned())
}

/// The plan of `bench paths`.
fn paths_plan(
    settings: &PathsSettings,
    target: SocketAddr,
    version: Version,
    cores: &[usize],
) -> Result<Plan, sluice_bench::Error> {
    let network = NetworkPlan::from_shape(&settings.topology, Directions::Both)?;
    let (loop_time, warmup) = loops(settings.seconds, settings.warm_up_s);
    Ok(Plan {
        targets: vec![target],
        version,
        loops: warmup + LOOPS,
        warmup,
        loop_time,
        delay: Duration::try_from_secs_f64(settings.delay_s).unwrap_or_default(),
        pin: cores.to_vec(),
        ..Plan::for_network(network, settings.window)
    })
}

/// The command line of the same measurement.
pub(super) fn paths_command(settings: &PathsSettings, version: Version, cores: &[usize]) -> String {
    let (loop_time, warm_up) = loops(settings.seconds, settings.warm_up_s);
    format!(
        "sluice bench paths --topo {} --window {} --openflow {version} -l {} -w {warm_up} -m {} -D {}{}",
        settings.topology,
        settings.window,
        warm_up + LOOPS,
        loop_time.as_millis(),
        milliseconds(settings.delay_s),
        pinning(cores),
    )
}

/// Measures paths through a network.
pub(super) fn measure_paths(
    settings: &PathsSettings,
    cell: &Cell,
    subject: &mut Subject<'_>,
) -> Result<Measured, String> {
    let settings = resolve_paths(settings, cell, subject.row);
    let plan = paths_plan(&settings, subject.target, subject.version, subject.generator_cores)
        .map_err(|error| error.to_string())?;
    let mut observer = Observer::new(subject.controller, &plan);
    let report = sluice_bench::run(&plan, &mut observer).map_err(|error| error.to_string())?;
    let mut measured = figures(&report, &observer.used());
    if let Some(paths) = &report.paths {
        measured.set("flow_mods_per_s", paths.flow_mods_per_second);
        measured.set("packet_outs_per_s", paths.packet_outs_per_second);
    }
    if report.rate.mean <= 0.0 {
        return Err("no path was installed in the measured time".to_owned());
    }
    Ok(measured)
}

/// Bytes in a MiB.
pub(super) const MIB: f64 = 1_048_576.0;

/// What an experiment may show of a report of the bench.
#[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
fn figures(report: &Report, used: &Used) -> Measured {
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("rate", report.rate.mean);
    if is_generator_the_limit(report) {
        measured.lower_bounds.push("rate".to_owned());
    }
    let latency = &report.latency;
    if !latency.answered.is_empty() {
        let quantiles = [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999)];
        set_quantiles(&mut measured, latency, &quantiles);
        measured.set("mean_us", latency.mean_ns() / 1e3);
        measured.set("min_us", latency.answered.min() as f64 / 1e3);
        measured.set("deviation_us", latency.answered.stdev() / 1e3);
        if latency.unanswered > 0 {
            measured.lower_bounds.extend(["mean_us", "deviation_us"].map(str::to_owned));
        }
        mark_response_times(&mut measured, report, &["mean_us", "min_us"]);
        mark_response_times(&mut measured, report, &quantiles.map(|(name, _)| name));
    }
    measured.set("fairness", report.fairness);
    measured.set("unanswered", unanswered_share(report));
    let elapsed = measured_s(report);
    if elapsed > 0.0 {
        // Not finite without answers, and then no figure.
        let of_answer = |total: f64| total * 1e6 / (report.rate.mean * elapsed);
        measured.set("cpu_cores", used.cpu_s / elapsed);
        measured.set("cpu_us_per_answer", of_answer(used.cpu_s));
        if let Some(joules) = used.joules {
            measured.set("power_w", joules / elapsed);
            measured.set("energy_uj_per_answer", of_answer(joules));
        }
    }
    measured.set("resident_mib", used.resident_bytes_max as f64 / MIB);
    measured
}

/// Share of the time from which a thread of the load generator may have been the limit, as that of the warning of the bench.
const BUSY_MAX: f64 = 0.95;

/// Share of the requests that are due in an open loop from which those that the load generator was too slow to send limit the rate.
const GENERATOR_LATE_MAX: f64 = 0.01;

/// Marks response times as upper bounds if the load generator may have been the limit, also in an open loop: a part of each of them is the time
/// that an answer, or a request that was due, has waited for the generator.
pub(crate) fn mark_response_times(measured: &mut Measured, report: &Report, names: &[&str]) {
    if is_generator_busy(report) || is_generator_the_limit(report) {
        measured.upper_bounds.extend(names.iter().map(|&name| name.to_owned()));
    }
}

/// Whether a thread of the load generator hardly ever waited.
fn is_generator_busy(report: &Report) -> bool {
    report.threads.iter().any(|thread| thread.busy > BUSY_MAX)
}

/// Whether the load generator, and not the controller, may have been the limit of the rate. In an open loop, a busy generator is none as
/// long as it sends what is due.
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
pub(crate) fn is_generator_the_limit(report: &Report) -> bool {
    if matches!(report.plan.load, Load::Rate(_)) {
        let late = not_sent(report).generator_late as f64;
        return late > GENERATOR_LATE_MAX * report.latency.len() as f64;
    }
    is_generator_busy(report)
}

/// Requests that were due in the measured loops and not sent.
pub(crate) fn not_sent(report: &Report) -> NotSent {
    let mut sum = NotSent::default();
    for figures in report.loops.iter().filter(|figures| figures.measured) {
        sum += figures.not_sent;
    }
    sum
}

/// Sets quantiles of the response times of all requests, in microseconds. That of a request without an answer is a lower bound.
#[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
pub(crate) fn set_quantiles(
    measured: &mut Measured,
    latency: &LatencyDistribution,
    quantiles: &[(&str, f64)],
) {
    for &(name, q) in quantiles {
        let quantile = latency.quantile(q);
        measured.set(name, quantile.ns() as f64 / 1e3);
        if matches!(quantile, Quantile::AtLeast(_)) {
            measured.lower_bounds.push(name.to_owned());
        }
    }
}

/// Share of the requests of the measured loops that were not answered in time.
pub(crate) fn unanswered_share(report: &Report) -> f64 {
    let offered = &report.offered;
    if offered.sent > 0.0 { (1.0 - offered.answered / offered.sent).max(0.0) } else { 0.0 }
}

/// Duration of the measured loops in seconds.
fn measured_s(report: &Report) -> f64 {
    let loops = report.loops.iter().filter(|figures| figures.measured);
    loops.map(|figures| figures.elapsed.as_secs_f64()).sum()
}

/// Quantiles of the latencies of all requests.
#[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
fn distribution(report: &Report) -> Vec<(f64, f64)> {
    let quantiles = (1..=QUANTILES).map(|n| f64::from(n) / f64::from(QUANTILES));
    let points = quantiles.map(|q| (q, report.latency.quantile(q)));
    let answered = points.take_while(|(_, quantile)| matches!(quantile, Quantile::Exactly(_)));
    answered.map(|(q, quantile)| (q, quantile.ns() as f64 / 1e3)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use sluice_bench::{
        ErrorCounts, FigureSummary, LittlesLaw, LoopFigures, OfferedRates, Provenance,
        RequestCounts, ThreadFigures,
    };
    use sluice_openflow::DatapathId;

    use super::*;

    /// The report of one measured loop of a second without requests.
    pub(crate) fn report(load: Load) -> Report {
        let loop_figures = LoopFigures {
            number: 0,
            measured: true,
            elapsed: Duration::from_secs(1),
            answered: Vec::new(),
            rate: 0.0,
            latency: LatencyDistribution::empty(),
            not_sent: NotSent::default(),
        };
        Report {
            plan: Plan { load, loops: 1, warmup: 0, ..Plan::default() },
            loops: vec![loop_figures],
            rate: FigureSummary::default(),
            offered: OfferedRates::default(),
            latency: LatencyDistribution::empty(),
            counts: RequestCounts::default(),
            errors: ErrorCounts::default(),
            switches: Vec::new(),
            fairness: 1.0,
            connect: None,
            handshake: None,
            littles_law: LittlesLaw {
                outstanding: 0.0,
                rate: 0.0,
                latency_s: 0.0,
                disagreement_percent: 0.0,
            },
            threads: Vec::new(),
            schedule_lag: None,
            paused: Duration::ZERO,
            longest_silence: Duration::ZERO,
            paths: None,
            provenance: Provenance::default(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn switch(
        handshake: Option<Duration>,
        disconnected: Option<&str>,
        rate: f64,
    ) -> SwitchFigures {
        SwitchFigures {
            datapath_id: DatapathId(1),
            rate,
            latency: [Quantile::Exactly(0); 3],
            counts: RequestCounts::default(),
            connect: Some(Duration::ZERO),
            handshake,
            hosts_announced: 0,
            disconnect_reason: disconnected.map(str::to_owned),
        }
    }

    #[test]
    fn a_sample_without_all_of_its_switches_has_failed() {
        let ready = || switch(Some(Duration::ZERO), None, 9.0);
        let of = |switches: Vec<SwitchFigures>| {
            let mut report = report(Load::WindowTotal(32));
            report.plan.switches = 2;
            report.switches = switches;
            require_all_switches(&report)
        };
        assert_eq!(of(vec![ready(), ready()]), Ok(()));
        assert_eq!(
            of(vec![ready(), switch(None, None, 0.0)]).unwrap_err(),
            "only 1 of 2 switches took part: the others did not complete the handshake in time"
        );
        let closed = Some("the controller closed the connection");
        let expected = "only 1 of 2 switches took part: the controller closed the connection";
        assert_eq!(of(vec![switch(None, closed, 0.0), ready()]).unwrap_err(), expected);
        // It was disconnected before the measured loops.
        let early = switch(Some(Duration::ZERO), closed, 0.0);
        assert_eq!(of(vec![ready(), early]).unwrap_err(), expected);
        // That a switch is disconnected under load is part of what is measured; there is a warning.
        let late = switch(Some(Duration::ZERO), closed, 9.0);
        assert_eq!(of(vec![ready(), late]), Ok(()));
    }

    #[test]
    fn answers_of_the_warm_up_are_no_result() {
        let mut report = report(Load::Window(1));
        (report.counts.sent, report.counts.answered) = (100, 100);
        assert_eq!(
            require_answers(&report).unwrap_err(),
            "no request was answered in the measured time"
        );
        report.rate = FigureSummary::of(&[3.0]);
        assert_eq!(require_answers(&report), Ok(()));
    }

    #[test]
    fn the_cost_of_an_answer_is_known_only_if_there_are_answers() {
        let used = Used { cpu_s: 1.5, joules: Some(3.0), resident_bytes_max: 0 };
        let mut report = report(Load::Window(1));
        let names = ["cpu_cores", "cpu_us_per_answer", "power_w", "energy_uj_per_answer"];
        let of = |measured: &Measured| names.map(|name| measured.figures.get(name).copied());
        assert_eq!(of(&figures(&report, &used)), [Some(1.5), None, Some(3.0), None]);
        report.rate = FigureSummary::of(&[3.0]);
        let expected = [1.5, 500_000.0, 3.0, 1_000_000.0].map(Some);
        assert_eq!(of(&figures(&report, &used)), expected);
    }

    #[test]
    fn figures_that_unanswered_requests_would_raise_are_lower_bounds() {
        let used = Used { cpu_s: 0.0, joules: None, resident_bytes_max: 0 };
        let mut report = report(Load::Window(1));
        report.latency.answered.record_n(1_000, 98).unwrap();
        assert_eq!(figures(&report, &used).lower_bounds, [""; 0]);
        (report.latency.unanswered, report.latency.unanswered_min_ns) = (2, 5_000_000_000);
        let measured = figures(&report, &used);
        assert_eq!(measured.lower_bounds, ["p99_us", "p999_us", "mean_us", "deviation_us"]);
        assert_eq!(measured.figures.get("p99_us"), Some(&5e6));
    }

    #[test]
    fn response_times_are_upper_bounds_if_the_generator_was_the_limit() {
        let used = Used { cpu_s: 0.0, joules: None, resident_bytes_max: 0 };
        let with = |load, busy| {
            let mut report = report(load);
            report.latency.answered.record_n(1_000, 98).unwrap();
            report.threads = vec![ThreadFigures { cpu: busy, busy, delayed: None }];
            report
        };
        let bounds = |report: &Report| {
            let Measured { lower_bounds, upper_bounds, .. } = figures(report, &used);
            (lower_bounds, upper_bounds)
        };
        let times = ["mean_us", "min_us", "p50_us", "p90_us", "p99_us", "p999_us"];
        let times = times.map(str::to_owned).to_vec();
        let rate = vec!["rate".to_owned()];
        assert_eq!(bounds(&with(Load::Window(1), 0.95)), (vec![], vec![]));
        assert_eq!(bounds(&with(Load::Window(1), 0.96)), (rate.clone(), times.clone()));
        // In an open loop, it has sent what was due, and answers have waited.
        assert_eq!(bounds(&with(Load::Rate(98.0), 0.96)), (vec![], times.clone()));
        let mut late = with(Load::Rate(98.0), 0.5);
        late.loops[0].not_sent.generator_late = 50;
        assert_eq!(bounds(&late), (rate, times));
    }

    #[test]
    fn in_an_open_loop_the_generator_is_the_limit_if_it_does_not_send_what_is_due() {
        let busy = ThreadFigures { cpu: 0.96, busy: 0.96, delayed: None };
        let closed = Report { threads: vec![busy], ..report(Load::Unlimited) };
        assert!(is_generator_the_limit(&closed));
        let mut open = Report { threads: vec![busy], ..report(Load::Rate(1000.0)) };
        // All requests that were due, of which many were not sent since the controller did not read.
        open.latency.unanswered = 1000;
        let is_the_limit = |generator_late| {
            open.loops[0].not_sent =
                NotSent { socket_full: 500, generator_late, ..NotSent::default() };
            is_generator_the_limit(&open)
        };
        assert_eq!([0, 10, 11].map(is_the_limit), [false, false, true]);
    }
}
