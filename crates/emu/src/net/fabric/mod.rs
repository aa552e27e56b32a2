//! Switches, hosts and the links between them: all but the controller, and whose time it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_openflow::PortNo;
use sluice_proto::SessionError;

use crate::host::{Host, Identity, Outcome, Stream};
use crate::link::Settings;
use crate::switch::{ModelSwitch, Outbox, Plan, PortPlan};
use crate::topology::{Place, SwitchNode, Topology};

mod acts;

pub use acts::Link;

use super::storm::Storm;
use super::trace::Traces;
use super::wire::{End, Side, Wire, WireCounts};
use super::{FRAMES_MAX, NetError, Options};

/// What happens at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A frame may come out of a link at the other side.
    Frame(usize, Side),
    /// A host wanted to be told.
    Host(usize),
    /// A switch wanted to be told.
    Switch(usize),
}

/// Model switches, hosts and links, told the time by whoever has one.
///
/// What switches have to say to the controller is kept until [`take_control`](Self::take_control). Links have numbers:
/// first those of the topology in its order, then those of its hosts.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    switches: Vec<Switch>,
    hosts: Vec<Armed<Host>>,
    wires: Vec<Wire>,
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    n_events: u64,
    start: Instant,
    rng: Rng,
    storm: Storm,
    traces: Traces,
    flying: u64,
    failed: Option<NetError>,
    outbox: Outbox,
    frames: Vec<Vec<u8>>,
    /// Switches with something to say.
    speaking: Vec<usize>,
    outcomes: Vec<(usize, Outcome)>,
}

/// Something that is told the time, and for when it has an event.
#[derive(Debug)]
struct Armed<T> {
    inner: T,
    at: Option<Instant>,
}

#[derive(Debug)]
struct Switch {
    model: Armed<ModelSwitch>,
    /// What is attached to each port, from port 1.
    ports: Vec<Option<(usize, Side)>>,
    /// What it has to say to the controller.
    control: Vec<u8>,
    /// Bytes that it said and that wait to be sent.
    untaken: usize,
}

impl Fabric {
    /// The network of `topology` at rest; `now` is its beginning.
    ///
    /// # Errors
    /// A switch has too many ports.
    pub fn new(topology: Topology, options: &Options, now: Instant) -> Result<Self, NetError> {
        let links = topology.links.iter();
        let links = links.map(|link| Wire::new(End::Port(link.a), End::Port(link.b), link.shape));
        let hosts = topology.hosts.iter().enumerate();
        let hosts = hosts.map(|(n, h)| Wire::new(End::Port(h.at), End::Host(n), h.shape));
        let wires: Vec<_> = links.chain(hosts).collect();
        let copies_max = options.copies_max.unwrap_or(64 * wires.len() as u64 + 1000);
        let mut fabric = Self {
            switches: Vec::with_capacity(topology.switches.len()),
            hosts: Vec::with_capacity(topology.hosts.len()),
            wires,
            events: BinaryHeap::new(),
            n_events: 0,
            start: now,
            rng: Rng::new(options.seed),
            storm: Storm::new(copies_max, now),
            traces: Traces::default(),
            flying: 0,
            failed: None,
            outbox: Outbox::default(),
            frames: Vec::new(),
            speaking: Vec::new(),
            outcomes: Vec::new(),
            topology,
        };
        for (n, node) in fabric.topology.switches.iter().enumerate() {
            let plan = plan(node, options).ok_or(NetError::Ports(n))?;
            let ports = vec![None; plan.ports.len()];
            let model = Armed { inner: ModelSwitch::new(plan), at: None };
            fabric.switches.push(Switch { model, ports, control: Vec::new(), untaken: 0 });
        }
        for node in &fabric.topology.hosts {
            let who = Identity { mac: node.mac, ipv4: node.ipv4, ipv6: node.ipv6, epoch: now };
            fabric.hosts.push(Armed { inner: Host::new(who), at: None });
        }
        for wire in 0..fabric.wires.len() {
            fabric.attach(wire);
        }
        fabric.rest(now);
        Ok(fabric)
    }

    /// Ports to which nothing is attached are down.
    fn rest(&mut self, now: Instant) {
        let mut idle = vec![];
        for (switch, Switch { ports, .. }) in self.switches.iter().enumerate() {
            let free = (1..).zip(ports).filter(|(_, wire)| wire.is_none());
            idle.extend(free.map(|(port, _)| Place { switch, port: PortNo(port) }));
        }
        for place in idle {
            self.set_port(now, place, false);
        }
    }

    fn attach(&mut self, wire: usize) {
        let Some(ends) = self.wires.get(wire).map(|wire| [(wire.a, Side::A), (wire.b, Side::B)])
        else {
            return;
        };
        for (end, side) in ends {
            if let End::Port(place) = end
                && let Some(slot) = self.port(place)
            {
                *slot = Some((wire, side));
            }
        }
    }

    fn port(&mut self, place: Place) -> Option<&mut Option<(usize, Side)>> {
        let port = usize::try_from(place.port.0.checked_sub(1)?).ok()?;
        self.switches.get_mut(place.switch)?.ports.get_mut(port)
    }

    /// Lets everything happen until `now`.
    ///
    /// # Errors
    /// A storm, or too many frames on their way; the network is of no use then.
    pub fn on_time(&mut self, now: Instant) -> Result<(), NetError> {
        while let Some(&Reverse((at, _, what))) = self.events.peek().filter(|e| e.0.0 <= now) {
            self.events.pop();
            match what {
                What::Frame(wire, from) => self.carry(at, wire, from)?,
                What::Host(host) => self.with_host(at, host, |host, out| host.on_time(at, out))?,
                What::Switch(switch) => {
                    self.with_switch(at, switch, |switch, out| switch.on_time(at, out));
                }
            }
            self.check()?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), NetError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// When it must be told the time again.
    pub fn deadline(&self) -> Option<Instant> {
        self.events.peek().map(|&Reverse((at, _, _))| at)
    }

    fn event(&mut self, at: Instant, what: What) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, what)));
    }

    /// Delivers what comes out of a link.
    fn carry(&mut self, now: Instant, wire: usize, from: Side) -> Result<(), NetError> {
        let Some(slot) = self.wires.get_mut(wire) else { return Ok(()) };
        slot.fire(now, from);
        let end = if from == Side::A { slot.b } else { slot.a };
        while let Some(frame) = self.wires.get_mut(wire).and_then(|wire| wire.receive(now, from)) {
            self.flying -= 1;
            match end {
                End::Host(host) => {
                    self.with_host(now, host, |host, out| host.on_frame(now, &frame, out))?;
                }
                End::Port(Place { switch, port }) => {
                    self.with_switch(now, switch, |switch, out| {
                        switch.on_frame(now, port, &frame, out);
                    });
                }
            }
            self.check()?;
        }
        self.arm(wire, from);
        Ok(())
    }

    fn arm(&mut self, wire: usize, from: Side) {
        if let Some(at) = self.wires.get_mut(wire).and_then(|wire| wire.arm(from)) {
            self.event(at, What::Frame(wire, from));
        }
    }

    fn send(&mut self, now: Instant, wire: usize, from: Side, frame: Vec<u8>) {
        let since = now.saturating_duration_since(self.start);
        if let Some(copies) = self.storm.sent(now, &frame) {
            self.failed.get_or_insert(NetError::Storm { copies, at: since });
        }
        let Some(slot) = self.wires.get_mut(wire) else { return };
        self.traces.sent(&frame, wire, from, [slot.a, slot.b]);
        self.flying += u64::from(slot.send(now, from, frame, &mut self.rng));
        if self.flying > FRAMES_MAX {
            self.failed.get_or_insert(NetError::Crowded { at: since });
        }
        self.arm(wire, from);
    }

    fn with_host<R>(
        &mut self,
        now: Instant,
        index: usize,
        act: impl FnOnce(&mut Host, &mut Vec<Vec<u8>>) -> R,
    ) -> Result<R, NetError> {
        let host = self.hosts.get_mut(index);
        let Armed { inner, at } = host.ok_or(NetError::Nobody { what: "host", index })?;
        let mut frames = std::mem::take(&mut self.frames);
        let done = act(inner, &mut frames);
        self.outcomes.extend(inner.take_outcomes().into_iter().map(|outcome| (index, outcome)));
        if let Some(due) = wake(at, inner.deadline(), now) {
            self.event(due, What::Host(index));
        }
        let wire = self.host_link(index);
        frames.drain(..).for_each(|frame| self.send(now, wire, Side::B, frame));
        self.frames = frames;
        Ok(done)
    }

    fn with_switch<R: Default>(
        &mut self,
        now: Instant,
        index: usize,
        act: impl FnOnce(&mut ModelSwitch, &mut Outbox) -> R,
    ) -> R {
        let Some(Switch { model, control, untaken, .. }) = self.switches.get_mut(index) else {
            return R::default();
        };
        model.inner.set_untaken(*untaken + control.len());
        let mut outbox = std::mem::take(&mut self.outbox);
        let done = act(&mut model.inner, &mut outbox);
        if !outbox.control.is_empty() {
            if control.is_empty() {
                self.speaking.push(index);
            }
            control.append(&mut outbox.control);
        }
        if let Some(due) = wake(&mut model.at, model.inner.deadline(), now) {
            self.event(due, What::Switch(index));
        }
        for (port, frame) in outbox.frames.drain(..) {
            if let Some(&mut Some((wire, side))) = self.port(Place { switch: index, port }) {
                self.send(now, wire, side, frame);
            }
        }
        self.outbox = outbox;
        done
    }

    fn set_port(&mut self, now: Instant, place: Place, is_up: bool) {
        self.with_switch(now, place.switch, |switch, out| {
            switch.set_port(now, place.port, is_up, out);
        });
    }
}

/// The time of an event that something needs and has not.
fn wake(armed: &mut Option<Instant>, due: Option<Instant>, now: Instant) -> Option<Instant> {
    let due = due?.max(now);
    let is_armed = armed.is_some_and(|armed| armed > now && armed <= due);
    (!is_armed).then(|| *armed.insert(due))
}

/// What a switch of a topology is: what the options say, with ports and an identity of its own.
fn plan(node: &SwitchNode, options: &Options) -> Option<Plan> {
    let n_ports = u16::try_from(node.n_ports).ok()?.checked_add(options.spare_ports)?;
    let named = |n| {
        let name = format!("{}-eth{n}", node.name);
        let port = PortPlan::numbered(node.datapath_id, n);
        if name.len() < 16 { PortPlan { name: name.as_str().into(), ..port } } else { port }
    };
    let ports = (1..=n_ports).map(named).collect();
    Some(Plan { datapath_id: node.datapath_id, ports, ..options.switch.clone() })
}
