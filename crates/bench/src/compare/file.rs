//! Reads reports in JSON. Unknown fields are ignored, so that reports of later versions of the schema can be compared, too.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use sluice_io::input_file::{self, FileKinds};

use crate::Error;
use crate::json::{RUNS_SCHEMA, SCHEMA};

/// Longest file: 100 runs with 10 000 switches each.
const FILE_BYTES_MAX: usize = 256 << 20;

/// Time to read it, if it is a pipe.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest figure in a report: more nanoseconds than a day has, and more requests than any second.
const FIGURE_MAX: f64 = 1e15;

/// A file with the reports of one or several runs of one plan.
#[derive(Debug, Clone)]
pub struct ReportFile {
    /// Its name.
    pub path: String,
    /// The runs, at least one.
    pub runs: Vec<RunRecord>,
}

/// What is compared of a report.
#[derive(Debug, Clone, Deserialize)]
pub struct RunRecord {
    /// The arguments.
    #[serde(default)]
    pub plan: Map<String, Value>,
    /// Program and machine.
    #[serde(default)]
    pub provenance: ProvenanceRecord,
    pub(super) rate: RateRecord,
    pub(super) latency_ns: LatencyRecord,
    #[serde(default)]
    loops: Vec<LoopRecord>,
    /// Reasons to distrust the report.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Where a report comes from.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ProvenanceRecord {
    /// Version of the program.
    #[serde(default)]
    pub version: Value,
    /// The machine.
    #[serde(default)]
    pub host: Map<String, Value>,
    #[serde(default)]
    socket: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RateRecord {
    pub(super) mean: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LatencyRecord {
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    #[serde(default)]
    pub(super) at_least: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LoopRecord {
    measured: bool,
    pub(super) rate: f64,
    pub(super) latency_ns: LatencyRecord,
}

/// What every line has.
#[derive(Deserialize)]
struct Line {
    schema: String,
}

impl RunRecord {
    /// Whether all figures are those of a measurement.
    fn is_plausible(&self) -> bool {
        let loops =
            self.loops.iter().flat_map(|it| [it.rate, it.latency_ns.p50, it.latency_ns.p99]);
        let mut all = loops.chain([self.rate.mean, self.latency_ns.p50, self.latency_ns.p99]);
        all.all(|figure| (0.0..=FIGURE_MAX).contains(&figure))
    }

    /// The measured loops.
    pub(super) fn measured(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(|figures| figures.measured)
    }
}

impl ProvenanceRecord {
    /// What is known of the machine and the program, without the sizes of buffers, which the kernel adapts.
    pub(super) fn machine(&self) -> Map<String, Value> {
        let settings = self.socket.iter().flatten();
        let set = settings.filter(|(name, _)| ["congestion", "no_delay"].contains(&name.as_str()));
        let facts = self.host.iter().chain(set).map(|(name, value)| (name.clone(), value.clone()));
        let facts = facts.chain([("version".to_owned(), self.version.clone())]);
        facts.filter(|(_, value)| !value.is_null()).collect()
    }
}

impl ReportFile {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`Error::Read`] with the name of the file and what is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let wrong = |why: &dyn std::fmt::Display| Error::Read(name.clone(), why.to_string());
        let bytes = input_file::read(path, FileKinds::Any, FILE_BYTES_MAX + 1, READ_TIMEOUT);
        let bytes = bytes.map_err(|e| wrong(&e))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(wrong(&format_args!("it is longer than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        let text =
            str::from_utf8(&bytes).map_err(|e| wrong(&format_args!("it is no text: {e}")))?;
        Self::parse(&name, text)
    }

    /// Reads the text of the file `path`: a line per run, and a line with their summary if there are several.
    ///
    /// # Errors
    /// [`Error::Read`] with the name of the file and what is wrong.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Read(path.to_owned(), why);
        let mut runs: Vec<RunRecord> = Vec::new();
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        for (number, line) in lines {
            let malformed =
                |e: serde_json::Error| wrong(format!("line {number} is not a report in JSON: {e}"));
            let Line { schema } = serde_json::from_str(line).map_err(malformed)?;
            match schema.as_str() {
                SCHEMA => {
                    let run: RunRecord = serde_json::from_str(line).map_err(malformed)?;
                    if !run.is_plausible() {
                        return Err(wrong(format!(
                            "line {number} has a rate or a latency below 0 or above {FIGURE_MAX:e}"
                        )));
                    }
                    runs.push(run);
                }
                RUNS_SCHEMA => {}
                other => {
                    return Err(wrong(format!(
                        "line {number} has the schema `{other}`, expected `{SCHEMA}`; measure again with this version"
                    )));
                }
            }
        }
        let Some(first) = runs.first() else {
            return Err(wrong(
                "it contains no report; write one with `sluice bench --json`".into(),
            ));
        };
        if runs.iter().any(|run| run.plan != first.plan) {
            return Err(wrong(
                "its reports are of different plans; only runs of one plan (--repeat) can be compared".into(),
            ));
        }
        Ok(Self { path: path.to_owned(), runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeat::RunsSummary;
    use crate::report::{Report, ThreadResults};
    use crate::{Plan, json};

    fn report(switches: u32) -> Report {
        let plan = Plan { switches, loops: 3, warmup: 0, ..Plan::default() };
        Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] })
    }

    fn error(text: &str) -> String {
        ReportFile::parse("a.json", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let reports = [report(2), report(2)];
        let mut text = Vec::new();
        for report in &reports {
            json::write(report, &mut text).unwrap();
        }
        json::write_runs(&RunsSummary::of(&reports), &mut text).unwrap();
        let file = ReportFile::parse("a.json", &String::from_utf8(text).unwrap()).unwrap();
        assert_eq!(file.runs.len(), 2);
        assert_eq!(file.runs[0].measured().count(), 3);
        assert_eq!(file.runs[0].plan["switches"], 2);
    }

    #[test]
    fn a_file_that_is_no_report_is_an_error_with_its_name_and_what_is_wrong() {
        let missing = ReportFile::read(Path::new("/nonexistent/a.json")).unwrap_err().to_string();
        assert_eq!(
            missing,
            "cannot compare /nonexistent/a.json: No such file or directory (os error 2)"
        );
        assert!(error("").contains("a.json: it contains no report"));
        assert!(error("{}").contains("line 1 is not a report in JSON: missing field `schema`"));
        assert!(error("\nx").contains("line 2 is not a report in JSON: expected value"));
        let text = format!(r#"{{"schema":"{SCHEMA}"}}"#);
        assert!(error(&text).contains("missing field `rate`"));
    }

    #[test]
    fn figures_that_nobody_measured_are_refused() {
        let report = |rate: &str, p99: &str| {
            let latency = format!(r#"{{"count":5,"p50":1,"p99":{p99}}}"#);
            error(
                &format!(
                    r#"{{"schema":"{SCHEMA}","rate":{{"mean":1}},"latency_ns":{latency},
                "loops":[{{"measured":true,"rate":{rate},"latency_ns":{latency}}}]}}"#
                )
                .replace('\n', " "),
            )
        };
        for (rate, p99) in [("-1", "1"), ("1e308", "1"), ("1", "1e300")] {
            let why = report(rate, p99);
            assert!(why.ends_with("line 1 has a rate or a latency below 0 or above 1e15"), "{why}");
        }
    }

    #[test]
    fn reports_of_another_schema_or_of_several_plans_are_refused() {
        let old = error(r#"{"schema":"sluice-bench/2"}"#);
        assert!(old.contains("schema `sluice-bench/2`, expected `sluice-bench/3`"), "{old}");
        let mut text = Vec::new();
        for switches in [1, 2] {
            json::write(&report(switches), &mut text).unwrap();
        }
        let several = error(&String::from_utf8(text).unwrap());
        assert!(several.contains("its reports are of different plans"), "{several}");
    }
}
