//! Changes of what is declared: checked as a whole before anything is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_base::HashMap;
use sluice_openflow::DatapathId;

use crate::entry::{Declaration, Entry, EntryError, Key, Reserved, Selector};
use crate::names::{NameError, NameOf, Names};

/// Entries that may be declared.
pub const ENTRIES_MAX: usize = 65_536;

/// Switches that the selector of an entry may list.
pub const SWITCHES_OF_ENTRY_MAX: usize = 1024;

/// A change of what is declared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Entries to declare, or to declare differently.
    pub set: Vec<Declaration>,
    /// Entries to remove.
    pub remove: Vec<Key>,
    /// Whether all other entries are removed.
    pub is_whole: bool,
    /// All names, if they change.
    pub names: Option<Names>,
}

/// Why a change is refused. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// Entries are invalid.
    Invalid(Vec<EntryError>),
    /// An entry that is to be removed is not declared.
    NotFound(Key),
    /// There would be too many entries.
    TooMany(usize),
    /// A name is invalid.
    Name(NameError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&errors.join("; "))
            }
            Self::NotFound(key) => write!(f, "no static {key} is declared"),
            Self::TooMany(count) => {
                write!(f, "{count} static entries would be declared (at most {ENTRIES_MAX})")
            }
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {}

/// What a difference is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    /// A static entry.
    Entry(Key),
    /// The name of a switch or host.
    Name(NameOf),
}

/// Something that a change changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What.
    pub of: DifferenceKind,
    /// The value before; `None` if there was none.
    pub before: Option<String>,
    /// The value after; `None` if it is removed.
    pub after: Option<String>,
}

/// A change that was checked.
#[derive(Debug)]
pub(crate) struct AppliedChange {
    pub(crate) revision: u64,
    /// Entries that are removed or replaced.
    pub(crate) removed: Vec<Arc<Entry>>,
    pub(crate) added: Vec<Arc<Entry>>,
    pub(crate) names: Option<Names>,
}

impl AppliedChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.names.is_none()
    }

    /// What it changes, in the order of the names.
    pub(crate) fn differences(&self, names: &Names) -> Vec<Difference> {
        let mut entries: BTreeMap<&Key, (Option<&Entry>, Option<&Entry>)> = BTreeMap::new();
        for entry in &self.removed {
            entries.entry(entry.key()).or_default().0 = Some(entry);
        }
        for entry in &self.added {
            entries.entry(entry.key()).or_default().1 = Some(entry);
        }
        let text =
            |entry: &Entry| format!("{}: {}", entry.declaration.switches, entry.declaration.text);
        let of_entries = entries.into_iter().map(|(key, (before, after))| Difference {
            of: DifferenceKind::Entry(key.clone()),
            before: before.map(text),
            after: after.map(text),
        });
        let new: BTreeMap<_, _> = self.names.as_ref().unwrap_or(names).iter().collect();
        let old: BTreeMap<_, _> = names.iter().collect();
        let all: BTreeSet<_> = old.keys().chain(new.keys()).copied().collect();
        let value = |names: &BTreeMap<NameOf, &str>, of| names.get(of).map(|it| (*it).to_owned());
        let of_names = all.iter().filter(|of| old.get(of) != new.get(of)).map(|of| Difference {
            of: DifferenceKind::Name(*of),
            before: value(&old, of),
            after: value(&new, of),
        });
        of_names.chain(of_entries).collect()
    }
}

/// The present state, against which a change is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present<'a> {
    pub(crate) entries: &'a BTreeMap<Key, Arc<Entry>>,
    pub(crate) names: &'a Names,
    pub(crate) reserved: &'a Reserved,
    pub(crate) revision: u64,
    pub(crate) now: Duration,
}

/// Checks a change. Entries that stay the same are not part of the result.
pub(crate) fn check(change: Change, present: Present<'_>) -> Result<AppliedChange, ChangeError> {
    let Present { entries, names, reserved, .. } = present;
    let (revision, mut errors) = (present.revision + 1, vec![]);
    let mut declared: BTreeMap<Key, Option<Arc<Entry>>> = BTreeMap::new();
    let mut removed: BTreeMap<Key, Arc<Entry>> = BTreeMap::new();
    for declaration in change.set {
        let key = declaration.key.clone();
        let before = entries.get(&key);
        let is_same = |before: &Arc<Entry>| before.declaration == declaration && before.is_valid();
        if before.is_some_and(is_same) {
            let is_twice = declared.insert(key.clone(), None).is_some();
            errors.extend(is_twice.then(|| twice(key)));
            continue;
        }
        match Entry::new(declaration, revision, present.now, reserved) {
            Ok(entry) => {
                let is_twice = declared.insert(key.clone(), Some(Arc::new(entry))).is_some();
                errors.extend(is_twice.then(|| twice(key.clone())));
                removed.extend(before.map(|before| (key, before.clone())));
            }
            Err(error) => errors.push(error),
        }
    }
    for key in change.remove {
        let Some(before) = entries.get(&key) else { return Err(ChangeError::NotFound(key)) };
        if declared.contains_key(&key) {
            errors.push(twice(key));
            continue;
        }
        removed.insert(key, before.clone());
    }
    if change.is_whole {
        let others = entries.iter().filter(|(key, _)| !declared.contains_key(*key));
        removed.extend(others.map(|(key, entry)| (key.clone(), entry.clone())));
    }
    if !errors.is_empty() {
        return Err(ChangeError::Invalid(errors));
    }
    let added: Vec<_> = declared.into_values().flatten().collect();
    let count = entries.len() - removed.len() + added.len();
    if count > ENTRIES_MAX {
        return Err(ChangeError::TooMany(count));
    }
    let new_names = change.names.filter(|new| new != names);
    let kept = entries.values().filter(|entry| !removed.contains_key(entry.key()));
    check_conflicts(&added, kept, new_names.as_ref().unwrap_or(names))?;
    let removed = removed.into_values().collect();
    Ok(AppliedChange { revision, removed, added, names: new_names })
}

fn twice(key: Key) -> EntryError {
    EntryError { key, message: "is in the change twice".to_owned() }
}

/// A switch cannot have two flow entries with the same table, priority and match, or two groups or meters with one number.
fn check_conflicts<'e>(
    added: &[Arc<Entry>],
    kept: impl Iterator<Item = &'e Arc<Entry>>,
    names: &Names,
) -> Result<(), ChangeError> {
    let mut places: HashMap<_, Vec<&Arc<Entry>>> = HashMap::default();
    let mut errors = vec![];
    for entry in added {
        let Some(form) = entry.any_form() else { continue };
        let others = places.entry(&form.slot).or_default();
        errors.extend(conflict(entry, others, names));
        others.push(entry);
    }
    for entry in kept {
        let others = entry.any_form().and_then(|form| places.get(&form.slot));
        for added in others.into_iter().flatten() {
            errors.extend(conflict(added, &[entry], names));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ChangeError::Invalid(errors)) }
}

fn conflict(entry: &Entry, others: &[&Arc<Entry>], names: &Names) -> Option<EntryError> {
    let selector = &entry.declaration.switches;
    let other = others.iter().find(|it| overlap(selector, &it.declaration.switches, names))?;
    let what = match entry.key().kind {
        crate::Kind::Flow => "the same table, priority and match",
        crate::Kind::Group => "the same group_id",
        crate::Kind::Meter => "the same number",
    };
    let message = format!("has {what} as {}, and switches in common", other.key());
    Some(EntryError { key: entry.key().clone(), message })
}

/// Whether two selectors may have a switch in common, as far as its names are known.
fn overlap(a: &Selector, b: &Selector, names: &Names) -> bool {
    let (Selector::Switches(a), Selector::Switches(b)) = (a, b) else { return true };
    let resolve = |text: &str| -> Result<DatapathId, String> {
        let switch = names.iter().find_map(|(of, name)| match of {
            NameOf::Switch(id) if name == text => Some(id),
            _ => None,
        });
        switch.or_else(|| text.parse().ok()).ok_or_else(|| text.to_owned())
    };
    if a.iter().any(|text| b.contains(text)) {
        return true;
    }
    let b: Vec<_> = b.iter().map(|text| resolve(text)).collect();
    a.iter().any(|text| b.contains(&resolve(text)))
}
