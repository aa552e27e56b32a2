//! A connection whose packet-ins the program may answer.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_io::taken_bytes;

use crate::program::Shared;

/// Numbers of a session in the map `sessions`, and where they are. The program has the same layout.
pub(crate) const SESSION_WORDS: usize = 32;
const GATE: usize = 0;
const WRITTEN: usize = 1;
const HOSTS: usize = 2;
const CLOCK: usize = 3;
const TIMEOUT: usize = 4;
const IS_ANNOUNCEMENT_REQUESTED: usize = 5;
const HOLD_TIME: usize = 6;
const BUSY: usize = 8;
const PASSED: usize = 9;
const ANSWERED_BYTES: usize = 10;
const PACKETS: usize = 11;
const XID: usize = 12;
const BASE: usize = 13;
const FAILED: usize = 14;
const RECEIVED_BYTES: usize = 15;
const RELAYED: usize = 16;
const ARRIVED: usize = 24;
const TIMED: usize = 25;
const LATE: usize = 26;

/// How often the worker looks whether the program runs before it lets another thread run, which may be the one that the program has
/// interrupted.
const SPINS_MAX: u32 = 1000;

/// A gate that is closed. No connection passes so many bytes.
const CLOSED: u64 = u64::MAX;

/// No sequence number is known yet.
const UNKNOWN_BASE: u64 = u64::MAX;

/// Numbers of a template in the map `templates`: the version, then the messages.
pub(crate) const TEMPLATE_WORDS: usize = (8 + FLOW_MOD_MAX + PACKET_OUT_MAX) / 8;

/// Bytes of the longest `FLOW_MOD`.
const FLOW_MOD_MAX: usize = 112;

/// Bytes of the longest `PACKET_OUT` without a frame.
const PACKET_OUT_MAX: usize = 40;

/// The messages that answer a packet-in between known hosts, in the form in which the application encodes them. Transaction id, buffer
/// id, ports, addresses and length are filled in for each answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerForm<'a> {
    /// Version of OpenFlow as in message headers: 1 for 1.0, 4 for 1.3, 5 for 1.4. There is no program for other versions.
    pub version: u8,
    /// The flow entry: a match of ingress port, source, destination and VLAN, in this order, and an output.
    pub flow_mod: &'a [u8],
    /// The `PACKET_OUT` with one output, without its frame.
    pub packet_out: &'a [u8],
    /// What is answered.
    pub rule: AnswerRule,
}

/// Which packet-ins the program answers, and with how many flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerRule {
    /// All between two [published](crate::WorkerAnswers::publish) hosts, with one flow entry.
    Hosts {
        /// Ticks after which a host that was not seen is unknown.
        timeout: u16,
    },
    /// Ordinary packets between two hosts that are [published](crate::WorkerAnswers::publish_path_host) as ends of paths, one packet-in at a
    /// time, with a flow entry for the replies before the other. Each is [reported](crate::WorkerAnswers::next_report).
    Paths {
        /// For how long further packet-ins between both hosts go to the worker. Zero if they need not.
        hold_time: Duration,
    },
}

impl AnswerForm<'_> {
    /// Whether the program answers in this form.
    pub fn is_supported(&self) -> bool {
        let lens = (self.flow_mod.len(), self.packet_out.len());
        match self.version {
            1 => lens == (80, 24),
            4 | 5 => lens == (FLOW_MOD_MAX, PACKET_OUT_MAX),
            _ => false,
        }
    }
}

/// Whether the gate of a session was open before it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It was; the next message has this transaction id.
    WasOpen(u32),
    /// It was closed already.
    WasClosed,
}

/// What the program has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    /// Number of packet-ins.
    pub packet_ins: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Bytes of the answers.
    pub sent_bytes: u64,
}

/// How long answers of the program have waited.
///
/// An answer is sent by a thread of the kernel on the processor that has received the packet-ins, in two steps. The first one is timed, of one
/// buffer at a time. Buffers that are sent behind that one count as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Buffers that were timed, or sent behind one that was.
    pub timed: u64,
    /// Those of them that have waited longer than [`Limits::late`](crate::Limits::late).
    pub late: u64,
}

/// A connection whose packet-ins the program may answer while its gate is open. The worker that owns it closes the gate before it writes.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    slot: u16,
    cookie: u64,
    /// The worker that owns it.
    worker: usize,
    is_open: bool,
    has_form: bool,
    /// Hosts of this session in the table of the owner.
    pub(crate) host_count: usize,
    /// Bytes received from the connection since it has a session.
    received: u64,
    /// Bytes written to it.
    written: u64,
    /// What the socket had taken before.
    taken_before: u64,
    /// Bytes of answers that the socket has taken for certain.
    sent_answers: u64,
}

impl Session {
    /// A session with a slot, of a connection with a cookie, whose socket has taken `taken_before` bytes.
    pub(crate) fn new(shared: Arc<Shared>, (slot, cookie): (u16, u64), taken_before: u64) -> Self {
        let (worker, is_open, has_form, host_count) = (0, false, false, 0);
        let (received, written, sent_answers) = (0, 0, 0);
        Self {
            shared,
            slot,
            cookie,
            worker,
            is_open,
            has_form,
            host_count,
            received,
            written,
            taken_before,
            sent_answers,
        }
    }

    /// A number that no other session has at the same time.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Number of hosts that are published.
    pub fn host_count(&self) -> usize {
        self.host_count
    }

    /// Whether the gate is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        self.shared.session(self.slot, word)
    }

    /// Makes `worker` the owner, which publishes hosts in its own table.
    pub(crate) fn set_owner(&mut self, worker: usize, first_bucket: u64) {
        self.close();
        self.worker = worker;
        self.word(HOSTS).store(first_bucket, Ordering::Relaxed);
        self.word(CLOCK).store(worker as u64, Ordering::Relaxed);
    }

    /// Counts bytes that the worker has received from the connection.
    #[inline]
    pub fn count_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Counts bytes that the worker has written to the connection.
    #[inline]
    pub fn count_written(&mut self, bytes: usize) {
        debug_assert!(!self.is_open, "the gate is closed while the worker writes");
        self.written += bytes as u64;
        self.word(WRITTEN).store(self.written, Ordering::Relaxed);
    }

    /// Sets how packet-ins are answered. The gate is closed. Returns whether it can be opened with this form: not if the program does not know it, and
    /// not while answers are in the relay, since they are written when they leave it.
    pub fn set_form(&mut self, form: &AnswerForm<'_>) -> bool {
        debug_assert!(!self.is_open, "the gate is closed while the form changes");
        self.has_form = form.is_supported() && self.set_messages(form);
        if self.has_form {
            let (timeout, hold_time) = match form.rule {
                AnswerRule::Hosts { timeout } => (timeout, Duration::ZERO),
                AnswerRule::Paths { hold_time } => (u16::MAX, hold_time),
            };
            self.word(TIMEOUT).store(timeout.into(), Ordering::Relaxed);
            let hold_ns = u64::try_from(hold_time.as_nanos()).unwrap_or(u64::MAX / 2);
            self.word(HOLD_TIME).store(hold_ns, Ordering::Relaxed);
        }
        self.has_form
    }

    /// Sets the messages of the answers. Returns `false` if they are others and answers are in the relay.
    fn set_messages(&mut self, form: &AnswerForm<'_>) -> bool {
        let template = self.shared.template(self.slot);
        let (flow_mod, packet_out) = (form.flow_mod.iter(), form.packet_out.iter());
        let padding = FLOW_MOD_MAX.saturating_sub(form.flow_mod.len());
        let is_path = u8::from(matches!(form.rule, AnswerRule::Paths { .. }));
        let bytes = [form.version, is_path, 0, 0, 0, 0, 0, 0].into_iter().chain(flow_mod.copied());
        let bytes = bytes.chain(std::iter::repeat_n(0, padding)).chain(packet_out.copied());
        let bytes: Vec<u8> = bytes.collect();
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |it| u64::from_ne_bytes(*it));
        let words = || template.iter().zip(bytes.chunks_exact(8).map(number));
        if words().all(|(word, number)| word.load(Ordering::Relaxed) == number) {
            return true;
        }
        if Self::is_relaying(&self.shared, self.slot) {
            return false;
        }
        words().for_each(|(word, number)| word.store(number, Ordering::Relaxed));
        true
    }

    /// Lets the program answer, from now on and as long as nothing is passed to the worker. The worker has answered everything that it has
    /// received, which ends with a complete message, and the socket has taken all that it has written.
    ///
    /// Does nothing without a form.
    #[inline]
    pub fn open(&mut self, next_xid: u32) {
        if !self.has_form {
            return;
        }
        self.word(XID).store(next_xid.into(), Ordering::Relaxed);
        self.is_open = true;
        // After everything else, which the program reads after the gate.
        self.word(GATE).store(self.received, Ordering::SeqCst);
    }

    /// Keeps the program from answering. When this returns, the program does not run for this connection, or passes what it got to the
    /// worker.
    ///
    /// # Cost
    /// An exchange and a load if the gate was open. If the program is just running, its time: microseconds, or longer if the kernel has
    /// another thread run in between.
    #[inline]
    pub fn close(&mut self) -> Closed {
        if !self.is_open {
            return Closed::WasClosed;
        }
        self.is_open = false;
        self.word(GATE).swap(CLOSED, Ordering::SeqCst);
        let mut spins = 0;
        while self.word(BUSY).load(Ordering::SeqCst) != 0 {
            spins += 1;
            if spins % SPINS_MAX == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        #[expect(clippy::cast_possible_truncation, reason = "the program counts in 32 bits")]
        let xid = self.word(XID).load(Ordering::Relaxed) as u32;
        Closed::WasOpen(xid)
    }

    /// Has the program announce the next bytes that it passes to the worker ([`WorkerAnswers::next_announced`]), so that the worker need not
    /// wait for the socket, which is readable for a moment with each buffer that the program answers, too. After that, the worker
    /// stops waiting for the socket, and then asks for [`unread_bytes`](Self::unread_bytes), which may have been passed before.
    ///
    /// [`WorkerAnswers::next_announced`]: crate::WorkerAnswers::next_announced
    pub fn request_announcement(&mut self) {
        self.word(IS_ANNOUNCEMENT_REQUESTED).store(1, Ordering::SeqCst);
    }

    /// Takes the request back. An announcement may have been made.
    pub fn cancel_announcement(&mut self) {
        self.word(IS_ANNOUNCEMENT_REQUESTED).store(0, Ordering::SeqCst);
    }

    /// Whether the socket has taken all answers of the program, so that the worker can write. The gate is closed.
    ///
    /// # Cost
    /// Two system calls if the program has answered since the last call.
    ///
    /// # Errors
    /// Those of [`taken_bytes`].
    pub fn are_answers_sent(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let answered = self.word(ANSWERED_BYTES).load(Ordering::Relaxed);
        if answered == self.sent_answers {
            return Ok(true);
        }
        let taken = taken_bytes(socket)?.wrapping_sub(self.taken_before);
        if taken < self.written.wrapping_add(answered) {
            return Ok(false);
        }
        self.sent_answers = answered;
        Ok(true)
    }

    /// What the program has answered since the connection was attached.
    pub fn answered(&self) -> Answered {
        let load = |word| self.word(word).load(Ordering::Relaxed);
        Answered {
            packet_ins: load(PACKETS),
            received_bytes: load(RECEIVED_BYTES),
            sent_bytes: load(ANSWERED_BYTES),
        }
    }

    /// How long answers have waited since the connection was attached.
    pub fn waits(&self) -> Waits {
        let load = |word| self.word(word).load(Ordering::Relaxed);
        Waits { timed: load(TIMED), late: load(LATE) }
    }

    /// Number of bytes that were passed to the worker and that it has not received yet.
    pub fn unread_bytes(&self) -> u64 {
        self.word(PASSED).load(Ordering::SeqCst).saturating_sub(self.received)
    }

    /// Whether the stream has a gap, since the kernel had no memory for a change that it had begun: the connection has to be closed.
    pub fn has_failed(&self) -> bool {
        self.word(FAILED).load(Ordering::Relaxed) != 0
    }

    /// Whether answers of an ended session may still be in the relay, from where they would go to the next one in this slot.
    pub(crate) fn is_relaying(shared: &Shared, slot: u16) -> bool {
        let load = |word| shared.session(slot, word).load(Ordering::SeqCst);
        load(RELAYED) != load(ARRIVED)
    }

    pub(crate) fn clear(shared: &Shared, slot: u16) {
        for word in 0..SESSION_WORDS {
            let value = match word {
                GATE => CLOSED,
                BASE => UNKNOWN_BASE,
                _ => 0,
            };
            shared.session(slot, word).store(value, Ordering::SeqCst);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
        self.shared.end_session(self.slot, self.cookie, self.worker);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;
    use crate::{KernelAnswers, Limits};

    /// The controller's end of a new connection, and the other one.
    fn connect() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let switch = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, switch)
    }

    /// What arrives from the relay goes to the connection in the slot that is written in it.
    #[test]
    fn a_slot_is_free_again_when_the_relay_has_passed_on_what_the_session_has_left_in_it() {
        let (sessions, hosts_per_worker, input_bytes) = (1, 100, 1000);
        let (late, paths) = (None, false);
        let limits = Limits { workers: 1, sessions, hosts_per_worker, input_bytes, late, paths };
        let mut worker = KernelAnswers::load(&limits).unwrap().worker(0).unwrap();
        let (old, new) = (connect(), connect());
        for buffers in 0..3 {
            let session = worker.attach(&old.0).unwrap();
            let (shared, slot) = (session.shared.clone(), session.slot());
            assert!(worker.attach(&new.0).is_err(), "one session at a time");
            shared.session(slot, RELAYED).fetch_add(buffers, Ordering::SeqCst);
            drop(session);
            for left in (1..=buffers).rev() {
                let error = worker.attach(&new.0).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{left} of {buffers}");
                shared.session(slot, ARRIVED).fetch_add(1, Ordering::SeqCst);
            }
            let session = worker.attach(&new.0).unwrap();
            assert_eq!(session.slot(), slot);
            assert_eq!(session.answered(), Answered::default());
            assert!(!Session::is_relaying(&shared, slot));
        }
    }

    /// An answer is written when it leaves the relay.
    #[test]
    fn messages_stay_while_answers_are_in_the_relay() {
        let (sessions, hosts_per_worker, input_bytes) = (1, 100, 1000);
        let (late, paths) = (None, false);
        let limits = Limits { workers: 1, sessions, hosts_per_worker, input_bytes, late, paths };
        let mut worker = KernelAnswers::load(&limits).unwrap().worker(0).unwrap();
        let connection = connect();
        let mut session = worker.attach(&connection.0).unwrap();
        let (flow_mods, packet_out) = ([[1; 80], [2; 80]], &[3; 24]);
        let [old, new] = [0, 1].map(|n| AnswerForm {
            version: 1,
            flow_mod: &flow_mods[n],
            packet_out,
            rule: AnswerRule::Hosts { timeout: 10 },
        });
        assert!(session.set_form(&old));
        session.word(RELAYED).fetch_add(1, Ordering::SeqCst);
        let later = AnswerForm { rule: AnswerRule::Hosts { timeout: 20 }, ..old };
        assert!(session.set_form(&later), "the messages are the same");
        assert!(!session.set_form(&new));
        session.open(1);
        assert!(!session.is_open(), "without a form");
        session.word(ARRIVED).fetch_add(1, Ordering::SeqCst);
        assert!(session.set_form(&new));
        session.open(1);
        assert!(session.is_open());
        session.close();
        let other_version = AnswerForm { version: 3, ..new };
        assert!(!session.set_form(&other_version), "the program does not know it");
    }
}
