//! Matches replies to the outstanding requests of one switch.

use super::{OUTSTANDING_MIN, OutstandingRequests, slot};
use crate::timestamp::Timestamp;

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

impl OutstandingRequests {
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
    use super::super::tests::{TIMEOUT_TICKS, sent};
    use super::*;

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
}
