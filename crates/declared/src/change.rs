//! Changes of what is declared: checked as a whole before anything is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_base::{HashMap, ordered};
use sluice_openflow::{DatapathId, MacAddr};

use crate::entry::{Declaration, Entry, EntryError, Key, Reserved, Selector};
use crate::names::{NameError, NameOf, Names};
use crate::policy::Policy;
use crate::quarantine::{QUARANTINES_MAX, Quarantine, QuarantineError, QuarantineInfo};

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
    /// A host that is put into quarantine, or released; its entries are among the others.
    pub(crate) quarantine: Option<(MacAddr, Option<Arc<Quarantine>>)>,
    /// A policy that changes; its entries are among the others.
    pub(crate) policy: Option<PolicyChange>,
}

/// A change of a policy.
#[derive(Debug, Clone)]
pub(crate) struct PolicyChange {
    pub(crate) name: String,
    pub(crate) before: Option<Arc<Policy>>,
    pub(crate) after: Option<Arc<Policy>>,
}

impl AppliedChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.names.is_none()
    }

    /// The change that undoes it, to `names` if it has changed names.
    pub(crate) fn reversed(&self, names: Option<Names>) -> Self {
        let (removed, added) = (self.added.clone(), self.removed.clone());
        let reversed = |PolicyChange { name, before, after }| PolicyChange {
            name,
            before: after,
            after: before,
        };
        let policy = self.policy.clone().map(reversed);
        Self { revision: self.revision, removed, added, names, quarantine: None, policy }
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
        let new: BTreeMap<_, _> = ordered(self.names.as_ref().unwrap_or(names).iter());
        let old: BTreeMap<_, _> = ordered(names.iter());
        let all: BTreeSet<_> = ordered(old.keys().chain(new.keys()).copied());
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
    Ok(AppliedChange { revision, removed, added, names: new_names, quarantine: None, policy: None })
}

/// The change that puts a host into quarantine.
pub(crate) fn quarantine(
    mac: MacAddr,
    info: QuarantineInfo,
    present: &BTreeMap<MacAddr, Arc<Quarantine>>,
    revision: u64,
) -> Result<AppliedChange, QuarantineError> {
    let quarantine = Arc::new(Quarantine::new(mac, info, revision)?);
    if present.contains_key(&mac) {
        return Err(QuarantineError::Already(mac));
    }
    if present.len() >= QUARANTINES_MAX {
        return Err(QuarantineError::TooMany);
    }
    let (removed, added) = (vec![], quarantine.entries.to_vec());
    let quarantine = Some((mac, Some(quarantine)));
    Ok(AppliedChange { revision, removed, added, names: None, quarantine, policy: None })
}

/// The change that releases a host, and the quarantine that ends.
pub(crate) fn release(
    mac: MacAddr,
    present: &BTreeMap<MacAddr, Arc<Quarantine>>,
    revision: u64,
) -> Result<(AppliedChange, Arc<Quarantine>), QuarantineError> {
    let before = present.get(&mac).ok_or(QuarantineError::NotQuarantined(mac))?;
    let (removed, added) = (before.entries.to_vec(), vec![]);
    let quarantine = Some((mac, None));
    let change = AppliedChange { revision, removed, added, names: None, quarantine, policy: None };
    Ok((change, Arc::clone(before)))
}

/// The change that replaces a policy, or adds or removes it.
pub(crate) fn policy(
    name: &str,
    before: Option<&Arc<Policy>>,
    after: Option<&Arc<Policy>>,
    revision: u64,
) -> AppliedChange {
    let entries = |policy: Option<&Arc<Policy>>| -> BTreeMap<Key, Arc<Entry>> {
        let entries = policy.into_iter().flat_map(|policy| policy.entries());
        ordered(entries.map(|entry| (entry.key().clone(), Arc::clone(entry))))
    };
    let (old, new) = (entries(before), entries(after));
    let only = |of: &BTreeMap<Key, Arc<Entry>>, other: &BTreeMap<Key, Arc<Entry>>| {
        let of = of.iter().filter(|(key, _)| !other.contains_key(*key));
        of.map(|(_, entry)| Arc::clone(entry)).collect()
    };
    let (before, after) = (before.cloned(), after.cloned());
    AppliedChange {
        revision,
        removed: only(&old, &new),
        added: only(&new, &old),
        names: None,
        quarantine: None,
        policy: Some(PolicyChange { name: name.to_owned(), before, after }),
    }
}

fn twice(key: Key) -> EntryError {
    EntryError { key, message: "is in the change twice".to_owned() }
}

/// A switch cannot have two flow entries with the same table, priority and match, or two groups or meters with one number.
fn check_conflicts<'e>(
    added: &'e [Arc<Entry>],
    kept: impl Iterator<Item = &'e Arc<Entry>>,
    names: &'e Names,
) -> Result<(), ChangeError> {
    let switches = SwitchesByName::new(names);
    let mut places: HashMap<_, Holders<'_>> = HashMap::default();
    for form in added.iter().filter_map(|entry| entry.any_form()) {
        places.entry(&form.slot).or_default();
    }
    for entry in kept {
        if let Some(holders) = entry.any_form().and_then(|form| places.get_mut(&form.slot)) {
            holders.insert(entry, &switches);
        }
    }
    let mut errors = vec![];
    for entry in added {
        let holders = entry.any_form().and_then(|form| places.get_mut(&form.slot));
        if let Some(other) = holders.and_then(|holders| holders.insert(entry, &switches)) {
            errors.push(conflict(entry, other));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ChangeError::Invalid(errors)) }
}

fn conflict(entry: &Entry, other: &Entry) -> EntryError {
    let what = match entry.key().kind {
        crate::Kind::Flow => "the same table, priority and match",
        crate::Kind::Group => "the same group_id",
        crate::Kind::Meter => "the same number",
    };
    let message = format!("has {what} as {}, and switches in common", other.key());
    EntryError { key: entry.key().clone(), message }
}

/// A switch of a selector, as far as its names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Selected<'e> {
    Switch(DatapathId),
    /// The name that an unknown switch gives itself.
    Name(&'e str),
}

/// The switches that have a name.
struct SwitchesByName<'e>(HashMap<&'e str, DatapathId>);

impl<'e> SwitchesByName<'e> {
    fn new(names: &'e Names) -> Self {
        let of_switch = |(of, name)| match of {
            NameOf::Switch(id) => Some((name, id)),
            NameOf::Host(_) => None,
        };
        Self(names.iter().filter_map(of_switch).collect())
    }

    fn find(&self, text: &'e str) -> Selected<'e> {
        let id = self.0.get(text).copied().or_else(|| text.parse().ok());
        id.map_or(Selected::Name(text), Selected::Switch)
    }
}

/// The entries of one place, by the switches that they select.
#[derive(Default)]
struct Holders<'e> {
    all: Option<&'e Entry>,
    last: Option<&'e Entry>,
    by_switch: HashMap<Selected<'e>, &'e Entry>,
}

impl<'e> Holders<'e> {
    /// Adds an entry. Returns one that was added before and may have a switch in common.
    fn insert(&mut self, entry: &'e Entry, switches: &SwitchesByName<'e>) -> Option<&'e Entry> {
        let other = match &entry.declaration.switches {
            Selector::All => self.all.replace(entry).or(self.last),
            Selector::Switches(list) => {
                let mut other = self.all;
                for text in list {
                    let before = self.by_switch.insert(switches.find(text), entry);
                    other = other.or_else(|| before.filter(|before| before.key() != entry.key()));
                }
                other
            }
        };
        self.last = Some(entry);
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    fn flow(name: &str, switches: &[&str], text: &str) -> Declaration {
        let switches = match switches {
            ["all"] => Selector::All,
            list => Selector::Switches(list.iter().map(|it| (*it).to_owned()).collect()),
        };
        let key = Key { kind: Kind::Flow, name: name.to_owned() };
        Declaration { key, switches, text: text.to_owned() }
    }

    fn checked(
        entries: &BTreeMap<Key, Arc<Entry>>,
        names: &Names,
        set: Vec<Declaration>,
    ) -> Result<AppliedChange, ChangeError> {
        let reserved = Reserved::default();
        let present =
            Present { entries, names, reserved: &reserved, revision: 1, now: Duration::ZERO };
        check(Change { set, ..Change::default() }, present)
    }

    #[test]
    fn entries_conflict_if_a_switch_would_have_two_in_one_place() {
        let names = [(NameOf::Switch(DatapathId(1)), "core".to_owned())];
        let names = Names::new(names).unwrap();
        let same = "in_port=1,actions=drop";
        for (a, b, is_conflict) in [
            (&["1"][..], &["2"][..], false),
            (&["1", "3"], &["2", "3"], true),
            (&["core"], &["0000000000000001"], true),
            (&["core", "core"], &["s2"], false),
            (&["s2"], &["s3", "s2"], true),
            (&["all"], &["s2"], true),
            (&["s2"], &["all"], true),
            (&["all"], &["all"], true),
        ] {
            let [a, b] = [flow("a", a, same), flow("b", b, same)];
            let text = format!("{a:?} {b:?}");
            let empty = BTreeMap::new();
            let together = checked(&empty, &names, vec![a.clone(), b.clone()]);
            assert_eq!(together.is_err(), is_conflict, "{text}");
            let first = checked(&empty, &names, vec![a]).unwrap().added.remove(0);
            let entries = BTreeMap::from([(first.key().clone(), first)]);
            match checked(&entries, &names, vec![b]) {
                Err(error) => {
                    let message = "flow \"b\": has the same table, priority and match as flow \"a\", \
                         and switches in common";
                    assert!(is_conflict && error.to_string() == message, "{text}: {error}");
                }
                Ok(_) => assert!(!is_conflict, "{text}"),
            }
        }
    }

    /// With a comparison of each entry with each other one, and a search in all names for each of their switches, this would take
    /// minutes.
    #[test]
    fn many_entries_of_one_place_with_many_switches_and_names_are_checked_in_linear_time() {
        let name = |n: u64| (NameOf::Switch(DatapathId(n)), format!("switch-{n}"));
        let names = Names::new((1..=40_000).map(name)).unwrap();
        let declaration = |n: u64| {
            let switches: Vec<_> =
                (0..20).map(|at| format!("switch-{}", 20 * n + at + 1)).collect();
            let switches: Vec<_> = switches.iter().map(String::as_str).collect();
            flow(&format!("e{n}"), &switches, "in_port=1,actions=drop")
        };
        let started = sluice_io::clock::now();
        let applied = checked(&BTreeMap::new(), &names, (0..2000).map(declaration).collect());
        assert_eq!(applied.unwrap().added.len(), 2000);
        assert!(sluice_io::clock::now() - started < Duration::from_secs(20));
    }
}
