//! Replies. What they contain was read from Ryu 4.34 with Open vSwitch 3.1.

use serde_json::{Value, json};
use sluice_openflow::{
    Action, AggregateStats, Bucket, BucketId, BucketProp, BucketStats, Elapsed, Field, FieldId,
    FlowDesc, FlowMod, FlowModCommand, GroupDesc, GroupFeatures, GroupId, GroupStats, GroupType,
    Instruction, Message, MeterBand, MeterDesc, MeterFlags, MeterId, Multipart, MultipartReply,
    MultipartRequest, PortNo, Queue, QueueGetConfigReply, QueueProp, Role, RoleRequest, Stat,
    Stats, SwitchDesc, Version,
};
use sluice_sdk::Answer;

use crate::controller::{Api, received};

/// What the switch has: the flow entry, group and meter from which Ryu's replies below were made.
fn replies(request: &Message, version: Version) -> Answer {
    let body = match request {
        Message::MultipartRequest(it) => &it.body,
        Message::RoleRequest(_) => {
            let role = RoleRequest {
                role: Role::EQUAL,
                generation_id: u64::MAX,
                ..RoleRequest::default()
            };
            return Answer::Reply(Message::RoleReply(role));
        }
        Message::QueueGetConfigRequest(it) => {
            let rate = QueueProp::MinRate { rate: 80 };
            let queue = Queue { port_no: PortNo(1), queue_id: 1, properties: vec![rate] };
            let reply = QueueGetConfigReply { port: it.port, queues: vec![queue] };
            return Answer::Reply(Message::QueueGetConfigReply(reply));
        }
        _ => return Answer::Done,
    };
    let drop = MeterBand::Drop { rate: 1000, burst_size: 100 };
    received(
        match body {
            MultipartRequest::Desc => {
                let desc = SwitchDesc {
                    mfr: "Nicira, Inc.".into(),
                    serial: "None".into(),
                    ..SwitchDesc::default()
                };
                MultipartReply::Desc(Box::new(desc))
            }
            MultipartRequest::FlowDesc(_) => MultipartReply::FlowDesc {
                flows: [entry()].into_iter().chain(pipeline_entry(version)).collect(),
            },
            MultipartRequest::AggregateStats(_) => MultipartReply::AggregateStats(AggregateStats {
                stats: Stats {
                    fields: vec![Stat::FlowCount(3), Stat::PacketCount(0), Stat::ByteCount(0)],
                },
            }),
            MultipartRequest::GroupStats(_) => MultipartReply::GroupStats {
                groups: vec![GroupStats {
                    group_id: GroupId(1),
                    ref_count: 1,
                    bucket_stats: vec![BucketStats::default(); 2],
                    ..GroupStats::default()
                }],
            },
            MultipartRequest::GroupDesc(_) => group(),
            MultipartRequest::GroupFeatures => MultipartReply::GroupFeatures(GroupFeatures {
                max_groups: [9, 8, 7, 6],
                actions: [1, 0x10_0801, 0, 0],
                ..GroupFeatures::default()
            }),
            MultipartRequest::MeterDesc(_) => MultipartReply::MeterDesc {
                meters: vec![MeterDesc {
                    flags: MeterFlags::KBPS | MeterFlags::STATS,
                    meter_id: MeterId(1),
                    bands: vec![drop],
                }],
            },
            other => panic!("{other:?}"),
        },
        version,
    )
}

fn group() -> MultipartReply {
    let bucket = |weight, port, properties: &[BucketProp]| Bucket {
        bucket_id: BucketId::ALL,
        actions: vec![Action::Output { port: PortNo(port), max_len: 0 }],
        properties: [&[BucketProp::Weight { weight }], properties].concat(),
    };
    let watch = [BucketProp::WatchPort { watch: PortNo(1) }];
    MultipartReply::GroupDesc {
        groups: vec![GroupDesc {
            group_type: GroupType::SELECT,
            group_id: GroupId(1),
            buckets: vec![bucket(3, 1, &watch), bucket(2, 2, &[])],
            properties: vec![],
        }],
    }
}

fn elapsed() -> Stats {
    let duration = Stat::Duration(Elapsed { sec: 1, nsec: 5 });
    Stats { fields: vec![duration, Stat::PacketCount(0), Stat::ByteCount(0)] }
}

fn entry() -> FlowDesc {
    let text = "cookie=5,priority=7,in_port=1,dl_src=02:00:00:00:00:01,tcp,nw_src=10.0.0.0/24,tp_dst=80,actions=set_field:02:00:00:00:00:09->eth_src,output:2,controller:100";
    let it = FlowMod::from_text(text, FlowModCommand::ADD).unwrap();
    FlowDesc {
        cookie: it.cookie,
        priority: it.priority,
        matching: it.matching,
        instructions: it.instructions,
        stats: elapsed(),
        ..FlowDesc::default()
    }
}

fn pipeline_entry(version: Version) -> Option<FlowDesc> {
    let matching = [
        Field::new(FieldId::METADATA, 5).masked(7),
        Field::eth_type(0x800),
        Field::tagged(),
        Field::new(FieldId::IP_DSCP, 46),
    ];
    let vlan = Action::SetField { field: Field::new(FieldId::VLAN_VID, 4102).into() };
    let applied = [Action::PushVlan { ethertype: 0x8100 }, vlan, Action::Group { group_id: 1 }];
    (version > Version::V1_0).then(|| FlowDesc {
        table_id: 1,
        priority: 1,
        matching: matching.into(),
        stats: elapsed(),
        instructions: vec![
            Instruction::apply(applied),
            Instruction::WriteActions {
                actions: vec![Action::Output { port: PortNo(1), max_len: 0 }],
            },
            Instruction::WriteMetadata { metadata: 3, metadata_mask: 7 },
            Instruction::GotoTable { table_id: 2 },
        ],
        ..FlowDesc::default()
    })
}

#[test]
fn flow_entries_are_written_as_ryu_does() {
    let api = |version| Api::new(version, replies);
    assert_eq!(
        api(Version::V1_0).get("/stats/flow/0x1"),
        json!({"1": [{
        "priority": 7, "cookie": 5, "idle_timeout": 0, "hard_timeout": 0,
        "actions": ["SET_DL_SRC:02:00:00:00:00:09", "OUTPUT:2", "OUTPUT:CONTROLLER"],
        "match": {"in_port": 1, "dl_src": "02:00:00:00:00:01", "dl_type": 2048, "nw_proto": 6, "nw_src": "10.0.0.0/24", "tp_dst": 80},
        "byte_count": 0, "duration_sec": 1, "duration_nsec": 5, "packet_count": 0, "table_id": 0}]})
    );
    let first = json!({
        "priority": 7, "cookie": 5, "idle_timeout": 0, "hard_timeout": 0,
        "actions": ["SET_FIELD: {eth_src:02:00:00:00:00:09}", "OUTPUT:2", "OUTPUT:CONTROLLER"],
        "match": {"in_port": 1, "dl_src": "02:00:00:00:00:01", "dl_type": 2048, "nw_src": "10.0.0.0/255.255.255.0", "nw_proto": 6, "tp_dst": 80},
        "byte_count": 0, "duration_sec": 1, "duration_nsec": 5, "packet_count": 0, "table_id": 0, "length": 160, "flags": 0});
    let second = json!({
        "priority": 1, "cookie": 0, "idle_timeout": 0, "hard_timeout": 0,
        "actions": ["PUSH_VLAN:33024", "SET_FIELD: {vlan_vid:4102}", "GROUP:1", {"WRITE_ACTIONS": ["OUTPUT:1"]}, "WRITE_METADATA:0x3/0x7", "GOTO_TABLE:2"],
        "match": {"dl_type": 2048, "dl_vlan": "0x1000/0x1000", "ip_dscp": 46, "metadata": "5/7"},
        "byte_count": 0, "duration_sec": 1, "duration_nsec": 5, "packet_count": 0, "table_id": 1, "length": 192, "flags": 0});
    assert_eq!(api(Version::V1_3).get("/stats/flow/1"), json!({ "1": [first, second] }));
    let v1_4 = api(Version::V1_4).get("/stats/flow/1");
    assert_eq!(
        v1_4["1"][0],
        json!({
        "byte_count": 0, "cookie": 5, "duration_nsec": 5, "duration_sec": 1, "flags": 0, "hard_timeout": 0, "idle_timeout": 0, "importance": 0,
        "instructions": [{"actions": [
            {"len": 16, "type": "SET_FIELD", "field": "eth_src", "mask": null, "value": "02:00:00:00:00:09"},
            {"len": 16, "max_len": 0, "port": 2, "type": "OUTPUT"},
            {"len": 16, "max_len": 100, "port": 4_294_967_293_u32, "type": "OUTPUT"}], "len": 56, "type": "APPLY_ACTIONS"}],
        "length": 160, "match": {"in_port": 1, "eth_src": "02:00:00:00:00:01", "eth_type": 2048, "ipv4_src": "10.0.0.0/255.255.255.0", "ip_proto": 6, "tcp_dst": 80},
        "packet_count": 0, "priority": 7, "table_id": 0})
    );
    assert_eq!(
        v1_4["1"][1]["instructions"][2],
        json!({"len": 24, "metadata": 3, "metadata_mask": 7, "type": "WRITE_METADATA"})
    );
    let v1_5 = api(Version::V1_5).get("/stats/flowdesc/1");
    assert_eq!(
        v1_5["1"][0]["stats"],
        json!({"duration": {"duration_sec": 1, "duration_nsec": 5}, "packet_count": 0, "byte_count": 0})
    );
}

#[test]
fn a_filter_selects_flow_entries() {
    let api = Api::new(Version::V1_3, replies);
    let filter = "{'table_id': 0, 'out_port': 2, 'cookie': 1, 'cookie_mask': 1, 'priority': 7, 'match': {'in_port': 1}}";
    let (status, body) = api.request("POST", "/stats/flow/1", filter);
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, document["1"].as_array().unwrap().len()), (200, 1));
    let Some(Message::MultipartRequest(Multipart { body: MultipartRequest::FlowDesc(it), .. })) =
        api.recorder.sent.lock().unwrap().pop()
    else {
        panic!()
    };
    assert_eq!((it.table_id, it.out_port, it.cookie, it.cookie_mask), (0, PortNo(2), 1, 1));
    assert_eq!(it.matching, [Field::in_port(PortNo(1))].into());
}

#[test]
fn other_statistics_are_written_as_ryu_does() {
    let desc = json!({"mfr_desc": "Nicira, Inc.", "hw_desc": "", "sw_desc": "", "serial_num": "None", "dp_desc": ""});
    let stats = json!({"length": 72, "group_id": 1, "ref_count": 1, "packet_count": 0, "byte_count": 0, "duration_sec": 0, "duration_nsec": 0,
        "bucket_stats": [{"packet_count": 0, "byte_count": 0}, {"packet_count": 0, "byte_count": 0}]});
    let any = u32::MAX;
    let group = json!({"type": "SELECT", "group_id": 1, "buckets": [
        {"weight": 3, "watch_port": 1, "watch_group": any, "actions": ["OUTPUT:1"]},
        {"weight": 2, "watch_port": any, "watch_group": any, "actions": ["OUTPUT:2"]}]});
    let output = |port: u8| json!([{"len": 16, "max_len": 0, "port": port, "type": "OUTPUT"}]);
    let group_1_4 = json!({"type": "SELECT", "group_id": 1, "length": 72, "buckets": [
        {"weight": 3, "watch_port": 1, "watch_group": any, "len": 32, "actions": output(1)},
        {"weight": 2, "watch_port": any, "watch_group": any, "len": 32, "actions": output(2)}]});
    let features = json!({"types": [], "capabilities": [], "max_groups": [{"ALL": 9}, {"SELECT": 8}, {"INDIRECT": 7}, {"FF": 6}],
        "actions": [{"ALL": ["OUTPUT"]}, {"SELECT": ["OUTPUT", "COPY_TTL_OUT", "POP_MPLS"]}, {"INDIRECT": []}, {"FF": []}]});
    let meter = json!({"flags": ["KBPS", "STATS"], "meter_id": 1, "bands": [{"type": "DROP", "rate": 1000, "burst_size": 100}]});
    let meter_1_4 = json!({"flags": ["KBPS", "STATS"], "meter_id": 1, "length": 24, "bands": [{"type": "DROP", "len": 16, "rate": 1000, "burst_size": 100}]});
    let queues = json!({"port": "ANY", "queues": [{"port": 1, "queue_id": 1, "properties": [{"property": "MIN_RATE", "rate": 80}]}]});
    let sums = json!({"packet_count": 0, "byte_count": 0, "flow_count": 3});
    let role = json!({"generation_id": u64::MAX, "role": "EQUAL"});
    for (version, path, expected) in [
        (Version::V1_3, "aggregateflow/1", &json!([sums])),
        (Version::V1_0, "aggregateflow/1", &json!([sums])),
        (Version::V1_5, "aggregateflow/1", &json!([{"length": 40, "stats": sums}])),
        (Version::V1_0, "desc/1", &desc),
        (Version::V1_3, "group/1/1", &json!([stats])),
        (Version::V1_3, "groupdesc/1", &json!([group])),
        (Version::V1_4, "groupdesc/1", &json!([group_1_4])),
        (Version::V1_3, "groupfeatures/1", &json!([features])),
        (Version::V1_3, "meterconfig/1/ALL", &json!([meter])),
        (Version::V1_4, "meterconfig/1/1", &json!([meter_1_4])),
        (Version::V1_3, "queueconfig/1/ALL", &json!([queues])),
        (Version::V1_3, "role/1", &json!([role])),
    ] {
        let api = Api::new(version, replies);
        assert_eq!(
            api.get(&format!("/stats/{path}")),
            json!({ "1": expected }),
            "{version} {path}"
        );
    }
    let group_1_5 = Api::new(Version::V1_5, replies).get("/stats/groupdesc/1");
    let weight = json!({"type": "WEIGHT", "length": 8, "weight": 3});
    assert_eq!(group_1_5["1"][0]["buckets"][0]["properties"][0], weight);
    assert_eq!(Api::new(Version::V1_0, replies).get("/stats/switches"), json!([1]));
}
