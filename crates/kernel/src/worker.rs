//! What a worker does with the program.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_io::taken_bytes;

use crate::host_table::{BUCKET_WORDS, HostTable, Published, key};
use crate::program::{Announcements, Shared};
use crate::session::{Closed, Session};

/// Numbers of a clock in the map `clocks`.
pub(crate) const CLOCK_WORDS: usize = 8;

/// The number that says that the program could not use the relay.
const CLOCK_FAILED: usize = 1;

/// Slots of ended sessions that are freed at once, since that reads the whole table of hosts.
const ENDED_SLOTS: usize = 64;

/// One session has at most the table divided by this, so that one that sends from many addresses leaves room for others.
const SHARE_OF_SESSION: usize = 4;

/// The part of the program that belongs to one worker: the hosts that it has published, and its clock.
///
/// Readable as a file descriptor while there are [announcements](Self::next_announced).
pub struct WorkerAnswers {
    shared: Arc<Shared>,
    worker: usize,
    announcements: Announcements,
    has_failed: bool,
}

impl fmt::Debug for WorkerAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerAnswers").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl AsFd for WorkerAnswers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.announcements.as_fd()
    }
}

impl WorkerAnswers {
    pub(crate) fn new(shared: Arc<Shared>, worker: usize, announcements: Announcements) -> Self {
        Self { shared, worker, announcements, has_failed: false }
    }

    /// The slot of a session that has passed something to the worker after it had [requested](Session::request_announcement) to know that. The
    /// session may have ended or moved to another worker since.
    ///
    /// # Cost
    /// A load from memory that the kernel writes, if there are none.
    #[inline]
    pub fn next_announced(&mut self) -> Option<u16> {
        let slot = self.announcements.next()?;
        slot.first_chunk().and_then(|bytes| u64::from_ne_bytes(*bytes).try_into().ok())
    }

    /// Whether the kernel has lost answers of this worker and would lose all further ones, since it had no memory: no gate may be opened any
    /// more, and connections that have not [sent](Session::are_answers_sent) all their answers have a gap.
    ///
    /// # Cost
    /// Two system calls.
    pub fn has_failed(&mut self) -> bool {
        let failed = self.shared.clocks.words().get(self.worker * CLOCK_WORDS + CLOCK_FAILED);
        self.has_failed |= failed.is_some_and(|failed| failed.load(Ordering::Relaxed) != 0)
            || self.shared.has_relay_failed(self.worker);
        self.has_failed
    }

    /// Sets the time, in ticks of the application. The program compares it with the times at which hosts were seen.
    pub fn set_tick(&self, tick: u16) {
        if let Some(clock) = self.shared.clocks.words().get(self.worker * CLOCK_WORDS) {
            clock.store(tick.into(), Ordering::Relaxed);
        }
    }

    /// Has the program see what the connection receives from now on. The gate is closed, and stays so until the session has a
    /// [form](Session::set_form).
    ///
    /// # Errors
    /// `OutOfMemory` if there are as many sessions as there can be; those of the system calls. The connection stays as it was.
    pub fn attach(&mut self, socket: &(impl AsFd + AsRawFd)) -> io::Result<Session> {
        self.free_slots();
        let taken_before = taken_bytes(socket)?;
        let (slot, cookie) = self.shared.begin_session(socket)?;
        let mut session = Session::new(self.shared.clone(), (slot, cookie), taken_before);
        session.set_owner(self.worker, self.first_bucket());
        Ok(session)
    }

    /// Takes a session over that another worker has released.
    pub fn adopt(&mut self, session: &mut Session) {
        session.set_owner(self.worker, self.first_bucket());
    }

    /// Closes the gate of a session that another worker will own, and withdraws its hosts.
    ///
    /// # Cost
    /// That of [`withdraw_all`](Self::withdraw_all).
    pub fn release(&mut self, session: &mut Session) -> Closed {
        let closed = session.close();
        self.withdraw_all(session);
        closed
    }

    /// Publishes that a host is at `port`, and was seen at `tick`, unless the program has seen it there later. Returns whether there was room: a
    /// session has at most a quarter of the table. The gate is closed.
    pub fn publish(&mut self, session: &mut Session, mac: [u8; 6], port: u32, tick: u16) -> bool {
        debug_assert!(!session.is_open(), "the gate is closed while hosts change");
        let table = self.table();
        let may_add = session.host_count < table.places() / SHARE_OF_SESSION;
        let published = table.publish(key(session.slot(), mac), port, tick, may_add);
        session.host_count += usize::from(published == Published::Added);
        published != Published::NoRoom
    }

    /// Withdraws a host. The gate is closed.
    pub fn withdraw(&mut self, session: &mut Session, mac: [u8; 6]) {
        debug_assert!(!session.is_open(), "the gate is closed while hosts change");
        let was_published = self.table().withdraw(key(session.slot(), mac));
        session.host_count -= usize::from(was_published);
    }

    /// Withdraws all hosts of a session. The gate is closed.
    ///
    /// # Cost
    /// Reads the whole table of hosts if it has some of this session.
    pub fn withdraw_all(&mut self, session: &mut Session) {
        debug_assert!(!session.is_open(), "the gate is closed while hosts change");
        if std::mem::take(&mut session.host_count) > 0 {
            self.table().withdraw_slots(&[session.slot()]);
        }
    }

    /// Calls `each` with the slot of the session, the address, and the time of all published hosts that were seen at `tick` or later.
    ///
    /// # Cost
    /// Reads the whole table of hosts.
    pub fn for_each_seen(&self, tick: u16, each: impl FnMut(u16, [u8; 6], u16)) {
        self.table().for_each_seen(tick, each);
    }

    fn first_bucket(&self) -> u64 {
        (self.worker as u64) << self.shared.hash.bits
    }

    fn table(&self) -> HostTable<'_> {
        self.table_of(self.worker)
    }

    fn table_of(&self, worker: usize) -> HostTable<'_> {
        let len = BUCKET_WORDS << self.shared.hash.bits;
        let start = worker * len;
        let words = self.shared.hosts.words().get(start..start + len).unwrap_or_default();
        HostTable { words, hash: self.shared.hash }
    }

    /// Withdraws all hosts of ended sessions, so that their slots can be used again.
    fn free_slots(&mut self) {
        for (worker, slots) in self.shared.take_ended(self.worker, ENDED_SLOTS) {
            self.table_of(worker).withdraw_slots(&slots);
            self.shared.free(&slots);
        }
    }
}

impl Drop for WorkerAnswers {
    fn drop(&mut self) {
        self.shared.set_running(self.worker, false);
    }
}
