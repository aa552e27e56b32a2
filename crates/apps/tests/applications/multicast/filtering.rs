//! Which ports get a multicast.

use std::time::Duration;

use sluice_apps::forwarding::{Config, Flooding};
use sluice_sdk::view::PortRole;

use crate::multicast::frames::{join_v2, leave, query, udp};
use crate::multicast::test_network::{TestNetwork, at};
use crate::multicast::{GROUP, GROUP_V6, all_but, config, join_group, receivers, started, strict};

const SENDER: (u64, u32) = (1, 1);

#[test]
fn only_ports_with_members_and_routers_get_packets_to_a_group() {
    let sender = at(SENDER.0, SENDER.1);
    for group in [GROUP, GROUP_V6] {
        let mut net = started(&config());
        assert_eq!(receivers(&mut net, sender, group), all_but(&net, sender), "no members yet");
        join_group(&mut net, at(2, 3), group);
        assert_eq!(receivers(&mut net, sender, group), [at(2, 3)]);
        join_group(&mut net, at(1, 4), group);
        net.send(at(2, 1), &query(at(2, 1), "10.0.0.9", 0));
        assert_eq!(receivers(&mut net, sender, group), [at(1, 4), at(2, 1), at(2, 3)]);
        assert_eq!(receivers(&mut net, at(2, 3), group), [at(1, 4), at(2, 1)], "from a member");
        assert_eq!(net.metric("forwarding_multicast_members"), 2);
        assert_eq!(net.metric("forwarding_multicast_router_ports"), 1);
        assert_eq!(net.metric("forwarding_multicast_filtered"), 3);
    }
}

#[test]
fn a_report_at_any_port_of_a_bundle_makes_the_port_that_is_used_a_member() {
    let (mut net, sender) = (started(&strict()), at(SENDER.0, SENDER.1));
    let [used, other] = [at(2, 3), at(2, 4)];
    for port in [used, other] {
        net.set_role(port, PortRole::Bundle(used));
    }
    join_group(&mut net, other, GROUP);
    assert_eq!(receivers(&mut net, sender, GROUP), [used]);
    assert_eq!(receivers(&mut net, other, GROUP), []);
}

#[test]
fn without_snooping_every_port_gets_everything() {
    let mut net = started(&Config { multicast: None, ..config() });
    assert_eq!(net.send(at(2, 3), &join_v2(at(2, 3), GROUP)), all_but(&net, at(2, 3)));
    assert_eq!(receivers(&mut net, at(1, 1), GROUP), all_but(&net, at(1, 1)));
    assert_eq!(net.wait_s(300), [], "no queries");
}

#[test]
fn link_local_groups_broadcasts_and_other_protocols_are_not_filtered() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    for group in ["224.0.0.251", "ff02::1", "ff02::fb", "ff02::1:ff12:3456"] {
        join_group(&mut net, at(2, 3), group);
        assert_eq!(receivers(&mut net, sender, group), all_but(&net, sender), "{group}");
    }
    for dst in [[0xff; 6], [0x01, 0x1b, 0x19, 0, 0, 0], [0x01, 0x00, 0x5e, 0x80, 0, 1]] {
        let frame = [&dst[..], &[2, 0, 0, 0, 1, 1], &[0x88, 0xf7, 0, 0]].concat();
        assert_eq!(net.send(sender, &frame), all_but(&net, sender));
    }
}

#[test]
fn packets_to_groups_without_members_go_to_routers_if_configured() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    assert_eq!(receivers(&mut net, sender, GROUP), []);
    net.send(at(2, 1), &query(at(2, 1), "10.0.0.9", 0));
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 1)]);
}

#[test]
fn reports_reach_routers_only_and_queries_everybody() {
    let mut net = started(&config());
    let router = at(2, 1);
    assert_eq!(net.send(at(1, 2), &join_v2(at(1, 2), GROUP)), []);
    assert_eq!(net.send(router, &query(router, "10.0.0.9", 0)), all_but(&net, router));
    // It is sent to the group, but another member would not report then.
    assert_eq!(net.send(at(1, 3), &join_v2(at(1, 3), GROUP)), [router]);
    assert_eq!(net.send(at(1, 3), &leave(at(1, 3), GROUP, 0)), [router]);
}

#[test]
fn a_host_that_leaves_is_a_member_until_nobody_answers_a_query() {
    let (mut net, sender, member) = (started(&config()), at(1, 1), at(2, 3));
    join_group(&mut net, at(1, 4), GROUP);
    join_group(&mut net, member, GROUP);
    net.send(member, &leave(member, GROUP, 0));
    net.wait(Duration::from_millis(1500));
    assert_eq!(receivers(&mut net, sender, GROUP), [at(1, 4), member]);
    net.wait(Duration::from_secs(1));
    assert_eq!(receivers(&mut net, sender, GROUP), [at(1, 4)]);
}

#[test]
fn a_port_with_another_member_stays_when_one_leaves() {
    let (mut net, sender, port) = (started(&config()), at(1, 1), at(2, 3));
    join_group(&mut net, port, GROUP);
    net.send(port, &leave(port, GROUP, 0));
    net.wait(Duration::from_millis(500));
    net.send(port, &join_v2(port, GROUP));
    net.wait_s(60);
    assert_eq!(receivers(&mut net, sender, GROUP), [port]);
}

#[test]
fn groups_and_routers_expire() {
    let (mut net, sender, member, router) = (started(&strict()), at(1, 1), at(2, 3), at(2, 1));
    join_group(&mut net, member, GROUP);
    net.send(router, &query(router, "10.0.0.9", 0));
    net.wait_s(250);
    assert_eq!(receivers(&mut net, sender, GROUP), [router, member]);
    net.wait_s(6);
    assert_eq!(receivers(&mut net, sender, GROUP), [member]);
    net.wait_s(5);
    assert_eq!(receivers(&mut net, sender, GROUP), []);
    join_group(&mut net, member, GROUP);
    net.wait_s(200);
    join_group(&mut net, member, GROUP);
    net.wait_s(200);
    assert_eq!(receivers(&mut net, sender, GROUP), [member], "renewed");
}

#[test]
fn vlans_are_separate() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    let receivers_in = |net: &mut TestNetwork, vlan| {
        let text = format!("{:?}", net.now);
        net.send(sender, &udp(sender, GROUP, vlan, &text))
    };
    join_group(&mut net, at(2, 3), GROUP);
    assert_eq!(receivers_in(&mut net, 5), all_but(&net, sender), "hosts were not queried there");
    let queries = net.wait_s(14);
    assert_eq!(queries.len(), 2 * net.edges().len(), "one of each family");
    net.send(at(2, 2), &crate::multicast::frames::join(at(2, 2), GROUP, 5));
    assert_eq!(receivers_in(&mut net, 5), [at(2, 2)]);
    assert_eq!(receivers_in(&mut net, 0), [at(2, 3)]);
}

#[test]
fn a_stream_is_forwarded_by_its_switch_to_members_only() {
    let mut net = TestNetwork::new(&config(), 1, 1);
    net.wait(crate::multicast::STARTUP_TIME);
    let (sender, group) = (at(1, 1), GROUP);
    join_group(&mut net, at(1, 2), group);
    for _ in 0..10 {
        assert_eq!(receivers(&mut net, sender, group), [at(1, 2)]);
    }
    let packet_ins = net.packet_ins;
    assert_eq!(receivers(&mut net, sender, group), [at(1, 2)]);
    assert_eq!(net.packet_ins, packet_ins, "by a flow entry");
    join_group(&mut net, at(1, 3), group);
    net.wait(Duration::from_millis(250));
    let packet_ins = net.packet_ins;
    assert_eq!(receivers(&mut net, sender, group), [at(1, 2), at(1, 3)]);
    net.send(at(1, 2), &leave(at(1, 2), group, 0));
    net.wait_s(3);
    assert_eq!(receivers(&mut net, sender, group), [at(1, 3)]);
    assert_eq!(net.packet_ins, packet_ins + 1, "only the report");
}

/// A report is sent to its group, and must not match the entry of a stream from the same host.
#[test]
fn reports_of_the_source_of_a_stream_reach_the_controller() {
    let mut net = TestNetwork::new(&config(), 1, 1);
    net.wait(crate::multicast::STARTUP_TIME);
    let sender = at(1, 1);
    join_group(&mut net, at(1, 2), GROUP);
    for _ in 0..11 {
        receivers(&mut net, sender, GROUP);
    }
    assert_eq!(net.metric("forwarding_group_streams"), 1);
    net.send(sender, &join_v2(sender, GROUP));
    assert_eq!(receivers(&mut net, at(1, 4), GROUP), [sender, at(1, 2)]);
}

#[test]
fn many_reports_demand_no_tree() {
    let cfg = Config { flooding: Flooding::Auto, ..config() };
    let mut net = TestNetwork::new(&cfg, 3, 2);
    net.wait_s(20);
    for n in 0..200 {
        net.send(at(2, 3), &join_v2(at(2, 3), &format!("239.1.2.{n}")));
    }
    net.wait_s(10);
    assert!(!net.has_active_tree());
}

/// Three switches, along whose links switches forward by themselves.
fn with_tree(cfg: &Config) -> TestNetwork {
    let cfg = Config { flooding: Flooding::Tree, ..cfg.clone() };
    let mut net = TestNetwork::new(&cfg, 3, 2);
    net.wait_s(20);
    assert!(net.has_active_tree());
    net
}

#[test]
fn switches_filter_what_they_forward_along_the_tree() {
    for (cfg, is_strict) in [(config(), false), (strict(), true)] {
        let (mut net, sender) = (with_tree(&cfg), at(1, 1));
        let unregistered = if is_strict { vec![] } else { all_but(&net, sender) };
        for group in [GROUP, GROUP_V6] {
            assert_eq!(receivers(&mut net, sender, group), unregistered);
            join_group(&mut net, at(2, 3), group);
            join_group(&mut net, at(3, 1), group);
            net.wait(Duration::from_millis(250));
            assert_eq!(receivers(&mut net, sender, group), [at(2, 3), at(3, 1)]);
            net.send(at(2, 3), &leave(at(2, 3), group, 0));
            net.wait_s(3);
            assert_eq!(receivers(&mut net, sender, group), [at(3, 1)]);
            net.send(at(3, 1), &leave(at(3, 1), group, 0));
            net.wait_s(3);
            assert_eq!(receivers(&mut net, sender, group), unregistered);
        }
        for group in ["224.0.0.251", "ff02::1", "ff02::1:ff12:3456"] {
            assert_eq!(receivers(&mut net, sender, group), all_but(&net, sender), "{group}");
        }
        let packet_ins = net.packet_ins;
        receivers(&mut net, sender, GROUP);
        assert_eq!(net.packet_ins, packet_ins + 1, "at the first switch only");
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 1, 1], &[0x88, 0xb5]].concat();
        assert_eq!(net.send(sender, &frame), all_but(&net, sender));
    }
}

#[test]
fn a_stream_through_the_tree_follows_the_members() {
    let (mut net, sender) = (with_tree(&config()), at(1, 1));
    join_group(&mut net, at(3, 1), GROUP);
    net.wait(Duration::from_millis(250));
    for _ in 0..11 {
        assert_eq!(receivers(&mut net, sender, GROUP), [at(3, 1)]);
    }
    let packet_ins = net.packet_ins;
    assert_eq!(receivers(&mut net, sender, GROUP), [at(3, 1)]);
    assert_eq!(net.packet_ins, packet_ins, "no packet through the controller");
    join_group(&mut net, at(2, 2), GROUP);
    net.wait(Duration::from_millis(250));
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 2), at(3, 1)]);
}

/// Tables of switches are small, and each entry is renewed every three seconds.
#[test]
fn a_switch_gets_entries_for_a_limited_number_of_groups() {
    for cfg in [config(), strict()] {
        let (mut net, sender) = (with_tree(&cfg), at(1, 1));
        for (port, third) in [(1, 10), (2, 11), (3, 12)] {
            let groups: Vec<_> = (0..=255).map(|n| format!("239.1.{third}.{n}")).collect();
            for groups in groups.chunks(64) {
                net.send(at(2, port), &crate::multicast::frames::report(at(2, port), 4, groups, 0));
                net.wait_s(1);
            }
        }
        join_group(&mut net, at(2, 4), "239.250.0.1");
        net.wait_s(2);
        let entries = net.table(2).iter().filter(|entry| entry.priority == 6).count();
        assert!((1000..=1030).contains(&entries), "{entries}");
        assert_eq!(receivers(&mut net, sender, "239.250.0.1"), [at(2, 4)], "a port with few");
        // Without an entry the group is flooded by the switches.
        let got = receivers(&mut net, sender, "239.1.12.255");
        assert!(got.contains(&at(2, 3)) && got.len() > 1, "{got:?}");
    }
}

/// Its other groups go to its port, since they count as groups without members at others.
#[test]
fn a_port_with_very_many_groups_gets_a_share_of_the_entries_and_others_stay_filtered() {
    let (mut net, sender, busy) = (with_tree(&strict()), at(1, 1), at(3, 1));
    for third in 0..4 {
        let groups: Vec<_> = (0..=255).map(|n| format!("239.1.{}.{n}", 10 + third)).collect();
        for groups in groups.chunks(64) {
            net.send(busy, &crate::multicast::frames::report(busy, 4, groups, 0));
            net.wait_s(1);
        }
    }
    net.wait_s(2);
    let entries = net.table(3).iter().filter(|entry| entry.priority == 6).count();
    assert!((256..=260).contains(&entries), "{entries}");
    assert_eq!(receivers(&mut net, sender, "239.1.10.1"), [busy]);
    assert_eq!(receivers(&mut net, sender, "239.1.13.255"), [busy], "has no entry");
    assert_eq!(receivers(&mut net, sender, "239.9.9.9"), [busy], "has no member");
}

#[test]
fn changes_of_groups_rewrite_only_their_entries() {
    let mut net = with_tree(&config());
    for n in 0..100 {
        join_group(&mut net, at(3, 1), &format!("239.1.2.{n}"));
    }
    net.wait_s(2);
    let mut least = usize::MAX;
    for n in 0..12 {
        join_group(&mut net, at(3, 1), &format!("239.1.3.{n}"));
        let before = net.flow_mods;
        net.wait(Duration::from_millis(250));
        least = least.min(net.flow_mods - before);
    }
    // One at the last switch, two at that in the middle, one at the first.
    assert!(least <= 4, "{least}");
}

#[test]
fn vlans_are_separate_along_the_tree() {
    let (mut net, sender) = (with_tree(&strict()), at(1, 1));
    let receivers_in = |net: &mut TestNetwork, vlan| {
        let text = format!("{:?}", net.now);
        net.send(sender, &udp(sender, GROUP, vlan, &text))
    };
    assert_eq!(receivers_in(&mut net, 5), all_but(&net, sender));
    net.wait_s(14);
    assert_eq!(receivers_in(&mut net, 5), []);
    net.send(at(3, 1), &crate::multicast::frames::join(at(3, 1), GROUP, 5));
    join_group(&mut net, at(3, 2), GROUP);
    net.wait(Duration::from_millis(250));
    assert_eq!(receivers_in(&mut net, 5), [at(3, 1)]);
    assert_eq!(receivers_in(&mut net, 0), [at(3, 2)]);
}

#[test]
fn a_switch_that_refuses_entries_for_groups_forwards_all_of_them_along_the_tree() {
    let (mut net, sender) = (with_tree(&config()), at(1, 1));
    net.refusing = Some(2);
    join_group(&mut net, at(3, 1), GROUP);
    net.wait(Duration::from_millis(500));
    assert!(!net.has_active_tree());
    assert!(net.log[0].contains("none for single multicast groups"), "{:?}", net.log);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(3, 1)], "from the controller");
    net.wait_s(10);
    assert!(net.has_active_tree());
    let packet_ins = net.packet_ins;
    let of_switch_2 = (1..=4).map(|port| at(2, port));
    let expected: Vec<_> = of_switch_2.chain([at(3, 1)]).collect();
    assert_eq!(receivers(&mut net, sender, GROUP), expected);
    assert_eq!(net.packet_ins, packet_ins + 1, "at the first switch only");
    let refused = net.refused;
    net.wait_s(120);
    assert!(net.has_active_tree());
    assert_eq!(net.refused, refused, "it is not tried again soon");
}

#[test]
fn reports_do_not_reach_other_members_along_the_tree() {
    let mut net = with_tree(&config());
    join_group(&mut net, at(3, 1), GROUP);
    net.wait(Duration::from_millis(250));
    assert_eq!(net.send(at(1, 2), &join_v2(at(1, 2), GROUP)), []);
    let router = at(3, 4);
    assert_eq!(net.send(router, &query(router, "10.0.0.9", 0)), all_but(&net, router));
    assert_eq!(net.send(at(1, 2), &join_v2(at(1, 2), GROUP)), [router]);
}

/// Otherwise the entries of the tree may expire while it is in use.
#[test]
fn entries_of_the_tree_are_renewed_in_time_while_groups_change_all_the_time() {
    let mut net = with_tree(&config());
    net.barrier_delay = Duration::from_millis(2700);
    for n in 0..160 {
        join_group(&mut net, at(3, 1), &format!("239.1.{}.{}", n / 100 + 1, n % 100));
        net.wait(Duration::from_millis(250));
    }
    assert!(net.has_active_tree());
    let times = &net.renewals[&3];
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= Duration::from_millis(3500), "{longest:?}");
}
