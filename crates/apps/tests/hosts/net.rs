//! Workers with the application, switches around them, and who tells what their ports lead to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_apps::hosts::{Config, Hosts};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, FlowModCommand, MacAddr, Message, PacketInReason, PortNo, RawMessage,
    SwitchFeatures, Version, Versions, VlanId, split_message,
};
use sluice_sdk::view::{Fact, Host, HostId, PortInfo, PortRole, SwitchInfo, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

/// Ports of each switch.
pub(crate) const PORTS: u32 = 8;

/// What a switch was told to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: SwitchPort,
    pub(crate) frame: Vec<u8>,
}

/// A network of switches of one version; switch `n` is served by worker `n` modulo their number.
pub(crate) struct Net {
    pub(crate) version: Version,
    pub(crate) now: Instant,
    pub(crate) workers: Vec<Worker>,
    ups: Vec<u64>,
    xid: u32,
    /// What was said to switches since it was looked at last: frames to send.
    pub(crate) sent: Vec<Sent>,
    /// And slots that were emptied.
    pub(crate) released: Vec<u32>,
    rules: Vec<&'static str>,
}

pub(crate) struct Worker {
    pub(crate) app: Hosts,
    pub(crate) network: Network,
    reports: Vec<String>,
}

/// Plays `story` in every version, with one worker and with two.
pub(crate) fn each(cfg: &Config, story: impl Fn(&mut Net)) {
    for version in Versions::SPOKEN.iter() {
        for workers in 1..=2 {
            story(&mut Net::new(version, workers, cfg));
        }
    }
}

pub(crate) fn place(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

/// The address of a port itself.
pub(crate) fn port_addr(switch: u64, port: u32) -> MacAddr {
    MacAddr::from_u64(0x0400_0000_0000 + switch * 256 + u64::from(port))
}

fn port(at: SwitchPort, role: PortRole) -> PortInfo {
    let hw_addr = port_addr(at.switch.0, at.port.0);
    PortInfo { name: format!("{}", at.port), hw_addr, is_up: true, role }
}

impl Net {
    pub(crate) fn new(version: Version, workers: usize, cfg: &Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let worker = |n| Worker { app: Hosts::new(cfg), network: Network::new(n), reports: vec![] };
        let workers = (0..workers).map(worker).collect();
        let (ups, sent, released) = (Vec::new(), Vec::new(), Vec::new());
        let rules = Vec::new();
        let mut net = Self { version, now, workers, ups, xid: 1, sent, released, rules };
        net.up(1);
        net.up(2);
        net
    }

    fn worker_of(&self, switch: u64) -> usize {
        usize::try_from(switch).unwrap() % self.workers.len()
    }

    fn with<T>(&mut self, switch: u64, tell: impl FnOnce(&mut Hosts, &mut Ctx<'_>) -> T) -> T {
        let (mut tx, mut ahead, n) = (Vec::new(), Vec::new(), self.worker_of(switch));
        let Worker { app, network, .. } = &mut self.workers[n];
        let here = Encoder::new(&mut tx, self.version, &mut self.xid);
        let sw = SwitchIndex(u32::try_from(switch).unwrap());
        let mut ctx = Ctx::new(self.now, sw, DatapathId(switch), here, &mut ahead, network);
        let told = tell(app, &mut ctx);
        assert!(ahead.is_empty());
        self.heard_by(switch, &tx);
        self.carry();
        told
    }

    /// What the switch was told.
    fn heard_by(&mut self, switch: u64, tx: &[u8]) {
        let mut rest = tx;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            rest = after;
            let p = match Message::parse_raw(msg).unwrap() {
                Message::PacketOut(p) => p,
                Message::FlowMod(rule) => {
                    let is_add = rule.command == FlowModCommand::ADD;
                    self.rules.push(if is_add { "add" } else { "delete" });
                    continue;
                }
                other => panic!("{other:?}"),
            };
            if let Some(id) = p.buffer_id {
                assert!(p.actions.is_empty());
                self.released.push(id);
                continue;
            }
            assert_eq!(p.in_port(), Some(PortNo::CONTROLLER), "else it may not go back");
            let [sluice_openflow::Action::Output { port, .. }] = p.actions[..] else {
                panic!("{p:?}")
            };
            self.sent.push(Sent { at: SwitchPort::new(DatapathId(switch), port), frame: p.data });
        }
    }

    /// Facts to all workers, mail to the switches.
    pub(crate) fn carry(&mut self) {
        loop {
            let mut is_quiet = true;
            for n in 0..self.workers.len() {
                let facts = self.workers[n].network.take_facts();
                is_quiet &= facts.is_empty();
                for (m, Worker { app, network, .. }) in self.workers.iter_mut().enumerate() {
                    for told in &facts {
                        if m == n || network.apply_remote(told) {
                            app.on_fact(told, self.now, network);
                        }
                    }
                }
            }
            if is_quiet {
                break;
            }
        }
        for n in 0..self.workers.len() {
            let network = &mut self.workers[n].network;
            let (reports, _) = network.take_reports();
            let mail = network.take_messages();
            self.workers[n].reports.extend(reports);
            for (to, message) in mail {
                let (mut tx, mut xid) = (Vec::new(), 7);
                message.encode(1, &mut Encoder::new(&mut tx, self.version, &mut xid)).unwrap();
                if self.ups.contains(&to.0) {
                    self.heard_by(to.0, &tx);
                }
            }
        }
    }

    fn tell(&mut self, fact: Fact) {
        let at = match fact {
            Fact::Port(at, _) => at.switch.0,
            Fact::Switch(id, _) => id.0,
            _ => panic!(),
        };
        let (n, now) = (self.worker_of(at), self.now);
        self.workers[n].network.publish(now, fact);
        self.carry();
    }

    /// A switch is there; all its ports are at the edge.
    pub(crate) fn up(&mut self, switch: u64) {
        let ports = (1..=PORTS).map(|n| (PortNo(n), port(place(switch, n), PortRole::Edge)));
        let ports: BTreeMap<_, _> = ports.collect();
        self.ups.push(switch);
        self.tell(Fact::Switch(DatapathId(switch), Some(SwitchInfo { ports })));
        self.with(switch, |app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
    }

    pub(crate) fn down(&mut self, switch: u64) {
        self.ups.retain(|&up| up != switch);
        self.tell(Fact::Switch(DatapathId(switch), None));
        let n = self.worker_of(switch);
        let Worker { app, network, .. } = &mut self.workers[n];
        app.on_switch_disconnected(SwitchIndex(u32::try_from(switch).unwrap()), self.now, network);
        self.carry();
    }

    pub(crate) fn role(&mut self, at: SwitchPort, role: PortRole) {
        self.tell(Fact::Port(at, Some(port(at, role))));
    }

    pub(crate) fn port_down(&mut self, at: SwitchPort) {
        let port = PortInfo { is_up: false, ..port(at, PortRole::Pending) };
        self.tell(Fact::Port(at, Some(port)));
    }

    pub(crate) fn port_gone(&mut self, at: SwitchPort) {
        self.tell(Fact::Port(at, None));
    }

    /// A frame comes up, which the switch keeps in slot 7, and only the first 128 bytes of it.
    pub(crate) fn kept(&mut self, at: SwitchPort, frame: &[u8]) -> Verdict {
        self.packet_in(at, &frame[..frame.len().min(128)], Some(7))
    }

    /// A frame comes up whole.
    pub(crate) fn frame(&mut self, at: SwitchPort, frame: &[u8]) -> Verdict {
        self.packet_in(at, frame, None)
    }

    fn packet_in(&mut self, at: SwitchPort, frame: &[u8], buffer_id: Option<u32>) -> Verdict {
        let (mut rx, mut xid) = (Vec::new(), 1);
        let p = PacketIn {
            buffer_id,
            in_port: at.port,
            total_len: u16::try_from(frame.len()).unwrap(),
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: 0,
            frame,
        };
        p.encode(&mut Encoder::new(&mut rx, self.version, &mut xid)).unwrap();
        let p = PacketIn::new(RawMessage::new(&rx).unwrap()).unwrap();
        self.with(at.switch.0, |app, ctx| app.on_packet_in(&p, ctx))
    }

    /// Time passes, as the engine lets it pass.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        for _ in 0..ms / 250 {
            self.tick(250);
        }
        self.tick(ms % 250);
    }

    pub(crate) fn tick(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        for worker in &mut self.workers {
            worker.app.on_iteration(self.now);
        }
        for switch in self.ups.clone() {
            self.with(switch, App::on_tick);
        }
    }

    /// What all workers agree to know of a host.
    #[track_caller]
    pub(crate) fn host(&self, mac: MacAddr, vlan: u16) -> Option<Host> {
        let id = HostId { mac, vlan: VlanId(vlan) };
        let all = self.workers.iter().map(|worker| worker.network.view().host(id).cloned());
        let all: Vec<_> = all.collect();
        assert!(all.iter().all(|host| host == &all[0]), "they disagree: {all:?}");
        all[0].clone()
    }

    /// Where it is.
    #[track_caller]
    pub(crate) fn at(&self, mac: MacAddr) -> Option<SwitchPort> {
        self.host(mac, 0).map(|host| host.at)
    }

    /// Its addresses, in text.
    #[track_caller]
    pub(crate) fn addrs(&self, mac: MacAddr) -> Vec<String> {
        let addrs = self.host(mac, 0).map(|host| host.addrs).unwrap_or_default();
        addrs.iter().map(ToString::to_string).collect()
    }

    /// The number that is shown to people, over all workers.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let mut sum = None;
        for worker in &self.workers {
            worker.app.metrics(&mut |AppMetric { name: known, value, .. }| {
                if known == name {
                    *sum.get_or_insert(0) += value;
                }
            });
        }
        sum.unwrap_or_else(|| panic!("there is no gauge {name}"))
    }

    /// What was sent since it was asked last.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// Rules that were added or deleted since it was asked last.
    pub(crate) fn rules(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.rules)
    }

    /// Slots that were emptied since it was asked last.
    pub(crate) fn released(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.released)
    }

    /// Lines of the log since it was asked last.
    pub(crate) fn reports(&mut self) -> Vec<String> {
        self.workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.reports)).collect()
    }
}
