//! What a worker does with the program.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use sluice_io::taken_bytes;

use crate::epoch::Epoch;
use crate::host_table::{BUCKET_WORDS, HostTable, Published, key};
use crate::program::{ProgramBuffer, Shared};
use crate::session::{Closed, Session};

/// Numbers of a clock in the map `clocks`.
pub(crate) const CLOCK_WORDS: usize = 8;

/// The number that says that the program could not use the relay.
const CLOCK_FAILED: usize = 1;

/// Buffers that were sent through the relay, and how many were ahead of each, added up.
const CLOCK_RELAYED: usize = 2;
const CLOCK_AHEAD: usize = 4;

/// Slots of ended sessions that are freed at once, since that reads the whole table of hosts.
const ENDED_SLOTS: usize = 64;

/// One session has at most the table divided by this, so that one that sends from many addresses leaves room for others.
const SHARE_OF_SESSION: usize = 4;

/// An answer of the program in a session whose form has the rule [`AnswerRule::Paths`](crate::AnswerRule::Paths).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Slot of the session.
    pub slot: u16,
    /// Source of the packet.
    pub src: [u8; 6],
    /// Its destination.
    pub dst: [u8; 6],
    /// When it was answered.
    pub at: Instant,
}

/// How many answers of a worker's switches wait for each other: the relay passes on one after the other. Counted if answers are timed
/// ([`Limits::late`](crate::Limits::late)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelayQueue {
    /// Buffers that were sent through the relay.
    pub relayed: u64,
    /// How many buffers of other sessions were ahead of each, added up.
    pub ahead: u64,
}

/// The part of the program that belongs to one worker: the hosts that it has published, and its clock.
///
/// Readable as a file descriptor while there are [announcements](Self::next_announced). So are its [reports](Self::reports), from when there are so
/// many that the worker should take them.
pub struct WorkerAnswers {
    shared: Arc<Shared>,
    worker: usize,
    announcements: ProgramBuffer,
    reports: ProgramBuffer,
    epoch: Epoch,
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
    pub(crate) fn new(
        shared: Arc<Shared>,
        worker: usize,
        [announcements, reports]: [ProgramBuffer; 2],
    ) -> Self {
        Self { shared, worker, announcements, reports, epoch: Epoch::now(), has_failed: false }
    }

    /// The reports of answers, of which more than 1024 wake a thread that waits for this to be readable.
    pub fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// The next report of an answer. Those of one session are in the order of the answers. When its gate is closed, all are written, but
    /// one that another processor is just writing may be before them: then there are none for a moment.
    ///
    /// # Cost
    /// A load from memory that the kernel writes, if there are none.
    #[inline]
    pub fn next_report(&mut self) -> Option<Report> {
        let report = self.reports.next()?;
        let mut words = report
            .chunks_exact(8)
            .map(|bytes| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)));
        let [src, dst, at] = [words.next()?, words.next()?, words.next()?];
        let mac = |word: u64| word.to_be_bytes().last_chunk().copied().unwrap_or_default();
        let slot = u16::try_from(src >> 48).unwrap_or(0);
        Some(Report { slot, src: mac(src), dst: mac(dst), at: self.epoch.instant(at) })
    }

    /// Has packet-ins between two hosts, in both directions, go to the worker until `until`, in sessions whose form has the rule
    /// [`AnswerRule::Paths`](crate::AnswerRule::Paths).
    pub fn hold(&self, hosts: [[u8; 6]; 2], until: Instant) {
        let mut pair = hosts.map(|mac| key(0, mac));
        pair.sort_unstable();
        let bits = self.shared.hold_bits;
        let place = self.worker << bits | self.shared.hash.pair(pair, bits);
        if let Some(held_until) = self.shared.holds.words().get(place) {
            held_until.fetch_max(self.epoch.to_nanoseconds(until), Ordering::Relaxed);
        }
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
        // Reading the error of the relay clears it: another worker in the place of this one has to know, too.
        if self.shared.has_relay_failed(self.worker)
            && let Some(failed) = failed
        {
            failed.store(1, Ordering::Relaxed);
        }
        self.has_failed |= failed.is_some_and(|failed| failed.load(Ordering::Relaxed) != 0);
        self.has_failed
    }

    /// How many answers have waited for each other since the program was loaded.
    pub fn relay_queue(&self) -> RelayQueue {
        let load = |word: usize| {
            let word = self.shared.clocks.words().get(self.worker * CLOCK_WORDS + word);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        RelayQueue { relayed: load(CLOCK_RELAYED), ahead: load(CLOCK_AHEAD) }
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

    /// Publishes a host as an end of paths. `entry` has its port in the low 12 bits, and says with the bits 15 and 14 that an IPv4 and an
    /// IPv6 address of it are known. Returns whether there was room. The gate is closed.
    pub fn publish_path_host(&mut self, session: &mut Session, mac: [u8; 6], entry: u16) -> bool {
        self.publish(session, mac, entry.into(), 0)
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::{AnswerForm, AnswerRule, KernelAnswers, Limits};

    #[test]
    fn each_answer_counts_those_that_are_in_the_relay_when_it_is_sent_there() {
        let (sessions, hosts_per_worker, input_bytes) = (10, 100, 1000);
        let (late, paths) = (Some(Duration::from_secs(1000)), false);
        let limits = Limits { workers: 1, sessions, hosts_per_worker, input_bytes, late, paths };
        let mut worker = KernelAnswers::load(&limits).unwrap().worker(0).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut switch = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let mut session = worker.attach(&socket).unwrap();
        let rule = AnswerRule::Hosts { timeout: 10 };
        let (flow_mod, packet_out) = (&[0; 80], &[0; 24]);
        assert!(session.set_form(&AnswerForm { version: 1, flow_mod, packet_out, rule }));
        for (host, port) in [(8, 1), (9, 2)] {
            assert!(worker.publish(&mut session, [2, 0, 0, 0, 0, host], port, 0));
        }
        session.open(1);
        // OpenFlow 1.0.0, section 5.4.1: a buffered frame of 14 bytes that came in at port 1.
        let head = [1, 10, 0, 32, 0, 0, 0, 1, 0, 0, 0, 7, 0, 14, 0, 1, 0, 0];
        let frame = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
        let relayed = &worker.shared.clocks.words()[CLOCK_RELAYED];
        for (more, ahead) in [(0, 0), (5, 5), (0, 10), (3, 18)] {
            // As if so many more were waiting.
            relayed.fetch_add(more, Ordering::Relaxed);
            switch.write_all(&[&head[..], &frame].concat()).unwrap();
            switch.read_exact(&mut [0; 80]).unwrap();
            assert_eq!(worker.relay_queue().ahead, ahead);
        }
        assert_eq!(worker.relay_queue().relayed, 4 + 8);
    }
}
