//! Which hosts are learned, where, and with which addresses.

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;
use sluice_testkit::switch_port;

use crate::hosts::frames::{advertise, dhcp, ip, is_at, mac, plain, solicit, tagged, udp, who_has};
use crate::hosts::test_network::{in_all_versions, port_addr};

#[test]
fn a_host_is_learned_at_the_port_where_its_packets_arrive() {
    in_all_versions(&Config::default(), |net| {
        assert_eq!(net.receive(switch_port(1, 1), &plain(mac('a'), mac('b'))), Verdict::Continue);
        assert_eq!(
            net.receive_buffered(switch_port(2, 3), &tagged(&plain(mac('a'), mac('b')), 5)),
            Verdict::Continue
        );
        assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)));
        assert_eq!(
            net.host(mac('a'), 5).unwrap().at,
            switch_port(2, 3),
            "another VLAN, another host"
        );
        assert_eq!(net.location(mac('b')), None);
        assert_eq!(net.metric("hosts"), 2);
        assert!(
            net.take_sent().is_empty()
                && net.take_released().is_empty()
                && net.take_log().is_empty()
        );
    });
}

#[test]
fn hosts_are_learned_only_at_edge_ports_and_designated_ports() {
    in_all_versions(&Config::default(), |net| {
        net.set_role(switch_port(1, 2), PortRole::Link);
        net.set_role(switch_port(1, 3), PortRole::Pending);
        net.set_role(switch_port(1, 4), PortRole::SharedSegment(switch_port(2, 4)));
        net.set_role(switch_port(2, 4), PortRole::SharedSegment(switch_port(2, 4)));
        for port in [2, 3, 4, 99] {
            assert_eq!(
                net.receive(switch_port(1, port), &plain(mac('a'), mac('b'))),
                Verdict::Continue
            );
            assert_eq!(net.location(mac('a')), None, "at {port}");
        }
        net.receive(switch_port(2, 4), &plain(mac('a'), mac('b')));
        assert_eq!(net.location(mac('a')), Some(switch_port(2, 4)), "the designated port");
        net.receive(switch_port(1, 2), &plain(mac('a'), mac('b')));
        assert_eq!(
            net.location(mac('a')),
            Some(switch_port(2, 4)),
            "in transit through the network"
        );
    });
}

#[test]
fn group_addresses_and_addresses_of_switch_ports_are_not_learned() {
    in_all_versions(&Config::default(), |net| {
        let group = MacAddr([3, 0, 0, 0, 0, 1]);
        let other_port = port_addr(2, 3);
        for src in [group, MacAddr::default(), MacAddr::BROADCAST, other_port] {
            net.receive(switch_port(1, 1), &plain(src, mac('b')));
            assert_eq!(net.location(src), None, "{src}");
        }
        let log = net.take_log();
        assert_eq!(log.len(), 1);
        assert!(log[0].contains("it has the MAC address of a switch port"), "{log:?}");
        // The port of a host that is also a switch.
        net.receive(switch_port(1, 1), &plain(port_addr(1, 1), mac('b')));
        assert_eq!(net.location(port_addr(1, 1)), Some(switch_port(1, 1)));
    });
}

#[test]
fn addresses_are_learned_from_arp_neighbor_discovery_and_dhcp() {
    in_all_versions(&Config::default(), |net| {
        let at = switch_port(1, 1);
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        net.receive_buffered(at, &solicit(mac('a'), "fe80::1", "fe80::9"));
        net.receive(at, &advertise(mac('a'), "2001:db8::1"));
        net.receive(switch_port(2, 2), &is_at(mac('b'), "10.0.0.2", (mac('a'), "10.0.0.1")));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1", "2001:db8::1"]);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        // The server is at another port. An offer is not a lease.
        net.receive(switch_port(2, 1), &dhcp(mac('s'), mac('a'), "10.0.0.77", 2));
        assert!(!net.addrs(mac('a')).contains(&"10.0.0.77".to_owned()));
        net.receive(switch_port(2, 1), &dhcp(mac('s'), mac('a'), "10.0.0.77", 5));
        assert!(net.addrs(mac('a')).contains(&"10.0.0.77".to_owned()));
        assert_eq!(net.metric("hosts_addresses"), 6);
        for worker in &net.workers {
            let owner =
                worker.network.view().host_by_addr(ip("10.0.0.77"), sluice_openflow::VlanId(0));
            assert_eq!(owner.unwrap().0.mac, mac('a'));
        }
    });
}

#[test]
fn the_target_of_a_request_is_not_learned_as_an_address_of_the_sender() {
    in_all_versions(&Config::default(), |net| {
        // Probes before an address is used: RFC 5227 and RFC 4862.
        net.receive(switch_port(1, 1), &who_has(mac('a'), "0.0.0.0", "10.0.0.1"));
        net.receive(switch_port(1, 1), &solicit(mac('a'), "::", "fe80::1"));
        // A request about another host.
        let mut proxy = who_has(mac('b'), "10.0.0.1", "10.0.0.9");
        proxy[6..12].copy_from_slice(&mac('a').0);
        net.receive(switch_port(1, 1), &proxy);
        assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)));
        assert!(net.addrs(mac('a')).is_empty());
    });
}

#[test]
fn the_source_address_of_a_packet_is_learned_until_arp_states_another() {
    in_all_versions(&Config::default(), |net| {
        let at = switch_port(1, 1);
        net.receive(at, &udp(mac('a'), "10.0.0.1", 63));
        assert!(net.addrs(mac('a')).is_empty(), "forwarded by a router");
        net.receive(at, &udp(mac('a'), "10.0.0.1", 64));
        net.receive(at, &udp(mac('a'), "fe80::1", 255));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1"]);
        net.receive(at, &udp(mac('a'), "8.8.8.8", 64));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1"]);
        net.receive(at, &who_has(mac('a'), "10.0.0.3", "10.0.0.9"));
        assert_eq!(
            net.addrs(mac('a')),
            ["fe80::1", "10.0.0.3"],
            "the stated address replaces the observed one"
        );
        net.receive(switch_port(2, 1), &udp(mac('b'), "10.0.0.3", 64));
        assert!(net.addrs(mac('b')).is_empty(), "another host has it");
    });
}

#[test]
fn hosts_beyond_a_limit_are_not_learned_and_logged() {
    let cfg = Config { hosts_max: 4, per_port_max: 2, ..Config::default() };
    in_all_versions(&cfg, |net| {
        let hosts = [(1, 'a', "10.0.0.1"), (1, 'b', "10.0.0.2"), (2, 'd', "10.0.0.4")];
        let hosts = hosts.map(|(port, letter, addr)| (switch_port(1, port), mac(letter), addr));
        net.learn_and_confirm(&hosts);
        for (port, letter) in [(1, 'c'), (3, 'e'), (3, 'f'), (4, 'g')] {
            assert_eq!(
                net.receive(switch_port(1, port), &plain(mac(letter), mac('z'))),
                Verdict::Continue
            );
        }
        let known: Vec<_> =
            ('a'..='g').filter(|&letter| net.location(mac(letter)).is_some()).collect();
        assert_eq!(known, ['a', 'b', 'd', 'e']);
        assert_eq!(net.metric("hosts_not_learned_port_full"), 1);
        assert_eq!(net.metric("hosts_not_learned_table_full"), 2);
        let log = net.take_log();
        assert_eq!(log.len(), 2, "each kind once: {log:?}");
        for key in ["hosts.per_port_max", "hosts.hosts_max"] {
            assert!(log.iter().any(|line| line.contains(key)), "{log:?}");
        }
    });
}

#[test]
fn hosts_are_removed_when_their_port_goes_down_or_becomes_a_link() {
    in_all_versions(&Config::default(), |net| {
        for letter in ['a', 'b', 'c', 'd'] {
            net.receive(switch_port(1, u32::from(letter) - 96), &plain(mac(letter), mac('z')));
        }
        net.port_down(switch_port(1, 1));
        net.delete_port(switch_port(1, 2));
        net.set_role(switch_port(1, 3), PortRole::Link);
        let known: Vec<_> =
            ('a'..='d').filter(|&letter| net.location(mac(letter)).is_some()).collect();
        assert_eq!(known, ['d']);
        net.set_role(switch_port(1, 4), PortRole::Pending);
        assert_eq!(
            net.location(mac('d')),
            Some(switch_port(1, 4)),
            "it may become an edge port again"
        );
        assert_eq!(net.metric("hosts"), 1);
    });
}

#[test]
fn hosts_of_a_disconnected_switch_are_kept_for_the_timeout() {
    in_all_versions(&Config::default(), |net| {
        net.receive(switch_port(1, 1), &plain(mac('a'), mac('z')));
        net.receive(switch_port(1, 2), &plain(mac('b'), mac('z')));
        net.disconnect_switch(1);
        net.wait_ms(100_000);
        assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)));
        assert_eq!(net.metric("hosts"), 0, "no worker serves the switch");
        net.receive(switch_port(2, 2), &plain(mac('b'), mac('z')));
        assert_eq!(
            net.location(mac('b')),
            Some(switch_port(2, 2)),
            "it may appear at another switch"
        );
        net.connect_switch(1);
        assert_eq!(net.metric("hosts"), 2);
        net.wait_ms(298_000);
        net.receive(switch_port(2, 2), &plain(mac('b'), mac('z')));
        assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)));
        net.wait_ms(10_000);
        assert_eq!(net.location(mac('a')), None, "it was not seen again");
        net.disconnect_switch(2);
        net.wait_ms(301_000);
        assert_eq!(net.location(mac('b')), None, "the switch did not reconnect");
    });
}
