//! Silent hosts are probed and removed.

use std::time::Duration;

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_testkit::switch_port;

use crate::hosts::frames::{advertise, is_at, mac, neighbor_message, plain, tagged, who_has};
use crate::hosts::test_network::in_all_versions;

/// Source of the controller's probes.
fn probe_source() -> MacAddr {
    MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1])
}

fn cfg() -> Config {
    Config { timeout: Duration::from_secs(60), probes: 3, ..Config::default() }
}

#[test]
fn a_silent_host_is_probed_and_then_removed() {
    in_all_versions(&cfg(), |net| {
        let at = switch_port(2, 1);
        net.receive(at, &tagged(&who_has(mac('a'), "10.0.0.1", "10.0.0.9"), 5));
        net.receive(at, &tagged(&advertise(mac('a'), "fe80::1"), 5));
        net.wait_ms(59_500);
        assert!(net.take_sent().is_empty());
        net.wait_ms(500);
        let mut arp = who_has(probe_source(), "0.0.0.0", "10.0.0.1");
        arp[..6].copy_from_slice(&mac('a').0);
        let sender = (probe_source(), "fe80::c53:4cff:fe00:1");
        let nd = neighbor_message(
            (135, 0),
            sender,
            (mac('a'), "fe80::1"),
            "fe80::1",
            (1, probe_source()),
        );
        let sent = net.take_sent();
        assert_eq!(sent.iter().map(|sent| sent.at).collect::<Vec<_>>(), [at, at]);
        assert_eq!(sent[0].frame, tagged(&arp, 5));
        assert_eq!(sent[1].frame, tagged(&nd, 5));
        net.wait_ms(2_500);
        assert_eq!(net.take_sent().len(), 4, "three probes of each address in all");
        assert!(net.host(mac('a'), 5).is_some());
        net.wait_ms(1000);
        assert_eq!(net.host(mac('a'), 5), None);
        assert_eq!((net.metric("hosts"), net.metric("hosts_expired")), (0, 1));
        net.wait_ms(100_000);
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn a_host_that_answers_is_kept() {
    in_all_versions(&cfg(), |net| {
        let at = switch_port(2, 1);
        net.receive(at, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..3 {
            net.wait_ms(61_000);
            assert_eq!(net.take_sent().len(), 2, "probed again after each timeout");
            let answer = is_at(mac('a'), "10.0.0.1", (probe_source(), "0.0.0.0"));
            assert_eq!(
                net.receive_buffered(at, &answer),
                Verdict::Stop,
                "the answer is not passed on"
            );
            assert_eq!(net.take_released(), [7]);
        }
        assert_eq!(net.location(mac('a')), Some(at));
    });
}

#[test]
fn a_host_that_sends_packets_is_not_probed() {
    in_all_versions(&cfg(), |net| {
        net.receive(switch_port(2, 1), &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..10 {
            net.wait_ms(50_000);
            net.receive(switch_port(2, 1), &plain(mac('a'), mac('b')));
        }
        assert!(net.take_sent().is_empty());
        net.wait_ms(59_000);
        assert_eq!(net.location(mac('a')), Some(switch_port(2, 1)));
    });
}

#[test]
fn a_host_without_an_address_is_removed_without_a_probe() {
    in_all_versions(&cfg(), |net| {
        net.receive(switch_port(1, 1), &plain(mac('a'), mac('b')));
        net.wait_ms(60_000);
        assert_eq!(net.location(mac('a')), None);
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn a_new_timeout_applies_to_known_hosts() {
    in_all_versions(&cfg(), |net| {
        net.receive(switch_port(1, 1), &plain(mac('a'), mac('b')));
        let short = Config { timeout: Duration::from_secs(5), ..cfg() };
        net.workers.iter_mut().for_each(|worker| worker.app.configure(&short));
        net.wait_ms(5_000);
        assert_eq!(net.location(mac('a')), None);
    });
}
