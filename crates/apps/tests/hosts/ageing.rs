//! Hosts that are silent.

use std::time::Duration;

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;

use crate::frames::{advertise, is_at, mac, neighbour, plain, tagged, who_has};
use crate::net::{each, place};

/// Who asks.
fn prober() -> MacAddr {
    MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1])
}

fn cfg() -> Config {
    Config { timeout: Duration::from_secs(60), probes: 3, ..Config::default() }
}

#[test]
fn a_silent_host_is_asked_and_then_forgotten() {
    each(&cfg(), |net| {
        let at = place(2, 1);
        net.frame(at, &tagged(&who_has(mac('a'), "10.0.0.1", "10.0.0.9"), 5));
        net.frame(at, &tagged(&advertise(mac('a'), "fe80::1"), 5));
        net.wait_ms(59_500);
        assert!(net.sent().is_empty());
        net.wait_ms(500);
        let mut arp = who_has(prober(), "0.0.0.0", "10.0.0.1");
        arp[..6].copy_from_slice(&mac('a').0);
        let ours = (prober(), "fe80::c53:4cff:fe00:1");
        let nd = neighbour((135, 0), ours, (mac('a'), "fe80::1"), "fe80::1", (1, prober()));
        let sent = net.sent();
        assert_eq!(sent.iter().map(|sent| sent.at).collect::<Vec<_>>(), [at, at]);
        assert_eq!(sent[0].frame, tagged(&arp, 5));
        assert_eq!(sent[1].frame, tagged(&nd, 5));
        net.wait_ms(2_500);
        assert_eq!(net.sent().len(), 4, "three times in all");
        assert!(net.host(mac('a'), 5).is_some());
        net.wait_ms(1000);
        assert_eq!(net.host(mac('a'), 5), None);
        assert_eq!((net.gauge("hosts"), net.gauge("hosts_aged")), (0, 1));
        net.wait_ms(100_000);
        assert!(net.sent().is_empty());
    });
}

#[test]
fn one_that_answers_stays() {
    each(&cfg(), |net| {
        let at = place(2, 1);
        net.frame(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..3 {
            net.wait_ms(61_000);
            assert_eq!(net.sent().len(), 2, "asked again, as it does not speak");
            let answer = is_at(mac('a'), "10.0.0.1", (prober(), "0.0.0.0"));
            assert_eq!(net.kept(at, &answer), Verdict::Stop, "it goes no further");
            assert_eq!(net.released(), [7]);
        }
        assert_eq!(net.at(mac('a')), Some(at));
    });
}

#[test]
fn one_that_speaks_is_not_asked() {
    each(&cfg(), |net| {
        net.frame(place(2, 1), &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..10 {
            net.wait_ms(50_000);
            net.frame(place(2, 1), &plain(mac('a'), mac('b')));
        }
        assert!(net.sent().is_empty());
        net.wait_ms(59_000);
        assert_eq!(net.at(mac('a')), Some(place(2, 1)));
    });
}

#[test]
fn one_that_cannot_be_asked_is_forgotten() {
    each(&cfg(), |net| {
        net.frame(place(1, 1), &plain(mac('a'), mac('b')));
        net.wait_ms(60_000);
        assert_eq!(net.at(mac('a')), None);
        assert!(net.sent().is_empty());
    });
}

#[test]
fn a_shorter_time_holds_for_those_that_are_known() {
    each(&cfg(), |net| {
        net.frame(place(1, 1), &plain(mac('a'), mac('b')));
        let short = Config { timeout: Duration::from_secs(5), ..cfg() };
        net.workers.iter_mut().for_each(|worker| worker.app.configure(&short));
        net.wait_ms(5_000);
        assert_eq!(net.at(mac('a')), None);
    });
}
