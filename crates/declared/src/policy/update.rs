//! Replaces a version of a policy with another one.
//!
//! ```text
//!  transit entries of the new version ──▶ confirmed by all switches ──▶ ingress entries ──▶ some seconds later: transit entries
//!  at all switches or at none                                           replaced            of the old one removed (`retire.rs`)
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use sluice_base::ordered;
use sluice_io::clock;

use super::compile::{PolicyFlow, PolicyNetwork, PolicyTopology, compile};
use super::{
    FlowError, POLICIES_ENTRIES_MAX, POLICIES_MAX, POLICY_FLOWS_MAX, Policy, PolicyError,
    PolicyVersion,
};
use crate::change;
use crate::entry::{Declaration, check_name, check_selector};
use crate::service::{Core, Declared, WriteError, lock};

/// How long switches may take to confirm the transit entries of a new version.
const CONFIRM_MAX: Duration = Duration::from_secs(5);

/// The number of entries that are only compared.
const UNUSED_REVISION: u64 = 0;

/// What a policy would become.
#[derive(Debug)]
pub struct PolicyPlan {
    /// Whether the switches have this already.
    pub is_same: bool,
    /// What the switches would get.
    pub version: Arc<PolicyVersion>,
}

/// Which tag the packets of a plan have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagChoice {
    /// The current one if nothing would change, otherwise a free one.
    Free,
    Given(u16),
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
        let choice = (TagChoice::Free, UNUSED_REVISION);
        self.plan(name, flows, topology, choice).map_err(WriteError::Policy)
    }

    /// Most of the work is done without the lock. The entries get the number of a change, by which switches that connect later get them
    /// together.
    fn plan(
        &self,
        name: &str,
        flows: &[Declaration],
        topology: &PolicyTopology,
        (tag, revision): (TagChoice, u64),
    ) -> Result<PolicyPlan, PolicyError> {
        check_name(name).map_err(PolicyError::Name)?;
        check_flows(flows)?;
        let (index, before) = {
            let core = self.shared.core_with_sessions();
            let before = core.policies.get(name).cloned();
            if before.is_none() && core.policies.len() >= POLICIES_MAX {
                return Err(PolicyError::TooManyPolicies);
            }
            (core.reconciler.switch_index(), before)
        };
        let current = before.as_ref().and_then(|policy| policy.current.as_ref());
        let members = current.map(|version| ordered(version.switches())).unwrap_or_default();
        let (mut parsed, mut errors) = (vec![], vec![]);
        for declaration in flows {
            let switches = index.select(&declaration.switches, &members)?;
            match PolicyFlow::new(declaration, switches, &self.shared.reserved) {
                Ok(flow) => parsed.push(flow),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(PolicyError::Flows(errors));
        }
        let switches: BTreeSet<_> = ordered(parsed.iter().flat_map(PolicyFlow::switches));
        if let Some(id) = lock(&self.shared.core).reconciler.without_bundles(&switches) {
            return Err(PolicyError::NoBundles(id));
        }
        let network = PolicyNetwork::new(topology, &switches)?;
        let stamp = (revision, clock::since_epoch());
        let version = |tag| compile(name, &parsed, &network, tag, stamp);
        if let (Some(current), TagChoice::Free) = (current, tag)
            && version(current.tag)?.is_same(current)
        {
            return Ok(PolicyPlan { is_same: true, version: Arc::clone(current) });
        }
        let version = version(match tag {
            TagChoice::Given(tag) => tag,
            TagChoice::Free => self.free_tag()?,
        })?;
        let core = lock(&self.shared.core);
        if tag == TagChoice::Free {
            check_room(&core, &version)?;
        }
        if let Some((entry, holder)) = core.reconciler.conflict(&version, name) {
            let flow = entry.key().of_policy().map_or("", |(_, flow)| flow).to_owned();
            let message = format!("has the same table, priority and match as {holder}");
            return Err(PolicyError::Flows(vec![FlowError { flow, message }]));
        }
        drop(core);
        Ok(PolicyPlan { is_same: false, version: Arc::new(version) })
    }

    /// The free tag whose turn it is: one that was used a moment ago may still be in packets or switches.
    fn free_tag(&self) -> Result<u16, PolicyError> {
        let core = lock(&self.shared.core);
        let used = core.policies.values().flat_map(|policy| policy.versions());
        let used: BTreeSet<_> = ordered(used.map(|version| version.tag));
        let tags = self.shared.policy_tags.clone();
        let last = core.last_tag.or_else(|| used.last().copied());
        let (after, until): (Vec<_>, Vec<_>) =
            tags.clone().partition(|tag| last.is_some_and(|last| *tag > last));
        let mut in_turn = after.into_iter().chain(until);
        let free = in_turn.find(|tag| !used.contains(tag));
        free.ok_or_else(|| PolicyError::NoTag { tags: tags.len() })
    }

    /// Puts a policy into effect, in the place of the one with this name: each packet is processed by the entries of the old or of the
    /// new one at all switches. `topology` is asked for the network, twice. Returns what is in effect, and whether anything was changed.
    ///
    /// # Errors
    /// It is invalid, a switch is not connected or has refused its part, or the change cannot be stored. Packets are processed as before.
    ///
    /// # Cost
    /// Blocks until the switches have answered: up to 45 s.
    pub fn apply_policy(
        &self,
        name: &str,
        flows: Vec<Declaration>,
        by: String,
        topology: &dyn Fn() -> PolicyTopology,
    ) -> Result<PolicyPlan, WriteError> {
        let _updating = lock(&self.shared.updating_policy);
        if let Some(error) = self.store_error() {
            return Err(WriteError::Store(error));
        }
        let choice = (TagChoice::Free, self.reserve_revision());
        let plan = self.plan(name, &flows, &topology(), choice).map_err(WriteError::Policy)?;
        let before = self.policy(name);
        if let Some(policy) = before.as_ref().filter(|_| plan.is_same) {
            self.redeclare(policy, flows, by)?;
            return Ok(plan);
        }
        let (version, before) = self.prepare(name, before, plan.version, &flows, topology)?;
        let current = before.as_ref().and_then(|policy| policy.current.clone());
        let mut retired = before.as_ref().map(|policy| policy.retired.clone()).unwrap_or_default();
        retired.extend(current);
        let prepared = self.policy(name);
        let after = Policy {
            name: name.to_owned(),
            flows,
            by,
            changed_at: clock::since_epoch(),
            current: Some(Arc::clone(&version)),
            prepared: None,
            retired,
        };
        match self.replace_policy(name, prepared.as_ref(), Some(&Arc::new(after)), true) {
            Ok(()) => Ok(PolicyPlan { is_same: false, version }),
            // It is in effect.
            Err(error @ WriteError::StaysDeclared(..)) => Err(error),
            Err(error) => {
                self.retire_prepared(name, before.as_ref(), &version);
                Err(error)
            }
        }
    }

    /// The number of a change that is nobody else's: what shares a number is installed together or not at all, and entries of a policy that do
    /// not fit must not keep out a quarantine.
    fn reserve_revision(&self) -> u64 {
        let _changing = lock(&self.shared.changing);
        let mut core = lock(&self.shared.core);
        core.revision += 1;
        core.revision
    }

    /// Stores other flow entries from which the same follows.
    fn redeclare(
        &self,
        policy: &Arc<Policy>,
        flows: Vec<Declaration>,
        by: String,
    ) -> Result<(), WriteError> {
        if policy.flows == flows {
            return Ok(());
        }
        let (current, retired) = (policy.current.clone(), policy.retired.clone());
        let changed_at = clock::since_epoch();
        let name = policy.name.clone();
        let after = Policy { name, flows, by, changed_at, current, prepared: None, retired };
        let _changing = lock(&self.shared.changing);
        let revision = lock(&self.shared.core).revision + 1;
        let change = change::policy(&policy.name, Some(policy), Some(&Arc::new(after)), revision);
        self.shared.commit(&change)
    }

    /// Installs the transit entries of a new version at all switches, and checks that nothing stands in the way of its ingress entries.
    /// Returns the version, and the policy before.
    fn prepare(
        &self,
        name: &str,
        before: Option<Arc<Policy>>,
        version: Arc<PolicyVersion>,
        flows: &[Declaration],
        topology: &dyn Fn() -> PolicyTopology,
    ) -> Result<(Arc<PolicyVersion>, Option<Arc<Policy>>), WriteError> {
        let prepared = Arc::new(Policy::preparing(name, before.as_deref(), &version));
        let result = self.replace_policy(name, before.as_ref(), Some(&prepared), false);
        let result = result.and_then(|()| {
            let prepared = self.check_prepared(name, flows, &topology(), &version);
            prepared.map_err(WriteError::Policy)
        });
        match result {
            Ok(()) => Ok((version, before)),
            Err(error) => {
                self.abandon(name, before.as_ref());
                Err(error)
            }
        }
    }

    /// Whether all switches of a version have its transit entries, and could have its ingress entries now.
    fn check_prepared(
        &self,
        name: &str,
        flows: &[Declaration],
        topology: &PolicyTopology,
        version: &PolicyVersion,
    ) -> Result<(), PolicyError> {
        let (sender, tried) = channel();
        let revision = lock(&self.shared.core).revision;
        let notify = Box::new(move || {
            let _ = sender.send(());
        });
        if let Some(_waiter) = self.when_tried(revision, notify) {
            // If it is late, the states say why.
            let _ = tried.recv_timeout(CONFIRM_MAX);
        }
        let choice = (TagChoice::Given(version.tag), UNUSED_REVISION);
        let again = self.plan(name, flows, topology, choice)?;
        if !again.version.is_same(version) {
            return Err(PolicyError::NetworkChanged);
        }
        let core = self.shared.core_with_sessions();
        let unconfirmed = |(switch, reason)| PolicyError::Unconfirmed { switch, reason };
        core.reconciler.unconfirmed(version).map_err(unconfirmed)
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
        } else if before.current.is_some() {
            let after = Arc::new(before.without_current());
            self.replace_policy(name, Some(&before), Some(&after), true)?;
        }
        Ok(lock(&self.shared.core).revision)
    }

    /// Changes the entries of a policy at all connected switches or at none. `is_reported` is whether it is an event.
    fn replace_policy(
        &self,
        name: &str,
        before: Option<&Arc<Policy>>,
        after: Option<&Arc<Policy>>,
        is_reported: bool,
    ) -> Result<(), WriteError> {
        let _changing = lock(&self.shared.changing);
        let started = clock::now();
        let revision = lock(&self.shared.core).revision + 1;
        let applied = change::policy(name, before, after, revision);
        let commit = self.apply_everywhere(&applied, started)?;
        if is_reported {
            self.follow(&applied, started, commit);
        }
        Ok(())
    }

    /// Removes the entries of a version that was prepared and with which no packet was tagged. The store does not have them.
    fn abandon(&self, name: &str, before: Option<&Arc<Policy>>) {
        self.pass_on_policy(name, before);
    }

    /// After the ingress entries of a version were refused: some switches may have had them, and packets may be tagged. Its transit entries are
    /// removed like those of a version that was replaced.
    fn retire_prepared(
        &self,
        name: &str,
        before: Option<&Arc<Policy>>,
        version: &Arc<PolicyVersion>,
    ) {
        let after = Policy::with_retired(name, before.map(|it| &**it), version);
        self.pass_on_policy(name, Some(&Arc::new(after)));
    }

    /// Makes a policy what is declared, without the store: that has it already, or keeps nothing of what differs.
    fn pass_on_policy(&self, name: &str, after: Option<&Arc<Policy>>) {
        let _changing = lock(&self.shared.changing);
        let present = self.policy(name);
        let revision = lock(&self.shared.core).revision + 1;
        self.shared.pass_on(&change::policy(name, present.as_ref(), after, revision));
    }
}

/// Whether all policies may have so many entries.
fn check_room(core: &Core, version: &PolicyVersion) -> Result<(), PolicyError> {
    let of_all: usize = core.policies.values().map(|policy| policy.entry_count()).sum();
    let is_too_much = of_all + version.count > POLICIES_ENTRIES_MAX;
    if is_too_much { Err(PolicyError::TooManyOfAll) } else { Ok(()) }
}

/// What can be seen without knowing the network.
fn check_flows(flows: &[Declaration]) -> Result<(), PolicyError> {
    if flows.is_empty() {
        return Err(PolicyError::NoFlows);
    }
    if flows.len() > POLICY_FLOWS_MAX {
        return Err(PolicyError::TooManyFlows(flows.len()));
    }
    let (mut errors, mut names) = (vec![], BTreeSet::new());
    for Declaration { key, switches, .. } in flows {
        let error = |message: String| FlowError { flow: key.name.clone(), message };
        if !names.insert(&key.name) {
            errors.push(error("is in the policy twice".to_owned()));
        }
        errors.extend(check_selector(switches).err().map(error));
    }
    if errors.is_empty() { Ok(()) } else { Err(PolicyError::Flows(errors)) }
}
