//! Which hosts make room for new ones at a full port and in a full table.

use sluice_apps::hosts::Config;
use sluice_openflow::{MacAddr, Version};
use sluice_sdk::App;
use sluice_sdk::view::SwitchPort;
use sluice_testkit::switch_port;

use crate::hosts::frames::{mac, plain, who_has};
use crate::hosts::test_network::{TestNetwork, in_all_versions};

fn made_up(n: u32) -> MacAddr {
    MacAddr::from_u64(0x0200_0100_0000 + u64::from(n))
}

fn addr(n: u32) -> String {
    format!("10.{}.{}.{}", 1 + (n >> 16), n >> 8 & 0xff, n & 0xff)
}

/// ARP requests from `count` made-up hosts, of which `per_ms` arrive within a millisecond.
fn flood(net: &mut TestNetwork, at: SwitchPort, count: u32, per_ms: u32) {
    for n in 0..count {
        net.receive(at, &who_has(made_up(n), &addr(n), "10.0.0.9"));
        if n % per_ms == 0 {
            net.tick(1);
        }
    }
}

fn unlimited() -> Config {
    Config { requests_per_s_max: u32::MAX, ..Config::default() }
}

#[test]
fn at_a_full_port_a_new_host_replaces_one_that_does_not_answer() {
    in_all_versions(&Config { per_port_max: 2, ..Config::default() }, |net| {
        let at = switch_port(1, 1);
        net.receive(switch_port(1, 2), &who_has(mac('z'), "10.0.0.26", "10.0.0.9"));
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        net.receive(at, &who_has(mac('b'), "10.0.0.2", "10.0.0.9"));
        net.wait_ms(1000);
        assert!(net.take_sent().is_empty());
        for _ in 0..3 {
            net.receive(at, &plain(mac('c'), mac('z')));
            assert_eq!(net.location(mac('c')), None, "the others can still answer");
            net.answer_ageing_probes(at, &[mac('a')]);
            net.wait_between_ticks(49);
        }
        net.wait_between_ticks(10);
        net.receive(at, &plain(mac('c'), mac('z')));
        assert_eq!(net.location(mac('c')), Some(at));
        assert_eq!((net.location(mac('a')), net.location(mac('b'))), (Some(at), None));
        assert_eq!(net.location(mac('z')), Some(switch_port(1, 2)), "another port");
        assert_eq!((net.metric("hosts_evicted"), net.metric("hosts")), (1, 3));
    });
}

#[test]
fn hosts_that_answered_are_not_replaced() {
    in_all_versions(&Config { per_port_max: 2, ..Config::default() }, |net| {
        let at = switch_port(2, 1);
        net.learn_and_confirm(&[(at, mac('a'), "10.0.0.1"), (at, mac('b'), "10.0.0.2")]);
        net.wait_ms(60_000);
        for _ in 0..100 {
            net.receive(at, &plain(mac('c'), mac('z')));
            net.wait_ms(100);
        }
        assert_eq!(net.location(mac('c')), None);
        assert_eq!((net.location(mac('a')), net.location(mac('b'))), (Some(at), Some(at)));
        assert_eq!(net.metric("hosts_not_learned_port_full"), 100);
        assert!(net.take_log().iter().any(|line| line.contains("hosts.per_port_max = 2")));
    });
}

/// Otherwise they could be confirmed without reading what the controller sends.
#[test]
fn answers_that_were_not_asked_for_confirm_nothing() {
    in_all_versions(&Config { per_port_max: 1, ..Config::default() }, |net| {
        let at = switch_port(1, 1);
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..3 {
            net.receive_ageing_answer(at, mac('a'), "10.0.0.1");
        }
        for _ in 0..3 {
            net.receive(at, &plain(mac('b'), mac('z')));
            net.wait_between_ticks(50);
        }
        assert_eq!((net.location(mac('a')), net.location(mac('b'))), (None, Some(at)));
    });
}

/// The made-up hosts send ARP requests, so that they have to be probed before they are evicted.
#[test]
fn during_a_flood_of_made_up_hosts_others_stay_and_new_ones_are_learned() {
    in_all_versions(&unlimited(), |net| {
        let (at, other) = (switch_port(1, 1), switch_port(1, 2));
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        net.receive(other, &who_has(mac('b'), "10.0.0.2", "10.0.0.9"));
        net.receive(switch_port(2, 1), &plain(mac('c'), mac('z')));
        for n in 0..20_000 {
            net.receive(at, &who_has(made_up(n), &addr(n), "10.0.0.9"));
            if n % 10 == 0 {
                net.answer_ageing_probes(at, &[mac('a')]);
                net.tick(1);
            }
            // New hosts at the flooded port and at others.
            if n >= 5000 && n % 5000 == 1000 {
                let (here, there) = (made_up(1 << 20 | n), made_up(1 << 21 | n));
                net.receive(switch_port(2, 5), &plain(there, mac('z')));
                assert_eq!(net.location(there), Some(switch_port(2, 5)), "at once");
                net.receive(at, &plain(here, mac('z')));
                net.receive(at, &plain(here, mac('z')));
                assert_eq!(net.location(here), Some(at), "with its second packet");
            }
        }
        assert_eq!(net.location(mac('a')), Some(at), "it answers");
        assert_eq!(net.location(mac('b')), Some(other));
        assert_eq!(net.location(mac('c')), Some(switch_port(2, 1)));
        assert!(net.workers[0].network.view().hosts_at(at).count() <= 1024);
        let evicted = net.metric("hosts_evicted");
        assert!((100..1024).contains(&evicted), "{evicted}");
        let removed = net.workers[0].network.view().host_entry_count();
        assert!(removed < 4096, "{removed}");
    });
}

#[test]
fn evictions_are_logged_once_a_minute_for_each_port() {
    let mut net = TestNetwork::new(Version::V1_3, 1, &unlimited());
    for at in [switch_port(1, 1), switch_port(1, 2)] {
        flood(&mut net, at, 5000, 10);
        let log = net.take_log();
        let lines: Vec<_> = log.iter().filter(|line| line.contains("are evicted")).collect();
        let port = format!("dpid=0000000000000001 port={}", at.port);
        assert!(lines.len() == 1 && lines[0].ends_with(&port), "{log:?}");
    }
    net.wait_ms(61_000);
    let log = net.take_log();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("evicted in a minute")).collect();
    assert_eq!(lines.len(), 2, "{log:?}");
    net.wait_ms(200_000);
    assert!(net.take_log().is_empty());
}

#[test]
fn made_up_hosts_are_removed_soon_after_a_flood_and_others_stay() {
    in_all_versions(&unlimited(), |net| {
        let (at, other) = (switch_port(1, 1), switch_port(2, 1));
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        net.receive(other, &plain(mac('b'), mac('z')));
        flood(net, at, 1000, 10);
        assert_eq!(net.metric("hosts"), 1002);
        for _ in 0..400 {
            net.answer_ageing_probes(at, &[mac('a')]);
            net.tick(100);
        }
        assert_eq!(net.metric("hosts"), 2);
        assert_eq!((net.location(mac('a')), net.location(mac('b'))), (Some(at), Some(other)));
        net.wait_ms(200_000);
        assert!(net.take_sent().is_empty(), "they are not probed earlier than others");
        assert_eq!(net.location(mac('a')), Some(at));
    });
}

#[test]
fn in_a_full_table_hosts_of_the_port_with_most_unconfirmed_ones_are_replaced() {
    let cfg = Config { hosts_max: 640, per_port_max: 400, ..unlimited() };
    in_all_versions(&cfg, |net| {
        let (first, second, quiet) = (switch_port(1, 1), switch_port(2, 1), switch_port(2, 2));
        for n in 0..100 {
            net.receive(quiet, &plain(made_up(1 << 20 | n), mac('z')));
        }
        for n in 0..400 {
            net.receive(first, &plain(made_up(n), mac('z')));
            net.receive(second, &plain(made_up(1 << 16 | n), mac('z')));
        }
        assert_eq!(net.workers[0].network.view().host_count(), 640);
        assert!(net.metric("hosts_not_learned_table_full") > 0);
        net.wait_ms(1000);
        assert!(net.workers[0].network.view().host_count() < 640);
        for n in 0..5 {
            let at = switch_port(1, 3);
            net.receive(at, &plain(made_up(1 << 21 | n), mac('z')));
            assert_eq!(net.location(made_up(1 << 21 | n)), Some(at));
        }
        net.wait_ms(5000);
        for n in 0..100 {
            assert_eq!(net.location(made_up(1 << 20 | n)), Some(quiet), "who causes it pays");
        }
    });
}

/// Its worker has no switch any more, and evicts nothing.
#[test]
fn a_switch_that_disconnects_from_a_full_table_does_not_stop_evictions_elsewhere() {
    let cfg = Config { hosts_max: 640, per_port_max: 400, ..unlimited() };
    in_all_versions(&cfg, |net| {
        for n in 0..400 {
            net.receive(switch_port(1, 1), &plain(made_up(n), mac('z')));
        }
        for n in 0..300 {
            net.receive(switch_port(2, 1), &plain(made_up(1 << 16 | n), mac('z')));
        }
        // Its worker publishes its fullest port.
        net.call_app(1, App::on_tick);
        net.disconnect_switch(1);
        for n in 0..50 {
            net.receive(switch_port(2, 2), &plain(made_up(1 << 17 | n), mac('z')));
        }
        net.wait_ms(1000);
        assert!(net.workers[0].network.view().host_count() < 640);
        net.receive(switch_port(2, 3), &plain(mac('a'), mac('z')));
        assert_eq!(net.location(mac('a')), Some(switch_port(2, 3)));
    });
}

/// Even if no host is left at the port for a moment.
#[test]
fn evictions_from_a_port_have_a_rate() {
    in_all_versions(&Config { per_port_max: 1, ..Config::default() }, |net| {
        for n in 0..5000 {
            net.receive(switch_port(1, 1), &plain(made_up(n), mac('z')));
        }
        assert_eq!(net.metric("hosts_evicted"), 384);
        for n in 0..5000 {
            net.receive(switch_port(1, 1), &plain(made_up(n), mac('z')));
            net.tick(1);
        }
        let evicted = net.metric("hosts_evicted");
        assert!((900..1200).contains(&evicted), "{evicted}");
    });
}
