//! Delivery of facts to the applications of a worker: those of other workers, and those that its own have published.

use std::sync::Arc;
use std::time::Instant;

use crate::app::App;
use crate::network::Network;
use crate::view::PublishedFact;

/// Rounds per event-loop iteration in which facts are delivered whose handlers publish further facts. The rest waits for
/// the next iteration.
const ROUNDS_MAX: usize = 8;

impl Network {
    /// For engines: applies facts that another worker has published, and notifies the application of those that have changed
    /// the view.
    pub fn receive_facts<A: App + ?Sized>(
        &mut self,
        app: &mut A,
        facts: &[PublishedFact],
        now: Instant,
    ) {
        for fact in facts {
            if self.apply_remote(fact) {
                app.on_fact(fact, now, self);
            }
        }
    }

    /// For engines, once at the end of each event-loop iteration: lets the application continue deferred work, notifies it of
    /// the facts that were published here, and passes these to `publish`, which sends them to all other workers. Messages
    /// and log lines can be taken afterwards.
    ///
    /// If [`wants_iteration`](Self::wants_iteration) then, the next iteration is to begin without waiting.
    pub fn deliver<A: App + ?Sized>(
        &mut self,
        app: &mut A,
        now: Instant,
        publish: impl FnMut(Arc<[PublishedFact]>),
    ) {
        if self.take_deferred_work() {
            app.on_deferred_work(now, self);
        }
        self.deliver_published(app, now, publish);
    }

    /// For engines: as [`deliver`](Self::deliver), but deferred work waits. For an iteration in which there is no room for the
    /// messages that it would cause.
    pub fn deliver_published<A: App + ?Sized>(
        &mut self,
        app: &mut A,
        now: Instant,
        mut publish: impl FnMut(Arc<[PublishedFact]>),
    ) {
        for _ in 0..ROUNDS_MAX {
            let facts = self.take_facts();
            if facts.is_empty() {
                break;
            }
            let facts: Arc<[_]> = facts.into();
            publish(facts.clone());
            for fact in &*facts {
                app.on_fact(fact, now, self);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, Message};

    use super::*;
    use crate::view::{AppEvent, AppRecord};

    #[derive(Debug, Clone, PartialEq)]
    struct Count(u32);

    impl AppRecord for Count {
        type Key = ();
    }

    #[derive(Debug, PartialEq)]
    struct Start;

    impl AppEvent for Start {}

    /// Publishes the next count when it is notified of one, up to a limit.
    #[derive(Debug, Default)]
    struct Counter {
        max: u32,
        deferred: u32,
    }

    impl App for Counter {
        fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
            if published.fact.event() == Some(&Start) {
                network.defer_work();
            }
            if let Some(((), Some(&Count(n)))) = published.fact.record() {
                network.publish_record(now, (), Some(Count((n + 1).min(self.max))));
            }
        }

        fn on_deferred_work(&mut self, _: Instant, network: &mut Network) {
            self.deferred += 1;
            if self.deferred < 3 {
                network.defer_work();
            }
        }
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn facts_that_handlers_publish_are_delivered_in_the_same_iteration_up_to_a_limit() {
        let (mut network, mut app, now) =
            (Network::new(0), Counter { max: 12, deferred: 0 }, now());
        network.publish_record(now, (), Some(Count(1)));
        let mut published = 0;
        network.deliver(&mut app, now, |facts| published += facts.len());
        assert_eq!((published, network.wants_iteration()), (ROUNDS_MAX, true));
        network.deliver(&mut app, now, |facts| published += facts.len());
        assert_eq!((published, network.is_idle()), (12, true));
        assert_eq!(network.view().record(()), Some(&Count(12)));
    }

    #[test]
    fn facts_of_other_workers_are_delivered_once_and_not_published_again() {
        let [mut here, mut there] = [Network::new(0), Network::new(1)];
        let (mut app, now) = (Counter { max: 1, deferred: 0 }, now());
        there.publish_record(now, (), Some(Count(1)));
        let facts = there.take_facts();
        here.receive_facts(&mut app, &facts, now);
        here.receive_facts(&mut app, &facts, now);
        assert_eq!(here.view().record(()), Some(&Count(1)));
        assert!(here.is_idle());
    }

    /// Such as from [`App::on_changes_lost`], which may be called after the messages were taken.
    #[test]
    fn a_message_that_was_not_taken_is_sent_in_the_next_iteration_which_begins_at_once() {
        let mut network = Network::new(0);
        network.send_to(DatapathId(1), Message::BarrierRequest);
        assert!(network.has_messages() && !network.is_idle());
        network.take_messages();
        assert!(!network.has_messages() && network.is_idle());
    }

    #[test]
    fn deferred_work_is_continued_once_in_each_iteration() {
        let (mut network, mut app, now) = (Network::new(0), Counter::default(), now());
        network.publish_event(now, Start);
        for iteration in 0..5 {
            network.deliver(&mut app, now, |_| {});
            assert_eq!(app.deferred, iteration.min(3));
            assert_eq!(network.wants_iteration(), iteration < 3);
        }
    }

    #[test]
    fn deferred_work_waits_while_there_is_no_room_for_what_it_causes_but_facts_are_delivered() {
        let (mut network, mut app, now) = (Network::new(0), Counter::default(), now());
        network.publish_event(now, Start);
        let mut published = 0;
        for _ in 0..3 {
            network.deliver_published(&mut app, now, |facts| published += facts.len());
        }
        assert_eq!((app.deferred, published, network.wants_iteration()), (0, 1, true));
        network.deliver(&mut app, now, |_| {});
        assert_eq!(app.deferred, 1);
    }

    #[test]
    fn work_is_deferred_until_the_earliest_of_several_times() {
        let (mut network, start) = (Network::new(0), now());
        let mut app = Counter { deferred: 2, ..Counter::default() };
        let after = |ms| start + std::time::Duration::from_millis(ms);
        for ms in [30, 10, 20] {
            network.defer_work_until(after(ms));
        }
        assert_eq!(network.deferred_until(), Some(after(10)));
        assert!(network.is_idle(), "nothing to do yet");
        for (ms, deferred) in [(9, 2), (10, 3), (11, 3), (40, 3)] {
            network.begin_iteration(after(ms));
            network.deliver(&mut app, after(ms), |_| {});
            assert_eq!(app.deferred, deferred, "after {ms} ms");
        }
        assert_eq!(network.deferred_until(), None);
    }
}
