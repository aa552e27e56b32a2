//! Reassembly of multipart replies (§7.3.5).

use std::borrow::Cow;
use std::time::{Duration, Instant};

use sluice_openflow::view::Multipart;
use sluice_openflow::{MultipartType, Version};

use crate::SessionError;
use crate::budget::{HolderId, ReassemblyBudget, SourceId};

/// Incomplete replies of a session.
const INCOMPLETE_MAX: usize = 8;

/// The incomplete multipart replies of one session. Their parts are in a [`ReassemblyBudget`].
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    budget: ReassemblyBudget,
    source: SourceId,
    /// Set while there are incomplete replies.
    holder: Option<HolderId>,
    incomplete: Vec<IncompleteReply>,
}

#[derive(Debug)]
struct IncompleteReply {
    xid: u32,
    kind: MultipartType,
    /// When the last part was received.
    progressed_at: Instant,
    /// Whether the reply was too large, so that its parts are discarded, also those that follow.
    is_discarded: bool,
}

impl IncompleteReply {
    /// Key of the reply in the budget.
    fn key(&self) -> u64 {
        u64::from(self.kind.0) << 32 | u64::from(self.xid)
    }
}

/// What a part of a reply has made of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reassembled<'a> {
    /// More parts follow.
    Incomplete,
    /// The body of the whole reply.
    Whole(Cow<'a, [u8]>),
    /// The reply exceeds the limit of the session. What there is of it has been discarded, and so will be the parts that follow.
    Discarding,
    /// It was the last part of a reply that has been discarded.
    Discarded,
}

/// Limits on the memory of incomplete replies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReassemblyLimits {
    /// Of one session.
    pub(crate) session_bytes: usize,
    /// Of all sessions that share a budget.
    pub(crate) shared_bytes: usize,
}

impl Reassembler {
    /// Uses the memory of `budget` as a session of `source`, and discards incomplete replies.
    pub(crate) fn set_budget(&mut self, budget: &ReassemblyBudget, source: SourceId) {
        let budget = budget.clone();
        *self = Self { budget, source, holder: None, incomplete: Vec::new() };
    }

    /// Uses the memory of `budget` from now on, and moves incomplete replies there. A session that has lost its parts keeps
    /// its budget, where it finds out.
    pub(crate) fn move_to(&mut self, budget: &ReassemblyBudget) {
        if let Some(holder) = self.holder {
            let Some(replies) = self.budget.lock().take_holder(self.source, holder) else { return };
            self.holder = Some(budget.lock().add_replies(self.source, replies));
        }
        self.budget = budget.clone();
    }

    /// The session was not read until now, so that incomplete replies could make no progress.
    pub(crate) fn record_unread(&mut self, now: Instant) {
        for reply in &mut self.incomplete {
            reply.progressed_at = now;
        }
    }

    /// Adds a part of the reply to request `xid`. If the session has more bytes then than it may, its longest replies are
    /// discarded until it has not.
    ///
    /// # Errors
    /// `TooManyMultipartReplies` if too many replies are incomplete, `MultipartBudgetExceeded` if the session has lost its parts
    /// to others.
    pub(crate) fn add<'a>(
        &mut self,
        xid: u32,
        (version, part): (Version, Multipart<'a>),
        now: Instant,
        limits: ReassemblyLimits,
    ) -> Result<Reassembled<'a>, SessionError> {
        let at = self.incomplete.iter().position(|r| r.xid == xid && r.kind == part.kind);
        if at.is_none() && !part.more {
            return Ok(Reassembled::Whole(Cow::Borrowed(part.body)));
        }
        let (budget, source) = (self.budget.clone(), self.source);
        let mut holdings = budget.lock();
        let holder = *self.holder.get_or_insert_with(|| holdings.add_holder(source));
        if at.is_none() && self.incomplete.len() == INCOMPLETE_MAX {
            return Err(SessionError::TooManyMultipartReplies);
        }
        let added = if at.is_some() { part.continuation(version) } else { part.body };
        let at = at.unwrap_or_else(|| {
            let kind = part.kind;
            let reply = IncompleteReply { xid, kind, progressed_at: now, is_discarded: false };
            self.incomplete.push(reply);
            self.incomplete.len() - 1
        });
        let Some(reply) = self.incomplete.get_mut(at) else { return Ok(Reassembled::Incomplete) };
        reply.progressed_at = now;
        let (key, body) = (reply.key(), if reply.is_discarded { &[] } else { added });
        holdings.append((source, holder), key, body, limits.shared_bytes)?;
        while holdings.held_bytes(source, holder).is_some_and(|held| held > limits.session_bytes)
            && let Some(longest) = holdings.discard_longest(source, holder)
        {
            let discarded = self.incomplete.iter_mut().filter(|reply| reply.key() == longest);
            discarded.for_each(|reply| reply.is_discarded = true);
        }
        if part.more {
            let is_discarded = self.incomplete.get(at).is_some_and(|reply| reply.is_discarded);
            return Ok(if is_discarded {
                Reassembled::Discarding
            } else {
                Reassembled::Incomplete
            });
        }
        let is_discarded = self.incomplete.remove(at).is_discarded;
        let body = holdings.take(source, holder, key);
        if self.incomplete.is_empty() {
            holdings.remove_holder(source, holder);
            self.holder = None;
        }
        Ok(if is_discarded { Reassembled::Discarded } else { Reassembled::Whole(body.into()) })
    }

    /// When an incomplete reply has expired; `None` if there is none.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.incomplete.iter().map(|reply| reply.progressed_at + timeout).min()
    }

    /// Why the session must end at `now`.
    ///
    /// # Errors
    /// `MultipartTimeout` if a reply has made no progress for `timeout`, `MultipartBudgetExceeded` if the session has lost its
    /// parts.
    pub(crate) fn check(&self, timeout: Duration, now: Instant) -> Result<(), SessionError> {
        let Some(holder) = self.holder else { return Ok(()) };
        if self.budget.lock().held_bytes(self.source, holder).is_none() {
            return Err(SessionError::MultipartBudgetExceeded);
        }
        if self.deadline(timeout).is_some_and(|deadline| now >= deadline) {
            return Err(SessionError::MultipartTimeout);
        }
        Ok(())
    }
}

/// Frees the memory of incomplete replies.
impl Drop for Reassembler {
    fn drop(&mut self) {
        if let Some(holder) = self.holder {
            self.budget.lock().remove_holder(self.source, holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReassemblyLimits = ReassemblyLimits { session_bytes: 100, shared_bytes: 150 };
    const TIMEOUT: Duration = Duration::from_secs(30);

    fn part(more: bool, body: &[u8]) -> Multipart<'_> {
        Multipart { kind: MultipartType::FLOW, more, body }
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    /// Adds a part; the time does not matter.
    fn add(
        reassembler: &mut Reassembler,
        xid: u32,
        more: bool,
        body: &[u8],
    ) -> Result<Reassembled<'static>, SessionError> {
        Ok(match reassembler.add(xid, (Version::V1_3, part(more, body)), now(), LIMITS)? {
            Reassembled::Incomplete => Reassembled::Incomplete,
            Reassembled::Whole(body) => whole(&body),
            Reassembled::Discarding => Reassembled::Discarding,
            Reassembled::Discarded => Reassembled::Discarded,
        })
    }

    fn whole(body: &[u8]) -> Reassembled<'static> {
        Reassembled::Whole(body.to_vec().into())
    }

    const INCOMPLETE: Result<Reassembled<'static>, SessionError> = Ok(Reassembled::Incomplete);

    #[test]
    fn interleaved_replies_are_reassembled_in_order() {
        let mut reassembler = Reassembler::default();
        for (xid, body) in [(1, b"a"), (2, b"x"), (1, b"b")] {
            assert_eq!(add(&mut reassembler, xid, true, body), INCOMPLETE);
        }
        assert_eq!(add(&mut reassembler, 1, false, b"c"), Ok(whole(b"abc")));
        assert_eq!(add(&mut reassembler, 2, false, b"y"), Ok(whole(b"xy")));
        assert!(reassembler.incomplete.is_empty() && reassembler.holder.is_none());
    }

    #[test]
    fn a_session_limits_the_bytes_and_the_number_of_incomplete_replies() {
        let mut reassembler = Reassembler::default();
        assert_eq!(add(&mut reassembler, 1, true, &[0; 60]), INCOMPLETE);
        assert_eq!(add(&mut reassembler, 2, true, &[2; 40]), INCOMPLETE);
        assert_eq!(add(&mut reassembler, 2, true, b"2"), INCOMPLETE);
        assert_eq!(reassembler.budget.used_bytes(), 41);
        assert_eq!(add(&mut reassembler, 1, true, b"1"), Ok(Reassembled::Discarding));
        assert_eq!(add(&mut reassembler, 1, false, b"1"), Ok(Reassembled::Discarded));
        for xid in 3..10 {
            assert_eq!(add(&mut reassembler, xid, true, b""), INCOMPLETE);
        }
        let too_many = Err(SessionError::TooManyMultipartReplies);
        assert_eq!(add(&mut reassembler, 10, true, b""), too_many);
        assert_eq!(add(&mut reassembler, 11, false, b"whole"), Ok(whole(b"whole")));
        assert_eq!(add(&mut reassembler, 2, false, b""), Ok(whole(&[&[2; 40][..], b"2"].concat())));
    }

    #[test]
    fn a_session_that_needs_little_keeps_its_parts_when_another_source_has_filled_the_budget() {
        let budget = ReassemblyBudget::default();
        let new = |source| {
            let mut reassembler = Reassembler::default();
            reassembler.set_budget(&budget, SourceId(source));
            reassembler
        };
        let (mut good, mut first, mut second) = (new(1), new(2), new(2));
        assert_eq!(add(&mut good, 1, true, &[1; 10]), INCOMPLETE);
        assert_eq!(add(&mut first, 1, true, &[0; 90]), INCOMPLETE);
        assert_eq!(add(&mut second, 1, true, &[0; 50]), INCOMPLETE);
        assert_eq!(add(&mut good, 1, false, &[1; 10]), Ok(whole(&[1; 20])));
        let lost = SessionError::MultipartBudgetExceeded;
        assert_eq!(first.check(TIMEOUT, now()), Err(lost));
        assert_eq!(add(&mut first, 1, false, b"the rest"), Err(lost));
        assert_eq!(second.check(TIMEOUT, now()), Ok(()));
        assert_eq!(budget.used_bytes(), 50);
        drop(second);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_session_that_moves_to_another_budget_takes_its_parts_along() {
        let [old, new] = [(); 2].map(|()| ReassemblyBudget::default());
        let mut moving = Reassembler::default();
        moving.set_budget(&old, SourceId(1));
        assert_eq!(add(&mut moving, 1, true, b"ab"), INCOMPLETE);
        moving.move_to(&new);
        assert_eq!((old.used_bytes(), new.used_bytes()), (0, 2));
        assert_eq!(add(&mut moving, 1, false, b"c"), Ok(whole(b"abc")));
        assert_eq!(new.used_bytes(), 0);
        moving.move_to(&old);
        assert_eq!(add(&mut moving, 1, true, b"d"), INCOMPLETE);
        assert_eq!((old.used_bytes(), new.used_bytes()), (1, 0));
    }

    #[test]
    fn a_session_that_has_lost_its_parts_still_ends_after_it_has_moved() {
        let [old, new] = [(); 2].map(|()| ReassemblyBudget::default());
        let [mut first, mut second] = [(); 2].map(|()| Reassembler::default());
        first.set_budget(&old, SourceId(1));
        second.set_budget(&old, SourceId(1));
        assert_eq!(add(&mut first, 1, true, &[0; 90]), INCOMPLETE);
        assert_eq!(add(&mut second, 1, true, &[0; 90]), INCOMPLETE);
        first.move_to(&new);
        assert_eq!(first.check(TIMEOUT, now()), Err(SessionError::MultipartBudgetExceeded));
    }

    #[test]
    fn a_reply_does_not_expire_while_its_session_is_not_read() {
        let (mut reassembler, start) = (Reassembler::default(), now());
        assert_eq!(
            reassembler.add(1, (Version::V1_3, part(true, b"x")), start, LIMITS),
            INCOMPLETE
        );
        reassembler.record_unread(start + TIMEOUT);
        assert_eq!(reassembler.check(TIMEOUT, start + TIMEOUT), Ok(()));
        assert_eq!(reassembler.deadline(TIMEOUT), Some(start + TIMEOUT + TIMEOUT));
    }

    #[test]
    fn a_reply_without_progress_expires() {
        let (mut reassembler, start) = (Reassembler::default(), now());
        assert_eq!(reassembler.deadline(TIMEOUT), None);
        for (xid, seconds) in [(1, 0), (2, 5), (1, 20)] {
            let at = start + Duration::from_secs(seconds);
            assert_eq!(
                reassembler.add(xid, (Version::V1_3, part(true, b"x")), at, LIMITS),
                INCOMPLETE
            );
        }
        let almost = start + Duration::from_secs(4) + TIMEOUT;
        let expires_at = start + Duration::from_secs(5) + TIMEOUT;
        assert_eq!(reassembler.deadline(TIMEOUT), Some(expires_at));
        assert_eq!(reassembler.check(TIMEOUT, almost), Ok(()));
        let expired = reassembler.check(TIMEOUT, expires_at);
        assert_eq!(expired, Err(SessionError::MultipartTimeout));
    }
}
