//! A link for those without privileges: a relay of TCP connections.
//!
//! Bytes are cut into pieces that pass through the pipes in order, as packets would. TCP ends at each side, so nothing
//! is lost, and a full queue holds the sender back instead.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use sluice_io::{
    ConnId, Epoll, Io, IoEvent, OnPeerShutdown, Reading, WaitStrategy, Waker, clock, poll, sock,
};

use super::command::{Direction, PerDirection};
use super::duplex::{Delivery, DuplexConfig, DuplexLink, RunState};
use super::error::Error;
use super::report::LinkReport;

/// Connections at a time; each may hold half a MiB.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Bytes of a piece: what a packet of Ethernet carries.
const CHUNK_LEN_MAX: usize = 1_460;

/// Bytes that one side may leave unread before the other is read from no more.
const BACKLOG_MAX: usize = 256 << 10;

/// Which connection a piece belongs to, and what it says; no bytes mean that it ends.
type Chunk = (u64, Box<[u8]>);

/// Where connections are taken, those that there are, and what is on the way between their sides.
#[derive(Debug)]
pub(super) struct TcpProxy {
    io: Epoll,
    course: DuplexLink<Chunk>,
    addr: SocketAddr,
    connect: SocketAddr,
    pairs: BTreeMap<u64, PerDirection<ProxySocket>>,
    /// Which connection a socket belongs to, and the direction of what it says.
    sides: HashMap<ConnId, (u64, Direction)>,
    next: u64,
}

/// One socket of a connection. It says what goes one way and is told what comes the other.
#[derive(Debug)]
struct ProxySocket {
    id: ConnId,
    standing: SocketState,
    hearing: ReadState,
    /// Heard; what is before `let_in` is in the pipe.
    heard: Vec<u8>,
    let_in: usize,
    saying: WriteState,
    /// Out of the pipe, and not yet taken by the socket.
    to_say: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketState {
    Connecting,
    Connected,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// It is read from.
    Reading,
    /// It is not, until what was heard is in the pipe.
    Paused,
    /// There is no more to hear.
    Ended,
    /// And the pipe knows it.
    EndForwarded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteState {
    /// More may come out of the pipe.
    Open,
    /// What there is to say is the last.
    Draining,
    /// It is said, or nobody is left to hear it.
    Done,
}

impl ProxySocket {
    fn new(id: ConnId, standing: SocketState) -> Self {
        Self {
            id,
            standing,
            hearing: ReadState::Reading,
            heard: Vec::new(),
            let_in: 0,
            saying: WriteState::Open,
            to_say: Vec::new(),
        }
    }

    /// The next piece of what was heard, empty if everything is in the pipe.
    fn piece(&self) -> &[u8] {
        let rest = self.heard.get(self.let_in..).unwrap_or_default();
        rest.get(..CHUNK_LEN_MAX).unwrap_or(rest)
    }

    /// Notes that `len` bytes more are in the pipe.
    fn let_in(&mut self, len: usize) {
        self.let_in += len;
        if self.let_in >= self.heard.len() {
            self.heard.clear();
            self.let_in = 0;
        }
    }
}

/// The other direction.
const fn back(way: Direction) -> Direction {
    match way {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
    }
}

impl TcpProxy {
    pub(super) fn new(
        listen: SocketAddr,
        connect: SocketAddr,
        start: DuplexConfig,
    ) -> Result<Self, Error> {
        let mut io = Epoll::new(WaitStrategy::default())
            .map_err(Error::System)?
            .on_peer_shutdown(OnPeerShutdown::KeepOpen);
        let failed = |e| Error::Listen(listen, e);
        let listener = sock::listen(listen, &sock::Options::default()).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        io.listen(listener).map_err(failed)?;
        let mut course = DuplexLink::new(clock::now(), start);
        course.connections = Some((0, 0));
        let (pairs, sides) = (BTreeMap::new(), HashMap::new());
        Ok(Self { io, course, addr, connect, pairs, sides, next: 0 })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn waker(&self) -> Waker {
        self.io.waker()
    }

    /// Carries bytes until told to stop.
    ///
    /// # Errors
    /// What the system says; the relay is useless then.
    pub(super) fn run(mut self) -> io::Result<LinkReport> {
        loop {
            // More exact than the set's own waiting, which is to the millisecond.
            let _: [bool; 1] = poll::wait_readable([self.io.as_fd()], self.deadline())?;
            let mut now = self.io.wait(Some(clock::now()))?;
            while let Some(event) = self.next_event() {
                self.on_event(event, now);
            }
            for way in Direction::ALL {
                self.deliver(way);
                now = clock::now();
                self.let_in(way, now);
            }
            self.end_pairs();
            if self.course.process_requests(now) == RunState::Stop {
                return Ok(self.course.finish(clock::now()));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let way = |way| {
            let waits = |pair: &PerDirection<ProxySocket>| !pair.get(way).heard.is_empty();
            let someone = self.pairs.values().any(waits);
            self.course.models.get(way).next_sent_at().filter(|_| someone)
        };
        let sent = Direction::ALL.map(way).into_iter().flatten();
        sent.chain(self.course.deadline()).min()
    }

    /// What happened next, with bytes put where they belong.
    fn next_event(&mut self) -> Option<ProxyEvent> {
        Some(match self.io.next_event()? {
            IoEvent::Accepted(stream, _) => ProxyEvent::Accepted(stream),
            IoEvent::Connected(id) => ProxyEvent::Connected(id),
            IoEvent::Writable(id) => ProxyEvent::Room(id),
            IoEvent::Closed(id, how) => ProxyEvent::Closed(id, how),
            IoEvent::Woken | IoEvent::AcceptFailed(_) => ProxyEvent::Nothing,
            IoEvent::Data(id, bytes) => {
                if let Some(&(key, way)) = self.sides.get(&id)
                    && let Some(pair) = self.pairs.get_mut(&key)
                {
                    pair.get_mut(way).heard.extend_from_slice(bytes);
                }
                ProxyEvent::Nothing
            }
        })
    }

    fn on_event(&mut self, event: ProxyEvent, now: Instant) {
        match event {
            ProxyEvent::Nothing => {}
            ProxyEvent::Accepted(stream) => {
                let (taken, refused) = self.course.connections.unwrap_or_default();
                let is_taken = self.pairs.len() < CONNECTIONS_MAX && self.open(stream).is_ok();
                let more = if is_taken { (taken + 1, refused) } else { (taken, refused + 1) };
                self.course.connections = Some(more);
            }
            ProxyEvent::Connected(id) => {
                if let Some(side) = self.side(id) {
                    side.standing = SocketState::Connected;
                }
                self.say(id);
            }
            ProxyEvent::Room(id) => self.say(id),
            ProxyEvent::Closed(id, how) => self.on_closed(id, how, now),
        }
    }

    fn open(&mut self, near: TcpStream) -> io::Result<()> {
        sock::Options::default().apply(&near)?;
        let far = sock::start_connect(self.connect, &sock::Options::default())?;
        let near = self.io.adopt(near)?;
        let far = match self.io.adopt_connecting(far) {
            Ok(far) => far,
            Err(e) => {
                self.io.close(near);
                return Err(e);
            }
        };
        let key = self.next;
        self.next += 1;
        self.sides.insert(near, (key, Direction::Up));
        self.sides.insert(far, (key, Direction::Down));
        let (near, far) = (
            ProxySocket::new(near, SocketState::Connected),
            ProxySocket::new(far, SocketState::Connecting),
        );
        self.pairs.insert(key, PerDirection { up: near, down: far });
        Ok(())
    }

    /// A socket will say no more, and perhaps hear no more.
    fn on_closed(&mut self, id: ConnId, how: Option<io::ErrorKind>, now: Instant) {
        let Some(side) = self.side(id) else { return };
        let is_over = matches!(side.hearing, ReadState::Ended | ReadState::EndForwarded);
        if how.is_some() || is_over {
            side.standing = SocketState::Closed;
            side.to_say.clear();
            side.saying = WriteState::Done;
        }
        if !is_over {
            side.hearing = ReadState::Ended;
        }
        if let Some(&(_, way)) = self.sides.get(&id) {
            self.let_in(way, now);
        }
    }

    fn side(&mut self, id: ConnId) -> Option<&mut ProxySocket> {
        let &(key, way) = self.sides.get(&id)?;
        self.pairs.get_mut(&key).map(|pair| pair.get_mut(way))
    }

    /// Lets into the pipe what was heard, a piece of each connection in turn while there is room, and reads only from
    /// those of which all is let in.
    fn let_in(&mut self, way: Direction, now: Instant) {
        self.course.models.get_mut(way).advance(now);
        let mut is_more = true;
        while std::mem::take(&mut is_more) {
            for (&key, pair) in &mut self.pairs {
                let is_stuck = pair.get(back(way)).to_say.len() > BACKLOG_MAX;
                let side = pair.get_mut(way);
                let piece = side.piece();
                let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                if is_stuck || !self.course.models.get(way).has_room(len) {
                    continue;
                }
                if !piece.is_empty() {
                    self.course.offer(way, now, len, (key, piece.into()));
                    side.let_in(piece.len());
                    is_more |= !side.heard.is_empty();
                } else if side.hearing == ReadState::Ended {
                    side.hearing = ReadState::EndForwarded;
                    self.course.offer(way, now, 0, (key, Box::default()));
                }
            }
        }
        for side in self.pairs.values_mut().map(|pair| pair.get_mut(way)) {
            let (wanted, reading) = match (side.hearing, side.heard.is_empty()) {
                (ReadState::Paused, true) => (ReadState::Reading, Reading::On),
                (ReadState::Reading, false) => (ReadState::Paused, Reading::Off),
                _ => continue,
            };
            side.hearing = wanted;
            self.io.set_reading(side.id, reading);
        }
    }

    /// Hands over what has come out of the pipe.
    fn deliver(&mut self, way: Direction) {
        let mut touched = Vec::new();
        let now = clock::now();
        while let Some(out) = self.course.pop_due(way, now) {
            let (key, piece) = out.item;
            let side = self.pairs.get_mut(&key).map(|pair| pair.get_mut(back(way)));
            let taken = match side {
                Some(side) if side.standing != SocketState::Closed => {
                    side.to_say.extend_from_slice(&piece);
                    if piece.is_empty() {
                        side.saying = WriteState::Draining;
                    }
                    touched.push(side.id);
                    Delivery::Accepted
                }
                _ => Delivery::Refused,
            };
            self.course.record_delivery(way, out.due, clock::now(), out.len, taken);
        }
        touched.dedup();
        for id in touched {
            self.say(id);
        }
    }

    /// Says what there is to say, and that it was all if it was.
    fn say(&mut self, id: ConnId) {
        let Some(&(key, way)) = self.sides.get(&id) else { return };
        let Some(side) = self.pairs.get_mut(&key).map(|pair| pair.get_mut(way)) else { return };
        if side.standing != SocketState::Connected {
            return;
        }
        if !side.to_say.is_empty() {
            let sent = self.io.send(id, &side.to_say);
            side.to_say.drain(..sent);
        }
        if side.saying == WriteState::Draining && side.to_say.is_empty() {
            side.saying = WriteState::Done;
            self.io.shutdown_write(id);
        }
    }

    /// Forgets connections of which everything is said, both ways.
    fn end_pairs(&mut self) {
        let Self { pairs, sides, io, .. } = self;
        pairs.retain(|_, pair| {
            let is_open = [&pair.up, &pair.down].iter().any(|side| side.saying != WriteState::Done);
            if !is_open {
                for side in [&pair.up, &pair.down] {
                    sides.remove(&side.id);
                    io.close(side.id);
                }
            }
            is_open
        });
    }
}

/// What happened, without borrowing from the set.
enum ProxyEvent {
    Nothing,
    Accepted(TcpStream),
    Connected(ConnId),
    Room(ConnId),
    Closed(ConnId, Option<io::ErrorKind>),
}
