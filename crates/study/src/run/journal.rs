//! The folder of a study: its plan, and one line per sample, which survive an interruption.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use sluice_io::process_tree;

use crate::atomic_file;
use crate::compare::differences::fields;
use crate::record::{ControllerRecord, Machine, Sample, StudyRecord};

/// Name of the file with the plan.
const PLAN: &str = "study.json";

/// Name of the file with the samples.
const SAMPLES: &str = "samples.jsonl";

/// Name of the file that is locked while a study runs. It names the process that locked it last.
const LOCK: &str = "lock";

/// The folder of a study. No other process can open it until this is dropped.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    samples: File,
    /// Holds the lock.
    _lock: File,
}

/// Why the folder of a study cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// A file is damaged.
    Damaged(PathBuf, String),
    /// It contains a study with another plan, or of another machine.
    OtherPlan(PathBuf, String),
    /// It contains samples, but no plan.
    NoPlan(PathBuf),
    /// Another process carries out a study there.
    InUse(PathBuf),
    /// The threads of the load generator could not be bound to their cores.
    Cores(io::Error),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Damaged(path, why) => write!(f, "{}: {why}", path.display()),
            Self::OtherPlan(path, why) => write!(
                f,
                "{} contains a study with another plan ({why}): name another folder, or do the same as before",
                path.display()
            ),
            Self::NoPlan(path) => write!(
                f,
                "{} contains {SAMPLES}, but not {PLAN} with the plan of these samples: name another folder, or put the file back",
                path.display()
            ),
            Self::Cores(error) => {
                write!(f, "the load generator could not be bound to its cores: {error}")
            }
            Self::InUse(path) => write!(
                f,
                "another process carries out a study in {}: wait for it, or name another folder",
                path.display()
            ),
        }
    }
}

impl std::error::Error for JournalError {}

/// Locks the folder of a study. The lock ends with the process, however that ends.
fn lock(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join(LOCK);
    let io_error = |error| JournalError::Io(path.clone(), error);
    let options = File::options().create(true).read(true).append(true).open(&path);
    let mut file = options.map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => return Err(io_error(error)),
    }
    take_over(&mut file).map_err(io_error)?;
    Ok(file)
}

/// Kills the controllers that the last holder of the lock has left running, and writes the name of this process into the lock.
fn take_over(lock: &mut File) -> io::Result<()> {
    let mut text = Vec::new();
    lock.read_to_end(&mut text)?;
    process_tree::kill_orphans(String::from_utf8_lossy(&text).trim());
    lock.set_len(0)?;
    writeln!(lock, "{}", process_tree::identity())
}

impl Journal {
    /// Opens the folder of a study, which is made if it does not exist. Returns the samples that it has from an earlier run with the
    /// same plan.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn open(folder: &Path, record: &StudyRecord) -> Result<(Self, Vec<Sample>), JournalError> {
        fs::create_dir_all(folder).map_err(|error| JournalError::Io(folder.to_owned(), error))?;
        let lock = lock(folder)?;
        let plan = folder.join(PLAN);
        let has_plan = plan.try_exists().map_err(|error| JournalError::Io(plan.clone(), error))?;
        let samples = if has_plan {
            let (earlier, samples) = read(folder)?;
            let missing = || missing_controller(&earlier, record, &samples);
            if let Some(why) = difference(&earlier, record).or_else(missing) {
                return Err(JournalError::OtherPlan(folder.to_owned(), why));
            }
            write_record(&plan, &merged(&earlier, record))?;
            samples
        } else if folder.join(SAMPLES).metadata().is_ok_and(|it| it.len() > 0) {
            return Err(JournalError::NoPlan(folder.to_owned()));
        } else {
            write_record(&plan, record)?;
            Vec::new()
        };
        let path = folder.join(SAMPLES);
        let io_error = |error| JournalError::Io(path.clone(), error);
        // Without the line that an interruption may have cut off.
        let lines: Vec<_> =
            samples.iter().filter_map(|sample| serde_json::to_string(sample).ok()).collect();
        let text = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
        atomic_file::write(&path, &text).map_err(io_error)?;
        let file = File::options().append(true).open(&path).map_err(io_error)?;
        Ok((Self { folder: folder.to_owned(), samples: file, _lock: lock }, samples))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a sample. It is on disk when this returns.
    ///
    /// # Errors
    /// It could not be written.
    pub fn add(&mut self, sample: &Sample) -> Result<(), JournalError> {
        let path = self.folder.join(SAMPLES);
        let mut line = serde_json::to_string(sample)
            .map_err(|error| JournalError::Damaged(path.clone(), error.to_string()))?;
        line.push('\n');
        let written = self.samples.write_all(line.as_bytes());
        written
            .and_then(|()| self.samples.sync_data())
            .map_err(|error| JournalError::Io(path, error))
    }
}

/// Why a study cannot go on with that of `earlier`, if it cannot.
fn difference(earlier: &StudyRecord, record: &StudyRecord) -> Option<String> {
    let ids = |record: &StudyRecord| {
        let controllers = record.controllers.iter().map(|it| it.id.clone());
        let experiments = record.experiments.iter().map(|it| it.id.clone());
        [controllers.collect::<Vec<_>>(), experiments.collect()]
    };
    let memory_bytes = record.machine.memory_bytes;
    if ids(earlier) != ids(record) || earlier.is_short != record.is_short {
        return Some("other controllers, experiments or form".to_owned());
    }
    if (Machine { memory_bytes, ..earlier.machine.clone() }) != record.machine {
        return Some("another machine, or other cores of it".to_owned());
    }
    if (&earlier.version, &earlier.program) != (&record.version, &record.program) {
        return Some("another build of Sluice".to_owned());
    }
    let mut controllers = earlier.controllers.iter().zip(&record.controllers);
    let homes = [&*earlier.home, &*record.home];
    let changed = controllers.find_map(|(before, now)| controller_difference(before, now, homes));
    let mut experiments = earlier.experiments.iter().zip(&record.experiments);
    changed.or_else(|| {
        let (_, now) = experiments.find(|(before, now)| before.experiment != now.experiment)?;
        Some(format!("experiment {}: its file, rounds or controllers have changed", now.id))
    })
}

/// How a controller differs from that of an earlier run of the study, if it does. Installed controllers are in the folders `homes`.
fn controller_difference(
    before: &ControllerRecord,
    now: &ControllerRecord,
    homes: [&str; 2],
) -> Option<String> {
    let id = &now.id;
    if before.row != now.row {
        let changed = match fields(&before.row.start, &now.row.start, &[]) {
            changed if changed.is_empty() => fields(&before.row, &now.row, &[]),
            changed => changed,
        };
        return Some(format!("controller {id}: its file has changed: {}", changed.join(", ")));
    }
    let variables = fields(&before.environment, &now.environment, &[]);
    if !variables.is_empty() {
        let variables = variables.join(", ");
        return Some(format!(
            "controller {id}: environment variables that it inherits have changed: {variables}"
        ));
    }
    if before.version.is_some() && now.version.is_some() && before.version != now.version {
        return Some(format!("controller {id}: its version has changed"));
    }
    let is_other = |(name, identity): &(&String, &String)| {
        now.files.get(*name).is_some_and(|it| it != *identity)
    };
    let (name, _) = before.files.iter().find(is_other)?;
    let [earlier_home, home] = homes;
    let homes = if earlier_home == home {
        String::new()
    } else {
        format!("; {{home}} was {earlier_home}, and is {home}")
    };
    Some(format!("controller {id}: {name} is another file than before{homes}"))
}

/// Which controller has samples, and is no longer found.
fn missing_controller(
    earlier: &StudyRecord,
    record: &StudyRecord,
    samples: &[Sample],
) -> Option<String> {
    let has_samples =
        |id: &str| samples.iter().any(|it| it.controller == id && it.failure.is_none());
    let mut missing = record.controllers.iter().filter_map(|it| Some((it, it.missing.as_ref()?)));
    let (controller, why) = missing.find(|(it, _)| has_samples(&it.id))?;
    let [before, now] = [&earlier.home, &record.home];
    let homes = if before == now {
        String::new()
    } else {
        format!("; {{home}} was {before}, and is {now}")
    };
    Some(format!("controller {} has samples, and is not found now: {why}{homes}", controller.id))
}

/// The record of a study that goes on.
fn merged(earlier: &StudyRecord, record: &StudyRecord) -> StudyRecord {
    // A controller may have been installed since.
    let mut merged = StudyRecord { started_at: earlier.started_at.clone(), ..record.clone() };
    for (controller, before) in merged.controllers.iter_mut().zip(&earlier.controllers) {
        // Or it is not found at present.
        if controller.files.is_empty() {
            controller.files.clone_from(&before.files);
        }
    }
    merged
}

fn write_record(path: &Path, record: &StudyRecord) -> Result<(), JournalError> {
    let text = serde_json::to_string_pretty(record)
        .map_err(|error| JournalError::Damaged(path.to_owned(), error.to_string()))?;
    atomic_file::write(path, &text).map_err(|error| JournalError::Io(path.to_owned(), error))
}

/// Reads the folder of a study. A last line that was cut off is left out.
///
/// # Errors
/// See [`JournalError`].
pub fn read(folder: &Path) -> Result<(StudyRecord, Vec<Sample>), JournalError> {
    let plan = folder.join(PLAN);
    let text = fs::read_to_string(&plan).map_err(|error| JournalError::Io(plan.clone(), error))?;
    let record = serde_json::from_str(&text)
        .map_err(|error| JournalError::Damaged(plan.clone(), error.to_string()))?;
    let path = folder.join(SAMPLES);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((record, Vec::new())),
        Err(error) => return Err(JournalError::Io(path, error)),
    };
    let mut samples = Vec::new();
    let mut damage = None;
    for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.map_err(|error| JournalError::Io(path.clone(), error))?;
        if let Some(why) = damage {
            return Err(JournalError::Damaged(path, why));
        }
        match serde_json::from_slice(&line) {
            Ok(sample) => samples.push(sample),
            Err(error) => damage = Some(format!("line {}: {error}", number + 1)),
        }
    }
    Ok((record, samples))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::run::plan::tests::plan;
    use crate::run::tests::sample_with;

    /// An empty folder of a test.
    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("sluice-journal-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The record of a study with one controller, whose program has this identity.
    fn record(home: &str, identity: &str) -> StudyRecord {
        let mut record = plan(1, 1, 1).record;
        record.home = home.to_owned();
        let name = "{home}/x/controller".to_owned();
        record.controllers[0].files.insert(name, identity.to_owned());
        record
    }

    fn open_error(folder: &Path, record: &StudyRecord) -> String {
        Journal::open(folder, record).unwrap_err().to_string()
    }

    #[test]
    fn samples_without_a_plan_are_refused_and_kept() {
        let folder = folder("no-plan");
        let path = folder.join(SAMPLES);
        fs::write(&path, "{}\n").unwrap();
        let error = open_error(&folder, &record("/a", "1"));
        assert!(error.contains("contains samples.jsonl, but not study.json"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
        // An empty file is what an interrupted start leaves.
        fs::write(&path, "").unwrap();
        assert!(Journal::open(&folder, &record("/a", "1")).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_study_does_not_go_on_with_another_program_of_a_controller() {
        let folder = folder("other-program");
        drop(Journal::open(&folder, &record("/a", "1")).unwrap());
        // The same program in another folder is the same controller.
        drop(Journal::open(&folder, &record("/b", "1")).unwrap());
        let error = open_error(&folder, &record("/b", "2"));
        assert!(
            error.contains("(controller c0: {home}/x/controller is another file than before)"),
            "{error}"
        );
        let error = open_error(&folder, &record("/c", "2"));
        assert!(error.contains("than before; {home} was /b, and is /c)"), "{error}");
        // Nor if it was not there in between.
        let mut missing = record("/b", "1");
        missing.controllers[0].files.clear();
        drop(Journal::open(&folder, &missing).unwrap());
        assert!(open_error(&folder, &record("/b", "2")).contains("another file"));
        fs::remove_dir_all(&folder).unwrap();
    }

    type Variables<'v> = &'v [(&'v str, &'v str)];

    #[test]
    fn a_study_does_not_go_on_with_another_environment_of_a_controller() {
        let folder = folder("environment");
        let with = |own: &str, inherited: &[(&str, &str)]| {
            let mut record = record("/a", "1");
            let controller = &mut record.controllers[0];
            controller.row.start.environment.insert("MODE".to_owned(), own.to_owned());
            let inherited =
                inherited.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            controller.environment = inherited.collect();
            record
        };
        let java = [("JAVA_OPTS", "-Xmx1g")];
        drop(Journal::open(&folder, &with("fast", &java)).unwrap());
        drop(Journal::open(&folder, &with("fast", &java)).unwrap());
        assert_eq!(read(&folder).unwrap().0.controllers[0].environment["JAVA_OPTS"], "-Xmx1g");
        let cases: [(&str, Variables<'_>, &str); 4] = [
            (
                "slow",
                &java,
                r#"its file has changed: environment ({"MODE":"fast"} and {"MODE":"slow"})"#,
            ),
            (
                "fast",
                &[("JAVA_OPTS", "-Xmx2g")],
                r#"have changed: JAVA_OPTS ("-Xmx1g" and "-Xmx2g"))"#,
            ),
            ("fast", &[], r#"have changed: JAVA_OPTS ("-Xmx1g" and null)"#),
            ("fast", &[java[0], ("LD_PRELOAD", "x")], r#"have changed: LD_PRELOAD (null and "x")"#),
        ];
        for (own, inherited, expected) in cases {
            let error = open_error(&folder, &with(own, inherited));
            assert!(error.contains("(controller c0: ") && error.contains(expected), "{error}");
        }
        // The file, but not how it is started.
        let mut other = with("fast", &java);
        other.controllers[0].row.threads_max = Some(1);
        let error = open_error(&folder, &other);
        assert!(error.contains("its file has changed: threads_max (null and 1)"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_study_does_not_go_on_without_a_controller_that_has_samples() {
        let folder = folder("missing");
        let before = record("/a", "1");
        let (mut journal, _) = Journal::open(&folder, &before).unwrap();
        journal.add(&Sample { controller: "c0".to_owned(), ..sample_with(1, None) }).unwrap();
        drop(journal);
        let mut missing = record("/b", "1");
        missing.controllers[0].missing = Some("/b/x was not found".to_owned());
        let error = open_error(&folder, &missing);
        let expected = "controller c0 has samples, and is not found now: /b/x was not found; {home} was /a, and is /b";
        assert!(error.contains(expected), "{error}");
        assert_eq!(Journal::open(&folder, &before).unwrap().1.len(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_study_without_the_identity_of_its_controllers_goes_on() {
        let folder = folder("older");
        let record = record("/a", "1");
        let mut older = serde_json::to_value(&record).unwrap();
        older.as_object_mut().unwrap().remove("home");
        older["controllers"][0].as_object_mut().unwrap().remove("files");
        fs::write(folder.join(PLAN), older.to_string()).unwrap();
        drop(Journal::open(&folder, &record).unwrap());
        assert_eq!(read(&folder).unwrap().0, record);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn controllers_that_a_killed_study_has_left_are_killed() {
        let folder = folder("orphans");
        // A process that had the id of this one before.
        let holder = format!("{}-1", std::process::id());
        fs::write(folder.join(LOCK), format!("{holder}\n")).unwrap();
        let mut command = Command::new("sleep");
        command.arg("600").env("SLUICE_PROCESS_TREE", format!("{holder}-0"));
        let mut orphan = command.spawn().unwrap();
        // The environment of a program is there some time after it was started.
        let environment = format!("/proc/{}/environ", orphan.id());
        while !fs::read_to_string(&environment).unwrap().contains("SLUICE_PROCESS_TREE") {
            std::thread::yield_now();
        }
        let (_journal, _) = Journal::open(&folder, &record("/a", "1")).unwrap();
        assert!(orphan.try_wait().unwrap().is_some());
        let lock = fs::read_to_string(folder.join(LOCK)).unwrap();
        assert_eq!(lock.trim(), process_tree::identity());
        fs::remove_dir_all(&folder).unwrap();
    }
}
