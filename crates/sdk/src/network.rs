//! What an application can reach beyond the switch whose message it handles: the view, other switches, other workers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, Message};

use crate::ctx::SwitchIndex;
use crate::fast_path_hosts::FastPathHosts;
use crate::notification::{Notification, NotificationLimit};
use crate::request::{Request, Ticket};
use crate::timer::{EXPIRED_MAX, TimerId, Timers, TooManyTimers};
use crate::view::{
    AppEvent, AppRecord, EventFact, Fact, NetworkView, PublishedFact, RecordFact, Stamp,
};

/// How often entries of the view that were removed long ago are forgotten.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// Log lines that are kept in one event-loop iteration. More are only counted.
const REPORTS_MAX: usize = 16;

/// A list of messages keeps the memory for so many when it is empty.
const SPARE_MESSAGES_MAX: usize = 4096;

/// A request of an application that is to be sent.
#[derive(Debug)]
pub struct QueuedRequest {
    /// The switch.
    pub to: DatapathId,
    /// Returned to the application.
    pub ticket: Ticket,
    /// What is to be sent.
    pub request: Request,
    /// How many of the [messages](Network::take_messages) that are to be sent come before it.
    pub messages_before: usize,
}

/// The network as this worker knows it, and what it sends to other switches and publishes to other workers.
#[derive(Debug)]
pub struct Network {
    view: NetworkView,
    fast_path_hosts: FastPathHosts,
    messages: Vec<(DatapathId, Message)>,
    requests: Vec<QueuedRequest>,
    last_ticket: u64,
    published: Vec<PublishedFact>,
    reports: Vec<String>,
    unreported: u64,
    notification_limit: NotificationLimit,
    /// By [`SwitchIndex`].
    rtts: Vec<Option<Duration>>,
    worker: usize,
    expired: Option<Instant>,
    has_deferred_work: bool,
    deferred_until: Option<Instant>,
    switch_work: BTreeSet<DatapathId>,
    timers: Timers,
    has_expired_timers: bool,
}

impl Network {
    /// An empty network, of worker `worker`.
    pub fn new(worker: usize) -> Self {
        Self {
            view: NetworkView::default(),
            fast_path_hosts: FastPathHosts::default(),
            messages: Vec::new(),
            requests: Vec::new(),
            last_ticket: 0,
            published: Vec::new(),
            reports: Vec::new(),
            unreported: 0,
            notification_limit: NotificationLimit::default(),
            rtts: Vec::new(),
            worker,
            expired: None,
            has_deferred_work: false,
            deferred_until: None,
            switch_work: BTreeSet::new(),
            timers: Timers::default(),
            has_expired_timers: false,
        }
    }

    /// The number of this worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The view of the whole network.
    #[inline]
    pub fn view(&self) -> &NetworkView {
        &self.view
    }

    /// Hosts at switches of this worker whose ordinary frames may be forwarded on the fast path.
    #[inline]
    pub fn fast_path_hosts(&mut self) -> &mut FastPathHosts {
        &mut self.fast_path_hosts
    }

    /// [`view`](Self::view) and [`fast_path_hosts`](Self::fast_path_hosts) at the same time.
    #[inline]
    pub fn view_and_fast_path_hosts(&mut self) -> (&NetworkView, &mut FastPathHosts) {
        (&self.view, &mut self.fast_path_hosts)
    }

    /// Sends a message to any switch, be it one of this worker or of another. If the switch's version cannot express the
    /// message, it is logged and dropped; if the switch is not connected, the message is lost.
    ///
    /// # Cost
    /// A copy and, if another worker serves the switch, a hop between cores.
    pub fn send_to(&mut self, to: DatapathId, message: Message) {
        self.messages.push((to, message));
    }

    /// Sends a message to any switch, and returns a ticket: the answer comes with it to
    /// [`App::on_answer`](crate::App::on_answer), always and once, in a later event-loop iteration. The order with other messages
    /// to the switch is kept. `timeout` is how long the switch may take.
    ///
    /// # Cost
    /// As [`send_to`](Self::send_to), some allocations, and a barrier for all requests to a switch in one iteration that have no
    /// reply of their own.
    pub fn request(&mut self, to: DatapathId, message: Message, timeout: Duration) -> Ticket {
        self.request_all(to, vec![message], timeout)
    }

    /// As [`request`](Self::request), for messages that are answered together: all are sent, in order, with a barrier behind them.
    pub fn request_all(
        &mut self,
        to: DatapathId,
        messages: Vec<Message>,
        timeout: Duration,
    ) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket::new(self.worker, self.last_ticket);
        let request = Request { messages, timeout };
        let messages_before = self.messages.len();
        self.requests.push(QueuedRequest { to, ticket, request, messages_before });
        ticket
    }

    /// Publishes a fact to all applications of all workers, this one included, unless the view says the same already.
    /// Returns whether the view has changed. A fact about a port of a switch that is not connected is ignored.
    ///
    /// # Cost
    /// A copy, and a hop between cores for every other worker.
    pub fn publish(&mut self, now: Instant, fact: Fact) -> bool {
        let is_of_no_switch =
            matches!(fact, Fact::Port(at, _) if self.view.switch(at.switch).is_none());
        if is_of_no_switch || self.view.knows(&fact) {
            return false;
        }
        let stamp = Stamp::new(now, self.worker).after(self.view.stamp_of(&fact));
        let published = PublishedFact { stamp, fact };
        let has_changed = self.apply(&published);
        if has_changed {
            self.published.push(published);
        }
        has_changed
    }

    /// Publishes that the value of an application's record is `value` from now on, or that it is removed. Returns whether
    /// it was another before.
    ///
    /// # Cost
    /// As [`publish`](Self::publish), and an allocation; nothing if the value is the same.
    pub fn publish_record<T: AppRecord>(
        &mut self,
        now: Instant,
        key: T::Key,
        value: Option<T>,
    ) -> bool {
        if self.view.record::<T>(key) == value.as_ref() {
            return false;
        }
        self.publish(now, Fact::Record(RecordFact::new(key, value)))
    }

    /// Publishes an event of an application. It reaches [`App::on_fact`](crate::App::on_fact) on all workers, and no view
    /// keeps it.
    ///
    /// # Cost
    /// As [`publish`](Self::publish), and an allocation.
    pub fn publish_event<E: AppEvent>(&mut self, now: Instant, event: E) {
        self.publish(now, Fact::Event(EventFact::new(event)));
    }

    /// Publishes something for people: it reaches the subscribers to the view, once. For rare events: in one second only the
    /// first few hundred are published, and the others counted.
    ///
    /// # Cost
    /// As [`publish_event`](Self::publish_event).
    pub fn notify(&mut self, now: Instant, notification: Notification) {
        let (is_allowed, suppressed) = self.notification_limit.admit(now);
        if let Some(count) = suppressed {
            self.publish_event(now, Notification::Suppressed(count));
        }
        if is_allowed {
            self.publish_event(now, notification);
        }
    }

    /// Smoothed round-trip time to a switch of this worker, if an application measures it. A longer sample counts at once,
    /// a shorter one by an eighth, so that waiting for this long is safe.
    #[inline]
    pub fn rtt(&self, sw: SwitchIndex) -> Option<Duration> {
        self.rtts.get(sw.index()).copied().flatten()
    }

    /// Records a sample of the round-trip time to a switch of this worker.
    pub fn record_rtt(&mut self, sw: SwitchIndex, sample: Duration) {
        if self.rtts.len() <= sw.index() {
            self.rtts.resize(sw.index() + 1, None);
        }
        if let Some(rtt) = self.rtts.get_mut(sw.index()) {
            *rtt = Some(rtt.map_or(sample, |rtt| sample.max((rtt * 7 + sample) / 8)));
        }
    }

    /// Forgets the round-trip time to a switch that has disconnected: its index will be reused.
    pub fn forget_rtt(&mut self, sw: SwitchIndex) {
        if let Some(rtt) = self.rtts.get_mut(sw.index()) {
            *rtt = None;
        }
    }

    /// Logs a warning. For rare events: in one event-loop iteration only the first few lines are kept, and the others
    /// counted.
    pub fn report(&mut self, line: impl FnOnce() -> String) {
        if self.reports.len() < REPORTS_MAX {
            self.reports.push(line());
        } else {
            self.unreported += 1;
        }
    }

    /// Calls [`App::on_deferred_work`](crate::App::on_deferred_work) in the next event-loop iteration, which then begins at
    /// once. For work that would delay other switches if it were done in one iteration.
    pub fn defer_work(&mut self) {
        self.has_deferred_work = true;
    }

    /// Calls [`App::on_deferred_work`](crate::App::on_deferred_work) at `at`. Of several times, only the earliest counts: who
    /// has more work then calls this again.
    pub fn defer_work_until(&mut self, at: Instant) {
        self.deferred_until = Some(self.deferred_until.map_or(at, |until| until.min(at)));
    }

    /// Calls [`App::on_timer`](crate::App::on_timer) with the returned id at `at`, once, unless it is
    /// [cancelled](Self::cancel_timer).
    ///
    /// # Errors
    /// The applications of this worker have too many timers.
    pub fn set_timer(&mut self, at: Instant) -> Result<TimerId, TooManyTimers> {
        self.timers.set(at)
    }

    /// Cancels a timer. Returns whether it was set.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.timers.cancel(timer)
    }

    /// For engines: takes the timers that have expired, at most so many that other work is not delayed.
    pub(crate) fn take_expired_timers(&mut self, now: Instant) -> Vec<TimerId> {
        if !std::mem::take(&mut self.has_expired_timers) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        while expired.len() < EXPIRED_MAX {
            let Some(timer) = self.timers.take_expired(now) else { break };
            expired.push(timer);
        }
        self.has_expired_timers = self.timers.next().is_some_and(|at| at <= now);
        expired
    }

    /// Calls [`App::on_switch_work`](crate::App::on_switch_work) for a switch in this event-loop iteration, or never if it is not
    /// one of this worker. However often this is called for a switch, it is called once.
    pub fn schedule_switch_work(&mut self, id: DatapathId) {
        self.switch_work.insert(id);
    }

    /// For engines: takes the switches for which [`schedule_switch_work`](Self::schedule_switch_work) was called.
    pub fn take_switch_work(&mut self) -> BTreeSet<DatapathId> {
        std::mem::take(&mut self.switch_work)
    }

    /// For engines: until when work is deferred at the latest, if it is for a time; a timer is such work.
    #[inline]
    pub fn deferred_until(&self) -> Option<Instant> {
        let timer = self.timers.next();
        self.deferred_until.map_or(timer, |until| Some(timer.map_or(until, |at| at.min(until))))
    }

    /// For engines, at the beginning of each event-loop iteration: work that was deferred until now is to be done in it.
    #[inline]
    pub fn begin_iteration(&mut self, now: Instant) {
        if self.deferred_until.is_some_and(|at| at <= now) {
            self.deferred_until = None;
            self.has_deferred_work = true;
        }
        self.has_expired_timers |= self.timers.next().is_some_and(|at| at <= now);
    }

    /// For engines: whether deferred work was asked for since the last call.
    pub(crate) fn take_deferred_work(&mut self) -> bool {
        std::mem::take(&mut self.has_deferred_work)
    }

    /// For engines: whether there is work for the next event-loop iteration, which must not wait for anything else then.
    #[inline]
    pub fn wants_iteration(&self) -> bool {
        self.has_deferred_work || self.has_expired_timers || !self.published.is_empty()
    }

    /// For engines: whether there are messages or requests to take.
    #[inline]
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty() || !self.requests.is_empty()
    }

    /// For engines: takes the log lines of this iteration, and how many more there were.
    pub fn take_reports(&mut self) -> (Vec<String>, u64) {
        (std::mem::take(&mut self.reports), std::mem::take(&mut self.unreported))
    }

    /// For engines: applies a fact that another worker published. Returns whether the view has changed.
    pub fn apply_remote(&mut self, published: &PublishedFact) -> bool {
        self.apply(published)
    }

    /// Applies a fact. A host that has left its port is removed from the fast path there.
    fn apply(&mut self, published: &PublishedFact) -> bool {
        let Fact::Host(id, host) = &published.fact else {
            let has_changed = self.view.apply(published);
            if has_changed && let Some(switch) = switch_with_other_ports(&published.fact) {
                self.fast_path_hosts.mark_changed(switch);
            }
            return has_changed;
        };
        let old = self.view.host(*id).map(|old| old.at);
        let has_changed = self.view.apply(published);
        let left = old.filter(|&old| host.as_ref().is_none_or(|host| host.at != old));
        if let Some(left) = left.filter(|_| has_changed) {
            self.fast_path_hosts.remove(left.switch, *id);
        }
        has_changed
    }

    /// For engines: takes the messages to switches. Those who take them often [return](Self::return_messages) the list.
    pub fn take_messages(&mut self) -> Vec<(DatapathId, Message)> {
        std::mem::take(&mut self.messages)
    }

    /// For engines: takes the requests to switches, in order, before or after [`take_messages`](Self::take_messages).
    pub fn take_requests(&mut self) -> Vec<QueuedRequest> {
        std::mem::take(&mut self.requests)
    }

    /// For engines: uses the memory of a list of messages that have been sent for the next messages.
    pub fn return_messages(&mut self, mut sent: Vec<(DatapathId, Message)>) {
        if self.messages.capacity() == 0 && sent.capacity() <= SPARE_MESSAGES_MAX {
            sent.clear();
            self.messages = sent;
        }
    }

    /// For engines: takes the facts that were published here.
    pub fn take_facts(&mut self) -> Vec<PublishedFact> {
        std::mem::take(&mut self.published)
    }

    /// For engines: whether there is no work to be done, and no message, no fact and no log line to take.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.reports.is_empty()
            && !self.has_messages()
            && !self.wants_iteration()
            && self.switch_work.is_empty()
    }

    /// For engines: forgets what was removed from the view long ago. Cheap if called often.
    pub fn expire(&mut self, now: Instant) {
        let is_due = |expired| now.saturating_duration_since(expired) >= EXPIRY_INTERVAL;
        if self.expired.is_none_or(is_due) {
            self.expired = Some(now);
            self.view.expire(now);
        }
    }
}

/// The switch whose ports are others according to a fact.
fn switch_with_other_ports(fact: &Fact) -> Option<DatapathId> {
    match *fact {
        Fact::Port(at, _) => Some(at.switch),
        Fact::Switch(id, _) => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{MacAddr, PortNo, VlanId};

    use super::*;
    use crate::view::{Host, HostId, Link, PortInfo, PortRole, SwitchInfo, SwitchPort};

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn a_longer_round_trip_counts_at_once_and_a_shorter_one_by_an_eighth() {
        let (mut network, ms) = (Network::new(0), Duration::from_millis);
        let mut record = |sample| {
            network.record_rtt(SwitchIndex(3), ms(sample));
            network.rtt(SwitchIndex(3)).unwrap()
        };
        assert_eq!([record(80), record(160), record(80)], [ms(80), ms(160), ms(150)]);
        network.forget_rtt(SwitchIndex(3));
        assert_eq!((network.rtt(SwitchIndex(3)), network.rtt(SwitchIndex(4))), (None, None));
    }

    const ID: HostId = HostId { mac: MacAddr([2; 6]), vlan: VlanId(0) };

    fn at(port: u32) -> SwitchPort {
        SwitchPort::new(DatapathId(1), PortNo(port))
    }

    fn host(port: u32) -> Fact {
        Fact::Host(ID, Some(Host { at: at(port), addrs: vec![] }))
    }

    /// It is not sent to the other workers, so it must not have a later stamp than they know.
    #[test]
    fn publishing_what_is_known_does_not_change_its_stamp() {
        let now = now();
        let ms = |n| now + Duration::from_millis(n);
        let [mut here, mut there] = [Network::new(0), Network::new(1)];
        for (network, at, port) in [(&mut here, 1, 1), (&mut there, 2, 2)] {
            assert!(network.publish(ms(at), host(port)));
        }
        assert!(!here.publish(ms(3), host(1)));
        let [own, other] = [&mut here, &mut there].map(Network::take_facts);
        assert_eq!((own.len(), other.len()), (1, 1));
        assert!(!there.apply_remote(&own[0]) && here.apply_remote(&other[0]));
        assert_eq!([here, there].map(|network| network.view().host(ID).unwrap().at), [at(2); 2]);
    }

    /// What is answered in the place of applications depends on the ports of the switch only.
    #[test]
    fn a_fact_about_a_port_marks_its_switch_and_no_other() {
        let (mut network, now, index) = (Network::new(0), now(), SwitchIndex(2));
        let [id, other] = [1, 2].map(DatapathId);
        let port = |role| {
            let hw_addr = MacAddr([4; 6]);
            Some(PortInfo { name: "p".into(), hw_addr, is_up: true, role })
        };
        let ports = [(PortNo(1), port(PortRole::Edge).unwrap())];
        let switch = SwitchInfo { ports: ports.into_iter().collect() };
        for (index, id) in [(index, id), (SwitchIndex(3), other)] {
            network.fast_path_hosts().add_switch(index, id);
            network.fast_path_hosts().take_changes(index);
            network.publish(now, Fact::Switch(id, Some(switch.clone())));
        }
        let marked = |network: &mut Network| network.fast_path_hosts().take_changed_switches();
        assert_eq!(marked(&mut network), [index, SwitchIndex(3)]);
        assert!(network.publish(now, Fact::Port(at(1), port(PortRole::Pending))));
        assert_eq!(marked(&mut network), [index]);
        assert!(!network.publish(now, Fact::Port(at(1), port(PortRole::Pending))));
        let to = SwitchPort::new(other, PortNo(1));
        assert!(network.publish(now, Fact::Link(to, Some(Link { from: at(1), to }))));
        network.publish_event(now, Alarm("fire"));
        assert!(network.publish_record(now, id, Some(Quota(5))));
        assert_eq!(marked(&mut network), []);
    }

    /// Two workers whose iterations began at the same time.
    #[test]
    fn a_fact_is_later_than_the_one_that_its_publisher_knew() {
        let now = now();
        let mut workers = [Network::new(0), Network::new(1)];
        for n in 1..10 {
            let (publisher, other) = (n % 2, (n + 1) % 2);
            let port = u32::try_from(n).unwrap();
            assert!(workers[publisher].publish(now, host(port)), "{n}");
            for published in workers[publisher].take_facts() {
                assert!(workers[other].apply_remote(&published), "{n}");
            }
            for network in &workers {
                assert_eq!(network.view().host(ID).map(|host| host.at), Some(at(port)));
            }
        }
    }

    #[derive(Debug, Clone, PartialEq)]
    struct Quota(u32);

    impl AppRecord for Quota {
        type Key = DatapathId;
    }

    #[derive(Debug, PartialEq)]
    struct Alarm(&'static str);

    impl AppEvent for Alarm {}

    #[test]
    fn a_record_reaches_other_workers_once_and_can_be_removed() {
        let (now, id) = (now(), DatapathId(7));
        let [mut here, mut there] = [Network::new(0), Network::new(1)];
        assert!(!here.publish_record::<Quota>(now, id, None));
        assert!(here.publish_record(now, id, Some(Quota(5))));
        assert!(!here.publish_record(now, id, Some(Quota(5))));
        let facts = here.take_facts();
        assert_eq!(facts[0].fact.record::<Quota>(), Some((id, Some(&Quota(5)))));
        assert_eq!((facts.len(), facts[0].fact.event::<Alarm>()), (1, None));
        assert!(there.apply_remote(&facts[0]) && !there.apply_remote(&facts[0]));
        assert_eq!(there.view().record(id), Some(&Quota(5)));
        assert!(there.publish_record::<Quota>(now, id, None));
        assert!(here.apply_remote(&there.take_facts()[0]));
        assert_eq!(here.view().records::<Quota>().count(), 0);
    }

    #[test]
    fn an_event_reaches_other_workers_each_time_and_is_kept_nowhere() {
        let now = now();
        let [mut here, mut there] = [Network::new(0), Network::new(1)];
        for _ in 0..2 {
            here.publish_event(now, Alarm("fire"));
            let facts = here.take_facts();
            assert_eq!(facts[0].fact.event(), Some(&Alarm("fire")));
            assert_eq!(facts[0].fact.record::<Quota>(), None);
            assert!(there.apply_remote(&facts[0]));
        }
        assert!(here.is_idle() && there.is_idle());
    }
}
