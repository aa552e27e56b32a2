//! Requests of one switch that were not answered and have left the ring of outstanding ones: later ones were answered before them,
//! or they have timed out.

use std::collections::VecDeque;

use crate::outstanding::{AnswerKind, ReplyOutcome};
use crate::timestamp::{TICKS_PER_S, Timestamp};

/// Age at which a request is forgotten, so that timestamps do not wrap before: 60 s.
pub(crate) const AGE_MAX: Timestamp = 60 * TICKS_PER_S;

/// Overtaken requests. They do not count as outstanding, so that they take no room in the window of the switch, and wait until
/// each of them times out by its own age. Answers after that are late.
#[derive(Debug)]
pub(crate) struct OvertakenRequests {
    /// In the order of their sequence numbers, in which they were also sent.
    entries: VecDeque<Overtaken>,
    len_max: usize,
    /// Number of entries at the front that have reached the timeout.
    past_timeout: usize,
    /// Number of entries that wait for an answer.
    waiting: u32,
}

#[derive(Debug)]
struct Overtaken {
    seq: u32,
    sent_at: Timestamp,
    state: State,
}

/// Whether a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    TimedOut,
    /// Answered by one message, in time or late; the other kind may follow, if the answer has two parts.
    Answered(AnswerKind),
}

impl OvertakenRequests {
    /// Remembers at most `len_max` requests.
    pub(crate) const fn new(len_max: usize) -> Self {
        Self { entries: VecDeque::new(), len_max, past_timeout: 0, waiting: 0 }
    }

    /// Adds a request; it is the newest. Returns how many timed out, since there was no room for them, and calls `on_timeout` with
    /// the time at which each was sent.
    pub(crate) fn push(
        &mut self,
        seq: u32,
        sent_at: Timestamp,
        state: State,
        on_timeout: &mut impl FnMut(Timestamp),
    ) -> u64 {
        let timed_out = if self.entries.len() < self.len_max { 0 } else { self.pop(on_timeout) };
        self.entries.push_back(Overtaken { seq, sent_at, state });
        self.waiting += u32::from(state == State::Waiting);
        timed_out
    }

    /// Times out the requests that are older than `timeout`, and forgets those of them that were answered in full, and all that are
    /// older than [`AGE_MAX`]. Returns how many timed out, and calls `on_timeout` with the time at which each was sent.
    #[inline]
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        on_timeout: &mut impl FnMut(Timestamp),
    ) -> u64 {
        if self.entries.is_empty() { 0 } else { self.expire_entries(now, timeout, on_timeout) }
    }

    fn expire_entries(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        on_timeout: &mut impl FnMut(Timestamp),
    ) -> u64 {
        let mut timed_out = 0;
        while let Some(entry) = self.entries.get_mut(self.past_timeout)
            && now.wrapping_sub(entry.sent_at) > timeout
        {
            if entry.state == State::Waiting {
                entry.state = State::TimedOut;
                self.waiting -= 1;
                timed_out += 1;
                on_timeout(entry.sent_at);
            }
            self.past_timeout += 1;
        }
        let is_forgotten = |entry: &Overtaken| {
            entry.state == State::Answered(AnswerKind::FlowAndPacket)
                || now.wrapping_sub(entry.sent_at) > AGE_MAX
        };
        while self.past_timeout > 0 && self.entries.front().is_some_and(is_forgotten) {
            timed_out += self.pop(on_timeout);
        }
        timed_out
    }

    /// Forgets the oldest request. Returns how many timed out: 1 if it was still waiting.
    fn pop(&mut self, on_timeout: &mut impl FnMut(Timestamp)) -> u64 {
        self.past_timeout = self.past_timeout.saturating_sub(1);
        let oldest = self.entries.pop_front().filter(|entry| entry.state == State::Waiting);
        let Some(entry) = oldest else { return 0 };
        self.waiting -= 1;
        on_timeout(entry.sent_at);
        1
    }

    /// Calls `f` with the time at which each request was sent that waits for an answer.
    pub(crate) fn for_each_waiting(&self, f: impl FnMut(Timestamp)) {
        let waiting = self.entries.iter().filter(|entry| entry.state == State::Waiting);
        waiting.map(|entry| entry.sent_at).for_each(f);
    }

    /// Matches a reply to the request that was sent `age` requests before `next`.
    pub(crate) fn match_reply(&mut self, next: u32, age: u32, kind: AnswerKind) -> ReplyOutcome {
        let at = self.entries.partition_point(|entry| next.wrapping_sub(entry.seq) > age);
        let entry = self.entries.get_mut(at).filter(|it| next.wrapping_sub(it.seq) == age);
        let Some(entry) = entry else { return ReplyOutcome::Duplicate };
        let before = std::mem::replace(&mut entry.state, State::Answered(kind));
        match (before, kind) {
            (State::Waiting, _) => {
                self.waiting -= 1;
                ReplyOutcome::Answered(entry.sent_at)
            }
            (State::TimedOut, _) => ReplyOutcome::Late,
            (State::Answered(AnswerKind::FlowOnly), AnswerKind::PacketOnly)
            | (State::Answered(AnswerKind::PacketOnly), AnswerKind::FlowOnly) => {
                entry.state = State::Answered(AnswerKind::FlowAndPacket);
                ReplyOutcome::SecondPart
            }
            (State::Answered(_), _) => {
                entry.state = before;
                ReplyOutcome::Duplicate
            }
        }
    }

    /// Forgets all requests.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        (self.past_timeout, self.waiting) = (0, 0);
    }

    /// Number of requests that wait for an answer.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: AnswerKind = AnswerKind::FlowAndPacket;

    /// Requests 10, 13 and 20, sent at ten times these numbers.
    fn overtaken() -> OvertakenRequests {
        let mut requests = OvertakenRequests::new(3);
        for seq in [10, 13, 20] {
            assert_eq!(requests.push(seq, seq * 10, State::Waiting, &mut |_| {}), 0);
        }
        requests
    }

    #[test]
    fn a_request_is_answered_once() {
        let mut requests = overtaken();
        assert_eq!(requests.match_reply(100, 87, KIND), ReplyOutcome::Answered(130));
        assert_eq!(requests.match_reply(100, 87, KIND), ReplyOutcome::Duplicate);
        for unknown in [91, 89, 88, 79] {
            assert_eq!(requests.match_reply(100, unknown, KIND), ReplyOutcome::Duplicate);
        }
        assert_eq!(requests.waiting(), 2);
    }

    #[test]
    fn each_request_times_out_by_its_own_age_and_may_be_answered_late() {
        let mut requests = overtaken();
        assert_eq!(
            [199, 201, 231, 301].map(|now| requests.expire(now, 100, &mut |_| {})),
            [0, 1, 1, 1]
        );
        assert_eq!(requests.waiting(), 0);
        assert_eq!(requests.match_reply(100, 80, KIND), ReplyOutcome::Late);
        assert_eq!(requests.match_reply(100, 80, KIND), ReplyOutcome::Duplicate);
        assert_eq!(requests.expire(101 + AGE_MAX, 100, &mut |_| {}), 0);
        assert_eq!(requests.entries.len(), 2, "the first is forgotten");
        assert_eq!(requests.expire(201 + AGE_MAX, 100, &mut |_| {}), 0);
        assert_eq!((requests.entries.len(), requests.past_timeout), (0, 0));
    }

    #[test]
    fn answered_requests_are_forgotten_when_they_reach_the_timeout() {
        let mut requests = overtaken();
        requests.match_reply(100, 90, KIND);
        assert_eq!((requests.expire(200, 100, &mut |_| {}), requests.entries.len()), (0, 3));
        assert_eq!((requests.expire(201, 100, &mut |_| {}), requests.entries.len()), (0, 2));
        assert_eq!((requests.past_timeout, requests.waiting()), (0, 2));
    }

    #[test]
    fn both_parts_of_an_answer_belong_to_one_request() {
        for (first, second) in [
            (AnswerKind::FlowOnly, AnswerKind::PacketOnly),
            (AnswerKind::PacketOnly, AnswerKind::FlowOnly),
        ] {
            let mut requests = overtaken();
            assert_eq!(requests.match_reply(100, 90, first), ReplyOutcome::Answered(100));
            assert_eq!(requests.match_reply(100, 90, first), ReplyOutcome::Duplicate);
            assert_eq!(requests.match_reply(100, 90, second), ReplyOutcome::SecondPart);
            assert_eq!(requests.match_reply(100, 90, second), ReplyOutcome::Duplicate);
        }
    }

    #[test]
    fn the_second_part_of_a_late_answer_is_no_duplicate() {
        let mut requests = overtaken();
        requests.expire(201, 100, &mut |_| {});
        assert_eq!(requests.match_reply(100, 90, AnswerKind::FlowOnly), ReplyOutcome::Late);
        requests.expire(202, 100, &mut |_| {});
        assert_eq!(requests.match_reply(100, 90, AnswerKind::PacketOnly), ReplyOutcome::SecondPart);
        assert_eq!(requests.match_reply(100, 90, AnswerKind::PacketOnly), ReplyOutcome::Duplicate);
        requests.expire(203, 100, &mut |_| {});
        assert_eq!(requests.entries.len(), 2, "an answer in full is forgotten");
    }

    #[test]
    fn sequence_numbers_and_timestamps_wrap() {
        let mut requests = OvertakenRequests::new(2);
        requests.push(u32::MAX - 1, u32::MAX - 20, State::Waiting, &mut |_| {});
        requests.push(3, 10, State::Waiting, &mut |_| {});
        assert_eq!(requests.match_reply(10, 11, KIND), ReplyOutcome::Duplicate);
        assert_eq!(requests.match_reply(10, 12, KIND), ReplyOutcome::Answered(u32::MAX - 20));
        assert_eq!(requests.expire(70, 50, &mut |_| {}), 1);
        assert_eq!(requests.match_reply(10, 7, KIND), ReplyOutcome::Late);
    }

    #[test]
    fn without_room_the_oldest_times_out() {
        let mut requests = overtaken();
        assert_eq!(requests.push(21, 210, State::Waiting, &mut |_| {}), 1);
        assert_eq!((requests.entries.len(), requests.waiting()), (3, 3));
        requests.match_reply(100, 87, KIND);
        assert_eq!(
            requests.push(22, 220, State::TimedOut, &mut |_| {}),
            0,
            "that one was answered"
        );
        assert_eq!((requests.entries.len(), requests.waiting()), (3, 2));
    }
}
