//! Replaces a version of a policy with another one.
//!
//! ```text
//!  transit entries of the new version ──▶ confirmed by all switches ──▶ ingress entries ──▶ 5 s later: transit entries of the old one
//!  at all switches or at none                                           replaced             are removed (`retire.rs`)
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use sluice_io::clock;

use super::compile::{PolicyFlow, PolicyNetwork, PolicyTopology, compile};
use super::{FlowError, POLICIES_MAX, POLICY_FLOWS_MAX, Policy, PolicyError, PolicyVersion};
use crate::change;
use crate::entry::{Declaration, check_name};
use crate::reconcile::Reconciler;
use crate::service::{Core, Declared, WriteError, lock};

/// How long switches may take to confirm the transit entries of a new version.
const CONFIRM_MAX: Duration = Duration::from_secs(10);

/// What a policy would become.
#[derive(Debug)]
pub struct PolicyPlan {
    /// Whether it would stay the same.
    pub is_same: bool,
    /// What the switches would get.
    pub version: Arc<PolicyVersion>,
}

impl Declared {
    /// The policies, by name.
    pub fn policies(&self) -> Vec<Arc<Policy>> {
        lock(&self.shared.core).policies.values().cloned().collect()
    }

    /// A policy.
    pub fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        lock(&self.shared.core).policies.get(name).cloned()
    }

    /// What [`apply_policy`](Self::apply_policy) would do.
    ///
    /// # Errors
    /// As there, as far as switches need not be asked.
    pub fn plan_policy(
        &self,
        name: &str,
        flows: &[Declaration],
        topology: &PolicyTopology,
    ) -> Result<PolicyPlan, WriteError> {
        if let Some(error) = self.store_error() {
            return Err(WriteError::Store(error));
        }
        check_name(name).map_err(PolicyError::Name).map_err(WriteError::Policy)?;
        let core = self.shared.core_with_sessions();
        self.plan(&core, name, flows, topology).map_err(WriteError::Policy)
    }

    fn plan(
        &self,
        core: &Core,
        name: &str,
        flows: &[Declaration],
        topology: &PolicyTopology,
    ) -> Result<PolicyPlan, PolicyError> {
        let before = core.policies.get(name);
        if before.is_none() && core.policies.len() >= POLICIES_MAX {
            return Err(PolicyError::TooManyPolicies);
        }
        let flows = self.checked_flows(&core.reconciler, flows)?;
        let switches: BTreeSet<_> = flows.iter().flat_map(PolicyFlow::switches).collect();
        if let Some(id) = core.reconciler.without_bundles(&switches) {
            return Err(PolicyError::NoBundles(id));
        }
        let network = PolicyNetwork::new(topology, &switches)?;
        let (revision, changed_at) = (core.revision + 1, clock::since_epoch());
        let version = |tag| compile(name, &flows, &network, tag, revision, changed_at);
        if let Some(current) = before.and_then(|policy| policy.current.as_ref())
            && version(current.tag)?.is_same(current)
        {
            return Ok(PolicyPlan { is_same: true, version: Arc::clone(current) });
        }
        let used = core.policies.values().flat_map(|policy| policy.versions());
        let used: BTreeSet<_> = used.map(|version| version.tag).collect();
        let is_free = |tag: &u16| !used.contains(tag);
        let mut tags = self.shared.policy_tags.clone();
        let count = tags.len();
        let tag = tags.find(is_free).ok_or(PolicyError::NoTag { tags: count })?;
        Ok(PolicyPlan { is_same: false, version: Arc::new(version(tag)?) })
    }

    fn checked_flows(
        &self,
        reconciler: &Reconciler,
        declarations: &[Declaration],
    ) -> Result<Vec<PolicyFlow>, PolicyError> {
        if declarations.is_empty() {
            return Err(PolicyError::NoFlows);
        }
        if declarations.len() > POLICY_FLOWS_MAX {
            return Err(PolicyError::TooManyFlows(declarations.len()));
        }
        let (mut flows, mut errors, mut names) = (vec![], vec![], BTreeSet::new());
        for declaration in declarations {
            let name = &declaration.key.name;
            if !names.insert(name) {
                let message = "is in the policy twice".to_owned();
                errors.push(FlowError { flow: name.clone(), message });
                continue;
            }
            let switches = reconciler.selected(&declaration.switches)?;
            match PolicyFlow::new(declaration, switches, &self.shared.reserved) {
                Ok(flow) => flows.push(flow),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(flows) } else { Err(PolicyError::Flows(errors)) }
    }

    /// Puts a policy into effect, in the place of the one with this name: each packet is processed by the entries of the old or of the
    /// new one at all switches. Returns the number of the change, and whether anything was changed.
    ///
    /// # Errors
    /// It is invalid, a switch is not connected or has refused its part, or the change cannot be stored. Packets are processed as before.
    ///
    /// # Cost
    /// Blocks until the switches have answered: up to 50 s.
    pub fn apply_policy(
        &self,
        name: &str,
        flows: Vec<Declaration>,
        by: String,
        topology: &PolicyTopology,
    ) -> Result<(u64, bool), WriteError> {
        let _updating = lock(&self.shared.updating_policy);
        let plan = self.plan_policy(name, &flows, topology)?;
        let before = self.policy(name);
        if let Some(policy) = before.as_ref().filter(|_| plan.is_same) {
            return Ok((policy.revision, false));
        }
        let version = plan.version;
        let current = before.as_ref().and_then(|policy| policy.current.clone());
        let mut retired = before.as_ref().map(|policy| policy.retired.clone()).unwrap_or_default();
        let policy = Policy {
            name: name.to_owned(),
            flows: before.as_ref().map_or_else(Vec::new, |policy| policy.flows.clone()),
            by: by.clone(),
            changed_at: before.as_ref().map_or_else(clock::since_epoch, |policy| policy.changed_at),
            revision: before.as_ref().map_or(0, |policy| policy.revision),
            current: current.clone(),
            prepared: Some(Arc::clone(&version)),
            retired: retired.clone(),
        };
        let prepared = Arc::new(policy);
        self.replace_policy(name, before.as_ref(), Some(&prepared), false)?;
        if let Err(error) = self.wait_until_confirmed(&version) {
            self.abandon(name, &prepared, before.as_ref());
            return Err(WriteError::Policy(error));
        }
        retired.extend(current);
        let policy = Policy {
            flows,
            by,
            changed_at: clock::since_epoch(),
            revision: lock(&self.shared.core).revision + 1,
            ..prepared.with_versions(Some(version), None, retired)
        };
        let replaced = self.replace_policy(name, Some(&prepared), Some(&Arc::new(policy)), true);
        if replaced.is_err() {
            self.abandon(name, &prepared, before.as_ref());
        }
        Ok((replaced?, true))
    }

    /// Removes a policy: packets that enter the network are no longer processed by it, those in flight are processed to their end.
    /// With `is_forced`, all its entries are removed at once, whatever packets are in flight and whichever switch is not connected.
    /// Returns the number of the change.
    ///
    /// # Errors
    /// No policy has this name, a switch has refused its part, or the change cannot be stored.
    ///
    /// # Cost
    /// Blocks until the switches have answered: up to 20 s.
    pub fn remove_policy(&self, name: &str, is_forced: bool) -> Result<u64, WriteError> {
        let _updating = lock(&self.shared.updating_policy);
        let not_found = || WriteError::Policy(PolicyError::NotFound(name.to_owned()));
        let before = self.policy(name).ok_or_else(not_found)?;
        if is_forced {
            let _changing = lock(&self.shared.changing);
            let started = clock::now();
            let revision = lock(&self.shared.core).revision + 1;
            let applied = change::policy(name, Some(&before), None, revision);
            self.shared.commit(&applied)?;
            self.follow(&applied, started, None);
            return Ok(revision);
        }
        let Some(current) = before.current.clone() else { return Ok(before.revision) };
        let mut retired = before.retired.clone();
        retired.push(current);
        let revision = lock(&self.shared.core).revision + 1;
        let after = Policy { revision, ..before.with_versions(None, None, retired) };
        self.replace_policy(name, Some(&before), Some(&Arc::new(after)), true)
    }

    /// Changes the entries of a policy at all connected switches or at none. `is_reported` is whether it is an event.
    fn replace_policy(
        &self,
        name: &str,
        before: Option<&Arc<Policy>>,
        after: Option<&Arc<Policy>>,
        is_reported: bool,
    ) -> Result<u64, WriteError> {
        let _changing = lock(&self.shared.changing);
        let started = clock::now();
        let revision = lock(&self.shared.core).revision + 1;
        let applied = change::policy(name, before, after, revision);
        let commit = self.apply_everywhere(&applied, started)?;
        if is_reported {
            self.follow(&applied, started, commit);
        }
        Ok(revision)
    }

    /// Waits until all switches of a version have confirmed its transit entries.
    fn wait_until_confirmed(&self, version: &PolicyVersion) -> Result<(), PolicyError> {
        let (sender, tried) = channel();
        let revision = lock(&self.shared.core).revision;
        let notify = Box::new(move || {
            let _ = sender.send(());
        });
        if let Some(_waiter) = self.when_tried(revision, notify) {
            // If it is late, the states say why.
            let _ = tried.recv_timeout(CONFIRM_MAX);
        }
        let core = self.shared.core_with_sessions();
        match core.reconciler.unconfirmed(&version.switches, &version.transit) {
            None => Ok(()),
            Some((switch, reason)) => Err(PolicyError::Unconfirmed { switch, reason }),
        }
    }

    /// Removes the entries of a version that was prepared and is not put into effect. The store does not have them.
    fn abandon(&self, name: &str, prepared: &Arc<Policy>, before: Option<&Arc<Policy>>) {
        let _changing = lock(&self.shared.changing);
        let revision = lock(&self.shared.core).revision + 1;
        let applied = change::policy(name, Some(prepared), before, revision);
        self.shared.pass_on(&applied);
    }
}
