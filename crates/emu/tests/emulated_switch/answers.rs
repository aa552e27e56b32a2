//! Answers to requests for features, statistics and descriptions.

use std::time::Duration;

use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_openflow::{
    AsyncConfig, AsyncProp, DatapathId, Field, FlowModFlags, FlowStatsRequest, Message,
    MessageType, MeterRequest, MultipartReply, MultipartRequest, PacketInReasons, PortDescRequest,
    PortNo, PortStatsRequest, TableFeatureProp, Version, Versions,
};

use crate::support::{Play, tcp};

fn every_version() -> impl Iterator<Item = Version> {
    Versions::SPOKEN.iter()
}

#[test]
fn a_switch_describes_itself_in_every_version() {
    for version in every_version() {
        let mut play = Play::new(version);
        let told = play.say(&Message::FeaturesRequest);
        let [Message::FeaturesReply(features)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((features.datapath_id, features.n_buffers), (DatapathId(7), 2));
        assert_eq!(features.ports.len(), if version < Version::V1_3 { 4 } else { 0 });
        let [MultipartReply::Desc(desc)] = &play.ask(MultipartRequest::Desc)[..] else { panic!() };
        assert_eq!(desc.serial.to_string(), "0000000000000007");
        let told = play.ask(MultipartRequest::PortDesc(PortDescRequest::default()));
        let [MultipartReply::PortDesc { ports }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(
            (ports.len(), ports[3].port_no, ports[3].curr_speed()),
            (4, PortNo(4), 10_000_000)
        );
    }
}

#[test]
fn flow_statistics_have_the_entries_as_sent_with_their_counters() {
    for version in every_version() {
        let mut play = Play::new(version);
        play.add(
            "priority=7,in_port=1,tcp,idle_timeout=9,hard_timeout=90,cookie=3,actions=output:2",
        );
        play.add("priority=8,in_port=2,actions=output:1");
        play.frame(1, &tcp(1, 2, 3, 4));
        play.wait(Duration::from_millis(1500));
        let matching = [Field::in_port(PortNo(1))].into();
        let asked = FlowStatsRequest { matching, ..FlowStatsRequest::default() };
        let told = play.ask(MultipartRequest::FlowDesc(asked.clone()));
        let [MultipartReply::FlowDesc { flows }] = &told[..] else { panic!("{told:?}") };
        let [flow] = &flows[..] else { panic!("{flows:?}") };
        assert_eq!(
            (flow.priority, flow.cookie, flow.idle_timeout, flow.hard_timeout),
            (7, 3, 9, 90)
        );
        assert_eq!((flow.stats.packet_count(), flow.stats.byte_count()), (Some(1), Some(118)));
        let age = flow.stats.duration().unwrap();
        assert_eq!((age.sec, age.nsec), (1, 500_000_000));
        let said =
            Play::flow(sluice_openflow::FlowModCommand::ADD, "in_port=1,tcp,actions=output:2");
        assert_eq!((flow.matching.fields.len(), &flow.instructions), (3, &said.instructions));
        let told = play.ask(MultipartRequest::AggregateStats(asked));
        let [MultipartReply::AggregateStats(sum)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((sum.stats.flow_count(), sum.stats.byte_count()), (Some(1), Some(118)));
    }
}

#[test]
fn long_replies_are_split_into_parts() {
    let mut play = Play::new(Version::V1_3);
    for n in 0..1500 {
        play.add(&format!("priority={n},tcp,tp_dst={n},actions=output:2"));
    }
    let told = play.ask(MultipartRequest::FlowDesc(FlowStatsRequest::default()));
    let flows = told.iter().map(|part| match part {
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
        let mut play = Play::new(version);
        play.add("in_port=1,actions=output:2");
        play.frame(1, &tcp(1, 2, 3, 4));
        play.frame(3, &tcp(1, 2, 3, 4));
        let [MultipartReply::TableStats { tables }] = &play.ask(MultipartRequest::TableStats)[..]
        else {
            panic!()
        };
        let table = &tables[0];
        assert_eq!((table.active_count, table.lookup_count, table.matched_count), (1, 2, 1));
        let asked = PortStatsRequest { port_no: PortNo(2) };
        let told = play.ask(MultipartRequest::PortStats(asked));
        let [MultipartReply::PortStats { ports }] = &told[..] else { panic!("{told:?}") };
        assert_eq!((ports.len(), ports[0].tx_packets, ports[0].tx_bytes), (1, 1, 118));
        let told = play.ask(MultipartRequest::PortStats(PortStatsRequest::default()));
        let [MultipartReply::PortStats { ports }] = &told[..] else { panic!("{told:?}") };
        assert_eq!((ports.len(), ports[0].rx_packets), (4, 1));
    }
}

#[test]
fn table_features_are_reported() {
    for version in every_version().filter(|&version| version >= Version::V1_3) {
        let mut play = Play::with(EmulatedSwitchConfig { n_tables: 3, ..Play::plan() }, version);
        let told = play.ask(MultipartRequest::TableFeatures { tables: vec![] });
        let [MultipartReply::TableFeatures { tables }] = &told[..] else { panic!("{told:?}") };
        assert_eq!((tables.len(), tables[2].max_entries), (3, 65_536));
        let matched = tables[0].properties.iter().find_map(|it| match it {
            TableFeatureProp::Match { oxm_ids } => Some(oxm_ids.len()),
            _ => None,
        });
        assert!(matched > Some(35), "{matched:?}");
        let asked = Message::MultipartRequest(sluice_openflow::Multipart {
            flags: sluice_openflow::MultipartFlags::default(),
            body: MultipartRequest::TableFeatures { tables: tables.clone() },
        });
        let refused = play.refused(&asked).unwrap();
        assert_eq!(refused.to_string(), "TABLE_FEATURES_FAILED/EPERM");
    }
}

#[test]
fn meter_features_are_reported() {
    for version in [Version::V1_3, Version::V1_5] {
        let mut play = Play::new(version);
        let [MultipartReply::MeterFeatures(told)] = &play.ask(MultipartRequest::MeterFeatures)[..]
        else {
            panic!()
        };
        assert_eq!((told.max_meter, told.max_bands), (1024, 16));
        let asked = MultipartRequest::MeterDesc(MeterRequest::default());
        let [MultipartReply::MeterDesc { meters }] = &play.ask(asked)[..] else { panic!() };
        assert!(meters.is_empty());
    }
}

#[test]
fn the_controller_selects_asynchronous_messages() {
    for version in [Version::V1_3, Version::V1_4] {
        let mut play = Play::new(version);
        play.add("priority=1,in_port=1,actions=controller,dec_ttl");
        let mut last = tcp(1, 2, 3, 4);
        last[22] = 1;
        play.frame(1, &last);
        assert_eq!(play.packet_ins().len(), 1, "nothing of the time to live, if nobody asks");
        let mut told = play.say(&Message::GetAsyncRequest);
        let Some(Message::GetAsyncReply(mut now)) = told.pop() else { panic!("{told:?}") };
        for property in &mut now.properties {
            if let AsyncProp::PacketInMaster { mask } = property {
                *mask = PacketInReasons::INVALID_TTL;
            }
        }
        assert_eq!(play.refused(&Message::SetAsync(now.clone())), None);
        let told = play.say(&Message::GetAsyncRequest);
        assert_eq!(told, [Message::GetAsyncReply(AsyncConfig { ..now })]);
        play.frame(1, &last);
        assert_eq!(play.packet_in().reason.0, 2, "invalid TTL, and nothing else");
    }
}

#[test]
fn unsupported_requests_are_rejected_in_every_version() {
    for version in every_version() {
        let mut play = Play::new(version);
        let strange =
            MultipartRequest::Experimenter { experimenter: 0x55, exp_type: 0, data: vec![] };
        let flags = sluice_openflow::MultipartFlags::default();
        let asked = Message::MultipartRequest(sluice_openflow::Multipart { flags, body: strange });
        let refused = play.refused(&asked).unwrap();
        assert_eq!(refused.to_string(), "BAD_REQUEST/BAD_EXPERIMENTER");
        let port = MultipartRequest::PortStats(PortStatsRequest { port_no: PortNo(99) });
        let asked = Message::MultipartRequest(sluice_openflow::Multipart { flags, body: port });
        assert!(play.refused(&asked).is_some());
        let refused = play.refused(&Message::BarrierReply).unwrap();
        assert_eq!(refused.to_string(), "BAD_REQUEST/BAD_TYPE", "{}", MessageType::BARRIER_REPLY);
    }
}

#[test]
fn a_flow_entry_that_the_version_cannot_express_is_left_out() {
    let mut play = Play::new(Version::V1_3);
    play.add("ipv6,send_flow_rem,actions=output:1");
    play.add("in_port=1,actions=output:2");
    play.switch.on_disconnected(play.now);
    play.version = Version::V1_0;
    play.meet();
    let told = play.ask(MultipartRequest::FlowDesc(FlowStatsRequest::default()));
    let flows = told.iter().map(|part| match part {
        MultipartReply::FlowDesc { flows } => flows.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(flows.sum::<usize>(), 2, "a match of the type alone can be said in 1.0");
    assert_eq!(play.change(sluice_openflow::FlowModCommand::DELETE, ""), None);
    assert_eq!(play.switch.flow_entry_count(), 0);
    let flags = FlowModFlags::SEND_FLOW_REM;
    assert!(matches!(play.heard.last(), Some(Message::FlowRemoved(_))), "{flags:?}");
}
