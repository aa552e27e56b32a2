//! Workers with the application `hosts`, their switches, and the port roles that `topology` would publish.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sluice_apps::hosts::{Config, Hosts};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, DatapathId, Encoder, MacAddr, Message, PacketInReason, PortNo, RawMessage,
    SwitchFeatures, Version, Versions, VlanId, split_message,
};
use sluice_sdk::view::{Fact, Host, HostId, PortInfo, PortRole, SwitchInfo, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, SwitchIndex, Verdict};
use sluice_testkit::{AppOutput, AppWorker, CalledSwitch, run_iterations, switch_port};

use crate::hosts::frames::{is_at, who_has};

/// Number of ports of each switch.
pub(crate) const PORTS: u32 = 8;

/// A frame that a switch sent because of a packet-out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SentFrame {
    pub(crate) at: SwitchPort,
    pub(crate) frame: Vec<u8>,
}

/// Two switches of one OpenFlow version. Switch `n` belongs to worker `n` modulo the number of workers.
pub(crate) struct TestNetwork {
    pub(crate) version: Version,
    pub(crate) now: Instant,
    pub(crate) workers: Vec<AppWorker<Hosts>>,
    log: Vec<String>,
    /// Whether switches take what is sent.
    pub(crate) has_room: bool,
    connected: Vec<u64>,
    xid: u32,
    sent: Vec<SentFrame>,
    /// Buffers that packet-outs released.
    released: Vec<u32>,
    /// Frames that switches process as if they had arrived at a port.
    resubmitted: Vec<SentFrame>,
}

/// Runs a test in every version of OpenFlow, with one worker and with two.
pub(crate) fn in_all_versions(cfg: &Config, test: impl Fn(&mut TestNetwork)) {
    for version in Versions::SUPPORTED.iter() {
        for workers in 1..=2 {
            test(&mut TestNetwork::new(version, workers, cfg));
        }
    }
}

/// The Ethernet address of a port.
pub(crate) fn port_addr(switch: u64, port: u32) -> MacAddr {
    MacAddr::from_u64(0x0400_0000_0000 + switch * 256 + u64::from(port))
}

fn port(at: SwitchPort, role: PortRole) -> PortInfo {
    let hw_addr = port_addr(at.switch.0, at.port.0);
    PortInfo { name: at.port.to_string().as_str().into(), hw_addr, is_up: true, role }
}

impl TestNetwork {
    pub(crate) fn new(version: Version, workers: usize, cfg: &Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let workers = (0..workers).map(|n| AppWorker::new(n, Hosts::new(cfg))).collect();
        let mut net = Self {
            version,
            now,
            workers,
            log: vec![],
            has_room: true,
            connected: vec![],
            xid: 1,
            sent: vec![],
            released: vec![],
            resubmitted: vec![],
        };
        net.connect_switch(1);
        net.connect_switch(2);
        net
    }

    fn worker_of(&self, switch: u64) -> usize {
        usize::try_from(switch).unwrap() % self.workers.len()
    }

    pub(crate) fn call_app<T>(
        &mut self,
        switch: u64,
        call: impl FnOnce(&mut Hosts, &mut Ctx<'_>) -> T,
    ) -> T {
        let n = self.worker_of(switch);
        let called = CalledSwitch {
            index: SwitchIndex(u32::try_from(switch).unwrap()),
            id: DatapathId(switch),
            version: self.version,
            next_xid: &mut self.xid,
            has_room: self.has_room,
        };
        let (result, output) = self.workers[n].call(called, self.now, call);
        assert!(output.urgent.is_empty());
        self.record_messages(switch, &output.messages);
        self.deliver();
        result
    }

    /// Records the messages that a switch received.
    fn record_messages(&mut self, switch: u64, tx: &[u8]) {
        let mut rest = tx;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            rest = after;
            let p = match Message::parse_raw(msg).unwrap() {
                Message::PacketOut(p) => p,
                other => panic!("{other:?}"),
            };
            if let Some(id) = p.buffer_id {
                assert!(p.actions.is_empty());
                self.released.push(id);
                continue;
            }
            if p.actions == [Action::output(PortNo::TABLE)] {
                let at = SwitchPort::new(DatapathId(switch), p.in_port());
                self.resubmitted.push(SentFrame { at, frame: p.data });
                continue;
            }
            assert_eq!(
                p.in_port(),
                PortNo::CONTROLLER,
                "otherwise the switch may not send it to the port that it came from"
            );
            let [Action::Output { port, .. }] = p.actions[..] else { panic!("{p:?}") };
            self.sent
                .push(SentFrame { at: SwitchPort::new(DatapathId(switch), port), frame: p.data });
        }
    }

    /// The end of an event-loop iteration of each worker. Returns the number of facts that were published.
    pub(crate) fn iterate(&mut self) -> usize {
        run_iterations(&mut self.workers, self.now).len()
    }

    /// Delivers facts to all workers and messages to the switches.
    fn deliver(&mut self) {
        while self.workers.iter().any(|worker| worker.network.wants_iteration()) {
            self.iterate();
        }
        for n in 0..self.workers.len() {
            let AppOutput { messages, log } = self.workers[n].take_output();
            self.log.extend(log);
            for (to, message) in messages {
                let (mut tx, mut xid) = (Vec::new(), 7);
                message.encode(1, &mut Encoder::new(&mut tx, self.version, &mut xid)).unwrap();
                if self.connected.contains(&to.0) {
                    self.record_messages(to.0, &tx);
                }
            }
        }
    }

    fn publish(&mut self, fact: Fact) {
        self.publish_undelivered(fact);
        self.deliver();
    }

    /// Publishes a fact, which is delivered in the next iteration.
    fn publish_undelivered(&mut self, fact: Fact) {
        let at = match fact {
            Fact::Port(at, _) => at.switch.0,
            Fact::Switch(id, _) => id.0,
            _ => panic!(),
        };
        let (n, now) = (self.worker_of(at), self.now);
        self.workers[n].network.publish(now, fact);
    }

    /// Connects a switch. All its ports are edge ports.
    pub(crate) fn connect_switch(&mut self, switch: u64) {
        let ports = (1..=PORTS).map(|n| (PortNo(n), port(switch_port(switch, n), PortRole::Edge)));
        let ports: BTreeMap<_, _> = ports.collect();
        self.connected.push(switch);
        self.publish(Fact::Switch(DatapathId(switch), Some(SwitchInfo { ports })));
        self.call_app(switch, |app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
    }

    pub(crate) fn disconnect_switch(&mut self, switch: u64) {
        self.connected.retain(|&id| id != switch);
        self.publish(Fact::Switch(DatapathId(switch), None));
        let n = self.worker_of(switch);
        let AppWorker { app, network } = &mut self.workers[n];
        app.on_switch_disconnected(SwitchIndex(u32::try_from(switch).unwrap()), self.now, network);
        self.deliver();
    }

    pub(crate) fn set_role(&mut self, at: SwitchPort, role: PortRole) {
        self.publish(Fact::Port(at, Some(port(at, role))));
    }

    pub(crate) fn port_down(&mut self, at: SwitchPort) {
        self.begin_port_down(at);
        self.deliver();
    }

    /// A port goes down; its worker has not finished the iteration yet.
    pub(crate) fn begin_port_down(&mut self, at: SwitchPort) {
        let port = PortInfo { is_up: false, ..port(at, PortRole::Pending) };
        self.publish_undelivered(Fact::Port(at, Some(port)));
    }

    /// A port is an edge port again; its worker has not finished the iteration yet.
    pub(crate) fn begin_port_up(&mut self, at: SwitchPort) {
        self.publish_undelivered(Fact::Port(at, Some(port(at, PortRole::Edge))));
    }

    pub(crate) fn delete_port(&mut self, at: SwitchPort) {
        self.publish(Fact::Port(at, None));
    }

    /// A packet-in with the first 128 bytes of a frame that the switch keeps in buffer 7.
    pub(crate) fn receive_buffered(&mut self, at: SwitchPort, frame: &[u8]) -> Verdict {
        self.packet_in(at, &frame[..frame.len().min(128)], Some(7))
    }

    /// A packet-in with a whole frame.
    pub(crate) fn receive(&mut self, at: SwitchPort, frame: &[u8]) -> Verdict {
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
        self.call_app(at.switch.0, |app, ctx| app.on_packet_in(&p, ctx))
    }

    /// Sets the round-trip time to a switch.
    pub(crate) fn set_rtt(&mut self, switch: u64, ms: u64) {
        let n = self.worker_of(switch);
        let sw = SwitchIndex(u32::try_from(switch).unwrap());
        self.workers[n].network.record_rtt(sw, Duration::from_millis(ms));
    }

    /// Advances the time, with ticks like those of the engine.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        for _ in 0..ms / 250 {
            self.tick(250);
        }
        self.tick(ms % 250);
    }

    /// Advances the time without a tick. Work that was deferred until then is done.
    pub(crate) fn wait_between_ticks(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        loop {
            let timers = self.workers.iter().filter_map(|worker| worker.network.deferred_until());
            let next = timers.min().filter(|&at| at <= end);
            self.now = next.unwrap_or(end).max(self.now);
            for worker in &mut self.workers {
                worker.network.begin_iteration(self.now);
            }
            self.deliver();
            if next.is_none() {
                break;
            }
        }
    }

    pub(crate) fn tick(&mut self, ms: u64) {
        self.wait_between_ticks(ms);
        for worker in &mut self.workers {
            worker.app.on_iteration(self.now);
        }
        for switch in self.connected.clone() {
            self.call_app(switch, App::on_tick);
        }
    }

    /// A host, as all workers know it.
    #[track_caller]
    pub(crate) fn host(&self, mac: MacAddr, vlan: u16) -> Option<Host> {
        let id = HostId { mac, vlan: VlanId(vlan) };
        let all = self.workers.iter().map(|worker| worker.network.view().host(id).cloned());
        let all: Vec<_> = all.collect();
        assert!(all.iter().all(|host| host == &all[0]), "workers disagree: {all:?}");
        all[0].clone()
    }

    /// The location of a host without a VLAN.
    #[track_caller]
    pub(crate) fn location(&self, mac: MacAddr) -> Option<SwitchPort> {
        self.host(mac, 0).map(|host| host.at)
    }

    /// The addresses of a host without a VLAN, as text.
    #[track_caller]
    pub(crate) fn addrs(&self, mac: MacAddr) -> Vec<String> {
        let addrs = self.host(mac, 0).map(|host| host.addrs).unwrap_or_default();
        addrs.iter().map(ToString::to_string).collect()
    }

    /// A metric, summed over all workers.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut sum = None;
        for worker in &self.workers {
            worker.app.metrics(&mut |AppMetric { name: known, value, .. }| {
                if known == name {
                    *sum.get_or_insert(0) += value;
                }
            });
        }
        sum.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Takes the frames that switches sent since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<SentFrame> {
        std::mem::take(&mut self.sent)
    }

    /// The hosts `answering` answer the ARP probes with which the controller checks that they are still there. Returns how many
    /// there were.
    pub(crate) fn answer_ageing_probes(&mut self, at: SwitchPort, answering: &[MacAddr]) -> usize {
        let mut count = 0;
        for sent in self.take_sent().iter().filter(|sent| sent.at == at) {
            let is_arp_probe = sent.frame[6..14] == [0x0e, 0x53, 0x4c, 0, 0, 1, 8, 6];
            let mac = MacAddr(sent.frame[..6].try_into().unwrap());
            if is_arp_probe && answering.contains(&mac) {
                let addr: [u8; 4] = sent.frame[38..42].try_into().unwrap();
                self.receive_ageing_answer(at, mac, &Ipv4Addr::from(addr).to_string());
                count += 1;
            }
        }
        count
    }

    /// A host answers such a probe.
    pub(crate) fn receive_ageing_answer(&mut self, at: SwitchPort, mac: MacAddr, addr: &str) {
        let probe_source = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1]);
        let answer = is_at(mac, addr, (probe_source, "0.0.0.0"));
        assert_eq!(self.receive(at, &answer), Verdict::Stop);
    }

    /// Hosts with addresses appear, and answer the probes that they get after the default timeout.
    pub(crate) fn learn_and_confirm(&mut self, hosts: &[(SwitchPort, MacAddr, &str)]) {
        for &(at, mac, addr) in hosts {
            self.receive(at, &who_has(mac, addr, "10.0.0.99"));
        }
        self.wait_ms(300_000);
        let probed = self.take_sent().len();
        assert_eq!(probed, hosts.len());
        for &(at, mac, addr) in hosts {
            self.receive_ageing_answer(at, mac, addr);
        }
    }

    /// Takes the frames that switches processed as if they had arrived since the last call.
    pub(crate) fn take_resubmitted(&mut self) -> Vec<SentFrame> {
        std::mem::take(&mut self.resubmitted)
    }

    /// Takes the buffers that were released since the last call.
    pub(crate) fn take_released(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.released)
    }

    /// Takes the log lines since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}
