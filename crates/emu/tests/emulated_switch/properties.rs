//! Property tests: flow tables against a list of entries, and arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{DatapathId, Encoder, FlowModCommand, Message, PortNo, Version, Versions};

use crate::support::{SwitchTest, any_time, tcp, udp};

/// A simplified flow entry.
#[derive(Debug, Clone, PartialEq)]
struct SimpleEntry {
    priority: u16,
    in_port: Option<u32>,
    /// Host number, and how many of its low three bits are wildcards.
    dst: Option<(u8, u32)>,
    is_tcp: Option<bool>,
    tp_dst: Option<u16>,
    output: u32,
}

/// A simplified packet.
#[derive(Debug, Clone)]
struct SimplePacket {
    in_port: u32,
    dst: u8,
    is_tcp: bool,
    tp_dst: u16,
}

/// A step of the property test of flow tables.
#[derive(Debug, Clone)]
enum TableStep {
    FlowMod(FlowModCommand, SimpleEntry),
    Receive(SimplePacket),
}

impl SimpleEntry {
    fn text(&self) -> String {
        let port = self.in_port.map_or_else(String::new, |port| format!(",in_port={port}"));
        let protocol = self.is_tcp.map_or("ip", |is_tcp| if is_tcp { "tcp" } else { "udp" });
        let net = self.dst.map_or_else(String::new, |(host, wild)| {
            format!(",nw_dst=10.0.0.{host}/{}", 32 - wild)
        });
        let tp_dst = self.tp_dst().map_or_else(String::new, |port| format!(",tp_dst={port}"));
        format!("table=0,priority={},{protocol}{port}{net}{tp_dst}", self.priority)
    }

    fn tp_dst(&self) -> Option<u16> {
        self.tp_dst.filter(|_| self.is_tcp.is_some())
    }

    /// The address without its wildcard bits.
    fn net(&self) -> Option<(u8, u32)> {
        self.dst.map(|(host, wild)| (host >> wild << wild, wild))
    }

    fn matches(&self, packet: &SimplePacket) -> bool {
        self.in_port.is_none_or(|port| port == packet.in_port)
            && self.dst.is_none_or(|(host, wild)| host >> wild == packet.dst >> wild)
            && self.is_tcp.is_none_or(|is_tcp| is_tcp == packet.is_tcp)
            && self.tp_dst().is_none_or(|port| port == packet.tp_dst)
    }

    fn covers(&self, other: &Self) -> bool {
        let covers_net = match (self.dst, other.dst) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((host, wild)), Some((theirs, narrower))) => {
                narrower <= wild && host >> wild == theirs >> wild
            }
        };
        covers_net
            && (self.in_port.is_none() || self.in_port == other.in_port)
            && (self.is_tcp.is_none() || self.is_tcp == other.is_tcp)
            && (self.tp_dst().is_none() || self.tp_dst() == other.tp_dst())
    }

    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.priority, it.in_port, it.net(), it.is_tcp, it.tp_dst());
        key(self) == key(other)
    }
}

/// Applies a `FLOW_MOD` to a flow table that is a list of entries.
fn apply_flow_mod(entries: &mut Vec<SimpleEntry>, command: FlowModCommand, entry: &SimpleEntry) {
    let strict = [FlowModCommand::MODIFY_STRICT, FlowModCommand::DELETE_STRICT].contains(&command);
    let is_selected = |it: &SimpleEntry| if strict { it.is_same(entry) } else { entry.covers(it) };
    match command {
        FlowModCommand::ADD => {
            entries.retain(|it| !it.is_same(entry));
            entries.push(entry.clone());
        }
        FlowModCommand::MODIFY | FlowModCommand::MODIFY_STRICT => {
            entries.iter_mut().filter(|it| is_selected(it)).for_each(|it| it.output = entry.output);
        }
        _ => entries.retain(|it| !is_selected(it)),
    }
}

fn any_entry() -> impl Strategy<Value = SimpleEntry> {
    let dst = proptest::option::of((0..8u8, 0..4u32));
    let (in_port, tp_dst) = (proptest::option::of(1..4u32), proptest::option::of(1..4u16));
    (0..4u16, in_port, dst, any::<Option<bool>>(), tp_dst, 4..9u32).prop_map(
        |(priority, in_port, dst, is_tcp, tp_dst, output)| SimpleEntry {
            priority,
            in_port,
            dst,
            is_tcp,
            tp_dst,
            output,
        },
    )
}

fn any_step() -> impl Strategy<Value = TableStep> {
    let command = prop_oneof![
        6 => Just(FlowModCommand::ADD),
        1 => Just(FlowModCommand::MODIFY),
        1 => Just(FlowModCommand::MODIFY_STRICT),
        1 => Just(FlowModCommand::DELETE),
        1 => Just(FlowModCommand::DELETE_STRICT),
    ];
    let packet = (1..4u32, 0..8u8, any::<bool>(), 1..4u16);
    prop_oneof![
        (command, any_entry()).prop_map(|(command, entry)| TableStep::FlowMod(command, entry)),
        packet.prop_map(|(in_port, dst, is_tcp, tp_dst)| TableStep::Receive(SimplePacket {
            in_port,
            dst,
            is_tcp,
            tp_dst
        })),
    ]
}

fn frame(packet: &SimplePacket) -> Vec<u8> {
    let mut frame = if packet.is_tcp {
        tcp(20, packet.dst, 1000, packet.tp_dst)
    } else {
        udp(20, packet.dst, 5)
    };
    frame[36..38].copy_from_slice(&packet.tp_dst.to_be_bytes());
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Flow tables and the list agree on entries and matches after any changes.
    #[test]
    fn flow_tables_agree_with_a_list_of_entries(steps in vec(any_step(), 1..60)) {
        let config = EmulatedSwitchConfig { table_entries_max: 1000, ..EmulatedSwitchConfig::numbered(DatapathId(7), 8) };
        let mut test = SwitchTest::with_config(config, Version::V1_3);
        let mut entries = vec![];
        for step in steps {
            match step {
                TableStep::FlowMod(command, entry) => {
                    let deletes = command.0 >= FlowModCommand::DELETE.0;
                    let actions = if deletes { String::new() } else { format!(",actions=output:{}", entry.output) };
                    prop_assert_eq!(test.send_flow_mod(command, &(entry.text() + &actions)), None);
                    apply_flow_mod(&mut entries, command, &entry);
                    prop_assert_eq!(test.switch.flow_entry_count(), entries.len());
                }
                TableStep::Receive(packet) => {
                    let matching: Vec<_> = entries.iter().filter(|entry| entry.matches(&packet)).collect();
                    let highest = matching.iter().map(|entry| entry.priority).max();
                    let allowed: Vec<_> =
                        matching.iter().filter(|it| Some(it.priority) == highest).map(|it| it.output).collect();
                    let ports = test.receive_frame(packet.in_port, &frame(&packet));
                    match &ports[..] {
                        [] => prop_assert!(allowed.is_empty(), "{:?}", allowed),
                        [port] => prop_assert!(allowed.contains(port), "{:?} {:?}", port, allowed),
                        more => prop_assert!(false, "{:?}", more),
                    }
                }
            }
        }
    }
}

/// Encoded messages of a controller.
fn controller_messages(version: Version) -> Vec<Vec<u8>> {
    let flows = [
        "priority=0,actions=controller:64",
        "tcp,actions=set_field:9->tcp_dst,dec_ttl,output:2,flood",
        "ip,actions=push_vlan:0x8100,set_field:4097->vlan_vid,set_field:10.0.0.9->ip_dst,group:1",
        "ipv6,actions=set_field:fd00::9->ipv6_dst,push_mpls:0x8847,meter:1,write_actions(output:3),goto_table:1",
        "table=1,idle_timeout=1,send_flow_rem,actions=pop_mpls:0x86dd,all",
        "arp,actions=pop_vlan,in_port",
    ];
    let mut messages: Vec<_> = flows
        .iter()
        .map(|flow| Message::FlowMod(SwitchTest::flow_mod(FlowModCommand::ADD, flow)))
        .collect();
    messages.push(Message::FlowMod(SwitchTest::flow_mod(FlowModCommand::DELETE, "table=255,tcp")));
    messages.push(SwitchTest::packet_out(Some(1), 1, &[], "output:2"));
    messages.push(SwitchTest::packet_out(None, 1, &tcp(1, 2, 3, 4), "table"));
    let group =
        "group_id=1,type=select,bucket=weight:1,actions=output:2,bucket=weight:1,actions=output:3";
    let add = sluice_openflow::GroupCommand::ADD;
    messages.push(Message::GroupMod(sluice_openflow::GroupMod::from_text(group, add).unwrap()));
    let meter = "meter=1,pktps,burst,bands=type=drop,rate=10,burst_size=3";
    let add = sluice_openflow::MeterCommand::ADD;
    messages.push(Message::MeterMod(sluice_openflow::MeterMod::from_text(meter, add).unwrap()));
    messages.push(Message::FeaturesRequest);
    messages.push(Message::GetAsyncRequest);
    let mut tx = vec![];
    messages
        .iter()
        .filter_map(|message| {
            tx.clear();
            message.encode(1, &mut Encoder::new(&mut tx, version, &mut 1)).ok()?;
            Some(tx.clone())
        })
        .collect()
}

#[derive(Debug, Clone)]
enum ArbitraryInput {
    /// A message of the controller, possibly with one byte changed.
    Message(prop::sample::Index, prop::sample::Index, Option<u8>),
    /// A frame with one byte changed, truncated.
    Frame(u32, bool, prop::sample::Index, u8, prop::sample::Index),
    Bytes(Vec<u8>),
    Wait(u64),
}

fn arbitrary_input() -> impl Strategy<Value = ArbitraryInput> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (index(), index(), any::<Option<u8>>()).prop_map(|(a, b, c)| ArbitraryInput::Message(a, b, c)),
        6 => (0..6u32, any::<bool>(), index(), any::<u8>(), index())
            .prop_map(|(port, is_tcp, at, byte, len)| ArbitraryInput::Frame(port, is_tcp, at, byte, len)),
        1 => vec(any::<u8>(), 0..40).prop_map(ArbitraryInput::Bytes),
        2 => (0..3000u64).prop_map(ArbitraryInput::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// No input causes a panic, exceeds a capacity, or produces invalid output.
    #[test]
    fn arbitrary_input_is_handled_safely(version in 1..7u8, inputs in vec(arbitrary_input(), 1..60)) {
        let version = Version(version);
        let config = EmulatedSwitchConfig { flow_buffering: true, ..SwitchTest::config() };
        let mut test = SwitchTest::with_config(config, version);
        let messages = controller_messages(version);
        for input in inputs {
            let mut out = SwitchOutput::default();
            let result = match input {
                ArbitraryInput::Message(which, at, byte) => {
                    let mut message = which.get(&messages).clone();
                    if let Some(byte) = byte {
                        // After the header, so that the stream stays in sync.
                        let at = 8 + at.index(message.len().max(9) - 8);
                        if let Some(target) = message.get_mut(at) { *target = byte; }
                    }
                    test.switch.on_control_bytes(test.now, &message, &mut out)
                }
                ArbitraryInput::Bytes(bytes) => test.switch.on_control_bytes(test.now, &bytes, &mut out),
                ArbitraryInput::Frame(port, is_tcp, at, byte, len) => {
                    let mut frame = if is_tcp { tcp(1, 2, 3, 4) } else { udp(1, 2, 30) };
                    *at.get_mut(&mut frame[..60]) = byte;
                    frame.truncate(len.index(2 * frame.len()));
                    test.switch.on_frame(test.now, PortNo(port), &frame, &mut out);
                    Ok(())
                }
                ArbitraryInput::Wait(ms) => {
                    test.now += std::time::Duration::from_millis(ms);
                    test.switch.tick(test.now, &mut out);
                    Ok(())
                }
            };
            crate::support::messages(&out.control);
            prop_assert!(test.switch.buffered_packets() <= 2);
            if result.is_err() {
                test.switch.on_disconnected(test.now);
                test.connect();
            }
        }
    }
}

#[test]
fn two_switches_with_the_same_input_have_the_same_output() {
    let run = || {
        let config = EmulatedSwitchConfig { flow_buffering: true, ..SwitchTest::config() };
        let (mut switch, mut all) = (EmulatedSwitch::new(config), vec![]);
        let (now, mut out) = (any_time(), SwitchOutput::default());
        switch.on_connected(now, &mut out);
        let mut hello = vec![];
        Encoder::new(&mut hello, Version::V1_3, &mut 1).hello(Versions::of(&[Version::V1_3]));
        switch.on_control_bytes(now, &hello, &mut out).unwrap();
        for message in controller_messages(Version::V1_3).iter().rev() {
            switch.on_control_bytes(now, message, &mut out).unwrap();
        }
        for n in 0..50 {
            switch.on_frame(now, PortNo(1), &tcp(n % 5, 9, n.into(), 80), &mut out);
        }
        all.extend(out.control);
        (all, out.frames)
    };
    assert_eq!(run(), run());
}
