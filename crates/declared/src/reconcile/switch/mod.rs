//! One connected switch: what it is to have, what it has, and what is being changed.
//!
//! ```text
//!  connected ──▶ reading ──▶ compared ──▶ changing ──▶ confirmed
//!                   ▲            │  ▲         │            │
//!                   │            │  └─────────┴── refused ─┤  tried again at growing intervals
//!                   └────────────┴── 10 s, or unknown ─────┘
//! ```

mod changes;
mod compare;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::{HashMap, HashSet};
use sluice_openflow::{DatapathId, Version};

use super::Outbox;
use super::reading::Reading;
use super::transaction::Transaction;
use crate::entry::{Entry, Kind};
use crate::form::{Form, Slot};
use crate::names::SwitchNames;
use crate::status::{Now, State, Status};

/// Messages that wait for an answer of a switch; half of what the engine allows.
const WINDOW: usize = 512;

/// Pause before something is sent again for which the controller had too much to do.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// The revision of entries that a switch has and that are not declared, as if an early change had removed them.
const UNDECLARED: u64 = 0;

/// What differs, and when it is changed.
#[derive(Debug, Clone, Copy)]
struct Dirty {
    /// The change that is the cause. What belongs to one change is sent together.
    revision: u64,
    not_before: Instant,
    /// How often it was tried.
    attempts: u32,
}

/// A transaction, and when it is sent again if the controller had too much to do.
#[derive(Debug)]
struct Running {
    transaction: Transaction,
    again_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Switch {
    pub(super) names: SwitchNames,
    pub(super) session: super::Session,
    pub(super) want: HashMap<Slot, (Arc<Entry>, Arc<Form>)>,
    /// Some entries have the match and priority of another one.
    pub(super) has_conflicts: bool,
    /// What the switch has; `None` if it is not known.
    actual: Option<HashMap<Slot, Arc<Form>>>,
    dirty: HashMap<Slot, Dirty>,
    status: HashMap<Slot, Status>,
    /// What the switch reports of an entry that it has, if that differs from what was sent: some switches convert entries.
    accepted: HashMap<Slot, Arc<Form>>,
    /// What it reported before the entry was written again.
    rewritten: HashMap<Slot, Arc<Form>>,
    /// Groups and meters that were installed here.
    pub(super) owned: HashSet<Slot>,
    /// Kinds that the switch does not have, and why.
    unreadable: BTreeMap<Kind, String>,
    reading: Option<Reading>,
    /// Why the last reading has failed.
    read_failure: Option<String>,
    failures: u32,
    next_read: Instant,
    verify_interval: Duration,
    transactions: HashMap<u64, Running>,
    next_transaction: u64,
    next_bundle: u32,
    has_bundles: bool,
}

impl Switch {
    pub(super) fn new(
        names: SwitchNames,
        session: super::Session,
        has_bundles: bool,
        verify_interval: Duration,
        now: Now,
    ) -> Self {
        Self {
            names,
            session,
            want: HashMap::default(),
            has_conflicts: false,
            actual: None,
            dirty: HashMap::default(),
            status: HashMap::default(),
            accepted: HashMap::default(),
            rewritten: HashMap::default(),
            owned: HashSet::default(),
            unreadable: BTreeMap::new(),
            reading: None,
            read_failure: None,
            failures: 0,
            next_read: now.at,
            verify_interval,
            transactions: HashMap::default(),
            next_transaction: 0,
            next_bundle: 0,
            has_bundles,
        }
    }

    pub(super) fn id(&self) -> DatapathId {
        self.names.id
    }

    pub(super) fn version(&self) -> Version {
        self.session.version
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether its last reading has failed, for example because it did not answer.
    pub(super) fn is_unreliable(&self) -> bool {
        self.failures > 0
    }

    /// Since when it has to be read, if it has and nothing but the limit of readings is in the way. Otherwise a reading might see what is
    /// just being changed.
    pub(super) fn waits_to_read(&self, now: Now) -> Option<Instant> {
        let is_free = self.reading.is_none() && self.transactions.is_empty();
        Some(self.next_read).filter(|&at| is_free && at <= now.at)
    }

    /// Whether there is nothing of ours in it, and nothing is to be.
    fn is_unused(&self) -> bool {
        let has_entries = self.actual.as_ref().is_none_or(|actual| !actual.is_empty());
        !has_entries && self.want.is_empty() && self.owned.is_empty() && self.dirty.is_empty()
    }

    /// The state of an entry that is selected for this switch.
    pub(super) fn status(&self, entry: &Entry) -> Status {
        let status = |state| Status { state, since: self.session.connected_at };
        let form = match entry.form(self.version()) {
            Ok(form) => form,
            Err(error) => return status(State::Refused(error.to_owned())),
        };
        match self.want.get(&form.slot) {
            Some((holder, _)) if holder.key() != entry.key() => {
                status(State::Refused(format!("the same as {}", holder.key())))
            }
            _ => self.status.get(&form.slot).cloned().unwrap_or_else(|| {
                let reason = self.read_failure.as_deref().unwrap_or("not sent yet");
                status(State::Pending(reason.to_owned()))
            }),
        }
    }

    /// Whether all changes of a revision were tried.
    pub(super) fn has_tried(&self, revision: u64) -> bool {
        let is_running = |it: &Running| it.transaction.revision == revision;
        !self.dirty.values().any(|it| it.revision == revision && it.attempts == 0)
            && !self.transactions.values().any(is_running)
    }

    /// Whether the switch is to have this entry.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        entry.form(self.version()).is_ok_and(|form| {
            self.want.get(&form.slot).is_some_and(|(holder, _)| holder.key() == entry.key())
        })
    }

    /// Adds an entry to what the switch is to have.
    pub(super) fn add(&mut self, entry: &Arc<Entry>, revision: u64, now: Now) {
        let Ok(form) = entry.form(self.version()) else { return };
        let form = Arc::clone(form);
        let slot = form.slot.clone();
        if let Some((holder, _)) = self.want.get(&slot)
            && holder.key() != entry.key()
        {
            self.has_conflicts = true;
            return;
        }
        self.want.insert(slot.clone(), (Arc::clone(entry), form));
        self.change(slot, revision, now);
    }

    /// Removes an entry from it.
    pub(super) fn remove(&mut self, entry: &Entry, revision: u64, now: Now) {
        let Ok(form) = entry.form(self.version()) else { return };
        if self.has(entry) {
            self.want.remove(&form.slot);
            self.change(form.slot.clone(), revision, now);
        }
    }

    fn change(&mut self, slot: Slot, revision: u64, now: Now) {
        // Longer without entries.
        self.next_read = self.next_read.min(now.at + self.verify_interval);
        self.accepted.remove(&slot);
        self.rewritten.remove(&slot);
        self.dirty.insert(slot.clone(), Dirty { revision, not_before: now.at, attempts: 0 });
        if self.want.contains_key(&slot) {
            self.set_state(slot, State::Pending("not sent yet".to_owned()), now);
        } else {
            self.status.remove(&slot);
        }
    }

    fn set_state(&mut self, slot: Slot, state: State, now: Now) {
        match self.status.get_mut(&slot) {
            Some(status) if status.state == state => {}
            _ => drop(self.status.insert(slot, Status { state, since: now.unix })),
        }
    }

    /// Sends what is due.
    pub(super) fn step(&mut self, now: Now, outbox: &mut Outbox) {
        if self.reading.is_some() {
            return;
        }
        let is_due = |running: &Running| running.again_at.is_some_and(|at| at <= now.at);
        let again = self.transactions.iter().filter(|(_, running)| is_due(running));
        for no in again.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.send(no, outbox);
        }
        if now.at < self.next_read && self.actual.is_some() {
            self.start_transactions(now, outbox);
        }
    }

    /// When [`step`](Self::step) has something to do, if no answer comes before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.reading.is_some() {
            return None;
        }
        if !self.transactions.is_empty() {
            // Otherwise an answer comes.
            return self.transactions.values().filter_map(|running| running.again_at).min();
        }
        let changes = self.dirty.values().map(|dirty| dirty.not_before);
        let changes = changes.filter(|_| self.actual.is_some());
        changes.chain([self.next_read]).min()
    }
}
