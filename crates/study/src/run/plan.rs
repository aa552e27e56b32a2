//! The plan of a study: which controllers, which experiments, how many samples, how long.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sluice_io::clock;

use super::machine;
use crate::definition::{
    Axis, AxisValue, Catalogue, Cell, ControllerRow, Experiment, Measure, SocketCores, check_rounds,
};
use crate::process::{self, Placeholders};
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
        let record = StudyRecord {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: identity(sluice),
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
        let tasks = tasks(&record);
        if tasks.is_empty() {
            let missing =
                record.controllers.iter().find_map(|it| Some((&it.id, it.missing.as_ref()?)));
            return Err(PlanError(missing.map_or_else(
                || {
                    "there is nothing to do: no controller takes part in these experiments"
                        .to_owned()
                },
                |(id, why)| format!("there is nothing to do: controller {id}: {why}"),
            )));
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
        check_cores(&experiment, allowed)
            .map_err(|why| PlanError(format!("experiment {id}: {why}")))?;
        if let Some(controllers) = options.only.get(id) {
            experiment.controllers.clone_from(controllers);
        }
        select("controller", &experiment.controllers, &catalogue.controllers)
            .map_err(|PlanError(why)| PlanError(format!("experiment {id}: {why}")))?;
        chosen.push(ExperimentRecord { id: id.clone(), experiment });
    }
    let is_known = |id: &String| {
        let left_out = left_out.iter().map(|it| &it.experiment);
        chosen.iter().map(|it| &it.id).chain(left_out).any(|it| it == id)
    };
    if let Some(id) = options.only.keys().find(|id| !is_known(id)) {
        return Err(PlanError(format!("only: {id:?} is not one of the experiments")));
    }
    if let (true, Some(LeftOut { experiment, why })) = (chosen.is_empty(), left_out.first()) {
        return Err(PlanError(format!("experiment {experiment}: {why}")));
    }
    Ok((chosen, left_out))
}

/// Whether all cores that an experiment names may be used.
fn check_cores(experiment: &Experiment, allowed: &[usize]) -> Result<(), String> {
    for value in experiment.axes.get(&Axis::Cores).into_iter().flatten() {
        let AxisValue::Text(text) = value else { continue };
        if SocketCores::from_name(text).is_some() {
            continue;
        }
        let unknown = |core: &&str| !core.trim().parse().is_ok_and(|it| allowed.contains(&it));
        if let Some(core) = text.split(',').find(unknown) {
            return Err(format!("cores: core {core} does not exist or must not be used"));
        }
    }
    Ok(())
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

/// Length and hash of a program.
fn identity(program: &Path) -> String {
    let bytes = fs::read(program).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    format!("{} bytes, {:016x}", bytes.len(), hasher.finish())
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
    let words = [std::slice::from_ref(&row.start.program), &row.start.arguments[..]].concat();
    ControllerRecord {
        id: id.to_owned(),
        row: row.clone(),
        missing: found.as_ref().err().cloned(),
        version: found.ok().and_then(|found| found.version),
        command: words.join(" "),
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
                let takes_part = |it: &ControllerRecord| {
                    it.missing.is_none()
                        && (definition.controllers.is_empty()
                            || definition.controllers.contains(&it.id))
                        && can_run(&it.row, cell)
                };
                let controllers = record.controllers.iter().enumerate();
                for (controller, _) in controllers.filter(|(_, it)| takes_part(it)) {
                    tasks.push(Task { experiment, controller, cell: cell.clone(), round });
                }
            }
        }
    }
    tasks
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
}
