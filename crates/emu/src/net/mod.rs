//! A whole network in virtual time: switches, hosts, links, control links, and a controller.
//!
//! Nothing waits: time advances from one event to the next. Simultaneous events are handled in the order in which they
//! were scheduled, and all randomness comes from one seed, so a seed reproduces a run exactly.

mod control_link;
mod controller;
mod data_plane;
mod error;
mod frame_traces;
mod link;
mod pings;
mod storm_detector;
mod tcp_model;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_openflow::{FlowMod, FlowModCommand, MacAddr};

pub use controller::{ConnectionId, Controller, ControllerOutput};
pub use data_plane::{CapturedFrame, DataPlane, HubKind, LinkState};
pub use error::NetworkError;
pub use frame_traces::{FrameTraces, TRACED_ETHERTYPE};
pub use link::FrameCounters;
pub use pings::{IpFamily, PingSummary};

use crate::link::LinkImpairments;
use crate::switch::{EmulatedSwitch, EmulatedSwitchConfig};
use crate::topology::{PortRef, Topology};
use control_link::{ControlDirection, ControlEvent};
use controller::ControllerAction;

/// Most frames in flight, over all links: about 100 MiB of small ones.
pub const FRAMES_MAX: u64 = 1 << 20;

/// Most steps without time passing.
const STEPS_AT_ONCE_MAX: u32 = 10_000_000;

/// Everything about a network except its topology.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// Seed of all randomness.
    pub seed: u64,
    /// Configuration of every switch; datapath id and ports come from the topology.
    pub switch: EmulatedSwitchConfig,
    /// Additional ports of every switch, to which hosts can move. They are down.
    pub spare_ports: u16,
    /// Impairments of control links from switch to controller.
    pub control_up: LinkImpairments,
    /// Impairments of control links from controller to switch.
    pub control_down: LinkImpairments,
    /// The transport over control links.
    pub control_transport: ControlTransport,
    /// How long a switch waits before it reconnects.
    pub reconnect_delay: Duration,
    /// The first connections start at random times within this.
    pub connect_spread: Duration,
    /// Copies of one frame within a second above which there is a broadcast storm; by default 64 per link plus 1000.
    pub frame_copies_max: Option<u64>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            seed: 0x5eed,
            switch: EmulatedSwitchConfig::default(),
            spare_ports: 1,
            control_up: LinkImpairments::default(),
            control_down: LinkImpairments::default(),
            control_transport: ControlTransport::Ideal,
            reconnect_delay: Duration::from_secs(1),
            connect_spread: Duration::ZERO,
            frame_copies_max: None,
        }
    }
}

/// The transport over control links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ControlTransport {
    /// An ideal transport: nothing is lost or delayed by congestion. Loss and queue of the link are ignored.
    #[default]
    Ideal,
    /// TCP with slow start and retransmissions, which cost time.
    Tcp,
}

/// A change or fault of a simulated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkChange {
    /// Cuts a link, by number; [`DataPlane::host_link`] has those of hosts.
    CutLink(usize),
    /// Restores a link.
    RestoreLink(usize),
    /// Changes the impairments of a link.
    SetLinkImpairments(usize, LinkImpairments),
    /// Moves a host to a free port.
    MoveHost(usize, PortRef),
    /// Moves a host to a free port; its old port stays up, and the host announces nothing.
    MoveHostSilently(usize, PortRef),
    /// Breaks the control connection of a switch. Both sides notice, and the switch reconnects.
    BreakControlConnection(usize),
    /// Stops a control link from carrying anything, unnoticed; messages wait.
    PauseControlLink(usize),
    /// Resumes a paused control link.
    ResumeControlLink(usize),
    /// Changes the impairments of a control link: to the controller, and to the switch.
    SetControlImpairments(usize, LinkImpairments, LinkImpairments),
    /// Has another program delete all flow entries of a switch.
    EmptyTables(usize),
    /// Lets a host send a traced broadcast frame with this number: [`DataPlane::traces`].
    SendTracedFrame(usize, u32),
    /// Lets a host send a traced frame to this group address.
    SendTracedMulticast(usize, MacAddr, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulationEvent {
    /// Something may arrive at the controller.
    ArriveAtController(usize),
    /// Something may arrive at a switch.
    ArriveAtSwitch(usize),
    /// A switch starts connecting.
    Connect(usize),
    /// The connection is established, unless it was lost meanwhile.
    Connected(ConnectionId),
    /// A scheduled change, by its number.
    NetworkChange(u64),
}

/// A network in virtual time, with its controller.
///
/// ```
/// use std::time::Duration;
/// use sluice_emu::net::{ConnectionId, Controller, NetworkSimulation, NetworkOptions, ControllerOutput};
/// use sluice_emu::topology::Topology;
/// # use std::time::Instant;
///
/// /// A controller that ignores everything.
/// struct Mute;
///
/// impl Controller for Mute {
///     fn on_open(&mut self, _: Instant, _: ConnectionId, _: &mut ControllerOutput) {}
///     fn on_bytes(&mut self, _: Instant, _: ConnectionId, bytes: &[u8], _: &mut ControllerOutput) -> usize {
///         bytes.len()
///     }
///     fn on_closed(&mut self, _: Instant, _: ConnectionId, _: &mut ControllerOutput) {}
/// }
///
/// let start = sluice_io::clock::now();
/// let mut net = NetworkSimulation::new(Topology::from_text("ring,4")?, &NetworkOptions::default(), start, Mute)?;
/// net.run_for(Duration::from_secs(60))?;
/// assert_eq!(net.elapsed(), Duration::from_secs(60));
/// assert!(!net.data_plane().switch(0).expect("s1").is_connected());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NetworkSimulation<C> {
    data_plane: DataPlane,
    controller: C,
    control_links: Vec<ControlLink>,
    events: BinaryHeap<Reverse<(Instant, u64, SimulationEvent)>>,
    n_events: u64,
    changes: BTreeMap<u64, NetworkChange>,
    controller_output: ControllerOutput,
    /// Switches with bytes that the controller did not take.
    untaken: BTreeSet<usize>,
    rng: Rng,
    reconnect: Duration,
    start: Instant,
    now: Instant,
    steps_at_once: u32,
}

/// The control link of one switch.
#[derive(Debug)]
struct ControlLink {
    up: ControlDirection,
    down: ControlDirection,
    conn: ConnectionId,
    /// Whether the switch has a connection.
    is_open: bool,
    /// The connection that the controller has accepted.
    accepted: Option<ConnectionId>,
}

impl<C: Controller> NetworkSimulation<C> {
    /// The network of `topology`, whose switches are about to connect.
    ///
    /// # Errors
    /// A switch with too many ports.
    pub fn new(
        topology: Topology,
        options: &NetworkOptions,
        start: Instant,
        controller: C,
    ) -> Result<Self, NetworkError> {
        let data_plane = DataPlane::new(topology, options, start)?;
        let link = |switch| ControlLink {
            up: ControlDirection::new(
                options.control_transport,
                options.control_up,
                options.control_down.delay,
            ),
            down: ControlDirection::new(
                options.control_transport,
                options.control_down,
                options.control_up.delay,
            ),
            conn: ConnectionId::new(switch, 0),
            is_open: false,
            accepted: None,
        };
        let n_switches = data_plane.topology().switches.len();
        let mut net = Self {
            control_links: (0..n_switches).map(link).collect(),
            data_plane,
            controller,
            events: BinaryHeap::new(),
            n_events: 0,
            changes: BTreeMap::new(),
            controller_output: ControllerOutput::default(),
            untaken: BTreeSet::new(),
            // Independent of the random numbers of the links.
            rng: Rng::new(!options.seed),
            reconnect: options.reconnect_delay,
            start,
            now: start,
            steps_at_once: 0,
        };
        let spread = u32::try_from(options.connect_spread.as_micros()).unwrap_or(u32::MAX);
        for switch in 0..n_switches {
            let after = Duration::from_micros(net.rng.below(spread).into());
            net.push_event(start + after, SimulationEvent::Connect(switch));
        }
        Ok(net)
    }

    /// Runs the network for `time`.
    ///
    /// # Errors
    /// A broadcast storm, or another error that makes it useless to go on.
    pub fn run_for(&mut self, time: Duration) -> Result<(), NetworkError> {
        self.run_until(self.now + time)
    }

    /// Runs the network until `until`.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for).
    pub fn run_until(&mut self, until: Instant) -> Result<(), NetworkError> {
        while self.step(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Advances to the next event, if it is not after `until`; `false` if there is none.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for).
    pub fn step(&mut self, until: Instant) -> Result<bool, NetworkError> {
        self.exchange(self.now)?;
        let Some(next) = self.deadline().filter(|&next| next <= until) else { return Ok(false) };
        self.steps_at_once = if next > self.now { 0 } else { self.steps_at_once + 1 };
        if self.steps_at_once > STEPS_AT_ONCE_MAX {
            return Err(NetworkError::TimeStuck { at: self.elapsed() });
        }
        self.now = self.now.max(next);
        let now = self.now;
        while let Some(&Reverse((_, _, event))) = self.events.peek().filter(|e| e.0.0 <= now) {
            self.events.pop();
            self.handle_event(now, event)?;
        }
        self.data_plane.tick(now)?;
        if self.controller.deadline().is_some_and(|at| at <= now) {
            self.controller.on_tick(now, &mut self.controller_output);
            for switch in std::mem::take(&mut self.untaken) {
                self.deliver_to_controller(now, switch)?;
            }
        }
        self.exchange(now)?;
        Ok(true)
    }

    fn deadline(&self) -> Option<Instant> {
        let own = self.events.peek().map(|&Reverse((at, _, _))| at);
        let others = [self.data_plane.deadline(), self.controller.deadline()];
        others.into_iter().chain([own]).flatten().min()
    }

    fn push_event(&mut self, at: Instant, event: SimulationEvent) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, event)));
    }

    fn handle_event(&mut self, now: Instant, event: SimulationEvent) -> Result<(), NetworkError> {
        match event {
            SimulationEvent::ArriveAtController(switch) => {
                self.deliver_to_controller(now, switch)?;
            }
            SimulationEvent::ArriveAtSwitch(switch) => self.deliver_to_switch(now, switch)?,
            SimulationEvent::Connect(switch) => self.connect(now, switch),
            SimulationEvent::Connected(conn) => {
                let link = self.control_links.get_mut(conn.switch());
                if let Some(link) = link.filter(|link| link.conn == conn) {
                    link.is_open = true;
                    link.up.send(now, conn, ControlEvent::Open, &mut self.rng)?;
                    self.schedule_arrivals(conn.switch());
                    self.data_plane.control_connected(now, conn.switch());
                }
            }
            SimulationEvent::NetworkChange(number) => {
                if let Some(change) = self.changes.remove(&number) {
                    self.apply(change)?;
                }
            }
        }
        Ok(())
    }

    /// A switch starts connecting; the connection is established after a round trip.
    fn connect(&mut self, now: Instant, switch: usize) {
        let Some(link) = self.control_links.get_mut(switch).filter(|link| !link.is_open) else {
            return;
        };
        let conn = ConnectionId::new(switch, link.conn.nth() + 1);
        link.conn = conn;
        link.up.start_connection();
        link.down.start_connection();
        let trip = link.up.delay() + link.down.delay();
        self.push_event(now + trip, SimulationEvent::Connected(conn));
    }

    fn deliver_to_controller(&mut self, now: Instant, switch: usize) -> Result<(), NetworkError> {
        let Some(link) = self.control_links.get_mut(switch) else { return Ok(()) };
        link.up.on_wakeup(now, &mut self.rng);
        while let Some((conn, letter)) = link.up.receive() {
            match letter {
                ControlEvent::Open => {
                    if let Some(old) = link.accepted.replace(conn) {
                        self.controller.on_closed(now, old, &mut self.controller_output);
                    }
                    self.controller.on_open(now, conn, &mut self.controller_output);
                }
                _ if link.accepted != Some(conn) => {}
                ControlEvent::Bytes(mut bytes) => {
                    let output = &mut self.controller_output;
                    let taken = self.controller.on_bytes(now, conn, &bytes, output);
                    if taken < bytes.len() {
                        link.up.put_back(conn, bytes.split_off(taken));
                        self.untaken.insert(switch);
                        break;
                    }
                }
                ControlEvent::Close => {
                    link.accepted = None;
                    self.controller.on_closed(now, conn, &mut self.controller_output);
                }
            }
        }
        link.up.send_waiting(now, &mut self.rng)?;
        self.schedule_arrivals(switch);
        Ok(())
    }

    fn deliver_to_switch(&mut self, now: Instant, switch: usize) -> Result<(), NetworkError> {
        let Some(link) = self.control_links.get_mut(switch) else { return Ok(()) };
        link.down.on_wakeup(now, &mut self.rng);
        while let Some(link) = self.control_links.get_mut(switch)
            && let Some((conn, letter)) = link.down.receive()
        {
            if conn != link.conn || !link.is_open {
                continue;
            }
            let is_over = match letter {
                ControlEvent::Bytes(bytes) => {
                    self.data_plane.on_control_bytes(now, switch, &bytes).is_err()
                }
                ControlEvent::Open => false,
                ControlEvent::Close => true,
            };
            if is_over {
                // Send what the switch sent last.
                self.transmit_pending(now)?;
                self.close(now, switch, PendingBytes::Delivered)?;
            }
        }
        self.schedule_arrivals(switch);
        Ok(())
    }

    /// Closes a connection at the switch, notifies the controller, and schedules a reconnection.
    fn close(
        &mut self,
        now: Instant,
        switch: usize,
        last: PendingBytes,
    ) -> Result<(), NetworkError> {
        let Some(link) = self.control_links.get_mut(switch) else { return Ok(()) };
        if last == PendingBytes::Lost {
            link.up.discard();
            link.down.discard();
        }
        if std::mem::take(&mut link.is_open) {
            link.up.send(now, link.conn, ControlEvent::Close, &mut self.rng)?;
            self.data_plane.control_disconnected(now, switch);
            self.push_event(now + self.reconnect, SimulationEvent::Connect(switch));
        } else if let Some(conn) = link.accepted.filter(|_| last == PendingBytes::Lost) {
            // The notification of the end was in transit and has been lost.
            link.up.send(now, conn, ControlEvent::Close, &mut self.rng)?;
        }
        self.schedule_arrivals(switch);
        Ok(())
    }

    /// Transmits everything that switches and the controller want to send, and lets the controller send more where it waited
    /// for room.
    fn exchange(&mut self, now: Instant) -> Result<(), NetworkError> {
        self.transmit_pending(now)?;
        while let Some(conn) = self.controller_output.next_with_room() {
            self.controller.on_room(now, conn, &mut self.controller_output);
            self.transmit_pending(now)?;
        }
        Ok(())
    }

    /// Transmits what switches and the controller have sent.
    fn transmit_pending(&mut self, now: Instant) -> Result<(), NetworkError> {
        while let Some((switch, bytes)) = self.data_plane.take_control_output() {
            let Some(link) = self.control_links.get_mut(switch).filter(|link| link.is_open) else {
                continue;
            };
            link.up.send(now, link.conn, ControlEvent::Bytes(bytes), &mut self.rng)?;
            self.schedule_arrivals(switch);
        }
        for (conn, reply) in self.controller_output.take() {
            let link = self.control_links.get_mut(conn.switch());
            let Some(link) = link.filter(|link| link.accepted == Some(conn)) else { continue };
            let letter = match reply {
                ControllerAction::Bytes(bytes) => ControlEvent::Bytes(bytes),
                ControllerAction::Close => {
                    link.accepted = None;
                    ControlEvent::Close
                }
            };
            link.down.send(now, conn, letter, &mut self.rng)?;
            self.schedule_arrivals(conn.switch());
        }
        Ok(())
    }

    fn schedule_arrivals(&mut self, switch: usize) {
        let Some(link) = self.control_links.get_mut(switch) else { return };
        let (up, down) = (link.up.next_wakeup(), link.down.next_wakeup());
        self.data_plane.set_tx_backlog(switch, link.up.backlog_bytes(self.now));
        self.controller_output.set_room(switch, link.down.room(self.now));
        if let Some(at) = up {
            self.push_event(at, SimulationEvent::ArriveAtController(switch));
        }
        if let Some(at) = down {
            self.push_event(at, SimulationEvent::ArriveAtSwitch(switch));
        }
    }

    /// Schedules a change.
    pub fn schedule(&mut self, at: Instant, change: NetworkChange) {
        let number = self.n_events;
        self.changes.insert(number, change);
        self.push_event(at.max(self.now), SimulationEvent::NetworkChange(number));
    }

    /// Applies a change now.
    ///
    /// # Errors
    /// There is no such link, host, switch or port.
    pub fn apply(&mut self, change: NetworkChange) -> Result<(), NetworkError> {
        let now = self.now;
        match change {
            NetworkChange::CutLink(link) => {
                self.data_plane.set_link_state(now, link, LinkState::Down)
            }
            NetworkChange::RestoreLink(link) => {
                self.data_plane.set_link_state(now, link, LinkState::Up)
            }
            NetworkChange::SetLinkImpairments(link, shape) => {
                self.data_plane.set_link_impairments(now, link, shape)
            }
            NetworkChange::MoveHost(host, to) => self.data_plane.move_host(now, host, to),
            NetworkChange::MoveHostSilently(host, to) => {
                self.data_plane.move_host_silently(now, host, to)
            }
            NetworkChange::SendTracedFrame(host, number) => {
                self.apply(NetworkChange::SendTracedMulticast(host, MacAddr::BROADCAST, number))
            }
            NetworkChange::SendTracedMulticast(host, dst, number) => {
                let node = self.data_plane.topology().hosts.get(host);
                let node = node.ok_or(NetworkError::NotFound { what: "host", index: host })?;
                let frame = FrameTraces::frame(node.mac, dst, number);
                self.data_plane.send_frame(now, host, frame)
            }
            NetworkChange::EmptyTables(switch) => {
                let all = FlowMod {
                    command: FlowModCommand::DELETE,
                    table_id: FlowMod::TABLE_ALL,
                    ..FlowMod::default()
                };
                self.data_plane.change_tables(now, switch, all).map(drop)
            }
            NetworkChange::BreakControlConnection(switch) => {
                self.control_link(switch)?;
                self.close(now, switch, PendingBytes::Lost)
            }
            NetworkChange::PauseControlLink(switch) => {
                let link = self.control_link(switch)?;
                link.up.pause();
                link.down.pause();
                self.schedule_arrivals(switch);
                Ok(())
            }
            NetworkChange::ResumeControlLink(switch) => {
                let no_switch = NetworkError::NotFound { what: "switch", index: switch };
                let link = self.control_links.get_mut(switch).ok_or(no_switch)?;
                link.up.resume(now, &mut self.rng)?;
                link.down.resume(now, &mut self.rng)?;
                self.schedule_arrivals(switch);
                Ok(())
            }
            NetworkChange::SetControlImpairments(switch, up, down) => {
                let link = self.control_link(switch)?;
                link.up.set_impairments(now, up, down.delay);
                link.down.set_impairments(now, down, up.delay);
                self.schedule_arrivals(switch);
                Ok(())
            }
        }
    }

    /// Lets a host send any frame now, even a spoofed one.
    ///
    /// # Errors
    /// There is no such host.
    pub fn send_frame(&mut self, host: usize, frame: Vec<u8>) -> Result<(), NetworkError> {
        self.data_plane.send_frame(self.now, host, frame)
    }

    fn control_link(&mut self, switch: usize) -> Result<&mut ControlLink, NetworkError> {
        let no_switch = NetworkError::NotFound { what: "switch", index: switch };
        self.control_links.get_mut(switch).ok_or(no_switch)
    }

    /// Replaces the controller, as if it was restarted: every connection breaks. Returns the old one.
    ///
    /// # Errors
    /// A control link whose backlog was full before.
    pub fn replace_controller(&mut self, controller: C) -> Result<C, NetworkError> {
        for switch in 0..self.control_links.len() {
            if let Some(link) = self.control_links.get_mut(switch) {
                link.accepted = None;
            }
            self.close(self.now, switch, PendingBytes::Lost)?;
        }
        self.controller_output.clear();
        Ok(std::mem::replace(&mut self.controller, controller))
    }

    /// Switches, hosts and links.
    pub fn data_plane(&self) -> &DataPlane {
        &self.data_plane
    }

    /// The time, and switches, hosts and links to control.
    pub fn data_plane_mut(&mut self) -> (Instant, &mut DataPlane) {
        (self.now, &mut self.data_plane)
    }

    /// The controller.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// The controller, to control it.
    pub fn controller_mut(&mut self) -> &mut C {
        &mut self.controller
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Bytes that a switch has sent to the controller, and received from it.
    pub fn control_bytes(&self, switch: usize) -> Option<(u64, u64)> {
        self.control_links.get(switch).map(|link| (link.up.bytes(), link.down.bytes()))
    }

    /// Number of switches whose handshake is complete.
    pub fn connected_switches(&self) -> usize {
        let switches = 0..self.control_links.len();
        switches
            .filter(|&n| self.data_plane.switch(n).is_some_and(EmulatedSwitch::is_connected))
            .count()
    }
}

/// What happens to bytes in transit when a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingBytes {
    Delivered,
    Lost,
}
