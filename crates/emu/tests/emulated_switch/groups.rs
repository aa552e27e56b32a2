//! Groups and meters.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_emu::switch::SwitchOutput;
use sluice_openflow::{
    FlowRemovedReason, GroupCommand, GroupDescRequest, GroupId, GroupMod, GroupStatsRequest,
    GroupType, Message, MeterCommand, MeterId, MeterMod, MeterRequest, MultipartReply,
    MultipartRequest, PortNo, Version, Versions,
};

use crate::support::{Play, tcp, udp};

fn group(play: &mut Play, command: GroupCommand, text: &str) -> String {
    let asked = GroupMod::from_text(text, command).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let refused = play.refused(&Message::GroupMod(asked));
    refused.map_or_else(|| "taken".into(), |reason| reason.to_string())
}

fn meter(play: &mut Play, command: MeterCommand, text: &str) -> String {
    let asked = MeterMod::from_text(text, command).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let refused = play.refused(&Message::MeterMod(asked));
    refused.map_or_else(|| "taken".into(), |reason| reason.to_string())
}

/// A switch that sends everything through a group.
fn grouped(text: &str) -> Play {
    let mut play = Play::new(Version::V1_3);
    assert_eq!(group(&mut play, GroupCommand::ADD, text), "taken");
    play.add("priority=1,actions=group:1");
    play
}

#[test]
fn every_bucket_of_an_all_group_gets_its_own_copy() {
    let mut play = grouped(
        "group_id=1,type=all,bucket=actions=set_field:02:00:00:00:00:09->eth_dst,output:2,\
         bucket=actions=output:3,bucket=actions=output:1",
    );
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [2, 3], "the third goes back, hence nowhere");
    assert_eq!((play.frames[0].1[5], play.frames[1].1[5]), (9, 2));
}

#[test]
fn a_select_group_keeps_flows_together_and_uses_all_weighted_buckets() {
    let text = "group_id=1,type=select,bucket=weight:1,actions=output:2,\
                bucket=weight:1,actions=output:3,bucket=weight:0,actions=output:4";
    let mut play = grouped(text);
    let mut used = BTreeSet::new();
    for port in 0..64 {
        let once = play.frame(1, &tcp(1, 2, port, 80));
        let again = play.frame(1, &tcp(1, 2, port, 80));
        assert_eq!((once.len(), &once), (1, &again), "a flow keeps its bucket");
        used.extend(once);
    }
    assert_eq!(used, BTreeSet::from([2, 3]), "the third has no weight");
}

#[test]
fn a_fast_failover_group_uses_the_first_live_bucket() {
    let text = "group_id=1,type=ff,bucket=watch_port:2,actions=output:2,\
                bucket=watch_port:3,actions=output:3";
    let mut play = grouped(text);
    let mut out = SwitchOutput::default();
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [2]);
    play.switch.set_link_state(play.now, PortNo(2), false, &mut out);
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [3]);
    play.switch.set_link_state(play.now, PortNo(3), false, &mut out);
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [0u32; 0]);
    assert_eq!(play.switch.counters().drops.group, 1);
    play.switch.set_link_state(play.now, PortNo(2), true, &mut out);
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [2]);
}

#[test]
fn invalid_groups_are_rejected() {
    let mut play = grouped("group_id=1,type=indirect,bucket=actions=output:2");
    let add = GroupCommand::ADD;
    for (text, reason) in [
        ("group_id=1,type=all", "GROUP_MOD_FAILED/GROUP_EXISTS"),
        ("group_id=2,type=indirect", "GROUP_MOD_FAILED/INVALID_GROUP"),
        ("group_id=2,type=all,bucket=actions=output:9", "BAD_ACTION/BAD_OUT_PORT"),
        ("group_id=2,type=all,bucket=actions=group:3", "BAD_ACTION/BAD_OUT_GROUP"),
        ("group_id=2,type=all,bucket=actions=group:1", "taken"),
    ] {
        assert_eq!(group(&mut play, add, text), reason, "{text}");
    }
    let mut unwatched =
        GroupMod::from_text("group_id=3,type=all,bucket=actions=output:1", add).unwrap();
    unwatched.group_type = GroupType::FF;
    let refused = play.refused(&Message::GroupMod(unwatched)).unwrap();
    assert_eq!(refused.to_string(), "GROUP_MOD_FAILED/BAD_WATCH");
    let round = "group_id=1,type=indirect,bucket=actions=group:2";
    assert_eq!(group(&mut play, GroupCommand::MODIFY, round), "GROUP_MOD_FAILED/LOOP");
    let unknown = "group_id=5,type=all";
    assert_eq!(group(&mut play, GroupCommand::MODIFY, unknown), "GROUP_MOD_FAILED/UNKNOWN_GROUP");
    let gone = group(&mut play, GroupCommand::DELETE, "group_id=1");
    assert_eq!(gone, "GROUP_MOD_FAILED/CHAINED_GROUP");
}

#[test]
fn deleting_a_group_deletes_the_entries_that_use_it() {
    let mut play = grouped("group_id=1,type=indirect,bucket=actions=output:2");
    play.add("priority=2,in_port=3,send_flow_rem,actions=group:1");
    assert_eq!(group(&mut play, GroupCommand::DELETE, "group_id=1"), "taken");
    assert_eq!((play.switch.flow_entry_count(), play.switch.group_count()), (0, 0));
    let Some(Message::FlowRemoved(gone)) = play.heard.pop() else { panic!() };
    assert_eq!(gone.reason, FlowRemovedReason::GROUP_DELETE);
}

#[test]
fn buckets_are_inserted_and_removed_in_1_5() {
    let mut play = Play::new(Version::V1_5);
    let add = "group_id=1,type=all,bucket=bucket_id:1,actions=output:2";
    assert_eq!(group(&mut play, GroupCommand::ADD, add), "taken");
    play.add("priority=1,actions=group:1");
    let insert = "group_id=1,command_bucket_id=first,bucket=bucket_id:2,actions=output:3";
    assert_eq!(group(&mut play, GroupCommand::INSERT_BUCKET, insert), "taken");
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [3, 2]);
    let again = group(&mut play, GroupCommand::INSERT_BUCKET, insert);
    assert_eq!(again, "GROUP_MOD_FAILED/BUCKET_EXISTS");
    let remove = "group_id=1,command_bucket_id=1";
    assert_eq!(group(&mut play, GroupCommand::REMOVE_BUCKET, remove), "taken");
    assert_eq!(play.frame(1, &tcp(1, 2, 3, 4)), [3]);
}

#[test]
fn groups_have_statistics_and_descriptions() {
    for version in Versions::SPOKEN.iter().filter(|&version| version > Version::V1_0) {
        let mut play = Play::new(version);
        let text = "group_id=1,type=all,bucket=actions=output:2,bucket=actions=output:3";
        assert_eq!(group(&mut play, GroupCommand::ADD, text), "taken");
        play.add("priority=1,actions=group:1");
        play.frame(1, &tcp(1, 2, 3, 4));
        let asked = MultipartRequest::GroupStats(GroupStatsRequest { group_id: GroupId(1) });
        let [MultipartReply::GroupStats { groups }] = &play.ask(asked)[..] else { panic!() };
        let told = &groups[0];
        assert_eq!((told.ref_count, told.packet_count, told.byte_count), (1, 1, 118));
        let packets: Vec<_> = told.bucket_stats.iter().map(|it| it.packet_count).collect();
        assert_eq!(packets, [1, 1], "{version}");
        let asked = MultipartRequest::GroupDesc(GroupDescRequest::default());
        let [MultipartReply::GroupDesc { groups }] = &play.ask(asked)[..] else { panic!() };
        assert_eq!((groups.len(), groups[0].buckets.len()), (1, 2));
        if version > Version::V1_1 {
            let told = play.ask(MultipartRequest::GroupFeatures);
            let [MultipartReply::GroupFeatures(features)] = &told[..] else { panic!("{told:?}") };
            assert_eq!((features.types.0, features.max_groups), (15, [1024; 4]));
        }
    }
}

/// A switch that sends everything from port 1 through a meter to port 2.
fn metered(version: Version, text: &str) -> Play {
    let mut play = Play::new(version);
    assert_eq!(meter(&mut play, MeterCommand::ADD, text), "taken");
    play.add("in_port=1,send_flow_rem,actions=meter:1,output:2");
    play
}

#[test]
fn packets_above_the_rate_are_dropped_and_the_burst_refills() {
    for version in [Version::V1_3, Version::V1_5] {
        let text = "meter=1,pktps,burst,bands=type=drop,rate=10,burst_size=3";
        let mut play = metered(version, text);
        let passed =
            |play: &mut Play| (0..10).filter(|_| !play.frame(1, &udp(1, 2, 5)).is_empty()).count();
        assert_eq!(passed(&mut play), 3);
        play.wait(Duration::from_millis(100));
        assert_eq!(passed(&mut play), 1);
        play.wait(Duration::from_secs(60));
        assert_eq!(passed(&mut play), 3);
        assert_eq!(play.switch.counters().drops.meter, 23, "{version}");
    }
}

#[test]
fn a_kbps_meter_counts_bits() {
    let mut play = metered(Version::V1_3, "meter=1,kbps,bands=type=drop,rate=8");
    let frame = udp(1, 2, 458);
    assert_eq!(frame.len(), 500);
    let passed = (0..10).filter(|_| !play.frame(1, &frame).is_empty()).count();
    assert_eq!(passed, 2, "a second of 8 kbit/s is 1000 bytes");
}

#[test]
fn a_remark_band_raises_the_drop_precedence() {
    let text = "meter=1,pktps,burst,bands=type=dscp_remark,rate=1,burst_size=1,prec_level=1";
    let mut play = metered(Version::V1_3, text);
    let mut frame = udp(1, 2, 5);
    frame[15] = 10 << 2;
    play.frame(1, &frame);
    assert_eq!(play.only_frame()[15] >> 2, 10);
    play.frame(1, &frame);
    assert_eq!(play.only_frame()[15] >> 2, 12, "AF11 becomes AF12");
}

#[test]
fn of_two_exceeded_bands_the_higher_applies() {
    let text = "meter=1,pktps,burst,bands=type=dscp_remark,rate=1,burst_size=1,prec_level=1,\
                type=drop,rate=2,burst_size=2";
    let mut play = metered(Version::V1_3, text);
    let passed: Vec<_> = (0..4).map(|_| play.frame(1, &udp(1, 2, 5)).len()).collect();
    assert_eq!(passed, [1, 1, 0, 0]);
    let asked = MultipartRequest::MeterStats(MeterRequest { meter_id: MeterId(1) });
    let [MultipartReply::MeterStats { meters }] = &play.ask(asked)[..] else { panic!() };
    let counted: Vec<_> = meters[0].band_stats.iter().map(|it| it.packet_band_count).collect();
    assert_eq!((meters[0].packet_in_count, meters[0].ref_count, counted), (4, 1, vec![1, 2]));
}

#[test]
fn packet_ins_have_their_own_meter() {
    let mut play = Play::new(Version::V1_3);
    play.add("priority=0,actions=controller");
    let text = "meter=controller,pktps,burst,bands=type=drop,rate=1,burst_size=2";
    assert_eq!(meter(&mut play, MeterCommand::ADD, text), "taken");
    for _ in 0..5 {
        play.frame(1, &udp(1, 2, 5));
    }
    assert_eq!((play.packet_ins().len(), play.switch.counters().drops.meter), (2, 3));
}

#[test]
fn invalid_meters_are_rejected_and_deleting_one_deletes_its_entries() {
    let mut play = metered(Version::V1_3, "meter=1,pktps,bands=type=drop,rate=10");
    for (command, text, reason) in [
        (MeterCommand::ADD, "meter=1,pktps,bands=type=drop,rate=1", "METER_EXISTS"),
        (MeterCommand::MODIFY, "meter=2,pktps,bands=type=drop,rate=1", "UNKNOWN_METER"),
        (MeterCommand::ADD, "meter=2,pktps,bands=type=drop,rate=0", "BAD_RATE"),
    ] {
        assert_eq!(meter(&mut play, command, text), format!("METER_MOD_FAILED/{reason}"));
    }
    assert_eq!(meter(&mut play, MeterCommand::DELETE, "meter=1"), "taken");
    assert_eq!((play.switch.meter_count(), play.switch.flow_entry_count()), (0, 0));
    let Some(Message::FlowRemoved(gone)) = play.heard.pop() else { panic!() };
    assert_eq!(gone.reason, FlowRemovedReason::DELETE);
}
