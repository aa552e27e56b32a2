//! Addresses that a host does not use any more, and hosts with many addresses.

use std::time::Duration;

use sluice_apps::hosts::Config;
use sluice_sdk::Verdict;
use sluice_testkit::switch_port;

use crate::hosts::frames::{dhcp, mac, plain, who_has};
use crate::hosts::test_network::{TestNetwork, in_all_versions};

fn cfg() -> Config {
    Config { timeout: Duration::from_secs(60), ..Config::default() }
}

/// Host `a` states that it has 10.0.0.`n`.
fn state(net: &mut TestNetwork, n: u32) {
    net.receive(switch_port(1, 1), &who_has(mac('a'), &format!("10.0.0.{n}"), "10.0.0.99"));
}

#[test]
fn a_ninth_address_replaces_the_one_that_was_stated_longest_ago() {
    in_all_versions(&cfg(), |net| {
        for n in 1..=8 {
            state(net, n);
            net.tick(250);
        }
        state(net, 1);
        net.tick(250);
        state(net, 9);
        let expected = [3, 4, 5, 6, 7, 8, 1, 9].map(|n| format!("10.0.0.{n}"));
        let mut addrs = net.addrs(mac('a'));
        let mut expected = expected.to_vec();
        addrs.sort();
        expected.sort();
        assert_eq!(addrs, expected);
        assert_eq!(net.metric("hosts_addresses_replaced"), 1);
        assert_eq!(net.metric("hosts_addresses_not_learned"), 0);
        assert_eq!(net.metric("hosts_addresses"), 8);
    });
}

/// Any host can send a DHCP acknowledgement.
#[test]
fn leases_do_not_replace_addresses_that_the_host_uses() {
    in_all_versions(&cfg(), |net| {
        state(net, 1);
        for n in 100..120 {
            net.receive(switch_port(2, 2), &dhcp(mac('s'), mac('a'), &format!("10.0.0.{n}"), 5));
        }
        let addrs = net.addrs(mac('a'));
        assert!(addrs.len() == 8 && addrs.contains(&"10.0.0.1".to_owned()), "{addrs:?}");
        assert_eq!(net.metric("hosts_addresses_not_learned"), 13);
        // The host itself replaces those that it has never used first.
        for n in 2..=8 {
            net.tick(250);
            state(net, n);
        }
        let mut addrs = net.addrs(mac('a'));
        addrs.sort();
        assert_eq!(addrs, (1..=8).map(|n| format!("10.0.0.{n}")).collect::<Vec<_>>());
    });
}

/// A DHCP server at the second switch, which has stated its own address.
fn lease(net: &mut TestNetwork, client: char, addr: &str) {
    let at = switch_port(2, 2);
    net.receive(at, &who_has(mac('s'), "10.0.0.254", "10.0.0.99"));
    net.receive(at, &dhcp(mac('s'), mac(client), addr, 5));
}

#[test]
fn an_address_that_the_host_uses_and_was_leased_is_replaced_last() {
    in_all_versions(&cfg(), |net| {
        state(net, 1);
        lease(net, 'a', "10.0.0.1");
        for n in 2..=12 {
            net.tick(1000);
            state(net, n);
        }
        let addrs = net.addrs(mac('a'));
        assert!(addrs.len() == 8 && addrs.contains(&"10.0.0.1".to_owned()), "{addrs:?}");
    });
}

/// The owner of a leased address does not answer, so that the lease is accepted as its address.
#[test]
fn leases_of_addresses_of_silent_hosts_do_not_replace_addresses_that_the_host_uses() {
    in_all_versions(&cfg(), |net| {
        state(net, 1);
        for n in 100..110u64 {
            let owner = sluice_openflow::MacAddr::from_u64(0x0200_0000_1000 + n);
            let addr = format!("10.0.0.{n}");
            net.receive(switch_port(2, 3), &who_has(owner, &addr, "10.0.0.99"));
            net.receive(switch_port(2, 2), &dhcp(mac('s'), mac('a'), &addr, 5));
            net.wait_ms(250);
        }
        let addrs = net.addrs(mac('a'));
        assert!(addrs.contains(&"10.0.0.1".to_owned()), "{addrs:?}");
    });
}

/// Whether the controller answers an ARP request for 10.0.0.`n`.
fn is_answered(net: &mut TestNetwork, n: u32) -> bool {
    let request = who_has(mac('c'), "10.0.0.50", &format!("10.0.0.{n}"));
    net.receive(switch_port(2, 4), &request) == Verdict::Stop
}

#[test]
fn an_address_that_its_host_does_not_use_any_more_is_removed() {
    in_all_versions(&cfg(), |net| {
        state(net, 1);
        for _ in 0..61 * 4 {
            state(net, 2);
            net.tick(250);
        }
        assert!(is_answered(net, 1));
        for _ in 0..3 * 4 {
            state(net, 2);
            net.tick(250);
        }
        assert!(!is_answered(net, 1) && is_answered(net, 2));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.2"]);
        assert_eq!(net.metric("hosts_addresses_expired"), 1);
    });
}

#[test]
fn an_address_that_its_host_still_has_is_kept() {
    in_all_versions(&cfg(), |net| {
        let at = switch_port(1, 1);
        state(net, 1);
        state(net, 2);
        let mut probes = 0;
        for _ in 0..300 * 4 {
            net.receive(at, &plain(mac('a'), mac('z')));
            net.tick(250);
            probes += net.answer_ageing_probes(at, &[mac('a')]);
        }
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "10.0.0.2"]);
        assert!((8..=12).contains(&probes), "each address once a minute: {probes}");
    });
}

/// Such as a router that answers ARP requests for the hosts behind it.
#[test]
fn a_host_that_states_many_addresses_causes_few_facts() {
    in_all_versions(&cfg(), |net| {
        for _ in 0..10 {
            for n in 1..=90 {
                state(net, n);
            }
            net.tick(250);
        }
        let replaced = net.metric("hosts_addresses_replaced");
        assert!(replaced <= 8 * 3, "{replaced}");
        assert!(net.metric("hosts_addresses_not_learned") > 500);
    });
}
