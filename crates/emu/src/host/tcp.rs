//! Connections, as far as a network notices them. RFC 9293, RFC 6298.
//!
//! Who opens one sends bytes and closes; who is asked accepts, on every port, and closes when it is closed. Segments
//! are sent again when their time is over or three acknowledgments are alike; the window is fixed, and what comes
//! early is dropped.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use etherparse::{TcpHeader, TcpSlice};
use sluice_base::Rng;

use super::stack::Stack;
use super::timers::Timer;

/// Bytes of data in a segment; with all headers of IPv6 no frame is longer than 1 514.
const SEGMENT_LEN: u64 = 1440;

/// Bytes on their way at most: ten segments, with which real connections begin. RFC 6928.
const WINDOW_LEN: u64 = 10 * SEGMENT_LEN;

/// What is advertised: more than the other end sends.
const WINDOW_ADVERTISED: u16 = 65_535;

/// Time until a segment is sent again, while no round trip was measured, and the least ever. RFC 6298 §2.
const RTO_MIN: Duration = Duration::from_secs(1);

/// The most. RFC 6298 §2.5.
const RTO_MAX: Duration = Duration::from_secs(60);

/// How often in a row a segment is sent again before the connection is given up, as Linux does with SYN.
const RETRIES_MAX: u32 = 6;

/// How long who closed first still answers. RFC 9293 §3.4.1 has minutes, for networks that keep packets as long.
const TIME_WAIT: Duration = Duration::from_secs(4);

/// Connections of one host; more are neither opened nor accepted.
const CONNECTIONS_MAX: usize = 1 << 16;

/// The first port of those that connections are opened from. RFC 6335 §6.
const EPHEMERAL: u16 = 49_152;

/// One connection of a host: its port, the peer, the peer's port.
pub(super) type Key = (u16, IpAddr, u16);

/// What became of a connection that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// What [`Host::connect`](super::Host::connect) called it.
    pub id: u32,
    /// To whom.
    pub to: IpAddr,
    /// When it was asked for.
    pub asked: Instant,
    /// How long until it stood, resolution of the address included; `None` if it never did.
    pub established: Option<Duration>,
    /// How long until all bytes were taken and both ends had closed; `None` if that did not come.
    pub closed: Option<Duration>,
    /// Bytes that the peer took.
    pub taken: u64,
    /// Segments that were sent again.
    pub again: u64,
}

/// All connections of a host.
#[derive(Debug)]
pub(super) struct Tcp {
    open: HashMap<Key, Conn>,
    next_port: u16,
    next_id: u32,
    rng: Rng,
    /// Bytes that came on connections of others.
    pub(super) received: u64,
}

/// Offsets count from the SYN, which is 0; data begins with 1, and the FIN comes after it.
#[derive(Debug)]
struct Conn {
    /// Who opened it: its number. Nobody asks about others.
    id: Option<u32>,
    asked: Instant,
    established: Option<Instant>,
    /// Bytes of data to send.
    len: u64,
    first: u32,
    /// The first offset that the peer has not taken, the next to send, and the highest ever sent.
    taken: u64,
    next: u64,
    highest: u64,
    /// The peer's first number, and how many of its offsets came.
    peer_first: u32,
    heard: u64,
    peer_closed: bool,
    alike: u32,
    retries: u32,
    again: u64,
    /// The offset whose acknowledgment is timed, and since when. Karn: none that was sent twice.
    timed: Option<(u64, Instant)>,
    trip: Option<Trip>,
    rto: Duration,
    /// When it is sent again or forgotten; the timer may come earlier, and is set to `armed`.
    due: Option<Instant>,
    armed: Option<Instant>,
    is_over: bool,
}

/// A smoothed round trip and how much it varies. RFC 6298 §2.
#[derive(Debug, Clone, Copy)]
struct Trip {
    mean: Duration,
    var: Duration,
}

/// What is sent with a segment.
#[derive(Debug, Clone, Copy)]
enum Segment {
    Syn,
    Data(u64),
    Fin,
    Ack,
}

impl Conn {
    fn new(now: Instant, id: Option<u32>, len: u64, first: u32) -> Self {
        Self {
            id,
            asked: now,
            established: None,
            len,
            first,
            taken: 0,
            next: 0,
            highest: 0,
            peer_first: 0,
            heard: 0,
            peer_closed: false,
            alike: 0,
            retries: 0,
            again: 0,
            timed: None,
            trip: None,
            rto: RTO_MIN,
            due: None,
            armed: None,
            is_over: false,
        }
    }

    fn outcome(&self, to: IpAddr, closed: Option<Instant>) -> Option<Connection> {
        Some(Connection {
            id: self.id?,
            to,
            asked: self.asked,
            established: self.established.map(|at| at - self.asked),
            closed: closed.map(|at| at - self.asked),
            taken: self.taken.saturating_sub(1).min(self.len),
            again: self.again,
        })
    }

    /// The offset after everything that is to be sent by now.
    fn end(&self) -> u64 {
        let closes = self.id.is_some() || self.peer_closed;
        1 + self.len + u64::from(closes)
    }

    /// The next segment that may be sent.
    fn next_segment(&self) -> Option<(u64, Segment)> {
        let data_end = 1 + self.len;
        let segment = match self.next {
            0 => Segment::Syn,
            // Nothing goes ahead of the handshake.
            _ if self.taken == 0 || self.heard == 0 => return None,
            n if n - self.taken >= WINDOW_LEN || n >= self.end() => return None,
            n if n < data_end => Segment::Data(SEGMENT_LEN.min(data_end - n)),
            _ => Segment::Fin,
        };
        Some((self.next, segment))
    }

    fn header(&self, key: Key, at: u64, segment: Segment) -> TcpHeader {
        let number = self.first.wrapping_add(low(at));
        let mut header = TcpHeader::new(key.0, key.2, number, WINDOW_ADVERTISED);
        header.syn = matches!(segment, Segment::Syn);
        header.fin = matches!(segment, Segment::Fin);
        if self.heard > 0 {
            header.ack = true;
            header.acknowledgment_number = self.peer_first.wrapping_add(low(self.heard));
        }
        header
    }

    /// Hears what the peer has taken. Whether anything is to be sent again at once.
    fn on_ack(&mut self, now: Instant, number: u32, is_bare: bool) -> bool {
        let more = u64::from(number.wrapping_sub(self.first.wrapping_add(low(self.taken))));
        if more > self.highest - self.taken {
            return false;
        }
        if more == 0 {
            self.alike += u32::from(is_bare && self.highest > self.taken);
            return self.alike == 3;
        }
        self.taken += more;
        self.next = self.next.max(self.taken);
        (self.alike, self.retries) = (0, 0);
        if let Some((_, since)) = self.timed.take_if(|timed| timed.0 < self.taken) {
            self.measure(now - since);
        }
        self.rto = self.trip.map_or(RTO_MIN, |trip| (trip.mean + 4 * trip.var).max(RTO_MIN));
        self.due = (self.taken < self.highest).then(|| now + self.rto);
        false
    }

    fn measure(&mut self, took: Duration) {
        self.trip = Some(match self.trip {
            None => Trip { mean: took, var: took / 2 },
            Some(Trip { mean, var }) => {
                Trip { mean: (7 * mean + took) / 8, var: (3 * var + mean.abs_diff(took)) / 4 }
            }
        });
    }

    /// Hears what a segment carries; whether it must be acknowledged.
    fn on_data(&mut self, tcp: &TcpSlice<'_>, len: u64) -> bool {
        if tcp.syn() && self.heard == 0 {
            (self.peer_first, self.heard) = (tcp.sequence_number(), 1);
            return true;
        }
        let is_next = tcp.sequence_number() == self.peer_first.wrapping_add(low(self.heard))
            && self.heard > 0;
        if is_next && !self.peer_closed {
            self.heard += len + u64::from(tcp.fin());
            self.peer_closed = tcp.fin();
        }
        tcp.syn() || tcp.fin() || len > 0
    }

    fn go_back(&mut self) {
        self.next = self.taken;
        self.timed = None;
    }
}

/// The low half of an offset: sequence numbers wrap.
#[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
const fn low(offset: u64) -> u32 {
    offset as u32
}

impl Tcp {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: HashMap::new(),
            next_port: EPHEMERAL,
            next_id: 0,
            rng: Rng::new(seed),
            received: 0,
        }
    }

    /// Opens a connection; it is handed back at once if there are too many.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        (to, port, len): (IpAddr, u16, u64),
        stack: &mut Stack,
        out: &mut Vec<Vec<u8>>,
    ) -> (u32, Option<Connection>) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let conn = Conn::new(now, Some(id), len, low(self.rng.next_u64()));
        let ports = usize::from(u16::MAX - EPHEMERAL) + 1;
        let mut key = (self.next_port, to, port);
        let mut tried = 0;
        while self.open.contains_key(&key) && tried < ports {
            key.0 = key.0.checked_add(1).unwrap_or(EPHEMERAL);
            tried += 1;
        }
        if tried == ports || self.open.len() >= CONNECTIONS_MAX {
            return (id, conn.outcome(to, None));
        }
        self.next_port = key.0.checked_add(1).unwrap_or(EPHEMERAL);
        self.open.insert(key, conn);
        self.say(now, key, stack, out);
        (id, None)
    }

    /// Hears a segment from `from`; what became of a connection, if this ended it.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        from: IpAddr,
        tcp: &TcpSlice<'_>,
        stack: &mut Stack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Connection> {
        let key = (tcp.destination_port(), from, tcp.source_port());
        let is_request = tcp.syn() && !tcp.ack();
        if !self.open.contains_key(&key) {
            if !is_request || tcp.rst() || self.open.len() >= CONNECTIONS_MAX {
                refuse(now, key, tcp, stack, out);
                return None;
            }
            self.open.insert(key, Conn::new(now, None, 0, low(self.rng.next_u64())));
        }
        let conn = self.open.get_mut(&key)?;
        if tcp.rst() {
            // A late one does not open again what is closed, nor does it fail.
            let failed = if conn.is_over { None } else { conn.outcome(from, None) };
            self.open.remove(&key);
            return failed;
        }
        let len = tcp.payload().len() as u64;
        let before = conn.heard;
        let asks = conn.on_data(tcp, len);
        if conn.id.is_none() && conn.heard > before {
            self.received += len;
        }
        let is_bare = len == 0 && !tcp.syn() && !tcp.fin();
        if tcp.ack() && conn.on_ack(now, tcp.acknowledgment_number(), is_bare) {
            conn.go_back();
        }
        if conn.taken > 0 && conn.heard > 0 && conn.established.is_none() {
            conn.established = Some(now);
        }
        let ended = self.end(now, key);
        let said = self.say(now, key, stack, out);
        if asks && !said {
            self.acknowledge(now, key, stack, out);
        }
        self.forget(key);
        ended
    }

    /// Sends again what was not acknowledged, or forgets what is over.
    pub(super) fn on_time(
        &mut self,
        now: Instant,
        key: Key,
        stack: &mut Stack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Connection> {
        let conn = self.open.get_mut(&key)?;
        conn.armed = None;
        match conn.due {
            Some(due) if due <= now => {}
            due => {
                if let Some(due) = due {
                    arm(conn, due, key, stack);
                }
                return None;
            }
        }
        if conn.is_over || conn.retries >= RETRIES_MAX {
            let failed = if conn.is_over { None } else { conn.outcome(key.1, None) };
            self.open.remove(&key);
            return failed;
        }
        conn.retries += 1;
        conn.rto = (conn.rto * 2).min(RTO_MAX);
        conn.go_back();
        self.say(now, key, stack, out);
        None
    }

    /// Connections that are neither closed nor given up.
    pub(super) fn len(&self) -> usize {
        self.open.values().filter(|conn| !conn.is_over).count()
    }

    /// Sends what may be sent; whether that was anything.
    fn say(&mut self, now: Instant, key: Key, stack: &mut Stack, out: &mut Vec<Vec<u8>>) -> bool {
        let Some(conn) = self.open.get_mut(&key) else { return false };
        let mut said = false;
        while let Some((at, segment)) = conn.next_segment() {
            let len = if let Segment::Data(len) = segment { len } else { 0 };
            let data = ZEROS.get(..usize::try_from(len).unwrap_or_default()).unwrap_or_default();
            let header = conn.header(key, at, segment);
            stack.send(now, key.1, out, |route| route.tcp(header, data));
            conn.next += len.max(1);
            if at < conn.highest {
                conn.again += 1;
            } else if conn.timed.is_none() {
                conn.timed = Some((at, now));
            }
            conn.highest = conn.highest.max(conn.next);
            said = true;
        }
        if said && conn.due.is_none_or(|due| due <= now) {
            conn.due = Some(now + conn.rto);
        }
        if let Some(due) = conn.due {
            arm(conn, due, key, stack);
        }
        said
    }

    fn acknowledge(&mut self, now: Instant, key: Key, stack: &mut Stack, out: &mut Vec<Vec<u8>>) {
        let Some(conn) = self.open.get(&key).filter(|conn| conn.heard > 0) else { return };
        let header = conn.header(key, conn.next, Segment::Ack);
        stack.send(now, key.1, out, |route| route.tcp(header, &[]));
    }

    /// Sees whether both ends have closed and all was taken.
    fn end(&mut self, now: Instant, key: Key) -> Option<Connection> {
        let conn = self.open.get_mut(&key)?;
        let is_over = conn.peer_closed && conn.taken == conn.len + 2;
        if !is_over || std::mem::replace(&mut conn.is_over, true) {
            return None;
        }
        conn.due = Some(now + TIME_WAIT);
        conn.outcome(key.1, Some(now))
    }

    /// Who accepted a connection has nothing to wait for when it is over.
    fn forget(&mut self, key: Key) {
        if self.open.get(&key).is_some_and(|conn| conn.is_over && conn.id.is_none()) {
            self.open.remove(&key);
        }
    }
}

/// What is sent: nobody looks at it.
const ZEROS: [u8; 1440] = [0; 1440];

const _: () = assert!(ZEROS.len() as u64 == SEGMENT_LEN);

/// Sets a timer, unless one comes no later.
fn arm(conn: &mut Conn, due: Instant, key: Key, stack: &mut Stack) {
    if conn.armed.is_none_or(|armed| armed > due) {
        conn.armed = Some(due);
        stack.timers.set(due, Timer::Tcp(key));
    }
}

/// Answers a segment of a connection that is not there. RFC 9293 §3.10.7.1.
fn refuse(now: Instant, key: Key, tcp: &TcpSlice<'_>, stack: &mut Stack, out: &mut Vec<Vec<u8>>) {
    if tcp.rst() || !tcp.ack() {
        return;
    }
    let mut header = TcpHeader::new(key.0, key.2, tcp.acknowledgment_number(), 0);
    header.rst = true;
    stack.send(now, key.1, out, |route| route.tcp(header, &[]));
}
