//! Frames through flow tables, action sets and ports.

use sluice_openflow::{
    Message, PacketInReason, PortConfig, PortMod, PortNo, PortReason, PortState, Role, RoleRequest,
    TableConfig, TableMod, Version,
};

use crate::support::{SwitchTest, tcp, udp};

#[test]
fn a_frame_returns_to_its_input_port_only_on_request() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("priority=9,tcp,tp_dst=1,actions=flood");
    test.add_flow("priority=9,tcp,tp_dst=2,actions=all");
    test.add_flow("priority=9,tcp,tp_dst=3,actions=in_port");
    test.add_flow("priority=9,tcp,tp_dst=4,actions=output:2");
    assert_eq!(test.receive_frame(2, &tcp(1, 2, 9, 1)), [1, 3, 4]);
    assert_eq!(test.receive_frame(2, &tcp(1, 2, 9, 2)), [1, 3, 4]);
    assert_eq!(test.receive_frame(2, &tcp(1, 2, 9, 3)), [2]);
    assert_eq!(test.receive_frame(2, &tcp(1, 2, 9, 4)), [0u32; 0]);
    assert_eq!(test.switch.counters().drops.blocked_port, 1);
}

#[test]
fn metadata_and_the_action_set_pass_from_table_to_table() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow(
        "table=0,in_port=1,actions=write_metadata:0x5/0xf,write_actions(output:2),goto_table:1",
    );
    test.add_flow("table=1,metadata=0x5,actions=output:3,write_actions(output:4),goto_table:2");
    test.add_flow("table=2,priority=1,actions=");
    test.add_flow("table=2,priority=5,tcp,tp_dst=9,actions=clear_actions");
    assert_eq!(
        test.receive_frame(1, &tcp(1, 2, 9, 8)),
        [3, 4],
        "the action set is executed once, at the end"
    );
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 9, 9)), [3]);
}

#[test]
fn an_action_set_sets_fields_before_it_outputs() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("in_port=1,actions=write_actions(output:2,set_field:02:00:00:00:00:09->eth_dst)");
    test.receive_frame(1, &tcp(1, 2, 3, 4));
    assert_eq!(test.take_only_frame()[..6], [2, 0, 0, 0, 0, 9]);
}

#[test]
fn an_action_list_is_executed_in_order() {
    let mut test = SwitchTest::new(Version::V1_3);
    let set = "set_field:02:00:00:00:00:09->eth_dst";
    test.add_flow(&format!("in_port=1,actions=output:2,{set},output:3"));
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2, 3]);
    assert_eq!((test.sent_frames[0].1[5], test.sent_frames[1].1[5]), (2, 9));
}

#[test]
fn in_1_1_and_1_2_the_table_configuration_selects_the_table_miss_behaviour() {
    for version in [Version::V1_1, Version::V1_2] {
        let mut test = SwitchTest::new(version);
        test.add_flow("table=1,actions=output:3");
        assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [0u32; 0]);
        assert_eq!(test.take_packet_ins().len(), 1, "sent to the controller by default");
        let set =
            |config| Message::TableMod(TableMod { table_id: 0, config, ..TableMod::default() });
        assert_eq!(test.error_reason(&set(TableConfig::TABLE_MISS_CONTINUE)), None);
        assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [3]);
        assert_eq!(test.error_reason(&set(TableConfig::TABLE_MISS_DROP)), None);
        assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [0u32; 0]);
        assert_eq!((test.take_packet_ins().len(), test.switch.counters().drops.table_miss), (0, 1));
    }
}

#[test]
fn a_packet_in_has_its_reason_and_cookie() {
    let mut test = SwitchTest::new(Version::V1_5);
    test.add_flow("table=0,priority=1,cookie=7,in_port=1,actions=controller:60");
    test.add_flow("table=0,priority=1,cookie=8,in_port=2,actions=write_actions(controller:60)");
    test.add_flow("table=0,priority=0,cookie=9,actions=controller:60");
    for (port, cookie, reason) in [
        (1, 7, PacketInReason::APPLY_ACTION),
        (2, 8, PacketInReason::ACTION_SET),
        (3, 9, PacketInReason::TABLE_MISS),
    ] {
        test.receive_frame(port, &tcp(1, 2, 3, 4));
        let packet_in = test.take_only_packet_in();
        assert_eq!(
            (packet_in.cookie, packet_in.reason, packet_in.in_port()),
            (cookie, reason, Some(PortNo(port)))
        );
    }
    test.send(&SwitchTest::packet_out(None, 4, &tcp(1, 2, 3, 4), "controller:60"));
    assert_eq!(test.take_only_packet_in().reason, PacketInReason::PACKET_OUT);
}

#[test]
fn a_packet_out_can_use_the_tables() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("in_port=2,actions=output:3");
    test.send(&SwitchTest::packet_out(None, 2, &tcp(1, 2, 3, 4), "table"));
    assert_eq!(test.sent_frames.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [3]);
    let runt = SwitchTest::packet_out(None, 2, &[1, 2, 3], "output:3");
    assert_eq!(test.error_reason(&runt).unwrap().to_string(), "BAD_REQUEST/BAD_PACKET");
    let unknown_port = SwitchTest::packet_out(None, 99, &tcp(1, 2, 3, 4), "output:3");
    assert_eq!(test.error_reason(&unknown_port).unwrap().to_string(), "BAD_REQUEST/BAD_PORT");
}

#[test]
fn an_expired_ttl_drops_the_packet() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("ip,actions=dec_ttl,output:2");
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2]);
    let frame = test.take_only_frame();
    assert_eq!((frame[22], &frame[26..]), (63, &tcp(1, 2, 3, 4)[26..]));
    let mut last = tcp(1, 2, 3, 4);
    last[22] = 1;
    assert_eq!(test.receive_frame(1, &last), [0u32; 0]);
    assert_eq!(test.switch.counters().drops.ttl_expired, 1);
}

#[test]
fn a_port_that_goes_down_is_reported_and_neither_sends_nor_receives() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut test = SwitchTest::new(version);
        test.add_flow("in_port=1,actions=flood");
        let mut out = sluice_emu::switch::SwitchOutput::default();
        test.switch.set_link_state(test.now, PortNo(2), false, &mut out);
        test.switch.set_link_state(test.now, PortNo(2), false, &mut out);
        let replies = crate::support::messages(&out.control);
        let [Message::PortStatus(status)] = &replies[..] else {
            panic!("not reported exactly once: {replies:?}")
        };
        assert_eq!((status.reason, status.port.state), (PortReason::MODIFY, PortState::LINK_DOWN));
        assert_eq!(status.port.port_no, PortNo(2));
        assert_eq!(test.receive_frame(1, &udp(1, 2, 5)), [3, 4]);
        assert_eq!(test.receive_frame(2, &udp(1, 2, 5)), [0u32; 0]);
        assert!(!test.switch.is_up(PortNo(2)) && test.switch.is_up(PortNo(3)));
    }
}

#[test]
fn a_port_mod_configures_a_port() {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow("in_port=1,actions=flood,controller");
    let hw_addr = test.switch.config().ports[2].hw_addr;
    let set = |port, hw_addr, config| {
        let (port_no, mask) = (PortNo(port), PortConfig(0x65));
        Message::PortMod(PortMod { port_no, hw_addr, config, mask, properties: vec![] })
    };
    let replies = test.send(&set(3, hw_addr, PortConfig::PORT_DOWN));
    assert!(matches!(&replies[..], [Message::PortStatus(_)]), "{replies:?}");
    assert_eq!(test.receive_frame(1, &udp(1, 2, 5)), [2, 4]);
    test.send(&set(3, hw_addr, PortConfig::NO_FWD));
    assert_eq!(test.receive_frame(1, &udp(1, 2, 5)), [2, 4]);
    let wrong_address = set(4, hw_addr, PortConfig::PORT_DOWN);
    assert_eq!(
        test.error_reason(&wrong_address).unwrap().to_string(),
        "PORT_MOD_FAILED/BAD_HW_ADDR"
    );
    let wrong_port = set(9, hw_addr, PortConfig::PORT_DOWN);
    assert_eq!(test.error_reason(&wrong_port).unwrap().to_string(), "PORT_MOD_FAILED/BAD_PORT");
    let first = test.switch.config().ports[0].hw_addr;
    test.take_packet_ins();
    test.send(&set(1, first, PortConfig::NO_PACKET_IN));
    test.receive_frame(1, &udp(1, 2, 5));
    assert_eq!(test.take_packet_ins().len(), 0);
    test.send(&set(1, first, PortConfig::NO_RECV));
    assert_eq!(test.receive_frame(1, &udp(1, 2, 5)), [0u32; 0]);
}

#[test]
fn a_slave_is_read_only_and_an_old_generation_is_stale() {
    let mut test = SwitchTest::new(Version::V1_3);
    let role = |role, generation_id| {
        Message::RoleRequest(RoleRequest { role, generation_id, ..RoleRequest::default() })
    };
    assert_eq!(test.error_reason(&role(Role::MASTER, 5)), None);
    let stale = test.error_reason(&role(Role::SLAVE, 4)).unwrap();
    assert_eq!(stale.to_string(), "ROLE_REQUEST_FAILED/STALE");
    test.add_flow("priority=0,actions=controller");
    let replies = test.send(&role(Role::SLAVE, 6));
    assert!(
        matches!(&replies[..], [Message::RoleReply(reply)] if reply.role == Role::SLAVE),
        "{replies:?}"
    );
    let error =
        test.send_flow_mod(sluice_openflow::FlowModCommand::ADD, "actions=output:1").unwrap();
    assert_eq!(error.to_string(), "BAD_REQUEST/IS_SLAVE");
    test.receive_frame(1, &udp(1, 2, 5));
    assert_eq!(test.take_packet_ins().len(), 0);
}

#[test]
fn runts_and_frames_from_unknown_ports_are_dropped() {
    let mut test = SwitchTest::new(Version::V1_0);
    assert_eq!(test.receive_frame(1, &[1, 2, 3]), [0u32; 0]);
    assert_eq!(test.receive_frame(77, &udp(1, 2, 5)), [0u32; 0]);
    let drops = test.switch.counters().drops;
    assert_eq!((drops.runt, drops.blocked_port, drops.total()), (1, 1, 2));
}
