//! Takes one sample: starts the controller, measures, stops it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use sluice_base::sort_by_key;
use sluice_io::clock;
use sluice_openflow::Version;

use super::machine::MachineReading;
use super::plan::{StudyPlan, Task};
use crate::definition::{Axis, AxisValue, Cell, ControllerRow, Measure, SocketCores};
use crate::measure::{self, Measured, Subject};
use crate::process::{Placeholders, RunningController, StartError, command_line, free_port};
use crate::record::{
    ControllerRecord, ExperimentRecord, MachineState, ProcessRecord, Sample, Usage,
};

/// Folder in that of the study in which controllers run; kept if a sample failed.
const RUNS: &str = "runs";

/// How often a controller that has ended before it was ready is started again.
const RESTARTS_MAX: u32 = 1;

/// What tells the samples of a task from all others: experiment, controller, cell and round.
pub(super) type SampleKey = (String, String, String, u32);

/// The key of a sample.
pub(super) fn key(sample: &Sample) -> SampleKey {
    let cell = serde_json::to_string(&sample.cell).unwrap_or_default();
    (sample.experiment.clone(), sample.controller.clone(), cell, sample.round)
}

impl StudyPlan {
    /// The key of the samples of a task.
    pub(super) fn key(&self, task: &Task) -> SampleKey {
        key(&empty(self, task, 0))
    }

    /// Whether a sample is whole although the study was interrupted while it was taken.
    pub(super) fn is_complete(&self, task: &Task, sample: &Sample) -> bool {
        let experiment = self.record.experiments.get(task.experiment);
        let is_measured_in_one_go = experiment.is_some_and(|it| match &it.experiment.measure {
            Measure::Bench(settings) => settings.after_s <= 0.0,
            Measure::Paths(_) | Measure::Cbench(_) => true,
            _ => false,
        });
        is_measured_in_one_go && sample.failure.is_none()
    }

    /// Experiment and controller of a task.
    fn parts(&self, task: &Task) -> Option<(&ExperimentRecord, &ControllerRecord)> {
        self.record
            .experiments
            .get(task.experiment)
            .zip(self.record.controllers.get(task.controller))
    }
}

/// The sample of a task, without figures.
pub(super) fn empty(plan: &StudyPlan, task: &Task, attempt: u32) -> Sample {
    let (experiment, controller) = plan
        .parts(task)
        .map_or_else(Default::default, |(it, other)| (it.id.clone(), other.id.clone()));
    Sample {
        experiment,
        controller,
        cell: task.cell.clone(),
        round: task.round,
        attempt,
        restarts: 0,
        started_at: sluice_bench::rfc3339(clock::since_epoch()),
        elapsed_s: 0.0,
        controller_command: String::new(),
        command: String::new(),
        failure: None,
        figures: BTreeMap::new(),
        lower_bounds: Vec::new(),
        upper_bounds: Vec::new(),
        distribution: Vec::new(),
        usage: None,
        machine: MachineState::default(),
        warnings: Vec::new(),
    }
}

/// Takes the sample of a task into `sample`, which is empty.
pub(super) fn take(
    plan: &StudyPlan,
    task: &Task,
    mut sample: Sample,
    folder: &Path,
    is_interrupted: &dyn Fn() -> bool,
) -> Sample {
    let started_at = clock::now();
    if let Err(why) = fill(&mut sample, plan, task, folder, is_interrupted) {
        sample.failure = Some(why);
    }
    sample.elapsed_s = (clock::now() - started_at).as_secs_f64();
    sample
}

/// Starts the controller, measures, and writes the result into `sample`.
fn fill(
    sample: &mut Sample,
    plan: &StudyPlan,
    task: &Task,
    folder: &Path,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), String> {
    let Some((ExperimentRecord { id: name, experiment }, ControllerRecord { id, row, .. })) =
        plan.parts(task)
    else {
        return Err("the plan has no such task".to_owned());
    };
    let path = folder.join(RUNS).join(run_folder(sample));
    let text = row.openflow.first().map_or("1.3", String::as_str);
    let version = Version::from_text(text).unwrap_or(Version::V1_3);
    let variant = row.variant(&task.cell);
    sample.command = measure::command(
        (name, &experiment.measure),
        &task.cell,
        (id, row, version),
        &plan.record.machine.generator_cores,
    );
    let before_start = MachineReading::take(0.0);
    let started = with_restarts(sample, |sample| {
        let directory = fresh_folder(&path)
            .map_err(|error| StartError::Io(format!("{}: {error}", path.display())))?;
        let placeholders = placeholders(plan, task, row.start.port, &directory)
            .map_err(|error| StartError::Io(format!("no free port was found: {error}")))?;
        sample.controller_command =
            command_line(&row.start, &variant, |text| placeholders.fill(text));
        let controller =
            RunningController::start(row, &variant, &placeholders, version, is_interrupted)?;
        Ok((controller, placeholders))
    });
    let (mut controller, placeholders) = started.map_err(|error| {
        sample.machine = MachineReading::take(0.0).of_failed_start(&before_start);
        error.to_string()
    })?;
    let before = MachineReading::take(controller.unreaped_cpu_s());
    let mut subject = Subject {
        target: SocketAddr::from((Ipv4Addr::LOCALHOST, placeholders.port)),
        controller: &mut controller,
        version,
        generator_cores: &plan.record.machine.generator_cores,
        row,
        placeholders: &placeholders,
    };
    let result = measure::take(&experiment.measure, &task.cell, &mut subject, is_interrupted);
    sample.machine = MachineReading::take(controller.unreaped_cpu_s()).since(&before);
    let usage = controller.stop();
    record(sample, result, usage)?;
    shared_cores_warning(sample, &placeholders, &plan.record.machine.generator_cores);
    sample.warnings.extend(threads_warning(row, &task.cell, placeholders.cores.len()));
    // Of a sample that succeeded nothing is left to look at.
    let _ = fs::remove_dir_all(&placeholders.directory);
    Ok(())
}

/// Starts a controller, and again if it ends before it is ready, so that a start that fails now and then is seen and costs no cell.
fn with_restarts<T>(
    sample: &mut Sample,
    mut start: impl FnMut(&mut Sample) -> Result<T, StartError>,
) -> Result<T, StartError> {
    loop {
        match start(sample) {
            Err(error @ StartError::Ended(_)) if sample.restarts < RESTARTS_MAX => {
                sample.restarts += 1;
                sample.warnings.push(format!("the controller was started again: {error}"));
            }
            result => return result,
        }
    }
}

fn record(
    sample: &mut Sample,
    result: Result<Measured, String>,
    usage: Usage,
) -> Result<(), String> {
    let survived = usage.survived;
    if !usage.stopped_in_order {
        sample.warnings.push("the controller did not end at the signal, and was killed".to_owned());
    }
    sample.warnings.extend(ended_processes(&usage));
    sample.usage = Some(usage);
    let measured = match result {
        Ok(measured) => measured,
        Err(why) if survived => return Err(why),
        Err(why) => return Err(format!("the controller ended during the measurement: {why}")),
    };
    if !survived {
        return Err("the controller ended during the measurement".to_owned());
    }
    sample.figures = measured.figures;
    sample.lower_bounds = measured.lower_bounds;
    sample.upper_bounds = measured.upper_bounds;
    sample.distribution = measured.distribution;
    sample.warnings.extend(measured.warnings);
    Ok(())
}

/// A warning of processes that ended while others of the controller went on.
fn ended_processes(usage: &Usage) -> Option<String> {
    let ended = usage.processes.iter().filter(|process| process.ended_early);
    let named = ended.map(|process| {
        let ProcessRecord { name, pid, last_seen_s, .. } = process;
        format!("{name} (process {pid}), last seen {last_seen_s:.1} s after the start")
    });
    let named: Vec<_> = named.collect();
    let is_partial = usage.survived && !named.is_empty();
    is_partial.then(|| format!("a part of the controller ended early: {}", named.join("; ")))
}

fn shared_cores_warning(sample: &mut Sample, placeholders: &Placeholders, generator: &[usize]) {
    if placeholders.cores.iter().any(|core| generator.contains(core)) {
        sample.warnings.push("controller and generator shared a core".to_owned());
    }
}

/// A warning of a cell with a number of threads that the controller cannot be told.
fn threads_warning(row: &ControllerRow, cell: &Cell, cores: usize) -> Option<String> {
    let is_set = row.threads_max.is_some() || row.sets_threads(&row.variant(cell));
    let threads = cell.get(&Axis::Threads).filter(|_| !is_set)?;
    Some(format!(
        "the number of threads of this controller cannot be set: with threads = {threads}, it had {cores} of the cores, and as many threads as it starts by itself"
    ))
}

/// Name of the folder of a sample: experiment, controller, cell, round and attempt.
fn run_folder(sample: &Sample) -> String {
    let cell = sample.cell.iter().map(|(axis, value)| format!("-{}-{value}", axis.name()));
    let cell: String = cell.collect();
    // A variant or a topology may contain anything.
    let cell = cell.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
    let Sample { experiment, controller, round, attempt, .. } = sample;
    format!("{experiment}-{controller}{cell}-{round}-{attempt}")
}

/// Makes a folder that did not exist before.
fn fresh_folder(path: &Path) -> io::Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path)?;
    path.canonicalize()
}

fn placeholders(
    plan: &StudyPlan,
    task: &Task,
    fixed_port: Option<u16>,
    directory: &Path,
) -> io::Result<Placeholders> {
    let threads = match task.cell.get(&Axis::Threads) {
        Some(AxisValue::Integer(n)) => u32::try_from(*n).unwrap_or(u32::MAX),
        _ => 1,
    };
    let cores = match task.cell.get(&Axis::Cores) {
        Some(AxisValue::Text(text)) => match SocketCores::from_name(text) {
            Some(set) => socket_cores(set, threads, &plan.record.machine),
            None => text.split(',').filter_map(|core| core.trim().parse().ok()).collect(),
        },
        _ => cores_for(threads, &plan.record.machine),
    };
    Ok(Placeholders {
        port: fixed_port.map_or_else(free_port, Ok)?,
        api_port: free_port()?,
        threads,
        cores,
        directory: directory.to_owned(),
        home: plan.home.clone(),
        sluice: plan.sluice.clone(),
    })
}

/// As many of the controller's cores as it has threads, and the generator's when there are not enough.
fn cores_for(threads: u32, machine: &crate::record::Machine) -> Vec<usize> {
    let mut cores = machine.controller_cores.clone();
    for core in &machine.generator_cores {
        if !cores.contains(core) {
            cores.push(*core);
        }
    }
    cores.truncate(usize::try_from(threads).unwrap_or(usize::MAX).max(1));
    cores
}

/// As many of the controller's cores as it has threads, in one socket or in two.
fn socket_cores(set: SocketCores, threads: u32, machine: &crate::record::Machine) -> Vec<usize> {
    let sockets = machine.sockets.iter().map(|cores| parse_cores(cores));
    let mut sockets: Vec<Vec<usize>> = sockets
        .map(|cores| cores.into_iter().filter(|it| machine.controller_cores.contains(it)).collect())
        .collect();
    // The largest first, since the generator has taken a core of one of them.
    sort_by_key(&mut sockets, |cores| std::cmp::Reverse(cores.len()));
    sockets.truncate(match set {
        SocketCores::OneSocket => 1,
        SocketCores::TwoSockets => 2,
    });
    let most = sockets.iter().map(Vec::len).max().unwrap_or_default();
    let in_turn = (0..most).flat_map(|n| sockets.iter().filter_map(move |cores| cores.get(n)));
    in_turn.copied().take(usize::try_from(threads).unwrap_or(usize::MAX).max(1)).collect()
}

/// The cores of a list such as `0-3,8`.
fn parse_cores(text: &str) -> Vec<usize> {
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Catalogue;
    use crate::record::Machine;
    use crate::run::tests::sample_with;

    #[test]
    fn a_number_of_threads_that_cannot_be_set_is_a_warning() {
        let catalogue = Catalogue::embedded().unwrap();
        let with_two = Cell::from([(Axis::Threads, AxisValue::Integer(2))]);
        let warning = |id: &str, cell: &Cell| threads_warning(&catalogue.controllers[id], cell, 2);
        assert_eq!(
            warning("onos", &with_two).unwrap(),
            "the number of threads of this controller cannot be set: with threads = 2, it had 2 of the cores, and as many threads as it starts by itself"
        );
        assert_eq!(warning("onos", &Cell::new()), None);
        // The number is an argument, the value of a variable, in a file, or known to be 1.
        let others = catalogue.controllers.keys().filter(|id| *id != "onos");
        for id in others {
            assert_eq!(warning(id, &with_two), None, "{id}");
        }
    }

    #[test]
    fn a_part_that_ended_early_is_a_warning_while_another_part_runs() {
        let usage = |survived, ended_early| Usage {
            start_up_s: 0.1,
            start_up_resolution_s: 0.0,
            survived,
            stopped_in_order: true,
            processes: ["core", "switch"]
                .map(|name| ProcessRecord {
                    pid: 7,
                    name: name.to_owned(),
                    first_seen_s: 0.0,
                    last_seen_s: 2.5,
                    ended_early: ended_early && name == "switch",
                    cpu_s: 0.0,
                    peak_resident_bytes: 0,
                    peak_threads: 1,
                })
                .into(),
            processes_not_listed: 0,
            readings: Vec::new(),
        };
        let warnings = |usage| {
            let mut sample = sample_with(1, None);
            let result = record(&mut sample, Err("time-out".to_owned()), usage);
            (sample.warnings.concat(), result.unwrap_err())
        };
        assert_eq!(
            warnings(usage(true, true)).0,
            "a part of the controller ended early: switch (process 7), last seen 2.5 s after the start"
        );
        assert_eq!(warnings(usage(true, false)).0, "");
        // That it ended is the reason of the failure, and not a warning as well.
        let (warning, failure) = warnings(usage(false, true));
        assert_eq!(warning, "");
        assert_eq!(failure, "the controller ended during the measurement: time-out");
    }

    #[test]
    fn a_controller_that_ends_before_it_is_ready_is_started_once_more() {
        let ended = || StartError::Ended("; its log ends with: core dumped".to_owned());
        let mut starts = 0;
        let mut flaky = sample_with(1, None);
        let result = with_restarts(&mut flaky, |_| {
            starts += 1;
            if starts == 1 { Err(ended()) } else { Ok(starts) }
        });
        assert_eq!((result.unwrap(), flaky.restarts), (2, 1));
        assert!(flaky.warnings.concat().ends_with("its log ends with: core dumped"));

        let mut broken = sample_with(1, None);
        let result: Result<(), _> = with_restarts(&mut broken, |_| Err(ended()));
        assert!(matches!(result, Err(StartError::Ended(_))) && broken.restarts == 1);

        // A start that takes too long would only take twice as long.
        let mut slow = sample_with(1, None);
        let result: Result<(), _> =
            with_restarts(&mut slow, |_| Err(StartError::Then("it failed".to_owned())));
        assert!(result.is_err() && slow.restarts == 0);
    }

    #[test]
    fn cores_of_sockets_are_those_of_the_controller_in_turn() {
        let machine = Machine {
            sockets: vec!["0-2,6-8".to_owned(), "3-5,9-11".to_owned()],
            generator_cores: vec![0],
            controller_cores: (1..12).collect(),
            ..Machine::default()
        };
        // The socket without the generator has more of them.
        assert_eq!(socket_cores(SocketCores::OneSocket, 4, &machine), [3, 4, 5, 9]);
        assert_eq!(socket_cores(SocketCores::TwoSockets, 4, &machine), [3, 1, 4, 2]);
        assert_eq!(socket_cores(SocketCores::TwoSockets, 100, &machine).len(), 11);
    }
}
