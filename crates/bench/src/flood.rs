//! Connection flood: opens TCP connections that never become switches, or not for long.

use std::collections::VecDeque;
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_base::Rng;
use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, clock, limits, sock};
use sluice_openflow::{DatapathId, Version, split_message};
use sluice_proto::{SwitchProfile, SwitchSession};

use crate::Error;
use crate::latency::histogram;
use crate::plan::DAY;
use crate::schedule::{Arrivals, Schedule};
use crate::text_report::{counted, short_time};

/// Length of the random payload in bytes.
const RANDOM_LEN: usize = 512;

/// Interval between two bytes of [`Payload::SlowHello`].
const SLOW_INTERVAL: Duration = Duration::from_millis(500);

/// File descriptors needed in addition to one per connection.
const FILES_SPARE: u64 = 64;

/// A `HELLO` of OpenFlow 1.0.
const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 1];

/// Connections opened before events are handled again, if the flood is slower than it should be.
const OPENED_AT_ONCE: usize = 256;

/// Datapath id of the first switch of [`Payload::Handshake`]; each further one has the next.
const FIRST_DATAPATH_ID: u64 = 0xf100_d000_0000_0000;

/// Length of the random number in a `ClientHello`.
const TLS_RANDOM_LEN: usize = 32;

/// A `ClientHello` of TLS 1.2 up to its random number (RFC 5246, section 7.4.1.2), in a record (section 6.2.1).
const TLS_HEAD: [u8; 11] = [22, 3, 1, 0, 77, 1, 0, 0, 73, 3, 3];

/// The rest of it: no session, ECDHE with AES-128-GCM and a certificate for ECDSA or RSA, no compression, and as extensions the curves x25519 and
/// secp256r1 (10), uncompressed points (11) and the signatures ECDSA, PSS and PKCS #1 with SHA-256 (13).
const TLS_REST: [u8; 39] = [
    0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0, 0, 28, //
    0, 10, 0, 6, 0, 4, 0, 29, 0, 23, //
    0, 11, 0, 2, 1, 0, //
    0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1,
];

/// What is sent on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    Nothing,
    /// Random bytes.
    Random,
    /// A `HELLO`, then nothing.
    Hello,
    /// A `HELLO`, one byte every half second.
    SlowHello,
    /// The `ClientHello` of a TLS handshake, then nothing.
    TlsHello,
    /// The whole handshake of a switch with a datapath id of its own, which then leaves at once.
    Handshake,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address of the controller.
    pub target: SocketAddr,
    /// Connections opened per second.
    pub rate: f64,
    /// Longest duration of the flood.
    pub time: Duration,
    /// Ends the flood earlier, when it is set.
    pub is_over: Arc<AtomicBool>,
    /// How long each connection stays open; `None` for until the end.
    pub hold: Option<Duration>,
    /// Maximum number of open connections; beyond it, the oldest one is closed.
    pub open_max: usize,
    /// What is sent on each connection.
    pub payload: Payload,
    /// Seed of the random bytes.
    pub seed: u64,
    /// Options of the sockets.
    pub socket: sock::Options,
}

/// The result of a flood.
///
/// `attempted = refused + failed + closed_by_controller + closed_by_us + open_at_end`.
#[derive(Debug, Clone)]
pub struct Report {
    /// Connection attempts.
    pub attempted: u64,
    /// Connections that were established.
    pub established: u64,
    /// Established connections that the controller closed.
    pub closed_by_controller: u64,
    /// How long those were open, nanoseconds.
    pub closed_after_ns: Histogram<u64>,
    /// Connections closed by this end, because they had been open long enough or there were too many.
    pub closed_by_us: u64,
    /// Connections open at the end.
    pub open_at_end: u64,
    /// Attempts that were refused.
    pub refused: u64,
    /// Attempts that failed otherwise, or were still pending at the end.
    pub failed: u64,
    /// Bytes received from the controller.
    pub bytes_received: u64,
    /// Duration of the flood.
    pub elapsed: Duration,
}

/// Carries out `plan`.
///
/// # Errors
/// The plan is invalid, or the operating system refuses something.
pub fn run(plan: &Plan) -> Result<Report, Error> {
    if plan.time > DAY {
        return Err(Error::Plan(format!(
            "invalid value {} for --seconds: expected at most 86400 s",
            plan.time.as_secs()
        )));
    }
    if !(plan.rate > 0.0 && plan.rate <= 1e6) {
        return Err(Error::Plan(format!(
            "invalid value {} for --rate: expected more than 0 and at most 1e6 connections per second",
            plan.rate
        )));
    }
    let needed = (plan.open_max as u64).saturating_add(FILES_SPARE);
    let allowed = limits::raise_open_files(needed);
    if allowed < needed {
        return Err(Error::OpenFiles { needed, allowed });
    }
    Flood::new(plan)?.run()
}

struct Flood<'p> {
    plan: &'p Plan,
    io: Epoll,
    connections: Vec<Option<FloodConnection>>,
    /// In the order of their opening; some are closed already.
    order: VecDeque<(Instant, ConnId)>,
    open: usize,
    random: Vec<u8>,
    /// What is to be sent.
    tx: Vec<u8>,
    report: Report,
}

#[derive(Debug)]
struct FloodConnection {
    id: ConnId,
    established: Option<Instant>,
    /// Bytes of `HELLO` sent.
    sent: usize,
    /// The switch of [`Payload::Handshake`].
    switch: Option<LeavingSwitch>,
}

/// A switch of OpenFlow 1.0 that leaves when it has sent `FEATURES_REPLY`, which completes the handshake in this version.
#[derive(Debug)]
struct LeavingSwitch {
    session: SwitchSession,
    /// An incomplete message.
    received: Vec<u8>,
}

impl LeavingSwitch {
    /// Appends its `HELLO` to `tx`.
    fn new(number: u64, tx: &mut Vec<u8>) -> Self {
        let profile = SwitchProfile {
            datapath_id: DatapathId(FIRST_DATAPATH_ID.wrapping_add(number)),
            version: Version::V1_0,
            n_ports: 0,
            n_buffers: 0,
        };
        Self { session: SwitchSession::open(profile, tx), received: Vec::new() }
    }

    /// Processes what the controller sends; appends answers to `tx`. Whether it leaves now.
    fn receive(&mut self, bytes: &[u8], tx: &mut Vec<u8>) -> bool {
        self.received.extend_from_slice(bytes);
        let mut rest = &*self.received;
        while !self.session.is_ready() {
            match split_message(rest) {
                Ok(Some((message, after))) => {
                    if self.session.on_message(message, tx).is_err() {
                        return true;
                    }
                    rest = after;
                }
                Ok(None) => break,
                Err(_) => return true,
            }
        }
        let processed = self.received.len() - rest.len();
        self.received.drain(..processed);
        self.session.is_ready()
    }
}

impl<'p> Flood<'p> {
    fn new(plan: &'p Plan) -> Result<Self, Error> {
        let mut rng = Rng::new(plan.seed);
        let words = std::iter::repeat_with(|| rng.next_u64().to_ne_bytes());
        Ok(Self {
            plan,
            io: Epoll::new(WaitStrategy::default())?,
            connections: Vec::new(),
            order: VecDeque::new(),
            open: 0,
            random: words.take(RANDOM_LEN / 8).flatten().collect(),
            tx: Vec::new(),
            report: Report {
                attempted: 0,
                established: 0,
                closed_by_controller: 0,
                closed_after_ns: histogram(),
                closed_by_us: 0,
                open_at_end: 0,
                refused: 0,
                failed: 0,
                bytes_received: 0,
                elapsed: Duration::ZERO,
            },
        })
    }

    fn run(mut self) -> Result<Report, Error> {
        let start = clock::now();
        let mut schedule = Schedule::new(start, self.plan.rate, Arrivals::Fixed, 0);
        let end = start + self.plan.time;
        let is_slow = self.plan.payload == Payload::SlowHello;
        let mut now = start;
        let mut next_byte = start;
        while now < end && !self.plan.is_over.load(Ordering::Relaxed) {
            for _ in 0..OPENED_AT_ONCE {
                if schedule.next_due() > now {
                    break;
                }
                self.open_connection(now)?;
                schedule.advance();
            }
            self.close_held(now);
            if is_slow && now >= next_byte {
                self.send_next_byte();
                next_byte = now + SLOW_INTERVAL;
            }
            let due = schedule.next_due();
            let held = self.plan.hold.and_then(|hold| Some(self.order.front()?.0 + hold));
            let wake = [Some(end), Some(due), held, Some(next_byte).filter(|_| is_slow)];
            now = self.io.wait(wake.into_iter().flatten().min())?;
            while self.handle_event() {}
        }
        let established =
            self.connections.iter().flatten().filter(|c| c.established.is_some()).count();
        self.report.open_at_end = established as u64;
        self.report.failed += (self.open - established) as u64;
        self.report.elapsed = clock::now() - start;
        for (_, id) in std::mem::take(&mut self.order) {
            self.close(id);
        }
        Ok(self.report)
    }

    fn open_connection(&mut self, now: Instant) -> Result<(), Error> {
        self.report.attempted += 1;
        while self.open >= self.plan.open_max {
            let Some((_, oldest)) = self.order.pop_front() else { break };
            self.report.closed_by_us += u64::from(self.close(oldest));
        }
        let stream = match sock::start_connect(self.plan.target, &self.plan.socket) {
            Ok(stream) => stream,
            Err(e) => {
                self.report.refused += u64::from(e.kind() == ErrorKind::ConnectionRefused);
                self.report.failed += u64::from(e.kind() != ErrorKind::ConnectionRefused);
                return Ok(());
            }
        };
        let id = self.io.adopt_connecting(stream)?;
        if self.connections.len() <= id.slot() {
            self.connections.resize_with(id.slot() + 1, || None);
        }
        if let Some(slot) = self.connections.get_mut(id.slot()) {
            *slot = Some(FloodConnection { id, established: None, sent: 0, switch: None });
        }
        self.order.push_back((now, id));
        self.open += 1;
        Ok(())
    }

    /// Closes the connections that have been open for `hold`.
    fn close_held(&mut self, now: Instant) {
        let Some(hold) = self.plan.hold else { return };
        while let Some(&(opened, id)) = self.order.front() {
            if now < opened + hold {
                return;
            }
            self.order.pop_front();
            self.report.closed_by_us += u64::from(self.close(id));
        }
    }

    /// Resets a connection, which leaves no `TIME_WAIT` state; `true` if it was still open.
    fn close(&mut self, id: ConnId) -> bool {
        if self.remove(id).is_none() {
            return false;
        }
        if let Some(connection) = self.io.release(id) {
            sock::reset(connection.stream());
        }
        true
    }

    fn remove(&mut self, id: ConnId) -> Option<FloodConnection> {
        let slot = self.connections.get_mut(id.slot())?;
        let connection = slot.take_if(|connection| connection.id == id)?;
        self.open -= 1;
        Some(connection)
    }

    /// Handles the next event; `false` if there is none.
    fn handle_event(&mut self) -> bool {
        let Some(event) = self.io.next_event() else { return false };
        match event {
            IoEvent::Connected(id) => self.on_connected(id),
            IoEvent::Data(id, bytes) => {
                self.report.bytes_received += bytes.len() as u64;
                let connection = self.connections.get_mut(id.slot()).and_then(Option::as_mut);
                if let Some(switch) = connection.and_then(|it| it.switch.as_mut()) {
                    let leaves = switch.receive(bytes, &mut self.tx);
                    self.send(id);
                    if leaves && self.remove(id).is_some() {
                        // Without a reset, which could overtake what was sent.
                        self.io.close(id);
                        self.report.closed_by_us += 1;
                    }
                }
            }
            IoEvent::Closed(id, error) => {
                match self.remove(id).and_then(|connection| connection.established) {
                    Some(established) => {
                        self.report.closed_by_controller += 1;
                        let ns = (clock::now() - established).as_nanos();
                        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                        self.report.closed_after_ns.saturating_record(ns);
                    }
                    None if error == Some(ErrorKind::ConnectionRefused.into()) => {
                        self.report.refused += 1;
                    }
                    None => self.report.failed += 1,
                }
            }
            _ => {}
        }
        true
    }

    fn on_connected(&mut self, id: ConnId) {
        let number = self.report.established;
        self.report.established += 1;
        let Some(Some(connection)) = self.connections.get_mut(id.slot()) else { return };
        connection.established = Some(clock::now());
        match self.plan.payload {
            Payload::Nothing | Payload::SlowHello => {}
            Payload::Hello => self.tx.extend(HELLO),
            Payload::Random => self.tx.extend(&self.random),
            Payload::TlsHello => self.tx.extend(client_hello(&self.random)),
            Payload::Handshake => {
                connection.switch = Some(LeavingSwitch::new(number, &mut self.tx));
            }
        }
        self.send(id);
    }

    /// Sends what is in `tx`. A new connection has room for it.
    fn send(&mut self, id: ConnId) {
        if !self.tx.is_empty() {
            self.io.send(id, &self.tx);
            self.tx.clear();
        }
    }

    /// Sends the next byte of the `HELLO` on every connection.
    fn send_next_byte(&mut self) {
        let established = self.connections.iter_mut().flatten();
        for connection in established.filter(|connection| connection.established.is_some()) {
            if let Some(byte) = HELLO.get(connection.sent..connection.sent + 1) {
                connection.sent += self.io.send(connection.id, byte);
            }
        }
    }
}

/// The record of [`Payload::TlsHello`].
fn client_hello(random: &[u8]) -> impl Iterator<Item = u8> {
    TLS_HEAD.into_iter().chain(random.iter().copied().take(TLS_RANDOM_LEN)).chain(TLS_REST)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = crate::statistics::per_second(self.attempted, self.elapsed);
        let attempts = counted(self.attempted, "attempt", "attempts");
        writeln!(f, "Connections  {attempts} in {}, {rate:.0}/s", short_time(self.elapsed))?;
        writeln!(f, "Established  {}", self.established)?;
        writeln!(f, "Refused      {}, failed otherwise {}", self.refused, self.failed)?;
        write!(f, "Closed       {} by the controller", self.closed_by_controller)?;
        if self.closed_by_controller > 0 {
            let [median, max] = [0.5, 1.0].map(|q| {
                short_time(Duration::from_nanos(self.closed_after_ns.value_at_quantile(q)))
            });
            write!(f, " (after: median {median}, max {max})")?;
        }
        writeln!(f, ", {} by this end", self.closed_by_us)?;
        writeln!(f, "Open         {} at the end", self.open_at_end)?;
        let received = counted(self.bytes_received, "byte", "bytes");
        writeln!(f, "Received     {received} from the controller")
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::Versions;
    use sluice_proto::{Config, ControllerEvent, ControllerSession};

    use super::*;

    #[test]
    fn lengths_of_the_client_hello_are_right() {
        let hello: Vec<_> = client_hello(&[7; RANDOM_LEN]).collect();
        let record = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
        let handshake = usize::from(u16::from_be_bytes([hello[7], hello[8]]));
        assert_eq!((5 + record, 9 + handshake), (hello.len(), hello.len()));
        assert_eq!(hello[11..43], [7; TLS_RANDOM_LEN]);
        let extensions = usize::from(u16::from_be_bytes([hello[52], hello[53]]));
        assert_eq!(54 + extensions, hello.len());
    }

    #[test]
    fn a_switch_leaves_when_the_controller_knows_its_features_whatever_the_reads_are() {
        for read in [1, 3, 8, 1000] {
            let (mut to_controller, mut to_switch, now) = (Vec::new(), Vec::new(), clock::now());
            let mut switch = LeavingSwitch::new(5, &mut to_controller);
            let config = Config { versions: Versions::SUPPORTED, ..Config::default() };
            let mut controller = ControllerSession::open(&config, 1, now, &mut to_switch);
            let (mut has_left, mut datapath_id) = (false, None);
            while !has_left {
                let sent = std::mem::take(&mut to_switch);
                assert!(!sent.is_empty(), "the handshake goes on");
                has_left = sent.chunks(read).any(|read| switch.receive(read, &mut to_controller));
                let received = std::mem::take(&mut to_controller);
                let mut rest = &*received;
                while let Some((message, after)) = split_message(rest).unwrap() {
                    let event = controller.on_message(&config, message, &mut to_switch);
                    if let Some(ControllerEvent::SwitchConnected(features)) = event.unwrap() {
                        datapath_id = Some(features.datapath_id);
                    }
                    rest = after;
                }
            }
            assert_eq!(datapath_id, Some(DatapathId(FIRST_DATAPATH_ID + 5)));
        }
    }
}
