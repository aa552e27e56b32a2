//! Property tests: flow tables against a list of entries, and arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{DatapathId, Encoder, FlowModCommand, Message, PortNo, Version, Versions};

use crate::support::{Play, any_time, tcp, udp};

/// A simplified flow entry.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
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
struct Sent {
    in_port: u32,
    dst: u8,
    is_tcp: bool,
    tp_dst: u16,
}

#[derive(Debug, Clone)]
enum Step {
    ImpairmentChange(FlowModCommand, Rule),
    Send(Sent),
}

impl Rule {
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

    fn matches(&self, sent: &Sent) -> bool {
        self.in_port.is_none_or(|port| port == sent.in_port)
            && self.dst.is_none_or(|(host, wild)| host >> wild == sent.dst >> wild)
            && self.is_tcp.is_none_or(|is_tcp| is_tcp == sent.is_tcp)
            && self.tp_dst().is_none_or(|port| port == sent.tp_dst)
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

/// A flow table as a list.
fn change(rules: &mut Vec<Rule>, command: FlowModCommand, rule: &Rule) {
    let strict = [FlowModCommand::MODIFY_STRICT, FlowModCommand::DELETE_STRICT].contains(&command);
    let is_meant = |it: &Rule| if strict { it.is_same(rule) } else { rule.covers(it) };
    match command {
        FlowModCommand::ADD => {
            rules.retain(|it| !it.is_same(rule));
            rules.push(rule.clone());
        }
        FlowModCommand::MODIFY | FlowModCommand::MODIFY_STRICT => {
            rules.iter_mut().filter(|it| is_meant(it)).for_each(|it| it.output = rule.output);
        }
        _ => rules.retain(|it| !is_meant(it)),
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let dst = proptest::option::of((0..8u8, 0..4u32));
    let (in_port, tp_dst) = (proptest::option::of(1..4u32), proptest::option::of(1..4u16));
    (0..4u16, in_port, dst, any::<Option<bool>>(), tp_dst, 4..9u32).prop_map(
        |(priority, in_port, dst, is_tcp, tp_dst, output)| Rule {
            priority,
            in_port,
            dst,
            is_tcp,
            tp_dst,
            output,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![
        6 => Just(FlowModCommand::ADD),
        1 => Just(FlowModCommand::MODIFY),
        1 => Just(FlowModCommand::MODIFY_STRICT),
        1 => Just(FlowModCommand::DELETE),
        1 => Just(FlowModCommand::DELETE_STRICT),
    ];
    let sent = (1..4u32, 0..8u8, any::<bool>(), 1..4u16);
    prop_oneof![
        (command, rule()).prop_map(|(command, rule)| Step::ImpairmentChange(command, rule)),
        sent.prop_map(|(in_port, dst, is_tcp, tp_dst)| Step::Send(Sent {
            in_port,
            dst,
            is_tcp,
            tp_dst
        })),
    ]
}

fn frame(sent: &Sent) -> Vec<u8> {
    let mut frame =
        if sent.is_tcp { tcp(20, sent.dst, 1000, sent.tp_dst) } else { udp(20, sent.dst, 5) };
    frame[36..38].copy_from_slice(&sent.tp_dst.to_be_bytes());
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Flow tables and the list agree on entries and matches after any changes.
    #[test]
    fn flow_tables_agree_with_a_list_of_entries(steps in vec(step(), 1..60)) {
        let plan = EmulatedSwitchConfig { table_entries_max: 1000, ..EmulatedSwitchConfig::numbered(DatapathId(7), 8) };
        let mut play = Play::with(plan, Version::V1_3);
        let mut rules = vec![];
        for step in steps {
            match step {
                Step::ImpairmentChange(command, rule) => {
                    let deletes = command.0 >= FlowModCommand::DELETE.0;
                    let actions = if deletes { String::new() } else { format!(",actions=output:{}", rule.output) };
                    prop_assert_eq!(play.change(command, &(rule.text() + &actions)), None);
                    change(&mut rules, command, &rule);
                    prop_assert_eq!(play.switch.flow_entry_count(), rules.len());
                }
                Step::Send(sent) => {
                    let met: Vec<_> = rules.iter().filter(|rule| rule.matches(&sent)).collect();
                    let highest = met.iter().map(|rule| rule.priority).max();
                    let may: Vec<_> =
                        met.iter().filter(|it| Some(it.priority) == highest).map(|it| it.output).collect();
                    let left = play.frame(sent.in_port, &frame(&sent));
                    match &left[..] {
                        [] => prop_assert!(may.is_empty(), "{:?}", may),
                        [port] => prop_assert!(may.contains(port), "{:?} {:?}", port, may),
                        more => prop_assert!(false, "{:?}", more),
                    }
                }
            }
        }
    }
}

/// Encoded messages of a controller.
fn words(version: Version) -> Vec<Vec<u8>> {
    let flows = [
        "priority=0,actions=controller:64",
        "tcp,actions=set_field:9->tcp_dst,dec_ttl,output:2,flood",
        "ip,actions=push_vlan:0x8100,set_field:4097->vlan_vid,set_field:10.0.0.9->ip_dst,group:1",
        "ipv6,actions=set_field:fd00::9->ipv6_dst,push_mpls:0x8847,meter:1,write_actions(output:3),goto_table:1",
        "table=1,idle_timeout=1,send_flow_rem,actions=pop_mpls:0x86dd,all",
        "arp,actions=pop_vlan,in_port",
    ];
    let mut messages: Vec<_> =
        flows.iter().map(|flow| Message::FlowMod(Play::flow(FlowModCommand::ADD, flow))).collect();
    messages.push(Message::FlowMod(Play::flow(FlowModCommand::DELETE, "table=255,tcp")));
    messages.push(Play::packet_out(Some(1), 1, &[], "output:2"));
    messages.push(Play::packet_out(None, 1, &tcp(1, 2, 3, 4), "table"));
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
enum Noise {
    /// One of the messages, with one byte changed.
    Word(prop::sample::Index, prop::sample::Index, Option<u8>),
    /// A frame with one byte changed, truncated.
    RawMessage(u32, bool, prop::sample::Index, u8, prop::sample::Index),
    Bytes(Vec<u8>),
    Wait(u64),
}

fn noise() -> impl Strategy<Value = Noise> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (index(), index(), any::<Option<u8>>()).prop_map(|(a, b, c)| Noise::Word(a, b, c)),
        6 => (0..6u32, any::<bool>(), index(), any::<u8>(), index())
            .prop_map(|(port, is_tcp, at, byte, len)| Noise::RawMessage(port, is_tcp, at, byte, len)),
        1 => vec(any::<u8>(), 0..40).prop_map(Noise::Bytes),
        2 => (0..3000u64).prop_map(Noise::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// No input causes a panic, exceeds a capacity, or produces invalid output.
    #[test]
    fn arbitrary_input_is_handled_safely(version in 1..7u8, noises in vec(noise(), 1..60)) {
        let version = Version(version);
        let plan = EmulatedSwitchConfig { flow_buffering: true, ..Play::plan() };
        let mut play = Play::with(plan, version);
        let words = words(version);
        for noise in noises {
            let mut out = SwitchOutput::default();
            let heard = match noise {
                Noise::Word(which, at, byte) => {
                    let mut word = which.get(&words).clone();
                    if let Some(byte) = byte {
                        // After the header, so that the stream stays in sync.
                        let at = 8 + at.index(word.len().max(9) - 8);
                        if let Some(place) = word.get_mut(at) { *place = byte; }
                    }
                    play.switch.on_control_bytes(play.now, &word, &mut out)
                }
                Noise::Bytes(bytes) => play.switch.on_control_bytes(play.now, &bytes, &mut out),
                Noise::RawMessage(port, is_tcp, at, byte, len) => {
                    let mut frame = if is_tcp { tcp(1, 2, 3, 4) } else { udp(1, 2, 30) };
                    *at.get_mut(&mut frame[..60]) = byte;
                    frame.truncate(len.index(2 * frame.len()));
                    play.switch.on_frame(play.now, PortNo(port), &frame, &mut out);
                    Ok(())
                }
                Noise::Wait(ms) => {
                    play.now += std::time::Duration::from_millis(ms);
                    play.switch.tick(play.now, &mut out);
                    Ok(())
                }
            };
            crate::support::messages(&out.control);
            prop_assert!(play.switch.buffered_packets() <= 2);
            if heard.is_err() {
                play.switch.on_disconnected(play.now);
                play.meet();
            }
        }
    }
}

#[test]
fn two_switches_with_the_same_input_have_the_same_output() {
    let run = || {
        let plan = EmulatedSwitchConfig { flow_buffering: true, ..Play::plan() };
        let (mut switch, mut all) = (EmulatedSwitch::new(plan), vec![]);
        let (now, mut out) = (any_time(), SwitchOutput::default());
        switch.on_connected(now, &mut out);
        let mut hello = vec![];
        Encoder::new(&mut hello, Version::V1_3, &mut 1).hello(Versions::of(&[Version::V1_3]));
        switch.on_control_bytes(now, &hello, &mut out).unwrap();
        for word in words(Version::V1_3).iter().rev() {
            switch.on_control_bytes(now, word, &mut out).unwrap();
        }
        for n in 0..50 {
            switch.on_frame(now, PortNo(1), &tcp(n % 5, 9, n.into(), 80), &mut out);
        }
        all.extend(out.control);
        (all, out.frames)
    };
    assert_eq!(run(), run());
}
