//! Sending what differs, and what follows from the answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_base::HashSet;
use sluice_openflow::Message;
use sluice_sdk::Answer;

use super::super::transaction::{BundleScope, Failure, Next, Outcome, Step, Transaction};
use super::super::{Notice, Outbox, Owned, Sent, backoff};
use super::{BUSY_PAUSE, Dirty, Running, Switch, UNDECLARED, WINDOW};
use crate::form::{Form, Slot};
use crate::status::{Now, State};

/// Why a group or meter is not installed whose number another program uses.
pub(super) const EXISTS: &str = "exists already, added by another program";

/// The state of an entry in whose place the switch has what a change of the whole network has installed before it was decided.
const PUT_BACK: &str = "replaced by a change that is not complete yet, or was given up";

impl Switch {
    pub(super) fn start_transactions(&mut self, now: Now, outbox: &mut Outbox) {
        let in_flight = |it: &Self| -> usize {
            it.transactions.values().map(|running| running.transaction.message_count()).sum()
        };
        if self.dirty.is_empty() || in_flight(self) > WINDOW / 2 {
            return;
        }
        let running: HashSet<_> = self
            .transactions
            .values()
            .flat_map(|running| running.transaction.steps.iter().map(|step| step.slot.clone()))
            .collect();
        let mut revisions: BTreeMap<u64, (Vec<Slot>, bool)> = BTreeMap::new();
        for (slot, dirty) in &self.dirty {
            if dirty.not_before > now.at && self.rewritten.contains_key(slot) {
                // What else of the change is missing does not wait for it.
                continue;
            }
            let (slots, is_due) = revisions.entry(dirty.revision).or_insert((vec![], true));
            *is_due &= dirty.not_before <= now.at && !running.contains(slot);
            slots.push(slot.clone());
        }
        if self.is_changing_declared() {
            revisions.remove(&UNDECLARED);
        }
        if let Some(unread_from) = self.unread_from() {
            revisions.split_off(&unread_from);
        }
        for (revision, (slots, _)) in revisions.into_iter().filter(|(_, (_, is_due))| *is_due) {
            if in_flight(self) > WINDOW {
                break;
            }
            self.start_transaction(revision, slots, now, outbox);
        }
    }

    /// The first change that adds something of a kind that was not read, so that another program may have it. Later changes may use
    /// what it adds.
    pub(super) fn unread_from(&self) -> Option<u64> {
        let is_unread =
            |slot: &Slot| !self.read_kinds.contains(&slot.kind()) && self.want.contains_key(slot);
        let unread = self.dirty.iter().filter(|(slot, _)| is_unread(slot));
        unread.map(|(_, dirty)| dirty.revision).min()
    }

    /// Whether something that is declared was not tried yet.
    fn is_changing_declared(&self) -> bool {
        let is_untried = |dirty: &Dirty| dirty.revision != UNDECLARED && dirty.attempts == 0;
        let mut running = self.transactions.values();
        self.dirty.values().any(is_untried)
            || running.any(|running| running.transaction.revision != UNDECLARED)
    }

    fn start_transaction(
        &mut self,
        revision: u64,
        slots: Vec<Slot>,
        now: Now,
        outbox: &mut Outbox,
    ) {
        let mut steps = Vec::with_capacity(slots.len());
        for slot in slots {
            let to = self.want.get(&slot).map(|(_, form)| form.clone());
            if let Some(step) = self.step_to(slot.clone(), to) {
                steps.push(step);
                continue;
            }
            self.dirty.remove(&slot);
            self.set_wanted_state(slot, State::Installed, now);
        }
        if steps.is_empty() {
            return;
        }
        let no = self.next_transaction;
        self.next_transaction += 1;
        let bundle = self.has_bundles.then(|| self.new_bundle());
        let transaction = Transaction::new(revision, steps, bundle);
        let mut added = transaction.steps.iter().filter(|step| step.from.is_none());
        if let Some(step) = added.find(|step| self.foreign.contains_key(&step.slot)) {
            let failure = Failure { slot: Some(step.slot.clone()), reason: EXISTS.to_owned() };
            self.postpone(&transaction, now);
            self.on_refused(transaction, &failure, now, outbox);
            return;
        }
        self.transactions.insert(no, Running { transaction, again_at: None });
        self.send(no, outbox);
    }

    /// What makes of a slot what is to be there; `None` if it is so already.
    pub(super) fn step_to(&self, slot: Slot, to: Option<Arc<Form>>) -> Option<Step> {
        let from = self.actual.as_ref().and_then(|actual| actual.get(&slot)).cloned();
        let from_any = from.as_ref().or_else(|| self.foreign.get(&slot));
        let is_same = match (from_any, &to) {
            (Some(from), Some(to)) => from.content == to.content,
            (_, None) => from.is_none(),
            _ => false,
        };
        if is_same { None } else { Step::new(slot, from, to, self.version()) }
    }

    pub(super) fn new_bundle(&mut self) -> u32 {
        // The highest bit distinguishes the bundle of a trial or a diagnosis.
        self.next_bundle = (self.next_bundle + 1) & 0x7fff_ffff;
        self.next_bundle
    }

    /// Sends the current messages of a transaction. Groups and meters are recorded in the store before, so that they are removed when
    /// they are no longer declared, even after a restart.
    pub(super) fn send(&mut self, no: u64, outbox: &mut Outbox) {
        let Some(running) = self.transactions.get_mut(&no) else { return };
        running.again_at = None;
        let messages = running.transaction.messages();
        let (mut owns, mut newly_owned) = (vec![], vec![]);
        for step in running.transaction.steps.iter().filter(|step| step.to.is_some()) {
            if let Some(owned) = Owned::new(self.names.id, &step.slot)
                && self.owned.insert(step.slot.clone())
            {
                owns.push(owned);
                newly_owned.push(step.slot.clone());
            }
        }
        running.transaction.newly_owned.extend(newly_owned);
        outbox.send(self.names.id, Sent::Change(no), messages, owns);
    }

    pub(super) fn disown(&mut self, slot: &Slot, out: &mut Outbox) {
        if self.owned.remove(slot) {
            out.disowned.extend(Owned::new(self.names.id, slot));
        }
    }

    /// The store has not recorded `owns`, which a transaction installs: nothing was sent.
    pub(in super::super) fn on_store_failure(
        &mut self,
        no: u64,
        owns: &[Owned],
        reason: &str,
        now: Now,
    ) {
        let Some(running) = self.transactions.remove(&no) else { return };
        for slot in owns.iter().filter_map(|owned| owned.slot()) {
            self.owned.remove(&slot);
        }
        let transaction = running.transaction;
        let outcome = Outcome::Refused(Failure { slot: None, reason: reason.to_owned() });
        if self.end_part(no, &transaction, &outcome, false) {
            return;
        }
        self.postpone(&transaction, now);
        for step in transaction.steps {
            self.set_wanted_state(step.slot, State::Pending(reason.to_owned()), now);
        }
    }

    pub(in super::super) fn on_answer(
        &mut self,
        no: u64,
        answer: Answer,
        now: Now,
        out: &mut Outbox,
    ) {
        let version = self.version();
        let is_lost = matches!(answer, Answer::Disconnected | Answer::NotConnected);
        let Some(running) = self.transactions.get_mut(&no) else { return };
        match running.transaction.on_answer(answer, version) {
            Next::Send => self.send(no, out),
            Next::Later => running.again_at = Some(now.at + BUSY_PAUSE),
            Next::NoBundle(scope, discard) => {
                self.has_bundles &= scope == BundleScope::Once;
                self.send_unanswered(discard, out);
                self.send(no, out);
            }
            Next::Wait => self.on_prepared(),
            Next::End(outcome, rest) => {
                self.send_unanswered(rest, out);
                let Some(Running { transaction, .. }) = self.transactions.remove(&no) else {
                    return;
                };
                self.disown_refused(&transaction, &outcome, out);
                let is_undecided = self.end_part(no, &transaction, &outcome, is_lost);
                match outcome {
                    // Nothing was changed of what was declared before.
                    Outcome::Refused(_) if is_undecided => {}
                    outcome => self.end(transaction, outcome, now, out),
                }
            }
        }
    }

    /// What another program has added does not become ours by an attempt to add it.
    fn disown_refused(&mut self, transaction: &Transaction, outcome: &Outcome, out: &mut Outbox) {
        let is_none_made = matches!(outcome, Outcome::Refused(_) | Outcome::NoTrials);
        for slot in &transaction.newly_owned {
            if is_none_made || transaction.existing.as_ref() == Some(slot) {
                self.disown(slot, out);
            }
        }
        let unsure =
            transaction.steps.iter().filter(|step| transaction.unsure.contains(&step.slot));
        let forms = unsure.filter_map(|step| Some((step.slot.clone(), step.to.clone()?)));
        self.unsure.extend(forms);
    }

    pub(super) fn send_unanswered(&self, messages: Vec<Message>, out: &mut Outbox) {
        if !messages.is_empty() {
            out.send(self.id(), Sent::Unanswered, messages, vec![]);
        }
    }

    fn end(&mut self, transaction: Transaction, outcome: Outcome, now: Now, out: &mut Outbox) {
        match outcome {
            Outcome::Done => self.on_done(transaction, now, out),
            Outcome::NoTrials => {}
            Outcome::Refused(failure) => {
                self.postpone(&transaction, now);
                self.on_refused(transaction, &failure, now, out);
            }
            Outcome::Unknown(reason) => {
                self.postpone(&transaction, now);
                for step in transaction.steps {
                    self.set_wanted_state(step.slot, State::Pending(reason.clone()), now);
                }
                self.actual = None;
                self.failures += 1;
                self.next_read = now.at + backoff(self.failures);
            }
        }
    }

    fn on_done(&mut self, transaction: Transaction, now: Now, out: &mut Outbox) {
        let revision = transaction.revision;
        self.is_unreliable = false;
        let removed = transaction.steps.iter().filter(|step| step.to.is_none()).count();
        if transaction.revision == UNDECLARED {
            out.notices.push(Notice::Removed { switch: self.id(), count: removed });
            if self.has_less_surplus() {
                self.next_read = now.at;
            }
        }
        for step in transaction.steps {
            let slot = step.slot;
            if let Some(actual) = &mut self.actual {
                match &step.to {
                    Some(form) => drop(actual.insert(slot.clone(), form.clone())),
                    None => drop(actual.remove(&slot)),
                }
            }
            if self.rewritten.contains_key(&slot) {
                self.just_rewritten.insert(slot.clone());
                self.next_read = now.at;
            }
            // Unless it was declared differently meanwhile, or is not declared yet, and is put back if that does not follow.
            let want = self.want.get(&slot).map(|(_, form)| &form.content);
            if want != step.to.as_ref().map(|form| &form.content) {
                if self.mark(&slot, revision, now) {
                    self.set_wanted_state(slot, State::Pending(PUT_BACK.to_owned()), now);
                }
                continue;
            }
            self.dirty.remove(&slot);
            match step.to {
                Some(_) => self.set_state(slot, State::Installed, now),
                None => self.disown(&slot, out),
            }
        }
        if removed > 0 {
            self.retry_at_once(now);
        }
    }

    /// There may be room now for what was refused. What is different, rather than missing, needs none.
    pub(super) fn retry_at_once(&mut self, now: Now) {
        for (slot, dirty) in &mut self.dirty {
            if !self.rewritten.contains_key(slot) {
                dirty.not_before = now.at;
            }
        }
    }

    fn on_refused(
        &mut self,
        transaction: Transaction,
        failure: &Failure,
        now: Now,
        out: &mut Outbox,
    ) {
        let culprit = failure.slot.as_ref().map(|slot| self.change_name(slot));
        let mut is_new = false;
        for step in transaction.steps {
            let is_culprit = failure.slot.as_ref().is_none_or(|slot| *slot == step.slot);
            let reason = match &culprit {
                Some(culprit) if !is_culprit => {
                    format!("{culprit} of the same change was refused: {}", failure.reason)
                }
                _ => failure.reason.clone(),
            };
            let state = State::Refused(reason);
            let dirty = self.dirty.get(&step.slot);
            let before = match self.status.get(&step.slot) {
                Some(status) => Some(&status.state),
                None => dirty.and_then(|dirty| dirty.removal.as_ref()),
            };
            is_new |= before != Some(&state);
            self.set_wanted_state(step.slot, state, now);
        }
        if is_new {
            out.notices.push(Notice::Refused {
                switch: self.id(),
                entry: culprit.unwrap_or_else(|| "a change".to_owned()),
                reason: failure.reason.clone(),
            });
        }
    }

    /// What is done in a slot, for people.
    fn change_name(&self, slot: &Slot) -> String {
        let removed = || self.dirty.get(slot)?.removed.as_ref();
        match (self.want.get(slot), removed()) {
            (Some((entry, _)), _) => entry.key().to_string(),
            (None, Some(entry)) => format!("removal of {}", entry.key()),
            (None, None) => format!("removal of an undeclared {}", slot.kind()),
        }
    }

    /// Sets the state of what is to be in a slot, or of its removal.
    fn set_wanted_state(&mut self, slot: Slot, state: State, now: Now) {
        if self.want.contains_key(&slot) {
            self.set_state(slot, state, now);
        } else if let Some(dirty) = self.dirty.get_mut(&slot) {
            dirty.removal = Some(state);
        }
    }

    /// The changes of a transaction are tried again later, together.
    fn postpone(&mut self, transaction: &Transaction, now: Now) {
        for step in &transaction.steps {
            if let Some(dirty) = self.dirty.get_mut(&step.slot)
                && dirty.revision == transaction.revision
            {
                dirty.attempts += 1;
                dirty.not_before = now.at + backoff(dirty.attempts);
            }
        }
    }
}
