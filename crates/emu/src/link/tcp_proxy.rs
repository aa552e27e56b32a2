//! A link that needs no privileges: a TCP proxy.
//!
//! The bytes of each connection are cut into chunks that pass through the link model like packets. TCP ends at each
//! side, so nothing is lost, and a full queue slows the sender down instead.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use sluice_base::HashMap;
use sluice_io::{
    ConnId, Connection, ConnectionError, Epoll, Io, IoEvent, OnPeerShutdown, Reading, WaitStrategy,
    Waker, clock, poll, sock,
};

use super::command::{Direction, PerDirection};
use super::duplex::{Delivery, DuplexConfig, DuplexLink, RunState};
use super::error::Error;
use super::report::LinkReport;

/// Most concurrent connections; each may buffer half a MiB.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Bytes of a chunk: the TCP payload of an Ethernet frame.
const CHUNK_LEN_MAX: usize = 1_460;

/// Bytes not yet accepted by one socket above which its peer is no longer read.
const BACKLOG_MAX: usize = 256 << 10;

/// A connection's key and a chunk of its bytes; an empty chunk marks the end of the stream.
type ProxyItem = (u64, Box<[u8]>);

/// The listener, all connections, and the link between their two sides.
#[derive(Debug)]
pub(super) struct TcpProxy {
    io: Epoll,
    duplex: DuplexLink<ProxyItem>,
    addr: SocketAddr,
    connect: SocketAddr,
    connections: BTreeMap<u64, PerDirection<ProxySocket>>,
    /// The connection of a socket, and the direction of the bytes that it receives.
    sockets: HashMap<ConnId, (u64, Direction)>,
    next_key: u64,
}

/// One of the two sockets of a proxied connection.
#[derive(Debug)]
struct ProxySocket {
    id: ConnId,
    socket_state: SocketState,
    read_state: ReadState,
    /// Received bytes; the first `forwarded` of them are in the link.
    rx_buffer: Vec<u8>,
    forwarded: usize,
    write_state: WriteState,
    /// Bytes that left the link and that the socket has not accepted yet.
    tx_buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketState {
    Connecting,
    Connected,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// Reading from the socket.
    Reading,
    /// Not reading until all received bytes are in the link.
    Paused,
    /// The peer has sent everything.
    Ended,
    /// The end of the stream has been put into the link.
    EndForwarded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteState {
    /// More bytes may leave the link.
    Open,
    /// The bytes in `tx_buffer` are the last.
    Draining,
    /// Everything is written, or the socket is closed.
    Done,
}

impl ProxySocket {
    fn new(id: ConnId, socket_state: SocketState) -> Self {
        Self {
            id,
            socket_state,
            read_state: ReadState::Reading,
            rx_buffer: Vec::new(),
            forwarded: 0,
            write_state: WriteState::Open,
            tx_buffer: Vec::new(),
        }
    }

    /// The next chunk of received bytes; empty if all are in the link.
    fn next_chunk(&self) -> &[u8] {
        let rest = self.rx_buffer.get(self.forwarded..).unwrap_or_default();
        rest.get(..CHUNK_LEN_MAX).unwrap_or(rest)
    }

    /// Records that `len` more bytes are in the link.
    fn consume(&mut self, len: usize) {
        self.forwarded += len;
        if self.forwarded >= self.rx_buffer.len() {
            self.rx_buffer.clear();
            self.forwarded = 0;
        }
    }
}

/// The other direction.
const fn opposite(direction: Direction) -> Direction {
    match direction {
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
        let mut duplex = DuplexLink::new(clock::now(), start);
        duplex.connections = Some((0, 0));
        let (connections, sockets) = (BTreeMap::new(), HashMap::default());
        Ok(Self { io, duplex, addr, connect, connections, sockets, next_key: 0 })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn waker(&self) -> Waker {
        self.io.waker()
    }

    /// Runs the event loop until a stop is requested.
    ///
    /// # Errors
    /// A system error after which the proxy cannot go on.
    pub(super) fn run(mut self) -> io::Result<LinkReport> {
        loop {
            // More precise than the timeout of epoll, which has millisecond resolution.
            let _: [bool; 1] = poll::wait_readable([self.io.as_fd()], self.deadline())?;
            let mut now = self.io.wait(Some(clock::now()))?;
            while let Some(event) = self.next_event() {
                self.on_event(event, now);
            }
            for direction in Direction::ALL {
                self.deliver(direction);
                now = clock::now();
                self.forward_received(direction, now);
            }
            self.remove_finished();
            if self.duplex.process_requests(now) == RunState::Stop {
                return Ok(self.duplex.finish(clock::now()));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let direction = |direction| {
            let waits = |connection: &PerDirection<ProxySocket>| {
                !connection.get(direction).rx_buffer.is_empty()
            };
            let someone = self.connections.values().any(waits);
            self.duplex.models.get(direction).next_sent_at().filter(|_| someone)
        };
        let sent = Direction::ALL.map(direction).into_iter().flatten();
        sent.chain(self.duplex.deadline()).min()
    }

    /// The next event; received bytes are appended to their socket's buffer.
    fn next_event(&mut self) -> Option<ProxyEvent> {
        Some(match self.io.next_event()? {
            IoEvent::Accepted(client, _, _) => ProxyEvent::Accepted(client),
            IoEvent::Connected(id) => ProxyEvent::Connected(id),
            IoEvent::Writable(id) => ProxyEvent::Writable(id),
            IoEvent::Closed(id, how) => ProxyEvent::Closed(id, how.map(ConnectionError::kind)),
            IoEvent::NothingReceived(_) | IoEvent::Woken | IoEvent::AcceptFailed(_) => {
                ProxyEvent::Nothing
            }
            IoEvent::Data(id, bytes) => {
                if let Some(&(key, direction)) = self.sockets.get(&id)
                    && let Some(connection) = self.connections.get_mut(&key)
                {
                    connection.get_mut(direction).rx_buffer.extend_from_slice(bytes);
                }
                ProxyEvent::Nothing
            }
        })
    }

    fn on_event(&mut self, event: ProxyEvent, now: Instant) {
        match event {
            ProxyEvent::Nothing => {}
            ProxyEvent::Accepted(client) => {
                let (accepted, refused) = self.duplex.connections.unwrap_or_default();
                let is_accepted =
                    self.connections.len() < CONNECTIONS_MAX && self.open(client).is_ok();
                let more =
                    if is_accepted { (accepted + 1, refused) } else { (accepted, refused + 1) };
                self.duplex.connections = Some(more);
            }
            ProxyEvent::Connected(id) => {
                if let Some(socket) = self.socket(id) {
                    socket.socket_state = SocketState::Connected;
                }
                self.write_pending(id);
            }
            ProxyEvent::Writable(id) => self.write_pending(id),
            ProxyEvent::Closed(id, how) => self.on_closed(id, how, now),
        }
    }

    fn open(&mut self, client: Connection) -> io::Result<()> {
        sock::Options::default().apply(&client)?;
        let server = sock::start_connect(self.connect, &sock::Options::default())?;
        let client = self.io.adopt(client)?;
        let server = match self.io.adopt_connecting(server) {
            Ok(server) => server,
            Err(e) => {
                self.io.close(client);
                return Err(e);
            }
        };
        let key = self.next_key;
        self.next_key += 1;
        self.sockets.insert(client, (key, Direction::Up));
        self.sockets.insert(server, (key, Direction::Down));
        let (client, server) = (
            ProxySocket::new(client, SocketState::Connected),
            ProxySocket::new(server, SocketState::Connecting),
        );
        self.connections.insert(key, PerDirection { up: client, down: server });
        Ok(())
    }

    /// The socket has received everything, or failed.
    fn on_closed(&mut self, id: ConnId, how: Option<io::ErrorKind>, now: Instant) {
        let Some(socket) = self.socket(id) else { return };
        let is_over = matches!(socket.read_state, ReadState::Ended | ReadState::EndForwarded);
        if how.is_some() || is_over {
            socket.socket_state = SocketState::Closed;
            socket.tx_buffer.clear();
            socket.write_state = WriteState::Done;
        }
        if !is_over {
            socket.read_state = ReadState::Ended;
        }
        if let Some(&(_, direction)) = self.sockets.get(&id) {
            self.forward_received(direction, now);
        }
    }

    fn socket(&mut self, id: ConnId) -> Option<&mut ProxySocket> {
        let &(key, direction) = self.sockets.get(&id)?;
        self.connections.get_mut(&key).map(|connection| connection.get_mut(direction))
    }

    /// Puts received bytes into the link while it has room, one chunk per connection in turn. Sockets are read only
    /// while all their bytes are in the link.
    fn forward_received(&mut self, direction: Direction, now: Instant) {
        self.duplex.models.get_mut(direction).advance(now);
        let mut is_more = true;
        while std::mem::take(&mut is_more) {
            for (&key, connection) in &mut self.connections {
                let is_backlogged =
                    connection.get(opposite(direction)).tx_buffer.len() > BACKLOG_MAX;
                let socket = connection.get_mut(direction);
                let chunk = socket.next_chunk();
                let len = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
                if is_backlogged || !self.duplex.models.get(direction).has_room(len) {
                    continue;
                }
                if !chunk.is_empty() {
                    self.duplex.offer(direction, now, len, (key, chunk.into()));
                    socket.consume(chunk.len());
                    is_more |= !socket.rx_buffer.is_empty();
                } else if socket.read_state == ReadState::Ended {
                    socket.read_state = ReadState::EndForwarded;
                    self.duplex.offer(direction, now, 0, (key, Box::default()));
                }
            }
        }
        for socket in self.connections.values_mut().map(|connection| connection.get_mut(direction))
        {
            let (wanted, reading) = match (socket.read_state, socket.rx_buffer.is_empty()) {
                (ReadState::Paused, true) => (ReadState::Reading, Reading::On),
                (ReadState::Reading, false) => (ReadState::Paused, Reading::Off),
                _ => continue,
            };
            socket.read_state = wanted;
            self.io.set_reading(socket.id, reading);
        }
    }

    /// Hands chunks that are due to their sockets.
    fn deliver(&mut self, direction: Direction) {
        let mut touched = Vec::new();
        let now = clock::now();
        while let Some(out) = self.duplex.pop_due(direction, now) {
            let (key, chunk) = out.item;
            let socket = self
                .connections
                .get_mut(&key)
                .map(|connection| connection.get_mut(opposite(direction)));
            let delivery = match socket {
                Some(socket) if socket.socket_state != SocketState::Closed => {
                    socket.tx_buffer.extend_from_slice(&chunk);
                    if chunk.is_empty() {
                        socket.write_state = WriteState::Draining;
                    }
                    touched.push(socket.id);
                    Delivery::Accepted
                }
                _ => Delivery::Refused,
            };
            self.duplex.record_delivery(direction, out.due, clock::now(), out.len, delivery);
        }
        touched.dedup();
        for id in touched {
            self.write_pending(id);
        }
    }

    /// Writes pending bytes, then shuts down the write side if they were the last.
    fn write_pending(&mut self, id: ConnId) {
        let Some(&(key, direction)) = self.sockets.get(&id) else { return };
        let Some(socket) =
            self.connections.get_mut(&key).map(|connection| connection.get_mut(direction))
        else {
            return;
        };
        if socket.socket_state != SocketState::Connected {
            return;
        }
        if !socket.tx_buffer.is_empty() {
            let sent = self.io.send(id, &socket.tx_buffer);
            socket.tx_buffer.drain(..sent);
        }
        if socket.write_state == WriteState::Draining && socket.tx_buffer.is_empty() {
            socket.write_state = WriteState::Done;
            self.io.shutdown_write(id);
        }
    }

    /// Removes connections that have been written completely in both directions.
    fn remove_finished(&mut self) {
        let Self { connections, sockets, io, .. } = self;
        connections.retain(|_, connection| {
            let is_open = [&connection.up, &connection.down]
                .iter()
                .any(|socket| socket.write_state != WriteState::Done);
            if !is_open {
                for socket in [&connection.up, &connection.down] {
                    sockets.remove(&socket.id);
                    io.close(socket.id);
                }
            }
            is_open
        });
    }
}

/// An event that does not borrow from the event queue.
enum ProxyEvent {
    Nothing,
    Accepted(Connection),
    Connected(ConnId),
    Writable(ConnId),
    Closed(ConnId, Option<io::ErrorKind>),
}
