//! The outstanding requests of one switch, and the matching of replies to them.

use crate::overtaken::{OvertakenRequests, State};

/// Nanoseconds per tick of a [`Timestamp`].
pub(crate) const TICK_NS: u64 = 16;

/// The same as a rate.
pub(crate) const TICKS_PER_S: Timestamp = 62_500_000;

const _: () = assert!(TICKS_PER_S as u64 * TICK_NS == 1_000_000_000);

/// Ticks of 16 ns since the thread started; wraps after 68 s.
///
/// No request is remembered for so long: see [`AGE_MAX`](crate::overtaken::AGE_MAX).
pub(crate) type Timestamp = u32;

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

/// What a reply does for the request that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// A `FLOW_MOD` that also releases the buffered packet.
    FlowAndPacket,
    /// A `FLOW_MOD` alone; the packet needs a message of its own.
    FlowOnly,
    /// A `PACKET_OUT`.
    PacketOnly,
}

/// How a reply relates to the requests of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyOutcome {
    /// Answers an outstanding request, which was sent at this time.
    Answered(Timestamp),
    /// Answers a request that had timed out.
    Late,
    /// Completes an answer in two messages: the packet-out after its flow entry, or the reverse.
    SecondPart,
    /// Answers a request that was answered before.
    Duplicate,
    /// Answers a request that was never sent.
    Unsolicited,
}

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

    /// Matches a reply to request `seq`, and closes the request if it is outstanding.
    #[inline]
    pub(crate) fn match_reply(&mut self, seq: u32, kind: AnswerKind) -> ReplyOutcome {
        let age = self.next.wrapping_sub(seq);
        if age.wrapping_sub(1) <= self.mask
            && let Some(slot) = self.slots.get_mut((seq & self.mask) as usize)
            && *slot >= OUTSTANDING_MIN
        {
            let sent_at = std::mem::replace(slot, kind.closed_slot());
            self.outstanding -= 1;
            return ReplyOutcome::Answered(sent_at);
        }
        self.match_closed(age, kind)
    }

    /// Matches a reply to one of the equal requests that were sent `age`, `age + period`, … requests before the next one: to the
    /// oldest of them that is outstanding, or else to the newest.
    #[inline]
    pub(crate) fn match_equal_requests(
        &mut self,
        age: u64,
        period: u64,
        kind: AnswerKind,
    ) -> ReplyOutcome {
        let Ok(newest) = u32::try_from(age) else { return ReplyOutcome::Unsolicited };
        let span = self.next.wrapping_sub(self.oldest);
        let is_one = age + period > span.into();
        let age = if is_one { newest } else { self.oldest_equal(newest, period).unwrap_or(newest) };
        self.match_reply(self.next.wrapping_sub(age), kind)
    }

    /// The age of the oldest outstanding request among the equal ones.
    #[cold]
    fn oldest_equal(&self, newest: u32, period: u64) -> Option<u32> {
        let span = self.next.wrapping_sub(self.oldest);
        let period = u32::try_from(period).ok().filter(|&period| period > 0)?;
        let last = newest + span.checked_sub(newest)? / period * period;
        let ages = (0..=(last - newest) / period).map(|n| last - n * period);
        let is_outstanding = |age: &u32| {
            let at = (self.next.wrapping_sub(*age) & self.mask) as usize;
            self.slots.get(at).is_some_and(|&slot| slot >= OUTSTANDING_MIN)
        };
        ages.filter(|&age| age > 0).find(is_outstanding)
    }

    /// Matches a reply whose request is not outstanding.
    #[cold]
    fn match_closed(&mut self, age: u32, kind: AnswerKind) -> ReplyOutcome {
        if age == 0 || u64::from(age) > self.sent {
            return ReplyOutcome::Unsolicited;
        }
        let seq = self.next.wrapping_sub(age);
        let slot = self.slots.get_mut((seq & self.mask) as usize).filter(|_| age <= self.mask + 1);
        let slot = slot.filter(|slot| **slot != slot::OVERTAKEN);
        let Some(slot) = slot else {
            let outcome = self.overtaken.match_reply(self.next, age, kind);
            self.timed_out -= u64::from(outcome == ReplyOutcome::Late);
            return outcome;
        };
        match (*slot, kind) {
            (slot::BY_FLOW_ENTRY, AnswerKind::PacketOnly)
            | (slot::BY_PACKET_OUT, AnswerKind::FlowOnly) => {
                *slot = slot::ANSWERED;
                ReplyOutcome::SecondPart
            }
            _ => ReplyOutcome::Duplicate,
        }
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

impl AnswerKind {
    /// Value of the slot of a request that was answered so.
    #[inline]
    fn closed_slot(self) -> u32 {
        match self {
            Self::FlowAndPacket => slot::ANSWERED,
            Self::FlowOnly => slot::BY_FLOW_ENTRY,
            Self::PacketOnly => slot::BY_PACKET_OUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT_TICKS: u32 = 1000;

    /// A ring of eight with `n` requests sent at 100.
    fn sent(n: u32) -> OutstandingRequests {
        let mut requests = OutstandingRequests::new(8, 64, TIMEOUT_TICKS);
        assert!(requests.available(100, 8, &mut |_| {}) >= n);
        requests.insert(n, 100);
        requests
    }

    #[test]
    fn an_outstanding_request_is_answered_once() {
        let mut requests = sent(3);
        assert_eq!(requests.match_reply(2, AnswerKind::FlowAndPacket), ReplyOutcome::Answered(100));
        assert_eq!(requests.match_reply(2, AnswerKind::FlowAndPacket), ReplyOutcome::Duplicate);
        assert_eq!((requests.outstanding(), requests.unanswered()), (2, 2));
    }

    #[test]
    fn a_flow_entry_and_a_packet_out_are_one_answer_and_a_third_message_is_a_duplicate() {
        for (first, second) in [
            (AnswerKind::FlowOnly, AnswerKind::PacketOnly),
            (AnswerKind::PacketOnly, AnswerKind::FlowOnly),
        ] {
            let mut requests = sent(1);
            assert_eq!(requests.match_reply(1, first), ReplyOutcome::Answered(100));
            assert_eq!(requests.match_reply(1, first), ReplyOutcome::Duplicate);
            assert_eq!(requests.match_reply(1, second), ReplyOutcome::SecondPart);
            assert_eq!(requests.match_reply(1, second), ReplyOutcome::Duplicate);
        }
    }

    #[test]
    fn a_packet_out_after_a_flow_mod_that_released_the_packet_is_a_duplicate() {
        let mut requests = sent(1);
        assert_eq!(requests.match_reply(1, AnswerKind::FlowAndPacket), ReplyOutcome::Answered(100));
        assert_eq!(requests.match_reply(1, AnswerKind::PacketOnly), ReplyOutcome::Duplicate);
    }

    #[test]
    fn a_reply_to_a_request_that_was_never_sent_is_unsolicited() {
        let mut requests = sent(2);
        for seq in [0, 3, 7, 4000, u32::MAX] {
            let outcome = requests.match_reply(seq, AnswerKind::FlowAndPacket);
            assert_eq!(outcome, ReplyOutcome::Unsolicited, "{seq}");
        }
        let kind = AnswerKind::FlowAndPacket;
        assert_eq!(
            requests.match_equal_requests(1 << 40, 1 << 41, kind),
            ReplyOutcome::Unsolicited
        );
        assert_eq!(requests.match_equal_requests(2, 1 << 20, kind), ReplyOutcome::Answered(100));
    }

    #[test]
    fn a_reply_to_an_earlier_lap_does_not_close_a_request_of_the_current_one() {
        let mut requests = sent(8);
        let kind = AnswerKind::FlowAndPacket;
        for seq in 1..=8 {
            assert_eq!(requests.match_reply(seq, kind), ReplyOutcome::Answered(100));
        }
        assert_eq!(requests.available(200, 8, &mut |_| {}), 8);
        requests.insert(8, 200);
        assert_eq!(requests.match_reply(1, kind), ReplyOutcome::Duplicate);
        assert_eq!(requests.match_reply(9, kind), ReplyOutcome::Answered(200));
    }

    /// Requests 1 to 7, of which every second one is for the same hosts.
    #[test]
    fn of_equal_requests_the_oldest_that_is_outstanding_is_answered() {
        let mut requests = sent(0);
        (1..=7).for_each(|n| requests.insert(1, 100 * n));
        let kind = AnswerKind::FlowOnly;
        // The newest of 1, 3, 5 and 7 was sent one request before the next.
        let mut answer = || requests.match_equal_requests(1, 2, kind);
        for sent_at in [100, 300, 500, 700] {
            assert_eq!(answer(), ReplyOutcome::Answered(sent_at));
        }
        assert_eq!(answer(), ReplyOutcome::Duplicate);
        assert_eq!(requests.match_equal_requests(2, 2, kind), ReplyOutcome::Answered(200));
        assert_eq!(requests.match_equal_requests(8, 2, kind), ReplyOutcome::Unsolicited);
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
    fn an_overtaken_request_is_found_while_its_slot_is_not_used_again() {
        let mut requests = sent(4);
        let kind = AnswerKind::FlowAndPacket;
        for seq in 2..=4 {
            requests.match_reply(seq, kind);
        }
        assert_eq!(requests.available(100, 4, &mut |_| {}), 3, "the window has room for three");
        requests.insert(3, 100);
        for seq in 5..=7 {
            requests.match_reply(seq, kind);
        }
        assert_eq!(
            (requests.available(100, 4, &mut |_| {}), requests.outstanding()),
            (4, 0),
            "overtaken"
        );
        assert_eq!(requests.match_reply(1, kind), ReplyOutcome::Answered(100));
        assert_eq!(requests.match_reply(1, kind), ReplyOutcome::Duplicate);
        assert_eq!(requests.unanswered(), 0);
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
    fn sequence_numbers_wrap() {
        let mut requests = sent(0);
        let kind = AnswerKind::FlowAndPacket;
        requests.next = u32::MAX - 2;
        requests.oldest = requests.next;
        requests.insert(2, 300);
        assert_eq!(requests.next(), u32::MAX);
        requests.skip(&mut |_| {});
        assert_eq!(requests.next(), 0);
        requests.insert(2, 400);
        assert_eq!(requests.match_reply(u32::MAX - 2, kind), ReplyOutcome::Answered(300));
        assert_eq!(requests.match_reply(1, kind), ReplyOutcome::Answered(400));
        assert_eq!(requests.match_reply(0, kind), ReplyOutcome::Answered(400));
        assert_eq!(requests.match_reply(u32::MAX - 1, kind), ReplyOutcome::Answered(300));
        assert_eq!((requests.available(500, 8, &mut |_| {}), requests.outstanding()), (8, 0));
    }

    #[test]
    fn an_answer_after_the_timeout_is_late_although_its_slot_was_used_again() {
        let mut requests = OutstandingRequests::new(8, 64, TIMEOUT_TICKS);
        let mut now = 100;
        for _ in 0..3 {
            let n = requests.available(now, 4, &mut |_| {});
            requests.insert(n, now);
            now += TIMEOUT_TICKS + 1;
        }
        requests.expire(now, &mut |_| {});
        for seq in 1..=12 {
            let outcome = requests.match_reply(seq, AnswerKind::FlowAndPacket);
            assert_eq!(outcome, ReplyOutcome::Late, "{seq}");
        }
        assert_eq!(requests.unanswered(), 0);
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
