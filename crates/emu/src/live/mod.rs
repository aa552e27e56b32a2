//! An emulated network in real time; each switch connects to a real controller over TCP.

mod connection_failure;
mod ping_rounds;
mod recording;
mod startup;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, Waker, clock, sock};
use sluice_openflow::MessageType;

pub use connection_failure::{ConnectionFailure, FirstBytes};
pub use ping_rounds::{NetworkStatus, PingPacing, PingRounds};
pub use recording::{MessageSender, RecordedMessage};
pub use startup::{StartupProgress, StartupTest};

use crate::net::{DataPlane, NetworkError, NetworkOptions};
use crate::switch::EmulatedSwitch;
use crate::topology::Topology;
use connection_failure::Handshake;
use recording::MessageRecorder;

/// Bytes that the controller has not read, above which a switch closes its connection.
const TX_BACKLOG_MAX: usize = 16 << 20;

/// File descriptors besides the connections.
const OPEN_FILES: u64 = 64;

/// Why a live network failed.
#[derive(Debug)]
pub enum LiveError {
    /// A system error.
    Io(io::Error),
    /// An error of the network, such as a broadcast storm.
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

/// An emulated network whose switches are connected to a real controller.
///
/// One thread runs all of it in [`run_once`](Self::run_once). Links have the impairments of the topology. Control
/// connections are real, so [`NetworkOptions::control_up`] and [`NetworkOptions::control_down`] are not used.
#[derive(Debug)]
pub struct LiveNetwork {
    data_plane: DataPlane,
    io: Epoll,
    controller: SocketAddr,
    connections: Vec<ControlConnection>,
    /// The connection and switch of each slot.
    owners: Vec<Option<(ConnId, usize)>>,
    reconnect: Duration,
    now: Instant,
    failure: Option<ConnectionFailure>,
    /// `None` if nothing is recorded.
    recorder: Option<MessageRecorder>,
}

/// The control connection of one switch.
#[derive(Debug)]
enum ControlConnection {
    /// Waiting until this time before connecting.
    Backoff(Instant),
    /// A connection attempt is in progress.
    Connecting,
    Open(OpenConnection),
}

#[derive(Debug)]
struct OpenConnection {
    id: ConnId,
    /// Bytes that the socket has not accepted yet.
    tx_backlog: Vec<u8>,
    /// `None` once it is complete.
    handshake: Option<Handshake>,
}

impl ControlConnection {
    /// Follows the handshake, of which these bytes were received; `true` if it is complete now.
    fn follow_handshake(&mut self, bytes: &[u8], is_connected: bool) -> bool {
        let Self::Open(OpenConnection { handshake, .. }) = self else { return false };
        if is_connected {
            return handshake.take().is_some();
        }
        if let Some(handshake) = handshake {
            handshake.receive(bytes);
        }
        false
    }
}

impl LiveNetwork {
    /// The network of `topology`, whose switches are about to connect to `controller`.
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
            failure: None,
            recorder: None,
        })
    }

    /// One iteration of the event loop: waits for an event or `until`, handles events and timers, and sends.
    ///
    /// # Errors
    /// A system error, or a broadcast storm.
    pub fn run_once(&mut self, until: Option<Instant>) -> Result<Instant, LiveError> {
        let dues = self.connections.iter().filter_map(|connection| match connection {
            ControlConnection::Backoff(at) => Some(*at),
            _ => None,
        });
        let deadline = dues.chain(self.data_plane.deadline()).chain(until).min();
        let now = self.io.wait(deadline)?.max(self.now);
        self.now = now;
        // Timers that were due come before events received now.
        self.data_plane.tick(now)?;
        self.process_events(now);
        self.data_plane.tick(now)?;
        self.open_connections(now);
        self.transmit_pending(now);
        Ok(now)
    }

    fn process_events(&mut self, now: Instant) {
        while let Some(event) = self.io.next_event() {
            let (id, bytes, end) = match event {
                IoEvent::Connected(id) => {
                    if let Some(switch) = owner(&self.owners, id) {
                        if let Some(connection) = self.connections.get_mut(switch) {
                            let (tx_backlog, handshake) = (Vec::new(), Some(Handshake::new(now)));
                            let open = OpenConnection { id, tx_backlog, handshake };
                            *connection = ControlConnection::Open(open);
                        }
                        self.data_plane.control_connected(now, switch);
                    }
                    continue;
                }
                IoEvent::Data(id, bytes) => (id, bytes, None),
                IoEvent::Closed(id, why) => (id, &[][..], Some(why)),
                // Sending is retried in every iteration anyway, and there is no listener.
                IoEvent::Writable(_)
                | IoEvent::NothingReceived(_)
                | IoEvent::Woken
                | IoEvent::Accepted(..)
                | IoEvent::AcceptFailed(_) => {
                    continue;
                }
            };
            let Some(switch) = owner(&self.owners, id) else { continue };
            if let Some(recorder) = &mut self.recorder {
                recorder.record(now, switch, MessageSender::Controller, bytes);
            }
            let ended = if let Some(why) = end {
                Some(why.map(|error| ConnectionFailure::System(error.kind())))
            } else {
                let result = self.data_plane.on_control_bytes(now, switch, bytes);
                let switch_state = self.data_plane.switch(switch);
                let is_connected = switch_state.is_some_and(EmulatedSwitch::is_connected);
                if let Some(connection) = self.connections.get_mut(switch)
                    && connection.follow_handshake(bytes, is_connected)
                {
                    self.failure = None;
                }
                result.err().map(|error| Some(ConnectionFailure::Session(error)))
            };
            if let Some(error) = ended {
                self.fail(switch, error);
                self.close(now, switch, id);
            }
        }
    }

    /// Records why the connection of a switch ends; `error` is `None` if the peer has closed it.
    fn fail(&mut self, switch: usize, error: Option<ConnectionFailure>) {
        self.failure = match self.connections.get(switch) {
            Some(ControlConnection::Open(OpenConnection {
                handshake: Some(handshake), ..
            })) => Some(handshake.ended(error)),
            _ => error,
        };
    }

    /// Closes a connection, after sending as much as the socket accepts; the switch reconnects later.
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
        if let Some(recorder) = &mut self.recorder {
            recorder.forget(switch);
        }
    }

    fn open_connections(&mut self, now: Instant) {
        for switch in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(switch) else { return };
            if !matches!(connection, ControlConnection::Backoff(at) if *at <= now) {
                continue;
            }
            let options = sock::Options::default();
            let started = sock::start_connect(self.controller, &options)
                .and_then(|stream| self.io.adopt_connecting(stream));
            match started {
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
                    self.failure = Some(ConnectionFailure::System(e.kind()));
                    *connection = ControlConnection::Backoff(now + self.reconnect);
                }
            }
        }
    }

    fn transmit_pending(&mut self, now: Instant) {
        while let Some((switch, bytes)) = self.data_plane.take_control_output() {
            if let Some(ControlConnection::Open(open)) = self.connections.get_mut(switch) {
                if let Some(recorder) = &mut self.recorder {
                    recorder.record(clock::now(), switch, MessageSender::Switch, &bytes);
                }
                open.tx_backlog.extend(bytes);
            }
        }
        let mut stuck = vec![];
        for (switch, connection) in self.connections.iter_mut().enumerate() {
            let ControlConnection::Open(OpenConnection { id, tx_backlog, .. }) = connection else {
                continue;
            };
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
            self.fail(switch, Some(ConnectionFailure::NotRead));
            self.close(now, switch, id);
        }
    }

    /// Closes the connection of a switch, which reconnects later.
    pub fn close_control_connection(&mut self, switch: usize) {
        if let Some(ControlConnection::Open(open)) = self.connections.get(switch) {
            self.close(self.now, switch, open.id);
        }
    }

    /// The address to which switches connect from now on. Open connections stay.
    pub fn set_controller(&mut self, controller: SocketAddr) {
        self.controller = controller;
    }

    /// Records control messages of these types from now on, for [`take_recorded_messages`](Self::take_recorded_messages).
    ///
    /// # Cost
    /// Reads the clock for each write, and copies each message.
    pub fn record_messages(&mut self, kinds: &[MessageType]) {
        self.recorder = Some(MessageRecorder::new(kinds));
    }

    /// The messages recorded since the last call, in the order in which they were sent or received.
    pub fn take_recorded_messages(&mut self) -> Vec<RecordedMessage> {
        self.recorder.as_mut().map(MessageRecorder::take).unwrap_or_default()
    }

    /// Number of messages that were not recorded, because a million waited to be taken.
    pub fn messages_not_recorded(&self) -> u64 {
        self.recorder.as_ref().map_or(0, MessageRecorder::discarded)
    }

    /// Switches, hosts and links.
    pub fn data_plane(&self) -> &DataPlane {
        &self.data_plane
    }

    /// The time of the last iteration, and switches, hosts and links to control.
    pub fn data_plane_mut(&mut self) -> (Instant, &mut DataPlane) {
        (self.now, &mut self.data_plane)
    }

    /// Wakes the event loop from another thread.
    pub fn waker(&self) -> Waker {
        self.io.waker()
    }

    /// Number of switches whose handshake is complete.
    pub fn connected_switches(&self) -> usize {
        let switches = (0..self.connections.len()).filter_map(|n| self.data_plane.switch(n));
        switches.filter(|switch| switch.is_connected()).count()
    }

    /// Why the last connection has failed, unless a handshake was completed since; or else why a handshake is not complete for long.
    pub fn connection_failure(&self) -> Option<ConnectionFailure> {
        self.failure.or_else(|| {
            self.connections.iter().find_map(|connection| match connection {
                ControlConnection::Open(open) => open.handshake.as_ref()?.slow(self.now),
                _ => None,
            })
        })
    }

    /// The time of the last iteration.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Closes connections normally; after a reset, the controller would lose the last messages.
impl Drop for LiveNetwork {
    fn drop(&mut self) {
        for connection in &self.connections {
            if let ControlConnection::Open(open) = connection {
                self.io.close(open.id);
            }
        }
    }
}

/// The switch to which a connection belongs.
fn owner(owners: &[Option<(ConnId, usize)>], id: ConnId) -> Option<usize> {
    let &(owned, switch) = owners.get(id.slot())?.as_ref()?;
    (owned == id).then_some(switch)
}
