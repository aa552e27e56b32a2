//! The network view, as requests read it: a copy that follows the view of the workers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_io::clock;
use sluice_sdk::Controller;
use sluice_sdk::view::{
    NetworkView, PublishedFact, ResubscriptionPause, SubscriptionEnd, ViewSubscription, ViewUpdate,
};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::events::{Event, Events};
use crate::isolated_ports;

/// How often the copy forgets what was removed from the view long ago.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);

/// Facts that are applied before other tasks of the thread may run: some hundred microseconds.
const FACTS_AT_ONCE: usize = 256;

/// A copy of the network view.
#[derive(Debug, Default)]
pub(crate) struct ViewCopy(Mutex<CopyState>);

#[derive(Debug, Default)]
pub(crate) struct CopyState {
    pub(crate) view: NetworkView,
    /// Whether the view was received as a whole. It lacks something before that, and after too much has changed at a time.
    pub(crate) is_complete: bool,
    /// Whether all of the initial state was received. The view may be outdated since.
    is_whole: bool,
}

impl ViewCopy {
    pub(crate) fn lock(&self) -> MutexGuard<'_, CopyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the copy current until the controller stops.
    ///
    /// What changes is recorded as events, unless the copy was started again, since nobody knows then what is new.
    pub(crate) async fn follow(&self, controller: &dyn Controller, events: &Events) {
        let mut is_new_run = true;
        let mut pause = ResubscriptionPause::default();
        loop {
            let started = clock::now();
            let changed = Arc::new(Notify::new());
            let subscriber = Arc::clone(&changed);
            let subscription = controller.subscribe(Box::new(move || subscriber.notify_one()));
            *self.lock() = CopyState::default();
            events.learn_names(controller);
            let end = self
                .follow_subscription(controller, &subscription, &changed, events, is_new_run)
                .await;
            match end {
                SubscriptionEnd::Stopped => return,
                SubscriptionEnd::Lagged => events.record(Event::lost()),
                SubscriptionEnd::Refused => {}
            }
            is_new_run = false;
            let lasted = clock::now().saturating_duration_since(started);
            self.wait(pause.after(end, lasted), controller, events).await;
        }
    }

    /// Lets time pass without a subscription. What is to be published follows from the view as it was, if that was whole.
    async fn wait(&self, pause: Duration, controller: &dyn Controller, events: &Events) {
        let mut left = pause;
        while !left.is_zero() {
            let step = left.min(EXPIRE_INTERVAL);
            sleep(step).await;
            left -= step;
            self.isolate_ports(controller, events);
            events.tick();
        }
    }

    async fn follow_subscription(
        &self,
        controller: &dyn Controller,
        subscription: &ViewSubscription,
        changed: &Notify,
        events: &Events,
        is_new_run: bool,
    ) -> SubscriptionEnd {
        let mut expired_at = clock::now();
        loop {
            while let Some(update) = subscription.try_next() {
                for facts in update_facts(&update).chunks(FACTS_AT_ONCE) {
                    events.update_given_names();
                    self.apply(facts, events, is_new_run);
                    // Streams of events read from a history that is limited.
                    yield_now().await;
                }
                let mut state = self.lock();
                match update {
                    ViewUpdate::Facts(_) => {}
                    ViewUpdate::InitialStateComplete => {
                        (state.is_complete, state.is_whole) = (true, true);
                    }
                    ViewUpdate::Ended(why) => {
                        state.is_complete = false;
                        return why;
                    }
                }
            }
            self.isolate_ports(controller, events);
            // Ends early if something can be received.
            let _ = timeout(EXPIRE_INTERVAL, changed.notified()).await;
            let now = clock::now();
            if now.saturating_duration_since(expired_at) >= EXPIRE_INTERVAL {
                expired_at = now;
                self.lock().view.expire(now);
            }
            events.tick();
        }
    }

    /// Publishes at which ports hosts in quarantine are alone. What the controller does not take is published again later.
    fn isolate_ports(&self, controller: &dyn Controller, events: &Events) {
        let changes = {
            let state = self.lock();
            // Of a part of the view, hosts are missing that share a port.
            if !state.is_whole {
                return;
            }
            isolated_ports::changes(&state.view, &events.quarantines())
        };
        if !changes.is_empty() {
            let _ = controller.publish(changes);
        }
    }

    /// Applies facts. At the first subscription, all that the view contains has happened in this run of the controller.
    fn apply(&self, facts: &[PublishedFact], events: &Events, is_new_run: bool) {
        let mut state = self.lock();
        let is_event = is_new_run || state.is_complete;
        let mut rest = facts;
        while let [fact, after @ ..] = rest {
            rest = after;
            if is_event {
                events.apply(fact, after, &mut state.view);
            } else {
                state.view.apply(fact);
            }
        }
    }
}

fn update_facts(update: &ViewUpdate) -> &[PublishedFact] {
    match update {
        ViewUpdate::Facts(facts) => facts,
        ViewUpdate::InitialStateComplete | ViewUpdate::Ended(_) => &[],
    }
}
