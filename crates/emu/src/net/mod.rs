//! A whole network in virtual time: switches, hosts, links, control links, and a controller.
//!
//! Nothing here waits: time goes from one event to the next. Events of one time come in the order in which they were
//! caused, and all that is random comes from one seed, so a seed repeats a run to the byte.

mod control;
mod controller;
mod error;
mod fabric;
mod pings;
mod storm;
mod trace;
mod transport;
mod wire;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use sluice_base::Rng;

pub use controller::{Conn, Controller, Replies};
pub use error::NetError;
pub use fabric::{Fabric, Link};
pub use pings::{Family, Pings};
pub use trace::{TRACED, Traces};
pub use wire::WireCounts;

use crate::link::Settings;
use crate::switch::{ModelSwitch, Plan};
use crate::topology::{Place, Topology};
use control::{Letter, Way};
use controller::Reply;

/// Frames on their way at most, over all links: some 100 MiB of small ones.
pub const FRAMES_MAX: u64 = 1 << 20;

/// Steps without time passing, after which it will not pass any more.
const STEPS_AT_ONCE_MAX: u32 = 10_000_000;

/// What a network is beside its topology.
#[derive(Debug, Clone)]
pub struct Options {
    /// What all that is random comes from.
    pub seed: u64,
    /// What every switch is; identity and ports are those of the topology.
    pub switch: Plan,
    /// Ports of every switch beyond those that the topology uses, to which hosts can move. They are down.
    pub spare_ports: u16,
    /// From a switch to the controller.
    pub up: Settings,
    /// From the controller to a switch.
    pub down: Settings,
    /// What carries bytes through a control link.
    pub carriage: Carriage,
    /// How long a switch waits after a connection ended before it opens the next.
    pub reconnect: Duration,
    /// Time over which the first connections are spread by chance.
    pub spread: Duration,
    /// Copies of one frame within a second that are no storm yet; without it, 64 for each link and 1 000.
    pub copies_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0x5eed,
            switch: Plan::default(),
            spare_ports: 1,
            up: Settings::default(),
            down: Settings::default(),
            carriage: Carriage::Bare,
            reconnect: Duration::from_secs(1),
            spread: Duration::ZERO,
            copies_max: None,
        }
    }
}

/// What carries bytes through a control link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carriage {
    /// Nothing: bytes go as they are said, and are neither lost nor held back. Loss and queue of the link are not played.
    #[default]
    Bare,
    /// TCP, with its slow start, and with losses that it repairs; both cost time.
    Tcp,
}

/// Something that goes wrong, or changes, in a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A link is cut; those of hosts have numbers, too: [`Fabric::host_link`].
    Cut(usize),
    /// It is joined again.
    Join(usize),
    /// A link carries frames differently.
    Shape(usize, Settings),
    /// A host is moved to a free port.
    Move(usize, Place),
    /// The control connection of a switch breaks. Both ends notice, and the switch opens another.
    Break(usize),
    /// The control link of a switch carries nothing more, and nobody is told: what is said waits.
    Hold(usize),
    /// It carries again what was said.
    Release(usize),
    /// The control link of a switch is another: to the controller, and back.
    Control(usize, Settings, Settings),
    /// A host sends a frame to all that is followed, with this number: [`Fabric::traces`].
    Trace(usize, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Something may arrive from a switch.
    Up(usize),
    /// Something may arrive at a switch.
    Down(usize),
    /// A switch asks for a connection.
    Connect(usize),
    /// It has it, unless it was lost meanwhile.
    Connected(Conn),
    /// A fault, by its number.
    Fault(u64),
}

/// A network in virtual time, with its controller.
///
/// ```
/// use std::time::Duration;
/// use sluice_emu::net::{Conn, Controller, Net, Options, Replies};
/// use sluice_emu::topology::Topology;
/// # use std::time::Instant;
///
/// /// One that hears and says nothing.
/// struct Mute;
///
/// impl Controller for Mute {
///     fn on_open(&mut self, _: Instant, _: Conn, _: &mut Replies) {}
///     fn on_bytes(&mut self, _: Instant, _: Conn, _: &[u8], _: &mut Replies) {}
///     fn on_closed(&mut self, _: Instant, _: Conn, _: &mut Replies) {}
/// }
///
/// let start = sluice_io::clock::now();
/// let mut net = Net::new(Topology::from_text("ring,4")?, &Options::default(), start, Mute)?;
/// net.run_for(Duration::from_secs(60))?;
/// assert_eq!(net.since_start(), Duration::from_secs(60));
/// assert!(!net.fabric().switch(0).expect("s1").is_known());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Net<C> {
    fabric: Fabric,
    controller: C,
    lines: Vec<Line>,
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    n_events: u64,
    faults: BTreeMap<u64, Fault>,
    replies: Replies,
    rng: Rng,
    reconnect: Duration,
    start: Instant,
    now: Instant,
    steps_at_once: u32,
}

/// The control link of one switch.
#[derive(Debug)]
struct Line {
    up: Way,
    down: Way,
    conn: Conn,
    /// What the switch knows.
    is_open: bool,
    /// What the controller knows.
    accepted: Option<Conn>,
}

impl<C: Controller> Net<C> {
    /// The network of `topology`, in which every switch is about to open its connection.
    ///
    /// # Errors
    /// A switch has too many ports.
    pub fn new(
        topology: Topology,
        options: &Options,
        start: Instant,
        controller: C,
    ) -> Result<Self, NetError> {
        let fabric = Fabric::new(topology, options, start)?;
        let line = |switch| Line {
            up: Way::new(options.carriage, options.up, options.down.delay),
            down: Way::new(options.carriage, options.down, options.up.delay),
            conn: Conn::new(switch, 0),
            is_open: false,
            accepted: None,
        };
        let n_switches = fabric.topology().switches.len();
        let mut net = Self {
            lines: (0..n_switches).map(line).collect(),
            fabric,
            controller,
            events: BinaryHeap::new(),
            n_events: 0,
            faults: BTreeMap::new(),
            replies: Replies::default(),
            // Not the stream that the links draw from.
            rng: Rng::new(!options.seed),
            reconnect: options.reconnect,
            start,
            now: start,
            steps_at_once: 0,
        };
        let spread = u32::try_from(options.spread.as_micros()).unwrap_or(u32::MAX);
        for switch in 0..n_switches {
            let after = Duration::from_micros(net.rng.below(spread).into());
            net.event(start + after, What::Connect(switch));
        }
        Ok(net)
    }

    /// Lets everything happen that happens within `time`.
    ///
    /// # Errors
    /// A storm, or something else that would never end.
    pub fn run_for(&mut self, time: Duration) -> Result<(), NetError> {
        self.run_until(self.now + time)
    }

    /// Lets everything happen until `until`.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for).
    pub fn run_until(&mut self, until: Instant) -> Result<(), NetError> {
        while self.step(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Goes to the next time at which anything happens, if that is not after `until`; whether there was one.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for).
    pub fn step(&mut self, until: Instant) -> Result<bool, NetError> {
        self.say(self.now)?;
        let Some(next) = self.deadline().filter(|&next| next <= until) else { return Ok(false) };
        self.steps_at_once = if next > self.now { 0 } else { self.steps_at_once + 1 };
        if self.steps_at_once > STEPS_AT_ONCE_MAX {
            return Err(NetError::Stuck { at: self.since_start() });
        }
        self.now = self.now.max(next);
        let now = self.now;
        while let Some(&Reverse((_, _, what))) = self.events.peek().filter(|e| e.0.0 <= now) {
            self.events.pop();
            self.happen(now, what)?;
        }
        self.fabric.on_time(now)?;
        if self.controller.deadline().is_some_and(|at| at <= now) {
            self.controller.on_time(now, &mut self.replies);
        }
        self.say(now)?;
        Ok(true)
    }

    fn deadline(&self) -> Option<Instant> {
        let own = self.events.peek().map(|&Reverse((at, _, _))| at);
        let others = [self.fabric.deadline(), self.controller.deadline()];
        others.into_iter().chain([own]).flatten().min()
    }

    fn event(&mut self, at: Instant, what: What) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, what)));
    }

    fn happen(&mut self, now: Instant, what: What) -> Result<(), NetError> {
        match what {
            What::Up(switch) => self.arrive_up(now, switch),
            What::Down(switch) => self.arrive_down(now, switch)?,
            What::Connect(switch) => self.connect(now, switch),
            What::Connected(conn) => {
                let line = self.lines.get_mut(conn.switch());
                if let Some(line) = line.filter(|line| line.conn == conn) {
                    line.is_open = true;
                    line.up.send(now, conn, Letter::Open, &mut self.rng)?;
                    self.arm(conn.switch());
                    self.fabric.connect(now, conn.switch());
                }
            }
            What::Fault(number) => {
                if let Some(fault) = self.faults.remove(&number) {
                    self.fault(fault)?;
                }
            }
        }
        Ok(())
    }

    /// A switch begins a connection, which stands after a round trip.
    fn connect(&mut self, now: Instant, switch: usize) {
        let Some(line) = self.lines.get_mut(switch).filter(|line| !line.is_open) else { return };
        let conn = Conn::new(switch, line.conn.nth() + 1);
        line.conn = conn;
        line.up.begin();
        line.down.begin();
        let trip = line.up.delay() + line.down.delay();
        self.event(now + trip, What::Connected(conn));
    }

    fn arrive_up(&mut self, now: Instant, switch: usize) {
        let Some(line) = self.lines.get_mut(switch) else { return };
        line.up.fire(now, &mut self.rng);
        while let Some((conn, letter)) = line.up.receive(now) {
            match letter {
                Letter::Open => {
                    if let Some(old) = line.accepted.replace(conn) {
                        self.controller.on_closed(now, old, &mut self.replies);
                    }
                    self.controller.on_open(now, conn, &mut self.replies);
                }
                _ if line.accepted != Some(conn) => {}
                Letter::Bytes(bytes) => {
                    self.controller.on_bytes(now, conn, &bytes, &mut self.replies);
                }
                Letter::Close => {
                    line.accepted = None;
                    self.controller.on_closed(now, conn, &mut self.replies);
                }
            }
        }
        self.arm(switch);
    }

    fn arrive_down(&mut self, now: Instant, switch: usize) -> Result<(), NetError> {
        let Some(line) = self.lines.get_mut(switch) else { return Ok(()) };
        line.down.fire(now, &mut self.rng);
        while let Some(line) = self.lines.get_mut(switch)
            && let Some((conn, letter)) = line.down.receive(now)
        {
            if conn != line.conn || !line.is_open {
                continue;
            }
            let is_over = match letter {
                Letter::Bytes(bytes) => self.fabric.on_control(now, switch, &bytes).is_err(),
                Letter::Open => false,
                Letter::Close => true,
            };
            if is_over {
                // What it said last is still heard.
                self.say(now)?;
                self.close(now, switch, Last::Heard)?;
            }
        }
        self.arm(switch);
        Ok(())
    }

    /// A connection ends on the side of the switch, which tells the other side and opens another one later.
    fn close(&mut self, now: Instant, switch: usize, last: Last) -> Result<(), NetError> {
        let Some(line) = self.lines.get_mut(switch) else { return Ok(()) };
        if last == Last::Lost {
            line.up.empty();
            line.down.empty();
        }
        if std::mem::take(&mut line.is_open) {
            line.up.send(now, line.conn, Letter::Close, &mut self.rng)?;
            self.fabric.disconnect(now, switch);
            self.event(now + self.reconnect, What::Connect(switch));
        } else if let Some(conn) = line.accepted.filter(|_| last == Last::Lost) {
            // The news that it ended was on its way.
            line.up.send(now, conn, Letter::Close, &mut self.rng)?;
        }
        self.arm(switch);
        Ok(())
    }

    /// Lets switches and the controller say what they have to say.
    fn say(&mut self, now: Instant) -> Result<(), NetError> {
        while let Some((switch, bytes)) = self.fabric.take_control() {
            let Some(line) = self.lines.get_mut(switch).filter(|line| line.is_open) else {
                continue;
            };
            line.up.send(now, line.conn, Letter::Bytes(bytes), &mut self.rng)?;
            self.arm(switch);
        }
        for (conn, reply) in self.replies.take() {
            let line = self.lines.get_mut(conn.switch());
            let Some(line) = line.filter(|line| line.accepted == Some(conn)) else { continue };
            let letter = match reply {
                Reply::Bytes(bytes) => Letter::Bytes(bytes),
                Reply::HangUp => {
                    line.accepted = None;
                    Letter::Close
                }
            };
            line.down.send(now, conn, letter, &mut self.rng)?;
            self.arm(conn.switch());
        }
        Ok(())
    }

    fn arm(&mut self, switch: usize) {
        let Some(line) = self.lines.get_mut(switch) else { return };
        let (up, down) = (line.up.arm(), line.down.arm());
        self.fabric.set_untaken(switch, line.up.untaken(self.now));
        if let Some(at) = up {
            self.event(at, What::Up(switch));
        }
        if let Some(at) = down {
            self.event(at, What::Down(switch));
        }
    }

    /// Lets `fault` happen at a time to come.
    pub fn schedule(&mut self, at: Instant, fault: Fault) {
        let number = self.n_events;
        self.faults.insert(number, fault);
        self.event(at.max(self.now), What::Fault(number));
    }

    /// Lets `fault` happen now.
    ///
    /// # Errors
    /// There is no such link, host, switch or port.
    pub fn fault(&mut self, fault: Fault) -> Result<(), NetError> {
        let now = self.now;
        match fault {
            Fault::Cut(link) => self.fabric.set_link(now, link, Link::Down),
            Fault::Join(link) => self.fabric.set_link(now, link, Link::Up),
            Fault::Shape(link, shape) => self.fabric.shape(now, link, shape),
            Fault::Move(host, to) => self.fabric.move_host(now, host, to),
            Fault::Trace(host, number) => {
                let node = self.fabric.topology().hosts.get(host);
                let node = node.ok_or(NetError::Nobody { what: "host", index: host })?;
                let frame = Traces::frame(node.mac, number);
                self.fabric.inject(now, host, frame)
            }
            Fault::Break(switch) => {
                self.line(switch)?;
                self.close(now, switch, Last::Lost)
            }
            Fault::Hold(switch) => {
                let line = self.line(switch)?;
                line.up.hold();
                line.down.hold();
                Ok(())
            }
            Fault::Release(switch) => {
                let no_switch = NetError::Nobody { what: "switch", index: switch };
                let line = self.lines.get_mut(switch).ok_or(no_switch)?;
                line.up.release(now, &mut self.rng)?;
                line.down.release(now, &mut self.rng)?;
                self.arm(switch);
                Ok(())
            }
            Fault::Control(switch, up, down) => {
                let line = self.line(switch)?;
                line.up.set(now, up, down.delay);
                line.down.set(now, down, up.delay);
                self.arm(switch);
                Ok(())
            }
        }
    }

    fn line(&mut self, switch: usize) -> Result<&mut Line, NetError> {
        let no_switch = NetError::Nobody { what: "switch", index: switch };
        self.lines.get_mut(switch).ok_or(no_switch)
    }

    /// Takes the controller away and puts another one in its place, as when it is restarted: every connection breaks.
    /// The old one is handed back.
    ///
    /// # Errors
    /// None that happens unless a control link was full before.
    pub fn replace(&mut self, controller: C) -> Result<C, NetError> {
        for switch in 0..self.lines.len() {
            if let Some(line) = self.lines.get_mut(switch) {
                line.accepted = None;
            }
            self.close(self.now, switch, Last::Lost)?;
        }
        Ok(std::mem::replace(&mut self.controller, controller))
    }

    /// Switches, hosts and links.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The same, and the time, to tell hosts what to do.
    pub fn fabric_mut(&mut self) -> (Instant, &mut Fabric) {
        (self.now, &mut self.fabric)
    }

    /// The controller.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// The controller, to be told something.
    pub fn controller_mut(&mut self) -> &mut C {
        &mut self.controller
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How long it has run.
    pub fn since_start(&self) -> Duration {
        self.now - self.start
    }

    /// Bytes that a switch said to the controller, and heard from it.
    pub fn control_bytes(&self, switch: usize) -> Option<(u64, u64)> {
        self.lines.get(switch).map(|line| (line.up.bytes(), line.down.bytes()))
    }

    /// Switches that the controller knows.
    pub fn known(&self) -> usize {
        let switches = 0..self.lines.len();
        switches.filter(|&n| self.fabric.switch(n).is_some_and(ModelSwitch::is_known)).count()
    }
}

/// What becomes of what was said before a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Heard,
    Lost,
}
