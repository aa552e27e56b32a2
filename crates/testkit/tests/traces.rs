//! What a trace says is what an emulated switch does.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Instant;

use sluice_base::Rng;
use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{
    DatapathId, Encoder, FlowMod, FlowModCommand, FlowStatsRequest, GroupCommand, GroupDescRequest,
    GroupMod, Message, Multipart, MultipartReply, MultipartRequest, Port, PortDescRequest, PortNo,
    Version, Versions, split_message,
};
use sluice_pipeline::trace::{OutputTo, StepKind, SwitchState, SwitchTrace, TraceLimits, trace};
use sluice_testkit::random_tables::{RandomTables, TableShape, packet_frame, random_packet};

/// Tables of which each is tried with [`PACKETS`] packets.
const TABLES: u64 = 100;
const PACKETS: u32 = 30;

/// An emulated switch with a connection to a controller.
struct Switch {
    switch: EmulatedSwitch,
    now: Instant,
}

impl Switch {
    fn new(ports: u16) -> Self {
        let config = EmulatedSwitchConfig {
            n_buffers: 0,
            ..EmulatedSwitchConfig::numbered(DatapathId(1), ports)
        };
        let now = sluice_io::clock::now();
        let mut test = Self { switch: EmulatedSwitch::new(config), now };
        test.switch.on_connected(now, &mut SwitchOutput::default());
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, Version::V1_3, &mut xid).hello(Versions::of(&[Version::V1_3]));
        test.switch.on_control_bytes(now, &tx, &mut SwitchOutput::default()).unwrap();
        test.send(&Message::FeaturesRequest);
        test
    }

    fn send(&mut self, message: &Message) -> Vec<Message> {
        let (mut tx, mut xid, mut out) = (vec![], 1, SwitchOutput::default());
        message.encode(9, &mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap();
        self.switch.on_control_bytes(self.now, &tx, &mut out).unwrap();
        messages(&out.control)
    }

    fn change(&mut self, message: &Message) {
        let replies = self.send(message);
        assert!(replies.is_empty(), "{message:?}: {replies:?}");
    }

    fn read(&mut self, request: MultipartRequest) -> Vec<MultipartReply> {
        let replies = self.send(&Message::MultipartRequest(Multipart::single(request)));
        let body = |message| match message {
            Message::MultipartReply(part) => part.body,
            other => panic!("{other:?}"),
        };
        replies.into_iter().map(body).collect()
    }

    /// What the switch says of itself.
    fn state(&mut self) -> SwitchState {
        let mut ports: Vec<Port> = vec![];
        for reply in self.read(MultipartRequest::PortDesc(PortDescRequest::default())) {
            if let MultipartReply::PortDesc { ports: part } = reply {
                ports.extend(part);
            }
        }
        let mut state = SwitchState::new(Version::V1_3, ports);
        let groups = MultipartRequest::GroupDesc(GroupDescRequest::default());
        let flows = MultipartRequest::FlowDesc(FlowStatsRequest::default());
        for reply in self.read(flows).into_iter().chain(self.read(groups)) {
            match reply {
                MultipartReply::FlowDesc { flows } => state.add_flows(flows),
                MultipartReply::GroupDesc { groups } => state.add_groups(groups),
                other => panic!("{other:?}"),
            }
        }
        state
    }

    /// The ports and frames that leave the switch, and the packet-ins: by their reason and table.
    fn forward(&mut self, in_port: PortNo, frame: &[u8]) -> Vec<(OutputTo, Vec<u8>)> {
        let mut out = SwitchOutput::default();
        self.switch.on_frame(self.now, in_port, frame, &mut out);
        let frames = out.frames.into_iter().map(|(port, frame)| (OutputTo::Port(port), frame));
        let packet_ins = messages(&out.control).into_iter().map(|message| match message {
            Message::PacketIn(it) => {
                (OutputTo::Controller { reason: it.reason, table_id: it.table_id }, it.data)
            }
            other => panic!("{other:?}"),
        });
        let mut all: Vec<_> = frames.chain(packet_ins).collect();
        all.sort_by_key(|output| format!("{output:?}"));
        all
    }
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    let (mut rest, mut messages) = (bytes, vec![]);
    while let Some((msg, after)) = split_message(rest).unwrap() {
        messages.push(Message::parse_raw(msg).unwrap());
        rest = after;
    }
    messages
}

/// The outputs of a trace, as [`Switch::forward`] lists them. OpenFlow 1.3 has one reason for all actions.
fn outputs(trace: &SwitchTrace, is_wanted: impl Fn(bool) -> bool) -> Vec<(OutputTo, Vec<u8>)> {
    let wanted = trace.outputs.iter().filter(|output| is_wanted(output.is_alternative));
    let output = wanted.map(|output| {
        let to = match &output.to {
            OutputTo::Controller { reason, table_id } => OutputTo::Controller {
                reason: if reason.0 >= 3 {
                    sluice_openflow::PacketInReason::ACTION
                } else {
                    *reason
                },
                table_id: *table_id,
            },
            other => other.clone(),
        };
        (to, output.frame.to_vec())
    });
    let mut all: Vec<_> = output.collect();
    all.sort_by_key(|output| format!("{output:?}"));
    all
}

fn with_tables(tables: &RandomTables, ports: u16) -> Switch {
    let mut switch = Switch::new(ports);
    for text in &tables.groups {
        switch.change(&Message::GroupMod(GroupMod::from_text(text, GroupCommand::ADD).unwrap()));
    }
    for text in &tables.flows {
        switch.change(&Message::FlowMod(FlowMod::from_text(text, FlowModCommand::ADD).unwrap()));
    }
    switch
}

#[test]
fn traces_agree_with_emulated_switches_on_random_tables_and_packets() {
    let (mut sent, mut to_controller, mut dropped, mut in_groups, mut chosen) = (0, 0, 0, 0, 0);
    for seed in 0..TABLES {
        let mut rng = Rng::new(seed);
        let shape = TableShape {
            tables: 4,
            ports: vec![1, 2, 3, 4],
            has_reserved_ports: seed % 2 == 0,
            has_select_groups: seed % 4 == 0,
        };
        let tables = RandomTables::new(&mut rng, &shape);
        let mut switch = with_tables(&tables, 5);
        // What is sent there is lost, and a fast failover group uses another bucket.
        switch.switch.set_link_state(switch.now, PortNo(4), false, &mut SwitchOutput::default());
        let state = switch.state();
        for _ in 0..PACKETS {
            let (text, in_port) = (random_packet(&mut rng), PortNo(1 + rng.below(3)));
            let frame = packet_frame(&text);
            let record = |frame_bytes| {
                let limits = TraceLimits { steps: 10_000, frame_bytes };
                trace(&state, in_port, frame.clone(), limits).unwrap()
            };
            let trace = record(usize::MAX);
            let cut = record(frame.len().saturating_sub(9));
            assert!(cut.outputs.iter().all(|it| it.frame.len() < frame.len()), "{text}: {cut:?}");
            assert_eq!(cut.outputs.is_empty(), trace.outputs.is_empty(), "{text}: {cut:?}");
            let done = switch.forward(in_port, &frame);
            let certain = outputs(&trace, |is_alternative| !is_alternative);
            let possible = outputs(&trace, |_| true);
            let context = || format!("seed {seed}, port {in_port}, {text}: {tables:#?} {trace:#?}");
            if certain.len() == possible.len() {
                assert_eq!(certain, done, "{}", context());
            } else {
                chosen += 1;
                let mut left = possible;
                for output in &done {
                    let at = left.iter().position(|it| it == output);
                    left.remove(at.unwrap_or_else(|| panic!("{output:?} {}", context())));
                }
                assert!(certain.iter().all(|it| done.contains(it)), "{}", context());
                assert!(!done.is_empty(), "{}", context());
            }
            let is_to_controller =
                |it: &&(OutputTo, _)| matches!(it.0, OutputTo::Controller { .. });
            to_controller += done.iter().filter(is_to_controller).count();
            sent += done.iter().filter(|it| !is_to_controller(it)).count();
            dropped += usize::from(done.is_empty());
            let is_bucket =
                |step: &&sluice_pipeline::trace::Step| matches!(step.kind, StepKind::Bucket { .. });
            in_groups += usize::from(trace.steps.iter().any(|step| is_bucket(&step)));
        }
    }
    let counts = [sent, to_controller, dropped, in_groups, chosen];
    assert!(counts.iter().all(|&n| n > 30), "the cases have some of everything: {counts:?}");
}
