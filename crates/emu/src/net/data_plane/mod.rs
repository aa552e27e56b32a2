//! The data plane: switches, hosts and the links between them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_openflow::{PortNo, VlanId};
use sluice_proto::SessionError;

use crate::host::{Host, HostConfig, HostEvent, UdpStream};
use crate::link::LinkImpairments;
use crate::switch::{EmulatedPortConfig, EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use crate::topology::{PortRef, SwitchNode, Topology};

mod capture;
mod hub;
mod operations;
mod vlan;

pub use capture::CapturedFrame;
pub use hub::HubKind;
pub use operations::LinkState;

use super::frame_traces::FrameTraces;
use super::link::{FabricLink, FrameCounters, LinkEnd, LinkSide};
use super::storm_detector::StormDetector;
use super::{FRAMES_MAX, NetworkError, NetworkOptions};
use capture::HostCapture;
use hub::Hub;

/// An event of the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DataPlaneEvent {
    /// A frame may arrive at the other end of a link.
    Frame(usize, LinkSide),
    /// A host's timer is due.
    Host(usize),
    /// A switch's timer is due.
    AttachedSwitch(usize),
}

/// Emulated switches, hosts and links; the caller supplies the time.
///
/// What switches send to the controller waits for [`take_control_output`](Self::take_control_output). Links are
/// numbered:
/// first those of the topology in its order, then those of its hosts, then cables of hubs.
#[derive(Debug)]
pub struct DataPlane {
    topology: Topology,
    switches: Vec<AttachedSwitch>,
    hosts: Vec<Scheduled<Host>>,
    links: Vec<FabricLink>,
    hubs: Vec<Hub>,
    events: BinaryHeap<Reverse<(Instant, u64, DataPlaneEvent)>>,
    n_events: u64,
    start: Instant,
    rng: Rng,
    storm: StormDetector,
    traces: FrameTraces,
    frames_in_flight: u64,
    failed: Option<NetworkError>,
    session_error: Option<(usize, SessionError)>,
    outbox: SwitchOutput,
    frames: Vec<Vec<u8>>,
    /// Switches with output for the controller.
    switches_with_output: Vec<usize>,
    host_events: Vec<(usize, HostEvent)>,
    capture: HostCapture,
}

/// Something with timers, and when its next wake-up is scheduled.
#[derive(Debug)]
struct Scheduled<T> {
    inner: T,
    wakeup_at: Option<Instant>,
}

#[derive(Debug)]
struct AttachedSwitch {
    switch: Scheduled<EmulatedSwitch>,
    /// The link at each port, from port 1.
    ports: Vec<Option<(usize, LinkSide)>>,
    /// Bytes for the controller.
    control: Vec<u8>,
    /// Bytes that were taken and wait to be sent.
    tx_backlog: usize,
}

impl DataPlane {
    /// The network of `topology`; `now` is its start.
    ///
    /// # Errors
    /// A switch with too many ports.
    pub fn new(
        topology: Topology,
        options: &NetworkOptions,
        now: Instant,
    ) -> Result<Self, NetworkError> {
        let links = topology.links.iter();
        let links = links.map(|link| {
            FabricLink::new(LinkEnd::Port(link.a), LinkEnd::Port(link.b), link.impairments)
        });
        let hosts = topology.hosts.iter().enumerate();
        let hosts = hosts
            .map(|(n, h)| FabricLink::new(LinkEnd::Port(h.port), LinkEnd::Host(n), h.impairments));
        let links: Vec<_> = links.chain(hosts).collect();
        let copies_max = options.frame_copies_max.unwrap_or(64 * links.len() as u64 + 1000);
        let mut data_plane = Self {
            switches: Vec::with_capacity(topology.switches.len()),
            hosts: Vec::with_capacity(topology.hosts.len()),
            links,
            hubs: Vec::new(),
            events: BinaryHeap::new(),
            n_events: 0,
            start: now,
            rng: Rng::new(options.seed),
            storm: StormDetector::new(copies_max, now),
            traces: FrameTraces::default(),
            frames_in_flight: 0,
            failed: None,
            session_error: None,
            outbox: SwitchOutput::default(),
            frames: Vec::new(),
            switches_with_output: Vec::new(),
            host_events: Vec::new(),
            capture: HostCapture::default(),
            topology,
        };
        for (n, node) in data_plane.topology.switches.iter().enumerate() {
            let config = switch_config(node, options).ok_or(NetworkError::TooManyPorts(n))?;
            let ports = vec![None; config.ports.len()];
            let switch = Scheduled { inner: EmulatedSwitch::new(config), wakeup_at: None };
            data_plane.switches.push(AttachedSwitch {
                switch,
                ports,
                control: Vec::new(),
                tx_backlog: 0,
            });
        }
        for node in &data_plane.topology.hosts {
            let config = HostConfig { mac: node.mac, ipv4: node.ipv4, ipv6: node.ipv6, epoch: now };
            data_plane.hosts.push(Scheduled { inner: Host::new(config), wakeup_at: None });
        }
        for link_model in 0..data_plane.links.len() {
            data_plane.attach(link_model);
        }
        data_plane.take_unused_ports_down(now);
        Ok(data_plane)
    }

    /// Sets ports without a link down.
    fn take_unused_ports_down(&mut self, now: Instant) {
        let mut idle = vec![];
        for (switch, AttachedSwitch { ports, .. }) in self.switches.iter().enumerate() {
            let free = (1..).zip(ports).filter(|(_, link_model)| link_model.is_none());
            idle.extend(free.map(|(port, _)| PortRef { switch, port: PortNo(port) }));
        }
        for port in idle {
            self.set_port(now, port, false);
        }
    }

    fn attach(&mut self, link_model: usize) {
        let Some(ends) = self
            .links
            .get(link_model)
            .map(|link_model| [(link_model.a, LinkSide::A), (link_model.b, LinkSide::B)])
        else {
            return;
        };
        for (end, side) in ends {
            if let LinkEnd::Port(port) = end
                && let Some(slot) = self.port(port)
            {
                *slot = Some((link_model, side));
            }
        }
    }

    fn port(&mut self, at: PortRef) -> Option<&mut Option<(usize, LinkSide)>> {
        let port = usize::try_from(at.port.0.checked_sub(1)?).ok()?;
        self.switches.get_mut(at.switch)?.ports.get_mut(port)
    }

    /// Handles all events until `now`.
    ///
    /// # Errors
    /// A broadcast storm, or too many frames in flight; the network is then useless.
    pub fn tick(&mut self, now: Instant) -> Result<(), NetworkError> {
        while let Some(&Reverse((at, _, event))) = self.events.peek().filter(|e| e.0.0 <= now) {
            self.events.pop();
            match event {
                DataPlaneEvent::Frame(link_model, from) => {
                    self.deliver_frames(at, link_model, from)?;
                }
                DataPlaneEvent::Host(host) => {
                    self.with_host(at, host, |host, out| host.tick(at, out))?;
                }
                DataPlaneEvent::AttachedSwitch(switch) => {
                    self.with_switch(at, switch, |switch, out| switch.tick(at, out));
                }
            }
            self.check()?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), NetworkError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// When [`tick`](Self::tick) must be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.events.peek().map(|&Reverse((at, _, _))| at)
    }

    fn push_event(&mut self, at: Instant, event: DataPlaneEvent) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, event)));
    }

    /// Delivers frames that have arrived over a link.
    fn deliver_frames(
        &mut self,
        now: Instant,
        link_model: usize,
        from: LinkSide,
    ) -> Result<(), NetworkError> {
        let Some(slot) = self.links.get_mut(link_model) else { return Ok(()) };
        slot.clear_wakeup(now, from);
        let end = if from == LinkSide::A { slot.b } else { slot.a };
        while let Some(frame) =
            self.links.get_mut(link_model).and_then(|link_model| link_model.receive(now, from))
        {
            self.frames_in_flight -= 1;
            match end {
                LinkEnd::Host(host) => {
                    let Some(frame) = vlan::untag(frame, self.vlan(host)) else { continue };
                    self.capture.record(now, host, &frame);
                    self.with_host(now, host, |host, out| host.on_frame(now, &frame, out))?;
                }
                LinkEnd::Hub(hub) => self.repeat(now, hub, link_model, &frame),
                LinkEnd::Port(PortRef { switch, port }) => {
                    self.with_switch(now, switch, |switch, out| {
                        switch.on_frame(now, port, &frame, out);
                    });
                }
            }
            self.check()?;
        }
        self.schedule_link(link_model, from);
        Ok(())
    }

    fn schedule_link(&mut self, link_model: usize, from: LinkSide) {
        if let Some(at) =
            self.links.get_mut(link_model).and_then(|link_model| link_model.next_wakeup(from))
        {
            self.push_event(at, DataPlaneEvent::Frame(link_model, from));
        }
    }

    fn send(&mut self, now: Instant, link_model: usize, from: LinkSide, frame: Vec<u8>) {
        let since = now.saturating_duration_since(self.start);
        if let Some(copies) = self.storm.record(now, &frame) {
            self.failed.get_or_insert(NetworkError::BroadcastStorm { copies, at: since });
        }
        let Some(slot) = self.links.get_mut(link_model) else { return };
        self.traces.record(&frame, link_model, from, [slot.a, slot.b]);
        self.frames_in_flight += u64::from(slot.send(now, from, frame, &mut self.rng));
        if self.frames_in_flight > FRAMES_MAX {
            self.failed.get_or_insert(NetworkError::TooManyFrames { at: since });
        }
        self.schedule_link(link_model, from);
    }

    fn with_host<R>(
        &mut self,
        now: Instant,
        index: usize,
        act: impl FnOnce(&mut Host, &mut Vec<Vec<u8>>) -> R,
    ) -> Result<R, NetworkError> {
        let host = self.hosts.get_mut(index);
        let Scheduled { inner, wakeup_at } =
            host.ok_or(NetworkError::NotFound { what: "host", index })?;
        let mut frames = std::mem::take(&mut self.frames);
        let done = act(inner, &mut frames);
        self.host_events.extend(inner.take_events().into_iter().map(|event| (index, event)));
        if let Some(due) = wakeup_needed(wakeup_at, inner.deadline(), now) {
            self.push_event(due, DataPlaneEvent::Host(index));
        }
        let link_model = self.host_link(index);
        let vlan = self.vlan(index);
        for frame in frames.drain(..) {
            self.send(now, link_model, LinkSide::B, vlan::tag(frame, vlan));
        }
        self.frames = frames;
        Ok(done)
    }

    fn vlan(&self, host: usize) -> Option<VlanId> {
        self.topology.hosts.get(host).and_then(|node| node.vlan)
    }

    fn with_switch<R: Default>(
        &mut self,
        now: Instant,
        index: usize,
        act: impl FnOnce(&mut EmulatedSwitch, &mut SwitchOutput) -> R,
    ) -> R {
        let Some(AttachedSwitch { switch, control, tx_backlog, .. }) = self.switches.get_mut(index)
        else {
            return R::default();
        };
        switch.inner.set_tx_backlog(*tx_backlog + control.len());
        let mut outbox = std::mem::take(&mut self.outbox);
        let done = act(&mut switch.inner, &mut outbox);
        if !outbox.control.is_empty() {
            if control.is_empty() {
                self.switches_with_output.push(index);
            }
            control.append(&mut outbox.control);
        }
        if let Some(due) = wakeup_needed(&mut switch.wakeup_at, switch.inner.deadline(), now) {
            self.push_event(due, DataPlaneEvent::AttachedSwitch(index));
        }
        for (port, frame) in outbox.frames.drain(..) {
            if let Some(&mut Some((link_model, side))) = self.port(PortRef { switch: index, port })
            {
                self.send(now, link_model, side, frame);
            }
        }
        outbox.errors.clear();
        self.outbox = outbox;
        done
    }

    fn set_port(&mut self, now: Instant, port: PortRef, is_up: bool) {
        self.with_switch(now, port.switch, |switch, out| {
            switch.set_link_state(now, port.port, is_up, out);
        });
    }
}

/// The time of a wake-up that must be scheduled.
fn wakeup_needed(
    wakeup_at: &mut Option<Instant>,
    due: Option<Instant>,
    now: Instant,
) -> Option<Instant> {
    let due = due?.max(now);
    let is_armed = wakeup_at.is_some_and(|wakeup_at| wakeup_at > now && wakeup_at <= due);
    (!is_armed).then(|| *wakeup_at.insert(due))
}

/// The configuration of a switch: the options, with datapath id and ports from the topology.
fn switch_config(node: &SwitchNode, options: &NetworkOptions) -> Option<EmulatedSwitchConfig> {
    let n_ports = u16::try_from(node.n_ports).ok()?.checked_add(options.spare_ports)?;
    let named = |n| {
        let name = format!("{}-eth{n}", node.name);
        let port = EmulatedPortConfig::numbered(node.datapath_id, n);
        if name.len() < 16 {
            EmulatedPortConfig { name: name.as_str().into(), ..port }
        } else {
            port
        }
    };
    let ports = (1..=n_ports).map(named).collect();
    let (datapath_id, name) = (node.datapath_id, node.name.clone());
    Some(EmulatedSwitchConfig { datapath_id, name, ports, ..options.switch.clone() })
}
