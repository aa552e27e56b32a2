//! A report as programs read it.
//!
//! The schema is a contract: within `sluice-bench/1` fields are only added. `docs/bench-json.md` describes them; a test
//! holds the two together. Rates are per second, durations in nanoseconds, shares between 0 and 1.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::plan::{Announce, Load, ReplyCounting};
use crate::report::{Report, SwitchFigures};
use crate::requests::Buffering;
use crate::statistics::{DurationSummary, RateSummary};
use crate::{Plan, RequestCounts};

/// Name and version of the schema.
pub const SCHEMA: &str = "sluice-bench/1";

/// Writes `report` as one line.
///
/// # Errors
/// What the writer says.
pub fn write(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &Document::new(report))?;
    to.write_all(b"\n")
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    plan: PlanDocument,
    rate: SpreadDocument,
    latency_ns: LatencyDocument,
    fairness: f64,
    requests: CountsDocument,
    errors: Vec<ErrorDocument>,
    connect_ns: Option<ThreeDocument>,
    handshake_ns: Option<ThreeDocument>,
    little: LittleDocument,
    generator: GeneratorDocument,
    loops: Vec<LoopDocument>,
    switches: Vec<SwitchDocument>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct PlanDocument {
    targets: Vec<String>,
    switches: u32,
    threads: usize,
    openflow: String,
    ports: u16,
    hosts: u32,
    load: &'static str,
    window: Option<u32>,
    rate: Option<f64>,
    buffered: bool,
    frame_len: u16,
    new_sources: f64,
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
    count: &'static str,
    timeout_ns: u64,
}

#[derive(Serialize)]
struct SpreadDocument {
    mean: f64,
    deviation: f64,
    min: f64,
    max: f64,
}

#[derive(Serialize)]
struct LatencyDocument {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct CountsDocument {
    sent: u64,
    answered: u64,
    late: u64,
    never_answered: u64,
    paired: u64,
    twice: u64,
    unasked: u64,
    untied: u64,
    announcements: u64,
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
struct ThreeDocument {
    min: u64,
    median: u64,
    max: u64,
}

#[derive(Serialize)]
struct LittleDocument {
    open: f64,
    rate: f64,
    latency_ns: f64,
    disagreement_percent: f64,
}

#[derive(Serialize)]
struct GeneratorDocument {
    threads: Vec<ThreadDocument>,
    behind_ns: Option<BehindDocument>,
}

#[derive(Serialize)]
struct ThreadDocument {
    processor: f64,
    busy: f64,
}

#[derive(Serialize)]
struct BehindDocument {
    p50: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct LoopDocument {
    measured: bool,
    elapsed_ns: u64,
    rate: f64,
    answered: Vec<u64>,
    latency_ns: LatencyDocument,
}

#[derive(Serialize)]
struct SwitchDocument {
    datapath_id: String,
    rate: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    requests: CountsDocument,
    connect_ns: Option<u64>,
    handshake_ns: Option<u64>,
    announced: u32,
    ended: Option<String>,
}

impl Document {
    fn new(report: &Report) -> Self {
        let errors = report.errors.kinds.iter();
        let little = report.little;
        let behind =
            |b: crate::ScheduleLag| BehindDocument { p50: b.p50_ns, p99: b.p99_ns, max: b.max_ns };
        let threads = report.threads.iter();
        Self {
            schema: SCHEMA,
            plan: PlanDocument::new(&report.plan),
            rate: report.rate.into(),
            latency_ns: (&report.latency_ns).into(),
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
            little: LittleDocument {
                open: little.open,
                rate: little.rate,
                latency_ns: little.latency_s * 1e9,
                disagreement_percent: little.disagreement_percent,
            },
            generator: GeneratorDocument {
                threads: threads
                    .map(|t| ThreadDocument { processor: t.processor, busy: t.busy })
                    .collect(),
                behind_ns: report.behind.map(behind),
            },
            loops: report
                .loops
                .iter()
                .map(|figures| LoopDocument {
                    measured: figures.measured,
                    elapsed_ns: ns(figures.elapsed),
                    rate: figures.rate,
                    answered: figures.answered.clone(),
                    latency_ns: (&figures.latency_ns).into(),
                })
                .collect(),
            switches: report.switches.iter().map(Into::into).collect(),
            warnings: report.warnings.clone(),
        }
    }
}

impl PlanDocument {
    fn new(plan: &Plan) -> Self {
        let (load, window, rate) = match plan.load {
            Load::Window(n) => ("window", Some(n), None),
            Load::WindowTotal(n) => ("window_total", Some(n), None),
            Load::Unlimited => ("fit", None, None),
            Load::Rate(rate) => ("rate", None, Some(rate)),
        };
        Self {
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            switches: plan.switches,
            threads: plan.threads,
            openflow: plan.version.to_string(),
            ports: plan.ports,
            hosts: plan.hosts,
            load,
            window,
            rate,
            buffered: plan.kept == Buffering::Buffered,
            frame_len: plan.frame_len,
            new_sources: plan.new_sources,
            loops: plan.loops,
            warmup: plan.warmup,
            cooldown: plan.cooldown,
            loop_ns: ns(plan.loop_time),
            delay_ns: ns(plan.delay),
            connect_gap_ns: ns(plan.connect_gap),
            connect_group: plan.connect_group,
            announce: plan.announce == Announce::Hosts,
            dpid_offset: plan.dpid_offset,
            seed: plan.seed,
            pin: plan.pin.clone(),
            spin_ns: ns(plan.spin),
            congestion: plan.socket.congestion.clone(),
            count: if plan.count == ReplyCounting::Answers { "answers" } else { "messages" },
            timeout_ns: ns(plan.timeout),
        }
    }
}

impl From<RateSummary> for SpreadDocument {
    fn from(s: RateSummary) -> Self {
        Self { mean: s.mean, deviation: s.deviation, min: s.min, max: s.max }
    }
}

impl From<&Histogram<u64>> for LatencyDocument {
    fn from(h: &Histogram<u64>) -> Self {
        Self {
            count: h.len(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        }
    }
}

impl From<RequestCounts> for CountsDocument {
    fn from(c: RequestCounts) -> Self {
        Self {
            sent: c.sent,
            answered: c.answered,
            late: c.late,
            never_answered: c.never_answered,
            paired: c.paired,
            twice: c.twice,
            unasked: c.unasked,
            untied: c.untied,
            announcements: c.announcements,
            other: c.other,
            malformed: c.malformed,
        }
    }
}

impl From<DurationSummary> for ThreeDocument {
    fn from(t: DurationSummary) -> Self {
        Self { min: ns(t.min), median: ns(t.median), max: ns(t.max) }
    }
}

impl From<&SwitchFigures> for SwitchDocument {
    fn from(s: &SwitchFigures) -> Self {
        let [p50_ns, p99_ns, max_ns] = s.latency_ns;
        Self {
            datapath_id: format!("{:016x}", s.datapath_id),
            rate: s.rate,
            p50_ns,
            p99_ns,
            max_ns,
            requests: s.counts.into(),
            connect_ns: s.connect.map(ns),
            handshake_ns: s.handshake.map(ns),
            announced: s.announced,
            ended: s.ended.clone(),
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
    use crate::report::ThreadResults;

    /// The names of all fields, those of plan, generator and requests under theirs.
    fn names(document: &Value, within: &str, names: &mut Vec<String>) {
        for (name, value) in document.as_object().into_iter().flatten() {
            let whole = format!("{within}{name}");
            if ["plan", "generator", "requests"].contains(&name.as_str()) {
                self::names(value, &format!("{whole}."), names);
            }
            names.push(whole);
        }
    }

    #[test]
    fn every_field_is_in_the_book() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-json.md");
        let book = std::fs::read_to_string(path).unwrap();
        let plan = Plan { loops: 0, ..Plan::default() };
        let report = Report::new(&plan, ThreadResults { tallies: vec![], ends: vec![] });
        let mut line = Vec::new();
        write(&report, &mut line).unwrap();
        let document: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert!(book.contains(SCHEMA));
        let mut all = vec![];
        names(&document, "", &mut all);
        for name in all {
            let name = name
                .strip_suffix(".sent")
                .or_else(|| name.strip_suffix(".answered"))
                .unwrap_or(&name);
            assert!(book.contains(&format!("`{name}`")), "{name} is not in docs/bench-json.md");
        }
    }
}
