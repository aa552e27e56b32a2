//! Which requests are open, and what a reply to one of them is worth.

/// Nanoseconds of one tick of a [`Stamp`].
pub(crate) const TICK_NS: u64 = 16;

/// A moment, in ticks of 16 ns since the thread began; it comes round after 68 s.
///
/// Half of that is the longest that a request may stay open: [`Plan::check`](crate::Plan::check) sees to it.
pub(crate) type Timestamp = u32;

/// What a slot holds when its request is not open.
mod closed {
    /// Answered in full, or never used.
    pub(super) const DONE: u32 = 0;
    /// Given up: too old, and nothing came.
    pub(super) const GIVEN_UP: u32 = 1;
    /// Answered by a rule alone: the frame may still come.
    pub(super) const BY_RULE: u32 = 2;
    /// Answered by a frame alone: the rule may still come.
    pub(super) const BY_FRAME: u32 = 3;
}

/// The least stamp that an open slot holds.
const OPEN: Timestamp = 4;

/// What a reply does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// It sets a rule and lets the kept frame go.
    Both,
    /// It sets a rule; the frame waits for a message of its own.
    Rule,
    /// It sends the frame on.
    RawMessage,
}

/// What a reply turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyOutcome {
    /// The answer to a request that was open since the stamp.
    Answered(Timestamp),
    /// The answer to a request that was given up.
    Late,
    /// The other half of an answer: the rule to a frame, or the frame to a rule.
    Paired,
    /// A second answer to the same request.
    Twice,
    /// An answer to a request that was never sent.
    Unasked,
}

/// The open requests of one switch: a ring of send times by sequence number.
///
/// ```text
///        given up, answered        open or answered            free
///   ───────────────────────┬───────────────────────────┬──────────────────▶ sequence number
///                        oldest                       next
/// ```
///
/// A number belongs to the slot of its low bits. The slots between `oldest` and `next` hold the current generation;
/// a reply to a number further back answers something that was closed long ago.
#[derive(Debug)]
pub(crate) struct OutstandingRequests {
    slots: Box<[Timestamp]>,
    mask: u32,
    next: u32,
    oldest: u32,
    open: u32,
    issued: u64,
    given_up: u64,
    /// When an answer last moved `oldest`.
    moved: Timestamp,
    /// Ticks without any such move after which an open request of that age is given up.
    patience: u32,
}

impl OutstandingRequests {
    /// A ring of `size` requests, a power of two, numbered from 1.
    pub(crate) fn new(size: u32, patience: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        Self {
            slots: vec![closed::DONE; size as usize].into_boxed_slice(),
            mask: size - 1,
            next: 1,
            oldest: 1,
            open: 0,
            issued: 0,
            given_up: 0,
            moved: 0,
            patience,
        }
    }

    /// How many requests may be sent now so that at most `limit` are open; gives up what is too old.
    ///
    /// A request is given up when it is older than the patience and so is the last answer that moved the oldest open
    /// request: a controller that is slow but answers in order loses nothing.
    #[inline]
    pub(crate) fn room(&mut self, now: Timestamp, limit: u32) -> u32 {
        let before = self.oldest;
        self.pass_closed();
        if self.oldest != before {
            self.moved = now;
        }
        while self.oldest != self.next && now.wrapping_sub(self.moved) > self.patience {
            let at = (self.oldest & self.mask) as usize;
            let Some(slot) = self.slots.get_mut(at) else { break };
            if now.wrapping_sub(*slot) <= self.patience {
                break;
            }
            *slot = closed::GIVEN_UP;
            self.given_up += 1;
            self.open -= 1;
            self.pass_closed();
        }
        let free = self.mask + 1 - self.next.wrapping_sub(self.oldest);
        free.min(limit.saturating_sub(self.open))
    }

    #[inline]
    fn pass_closed(&mut self) {
        while self.oldest != self.next {
            let at = (self.oldest & self.mask) as usize;
            if self.slots.get(at).is_none_or(|&slot| slot >= OPEN) {
                return;
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Opens the next `n` requests, sent at `stamp`; there must be [`room`](Self::room) for them.
    #[inline]
    pub(crate) fn issue(&mut self, n: u32, stamp: Timestamp) {
        debug_assert!(self.next.wrapping_sub(self.oldest) + n <= self.mask + 1);
        let stamp = stamp.max(OPEN);
        let at = (self.next & self.mask) as usize;
        let until_end = self.slots.len() - at;
        let first = until_end.min(n as usize);
        if let Some(slots) = self.slots.get_mut(at..at + first) {
            slots.fill(stamp);
        }
        if let Some(slots) = self.slots.get_mut(..n as usize - first) {
            slots.fill(stamp);
        }
        self.next = self.next.wrapping_add(n);
        self.open += n;
        self.issued += u64::from(n);
    }

    /// Passes over the next number, as if it had been answered long ago.
    pub(crate) fn skip(&mut self) {
        if let Some(slot) = self.slots.get_mut((self.next & self.mask) as usize) {
            *slot = closed::DONE;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Closes the request `id` if it is open, and says what the reply was.
    #[inline]
    pub(crate) fn answer(&mut self, id: u32, what: AnswerKind) -> ReplyOutcome {
        let age = self.next.wrapping_sub(id);
        if age.wrapping_sub(1) <= self.mask
            && let Some(slot) = self.slots.get_mut((id & self.mask) as usize)
            && *slot >= OPEN
        {
            let stamp = std::mem::replace(slot, what.leaves());
            self.open -= 1;
            return ReplyOutcome::Answered(stamp);
        }
        self.surplus(age, what)
    }

    /// The same for the request `age` before the next one.
    #[inline]
    pub(crate) fn answer_by_age(&mut self, age: u64, what: AnswerKind) -> ReplyOutcome {
        match u32::try_from(age) {
            Ok(age) => self.answer(self.next.wrapping_sub(age), what),
            Err(_) => ReplyOutcome::Unasked,
        }
    }

    /// What a reply is that does not answer an open request.
    #[cold]
    fn surplus(&mut self, age: u32, what: AnswerKind) -> ReplyOutcome {
        if age == 0 || u64::from(age) > self.issued {
            return ReplyOutcome::Unasked;
        }
        let id = self.next.wrapping_sub(age);
        let slot = self.slots.get_mut((id & self.mask) as usize).filter(|_| age <= self.mask + 1);
        let Some(slot) = slot else { return ReplyOutcome::Twice };
        match (*slot, what) {
            (closed::GIVEN_UP, _) => {
                *slot = what.leaves();
                self.given_up -= 1;
                ReplyOutcome::Late
            }
            (closed::BY_RULE, AnswerKind::RawMessage) | (closed::BY_FRAME, AnswerKind::Rule) => {
                *slot = closed::DONE;
                ReplyOutcome::Paired
            }
            _ => ReplyOutcome::Twice,
        }
    }

    /// The number of the next request.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Requests that are open.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Requests given up, and those still open.
    pub(crate) fn unanswered(&self) -> u64 {
        self.given_up + u64::from(self.open)
    }
}

impl AnswerKind {
    /// What it leaves in the slot.
    #[inline]
    fn leaves(self) -> Timestamp {
        match self {
            Self::Both => closed::DONE,
            Self::Rule => closed::BY_RULE,
            Self::RawMessage => closed::BY_FRAME,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: u32 = 1000;

    /// A ledger of eight with `n` requests sent at 100.
    fn sent(n: u32) -> OutstandingRequests {
        let mut ledger = OutstandingRequests::new(8, PATIENCE);
        assert!(ledger.room(100, 8) >= n);
        ledger.issue(n, 100);
        ledger
    }

    #[test]
    fn an_open_request_is_answered_once() {
        let mut ledger = sent(3);
        assert_eq!(ledger.answer(2, AnswerKind::Both), ReplyOutcome::Answered(100));
        assert_eq!(ledger.answer(2, AnswerKind::Both), ReplyOutcome::Twice);
        assert_eq!((ledger.open(), ledger.unanswered()), (2, 2));
    }

    #[test]
    fn a_rule_and_a_frame_are_one_answer_and_a_third_is_one_too_many() {
        for (first, second) in
            [(AnswerKind::Rule, AnswerKind::RawMessage), (AnswerKind::RawMessage, AnswerKind::Rule)]
        {
            let mut ledger = sent(1);
            assert_eq!(ledger.answer(1, first), ReplyOutcome::Answered(100));
            assert_eq!(ledger.answer(1, first), ReplyOutcome::Twice);
            assert_eq!(ledger.answer(1, second), ReplyOutcome::Paired);
            assert_eq!(ledger.answer(1, second), ReplyOutcome::Twice);
        }
    }

    #[test]
    fn a_frame_after_a_rule_that_let_it_go_is_a_second_answer() {
        let mut ledger = sent(1);
        assert_eq!(ledger.answer(1, AnswerKind::Both), ReplyOutcome::Answered(100));
        assert_eq!(ledger.answer(1, AnswerKind::RawMessage), ReplyOutcome::Twice);
    }

    #[test]
    fn what_was_never_sent_is_unasked() {
        let mut ledger = sent(2);
        for id in [0, 3, 7, 4000, u32::MAX] {
            assert_eq!(ledger.answer(id, AnswerKind::Both), ReplyOutcome::Unasked, "{id}");
        }
        assert_eq!(ledger.answer_by_age(1 << 40, AnswerKind::Both), ReplyOutcome::Unasked);
        assert_eq!(ledger.answer_by_age(2, AnswerKind::Both), ReplyOutcome::Answered(100));
    }

    #[test]
    fn a_reply_to_an_earlier_generation_does_not_close_the_current_one() {
        let mut ledger = sent(8);
        for id in 1..=8 {
            assert_eq!(ledger.answer(id, AnswerKind::Both), ReplyOutcome::Answered(100));
        }
        assert_eq!(ledger.room(200, 8), 8);
        ledger.issue(8, 200);
        assert_eq!(ledger.answer(1, AnswerKind::Both), ReplyOutcome::Twice);
        assert_eq!(ledger.answer(9, AnswerKind::Both), ReplyOutcome::Answered(200));
    }

    #[test]
    fn the_ring_and_the_window_limit_what_may_be_sent() {
        let mut ledger = sent(5);
        assert_eq!(ledger.room(100, 8), 3);
        assert_eq!(ledger.room(100, 6), 1);
        // The oldest one is still open: the ring has no more room, though fewer are open.
        for id in 2..=5 {
            ledger.answer(id, AnswerKind::Both);
        }
        assert_eq!((ledger.open(), ledger.room(100, 8)), (1, 3));
        ledger.answer(1, AnswerKind::Both);
        assert_eq!(ledger.room(100, 8), 8);
    }

    #[test]
    fn a_request_is_given_up_only_when_nothing_moves_and_may_come_late() {
        let mut ledger = sent(4);
        assert_eq!(ledger.answer(1, AnswerKind::Both), ReplyOutcome::Answered(100));
        // An answer moved the oldest at 1000: patience starts anew for those behind it.
        assert_eq!(ledger.room(1000, 4), 1);
        assert_eq!(ledger.room(1900, 4), 1);
        assert_eq!(ledger.unanswered(), 3);
        assert_eq!(ledger.room(2001, 4), 4);
        assert_eq!((ledger.open(), ledger.unanswered()), (0, 3));
        assert_eq!(ledger.answer(3, AnswerKind::Both), ReplyOutcome::Late);
        assert_eq!(ledger.answer(3, AnswerKind::Both), ReplyOutcome::Twice);
        assert_eq!(ledger.unanswered(), 2);
    }

    #[test]
    fn sequence_numbers_come_round() {
        let mut ledger = sent(0);
        ledger.next = u32::MAX - 2;
        ledger.oldest = ledger.next;
        ledger.issue(2, 300);
        assert_eq!(ledger.next(), u32::MAX);
        ledger.skip();
        assert_eq!(ledger.next(), 0);
        ledger.issue(2, 400);
        assert_eq!(ledger.answer(u32::MAX - 2, AnswerKind::Both), ReplyOutcome::Answered(300));
        assert_eq!(ledger.answer(1, AnswerKind::Both), ReplyOutcome::Answered(400));
        assert_eq!(ledger.answer(0, AnswerKind::Both), ReplyOutcome::Answered(400));
        assert_eq!(ledger.answer(u32::MAX - 1, AnswerKind::Both), ReplyOutcome::Answered(300));
        assert_eq!((ledger.room(500, 8), ledger.open()), (8, 0));
    }

    #[test]
    fn the_clock_may_come_round_while_requests_are_open() {
        let mut ledger = sent(0);
        ledger.room(u32::MAX - 5, 8);
        ledger.issue(1, u32::MAX - 5);
        assert_eq!(ledger.room(3, 8), 7);
        assert_eq!(ledger.answer(1, AnswerKind::Both), ReplyOutcome::Answered(u32::MAX - 5));
    }
}
