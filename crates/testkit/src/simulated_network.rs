//! Several switches and the wires between them, held by one worker or more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use sluice_openflow::{
    Action, DatapathId, Encoder, Ethernet, Features, MacAddr, Message, MessageType, PacketIn,
    PacketInReason, PacketOutView, Port, PortNo, PortReason, PortState, PortStatus, RawMessage,
    Version, split_message,
};
use sluice_sdk::view::{NetworkView, PublishedFact, SwitchPort};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

/// How often time passes for a switch, as in the engine.
const SWEEP: Duration = Duration::from_millis(250);

/// Switches, the wires between their ports, and the workers that hold them.
///
/// A frame that an application sends out of a port comes up from the port at the other end of the wire: these switches
/// have no rules. They answer barriers. Everything takes the time that it was given and no more: nothing, unless said.
#[derive(Debug)]
pub struct SimulatedNetwork<A> {
    version: Version,
    started: Instant,
    now: Instant,
    swept: Instant,
    workers: Vec<Worker<A>>,
    switches: Vec<Switch>,
    by_id: HashMap<u64, usize>,
    wires: HashMap<SwitchPort, Vec<(SwitchPort, Duration)>>,
    /// Ports that a network of others joins.
    bridges: Vec<Vec<SwitchPort>>,
    events: BTreeMap<(Instant, u64), Event>,
    events_ever: u64,
    left: Vec<(SwitchPort, Vec<u8>)>,
    heard: HashMap<MessageType, u64>,
    hop: Duration,
}

#[derive(Debug)]
struct Worker<A> {
    app: A,
    network: Network,
}

#[derive(Debug)]
struct Switch {
    id: DatapathId,
    worker: usize,
    is_up: bool,
    ports: u32,
    down: HashSet<PortNo>,
    /// One way.
    delay: Duration,
    next_xid: u32,
}

#[derive(Debug)]
enum Event {
    /// Bytes for a switch.
    Down(usize, Vec<u8>),
    /// A message of a switch.
    Up(usize, Vec<u8>),
    /// A frame comes in at a port.
    In(SwitchPort, Vec<u8>),
    /// A worker hears what another one said.
    Told(usize, Vec<PublishedFact>),
}

/// Port `port` of switch `switch`.
pub const fn switch_port(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

impl<A: App> SimulatedNetwork<A> {
    /// One without switches, with a worker for each of `apps`.
    pub fn new(version: Version, apps: impl IntoIterator<Item = A>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = apps.into_iter().enumerate();
        let workers = workers.map(|(n, app)| Worker { app, network: Network::new(n) }).collect();
        Self {
            version,
            started: now,
            now,
            swept: now,
            workers,
            switches: Vec::new(),
            by_id: HashMap::new(),
            wires: HashMap::new(),
            bridges: Vec::new(),
            events: BTreeMap::new(),
            events_ever: 0,
            left: Vec::new(),
            heard: HashMap::new(),
            hop: Duration::ZERO,
        }
    }

    /// Adds switch `id` with ports from 1 to `ports`, which `worker` will hold. It is not connected yet.
    pub fn add_switch(&mut self, id: u64, ports: u32, worker: usize) {
        self.by_id.insert(id, self.switches.len());
        let id = DatapathId(id);
        let (down, delay) = (HashSet::new(), Duration::ZERO);
        let switch = Switch { id, worker, is_up: false, ports, down, delay, next_xid: 1 };
        self.switches.push(switch);
    }

    /// Lets messages take `delay` from the switch to its worker, and as long back.
    pub fn set_control_delay(&mut self, id: u64, delay: Duration) {
        if let Some(switch) = self.find(id).and_then(|n| self.switches.get_mut(n)) {
            switch.delay = delay;
        }
    }

    /// Lets what one worker says take `hop` to the others.
    pub fn set_worker_delay(&mut self, hop: Duration) {
        self.hop = hop;
    }

    /// Joins two ports by a wire that takes `delay`.
    pub fn add_link(&mut self, a: SwitchPort, b: SwitchPort, delay: Duration) {
        self.add_one_way_link(a, b, delay);
        self.add_one_way_link(b, a, delay);
    }

    /// Lets what leaves at `a` come in at `b`, besides where it came in before.
    pub fn add_one_way_link(&mut self, a: SwitchPort, b: SwitchPort, delay: Duration) {
        self.wires.entry(a).or_default().push((b, delay));
    }

    /// Takes away the wire at a port, both directions; the ports at its ends do not notice.
    pub fn remove_link(&mut self, at: SwitchPort) {
        self.wires.remove(&at);
        self.wires.values_mut().for_each(|ends| ends.retain(|&(end, _)| end != at));
    }

    /// Joins ports by a network of others: bridges, which keep what bridges keep.
    pub fn add_unmanaged_segment(&mut self, ports: &[SwitchPort]) {
        self.bridges.push(ports.to_vec());
    }

    /// Connects a switch.
    pub fn connect(&mut self, id: u64) {
        let Some(n) = self.find(id) else { return };
        let Some(switch) = self.switches.get_mut(n) else { return };
        switch.is_up = true;
        let ports = (1..=switch.ports).map(PortNo);
        let ports = ports.map(|no| port(switch.id, no, switch.down.contains(&no))).collect();
        let features = Features { datapath_id: switch.id, ports, ..Features::default() };
        self.turn(n, |app, ctx| {
            app.initial_messages(&mut ctx.switch);
            app.on_switch_connected(&features, ctx);
        });
    }

    /// Ends the connection of a switch; what it was to be told is lost.
    pub fn disconnect(&mut self, id: u64) {
        let Some(n) = self.find(id) else { return };
        let Some(switch) = self.switches.get_mut(n) else { return };
        switch.is_up = false;
        let worker = switch.worker;
        self.events
            .retain(|_, event| !matches!(event, Event::Down(at, _) | Event::Up(at, _) if *at == n));
        if let Some(Worker { app, network }) = self.workers.get_mut(worker) {
            app.on_iteration(self.now);
            app.on_switch_disconnected(number(n), self.now, network);
        }
        self.carry(worker);
    }

    /// A port goes down or comes up, and its switch says so.
    pub fn set_port(&mut self, at: SwitchPort, is_up: bool) {
        let Some(n) = self.find(at.switch.0) else { return };
        let Some(switch) = self.switches.get_mut(n) else { return };
        if is_up {
            switch.down.remove(&at.port);
        } else {
            switch.down.insert(at.port);
        }
        let status =
            PortStatus { reason: PortReason::MODIFY, port: port(at.switch, at.port, !is_up) };
        self.say(n, |out| Message::PortStatus(status).encode(0, out).is_ok());
    }

    /// A port is taken out of its switch, and it says so.
    pub fn delete_port(&mut self, at: SwitchPort) {
        let Some(n) = self.find(at.switch.0) else { return };
        let status =
            PortStatus { reason: PortReason::DELETE, port: port(at.switch, at.port, true) };
        self.say(n, |out| Message::PortStatus(status).encode(0, out).is_ok());
    }

    /// Somebody sends a frame into a port.
    pub fn inject_frame(&mut self, at: SwitchPort, frame: &[u8]) {
        self.put(Duration::ZERO, Event::In(at, frame.to_vec()));
    }

    /// Lets time pass, and all happen that is to happen in it.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let sweep_at = self.swept + SWEEP;
            let next = self.events.first_key_value().map(|(&(at, _), _)| at);
            if next.is_none_or(|at| at > sweep_at.min(end)) {
                if sweep_at > end {
                    break;
                }
                self.now = sweep_at;
                self.sweep();
            } else if let Some(((at, _), event)) = self.events.pop_first() {
                self.now = self.now.max(at);
                self.happen(event);
            }
        }
        self.now = end;
    }

    /// Lets time pass in which the workers do not run.
    pub fn pause_workers(&mut self, time: Duration) {
        self.now += time;
        self.swept = self.now;
    }

    fn sweep(&mut self) {
        self.swept = self.now;
        for worker in &mut self.workers {
            worker.network.on_tick(self.now);
            worker.app.on_iteration(self.now);
        }
        for n in 0..self.switches.len() {
            if self.switches.get(n).is_some_and(|switch| switch.is_up) {
                self.turn(n, A::on_tick);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Down(n, bytes) => {
                let mut rest = &*bytes;
                while let Ok(Some((msg, after))) = split_message(rest) {
                    *self.heard.entry(msg.kind()).or_default() += 1;
                    self.obey(n, msg);
                    rest = after;
                }
            }
            Event::Up(n, bytes) => {
                if let Ok(msg) = RawMessage::new(&bytes) {
                    self.hear(n, msg);
                }
            }
            Event::In(at, frame) => self.come_in(at, &frame),
            Event::Told(n, facts) => {
                if let Some(Worker { app, network }) = self.workers.get_mut(n) {
                    app.on_iteration(self.now);
                    for told in &facts {
                        if network.apply_remote(told) {
                            app.on_fact(told, self.now, network);
                        }
                    }
                }
                self.carry(n);
            }
        }
    }

    /// Switch `n` does what it is told.
    fn obey(&mut self, n: usize, msg: RawMessage<'_>) {
        let Some(switch) = self.switches.get(n) else { return };
        let id = switch.id;
        match msg.kind() {
            MessageType::BARRIER_REQUEST => {
                let xid = msg.xid();
                self.say(n, |out| {
                    out.barrier_reply(xid);
                    true
                });
            }
            MessageType::PACKET_OUT => {
                let Ok(sent) = PacketOutView::new(msg) else { return };
                let ports = 1..=switch.ports;
                for action in sent.actions().unwrap_or_default() {
                    match action {
                        Action::Output { port: PortNo::FLOOD | PortNo::ALL, .. } => {
                            for no in ports.clone().map(PortNo).filter(|&no| no != sent.in_port) {
                                self.leave(SwitchPort::new(id, no), sent.frame);
                            }
                        }
                        Action::Output { port, .. } => {
                            self.leave(SwitchPort::new(id, port), sent.frame);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// A frame leaves at a port.
    fn leave(&mut self, at: SwitchPort, frame: &[u8]) {
        if !self.is_port_up(at) {
            return;
        }
        self.left.push((at, frame.to_vec()));
        let stays = Ethernet::new(frame).is_none_or(|eth| eth.dst.is_bridge_reserved());
        let bridged = self.bridges.iter().filter(|ports| !stays && ports.contains(&at));
        let bridged = bridged.flatten().filter(|&&to| to != at).map(|&to| (to, Duration::ZERO));
        let ends: Vec<_> =
            self.wires.get(&at).into_iter().flatten().copied().chain(bridged).collect();
        for (to, delay) in ends {
            self.put(delay, Event::In(to, frame.to_vec()));
        }
    }

    /// A frame comes in at a port: it comes up.
    fn come_in(&mut self, at: SwitchPort, frame: &[u8]) {
        if !self.is_port_up(at) {
            return;
        }
        let Some(n) = self.find(at.switch.0) else { return };
        let up = PacketIn {
            buffer_id: None,
            in_port: at.port,
            total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: u64::MAX,
            frame,
        };
        self.say(n, |out| up.encode(out).is_ok());
    }

    fn is_port_up(&self, at: SwitchPort) -> bool {
        let switch = self.find(at.switch.0).and_then(|n| self.switches.get(n));
        switch.is_some_and(|switch| {
            (1..=switch.ports).contains(&at.port.0) && !switch.down.contains(&at.port)
        })
    }

    /// Switch `n` says something, if it is connected.
    fn say(&mut self, n: usize, say: impl FnOnce(&mut Encoder<'_>) -> bool) {
        let Some(switch) = self.switches.get(n).filter(|switch| switch.is_up) else { return };
        let (mut tx, mut xid, delay) = (Vec::new(), 0, switch.delay);
        if say(&mut Encoder::new(&mut tx, self.version, &mut xid)) {
            self.put(delay, Event::Up(n, tx));
        }
    }

    fn hear(&mut self, n: usize, msg: RawMessage<'_>) {
        match msg.kind() {
            MessageType::PACKET_IN => {
                let Ok(p) = PacketIn::new(msg) else { return };
                self.turn(n, |app, ctx| _ = app.on_packet_in(&p, ctx));
            }
            MessageType::PORT_STATUS => {
                let Ok(status) = PortStatus::read(msg) else { return };
                self.turn(n, |app, ctx| app.on_port_status(&status, ctx));
            }
            MessageType::BARRIER_REPLY => {
                self.turn(n, |app, ctx| app.on_barrier_reply(msg.xid(), ctx));
            }
            _ => {}
        }
    }

    /// Lets the worker of switch `n` hear something from it.
    fn turn(&mut self, n: usize, tell: impl FnOnce(&mut A, &mut Ctx<'_>)) {
        let Some(switch) = self.switches.get_mut(n) else { return };
        let (worker, delay) = (switch.worker, switch.delay);
        let Some(Worker { app, network }) = self.workers.get_mut(worker) else { return };
        let (mut tx, mut ahead) = (Vec::new(), Vec::new());
        let here = Encoder::new(&mut tx, self.version, &mut switch.next_xid);
        app.on_iteration(self.now);
        tell(app, &mut Ctx::new(self.now, number(n), switch.id, here, &mut ahead, network));
        ahead.append(&mut tx);
        if !ahead.is_empty() {
            self.put(delay, Event::Down(n, ahead));
        }
        self.carry(worker);
    }

    /// Carries what worker `from` was told to all others, and to its own application until that says no more.
    fn carry(&mut self, from: usize) {
        while let Some(Worker { app, network }) = self.workers.get_mut(from) {
            let facts = network.take_facts();
            if facts.is_empty() {
                break;
            }
            for told in &facts {
                app.on_fact(told, self.now, network);
            }
            for n in (0..self.workers.len()).filter(|&n| n != from) {
                self.put(self.hop, Event::Told(n, facts.clone()));
            }
        }
    }

    fn put(&mut self, after: Duration, event: Event) {
        self.events_ever += 1;
        self.events.insert((self.now + after, self.events_ever), event);
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// What a worker knows.
    ///
    /// # Panics
    /// Without such a worker.
    #[expect(clippy::indexing_slicing, reason = "a test names a worker that it made")]
    pub fn view(&self, worker: usize) -> &NetworkView {
        self.workers[worker].network.view()
    }

    /// The sum over all workers of a number that applications show; 0 if none does.
    pub fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for worker in &self.workers {
            worker.app.gauges(&mut |(shown, _, n)| sum += if shown == name { n } else { 0 });
        }
        sum
    }

    /// What was said to people since it was asked last.
    pub fn take_reports(&mut self) -> Vec<String> {
        self.workers.iter_mut().flat_map(|worker| worker.network.take_reports().0).collect()
    }

    /// Takes the frames that have left, and where.
    pub fn take_sent_frames(&mut self) -> Vec<(SwitchPort, Vec<u8>)> {
        std::mem::take(&mut self.left)
    }

    /// How many messages of a kind switches were sent.
    pub fn messages_to_switches(&self, kind: MessageType) -> u64 {
        self.heard.get(&kind).copied().unwrap_or_default()
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.now - self.started
    }
}

fn number(n: usize) -> SwitchIndex {
    SwitchIndex(u32::try_from(n).unwrap_or(u32::MAX))
}

fn port(switch: DatapathId, port_no: PortNo, is_down: bool) -> Port {
    let state = if is_down { PortState::LINK_DOWN } else { PortState::default() };
    let hw_addr = MacAddr::from_u64(0x0200_0000_0000 | switch.0 << 16 | u64::from(port_no.0));
    let name = format!("s{}-eth{port_no}", switch.0);
    Port { port_no, hw_addr, name: name.as_str().into(), state, ..Port::default() }
}
