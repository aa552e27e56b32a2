//! What policies ask about switches.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_base::{HashMap, ordered};
use sluice_openflow::DatapathId;

use super::Reconciler;
use super::switch::Switch;
use crate::entry::{Entry, Selector};
use crate::policy::{Policy, PolicyError, PolicyVersion};
use crate::status::{State, Status};

/// The connected switches by the texts that select them.
#[derive(Debug)]
pub(crate) struct SwitchIndex {
    by_name: HashMap<String, BTreeSet<DatapathId>>,
    all: BTreeSet<DatapathId>,
}

impl SwitchIndex {
    /// The switches that are selected; `all` includes those of `members`, which is what it has selected before.
    ///
    /// # Errors
    /// One of them is not connected, or there is none.
    pub(crate) fn select(
        &self,
        selector: &Selector,
        members: &BTreeSet<DatapathId>,
    ) -> Result<BTreeSet<DatapathId>, PolicyError> {
        let selected = match selector {
            Selector::All => {
                if let Some(missing) = members.difference(&self.all).next() {
                    return Err(PolicyError::NotConnected(missing.to_string()));
                }
                self.all.clone()
            }
            Selector::Switches(list) => {
                let mut selected = BTreeSet::new();
                for name in list {
                    let of_id = name.parse().ok().filter(|id| self.all.contains(id));
                    let of_name = self.by_name.get(name);
                    if of_id.is_none() && of_name.is_none() {
                        return Err(PolicyError::NotConnected(name.clone()));
                    }
                    selected
                        .extend(of_id.into_iter().chain(of_name.into_iter().flatten().copied()));
                }
                selected
            }
        };
        if selected.is_empty() { Err(PolicyError::NoSwitch) } else { Ok(selected) }
    }
}

impl Reconciler {
    /// Which switches can be selected.
    pub(crate) fn switch_index(&self) -> SwitchIndex {
        let mut by_name: HashMap<String, BTreeSet<_>> = HashMap::default();
        for (id, switch) in &self.switches {
            let names = &switch.names;
            for name in names.given.iter().chain(&names.own) {
                by_name.entry(name.clone()).or_default().insert(*id);
            }
        }
        SwitchIndex { by_name, all: ordered(self.switches.keys().copied()) }
    }

    /// A switch that cannot replace entries at once.
    pub(crate) fn without_bundles(&self, switches: &BTreeSet<DatapathId>) -> Option<DatapathId> {
        let has_none = |id: &&DatapathId| self.switches.get(id).is_none_or(|it| !it.has_bundles());
        switches.iter().find(has_none).copied()
    }

    /// An entry of a version whose table, priority and match something else has that is declared, and what has it.
    pub(crate) fn conflict<'v>(
        &self,
        version: &'v PolicyVersion,
        policy: &str,
    ) -> Option<(&'v Arc<Entry>, String)> {
        let find = |switch: &Switch, entry: &'v Arc<Entry>| {
            let form = entry.form(switch.version()).ok()?;
            let (holder, _) = switch.want.get(&form.slot)?;
            let is_own = holder.key().of_policy().is_some_and(|(name, _)| name == policy);
            (!is_own).then(|| (entry, holder.key().to_string()))
        };
        version.entries.iter().find_map(|(id, entries)| {
            let switch = self.switches.get(id)?;
            let mut all = entries.ingress.iter().chain(&entries.transit);
            all.find_map(|entry| find(switch, entry))
        })
    }

    /// A switch that has not confirmed all transit entries of a version, or may have others with its tag, and why.
    pub(crate) fn unconfirmed(&self, version: &PolicyVersion) -> Result<(), (DatapathId, String)> {
        for (id, entries) in &version.entries {
            let switch = self.known(*id)?;
            if switch.has_leftovers() {
                return Err((*id, "it has entries that are being removed".to_owned()));
            }
            confirmed(switch, &entries.transit)?;
        }
        Ok(())
    }

    /// Whether no switch tags packets with another version of a policy than the current one.
    ///
    /// # Errors
    /// A switch that may, and why. A switch that is not part of the current version does not count while it is away: it may be away for good.
    pub(crate) fn has_replaced(&self, policy: &Policy) -> Result<(), (DatapathId, String)> {
        if let Some(current) = &policy.current {
            for (id, entries) in &current.entries {
                confirmed(self.known(*id)?, &entries.ingress)?;
            }
        }
        let switches: BTreeSet<_> = ordered(policy.versions().flat_map(|it| it.switches()));
        for id in switches {
            let is_away = !self.switches.contains_key(&id);
            if is_away && policy.current.is_some() {
                continue;
            }
            let is_of_policy =
                |key: &crate::Key| key.of_policy().is_some_and(|(name, _)| name == policy.name);
            let switch = self.known(id)?;
            let mut removals = switch.removals().filter_map(|it| it.entry);
            if switch.has_leftovers() || removals.any(is_of_policy) {
                return Err((id, "entries are being removed".to_owned()));
            }
        }
        Ok(())
    }

    /// A switch of which it is known what it has.
    fn known(&self, id: DatapathId) -> Result<&Switch, (DatapathId, String)> {
        let switch = self.switches.get(&id);
        let switch = switch.ok_or_else(|| (id, State::NOT_CONNECTED.to_owned()))?;
        if switch.is_known() { Ok(switch) } else { Err((id, "not read yet".to_owned())) }
    }

    /// The state of a policy in its switches that are connected: of each the worst of its current entries.
    pub fn policy_statuses(&self, policy: &Policy) -> Vec<(DatapathId, Status)> {
        let current = policy.current.iter().flat_map(|version| &version.entries);
        let worst = |(id, entries): (&DatapathId, &crate::policy::SwitchEntries)| {
            let switch = self.switches.get(id)?;
            let all = entries.ingress.iter().chain(&entries.transit);
            let statuses = all.map(|entry| switch.status(entry));
            Some((*id, statuses.max_by_key(|status| status.state.severity())?))
        };
        current.filter_map(worst).collect()
    }

    /// The switches of a policy that are not connected.
    pub fn unconnected_of_policy(&self, policy: &Policy) -> Vec<DatapathId> {
        let switches = policy.versions().flat_map(|version| version.switches());
        let missing: BTreeSet<_> = ordered(switches.filter(|id| !self.switches.contains_key(id)));
        missing.into_iter().collect()
    }

    /// Why versions of a policy that were replaced still have entries, if it is not only for packets in flight.
    pub fn why_not_retired(&self, policy: &Policy) -> Option<(DatapathId, String)> {
        if policy.retired.is_empty() { None } else { self.has_replaced(policy).err() }
    }
}

fn confirmed(switch: &Switch, entries: &[Arc<Entry>]) -> Result<(), (DatapathId, String)> {
    let states = entries.iter().map(|entry| switch.status(entry).state);
    match states.into_iter().find(|state| *state != State::Installed) {
        Some(state) => Err((switch.id(), state.to_string())),
        None => Ok(()),
    }
}
