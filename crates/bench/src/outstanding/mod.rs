//! The outstanding requests of one switch.

mod integral;
mod matching;

use crate::overtaken::{OvertakenRequests, State};
use crate::timestamp::{TICKS_PER_S, Timestamp};

pub(crate) use integral::OutstandingIntegral;
pub(crate) use matching::{AnswerKind, ReplyOutcome};

/// Values of a slot whose request is not outstanding.
mod slot {
    /// Never used, or answered in full.
    pub(super) const ANSWERED: u32 = 0;
    /// Answered by a flow entry alone: a packet-out may follow.
    pub(super) const BY_FLOW_ENTRY: u32 = 1;
    /// Answered by a packet-out alone: a flow entry may follow.
    pub(super) const BY_PACKET_OUT: u32 = 2;
    /// One of the [overtaken](crate::overtaken) requests.
    pub(super) const OVERTAKEN: u32 = 3;
}

/// Smallest timestamp in the slot of an outstanding request.
const OUTSTANDING_MIN: Timestamp = 4;

/// Age at which a request expires in any case: before [`AGE_MAX`](crate::overtaken::AGE_MAX), so that its answer is late.
const IN_RING_MAX: Timestamp = 50 * TICKS_PER_S;

/// The outstanding requests of one switch: a ring of send times, indexed by sequence number.
///
/// ```text
///     overtaken or answered      outstanding or answered            free
///   ───────────────────────┬───────────────────────────┬──────────────────▶ sequence number
///                        oldest                       next
/// ```
///
/// The low bits of a sequence number select its slot. The slots from `oldest` to `next` belong to the current lap; a
/// reply with a smaller number answers a request that was closed or overtaken long ago.
///
/// If the ring has no room for a whole window, requests after the oldest outstanding one were answered. That one is overtaken then:
/// it leaves the ring, so that a lost answer does not stall the switch.
#[derive(Debug)]
pub(crate) struct OutstandingRequests {
    slots: Box<[Timestamp]>,
    mask: u32,
    next: u32,
    oldest: u32,
    outstanding: u32,
    sent: u64,
    timed_out: u64,
    overtaken: OvertakenRequests,
    /// When an answer last advanced `oldest`.
    advanced_at: Timestamp,
    timeout_ticks: u32,
}

impl OutstandingRequests {
    /// A ring for `size` requests (a power of two), numbered from 1. Of those that leave it without an answer, at most
    /// `overtaken_max` are remembered.
    pub(crate) fn new(size: u32, overtaken_max: usize, timeout_ticks: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        Self {
            slots: vec![slot::ANSWERED; size as usize].into_boxed_slice(),
            mask: size - 1,
            next: 1,
            oldest: 1,
            outstanding: 0,
            sent: 0,
            timed_out: 0,
            overtaken: OvertakenRequests::new(overtaken_max),
            advanced_at: 0,
            timeout_ticks,
        }
    }

    /// How many requests may be sent now without exceeding `limit` outstanding ones, which is at most half of the ring. Expires
    /// requests, as [`expire`](Self::expire) does.
    #[inline]
    pub(crate) fn available(
        &mut self,
        now: Timestamp,
        limit: u32,
        on_timeout: &mut impl FnMut(Timestamp),
    ) -> u32 {
        self.expire(now, on_timeout);
        while self.free() < limit.saturating_sub(self.outstanding)
            && let Some(sent_at) = self.oldest_sent_at()
        {
            self.remove_oldest(sent_at, State::Waiting, on_timeout);
            self.advanced_at = now;
        }
        self.free().min(limit.saturating_sub(self.outstanding))
    }

    /// Expires requests. One expires when it is older than the timeout and later ones have overtaken it, or no answer has advanced the
    /// oldest outstanding request for as long: a slow controller that answers in order loses nothing. All expire at [`IN_RING_MAX`].
    /// Calls `on_timeout` with the time at which each was sent.
    ///
    /// Called at least every few seconds, so that no timestamp wraps.
    #[inline]
    pub(crate) fn expire(&mut self, now: Timestamp, on_timeout: &mut impl FnMut(Timestamp)) {
        let before = self.oldest;
        self.advance_oldest();
        if self.oldest != before {
            self.advanced_at = now;
        }
        let is_stalled = now.wrapping_sub(self.advanced_at) > self.timeout_ticks;
        let age_max = if is_stalled { self.timeout_ticks } else { IN_RING_MAX };
        while let Some(sent_at) = self.oldest_sent_at()
            && now.wrapping_sub(sent_at) > age_max
        {
            self.remove_oldest(sent_at, State::TimedOut, on_timeout);
            self.timed_out += 1;
            on_timeout(sent_at);
        }
        self.timed_out += self.overtaken.expire(now, self.timeout_ticks, on_timeout);
    }

    /// Calls `f` with the time at which each request was sent that may still be answered in time.
    pub(crate) fn for_each_waiting(&self, mut f: impl FnMut(Timestamp)) {
        for n in 0..self.next.wrapping_sub(self.oldest) {
            let at = (self.oldest.wrapping_add(n) & self.mask) as usize;
            if let Some(&sent_at) = self.slots.get(at).filter(|&&slot| slot >= OUTSTANDING_MIN) {
                f(sent_at);
            }
        }
        self.overtaken.for_each_waiting(f);
    }

    /// Slots that may be used now.
    #[inline]
    fn free(&self) -> u32 {
        self.mask + 1 - self.next.wrapping_sub(self.oldest)
    }

    /// When the oldest request was sent that is outstanding, if there is one. [`advance_oldest`](Self::advance_oldest) was called.
    #[inline]
    fn oldest_sent_at(&self) -> Option<Timestamp> {
        let slot = self.slots.get((self.oldest & self.mask) as usize);
        slot.copied().filter(|_| self.oldest != self.next)
    }

    /// Removes the oldest outstanding request from the ring.
    #[cold]
    fn remove_oldest(
        &mut self,
        sent_at: Timestamp,
        state: State,
        on_timeout: &mut impl FnMut(Timestamp),
    ) {
        if let Some(slot) = self.slots.get_mut((self.oldest & self.mask) as usize) {
            *slot = slot::OVERTAKEN;
        }
        self.timed_out += self.overtaken.push(self.oldest, sent_at, state, on_timeout);
        self.outstanding -= 1;
        self.advance_oldest();
    }

    #[inline]
    fn advance_oldest(&mut self) {
        while self.oldest != self.next {
            let at = (self.oldest & self.mask) as usize;
            if self.slots.get(at).is_none_or(|&slot| slot >= OUTSTANDING_MIN) {
                return;
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Inserts the next `n` requests, sent at `sent_at`. The caller checks [`available`](Self::available) first.
    #[inline]
    pub(crate) fn insert(&mut self, n: u32, sent_at: Timestamp) {
        debug_assert!(self.next.wrapping_sub(self.oldest) + n <= self.mask + 1);
        // The values below mark slots. A request counts as sent a little too early then: one that was sent in the future would
        // be as old as timestamps can be.
        let sent_at = if sent_at < OUTSTANDING_MIN { Timestamp::MAX } else { sent_at };
        let at = (self.next & self.mask) as usize;
        let until_end = self.slots.len() - at;
        let first = until_end.min(n as usize);
        if let Some(slots) = self.slots.get_mut(at..at + first) {
            slots.fill(sent_at);
        }
        if let Some(slots) = self.slots.get_mut(..n as usize - first) {
            slots.fill(sent_at);
        }
        self.next = self.next.wrapping_add(n);
        self.outstanding += n;
        self.sent += u64::from(n);
    }

    /// Skips the next sequence number, as if it had been answered long ago.
    pub(crate) fn skip(&mut self, on_timeout: &mut impl FnMut(Timestamp)) {
        self.advance_oldest();
        if let Some(sent_at) = self.oldest_sent_at().filter(|_| self.free() == 0) {
            self.remove_oldest(sent_at, State::Waiting, on_timeout);
        }
        if let Some(slot) = self.slots.get_mut((self.next & self.mask) as usize) {
            *slot = slot::ANSWERED;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Forgets all requests; returns the number of those without an answer.
    pub(crate) fn forget(&mut self) -> u64 {
        let unanswered = self.unanswered();
        self.slots.fill(slot::ANSWERED);
        self.oldest = self.next;
        (self.outstanding, self.timed_out) = (0, 0);
        self.overtaken.clear();
        unanswered
    }

    /// Sequence number of the next request.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Number of outstanding requests; overtaken ones are not counted.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether an answer may still come in time.
    pub(crate) fn is_waiting(&self) -> bool {
        self.outstanding + self.overtaken.waiting() > 0
    }

    /// Number of requests that timed out or still wait for an answer.
    pub(crate) fn unanswered(&self) -> u64 {
        self.timed_out + u64::from(self.outstanding) + u64::from(self.overtaken.waiting())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const TIMEOUT_TICKS: u32 = 1000;

    /// A ring of eight with `n` requests sent at 100.
    pub(super) fn sent(n: u32) -> OutstandingRequests {
        let mut requests = OutstandingRequests::new(8, 64, TIMEOUT_TICKS);
        assert!(requests.available(100, 8, &mut |_| {}) >= n);
        requests.insert(n, 100);
        requests
    }

    #[test]
    fn the_times_of_requests_that_time_out_or_still_wait_are_reported() {
        let mut requests = OutstandingRequests::new(8, 2, TIMEOUT_TICKS);
        requests.insert(1, 100);
        requests.insert(3, 200);
        let kind = AnswerKind::FlowAndPacket;
        assert_eq!(requests.match_reply(3, kind), ReplyOutcome::Answered(200));
        let mut timed_out = vec![];
        requests.expire(100 + TIMEOUT_TICKS, &mut |sent_at| timed_out.push(sent_at));
        assert!(timed_out.is_empty());
        requests.expire(101 + TIMEOUT_TICKS, &mut |sent_at| timed_out.push(sent_at));
        assert_eq!(timed_out, [100]);
        let mut waiting = vec![];
        requests.for_each_waiting(|sent_at| waiting.push(sent_at));
        assert_eq!(waiting, [200, 200]);
        assert_eq!(requests.forget(), 3);
        requests.for_each_waiting(|_| panic!("forgotten"));
        assert_eq!((requests.outstanding(), requests.unanswered()), (0, 0));
        assert_eq!(requests.match_reply(2, kind), ReplyOutcome::Duplicate);
    }

    #[test]
    fn the_ring_and_the_window_limit_what_may_be_sent() {
        let mut requests = sent(5);
        assert_eq!(requests.available(100, 8, &mut |_| {}), 3);
        assert_eq!(requests.available(100, 6, &mut |_| {}), 1);
        requests.match_reply(1, AnswerKind::FlowAndPacket);
        assert_eq!((requests.outstanding(), requests.available(100, 8, &mut |_| {})), (4, 4));
    }

    #[test]
    fn a_lost_answer_does_not_stall_the_ring_and_times_out_by_its_own_age() {
        let mut requests = sent(0);
        let kind = AnswerKind::FlowAndPacket;
        // One in ten is lost; the window is four of eight slots.
        for seq in 1..=200 {
            assert_eq!(
                requests.available(100 + seq, 4, &mut |_| {}),
                4 - requests.outstanding(),
                "{seq}"
            );
            requests.insert(1, 100 + seq);
            if seq % 10 != 1 {
                assert_eq!(requests.match_reply(seq, kind), ReplyOutcome::Answered(100 + seq));
            }
        }
        assert_eq!(requests.unanswered(), 20);
        assert_eq!(requests.match_reply(11, kind), ReplyOutcome::Answered(111));
        assert_eq!(requests.match_reply(11, kind), ReplyOutcome::Duplicate);
        assert_eq!(requests.unanswered(), 19);
        // Requests 1, 21, 31, 41 and 51 have reached the timeout.
        requests.available(1152, 4, &mut |_| {});
        assert_eq!((requests.timed_out, requests.unanswered()), (5, 19));
        assert_eq!(requests.match_reply(51, kind), ReplyOutcome::Late);
        assert_eq!(requests.match_reply(61, kind), ReplyOutcome::Answered(161));
    }

    #[test]
    fn no_request_of_a_slow_controller_becomes_so_old_that_its_timestamp_wraps() {
        let second = TICKS_PER_S;
        let mut requests = sent(3);
        for now in (0..52).map(|n| 100 + n * second) {
            // Something always advances, so that nothing times out before.
            requests.advanced_at = now;
            requests.available(now, 4, &mut |_| {});
            let expected = if now > 100 + IN_RING_MAX { 0 } else { 3 };
            assert_eq!(requests.outstanding(), expected, "{now}");
        }
        let outcome = requests.match_reply(1, AnswerKind::FlowAndPacket);
        assert_eq!(outcome, ReplyOutcome::Late);
    }

    #[test]
    fn a_request_times_out_only_when_nothing_advances_and_may_be_answered_late() {
        let mut requests = sent(4);
        let kind = AnswerKind::FlowAndPacket;
        assert_eq!(requests.match_reply(1, kind), ReplyOutcome::Answered(100));
        // An answer advanced the oldest request at 1000: the timeout starts again for those after it.
        assert_eq!(requests.available(1000, 4, &mut |_| {}), 1);
        assert_eq!(requests.available(1900, 4, &mut |_| {}), 1);
        assert_eq!(requests.unanswered(), 3);
        assert_eq!(requests.available(2001, 4, &mut |_| {}), 4);
        assert_eq!((requests.outstanding(), requests.unanswered()), (0, 3));
        assert_eq!(requests.match_reply(3, kind), ReplyOutcome::Late);
        assert_eq!(requests.match_reply(3, kind), ReplyOutcome::Duplicate);
        assert_eq!(requests.unanswered(), 2);
    }

    #[test]
    fn a_number_is_skipped_in_a_full_ring_without_losing_a_request() {
        let mut requests = sent(0);
        let kind = AnswerKind::FlowAndPacket;
        requests.next = u32::MAX - 8;
        (requests.oldest, requests.sent) = (requests.next, u64::from(requests.next));
        for seq in u32::MAX - 8..u32::MAX {
            assert!(requests.available(100, 2, &mut |_| {}) > 0);
            requests.insert(1, 100);
            if seq != u32::MAX - 8 {
                assert_eq!(requests.match_reply(seq, kind), ReplyOutcome::Answered(100));
            }
        }
        assert_eq!(requests.free(), 0);
        requests.skip(&mut |_| {});
        assert_eq!(requests.available(101, 2, &mut |_| {}), 2);
        assert_eq!(requests.match_reply(u32::MAX - 8, kind), ReplyOutcome::Answered(100));
        assert_eq!((requests.outstanding(), requests.unanswered()), (0, 0));
    }

    #[test]
    fn no_request_is_sent_in_the_future_when_timestamps_wrap() {
        for sent_at in 0..OUTSTANDING_MIN {
            let mut requests = OutstandingRequests::new(8, 64, TIMEOUT_TICKS);
            requests.available(sent_at, 8, &mut |_| {});
            requests.insert(1, sent_at);
            requests.expire(sent_at, &mut |_| panic!("it was sent just now"));
            let outcome = requests.match_reply(1, AnswerKind::FlowAndPacket);
            let ReplyOutcome::Answered(since) = outcome else { panic!("{outcome:?}") };
            assert!(sent_at.wrapping_sub(since) <= OUTSTANDING_MIN, "{sent_at} {since}");
        }
    }

    #[test]
    fn timestamps_may_wrap_while_requests_are_outstanding() {
        let mut requests = sent(0);
        requests.available(u32::MAX - 5, 8, &mut |_| {});
        requests.insert(1, u32::MAX - 5);
        assert_eq!(requests.available(3, 8, &mut |_| {}), 7);
        let outcome = requests.match_reply(1, AnswerKind::FlowAndPacket);
        assert_eq!(outcome, ReplyOutcome::Answered(u32::MAX - 5));
    }
}
