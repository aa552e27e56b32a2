//! The packet buffer: buffer ids, a full buffer, buffering of whole flows.

use std::time::Duration;

use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_openflow::{FlowModCommand, Message, Version};

use crate::support::{SwitchTest, tcp, udp};

/// A switch with flow buffering and four packet buffers.
fn with_flow_buffering(version: Version) -> SwitchTest {
    let mut test = SwitchTest::with_config(
        EmulatedSwitchConfig { flow_buffering: true, n_buffers: 4, ..SwitchTest::config() },
        version,
    );
    if version >= Version::V1_3 {
        test.add_flow("priority=0,actions=controller:128");
    }
    test
}

#[test]
fn a_packet_in_has_the_whole_packet_only_if_the_buffer_is_full() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut test = SwitchTest::new(version);
        if version >= Version::V1_3 {
            test.add_flow("priority=0,actions=controller:128");
        }
        for n in 0..3 {
            test.receive_frame(1, &udp(n, 9, 500));
        }
        let packet_ins = test.take_packet_ins();
        assert!(
            packet_ins[0].buffer_id.is_some() && packet_ins[1].buffer_id != packet_ins[0].buffer_id
        );
        assert_eq!((packet_ins[0].data.len(), packet_ins[0].total_len), (128, 542), "{version}");
        assert_eq!((packet_ins[2].buffer_id, &packet_ins[2].data), (None, &udp(2, 9, 500)));
        let counters = test.switch.counters();
        assert_eq!(
            (counters.packet_ins, counters.buffer_full_packet_ins, test.switch.buffered_packets()),
            (3, 1, 2)
        );
    }
}

#[test]
fn the_controller_sets_the_length_of_packet_ins() {
    let mut test = SwitchTest::new(Version::V1_0);
    let config = sluice_openflow::SwitchConfig { miss_send_len: 20, ..Default::default() };
    test.send(&Message::SetConfig(config));
    assert_eq!(test.send(&Message::GetConfigRequest), [Message::GetConfigReply(config)]);
    test.receive_frame(1, &udp(1, 9, 500));
    assert_eq!(test.take_only_packet_in().data.len(), 20);
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=0,actions=controller:65535");
    test.receive_frame(1, &udp(1, 9, 500));
    let packet_in = test.take_only_packet_in();
    assert_eq!(
        (packet_in.buffer_id, packet_in.data.len()),
        (None, 542),
        "65535 disables buffering (OFPCML_NO_BUFFER)"
    );
    assert_eq!(test.switch.counters().buffer_full_packet_ins, 0, "not because the buffer is full");
}

#[test]
fn a_buffered_packet_is_released_once() {
    let mut test = SwitchTest::new(Version::V1_0);
    test.receive_frame(1, &udp(1, 9, 500));
    let id = test.take_only_packet_in().buffer_id;
    let out = SwitchTest::packet_out(id, 1, &[], "output:3");
    assert_eq!(test.error_reason(&out), None);
    assert_eq!(test.sent_frames, [(3, udp(1, 9, 500))]);
    assert_eq!(test.error_reason(&out).unwrap().to_string(), "BAD_REQUEST/BUFFER_EMPTY");
    let unknown = SwitchTest::packet_out(Some(77), 1, &[], "output:3");
    assert_eq!(test.error_reason(&unknown).unwrap().to_string(), "BAD_REQUEST/BUFFER_UNKNOWN");
    assert_eq!((test.switch.buffered_packets(), test.switch.counters().released_packets), (0, 1));
}

#[test]
fn a_flow_mod_with_a_buffer_id_releases_the_packet_through_the_tables() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut test = with_flow_buffering(version);
        test.receive_frame(1, &tcp(1, 2, 3, 4));
        let id = test.take_only_packet_in().buffer_id;
        let mut flow_mod =
            SwitchTest::flow_mod(FlowModCommand::ADD, "priority=5,in_port=1,actions=output:4");
        flow_mod.buffer_id = id;
        assert_eq!(test.error_reason(&Message::FlowMod(flow_mod.clone())), None);
        assert_eq!(test.sent_frames, [(4, tcp(1, 2, 3, 4))]);
        let again = test.error_reason(&Message::FlowMod(flow_mod)).unwrap();
        assert_eq!(again.to_string(), "BAD_REQUEST/BUFFER_EMPTY");
        let added = test.switch.flow_entries(0).any(|entry| entry.priority == 5);
        assert!(added, "the flow entry is added although the buffer is empty");
    }
}

#[test]
fn a_rejected_packet_out_leaves_the_packet_buffered() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=0,actions=controller:128");
    test.receive_frame(1, &udp(1, 9, 500));
    let id = test.take_only_packet_in().buffer_id;
    let rejected = SwitchTest::packet_out(id, 1, &[], "output:99");
    assert_eq!(test.error_reason(&rejected).unwrap().to_string(), "BAD_ACTION/BAD_OUT_PORT");
    assert_eq!(test.error_reason(&SwitchTest::packet_out(id, 1, &[], "output:2")), None);
}

#[test]
fn buffered_packets_are_discarded_after_a_timeout_and_a_disconnection() {
    let mut test = SwitchTest::new(Version::V1_0);
    test.receive_frame(1, &udp(1, 9, 500));
    let id = test.take_only_packet_in().buffer_id;
    test.advance(Duration::from_secs(5));
    assert_eq!(
        (test.switch.buffered_packets(), test.switch.counters().drops.buffer_timeout),
        (0, 1)
    );
    let late = SwitchTest::packet_out(id, 1, &[], "output:3");
    assert_eq!(test.error_reason(&late).unwrap().to_string(), "BAD_REQUEST/BUFFER_EMPTY");
    test.receive_frame(1, &udp(1, 9, 500));
    test.add_flow("in_port=2,actions=output:1");
    test.switch.on_disconnected(test.now);
    assert_eq!(
        (test.switch.buffered_packets(), test.switch.counters().drops.buffer_timeout),
        (0, 2)
    );
    assert_eq!(test.receive_frame(2, &udp(2, 1, 5)), [1], "the flow entries remain");
    test.receive_frame(1, &udp(1, 9, 500));
    assert_eq!(test.switch.counters().drops.no_controller, 1);
}

#[test]
fn a_flow_causes_one_packet_in_and_its_answer_applies_to_all_packets() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut test = with_flow_buffering(version);
        for n in [10, 20, 30] {
            test.receive_frame(1, &udp(1, 9, n));
        }
        test.receive_frame(2, &udp(2, 9, 10));
        let packet_ins = test.take_packet_ins();
        assert_eq!(packet_ins.len(), 2, "one per flow");
        assert_eq!(
            (test.switch.buffered_packets(), test.switch.counters().buffered_with_flow),
            (4, 2)
        );
        let packet_out = SwitchTest::packet_out(packet_ins[0].buffer_id, 1, &[], "output:3");
        assert_eq!(test.error_reason(&packet_out), None);
        let sizes: Vec<_> =
            test.sent_frames.iter().map(|(port, frame)| (*port, frame.len() - 42)).collect();
        assert_eq!(sizes, [(3, 10), (3, 20), (3, 30)], "in order of arrival");
        assert_eq!(test.switch.buffered_packets(), 1);
        test.receive_frame(1, &udp(1, 9, 40));
        assert_eq!(
            test.take_packet_ins().len(),
            1,
            "after the answer, a new packet of the flow causes a packet-in again"
        );
    }
}

#[test]
fn a_flow_mod_with_a_buffer_id_releases_all_packets_of_the_flow() {
    let mut test = with_flow_buffering(Version::V1_3);
    test.receive_frame(1, &udp(1, 9, 10));
    test.receive_frame(1, &udp(1, 9, 20));
    let mut flow_mod = SwitchTest::flow_mod(FlowModCommand::ADD, "priority=5,ip,actions=output:4");
    flow_mod.buffer_id = test.take_only_packet_in().buffer_id;
    assert_eq!(test.error_reason(&Message::FlowMod(flow_mod)), None);
    assert_eq!(test.sent_frames.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [4, 4]);
    let counters = test.switch.counters();
    assert_eq!((counters.packet_ins, counters.released_packets), (1, 2));
}

#[test]
fn a_flow_mod_without_a_buffer_id_releases_all_but_the_first_packet() {
    let mut test = with_flow_buffering(Version::V1_3);
    for n in [10, 20, 30] {
        test.receive_frame(1, &udp(1, 9, n));
    }
    test.receive_frame(2, &udp(2, 8, 10));
    test.receive_frame(2, &udp(2, 8, 10));
    test.add_flow("priority=5,ip,nw_dst=10.0.0.9,actions=output:4");
    let sizes: Vec<_> =
        test.sent_frames.iter().map(|(port, frame)| (*port, frame.len() - 42)).collect();
    assert_eq!(sizes, [(4, 20), (4, 30)], "the other flow stays buffered");
    let id = test.take_packet_ins()[0].buffer_id;
    assert_eq!(test.error_reason(&SwitchTest::packet_out(id, 1, &[], "output:3")), None);
    assert_eq!(test.sent_frames.last(), Some(&(3, udp(1, 9, 10))));
    let counters = test.switch.counters();
    assert_eq!(
        (counters.buffered_with_flow, counters.released_packets, test.switch.buffered_packets()),
        (2, 3, 1)
    );
}

#[test]
fn a_packet_out_with_a_whole_packet_releases_its_flow() {
    let mut test = with_flow_buffering(Version::V1_3);
    test.receive_frame(1, &udp(1, 9, 10));
    test.receive_frame(1, &udp(1, 9, 20));
    test.take_packet_ins();
    let packet_out = SwitchTest::packet_out(None, 1, &udp(1, 9, 10), "output:2");
    assert_eq!(test.error_reason(&packet_out), None);
    assert_eq!(test.sent_frames.len(), 3, "the packet of the message, and the two buffered ones");
    assert_eq!(test.switch.buffered_packets(), 0);
}

#[test]
fn a_flow_that_exceeds_the_buffer_causes_packet_ins() {
    let mut test = with_flow_buffering(Version::V1_0);
    for n in 0..6 {
        test.receive_frame(1, &udp(1, 9, 10 + n));
    }
    let packet_ins = test.take_packet_ins();
    assert_eq!(packet_ins.len(), 3, "one buffered, and two for which the buffer had no room");
    assert_eq!((packet_ins[1].buffer_id, packet_ins[1].data.len()), (None, 42 + 14));
    let counters = test.switch.counters();
    assert_eq!((counters.buffered_with_flow, counters.buffer_full_packet_ins), (3, 2));
}

#[test]
fn without_flow_buffering_every_packet_causes_a_packet_in() {
    let mut test = SwitchTest::new(Version::V1_0);
    test.receive_frame(1, &udp(1, 9, 10));
    test.receive_frame(1, &udp(1, 9, 10));
    assert_eq!((test.take_packet_ins().len(), test.switch.counters().buffered_with_flow), (2, 0));
}

#[test]
fn probes_and_packets_sent_by_a_flow_entry_do_not_buffer_a_flow() {
    let mut test = with_flow_buffering(Version::V1_0);
    let mut probe = udp(1, 9, 10);
    probe[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
    test.receive_frame(1, &probe);
    test.receive_frame(1, &probe);
    assert_eq!(test.take_packet_ins().len(), 2, "discovery probes get no reply");
    let mut test = with_flow_buffering(Version::V1_3);
    test.add_flow("priority=1,udp,actions=controller:128");
    test.receive_frame(1, &udp(1, 9, 10));
    test.receive_frame(1, &udp(1, 9, 10));
    assert_eq!(test.take_packet_ins().len(), 2, "an output to the controller is not a table miss");
}
