//! The same network in real time, against a controller behind a TCP connection for each switch.

mod rounds;
mod start;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, Waker, clock, sock};

pub use rounds::{Glance, Pace, Rounds};
pub use start::{Progress, Start};

use crate::net::{Fabric, NetError, Options};
use crate::topology::Topology;

/// Bytes that a controller has not taken, at which a switch hangs up: it would lose them anyway.
const UNTAKEN_MAX: usize = 16 << 20;

/// Files beside the connections.
const OPEN_FILES: u64 = 64;

/// Why a network ended.
#[derive(Debug)]
pub enum LiveError {
    /// The system refuses something.
    Io(io::Error),
    /// The network cannot go on.
    Net(NetError),
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => e.fmt(f),
            Self::Net(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for LiveError {}

impl From<io::Error> for LiveError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<NetError> for LiveError {
    fn from(e: NetError) -> Self {
        Self::Net(e)
    }
}

/// A network whose switches are connected to a real controller.
///
/// One thread plays all of it, in [`turn`](Self::turn). Links between switches and hosts have the shape that the
/// topology gives them; control links are what lies between this process and the controller, and
/// [`Options::up`] and [`Options::down`] are not used.
#[derive(Debug)]
pub struct Live {
    fabric: Fabric,
    io: Epoll,
    to: SocketAddr,
    lines: Vec<Line>,
    /// Whose connection is in which slot.
    owners: Vec<Option<(ConnId, usize)>>,
    reconnect: Duration,
    now: Instant,
    refused: Option<io::ErrorKind>,
}

/// The connection of one switch.
#[derive(Debug)]
enum Line {
    /// It waits until then.
    Waiting(Instant),
    /// It is asked for.
    Asked,
    /// It is there; bytes that the controller has not taken yet.
    Open(ConnId, Vec<u8>),
}

impl Live {
    /// The network of `topology`, in which every switch is about to connect to `to`.
    ///
    /// # Errors
    /// Too few file descriptors; a switch with too many ports.
    pub fn connect(
        to: SocketAddr,
        topology: Topology,
        options: &Options,
    ) -> Result<Self, LiveError> {
        let n_switches = topology.switches.len();
        sluice_io::limits::raise_open_files(n_switches as u64 + OPEN_FILES);
        let io = Epoll::new(WaitStrategy::default())?;
        let now = clock::now();
        let spread = u32::try_from(options.spread.as_micros()).unwrap_or(u32::MAX);
        let mut rng = Rng::new(!options.seed);
        let mut after = || Duration::from_micros(rng.below(spread).into());
        Ok(Self {
            fabric: Fabric::new(topology, options, now)?,
            io,
            to,
            lines: (0..n_switches).map(|_| Line::Waiting(now + after())).collect(),
            owners: Vec::new(),
            reconnect: options.reconnect,
            now,
            refused: None,
        })
    }

    /// One turn: waits until something happens or `until` has come, hears everything, lets time pass, says everything.
    ///
    /// # Errors
    /// What the operating system says, or a storm.
    pub fn turn(&mut self, until: Option<Instant>) -> Result<Instant, LiveError> {
        let dues = self.lines.iter().filter_map(|line| match line {
            Line::Waiting(at) => Some(*at),
            _ => None,
        });
        let deadline = dues.chain(self.fabric.deadline()).chain(until).min();
        let now = self.io.wait(deadline)?.max(self.now);
        self.now = now;
        // What was due before is older than what is heard now.
        self.fabric.on_time(now)?;
        self.hear(now);
        self.fabric.on_time(now)?;
        self.ask(now);
        self.say(now);
        Ok(now)
    }

    fn hear(&mut self, now: Instant) {
        while let Some(event) = self.io.next_event() {
            let (id, bytes, is_over) = match event {
                IoEvent::Connected(id) => {
                    if let Some(switch) = owner(&self.owners, id) {
                        if let Some(line) = self.lines.get_mut(switch) {
                            *line = Line::Open(id, Vec::new());
                        }
                        self.refused = None;
                        self.fabric.connect(now, switch);
                    }
                    continue;
                }
                IoEvent::Data(id, bytes) => (id, bytes, false),
                IoEvent::Closed(id, why) => {
                    self.refused = why;
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
            if is_over || self.fabric.on_control(now, switch, bytes).is_err() {
                self.close(now, switch, id);
            }
        }
    }

    /// Ends a connection; the switch says what it has to say, as far as there is room, and asks again later.
    fn close(&mut self, now: Instant, switch: usize, id: ConnId) {
        self.say(now);
        self.io.close(id);
        if let Some(owner) = self.owners.get_mut(id.slot()) {
            *owner = None;
        }
        if let Some(line) = self.lines.get_mut(switch) {
            *line = Line::Waiting(now + self.reconnect);
        }
        self.fabric.disconnect(now, switch);
    }

    fn ask(&mut self, now: Instant) {
        for switch in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(switch) else { return };
            if !matches!(line, Line::Waiting(at) if *at <= now) {
                continue;
            }
            let options = sock::Options::default();
            let asked = sock::start_connect(self.to, &options)
                .and_then(|stream| self.io.adopt_connecting(stream));
            match asked {
                Ok(id) => {
                    *line = Line::Asked;
                    if self.owners.len() <= id.slot() {
                        self.owners.resize(id.slot() + 1, None);
                    }
                    if let Some(owner) = self.owners.get_mut(id.slot()) {
                        *owner = Some((id, switch));
                    }
                }
                Err(e) => {
                    self.refused = Some(e.kind());
                    *line = Line::Waiting(now + self.reconnect);
                }
            }
        }
    }

    fn say(&mut self, now: Instant) {
        while let Some((switch, said)) = self.fabric.take_control() {
            if let Some(Line::Open(_, untaken)) = self.lines.get_mut(switch) {
                untaken.extend(said);
            }
        }
        let mut stuck = vec![];
        for (switch, line) in self.lines.iter_mut().enumerate() {
            let Line::Open(id, untaken) = line else { continue };
            if !untaken.is_empty() {
                let sent = self.io.send(*id, untaken);
                untaken.drain(..sent);
            }
            self.fabric.set_untaken(switch, untaken.len());
            if untaken.len() > UNTAKEN_MAX {
                untaken.clear();
                stuck.push((switch, *id));
            }
        }
        for (switch, id) in stuck {
            self.close(now, switch, id);
        }
    }

    /// Breaks the connection of a switch, which opens another one after a while.
    pub fn hang_up(&mut self, switch: usize) {
        if let Some(&Line::Open(id, _)) = self.lines.get(switch) {
            self.close(self.now, switch, id);
        }
    }

    /// Switches, hosts and links.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The same, and the time of the turn, to tell hosts and links what to do.
    pub fn fabric_mut(&mut self) -> (Instant, &mut Fabric) {
        (self.now, &mut self.fabric)
    }

    /// Ends the wait of a turn from another thread.
    pub fn waker(&self) -> Waker {
        self.io.waker()
    }

    /// Switches that the controller knows.
    pub fn known(&self) -> usize {
        let switches = (0..self.lines.len()).filter_map(|n| self.fabric.switch(n));
        switches.filter(|switch| switch.is_known()).count()
    }

    /// Why a connection could not be opened, or ended, if none was opened since.
    pub fn refused(&self) -> Option<io::ErrorKind> {
        self.refused
    }

    /// The time of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Connections end in order: by a reset, a controller would lose what was said last.
impl Drop for Live {
    fn drop(&mut self) {
        for line in &self.lines {
            if let Line::Open(id, _) = line {
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
