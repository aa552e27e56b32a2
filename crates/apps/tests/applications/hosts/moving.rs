//! Hosts that move to another port.

use sluice_apps::hosts::{Config, ConflictPolicy};
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;
use sluice_testkit::switch_port;

use crate::hosts::frames::{mac, plain, who_has};
use crate::hosts::test_network::in_all_versions;

#[test]
fn a_host_that_is_seen_at_another_port_has_moved_with_its_addresses() {
    in_all_versions(&Config::default(), |net| {
        net.receive(switch_port(1, 1), &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for at in [switch_port(1, 2), switch_port(2, 2), switch_port(1, 1)] {
            net.wait_ms(1000);
            net.receive(at, &plain(mac('a'), mac('b')));
            net.wait_ms(250);
            assert_eq!(net.receive(at, &plain(mac('a'), mac('b'))), Verdict::Continue);
            assert_eq!(net.location(mac('a')), Some(at));
            assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
            assert_eq!(net.metric("hosts"), 1);
        }
        assert_eq!(net.metric("hosts_moved"), 3);
        assert!(net.take_log().is_empty(), "no host answered at the old port");
    });
}

#[test]
fn a_host_that_moves_too_often_is_kept_at_its_port_for_10_s() {
    let cfg =
        Config { moves_per_s_max: 4, address_conflicts: ConflictPolicy::Off, ..Config::default() };
    in_all_versions(&cfg, |net| {
        // Both ports belong to one worker, which counts all moves.
        let ports = [switch_port(1, 1), switch_port(1, 2)];
        net.receive(ports[0], &plain(mac('a'), mac('b')));
        for n in 1..20 {
            assert_eq!(net.receive(ports[n % 2], &plain(mac('a'), mac('b'))), Verdict::Continue);
        }
        assert_eq!((net.metric("hosts_moved"), net.metric("hosts_moves_ignored")), (4, 8));
        assert_eq!(net.location(mac('a')), Some(ports[0]));
        let log = net.take_log();
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(log[0].starts_with("host moves too often"), "{log:?}");
        net.wait_ms(9_000);
        net.receive(ports[1], &plain(mac('a'), mac('b')));
        assert_eq!(net.location(mac('a')), Some(ports[0]), "still");
        net.wait_ms(1_500);
        net.receive(ports[1], &plain(mac('a'), mac('b')));
        assert_eq!(net.location(mac('a')), Some(ports[1]));
    });
}

#[test]
fn moves_between_switches_of_two_workers_are_limited_as_well() {
    let cfg =
        Config { moves_per_s_max: 4, address_conflicts: ConflictPolicy::Off, ..Config::default() };
    in_all_versions(&cfg, |net| {
        for n in 0..100 {
            net.receive(switch_port(n % 2 + 1, 1), &plain(mac('a'), mac('b')));
            assert!(net.location(mac('a')).is_some(), "all workers agree");
        }
        let moved = net.metric("hosts_moved");
        assert!(moved <= 4 * net.workers.len() as u64, "{moved}");
    });
}

#[test]
fn a_host_that_moves_less_often_is_not_kept_at_its_port() {
    let cfg = Config { moves_per_s_max: 1, ..Config::default() };
    in_all_versions(&cfg, |net| {
        for n in 0..20 {
            let at = switch_port(1, n % 2 + 1);
            net.receive(at, &plain(mac('a'), mac('b')));
            net.wait_ms(1250);
            assert_eq!(net.location(mac('a')), Some(at));
        }
    });
}

#[test]
fn a_host_does_not_move_to_a_port_where_it_cannot_be_learned() {
    let cfg = Config { per_port_max: 1, ..Config::default() };
    in_all_versions(&cfg, |net| {
        net.set_role(switch_port(2, 1), PortRole::Link);
        net.set_role(switch_port(2, 2), PortRole::Pending);
        let ports = [switch_port(1, 1), switch_port(2, 3)];
        net.learn_and_confirm(&[
            (ports[0], mac('a'), "10.0.0.1"),
            (ports[1], mac('b'), "10.0.0.2"),
        ]);
        for port in 1..=3 {
            net.receive(switch_port(2, port), &plain(mac('a'), mac('z')));
            assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)), "not to port {port}");
        }
        assert_eq!(net.metric("hosts_not_learned_port_full"), 1);
    });
}

/// Two hubs that were connected are separated. The hosts behind the second are known at the port of the first.
#[test]
fn silent_hosts_of_a_separated_segment_are_asked_at_its_other_ports() {
    in_all_versions(&Config::default(), |net| {
        let [first, second] = [switch_port(1, 2), switch_port(2, 2)];
        let segment = PortRole::SharedSegment(first);
        net.set_role(first, segment);
        net.set_role(second, segment);
        for (name, addr) in [('a', "10.0.0.1"), ('b', "10.0.0.2")] {
            net.receive(first, &who_has(mac(name), addr, "10.0.0.9"));
        }
        net.receive(first, &plain(mac('c'), mac('a')));
        net.take_sent();
        for at in [first, second] {
            net.set_role(at, PortRole::Pending);
        }
        net.wait_ms(500);
        assert!(net.take_sent().is_empty());
        for at in [first, second] {
            net.set_role(at, PortRole::Edge);
        }
        net.wait_ms(250);
        assert_eq!(net.answer_ageing_probes(second, &[mac('b')]), 1);
        net.wait_ms(250);
        assert_eq!(net.location(mac('b')), Some(second));
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        assert_eq!(net.location(mac('a')), Some(first));
        net.wait_ms(1_000);
        net.take_sent();
        net.wait_ms(10_000);
        assert!(net.take_sent().is_empty(), "hosts are asked twice only");
    });
}

#[test]
fn the_hosts_of_a_separated_segment_are_asked_in_parts() {
    in_all_versions(&Config::default(), |net| {
        let [first, second] = [switch_port(1, 2), switch_port(2, 2)];
        net.set_role(first, PortRole::SharedSegment(first));
        net.set_role(second, PortRole::SharedSegment(first));
        for n in 0..200 {
            let src = sluice_openflow::MacAddr::from_u64(0x0200_0000_1000 + n);
            net.receive(first, &who_has(src, &format!("10.0.1.{n}"), "10.0.0.9"));
        }
        net.take_sent();
        net.set_role(second, PortRole::Edge);
        let mut asked = 0;
        for _ in 0..20 {
            net.wait_ms(250);
            let sent = net.take_sent().len();
            assert!(sent <= 32, "{sent}");
            asked += sent;
        }
        assert_eq!(asked, 400, "each host twice");
    });
}
