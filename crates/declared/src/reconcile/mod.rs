//! Keeps the entries of all switches as declared: a state machine without I/O.
//!
//! Sessions, changes, answers and the time go in; [`Reconciler::take_requests`] has what is to be sent. Each switch is on its own
//! (`switch/`); what belongs to one change is a transaction (`transaction/`). A change of the whole network (`network_change.rs`)
//! prepares the transactions of all switches before it commits any.

mod disconnected;
mod network_change;
mod policies;
mod read_slots;
mod reading;
mod switch;
mod transaction;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::{HashMap, HashSet, ordered};
use sluice_openflow::{DatapathId, FlowDesc, GroupId, Message, MeterId, Version};
use sluice_sdk::flow_space::STATIC;
use sluice_sdk::{Answer, Request, SwitchSession};

use crate::change::AppliedChange;
use crate::entry::{Entry, Key, Kind, Selector};
use crate::form::Slot;
use crate::names::{Names, SwitchNames};
use crate::quarantine::Quarantine;
use crate::status::{Now, State, Status};
use disconnected::DisconnectedSwitches;
pub use network_change::{NetworkRefusal, PartRefusal};
pub(crate) use network_change::{NetworkState, PREPARE_MAX};
use switch::Switch;
pub(crate) use transaction::UNUSED_GROUP;

/// Longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The first pause after a failure; each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_secs(1);

/// Pause of something that is due and has to wait for something else.
const BLOCKED_PAUSE: Duration = Duration::from_millis(20);

/// Intervals of the reconciler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often the entries of a switch are read and compared.
    pub verify_interval: Duration,
    /// How long a switch may take to answer a request.
    pub answer_timeout: Duration,
    /// Longer than packets stay in the network: from when no switch tags packets with a version of a policy until its entries are removed.
    pub drain_time: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            verify_interval: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            drain_time: Duration::from_secs(5),
        }
    }
}

/// The pause after a number of failures in a row.
fn backoff(failures: u32) -> Duration {
    let factor = 1 << failures.saturating_sub(1).min(6);
    (BACKOFF_MIN * factor).min(BACKOFF_MAX)
}

/// A group or meter that was installed in a switch. Neither has a cookie, so the store remembers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owned {
    /// The switch.
    pub switch: DatapathId,
    /// Group or meter.
    pub kind: Kind,
    /// Its number.
    pub number: u32,
}

impl Owned {
    fn new(switch: DatapathId, slot: &Slot) -> Option<Self> {
        let (kind, number) = match slot {
            Slot::Group(id) => (Kind::Group, id.0),
            Slot::Meter(id) => (Kind::Meter, id.0),
            Slot::Flow(_) => return None,
        };
        Some(Self { switch, kind, number })
    }

    fn slot(self) -> Option<Slot> {
        match self.kind {
            Kind::Group => Some(Slot::Group(GroupId(self.number))),
            Kind::Meter => Some(Slot::Meter(MeterId(self.number))),
            Kind::Flow => None,
        }
    }
}

/// Identifies a request whose answer the reconciler expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

/// A request that is to be sent.
#[derive(Debug)]
pub struct OutRequest {
    /// For the answer.
    pub token: Token,
    /// The switch.
    pub to: DatapathId,
    /// What to send.
    pub request: Request,
    /// What is to be recorded in the store before.
    pub owns: Vec<Owned>,
}

/// What a log line is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Entries were missing in a switch, or different, and are put back.
    PutBack {
        /// The switch.
        switch: DatapathId,
        /// How many.
        count: usize,
    },
    /// Entries were removed that were in a switch when it connected, or appeared there, and are not declared.
    Removed {
        /// The switch.
        switch: DatapathId,
        /// How many.
        count: usize,
    },
    /// A switch reports an entry differently than it was sent, even directly after it was written.
    Converted {
        /// The switch.
        switch: DatapathId,
        /// The entry.
        entry: String,
    },
    /// A switch has refused an entry.
    Refused {
        /// The switch.
        switch: DatapathId,
        /// The entry.
        entry: String,
        /// Why.
        reason: String,
    },
}

/// Something that a switch has, or may have, and that is no longer declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal<'a> {
    /// The switch.
    pub switch: DatapathId,
    /// What it is.
    pub kind: Kind,
    /// The entry that was declared; `None` if that is not known any more.
    pub entry: Option<&'a Key>,
    /// Whether the switch has refused to remove it; otherwise it is pending.
    pub state: State,
}

/// A session of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) version: Version,
    pub(crate) connected_at: Duration,
    addr: SocketAddr,
}

impl Session {
    fn new(session: &SwitchSession) -> Self {
        let (version, connected_at) = (session.version, session.connected_at);
        Self { version, connected_at, addr: session.addr }
    }
}

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Read,
    Change(u64),
    /// Its answer is of no interest.
    Unanswered,
}

/// What goes out.
#[derive(Debug)]
struct Outbox {
    requests: Vec<OutRequest>,
    expected: HashMap<Token, (DatapathId, Session, Sent)>,
    last_token: u64,
    session: Session,
    timeout: Duration,
    disowned: Vec<Owned>,
    notices: Vec<Notice>,
}

impl Outbox {
    fn send(&mut self, to: DatapathId, sent: Sent, messages: Vec<Message>, owns: Vec<Owned>) {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.expected.insert(token, (to, self.session, sent));
        let request = Request { messages, timeout: self.timeout };
        self.requests.push(OutRequest { token, to, request, owns });
    }
}

/// The entries that are declared, and the switches that are connected.
#[derive(Debug)]
pub struct Reconciler {
    timing: Timing,
    /// Shared with changes that are being checked.
    entries: Arc<BTreeMap<Key, Arc<Entry>>>,
    /// Those of quarantined hosts and of policies.
    derived_entries: BTreeMap<Key, Arc<Entry>>,
    names: Arc<Names>,
    switches: BTreeMap<DatapathId, Switch>,
    disconnected: DisconnectedSwitches,
    out: Outbox,
    ticked_at: Option<Instant>,
    network_change: Option<network_change::NetworkChange>,
    /// The number of the last change.
    revision: u64,
}

impl Reconciler {
    /// Starts with what the store has, those of quarantined hosts and of policies included, and no switches.
    pub fn new(
        timing: Timing,
        entries: BTreeMap<Key, Arc<Entry>>,
        names: Names,
        owned: impl IntoIterator<Item = Owned>,
    ) -> Self {
        let mut of_switches: BTreeMap<_, HashSet<_>> = BTreeMap::new();
        for it in owned {
            of_switches.entry(it.switch).or_default().extend(it.slot());
        }
        let mut out = Outbox {
            requests: vec![],
            expected: HashMap::default(),
            last_token: 0,
            session: Session {
                version: Version::V1_3,
                connected_at: Duration::ZERO,
                addr: SocketAddr::from(([0, 0, 0, 0], 0)),
            },
            timeout: timing.answer_timeout,
            disowned: vec![],
            notices: vec![],
        };
        let mut disconnected = DisconnectedSwitches::default();
        for (id, slots) in of_switches {
            out.disowned.extend(disconnected.insert_owned(id, slots));
        }
        let revision = entries.values().map(|entry| entry.revision).max().unwrap_or_default();
        let (declared, derived_entries) =
            entries.into_iter().partition(|(key, _)| key.is_declared());
        Self {
            timing,
            entries: Arc::new(declared),
            derived_entries,
            names: Arc::new(names),
            switches: BTreeMap::new(),
            disconnected,
            out,
            ticked_at: None,
            network_change: None,
            revision,
        }
    }

    /// With the number of the last change, if there was one: what it removed may still be in a switch.
    #[must_use]
    pub fn with_revision(self, revision: u64) -> Self {
        Self { revision: self.revision.max(revision), ..self }
    }

    /// Its intervals.
    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// What is to be sent.
    pub fn take_requests(&mut self) -> Vec<OutRequest> {
        std::mem::take(&mut self.out.requests)
    }

    /// Groups and meters that are no longer in their switches.
    pub fn take_disowned(&mut self) -> Vec<Owned> {
        std::mem::take(&mut self.out.disowned)
    }

    /// What is worth a log line.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.out.notices)
    }

    /// Compares the sessions with those that are known.
    pub fn on_sessions(&mut self, sessions: &[SwitchSession], now: Now) {
        let connected: BTreeMap<_, _> =
            ordered(sessions.iter().map(|it| (it.datapath_id, Session::new(it))));
        let ended: Vec<_> = self
            .switches
            .iter()
            .filter(|(id, switch)| connected.get(id) != Some(&switch.session))
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            if let Some(switch) = self.switches.remove(&id) {
                self.out.disowned.extend(self.disconnected.insert(switch));
            }
        }
        for session in sessions {
            match self.switches.get_mut(&session.datapath_id) {
                Some(switch) => {
                    if switch.learn(session) {
                        let names = SwitchNames::new(session, &self.names);
                        let all = self.derived_entries.values().chain(self.entries.values());
                        switch.rename(names, all, self.revision, now);
                    }
                }
                None => self.connect(session, now),
            }
        }
        self.out.expected.retain(|_, (id, session, _)| connected.get(id) == Some(session));
        self.tick(now);
    }

    fn connect(&mut self, session: &SwitchSession, now: Now) {
        let names = SwitchNames::new(session, &self.names);
        let mut switch = Switch::new(names, session, self.timing.verify_interval, now);
        if self.revision == 0 {
            switch.expect_nothing();
        }
        switch.owned = self.disconnected.take_owned(session.datapath_id);
        switch.is_unreliable = self.disconnected.take_unreliable(session.datapath_id);
        for entry in self.derived_entries.values().chain(self.entries.values()) {
            if switch.names.are_selected_by(&entry.declaration.switches) {
                switch.add(entry, entry.revision, now);
            }
        }
        self.switches.insert(session.datapath_id, switch);
    }

    /// Applies a change that the store has.
    pub(crate) fn apply(&mut self, change: &AppliedChange, now: Now) {
        self.revision = change.revision;
        for entry in &change.removed {
            self.entries_like(entry.key()).remove(entry.key());
        }
        for entry in &change.added {
            self.entries_like(entry.key()).insert(entry.key().clone(), Arc::clone(entry));
        }
        if let Some(names) = &change.names {
            self.names = Arc::new(names.clone());
        }
        for switch in self.switches.values_mut() {
            // All removals first: what is added may take the place of what is removed.
            let mut has_room = false;
            for entry in &change.removed {
                has_room |= switch.names.are_selected_by(&entry.declaration.switches)
                    && switch.remove(entry, change.revision, now);
            }
            if change.names.is_some() {
                let given = self.names.switch(switch.id()).map(str::to_owned);
                let names = SwitchNames { given, ..switch.names.clone() };
                let all = self.derived_entries.values().chain(self.entries.values());
                switch.rename(names, all, change.revision, now);
            }
            for entry in &change.added {
                if switch.names.are_selected_by(&entry.declaration.switches) {
                    switch.add(entry, change.revision, now);
                }
            }
            if switch.has_conflicts && has_room {
                let all = self.derived_entries.values().chain(self.entries.values());
                switch.add_missing(all, change.revision, now);
            }
        }
        self.tick(now);
    }

    fn entries_like(&mut self, key: &Key) -> &mut BTreeMap<Key, Arc<Entry>> {
        if key.is_declared() { Arc::make_mut(&mut self.entries) } else { &mut self.derived_entries }
    }

    /// Handles the answer to a request.
    pub fn on_answer(&mut self, token: Token, answer: Answer, now: Now) {
        let Some((id, session, sent)) = self.out.expected.remove(&token) else { return };
        let Some(switch) = self.switches.get_mut(&id).filter(|it| it.session == session) else {
            return;
        };
        self.out.session = session;
        match sent {
            Sent::Read => switch.on_read(answer, now, &mut self.out),
            Sent::Change(no) => switch.on_answer(no, answer, now, &mut self.out),
            Sent::Unanswered => {}
        }
    }

    /// Takes back what [`take_disowned`](Self::take_disowned) has returned and the store has not recorded.
    pub fn restore_disowned(&mut self, disowned: Vec<Owned>) {
        self.out.disowned.extend(disowned);
    }

    /// Handles that the store did not record `owns`, which a request would have installed, so that it was not sent.
    pub fn on_store_failure(&mut self, token: Token, owns: &[Owned], reason: &str, now: Now) {
        let Some((id, session, sent)) = self.out.expected.remove(&token) else { return };
        if let Some(switch) = self.switches.get_mut(&id).filter(|it| it.session == session)
            && let Sent::Change(no) = sent
        {
            switch.on_store_failure(no, owns, reason, now);
        }
        self.advance_network_change(now);
    }

    /// Sends what is due.
    pub fn tick(&mut self, now: Now) {
        self.ticked_at = Some(now.at);
        self.start_readings(now);
        for switch in self.switches.values_mut() {
            self.out.session = switch.session;
            switch.step(now, &mut self.out);
        }
        self.advance_network_change(now);
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self, now: Now) -> Option<Instant> {
        let deadlines = self.switches.values().filter_map(|it| it.deadline(self.ticked_at));
        let first = deadlines.chain(self.network_deadline()).min();
        // What is due already waits for something else.
        first.map(|at| at.max(now.at + BLOCKED_PAUSE))
    }

    /// All entries that are declared: not those of quarantined hosts and of policies.
    pub fn entries(&self) -> &Arc<BTreeMap<Key, Arc<Entry>>> {
        &self.entries
    }

    /// The names that were given.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// The state of an entry in the connected switches that it selects.
    pub fn statuses(&self, entry: &Entry) -> Vec<(DatapathId, Status)> {
        let selector = &entry.declaration.switches;
        let selected = self.switches.values().filter(|it| it.names.are_selected_by(selector));
        selected.map(|switch| (switch.id(), switch.status(entry))).collect()
    }

    /// The state of a quarantine in the connected switches: of each the worse one of its entries.
    pub fn quarantine_statuses(&self, quarantine: &Quarantine) -> Vec<(DatapathId, Status)> {
        let [from, to] = &quarantine.entries;
        let worse = |switch: &Switch| {
            let (a, b) = (switch.status(from), switch.status(to));
            if a.state.severity() >= b.state.severity() { a } else { b }
        };
        self.switches.values().map(|switch| (switch.id(), worse(switch))).collect()
    }

    /// The static entry that is a flow entry of a switch; `None` if another one has written it, or the switch reports its match in another
    /// way.
    pub fn entry_of(&self, at: DatapathId, flow: &FlowDesc) -> Option<&Key> {
        let (entry, _) = self.switches.get(&at)?.want.get(&Slot::of_flow(flow))?;
        Some(entry.key()).filter(|_| STATIC.has_cookie(flow.cookie))
    }

    /// Selectors of an entry that no connected switch answers to.
    pub fn unconnected<'e>(&self, entry: &'e Entry) -> Vec<&'e str> {
        let Selector::Switches(list) = &entry.declaration.switches else { return vec![] };
        let is_connected = |name: &&String| self.switches.values().any(|it| it.names.is(name));
        list.iter().filter(|name| !is_connected(name)).map(String::as_str).collect()
    }

    /// What is being removed from connected switches.
    pub fn removals(&self) -> impl Iterator<Item = Removal<'_>> {
        self.switches.values().flat_map(Switch::removals)
    }

    /// Whether all connected switches were sent a change, and have accepted or refused it.
    pub fn has_tried(&self, revision: u64) -> bool {
        self.switches.values().all(|switch| switch.has_tried(revision))
    }

    /// Connected switches that a change concerns.
    pub(crate) fn concerned(&self, change: &AppliedChange) -> usize {
        let entries = || change.removed.iter().chain(&change.added);
        let is_concerned = |switch: &&Switch| {
            entries().any(|entry| switch.names.are_selected_by(&entry.declaration.switches))
        };
        self.switches.values().filter(is_concerned).count()
    }

    /// Switches that do not have what a change has made of them, and why.
    pub(crate) fn failures(&self, revision: u64) -> Vec<(DatapathId, String)> {
        let failed = |switch: &Switch| Some((switch.id(), switch.failure(revision)?));
        self.switches.values().filter_map(failed).collect()
    }

    /// The state of an entry as a whole: the worst of its states, refused before pending before installed.
    pub fn state(&self, entry: &Entry) -> State {
        let states = self.statuses(entry).into_iter().map(|(_, status)| status.state);
        let state = states.max_by_key(State::severity);
        let not_connected = || State::Pending(State::NOT_CONNECTED.to_owned());
        match state {
            Some(State::Installed) if !self.unconnected(entry).is_empty() => not_connected(),
            Some(state) => state,
            None => not_connected(),
        }
    }
}
