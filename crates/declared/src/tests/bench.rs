//! A reconciler with model switches, whose requests are answered one at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::{
    DatapathId, FlowDesc, GroupDesc, GroupId, MacAddr, Message, Role, SwitchDesc, SwitchFeatures,
    Version,
};
use sluice_sdk::allocation::Allocations;
use sluice_sdk::{Answer, SessionStatistics, SwitchSession};

use super::model_switch::ModelSwitch;
use crate::change::{self, AppliedChange, Change, ChangeError, Present, check};
use crate::quarantine::{Quarantine, QuarantineError, QuarantineInfo};
use crate::reconcile::{NetworkState, Notice, Owned, Reconciler, Removal, Timing, Token};
use crate::{Declaration, Entry, Key, Kind, NameOf, Names, Now, Reserved, Selector, State};

pub(super) struct Bench {
    reconciler: Reconciler,
    revision: u64,
    quarantines: BTreeMap<MacAddr, Arc<Quarantine>>,
    owned: BTreeSet<Owned>,
    now: Now,
    switches: BTreeMap<DatapathId, ModelSwitch>,
    sessions: BTreeMap<DatapathId, SwitchSession>,
    pending: BTreeMap<DatapathId, VecDeque<(Token, Vec<Message>)>>,
    losses: BTreeMap<DatapathId, Loss>,
    /// Switches that answer no request.
    silent: BTreeSet<DatapathId>,
    /// Whether nothing can be stored.
    is_disk_full: bool,
    /// A change of the whole network that is not decided yet, or is being committed, and the names before it.
    everywhere: Option<(AppliedChange, Names, bool)>,
}

/// What a change of the whole network has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Made,
    /// Refused before any commit was sent.
    Refused(String),
    /// Refused by a switch that was prepared, and undone.
    Undone(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The switch does not receive the next request.
    Request,
    /// The controller does not receive the next answer.
    Answer,
}

pub(super) fn entry(kind: Kind, name: &str, switch: &str, text: &str) -> Declaration {
    let switches = match switch {
        "all" => Selector::All,
        one => Selector::Switches(vec![one.to_owned()]),
    };
    Declaration { key: Key { kind, name: name.to_owned() }, switches, text: text.to_owned() }
}

pub(super) fn flow(name: &str, switch: &str, text: &str) -> Declaration {
    entry(Kind::Flow, name, switch, text)
}

impl Bench {
    pub(super) fn new() -> Self {
        let now = Now { at: sluice_io::clock::now(), unix: Duration::from_secs(1_700_000_000) };
        let reconciler = Reconciler::new(Timing::default(), BTreeMap::new(), Names::default(), []);
        Self {
            reconciler,
            revision: 0,
            quarantines: BTreeMap::new(),
            owned: BTreeSet::new(),
            now,
            switches: BTreeMap::new(),
            sessions: BTreeMap::new(),
            pending: BTreeMap::new(),
            losses: BTreeMap::new(),
            silent: BTreeSet::new(),
            is_disk_full: false,
            everywhere: None,
        }
    }

    pub(super) fn set(&mut self, set: impl IntoIterator<Item = Declaration>) {
        self.apply(Change { set: set.into_iter().collect(), ..Change::default() });
    }

    pub(super) fn remove_all(&mut self) {
        self.apply(Change { is_whole: true, ..Change::default() });
    }

    /// Checks a change without making it.
    pub(super) fn check(&self, change: Change) -> Result<(), ChangeError> {
        let reserved = Reserved::new(&Allocations::default(), []);
        check(change, self.present(&reserved)).map(|_| ())
    }

    fn present<'a>(&'a self, reserved: &'a Reserved) -> Present<'a> {
        Present {
            entries: self.reconciler.entries(),
            names: self.reconciler.names(),
            reserved,
            revision: self.revision,
            now: self.now.unix,
        }
    }

    fn checked(&self, change: Change) -> AppliedChange {
        check(change, self.present(&Reserved::default())).unwrap()
    }

    fn apply(&mut self, change: Change) {
        let applied = self.checked(change);
        if !applied.is_empty() {
            self.commit(&applied);
        }
        self.collect();
    }

    fn commit(&mut self, applied: &AppliedChange) {
        self.revision = applied.revision;
        if let Some((mac, quarantine)) = &applied.quarantine {
            match quarantine {
                Some(it) => drop(self.quarantines.insert(*mac, it.clone())),
                None => drop(self.quarantines.remove(mac)),
            }
        }
        self.reconciler.apply(applied, self.now);
        self.collect();
    }

    pub(super) fn quarantine(&mut self, mac: MacAddr) -> Result<(), QuarantineError> {
        let info = QuarantineInfo::new("local".to_owned(), None, self.now.unix);
        let change = change::quarantine(mac, info, &self.quarantines, self.revision + 1)?;
        self.commit(&change);
        Ok(())
    }

    pub(super) fn release(&mut self, mac: MacAddr) -> Result<(), QuarantineError> {
        let (change, _) = change::release(mac, &self.quarantines, self.revision + 1)?;
        self.commit(&change);
        Ok(())
    }

    /// The state of a quarantine in each connected switch.
    pub(super) fn quarantine_states(&self, mac: MacAddr) -> Vec<(DatapathId, State)> {
        let statuses = self.reconciler.quarantine_statuses(&self.quarantines[&mac]);
        statuses.into_iter().map(|(at, status)| (at, status.state)).collect()
    }

    /// Begins with a change of the whole network, unless there is one.
    pub(super) fn start_everywhere(&mut self, change: Change) {
        let applied = self.checked(change);
        if self.everywhere.is_none() && !applied.is_empty() {
            self.revision = applied.revision;
            self.reconciler.start_network_change(&applied, self.now);
            let names = (**self.reconciler.names()).clone();
            self.everywhere = Some((applied, names, false));
            self.collect();
        }
    }

    /// Goes on with the change of the whole network if the switches have answered, as the service does.
    pub(super) fn decide(&mut self) -> Option<Decision> {
        let (applied, names, is_committing) = self.everywhere.take()?;
        let decision = match self.reconciler.network_state()? {
            NetworkState::InProgress => {
                self.everywhere = Some((applied, names, is_committing));
                return None;
            }
            NetworkState::Ready => {
                self.reconciler.commit_network_change(&applied, self.now);
                self.everywhere = Some((applied, names, true));
                self.collect();
                return self.decide();
            }
            NetworkState::Made(_) => Decision::Made,
            NetworkState::Refused(it) if is_committing => Decision::Undone(it.to_string()),
            NetworkState::Refused(it) => Decision::Refused(it.to_string()),
        };
        self.reconciler.end_network_change(self.now);
        if matches!(decision, Decision::Undone(_)) {
            self.revision += 1;
            let names = applied.names.is_some().then_some(names);
            let reversed = AppliedChange { revision: self.revision, ..applied.reversed(names) };
            self.reconciler.apply(&reversed, self.now);
        }
        self.collect();
        Some(decision)
    }

    /// Makes a change of the whole network, and what follows from it.
    pub(super) fn change_everywhere(&mut self, change: Change) -> Decision {
        self.start_everywhere(change);
        for _ in 0..100 {
            self.settle();
            if let Some(decision) = self.decide() {
                self.settle();
                return decision;
            }
            self.pass(Duration::from_millis(500));
        }
        panic!("a change has not ended within 50 s")
    }

    /// Waits until the change of the whole network has come to something, if there is one.
    pub(super) fn end_change(&mut self) {
        if self.everywhere.is_some() {
            self.change_everywhere(Change::default());
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.reconciler.network_state() == Some(NetworkState::Ready)
    }

    /// Lets time pass without answers.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now.at += time;
        self.now.unix += time;
        self.reconciler.tick(self.now);
        self.collect();
    }

    /// Some entries are added, replaced or removed.
    pub(super) fn change(&mut self, rng: &mut Rng) {
        if self.everywhere.is_some() {
            return;
        }
        let change = self.random_change(rng);
        self.apply(change);
        let mac = MacAddr::from_u64(0x0200_0000_0000 + u64::from(rng.below(3)));
        let is_quarantined = self.quarantines.contains_key(&mac);
        match rng.below(4) {
            0 if is_quarantined => self.release(mac).unwrap(),
            1 if !is_quarantined => self.quarantine(mac).unwrap(),
            _ => {}
        }
    }

    pub(super) fn random_change(&self, rng: &mut Rng) -> Change {
        let mut change = Change::default();
        for n in 0..6 {
            let name = format!("e{n}");
            let key = Key { kind: Kind::Flow, name: name.clone() };
            match rng.below(5) {
                0 if self.reconciler.entries().contains_key(&key) => change.remove.push(key),
                1 | 2 => {
                    let at = ["1", "2", "3", "all"][rng.below(4) as usize];
                    let text = format!("in_port={n},actions=output:{}", rng.below(3) + 1);
                    change.set.push(flow(&name, at, &text));
                }
                _ => {}
            }
        }
        if rng.below(3) == 0 {
            let text = format!("group_id=1,type=all,bucket=actions=output:{}", rng.below(3) + 1);
            let mut group = entry(Kind::Group, "g", "2", &text);
            group.switches = Selector::Switches(vec!["2".to_owned(), "3".to_owned()]);
            change.set.push(group);
        }
        change
    }

    fn sessions(&self) -> Vec<SwitchSession> {
        self.sessions.values().cloned().collect()
    }

    pub(super) fn connect(&mut self, at: DatapathId, version: Version) {
        if self.sessions.contains_key(&at) {
            return;
        }
        let switch = self.switches.entry(at).or_insert_with(|| ModelSwitch::new(version));
        self.now.unix += Duration::from_millis(1);
        let session = SwitchSession {
            datapath_id: at,
            version: switch.version,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: self.now.unix,
            features: Arc::new(SwitchFeatures { datapath_id: at, ..SwitchFeatures::default() }),
            role: switch.is_slave.then_some(Role::SLAVE),
            description: None,
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        };
        self.sessions.insert(at, session);
        self.reconciler.on_sessions(&self.sessions(), self.now);
        self.collect();
    }

    pub(super) fn disconnect(&mut self, at: DatapathId) {
        self.sessions.remove(&at);
        for (token, messages) in self.pending.remove(&at).unwrap_or_default() {
            // The switch has received what was sent.
            if let Some(switch) = self.switches.get_mut(&at) {
                let _ = switch.on_request(&messages);
            }
            self.reconciler.on_answer(token, Answer::Disconnected, self.now);
        }
        self.reconciler.on_sessions(&self.sessions(), self.now);
        self.collect();
    }

    /// The switch loses all that it has.
    pub(super) fn power_cycle(&mut self, at: DatapathId) {
        self.disconnect(at);
        if let Some(switch) = self.switches.get_mut(&at) {
            *switch = ModelSwitch::new(switch.version);
        }
    }

    /// The controller is killed and started again.
    pub(super) fn restart(&mut self) {
        for at in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.disconnect(at);
        }
        let (mut entries, names) =
            ((**self.reconciler.entries()).clone(), (**self.reconciler.names()).clone());
        let of_hosts = self.quarantines.values().flat_map(|it| it.entries.iter());
        entries.extend(of_hosts.map(|entry| (entry.key().clone(), entry.clone())));
        self.pending.clear();
        self.everywhere = None;
        self.reconciler =
            Reconciler::new(Timing::default(), entries, names, self.owned.iter().copied())
                .with_revision(self.revision);
    }

    pub(super) fn lose(&mut self, at: DatapathId, loss: Loss) {
        self.losses.insert(at, loss);
    }

    pub(super) fn limit(&mut self, at: DatapathId, flows_max: usize) {
        if let Some(switch) = self.switches.get_mut(&at) {
            switch.tables.flows_max = flows_max;
        }
    }

    pub(super) fn remove_behind_our_back(&mut self, at: DatapathId, rng: &mut Rng) {
        let Some(switch) = self.switches.get_mut(&at) else { return };
        let tables = &mut switch.tables;
        if !tables.flows.is_empty() {
            let n = rng.below(u32::try_from(tables.flows.len()).unwrap()) as usize;
            match rng.below(2) {
                0 => drop(tables.flows.remove(n)),
                _ => tables.flows[n].instructions.clear(),
            }
        }
        if rng.below(2) == 0 {
            tables.groups.clear();
        }
    }

    /// Takes the requests of the reconciler.
    fn collect(&mut self) {
        let requests = self.reconciler.take_requests();
        let disowned = self.reconciler.take_disowned();
        if self.is_disk_full {
            self.reconciler.restore_disowned(disowned);
        } else {
            for owned in disowned {
                self.owned.remove(&owned);
            }
        }
        for request in requests {
            if self.is_disk_full && !request.owns.is_empty() {
                let (token, reason) = (request.token, "the disk is full");
                self.reconciler.on_store_failure(token, &request.owns, reason, self.now);
                continue;
            }
            self.owned.extend(&request.owns);
            if self.silent.contains(&request.to) {
                continue;
            }
            let queue = self.pending.entry(request.to).or_default();
            queue.push_back((request.token, request.request.messages));
        }
    }

    pub(super) fn answer_one(&mut self, rng: &mut Rng) {
        let waiting: Vec<_> =
            self.pending.iter().filter(|(_, queue)| !queue.is_empty()).map(|(at, _)| *at).collect();
        if !waiting.is_empty() {
            let n = rng.below(u32::try_from(waiting.len()).unwrap()) as usize;
            self.answer(waiting[n]);
        }
    }

    pub(super) fn answer(&mut self, at: DatapathId) {
        let Some((token, messages)) = self.pending.get_mut(&at).and_then(VecDeque::pop_front)
        else {
            return;
        };
        let switch = self.switches.get_mut(&at).unwrap();
        let answer = match self.losses.remove(&at) {
            Some(Loss::Request) => Answer::TimedOut,
            Some(Loss::Answer) => {
                let _ = switch.on_request(&messages);
                Answer::TimedOut
            }
            None => switch.on_request(&messages),
        };
        self.reconciler.on_answer(token, answer, self.now);
        self.reconciler.tick(self.now);
        self.collect();
    }

    /// Answers all requests, in no time.
    pub(super) fn settle(&mut self) {
        self.collect();
        while let Some(at) =
            self.pending.iter().find(|(_, queue)| !queue.is_empty()).map(|(at, _)| *at)
        {
            self.answer(at);
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        let end = self.now.at + time;
        loop {
            self.settle();
            let next = self.reconciler.deadline(self.now).unwrap_or(end).min(end);
            self.now.unix += next - self.now.at;
            self.now.at = next;
            self.reconciler.tick(self.now);
            self.collect();
            if next >= end {
                return;
            }
        }
    }

    pub(super) fn state(&self, name: &str) -> State {
        let entry = self.reconciler.entries().values().find(|entry| entry.key().name == name);
        self.reconciler.state(entry.unwrap())
    }

    pub(super) fn switch(&self, at: DatapathId) -> &ModelSwitch {
        &self.switches[&at]
    }

    pub(super) fn switch_mut(&mut self, at: DatapathId) -> &mut ModelSwitch {
        self.switches.get_mut(&at).unwrap()
    }

    /// Lets so much time pass that whatever has failed is tried again, and answers everything.
    pub(super) fn try_all_again(&mut self) {
        self.settle();
        self.wait(Duration::from_secs(120));
        self.settle();
    }

    /// Each switch has what is declared, and nothing else.
    pub(super) fn assert_converged(&self, seed: u64) {
        for entry in self.reconciler.entries().values() {
            for (at, status) in self.reconciler.statuses(entry) {
                assert_eq!(status.state, State::Installed, "seed {seed}: {} at {at}", entry.key());
            }
        }
        for &mac in self.quarantines.keys() {
            for (at, state) in self.quarantine_states(mac) {
                assert_eq!(state, State::Installed, "seed {seed}: {mac} at {at}");
            }
        }
        for (at, switch) in &self.switches {
            let of_hosts = self.quarantines.values().flat_map(|it| it.entries.iter());
            let declared = self.reconciler.entries().values().filter(|entry| {
                entry.key().kind == Kind::Flow
                    && self.reconciler.statuses(entry).iter().any(|(id, _)| id == at)
            });
            let declared: BTreeSet<_> = declared
                .chain(of_hosts)
                .filter_map(|entry| entry.form(switch.version).ok()?.cookie())
                .collect();
            let found: Vec<_> = switch.tables.flows.iter().map(|flow| flow.cookie).collect();
            let distinct: BTreeSet<_> = found.iter().copied().collect();
            assert_eq!(distinct, declared, "seed {seed}: {at}");
            assert_eq!(found.len(), distinct.len(), "seed {seed}: {at}");
            let group = self.reconciler.entries().keys().any(|key| key.kind == Kind::Group);
            let groups = usize::from(group && at.0 != 1);
            assert_eq!(switch.tables.groups.len(), groups, "seed {seed}: {at}");
        }
    }
}

/// What happens besides.
impl Bench {
    pub(super) fn name(&mut self, names: &[(u64, &str)]) {
        let names =
            names.iter().map(|(id, name)| (NameOf::Switch(DatapathId(*id)), (*name).to_owned()));
        let names = Some(Names::new(names).unwrap());
        self.apply(Change { names, ..Change::default() });
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        let remove = vec![Key { kind, name: name.to_owned() }];
        self.apply(Change { remove, ..Change::default() });
    }

    /// Something becomes known of a session that has begun.
    fn learn(&mut self, at: DatapathId, learn: impl FnOnce(&mut SwitchSession)) {
        if let Some(session) = self.sessions.get_mut(&at) {
            learn(session);
        }
        self.reconciler.on_sessions(&self.sessions(), self.now);
        self.collect();
    }

    /// The switch has described its hardware and its datapath.
    pub(super) fn describe(&mut self, at: DatapathId, hw: &str, dp: &str) {
        let desc = SwitchDesc { hw: hw.into(), dp: dp.into(), ..SwitchDesc::default() };
        self.learn(at, |session| session.description = Some(Arc::new(desc)));
    }

    pub(super) fn set_role(&mut self, at: DatapathId, role: Role) {
        if let Some(switch) = self.switches.get_mut(&at) {
            switch.is_slave = role == Role::SLAVE;
        }
        self.learn(at, |session| session.role = Some(role));
    }

    /// The switch answers no request from now on.
    pub(super) fn silence(&mut self, at: DatapathId) {
        self.silent.insert(at);
    }

    /// Groups that were installed in switches that are not connected.
    pub(super) fn own_groups(&mut self, groups: impl IntoIterator<Item = (DatapathId, u32)>) {
        let owned = |(switch, number)| Owned { switch, kind: Kind::Group, number };
        self.owned.extend(groups.into_iter().map(owned));
    }

    pub(super) fn owns(&self, switch: DatapathId, number: u32) -> bool {
        self.owned.contains(&Owned { switch, kind: Kind::Group, number })
    }

    /// Whether nothing can be stored from now on.
    pub(super) fn fill_disk(&mut self, is_full: bool) {
        self.is_disk_full = is_full;
    }

    pub(super) fn has_tried(&self) -> bool {
        self.reconciler.has_tried(self.revision)
    }

    pub(super) fn notices(&mut self) -> Vec<Notice> {
        self.reconciler.take_notices()
    }

    pub(super) fn removals(&self) -> Vec<(String, State)> {
        let name = |it: &Removal<'_>| it.entry.map_or_else(|| "?".to_owned(), Key::to_string);
        self.reconciler.removals().map(|it| (name(&it), it.state)).collect()
    }

    /// The store is removed.
    pub(super) fn forget_owned(&mut self) {
        self.owned.clear();
    }

    pub(super) fn answer_next(&mut self, at: DatapathId) {
        self.answer(at);
    }

    pub(super) fn owned(&self) -> Vec<u32> {
        self.owned.iter().map(|owned| owned.number).collect()
    }

    pub(super) fn note(&self, name: &str) -> Option<&'static str> {
        let entry = self.reconciler.entries().values().find(|it| it.key().name == name).unwrap();
        self.reconciler.statuses(entry)[0].1.note
    }

    /// Passes on the requests that wait for an answer, one after the other, to `look` with the switch before it receives them.
    pub(super) fn settle_and_look(&mut self, mut look: impl FnMut(&ModelSwitch)) {
        while let Some(at) =
            self.pending.iter().find(|(_, queue)| !queue.is_empty()).map(|(at, _)| *at)
        {
            self.answer(at);
            look(&self.switches[&at]);
        }
    }

    /// Applies a change if it is valid.
    pub(super) fn try_apply(&mut self, change: Change) {
        if check(change.clone(), self.present(&Reserved::default())).is_ok() {
            self.apply(change);
        }
    }

    pub(super) fn is_declared(&self, key: &Key) -> bool {
        self.reconciler.entries().contains_key(key)
    }

    /// The entries that are selected for a switch.
    pub(super) fn states(&self, at: DatapathId) -> Vec<(&Entry, State)> {
        let state = |entry| {
            let statuses = self.reconciler.statuses(entry);
            statuses.into_iter().find(|(id, _)| *id == at).map(|(_, status)| status.state)
        };
        let entries = self.reconciler.entries().values();
        entries.filter_map(|entry| Some((&**entry, state(entry)?))).collect()
    }

    pub(super) fn find_switch(&self, at: DatapathId) -> Option<&ModelSwitch> {
        self.switches.get(&at)
    }

    /// Another program adds a group, unless there is one with this number, or was one of ours.
    pub(super) fn add_group_of_others(&mut self, at: DatapathId, id: u32) -> bool {
        let is_ours = self.owned.iter().any(|it| (it.switch, it.number) == (at, id));
        let Some(switch) = self.switches.get_mut(&at).filter(|_| !is_ours) else { return false };
        let group = GroupDesc { group_id: GroupId(id), ..GroupDesc::default() };
        let is_free = !switch.tables.groups.contains_key(&id);
        switch.tables.groups.entry(id).or_insert(group);
        is_free
    }

    /// Another program modifies an entry that is not one of a pair.
    pub(super) fn modify_unpaired(&mut self, at: DatapathId, rng: &mut Rng) {
        let Some(switch) = self.switches.get_mut(&at) else { return };
        let is_unpaired = |flow: &&mut FlowDesc| !flow.matching.to_text().starts_with("in_port=10");
        let mut flows: Vec<_> = switch.tables.flows.iter_mut().filter(is_unpaired).collect();
        if !flows.is_empty() {
            let n = rng.below(u32::try_from(flows.len()).unwrap()) as usize;
            flows[n].instructions.clear();
        }
        if rng.below(2) == 0 {
            switch.tables.meters.clear();
        }
    }

    pub(super) fn pending(&self, at: DatapathId) -> usize {
        self.pending.get(&at).map_or(0, VecDeque::len)
    }

    pub(super) fn wait_without_answers(&mut self, time: Duration) {
        self.now.at += time;
        self.now.unix += time;
        self.reconciler.tick(self.now);
        self.collect();
    }
}
