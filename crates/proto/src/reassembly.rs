//! Reassembly of multipart replies (§7.3.5).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sluice_openflow::MultipartType;
use sluice_openflow::view::Multipart;

use crate::SessionError;

/// Incomplete replies of a session; the next one replaces the oldest.
const INCOMPLETE_MAX: usize = 8;

/// Counts the memory that incomplete multipart replies of several sessions use, so that it can be limited.
///
/// Clones share one count.
///
/// # Cost
/// Two atomic additions for each part of a reply that has more than one part; none for other replies.
#[derive(Debug, Clone, Default)]
pub struct ReassemblyBudget(Arc<AtomicUsize>);

impl ReassemblyBudget {
    /// Bytes in use now.
    pub fn used_bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Bytes charged to a budget until this is dropped.
#[derive(Debug)]
struct Reservation {
    budget: ReassemblyBudget,
    bytes: usize,
}

impl Reservation {
    /// Charges `bytes` more; fails if the budget then exceeds `bytes_max`.
    fn grow(&mut self, bytes: usize, bytes_max: usize) -> Result<(), SessionError> {
        let ReassemblyBudget(used) = &self.budget;
        let fits = used.fetch_add(bytes, Relaxed).saturating_add(bytes) <= bytes_max;
        // Also charged if it does not fit: dropping the reservation gives all of it back.
        self.bytes += bytes;
        if fits { Ok(()) } else { Err(SessionError::MultipartBudgetExceeded) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// The incomplete multipart replies of one session.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    budget: ReassemblyBudget,
    replies: Vec<PartialReply>,
}

#[derive(Debug)]
struct PartialReply {
    xid: u32,
    kind: MultipartType,
    body: Vec<u8>,
    reservation: Reservation,
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
    /// Charges replies that start from now on to `budget`.
    pub(crate) fn set_budget(&mut self, budget: &ReassemblyBudget) {
        self.budget = budget.clone();
    }

    /// Adds a part of the reply to request `xid`; returns the whole body if it was the last part.
    ///
    /// # Errors
    /// `MultipartReplyTooLarge` or `MultipartBudgetExceeded` if the part does not fit into the limits.
    pub(crate) fn add<'a>(
        &mut self,
        xid: u32,
        part: Multipart<'a>,
        limits: ReassemblyLimits,
    ) -> Result<Option<Cow<'a, [u8]>>, SessionError> {
        let at = self.replies.iter().position(|r| r.xid == xid && r.kind == part.kind);
        if at.is_none() && !part.more {
            return Ok(Some(Cow::Borrowed(part.body)));
        }
        let held: usize = self.replies.iter().map(|reply| reply.body.len()).sum();
        if held + part.body.len() > limits.session_bytes {
            return Err(SessionError::MultipartReplyTooLarge);
        }
        let at = at.unwrap_or_else(|| {
            if self.replies.len() == INCOMPLETE_MAX {
                self.replies.remove(0);
            }
            let reservation = Reservation { budget: self.budget.clone(), bytes: 0 };
            self.replies.push(PartialReply { xid, kind: part.kind, body: Vec::new(), reservation });
            self.replies.len() - 1
        });
        if let Some(reply) = self.replies.get_mut(at) {
            reply.reservation.grow(part.body.len(), limits.shared_bytes)?;
            reply.body.extend_from_slice(part.body);
        }
        Ok(if part.more { None } else { Some(Cow::Owned(self.replies.remove(at).body)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReassemblyLimits = ReassemblyLimits { session_bytes: 100, shared_bytes: 150 };

    fn part(more: bool, body: &[u8]) -> Multipart<'_> {
        Multipart { kind: MultipartType::FLOW, more, body }
    }

    #[test]
    fn interleaved_replies_are_reassembled_in_order() {
        let mut reassembler = Reassembler::default();
        assert_eq!(reassembler.add(1, part(true, b"a"), LIMITS), Ok(None));
        assert_eq!(reassembler.add(2, part(true, b"x"), LIMITS), Ok(None));
        assert_eq!(reassembler.add(1, part(true, b"b"), LIMITS), Ok(None));
        assert_eq!(reassembler.add(1, part(false, b"c"), LIMITS).unwrap().unwrap(), &b"abc"[..]);
        assert_eq!(reassembler.add(2, part(false, b"y"), LIMITS).unwrap().unwrap(), &b"xy"[..]);
        assert!(reassembler.replies.is_empty());
    }

    #[test]
    fn a_session_limits_the_bytes_and_the_number_of_incomplete_replies() {
        let mut reassembler = Reassembler::default();
        assert_eq!(reassembler.add(1, part(true, &[0; 60]), LIMITS), Ok(None));
        assert_eq!(
            reassembler.add(2, part(true, &[0; 60]), LIMITS),
            Err(SessionError::MultipartReplyTooLarge)
        );
        for xid in 0..1000 {
            assert_eq!(reassembler.add(xid, part(true, b""), LIMITS), Ok(None));
        }
        assert_eq!(reassembler.replies.len(), INCOMPLETE_MAX);
    }

    #[test]
    fn a_shared_budget_limits_several_sessions_and_is_released() {
        let budget = ReassemblyBudget::default();
        let new = || Reassembler { budget: budget.clone(), replies: Vec::new() };
        let (mut a, mut b) = (new(), new());
        assert_eq!(a.add(1, part(true, &[0; 90]), LIMITS), Ok(None));
        assert_eq!(b.add(1, part(true, &[0; 60]), LIMITS), Ok(None));
        assert_eq!(
            b.add(1, part(true, &[0; 1]), LIMITS),
            Err(SessionError::MultipartBudgetExceeded)
        );
        drop(b);
        assert_eq!(budget.used_bytes(), 90);
        assert_eq!(a.add(1, part(false, &[0; 10]), LIMITS).unwrap().unwrap().len(), 100);
        assert_eq!(budget.used_bytes(), 0);
    }
}
