//! Replies that come in many parts. §7.3.5.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sluice_openflow::MultipartType;
use sluice_openflow::view::Multipart;

use crate::SessionError;

/// Replies under way at once; a switch that interleaves more loses the oldest.
const ASSEMBLIES_MAX: usize = 8;

/// What unfinished replies of many sessions hold together. A clone is the same pool.
///
/// # Cost
/// Nothing but for replies in more than one part: two atomic additions for each of those parts and one at the end.
#[derive(Debug, Clone, Default)]
pub struct ReassemblyBudget(Arc<AtomicUsize>);

impl ReassemblyBudget {
    /// Bytes that are held now.
    pub fn used_bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Bytes taken from a pool until they are dropped.
#[derive(Debug)]
struct Reservation {
    pool: ReassemblyBudget,
    bytes: usize,
}

impl Reservation {
    /// Takes more, unless all shares together would pass `bytes_max` then.
    fn grow(&mut self, bytes: usize, bytes_max: usize) -> Result<(), SessionError> {
        let ReassemblyBudget(held) = &self.pool;
        let fits = held.fetch_add(bytes, Relaxed).saturating_add(bytes) <= bytes_max;
        // If it does not fit, the drop gives this back with the rest.
        self.bytes += bytes;
        if fits { Ok(()) } else { Err(SessionError::MultipartBudgetExceeded) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// Replies of which some parts have come.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    pool: ReassemblyBudget,
    all: Vec<PartialReply>,
}

#[derive(Debug)]
struct PartialReply {
    xid: u32,
    kind: MultipartType,
    body: Vec<u8>,
    share: Reservation,
}

/// Bytes that unfinished replies may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReassemblyLimits {
    /// Those of one session.
    pub(crate) own: usize,
    /// Those of all that share a pool.
    pub(crate) all: usize,
}

impl Reassembler {
    /// Takes what comes from now on from `pool`.
    pub(crate) fn set_reassembly_budget(&mut self, pool: &ReassemblyBudget) {
        self.pool = pool.clone();
    }

    /// Adds a part to the reply to `xid`; returns the whole body if it was the last.
    ///
    /// # Errors
    /// `MultipartReplyTooLarge` if all that is held here would pass `room.own`, `MultipartBudgetExceeded` if all that is held in the pool
    /// would pass `room.all`.
    pub(crate) fn add<'a>(
        &mut self,
        xid: u32,
        part: Multipart<'a>,
        room: ReassemblyLimits,
    ) -> Result<Option<Cow<'a, [u8]>>, SessionError> {
        let at = self.all.iter().position(|a| a.xid == xid && a.kind == part.kind);
        if at.is_none() && !part.more {
            return Ok(Some(Cow::Borrowed(part.body)));
        }
        let held: usize = self.all.iter().map(|a| a.body.len()).sum();
        if held + part.body.len() > room.own {
            return Err(SessionError::MultipartReplyTooLarge);
        }
        let at = at.unwrap_or_else(|| {
            if self.all.len() == ASSEMBLIES_MAX {
                self.all.remove(0);
            }
            let share = Reservation { pool: self.pool.clone(), bytes: 0 };
            self.all.push(PartialReply { xid, kind: part.kind, body: Vec::new(), share });
            self.all.len() - 1
        });
        if let Some(assembly) = self.all.get_mut(at) {
            assembly.share.grow(part.body.len(), room.all)?;
            assembly.body.extend_from_slice(part.body);
        }
        Ok(if part.more { None } else { Some(Cow::Owned(self.all.remove(at).body)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: ReassemblyLimits = ReassemblyLimits { own: 100, all: 150 };

    fn part(more: bool, body: &[u8]) -> Multipart<'_> {
        Multipart { kind: MultipartType::FLOW, more, body }
    }

    #[test]
    fn parts_come_together_in_order_and_apart_from_other_replies() {
        let mut all = Reassembler::default();
        assert_eq!(all.add(1, part(true, b"a"), ROOM), Ok(None));
        assert_eq!(all.add(2, part(true, b"x"), ROOM), Ok(None));
        assert_eq!(all.add(1, part(true, b"b"), ROOM), Ok(None));
        assert_eq!(all.add(1, part(false, b"c"), ROOM).unwrap().unwrap(), &b"abc"[..]);
        assert_eq!(all.add(2, part(false, b"y"), ROOM).unwrap().unwrap(), &b"xy"[..]);
        assert!(all.all.is_empty());
    }

    #[test]
    fn what_is_held_is_bounded_in_bytes_and_in_number() {
        let mut all = Reassembler::default();
        assert_eq!(all.add(1, part(true, &[0; 60]), ROOM), Ok(None));
        assert_eq!(
            all.add(2, part(true, &[0; 60]), ROOM),
            Err(SessionError::MultipartReplyTooLarge)
        );
        for xid in 0..1000 {
            assert_eq!(all.add(xid, part(true, b""), ROOM), Ok(None));
        }
        assert_eq!(all.all.len(), ASSEMBLIES_MAX);
    }

    #[test]
    fn what_many_hold_together_is_bounded_and_given_back() {
        let pool = ReassemblyBudget::default();
        let sessions = || {
            let mut one = Reassembler::default();
            one.set_reassembly_budget(&pool);
            one
        };
        let (mut a, mut b) = (sessions(), sessions());
        assert_eq!(a.add(1, part(true, &[0; 90]), ROOM), Ok(None));
        assert_eq!(b.add(1, part(true, &[0; 60]), ROOM), Ok(None));
        assert_eq!(b.add(1, part(true, &[0; 1]), ROOM), Err(SessionError::MultipartBudgetExceeded));
        drop(b);
        assert_eq!(pool.used_bytes(), 90);
        assert_eq!(a.add(1, part(false, &[0; 10]), ROOM).unwrap().unwrap().len(), 100);
        assert_eq!(pool.used_bytes(), 0);
    }
}
