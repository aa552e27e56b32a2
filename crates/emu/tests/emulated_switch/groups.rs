//! Groups and meters.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_emu::switch::SwitchOutput;
use sluice_openflow::{
    FlowRemovedReason, GroupCommand, GroupDescRequest, GroupId, GroupMod, GroupStatsRequest,
    GroupType, Message, MeterCommand, MeterId, MeterMod, MeterRequest, MultipartReply,
    MultipartRequest, PortNo, Version, Versions,
};

use crate::support::{SwitchTest, tcp, udp};

/// Sends a `GROUP_MOD`; returns the error reason, or `accepted`.
fn group_mod_result(test: &mut SwitchTest, command: GroupCommand, definition: &str) -> String {
    let request =
        GroupMod::from_text(definition, command).unwrap_or_else(|e| panic!("{definition}: {e:?}"));
    let error = test.error_reason(&Message::GroupMod(request));
    error.map_or_else(|| "accepted".into(), |reason| reason.to_string())
}

/// Sends a `METER_MOD`; returns the error reason, or `accepted`.
fn meter_mod_result(test: &mut SwitchTest, command: MeterCommand, definition: &str) -> String {
    let request =
        MeterMod::from_text(definition, command).unwrap_or_else(|e| panic!("{definition}: {e:?}"));
    let error = test.error_reason(&Message::MeterMod(request));
    error.map_or_else(|| "accepted".into(), |reason| reason.to_string())
}

/// A switch that sends everything through a group.
fn grouped(definition: &str) -> SwitchTest {
    let mut test = SwitchTest::new(Version::V1_3);
    assert_eq!(group_mod_result(&mut test, GroupCommand::ADD, definition), "accepted");
    test.add_flow("priority=1,actions=group:1");
    test
}

#[test]
fn every_bucket_of_an_all_group_gets_its_own_copy() {
    let mut test = grouped(
        "group_id=1,type=all,bucket=actions=set_field:02:00:00:00:00:09->eth_dst,output:2,\
         bucket=actions=output:3,bucket=actions=output:1",
    );
    assert_eq!(
        test.receive_frame(1, &tcp(1, 2, 3, 4)),
        [2, 3],
        "output to the input port is dropped"
    );
    assert_eq!((test.sent_frames[0].1[5], test.sent_frames[1].1[5]), (9, 2));
}

#[test]
fn a_select_group_keeps_flows_together_and_uses_all_weighted_buckets() {
    let definition = "group_id=1,type=select,bucket=weight:1,actions=output:2,\
                bucket=weight:1,actions=output:3,bucket=weight:0,actions=output:4";
    let mut test = grouped(definition);
    let mut used = BTreeSet::new();
    for port in 0..64 {
        let once = test.receive_frame(1, &tcp(1, 2, port, 80));
        let again = test.receive_frame(1, &tcp(1, 2, port, 80));
        assert_eq!((once.len(), &once), (1, &again), "a flow keeps its bucket");
        used.extend(once);
    }
    assert_eq!(used, BTreeSet::from([2, 3]), "the third has no weight");
}

#[test]
fn a_fast_failover_group_uses_the_first_live_bucket() {
    let definition = "group_id=1,type=ff,bucket=watch_port:2,actions=output:2,\
                bucket=watch_port:3,actions=output:3";
    let mut test = grouped(definition);
    let mut out = SwitchOutput::default();
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2]);
    test.switch.set_link_state(test.now, PortNo(2), false, &mut out);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [3]);
    test.switch.set_link_state(test.now, PortNo(3), false, &mut out);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [0u32; 0]);
    assert_eq!(test.switch.counters().drops.group, 1);
    test.switch.set_link_state(test.now, PortNo(2), true, &mut out);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2]);
}

#[test]
fn invalid_groups_are_rejected() {
    let mut test = grouped("group_id=1,type=indirect,bucket=actions=output:2");
    let add = GroupCommand::ADD;
    for (definition, reason) in [
        ("group_id=1,type=all", "GROUP_MOD_FAILED/GROUP_EXISTS"),
        ("group_id=2,type=indirect", "GROUP_MOD_FAILED/INVALID_GROUP"),
        ("group_id=2,type=all,bucket=actions=output:9", "BAD_ACTION/BAD_OUT_PORT"),
        ("group_id=2,type=all,bucket=actions=group:3", "BAD_ACTION/BAD_OUT_GROUP"),
        ("group_id=2,type=all,bucket=actions=group:1", "accepted"),
    ] {
        assert_eq!(group_mod_result(&mut test, add, definition), reason, "{definition}");
    }
    let mut without_watch_port =
        GroupMod::from_text("group_id=3,type=all,bucket=actions=output:1", add).unwrap();
    without_watch_port.group_type = GroupType::FF;
    let error = test.error_reason(&Message::GroupMod(without_watch_port)).unwrap();
    assert_eq!(error.to_string(), "GROUP_MOD_FAILED/BAD_WATCH");
    let cycle = "group_id=1,type=indirect,bucket=actions=group:2";
    assert_eq!(group_mod_result(&mut test, GroupCommand::MODIFY, cycle), "GROUP_MOD_FAILED/LOOP");
    let unknown = "group_id=5,type=all";
    assert_eq!(
        group_mod_result(&mut test, GroupCommand::MODIFY, unknown),
        "GROUP_MOD_FAILED/UNKNOWN_GROUP"
    );
    let result = group_mod_result(&mut test, GroupCommand::DELETE, "group_id=1");
    assert_eq!(result, "GROUP_MOD_FAILED/CHAINED_GROUP");
}

#[test]
fn deleting_a_group_deletes_the_entries_that_use_it() {
    let mut test = grouped("group_id=1,type=indirect,bucket=actions=output:2");
    test.add_flow("priority=2,in_port=3,send_flow_rem,actions=group:1");
    assert_eq!(group_mod_result(&mut test, GroupCommand::DELETE, "group_id=1"), "accepted");
    assert_eq!((test.switch.flow_entry_count(), test.switch.group_count()), (0, 0));
    let Some(Message::FlowRemoved(flow_removed)) = test.received.pop() else { panic!() };
    assert_eq!(flow_removed.reason, FlowRemovedReason::GROUP_DELETE);
}

#[test]
fn buckets_are_inserted_and_removed_in_1_5() {
    let mut test = SwitchTest::new(Version::V1_5);
    let add = "group_id=1,type=all,bucket=bucket_id:1,actions=output:2";
    assert_eq!(group_mod_result(&mut test, GroupCommand::ADD, add), "accepted");
    test.add_flow("priority=1,actions=group:1");
    let insert = "group_id=1,command_bucket_id=first,bucket=bucket_id:2,actions=output:3";
    assert_eq!(group_mod_result(&mut test, GroupCommand::INSERT_BUCKET, insert), "accepted");
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [3, 2]);
    let again = group_mod_result(&mut test, GroupCommand::INSERT_BUCKET, insert);
    assert_eq!(again, "GROUP_MOD_FAILED/BUCKET_EXISTS");
    let remove = "group_id=1,command_bucket_id=1";
    assert_eq!(group_mod_result(&mut test, GroupCommand::REMOVE_BUCKET, remove), "accepted");
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [3]);
}

#[test]
fn groups_have_statistics_and_descriptions() {
    for version in Versions::SUPPORTED.iter().filter(|&version| version > Version::V1_0) {
        let mut test = SwitchTest::new(version);
        let definition = "group_id=1,type=all,bucket=actions=output:2,bucket=actions=output:3";
        assert_eq!(group_mod_result(&mut test, GroupCommand::ADD, definition), "accepted");
        test.add_flow("priority=1,actions=group:1");
        test.receive_frame(1, &tcp(1, 2, 3, 4));
        let request = MultipartRequest::GroupStats(GroupStatsRequest { group_id: GroupId(1) });
        let [MultipartReply::GroupStats { groups }] = &test.request_multipart(request)[..] else {
            panic!()
        };
        let stats = &groups[0];
        assert_eq!((stats.ref_count, stats.packet_count, stats.byte_count), (1, 1, 118));
        let packets: Vec<_> = stats.bucket_stats.iter().map(|bucket| bucket.packet_count).collect();
        assert_eq!(packets, [1, 1], "{version}");
        let request = MultipartRequest::GroupDesc(GroupDescRequest::default());
        let [MultipartReply::GroupDesc { groups }] = &test.request_multipart(request)[..] else {
            panic!()
        };
        assert_eq!((groups.len(), groups[0].buckets.len()), (1, 2));
        if version > Version::V1_1 {
            let replies = test.request_multipart(MultipartRequest::GroupFeatures);
            let [MultipartReply::GroupFeatures(features)] = &replies[..] else {
                panic!("{replies:?}")
            };
            assert_eq!((features.types.0, features.max_groups), (15, [1024; 4]));
        }
    }
}

/// A switch that sends everything from port 1 through a meter to port 2.
fn metered(version: Version, definition: &str) -> SwitchTest {
    let mut test = SwitchTest::new(version);
    assert_eq!(meter_mod_result(&mut test, MeterCommand::ADD, definition), "accepted");
    test.add_flow("in_port=1,send_flow_rem,actions=meter:1,output:2");
    test
}

#[test]
fn packets_above_the_rate_are_dropped_and_the_burst_refills() {
    for version in [Version::V1_3, Version::V1_5] {
        let definition = "meter=1,pktps,burst,bands=type=drop,rate=10,burst_size=3";
        let mut test = metered(version, definition);
        let passed = |test: &mut SwitchTest| {
            (0..10).filter(|_| !test.receive_frame(1, &udp(1, 2, 5)).is_empty()).count()
        };
        assert_eq!(passed(&mut test), 3);
        test.advance(Duration::from_millis(100));
        assert_eq!(passed(&mut test), 1);
        test.advance(Duration::from_secs(60));
        assert_eq!(passed(&mut test), 3);
        assert_eq!(test.switch.counters().drops.meter, 23, "{version}");
    }
}

#[test]
fn a_kbps_meter_counts_bits() {
    let mut test = metered(Version::V1_3, "meter=1,kbps,bands=type=drop,rate=8");
    let frame = udp(1, 2, 458);
    assert_eq!(frame.len(), 500);
    let passed = (0..10).filter(|_| !test.receive_frame(1, &frame).is_empty()).count();
    assert_eq!(passed, 2, "8 kbit/s are 1000 bytes per second");
}

#[test]
fn a_remark_band_raises_the_drop_precedence() {
    let definition = "meter=1,pktps,burst,bands=type=dscp_remark,rate=1,burst_size=1,prec_level=1";
    let mut test = metered(Version::V1_3, definition);
    let mut frame = udp(1, 2, 5);
    frame[15] = 10 << 2;
    test.receive_frame(1, &frame);
    assert_eq!(test.take_only_frame()[15] >> 2, 10);
    test.receive_frame(1, &frame);
    assert_eq!(test.take_only_frame()[15] >> 2, 12, "AF11 becomes AF12");
}

#[test]
fn if_two_bands_are_exceeded_the_one_with_the_higher_rate_applies() {
    let definition = "meter=1,pktps,burst,bands=type=dscp_remark,rate=1,burst_size=1,prec_level=1,\
                type=drop,rate=2,burst_size=2";
    let mut test = metered(Version::V1_3, definition);
    let passed: Vec<_> = (0..4).map(|_| test.receive_frame(1, &udp(1, 2, 5)).len()).collect();
    assert_eq!(passed, [1, 1, 0, 0]);
    let request = MultipartRequest::MeterStats(MeterRequest { meter_id: MeterId(1) });
    let [MultipartReply::MeterStats { meters }] = &test.request_multipart(request)[..] else {
        panic!()
    };
    let band_packets: Vec<_> =
        meters[0].band_stats.iter().map(|band| band.packet_band_count).collect();
    assert_eq!((meters[0].packet_in_count, meters[0].ref_count, band_packets), (4, 1, vec![1, 2]));
}

#[test]
fn the_controller_meter_limits_packet_ins() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=0,actions=controller");
    let definition = "meter=controller,pktps,burst,bands=type=drop,rate=1,burst_size=2";
    assert_eq!(meter_mod_result(&mut test, MeterCommand::ADD, definition), "accepted");
    for _ in 0..5 {
        test.receive_frame(1, &udp(1, 2, 5));
    }
    assert_eq!((test.take_packet_ins().len(), test.switch.counters().drops.meter), (2, 3));
}

#[test]
fn invalid_meters_are_rejected_and_deleting_one_deletes_its_entries() {
    let mut test = metered(Version::V1_3, "meter=1,pktps,bands=type=drop,rate=10");
    for (command, definition, reason) in [
        (MeterCommand::ADD, "meter=1,pktps,bands=type=drop,rate=1", "METER_EXISTS"),
        (MeterCommand::MODIFY, "meter=2,pktps,bands=type=drop,rate=1", "UNKNOWN_METER"),
        (MeterCommand::ADD, "meter=2,pktps,bands=type=drop,rate=0", "BAD_RATE"),
    ] {
        assert_eq!(
            meter_mod_result(&mut test, command, definition),
            format!("METER_MOD_FAILED/{reason}")
        );
    }
    assert_eq!(meter_mod_result(&mut test, MeterCommand::DELETE, "meter=1"), "accepted");
    assert_eq!((test.switch.meter_count(), test.switch.flow_entry_count()), (0, 0));
    let Some(Message::FlowRemoved(flow_removed)) = test.received.pop() else { panic!() };
    assert_eq!(flow_removed.reason, FlowRemovedReason::DELETE);
}
