//! The store: what is declared, durable. An embedded database (redb) in a file of the state directory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Cable, DrainedLink, SwitchPort};

use crate::change::AppliedChange;
use crate::entry::{Declaration, Entry, Key, Kind};
use crate::names::{NameOf, Names};
use crate::quarantine::{Quarantine, QuarantineInfo};
use crate::reconcile::Owned;

/// The name of the file in the state directory.
const FILE: &str = "static.redb";

/// Its name while it is made: what is left of an attempt that was interrupted is not taken for the store.
const NEW_FILE: &str = "static.redb.new";

/// The format of the records. A store with another one is not opened.
const FORMAT: u64 = 1;

/// The thread in which the store is opened. Its panics mean that the file is damaged.
pub const OPEN_THREAD: &str = "store";

/// Memory of the database for pages.
const CACHE_BYTES: usize = 4 << 20;

/// `flow/NAME` and JSON.
const ENTRIES: TableDefinition<'_, &str, &str> = TableDefinition::new("entries");

/// `switch/DPID` or `host/MAC`, and the name.
const NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("names");

/// Ethernet address and JSON.
const QUARANTINES: TableDefinition<'_, u64, &str> = TableDefinition::new("quarantines");

/// Datapath ids and ports of both ends of a drained link, and since when, in nanoseconds since 1970-01-01 UTC.
const DRAINS: TableDefinition<'_, (u64, u32, u64, u32), u64> = TableDefinition::new("drains");

/// Datapath id, kind and number of the groups and meters that were installed.
const OWNED: TableDefinition<'_, (u64, u8, u32), ()> = TableDefinition::new("owned");

/// `format` and `revision`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Why the store cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    path: PathBuf,
    message: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for StoreError {}

/// What the store has.
#[derive(Debug, Default)]
pub struct Contents {
    /// The number of the last change.
    pub revision: u64,
    /// All entries.
    pub entries: BTreeMap<Key, Arc<Entry>>,
    /// All names.
    pub names: Names,
    /// Groups and meters that were installed.
    pub owned: Vec<Owned>,
    /// Hosts in quarantine.
    pub quarantines: BTreeMap<MacAddr, Arc<Quarantine>>,
    /// Links that are taken out of service.
    pub drains: Vec<(Cable, DrainedLink)>,
}

/// A record of an entry.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    declaration: Declaration,
    revision: u64,
    changed_at_unix_s: u64,
}

/// A record of a quarantined host.
#[derive(Debug, Serialize, Deserialize)]
struct QuarantineRecord<I> {
    #[serde(flatten)]
    info: I,
    revision: u64,
}

/// The store. Its file is made with the first change.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// `None` before the first change, and after an error: the database is opened again with the next change.
    database: Option<Database>,
}

type Failure = Box<dyn std::error::Error>;

impl Store {
    /// Opens the store in a directory and reads it. It is empty if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is in use by another process.
    pub fn open(dir: &Path) -> Result<(Self, Contents), StoreError> {
        let path = dir.join(FILE);
        let dir = dir.to_owned();
        // In a thread: the database panics at some kinds of damage instead of returning an error.
        let opened = thread::Builder::new().name(OPEN_THREAD.to_owned());
        let opened = opened.spawn(move || Self::open_here(&dir)).map(JoinHandle::join);
        let failed = |message: String| StoreError { path: path.clone(), message };
        match opened {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed("damaged".to_owned())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn open_here(dir: &Path) -> Result<(Self, Contents), StoreError> {
        let mut store = Self { dir: dir.to_owned(), database: None };
        let path = store.path();
        let failed = |error: Failure| StoreError { path: path.clone(), message: error.to_string() };
        let exists = path.try_exists().map_err(|error| failed(error.into()))?;
        if !exists {
            return Ok((store, Contents::default()));
        }
        let mut database = open_database(&path).map_err(failed)?;
        database.check_integrity().map_err(|error| failed(error.into()))?;
        let contents = read(&database).map_err(failed)?;
        store.database = Some(database);
        Ok((store, contents))
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Writes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The disk is full, for example. The change is not in the store.
    pub(crate) fn commit(&mut self, change: &AppliedChange) -> Result<(), StoreError> {
        self.write(|transaction| {
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
        self.write(|transaction| {
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
        self.write(|transaction| {
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

    fn write(
        &mut self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), StoreError> {
        let result = self.try_write(fill);
        result.map_err(|error| {
            // After an error of the disk the database refuses all.
            self.database = None;
            StoreError { path: self.path(), message: error.to_string() }
        })
    }

    fn try_write(
        &mut self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.create()?,
        };
        let transaction = begin_write(self.database.insert(database))?;
        fill(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// Opens the file, or makes it.
    fn create(&self) -> Result<Database, Failure> {
        let path = self.path();
        if path.try_exists()? {
            return open_database(&path);
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

/// With two phases: what is durable has to be undamaged to be read. With one, the database would return to an earlier state if the last
/// one is damaged, as if a change had not been made.
fn begin_write(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
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

fn read(database: &Database) -> Result<Contents, Failure> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let format = meta.get("format")?.map(|it| it.value());
    if format != Some(FORMAT) {
        let format = format.map_or_else(|| "none".to_owned(), |format| format.to_string());
        return Err(format!("format {format} (this version of Sluice reads {FORMAT})").into());
    }
    let mut contents = Contents {
        revision: meta.get("revision")?.map_or(0, |it| it.value()),
        ..Contents::default()
    };
    // A table does not exist before something was written to it.
    if let Some(table) = existing(transaction.open_table(ENTRIES))? {
        for row in table.iter()? {
            let (key, value) = row?;
            let entry = read_entry(value.value())
                .map_err(|error| format!("damaged record {:?}: {error}", key.value()))?;
            contents.entries.insert(entry.key().clone(), Arc::new(entry));
        }
    }
    if let Some(table) = existing(transaction.open_table(NAMES))? {
        let mut names = vec![];
        for row in table.iter()? {
            let (key, value) = row?;
            let of = read_name_key(key.value())
                .ok_or_else(|| format!("damaged record {:?}", key.value()))?;
            names.push((of, value.value().to_owned()));
        }
        contents.names = Names::new(names)?;
    }
    if let Some(table) = existing(transaction.open_table(OWNED))? {
        for row in table.iter()? {
            let (switch, kind, number) = row?.0.value();
            let kind = if kind == Kind::Group as u8 { Kind::Group } else { Kind::Meter };
            contents.owned.push(Owned { switch: DatapathId(switch), kind, number });
        }
    }
    if let Some(table) = existing(transaction.open_table(QUARANTINES))? {
        for row in table.iter()? {
            let (key, value) = row?;
            let mac = MacAddr::from_u64(key.value());
            let quarantine = read_quarantine(mac, value.value())
                .map_err(|error| format!("damaged record of host {mac}: {error}"))?;
            contents.quarantines.insert(mac, Arc::new(quarantine));
        }
    }
    if let Some(table) = existing(transaction.open_table(DRAINS))? {
        for row in table.iter()? {
            let (key, since_ns) = row?;
            let (switch, port, other, other_port) = key.value();
            let end = |switch, port| SwitchPort::new(DatapathId(switch), PortNo(port));
            let cable = Cable::new(end(switch, port), end(other, other_port));
            let requested_at = Duration::from_nanos(since_ns.value());
            contents.drains.push((cable, DrainedLink { requested_at }));
        }
    }
    Ok(contents)
}

fn read_quarantine(mac: MacAddr, text: &str) -> Result<Quarantine, Failure> {
    let record: QuarantineRecord<QuarantineInfo> = serde_json::from_str(text)?;
    Ok(Quarantine::new(mac, record.info, record.revision)?)
}

fn existing<T>(table: Result<T, redb::TableError>) -> Result<Option<T>, redb::TableError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_entry(text: &str) -> Result<Entry, Failure> {
    let record: Record = serde_json::from_str(text)?;
    let changed_at = Duration::from_secs(record.changed_at_unix_s);
    Ok(Entry::stored(record.declaration, record.revision, changed_at))
}

fn entry_key(key: &Key) -> String {
    format!("{}/{}", key.kind, key.name)
}

fn name_key(of: NameOf) -> String {
    match of {
        NameOf::Switch(id) => format!("switch/{id}"),
        NameOf::Host(mac) => format!("host/{mac}"),
    }
}

fn read_name_key(key: &str) -> Option<NameOf> {
    match key.split_once('/')? {
        ("switch", id) => id.parse().ok().map(NameOf::Switch),
        ("host", mac) => mac.parse::<MacAddr>().ok().map(NameOf::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, ChangeError, Present, check, quarantine, release};
    use crate::entry::{Reserved, Selector};

    /// A directory that is removed at the end.
    struct TempDir(PathBuf);

    impl TempDir {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("sluice-store-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            Self(dir)
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn checked(contents: &Contents, change: Change) -> Result<AppliedChange, ChangeError> {
        let present = Present {
            entries: &contents.entries,
            names: &contents.names,
            reserved: &Reserved::default(),
            revision: contents.revision,
            now: Duration::from_secs(9),
        };
        check(change, present)
    }

    fn change(contents: &Contents, count: usize) -> AppliedChange {
        let declaration = |n| Declaration {
            key: Key { kind: Kind::Flow, name: format!("e{n}") },
            switches: Selector::All,
            text: format!("in_port={n},actions=drop"),
        };
        let names = Names::new([(NameOf::Switch(DatapathId(7)), "core".to_owned())]).unwrap();
        let set = (1..=count).map(declaration).collect();
        let change = Change { set, names: Some(names), ..Change::default() };
        checked(contents, change).unwrap()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let dir = TempDir::new("read");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        assert!(empty.entries.is_empty() && !dir.0.exists());
        store.commit(&change(&empty, 3)).unwrap();
        let owned = Owned { switch: DatapathId(7), kind: Kind::Meter, number: 5 };
        store.record_owned(&[owned], &[]).unwrap();
        let error = Store::open(&dir.0).map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("in use by another process"), "{error}");
        drop(store);
        let (mut store, read) = Store::open(&dir.0).unwrap();
        assert_eq!((read.revision, read.entries.len()), (1, 3));
        assert_eq!(read.names.switch(DatapathId(7)), Some("core"));
        assert_eq!(read.owned, [owned]);
        store.record_owned(&[], &[owned]).unwrap();
        drop(store);
        assert_eq!(Store::open(&dir.0).unwrap().1.owned, []);
    }

    #[test]
    fn quarantines_and_drained_links_are_read_again() {
        let dir = TempDir::new("operations");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        let since = Duration::from_secs(1_700_000_000);
        let info = QuarantineInfo::new("uid 0".to_owned(), Some("scans".to_owned()), since);
        let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
        for (mac, revision) in macs.into_iter().zip(1..) {
            let change = quarantine(mac, info.clone(), &empty.quarantines, revision).unwrap();
            store.commit(&change).unwrap();
        }
        let end = |n| SwitchPort::new(DatapathId(n), PortNo(1));
        let cables = [Cable::new(end(1), end(2)), Cable::new(end(u64::MAX), end(3))];
        let drained = DrainedLink { requested_at: Duration::from_millis(1_700_000_000_123) };
        for cable in cables {
            store.record_drain(cable, Some(drained)).unwrap();
        }
        drop(store);
        let (mut store, read) = Store::open(&dir.0).unwrap();
        assert_eq!((read.revision, read.entries.len(), read.quarantines.len()), (2, 0, 2));
        let [_, second] = macs.map(|mac| read.quarantines[&mac].clone());
        assert_eq!((&second.info, second.entries[0].revision), (&info, 2));
        assert_eq!(read.drains, cables.map(|cable| (cable, drained)));
        store.commit(&release(macs[0], &read.quarantines, 3).unwrap().0).unwrap();
        store.record_drain(cables[0], None).unwrap();
        drop(store);
        let (_, read) = Store::open(&dir.0).unwrap();
        assert_eq!(read.quarantines.keys().collect::<Vec<_>>(), [&macs[1]]);
        assert_eq!(read.drains, [(cables[1], drained)]);
    }

    /// Any damage is an error or does not show; none is a panic, and nothing else than what was written is ever read. Above all not
    /// nothing: the entries would be removed from all switches.
    #[test]
    fn damage_is_an_error() {
        let dir = TempDir::new("damage");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        let written = change(&empty, 100);
        store.commit(&written).unwrap();
        let path = store.path();
        // As after `kill -9`, and after the database was closed.
        let killed = fs::read(&path).unwrap();
        drop(store);
        let good = fs::read(&path).unwrap();
        let mut errors = 0;
        // What was written is at the beginning.
        let (start, all) = (0..32_768, 0..good.len());
        for (file, places, step) in [(&killed, start, 700), (&good, all, good.len() / 50)] {
            for at in places.step_by(step) {
                let mut bad = file.clone();
                let end = (at + 700).min(bad.len());
                bad[at..end].fill(0xa5);
                fs::write(&path, &bad).unwrap();
                match Store::open(&dir.0) {
                    Ok((_, read)) => assert_eq!(read.entries.len(), 100, "{at}"),
                    Err(_) => errors += 1,
                }
            }
        }
        for len in [0, 1, 100, good.len() / 2, good.len() - 1] {
            fs::write(&path, &good[..len]).unwrap();
            assert!(Store::open(&dir.0).is_err(), "{len} bytes");
        }
        assert!(errors > 0);
    }

    /// The process is killed, or the disk is full, before the file is complete.
    #[test]
    fn a_store_whose_creation_was_interrupted_is_created_again() {
        let dir = TempDir::new("interrupted");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        fs::create_dir_all(&dir.0).unwrap();
        let unformatted = builder().create(dir.0.join("other")).unwrap();
        drop(unformatted);
        let unformatted = fs::read(dir.0.join("other")).unwrap();
        for left in [&[][..], &[0xa5; 5000], &unformatted[..unformatted.len() / 2], &unformatted] {
            let _ = fs::remove_file(store.path());
            drop(store);
            fs::write(dir.0.join(NEW_FILE), left).unwrap();
            let contents;
            (store, contents) = Store::open(&dir.0).unwrap();
            assert!(contents.entries.is_empty());
            store.commit(&change(&empty, 3)).unwrap();
            drop(store);
            (store, _) = Store::open(&dir.0).unwrap();
            assert!(!fs::exists(dir.0.join(NEW_FILE)).unwrap());
        }
        store.commit(&change(&empty, 2)).unwrap();
    }

    /// An error while the file is made leaves no file that could not be opened, and the next change makes it.
    #[test]
    fn the_first_change_can_be_made_again_after_an_error() {
        let dir = TempDir::new("first");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        // The file cannot be opened.
        fs::create_dir_all(dir.0.join(NEW_FILE)).unwrap();
        store.commit(&change(&empty, 3)).unwrap_err();
        assert!(Store::open(&dir.0).unwrap().1.entries.is_empty());
        fs::remove_dir(dir.0.join(NEW_FILE)).unwrap();
        store.commit(&change(&empty, 3)).unwrap();
        drop(store);
        assert_eq!(Store::open(&dir.0).unwrap().1.entries.len(), 3);
    }

    #[test]
    fn two_processes_do_not_make_the_file_at_the_same_time() {
        let dir = TempDir::new("two");
        let [(mut a, empty), (mut b, _)] = [(); 2].map(|()| Store::open(&dir.0).unwrap());
        a.commit(&change(&empty, 3)).unwrap();
        let error = b.commit(&change(&empty, 2)).unwrap_err().to_string();
        assert!(error.ends_with("in use by another process"), "{error}");
        drop(a);
        assert_eq!(Store::open(&dir.0).unwrap().1.entries.len(), 3);
    }

    /// As after an update whose parser is stricter.
    #[test]
    fn an_entry_that_is_no_longer_valid_is_read_nevertheless() {
        let dir = TempDir::new("invalid");
        let (mut store, empty) = Store::open(&dir.0).unwrap();
        let mut applied = change(&empty, 3);
        let declaration = Declaration {
            key: Key { kind: Kind::Flow, name: "old".to_owned() },
            switches: Selector::All,
            text: "in_port=1,actions=teleport".to_owned(),
        };
        let invalid = Entry::stored(declaration.clone(), 1, Duration::from_secs(9));
        applied.added.push(Arc::new(invalid));
        store.commit(&applied).unwrap();
        drop(store);
        let (_, contents) = Store::open(&dir.0).unwrap();
        let entry = &contents.entries[&declaration.key];
        assert_eq!((contents.entries.len(), &entry.declaration), (4, &declaration));
        let error = entry.form(sluice_openflow::Version::V1_3).unwrap_err();
        assert!(error.contains("teleport"), "{error}");
        // Declared once more, the error is reported.
        let again = Change { set: vec![declaration], ..Change::default() };
        checked(&contents, again).unwrap_err();
    }
}
