//! Forms of matches and actions in requests.

use sluice_openflow::{Action, FlowMod, FlowModCommand, Instruction, PortNo, Version};

use crate::controller::added;

/// Entries of a match, the first version that has them, and the match in the syntax of `ovs-ofctl`.
const MATCHES: &[(&str, Version, &str)] = &[
    (r#""in_port": 7"#, Version::V1_0, "in_port=7"),
    (r#""in_port": "LOCAL""#, Version::V1_0, "in_port=local"),
    (r#""dl_src": "aa:bb:cc:11:22:33""#, Version::V1_0, "dl_src=aa:bb:cc:11:22:33"),
    (
        r#""dl_dst": "aa:bb:cc:11:22:33/00:00:00:00:ff:ff""#,
        Version::V1_1,
        "dl_dst=00:00:00:00:22:33/00:00:00:00:ff:ff",
    ),
    (r#""dl_vlan": 5"#, Version::V1_0, "dl_vlan=5"),
    (r#""dl_vlan": "5""#, Version::V1_0, "dl_vlan=5"),
    (r#""dl_vlan": "0x1005""#, Version::V1_2, "dl_vlan=5"),
    (r#""dl_vlan": "0x0000""#, Version::V1_2, "vlan_tci=0x0000/0x1fff"),
    (r#""vlan_vid": "0x1000/0x1000""#, Version::V1_2, "vlan_tci=0x1000/0x1000"),
    (r#""vlan_vid": 5, "vlan_pcp": 3"#, Version::V1_0, "dl_vlan=5,dl_vlan_pcp=3"),
    (
        r#""dl_type": 2048, "nw_proto": 6, "nw_src": "10.0.0.0/24""#,
        Version::V1_0,
        "tcp,nw_src=10.0.0.0/24",
    ),
    (
        r#""dl_type": 2048, "nw_proto": 6, "tp_src": 80, "tp_dst": "0x50""#,
        Version::V1_0,
        "tcp,tp_src=80,tp_dst=80",
    ),
    (
        r#""eth_type": 2048, "ip_proto": 6, "ipv4_dst": "10.0.0.9/255.255.255.0""#,
        Version::V1_2,
        "tcp,nw_dst=10.0.0.0/24",
    ),
    (
        r#""eth_type": 2048, "ip_proto": 6, "ip_dscp": 46, "ip_ecn": 1"#,
        Version::V1_2,
        "tcp,nw_tos=184,nw_ecn=1",
    ),
    (r#""eth_type": 2048, "ip_proto": 6, "tcp_dst": 80"#, Version::V1_2, "tcp,tp_dst=80"),
    (r#""dl_type": 2048, "nw_proto": 17, "tp_dst": 53"#, Version::V1_0, "udp,tp_dst=53"),
    (r#""dl_type": 2048, "nw_proto": 1, "tp_src": 8"#, Version::V1_0, "icmp,icmp_type=8"),
    (r#""dl_type": 2048, "nw_tos": 184"#, Version::V1_0, "ip,nw_tos=184"),
    (r#""dl_type": 2054, "nw_src": "10.0.0.1""#, Version::V1_0, "arp,arp_spa=10.0.0.1"),
    (r#""dl_type": 2054, "nw_proto": 2"#, Version::V1_0, "arp,arp_op=2"),
    (
        r#""eth_type": 2054, "arp_op": 1, "arp_tpa": "10.0.0.0/8""#,
        Version::V1_2,
        "arp,arp_tpa=10.0.0.0/8,arp_op=1",
    ),
    (
        r#""eth_type": 34525, "ipv6_src": "2001::ffff:cccc:bbbb:2222/64""#,
        Version::V1_2,
        "ipv6,ipv6_src=2001::/64",
    ),
    (
        r#""eth_type": 34525, "ipv6_dst": "2001::1/ffff:ffff:ffff:ffff::0""#,
        Version::V1_2,
        "ipv6,ipv6_dst=2001::/64",
    ),
    (
        r#""eth_type": 34525, "ip_proto": 58, "icmpv6_type": 135, "ipv6_nd_sll": "aa:bb:cc:11:22:33""#,
        Version::V1_2,
        "icmp6,icmp_type=135,nd_sll=aa:bb:cc:11:22:33",
    ),
    (
        r#""eth_type": 34888, "mpls_label": 3, "mpls_tc": 2"#,
        Version::V1_2,
        "mplsm,mpls_label=3,mpls_tc=2",
    ),
    (r#""metadata": "0x10/0xf0""#, Version::V1_2, "metadata=0x10/0xf0"),
    (r#""tunnel_id": "0x07/0xff""#, Version::V1_3, "tun_id=0x7/0xff"),
    (r#""eth_type": 2048, "ip_proto": 6, "tcp_flags": 2"#, Version::V1_5, "tcp,tcp_flags=syn"),
    (r#""packet_type": [1, 2048]"#, Version::V1_5, "packet_type=(1,0x800)"),
];

#[test]
fn each_match_field_is_read_in_each_notation() {
    for &(fields, since, expected) in MATCHES {
        for version in [Version::V1_0, Version::V1_3, Version::V1_4, Version::V1_5] {
            if version >= since {
                let text = added(
                    version,
                    &format!(r#""priority": 9, "match": {{{fields}}}, "actions": []"#),
                );
                let expected = format!("priority=9,{expected},actions=drop");
                let expected =
                    FlowMod::from_text(&expected, FlowModCommand::ADD).unwrap().to_text();
                assert_eq!(text, expected, "{version} {fields}");
            }
        }
    }
}

/// An action or instruction, the first version that has it, and the actions in the syntax of `ovs-ofctl`.
const ACTIONS: &[(&str, Version, &str)] = &[
    (r#"{"type": "OUTPUT", "port": 3}"#, Version::V1_0, "output:3"),
    (
        r#"{"type": "OUTPUT", "port": "CONTROLLER", "max_len": 128}"#,
        Version::V1_0,
        "controller(max_len=128)",
    ),
    (r#"{"type": "SET_VLAN_VID", "vlan_vid": 5}"#, Version::V1_0, "set_field:4101->vlan_vid"),
    (r#"{"type": "SET_VLAN_PCP", "vlan_pcp": 3}"#, Version::V1_0, "set_field:3->vlan_pcp"),
    (r#"{"type": "STRIP_VLAN"}"#, Version::V1_0, "pop_vlan"),
    (
        r#"{"type": "SET_DL_SRC", "dl_src": "aa:bb:cc:11:22:33"}"#,
        Version::V1_0,
        "set_field:aa:bb:cc:11:22:33->eth_src",
    ),
    (
        r#"{"type": "SET_NW_DST", "nw_dst": "10.0.0.1"}"#,
        Version::V1_0,
        "set_field:10.0.0.1->ip_dst",
    ),
    (r#"{"type": "SET_NW_TOS", "nw_tos": 184}"#, Version::V1_0, "set_field:46->ip_dscp"),
    (r#"{"type": "SET_TP_DST", "tp_dst": 8080}"#, Version::V1_0, "set_field:8080->tcp_dst"),
    (r#"{"type": "ENQUEUE", "queue_id": 3, "port": 1}"#, Version::V1_0, "enqueue:1:3"),
    (r#"{"type": "COPY_TTL_OUT"}"#, Version::V1_2, "copy_ttl_out"),
    (r#"{"type": "COPY_TTL_IN"}"#, Version::V1_2, "copy_ttl_in"),
    (r#"{"type": "SET_MPLS_TTL", "mpls_ttl": 64}"#, Version::V1_2, "set_mpls_ttl(64)"),
    (r#"{"type": "DEC_MPLS_TTL"}"#, Version::V1_2, "dec_mpls_ttl"),
    (r#"{"type": "PUSH_VLAN", "ethertype": 33024}"#, Version::V1_2, "push_vlan:0x8100"),
    (r#"{"type": "POP_VLAN"}"#, Version::V1_2, "pop_vlan"),
    (r#"{"type": "PUSH_MPLS", "ethertype": 34887}"#, Version::V1_2, "push_mpls:0x8847"),
    (r#"{"type": "POP_MPLS", "ethertype": 2054}"#, Version::V1_2, "pop_mpls:0x0806"),
    (r#"{"type": "SET_QUEUE", "queue_id": 7}"#, Version::V1_2, "set_queue:7"),
    (r#"{"type": "GROUP", "group_id": 5}"#, Version::V1_2, "group:5"),
    (r#"{"type": "SET_NW_TTL", "nw_ttl": 64}"#, Version::V1_2, "mod_nw_ttl:64"),
    (r#"{"type": "DEC_NW_TTL"}"#, Version::V1_2, "dec_ttl"),
    (
        r#"{"type": "SET_FIELD", "field": "vlan_vid", "value": 4102}"#,
        Version::V1_2,
        "set_field:4102->vlan_vid",
    ),
    (
        r#"{"type": "SET_FIELD", "field": "ipv6_src", "value": "fe80::1"}"#,
        Version::V1_2,
        "set_field:fe80::1->ipv6_src",
    ),
    (r#"{"type": "PUSH_PBB", "ethertype": 35047}"#, Version::V1_3, "push_pbb:0x88e7"),
    (r#"{"type": "POP_PBB"}"#, Version::V1_3, "pop_pbb"),
    (r#"{"type": "GOTO_TABLE", "table_id": 8}"#, Version::V1_2, "goto_table:8"),
    (
        r#"{"type": "WRITE_METADATA", "metadata": 0x3, "metadata_mask": 0x3}"#,
        Version::V1_2,
        "write_metadata:0x3/0x3",
    ),
    (r#"{"type": "METER", "meter_id": 3}"#, Version::V1_3, "meter:3"),
    (
        r#"{"type": "WRITE_ACTIONS", "actions": [{"type": "POP_VLAN",}, {"type": "OUTPUT", "port": 2}]}"#,
        Version::V1_2,
        "write_actions(pop_vlan,output:2)",
    ),
    (r#"{"type": "CLEAR_ACTIONS"}"#, Version::V1_2, "clear_actions"),
];

#[test]
fn each_action_is_read() {
    for &(action, since, expected) in ACTIONS {
        for version in [Version::V1_0, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5] {
            if version >= since {
                let name = if version < Version::V1_4 { "actions" } else { "instructions" };
                let is_instruction = ["GOTO", "WRITE", "METER", "CLEAR"]
                    .iter()
                    .any(|it| action.contains(&format!("\"{it}")));
                let list = if version < Version::V1_4 || is_instruction && version < Version::V1_5 {
                    action.to_owned()
                } else if is_instruction {
                    continue;
                } else {
                    format!(r#"{{"type": "APPLY_ACTIONS", "actions": [{action}]}}"#)
                };
                let text = added(version, &format!(r#""priority": 1, "{name}": [{list}]"#));
                assert_eq!(
                    normal_actions(&text),
                    normal_actions(&format!("priority=1,actions={expected}")),
                    "{version}"
                );
            }
        }
    }
}

/// A flow entry in one of its notations. The default of `max_len` is that of Ryu.
fn normal_actions(text: &str) -> String {
    let mut flow_mod = FlowMod::from_text(text, FlowModCommand::ADD).unwrap();
    for instruction in &mut flow_mod.instructions {
        let (Instruction::ApplyActions { actions } | Instruction::WriteActions { actions }) =
            instruction
        else {
            continue;
        };
        for action in actions {
            if let Action::Output { port, max_len } = action
                && *port != PortNo::CONTROLLER
            {
                *max_len = 0;
            }
        }
    }
    flow_mod.to_text()
}
