//! The same network in real time, against a controller behind a TCP connection for each switch.

mod ping_rounds;
mod startup;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, Waker, clock, sock};

pub use ping_rounds::{NetworkStatus, PingPacing, PingRounds};
pub use startup::{StartupProgress, StartupTest};

use crate::net::{DataPlane, NetworkError, NetworkOptions};
use crate::topology::Topology;

/// Bytes that a controller has not taken, at which a switch hangs up: it would lose them anyway.
const TX_BACKLOG_MAX: usize = 16 << 20;

/// Files beside the connections.
const OPEN_FILES: u64 = 64;

/// Why a network ended.
#[derive(Debug)]
pub enum LiveError {
    /// The system refuses something.
    Io(io::Error),
    /// The network cannot go on.
    Network(NetworkError),
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => e.fmt(f),
            Self::Network(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for LiveError {}

impl From<io::Error> for LiveError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<NetworkError> for LiveError {
    fn from(e: NetworkError) -> Self {
        Self::Network(e)
    }
}

/// A network whose switches are connected to a real controller.
///
/// One thread plays all of it, in [`run_once`](Self::run_once). Links between switches and hosts have the shape that the
/// topology gives them; control links are what lies between this process and the controller, and
/// [`NetworkOptions::control_up`] and [`NetworkOptions::control_down`] are not used.
#[derive(Debug)]
pub struct LiveNetwork {
    data_plane: DataPlane,
    io: Epoll,
    controller: SocketAddr,
    connections: Vec<ControlConnection>,
    /// Whose connection is in which slot.
    owners: Vec<Option<(ConnId, usize)>>,
    reconnect: Duration,
    now: Instant,
    connect_error: Option<io::ErrorKind>,
}

/// The connection of one switch.
#[derive(Debug)]
enum ControlConnection {
    /// It waits until then.
    Backoff(Instant),
    /// It is asked for.
    Connecting,
    /// It is there; bytes that the controller has not taken yet.
    Open(ConnId, Vec<u8>),
}

impl LiveNetwork {
    /// The network of `topology`, in which every switch is about to connect to `to`.
    ///
    /// # Errors
    /// Too few file descriptors; a switch with too many ports.
    pub fn connect(
        controller: SocketAddr,
        topology: Topology,
        options: &NetworkOptions,
    ) -> Result<Self, LiveError> {
        let n_switches = topology.switches.len();
        sluice_io::limits::raise_open_files(n_switches as u64 + OPEN_FILES);
        let io = Epoll::new(WaitStrategy::default())?;
        let now = clock::now();
        let spread = u32::try_from(options.connect_spread.as_micros()).unwrap_or(u32::MAX);
        let mut rng = Rng::new(!options.seed);
        let mut after = || Duration::from_micros(rng.below(spread).into());
        Ok(Self {
            data_plane: DataPlane::new(topology, options, now)?,
            io,
            controller,
            connections: (0..n_switches)
                .map(|_| ControlConnection::Backoff(now + after()))
                .collect(),
            owners: Vec::new(),
            reconnect: options.reconnect_delay,
            now,
            connect_error: None,
        })
    }

    /// One turn: waits until something happens or `until` has come, hears everything, lets time pass, says everything.
    ///
    /// # Errors
    /// What the operating system says, or a storm.
    pub fn run_once(&mut self, until: Option<Instant>) -> Result<Instant, LiveError> {
        let dues = self.connections.iter().filter_map(|connection| match connection {
            ControlConnection::Backoff(at) => Some(*at),
            _ => None,
        });
        let deadline = dues.chain(self.data_plane.deadline()).chain(until).min();
        let now = self.io.wait(deadline)?.max(self.now);
        self.now = now;
        // What was due before is older than what is heard now.
        self.data_plane.tick(now)?;
        self.process_events(now);
        self.data_plane.tick(now)?;
        self.open_connections(now);
        self.transmit_pending(now);
        Ok(now)
    }

    fn process_events(&mut self, now: Instant) {
        while let Some(event) = self.io.next_event() {
            let (id, bytes, is_over) = match event {
                IoEvent::Connected(id) => {
                    if let Some(switch) = owner(&self.owners, id) {
                        if let Some(connection) = self.connections.get_mut(switch) {
                            *connection = ControlConnection::Open(id, Vec::new());
                        }
                        self.connect_error = None;
                        self.data_plane.control_connected(now, switch);
                    }
                    continue;
                }
                IoEvent::Data(id, bytes) => (id, bytes, false),
                IoEvent::Closed(id, why) => {
                    self.connect_error = why;
                    (id, &[][..], true)
                }
                // What waits is offered again in every turn, and nobody is listened to.
                IoEvent::Writable(_)
                | IoEvent::Woken
                | IoEvent::Accepted(..)
                | IoEvent::AcceptFailed(_) => {
                    continue;
                }
            };
            let Some(switch) = owner(&self.owners, id) else { continue };
            if is_over || self.data_plane.on_control_bytes(now, switch, bytes).is_err() {
                self.close(now, switch, id);
            }
        }
    }

    /// Ends a connection; the switch says what it has to say, as far as there is room, and asks again later.
    fn close(&mut self, now: Instant, switch: usize, id: ConnId) {
        self.transmit_pending(now);
        self.io.close(id);
        if let Some(owner) = self.owners.get_mut(id.slot()) {
            *owner = None;
        }
        if let Some(connection) = self.connections.get_mut(switch) {
            *connection = ControlConnection::Backoff(now + self.reconnect);
        }
        self.data_plane.control_disconnected(now, switch);
    }

    fn open_connections(&mut self, now: Instant) {
        for switch in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(switch) else { return };
            if !matches!(connection, ControlConnection::Backoff(at) if *at <= now) {
                continue;
            }
            let options = sock::Options::default();
            let asked = sock::start_connect(self.controller, &options)
                .and_then(|stream| self.io.adopt_connecting(stream));
            match asked {
                Ok(id) => {
                    *connection = ControlConnection::Connecting;
                    if self.owners.len() <= id.slot() {
                        self.owners.resize(id.slot() + 1, None);
                    }
                    if let Some(owner) = self.owners.get_mut(id.slot()) {
                        *owner = Some((id, switch));
                    }
                }
                Err(e) => {
                    self.connect_error = Some(e.kind());
                    *connection = ControlConnection::Backoff(now + self.reconnect);
                }
            }
        }
    }

    fn transmit_pending(&mut self, now: Instant) {
        while let Some((switch, said)) = self.data_plane.take_control_output() {
            if let Some(ControlConnection::Open(_, tx_backlog)) = self.connections.get_mut(switch) {
                tx_backlog.extend(said);
            }
        }
        let mut stuck = vec![];
        for (switch, connection) in self.connections.iter_mut().enumerate() {
            let ControlConnection::Open(id, tx_backlog) = connection else { continue };
            if !tx_backlog.is_empty() {
                let sent = self.io.send(*id, tx_backlog);
                tx_backlog.drain(..sent);
            }
            self.data_plane.set_tx_backlog(switch, tx_backlog.len());
            if tx_backlog.len() > TX_BACKLOG_MAX {
                tx_backlog.clear();
                stuck.push((switch, *id));
            }
        }
        for (switch, id) in stuck {
            self.close(now, switch, id);
        }
    }

    /// Breaks the connection of a switch, which opens another one after a while.
    pub fn close_control_connection(&mut self, switch: usize) {
        if let Some(&ControlConnection::Open(id, _)) = self.connections.get(switch) {
            self.close(self.now, switch, id);
        }
    }

    /// Switches, hosts and links.
    pub fn data_plane(&self) -> &DataPlane {
        &self.data_plane
    }

    /// The same, and the time of the turn, to tell hosts and links what to do.
    pub fn data_plane_mut(&mut self) -> (Instant, &mut DataPlane) {
        (self.now, &mut self.data_plane)
    }

    /// Ends the wait of a turn from another thread.
    pub fn waker(&self) -> Waker {
        self.io.waker()
    }

    /// Switches that the controller knows.
    pub fn connected_switches(&self) -> usize {
        let switches = (0..self.connections.len()).filter_map(|n| self.data_plane.switch(n));
        switches.filter(|switch| switch.is_connected()).count()
    }

    /// Why a connection could not be opened, or ended, if none was opened since.
    pub fn connect_error(&self) -> Option<io::ErrorKind> {
        self.connect_error
    }

    /// The time of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Connections end in order: by a reset, a controller would lose what was said last.
impl Drop for LiveNetwork {
    fn drop(&mut self) {
        for connection in &self.connections {
            if let ControlConnection::Open(id, _) = connection {
                self.io.close(*id);
            }
        }
    }
}

/// Whose connection `id` is.
fn owner(owners: &[Option<(ConnId, usize)>], id: ConnId) -> Option<usize> {
    let &(owned, switch) = owners.get(id.slot())?.as_ref()?;
    (owned == id).then_some(switch)
}
