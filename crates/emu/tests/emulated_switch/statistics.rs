//! Replies to requests for features, statistics and descriptions.

use std::time::Duration;

use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_openflow::{
    AsyncConfig, AsyncProp, DatapathId, Field, FlowModFlags, FlowStatsRequest, Message,
    MessageType, MeterRequest, MultipartReply, MultipartRequest, PacketInReasons, PortDescRequest,
    PortNo, PortStatsRequest, TableFeatureProp, Version, Versions,
};

use crate::support::{SwitchTest, tcp};

fn every_version() -> impl Iterator<Item = Version> {
    Versions::SUPPORTED.iter()
}

#[test]
fn features_description_and_ports_are_reported_in_every_version() {
    for version in every_version() {
        let mut test = SwitchTest::new(version);
        let replies = test.send(&Message::FeaturesRequest);
        let [Message::FeaturesReply(features)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((features.datapath_id, features.n_buffers), (DatapathId(7), 2));
        assert_eq!(features.ports.len(), if version < Version::V1_3 { 4 } else { 0 });
        let [MultipartReply::Desc(desc)] = &test.request_multipart(MultipartRequest::Desc)[..]
        else {
            panic!()
        };
        assert_eq!(desc.serial.to_string(), "0000000000000007");
        let replies =
            test.request_multipart(MultipartRequest::PortDesc(PortDescRequest::default()));
        let [MultipartReply::PortDesc { ports }] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!(
            (ports.len(), ports[3].port_no, ports[3].curr_speed()),
            (4, PortNo(4), 10_000_000)
        );
    }
}

#[test]
fn flow_statistics_have_the_entries_as_sent_with_their_counters() {
    for version in every_version() {
        let mut test = SwitchTest::new(version);
        test.add_flow(
            "priority=7,in_port=1,tcp,idle_timeout=9,hard_timeout=90,cookie=3,actions=output:2",
        );
        test.add_flow("priority=8,in_port=2,actions=output:1");
        test.receive_frame(1, &tcp(1, 2, 3, 4));
        test.advance(Duration::from_millis(1500));
        let matching = [Field::in_port(PortNo(1))].into();
        let request = FlowStatsRequest { matching, ..FlowStatsRequest::default() };
        let replies = test.request_multipart(MultipartRequest::FlowDesc(request.clone()));
        let [MultipartReply::FlowDesc { flows }] = &replies[..] else { panic!("{replies:?}") };
        let [flow] = &flows[..] else { panic!("{flows:?}") };
        assert_eq!(
            (flow.priority, flow.cookie, flow.idle_timeout, flow.hard_timeout),
            (7, 3, 9, 90)
        );
        assert_eq!((flow.stats.packet_count(), flow.stats.byte_count()), (Some(1), Some(118)));
        let age = flow.stats.duration().unwrap();
        assert_eq!((age.sec, age.nsec), (1, 500_000_000));
        let expected = SwitchTest::flow_mod(
            sluice_openflow::FlowModCommand::ADD,
            "in_port=1,tcp,actions=output:2",
        );
        assert_eq!((flow.matching.fields.len(), &flow.instructions), (3, &expected.instructions));
        let replies = test.request_multipart(MultipartRequest::AggregateStats(request));
        let [MultipartReply::AggregateStats(sum)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((sum.stats.flow_count(), sum.stats.byte_count()), (Some(1), Some(118)));
    }
}

#[test]
fn long_replies_are_split_into_parts() {
    let mut test = SwitchTest::new(Version::V1_3);
    for n in 0..1500 {
        test.add_flow(&format!("priority={n},tcp,tp_dst={n},actions=output:2"));
    }
    let replies = test.request_multipart(MultipartRequest::FlowDesc(FlowStatsRequest::default()));
    let flows = replies.iter().map(|part| match part {
        MultipartReply::FlowDesc { flows } => flows.len(),
        other => panic!("{other:?}"),
    });
    let parts: Vec<_> = flows.collect();
    assert!(parts.len() > 1, "{parts:?}");
    assert_eq!(parts.iter().sum::<usize>(), 1500);
}

#[test]
fn tables_and_ports_have_counters() {
    for version in every_version() {
        let mut test = SwitchTest::new(version);
        test.add_flow("in_port=1,actions=output:2");
        test.receive_frame(1, &tcp(1, 2, 3, 4));
        test.receive_frame(3, &tcp(1, 2, 3, 4));
        let [MultipartReply::TableStats { tables }] =
            &test.request_multipart(MultipartRequest::TableStats)[..]
        else {
            panic!()
        };
        let table = &tables[0];
        assert_eq!((table.active_count, table.lookup_count, table.matched_count), (1, 2, 1));
        let request = PortStatsRequest { port_no: PortNo(2) };
        let replies = test.request_multipart(MultipartRequest::PortStats(request));
        let [MultipartReply::PortStats { ports }] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((ports.len(), ports[0].tx_packets, ports[0].tx_bytes), (1, 1, 118));
        let replies =
            test.request_multipart(MultipartRequest::PortStats(PortStatsRequest::default()));
        let [MultipartReply::PortStats { ports }] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((ports.len(), ports[0].rx_packets), (4, 1));
    }
}

#[test]
fn table_features_are_reported() {
    for version in every_version().filter(|&version| version >= Version::V1_3) {
        let mut test = SwitchTest::with_config(
            EmulatedSwitchConfig { n_tables: 3, ..SwitchTest::config() },
            version,
        );
        let replies = test.request_multipart(MultipartRequest::TableFeatures { tables: vec![] });
        let [MultipartReply::TableFeatures { tables }] = &replies[..] else {
            panic!("{replies:?}")
        };
        assert_eq!((tables.len(), tables[2].max_entries), (3, 65_536));
        let matched = tables[0].properties.iter().find_map(|property| match property {
            TableFeatureProp::Match { oxm_ids } => Some(oxm_ids.len()),
            _ => None,
        });
        assert!(matched > Some(35), "{matched:?}");
        let request = Message::MultipartRequest(sluice_openflow::Multipart {
            flags: sluice_openflow::MultipartFlags::default(),
            body: MultipartRequest::TableFeatures { tables: tables.clone() },
        });
        let error = test.error_reason(&request).unwrap();
        assert_eq!(error.to_string(), "TABLE_FEATURES_FAILED/EPERM");
    }
}

#[test]
fn meter_features_are_reported() {
    for version in [Version::V1_3, Version::V1_5] {
        let mut test = SwitchTest::new(version);
        let [MultipartReply::MeterFeatures(features)] =
            &test.request_multipart(MultipartRequest::MeterFeatures)[..]
        else {
            panic!()
        };
        assert_eq!((features.max_meter, features.max_bands), (1024, 16));
        let request = MultipartRequest::MeterDesc(MeterRequest::default());
        let [MultipartReply::MeterDesc { meters }] = &test.request_multipart(request)[..] else {
            panic!()
        };
        assert!(meters.is_empty());
    }
}

#[test]
fn the_controller_selects_asynchronous_messages() {
    for version in [Version::V1_3, Version::V1_4] {
        let mut test = SwitchTest::new(version);
        test.add_flow("priority=1,in_port=1,actions=controller,dec_ttl");
        let mut expiring = tcp(1, 2, 3, 4);
        expiring[22] = 1;
        test.receive_frame(1, &expiring);
        assert_eq!(
            test.take_packet_ins().len(),
            1,
            "packet-ins for an expired TTL are off by default"
        );
        let mut replies = test.send(&Message::GetAsyncRequest);
        let Some(Message::GetAsyncReply(mut config)) = replies.pop() else { panic!("{replies:?}") };
        for property in &mut config.properties {
            if let AsyncProp::PacketInMaster { mask } = property {
                *mask = PacketInReasons::INVALID_TTL;
            }
        }
        assert_eq!(test.error_reason(&Message::SetAsync(config.clone())), None);
        let replies = test.send(&Message::GetAsyncRequest);
        assert_eq!(replies, [Message::GetAsyncReply(AsyncConfig { ..config })]);
        test.receive_frame(1, &expiring);
        assert_eq!(test.take_only_packet_in().reason.0, 2, "only a packet-in for the invalid TTL");
    }
}

#[test]
fn unsupported_requests_are_rejected_in_every_version() {
    for version in every_version() {
        let mut test = SwitchTest::new(version);
        let unsupported =
            MultipartRequest::Experimenter { experimenter: 0x55, exp_type: 0, data: vec![] };
        let flags = sluice_openflow::MultipartFlags::default();
        let request =
            Message::MultipartRequest(sluice_openflow::Multipart { flags, body: unsupported });
        let error = test.error_reason(&request).unwrap();
        assert_eq!(error.to_string(), "BAD_REQUEST/BAD_EXPERIMENTER");
        let port = MultipartRequest::PortStats(PortStatsRequest { port_no: PortNo(99) });
        let request = Message::MultipartRequest(sluice_openflow::Multipart { flags, body: port });
        assert!(test.error_reason(&request).is_some());
        let error = test.error_reason(&Message::BarrierReply).unwrap();
        assert_eq!(error.to_string(), "BAD_REQUEST/BAD_TYPE", "{}", MessageType::BARRIER_REPLY);
    }
}

#[test]
fn a_flow_entry_that_the_version_cannot_express_is_left_out() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("ipv6,send_flow_rem,actions=output:1");
    test.add_flow("in_port=1,actions=output:2");
    test.switch.on_disconnected(test.now);
    test.version = Version::V1_0;
    test.connect();
    let replies = test.request_multipart(MultipartRequest::FlowDesc(FlowStatsRequest::default()));
    let flows = replies.iter().map(|part| match part {
        MultipartReply::FlowDesc { flows } => flows.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(flows.sum::<usize>(), 2, "a match of the type alone can be expected in 1.0");
    assert_eq!(test.send_flow_mod(sluice_openflow::FlowModCommand::DELETE, ""), None);
    assert_eq!(test.switch.flow_entry_count(), 0);
    let flags = FlowModFlags::SEND_FLOW_REM;
    assert!(matches!(test.received.last(), Some(Message::FlowRemoved(_))), "{flags:?}");
}
