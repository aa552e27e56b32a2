//! Queries of the controller.

use std::net::IpAddr;
use std::time::Duration;

use sluice_apps::forwarding::Config;
use sluice_apps::forwarding::multicast;
use sluice_openflow::{MacAddr, VlanId};
use sluice_sdk::view::{Fact, Host, HostId};

use crate::multicast::frames::{asked_for, join, leave, query, udp};
use crate::multicast::test_network::{TestNetwork, at};
use crate::multicast::{GROUP, GROUP_V6, all_but, config, join_group, receivers, started, strict};

/// The general queries of one family among frames.
fn general(frames: &[(sluice_sdk::view::SwitchPort, Vec<u8>)], family: &str) -> usize {
    let all: IpAddr = family.parse().unwrap();
    frames.iter().filter(|(_, frame)| asked_for(frame) == Some((all, 0))).count()
}

#[test]
fn every_edge_port_gets_two_queries_at_the_start_and_then_one_every_125_s() {
    let mut net = TestNetwork::new(&config(), 2, 2);
    let edges = net.edges().len();
    let counts = |net: &mut TestNetwork, seconds| {
        let frames = net.wait_s(seconds);
        [general(&frames, "0.0.0.0"), general(&frames, "::")]
    };
    assert_eq!(counts(&mut net, 1), [edges; 2]);
    assert_eq!(counts(&mut net, 29), [0; 2]);
    assert_eq!(counts(&mut net, 3), [edges; 2]);
    assert_eq!(counts(&mut net, 120), [0; 2]);
    assert_eq!(counts(&mut net, 7), [edges; 2]);
    assert_eq!(counts(&mut net, 1250), [edges * 10; 2]);
}

/// Members would expire if it stopped, cannot be reached from everywhere, or is a host that only says so.
#[test]
fn hosts_are_queried_although_a_router_sends_queries() {
    let mut net = started(&config());
    let (router, member, sender) = (at(2, 1), at(2, 3), at(1, 1));
    net.wait_s(31);
    join_group(&mut net, member, GROUP);
    for _ in 0..6 {
        net.send(router, &query(router, "10.0.0.9", 0));
        let frames = net.wait_s(125);
        assert_eq!(general(&frames, "0.0.0.0"), net.edges().len());
        join_group(&mut net, member, GROUP);
    }
    assert_eq!(receivers(&mut net, sender, GROUP), [router, member]);
    for _ in 0..4 {
        let frames = net.wait_s(125);
        assert_eq!(general(&frames, "0.0.0.0"), net.edges().len());
        join_group(&mut net, member, GROUP);
    }
    assert_eq!(receivers(&mut net, sender, GROUP), [member], "the router is gone");
}

#[test]
fn a_port_that_comes_up_is_queried_and_gets_everything_until_hosts_had_time_to_answer() {
    use sluice_sdk::view::PortRole;
    let (mut net, sender, port) = (started(&strict()), at(1, 1), at(2, 3));
    net.wait_s(31);
    assert_eq!(receivers(&mut net, sender, GROUP), []);
    for role in [PortRole::Pending, PortRole::Link] {
        net.set_role(port, role);
        net.wait_s(1);
        net.set_role(port, PortRole::Edge);
        assert_eq!(receivers(&mut net, sender, GROUP), [port]);
        let frames = net.wait_s(10);
        let ports: Vec<_> = frames.iter().map(|&(at, _)| at).collect();
        assert_eq!(ports, [port; 2], "one query of each family");
        assert_eq!(receivers(&mut net, sender, GROUP), [port]);
        net.wait_s(3);
        assert_eq!(receivers(&mut net, sender, GROUP), []);
    }
}

#[test]
fn a_leave_causes_two_queries_for_the_group_at_that_port() {
    for group in [GROUP, GROUP_V6] {
        let mut net = started(&config());
        let port = at(2, 3);
        join_group(&mut net, port, group);
        net.send(port, &leave(port, group, 0));
        let asked = |frames: &[(_, Vec<u8>)]| -> Vec<_> {
            let asked = frames.iter().filter_map(|(at, frame)| Some((*at, asked_for(frame)?)));
            asked.filter(|(_, (group, _))| group.is_multicast()).collect()
        };
        let expected = [(port, (group.parse().unwrap(), 0))];
        let now = net.delivered.clone();
        assert_eq!(asked(&now), expected);
        assert_eq!(asked(&net.wait_s(10)), expected);
        net.send(port, &leave(port, group, 0));
        assert_eq!(asked(&net.delivered), [], "no member any more");
    }
}

#[test]
fn after_a_start_nothing_is_filtered_until_hosts_had_time_to_answer() {
    let (mut net, sender) = (TestNetwork::new(&strict(), 2, 2), at(1, 1));
    net.wait_s(11);
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender));
    join_group(&mut net, at(2, 3), GROUP);
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender));
    net.wait_s(3);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3)]);
}

#[test]
fn a_change_of_the_configuration_applies_at_once() {
    let off = Config { multicast: None, ..config() };
    let (mut net, sender) = (started(&off), at(1, 1));
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender));
    net.configure(&strict());
    net.wait_s(5);
    join_group(&mut net, at(2, 3), GROUP);
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender), "not queried yet");
    net.wait_s(10);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3)]);
    net.configure(&off);
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender));
    net.wait_s(1);
    assert_eq!(net.metric("forwarding_multicast_members"), 0);
    net.configure(&config());
    net.wait_s(5);
    assert_eq!(
        receivers(&mut net, sender, GROUP),
        all_but(&net, sender),
        "everything is forgotten"
    );
}

#[test]
fn a_shorter_membership_time_shortens_the_interval_of_queries() {
    let membership = Duration::from_secs(30);
    let multicast = multicast::Config { membership, ..multicast::Config::default() };
    let mut net = started(&Config { multicast: Some(multicast), ..config() });
    let frames = net.wait_s(100);
    assert_eq!(general(&frames, "0.0.0.0"), 10 * net.edges().len());
    join_group(&mut net, at(1, 4), GROUP);
    join_group(&mut net, at(2, 3), GROUP);
    net.wait_s(20);
    join_group(&mut net, at(1, 4), GROUP);
    net.wait_s(11);
    assert_eq!(receivers(&mut net, at(1, 1), GROUP), [at(1, 4)]);
}

/// A cable between two edge ports that is not known yet returns them.
#[test]
fn own_queries_that_come_back_change_nothing() {
    let mut net = TestNetwork::new(&config(), 1, 1);
    let frames = net.wait_s(1);
    for (at, frame) in &frames {
        assert_eq!(net.send(crate::multicast::test_network::at(1, 5 - at.port.0), frame), []);
    }
    assert_eq!(net.metric("forwarding_multicast_router_ports"), 0);
}

#[test]
fn queries_go_to_vlans_with_multicasts() {
    let mut net = started(&config());
    net.wait_s(31);
    let from = at(1, 1);
    net.send(from, &udp(from, GROUP, 5, "first"));
    let vlans: Vec<_> = net.wait_s(1).iter().filter_map(|(_, frame)| asked_for(frame)).collect();
    assert_eq!(vlans.len(), 2 * net.edges().len());
    assert!(vlans.iter().all(|&(_, vlan)| vlan == 5));
    net.wait_s(600);
    let frames = net.wait_s(130);
    assert!(frames.iter().filter_map(|(_, frame)| asked_for(frame)).all(|(_, vlan)| vlan == 0));
    net.send(from, &join(from, GROUP, 5));
    assert!(net.wait_s(1).iter().any(|(_, frame)| asked_for(frame).unwrap().1 == 5));
}

/// Such as a virtual machine, whose old and new port stay up.
#[test]
fn a_port_at_which_a_host_appears_is_queried_soon_but_not_often() {
    let mut net = started(&config());
    let (router, port) = (at(1, 4), at(2, 3));
    net.send(router, &query(router, "10.0.0.9", 0));
    net.wait_s(50);
    let mut count = 0;
    for n in 0..100 {
        let id = HostId { mac: MacAddr([2, 9, 9, 9, 9, n]), vlan: VlanId(0) };
        net.publish(Fact::Host(id, Some(Host { at: port, addrs: vec![] })));
        let frames = net.wait(Duration::from_millis(250));
        assert!(frames.iter().all(|&(to, _)| to == port), "{frames:?}");
        count += general(&frames, "0.0.0.0");
        assert!(n > 0 || count == 1, "at once");
    }
    assert_eq!(count, 3, "in 25 s");
    assert_eq!(general(&net.wait_s(60), "0.0.0.0"), 1, "one is left");
}

/// Otherwise all members behind a stalled control link would be forgotten, though nobody has asked them.
#[test]
fn members_do_not_expire_while_queries_cannot_be_sent() {
    let (mut net, sender, member) = (started(&strict()), at(1, 1), at(2, 3));
    join_group(&mut net, member, GROUP);
    net.without_room = Some(2);
    net.send(member, &leave(member, GROUP, 0));
    net.wait_s(600);
    assert_eq!(receivers(&mut net, sender, GROUP), [member]);
    net.without_room = None;
    let sent = net.wait_s(1);
    assert!(sent.iter().any(|(to, _)| *to == member), "it is asked now");
    join_group(&mut net, member, GROUP);
    net.wait_s(250);
    assert_eq!(receivers(&mut net, sender, GROUP), [member]);
    net.wait_s(20);
    assert_eq!(receivers(&mut net, sender, GROUP), [], "it was asked and did not answer");
}
