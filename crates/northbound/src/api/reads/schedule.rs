//! Decides which read of a switch is next.
//!
//! A read waits until there is a place for it, and, unless it is made for a deletion, until its client has the next unit of the
//! [budget](super::budget). A place is kept until the reply has been parsed. Units go to the clients in turn: a client whose replies
//! were large pays for them with its own next units, so that it delays its own reads and not those of the others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::Client;
use super::budget::Budget;
use super::slow_switches::SlowSwitches;

/// Reads in progress, of which each may have a reply of some megabytes. Deletions have as many of their own.
pub(in crate::api) const READS_MAX: usize = 16;

/// Of these, reads of one client.
pub(super) const READS_PER_CLIENT_MAX: usize = READS_MAX / 2;

/// Of these, reads of slow switches: otherwise a few of them would keep the others from being read.
const SLOW_READS_MAX: usize = 4;

/// Of these, reads of one client.
const SLOW_READS_PER_CLIENT_MAX: usize = SLOW_READS_MAX / 2;

/// Reads of slow switches that do not count towards [`READS_MAX`], so that switches that do not answer and are not known as slow
/// yet block others for a second only.
pub(super) const SLOW_READS_BESIDE_MAX: usize = READS_MAX / 2;

/// Of these, reads of one client.
const SLOW_READS_BESIDE_PER_CLIENT_MAX: usize = SLOW_READS_BESIDE_MAX / 2;

/// Reads of one switch that are in progress: all its incomplete replies together may have 4 MiB.
const READS_PER_SWITCH_MAX: usize = 2;

/// The same for deletions.
const DELETION_READS_PER_SWITCH_MAX: usize = 1;

/// A switch that takes as long to answer is slow, until it answers faster.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(1);

/// Clients that wait, or have units to pay. For one more, one is forgotten that only has to pay.
const CLIENTS_MAX: usize = 1024;

/// Identifies a read.
pub(super) type ReadId = u64;

/// Why a switch is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client asks what the switch has.
    Query,
    /// A client deletes flow entries, which are counted or listed before: it does not wait for queries.
    Deletion,
}

/// How a read has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadResult {
    /// Whether the switch was asked at all, and whether that took it too long.
    pub(super) speed: AnswerSpeed,
    /// Units that the reply has cost beyond the first.
    pub(super) more_units: u32,
}

/// How fast a switch has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerSpeed {
    /// Nothing was sent to it.
    Unknown,
    Fast,
    /// Late, or not at all.
    Slow,
}

/// The reads that are in progress, and those that wait.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    last_id: ReadId,
    /// Those that wait or have to pay. The first one has the next unit.
    clients: VecDeque<ClientReads>,
    in_progress: Vec<ReadInProgress>,
    slow: SlowSwitches,
    budget: Budget,
}

#[derive(Debug)]
struct ClientReads {
    client: Client,
    /// Units that its replies have cost and that it has not paid yet.
    owed: u32,
    waiting: VecDeque<Read>,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    id: ReadId,
    purpose: Purpose,
    from: DatapathId,
}

#[derive(Debug)]
struct ReadInProgress {
    read: Read,
    client: Client,
    started: Instant,
    has_ended: bool,
}

impl Schedule {
    /// Adds a read that waits.
    pub(super) fn enqueue(&mut self, client: Client, purpose: Purpose, from: DatapathId) -> ReadId {
        self.last_id += 1;
        let read = Read { id: self.last_id, purpose, from };
        self.change_client(client, |it| it.waiting.push_back(read));
        self.last_id
    }

    /// Starts all reads that may begin now, and returns which.
    pub(super) fn start_due(&mut self, now: Instant) -> Vec<ReadId> {
        self.budget.advance(now);
        for it in &self.in_progress {
            if !it.has_ended && now.saturating_duration_since(it.started) >= SLOW_AFTER {
                self.slow.insert(it.read.from, now);
            }
        }
        let mut started = self.start_deletions(now);
        while !self.budget.is_empty() {
            let may_take =
                |it: &ClientReads| it.owed > 0 || self.startable(it, Purpose::Query).is_some();
            let next = self.clients.iter().position(may_take);
            let Some(mut of_client) = next.and_then(|at| self.clients.remove(at)) else { break };
            self.budget.take();
            if of_client.owed > 0 {
                of_client.owed -= 1;
            } else {
                started.extend(self.start(&mut of_client, Purpose::Query, now));
            }
            self.clients.push_back(of_client);
        }
        self.budget.limit();
        self.clients.retain(|it| it.owed > 0 || !it.waiting.is_empty());
        started
    }

    /// Deletions take no units.
    fn start_deletions(&mut self, now: Instant) -> Vec<ReadId> {
        let mut started = Vec::new();
        loop {
            let may_start = |it: &ClientReads| self.startable(it, Purpose::Deletion).is_some();
            let next = self.clients.iter().position(may_start);
            let Some(mut of_client) = next.and_then(|at| self.clients.remove(at)) else {
                return started;
            };
            started.extend(self.start(&mut of_client, Purpose::Deletion, now));
            self.clients.push_back(of_client);
        }
    }

    fn start(
        &mut self,
        of_client: &mut ClientReads,
        purpose: Purpose,
        now: Instant,
    ) -> Option<ReadId> {
        let position = self.startable(of_client, purpose)?;
        let read = of_client.waiting.remove(position)?;
        let client = of_client.client;
        self.in_progress.push(ReadInProgress { read, client, started: now, has_ended: false });
        Some(read.id)
    }

    /// The first read of a client for which there is a place.
    fn startable(&self, of_client: &ClientReads, purpose: Purpose) -> Option<usize> {
        if of_client.waiting.is_empty() {
            return None;
        }
        let (mut all, mut own, mut slow, mut slow_own) = (0, 0, 0, 0);
        for it in self.of_purpose(purpose) {
            let (is_own, is_slow) =
                (it.client == of_client.client, self.slow.contains(it.read.from));
            all += 1;
            own += usize::from(is_own);
            slow += usize::from(is_slow);
            slow_own += usize::from(is_own && is_slow);
        }
        let beside = slow.min(SLOW_READS_BESIDE_MAX);
        let own_beside = slow_own.min(SLOW_READS_BESIDE_PER_CLIENT_MAX);
        if all - beside >= READS_MAX || own - own_beside >= READS_PER_CLIENT_MAX {
            return None;
        }
        let has_slow_place = slow < SLOW_READS_MAX && slow_own < SLOW_READS_PER_CLIENT_MAX;
        let of_switch_max = match purpose {
            Purpose::Query => READS_PER_SWITCH_MAX,
            Purpose::Deletion => DELETION_READS_PER_SWITCH_MAX,
        };
        of_client.waiting.iter().position(|read| {
            let of_switch = || self.of_purpose(purpose).filter(|it| it.read.from == read.from);
            read.purpose == purpose
                && (has_slow_place || !self.slow.contains(read.from))
                && of_switch().count() < of_switch_max
        })
    }

    fn of_purpose(&self, purpose: Purpose) -> impl Iterator<Item = &ReadInProgress> {
        self.in_progress.iter().filter(move |it| it.read.purpose == purpose)
    }

    /// The switch has answered, or will not. The read keeps its place until it is [removed](Self::remove).
    pub(super) fn end(&mut self, id: ReadId, result: ReadResult, now: Instant) {
        let Some(ended) = self.in_progress.iter_mut().find(|it| it.read.id == id) else { return };
        ended.has_ended = true;
        let (client, from) = (ended.client, ended.read.from);
        match result.speed {
            AnswerSpeed::Unknown => {}
            AnswerSpeed::Fast => self.slow.remove(from),
            AnswerSpeed::Slow => self.slow.insert(from, now),
        }
        if result.more_units > 0 {
            let more = result.more_units;
            self.change_client(client, |it| it.owed = it.owed.saturating_add(more));
        }
    }

    /// Removes a read that waits, or one in progress, whose place is free then.
    pub(super) fn remove(&mut self, id: ReadId) {
        if let Some(at) = self.in_progress.iter().position(|it| it.read.id == id) {
            let removed = self.in_progress.swap_remove(at);
            // Nobody was there any more to send the request.
            if !removed.has_ended && removed.read.purpose == Purpose::Query {
                self.budget.give_back();
            }
            return;
        }
        for of_client in &mut self.clients {
            of_client.waiting.retain(|read| read.id != id);
        }
    }

    /// When reads may be due although none ends before: a unit is added, or a switch is known as slow then. `None` if no read waits.
    pub(super) fn next_due_at(&self) -> Option<Instant> {
        if self.waiting() == 0 {
            return None;
        }
        let next_unit = self.budget.next_unit_at().filter(|_| self.budget.is_empty());
        let is_new = |it: &&ReadInProgress| !it.has_ended && !self.slow.contains(it.read.from);
        let unknown = self.in_progress.iter().filter(is_new);
        let slow_at = unknown.map(|it| it.started + SLOW_AFTER);
        slow_at.chain(next_unit).min()
    }

    pub(super) fn waiting(&self) -> usize {
        self.clients.iter().map(|it| it.waiting.len()).sum()
    }

    pub(super) fn in_progress(&self, purpose: Purpose) -> usize {
        self.of_purpose(purpose).count()
    }

    pub(super) const fn units_per_second(&self) -> u32 {
        self.budget.taken_per_second()
    }

    fn change_client(&mut self, client: Client, change: impl FnOnce(&mut ClientReads)) {
        if let Some(known) = self.clients.iter_mut().find(|it| it.client == client) {
            return change(known);
        }
        if self.clients.len() >= CLIENTS_MAX
            && let Some(idle) = self.clients.iter().position(|it| it.waiting.is_empty())
        {
            self.clients.remove(idle);
        }
        let mut new = ClientReads { client, owed: 0, waiting: VecDeque::new() };
        change(&mut new);
        self.clients.push_back(new);
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::super::budget::{UNITS_MAX, UNITS_PER_SECOND};
    use super::*;
    use crate::peer::Source;

    const QUERY: Purpose = Purpose::Query;

    fn client(n: u32) -> Client {
        Client::Peer(Source::User(Some(n)))
    }

    fn result(speed: AnswerSpeed, more_units: u32) -> ReadResult {
        ReadResult { speed, more_units }
    }

    /// A schedule and its clock.
    struct Scenario {
        schedule: Schedule,
        now: Instant,
    }

    impl Scenario {
        fn new() -> Self {
            Self { schedule: Schedule::default(), now: clock::now() }
        }

        fn enqueue(&mut self, of: u32, purpose: Purpose, from: u64) -> ReadId {
            self.schedule.enqueue(client(of), purpose, DatapathId(from))
        }

        /// Adds reads of switches and returns those that begin at once.
        fn query(&mut self, of: u32, from: impl IntoIterator<Item = u64>) -> Vec<ReadId> {
            for from in from {
                self.enqueue(of, QUERY, from);
            }
            self.start()
        }

        fn start(&mut self) -> Vec<ReadId> {
            self.schedule.start_due(self.now)
        }

        fn end(&mut self, ids: &[ReadId], result: ReadResult) {
            for &id in ids {
                self.schedule.end(id, result, self.now);
                self.schedule.remove(id);
            }
        }

        fn answer(&mut self, ids: &[ReadId]) {
            self.end(ids, result(AnswerSpeed::Fast, 0));
        }

        /// Has the switches taken as slow.
        fn slow_down(&mut self, switches: impl IntoIterator<Item = u64>) {
            for from in switches {
                let ids = self.query(99, [from]);
                assert_eq!(ids.len(), 1);
                self.end(&ids, result(AnswerSpeed::Slow, 0));
            }
        }

        /// How many reads a client makes within a time if it always waits for some, all are answered at once, and each costs so many
        /// units more. Others do the same, with short replies.
        fn reads_of(&mut self, of: u32, time: Duration, more_units: u32, others: &[u32]) -> u32 {
            let (end, mut count) = (self.now + time, 0);
            while self.now < end {
                for &of in others.iter().chain([&of]) {
                    self.keep_waiting(of);
                }
                let started = self.start();
                for &id in &started {
                    let is_own = self.is_of(id, of);
                    count += u32::from(is_own);
                    let more = if is_own { more_units } else { 0 };
                    self.end(&[id], result(AnswerSpeed::Fast, more));
                }
                if started.is_empty() {
                    self.now += Duration::from_millis(1);
                }
            }
            for of_client in &mut self.schedule.clients {
                of_client.waiting.clear();
            }
            count
        }

        fn keep_waiting(&mut self, of: u32) {
            let waits = |it: &ClientReads| it.client == client(of) && !it.waiting.is_empty();
            if !self.schedule.clients.iter().any(waits) {
                self.enqueue(of, QUERY, 1000 + u64::from(of));
            }
        }

        fn is_of(&self, id: ReadId, of: u32) -> bool {
            let mut all = self.schedule.in_progress.iter();
            all.any(|it| it.read.id == id && it.client == client(of))
        }
    }

    #[test]
    fn two_replies_of_a_switch_eight_of_a_client_and_sixteen_of_all_are_read_at_a_time() {
        let mut it = Scenario::new();
        assert_eq!(it.query(1, [1, 1, 1]).len(), 2);
        let of_client = it.query(1, 2..20);
        assert_eq!(of_client.len(), 6);
        assert_eq!(it.query(2, 20..40).len(), 8);
        assert!(it.query(3, 40..60).is_empty(), "there is no place any more");
        it.answer(&of_client[..1]);
        assert_eq!(it.start().len(), 1);
        assert_eq!(it.schedule.in_progress(QUERY), READS_MAX);
    }

    #[test]
    fn a_free_place_is_for_the_client_whose_turn_it_is() {
        let mut it = Scenario::new();
        let mut held = it.query(1, 0..30);
        held.extend(it.query(2, 100..130));
        assert_eq!(held.len(), READS_MAX);
        let id = it.enqueue(3, QUERY, 500);
        it.answer(&held[..3]);
        let started = it.start();
        assert!(started.len() == 3 && started.contains(&id), "{started:?}");
    }

    #[test]
    fn deletions_do_not_wait_for_queries() {
        let mut it = Scenario::new();
        for of in 0..10 {
            it.query(of, (0..20).map(|n| n % 4));
            it.query(of, 10..30);
        }
        // Of the same client and switch, too, and without a unit.
        while !it.schedule.budget.is_empty() {
            it.schedule.budget.take();
        }
        let id = it.enqueue(1, Purpose::Deletion, 1);
        assert_eq!(it.start(), [id]);
        let second = it.enqueue(1, Purpose::Deletion, 1);
        assert!(it.start().is_empty(), "one at a time of a switch");
        it.answer(&[id]);
        assert_eq!(it.start(), [second]);
    }

    #[test]
    fn deletions_of_eight_switches_have_places_even_if_none_of_them_answers() {
        let mut it = Scenario::new();
        let all: Vec<_> = (0..8).map(|from| it.enqueue(1, Purpose::Deletion, from)).collect();
        assert_eq!(it.start(), all);
    }

    #[test]
    fn slow_switches_leave_places_to_the_others() {
        let mut it = Scenario::new();
        it.slow_down(0..8);
        let held = it.query(1, 0..8);
        assert_eq!(held.len(), 2, "of one client");
        assert_eq!(it.query(2, 2..8).len(), 2, "of all");
        assert_eq!(it.query(3, 4..8).len(), 0);
        assert_eq!(it.query(1, 100..120).len(), 8);
        assert_eq!(it.query(2, 100..120).len(), 8);
        // One that answers fast is like the others again.
        it.answer(&held[..1]);
        assert!(!it.schedule.slow.contains(DatapathId(0)));
    }

    #[test]
    fn a_switch_is_slow_as_soon_as_it_has_not_answered_for_a_second() {
        let mut it = Scenario::new();
        assert_eq!(it.query(1, 0..2).len(), 2);
        it.now += SLOW_AFTER;
        assert_eq!(it.query(1, [0, 1, 5]).len(), 1, "two are read and slow");
        assert!(it.schedule.slow.contains(DatapathId(0)));
    }

    #[test]
    fn switches_that_do_not_answer_at_first_block_a_client_for_a_second() {
        let mut it = Scenario::new();
        assert_eq!(it.query(1, 0..8).len(), 8);
        assert_eq!(it.query(1, 8..30).len(), 0);
        assert_eq!(it.schedule.next_due_at(), Some(it.now + SLOW_AFTER));
        it.now += SLOW_AFTER;
        assert_eq!(it.start().len(), 4);
        it.now += SLOW_AFTER;
        assert_eq!(it.start().len(), 0, "no more than twelve");
        assert_eq!(it.schedule.next_due_at(), None);
        // Nor do they keep others from reading.
        assert_eq!(it.query(2, 100..120).len(), 8);
    }

    #[test]
    fn the_replies_in_memory_are_limited_however_slow_all_switches_are() {
        let mut it = Scenario::new();
        for round in 0..100 {
            for of in 0..10 {
                it.query(of, (0..10).map(|n| 1000 * round + 100 * u64::from(of) + n));
            }
            it.now += SLOW_AFTER;
        }
        assert_eq!(it.schedule.in_progress(QUERY), READS_MAX + SLOW_READS_BESIDE_MAX);
    }

    #[test]
    fn an_answer_for_which_nothing_was_sent_says_nothing_of_the_switch() {
        let mut it = Scenario::new();
        it.slow_down([1]);
        let ids = it.query(1, [1]);
        it.end(&ids, result(AnswerSpeed::Unknown, 0));
        assert!(it.schedule.slow.contains(DatapathId(1)));
        let ids = it.query(1, [2]);
        it.end(&ids, result(AnswerSpeed::Unknown, 0));
        assert!(!it.schedule.slow.contains(DatapathId(2)));
    }

    #[test]
    fn one_client_reads_as_often_as_the_rate_permits() {
        let mut it = Scenario::new();
        let second = Duration::from_secs(1);
        let burst = it.reads_of(1, second, 0, &[]);
        let rate = UNITS_PER_SECOND;
        assert!((UNITS_MAX + rate - 5..UNITS_MAX + rate + 5).contains(&burst), "{burst}");
        let reads = it.reads_of(1, 10 * second, 0, &[]);
        assert!((10 * rate - 50..10 * rate + 50).contains(&reads), "{reads}");
        assert_eq!(it.schedule.units_per_second() / 10, rate / 10);
        // After a pause, and with long replies.
        it.now += 3600 * second;
        let burst = it.reads_of(1, second / 100, 0, &[]);
        assert!((UNITS_MAX..UNITS_MAX + 3).contains(&burst), "{burst}");
        let reads = it.reads_of(1, 10 * second, 9, &[]);
        assert!((rate - 10..rate + 15).contains(&reads), "{reads}");
    }

    #[test]
    fn a_client_whose_replies_are_large_delays_only_itself() {
        let second = Duration::from_secs(1);
        let mut it = Scenario::new();
        let ids = it.query(1, 0..8);
        assert_eq!(ids.len(), 8);
        it.end(&ids, result(AnswerSpeed::Fast, 63));
        // It would have to wait for more than 2 s alone; meanwhile the others have half of all units.
        let reads = it.reads_of(2, 2 * second, 0, &[1]);
        let rate = UNITS_PER_SECOND;
        assert!((rate - 5..rate + 5).contains(&reads), "{reads}");
        it.now += 60 * second;
        let alone = it.reads_of(1, second / 10, 0, &[]);
        assert!(alone >= UNITS_MAX, "it has paid: {alone}");
    }

    #[test]
    fn each_client_has_its_share_however_many_reads_another_one_has_waiting() {
        let mut it = Scenario::new();
        it.reads_of(1, Duration::from_secs(1), 0, &[]);
        for _ in 0..60 {
            it.enqueue(1, QUERY, 7);
        }
        let reads = it.reads_of(2, Duration::from_secs(2), 0, &[1, 3]);
        let third = 2 * UNITS_PER_SECOND / 3;
        assert!((third - 5..third + 10).contains(&reads), "a third: {reads}");
    }

    #[test]
    fn a_read_whose_client_has_left_costs_nothing() {
        let mut it = Scenario::new();
        for _ in 0..1000 {
            let id = it.enqueue(1, QUERY, 1);
            it.start();
            it.schedule.remove(id);
        }
        assert_eq!((it.schedule.waiting(), it.schedule.in_progress(QUERY)), (0, 0));
        let reads = it.reads_of(1, Duration::from_millis(10), 0, &[]);
        assert!(reads >= UNITS_MAX, "{reads}");
    }

    #[test]
    fn clients_that_have_paid_and_those_that_are_too_many_are_forgotten() {
        let mut it = Scenario::new();
        let ids = it.query(1, [1]);
        it.end(&ids, result(AnswerSpeed::Fast, 5));
        assert_eq!(it.schedule.clients.len(), 1);
        it.start();
        assert_eq!(it.schedule.clients.len(), 0);
        for of in 0..2000 {
            it.schedule.change_client(client(of), |it| it.owed = 1);
        }
        assert_eq!(it.schedule.clients.len(), CLIENTS_MAX);
    }

    #[test]
    fn reads_that_wait_for_a_unit_say_when_it_is_due() {
        let mut it = Scenario::new();
        assert_eq!(it.schedule.next_due_at(), None);
        it.reads_of(1, Duration::from_secs(1), 0, &[]);
        it.enqueue(1, QUERY, 1);
        it.start();
        it.enqueue(1, QUERY, 1);
        assert!(it.start().is_empty());
        let at = it.schedule.next_due_at().unwrap();
        assert!(at > it.now && at < it.now + Duration::from_millis(10));
        it.now = at;
        assert_eq!(it.start().len(), 1);
    }
}
