//! The plan of a study: which controllers, which experiments, how many samples, how long.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sluice_io::clock;

use super::machine;
use crate::definition::{
    Axis, AxisValue, Catalogue, Cell, ControllerRow, Experiment, Measure, SocketCores, Variant,
    check_rounds,
};
use crate::process::{self, Placeholders, command_line, identity, inherited_variables};
use crate::record::{ControllerRecord, ExperimentRecord, LeftOut, SCHEMA, StudyRecord};
use crate::rfc8456;

/// Seconds that a start takes as long as it is not known.
const START_UP_S: f64 = 2.0;

/// Seconds of a sample that are neither start nor load.
const OVERHEAD_S: f64 = 1.5;

/// Seconds until an emulated network has been discovered, and hosts have exchanged their first packets.
const CONNECTION_S: f64 = 8.0;

/// What a study is asked to do. A file of it is a plan.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StudyOptions {
    /// Controllers by name; empty for all that are found.
    pub controllers: Vec<String>,
    /// Experiments by name; empty for all.
    pub experiments: Vec<String>,
    /// Controllers of single experiments, of which not all of the plan take part.
    pub only: BTreeMap<String, Vec<String>>,
    /// Whether the short forms are carried out.
    pub short: bool,
    /// Number of samples of each cell, instead of that of the experiments.
    pub rounds: Option<u32>,
    /// Folder of further controllers and experiments.
    pub definitions: Option<PathBuf>,
    /// Where controllers are installed.
    pub home: Option<PathBuf>,
}

/// A study that can be carried out.
#[derive(Debug, Clone)]
pub struct StudyPlan {
    /// What is written into the folder of the study.
    pub record: StudyRecord,
    /// Where controllers are installed.
    pub home: PathBuf,
    /// This program.
    pub sluice: PathBuf,
    /// The samples, in the order in which they are taken.
    pub tasks: Vec<Task>,
}

/// A sample to be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The experiment, as an index into the record.
    pub experiment: usize,
    /// The controller, as an index into the record.
    pub controller: usize,
    /// The cell.
    pub cell: Cell,
    /// Number of the round, from 0.
    pub round: u32,
}

/// Why a study cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl StudyPlan {
    /// Makes a plan: looks for the controllers, and lists all samples.
    ///
    /// # Errors
    /// An unknown name, or nothing to do.
    pub fn new(
        options: &StudyOptions,
        catalogue: &Catalogue,
        sluice: &Path,
        command: Vec<String>,
    ) -> Result<Self, PlanError> {
        let (generator_cores, controller_cores) = machine::divide_cores();
        let home = options.home.clone().unwrap_or_else(|| PathBuf::from("controllers"));
        let wanted = select("controller", &options.controllers, &catalogue.controllers)?;
        let placeholders = Placeholders {
            port: 6653,
            api_port: 8080,
            threads: 1,
            cores: controller_cores.clone(),
            directory: PathBuf::from("DIRECTORY"),
            home: home.clone(),
            sluice: sluice.to_owned(),
        };
        let controllers: Vec<_> =
            wanted.into_iter().map(|(id, row)| controller_record(id, row, &placeholders)).collect();
        let machine = machine::read(generator_cores, controller_cores);
        let requirement_missing = |experiment: &Experiment| {
            machine::missing(experiment.requires?, &machine, &placeholders)
        };
        let allowed = [&machine.generator_cores[..], &machine.controller_cores].concat();
        let (experiments, left_out) =
            choose_experiments(options, catalogue, &requirement_missing, &allowed)?;
        let mut record = StudyRecord {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: identity(sluice),
            home: home.display().to_string(),
            started_at: sluice_bench::rfc3339(clock::since_epoch()),
            command,
            is_short: options.short,
            machine,
            controllers,
            experiments,
            definitions: options.definitions.as_ref().map(|it| it.display().to_string()),
            left_out,
        };
        check_size(&record)?;
        let left_out = controllers_left_out(&record);
        record.left_out.extend(left_out);
        let tasks = tasks(&record);
        if tasks.is_empty() {
            return Err(PlanError(format!("there is nothing to do: {}", nothing_to_do(&record))));
        }
        Ok(Self { record, home, sluice: sluice.to_owned(), tasks })
    }

    /// How long all tasks take with controllers of which nothing is known.
    pub fn estimate(&self) -> Duration {
        let seconds = self.tasks.iter().map(|task| self.planned_s(task)).sum();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Seconds that a task takes with a controller of which nothing is known.
    pub(super) fn planned_s(&self, task: &Task) -> f64 {
        let row = self.record.controllers.get(task.controller).map(|it| &it.row);
        let settle_s = row.map_or(0.0, |row| row.ready.settle_s);
        let warm_up_s = row.map_or(0.0, |row| row.warm_up_s);
        let experiment = self.record.experiments.get(task.experiment);
        START_UP_S + settle_s + experiment.map_or(0.0, |it| measure_s(&it.experiment, warm_up_s))
    }

    /// A task as text: experiment, controller and cell.
    pub fn describe(&self, task: &Task) -> String {
        let experiment = self.record.experiments.get(task.experiment).map_or("", |it| &it.id);
        let controller = self.record.controllers.get(task.controller).map_or("", |it| &it.id);
        let cell = task.cell.iter().map(|(axis, value)| format!(", {} {value}", axis.name()));
        format!("{experiment}: {controller}{}", cell.collect::<String>())
    }
}

/// Why a plan has no sample.
fn nothing_to_do(record: &StudyRecord) -> String {
    let missing = record.controllers.iter().find_map(|it| Some((&it.id, it.missing.as_ref()?)));
    match (missing, record.left_out.first()) {
        (Some((id, why)), _) => format!("controller {id}: {why}"),
        (None, Some(LeftOut { experiment, why })) => format!("experiment {experiment}: {why}"),
        (None, None) => "no controller takes part in these experiments".to_owned(),
    }
}

/// The experiments of a plan, and those that the machine cannot carry out, by what `missing` says.
fn choose_experiments(
    options: &StudyOptions,
    catalogue: &Catalogue,
    missing: &dyn Fn(&Experiment) -> Option<String>,
    allowed: &[usize],
) -> Result<(Vec<ExperimentRecord>, Vec<LeftOut>), PlanError> {
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for (id, experiment) in select("experiment", &options.experiments, &catalogue.experiments)? {
        if let Some(why) = missing(experiment) {
            left_out.push(LeftOut { experiment: id.clone(), why });
            continue;
        }
        let mut experiment = experiment.clone();
        if options.short {
            experiment = experiment.shortened();
        }
        experiment.rounds = options.rounds.unwrap_or(experiment.rounds);
        check_rounds(experiment.rounds).map_err(PlanError)?;
        if let Some(absent) = remove_absent_cores(id, &mut experiment, allowed) {
            left_out.push(absent);
        }
        if experiment.axes.get(&Axis::Cores).is_some_and(Vec::is_empty) {
            continue;
        }
        if let Some(controllers) = options.only.get(id) {
            experiment.controllers.clone_from(controllers);
        }
        select("controller", &experiment.controllers, &catalogue.controllers)
            .map_err(|PlanError(why)| PlanError(format!("experiment {id}: {why}")))?;
        chosen.push(ExperimentRecord { id: id.clone(), experiment });
    }
    let is_known = |id: &String| {
        options.experiments.contains(id)
            || options.experiments.is_empty() && catalogue.experiments.contains_key(id)
    };
    if let Some(id) = options.only.keys().find(|id| !is_known(id)) {
        return Err(PlanError(format!("only: {id:?} is not one of the experiments")));
    }
    if let (true, Some(LeftOut { experiment, why })) = (chosen.is_empty(), left_out.first()) {
        return Err(PlanError(format!("experiment {experiment}: {why}")));
    }
    Ok((chosen, left_out))
}

/// Removes the sets of cores that this process may not use from an experiment. Returns what was removed; nothing may be left.
fn remove_absent_cores(
    id: &str,
    experiment: &mut Experiment,
    allowed: &[usize],
) -> Option<LeftOut> {
    let values = experiment.axes.get_mut(&Axis::Cores)?;
    let (mut sets, mut reason) = (Vec::new(), None);
    values.retain(|value| {
        let absent = absent_core(value, allowed);
        if let Some(core) = &absent {
            sets.push(value.to_string());
            reason.get_or_insert_with(|| format!("core {core} does not exist or must not be used"));
        }
        absent.is_none()
    });
    Some(LeftOut { experiment: format!("{id} (cores {})", sets.join("; ")), why: reason? })
}

/// The first core of a set, such as `0,1`, that is not one of `allowed`.
fn absent_core(set: &AxisValue, allowed: &[usize]) -> Option<String> {
    let AxisValue::Text(text) = set else { return None };
    if SocketCores::from_name(text).is_some() {
        return None;
    }
    let is_absent = |core: &&str| !core.trim().parse().is_ok_and(|it| allowed.contains(&it));
    text.split(',').find(is_absent).map(str::to_owned)
}

/// The controllers that take part in an experiment, but can run none of its cells, so that no figure has them.
fn controllers_left_out(record: &StudyRecord) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    for ExperimentRecord { id, experiment } in &record.experiments {
        let cells = experiment.cells();
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for controller in record.controllers.iter().filter(|it| takes_part(experiment, it)) {
            if !cells.iter().any(|cell| can_run(&controller.row, cell)) {
                let why = reason_for_no_cell(&controller.row, experiment);
                reasons.entry(why).or_default().push(&controller.id);
            }
        }
        for (why, ids) in reasons {
            left_out.push(LeftOut { experiment: format!("{id} ({})", ids.join(", ")), why });
        }
    }
    left_out
}

/// Why a controller can run no cell of an experiment.
fn reason_for_no_cell(row: &ControllerRow, experiment: &Experiment) -> String {
    let threads = experiment.axes.get(&Axis::Threads).into_iter().flatten();
    let fewest = threads.filter_map(|threads| match threads {
        AxisValue::Integer(threads) => Some(*threads),
        _ => None,
    });
    match (fewest.min(), row.threads_max) {
        (Some(fewest), Some(max)) if u64::from(max) < fewest => {
            format!("it needs {fewest} threads, and these controllers have at most {max}")
        }
        _ => "these controllers do not have the variants that it compares".to_owned(),
    }
}

/// Most samples of a study: months of them.
const SAMPLES_MAX: u128 = 1 << 20;

/// Refuses a plan whose samples cannot be listed.
fn check_size(record: &StudyRecord) -> Result<(), PlanError> {
    let samples = record.experiments.iter().map(|ExperimentRecord { experiment, .. }| {
        let cells = experiment.axes.values().map(|values| values.len() as u128).product::<u128>();
        cells * u128::from(experiment.rounds) * record.controllers.len() as u128
    });
    let samples = samples.sum::<u128>();
    if samples > SAMPLES_MAX {
        return Err(PlanError(format!("{samples} samples (at most {SAMPLES_MAX})")));
    }
    Ok(())
}

/// Seconds of one measurement.
fn measure_s(experiment: &Experiment, warm_up_s: f64) -> f64 {
    OVERHEAD_S
        + match &experiment.measure {
            Measure::Bench(it) => {
                it.seconds + it.warm_up_s.max(warm_up_s) + it.delay_s + it.after_s
            }
            Measure::Paths(it) => it.seconds + it.warm_up_s.max(warm_up_s) + 2.0 * it.delay_s,
            // As long as a fast controller takes.
            Measure::Startup(it) => it.timeout_s.min(5.0),
            Measure::Connection(_) => CONNECTION_S,
            Measure::Stream(it) => it.seconds + CONNECTION_S,
            // Each program in each of its two modes.
            Measure::Cbench(it) => warm_up_s + 4.0 * (it.seconds + it.warm_up_s + OVERHEAD_S),
            Measure::Rfc8456(it) => rfc8456::estimate_s(it),
        }
}

/// The entries of `all` whose names are wanted, in the order of `wanted`; all if none is named.
fn select<'a, T>(
    kind: &str,
    wanted: &'a [String],
    all: &'a BTreeMap<String, T>,
) -> Result<Vec<(&'a String, &'a T)>, PlanError> {
    if wanted.is_empty() {
        return Ok(all.iter().collect());
    }
    for (n, name) in wanted.iter().enumerate() {
        if wanted.iter().take(n).any(|earlier| earlier == name) {
            return Err(PlanError(format!("{kind} {name:?} is named twice")));
        }
    }
    let find = |name: &'a String| {
        all.get(name).map(|it| (name, it)).ok_or_else(|| {
            let names: Vec<_> = all.keys().map(String::as_str).collect();
            PlanError(format!("unknown {kind} {name:?} (known: {})", names.join(", ")))
        })
    };
    wanted.iter().map(find).collect()
}

fn controller_record(
    id: &str,
    row: &ControllerRow,
    placeholders: &Placeholders,
) -> ControllerRecord {
    let found = process::find(row, placeholders);
    let missing = found.as_ref().err().cloned();
    let (version, files) = found.map(|it| (it.version, it.files)).unwrap_or_default();
    ControllerRecord {
        id: id.to_owned(),
        row: row.clone(),
        missing,
        version,
        files,
        environment: inherited_variables(env::vars_os(), &row.start.environment),
        command: command_line(&row.start, &Variant::default(), str::to_owned),
    }
}

/// All samples: rounds in turn, so that the drift of the machine hits all controllers alike, and in each round all cells of all controllers.
fn tasks(record: &StudyRecord) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (experiment, ExperimentRecord { experiment: definition, .. }) in
        record.experiments.iter().enumerate()
    {
        let cells = definition.cells();
        for round in 0..definition.rounds {
            for cell in &cells {
                let is_measured =
                    |it: &ControllerRecord| takes_part(definition, it) && can_run(&it.row, cell);
                let controllers = record.controllers.iter().enumerate();
                for (controller, _) in controllers.filter(|(_, it)| is_measured(it)) {
                    tasks.push(Task { experiment, controller, cell: cell.clone(), round });
                }
            }
        }
    }
    tasks
}

/// Whether a controller is on this machine, and one of those of an experiment.
fn takes_part(experiment: &Experiment, controller: &ControllerRecord) -> bool {
    let of_experiment = &experiment.controllers;
    controller.missing.is_none()
        && (of_experiment.is_empty() || of_experiment.contains(&controller.id))
}

/// Whether a controller has as many threads, and the variant, that a cell asks for.
pub fn can_run(row: &ControllerRow, cell: &Cell) -> bool {
    let threads_fit = match (cell.get(&Axis::Threads), row.threads_max) {
        (Some(AxisValue::Integer(threads)), Some(max)) => *threads <= u64::from(max),
        _ => true,
    };
    let has_variant = match cell.get(&Axis::Variant) {
        Some(AxisValue::Text(name)) => name == "default" || row.variants.contains_key(name),
        _ => true,
    };
    threads_fit && has_variant
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::Machine;

    /// A plan of experiments with one cell of a second each, and of controllers.
    pub(crate) fn plan(experiments: usize, controllers: usize, rounds: u32) -> StudyPlan {
        let experiment: Experiment = toml::from_str(
            "title = \"x\"\nquestion = \"x\"\n[measure]\nkind = \"bench\"\nseconds = 1\n[[figures]]\nid = \"a\"\n\
             kind = \"bars\"\ntitle = \"x\"\ncaption = \"x\"\nmetric = \"rate\"\n",
        )
        .unwrap();
        let row: ControllerRow = toml::from_str(
            "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n[start]\n\
             program = \"x\"\n",
        )
        .unwrap();
        let controller = |n: usize| ControllerRecord {
            id: format!("c{n}"),
            row: row.clone(),
            missing: None,
            version: None,
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            command: String::new(),
        };
        let experiment = |n: usize| ExperimentRecord {
            id: format!("e{n}"),
            experiment: Experiment { rounds, ..experiment.clone() },
        };
        let record = StudyRecord {
            schema: SCHEMA.to_owned(),
            version: String::new(),
            program: String::new(),
            home: String::new(),
            started_at: String::new(),
            command: Vec::new(),
            is_short: false,
            machine: Machine::default(),
            controllers: (0..controllers).map(controller).collect(),
            experiments: (0..experiments).map(experiment).collect(),
            definitions: None,
            left_out: Vec::new(),
        };
        let tasks = tasks(&record);
        StudyPlan { record, home: PathBuf::new(), sluice: PathBuf::new(), tasks }
    }

    /// The plan of these options on a machine that has all controllers and these cores.
    fn plan_with_all(options: &StudyOptions, allowed: &[usize]) -> StudyPlan {
        let catalogue = Catalogue::embedded().unwrap();
        let (experiments, left_out) =
            choose_experiments(options, &catalogue, &|_| None, allowed).unwrap();
        let of_plan = plan(0, 1, 1);
        let controllers = select("controller", &options.controllers, &catalogue.controllers);
        let controllers = controllers.unwrap().into_iter().map(|(id, row)| ControllerRecord {
            id: id.clone(),
            row: row.clone(),
            ..of_plan.record.controllers[0].clone()
        });
        let controllers: Vec<_> = controllers.collect();
        let mut record =
            StudyRecord { controllers, experiments, left_out, ..of_plan.record.clone() };
        let left_out = controllers_left_out(&record);
        record.left_out.extend(left_out);
        StudyPlan { tasks: tasks(&record), record, ..of_plan }
    }

    fn experiment_options(id: &str) -> StudyOptions {
        StudyOptions { experiments: vec![id.to_owned()], ..StudyOptions::default() }
    }

    #[test]
    fn the_short_study_takes_nine_minutes_at_most() {
        let options: StudyOptions =
            toml::from_str(include_str!("../../../../study/short.toml")).unwrap();
        let plan = plan_with_all(&options, &[0, 1]);
        assert!(plan.estimate() <= Duration::from_secs(540), "{:?}", plan.estimate());
        assert!(plan.record.left_out.is_empty(), "{:?}", plan.record.left_out);
        // Each controller and each experiment has a sample.
        for index in 0..options.controllers.len() {
            assert!(plan.tasks.iter().any(|task| task.controller == index), "{index}");
        }
        for index in 0..options.experiments.len() {
            assert!(plan.tasks.iter().any(|task| task.experiment == index), "{index}");
        }
    }

    #[test]
    fn sets_of_cores_that_do_not_exist_are_left_out() {
        let options = experiment_options("placement");
        let values = |allowed: &[usize]| {
            let plan = plan_with_all(&options, allowed);
            plan.record.experiments[0].experiment.axes[&Axis::Cores].clone()
        };
        assert_eq!(values(&[0, 1]).len(), 2);
        assert_eq!(values(&[1, 2]), [AxisValue::Text("1".to_owned())]);
        let left_out = &plan_with_all(&options, &[1, 2]).record.left_out[0];
        assert_eq!(left_out.experiment, "placement (cores 0,1)");
        assert_eq!(left_out.why, "core 0 does not exist or must not be used");
        // With other experiments, one that has no set left is no error.
        let catalogue = Catalogue::embedded().unwrap();
        let choose =
            |options: &StudyOptions| choose_experiments(options, &catalogue, &|_| None, &[0]);
        let (experiments, left_out) = choose(&StudyOptions::default()).unwrap();
        assert!(experiments.iter().all(|it| it.id != "placement"));
        assert!(left_out.iter().any(|it| it.experiment == "placement (cores 1; 0,1)"));
        let PlanError(why) = choose(&options).unwrap_err();
        assert!(why.starts_with("experiment placement (cores 1; 0,1): core 1 does not"), "{why}");
    }

    #[test]
    fn controllers_without_the_threads_of_an_experiment_are_named() {
        let controllers = ["sluice", "ryu", "pox"].map(str::to_owned).to_vec();
        let options = StudyOptions { controllers, ..experiment_options("response-switches") };
        let plan = plan_with_all(&options, &[0, 1]);
        let why = "it needs 4 threads, and these controllers have at most 1".to_owned();
        let experiment = "response-switches (ryu, pox)".to_owned();
        assert_eq!(plan.record.left_out, [LeftOut { experiment, why }]);
        assert!(plan.tasks.iter().all(|task| task.controller == 0));
        // Fewer threads are no reason if a cell has one.
        let plan = plan_with_all(&StudyOptions { short: true, ..options }, &[0, 1]);
        assert!(plan.record.left_out.is_empty(), "{:?}", plan.record.left_out);
    }
}
