//! Subscribers to the network view, which are threads of their own.

use std::sync::Arc;

use sluice_io::Io;
use sluice_sdk::App;
use sluice_sdk::view::{PublishedFact, SubscriptionEnd, ViewPublisher};

use super::WorkerState;

/// Subscribers of a worker. Each costs it a reference to each list of facts.
const SUBSCRIBERS_MAX: usize = 16;

impl<I: Io, A: App> WorkerState<I, A> {
    /// Adds a subscriber, which gets the view in parts and all further facts.
    pub(super) fn subscribe(&mut self, publisher: ViewPublisher) {
        self.subscribers.retain(ViewPublisher::is_open);
        if self.subscribers.len() >= SUBSCRIBERS_MAX {
            publisher.end(SubscriptionEnd::Refused);
        } else {
            self.subscribers.push(publisher);
            self.has_unsent_views = true;
        }
    }

    /// Sends the next part of the view to each subscriber that does not have all of it. At the end of an iteration, when all facts
    /// that have changed the view were published.
    pub(super) fn send_views(&mut self) {
        if std::mem::take(&mut self.has_unsent_views) {
            for subscriber in &mut self.subscribers {
                self.has_unsent_views |= subscriber.send_initial_state(self.network.view());
            }
        }
    }

    /// Sends views on to subscribers that were too slow before, and forgets those that have left.
    pub(super) fn check_subscribers(&mut self) {
        self.subscribers.retain(ViewPublisher::is_open);
        self.has_unsent_views |= !self.subscribers.is_empty();
    }
}

/// Sends facts to all subscribers.
pub(super) fn publish(subscribers: &[ViewPublisher], facts: &Arc<[PublishedFact]>) {
    for subscriber in subscribers {
        subscriber.publish(facts);
    }
}
