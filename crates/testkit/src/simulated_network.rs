//! Switches without flow tables, the links between them, and the workers that control them, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::{HashMap, HashSet};
use sluice_openflow::view::{PacketIn, PacketOut};
use sluice_openflow::{
    Action, DatapathId, Encoder, Ethernet, MacAddr, Message, MessageType, PacketInReason, Port,
    PortNo, PortReason, PortState, PortStatus, RawMessage, SwitchFeatures, Version, split_message,
};
use sluice_sdk::view::{NetworkView, PublishedFact, SwitchPort};
use sluice_sdk::{App, Ctx, SwitchIndex};

use crate::app_worker::{AppWorker, CalledSwitch};

/// Time between two ticks of a switch, as in the engine.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// Switches, the links between their ports, and the workers that control them.
///
/// The switches have no flow tables: every frame that arrives at a port is sent to the controller. They reply to barrier
/// requests. Links, control links and messages between workers take the time that was set for them, by default none.
#[derive(Debug)]
pub struct SimulatedNetwork<A> {
    version: Version,
    started: Instant,
    now: Instant,
    last_tick: Instant,
    workers: Vec<AppWorker<A>>,
    switches: Vec<SimulatedSwitch>,
    by_id: HashMap<u64, usize>,
    links: HashMap<SwitchPort, Vec<(SwitchPort, Duration)>>,
    /// The ports of each unmanaged segment.
    segments: Vec<Vec<SwitchPort>>,
    events: BTreeMap<(Instant, u64), ScheduledEvent>,
    /// Number of events so far; keeps events of the same time in order.
    event_count: u64,
    sent_frames: Vec<(SwitchPort, Vec<u8>)>,
    /// Number of messages to switches.
    messages: HashMap<MessageType, u64>,
    worker_delay: Duration,
}

#[derive(Debug)]
struct SimulatedSwitch {
    id: DatapathId,
    worker: usize,
    is_connected: bool,
    ports: u32,
    ports_down: HashSet<PortNo>,
    /// Delay of the control link in each direction.
    control_delay: Duration,
    next_xid: u32,
}

impl SimulatedSwitch {
    fn port_state(&self, port: PortNo) -> PortState {
        if self.ports_down.contains(&port) { PortState::LINK_DOWN } else { PortState::default() }
    }
}

#[derive(Debug)]
enum ScheduledEvent {
    /// Bytes arrive at a switch.
    ToSwitch(usize, Vec<u8>),
    /// A message from a switch arrives at its worker.
    ToController(usize, Vec<u8>),
    /// A frame arrives at a port.
    FrameIn(SwitchPort, Vec<u8>),
    /// Facts arrive at a worker.
    Facts(usize, Arc<[PublishedFact]>),
}

/// Port `port` of switch `switch`.
pub const fn switch_port(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

impl<A: App> SimulatedNetwork<A> {
    /// A network without switches, with a worker for each of `apps`.
    pub fn new(version: Version, apps: impl IntoIterator<Item = A>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = apps.into_iter().enumerate();
        let workers = workers.map(|(n, app)| AppWorker::new(n, app)).collect();
        Self {
            version,
            started: now,
            now,
            last_tick: now,
            workers,
            switches: Vec::new(),
            by_id: HashMap::default(),
            links: HashMap::default(),
            segments: Vec::new(),
            events: BTreeMap::new(),
            event_count: 0,
            sent_frames: Vec::new(),
            messages: HashMap::default(),
            worker_delay: Duration::ZERO,
        }
    }

    /// Adds switch `id`, with ports 1 to `ports`, to the switches of `worker`. It is not connected yet.
    pub fn add_switch(&mut self, id: u64, ports: u32, worker: usize) {
        self.by_id.insert(id, self.switches.len());
        let id = DatapathId(id);
        self.switches.push(SimulatedSwitch {
            id,
            worker,
            is_connected: false,
            ports,
            ports_down: HashSet::default(),
            control_delay: Duration::ZERO,
            next_xid: 1,
        });
    }

    /// Sets the one-way delay between a switch and its worker.
    pub fn set_control_delay(&mut self, id: u64, delay: Duration) {
        if let Some(switch) = self.find(id).and_then(|n| self.switches.get_mut(n)) {
            switch.control_delay = delay;
        }
    }

    /// Sets the delay of facts between workers.
    pub fn set_worker_delay(&mut self, delay: Duration) {
        self.worker_delay = delay;
    }

    /// Adds a link between two ports.
    pub fn add_link(&mut self, a: SwitchPort, b: SwitchPort, delay: Duration) {
        self.add_one_way_link(a, b, delay);
        self.add_one_way_link(b, a, delay);
    }

    /// Adds a link in one direction. A port may have several; frames are then copied to each.
    pub fn add_one_way_link(&mut self, a: SwitchPort, b: SwitchPort, delay: Duration) {
        self.links.entry(a).or_default().push((b, delay));
    }

    /// Removes the link at a port, in both directions. The ports at its ends stay up.
    pub fn remove_link(&mut self, at: SwitchPort) {
        self.links.remove(&at);
        self.links.values_mut().for_each(|ends| ends.retain(|&(end, _)| end != at));
    }

    /// Removes all unmanaged segments.
    pub fn remove_unmanaged_segments(&mut self) {
        self.segments.clear();
    }

    /// Connects ports by an unmanaged segment, which does not forward the reserved group addresses (LLDP).
    pub fn add_unmanaged_segment(&mut self, ports: &[SwitchPort]) {
        self.segments.push(ports.to_vec());
    }

    /// Connects a switch to the controller.
    pub fn connect(&mut self, id: u64) {
        let Some(n) = self.find(id) else { return };
        let Some(switch) = self.switches.get_mut(n) else { return };
        switch.is_connected = true;
        let ports = (1..=switch.ports).map(PortNo);
        let ports = ports.map(|no| port(switch.id, no, switch.port_state(no))).collect();
        let features =
            SwitchFeatures { datapath_id: switch.id, ports, ..SwitchFeatures::default() };
        self.call_app(n, |app, ctx| {
            app.initial_messages(&mut ctx.switch);
            app.on_switch_connected(&features, ctx);
        });
    }

    /// Disconnects a switch from the controller; messages in flight are lost.
    pub fn disconnect(&mut self, id: u64) {
        let Some(n) = self.find(id) else { return };
        let Some(switch) = self.switches.get_mut(n) else { return };
        switch.is_connected = false;
        let worker = switch.worker;
        self.events
            .retain(|_, event| !matches!(event, ScheduledEvent::ToSwitch(at, _) | ScheduledEvent::ToController(at, _) if *at == n));
        if let Some(AppWorker { app, network }) = self.workers.get_mut(worker) {
            app.on_iteration(self.now);
            app.on_switch_disconnected(switch_index(n), self.now, network);
        }
        self.deliver_facts(worker);
    }

    /// Brings a port up; its switch sends a `PORT_STATUS`.
    pub fn bring_port_up(&mut self, at: SwitchPort) {
        if let Some(switch) = self.find(at.switch.0).and_then(|n| self.switches.get_mut(n)) {
            switch.ports_down.remove(&at.port);
        }
        self.send_port_status(at, PortReason::MODIFY, PortState::default());
    }

    /// Brings a port down; its switch sends a `PORT_STATUS`.
    pub fn bring_port_down(&mut self, at: SwitchPort) {
        if let Some(switch) = self.find(at.switch.0).and_then(|n| self.switches.get_mut(n)) {
            switch.ports_down.insert(at.port);
        }
        self.send_port_status(at, PortReason::MODIFY, PortState::LINK_DOWN);
    }

    /// Deletes a port; its switch sends a `PORT_STATUS`.
    pub fn delete_port(&mut self, at: SwitchPort) {
        self.send_port_status(at, PortReason::DELETE, PortState::LINK_DOWN);
    }

    fn send_port_status(&mut self, at: SwitchPort, reason: PortReason, state: PortState) {
        let Some(n) = self.find(at.switch.0) else { return };
        let status = PortStatus { reason, port: port(at.switch, at.port, state) };
        self.send_from_switch(n, |out| Message::PortStatus(status).encode(0, out).is_ok());
    }

    /// Has a host send a frame to a port.
    pub fn inject_frame(&mut self, at: SwitchPort, frame: &[u8]) {
        self.schedule(Duration::ZERO, ScheduledEvent::FrameIn(at, frame.to_vec()));
    }

    /// Advances the time and processes all events until then.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next_tick = self.last_tick + TICK_INTERVAL;
            let next = self.events.first_key_value().map(|(&(at, _), _)| at);
            if next.is_none_or(|at| at > next_tick.min(end)) {
                if next_tick > end {
                    break;
                }
                self.now = next_tick;
                self.tick();
            } else if let Some(((at, _), event)) = self.events.pop_first() {
                self.now = self.now.max(at);
                self.handle(event);
            }
        }
        self.now = end;
    }

    /// Advances the time while no worker runs, as when the process is suspended.
    pub fn pause_workers(&mut self, time: Duration) {
        self.now += time;
        self.last_tick = self.now;
    }

    fn tick(&mut self) {
        self.last_tick = self.now;
        for worker in &mut self.workers {
            worker.network.expire(self.now);
            worker.app.on_iteration(self.now);
        }
        for n in 0..self.switches.len() {
            if self.switches.get(n).is_some_and(|switch| switch.is_connected) {
                self.call_app(n, A::on_tick);
            }
        }
    }

    fn handle(&mut self, event: ScheduledEvent) {
        match event {
            ScheduledEvent::ToSwitch(n, bytes) => {
                let mut rest = &*bytes;
                while let Ok(Some((msg, after))) = split_message(rest) {
                    *self.messages.entry(msg.kind()).or_default() += 1;
                    self.execute(n, msg);
                    rest = after;
                }
            }
            ScheduledEvent::ToController(n, bytes) => {
                if let Ok(msg) = RawMessage::new(&bytes) {
                    self.receive_message(n, msg);
                }
            }
            ScheduledEvent::FrameIn(at, frame) => self.receive_frame(at, &frame),
            ScheduledEvent::Facts(n, facts) => {
                if let Some(worker) = self.workers.get_mut(n) {
                    worker.receive(&facts, self.now);
                }
                self.deliver_facts(n);
            }
        }
    }

    /// Has switch `n` execute a message from the controller.
    fn execute(&mut self, n: usize, msg: RawMessage<'_>) {
        let Some(switch) = self.switches.get(n) else { return };
        let id = switch.id;
        match msg.kind() {
            MessageType::BARRIER_REQUEST => {
                let xid = msg.xid();
                self.send_from_switch(n, |out| {
                    out.barrier_reply(xid);
                    true
                });
            }
            MessageType::PACKET_OUT => {
                let Ok(sent) = PacketOut::new(msg) else { return };
                let ports = 1..=switch.ports;
                for action in sent.actions().unwrap_or_default() {
                    match action {
                        Action::Output { port: PortNo::FLOOD | PortNo::ALL, .. } => {
                            for no in ports.clone().map(PortNo).filter(|&no| no != sent.in_port) {
                                self.send_out(SwitchPort::new(id, no), sent.frame);
                            }
                        }
                        Action::Output { port, .. } => {
                            self.send_out(SwitchPort::new(id, port), sent.frame);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Sends a frame out of a port.
    fn send_out(&mut self, at: SwitchPort, frame: &[u8]) {
        if !self.is_port_up(at) {
            return;
        }
        self.sent_frames.push((at, frame.to_vec()));
        let is_reserved = Ethernet::new(frame).is_none_or(|eth| eth.dst.is_bridge_reserved());
        let through_segments =
            self.segments.iter().filter(|ports| !is_reserved && ports.contains(&at));
        let through_segments =
            through_segments.flatten().filter(|&&to| to != at).map(|&to| (to, Duration::ZERO));
        let ends: Vec<_> =
            self.links.get(&at).into_iter().flatten().copied().chain(through_segments).collect();
        for (to, delay) in ends {
            self.schedule(delay, ScheduledEvent::FrameIn(to, frame.to_vec()));
        }
    }

    /// Handles a frame that arrives at a port: it is sent to the controller.
    fn receive_frame(&mut self, at: SwitchPort, frame: &[u8]) {
        if !self.is_port_up(at) {
            return;
        }
        let Some(n) = self.find(at.switch.0) else { return };
        let packet_in = PacketIn {
            buffer_id: None,
            in_port: at.port,
            total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: u64::MAX,
            frame,
        };
        self.send_from_switch(n, |out| packet_in.encode(out).is_ok());
    }

    fn is_port_up(&self, at: SwitchPort) -> bool {
        let switch = self.find(at.switch.0).and_then(|n| self.switches.get(n));
        switch.is_some_and(|switch| {
            (1..=switch.ports).contains(&at.port.0) && !switch.ports_down.contains(&at.port)
        })
    }

    /// Has switch `n` send a message, if it is connected.
    fn send_from_switch(&mut self, n: usize, encode: impl FnOnce(&mut Encoder<'_>) -> bool) {
        let Some(switch) = self.switches.get(n).filter(|switch| switch.is_connected) else {
            return;
        };
        let (mut tx, mut xid, delay) = (Vec::new(), 0, switch.control_delay);
        if encode(&mut Encoder::new(&mut tx, self.version, &mut xid)) {
            self.schedule(delay, ScheduledEvent::ToController(n, tx));
        }
    }

    fn receive_message(&mut self, n: usize, msg: RawMessage<'_>) {
        match msg.kind() {
            MessageType::PACKET_IN => {
                let Ok(p) = PacketIn::new(msg) else { return };
                self.call_app(n, |app, ctx| _ = app.on_packet_in(&p, ctx));
            }
            MessageType::PORT_STATUS => {
                let Ok(status) = PortStatus::parse_raw(msg) else { return };
                self.call_app(n, |app, ctx| app.on_port_status(&status, ctx));
            }
            MessageType::BARRIER_REPLY => {
                self.call_app(n, |app, ctx| app.on_barrier_reply(msg.xid(), ctx));
            }
            _ => {}
        }
    }

    /// Calls the application of the worker of switch `n`, in the context of this switch.
    fn call_app(&mut self, n: usize, call: impl FnOnce(&mut A, &mut Ctx<'_>)) {
        let Some(switch) = self.switches.get_mut(n) else { return };
        let (number, delay) = (switch.worker, switch.control_delay);
        let Some(worker) = self.workers.get_mut(number) else { return };
        worker.app.on_iteration(self.now);
        let called = CalledSwitch {
            index: switch_index(n),
            id: switch.id,
            version: self.version,
            next_xid: &mut switch.next_xid,
            has_room: true,
        };
        let ((), output) = worker.call(called, self.now, call);
        let messages = output.all();
        if !messages.is_empty() {
            self.schedule(delay, ScheduledEvent::ToSwitch(n, messages));
        }
        self.deliver_facts(number);
    }

    /// Delivers the facts that worker `from` published to its own application and to all other workers.
    fn deliver_facts(&mut self, from: usize) {
        let Some(worker) = self.workers.get_mut(from) else { return };
        for facts in worker.deliver(self.now) {
            for n in (0..self.workers.len()).filter(|&n| n != from) {
                self.schedule(self.worker_delay, ScheduledEvent::Facts(n, facts.clone()));
            }
        }
    }

    fn schedule(&mut self, after: Duration, event: ScheduledEvent) {
        self.event_count += 1;
        self.events.insert((self.now + after, self.event_count), event);
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The network view of a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    #[expect(clippy::indexing_slicing, reason = "a test names a worker that it made")]
    pub fn view(&self, worker: usize) -> &NetworkView {
        self.workers[worker].network.view()
    }

    /// The application of a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    #[expect(clippy::indexing_slicing, reason = "a test names a worker that it made")]
    pub fn app_mut(&mut self, worker: usize) -> &mut A {
        &mut self.workers[worker].app
    }

    /// A metric of the applications, summed over workers; 0 if there is none of this name.
    pub fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for worker in &self.workers {
            worker
                .app
                .metrics(&mut |metric| sum += if metric.name == name { metric.value } else { 0 });
        }
        sum
    }

    /// Takes the log lines of all workers since the last call.
    pub fn take_reports(&mut self) -> Vec<String> {
        self.workers.iter_mut().flat_map(|worker| worker.network.take_reports().0).collect()
    }

    /// Takes the frames that switches sent since the last call, with their output ports.
    pub fn take_sent_frames(&mut self) -> Vec<(SwitchPort, Vec<u8>)> {
        std::mem::take(&mut self.sent_frames)
    }

    /// The number of messages of a type that were sent to switches.
    pub fn messages_to_switches(&self, kind: MessageType) -> u64 {
        self.messages.get(&kind).copied().unwrap_or_default()
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.started
    }
}

fn switch_index(n: usize) -> SwitchIndex {
    SwitchIndex(u32::try_from(n).unwrap_or(u32::MAX))
}

fn port(switch: DatapathId, port_no: PortNo, state: PortState) -> Port {
    let hw_addr = MacAddr::from_u64(0x0200_0000_0000 | switch.0 << 16 | u64::from(port_no.0));
    let name = format!("s{}-eth{port_no}", switch.0);
    Port { port_no, hw_addr, name: name.as_str().into(), state, ..Port::default() }
}
