//! What policies ask about switches.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_openflow::DatapathId;

use super::Reconciler;
use crate::entry::{Entry, POLICY_NAME, Selector};
use crate::policy::{Policy, PolicyError};
use crate::status::{State, Status};

impl Reconciler {
    /// The connected switches that are selected.
    ///
    /// # Errors
    /// A switch that is named is not connected, or none is.
    pub(crate) fn selected(
        &self,
        selector: &Selector,
    ) -> Result<BTreeSet<DatapathId>, PolicyError> {
        let are_selected = |id: &DatapathId| {
            self.switches.get(id).is_some_and(|it| it.names.are_selected_by(selector))
        };
        if let Some(name) = self.unconnected_of(selector).first() {
            return Err(PolicyError::NotConnected((*name).to_owned()));
        }
        let selected: BTreeSet<_> = self.switches.keys().copied().filter(are_selected).collect();
        if selected.is_empty() {
            return Err(PolicyError::NoSwitch);
        }
        Ok(selected)
    }

    /// A switch that cannot replace entries at once.
    pub(crate) fn without_bundles(&self, switches: &BTreeSet<DatapathId>) -> Option<DatapathId> {
        let has_none = |id: &&DatapathId| self.switches.get(id).is_none_or(|it| !it.has_bundles());
        switches.iter().find(has_none).copied()
    }

    /// A switch that has not confirmed all of these entries, and why.
    pub(crate) fn unconfirmed(
        &self,
        switches: &BTreeSet<DatapathId>,
        entries: &[Arc<Entry>],
    ) -> Option<(DatapathId, String)> {
        if let Some(id) = switches.iter().find(|id| !self.switches.contains_key(id)) {
            return Some((*id, State::NOT_CONNECTED.to_owned()));
        }
        let unconfirmed = |entry: &Arc<Entry>| {
            let statuses = self.statuses(entry).into_iter();
            let mut open = statuses.filter(|(_, status)| status.state != State::Installed);
            open.next().map(|(id, status)| (id, status.state.to_string()))
        };
        entries.iter().find_map(unconfirmed)
    }

    /// Whether no switch tags packets with a version of the policy other than the current one.
    pub(crate) fn has_replaced(&self, policy: &Policy) -> bool {
        let prefix = format!("{POLICY_NAME}{}:", policy.name);
        let mut switches: BTreeSet<_> =
            policy.retired.iter().flat_map(|version| &version.switches).copied().collect();
        if let Some(current) = &policy.current {
            // A switch that is no longer part of the policy may be away for good.
            switches.clone_from(&current.switches);
            if self.unconfirmed(&switches, &current.ingress).is_some() {
                return false;
            }
        }
        let is_done = |id: &DatapathId| {
            self.switches.get(id).is_some_and(|switch| {
                let is_of_policy = |name: &str| name.starts_with(&prefix);
                let mut removals = switch.removals();
                switch.is_known()
                    && !removals.any(|it| it.entry.is_none_or(|key| is_of_policy(&key.name)))
            })
        };
        switches.iter().all(is_done)
    }

    /// The state of a policy in its switches: of each the worst of its current entries.
    pub fn policy_statuses(&self, policy: &Policy) -> Vec<(DatapathId, Status)> {
        let Some(current) = &policy.current else { return vec![] };
        let entries = || current.ingress.iter().chain(&current.transit);
        let worst = |id: &DatapathId| {
            let switch = self.switches.get(id)?;
            let is_here = |it: &&Arc<Entry>| switch.names.are_selected_by(&it.declaration.switches);
            let statuses = entries().filter(is_here).map(|entry| switch.status(entry));
            Some((*id, statuses.max_by_key(|status| status.state.severity())?))
        };
        current.switches.iter().filter_map(worst).collect()
    }

    /// The switches of a policy that are not connected.
    pub fn unconnected_of_policy(&self, policy: &Policy) -> Vec<DatapathId> {
        let switches = policy.current.iter().flat_map(|version| &version.switches);
        switches.copied().filter(|id| !self.switches.contains_key(id)).collect()
    }
}
