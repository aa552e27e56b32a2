//! Runs a transcript: one application, its switches, and the messages that it sent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, PacketIn};
use sluice_openflow::{
    Action, AggregateStats, BandTypes, DatapathId, EncodeError, Encoder, ErrorCode, ErrorReason,
    ErrorType, EtherType, Field, FlowDesc, FlowRemoved, Instruction, MacAddr, Message, MessageType,
    MeterCapabilities, MeterFeatures, Multipart, MultipartFlags, MultipartReply, PacketInReason,
    ParseError, Port, PortNo, PortReason, PortState, PortStatus, RawMessage, Stat, Stats,
    SwitchFeatures, Version, split_message,
};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, restore_tables};

use super::describe::SentMessage;
use super::network_event::{self, NetworkEvent};
use super::parse::{Length, ListedFlow, PacketSpec, SwitchInput};

/// The engine's longest time between two ticks of a switch.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of the failed message that an error quotes (§7.4.4).
const QUOTED_BYTES: usize = 64;

/// An application, its switches, and the messages that no line of the transcript has named yet.
#[derive(Debug)]
pub(super) struct TranscriptRunner<A> {
    app: A,
    version: Version,
    now: Instant,
    network: Network,
    switches: Vec<TranscriptSwitch>,
    /// With the name of the switch.
    sent: VecDeque<(String, SentMessage)>,
    /// The frame of the last packet-in.
    last_frame: Vec<u8>,
    /// Transaction id of the last message that the application sent.
    last_xid: u32,
}

#[derive(Debug)]
struct TranscriptSwitch {
    name: String,
    is_connected: bool,
    tx: Vec<u8>,
    next_xid: u32,
    /// The last `FLOW_MOD` that it received.
    last_flow_mod: Vec<u8>,
    /// Transaction id of the last `MULTIPART_REQUEST` that it received.
    last_request_xid: u32,
}

impl TranscriptSwitch {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_connected: false,
            tx: vec![],
            next_xid: 1,
            last_flow_mod: vec![],
            last_request_xid: 0,
        }
    }
}

impl<A: App> TranscriptRunner<A> {
    pub(super) fn new(app: A, version: Version) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        Self {
            app,
            version,
            now,
            network: Network::new(0),
            switches: Vec::new(),
            sent: VecDeque::new(),
            last_frame: Vec::new(),
            last_xid: 0,
        }
    }

    /// Advances the time, with a tick of every connected switch at the interval that the engine guarantees.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + TICK_INTERVAL);
            self.app.on_iteration(self.now);
            for index in 0..self.switches.len() {
                if self.switches.get(index).is_some_and(|switch| switch.is_connected) {
                    self.call_app(index, A::on_tick);
                }
            }
        }
        self.collect_messages()
    }

    /// Fails if the application sent a message that no line has named.
    pub(super) fn expect_silence(&self) -> Result<(), String> {
        match self.sent.front() {
            Some((switch, sent)) => Err(format!("the application also sends: {switch} > {sent}")),
            None => Ok(()),
        }
    }

    /// Fails unless the next message that the application sent is described by `words`.
    pub(super) fn expect(&mut self, switch: &str, words: &[String]) -> Result<(), String> {
        match self.sent.pop_front() {
            Some((to, sent)) if to == switch && sent.matches(words) => Ok(()),
            Some((to, sent)) => Err(format!("the application sends: {to} > {sent}")),
            None => Err("the application sends nothing".to_owned()),
        }
    }

    /// Passes an event of a switch to the application.
    pub(super) fn handle_switch_event(
        &mut self,
        switch: &str,
        event: &SwitchInput,
    ) -> Result<(), String> {
        let index = self.find_or_add(switch);
        self.app.on_iteration(self.now);
        match event {
            SwitchInput::Connects => self.connect(index),
            SwitchInput::Disconnects => {
                self.app.on_switch_disconnected(switch_index(index), self.now, &mut self.network);
                self.with_switch(index, |switch| switch.is_connected = false);
            }
            SwitchInput::ChangesLost => {
                self.ensure_connected(index);
                self.call_app(index, restore_tables);
            }
            event => {
                self.ensure_connected(index);
                let bytes = self.encode(index, event)?;
                self.deliver(index, &bytes)?;
            }
        }
        self.collect_messages()
    }

    /// Publishes a change of the network to the application.
    pub(super) fn publish(&mut self, event: &NetworkEvent) -> Result<(), String> {
        self.app.on_iteration(self.now);
        for name in event.connected_switches() {
            let index = self.find_or_add(name);
            self.ensure_connected(index);
            if self.network.view().switch(datapath_id(index)).is_none() {
                self.network.publish(self.now, network_event::switch_connected(datapath_id(index)));
            }
        }
        let switches = &self.switches;
        let by_name = |name: &str| {
            let index = switches.iter().position(|switch| switch.name == name);
            datapath_id(index.unwrap_or(switches.len()))
        };
        event.publish(by_name, self.now, &mut self.network);
        self.collect_messages()
    }

    /// The index of the switch of this name, which is added if it is new.
    fn find_or_add(&mut self, name: &str) -> usize {
        let known = self.switches.iter().position(|switch| switch.name == name);
        known.unwrap_or_else(|| {
            self.switches.push(TranscriptSwitch::new(name));
            self.switches.len() - 1
        })
    }

    /// Connects a switch unless it is connected; the initial messages to it are dropped.
    fn ensure_connected(&mut self, index: usize) {
        if !self.switches.get(index).is_some_and(|switch| switch.is_connected) {
            self.connect(index);
            self.with_switch(index, |switch| switch.tx.clear());
        }
    }

    fn connect(&mut self, index: usize) {
        let features = SwitchFeatures {
            datapath_id: datapath_id(index),
            n_buffers: 256,
            n_tables: 1,
            ports: (1..=4).map(|n| port(PortNo(n), PortState::default())).collect(),
            ..SwitchFeatures::default()
        };
        self.with_switch(index, |switch| switch.is_connected = true);
        self.call_app(index, |app, ctx| {
            app.initial_messages(&mut ctx.switch);
            app.on_switch_connected(&features, ctx);
        });
    }

    /// Encodes the message of an event.
    fn encode(&mut self, index: usize, event: &SwitchInput) -> Result<Vec<u8>, String> {
        let switch = self.switches.get(index);
        let request_xid = switch.map_or(0, |switch| switch.last_request_xid);
        let flow_mod = switch.map_or(&[][..], |switch| &switch.last_flow_mod);
        let quoted = flow_mod.get(..QUOTED_BYTES).unwrap_or(flow_mod);
        let (mut bytes, mut xid) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.version, &mut xid);
        let mut port_status = |n, reason, state| {
            Message::PortStatus(PortStatus { reason, port: port(n, state) }).encode(0, &mut out)
        };
        let encoded = match *event {
            SwitchInput::Connects | SwitchInput::Disconnects | SwitchInput::ChangesLost => Ok(()),
            SwitchInput::PortUp(n) => port_status(n, PortReason::MODIFY, PortState::default()),
            SwitchInput::PortDown(n) => port_status(n, PortReason::MODIFY, PortState::LINK_DOWN),
            SwitchInput::PortDeleted(n) => port_status(n, PortReason::DELETE, PortState::default()),
            SwitchInput::FlowRemoved(cookie) => {
                let removed = FlowRemoved { cookie, ..FlowRemoved::default() };
                Message::FlowRemoved(removed).encode(0, &mut out)
            }
            SwitchInput::TableFull => {
                // FLOW_MOD_FAILED, whose number is another in 1.0, and TABLE_FULL.
                let code = if self.version == Version::V1_0 { [0, 3, 0, 0] } else { [0, 5, 0, 1] };
                out.raw_message(MessageType::ERROR, self.last_xid, &[&code, quoted].concat())
            }
            SwitchInput::BadField => {
                let (kind, code) = (ErrorType::BAD_MATCH, ErrorCode(6));
                let reason = ErrorReason::Standard { kind, code };
                out.error_with(self.last_xid, reason, quoted).map(drop)
            }
            SwitchInput::BadType => {
                out.error_with(self.last_xid, ErrorReason::BAD_TYPE, &[]).map(drop)
            }
            SwitchInput::MeterFeatures(max_meter) => {
                encode_reply(&mut out, 1, meter_features(max_meter))
            }
            SwitchInput::AggregateStats(flows) => {
                let fields = [Stat::FlowCount(flows), Stat::PacketCount(0), Stat::ByteCount(0)];
                let stats = AggregateStats { stats: Stats { fields: fields.into() } };
                encode_reply(&mut out, request_xid, MultipartReply::AggregateStats(stats))
            }
            SwitchInput::FlowStats(cookie, ref entries) => {
                encode_reply(&mut out, request_xid, flow_stats(cookie, entries))
            }
            SwitchInput::PacketIn(ref packet) => {
                let (frame, total_len) = packet.frame(self.version);
                self.last_frame = frame;
                PacketIn {
                    buffer_id: packet.buffer_id,
                    in_port: PortNo(packet.port),
                    total_len,
                    reason: PacketInReason::NO_MATCH,
                    table_id: 0,
                    cookie: u64::MAX,
                    frame: &self.last_frame,
                }
                .encode(&mut out)
            }
        };
        encoded.map_err(|error| format!("cannot encode this message: {error}"))?;
        Ok(bytes)
    }

    /// Parses the message of a switch and passes it to the application.
    fn deliver(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let failed = |error: ParseError| format!("cannot parse this message: {error}");
        let msg = RawMessage::new(bytes).map_err(failed)?;
        match msg.kind() {
            MessageType::PACKET_IN => {
                let p = PacketIn::new(msg).map_err(failed)?;
                self.call_app(index, |app, ctx| _ = app.on_packet_in(&p, ctx));
            }
            MessageType::MULTIPART_REPLY => {
                let part = sluice_openflow::view::Multipart::new(msg).map_err(failed)?;
                let (xid, kind) = (msg.xid(), part.kind);
                self.call_app(index, |app, ctx| app.on_multipart_reply(xid, kind, part.body, ctx));
            }
            MessageType::FLOW_REMOVED => {
                let removed = sluice_openflow::view::FlowRemoved::new(msg).map_err(failed)?;
                self.call_app(index, |app, ctx| app.on_flow_removed(&removed, ctx));
            }
            MessageType::ERROR => {
                let error = ErrorMsg::new(msg).map_err(failed)?;
                self.call_app(index, |app, ctx| app.on_error(&error, ctx));
            }
            _ => {
                let status = PortStatus::parse_raw(msg).map_err(failed)?;
                self.call_app(index, |app, ctx| app.on_port_status(&status, ctx));
            }
        }
        Ok(())
    }

    fn with_switch(&mut self, index: usize, change: impl FnOnce(&mut TranscriptSwitch)) {
        if let Some(switch) = self.switches.get_mut(index) {
            change(switch);
        }
    }

    /// Calls the application in the context of a switch.
    fn call_app(&mut self, index: usize, call: impl FnOnce(&mut A, &mut Ctx<'_>)) {
        let Some(switch) = self.switches.get_mut(index) else { return };
        let encoder = Encoder::new(&mut switch.tx, self.version, &mut switch.next_xid);
        let (mut urgent, network) = (Vec::new(), &mut self.network);
        let (sw, id) = (switch_index(index), datapath_id(index));
        call(&mut self.app, &mut Ctx::new(self.now, sw, id, encoder, &mut urgent, network));
        switch.tx.splice(..0, urgent);
    }

    /// Delivers the application's facts to itself and its messages to the switches, and records these.
    fn collect_messages(&mut self) -> Result<(), String> {
        while self.network.wants_iteration() {
            self.network.deliver(&mut self.app, self.now, |_| {});
        }
        for id in self.network.take_switch_work() {
            let index = self
                .switches
                .iter()
                .enumerate()
                .position(|(index, switch)| switch.is_connected && datapath_id(index) == id);
            if let Some(index) = index {
                self.call_app(index, A::on_switch_work);
            }
        }
        self.record_sent()?;
        let mut messages = self.network.take_messages();
        // In the order of the engine: all messages to the switch of the first message, then all to the next switch.
        while let Some(&(to, _)) = messages.first() {
            let (batch, others): (Vec<_>, _) = messages.into_iter().partition(|&(id, _)| id == to);
            messages = others;
            let index = (0..self.switches.len()).find(|&index| datapath_id(index) == to);
            let Some(switch) = index.and_then(|index| self.switches.get_mut(index)) else {
                continue;
            };
            for (_, message) in batch.iter().filter(|_| switch.is_connected) {
                let mut out = Encoder::new(&mut switch.tx, self.version, &mut switch.next_xid);
                out.encode(message).map_err(|error| {
                    format!("the application sends a message that cannot be encoded: {error}")
                })?;
            }
            self.record_sent()?;
        }
        Ok(())
    }

    /// Parses the bytes sent to the switches and records the messages.
    fn record_sent(&mut self) -> Result<(), String> {
        for switch in &mut self.switches {
            let bytes = std::mem::take(&mut switch.tx);
            let mut rest = &*bytes;
            while let Some((msg, after)) = split_message(rest).map_err(|error| error.to_string())? {
                if msg.version() != self.version {
                    return Err(format!("the application sends version {}", msg.version()));
                }
                self.last_xid = msg.xid();
                match msg.kind() {
                    MessageType::FLOW_MOD => switch.last_flow_mod = msg.bytes().to_vec(),
                    MessageType::MULTIPART_REQUEST => switch.last_request_xid = msg.xid(),
                    _ => {}
                }
                self.sent.push_back((switch.name.clone(), SentMessage::new(msg, &self.last_frame)));
                rest = after;
            }
            if !rest.is_empty() {
                return Err(format!("the application sends an incomplete message: {rest:02x?}"));
            }
        }
        Ok(())
    }
}

fn encode_reply(out: &mut Encoder<'_>, xid: u32, body: MultipartReply) -> Result<(), EncodeError> {
    let flags = MultipartFlags::default();
    Message::MultipartReply(Multipart { flags, body }).encode(xid, out)
}

fn meter_features(max_meter: u32) -> MultipartReply {
    MultipartReply::MeterFeatures(MeterFeatures {
        max_meter,
        band_types: BandTypes::DROP,
        capabilities: MeterCapabilities::PKTPS | MeterCapabilities::BURST,
        ..MeterFeatures::default()
    })
}

fn flow_stats(cookie: u64, entries: &[ListedFlow]) -> MultipartReply {
    let flow = |entry: &ListedFlow| {
        let source = entry.source.map(|(port, src)| [Field::in_port(port), Field::eth_src(src)]);
        let others = [Field::eth_dst(entry.dst), Field::untagged()];
        FlowDesc {
            cookie,
            priority: 100,
            matching: source.into_iter().flatten().chain(others).collect(),
            instructions: vec![Instruction::apply([Action::output(entry.out_port)])],
            ..FlowDesc::default()
        }
    };
    MultipartReply::FlowDesc { flows: entries.iter().map(flow).collect() }
}

impl PacketSpec {
    /// The part of the frame that is in the message, and the length of the whole frame.
    fn frame(&self, version: Version) -> (Vec<u8>, u16) {
        const NORMAL_BYTES: usize = 64;
        const TRUNCATED_FROM: u16 = 1500;
        const FILL: u8 = 0x55;
        let mut frame = [self.dst.0, self.src.0].concat();
        if let Some(vlan) = self.vlan {
            const PRIORITY: u16 = 3;
            frame.extend(EtherType::VLAN.0.to_be_bytes());
            frame.extend((vlan | PRIORITY << 13).to_be_bytes());
        }
        let ethertype = self.ethertype.unwrap_or(EtherType::IPV4);
        frame.extend(ethertype.0.to_be_bytes());
        match self.length {
            Length::Normal | Length::Truncated => frame.resize(NORMAL_BYTES, FILL),
            Length::Max => {
                // The rest of the message: header, fixed part, match and padding.
                let overhead = match version {
                    Version::V1_0 => 8 + 10,
                    Version::V1_1 => 8 + 16,
                    Version::V1_2 => 8 + 8 + 16 + 2,
                    _ => 8 + 16 + 16 + 2,
                };
                frame.resize(usize::from(u16::MAX) - overhead, FILL);
            }
            Length::Exactly(len) => frame.truncate(len),
        }
        let total_len = match self.length {
            Length::Truncated => TRUNCATED_FROM,
            _ => u16::try_from(frame.len()).unwrap_or(u16::MAX),
        };
        (frame, total_len)
    }
}

fn switch_index(index: usize) -> SwitchIndex {
    SwitchIndex(u32::try_from(index).unwrap_or(u32::MAX))
}

fn datapath_id(index: usize) -> DatapathId {
    DatapathId(index as u64 + 1)
}

fn port(port_no: PortNo, state: PortState) -> Port {
    let hw_addr = MacAddr([2, 0, 0, 0, 1, 0]);
    Port { port_no, hw_addr, name: "port".into(), state, ..Port::default() }
}
