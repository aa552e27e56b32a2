//! Events: what happens in the network, as the API, the log and `sluice show events` present it. See `docs/events.md`.

mod derive;
mod event;
mod history;
mod log;
mod names;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice_declared::{Declared, Quarantine, QuarantineInfo};
use sluice_io::clock;
use sluice_openflow::{DatapathId, MacAddr, SwitchDesc, SwitchFeatures};
use sluice_sdk::view::{NetworkView, PublishedFact};
use sluice_sdk::{Controller, switch_name};
use tokio::sync::watch;

pub(crate) use event::{Event, EventDocument, EventFilter, EventKind};
pub(crate) use history::{
    EventId, HISTORY_MAX, LastEvents, NextEvent, Resumption, ResumptionNotice,
};

use derive::Before;
use event::EventPlace;
use history::History;
use log::EventLog;
use names::SwitchNames;

/// All events of this run of the controller.
#[derive(Debug)]
pub(crate) struct Events {
    state: Mutex<State>,
    /// The number of the next event.
    next: watch::Sender<u64>,
    /// Has the names that an operator has given.
    declared: Option<Arc<Declared>>,
}

#[derive(Debug)]
struct State {
    history: History,
    log: EventLog,
    names: SwitchNames,
}

impl Events {
    pub(crate) fn new(declared: Option<Arc<Declared>>) -> Self {
        let run = u64::try_from(clock::since_epoch().as_millis()).unwrap_or_default();
        let history = History::new(run);
        let next = watch::Sender::new(history.next_number());
        let (log, names) = Default::default();
        Self { state: Mutex::new(State { history, log, names }), next, declared }
    }

    /// Records what changes of static entries have come to, while the events are kept.
    pub(crate) fn follow_changes(self: &Arc<Self>) {
        if let Some(declared) = &self.declared {
            let events = Arc::downgrade(self);
            declared.subscribe(Box::new(move |report| {
                if let Some(events) = events.upgrade() {
                    let mut state = events.lock();
                    let event = Event::policy(&report, &state.names);
                    events.add(&mut state, event, clock::since_epoch());
                }
            }));
        }
    }

    /// The names of the switches that are connected now.
    pub(crate) fn learn_names(&self, controller: &dyn Controller) {
        let sessions = controller.switches();
        let mut state = self.lock();
        for session in sessions {
            let name = switch_name(&session.features, session.description.as_deref());
            state.names.set_own(session.datapath_id, name);
        }
    }

    /// Records the name that the description of a switch states, if it has no other one.
    pub(crate) fn learn_name(&self, switch: DatapathId, description: &SwitchDesc) {
        let mut state = self.lock();
        if !state.names.has_own(switch) {
            state.names.set_own(switch, switch_name(&SwitchFeatures::default(), Some(description)));
        }
    }

    /// Takes over the names that an operator has given now.
    pub(crate) fn update_given_names(&self) {
        if let Some(declared) = &self.declared {
            let given = declared.read(|it| it.names().clone());
            self.lock().names.set_given(given);
        }
    }

    /// The hosts in quarantine.
    pub(crate) fn quarantines(&self) -> BTreeMap<MacAddr, Arc<Quarantine>> {
        self.declared.as_ref().map(|it| it.quarantines()).unwrap_or_default()
    }

    /// Applies a fact to a view, and records the event that it is. The facts that come next may say why it has happened.
    pub(crate) fn apply(
        &self,
        published: &PublishedFact,
        next: &[PublishedFact],
        view: &mut NetworkView,
    ) {
        let before = Before::of(&published.fact, view);
        if !view.apply(published) {
            return;
        }
        let mut state = self.lock();
        if let Some((id, name)) = derive::name_in(&published.fact) {
            state.names.set_own(id, name);
        }
        if let Some(event) = derive::event(before, &published.fact, next, view, &state.names) {
            self.add(&mut state, event, unix_time(published.stamp.at()));
        }
        if let Some(id) = derive::disconnected(&published.fact) {
            state.names.on_disconnect(id);
        }
    }

    /// Records an event that happens now.
    pub(crate) fn record(&self, event: Event) {
        self.add(&mut self.lock(), event, clock::since_epoch());
    }

    /// Records that a host is put into quarantine now, or released.
    pub(crate) fn record_quarantine(
        &self,
        kind: EventKind,
        mac: MacAddr,
        info: &QuarantineInfo,
        view: &NetworkView,
    ) {
        self.update_given_names();
        let mut state = self.lock();
        let at = info.at().map(|at| EventPlace::port(at, view, &state.names));
        let event = Event::of_quarantine(kind, mac, info, at);
        self.add(&mut state, event, clock::since_epoch());
    }

    fn add(&self, state: &mut State, event: Event, at: Duration) {
        state.log.log(&event, clock::now());
        state.history.push(event, at);
        self.next.send_replace(state.history.next_number());
    }

    /// Logs how many lines were left out, if it is time.
    pub(crate) fn tick(&self) {
        self.lock().log.tick(clock::now());
    }

    /// The next event that a filter selects, from a number on.
    pub(crate) fn next(&self, from: u64, filter: &EventFilter) -> NextEvent {
        self.lock().history.next(from, filter)
    }

    /// Where a stream begins that resumes after an event; or with the next one.
    pub(crate) fn resume(&self, after: Option<EventId>) -> Resumption {
        self.lock().history.resume(after)
    }

    /// The last `limit` events after `after` that a filter selects.
    pub(crate) fn last(
        &self,
        filter: &EventFilter,
        after: Option<EventId>,
        limit: usize,
    ) -> LastEvents {
        self.lock().history.last(filter, after, limit)
    }

    /// The id of the event with this number.
    pub(crate) fn id(&self, number: u64) -> EventId {
        self.lock().history.id(number)
    }

    /// Notifies of new events.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time since 1970-01-01 UTC.
pub(crate) fn unix_time(at: Instant) -> Duration {
    clock::since_epoch().saturating_sub(clock::now().saturating_duration_since(at))
}
