//! Other requests that change something.

use sluice_openflow::{
    BucketId, BucketProp, FlowMod, FlowModCommand, GroupId, GroupType, MacAddr, Message,
    MeterFlags, MeterId, PortNo, Role, RoleRequest, Version,
};

use crate::controller::{Api, done};

#[test]
fn other_entries_have_the_defaults_of_ryu() {
    let defaults = [(Version::V1_0, 32768), (Version::V1_3, 0), (Version::V1_5, 0)];
    for (version, priority) in defaults {
        let api = Api::new(version, done);
        let sent = api.sent("POST", "/stats/flowentry/delete_strict", "{'dpid': '0x1',}");
        let expected =
            FlowMod { command: FlowModCommand::DELETE_STRICT, priority, ..FlowMod::default() };
        assert_eq!(sent, Message::FlowMod(expected), "{version}");
        let sent = api.sent("DELETE", "/stats/flowentry/clear/1", "");
        let table_id = if version == Version::V1_0 { 0 } else { 255 };
        let expected = FlowMod { command: FlowModCommand::DELETE, table_id, ..FlowMod::default() };
        assert_eq!(sent, Message::FlowMod(expected), "{version}");
    }
    let all = r#"{"dpid": 1, "cookie": 1, "cookie_mask": "0x1", "table_id": 7, "idle_timeout": 30, "hard_timeout": 40,
        "priority": 11111, "flags": 1, "buffer_id": "OFP_NO_BUFFER", "out_port": 3, "out_group": "ANY", "importance": 9,
        "id": "what Ryu does not know"}"#;
    let Message::FlowMod(it) =
        Api::new(Version::V1_4, done).sent("POST", "/stats/flowentry/delete", all)
    else {
        panic!()
    };
    assert_eq!(
        (it.cookie, it.cookie_mask, it.table_id, it.idle_timeout, it.hard_timeout),
        (1, 1, 7, 30, 40)
    );
    assert_eq!(
        (it.priority, it.flags.0, it.buffer_id, it.out_port, it.importance),
        (11111, 1, None, PortNo(3), 9)
    );
}

#[test]
fn groups_meters_ports_roles_and_experimenters_are_changed() {
    for version in [Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5] {
        let api = Api::new(version, done);
        let bucket = if version < Version::V1_5 {
            r#"{"weight": 3, "watch_port": 1, "watch_group": 4294967295, "actions": [{"type": "OUTPUT", "port": 1}]}"#
        } else {
            r#"{"properties": [{"type": "WEIGHT", "weight": 3}, {"type": "WATCH_PORT", "watch": 1}], "actions": [{"type": "OUTPUT", "port": 1}]}"#
        };
        let body =
            format!(r#"{{"dpid": 1, "type": "SELECT", "group_id": 1, "buckets": [{bucket}]}}"#);
        let Message::GroupMod(it) = api.sent("POST", "/stats/groupentry/add", &body) else {
            panic!()
        };
        assert_eq!(it.command_bucket_id, BucketId::ALL);
        assert_eq!(
            (it.group_type, it.group_id, it.buckets.len()),
            (GroupType::SELECT, GroupId(1), 1)
        );
        assert_eq!(
            it.buckets[0].properties[..2],
            [BucketProp::Weight { weight: 3 }, BucketProp::WatchPort { watch: PortNo(1) }]
        );
        if version >= Version::V1_3 {
            let body = r#"{"dpid": 1, "flags": ["KBPS", "BURST"], "meter_id": 1, "bands": [{"type": "DROP", "rate": 1000},
                {"type": "DSCP_REMARK", "rate": 2000, "prec_level": 1}]}"#;
            let Message::MeterMod(it) = api.sent("POST", "/stats/meterentry/modify", body) else {
                panic!()
            };
            assert_eq!(
                (it.flags, it.meter_id, it.bands.len()),
                (MeterFlags::KBPS | MeterFlags::BURST, MeterId(1), 2)
            );
        }
        let Message::PortMod(it) = api.sent(
            "POST",
            "/stats/portdesc/modify",
            r#"{"dpid": 1, "port_no": 1, "config": 1, "mask": 1}"#,
        ) else {
            panic!()
        };
        assert_eq!(
            (it.port_no, it.hw_addr, it.config.0, it.mask.0),
            (PortNo(1), MacAddr([2, 0, 0, 0, 0, 1]), 1, 1)
        );
        let sent = api.sent("POST", "/stats/role", r#"{"dpid": 1, "role": "MASTER"}"#);
        assert_eq!(
            sent,
            Message::RoleRequest(RoleRequest { role: Role::MASTER, ..RoleRequest::default() })
        );
        let body = r#"{"experimenter": 1, "exp_type": 2, "data_type": "base64", "data": "AAEC"}"#;
        let sent = api.sent("POST", "/stats/experimenter/1", body);
        assert_eq!(
            sent,
            Message::Experimenter { experimenter: 1, exp_type: 2, data: vec![0, 1, 2] }
        );
    }
}
