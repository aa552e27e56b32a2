//! Adding, modifying, deleting and expiring flow entries.

use std::time::Duration;

use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_openflow::spec::ErrorRow;
use sluice_openflow::{
    ErrorType, FieldId, FlowModCommand, FlowRemovedReason, GroupCommand, Message, Version, Versions,
};

use crate::support::{SwitchTest, tcp};

const ADD: FlowModCommand = FlowModCommand::ADD;
const MODIFY: FlowModCommand = FlowModCommand::MODIFY;
const MODIFY_STRICT: FlowModCommand = FlowModCommand::MODIFY_STRICT;
const DELETE: FlowModCommand = FlowModCommand::DELETE;
const DELETE_STRICT: FlowModCommand = FlowModCommand::DELETE_STRICT;

/// Sends a `FLOW_MOD`; returns the error reason, or `accepted`.
fn flow_mod_result(test: &mut SwitchTest, command: FlowModCommand, flow: &str) -> String {
    test.send_flow_mod(command, flow).map_or_else(|| "accepted".into(), |reason| reason.to_string())
}

#[test]
fn the_highest_priority_that_matches_wins() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=1,actions=output:2");
    test.add_flow("priority=5,ip,nw_dst=10.0.0.0/24,actions=output:3");
    test.add_flow("priority=9,tcp,tp_dst=80,actions=output:4");
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 1000, 80)), [4]);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 1000, 81)), [3]);
    let mut other = tcp(1, 2, 1000, 81);
    other[12..14].copy_from_slice(&[0x12, 0x34]);
    assert_eq!(test.receive_frame(1, &other), [2]);
    let counters: Vec<_> = test
        .switch
        .flow_entries(0)
        .map(|entry| (entry.priority, entry.packets, entry.bytes))
        .collect();
    assert_eq!(counters, [(1, 1, 118), (5, 1, 118), (9, 1, 118)]);
}

#[test]
fn a_miss_causes_a_packet_in_in_1_0_and_needs_an_entry_since_1_3() {
    let mut old = SwitchTest::new(Version::V1_0);
    assert_eq!(old.receive_frame(1, &tcp(1, 2, 1, 2)), [0u32; 0]);
    assert_eq!(old.take_packet_ins().len(), 1);
    let mut new = SwitchTest::new(Version::V1_3);
    new.receive_frame(1, &tcp(1, 2, 1, 2));
    assert_eq!((new.take_packet_ins().len(), new.switch.counters().drops.table_miss), (0, 1));
    new.add_flow("priority=0,actions=controller");
    new.receive_frame(1, &tcp(1, 2, 1, 2));
    assert_eq!(new.take_only_packet_in().reason.0, 0, "no match");
}

#[test]
fn a_switch_that_keeps_only_the_table_miss_entry_counts_all_other_flow_mods() {
    for version in Versions::SUPPORTED.iter() {
        let config = EmulatedSwitchConfig { keeps_only_table_miss: true, ..SwitchTest::config() };
        let mut test = SwitchTest::with_config(config, version);
        test.add_flow("priority=1,actions=output:2");
        test.add_flow("priority=65535,actions=output:3");
        test.add_flow("priority=0,actions=controller");
        assert_eq!(test.receive_frame(1, &tcp(1, 2, 1, 2)), [0u32; 0], "{version}");
        assert_eq!(test.take_packet_ins().len(), 1, "{version}");
        let counts = (test.switch.counters().flow_mods, test.switch.flow_entry_count());
        assert_eq!(counts, (3, 1), "{version}");
    }
}

#[test]
fn an_identical_entry_replaces_the_old_one_and_keeps_its_counters_since_1_2() {
    for (version, kept) in [(Version::V1_0, 0), (Version::V1_3, 1)] {
        let mut test = SwitchTest::new(version);
        test.add_flow("priority=3,in_port=1,actions=output:2");
        test.receive_frame(1, &tcp(1, 2, 1, 2));
        test.add_flow("priority=3,in_port=1,actions=output:3");
        assert_eq!(test.switch.flow_entry_count(), 1);
        assert_eq!(test.switch.flow_entries(0).next().unwrap().packets, kept, "{version}");
        assert_eq!(test.receive_frame(1, &tcp(1, 2, 1, 2)), [3]);
    }
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=3,in_port=1,actions=output:2");
    test.receive_frame(1, &tcp(1, 2, 1, 2));
    test.add_flow("priority=3,in_port=1,reset_counts,actions=output:2");
    assert_eq!(test.switch.flow_entries(0).next().unwrap().packets, 0);
}

#[test]
fn overlap_is_checked_only_on_request() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=3,in_port=1,actions=output:2");
    let result = flow_mod_result(&mut test, ADD, "check_overlap,priority=3,ip,actions=output:2");
    assert_eq!(result, "FLOW_MOD_FAILED/OVERLAP");
    test.add_flow("check_overlap,priority=4,ip,actions=output:2");
    test.add_flow("check_overlap,priority=3,in_port=2,actions=output:2");
    test.add_flow("priority=3,ip,actions=output:2");
}

#[test]
fn a_full_table_rejects_new_entries_but_replaces_identical_ones() {
    let small = EmulatedSwitchConfig { table_entries_max: 2, ..SwitchTest::config() };
    for version in [Version::V1_0, Version::V1_3] {
        let mut test = SwitchTest::with_config(small.clone(), version);
        test.add_flow("priority=1,in_port=1,actions=output:2");
        test.add_flow("priority=1,in_port=2,actions=output:2");
        let full = flow_mod_result(&mut test, ADD, "priority=1,in_port=3,actions=output:2");
        assert_eq!(full, "FLOW_MOD_FAILED/TABLE_FULL");
        test.add_flow("priority=1,in_port=2,actions=output:3");
        assert_eq!(test.send_flow_mod(DELETE_STRICT, "priority=1,in_port=1"), None);
        test.add_flow("priority=1,in_port=3,actions=output:2");
    }
}

#[test]
fn a_modification_applies_to_one_entry_or_to_all_covered() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=3,in_port=1,ip,cookie=1,actions=output:2");
    test.add_flow("priority=4,in_port=1,arp,cookie=2,actions=output:2");
    assert_eq!(
        test.send_flow_mod(MODIFY_STRICT, "table=0,priority=3,in_port=1,actions=output:3"),
        None
    );
    assert_eq!(
        test.receive_frame(1, &tcp(1, 2, 1, 2)),
        [2],
        "no flow entry has exactly this match"
    );
    assert_eq!(test.send_flow_mod(MODIFY, "table=0,in_port=1,actions=output:3"), None);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 1, 2)), [3]);
    assert_eq!(test.send_flow_mod(MODIFY, "table=0,cookie=2/-1,actions=output:4"), None);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 1, 2)), [3], "its cookie differs");
    assert_eq!(
        test.switch.flow_entry_count(),
        2,
        "a modification without matching entries adds none"
    );
}

#[test]
fn in_1_0_a_modification_without_a_matching_entry_adds_one() {
    let mut test = SwitchTest::new(Version::V1_0);
    assert_eq!(test.send_flow_mod(MODIFY, "table=0,in_port=1,actions=output:3"), None);
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 1, 2)), [3]);
}

#[test]
fn a_deletion_is_limited_by_match_port_and_cookie() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=3,in_port=1,ip,cookie=1,actions=output:2");
    test.add_flow("priority=4,in_port=1,arp,cookie=2,actions=output:3");
    test.add_flow("priority=5,table=1,in_port=2,cookie=0x12,actions=output:3");
    assert_eq!(test.send_flow_mod(DELETE, "table=0,tcp"), None);
    assert_eq!(test.switch.flow_entry_count(), 3, "only entries with a narrower match are deleted");
    assert_eq!(test.send_flow_mod(DELETE, "table=255,out_port=2"), None);
    assert_eq!(test.switch.flow_entry_count(), 2);
    assert_eq!(test.send_flow_mod(DELETE, "table=255,cookie=2/0xf"), None);
    assert_eq!(test.switch.flow_entry_count(), 0);
}

#[test]
fn in_1_0_an_entry_without_wildcards_has_the_highest_priority() {
    let mut test = SwitchTest::new(Version::V1_0);
    let exact = "priority=1,in_port=1,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,\
        dl_vlan=5,dl_vlan_pcp=0,tcp,nw_tos=0,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=7,tp_dst=8";
    test.add_flow(&format!("{exact},actions=output:3"));
    test.add_flow("priority=9,actions=output:2");
    let tagged = |dst_port| {
        let mut frame = tcp(1, 2, 7, dst_port);
        frame.splice(12..12, [0x81, 0, 0, 5]);
        frame
    };
    assert_eq!(test.receive_frame(1, &tagged(8)), [3]);
    assert_eq!(test.receive_frame(1, &tagged(9)), [2]);
}

#[test]
fn entries_expire_and_report_it_on_request() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=1,in_port=1,idle_timeout=2,send_flow_rem,actions=output:2");
    test.add_flow("priority=1,in_port=2,hard_timeout=3,send_flow_rem,actions=output:1");
    test.add_flow("priority=1,in_port=3,hard_timeout=1,actions=output:1");
    let second = Duration::from_secs(1);
    assert_eq!(test.advance(second), []);
    assert_eq!(test.switch.flow_entry_count(), 2);
    test.receive_frame(1, &tcp(1, 2, 1, 2));
    test.receive_frame(2, &tcp(2, 1, 2, 1));
    assert_eq!(test.advance(second), [], "it matched a packet a second ago");
    let replies = test.advance(second);
    let [Message::FlowRemoved(idle), Message::FlowRemoved(hard)] = &replies[..] else {
        panic!("{replies:?}")
    };
    let reasons = [idle.reason, hard.reason];
    assert!(reasons.contains(&FlowRemovedReason::IDLE_TIMEOUT), "{reasons:?}");
    assert!(reasons.contains(&FlowRemovedReason::HARD_TIMEOUT), "{reasons:?}");
    assert_eq!(hard.stats.packet_count(), Some(1));
    assert_eq!(hard.stats.duration().unwrap().sec, 3);
    assert_eq!((test.switch.flow_entry_count(), test.switch.deadline()), (0, None));
}

#[test]
fn flow_removed_describes_the_deleted_entry() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut test = SwitchTest::new(version);
        test.add_flow("priority=7,in_port=1,cookie=5,send_flow_rem,actions=output:2");
        test.receive_frame(1, &tcp(1, 2, 1, 2));
        test.send_flow_mod(DELETE, "in_port=1");
        let Some(Message::FlowRemoved(flow_removed)) = test.received.pop() else {
            panic!("{:?}", test.received)
        };
        assert_eq!((flow_removed.reason, flow_removed.priority), (FlowRemovedReason::DELETE, 7));
        assert_eq!((flow_removed.cookie, flow_removed.stats.byte_count()), (5, Some(118)));
    }
}

#[test]
fn invalid_flow_mods_are_rejected_with_the_reason_of_the_specification() {
    let mut test = SwitchTest::new(Version::V1_3);
    for (flow, reason) in [
        ("table=8,actions=output:1", "FLOW_MOD_FAILED/BAD_TABLE_ID"),
        ("actions=output:77", "BAD_ACTION/BAD_OUT_PORT"),
        ("actions=normal", "BAD_ACTION/BAD_OUT_PORT"),
        ("actions=local", "BAD_ACTION/BAD_OUT_PORT"),
        ("actions=group:1", "BAD_ACTION/BAD_OUT_GROUP"),
        ("actions=meter:1", "METER_MOD_FAILED/UNKNOWN_METER"),
        ("actions=goto_table:0", "BAD_INSTRUCTION/BAD_TABLE_ID"),
        ("actions=goto_table:8", "BAD_INSTRUCTION/BAD_TABLE_ID"),
        ("actions=push_vlan:0x1234", "BAD_ACTION/BAD_ARGUMENT"),
        ("actions=set_field:10.0.0.1->ip_dst", "BAD_ACTION/MATCH_INCONSISTENT"),
        ("arp,actions=set_field:10.0.0.1->ip_dst", "BAD_ACTION/MATCH_INCONSISTENT"),
        ("actions=set_field:1->reg0", "BAD_ACTION/BAD_SET_TYPE"),
        ("actions=set_field:1->in_port", "BAD_ACTION/BAD_SET_TYPE"),
        ("reg0=1,actions=output:1", "BAD_MATCH/BAD_FIELD"),
        ("actions=resubmit:1", "BAD_ACTION/BAD_EXPERIMENTER"),
        ("actions=push_pbb:0x88e7", "BAD_ACTION/BAD_TYPE"),
    ] {
        assert_eq!(flow_mod_result(&mut test, ADD, flow), reason, "{flow}");
    }
    assert_eq!(test.switch.flow_entry_count(), 0);
    assert_eq!(test.switch.counters().errors, 16);
    test.add_flow(
        "ip,actions=set_field:10.0.0.1->ip_dst,push_vlan:0x8100,set_field:4097->vlan_vid",
    );
}

#[test]
fn fields_and_actions_that_are_configured_as_unsupported_are_rejected() {
    let limited = EmulatedSwitchConfig {
        unsupported_fields: vec![FieldId::TCP_DST],
        unsupported_set_fields: vec![FieldId::ETH_DST],
        unsupported_actions: sluice_openflow::TableActions::DEC_NW_TTL,
        ..SwitchTest::config()
    };
    let mut test = SwitchTest::with_config(limited.clone(), Version::V1_3);
    let by_port = "tcp,tp_dst=80,actions=output:1";
    assert_eq!(flow_mod_result(&mut test, ADD, by_port), "BAD_MATCH/BAD_FIELD");
    assert_eq!(flow_mod_result(&mut test, ADD, "ip,actions=dec_ttl"), "BAD_ACTION/BAD_TYPE");
    let set = "actions=set_field:02:00:00:00:00:09->eth_dst";
    assert_eq!(flow_mod_result(&mut test, ADD, set), "BAD_ACTION/BAD_SET_TYPE");
    test.add_flow("tcp,tp_src=80,actions=set_field:02:00:00:00:00:09->eth_src,output:1");
    let mut old = SwitchTest::with_config(limited, Version::V1_0);
    assert_eq!(flow_mod_result(&mut old, ADD, by_port), "FLOW_MOD_FAILED/EPERM");
}

#[test]
fn a_full_table_in_1_0_is_reported_as_all_tables_full() {
    let row = ErrorRow::by_name(ErrorType::FLOW_MOD_FAILED, "all_tables_full", Version::V1_0);
    let mut test = SwitchTest::with_config(
        EmulatedSwitchConfig { table_entries_max: 0, ..SwitchTest::config() },
        Version::V1_0,
    );
    assert_eq!(test.send_flow_mod(ADD, "actions=output:1"), row.map(|row| row.reason));
}

#[test]
fn entries_of_a_known_form_are_like_those_that_were_parsed() {
    for version in [Version::V1_2, Version::V1_3, Version::V1_5] {
        let mut test = SwitchTest::new(version);
        let flow = |n: u32, port: u32| {
            format!(
                "cookie={n},priority=7,idle_timeout={},in_port={},tcp,dl_src=02:00:00:00:00:0{n},\
                 nw_dst=10.0.0.{n},tp_dst={n},actions=output:{port}",
                // The last one has another form.
                if n < 5 { 9 } else { 8 },
                1 + n % 2,
            )
        };
        for n in 1..6 {
            test.add_flow(&flow(n, 2 + n % 2));
        }
        for n in 1..6 {
            let sent = SwitchTest::flow_mod(ADD, &flow(n, 2 + n % 2));
            let mut entries = test.switch.flow_entries(0);
            let entry = entries.find(|entry| entry.cookie == u64::from(n)).unwrap();
            assert_eq!(entry.matching(), sent.matching, "{version}");
            assert_eq!(entry.instructions(), sent.instructions);
            assert_eq!((entry.priority, entry.idle_timeout_s), (7, sent.idle_timeout));
        }
        // An identical entry replaces one, with other instructions.
        test.add_flow(&flow(4, 4));
        assert_eq!(test.switch.flow_entry_count(), 5);
        let mut entries = test.switch.flow_entries(0);
        let entry = entries.find(|entry| entry.cookie == 4).unwrap();
        assert_eq!(entry.instructions(), SwitchTest::flow_mod(ADD, &flow(4, 4)).instructions);
    }
}

#[test]
fn an_entry_of_a_known_form_is_rejected_if_its_group_was_deleted() {
    let mut test = SwitchTest::new(Version::V1_3);
    let group = |command, text| {
        Message::GroupMod(sluice_openflow::GroupMod::from_text(text, command).unwrap())
    };
    let add = group(GroupCommand::ADD, "group_id=1,type=all,bucket=actions=output:2");
    assert_eq!(test.error_reason(&add), None);
    for n in 1..3 {
        test.add_flow(&format!("priority=7,dl_dst=02:00:00:00:00:0{n},actions=group:1"));
    }
    let delete = group(GroupCommand::DELETE, "group_id=1");
    assert_eq!(test.error_reason(&delete), None);
    let result =
        flow_mod_result(&mut test, ADD, "priority=7,dl_dst=02:00:00:00:00:03,actions=group:1");
    assert_eq!((result.as_str(), test.switch.flow_entry_count()), ("BAD_ACTION/BAD_OUT_GROUP", 0));
}
