//! Where an application is played to.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_openflow::model::{
    AggregateStats, BandTypes, FlowDesc, MeterCapabilities, MeterFeatures, Multipart,
    MultipartFlags, Reply, Stat, Stats,
};
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorCode, ErrorMsg, ErrorReason, ErrorType, EtherType, Features,
    Field, Instruction, MacAddr, Message, MessageType, PacketIn, PacketInReason, Port, PortNo,
    PortReason, PortState, PortStatus, RawMessage, Version, split,
};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use super::network_event::{self, Known};
use super::parse::{Carries, Heard, Size, Up};
use super::sent_message::SentMessage;

/// An application, the switches around it, and what it said that no line has named yet.
#[derive(Debug)]
pub(super) struct TranscriptRunner<A> {
    app: A,
    version: Version,
    now: Instant,
    network: Network,
    switches: Vec<Switch>,
    said: VecDeque<(String, SentMessage)>,
    /// The frame that was heard last.
    frame: Vec<u8>,
    /// The transaction id of what was said last.
    last_xid: u32,
}

#[derive(Debug)]
struct Switch {
    name: String,
    is_up: bool,
    tx: Vec<u8>,
    next_xid: u32,
    /// The rule that was said to it last.
    rule: Vec<u8>,
    /// The transaction id of what it was asked last.
    asked: u32,
}

impl<A: App> TranscriptRunner<A> {
    pub(super) fn new(app: A, version: Version) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (switches, said) = (Vec::new(), VecDeque::new());
        Self {
            app,
            version,
            now,
            network: Network::new(0),
            switches,
            said,
            frame: Vec::new(),
            last_xid: 0,
        }
    }

    /// Lets time pass, with a turn every second as the engine has at least.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + Duration::from_secs(1));
            self.app.on_iteration(self.now);
            for at in 0..self.switches.len() {
                if self.switches.get(at).is_some_and(|switch| switch.is_up) {
                    self.tell(at, A::on_tick);
                }
            }
        }
        self.collect()
    }

    /// Fails if something was said that no line has named.
    pub(super) fn must_be_silent(&self) -> Result<(), String> {
        let first = self.said.front();
        first.map_or(Ok(()), |(switch, said)| Err(format!("it says more: {switch} > {said}")))
    }

    /// Fails unless this is what was said next.
    pub(super) fn must_say(&mut self, switch: &str, words: &[String]) -> Result<(), String> {
        match self.said.pop_front() {
            Some((to, said)) if to == switch && said.is(words) => Ok(()),
            Some((to, said)) => Err(format!("it says: {to} > {said}")),
            None => Err("it says nothing".to_owned()),
        }
    }

    /// Lets `switch` say `heard`.
    pub(super) fn hear(&mut self, switch: &str, heard: &Heard) -> Result<(), String> {
        let at = self.place(switch);
        self.app.on_iteration(self.now);
        match heard {
            Heard::Up => self.come_up(at),
            Heard::Down => {
                self.app.on_switch_disconnected(sw(at), self.now, &mut self.network);
                self.each(at, |switch| switch.is_up = false);
            }
            heard => {
                self.must_be_up(at);
                let bytes = self.say(at, heard)?;
                self.carry(at, &bytes)?;
            }
        }
        self.collect()
    }

    /// Lets everybody know something of the network.
    pub(super) fn know(&mut self, known: &Known) -> Result<(), String> {
        self.app.on_iteration(self.now);
        for name in known.switches() {
            let at = self.place(name);
            self.must_be_up(at);
            if self.network.view().switch(id(at)).is_none() {
                self.network.publish(self.now, network_event::switch(id(at)));
            }
        }
        let switches = &self.switches;
        let by_name = |name: &str| {
            id(switches.iter().position(|known| known.name == name).unwrap_or(switches.len()))
        };
        known.tell(by_name, self.now, &mut self.network);
        self.collect()
    }

    /// The place of the switch of this name, which is made if there is none.
    fn place(&mut self, switch: &str) -> usize {
        let known = self.switches.iter().position(|known| known.name == switch);
        known.unwrap_or_else(|| {
            let name = switch.to_owned();
            self.switches.push(Switch {
                name,
                is_up: false,
                tx: vec![],
                next_xid: 1,
                rule: vec![],
                asked: 0,
            });
            self.switches.len() - 1
        })
    }

    fn must_be_up(&mut self, at: usize) {
        if !self.switches.get(at).is_some_and(|switch| switch.is_up) {
            self.come_up(at);
            self.each(at, |switch| switch.tx.clear());
        }
    }

    fn come_up(&mut self, at: usize) {
        let features = Features {
            datapath_id: id(at),
            n_buffers: 256,
            n_tables: 1,
            ports: (1..=4).map(|n| port(PortNo(n), PortState::default())).collect(),
            ..Features::default()
        };
        self.each(at, |switch| switch.is_up = true);
        self.tell(at, |app, ctx| {
            app.initial_messages(&mut ctx.switch);
            app.on_switch_connected(&features, ctx);
        });
    }

    fn asked(&self, at: usize) -> u32 {
        self.switches.get(at).map_or(0, |switch| switch.asked)
    }

    /// The message in which a switch says `heard`.
    fn say(&mut self, at: usize, heard: &Heard) -> Result<Vec<u8>, String> {
        let (mut bytes, mut xid) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.version, &mut xid);
        let mut status = |n, reason, state| {
            Message::PortStatus(PortStatus { reason, port: port(n, state) }).emit(0, &mut out)
        };
        let there = PortState::default();
        let written = match *heard {
            Heard::Up | Heard::Down => Ok(()),
            Heard::Meters(max_meter) => {
                let features = MeterFeatures {
                    max_meter,
                    band_types: BandTypes::DROP,
                    capabilities: MeterCapabilities::PKTPS | MeterCapabilities::BURST,
                    ..MeterFeatures::default()
                };
                let (flags, body) = (MultipartFlags::default(), Reply::MeterFeatures(features));
                Message::MultipartReply(Multipart { flags, body }).emit(1, &mut out)
            }
            Heard::Full => {
                // FLOW_MOD_FAILED, whose number was another in 1.0, and TABLE_FULL.
                let code = if self.version == Version::V1_0 { [0, 3, 0, 0] } else { [0, 5, 0, 1] };
                let rule = self.switches.get(at).map_or(&[][..], |switch| &switch.rule);
                let quoted = rule.get(..64).unwrap_or(rule);
                out.raw(MessageType::ERROR, self.last_xid, &[&code, quoted].concat())
            }
            Heard::Unable => {
                // BAD_FIELD.
                let (kind, code) = (ErrorType::BAD_MATCH, ErrorCode(6));
                let reason = ErrorReason::Standard { kind, code };
                let rule = self.switches.get(at).map_or(&[][..], |switch| &switch.rule);
                out.error_with(self.last_xid, reason, rule.get(..64).unwrap_or(rule)).map(drop)
            }
            Heard::Count(flows) => {
                let fields = [Stat::FlowCount(flows), Stat::PacketCount(0), Stat::ByteCount(0)];
                let sum = AggregateStats { stats: Stats { fields: fields.into() } };
                let (flags, body) = (MultipartFlags::default(), Reply::AggregateStats(sum));
                Message::MultipartReply(Multipart { flags, body }).emit(self.asked(at), &mut out)
            }
            Heard::Rules(cookie, ref rules) => {
                let flow = |&(dst, port): &(MacAddr, PortNo)| FlowDesc {
                    cookie,
                    priority: 100,
                    matching: [Field::eth_dst(dst), Field::untagged()].into(),
                    instructions: vec![Instruction::apply([Action::output(port)])],
                    ..FlowDesc::default()
                };
                let flows = rules.iter().map(flow).collect();
                let (flags, body) = (MultipartFlags::default(), Reply::FlowDesc { flows });
                Message::MultipartReply(Multipart { flags, body }).emit(self.asked(at), &mut out)
            }
            Heard::Refuse => out.error_with(self.last_xid, ErrorReason::BAD_TYPE, &[]).map(drop),
            Heard::PortUp(n) => status(n, PortReason::MODIFY, there),
            Heard::PortDown(n) => status(n, PortReason::MODIFY, PortState::LINK_DOWN),
            Heard::PortGone(n) => status(n, PortReason::DELETE, there),
            Heard::PacketIn(ref up) => {
                let (frame, total_len) = up.frame(self.version);
                self.frame = frame;
                PacketIn {
                    buffer_id: up.buffer_id,
                    in_port: PortNo(up.port),
                    total_len,
                    reason: PacketInReason::NO_MATCH,
                    table_id: 0,
                    cookie: u64::MAX,
                    frame: &self.frame,
                }
                .emit(&mut out)
            }
        };
        written.map_err(|no| format!("cannot be heard: {no}"))?;
        Ok(bytes)
    }

    /// Carries `bytes` from a switch to the application.
    fn carry(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        let unread = |error: sluice_openflow::ParseError| format!("cannot be heard: {error}");
        let msg = RawMessage::new(bytes).map_err(unread)?;
        match msg.kind() {
            MessageType::PACKET_IN => {
                let p = PacketIn::new(msg).map_err(unread)?;
                self.tell(at, |app, ctx| _ = app.on_packet_in(&p, ctx));
            }
            MessageType::MULTIPART_REPLY => {
                let part = sluice_openflow::Multipart::new(msg).map_err(unread)?;
                let (xid, kind) = (msg.xid(), part.kind);
                self.tell(at, |app, ctx| app.on_multipart_reply(xid, kind, part.body, ctx));
            }
            MessageType::ERROR => {
                let error = ErrorMsg::new(msg).map_err(unread)?;
                self.tell(at, |app, ctx| app.on_error(&error, ctx));
            }
            _ => {
                let status = PortStatus::read(msg).map_err(unread)?;
                self.tell(at, |app, ctx| app.on_port_status(&status, ctx));
            }
        }
        Ok(())
    }

    fn each(&mut self, at: usize, change: impl FnOnce(&mut Switch)) {
        if let Some(switch) = self.switches.get_mut(at) {
            change(switch);
        }
    }

    fn tell(&mut self, at: usize, tell: impl FnOnce(&mut A, &mut Ctx<'_>)) {
        let Some(switch) = self.switches.get_mut(at) else { return };
        let here = Encoder::new(&mut switch.tx, self.version, &mut switch.next_xid);
        let (mut ahead, network) = (Vec::new(), &mut self.network);
        tell(&mut self.app, &mut Ctx::new(self.now, sw(at), id(at), here, &mut ahead, network));
        switch.tx.splice(..0, ahead);
    }

    /// Carries facts and mail, and reads what was said to the switches.
    fn collect(&mut self) -> Result<(), String> {
        loop {
            let facts = self.network.take_facts();
            if facts.is_empty() {
                break;
            }
            for told in &facts {
                self.app.on_fact(told, self.now, &mut self.network);
            }
        }
        self.read_said()?;
        let mut letters = self.network.take_messages();
        // As the engine does: who was written to first is first, with all that goes there.
        while let Some(&(to, _)) = letters.first() {
            let (here, others): (Vec<_>, _) = letters.into_iter().partition(|&(id, _)| id == to);
            letters = others;
            let at = (0..self.switches.len()).find(|&at| id(at) == to);
            let Some(switch) = at.and_then(|at| self.switches.get_mut(at)) else { continue };
            for (_, message) in here.iter().filter(|_| switch.is_up) {
                let mut out = Encoder::new(&mut switch.tx, self.version, &mut switch.next_xid);
                out.encode(message).map_err(|no| format!("mail cannot be said: {no}"))?;
            }
            self.read_said()?;
        }
        Ok(())
    }

    /// Reads what was said to the switches, from their bytes.
    fn read_said(&mut self) -> Result<(), String> {
        for switch in &mut self.switches {
            let bytes = std::mem::take(&mut switch.tx);
            let mut rest = &*bytes;
            while let Some((msg, after)) = split(rest).map_err(|error| error.to_string())? {
                if msg.version() != self.version {
                    return Err(format!("it says something in {}", msg.version()));
                }
                self.last_xid = msg.xid();
                match msg.kind() {
                    MessageType::FLOW_MOD => switch.rule = msg.bytes().to_vec(),
                    MessageType::MULTIPART_REQUEST => switch.asked = msg.xid(),
                    _ => {}
                }
                self.said.push_back((switch.name.clone(), SentMessage::new(msg, &self.frame)));
                rest = after;
            }
            if !rest.is_empty() {
                return Err(format!("it says half a message: {rest:02x?}"));
            }
        }
        Ok(())
    }
}

impl Up {
    /// The frame as it comes up, and its length when it came in.
    fn frame(&self, version: Version) -> (Vec<u8>, u16) {
        let mut frame = [self.dst.0, self.src.0].concat();
        if let Some(vlan) = self.tag {
            frame.extend(EtherType::VLAN.0.to_be_bytes());
            // Priority 3.
            frame.extend((vlan | 3 << 13).to_be_bytes());
        }
        let ethertype = match self.carries {
            Carries::Ipv4 => EtherType::IPV4,
            Carries::Lldp => EtherType::LLDP,
        };
        frame.extend(ethertype.0.to_be_bytes());
        let whole = |frame: Vec<u8>| {
            let len = u16::try_from(frame.len()).unwrap_or(u16::MAX);
            (frame, len)
        };
        match self.size {
            Size::Whole => {
                frame.resize(64, 0x55);
                whole(frame)
            }
            Size::Cut => {
                frame.resize(64, 0x55);
                (frame, 1500)
            }
            Size::Giant => {
                // Header, fixed part, match and padding.
                let around = match version {
                    Version::V1_0 => 8 + 10,
                    Version::V1_1 => 8 + 16,
                    Version::V1_2 => 8 + 8 + 16 + 2,
                    _ => 8 + 16 + 16 + 2,
                };
                frame.resize(usize::from(u16::MAX) - around, 0x55);
                whole(frame)
            }
            Size::Runt(len) => {
                frame.truncate(len);
                whole(frame)
            }
        }
    }
}

fn sw(at: usize) -> SwitchIndex {
    SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX))
}

fn id(at: usize) -> DatapathId {
    DatapathId(at as u64 + 1)
}

fn port(port_no: PortNo, state: PortState) -> Port {
    let hw_addr = MacAddr([2, 0, 0, 0, 1, 0]);
    Port { port_no, hw_addr, name: "port".into(), state, ..Port::default() }
}
