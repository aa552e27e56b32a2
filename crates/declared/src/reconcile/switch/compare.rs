//! Reading a switch, and finding what differs from what it is to have.

use std::sync::Arc;

use sluice_base::HashMap;
use sluice_sdk::Answer;

use super::super::reading::{ReadNext, Reading};
use super::super::{Notice, Outbox, Sent, backoff};
use super::{BUSY_PAUSE, Dirty, Switch, UNDECLARED};
use crate::entry::Kind;
use crate::form::{Form, Slot};
use crate::status::{Now, State};

/// A switch in which there is nothing of ours, and nothing is to be, is verified as many times less often.
const UNUSED_FACTOR: u32 = 60;

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
                self.next_read = now.at + self.verify_interval;
                self.unreadable = unreadable.into_iter().collect();
                self.compare(read, now, out);
                if self.is_unused() {
                    self.next_read = now.at + self.verify_interval * UNUSED_FACTOR;
                }
            }
        }
    }

    /// Finds what differs.
    fn compare(&mut self, mut read: HashMap<Slot, Arc<Form>>, now: Now, out: &mut Outbox) {
        // Groups and meters that other programs have added stay as they are.
        read.retain(|slot, _| {
            slot.kind() == Kind::Flow || self.want.contains_key(slot) || self.owned.contains(slot)
        });
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
            if self.is_as_wanted(&slot, &form, read.get(&slot)) {
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
        let gone: Vec<_> = self
            .owned
            .iter()
            .filter(|slot| !read.contains_key(*slot) && !self.want.contains_key(*slot))
            .cloned()
            .collect();
        for slot in gone {
            self.disown(&slot, out);
        }
        if missing > 0 && !is_first {
            out.notices.push(Notice::PutBack { switch: self.id(), count: missing });
        }
        self.actual = Some(read);
    }

    /// Marks a slot as different, unless it is marked already. Returns whether it was not.
    fn mark(&mut self, slot: &Slot, revision: u64, now: Now) -> bool {
        let is_new = !self.dirty.contains_key(slot);
        if is_new {
            self.dirty.insert(slot.clone(), Dirty { revision, not_before: now.at, attempts: 0 });
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

    fn is_as_wanted(&mut self, slot: &Slot, want: &Arc<Form>, read: Option<&Arc<Form>>) -> bool {
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
        // If it reports the same after the entry was written again, that is how it reports this entry.
        let before = self.rewritten.insert(slot.clone(), read.clone());
        let is_conversion = before.is_some_and(|form| form.content == read.content)
            && !self.dirty.contains_key(slot);
        if is_conversion {
            self.accepted.insert(slot.clone(), read.clone());
        }
        is_conversion
    }
}
