//! `sluice study`: experiments over many controllers.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use sluice_study::definition::{Catalogue, read_definition};
use sluice_study::record::{LeftOut, Sample, StudyRecord};
use sluice_study::run::{
    Journal, StudyEnd, StudyObserver, StudyOptions, StudyPlan, StudyProgress, read,
};
use sluice_study::{compare, report};

use crate::{EXIT_FAILURE, EXIT_USAGE, print_error, signals, write_stdout};

/// Folder of the study by default, in the current one.
const OUTPUT: &str = "sluice-study";

/// Environment variable with the folder in which controllers are installed.
const HOME_VARIABLE: &str = "SLUICE_CONTROLLERS";

/// The exit code of a study that was interrupted, as that of a program that SIGINT has ended.
const EXIT_INTERRUPTED: u8 = 130;

const STUDY_EXAMPLES: &str = "\
Examples:
  sluice study list                            which controllers are here, which experiments there are
  sluice study run --short                     all experiments in their short form
  sluice study run --experiments throughput-threads --controllers null,sluice
  sluice study compare monday tuesday --gate 5  exit with 1 if something is more than 5 % worse";

/// Measure many controllers with the same experiments, and write a report.
#[derive(Debug, Args)]
#[command(after_help = STUDY_EXAMPLES)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    command: StudyCommand,
}

#[derive(Debug, Subcommand)]
enum StudyCommand {
    /// Carry out experiments, or go on with those that were interrupted, and write the report
    Run(RunArgs),
    /// Carry out the tests of RFC 8456
    Rfc8456(Rfc8456Args),
    /// List the controllers, whether they are on this machine, and the experiments
    List(ListArgs),
    /// Write the report of a study again
    Report(ReportArgs),
    /// Compare two studies: which differences are beyond noise
    Compare(CompareArgs),
}

/// What is measured, and where the result is written.
#[derive(Debug, Args)]
struct RunArgs {
    /// Experiments, by name [default: all but the tests of RFC 8456].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    experiments: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// The tests that are carried out, and where the result is written.
#[derive(Debug, Args)]
struct Rfc8456Args {
    /// Tests, by their section, such as 5.1.1,5.4.2 [default: all fifteen].
    #[arg(long, value_delimiter = ',', value_name = "SECTIONS")]
    test: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Controllers, by name [default: all that are on this machine].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    controllers: Vec<String>,
    /// Fewer values, fewer rounds, shorter measurements.
    #[arg(long)]
    short: bool,
    /// Samples of each cell, instead of what the experiments say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// File with the choice of controllers and experiments; options override it.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
    /// Folder for samples and report; a study that was interrupted goes on there.
    #[arg(long, value_name = "DIR", default_value = OUTPUT)]
    output: PathBuf,
    /// Only check the plan, and say what would be done and how long it takes.
    #[arg(long)]
    dry_run: bool,
}

/// Where controllers and experiments come from.
#[derive(Debug, Args)]
struct SourceArgs {
    /// Folder with further files, in its folders controllers and experiments.
    #[arg(long, value_name = "DIR")]
    definitions: Option<PathBuf>,
    /// Folder in which controllers are installed [default: `$SLUICE_CONTROLLERS`, or ~/.local/share/sluice/controllers].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// Folder of the study.
    #[arg(default_value = OUTPUT)]
    folder: PathBuf,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Folder of the study that is compared with.
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// Folder of the study whose figures are divided by those of the first.
    #[arg(
        value_name = "SECOND",
        required_unless_present = "controllers",
        conflicts_with = "controllers"
    )]
    second: Option<PathBuf>,
    /// Compare two controllers of the study FIRST: the second with the first.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    controllers: Vec<String>,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a figure of the second study is missing, or worse beyond noise and by more than this percentage.
    #[arg(long, value_name = "PERCENT")]
    gate: Option<f64>,
}

/// Why a command failed: an invalid request, or an error at run time.
enum StudyError {
    Usage(String),
    Failure(String),
}

impl StudyError {
    #[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
    fn failure(error: impl ToString) -> Self {
        Self::Failure(error.to_string())
    }
}

impl StudyArgs {
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.command {
            StudyCommand::Run(args) => {
                let all = |catalogue: &Catalogue| {
                    let names = catalogue.experiments.keys().cloned();
                    names.filter(|it| !it.starts_with("rfc8456")).collect()
                };
                args.common.run(|_| Ok(args.experiments.clone()), all)
            }
            StudyCommand::Rfc8456(args) => {
                let all = |catalogue: &Catalogue| tests(&[], catalogue).unwrap_or_default();
                let named = |catalogue: &Catalogue| match &args.test[..] {
                    [] => Ok(Vec::new()),
                    sections => tests(sections, catalogue),
                };
                args.common.run(named, all)
            }
            StudyCommand::List(args) => args.run(),
            StudyCommand::Report(args) => args.run(),
            StudyCommand::Compare(args) => args.run(),
        };
        let (error, code) = match result {
            Ok(code) => return ExitCode::from(code),
            Err(StudyError::Usage(error)) => (error, EXIT_USAGE),
            Err(StudyError::Failure(error)) => (error, EXIT_FAILURE),
        };
        print_error(&error);
        ExitCode::from(code)
    }
}

/// The experiments of tests of RFC 8456.
fn tests(tests: &[String], catalogue: &Catalogue) -> Result<Vec<String>, String> {
    let all = catalogue.experiments.keys().filter(|it| it.starts_with("rfc8456")).cloned();
    let all: Vec<_> = all.collect();
    let name = |test: &String| {
        let name = format!("rfc8456-{}", test.replace('.', "-"));
        if all.contains(&name) {
            Ok(name)
        } else {
            let sections = all.iter().map(|it| it.trim_start_matches("rfc8456-").replace('-', "."));
            let sections: Vec<_> = sections.collect();
            Err(format!("unknown test {test:?} (known: {})", sections.join(", ")))
        }
    };
    if tests.is_empty() { Ok(all.clone()) } else { tests.iter().map(name).collect() }
}

impl SourceArgs {
    fn catalogue(&self) -> Result<Catalogue, StudyError> {
        let mut catalogue =
            Catalogue::embedded().map_err(|error| StudyError::Usage(error.to_string()))?;
        if let Some(folder) = &self.definitions {
            catalogue.add_folder(folder).map_err(|error| StudyError::Usage(error.to_string()))?;
        }
        Ok(catalogue)
    }

    /// Where controllers are installed, as an absolute path, since controllers run in folders of their own.
    fn home(&self) -> PathBuf {
        let variable =
            |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let default = || {
            let home = variable("HOME").unwrap_or_else(|| PathBuf::from("/"));
            variable("XDG_DATA_HOME")
                .unwrap_or_else(|| home.join(".local/share"))
                .join("sluice/controllers")
        };
        let home = self.home.clone().or_else(|| variable(HOME_VARIABLE)).unwrap_or_else(default);
        std::path::absolute(&home).unwrap_or(home)
    }
}

impl CommonArgs {
    /// The options of the plan file, overridden by those of the command line.
    fn options(&self) -> Result<StudyOptions, StudyError> {
        let mut options = match &self.plan {
            None => StudyOptions::default(),
            Some(path) => {
                let error = |why: String| StudyError::Usage(format!("{}: {why}", path.display()));
                let text = read_definition(path).map_err(|it| StudyError::Usage(it.to_string()))?;
                toml::from_str(&text).map_err(|it| error(it.to_string().trim_end().to_owned()))?
            }
        };
        if !self.controllers.is_empty() {
            options.controllers.clone_from(&self.controllers);
            options.only.clear();
        }
        options.short |= self.short;
        options.rounds = self.rounds.or(options.rounds);
        Ok(options)
    }

    /// Carries out the experiments that are `named`, else those of the plan, else `all`.
    fn run(
        &self,
        named: impl FnOnce(&Catalogue) -> Result<Vec<String>, String>,
        all: impl FnOnce(&Catalogue) -> Vec<String>,
    ) -> Result<u8, StudyError> {
        let mut options = self.options()?;
        let sources = SourceArgs {
            definitions: self.sources.definitions.clone().or_else(|| options.definitions.clone()),
            home: self.sources.home.clone().or_else(|| options.home.clone()),
        };
        let catalogue = sources.catalogue()?;
        let named = named(&catalogue).map_err(StudyError::Usage)?;
        if !named.is_empty() {
            options.only.retain(|id, _| named.contains(id));
            options.experiments = named;
        }
        if options.experiments.is_empty() {
            options.experiments = all(&catalogue);
        }
        options.home = Some(sources.home());
        options.definitions.clone_from(&sources.definitions);
        let sluice = env::current_exe().map_err(StudyError::failure)?;
        let command = env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
        let plan = StudyPlan::new(&options, &catalogue, &sluice, command)
            .map_err(|error| StudyError::Usage(error.to_string()))?;
        write_stdout(&describe(&plan)).map_err(StudyError::Failure)?;
        self.require_named_controllers(&plan.record)?;
        if self.dry_run {
            return Ok(0);
        }
        self.carry_out(&plan)
    }

    /// Fails if a controller that an option names was not found. Those of a plan file may be absent.
    fn require_named_controllers(&self, record: &StudyRecord) -> Result<(), StudyError> {
        let named = record.controllers.iter().filter(|it| self.controllers.contains(&it.id));
        let missing = named.filter_map(|it| Some((&it.id, it.missing.as_ref()?)));
        let missing: Vec<_> = missing.map(|(id, why)| format!("controller {id}: {why}")).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(StudyError::Usage(format!(
            "--controllers names controllers that are not on this machine ({}): leave them out, or say with --home where they are installed",
            missing.join("; ")
        )))
    }

    fn carry_out(&self, plan: &StudyPlan) -> Result<u8, StudyError> {
        let (mut journal, earlier) =
            Journal::open(&self.output, &plan.record).map_err(StudyError::failure)?;
        let mut observer = Progress {
            stop: signals::stop_flag().map_err(StudyError::failure)?,
            is_terminal: io::stderr().is_terminal(),
        };
        let end = sluice_study::run::run(plan, &mut journal, &earlier, &mut observer)
            .map_err(StudyError::failure)?;
        if end == StudyEnd::Interrupted {
            let folder = self.output.display();
            print_error(&format!(
                "interrupted; the same command goes on with the study in {folder}"
            ));
            return Ok(EXIT_INTERRUPTED);
        }
        write_report(&self.output)
    }
}

/// Writes the report and says where it is, and what is missing in it.
fn write_report(folder: &Path) -> Result<u8, StudyError> {
    let (record, samples) = read(folder).map_err(StudyError::failure)?;
    report::write(&record, &samples, folder)
        .map_err(|error| StudyError::Failure(format!("{}: {error}", folder.display())))?;
    let failed = samples.iter().filter(|sample| sample.failure.is_some()).count();
    let mut text = format!("{} samples", samples.len());
    if failed > 0 {
        let _ = write!(text, ", of which {failed} failed");
    }
    let disturbed = samples.iter().filter(|sample| sample.machine.is_disturbed).count();
    if disturbed > 0 {
        let _ = write!(text, "; {disturbed} were disturbed by other programs");
    }
    let _ = writeln!(text, "; report: {}", folder.join("report.html").display());
    write_stdout(&text).map_err(StudyError::Failure)?;
    let problems = report::check(&record, &samples);
    for problem in &problems {
        print_error(problem);
    }
    Ok(if problems.is_empty() { 0 } else { EXIT_FAILURE })
}

/// The plan as text: controllers, experiments, number of samples and time.
fn describe(plan: &StudyPlan) -> String {
    let mut text = String::new();
    for controller in &plan.record.controllers {
        let state = match (&controller.missing, &controller.version) {
            (Some(missing), _) => format!("not on this machine: {missing}"),
            (None, Some(version)) => version.clone(),
            (None, None) => "found".to_owned(),
        };
        let _ = writeln!(text, "{:<24} {state}", controller.id);
    }
    let _ = writeln!(text);
    for (index, experiment) in plan.record.experiments.iter().enumerate() {
        let samples = plan.tasks.iter().filter(|task| task.experiment == index).count();
        let _ = writeln!(text, "{:<24} {samples} samples", experiment.id);
    }
    for LeftOut { experiment, why } in &plan.record.left_out {
        let _ = writeln!(text, "{experiment:<24} left out: {why}");
    }
    let time = duration(plan.estimate());
    let _ = writeln!(
        text,
        "\n{} samples, about {time} if controllers start in 2 s and nothing disturbs",
        plan.tasks.len()
    );
    for warning in plan.record.machine.warnings() {
        let _ = writeln!(text, "Warning: {warning}");
    }
    text
}

/// A duration such as `1 h 05 min` or `40 s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// Prints the progress of a study.
struct Progress {
    stop: Arc<AtomicBool>,
    is_terminal: bool,
}

/// A line such as `[3/120] churn: sluice, threads 1, repetition 1 since it was disturbed; about 5 min 20 s left`.
fn progress_line(progress: &StudyProgress) -> String {
    let StudyProgress { number, of, attempt, description, left } = progress;
    let repetition = match attempt {
        0 => String::new(),
        n => format!(", repetition {n} since it was disturbed"),
    };
    format!("[{}/{of}] {description}{repetition}; about {} left", number + 1, duration(*left))
}

impl Progress {
    /// Prints a sentence about a sample, in the place of the progress.
    fn print(&self, sample: &Sample, sentence: &str) {
        let start = if self.is_terminal { "\r\x1b[K" } else { "" };
        let Sample { experiment, controller, .. } = sample;
        let _ = writeln!(io::stderr(), "{start}{experiment}: {controller}: {sentence}");
    }
}

impl StudyObserver for Progress {
    fn on_start(&mut self, progress: &StudyProgress) {
        let line = progress_line(progress);
        // The terminal may be gone; the study goes on.
        let _ = if self.is_terminal {
            write!(io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(io::stderr(), "{line}")
        };
        let _ = io::stderr().flush();
    }

    fn on_sample(&mut self, sample: &Sample) {
        if let Some(why) = &sample.failure {
            self.print(sample, why);
        }
    }

    fn on_repetitions_end(&mut self, sample: &Sample, why: &str) {
        self.print(sample, why);
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl ListArgs {
    fn run(&self) -> Result<u8, StudyError> {
        let catalogue = self.sources.catalogue()?;
        let options = StudyOptions { home: Some(self.sources.home()), ..StudyOptions::default() };
        let sluice = env::current_exe().map_err(StudyError::failure)?;
        let plan = StudyPlan::new(&options, &catalogue, &sluice, Vec::new())
            .map_err(|error| StudyError::Usage(error.to_string()))?;
        let mut text = String::new();
        for controller in &plan.record.controllers {
            let state = controller.missing.as_ref().map_or_else(
                || controller.version.clone().unwrap_or_else(|| "found".to_owned()),
                |missing| format!("not on this machine: {missing}"),
            );
            let _ = writeln!(
                text,
                "{:<24} {}\n{:<24} {state}",
                controller.id, controller.row.title, ""
            );
        }
        let _ = writeln!(text);
        for experiment in &plan.record.experiments {
            let repeats = experiment.experiment.repeats.as_deref().unwrap_or("new");
            let _ = writeln!(
                text,
                "{:<24} {}\n{:<24} {repeats}",
                experiment.id, experiment.experiment.title, ""
            );
        }
        for LeftOut { experiment, why } in &plan.record.left_out {
            let _ = writeln!(text, "{experiment:<24} left out: {why}");
        }
        write_stdout(&text).map_err(StudyError::Failure)?;
        Ok(0)
    }
}

impl ReportArgs {
    fn run(&self) -> Result<u8, StudyError> {
        write_report(&self.folder)
    }
}

/// A study that is compared, or one of its controllers.
struct ComparedStudy {
    name: String,
    record: StudyRecord,
    samples: Vec<Sample>,
}

impl ComparedStudy {
    fn of_folder(folder: &Path) -> Result<Self, StudyError> {
        let (record, samples) = read(folder).map_err(StudyError::failure)?;
        Ok(Self { name: folder.display().to_string(), record, samples })
    }

    fn as_study(&self) -> compare::Study<'_> {
        compare::Study { name: &self.name, record: &self.record, samples: &self.samples }
    }
}

impl CompareArgs {
    /// Both studies, or two controllers of one study as studies of their own.
    fn studies(&self) -> Result<[ComparedStudy; 2], StudyError> {
        if let Some(second) = &self.second {
            let [first, second] = [&self.first, second].map(|it| ComparedStudy::of_folder(it));
            return Ok([first?, second?]);
        }
        let [first, second] = &self.controllers[..] else {
            let error = "--controllers needs two names, such as before,after";
            return Err(StudyError::Usage(error.to_owned()));
        };
        if first == second {
            return Err(StudyError::Usage(format!("--controllers names {first} twice")));
        }
        let study = ComparedStudy::of_folder(&self.first)?;
        let ratio = format!("{second}/{first}");
        let own = |id: &String| {
            compare::of_controller(&study.record, &study.samples, id, &ratio)
                .map(|(record, samples)| ComparedStudy { name: id.clone(), record, samples })
                .ok_or_else(|| StudyError::Usage(format!("{} has no controller {id}", study.name)))
        };
        Ok([own(first)?, own(second)?])
    }

    fn run(&self) -> Result<u8, StudyError> {
        let threshold = match self.gate {
            Some(percent) if !(0.0..1e6).contains(&percent) => {
                return Err(StudyError::Usage(format!(
                    "invalid value {percent} for --gate: expected a percentage"
                )));
            }
            gate => gate.map(|percent| percent / 100.0),
        };
        let [first, second] = self.studies()?;
        let of_one_study = self.second.is_none();
        let compare = if of_one_study { compare::compare_controllers } else { compare::compare };
        let comparison = compare(first.as_study(), second.as_study());
        let mut text = comparison.to_string();
        if self.json {
            let mut json = Vec::new();
            comparison.write_json(&mut json).map_err(StudyError::failure)?;
            text = String::from_utf8_lossy(&json).into_owned();
        }
        write_stdout(&text).map_err(StudyError::Failure)?;
        let Some(threshold) = threshold else { return Ok(0) };
        let verdict = comparison.gate(threshold);
        verdict.reasons().iter().for_each(|reason| print_error(&format!("gate: {reason}")));
        if verdict.has_passed() && !self.json {
            let passed = format!("gate: passed; figures that were tested: {}\n", verdict.tested);
            write_stdout(&passed).map_err(StudyError::Failure)?;
        }
        Ok(if verdict.has_passed() { 0 } else { EXIT_FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_within_a_study_needs_two_controllers() {
        let studies = |controllers: &[&str]| {
            let controllers = controllers.iter().map(|&it| it.to_owned()).collect();
            let first = PathBuf::from("/absent/study");
            CompareArgs { first, second: None, controllers, json: false, gate: None }.studies()
        };
        let error = studies(&["before"]).err();
        assert!(matches!(error, Some(StudyError::Usage(text)) if text.contains("two names")));
        let error = studies(&["before", "before"]).err();
        assert!(matches!(error, Some(StudyError::Usage(text)) if text.contains("twice")));
        let error = studies(&["before", "after"]).err();
        assert!(matches!(error, Some(StudyError::Failure(text)) if text.contains("/absent/study")));
    }

    #[test]
    fn progress_shows_repetitions_and_the_time_left() {
        let progress = |attempt| StudyProgress {
            number: 2,
            of: 120,
            attempt,
            description: "churn: sluice, threads 1".to_owned(),
            left: Duration::from_secs(320),
        };
        assert_eq!(
            progress_line(&progress(0)),
            "[3/120] churn: sluice, threads 1; about 5 min 20 s left"
        );
        assert_eq!(
            progress_line(&progress(1)),
            "[3/120] churn: sluice, threads 1, repetition 1 since it was disturbed; about 5 min 20 s left"
        );
    }
}
