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

use super::control::{Both, Way};
use super::course::{Course, Start, Taken, Then};
use super::error::Error;
use super::report::Report;

/// Connections at a time; each may hold half a MiB.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Bytes of a piece: what a packet of Ethernet carries.
const PIECE: usize = 1_460;

/// Bytes that one side may leave unread before the other is read from no more.
const BACKLOG_MAX: usize = 256 << 10;

/// Which connection a piece belongs to, and what it says; no bytes mean that it ends.
type Piece = (u64, Box<[u8]>);

/// Where connections are taken, those that there are, and what is on the way between their sides.
#[derive(Debug)]
pub(super) struct Relay {
    io: Epoll,
    course: Course<Piece>,
    addr: SocketAddr,
    connect: SocketAddr,
    pairs: BTreeMap<u64, Both<Side>>,
    /// Which connection a socket belongs to, and the direction of what it says.
    sides: HashMap<ConnId, (u64, Way)>,
    next: u64,
}

/// One socket of a connection. It says what goes one way and is told what comes the other.
#[derive(Debug)]
struct Side {
    id: ConnId,
    standing: Standing,
    hearing: Hearing,
    /// Heard; what is before `let_in` is in the pipe.
    heard: Vec<u8>,
    let_in: usize,
    saying: Saying,
    /// Out of the pipe, and not yet taken by the socket.
    to_say: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Connecting,
    Up,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearing {
    /// It is read from.
    On,
    /// It is not, until what was heard is in the pipe.
    Held,
    /// There is no more to hear.
    Ended,
    /// And the pipe knows it.
    Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saying {
    /// More may come out of the pipe.
    More,
    /// What there is to say is the last.
    Last,
    /// It is said, or nobody is left to hear it.
    Done,
}

impl Side {
    fn new(id: ConnId, standing: Standing) -> Self {
        Self {
            id,
            standing,
            hearing: Hearing::On,
            heard: Vec::new(),
            let_in: 0,
            saying: Saying::More,
            to_say: Vec::new(),
        }
    }

    /// The next piece of what was heard, empty if everything is in the pipe.
    fn piece(&self) -> &[u8] {
        let rest = self.heard.get(self.let_in..).unwrap_or_default();
        rest.get(..PIECE).unwrap_or(rest)
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
const fn back(way: Way) -> Way {
    match way {
        Way::Up => Way::Down,
        Way::Down => Way::Up,
    }
}

impl Relay {
    pub(super) fn new(
        listen: SocketAddr,
        connect: SocketAddr,
        start: Start,
    ) -> Result<Self, Error> {
        let mut io = Epoll::new(WaitStrategy::default())
            .map_err(Error::System)?
            .on_peer_shutdown(OnPeerShutdown::KeepOpen);
        let failed = |e| Error::Listen(listen, e);
        let listener = sock::listen(listen, &sock::Options::default()).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        io.listen(listener).map_err(failed)?;
        let mut course = Course::new(clock::now(), start);
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
    pub(super) fn run(mut self) -> io::Result<Report> {
        loop {
            // More exact than the set's own waiting, which is to the millisecond.
            let _: [bool; 1] = poll::wait_readable([self.io.as_fd()], self.deadline())?;
            let mut now = self.io.wait(Some(clock::now()))?;
            while let Some(event) = self.next_event() {
                self.on_event(event, now);
            }
            for way in Way::BOTH {
                self.deliver(way);
                now = clock::now();
                self.let_in(way, now);
            }
            self.end_pairs();
            if self.course.obey(now) == Then::Stop {
                return Ok(self.course.end(clock::now()));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let way = |way| {
            let waits = |pair: &Both<Side>| !pair.at(way).heard.is_empty();
            let someone = self.pairs.values().any(waits);
            self.course.pipes.at(way).next_sent().filter(|_| someone)
        };
        let sent = Way::BOTH.map(way).into_iter().flatten();
        sent.chain(self.course.deadline()).min()
    }

    /// What happened next, with bytes put where they belong.
    fn next_event(&mut self) -> Option<Event> {
        Some(match self.io.next_event()? {
            IoEvent::Accepted(stream, _) => Event::Accepted(stream),
            IoEvent::Connected(id) => Event::Connected(id),
            IoEvent::Writable(id) => Event::Room(id),
            IoEvent::Closed(id, how) => Event::Closed(id, how),
            IoEvent::Woken | IoEvent::AcceptFailed(_) => Event::Nothing,
            IoEvent::Data(id, bytes) => {
                if let Some(&(key, way)) = self.sides.get(&id)
                    && let Some(pair) = self.pairs.get_mut(&key)
                {
                    pair.at_mut(way).heard.extend_from_slice(bytes);
                }
                Event::Nothing
            }
        })
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Nothing => {}
            Event::Accepted(stream) => {
                let (taken, refused) = self.course.connections.unwrap_or_default();
                let is_taken = self.pairs.len() < CONNECTIONS_MAX && self.open(stream).is_ok();
                let more = if is_taken { (taken + 1, refused) } else { (taken, refused + 1) };
                self.course.connections = Some(more);
            }
            Event::Connected(id) => {
                if let Some(side) = self.side(id) {
                    side.standing = Standing::Up;
                }
                self.say(id);
            }
            Event::Room(id) => self.say(id),
            Event::Closed(id, how) => self.on_closed(id, how, now),
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
        self.sides.insert(near, (key, Way::Up));
        self.sides.insert(far, (key, Way::Down));
        let (near, far) = (Side::new(near, Standing::Up), Side::new(far, Standing::Connecting));
        self.pairs.insert(key, Both { up: near, down: far });
        Ok(())
    }

    /// A socket will say no more, and perhaps hear no more.
    fn on_closed(&mut self, id: ConnId, how: Option<io::ErrorKind>, now: Instant) {
        let Some(side) = self.side(id) else { return };
        let is_over = matches!(side.hearing, Hearing::Ended | Hearing::Told);
        if how.is_some() || is_over {
            side.standing = Standing::Gone;
            side.to_say.clear();
            side.saying = Saying::Done;
        }
        if !is_over {
            side.hearing = Hearing::Ended;
        }
        if let Some(&(_, way)) = self.sides.get(&id) {
            self.let_in(way, now);
        }
    }

    fn side(&mut self, id: ConnId) -> Option<&mut Side> {
        let &(key, way) = self.sides.get(&id)?;
        self.pairs.get_mut(&key).map(|pair| pair.at_mut(way))
    }

    /// Lets into the pipe what was heard, a piece of each connection in turn while there is room, and reads only from
    /// those of which all is let in.
    fn let_in(&mut self, way: Way, now: Instant) {
        self.course.pipes.at_mut(way).advance(now);
        let mut is_more = true;
        while std::mem::take(&mut is_more) {
            for (&key, pair) in &mut self.pairs {
                let is_stuck = pair.at(back(way)).to_say.len() > BACKLOG_MAX;
                let side = pair.at_mut(way);
                let piece = side.piece();
                let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                if is_stuck || !self.course.pipes.at(way).has_room(len) {
                    continue;
                }
                if !piece.is_empty() {
                    self.course.offer(way, now, len, (key, piece.into()));
                    side.let_in(piece.len());
                    is_more |= !side.heard.is_empty();
                } else if side.hearing == Hearing::Ended {
                    side.hearing = Hearing::Told;
                    self.course.offer(way, now, 0, (key, Box::default()));
                }
            }
        }
        for side in self.pairs.values_mut().map(|pair| pair.at_mut(way)) {
            let (wanted, reading) = match (side.hearing, side.heard.is_empty()) {
                (Hearing::Held, true) => (Hearing::On, Reading::On),
                (Hearing::On, false) => (Hearing::Held, Reading::Off),
                _ => continue,
            };
            side.hearing = wanted;
            self.io.set_reading(side.id, reading);
        }
    }

    /// Hands over what has come out of the pipe.
    fn deliver(&mut self, way: Way) {
        let mut touched = Vec::new();
        let now = clock::now();
        while let Some(out) = self.course.pop_due(way, now) {
            let (key, piece) = out.item;
            let side = self.pairs.get_mut(&key).map(|pair| pair.at_mut(back(way)));
            let taken = match side {
                Some(side) if side.standing != Standing::Gone => {
                    side.to_say.extend_from_slice(&piece);
                    if piece.is_empty() {
                        side.saying = Saying::Last;
                    }
                    touched.push(side.id);
                    Taken::Yes
                }
                _ => Taken::No,
            };
            self.course.left(way, out.due, clock::now(), out.len, taken);
        }
        touched.dedup();
        for id in touched {
            self.say(id);
        }
    }

    /// Says what there is to say, and that it was all if it was.
    fn say(&mut self, id: ConnId) {
        let Some(&(key, way)) = self.sides.get(&id) else { return };
        let Some(side) = self.pairs.get_mut(&key).map(|pair| pair.at_mut(way)) else { return };
        if side.standing != Standing::Up {
            return;
        }
        if !side.to_say.is_empty() {
            let sent = self.io.send(id, &side.to_say);
            side.to_say.drain(..sent);
        }
        if side.saying == Saying::Last && side.to_say.is_empty() {
            side.saying = Saying::Done;
            self.io.shutdown_write(id);
        }
    }

    /// Forgets connections of which everything is said, both ways.
    fn end_pairs(&mut self) {
        let Self { pairs, sides, io, .. } = self;
        pairs.retain(|_, pair| {
            let is_open = [&pair.up, &pair.down].iter().any(|side| side.saying != Saying::Done);
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
enum Event {
    Nothing,
    Accepted(TcpStream),
    Connected(ConnId),
    Room(ConnId),
    Closed(ConnId, Option<io::ErrorKind>),
}
