//! Hosts behind several ports to one device, as configured.

use sluice_apps::hosts::{Config, ConflictPolicy};
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_testkit::switch_port;

use crate::hosts::frames::{is_at, mac, plain, who_has};
use crate::hosts::lacp::lacp;
use crate::hosts::test_network::{TestNetwork, in_all_versions};

const FIRST: SwitchPort = switch_port(1, 1);
const SECOND: SwitchPort = switch_port(1, 2);

fn set_used(net: &mut TestNetwork, used: SwitchPort) {
    for at in [FIRST, SECOND] {
        net.set_role(at, PortRole::Bundle(used));
    }
}

#[test]
fn a_host_does_not_move_between_the_ports_of_a_bundle() {
    for address_conflicts in [ConflictPolicy::Off, ConflictPolicy::Report, ConflictPolicy::Refuse] {
        in_all_versions(&Config { address_conflicts, ..Config::default() }, |net| {
            set_used(net, FIRST);
            for n in 0..20 {
                let at = [SECOND, FIRST][n % 2];
                assert_eq!(net.receive(at, &plain(mac('a'), mac('b'))), Verdict::Continue);
                net.receive(at, &who_has(mac('c'), "10.0.0.3", "10.0.0.9"));
                assert_eq!(net.location(mac('a')), Some(FIRST), "{n}");
            }
            assert_eq!(
                (net.location(mac('c')), net.addrs(mac('c'))),
                (Some(FIRST), vec!["10.0.0.3".into()])
            );
            net.wait_ms(1_000);
            assert_eq!((net.metric("hosts_moved"), net.metric("hosts_conflicts")), (0, 0));
            assert!(net.take_sent().is_empty() && net.take_log().is_empty());
        });
    }
}

#[test]
fn a_host_is_probed_at_the_used_port_and_may_answer_at_any() {
    in_all_versions(&Config::default(), |net| {
        set_used(net, FIRST);
        net.receive(SECOND, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
        for _ in 0..3 {
            net.wait_ms(301_000);
            let sent = net.take_sent();
            assert!(!sent.is_empty() && sent.iter().all(|sent| sent.at == FIRST));
            net.receive_ageing_answer(SECOND, mac('a'), "10.0.0.1");
        }
        assert_eq!(net.location(mac('a')), Some(FIRST));
        // Another host with its address: it is still there, and says so through the other port.
        net.receive(switch_port(2, 1), &plain(mac('a'), mac('b')));
        let asker = (MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2]), "0.0.0.0");
        net.receive(SECOND, &is_at(mac('a'), "10.0.0.1", asker));
        net.wait_ms(250);
        assert_eq!(net.location(mac('a')), Some(FIRST));
    });
}

#[test]
fn hosts_follow_the_port_that_is_used() {
    in_all_versions(&Config::default(), |net| {
        set_used(net, FIRST);
        for name in ['a', 'b'] {
            net.receive(FIRST, &who_has(mac(name), "10.0.0.1", "10.0.0.9"));
        }
        let addrs = net.addrs(mac('b'));
        net.set_role(SECOND, PortRole::Bundle(SECOND));
        net.set_role(FIRST, PortRole::Bundle(SECOND));
        for name in ['a', 'b'] {
            assert_eq!(net.location(mac(name)), Some(SECOND));
        }
        assert_eq!(net.addrs(mac('b')), addrs);
        set_used(net, FIRST);
        assert_eq!(net.location(mac('a')), Some(FIRST));
        net.port_down(FIRST);
        assert_eq!(net.location(mac('a')), None, "no port is used instead of it");
    });
}

#[test]
fn lacp_is_not_answered_at_a_bundle() {
    in_all_versions(&Config::default(), |net| {
        set_used(net, FIRST);
        for at in [FIRST, SECOND] {
            assert_eq!(net.receive(at, &lacp(mac('a'), 1, 1, 7)), Verdict::Continue);
        }
        assert!(net.take_sent().is_empty());
        assert_eq!((net.metric("hosts"), net.metric("hosts_lacp_ports")), (0, 0));
    });
}
