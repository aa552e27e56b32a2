//! The packet buffer: buffer ids, a full buffer, buffering of whole flows.

use std::time::Duration;

use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_openflow::{FlowModCommand, Message, Version};

use crate::support::{Play, tcp, udp};

/// A switch with flow buffering and room for four packets.
fn with_memory(version: Version) -> Play {
    let mut play = Play::with(
        EmulatedSwitchConfig { flow_buffering: true, n_buffers: 4, ..Play::plan() },
        version,
    );
    if version >= Version::V1_3 {
        play.add("priority=0,actions=controller:128");
    }
    play
}

#[test]
fn a_packet_in_has_the_whole_packet_only_if_the_buffer_is_full() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut play = Play::new(version);
        if version >= Version::V1_3 {
            play.add("priority=0,actions=controller:128");
        }
        for n in 0..3 {
            play.frame(1, &udp(n, 9, 500));
        }
        let told = play.packet_ins();
        assert!(told[0].buffer_id.is_some() && told[1].buffer_id != told[0].buffer_id);
        assert_eq!((told[0].data.len(), told[0].total_len), (128, 542), "{version}");
        assert_eq!((told[2].buffer_id, &told[2].data), (None, &udp(2, 9, 500)));
        let counts = play.switch.counters();
        assert_eq!(
            (counts.packet_ins, counts.buffer_full_packet_ins, play.switch.buffered_packets()),
            (3, 1, 2)
        );
    }
}

#[test]
fn the_controller_sets_the_length_of_packet_ins() {
    let mut play = Play::new(Version::V1_0);
    let config = sluice_openflow::SwitchConfig { miss_send_len: 20, ..Default::default() };
    play.say(&Message::SetConfig(config));
    assert_eq!(play.say(&Message::GetConfigRequest), [Message::GetConfigReply(config)]);
    play.frame(1, &udp(1, 9, 500));
    assert_eq!(play.packet_in().data.len(), 20);
    let mut play = Play::new(Version::V1_3);
    play.add("priority=0,actions=controller:65535");
    play.frame(1, &udp(1, 9, 500));
    let whole = play.packet_in();
    assert_eq!((whole.buffer_id, whole.data.len()), (None, 542), "it asked for no slot");
    assert_eq!(play.switch.counters().buffer_full_packet_ins, 0, "which is no fallback");
}

#[test]
fn a_buffered_packet_is_released_once() {
    let mut play = Play::new(Version::V1_0);
    play.frame(1, &udp(1, 9, 500));
    let id = play.packet_in().buffer_id;
    let out = Play::packet_out(id, 1, &[], "output:3");
    assert_eq!(play.refused(&out), None);
    assert_eq!(play.frames, [(3, udp(1, 9, 500))]);
    assert_eq!(play.refused(&out).unwrap().to_string(), "BAD_REQUEST/BUFFER_EMPTY");
    let unknown = Play::packet_out(Some(77), 1, &[], "output:3");
    assert_eq!(play.refused(&unknown).unwrap().to_string(), "BAD_REQUEST/BUFFER_UNKNOWN");
    assert_eq!((play.switch.buffered_packets(), play.switch.counters().released_packets), (0, 1));
}

#[test]
fn a_flow_mod_with_a_buffer_id_releases_the_packet_through_the_tables() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut play = with_memory(version);
        play.frame(1, &tcp(1, 2, 3, 4));
        let id = play.packet_in().buffer_id;
        let mut rule = Play::flow(FlowModCommand::ADD, "priority=5,in_port=1,actions=output:4");
        rule.buffer_id = id;
        assert_eq!(play.refused(&Message::FlowMod(rule.clone())), None);
        assert_eq!(play.frames, [(4, tcp(1, 2, 3, 4))]);
        let again = play.refused(&Message::FlowMod(rule)).unwrap();
        assert_eq!(again.to_string(), "BAD_REQUEST/BUFFER_EMPTY");
        let added = play.switch.flow_entries(0).any(|entry| entry.priority == 5);
        assert!(added, "the rule is there all the same");
    }
}

#[test]
fn a_rejected_packet_out_leaves_the_packet_buffered() {
    let mut play = Play::new(Version::V1_3);
    play.add("priority=0,actions=controller:128");
    play.frame(1, &udp(1, 9, 500));
    let id = play.packet_in().buffer_id;
    let wrong = Play::packet_out(id, 1, &[], "output:99");
    assert_eq!(play.refused(&wrong).unwrap().to_string(), "BAD_ACTION/BAD_OUT_PORT");
    assert_eq!(play.refused(&Play::packet_out(id, 1, &[], "output:2")), None);
}

#[test]
fn buffered_packets_are_discarded_after_a_timeout_and_a_disconnection() {
    let mut play = Play::new(Version::V1_0);
    play.frame(1, &udp(1, 9, 500));
    let id = play.packet_in().buffer_id;
    play.wait(Duration::from_secs(5));
    assert_eq!(
        (play.switch.buffered_packets(), play.switch.counters().drops.buffer_timeout),
        (0, 1)
    );
    let late = Play::packet_out(id, 1, &[], "output:3");
    assert_eq!(play.refused(&late).unwrap().to_string(), "BAD_REQUEST/BUFFER_EMPTY");
    play.frame(1, &udp(1, 9, 500));
    play.add("in_port=2,actions=output:1");
    play.switch.on_disconnected(play.now);
    assert_eq!(
        (play.switch.buffered_packets(), play.switch.counters().drops.buffer_timeout),
        (0, 2)
    );
    assert_eq!(play.frame(2, &udp(2, 1, 5)), [1], "the tables are as they were");
    play.frame(1, &udp(1, 9, 500));
    assert_eq!(play.switch.counters().drops.no_controller, 1);
}

#[test]
fn a_flow_causes_one_packet_in_and_its_answer_applies_to_all_packets() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut play = with_memory(version);
        for n in [10, 20, 30] {
            play.frame(1, &udp(1, 9, n));
        }
        play.frame(2, &udp(2, 9, 10));
        let told = play.packet_ins();
        assert_eq!(told.len(), 2, "one for each flow");
        assert_eq!(
            (play.switch.buffered_packets(), play.switch.counters().buffered_with_flow),
            (4, 2)
        );
        let answer = Play::packet_out(told[0].buffer_id, 1, &[], "output:3");
        assert_eq!(play.refused(&answer), None);
        let sizes: Vec<_> = play.frames.iter().map(|(port, it)| (*port, it.len() - 42)).collect();
        assert_eq!(sizes, [(3, 10), (3, 20), (3, 30)], "in the order in which they came");
        assert_eq!(play.switch.buffered_packets(), 1);
        play.frame(1, &udp(1, 9, 40));
        assert_eq!(play.packet_ins().len(), 1, "what is answered is asked again");
    }
}

#[test]
fn a_flow_mod_with_a_buffer_id_releases_all_packets_of_the_flow() {
    let mut play = with_memory(Version::V1_3);
    play.frame(1, &udp(1, 9, 10));
    play.frame(1, &udp(1, 9, 20));
    let mut rule = Play::flow(FlowModCommand::ADD, "priority=5,ip,actions=output:4");
    rule.buffer_id = play.packet_in().buffer_id;
    assert_eq!(play.refused(&Message::FlowMod(rule)), None);
    assert_eq!(play.frames.iter().map(|it| it.0).collect::<Vec<_>>(), [4, 4]);
    let counts = play.switch.counters();
    assert_eq!((counts.packet_ins, counts.released_packets), (1, 2));
}

#[test]
fn a_flow_mod_without_a_buffer_id_releases_all_but_the_first_packet() {
    let mut play = with_memory(Version::V1_3);
    for n in [10, 20, 30] {
        play.frame(1, &udp(1, 9, n));
    }
    play.frame(2, &udp(2, 8, 10));
    play.frame(2, &udp(2, 8, 10));
    play.add("priority=5,ip,nw_dst=10.0.0.9,actions=output:4");
    let sizes: Vec<_> = play.frames.iter().map(|(port, it)| (*port, it.len() - 42)).collect();
    assert_eq!(sizes, [(4, 20), (4, 30)], "the other flow waits on");
    let id = play.packet_ins()[0].buffer_id;
    assert_eq!(play.refused(&Play::packet_out(id, 1, &[], "output:3")), None);
    assert_eq!(play.frames.last(), Some(&(3, udp(1, 9, 10))));
    let counts = play.switch.counters();
    assert_eq!(
        (counts.buffered_with_flow, counts.released_packets, play.switch.buffered_packets()),
        (2, 3, 1)
    );
}

#[test]
fn a_packet_out_with_a_whole_packet_releases_its_flow() {
    let mut play = with_memory(Version::V1_3);
    play.frame(1, &udp(1, 9, 10));
    play.frame(1, &udp(1, 9, 20));
    play.packet_ins();
    let answer = Play::packet_out(None, 1, &udp(1, 9, 10), "output:2");
    assert_eq!(play.refused(&answer), None);
    assert_eq!(play.frames.len(), 3, "the one that was sent, and the two that waited");
    assert_eq!(play.switch.buffered_packets(), 0);
}

#[test]
fn a_flow_that_exceeds_the_buffer_causes_packet_ins() {
    let mut play = with_memory(Version::V1_0);
    for n in 0..6 {
        play.frame(1, &udp(1, 9, 10 + n));
    }
    let told = play.packet_ins();
    assert_eq!(told.len(), 3, "one that waits, and two that found no room beside it");
    assert_eq!((told[1].buffer_id, told[1].data.len()), (None, 42 + 14));
    let counts = play.switch.counters();
    assert_eq!((counts.buffered_with_flow, counts.buffer_full_packet_ins), (3, 2));
}

#[test]
fn without_flow_buffering_every_packet_causes_a_packet_in() {
    let mut play = Play::new(Version::V1_0);
    play.frame(1, &udp(1, 9, 10));
    play.frame(1, &udp(1, 9, 10));
    assert_eq!((play.packet_ins().len(), play.switch.counters().buffered_with_flow), (2, 0));
}

#[test]
fn packet_ins_that_nobody_answers_do_not_buffer_a_flow() {
    let mut play = with_memory(Version::V1_0);
    let mut probe = udp(1, 9, 10);
    probe[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
    play.frame(1, &probe);
    play.frame(1, &probe);
    assert_eq!(play.packet_ins().len(), 2, "a probe of discovery is for the controller itself");
    let mut play = with_memory(Version::V1_3);
    play.add("priority=1,udp,actions=controller:128");
    play.frame(1, &udp(1, 9, 10));
    play.frame(1, &udp(1, 9, 10));
    assert_eq!(play.packet_ins().len(), 2, "a rule that sends up is no question");
}
