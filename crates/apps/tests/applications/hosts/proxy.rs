//! ARP requests and neighbor solicitations that the controller answers on behalf of hosts.

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;
use sluice_testkit::switch_port;

use crate::hosts::frames::{
    advertise, is_at, mac, neighbor_message, plain, solicit, tagged, who_has,
};
use crate::hosts::test_network::{TestNetwork, in_all_versions};

/// Host `b` at the second switch, with an address of each family, with and without VLAN 5.
fn learn_host(net: &mut TestNetwork) {
    for frame in [who_has(mac('b'), "10.0.0.2", "10.0.0.2"), advertise(mac('b'), "2001:db8::2")] {
        net.receive(switch_port(2, 2), &frame);
        net.receive(switch_port(2, 2), &tagged(&frame, 5));
    }
    assert!(net.take_sent().is_empty(), "announcements are passed on");
}

#[test]
fn an_arp_request_for_a_known_host_is_answered() {
    in_all_versions(&Config::default(), |net| {
        learn_host(net);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        let reply = is_at(mac('b'), "10.0.0.2", (mac('a'), "10.0.0.1"));
        assert_eq!(net.receive(switch_port(1, 1), &request), Verdict::Stop);
        assert_eq!(
            net.receive_buffered(switch_port(1, 1), &tagged(&request, 5 | 3 << 13)),
            Verdict::Stop
        );
        let sent = net.take_sent();
        assert_eq!((sent[0].at, &sent[0].frame), (switch_port(1, 1), &reply));
        assert_eq!(sent[1].frame, tagged(&reply, 5 | 3 << 13), "in its VLAN");
        assert_eq!(net.take_released(), [7]);
        assert_eq!(net.metric("hosts_requests_answered"), 2);
        assert_eq!(net.location(mac('a')), Some(switch_port(1, 1)), "the sender is learned");
    });
}

#[test]
fn a_solicitation_for_a_known_host_is_answered() {
    in_all_versions(&Config::default(), |net| {
        learn_host(net);
        let request = solicit(mac('a'), "2001:db8::1", "2001:db8::2");
        assert_eq!(net.receive(switch_port(1, 1), &request), Verdict::Stop);
        let ends = ((mac('b'), "2001:db8::2"), (mac('a'), "2001:db8::1"));
        let flags = 0xe0;
        let reply = neighbor_message((136, flags), ends.0, ends.1, "2001:db8::2", (2, mac('b')));
        let sent = net.take_sent();
        assert_eq!((sent[0].at, &sent[0].frame), (switch_port(1, 1), &reply));
    });
}

#[test]
fn other_packets_are_passed_to_the_next_application() {
    in_all_versions(&Config::default(), |net| {
        learn_host(net);
        let mut unicast = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        unicast[..6].copy_from_slice(&mac('b').0);
        for (what, at, frame) in [
            ("unknown", switch_port(1, 1), who_has(mac('a'), "10.0.0.1", "10.0.0.3")),
            (
                "in another VLAN",
                switch_port(1, 1),
                tagged(&who_has(mac('a'), "10.0.0.1", "10.0.0.2"), 6),
            ),
            ("at the same port", switch_port(2, 2), who_has(mac('c'), "10.0.0.3", "10.0.0.2")),
            ("announcement", switch_port(1, 1), who_has(mac('a'), "10.0.0.1", "10.0.0.1")),
            ("ARP probe", switch_port(1, 1), who_has(mac('a'), "0.0.0.0", "10.0.0.2")),
            ("ND probe", switch_port(1, 1), solicit(mac('a'), "::", "2001:db8::2")),
            ("unicast", switch_port(1, 1), unicast),
            ("ARP reply", switch_port(1, 1), is_at(mac('a'), "10.0.0.1", (mac('b'), "10.0.0.2"))),
            ("advertisement", switch_port(1, 1), advertise(mac('a'), "fe80::1")),
        ] {
            assert_eq!(net.receive(at, &frame), Verdict::Continue, "{what}");
        }
        net.set_role(switch_port(1, 3), PortRole::Link);
        let request = who_has(mac('d'), "10.0.0.4", "10.0.0.2");
        assert_eq!(net.receive(switch_port(1, 3), &request), Verdict::Continue, "at a link port");
        net.disconnect_switch(2);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        assert_eq!(
            net.receive(switch_port(1, 1), &request),
            Verdict::Continue,
            "its switch is disconnected"
        );
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn the_proxy_can_be_turned_off() {
    in_all_versions(&Config { arp_proxy: false, ..Config::default() }, |net| {
        learn_host(net);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        assert_eq!(net.receive(switch_port(1, 1), &request), Verdict::Continue);
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn packets_from_and_to_the_source_addresses_of_probes_are_dropped() {
    in_all_versions(&Config::default(), |net| {
        for n in [1, 2] {
            let probe_source = MacAddr([0x0e, 0x53, 0x4c, 0, 0, n]);
            assert_eq!(
                net.receive(switch_port(1, 1), &plain(mac('a'), probe_source)),
                Verdict::Stop
            );
            assert_eq!(
                net.receive(switch_port(1, 1), &plain(probe_source, mac('a'))),
                Verdict::Stop
            );
            assert_eq!(net.location(probe_source), None);
        }
    });
}

#[test]
fn requests_beyond_the_limit_of_a_port_are_dropped() {
    in_all_versions(&Config { requests_per_s_max: 10, ..Config::default() }, |net| {
        learn_host(net);
        net.wait_ms(1000);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.77");
        for n in 0..25 {
            let verdict = net.receive_buffered(switch_port(1, 1), &request);
            assert_eq!(verdict, if n < 10 { Verdict::Continue } else { Verdict::Stop }, "{n}");
        }
        assert_eq!(net.take_released().len(), 15);
        assert_eq!(net.metric("hosts_requests_dropped"), 15);
        let log = net.take_log();
        assert_eq!(log.len(), 1);
        assert!(log[0].contains("more than hosts.requests_per_s_max = 10"), "{log:?}");
        assert_eq!(net.receive(switch_port(1, 1), &plain(mac('a'), mac('b'))), Verdict::Continue);
        let other = who_has(mac('c'), "10.0.0.3", "10.0.0.77");
        assert_eq!(net.receive(switch_port(1, 2), &other), Verdict::Continue, "another port");
        net.wait_ms(1000);
        assert_eq!(net.receive(switch_port(1, 1), &request), Verdict::Continue, "another second");
    });
}
