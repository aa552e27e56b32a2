//! The network view, as requests read it: a copy that follows the view of the workers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_io::clock;
use sluice_sdk::Controller;
use sluice_sdk::view::{NetworkView, SubscriptionEnd, ViewSubscription, ViewUpdate};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Pause before a new subscription, after one has ended.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often the copy forgets what was removed from the view long ago.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);

/// A copy of the network view.
#[derive(Debug, Default)]
pub(crate) struct ViewCopy(Mutex<CopyState>);

#[derive(Debug, Default)]
pub(crate) struct CopyState {
    pub(crate) view: NetworkView,
    /// Whether the view was received as a whole. It lacks something before that, and after too much has changed at a time.
    pub(crate) is_complete: bool,
}

impl ViewCopy {
    pub(crate) fn lock(&self) -> MutexGuard<'_, CopyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the copy current until the controller stops.
    pub(crate) async fn follow(&self, controller: &dyn Controller) {
        loop {
            let changed = Arc::new(Notify::new());
            let subscriber = Arc::clone(&changed);
            let subscription = controller.subscribe(Box::new(move || subscriber.notify_one()));
            *self.lock() = CopyState::default();
            if self.follow_subscription(&subscription, &changed).await == SubscriptionEnd::Stopped {
                return;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn follow_subscription(
        &self,
        subscription: &ViewSubscription,
        changed: &Notify,
    ) -> SubscriptionEnd {
        loop {
            while let Some(update) = subscription.try_next() {
                let mut state = self.lock();
                match update {
                    ViewUpdate::Facts(facts) => {
                        for fact in facts.iter() {
                            state.view.apply(fact);
                        }
                    }
                    ViewUpdate::InitialStateComplete => state.is_complete = true,
                    ViewUpdate::Ended(why) => {
                        state.is_complete = false;
                        return why;
                    }
                }
            }
            // Ends early if something can be received.
            let _ = timeout(EXPIRE_INTERVAL, changed.notified()).await;
            self.lock().view.expire(clock::now());
        }
    }
}
