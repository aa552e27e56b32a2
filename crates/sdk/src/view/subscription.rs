//! Copies of the network view outside of the workers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{NetworkView, PublishedFact, ViewItem};

/// Facts that may wait for a subscriber. More end its subscription.
const FACTS_MAX: usize = 65_536;

/// Facts of the initial state that are sent at once: some hundred microseconds of a worker.
const PAGE_FACTS: usize = 1024;

/// First pause before a new subscription.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// Longest pause before a new subscription.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewUpdate {
    /// Facts, to be passed to [`NetworkView::apply`] in order. That says whether a fact has changed the view: one that has not is to
    /// be ignored.
    Facts(Arc<[PublishedFact]>),
    /// All of the initial state has been received.
    InitialStateComplete,
    /// Nothing follows. The view that was kept is no longer current.
    Ended(SubscriptionEnd),
}

/// Why a subscription has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionEnd {
    /// The subscriber has received too slowly. It may subscribe again, with an empty view.
    Lagged,
    /// There are too many subscribers, or the controller has too much to do.
    Refused,
    /// The controller has stopped.
    Stopped,
}

/// The receiving end of a subscription to all facts.
///
/// First come facts about everything that is in the view, and those that are published meanwhile; then
/// [`ViewUpdate::InitialStateComplete`]; then all further facts. Applied to an empty [`NetworkView`], they make it the view of a
/// worker, of which it lags behind only by what was not received yet.
pub struct ViewSubscription {
    shared: Arc<Shared>,
}

/// For engines: the sending end of a [`ViewSubscription`].
pub struct ViewPublisher {
    shared: Arc<Shared>,
    /// What is in the view and was not sent yet, the last first; `None` before the first page.
    unsent: Option<Vec<ViewItem>>,
    is_complete: bool,
}

struct Shared {
    state: Mutex<State>,
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    updates: VecDeque<ViewUpdate>,
    /// Number of facts in `updates`.
    facts: usize,
    /// Nothing is added any more.
    has_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what `add` does, unless the subscription has ended, and notifies the subscriber.
    fn update(&self, add: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        let was_empty = state.updates.is_empty();
        add(&mut state);
        let is_first = was_empty && !state.updates.is_empty();
        drop(state);
        if is_first {
            (self.notify)();
        }
    }
}

impl State {
    fn end(&mut self, why: SubscriptionEnd) {
        self.has_ended = true;
        self.updates.push_back(ViewUpdate::Ended(why));
    }
}

impl ViewPublisher {
    /// Both ends of a subscription. `notify` is called when something can be received and nothing could before.
    pub fn new(notify: Box<dyn Fn() + Send + Sync>) -> (Self, ViewSubscription) {
        let shared = Arc::new(Shared { state: Mutex::default(), notify });
        let publisher = Self { shared: shared.clone(), unsent: None, is_complete: false };
        (publisher, ViewSubscription { shared })
    }

    /// Whether there is a subscriber that keeps up.
    pub fn is_open(&self) -> bool {
        Arc::strong_count(&self.shared) > 1 && !self.shared.lock().has_ended
    }

    /// Ends the subscription.
    pub fn end(&self, why: SubscriptionEnd) {
        self.shared.update(|state| state.end(why));
    }

    /// Sends facts that were published. If too many wait already, these are discarded and the subscription ends.
    ///
    /// # Cost
    /// A lock, and a call of `notify` if nothing waits. The facts are shared.
    pub fn publish(&self, facts: &Arc<[PublishedFact]>) {
        self.shared.update(|state| {
            if state.facts + facts.len() > FACTS_MAX {
                state.updates.clear();
                state.facts = 0;
                return state.end(SubscriptionEnd::Lagged);
            }
            state.facts += facts.len();
            state.updates.push_back(ViewUpdate::Facts(facts.clone()));
        });
    }

    /// Sends the next part of the initial state, which is in `view`. Facts that have changed `view` since the last part must have been
    /// [published](Self::publish). Returns whether another part can be sent at once: `false` if there is none, or if the
    /// subscriber has to receive first.
    ///
    /// Facts carry the times at which they were published, and the later one holds. So it does no harm that a part shows the view as
    /// it is now, and the next one as it is then.
    ///
    /// # Cost
    /// Copies up to 1 024 items; the first time, lists all of the view.
    pub fn send_initial_state(&mut self, view: &NetworkView) -> bool {
        if self.is_complete || self.shared.lock().facts > FACTS_MAX / 2 {
            return false;
        }
        let unsent = self.unsent.get_or_insert_with(|| view.items());
        let page = unsent.split_off(unsent.len().saturating_sub(PAGE_FACTS));
        let facts: Arc<[_]> = page.iter().rev().filter_map(|item| view.fact_about(item)).collect();
        self.is_complete = unsent.is_empty();
        if !facts.is_empty() {
            self.publish(&facts);
        }
        if self.is_complete {
            self.shared.update(|state| state.updates.push_back(ViewUpdate::InitialStateComplete));
        }
        !self.is_complete
    }
}

/// The subscriber is notified that nothing follows.
impl Drop for ViewPublisher {
    fn drop(&mut self) {
        self.end(SubscriptionEnd::Stopped);
    }
}

impl ViewSubscription {
    /// Receives the next update; `None` if there is none yet. `notify` is called when there is.
    pub fn try_next(&self) -> Option<ViewUpdate> {
        let mut state = self.shared.lock();
        let update = state.updates.pop_front()?;
        if let ViewUpdate::Facts(facts) = &update {
            state.facts -= facts.len();
        }
        Some(update)
    }
}

/// How long to wait before the next subscription, after one has ended.
///
/// A worker sends all of its view to each new subscriber, which takes time from packet-ins: about a second with millions of hosts. A
/// subscriber that is too slow for them, and comes back at once, would make this worse.
#[derive(Debug, Default)]
pub struct ResubscriptionPause(Duration);

impl ResubscriptionPause {
    /// The pause after a subscription that has ended for this reason and has lasted for `lasted`: half a second. If the subscriber was too
    /// slow again within 30 s, it is doubled, up to 30 s. After a refusal, for which no view was sent, it is half a second, and the next one
    /// is as if there had been no refusal.
    pub fn after(&mut self, end: SubscriptionEnd, lasted: Duration) -> Duration {
        if end == SubscriptionEnd::Refused {
            return PAUSE_MIN;
        }
        let doubled = if lasted > PAUSE_MAX { Duration::ZERO } else { 2 * self.0 };
        self.0 = doubled.clamp(PAUSE_MIN, PAUSE_MAX);
        self.0
    }
}

impl fmt::Debug for ViewSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewSubscription").finish_non_exhaustive()
    }
}

impl fmt::Debug for ViewPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewPublisher")
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}
