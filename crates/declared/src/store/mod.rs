//! The store: what is declared, durable. An embedded database (redb) in a file of the state directory.

mod contents;
mod file;

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use sluice_sdk::view::{Cable, DrainedLink};

pub use self::contents::Contents;
use self::contents::{
    DRAINS, ENTRIES, META, NAMES, OWNED, POLICIES, QUARANTINES, QuarantineRecord, Record,
    entry_key, name_key,
};
pub(crate) use self::file::LastWrite;
pub use self::file::StoreError;
use self::file::StoreFile;
use crate::change::{AppliedChange, PolicyChange};
use crate::reconcile::Owned;

/// The thread in which the store is opened. Its panics mean that the file is damaged.
pub const OPEN_THREAD: &str = "store";

/// The store. Its file is made with the first change.
#[derive(Debug)]
pub struct Store {
    file: StoreFile,
}

impl Store {
    /// Opens the store in a directory and reads it. It is empty if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is in use by another process.
    pub fn open(dir: &Path) -> Result<(Self, Contents), StoreError> {
        let store = Self { file: StoreFile::new(dir) };
        let path = store.path();
        // In a thread: the database panics at some kinds of damage instead of returning an error.
        let opened = thread::Builder::new().name(OPEN_THREAD.to_owned());
        let opened = opened.spawn(move || store.read()).map(JoinHandle::join);
        let message = match opened {
            Ok(Ok(result)) => return result,
            Ok(Err(_)) => "damaged".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(StoreError::new(path, message))
    }

    fn read(mut self) -> Result<(Self, Contents), StoreError> {
        let contents = match self.file.open() {
            Ok(Some(database)) => contents::read(database),
            Ok(None) => Ok(Contents::default()),
            Err(error) => Err(error),
        };
        match contents {
            Ok(contents) => Ok((self, contents)),
            Err(error) => Err(StoreError::new(self.path(), error.to_string())),
        }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Whether the last write has failed.
    pub(crate) fn last_write(&self) -> LastWrite {
        self.file.last_write()
    }

    /// Writes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The disk is full, for example. The change is not in the store, unless the error says that this is unknown.
    pub(crate) fn commit(&mut self, change: &AppliedChange) -> Result<(), StoreError> {
        self.file.write(|transaction| {
            let mut entries = transaction.open_table(ENTRIES)?;
            for entry in change.removed.iter().filter(|entry| entry.key().is_declared()) {
                entries.remove(&*entry_key(entry.key()))?;
            }
            for entry in change.added.iter().filter(|entry| entry.key().is_declared()) {
                let record = Record {
                    declaration: entry.declaration.clone(),
                    revision: entry.revision,
                    changed_at_unix_s: entry.changed_at.as_secs(),
                };
                entries.insert(&*entry_key(entry.key()), &*serde_json::to_string(&record)?)?;
            }
            if let Some(names) = &change.names {
                transaction.delete_table(NAMES)?;
                let mut table = transaction.open_table(NAMES)?;
                for (of, name) in names.iter() {
                    table.insert(&*name_key(of), name)?;
                }
            }
            if let Some((mac, quarantine)) = &change.quarantine {
                let mut table = transaction.open_table(QUARANTINES)?;
                match quarantine {
                    Some(it) => {
                        let record = QuarantineRecord { info: &it.info, revision: change.revision };
                        table.insert(mac.to_u64(), &*serde_json::to_string(&record)?)?;
                    }
                    None => drop(table.remove(mac.to_u64())?),
                }
            }
            if let Some(PolicyChange { name, after, .. }) = &change.policy {
                let mut table = transaction.open_table(POLICIES)?;
                match after.as_ref().filter(|policy| policy.was_applied()) {
                    Some(policy) => {
                        let record = serde_json::to_string(&policy.to_record())?;
                        table.insert(&**name, &*record)?;
                    }
                    None => drop(table.remove(&**name)?),
                }
            }
            transaction.open_table(META)?.insert("revision", change.revision)?;
            Ok(())
        })
    }

    /// Records groups and meters that are about to be installed, and those that were removed.
    ///
    /// # Errors
    /// As with changes.
    pub fn record_owned(&mut self, added: &[Owned], removed: &[Owned]) -> Result<(), StoreError> {
        let key = |it: &Owned| (it.switch.0, it.kind as u8, it.number);
        self.file.write(|transaction| {
            let mut owned = transaction.open_table(OWNED)?;
            for it in removed {
                owned.remove(key(it))?;
            }
            for it in added {
                owned.insert(key(it), ())?;
            }
            Ok(())
        })
    }

    /// Records that a link is taken out of service, or put back.
    ///
    /// # Errors
    /// As with changes.
    pub(crate) fn record_drain(
        &mut self,
        cable: Cable,
        drained: Option<DrainedLink>,
    ) -> Result<(), StoreError> {
        let [a, b] = cable.ends();
        let key = (a.switch.0, a.port.0, b.switch.0, b.port.0);
        self.file.write(|transaction| {
            let mut drains = transaction.open_table(DRAINS)?;
            match drained {
                Some(it) => {
                    let since_ns = u64::try_from(it.requested_at.as_nanos())?;
                    drop(drains.insert(key, since_ns)?);
                }
                None => drop(drains.remove(key)?),
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
