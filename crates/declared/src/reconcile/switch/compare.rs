//! Reading a switch, and finding what differs from what it is to have.

use std::sync::Arc;

use sluice_base::HashMap;
use sluice_sdk::Answer;

use super::super::reading::{ReadNext, Reading};
use super::super::{Notice, Outbox, Sent, backoff};
use super::{BUSY_PAUSE, Dirty, Switch, UNDECLARED};
use crate::entry::Kind;
use crate::form::{Form, Slot, transition};
use crate::status::{Now, State};

impl Switch {
    pub(in super::super) fn start_reading(&mut self, outbox: &mut Outbox) {
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
        match reading.on_answer(answer) {
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
            ReadNext::Complete(read, unreadable) => {
                self.reading = None;
                self.read_failure = None;
                self.failures = 0;
                self.is_unreliable = false;
                self.next_read = now.at + self.verify_interval;
                self.read_kinds = kinds;
                self.unreadable = unreadable.into_iter().collect();
                self.compare(read, now, out);
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
        let mut missing = 0;
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
        self.just_rewritten.clear();
        if missing > 0 && !is_first && !self.is_slave() {
            out.notices.push(Notice::PutBack { switch: self.id(), count: missing });
        }
        self.actual = Some(read);
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
