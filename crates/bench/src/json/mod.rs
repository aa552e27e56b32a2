//! A report as JSON.
//!
//! The schema is stable: within `sluice-bench/3`, fields are only added. `docs/bench-json.md` describes them, which a test
//! checks. Rates are per second, durations in nanoseconds, shares between 0 and 1.

mod provenance;
mod runs;

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::paths::{Directions, NetworkPlan, PathFigures};
use crate::plan::{Announce, Load, ReplyCounting};
use crate::report::{OfferedRates, Report, SwitchFigures, ThreadFigures};
use crate::requests::Buffering;
use crate::statistics::{DurationSummary, FigureSummary};
use crate::{LatencyDistribution, NotSent, Plan, Quantile, RequestCounts};

use provenance::ProvenanceDocument;
pub use runs::{RUNS_SCHEMA, write_runs};

/// Name and version of the schema, the value of the field `schema`.
pub const SCHEMA: &str = "sluice-bench/3";

/// Writes `report` as one line of JSON.
///
/// # Errors
/// Those of the writer.
pub fn write(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &Document::new(report))?;
    to.write_all(b"\n")
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    provenance: ProvenanceDocument,
    plan: PlanDocument,
    rate: RateDocument,
    offered: OfferedDocument,
    latency_ns: LatencyDocument,
    fairness: f64,
    requests: RequestsDocument,
    errors: Vec<ErrorDocument>,
    connect_ns: Option<DurationDocument>,
    handshake_ns: Option<DurationDocument>,
    littles_law: LittlesLawDocument,
    longest_silence_ns: u64,
    generator: GeneratorDocument,
    loops: Vec<LoopDocument>,
    switches: Vec<SwitchDocument>,
    paths: Option<PathsDocument>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct PlanDocument {
    targets: Vec<String>,
    switches: u32,
    threads: usize,
    openflow: String,
    ports: Option<u16>,
    hosts: Option<u32>,
    load: &'static str,
    window: Option<u32>,
    rate: Option<f64>,
    arrivals: Option<String>,
    buffered: bool,
    frame_len: Option<u16>,
    new_sources: Option<f64>,
    loops: u32,
    warmup: u32,
    cooldown: u32,
    loop_ns: u64,
    delay_ns: u64,
    connect_gap_ns: u64,
    connect_group: u32,
    announce: bool,
    dpid_offset: u64,
    seed: u64,
    pin: Vec<usize>,
    spin_ns: u64,
    congestion: Option<String>,
    tls: bool,
    count: &'static str,
    timeout_ns: u64,
    network: Option<NetworkDocument>,
}

/// The network of a measurement of paths.
#[derive(Serialize)]
struct NetworkDocument {
    topology: String,
    hosts: usize,
    path_len: usize,
    pairs: usize,
    both_directions: bool,
    arrival_only: bool,
    window: u32,
}

/// Figures of a measurement of paths.
#[derive(Serialize)]
struct PathsDocument {
    flow_mods_per_second: f64,
    packet_outs_per_second: f64,
    already_installed: u64,
    out_of_pairs: u64,
    answers: u64,
    refused_messages: u64,
    looping_frames: u64,
}

#[derive(Serialize)]
struct RateDocument {
    mean: f64,
    median: f64,
    deviation: f64,
    confidence: [f64; 2],
    min: f64,
    max: f64,
}

#[derive(Serialize)]
struct OfferedDocument {
    offered: f64,
    sent: f64,
    not_sent: f64,
    answered: f64,
}

#[derive(Serialize)]
struct NotSentDocument {
    socket_full: u64,
    window_full: u64,
    generator_late: u64,
    disconnected: u64,
}

#[derive(Serialize)]
struct LatencyDocument {
    count: u64,
    answered: u64,
    at_least: Vec<&'static str>,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct RequestsDocument {
    sent: u64,
    not_sent: NotSentDocument,
    answered: u64,
    late: u64,
    never_answered: u64,
    two_part: u64,
    duplicate: u64,
    unsolicited: u64,
    unmatched: u64,
    broadcasts: u64,
    other: u64,
    malformed: u64,
}

#[derive(Serialize)]
struct ErrorDocument {
    #[serde(rename = "type")]
    kind: u32,
    code: u32,
    count: u64,
}

#[derive(Serialize)]
struct DurationDocument {
    min: u64,
    median: u64,
    max: u64,
}

#[derive(Serialize)]
struct LittlesLawDocument {
    outstanding: f64,
    rate: f64,
    latency_ns: f64,
    disagreement_percent: f64,
}

#[derive(Serialize)]
struct GeneratorDocument {
    threads: Vec<ThreadDocument>,
    schedule_lag_ns: Option<ScheduleLagDocument>,
}

#[derive(Serialize)]
struct ThreadDocument {
    cpu: f64,
    busy: f64,
    delayed: Option<f64>,
}

#[derive(Serialize)]
struct ScheduleLagDocument {
    p50: u64,
    p99: u64,
    max: u64,
    held_back: u64,
    held_back_max: u64,
}

#[derive(Serialize)]
struct LoopDocument {
    measured: bool,
    elapsed_ns: u64,
    rate: f64,
    answered: Vec<u64>,
    latency_ns: LatencyDocument,
    not_sent: NotSentDocument,
}

#[derive(Serialize)]
struct SwitchDocument {
    datapath_id: String,
    rate: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    requests: RequestsDocument,
    connect_ns: Option<u64>,
    handshake_ns: Option<u64>,
    hosts_announced: u32,
    disconnect_reason: Option<String>,
}

impl Document {
    fn new(report: &Report) -> Self {
        let errors = report.errors.by_reason.iter();
        let law = report.littles_law;
        let schedule_lag = |lag: crate::ScheduleLag| ScheduleLagDocument {
            p50: lag.p50_ns,
            p99: lag.p99_ns,
            max: lag.max_ns,
            held_back: lag.held_back,
            held_back_max: lag.held_back_max_ns,
        };
        Self {
            schema: SCHEMA,
            provenance: (&report.provenance).into(),
            plan: PlanDocument::new(&report.plan),
            rate: report.rate.into(),
            offered: report.offered.into(),
            latency_ns: (&report.latency).into(),
            fairness: report.fairness,
            requests: report.counts.into(),
            errors: errors
                .map(|&(reason, count)| {
                    let (kind, code) = (reason.kind().0, reason.code().0);
                    ErrorDocument { kind, code, count }
                })
                .collect(),
            connect_ns: report.connect.map(Into::into),
            handshake_ns: report.handshake.map(Into::into),
            littles_law: LittlesLawDocument {
                outstanding: law.outstanding,
                rate: law.rate,
                latency_ns: law.latency_s * 1e9,
                disagreement_percent: law.disagreement_percent,
            },
            longest_silence_ns: ns(report.longest_silence),
            generator: GeneratorDocument {
                threads: report.threads.iter().map(Into::into).collect(),
                schedule_lag_ns: report.schedule_lag.map(schedule_lag),
            },
            loops: report
                .loops
                .iter()
                .map(|figures| LoopDocument {
                    measured: figures.measured,
                    elapsed_ns: ns(figures.elapsed),
                    rate: figures.rate,
                    answered: figures.answered.clone(),
                    latency_ns: (&figures.latency).into(),
                    not_sent: figures.not_sent.into(),
                })
                .collect(),
            switches: report.switches.iter().map(Into::into).collect(),
            paths: report.paths.map(Into::into),
            warnings: report.warnings.clone(),
        }
    }
}

impl PlanDocument {
    fn new(plan: &Plan) -> Self {
        let (load, window, rate) = match plan.load {
            Load::Window(n) => ("window", Some(n), None),
            Load::WindowTotal(n) => ("window_total", Some(n), None),
            Load::Unlimited => ("unlimited", None, None),
            Load::Rate(rate) => ("rate", None, Some(rate)),
        };
        Self {
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            switches: plan.switches,
            threads: plan.threads,
            openflow: plan.version.to_string(),
            ports: plan.network.is_none().then_some(plan.ports),
            hosts: plan.network.is_none().then_some(plan.hosts),
            load,
            window,
            rate,
            arrivals: rate.map(|_| plan.arrivals.to_string()),
            buffered: plan.buffering == Buffering::Buffered,
            frame_len: plan.network.is_none().then_some(plan.frame_len),
            new_sources: plan.network.is_none().then_some(plan.new_sources),
            loops: plan.loops,
            warmup: plan.warmup,
            cooldown: plan.cooldown,
            loop_ns: ns(plan.loop_time),
            delay_ns: ns(plan.delay),
            connect_gap_ns: ns(plan.connect_gap),
            connect_group: plan.connect_group,
            announce: plan.announce == Announce::AllHosts,
            dpid_offset: plan.dpid_offset,
            seed: plan.seed,
            pin: plan.pin.clone(),
            spin_ns: ns(plan.spin),
            congestion: plan.socket.congestion.clone(),
            tls: plan.tls.is_some(),
            count: if plan.counting == ReplyCounting::Answers { "answers" } else { "messages" },
            timeout_ns: ns(plan.timeout),
            network: plan.network.as_ref().map(|network| NetworkDocument::new(network, plan.load)),
        }
    }
}

impl NetworkDocument {
    fn new(network: &NetworkPlan, load: Load) -> Self {
        Self {
            topology: network.shape.clone(),
            hosts: network.topology.hosts.len(),
            path_len: network.path_len,
            pairs: network.pairs,
            both_directions: network.directions == Directions::Both,
            arrival_only: network.directions == Directions::None,
            window: network.window(load),
        }
    }
}

impl From<PathFigures> for PathsDocument {
    fn from(f: PathFigures) -> Self {
        Self {
            flow_mods_per_second: f.flow_mods_per_second,
            packet_outs_per_second: f.packet_outs_per_second,
            already_installed: f.already_installed,
            out_of_pairs: f.out_of_pairs,
            answers: f.answers,
            refused_messages: f.refused_messages,
            looping_frames: f.looping_frames,
        }
    }
}

impl From<FigureSummary> for RateDocument {
    fn from(summary: FigureSummary) -> Self {
        let FigureSummary { mean, median, deviation, confidence, min, max } = summary;
        let confidence = [confidence.low, confidence.high];
        Self { mean, median, deviation, confidence, min, max }
    }
}

impl From<&ThreadFigures> for ThreadDocument {
    fn from(figures: &ThreadFigures) -> Self {
        let &ThreadFigures { cpu, busy, delayed } = figures;
        Self { cpu, busy, delayed }
    }
}

impl From<OfferedRates> for OfferedDocument {
    fn from(rates: OfferedRates) -> Self {
        let OfferedRates { offered, sent, not_sent, answered } = rates;
        Self { offered, sent, not_sent, answered }
    }
}

impl From<NotSent> for NotSentDocument {
    fn from(counts: NotSent) -> Self {
        let NotSent { socket_full, window_full, generator_late, disconnected } = counts;
        Self { socket_full, window_full, generator_late, disconnected }
    }
}

impl From<&LatencyDistribution> for LatencyDocument {
    fn from(latency: &LatencyDistribution) -> Self {
        let named = latency.named_quantiles();
        let bounds = named.iter().filter(|(_, quantile)| matches!(quantile, Quantile::AtLeast(_)));
        let [p50, p90, p99, p999, max] = named.map(|(_, quantile)| quantile.ns());
        Self {
            count: latency.len(),
            answered: latency.answered.len(),
            at_least: bounds.map(|&(name, _)| name).collect(),
            mean: latency.mean_ns(),
            p50,
            p90,
            p99,
            p999,
            max,
        }
    }
}

impl From<RequestCounts> for RequestsDocument {
    fn from(c: RequestCounts) -> Self {
        Self {
            sent: c.sent,
            not_sent: c.not_sent.into(),
            answered: c.answered,
            late: c.late,
            never_answered: c.never_answered,
            two_part: c.two_part,
            duplicate: c.duplicate,
            unsolicited: c.unsolicited,
            unmatched: c.unmatched,
            broadcasts: c.broadcasts,
            other: c.other,
            malformed: c.malformed,
        }
    }
}

impl From<DurationSummary> for DurationDocument {
    fn from(t: DurationSummary) -> Self {
        Self { min: ns(t.min), median: ns(t.median), max: ns(t.max) }
    }
}

impl From<&SwitchFigures> for SwitchDocument {
    fn from(s: &SwitchFigures) -> Self {
        let [p50_ns, p99_ns, max_ns] = s.latency.map(Quantile::ns);
        Self {
            datapath_id: s.datapath_id.to_string(),
            rate: s.rate,
            p50_ns,
            p99_ns,
            max_ns,
            requests: s.counts.into(),
            connect_ns: s.connect.map(ns),
            handshake_ns: s.handshake.map(ns),
            hosts_announced: s.hosts_announced,
            disconnect_reason: s.disconnect_reason.clone(),
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::provenance::{ControllerProcess, CpuUse, Provenance};
    use crate::repeat::RunsSummary;
    use crate::report::ThreadResults;

    /// Objects whose fields have their own rows in the page.
    const NESTED: [&str; 12] = [
        "plan",
        "generator",
        "requests",
        "paths",
        "provenance",
        "host",
        "load_average",
        "socket",
        "run",
        "controllers",
        "resident_bytes",
        "cpu",
    ];

    /// The names of all fields, those of nested objects under theirs.
    fn names(document: &Value, within: &str, names: &mut Vec<String>) {
        for (name, value) in document.as_object().into_iter().flatten() {
            let whole = format!("{within}{name}");
            if NESTED.contains(&name.as_str()) {
                self::names(value.get(0).unwrap_or(value), &format!("{whole}."), names);
            }
            names.push(whole);
        }
    }

    /// A report of no loops that has everything that may be absent.
    fn report() -> Report {
        let network = NetworkPlan::from_shape("single,4", Directions::Both).unwrap();
        let plan = Plan { loops: 0, ..Plan::for_network(network, 1) };
        let mut report = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        report.paths = Some(PathFigures::default());
        let cpu = CpuUse {
            process: 1.5,
            busiest_thread: 0.75,
            busiest_thread_name: "worker-0".to_owned(),
            busiest_thread_delayed: None,
        };
        let controller = ControllerProcess { cpu: Some(cpu), ..ControllerProcess::default() };
        report.with_provenance(Provenance {
            controllers: vec![Some(controller), None],
            run: Some(crate::RunNumber { number: 1, of: 2 }),
            socket: Some(sluice_io::sock::EffectiveOptions::default()),
            ..Provenance::default()
        })
    }

    fn page() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-json.md");
        std::fs::read_to_string(path).unwrap()
    }

    fn assert_documented(line: &[u8], schema: &str) -> Value {
        let (document, page): (Value, _) = (serde_json::from_slice(line).unwrap(), page());
        assert_eq!(document["schema"], schema);
        assert!(page.contains(schema));
        let mut all = vec![];
        names(&document, "", &mut all);
        for name in all {
            let name = name
                .strip_suffix(".sent")
                .or_else(|| name.strip_suffix(".answered"))
                .unwrap_or(&name);
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/bench-json.md");
        }
        document
    }

    #[test]
    fn every_field_is_documented() {
        let mut line = Vec::new();
        write(&report(), &mut line).unwrap();
        let document = assert_documented(&line, SCHEMA);
        let controllers = &document["provenance"]["controllers"];
        assert_eq!(controllers[0]["cpu"]["busiest_thread"], 0.75);
        assert_eq!(controllers[1], Value::Null);
    }

    #[test]
    fn every_field_of_the_summary_of_runs_is_documented() {
        let mut line = Vec::new();
        write_runs(&RunsSummary::of(&[report(), report()]), &mut line).unwrap();
        let document = assert_documented(&line, RUNS_SCHEMA);
        assert_eq!(document["runs"], 2);
    }
}
