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

    /// For engines, once at the end of each event-loop iteration: notifies the application of expired timers, lets it
    /// continue deferred work, notifies it of the facts that were published here, and passes these to `publish`, which sends them to all other workers. Messages
    /// and log lines can be taken afterwards.
    ///
    /// If [`wants_iteration`](Self::wants_iteration) then, the next iteration is to begin without waiting.
    pub fn deliver<A: App + ?Sized>(
        &mut self,
        app: &mut A,
        now: Instant,
        publish: impl FnMut(Arc<[PublishedFact]>),
    ) {
        for timer in self.take_expired_timers(now) {
            app.on_timer(timer, now, self);
        }
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
    use crate::timer::{TIMERS_MAX, TimerId, TooManyTimers};
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

    /// Sets timers at its start, and records which expire.
    #[derive(Debug, Default)]
    struct Alarms(Vec<TimerId>);

    impl App for Alarms {
        fn on_timer(&mut self, timer: TimerId, now: Instant, network: &mut Network) {
            self.0.push(timer);
            if self.0.len() == 1 {
                // Already over: it expires in the next iteration.
                network.set_timer(now).unwrap();
            }
        }
    }

    #[test]
    fn timers_expire_once_in_order_unless_they_are_cancelled() {
        let (mut network, start, mut app) = (Network::new(0), now(), Alarms::default());
        let after = |ms| start + std::time::Duration::from_millis(ms);
        let [late, cancelled, early] = [30, 20, 10].map(|ms| network.set_timer(after(ms)).unwrap());
        assert_eq!(network.deferred_until(), Some(after(10)));
        assert!(network.is_idle(), "nothing to do yet");
        assert!(network.cancel_timer(cancelled) && !network.cancel_timer(cancelled));
        network.defer_work_until(after(5));
        assert_eq!(network.deferred_until(), Some(after(5)));
        for (ms, expired) in [(9, 0), (10, 1), (11, 2), (29, 2), (40, 3), (50, 3)] {
            network.begin_iteration(after(ms));
            network.deliver(&mut app, after(ms), |_| {});
            assert_eq!(app.0.len(), expired, "after {ms} ms");
        }
        assert_eq!([app.0[0], app.0[2]], [early, late]);
        assert_eq!((network.deferred_until(), network.is_idle()), (None, true));
    }

    #[test]
    fn very_many_timers_expire_in_several_iterations_and_no_more_are_set() {
        let (mut network, now, mut app) = (Network::new(0), now(), Alarms::default());
        for _ in 0..TIMERS_MAX {
            network.set_timer(now).unwrap();
        }
        assert_eq!(network.set_timer(now), Err(TooManyTimers));
        network.begin_iteration(now);
        for iteration in 1..=3 {
            assert!(network.wants_iteration());
            network.deliver(&mut app, now, |_| {});
            assert_eq!(app.0.len(), iteration * 256);
        }
    }

    #[test]
    fn timers_wait_while_there_is_no_room_for_what_they_cause() {
        let (mut network, now, mut app) = (Network::new(0), now(), Alarms::default());
        network.set_timer(now).unwrap();
        network.begin_iteration(now);
        network.deliver_published(&mut app, now, |_| {});
        assert_eq!((app.0.len(), network.wants_iteration()), (0, true));
        network.deliver(&mut app, now, |_| {});
        assert_eq!(app.0.len(), 1);
    }
}
