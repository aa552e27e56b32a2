//! Packets that are followed through the tables, and flow entries that expire at once.

use sluice_emu::switch::{FollowedOutput, FollowedPacket, SwitchOutput};
use sluice_openflow::{FlowRemovedReason, Message, PortNo, Version};

use crate::support::{SwitchTest, messages, tcp};

/// The output ports of a followed packet from host 1 to host 2, and what the tables lead it through.
fn follow(test: &mut SwitchTest, in_port: u32) -> (Vec<u32>, FollowedOutput) {
    let mut followed = FollowedOutput::default();
    let packet = FollowedPacket::parse(tcp(1, 2, 3, 4)).unwrap();
    test.switch.follow(test.now, PortNo(in_port), packet, &mut followed);
    (followed.packets.iter().map(|(port, _)| port.0).collect(), followed)
}

#[test]
fn a_followed_packet_goes_where_the_tables_lead_and_never_to_the_controller() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("table=0,priority=0,actions=controller:65535");
    test.add_flow("table=0,priority=5,tcp,in_port=1,actions=set_field:9->tcp_dst,goto_table:1");
    test.add_flow("table=1,priority=5,tcp,tp_dst=9,actions=output:2,output:3");
    let packet_ins = test.switch.counters().packet_ins;
    let (ports, followed) = follow(&mut test, 1);
    assert_eq!((ports, followed.entries.len()), (vec![2, 3], 2));
    let cookies = followed.entries.iter().map(|&id| test.switch.flow_entry(id).unwrap().priority);
    assert_eq!(cookies.collect::<Vec<_>>(), [5, 5]);
    let (ports, followed) = follow(&mut test, 4);
    assert_eq!((ports, followed.entries.len()), (vec![], 1), "the table-miss entry matches");
    assert_eq!(test.switch.counters().packet_ins, packet_ins);
}

#[test]
fn an_entry_that_expires_at_once_is_reported_if_it_asks_for_it() {
    let cases = [
        ("idle_timeout=9,hard_timeout=9", FlowRemovedReason::IDLE_TIMEOUT),
        ("hard_timeout=9", FlowRemovedReason::HARD_TIMEOUT),
        ("cookie=1", FlowRemovedReason::DELETE),
    ];
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        for (timeouts, expected) in cases {
            let mut test = SwitchTest::new(version);
            test.add_flow(&format!(
                "priority=5,in_port=1,send_flow_rem,{timeouts},actions=output:2"
            ));
            test.add_flow("priority=5,in_port=2,actions=output:2");
            let mut out = SwitchOutput::default();
            for in_port in [1, 2] {
                let (ports, followed) = follow(&mut test, in_port);
                assert_eq!(ports.len(), usize::from(in_port == 1));
                test.switch.expire_flow_entry(test.now, followed.entries[0], &mut out);
                assert!(test.switch.flow_entry(followed.entries[0]).is_none());
            }
            let sent = messages(&out.control);
            let [Message::FlowRemoved(removed)] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!((removed.reason, removed.priority), (expected, 5), "{version}");
            assert_eq!(test.switch.flow_entry_count(), 0);
        }
    }
}
