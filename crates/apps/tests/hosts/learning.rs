//! Who is learnt, where, and with which addresses.

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;

use crate::frames::{advertise, dhcp, ip, is_at, mac, plain, solicit, tagged, udp, who_has};
use crate::net::{each, place, port_addr};

#[test]
fn a_host_is_learnt_where_its_frames_come_in() {
    each(&Config::default(), |net| {
        assert_eq!(net.frame(place(1, 1), &plain(mac('a'), mac('b'))), Verdict::Continue);
        assert_eq!(
            net.kept(place(2, 3), &tagged(&plain(mac('a'), mac('b')), 5)),
            Verdict::Continue
        );
        assert_eq!(net.at(mac('a')), Some(place(1, 1)));
        assert_eq!(net.host(mac('a'), 5).unwrap().at, place(2, 3), "another VLAN, another host");
        assert_eq!(net.at(mac('b')), None);
        assert_eq!(net.gauge("hosts"), 2);
        assert!(net.sent().is_empty() && net.released().is_empty() && net.reports().is_empty());
    });
}

#[test]
fn nobody_is_learnt_between_switches() {
    each(&Config::default(), |net| {
        net.role(place(1, 2), PortRole::Link);
        net.role(place(1, 3), PortRole::Pending);
        net.role(place(1, 4), PortRole::SharedSegment(place(2, 4)));
        net.role(place(2, 4), PortRole::SharedSegment(place(2, 4)));
        for port in [2, 3, 4, 99] {
            assert_eq!(net.frame(place(1, port), &plain(mac('a'), mac('b'))), Verdict::Continue);
            assert_eq!(net.at(mac('a')), None, "at {port}");
        }
        net.frame(place(2, 4), &plain(mac('a'), mac('b')));
        assert_eq!(net.at(mac('a')), Some(place(2, 4)), "the port that speaks for all");
        net.frame(place(1, 2), &plain(mac('a'), mac('b')));
        assert_eq!(net.at(mac('a')), Some(place(2, 4)), "on its way through the network");
    });
}

#[test]
fn addresses_that_no_host_has_are_not_learnt() {
    each(&Config::default(), |net| {
        let group = MacAddr([3, 0, 0, 0, 0, 1]);
        let other_port = port_addr(2, 3);
        for src in [group, MacAddr::default(), MacAddr::BROADCAST, other_port] {
            net.frame(place(1, 1), &plain(src, mac('b')));
            assert_eq!(net.at(src), None, "{src}");
        }
        let refused = net.reports();
        assert_eq!(refused.len(), 1);
        assert!(refused[0].contains("is the address of a port"), "{refused:?}");
        // A port of the switch itself, behind which something speaks.
        net.frame(place(1, 1), &plain(port_addr(1, 1), mac('b')));
        assert_eq!(net.at(port_addr(1, 1)), Some(place(1, 1)));
    });
}

#[test]
fn addresses_come_from_arp_neighbour_discovery_and_dhcp() {
    each(&Config::default(), |net| {
        let at = place(1, 1);
        net.frame(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        net.kept(at, &solicit(mac('a'), "fe80::1", "fe80::9"));
        net.frame(at, &advertise(mac('a'), "2001:db8::1"));
        net.frame(place(2, 2), &is_at(mac('b'), "10.0.0.2", (mac('a'), "10.0.0.1")));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1", "2001:db8::1"]);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        // The server is elsewhere. An offer is no address yet.
        net.frame(place(2, 1), &dhcp(mac('s'), mac('a'), "10.0.0.77", 2));
        assert!(!net.addrs(mac('a')).contains(&"10.0.0.77".to_owned()));
        net.frame(place(2, 1), &dhcp(mac('s'), mac('a'), "10.0.0.77", 5));
        assert!(net.addrs(mac('a')).contains(&"10.0.0.77".to_owned()));
        assert_eq!(net.gauge("hosts_addresses"), 6);
        for worker in &net.workers {
            let owner =
                worker.network.view().host_by_addr(ip("10.0.0.77"), sluice_openflow::VlanId(0));
            assert_eq!(owner.unwrap().0.mac, mac('a'));
        }
    });
}

#[test]
fn nobody_has_an_address_who_only_asks_for_it() {
    each(&Config::default(), |net| {
        // Probes before an address is used, RFC 5227 and RFC 4862.
        net.frame(place(1, 1), &who_has(mac('a'), "0.0.0.0", "10.0.0.1"));
        net.frame(place(1, 1), &solicit(mac('a'), "::", "fe80::1"));
        // What says so for another.
        let mut proxy = who_has(mac('b'), "10.0.0.1", "10.0.0.9");
        proxy[6..12].copy_from_slice(&mac('a').0);
        net.frame(place(1, 1), &proxy);
        assert_eq!(net.at(mac('a')), Some(place(1, 1)));
        assert!(net.addrs(mac('a')).is_empty());
    });
}

#[test]
fn the_source_of_a_packet_is_believed_until_something_better_is_heard() {
    each(&Config::default(), |net| {
        let at = place(1, 1);
        net.frame(at, &udp(mac('a'), "10.0.0.1", 63));
        assert!(net.addrs(mac('a')).is_empty(), "a router has forwarded it");
        net.frame(at, &udp(mac('a'), "10.0.0.1", 64));
        net.frame(at, &udp(mac('a'), "fe80::1", 255));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1"]);
        net.frame(at, &udp(mac('a'), "8.8.8.8", 64));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1"]);
        net.frame(at, &who_has(mac('a'), "10.0.0.3", "10.0.0.9"));
        assert_eq!(net.addrs(mac('a')), ["fe80::1", "10.0.0.3"], "it was a guess");
        net.frame(place(2, 1), &udp(mac('b'), "10.0.0.3", 64));
        assert!(net.addrs(mac('b')).is_empty(), "somebody has it");
    });
}

#[test]
fn what_is_too_much_is_refused_and_reported() {
    let cfg = Config { hosts_max: 3, per_port_max: 2, addrs_max: 2, ..Config::default() };
    each(&cfg, |net| {
        for (port, letter) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (3, 'f')] {
            assert_eq!(net.frame(place(1, port), &plain(mac(letter), mac('z'))), Verdict::Continue);
        }
        let known: Vec<_> = ('a'..='f').filter(|&letter| net.at(mac(letter)).is_some()).collect();
        assert_eq!(known, ['a', 'b', 'd']);
        for n in 1..5 {
            net.frame(place(1, 1), &who_has(mac('a'), &format!("10.0.0.{n}"), "10.0.0.9"));
        }
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(net.gauge("hosts_refused_port_full"), 1);
        assert_eq!(net.gauge("hosts_refused_full"), 2);
        assert_eq!(net.gauge("hosts_refused_addresses"), 2);
        let reports = net.reports();
        assert_eq!(reports.len(), 3, "each kind once: {reports:?}");
        for key in ["hosts.per_port_max", "hosts.hosts_max", "addresses, the limit"] {
            assert!(reports.iter().any(|report| report.contains(key)), "{reports:?}");
        }
    });
}

#[test]
fn hosts_at_a_port_that_goes_are_forgotten_at_once() {
    each(&Config::default(), |net| {
        for letter in ['a', 'b', 'c', 'd'] {
            net.frame(place(1, u32::from(letter) - 96), &plain(mac(letter), mac('z')));
        }
        net.port_down(place(1, 1));
        net.port_gone(place(1, 2));
        net.role(place(1, 3), PortRole::Link);
        let known: Vec<_> = ('a'..='d').filter(|&letter| net.at(mac(letter)).is_some()).collect();
        assert_eq!(known, ['d']);
        net.role(place(1, 4), PortRole::Pending);
        assert_eq!(net.at(mac('d')), Some(place(1, 4)), "it may lead to hosts again");
        assert_eq!(net.gauge("hosts"), 1);
    });
}

#[test]
fn hosts_at_a_switch_that_is_gone_are_kept_for_a_while() {
    each(&Config::default(), |net| {
        net.frame(place(1, 1), &plain(mac('a'), mac('z')));
        net.frame(place(1, 2), &plain(mac('b'), mac('z')));
        net.down(1);
        net.wait_ms(100_000);
        assert_eq!(net.at(mac('a')), Some(place(1, 1)));
        assert_eq!(net.gauge("hosts"), 0, "but nobody looks after them");
        net.frame(place(2, 2), &plain(mac('b'), mac('z')));
        assert_eq!(net.at(mac('b')), Some(place(2, 2)), "they may appear elsewhere");
        net.up(1);
        assert_eq!(net.gauge("hosts"), 2);
        net.wait_ms(298_000);
        net.frame(place(2, 2), &plain(mac('b'), mac('z')));
        assert_eq!(net.at(mac('a')), Some(place(1, 1)));
        net.wait_ms(10_000);
        assert_eq!(net.at(mac('a')), None, "it was not heard again");
        net.down(2);
        net.wait_ms(301_000);
        assert_eq!(net.at(mac('b')), None, "the switch did not come again");
    });
}
