//! The memory that several sessions share for incomplete multipart replies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::SessionError;

/// Where a session comes from. Sessions of one source share what a [`ReassemblyBudget`] grants to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SourceId(pub u128);

/// The memory that several sessions share for incomplete multipart replies. Clones share it.
///
/// If it is full, the source with the most bytes loses: of its sessions, the one that has had incomplete replies for longest.
/// All its parts are freed at once, and that session ends with [`SessionError::MultipartBudgetExceeded`] at its next part or
/// timeout. So a session of a source that needs little keeps its parts, whatever others hold.
///
/// # Cost
/// A lock for each part of a reply that has more than one part; none for other replies.
#[derive(Debug, Clone, Default)]
pub struct ReassemblyBudget(Arc<Mutex<Holdings>>);

impl ReassemblyBudget {
    /// Bytes in use now.
    pub fn used_bytes(&self) -> usize {
        self.lock().used_bytes
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of a session that has incomplete replies, increasing with the time since it has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HolderId(u64);

/// The incomplete replies of all sessions that share a budget.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    used_bytes: usize,
    by_source: BTreeMap<SourceId, SourceHoldings>,
    last_holder: u64,
}

/// The incomplete replies of the sessions of one source.
#[derive(Debug, Default)]
struct SourceHoldings {
    bytes: usize,
    sessions: BTreeMap<HolderId, PartialReplies>,
}

/// The incomplete replies of a session, by request.
pub(crate) type PartialReplies = BTreeMap<u64, PartialBody>;

/// Largest chunk of a [`PartialBody`], unless a part is larger.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// The received parts of a reply, in chunks. A single buffer that grows would be copied, and take up to twice as much memory
/// as it has bytes.
#[derive(Debug, Default)]
pub(crate) struct PartialBody {
    chunks: Vec<Vec<u8>>,
    len: usize,
}

impl PartialBody {
    /// Appends a part.
    ///
    /// # Cost
    /// May allocate as much as the part needs, or as there is already, up to [`CHUNK_BYTES_MAX`].
    fn append(&mut self, bytes: &[u8]) {
        let free = self.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        let (first, rest) = bytes.split_at(free.min(bytes.len()));
        if let Some(last) = self.chunks.last_mut() {
            last.extend_from_slice(first);
        }
        if !rest.is_empty() {
            let mut chunk = Vec::with_capacity(rest.len().max(self.len.min(CHUNK_BYTES_MAX)));
            chunk.extend_from_slice(rest);
            self.chunks.push(chunk);
        }
        self.len += bytes.len();
    }
}

impl Holdings {
    /// Adds a session that has no incomplete reply yet.
    pub(crate) fn add_holder(&mut self, source: SourceId) -> HolderId {
        self.last_holder += 1;
        let holder = HolderId(self.last_holder);
        self.by_source.entry(source).or_default().sessions.insert(holder, BTreeMap::new());
        holder
    }

    /// Bytes of all incomplete replies of a session; `None` if it has lost them.
    pub(crate) fn held_bytes(&self, source: SourceId, holder: HolderId) -> Option<usize> {
        let replies = self.by_source.get(&source)?.sessions.get(&holder)?;
        Some(replies.values().map(|body| body.len).sum())
    }

    /// Appends to the reply with the key `reply`. If more than `bytes_max` are used then, sessions lose theirs until it fits.
    ///
    /// # Errors
    /// `MultipartBudgetExceeded` if this session has lost its replies.
    pub(crate) fn append(
        &mut self,
        (source, holder): (SourceId, HolderId),
        reply: u64,
        bytes: &[u8],
        bytes_max: usize,
    ) -> Result<(), SessionError> {
        let lost = SessionError::MultipartBudgetExceeded;
        let holdings = self.by_source.get_mut(&source).ok_or(lost)?;
        let replies = holdings.sessions.get_mut(&holder).ok_or(lost)?;
        replies.entry(reply).or_default().append(bytes);
        holdings.bytes += bytes.len();
        self.used_bytes += bytes.len();
        while self.used_bytes > bytes_max
            && let Some((source, holder)) = self.eviction_candidate()
        {
            self.remove_holder(source, holder);
        }
        self.held_bytes(source, holder).map(|_| ()).ok_or(lost)
    }

    /// The oldest session of the source with the most bytes.
    fn eviction_candidate(&self) -> Option<(SourceId, HolderId)> {
        let (&source, holdings) = self.by_source.iter().max_by_key(|(_, held)| held.bytes)?;
        Some((source, *holdings.sessions.keys().next()?))
    }

    /// Removes a complete reply and returns its body.
    pub(crate) fn take(&mut self, source: SourceId, holder: HolderId, reply: u64) -> Vec<u8> {
        let Some(holdings) = self.by_source.get_mut(&source) else { return Vec::new() };
        let replies = holdings.sessions.get_mut(&holder);
        let body = replies.and_then(|replies| replies.remove(&reply)).unwrap_or_default();
        holdings.bytes -= body.len;
        self.used_bytes -= body.len;
        body.chunks.concat()
    }

    /// Frees the parts of the longest reply of a session, and returns its key; `None` if it has no reply.
    pub(crate) fn discard_longest(&mut self, source: SourceId, holder: HolderId) -> Option<u64> {
        let replies = self.by_source.get(&source)?.sessions.get(&holder)?;
        let (&longest, _) = replies.iter().max_by_key(|(_, body)| body.len)?;
        self.take(source, holder, longest);
        Some(longest)
    }

    /// Adds a session with its incomplete replies, from another budget. The limit applies with its next part.
    pub(crate) fn add_replies(&mut self, source: SourceId, replies: PartialReplies) -> HolderId {
        let holder = self.add_holder(source);
        let bytes: usize = replies.values().map(|body| body.len).sum();
        self.used_bytes += bytes;
        if let Some(holdings) = self.by_source.get_mut(&source) {
            holdings.bytes += bytes;
            holdings.sessions.insert(holder, replies);
        }
        holder
    }

    /// Removes a session and its incomplete replies, if there are any.
    pub(crate) fn remove_holder(&mut self, source: SourceId, holder: HolderId) {
        self.take_holder(source, holder);
    }

    /// Removes a session, and returns its incomplete replies; `None` if it has lost them.
    pub(crate) fn take_holder(
        &mut self,
        source: SourceId,
        holder: HolderId,
    ) -> Option<PartialReplies> {
        let holdings = self.by_source.get_mut(&source)?;
        let replies = holdings.sessions.remove(&holder)?;
        let bytes: usize = replies.values().map(|body| body.len).sum();
        holdings.bytes -= bytes;
        self.used_bytes -= bytes;
        if holdings.sessions.is_empty() {
            self.by_source.remove(&source);
        }
        Some(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SourceId = SourceId(1);
    const B: SourceId = SourceId(2);
    const LOST: Result<(), SessionError> = Err(SessionError::MultipartBudgetExceeded);

    #[test]
    fn the_source_with_the_most_bytes_loses_those_of_its_oldest_session() {
        let mut holdings = Holdings::default();
        let [old, young] = [(); 2].map(|()| holdings.add_holder(A));
        let small = holdings.add_holder(B);
        assert_eq!(holdings.append((A, young), 1, &[0; 60], 100), Ok(()));
        assert_eq!(holdings.append((A, old), 1, &[0; 30], 100), Ok(()));
        assert_eq!(holdings.append((B, small), 1, &[0; 20], 100), Ok(()));
        let held =
            |h: &Holdings| [h.held_bytes(A, old), h.held_bytes(A, young), h.held_bytes(B, small)];
        assert_eq!(held(&holdings), [None, Some(60), Some(20)]);
        assert_eq!((holdings.used_bytes, holdings.append((A, old), 1, &[0], 100)), (80, LOST));
    }

    #[test]
    fn parts_take_little_more_memory_than_they_have_bytes() {
        for part in [1, 16, 1000, 40_000, 65_519] {
            let (mut body, bytes, count) =
                (PartialBody::default(), vec![7; part], (2 << 20) / part);
            (0..count).for_each(|_| body.append(&bytes));
            let capacity: usize = body.chunks.iter().map(Vec::capacity).sum();
            let unused = capacity - body.len;
            assert!(unused <= CHUNK_BYTES_MAX, "{unused} of {capacity} in parts of {part}");
            assert_eq!(body.chunks.concat(), bytes.repeat(count));
        }
    }

    #[test]
    fn a_session_alone_loses_its_own_and_nothing_is_kept_of_removed_ones() {
        let mut holdings = Holdings::default();
        let (first, second) = (holdings.add_holder(A), holdings.add_holder(A));
        assert_eq!(holdings.append((A, first), 1, &[0; 101], 100), LOST);
        assert_eq!(holdings.append((A, second), 1, &[0; 50], 100), Ok(()));
        assert_eq!(holdings.append((A, second), 2, b"x", 100), Ok(()));
        assert_eq!(holdings.take(A, second, 1).len(), 50);
        assert_eq!(holdings.used_bytes, 1);
        holdings.remove_holder(A, second);
        assert_eq!((holdings.used_bytes, holdings.by_source.len()), (0, 0));
    }
}
