//! The tables of the store and their records, and what is read from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde::{Deserialize, Serialize};
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Cable, DrainedLink, SwitchPort};

use super::file::Failure;
use crate::entry::{Declaration, Entry, Key, Kind};
use crate::names::{NameOf, Names};
use crate::policy::{Policy, PolicyRecord};
use crate::quarantine::{Quarantine, QuarantineInfo};
use crate::reconcile::Owned;

/// The format of the records. A store with another one is not opened.
pub(super) const FORMAT: u64 = 1;

/// `flow/NAME` and JSON.
pub(super) const ENTRIES: TableDefinition<'_, &str, &str> = TableDefinition::new("entries");

/// `switch/DPID` or `host/MAC`, and the name.
pub(super) const NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("names");

/// Ethernet address and JSON.
pub(super) const QUARANTINES: TableDefinition<'_, u64, &str> = TableDefinition::new("quarantines");

/// The name of a policy and JSON.
pub(super) const POLICIES: TableDefinition<'_, &str, &str> = TableDefinition::new("policies");

/// Datapath ids and ports of both ends of a drained link, and since when, in nanoseconds since 1970-01-01 UTC.
pub(super) const DRAINS: TableDefinition<'_, (u64, u32, u64, u32), u64> =
    TableDefinition::new("drains");

/// Datapath id, kind and number of the groups and meters that were installed.
pub(super) const OWNED: TableDefinition<'_, (u64, u8, u32), ()> = TableDefinition::new("owned");

/// `format` and `revision`.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

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
    /// Policies, by name.
    pub policies: BTreeMap<String, Arc<Policy>>,
    /// Links that are taken out of service.
    pub drains: Vec<(Cable, DrainedLink)>,
}

/// A record of an entry.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) declaration: Declaration,
    pub(super) revision: u64,
    pub(super) changed_at_unix_s: u64,
}

/// A record of a quarantined host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QuarantineRecord<I> {
    #[serde(flatten)]
    pub(super) info: I,
    pub(super) revision: u64,
}

pub(super) fn read(database: &Database) -> Result<Contents, Failure> {
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
    if let Some(table) = existing(transaction.open_table(POLICIES))? {
        for row in table.iter()? {
            let (name, value) = row?;
            let name = name.value().to_owned();
            let record: PolicyRecord = serde_json::from_str(value.value())
                .map_err(|error| format!("damaged record of policy {name:?}: {error}"))?;
            let policy = Policy::from_record(name.clone(), record);
            contents.policies.insert(name, Arc::new(policy));
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

pub(super) fn entry_key(key: &Key) -> String {
    format!("{}/{}", key.kind, key.name)
}

pub(super) fn name_key(of: NameOf) -> String {
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
