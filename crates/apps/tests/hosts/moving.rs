//! Hosts that are seen elsewhere.

use sluice_apps::hosts::{Config, Guard};
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;

use crate::frames::{mac, plain, who_has};
use crate::net::{each, place};

#[test]
fn a_host_that_is_heard_elsewhere_has_moved_with_its_addresses() {
    each(&Config::default(), |net| {
        net.frame(place(1, 1), &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for at in [place(1, 2), place(2, 2), place(1, 1)] {
            net.wait_ms(1000);
            assert_eq!(net.frame(at, &plain(mac('a'), mac('b'))), Verdict::Continue);
            assert_eq!(net.at(mac('a')), Some(at));
            assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
            assert_eq!(net.gauge("hosts"), 1);
        }
        assert_eq!(net.gauge("hosts_moved"), 3);
        assert!(net.reports().is_empty(), "it did not say that it is where it was");
    });
}

#[test]
fn a_host_that_moves_too_often_is_held_for_a_while() {
    let cfg = Config { moves_per_s_max: 4, guard: Guard::Off, ..Config::default() };
    each(&cfg, |net| {
        // Both at switches of one worker, which counts all moves.
        let ends = [place(1, 1), place(1, 2)];
        net.frame(ends[0], &plain(mac('a'), mac('b')));
        for n in 1..20 {
            assert_eq!(net.frame(ends[n % 2], &plain(mac('a'), mac('b'))), Verdict::Continue);
        }
        assert_eq!((net.gauge("hosts_moved"), net.gauge("hosts_held")), (4, 8));
        assert_eq!(net.at(mac('a')), Some(ends[0]));
        let reports = net.reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains("moves too often"), "{reports:?}");
        net.wait_ms(9_000);
        net.frame(ends[1], &plain(mac('a'), mac('b')));
        assert_eq!(net.at(mac('a')), Some(ends[0]), "still");
        net.wait_ms(1_500);
        net.frame(ends[1], &plain(mac('a'), mac('b')));
        assert_eq!(net.at(mac('a')), Some(ends[1]));
    });
}

#[test]
fn moves_between_workers_are_bounded_as_well() {
    let cfg = Config { moves_per_s_max: 4, ..Config::default() };
    each(&cfg, |net| {
        for n in 0..100 {
            net.frame(place(n % 2 + 1, 1), &plain(mac('a'), mac('b')));
            assert!(net.at(mac('a')).is_some(), "and all agree");
        }
        let moved = net.gauge("hosts_moved");
        assert!(moved <= 4 * net.workers.len() as u64, "{moved}");
    });
}

#[test]
fn one_that_moves_now_and_then_is_not_held() {
    let cfg = Config { moves_per_s_max: 1, ..Config::default() };
    each(&cfg, |net| {
        for n in 0..20 {
            let at = place(1, n % 2 + 1);
            net.frame(at, &plain(mac('a'), mac('b')));
            assert_eq!(net.at(mac('a')), Some(at));
            net.wait_ms(1250);
        }
    });
}

#[test]
fn it_does_not_move_to_where_nobody_is_learnt_or_no_more_are() {
    let cfg = Config { per_port_max: 1, ..Config::default() };
    each(&cfg, |net| {
        net.role(place(2, 1), PortRole::Link);
        net.role(place(2, 2), PortRole::Pending);
        net.frame(place(1, 1), &plain(mac('a'), mac('z')));
        net.frame(place(2, 3), &plain(mac('b'), mac('z')));
        for port in 1..=3 {
            net.frame(place(2, port), &plain(mac('a'), mac('z')));
            assert_eq!(net.at(mac('a')), Some(place(1, 1)), "not to {port}");
        }
        assert_eq!(net.gauge("hosts_refused_port_full"), 1);
    });
}

/// A host may find rules there for what it says, of which nobody would hear.
#[test]
fn what_comes_in_at_a_port_that_came_up_goes_up_until_somebody_is_learnt() {
    each(&Config::default(), |net| {
        let at = place(1, 1);
        net.role(at, PortRole::Pending);
        net.role(at, PortRole::Edge);
        assert_eq!(net.rules(), [""; 0], "it was never down");
        net.port_down(at);
        net.role(at, PortRole::Pending);
        assert_eq!(net.rules(), [""; 0], "nobody is learnt there yet");
        net.role(at, PortRole::Edge);
        assert_eq!(net.rules(), ["add"]);
        net.frame(at, &plain(mac('a'), mac('b')));
        assert_eq!(net.rules(), ["delete"]);
        net.frame(at, &plain(mac('c'), mac('b')));
        assert_eq!(net.rules(), [""; 0]);
    });
}
