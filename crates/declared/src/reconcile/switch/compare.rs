//! Reading a switch, and finding what differs from what it is to have.

use std::sync::Arc;
use std::time::Instant;

use sluice_base::{HashMap, ordered};
use sluice_sdk::Answer;

use super::super::read_slots::ReadClass;
use super::super::reading::{Contents, ReadNext, Reading, UNDECLARED_MAX};
use super::super::{Notice, Outbox, Sent, backoff};
use super::{BUSY_PAUSE, Dirty, Part, Switch, UNDECLARED};
use crate::entry::Kind;
use crate::form::{Form, Slot, transition};
use crate::status::{Now, State};

impl Switch {
    /// Since when it has to be read, if it has. The part of a change that waits only for transactions comes first.
    pub(in super::super) fn waits_to_read(&self, now: Now) -> Option<Instant> {
        let is_read_for = |part: &Part| part.is_waiting() && self.actual.is_none();
        let is_free = self.reading.is_none() && self.part.as_ref().is_none_or(is_read_for);
        Some(self.next_read).filter(|&at| is_free && at <= now.at)
    }

    /// Whether it has a slot for a reading.
    pub(in super::super) fn has_read_slot(&self) -> bool {
        self.reading.is_some() || self.granted_until.is_some()
    }

    /// Which slots it may have.
    pub(in super::super) fn read_class(&self) -> ReadClass {
        match (self.is_unreliable, self.was_read()) {
            (true, _) => ReadClass::Unreliable,
            (false, false) => ReadClass::Unread,
            (false, true) => ReadClass::Read,
        }
    }

    /// Whether its session has a reading that was not answered, and none that was.
    pub(in super::super) fn has_never_answered(&self) -> bool {
        !self.was_read() && (self.is_unreliable || self.reading.is_some())
    }

    fn was_read(&self) -> bool {
        !self.read_kinds.is_empty()
    }

    /// Whether flow entries were left out of the last reading, and it is of use to delete those that were read and to read again: a
    /// switch that goes on to report what was deleted is not read without a pause.
    pub(super) fn has_less_surplus(&self) -> bool {
        let is_less = self.surplus + UNDECLARED_MAX / 2 <= self.surplus_before;
        self.surplus > 0 && (self.surplus_before == 0 || is_less)
    }

    /// Takes a slot, and reads as soon as no transaction is in flight: a reading might see what is just being changed.
    pub(in super::super) fn grant_reading(&mut self, now: Now, outbox: &mut Outbox) {
        self.granted_until = Some(now.at + outbox.timeout);
        self.continue_grant(now, outbox);
    }

    /// Reads if it has a slot and no transaction is in flight, and returns the slot if they take too long.
    pub(in super::super) fn continue_grant(&mut self, now: Now, outbox: &mut Outbox) {
        let Some(until) = self.granted_until else { return };
        if self.waits_to_read(now).is_none() {
            self.granted_until = None;
        } else if self.transactions.is_empty() {
            self.granted_until = None;
            self.start_reading(outbox);
        } else if until <= now.at {
            self.granted_until = None;
            self.next_read = now.at + self.verify_interval;
        }
    }

    fn start_reading(&mut self, outbox: &mut Outbox) {
        let has = |kind| self.want.keys().chain(&self.owned).any(|slot| slot.kind() == kind);
        let others: Vec<_> = [Kind::Group, Kind::Meter].into_iter().filter(|it| has(*it)).collect();
        self.reading = Some(Reading::new(others));
        self.request_part(outbox);
    }

    fn request_part(&self, outbox: &mut Outbox) {
        let message = self.reading.as_ref().and_then(|reading| reading.request(self.version()));
        outbox.send(self.id(), Sent::Read, message.into_iter().collect(), vec![]);
    }

    pub(in super::super) fn on_read(&mut self, answer: Answer, now: Now, out: &mut Outbox) {
        let Some(reading) = &mut self.reading else { return };
        let kinds = reading.kinds.clone();
        match reading.on_answer(answer, &self.want) {
            ReadNext::Request => self.request_part(out),
            ReadNext::Later => {
                self.reading = None;
                self.next_read = now.at + BUSY_PAUSE;
            }
            ReadNext::Failed(reason) => {
                self.reading = None;
                self.actual = None;
                self.failures += 1;
                self.is_unreliable = true;
                self.next_read = now.at + backoff(self.failures);
                for slot in self.want.keys().cloned().collect::<Vec<_>>() {
                    self.set_state(slot, State::Pending(reason.clone()), now);
                }
                self.read_failure = Some(reason);
            }
            ReadNext::Complete(Contents { entries, unreadable, surplus }) => {
                self.reading = None;
                self.read_failure = None;
                self.failures = 0;
                self.is_unreliable = false;
                self.next_read = now.at + self.verify_interval;
                self.read_kinds = kinds;
                self.unreadable = ordered(unreadable);
                self.surplus_before = std::mem::replace(&mut self.surplus, surplus);
                self.compare(entries, now, out);
                if self.is_unused() {
                    self.next_read = self.unused_read(now.at);
                }
                if self.want.keys().any(|slot| !self.read_kinds.contains(&slot.kind())) {
                    // Declared while the switch was read.
                    self.next_read = now.at;
                }
            }
        }
    }

    /// Finds what differs.
    fn compare(&mut self, mut read: HashMap<Slot, Arc<Form>>, now: Now, out: &mut Outbox) {
        self.leave_foreign(&mut read, now, out);
        self.adopt_converted(&mut read);
        let is_first = self.actual.is_none();
        let (mut missing, mut modified) = (0, vec![]);
        let wanted: Vec<_> = self
            .want
            .iter()
            .map(|(slot, (entry, form))| (slot.clone(), entry.revision, form.clone()))
            .collect();
        for (slot, revision, form) in wanted {
            if let Some(reason) = self.unreadable.get(&slot.kind()) {
                self.dirty.remove(&slot);
                self.set_state(slot, State::Refused(reason.clone()), now);
                continue;
            }
            let is_foreign_same =
                self.foreign.get(&slot).is_some_and(|it| it.content == form.content);
            if is_foreign_same || self.is_as_wanted(&slot, &form, read.get(&slot), out) {
                self.dirty.remove(&slot);
                self.set_state(slot, State::Installed, now);
                continue;
            }
            if self.mark(&slot, revision, now) {
                missing += 1;
                modified.extend(self.rewritten.contains_key(&slot).then(|| slot.clone()));
                self.set_state(
                    slot,
                    State::Pending("missing or different in the switch".to_owned()),
                    now,
                );
            }
        }
        let undeclared = read.keys().filter(|slot| !self.want.contains_key(*slot));
        for slot in undeclared.cloned().collect::<Vec<_>>() {
            self.mark(&slot, UNDECLARED, now);
        }
        self.dirty.retain(|slot, _| self.want.contains_key(slot) || read.contains_key(slot));
        self.pause_rewriting(&modified, now);
        if missing > 0 && !is_first && !self.is_slave() {
            out.notices.push(Notice::PutBack { switch: self.id(), count: missing });
        }
        self.actual = Some(read);
    }

    /// Entries that are different again directly after they were written, or others instead of them, are written after a pause.
    fn pause_rewriting(&mut self, modified: &[Slot], now: Now) {
        let follows_rewrite = !std::mem::take(&mut self.just_rewritten).is_empty();
        if self.rewritten.is_empty() {
            self.futile_rewrites = 0;
        }
        if !follows_rewrite || modified.is_empty() {
            return;
        }
        self.futile_rewrites += 1;
        for slot in modified {
            if let Some(dirty) = self.dirty.get_mut(slot) {
                dirty.attempts = self.futile_rewrites;
                dirty.not_before = now.at + backoff(self.futile_rewrites);
            }
        }
    }

    /// Takes groups and meters of other programs out of what was read. What of ours has disappeared is no longer ours: another program
    /// may add it.
    fn leave_foreign(&mut self, read: &mut HashMap<Slot, Arc<Form>>, now: Now, out: &mut Outbox) {
        let unsure = std::mem::take(&mut self.unsure);
        let is_other = |slot: &Slot| match (read.get(slot), unsure.get(slot)) {
            (None, _) => !self.unreadable.contains_key(&slot.kind()),
            (Some(read), Some(sent)) => read.content != sent.content,
            (Some(_), None) => false,
        };
        let not_ours: Vec<_> = self.owned.iter().filter(|slot| is_other(slot)).cloned().collect();
        for slot in not_ours {
            self.disown(&slot, out);
        }
        // What is ours after all belongs to a change that was refused.
        let made = unsure.keys().filter(|slot| self.owned.contains(*slot));
        let made: Vec<_> = made.filter_map(|slot| read.remove(slot)).collect();
        let version = self.version();
        let undo = made.iter().filter_map(|form| transition(Some(form), None, version));
        self.send_unanswered(undo.collect(), out);
        let before = std::mem::take(&mut self.foreign);
        read.retain(|slot, form| {
            let is_ours = slot.kind() == Kind::Flow || self.owned.contains(slot);
            if !is_ours && self.want.contains_key(slot) {
                self.foreign.insert(slot.clone(), Arc::clone(form));
            }
            is_ours
        });
        if before.keys().any(|slot| !self.foreign.contains_key(slot)) {
            self.retry_at_once(now);
        }
    }

    /// Marks a slot as different, unless it is marked already. Returns whether it was not.
    pub(super) fn mark(&mut self, slot: &Slot, revision: u64, now: Now) -> bool {
        let is_new = !self.dirty.contains_key(slot);
        if is_new {
            self.dirty.insert(slot.clone(), Dirty::new(revision, now));
        }
        is_new
    }

    /// A switch may report a match in another way than it was sent. The cookie tells which entry it is.
    fn adopt_converted(&self, read: &mut HashMap<Slot, Arc<Form>>) {
        let unmatched: Vec<_> = read
            .iter()
            .filter(|(slot, _)| slot.kind() == Kind::Flow && !self.want.contains_key(*slot))
            .map(|(slot, form)| (slot.clone(), form.clone()))
            .collect();
        if unmatched.is_empty() {
            return;
        }
        let mut missing: HashMap<_, _> = self
            .want
            .iter()
            .filter(|(slot, _)| slot.kind() == Kind::Flow && !read.contains_key(*slot))
            .map(|(slot, (_, form))| (form.identity(), slot.clone()))
            .collect();
        for (reported, form) in unmatched {
            if let Some(slot) = missing.remove(&form.identity()) {
                read.remove(&reported);
                read.insert(slot, form);
            }
        }
    }

    fn is_as_wanted(
        &mut self,
        slot: &Slot,
        want: &Arc<Form>,
        read: Option<&Arc<Form>>,
        out: &mut Outbox,
    ) -> bool {
        let Some(read) = read else {
            self.rewritten.remove(slot);
            return false;
        };
        let is_accepted =
            || self.accepted.get(slot).is_some_and(|form| form.content == read.content);
        if read.content == want.content || is_accepted() {
            self.rewritten.remove(slot);
            return true;
        }
        if read.cookie() != want.cookie() {
            return false;
        }
        // If it reports the same directly after the entry was written again, that is how it reports this entry.
        let before = self.rewritten.insert(slot.clone(), read.clone());
        let is_conversion = before.is_some_and(|form| form.content == read.content)
            && self.just_rewritten.contains(slot)
            && !self.dirty.contains_key(slot);
        if is_conversion {
            self.accepted.insert(slot.clone(), read.clone());
            if let Some((entry, _)) = self.want.get(slot) {
                let entry = entry.key().to_string();
                out.notices.push(Notice::Converted { switch: self.id(), entry });
            }
        }
        is_conversion
    }
}
