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
mod part;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::{HashMap, HashSet};
use sluice_openflow::{DatapathId, Role, SwitchDesc, SwitchFeatures, Version};
use sluice_sdk::SwitchSession;

use super::reading::Reading;
use super::transaction::Transaction;
use super::{Outbox, Removal};
use crate::entry::{Entry, Kind};
use crate::form::{Form, Slot};
use crate::names::SwitchNames;
use crate::status::{Now, State, Status};
pub(super) use part::{Part, PartState};

/// Messages that wait for an answer of a switch; half of what the engine allows.
const WINDOW: usize = 512;

/// A switch in which there is nothing of ours, and nothing is to be, is verified as many times less often.
const UNUSED_FACTOR: u32 = 60;

/// How long entries of policies wait for the description of a switch, which says whether it has bundles.
const DESCRIPTION_MAX: Duration = Duration::from_secs(5);

/// Longer than a session lasts.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Pause before something is sent again for which the controller had too much to do.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// The revision of what a switch has and that is not declared. It is removed after all that is declared was tried, since that may
/// replace it: with a group, a switch removes the flow entries that use it.
const UNDECLARED: u64 = u64::MAX;

/// Why nothing is sent to a switch of which another controller is the master.
const NOT_MASTER: &str = "not master";

/// The note of an entry that the switch [reports differently](Switch::accepted).
const CONVERTED: &str = "reported differently by the switch";

/// What a switch is to have.
pub(super) type Wanted = HashMap<Slot, (Arc<Entry>, Arc<Form>)>;

/// What differs, and when it is changed.
#[derive(Debug, Clone)]
struct Dirty {
    /// The change that is the cause. What belongs to one change is sent together.
    revision: u64,
    not_before: Instant,
    /// How often it was tried.
    attempts: u32,
    /// The entry that is removed, if it was declared in this session.
    removed: Option<Arc<Entry>>,
    /// What has become of the removal; `None` if it was not tried yet.
    removal: Option<State>,
}

impl Dirty {
    fn new(revision: u64, now: Now) -> Self {
        Self { revision, not_before: now.at, attempts: 0, removed: None, removal: None }
    }
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
    pub(super) want: Wanted,
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
    /// Of these, entries that were written since the last reading. The next one follows at once, so that nobody else modifies them in
    /// between.
    just_rewritten: HashSet<Slot>,
    /// Readings in a row that followed such a write and found that entries are different again.
    futile_rewrites: u32,
    /// Flow entries that are not declared and were left out of the last reading.
    surplus: usize,
    /// As many before that reading.
    surplus_before: usize,
    /// Groups and meters that were installed here.
    pub(super) owned: HashSet<Slot>,
    /// Groups and meters of other programs that have the number of a declared one. They stay as they are.
    foreign: HashMap<Slot, Arc<Form>>,
    /// Groups and meters that were sent, and may have been refused since another program has added them.
    unsure: HashMap<Slot, Arc<Form>>,
    /// Kinds that were read in this session, not too long ago to add something. Empty if no reading was answered.
    read_kinds: Vec<Kind>,
    /// Kinds that the switch does not have, and why.
    unreadable: BTreeMap<Kind, String>,
    reading: Option<Reading>,
    /// Until when the transactions in flight may end before a reading that has a slot. No others start before.
    granted_until: Option<Instant>,
    /// Why the last reading has failed.
    read_failure: Option<String>,
    /// Failures in a row, of readings and of changes of which nothing is known.
    failures: u32,
    /// Whether the last reading has failed, for example because it was not answered, and nothing was confirmed since.
    pub(super) is_unreliable: bool,
    next_read: Instant,
    verify_interval: Duration,
    transactions: HashMap<u64, Running>,
    next_transaction: u64,
    next_bundle: u32,
    has_bundles: bool,
    features: Arc<SwitchFeatures>,
    description: Option<Arc<SwitchDesc>>,
    /// The role of this controller, if the switch has stated it.
    role: Option<Role>,
    /// Whether the switch tells whether it would accept a bundle; `None` if that is not known yet.
    has_trials: Option<bool>,
    /// What a change of the whole network makes of it, while that is prepared.
    pub(super) part: Option<Part>,
}

impl Switch {
    pub(super) fn new(
        names: SwitchNames,
        session: &SwitchSession,
        verify_interval: Duration,
        now: Now,
    ) -> Self {
        Self {
            names,
            session: super::Session::new(session),
            want: HashMap::default(),
            has_conflicts: false,
            actual: None,
            dirty: HashMap::default(),
            status: HashMap::default(),
            accepted: HashMap::default(),
            rewritten: HashMap::default(),
            just_rewritten: HashSet::default(),
            futile_rewrites: 0,
            surplus: 0,
            surplus_before: 0,
            owned: HashSet::default(),
            foreign: HashMap::default(),
            unsure: HashMap::default(),
            read_kinds: vec![],
            unreadable: BTreeMap::new(),
            reading: None,
            granted_until: None,
            read_failure: None,
            failures: 0,
            is_unreliable: false,
            next_read: now.at,
            verify_interval,
            transactions: HashMap::default(),
            next_transaction: 0,
            next_bundle: 0,
            has_bundles: may_have_bundles(session),
            features: Arc::clone(&session.features),
            description: session.description.clone(),
            role: session.role,
            has_trials: None,
            part: None,
        }
    }

    /// Nothing was ever declared, so that there is nothing of ours in it, unless the store was removed.
    pub(super) fn expect_nothing(&mut self) {
        if !self.is_selective() {
            self.next_read += NEVER;
        }
    }

    /// When a switch is read in which there is nothing of ours, and nothing is to be.
    fn unused_read(&self, now: Instant) -> Instant {
        let interval = self.verify_interval * UNUSED_FACTOR;
        now + if self.is_selective() { interval } else { NEVER }
    }

    /// Whether it can list the flow entries with a cookie. In 1.0 it can only list all of them, so that it is not read in vain.
    fn is_selective(&self) -> bool {
        self.version() > Version::V1_0
    }

    /// Takes over what has become known of the session since it has begun. Returns whether the name of the switch may have changed.
    pub(super) fn learn(&mut self, session: &SwitchSession) -> bool {
        self.role = session.role;
        let is_described = self.description.is_none() && session.description.is_some();
        let is_same = Arc::ptr_eq(&self.features, &session.features) && !is_described;
        if is_described {
            self.has_bundles = may_have_bundles(session);
            self.description.clone_from(&session.description);
        }
        self.features = Arc::clone(&session.features);
        !is_same
    }

    pub(super) fn id(&self) -> DatapathId {
        self.names.id
    }

    pub(super) fn version(&self) -> Version {
        self.session.version
    }

    /// Whether there is nothing of ours in it, and nothing is to be.
    fn is_unused(&self) -> bool {
        let has_entries = self.actual.as_ref().is_none_or(|actual| !actual.is_empty());
        !has_entries && self.want.is_empty() && self.owned.is_empty() && self.dirty.is_empty()
    }

    /// Whether another controller is the master, so that the switch refuses all changes.
    fn is_slave(&self) -> bool {
        self.role == Some(Role::SLAVE)
    }

    /// The state of an entry that is selected for this switch.
    pub(super) fn status(&self, entry: &Entry) -> Status {
        let status = |state| Status { state, since: self.session.connected_at, note: None };
        let form = match entry.form(self.version()) {
            Ok(form) => form,
            Err(error) => return status(State::Refused(error.to_owned())),
        };
        match self.want.get(&form.slot) {
            Some((holder, _)) if holder.key() != entry.key() => {
                status(State::Refused(format!("the same as {}", holder.key())))
            }
            _ => self.status_of(&form.slot, status),
        }
    }

    fn status_of(&self, slot: &Slot, new: impl Fn(State) -> Status) -> Status {
        let status = self.status.get(slot).cloned();
        let mut status = status.unwrap_or_else(|| {
            let reason = self.read_failure.as_deref().unwrap_or("not sent yet");
            new(State::Pending(reason.to_owned()))
        });
        match status.state {
            State::Installed if self.accepted.contains_key(slot) => status.note = Some(CONVERTED),
            State::Installed => {}
            _ if self.is_slave() => status.state = State::Pending(NOT_MASTER.to_owned()),
            _ => {}
        }
        status
    }

    /// What is being removed.
    pub(super) fn removals(&self) -> impl Iterator<Item = Removal<'_>> {
        let removed = self.dirty.iter().filter(|(slot, _)| !self.want.contains_key(*slot));
        removed.map(|(slot, dirty)| Removal {
            switch: self.id(),
            kind: slot.kind(),
            entry: dirty.removed.as_ref().map(|entry| entry.key()),
            state: match &dirty.removal {
                _ if self.is_slave() => State::Pending(NOT_MASTER.to_owned()),
                Some(state) => state.clone(),
                None => State::Pending("not sent yet".to_owned()),
            },
        })
    }

    /// Whether it can replace several entries at once, as far as is known.
    pub(super) fn has_bundles(&self) -> bool {
        self.has_bundles && self.has_trials != Some(false)
    }

    /// Whether it has entries, or may have, that are not declared and were not declared in this session.
    pub(super) fn has_leftovers(&self) -> bool {
        self.surplus > 0 || self.removals().any(|removal| removal.entry.is_none())
    }

    /// Whether it is known what the switch has.
    pub(super) fn is_known(&self) -> bool {
        self.actual.is_some()
    }

    /// Whether all changes of a revision were tried. At a switch of another master, none is tried.
    pub(super) fn has_tried(&self, revision: u64) -> bool {
        if self.is_slave() {
            return true;
        }
        let is_running = |it: &Running| it.transaction.revision == revision;
        !self.dirty.values().any(|it| it.revision == revision && it.attempts == 0)
            && !self.transactions.values().any(is_running)
    }

    /// Why the switch does not have what a change has made of it.
    pub(super) fn failure(&self, revision: u64) -> Option<String> {
        let slot = self.dirty.iter().find(|(_, dirty)| dirty.revision == revision)?.0;
        let state = self.status.get(slot).map(|status| &status.state);
        Some(state.and_then(State::reason).unwrap_or("a deletion was refused").to_owned())
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

    /// Adds those of all entries that are selected and have no place yet.
    pub(super) fn add_missing<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e Arc<Entry>>,
        revision: u64,
        now: Now,
    ) {
        self.has_conflicts = false;
        for entry in all {
            if self.names.are_selected_by(&entry.declaration.switches) && !self.has(entry) {
                self.add(entry, revision, now);
            }
        }
    }

    /// Removes an entry from it. Returns whether it had a place.
    pub(super) fn remove(&mut self, entry: &Entry, revision: u64, now: Now) -> bool {
        let Ok(form) = entry.form(self.version()) else { return false };
        if !self.has(entry) {
            return false;
        }
        let removed = self.want.remove(&form.slot);
        self.change(form.slot.clone(), revision, now);
        if let Some(dirty) = self.dirty.get_mut(&form.slot) {
            dirty.removed = removed.map(|(entry, _)| entry);
        }
        true
    }

    /// Selects entries by other names: those that are no longer selected are removed before others are added, which may have the same
    /// match.
    pub(super) fn rename<'e>(
        &mut self,
        names: SwitchNames,
        all: impl IntoIterator<Item = &'e Arc<Entry>>,
        revision: u64,
        now: Now,
    ) {
        if self.names == names {
            return;
        }
        self.names = names;
        let entries = self.want.values().map(|(entry, _)| entry);
        let unselected = entries
            .filter(|entry| !self.names.are_selected_by(&entry.declaration.switches))
            .cloned()
            .collect::<Vec<_>>();
        for entry in unselected {
            self.remove(&entry, revision, now);
        }
        self.add_missing(all, revision, now);
    }

    fn change(&mut self, slot: Slot, revision: u64, now: Now) {
        // A switch without entries of ours is read less often, and each kind only if something is declared. It has to be known whether
        // another program has added a group or meter.
        let is_fresh = slot.kind() == Kind::Flow || self.next_read <= now.at + self.verify_interval;
        if !is_fresh {
            self.read_kinds.retain(|kind| *kind != slot.kind());
        }
        let is_read = self.read_kinds.contains(&slot.kind());
        let read_at = if is_read { now.at + self.verify_interval } else { now.at };
        self.next_read = self.next_read.min(read_at);
        self.accepted.remove(&slot);
        self.rewritten.remove(&slot);
        self.just_rewritten.remove(&slot);
        self.dirty.insert(slot.clone(), Dirty::new(revision, now));
        if self.want.contains_key(&slot) {
            self.set_state(slot, State::Pending("not sent yet".to_owned()), now);
        } else {
            self.status.remove(&slot);
        }
    }

    fn set_state(&mut self, slot: Slot, state: State, now: Now) {
        match self.status.get_mut(&slot) {
            Some(status) if status.state == state => {}
            _ => drop(self.status.insert(slot, Status { state, since: now.unix, note: None })),
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
        if self.part.is_some() {
            self.start_part(outbox);
        } else if self.granted_until.is_none() && self.can_change(now) {
            self.start_transactions(now, outbox);
        }
    }

    fn can_change(&self, now: Now) -> bool {
        self.actual.is_some() && !self.is_slave() && !self.awaits_description(now)
    }

    /// Whether it may turn out that the switch has bundles, with which it would replace entries of policies at once.
    fn awaits_description(&self, now: Now) -> bool {
        let is_new = now.unix.saturating_sub(self.session.connected_at) < DESCRIPTION_MAX;
        let is_undescribed = self.version() == Version::V1_3 && self.description.is_none();
        let has_policies =
            || self.want.values().any(|(entry, _)| entry.key().of_policy().is_some());
        is_undescribed && is_new && has_policies()
    }

    /// When it has something to do, if no answer comes before.
    pub(super) fn deadline(&self, ticked_at: Option<Instant>) -> Option<Instant> {
        if self.reading.is_some() {
            return None;
        }
        let is_in_part = self.part.as_ref().is_some_and(|part| !part.is_waiting());
        if !self.transactions.is_empty() || is_in_part {
            // Otherwise an answer comes, or it is decided.
            let again = self.transactions.values().filter_map(|running| running.again_at);
            return again.chain(self.granted_until).min();
        }
        let can_change = self.actual.is_some() && !self.is_slave();
        let unread_from = self.unread_from();
        let changes = self.dirty.values().filter(|dirty| {
            can_change && unread_from.is_none_or(|unread_from| dirty.revision < unread_from)
        });
        // A switch that waited for a slot at the last tick is read when another reading ends.
        let read = Some(self.next_read).filter(|&at| ticked_at.is_none_or(|ticked| at > ticked));
        changes.map(|dirty| dirty.not_before).chain(read).min()
    }
}

/// In 1.3 bundles are an extension, which Open vSwitch has. Others may ignore its messages, and nevertheless confirm barriers.
fn may_have_bundles(session: &SwitchSession) -> bool {
    let is_open_vswitch =
        || session.description.as_ref().is_some_and(|it| it.hw.to_string() == "Open vSwitch");
    session.version >= Version::V1_4 || session.version == Version::V1_3 && is_open_vswitch()
}
