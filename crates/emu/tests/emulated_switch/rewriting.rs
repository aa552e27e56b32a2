//! Rewritten frames are equal to frames that a sender would have built, including checksums.

use etherparse::{PacketBuilder, PacketBuilderStep, VlanId};
use sluice_openflow::Version;

use crate::support::{SwitchTest, ipv4, ipv6, mac, tcp, udp};

/// The result of applying `actions` to a frame that matches `matching`.
fn rewrite(matching: &str, actions: &str, frame: &[u8]) -> Vec<u8> {
    let mut test = SwitchTest::new(Version::V1_3);
    test.add_flow(&format!("{matching},actions={actions},output:2"));
    assert_eq!(test.receive_frame(1, frame), [2], "{actions}");
    test.take_only_frame()
}

fn tcp_over(ip: PacketBuilderStep<etherparse::IpHeaders>, src: u16, dst: u16) -> Vec<u8> {
    let mut frame = vec![];
    ip.tcp(src, dst, 1, 1024).write(&mut frame, &[1; 64]).unwrap();
    frame
}

fn v4(src: u8, dst: u8) -> PacketBuilderStep<etherparse::IpHeaders> {
    let eth = PacketBuilder::ethernet2(mac(1), mac(2));
    eth.ipv4(ipv4(src).octets(), ipv4(dst).octets(), 64)
}

fn v6(src: u8, dst: u8) -> PacketBuilderStep<etherparse::IpHeaders> {
    let eth = PacketBuilder::ethernet2(mac(1), mac(2));
    eth.ipv6(ipv6(src).octets(), ipv6(dst).octets(), 64)
}

#[test]
fn tcp_addresses_and_ports_are_rewritten() {
    let frame = tcp(1, 2, 3, 4);
    assert_eq!(rewrite("tcp", "set_field:10.0.0.9->ip_src", &frame), tcp_over(v4(9, 2), 3, 4));
    assert_eq!(rewrite("tcp", "set_field:10.0.0.9->ip_dst", &frame), tcp_over(v4(1, 9), 3, 4));
    let ports = "set_field:777->tcp_src,set_field:888->tcp_dst";
    assert_eq!(rewrite("tcp", ports, &frame), tcp_over(v4(1, 2), 777, 888));
    let v6_frame = tcp_over(v6(1, 2), 3, 4);
    let addresses = "set_field:fd00::8->ipv6_src,set_field:fd00::9->ipv6_dst";
    assert_eq!(rewrite("tcp6", addresses, &v6_frame), tcp_over(v6(8, 9), 3, 4));
}

#[test]
fn udp_is_rewritten_with_and_without_a_checksum() {
    let udp_to = |port| {
        let mut frame = vec![];
        v4(1, 2).udp(1000, port).write(&mut frame, &[1; 33]).unwrap();
        frame
    };
    let frame = udp(1, 2, 33);
    assert_eq!(rewrite("udp", "set_field:53->udp_dst", &frame), udp_to(53));
    let (mut without, mut expected) = (frame, udp_to(53));
    without[40..42].fill(0);
    expected[40..42].fill(0);
    assert_eq!(rewrite("udp", "set_field:53->udp_dst", &without), expected);
}

#[test]
fn only_the_icmpv6_checksum_covers_addresses() {
    let old = |dst| {
        let mut frame = vec![];
        v4(1, dst).icmpv4_echo_request(1, 2).write(&mut frame, &[1; 8]).unwrap();
        frame
    };
    assert_eq!(rewrite("icmp", "set_field:10.0.0.9->ip_dst", &old(2)), old(9));
    let new = |dst| {
        let mut frame = vec![];
        v6(1, dst).icmpv6_echo_request(1, 2).write(&mut frame, &[1; 8]).unwrap();
        frame
    };
    assert_eq!(rewrite("icmp6", "set_field:fd00::9->ipv6_dst", &new(2)), new(9));
}

#[test]
fn dscp_ecn_and_flow_label_are_rewritten() {
    let frame = rewrite("ip", "set_field:10->ip_dscp", &tcp(1, 2, 3, 4));
    assert_eq!(frame[15], 10 << 2);
    let marked = rewrite("ip", "set_field:3->ip_ecn", &frame);
    assert_eq!(marked[15], 10 << 2 | 3);
    let header = etherparse::Ipv4Header::from_slice(&marked[14..]).unwrap().0;
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let v6_frame = tcp_over(v6(1, 2), 3, 4);
    let marked = rewrite("ipv6", "set_field:10->ip_dscp,set_field:3->ip_ecn", &v6_frame);
    assert_eq!(marked[14..16], [0x62, 0xb0]);
    assert_eq!(marked[16..], v6_frame[16..]);
    let labelled = rewrite("ipv6", "set_field:0x12345->ipv6_label", &v6_frame);
    assert_eq!(labelled[14..18], [0x60, 1, 0x23, 0x45]);
}

#[test]
fn the_ttl_is_decremented_in_ipv4_and_ipv6() {
    let hops = |n| {
        let eth = PacketBuilder::ethernet2(mac(1), mac(2));
        tcp_over(eth.ipv4(ipv4(1).octets(), ipv4(2).octets(), n), 3, 4)
    };
    assert_eq!(rewrite("ip", "dec_ttl", &hops(64)), hops(63));
    let v6_frame = tcp_over(v6(1, 2), 3, 4);
    let fewer = rewrite("ipv6", "dec_ttl", &v6_frame);
    assert_eq!((fewer[21], &fewer[22..]), (63, &v6_frame[22..]));
}

#[test]
fn vlan_tags_are_pushed_changed_and_popped() {
    let tagged = |vid| {
        let eth =
            PacketBuilder::ethernet2(mac(1), mac(2)).single_vlan(VlanId::try_new(vid).unwrap());
        tcp_over(eth.ipv4(ipv4(1).octets(), ipv4(2).octets(), 64), 3, 4)
    };
    let plain = tcp(1, 2, 3, 4);
    let pushed = rewrite("ip", "push_vlan:0x8100,set_field:4101->vlan_vid", &plain);
    assert_eq!(pushed, tagged(5));
    assert_eq!(rewrite("dl_vlan=5", "set_field:4102->vlan_vid", &pushed), tagged(6));
    assert_eq!(rewrite("dl_vlan=5", "pop_vlan", &pushed), plain);
    let twice = rewrite("dl_vlan=5", "push_vlan:0x88a8,set_field:4103->vlan_vid", &pushed);
    assert_eq!(twice[12..20], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]);
    assert_eq!(rewrite("dl_vlan=7,ip,nw_dst=10.0.0.2", "pop_vlan", &twice), pushed);
}

#[test]
fn in_1_0_setting_a_vlan_adds_a_tag() {
    let mut test = SwitchTest::new(Version::V1_0);
    test.add_flow("in_port=1,actions=mod_vlan_vid:5,mod_vlan_pcp:3,output:2");
    test.add_flow("in_port=2,actions=strip_vlan,output:1");
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2]);
    let tagged = test.take_only_frame();
    assert_eq!(tagged[12..16], [0x81, 0, 0x60, 5]);
    assert_eq!(test.receive_frame(2, &tagged), [1]);
    assert_eq!(test.take_only_frame(), tcp(1, 2, 3, 4));
}

#[test]
fn in_1_0_actions_on_missing_fields_are_ignored() {
    let mut test = SwitchTest::new(Version::V1_0);
    let actions = "mod_nw_src:10.0.0.9,mod_tp_dst:80,mod_nw_tos:40";
    test.add_flow(&format!("in_port=1,actions={actions},output:2"));
    assert_eq!(test.receive_frame(1, &tcp(1, 2, 3, 4)), [2]);
    let mut expected = tcp_over(v4(9, 2), 3, 80);
    let rewritten = test.take_only_frame();
    expected[15] = 40;
    expected[24..26].copy_from_slice(&rewritten[24..26]);
    assert_eq!(rewritten, expected);
    let mut arp = tcp(1, 2, 3, 4);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(test.receive_frame(1, &arp), [2]);
    assert_eq!(test.take_only_frame(), arp, "a frame without the fields is not changed");
}

#[test]
fn mpls_labels_are_pushed_and_popped() {
    let plain = tcp(1, 2, 3, 4);
    let labelled = rewrite("ip", "push_mpls:0x8847,set_field:77->mpls_label", &plain);
    assert_eq!(labelled[12..18], [0x88, 0x47, 0, 0x04, 0xd1, 64]);
    assert_eq!(rewrite("mpls,mpls_label=77,mpls_bos=1", "pop_mpls:0x0800", &labelled), plain);
    let twice = rewrite("mpls", "push_mpls:0x8847,dec_mpls_ttl", &labelled);
    assert_eq!(twice[14..22], [0, 0x04, 0xd0, 63, 0, 0x04, 0xd1, 64]);
}

#[test]
fn an_arp_request_becomes_a_reply() {
    let mut arp = [mac(0xff), mac(1)].concat();
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(mac(1));
    arp.extend(ipv4(1).octets());
    arp.extend([0; 6]);
    arp.extend(ipv4(2).octets());
    let reply = "set_field:2->arp_op,set_field:02:00:00:00:00:02->arp_sha,\
        set_field:10.0.0.2->arp_spa,set_field:02:00:00:00:00:01->arp_tha,set_field:10.0.0.1->arp_tpa";
    let rewritten = rewrite("arp,arp_op=1,arp_tpa=10.0.0.2", reply, &arp);
    let expected = [&arp[..20], &[0, 2], &mac(2), &ipv4(2).octets(), &mac(1), &ipv4(1).octets()];
    assert_eq!(rewritten, expected.concat());
}

#[test]
fn addresses_in_neighbour_discovery_are_rewritten() {
    let mut body = vec![0; 4];
    body.extend(ipv6(2).octets());
    body.extend([1, 1]);
    body.extend(mac(1));
    let mut frame = vec![];
    v6(1, 2).icmpv6_raw(135, 0, [0; 4]).write(&mut frame, &body[4..]).unwrap();
    let matching = "icmp6,icmp_type=135,nd_target=fd00::2,nd_sll=02:00:00:00:00:01";
    let rewritten = rewrite(matching, "set_field:02:00:00:00:00:07->nd_sll", &frame);
    let mut expected = vec![];
    body[27] = 7;
    v6(1, 2).icmpv6_raw(135, 0, [0; 4]).write(&mut expected, &body[4..]).unwrap();
    assert_eq!(rewritten, expected);
}
