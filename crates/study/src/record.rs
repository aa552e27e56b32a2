//! What a study writes: its plan, the machine, and each sample.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::definition::{Cell, ControllerRow, Experiment};

/// Format of [`StudyRecord`].
pub const SCHEMA: &str = "sluice-study/1";

/// The plan of a study, and where it was carried out. `study.json` in the folder of the study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of Sluice.
    pub version: String,
    /// Length and hash of the program, so that a study does not go on with another build.
    #[serde(default)]
    pub program: String,
    /// Folder in which controllers are installed.
    #[serde(default)]
    pub home: String,
    /// When it began, in UTC (RFC 3339).
    pub started_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// Whether it is the short form.
    pub is_short: bool,
    /// The machine.
    pub machine: Machine,
    /// All controllers of the plan, in the order of the plan.
    pub controllers: Vec<ControllerRecord>,
    /// The experiments, in the order of the plan.
    pub experiments: Vec<ExperimentRecord>,
    /// Folder with further controllers and experiments, if there was one.
    #[serde(default)]
    pub definitions: Option<String>,
    /// What is not measured although it is asked for.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// An experiment, or a part of one, that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of its file. If only a part is left out, that follows in parentheses: sets of cores, or controllers.
    pub experiment: String,
    /// What the machine or the controllers do not have, as part of a sentence.
    pub why: String,
}

/// The machine of a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Cores (hardware threads) that are online.
    pub cores: Option<usize>,
    /// Sockets, with the cores of each, such as `0-3`.
    pub sockets: Vec<String>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Kernel and release.
    pub kernel: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// TCP congestion control of the system.
    pub congestion: Option<String>,
    /// Cores of the load generator.
    pub generator_cores: Vec<usize>,
    /// Cores of the controller, unless an experiment says otherwise.
    pub controller_cores: Vec<usize>,
}

/// TCP congestion controls that do not limit the rate over loopback.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

impl Machine {
    /// Reasons to distrust what is measured on this machine, as sentences without their end.
    pub fn warnings(&self) -> Vec<String> {
        let other = self.congestion.as_deref().filter(|it| !CONGESTION_CONTROLS.contains(it));
        let warning = |name: &str| {
            format!(
                "the TCP congestion control of this machine is {name}: with BBR, the throughput over loopback was about half of that with \
                 CUBIC; `sysctl -w net.ipv4.tcp_congestion_control=cubic` changes it"
            )
        };
        other.map(warning).into_iter().collect()
    }
}

/// A controller of the plan, and whether it was found on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControllerRecord {
    /// Name of its file, by which experiments and samples refer to it.
    pub id: String,
    /// The file.
    pub row: ControllerRow,
    /// What is missing, if it was not found.
    pub missing: Option<String>,
    /// What its version command printed.
    pub version: Option<String>,
    /// Length and hash of its program and of the files that it requires, by their names in its file, so that a study does not go on with
    /// others.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The environment variables that it inherits from the study and that may change what is measured: those of linkers, run-time systems and
    /// controllers, except what its file sets. Of those that may be secret, only that they are set.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The command line of its start with the variables that it sets, and with placeholders that differ between samples.
    pub command: String,
}

/// An experiment of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// Name of its file.
    pub id: String,
    /// The file, with the values of the short form if the study has it.
    pub experiment: Experiment,
}

/// One sample of one cell. A line of `samples.jsonl` in the folder of the study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Experiment, by name of file.
    pub experiment: String,
    /// Controller, by name of file.
    pub controller: String,
    /// The cell.
    pub cell: Cell,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of earlier samples of the same cell and round that were disturbed and repeated.
    pub attempt: u32,
    /// How often the controller was started again, since it had ended before it was ready.
    #[serde(default)]
    pub restarts: u32,
    /// When it began, in UTC (RFC 3339).
    pub started_at: String,
    /// Duration in seconds, with the start of the controller.
    pub elapsed_s: f64,
    /// Command line of the controller.
    pub controller_command: String,
    /// Command line that repeats the measurement with a running controller.
    pub command: String,
    /// Why there are no figures, if there are none.
    pub failure: Option<String>,
    /// Figures by name, in the units of the experiment's figures.
    pub figures: BTreeMap<String, f64>,
    /// Names of figures that are lower bounds: requests were not answered, or the load generator was the limit of a rate.
    #[serde(default)]
    pub lower_bounds: Vec<String>,
    /// Names of figures that are upper bounds: response times, if the load generator was the limit.
    #[serde(default)]
    pub upper_bounds: Vec<String>,
    /// Distribution of the latencies: quantile (0 to 1) and latency in microseconds, ascending.
    #[serde(default)]
    pub distribution: Vec<(f64, f64)>,
    /// What the controller's processes used.
    pub usage: Option<Usage>,
    /// What else happened on the machine meanwhile.
    pub machine: MachineState,
    /// Reasons to distrust the figures, as sentences.
    pub warnings: Vec<String>,
}

/// What all processes of a controller used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds from the start until it was ready.
    pub start_up_s: f64,
    /// Seconds before, since when it may have been ready: it was last found not to be then.
    #[serde(default)]
    pub start_up_resolution_s: f64,
    /// Whether any of its processes ran until it was stopped.
    pub survived: bool,
    /// Whether it ended at the signal, rather than by `SIGKILL`.
    pub stopped_in_order: bool,
    /// Its processes in the order in which they were first seen. Those that start and end between two readings are not seen.
    #[serde(default)]
    pub processes: Vec<ProcessRecord>,
    /// Number of further processes: they are part of the totals, and not of `processes`.
    #[serde(default)]
    pub processes_not_listed: u32,
    /// Readings, about five per second, or fewer while a measurement waits.
    pub readings: Vec<UsageReading>,
}

/// What one process of a controller used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Its id.
    pub pid: i32,
    /// Name of its program, or what it calls itself, as last read: 15 bytes at most.
    pub name: String,
    /// When it was first seen, in seconds since the controller's start.
    pub first_seen_s: f64,
    /// When it was last seen.
    pub last_seen_s: f64,
    /// Whether it ran when the controller was ready, ended before the controller was stopped, and was not replaced by another one of the same name.
    pub ended_early: bool,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory in bytes.
    pub peak_resident_bytes: u64,
    /// Largest number of threads.
    pub peak_threads: u32,
}

/// The use of resources at one time, all processes of a controller together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageReading {
    /// Seconds since the controller's start.
    pub at_s: f64,
    /// Processor time since the start, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of processes.
    pub processes: u32,
    /// Number of threads.
    pub threads: u32,
    /// Each of its processes that is listed and runs, if there is or was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_each: Vec<ProcessReading>,
}

/// The use of resources of one process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProcessReading {
    /// Index in [`Usage::processes`].
    pub process: usize,
    /// Processor time since its start, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u32,
}

/// What else happened on the machine during a sample.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct MachineState {
    /// Cores that processes other than controller and generator used, on average.
    pub other_cores: f64,
    /// Cores that the hypervisor took, on average.
    pub stolen_cores: f64,
    /// Whether that was too much, so that the sample was repeated or, after too many repetitions, is marked.
    pub is_disturbed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_that_cost_throughput_are_a_reason_to_distrust() {
        let machine = |name: Option<&str>| Machine {
            congestion: name.map(str::to_owned),
            ..Machine::default()
        };
        assert!(machine(Some("bbr")).warnings().concat().contains("this machine is bbr"));
        for name in [None, Some("cubic"), Some("reno")] {
            assert_eq!(machine(name).warnings(), [""; 0]);
        }
    }
}
