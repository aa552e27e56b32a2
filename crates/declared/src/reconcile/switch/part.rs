//! The part of a switch in a change of the whole network: prepared without an effect, and then committed or abandoned.
//!
//! ```text
//!  waiting ──▶ preparing ──▶ prepared ──────────▶ committing ──▶ made
//!                  │ no bundles, meters               ▲
//!                  └──▶ held ──▶ changing ──▶ made ───┘ decided: nothing is left to do
//! ```
//!
//! Until it is decided, [`Switch::want`] is what was declared before. What a switch without trials has changed already is put back
//! like any other difference if the change is abandoned.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_base::{HashMap, HashSet};

use super::super::transaction::{Failure, Outcome, Step, Transaction};
use super::super::{Outbox, PartRefusal};
use super::changes::EXISTS;
use super::{NOT_MASTER, Running, Switch};
use crate::change::AppliedChange;
use crate::entry::{Entry, Key, Kind};
use crate::form::{Form, Slot};
use crate::status::Now;

/// What a change makes of a slot; `None` if it is empty then.
type Targets = HashMap<Slot, Option<(String, Arc<Form>)>>;

#[derive(Debug)]
pub(in super::super) struct Part {
    revision: u64,
    targets: Targets,
    transaction: Option<u64>,
    pub(in super::super) state: PartState,
}

/// How far a switch is with its part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum PartState {
    /// What the switch has is not known, or earlier changes are still in flight.
    Waiting,
    /// Nothing has an effect yet.
    Preparing,
    /// The switch would accept all, and has it in a bundle.
    Prepared,
    /// The switch cannot be asked without an effect, so it is changed when all others are prepared.
    Held,
    /// The switch is being changed.
    Changing,
    /// The commit was sent.
    Committing,
    /// The switch is as it is to be.
    Made,
    /// The switch has disconnected, or has not answered to the commit: it is made as declared when it can be read.
    Left,
    /// The switch has refused it.
    Refused(PartRefusal),
}

impl Part {
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.state == PartState::Waiting
    }
}

impl Switch {
    /// Takes part in a change, if it changes anything here.
    pub(in super::super) fn take_part(
        &mut self,
        change: &AppliedChange,
        entries: &BTreeMap<Key, Arc<Entry>>,
        now: Now,
    ) {
        let (targets, state) = match self.targets(change, entries) {
            Ok(targets) if targets.is_empty() => return,
            Ok(targets) => (targets, PartState::Waiting),
            Err(refusal) => (Targets::default(), PartState::Refused(refusal)),
        };
        if self.actual.is_none() {
            // Otherwise it may be read only when something is declared.
            self.next_read = self.next_read.min(now.at);
        }
        let revision = change.revision;
        self.part = Some(Part { revision, targets, transaction: None, state });
    }

    fn targets(
        &self,
        change: &AppliedChange,
        entries: &BTreeMap<Key, Arc<Entry>>,
    ) -> Result<Targets, PartRefusal> {
        let (before, mut after) = (&self.names, self.names.clone());
        let mut targets = Targets::default();
        if let Some(names) = &change.names {
            after.given = names.switch(before.id).map(str::to_owned);
        }
        let removed = change.removed.iter();
        for entry in removed.filter(|entry| before.are_selected_by(&entry.declaration.switches)) {
            self.target_none(entry, &mut targets);
        }
        if after != *before {
            let removed: HashSet<_> = change.removed.iter().map(|entry| entry.key()).collect();
            let kept = entries.values().filter(|entry| !removed.contains(entry.key()));
            for entry in kept {
                let selector = &entry.declaration.switches;
                match (before.are_selected_by(selector), after.are_selected_by(selector)) {
                    (true, false) => self.target_none(entry, &mut targets),
                    (false, true) => self.target(entry, &mut targets)?,
                    _ => {}
                }
            }
        }
        let added = change.added.iter();
        for entry in added.filter(|entry| after.are_selected_by(&entry.declaration.switches)) {
            self.target(entry, &mut targets)?;
        }
        Ok(targets)
    }

    fn target_none(&self, entry: &Entry, targets: &mut Targets) {
        if let Ok(form) = entry.form(self.version())
            && self.has(entry)
        {
            targets.insert(form.slot.clone(), None);
        }
    }

    fn target(&self, entry: &Entry, targets: &mut Targets) -> Result<(), PartRefusal> {
        let name = entry.key().to_string();
        let refused = |reason: String| PartRefusal { entry: Some(name.clone()), reason };
        let form = entry.form(self.version()).map_err(|error| refused(error.to_owned()))?;
        let held_by = match targets.get(&form.slot) {
            Some(target) => target.as_ref().map(|(other, _)| other.clone()),
            None => self.want.get(&form.slot).map(|(other, _)| other.key().to_string()),
        };
        if let Some(other) = held_by {
            return Err(refused(format!("the same as {other}")));
        }
        targets.insert(form.slot.clone(), Some((name, Arc::clone(form))));
        Ok(())
    }

    /// Begins with the part when nothing else is in flight.
    pub(super) fn start_part(&mut self, outbox: &mut Outbox) {
        let is_free = self.actual.is_some() && self.transactions.is_empty();
        if !is_free || !self.part.as_ref().is_some_and(Part::is_waiting) {
            return;
        }
        if let Some(refusal) = self.unreadable_target() {
            return self.set_part(PartState::Refused(refusal));
        }
        let steps = self.part_steps();
        if steps.is_empty() {
            return self.set_part(PartState::Made);
        }
        if let Some(refusal) = self.refused_here(&steps) {
            return self.set_part(PartState::Refused(refusal));
        }
        let has_meters = steps.iter().any(|step| step.slot.kind() == Kind::Meter);
        if has_meters || !self.has_bundles || self.has_trials == Some(false) {
            return self.set_part(PartState::Held);
        }
        let (bundle, has_trials) = (self.new_bundle(), self.has_trials == Some(true));
        let prepare = |revision| Transaction::prepare(revision, steps, bundle, has_trials);
        self.start_part_transaction(PartState::Preparing, prepare, outbox);
    }

    /// Changes a switch that could not be prepared.
    pub(in super::super) fn start_held(&mut self, outbox: &mut Outbox) {
        if self.part.as_ref().is_none_or(|part| part.state != PartState::Held) {
            return;
        }
        let steps = self.part_steps();
        let bundle = self.has_bundles.then(|| self.new_bundle());
        let change = |revision| Transaction::new(revision, steps, bundle);
        self.start_part_transaction(PartState::Changing, change, outbox);
    }

    fn start_part_transaction(
        &mut self,
        state: PartState,
        transaction: impl FnOnce(u64) -> Transaction,
        outbox: &mut Outbox,
    ) {
        let no = self.next_transaction;
        let Some(part) = &mut self.part else { return };
        (part.state, part.transaction) = (state, Some(no));
        self.next_transaction += 1;
        let transaction = transaction(part.revision);
        self.transactions.insert(no, Running { transaction, again_at: None });
        self.send(no, outbox);
    }

    /// An entry of a kind that the switch does not have.
    fn unreadable_target(&self) -> Option<PartRefusal> {
        let targets = self.part.iter().flat_map(|part| &part.targets);
        let mut added = targets.filter_map(|(slot, target)| Some((slot, target.as_ref()?)));
        added.find_map(|(slot, (name, _))| {
            let reason = self.unreadable.get(&slot.kind())?.clone();
            Some(PartRefusal { entry: Some(name.clone()), reason })
        })
    }

    /// What is known to be refused.
    fn refused_here(&self, steps: &[Step]) -> Option<PartRefusal> {
        if self.is_slave() {
            return Some(PartRefusal { entry: None, reason: NOT_MASTER.to_owned() });
        }
        let mut added = steps.iter().filter(|step| step.from.is_none());
        let slot = &added.find(|step| self.foreign.contains_key(&step.slot))?.slot;
        let target = self.part.as_ref().and_then(|part| part.targets.get(slot)?.as_ref());
        let entry = target.map(|(name, _)| name.clone());
        Some(PartRefusal { entry, reason: EXISTS.to_owned() })
    }

    fn part_steps(&self) -> Vec<Step> {
        let targets = self.part.iter().flat_map(|part| &part.targets);
        let step = |(slot, target): (&Slot, &Option<(String, Arc<Form>)>)| {
            let to = target.as_ref().map(|(_, form)| Arc::clone(form));
            self.step_to(slot.clone(), to)
        };
        targets.filter_map(step).collect()
    }

    fn set_part(&mut self, state: PartState) {
        if let Some(part) = &mut self.part {
            part.state = state;
        }
    }

    /// A transaction of the part waits for the decision.
    pub(super) fn on_prepared(&mut self) {
        self.set_part(PartState::Prepared);
    }

    /// A transaction has ended. Returns whether it was that of the part, and is not decided yet.
    pub(super) fn end_part(
        &mut self,
        no: u64,
        transaction: &Transaction,
        outcome: &Outcome,
        is_lost: bool,
    ) -> bool {
        let Some(part) = self.part.as_mut().filter(|part| part.transaction == Some(no)) else {
            return false;
        };
        let is_decided = part.state == PartState::Committing;
        part.transaction = None;
        part.state = match outcome {
            Outcome::Done => PartState::Made,
            Outcome::NoTrials => {
                self.has_trials = Some(false);
                PartState::Held
            }
            Outcome::Refused(failure) => PartState::Refused(part.refusal(failure)),
            Outcome::Unknown(_) if is_decided || is_lost => PartState::Left,
            Outcome::Unknown(reason) => {
                PartState::Refused(PartRefusal { entry: None, reason: reason.clone() })
            }
        };
        if transaction.has_proof() {
            self.has_trials = Some(true);
        }
        !is_decided
    }

    /// Sends the commit of what was prepared. Otherwise the part is over.
    pub(in super::super) fn commit_part(&mut self, outbox: &mut Outbox) {
        let no = match &mut self.part {
            Some(part) if part.state == PartState::Prepared => {
                part.state = PartState::Committing;
                part.transaction
            }
            _ => {
                self.part = None;
                return;
            }
        };
        let Some(no) = no else { return };
        if let Some(running) = self.transactions.get_mut(&no) {
            running.transaction.commit();
        }
        self.send(no, outbox);
    }

    /// Gives up what has no effect yet. What has one is waited for, and put back.
    pub(in super::super) fn abandon_part(&mut self, outbox: &mut Outbox) {
        let Some(no) = self.part.take().and_then(|part| part.transaction) else { return };
        let Some(running) = self.transactions.get(&no) else { return };
        if running.transaction.has_proof() {
            self.has_trials = Some(true);
        }
        if let Some(discard) = running.transaction.abandon() {
            let abandoned = self.transactions.remove(&no);
            for slot in abandoned.iter().flat_map(|it| &it.transaction.newly_owned) {
                self.disown(slot, outbox);
            }
            self.send_unanswered(discard, outbox);
        }
    }

    /// Why the switch is not ready, for a change that has to end.
    pub(in super::super) fn part_delay(&self) -> PartRefusal {
        let is_waiting = self.part.as_ref().is_some_and(Part::is_waiting);
        let reading = || self.read_failure.clone().unwrap_or_else(|| "not read yet".to_owned());
        let reason = if is_waiting && (self.actual.is_none() || self.reading.is_some()) {
            reading()
        } else {
            "no answer in time".to_owned()
        };
        PartRefusal { entry: None, reason }
    }
}

impl Part {
    fn refusal(&self, failure: &Failure) -> PartRefusal {
        let target = failure.slot.as_ref().and_then(|slot| self.targets.get(slot));
        let name = |target: &Option<(String, Arc<Form>)>| match target {
            Some((name, _)) => name.clone(),
            None => "a deletion".to_owned(),
        };
        PartRefusal { entry: target.map(name), reason: failure.reason.clone() }
    }
}
