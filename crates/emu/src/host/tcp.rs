//! A simple TCP, sufficient to load a network realistically. RFC 9293, RFC 6298.
//!
//! The side that opens a connection sends bytes and closes it. The other side accepts on every port, and closes when
//! the first one does. Segments are retransmitted after a timeout or three duplicate acknowledgments. The window is
//! fixed, and segments out of order are dropped.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use etherparse::{TcpHeader, TcpSlice};
use sluice_base::{HashMap, Rng};

use super::ip_stack::IpStack;
use super::timers::Timer;

/// Bytes of data in a segment; with IPv6 headers, a frame has 1514 bytes.
const SEGMENT_LEN: u64 = 1440;

/// Most bytes in flight: the usual initial window of ten segments. RFC 6928.
const WINDOW_LEN: u64 = 10 * SEGMENT_LEN;

/// The advertised window, which is larger than what the peer sends.
const WINDOW_ADVERTISED: u16 = 65_535;

/// Retransmission timeout before the first measurement, and the smallest one. RFC 6298 §2.
const RTO_MIN: Duration = Duration::from_secs(1);

/// Longest retransmission timeout. RFC 6298 §2.5.
const RTO_MAX: Duration = Duration::from_secs(60);

/// Retransmissions in a row before the connection is given up, as Linux does for SYN.
const RETRIES_MAX: u32 = 6;

/// How long the side that closed first still answers. RFC 9293 §3.4.1 has minutes, for networks that delay packets as
/// long.
const TIME_WAIT: Duration = Duration::from_secs(4);

/// Most connections of a host; further ones are neither opened nor accepted.
const CONNECTIONS_MAX: usize = 1 << 16;

/// First port number for outgoing connections. RFC 6335 §6.
const EPHEMERAL_PORT_MIN: u16 = 49_152;

/// Local port, remote address, remote port.
pub(super) type TcpKey = (u16, IpAddr, u16);

/// The result of a connection that a host opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpResult {
    /// The number that [`Host::connect`](super::Host::connect) returned.
    pub id: u32,
    /// Remote address.
    pub to: IpAddr,
    /// When the connection was requested.
    pub opened_at: Instant,
    /// Time until it was established, including address resolution; `None` if it never was.
    pub established: Option<Duration>,
    /// Time until all bytes were acknowledged and both sides had closed; `None` if that did not happen.
    pub closed: Option<Duration>,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Segments that were retransmitted.
    pub retransmissions: u64,
}

/// All connections of a host.
#[derive(Debug)]
pub(super) struct TcpConnections {
    open: HashMap<TcpKey, TcpConnection>,
    next_port: u16,
    next_id: u32,
    rng: Rng,
    /// Bytes received on connections that others opened.
    pub(super) received: u64,
}

/// A connection. Offsets count from the SYN, which is 0; data starts at 1, and the FIN follows the data.
#[derive(Debug)]
struct TcpConnection {
    /// The connection's number; `None` if the peer opened it.
    id: Option<u32>,
    opened_at: Instant,
    established: Option<Instant>,
    /// Bytes of data to send.
    len: u64,
    initial_seq: u32,
    /// First unacknowledged offset, next offset to send, highest offset ever sent.
    acked: u64,
    next: u64,
    highest: u64,
    /// The peer's initial sequence number, and the number of its offsets received.
    peer_initial_seq: u32,
    received: u64,
    peer_closed: bool,
    duplicate_acks: u32,
    retries: u32,
    retransmissions: u64,
    /// The offset whose round trip is measured, and since when; never a retransmitted one (Karn's algorithm).
    timed: Option<(u64, Instant)>,
    rtt: Option<RttEstimate>,
    rto: Duration,
    /// When it must be retransmitted or removed; the timer may fire earlier, and is set to `armed`.
    due: Option<Instant>,
    armed: Option<Instant>,
    is_over: bool,
}

/// Smoothed round-trip time and its variation. RFC 6298 §2.
#[derive(Debug, Clone, Copy)]
struct RttEstimate {
    mean: Duration,
    var: Duration,
}

/// What a segment carries.
#[derive(Debug, Clone, Copy)]
enum SegmentKind {
    Syn,
    Data(u64),
    Fin,
    Ack,
}

impl TcpConnection {
    fn new(now: Instant, id: Option<u32>, len: u64, initial_seq: u32) -> Self {
        Self {
            id,
            opened_at: now,
            established: None,
            len,
            initial_seq,
            acked: 0,
            next: 0,
            highest: 0,
            peer_initial_seq: 0,
            received: 0,
            peer_closed: false,
            duplicate_acks: 0,
            retries: 0,
            retransmissions: 0,
            timed: None,
            rtt: None,
            rto: RTO_MIN,
            due: None,
            armed: None,
            is_over: false,
        }
    }

    fn result(&self, to: IpAddr, closed: Option<Instant>) -> Option<TcpResult> {
        Some(TcpResult {
            id: self.id?,
            to,
            opened_at: self.opened_at,
            established: self.established.map(|at| at - self.opened_at),
            closed: closed.map(|at| at - self.opened_at),
            bytes_acked: self.acked.saturating_sub(1).min(self.len),
            retransmissions: self.retransmissions,
        })
    }

    /// The offset after everything that may be sent so far.
    fn end(&self) -> u64 {
        let closes = self.id.is_some() || self.peer_closed;
        1 + self.len + u64::from(closes)
    }

    /// The next segment that may be sent.
    fn next_segment(&self) -> Option<(u64, SegmentKind)> {
        let data_end = 1 + self.len;
        let segment = match self.next {
            0 => SegmentKind::Syn,
            // No data before the handshake is complete.
            _ if self.acked == 0 || self.received == 0 => return None,
            n if n - self.acked >= WINDOW_LEN || n >= self.end() => return None,
            n if n < data_end => SegmentKind::Data(SEGMENT_LEN.min(data_end - n)),
            _ => SegmentKind::Fin,
        };
        Some((self.next, segment))
    }

    fn header(&self, key: TcpKey, at: u64, segment: SegmentKind) -> TcpHeader {
        let number = self.initial_seq.wrapping_add(low_32(at));
        let mut header = TcpHeader::new(key.0, key.2, number, WINDOW_ADVERTISED);
        header.syn = matches!(segment, SegmentKind::Syn);
        header.fin = matches!(segment, SegmentKind::Fin);
        if self.received > 0 {
            header.ack = true;
            header.acknowledgment_number =
                self.peer_initial_seq.wrapping_add(low_32(self.received));
        }
        header
    }

    /// Handles an acknowledgment; `true` if a fast retransmission is needed.
    fn on_ack(&mut self, now: Instant, number: u32, is_bare: bool) -> bool {
        let more =
            u64::from(number.wrapping_sub(self.initial_seq.wrapping_add(low_32(self.acked))));
        if more > self.highest - self.acked {
            return false;
        }
        if more == 0 {
            self.duplicate_acks += u32::from(is_bare && self.highest > self.acked);
            return self.duplicate_acks == 3;
        }
        self.acked += more;
        self.next = self.next.max(self.acked);
        (self.duplicate_acks, self.retries) = (0, 0);
        if let Some((_, since)) = self.timed.take_if(|timed| timed.0 < self.acked) {
            self.record_rtt(now - since);
        }
        self.rto = self.rtt.map_or(RTO_MIN, |rtt| (rtt.mean + 4 * rtt.var).max(RTO_MIN));
        self.due = (self.acked < self.highest).then(|| now + self.rto);
        false
    }

    fn record_rtt(&mut self, took: Duration) {
        self.rtt = Some(match self.rtt {
            None => RttEstimate { mean: took, var: took / 2 },
            Some(RttEstimate { mean, var }) => RttEstimate {
                mean: (7 * mean + took) / 8,
                var: (3 * var + mean.abs_diff(took)) / 4,
            },
        });
    }

    /// Handles the data of a segment; `true` if it must be acknowledged.
    fn on_data(&mut self, tcp: &TcpSlice<'_>, len: u64) -> bool {
        if tcp.syn() && self.received == 0 {
            (self.peer_initial_seq, self.received) = (tcp.sequence_number(), 1);
            return true;
        }
        let is_next = tcp.sequence_number()
            == self.peer_initial_seq.wrapping_add(low_32(self.received))
            && self.received > 0;
        if is_next && !self.peer_closed {
            self.received += len + u64::from(tcp.fin());
            self.peer_closed = tcp.fin();
        }
        tcp.syn() || tcp.fin() || len > 0
    }

    fn retransmit_from_acked(&mut self) {
        self.next = self.acked;
        self.timed = None;
    }
}

/// The low 32 bits of an offset; sequence numbers wrap.
#[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
const fn low_32(offset: u64) -> u32 {
    offset as u32
}

impl TcpConnections {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: HashMap::default(),
            next_port: EPHEMERAL_PORT_MIN,
            next_id: 0,
            rng: Rng::new(seed),
            received: 0,
        }
    }

    /// Opens a connection; returns its failure at once if there are too many.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        (to, port, len): (IpAddr, u16, u64),
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) -> (u32, Option<TcpResult>) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let conn = TcpConnection::new(now, Some(id), len, low_32(self.rng.next_u64()));
        let ports = usize::from(u16::MAX - EPHEMERAL_PORT_MIN) + 1;
        let mut key = (self.next_port, to, port);
        let mut tried = 0;
        while self.open.contains_key(&key) && tried < ports {
            key.0 = key.0.checked_add(1).unwrap_or(EPHEMERAL_PORT_MIN);
            tried += 1;
        }
        if tried == ports || self.open.len() >= CONNECTIONS_MAX {
            return (id, conn.result(to, None));
        }
        self.next_port = key.0.checked_add(1).unwrap_or(EPHEMERAL_PORT_MIN);
        self.open.insert(key, conn);
        self.send_pending(now, key, stack, out);
        (id, None)
    }

    /// Handles a segment from `from`; returns the result of a connection that it ends.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        from: IpAddr,
        tcp: &TcpSlice<'_>,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<TcpResult> {
        let key = (tcp.destination_port(), from, tcp.source_port());
        let is_request = tcp.syn() && !tcp.ack();
        if !self.open.contains_key(&key) {
            if !is_request || tcp.rst() || self.open.len() >= CONNECTIONS_MAX {
                send_reset(now, key, tcp, stack, out);
                return None;
            }
            self.open.insert(key, TcpConnection::new(now, None, 0, low_32(self.rng.next_u64())));
        }
        let conn = self.open.get_mut(&key)?;
        if tcp.rst() {
            // A late reset neither reopens a closed connection nor makes it fail.
            let failed = if conn.is_over { None } else { conn.result(from, None) };
            self.open.remove(&key);
            return failed;
        }
        let len = tcp.payload().len() as u64;
        let before = conn.received;
        let wants_ack = conn.on_data(tcp, len);
        if conn.id.is_none() && conn.received > before {
            self.received += len;
        }
        let is_bare = len == 0 && !tcp.syn() && !tcp.fin();
        if tcp.ack() && conn.on_ack(now, tcp.acknowledgment_number(), is_bare) {
            conn.retransmit_from_acked();
        }
        if conn.acked > 0 && conn.received > 0 && conn.established.is_none() {
            conn.established = Some(now);
        }
        let ended = self.check_closed(now, key);
        let sent = self.send_pending(now, key, stack, out);
        if wants_ack && !sent {
            self.acknowledge(now, key, stack, out);
        }
        self.remove_if_over(key);
        ended
    }

    /// Retransmits unacknowledged segments, or removes a closed connection.
    pub(super) fn on_timer(
        &mut self,
        now: Instant,
        key: TcpKey,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<TcpResult> {
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
            let failed = if conn.is_over { None } else { conn.result(key.1, None) };
            self.open.remove(&key);
            return failed;
        }
        conn.retries += 1;
        conn.rto = (conn.rto * 2).min(RTO_MAX);
        conn.retransmit_from_acked();
        self.send_pending(now, key, stack, out);
        None
    }

    /// Number of connections that are neither closed nor given up.
    pub(super) fn len(&self) -> usize {
        self.open.values().filter(|conn| !conn.is_over).count()
    }

    /// Sends what may be sent; `true` if that was anything.
    fn send_pending(
        &mut self,
        now: Instant,
        key: TcpKey,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let Some(conn) = self.open.get_mut(&key) else { return false };
        let mut sent = false;
        while let Some((at, segment)) = conn.next_segment() {
            let len = if let SegmentKind::Data(len) = segment { len } else { 0 };
            let data = ZEROS.get(..usize::try_from(len).unwrap_or_default()).unwrap_or_default();
            let header = conn.header(key, at, segment);
            stack.send(now, key.1, out, |route| route.tcp(header, data));
            conn.next += len.max(1);
            if at < conn.highest {
                conn.retransmissions += 1;
            } else if conn.timed.is_none() {
                conn.timed = Some((at, now));
            }
            conn.highest = conn.highest.max(conn.next);
            sent = true;
        }
        if sent && conn.due.is_none_or(|due| due <= now) {
            conn.due = Some(now + conn.rto);
        }
        if let Some(due) = conn.due {
            arm(conn, due, key, stack);
        }
        sent
    }

    fn acknowledge(
        &mut self,
        now: Instant,
        key: TcpKey,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) {
        let Some(conn) = self.open.get(&key).filter(|conn| conn.received > 0) else { return };
        let header = conn.header(key, conn.next, SegmentKind::Ack);
        stack.send(now, key.1, out, |route| route.tcp(header, &[]));
    }

    /// Checks whether both sides have closed and all data is acknowledged.
    fn check_closed(&mut self, now: Instant, key: TcpKey) -> Option<TcpResult> {
        let conn = self.open.get_mut(&key)?;
        let is_over = conn.peer_closed && conn.acked == conn.len + 2;
        if !is_over || std::mem::replace(&mut conn.is_over, true) {
            return None;
        }
        conn.due = Some(now + TIME_WAIT);
        conn.result(key.1, Some(now))
    }

    /// The accepting side need not wait after a connection has ended.
    fn remove_if_over(&mut self, key: TcpKey) {
        if self.open.get(&key).is_some_and(|conn| conn.is_over && conn.id.is_none()) {
            self.open.remove(&key);
        }
    }
}

/// The data that is sent; its contents do not matter.
const ZEROS: [u8; 1440] = [0; 1440];

const _: () = assert!(ZEROS.len() as u64 == SEGMENT_LEN);

/// Sets a timer, unless an earlier one is set.
fn arm(conn: &mut TcpConnection, due: Instant, key: TcpKey, stack: &mut IpStack) {
    if conn.armed.is_none_or(|armed| armed > due) {
        conn.armed = Some(due);
        stack.timers.set(due, Timer::Tcp(key));
    }
}

/// Answers a segment of an unknown connection with a reset. RFC 9293 §3.10.7.1.
fn send_reset(
    now: Instant,
    key: TcpKey,
    tcp: &TcpSlice<'_>,
    stack: &mut IpStack,
    out: &mut Vec<Vec<u8>>,
) {
    if tcp.rst() || !tcp.ack() {
        return;
    }
    let mut header = TcpHeader::new(key.0, key.2, tcp.acknowledgment_number(), 0);
    header.rst = true;
    stack.send(now, key.1, out, |route| route.tcp(header, &[]));
}
