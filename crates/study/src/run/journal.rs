//! The folder of a study: its plan, and one line per sample, which survive an interruption.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use crate::record::{Machine, Sample, StudyRecord};

/// Name of the file with the plan.
const PLAN: &str = "study.json";

/// Name of the file with the samples.
const SAMPLES: &str = "samples.jsonl";

/// Name of the file that is locked while a study runs.
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
    let file = File::options().create(true).append(true).open(&path).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(io_error(error)),
    }
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
        let samples = if plan.exists() {
            let (earlier, samples) = read(folder)?;
            if let Some(why) = difference(&earlier, record) {
                return Err(JournalError::OtherPlan(folder.to_owned(), why));
            }
            // A controller may have been installed since.
            let record = StudyRecord { started_at: earlier.started_at, ..record.clone() };
            write_record(&plan, &record)?;
            samples
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
        write_file(&path, &text).map_err(io_error)?;
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
    let changed = controllers.find_map(|(before, now)| {
        let has_other_version =
            before.version.is_some() && now.version.is_some() && before.version != now.version;
        if before.row != now.row {
            Some(format!("controller {}: its file has changed", now.id))
        } else if has_other_version {
            Some(format!("controller {}: its version has changed", now.id))
        } else {
            None
        }
    });
    let mut experiments = earlier.experiments.iter().zip(&record.experiments);
    changed.or_else(|| {
        let (_, now) = experiments.find(|(before, now)| before.experiment != now.experiment)?;
        Some(format!("experiment {}: its file, rounds or controllers have changed", now.id))
    })
}

fn write_record(path: &Path, record: &StudyRecord) -> Result<(), JournalError> {
    let text = serde_json::to_string_pretty(record)
        .map_err(|error| JournalError::Damaged(path.to_owned(), error.to_string()))?;
    write_file(path, &text).map_err(|error| JournalError::Io(path.to_owned(), error))
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

/// Writes a file so that it has the old or the new content after an interruption.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}
