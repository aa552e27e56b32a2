//! The file of the store: created with the first write, opened again after an error, and writes that are made or not made.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{CommitError, Database, WriteTransaction};

use super::contents::{FORMAT, META};

/// The name of the file in the state directory.
const FILE: &str = "static.redb";

/// Its name while it is made: what is left of an attempt that was interrupted is not taken for the store.
pub(super) const NEW_FILE: &str = "static.redb.new";

/// Memory of the database for pages.
const CACHE_BYTES: usize = 4 << 20;

pub(super) type Failure = Box<dyn std::error::Error>;

/// Why the store cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    path: PathBuf,
    message: String,
    /// Whether it is unknown if the write is durable: the disk failed at its end, and again when it was to be undone. It is undone
    /// before the next write; until then a restart of the process would find it, or not.
    pub is_outcome_unknown: bool,
}

impl StoreError {
    pub(super) fn new(path: PathBuf, message: String) -> Self {
        Self { path, message, is_outcome_unknown: false }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for StoreError {}

/// The error of the last write, if it has failed. It is read without waiting for a write that is being made.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWrite(Arc<Mutex<Option<StoreError>>>);

impl LastWrite {
    pub(crate) fn error(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, written: &Result<(), StoreError>) {
        let error = written.as_ref().err().cloned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// A database in a file.
#[derive(Debug)]
pub(super) struct StoreFile {
    dir: PathBuf,
    /// `None` before the first write, and after an error: the database is opened again with the next write.
    database: Option<Database>,
    /// Whether the file was there before: it is not created once more if somebody removes it.
    is_created: bool,
    /// The savepoint of a write that was reported as not made, and of which it is unknown whether it is durable.
    undecided: Option<u64>,
    last_write: LastWrite,
    commit: fn(WriteTransaction) -> Result<(), CommitError>,
}

impl StoreFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            database: None,
            is_created: false,
            undecided: None,
            last_write: LastWrite::default(),
            commit: WriteTransaction::commit,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    pub(super) fn last_write(&self) -> LastWrite {
        self.last_write.clone()
    }

    /// Opens the file and checks it. `None` if there is none.
    pub(super) fn open(&mut self) -> Result<Option<&Database>, Failure> {
        if !self.path().try_exists()? {
            return Ok(None);
        }
        self.is_created = true;
        Ok(Some(self.database.insert(open_database(&self.path())?)))
    }

    /// Makes a write. It is durable when this returns.
    ///
    /// An error of the disk at the end of a commit does not say whether the commit is durable. The write is undone then: it is either
    /// reported as made, or is not made.
    pub(super) fn write(
        &mut self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), StoreError> {
        let written = self.write_or_undo(fill);
        self.last_write.record(&written);
        written
    }

    fn write_or_undo(
        &mut self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), StoreError> {
        let path = self.path();
        let failed = |error: Failure| StoreError::new(path.clone(), error.to_string());
        // Afterwards no write is undecided.
        self.database().map_err(failed)?;
        let Err(error) = self.try_write(fill) else {
            return Ok(());
        };
        // After an error of the disk the database refuses everything, and has to be opened again.
        self.database = None;
        let is_outcome_unknown = self.undecided.is_some() && self.database().is_err();
        Err(StoreError { is_outcome_unknown, ..failed(error) })
    }

    fn try_write(
        &mut self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let transaction = begin_write(self.database()?)?;
        // Only the last write may have to be undone.
        for savepoint in transaction.list_persistent_savepoints()? {
            transaction.delete_persistent_savepoint(savepoint)?;
        }
        let savepoint = transaction.persistent_savepoint()?;
        fill(&transaction)?;
        (self.commit)(transaction).inspect_err(|_| self.undecided = Some(savepoint))?;
        Ok(())
    }

    /// The database, opened if it is not, and without a write that was reported as not made.
    fn database(&mut self) -> Result<&Database, Failure> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.open_or_create()?,
        };
        if let Some(savepoint) = self.undecided {
            undo(&database, savepoint, self.commit)?;
            self.undecided = None;
        }
        self.is_created = true;
        Ok(self.database.insert(database))
    }

    fn open_or_create(&self) -> Result<Database, Failure> {
        let path = self.path();
        if path.try_exists()? {
            return open_database(&path);
        }
        if self.is_created {
            return Err("removed while the controller runs: restart it, or restore the file".into());
        }
        fs::create_dir_all(&self.dir)?;
        let new_path = self.dir.join(NEW_FILE);
        let mut options = OpenOptions::new();
        // Emptied only when it is locked, so that no other process uses it.
        let file = options.read(true).write(true).create(true).truncate(false).open(&new_path)?;
        file.try_lock().map_err(|error| format!("in use by another process: {error}"))?;
        if path.try_exists()? {
            return open_database(&path);
        }
        file.set_len(0)?;
        let database = builder().create_with_backend(FileBackend::new(file)?)?;
        let transaction = begin_write(&database)?;
        transaction.open_table(META)?.insert("format", FORMAT)?;
        transaction.commit()?;
        fs::rename(&new_path, &path)?;
        // The name of the file has to be durable, too.
        File::open(&self.dir)?.sync_all()?;
        Ok(database)
    }
}

/// Returns to a savepoint, if the write that began with it is in the database.
fn undo(
    database: &Database,
    savepoint: u64,
    commit: fn(WriteTransaction) -> Result<(), CommitError>,
) -> Result<(), Failure> {
    let mut transaction = begin_write(database)?;
    if !transaction.list_persistent_savepoints()?.any(|it| it == savepoint) {
        return Ok(());
    }
    let before = transaction.get_persistent_savepoint(savepoint)?;
    transaction.restore_savepoint(&before)?;
    commit(transaction)?;
    Ok(())
}

/// With two phases: what is durable has to be undamaged to be read. With one, the database would return to an earlier state if the last
/// one is damaged, as if a change had not been made.
fn begin_write(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// With a check of the whole file: otherwise the database panics at some kinds of damage.
pub(super) fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

fn open_database(path: &Path) -> Result<Database, Failure> {
    builder().open(path).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => "in use by another process".into(),
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == io::ErrorKind::InvalidData =>
        {
            format!("damaged: {error}").into()
        }
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use redb::{ReadableDatabase as _, StorageError};

    use super::*;
    use crate::store::tests::TempDir;

    fn io_error() -> CommitError {
        CommitError::Storage(StorageError::Io(io::Error::other("the disk failed")))
    }

    /// The disk reports an error after the commit has become durable.
    fn made(transaction: WriteTransaction) -> Result<(), CommitError> {
        transaction.commit()?;
        Err(io_error())
    }

    /// The disk fails before.
    fn lost(transaction: WriteTransaction) -> Result<(), CommitError> {
        transaction.abort()?;
        Err(io_error())
    }

    fn file(dir: &TempDir) -> StoreFile {
        let mut file = StoreFile::new(&dir.0);
        write(&mut file, 1).unwrap();
        file
    }

    fn write(file: &mut StoreFile, revision: u64) -> Result<(), StoreError> {
        file.write(|transaction| {
            transaction.open_table(META)?.insert("revision", revision)?;
            Ok(())
        })
    }

    fn revision(database: &Database) -> u64 {
        let transaction = database.begin_read().unwrap();
        let table = transaction.open_table(META).unwrap();
        table.get("revision").unwrap().unwrap().value()
    }

    fn stored(dir: &TempDir) -> u64 {
        revision(StoreFile::new(&dir.0).open().unwrap().unwrap())
    }

    thread_local! {
        /// How often the disk fails.
        static FAILURES: Cell<u32> = const { Cell::new(0) };
    }

    fn failing<const IS_MADE: bool>(transaction: WriteTransaction) -> Result<(), CommitError> {
        match FAILURES.get() {
            0 => transaction.commit(),
            left => {
                FAILURES.set(left - 1);
                if IS_MADE { made(transaction) } else { lost(transaction) }
            }
        }
    }

    #[test]
    fn a_write_whose_commit_failed_is_undone_at_once_if_the_disk_works_again() {
        for commit in [failing::<true>, failing::<false>] {
            let dir = TempDir::new("undone");
            let mut file = file(&dir);
            file.commit = commit;
            FAILURES.set(1);
            let error = write(&mut file, 2).unwrap_err();
            assert!(!error.is_outcome_unknown && FAILURES.get() == 0, "{error}");
            drop(file);
            assert_eq!(stored(&dir), 1);
        }
    }

    #[test]
    fn the_error_of_the_last_write_is_known_until_one_is_made() {
        let dir = TempDir::new("last-write");
        let mut file = file(&dir);
        let last_write = file.last_write();
        assert_eq!(last_write.error(), None);
        file.commit = lost;
        let error = write(&mut file, 2).unwrap_err();
        assert_eq!(last_write.error(), Some(error));
        file.commit = WriteTransaction::commit;
        write(&mut file, 3).unwrap();
        assert_eq!(last_write.error(), None);
    }

    #[test]
    fn a_write_that_cannot_be_undone_is_reported_so_and_undone_before_the_next() {
        let dir = TempDir::new("unknown");
        let mut file = file(&dir);
        // The undo fails, too, before it is durable or after.
        for undo in [made, lost] {
            file.commit = made;
            let error = write(&mut file, 2).unwrap_err();
            assert!(error.is_outcome_unknown, "{error}");
            file.commit = undo;
            // This one was not even begun.
            let error = write(&mut file, 3).unwrap_err();
            assert!(!error.is_outcome_unknown, "{error}");
            file.commit = WriteTransaction::commit;
            let mut before = None;
            file.write(|transaction| {
                let mut table = transaction.open_table(META)?;
                before = table.insert("revision", 1)?.map(|it| it.value());
                Ok(())
            })
            .unwrap();
            assert_eq!(before, Some(1));
        }
        drop(file);
        assert_eq!(stored(&dir), 1);
    }

    #[test]
    fn a_file_that_was_removed_is_not_created_once_more() {
        let dir = TempDir::new("removed");
        let mut file = file(&dir);
        file.commit = lost;
        write(&mut file, 2).unwrap_err();
        file.commit = WriteTransaction::commit;
        file.database = None;
        fs::remove_file(file.path()).unwrap();
        let error = write(&mut file, 3).unwrap_err().to_string();
        assert!(error.contains("removed while the controller runs"), "{error}");
        assert!(!file.path().exists());
    }
}
