//! Address conflicts: a host claims the Ethernet or IP address of another host.

use sluice_apps::hosts::{Config, ConflictPolicy};
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::SwitchPort;
use sluice_testkit::switch_port;

use crate::frames::{advertise, ip, is_at, mac, neighbor_message, plain, who_has};
use crate::test_network::{TestNetwork, in_all_versions};

/// Port of the owner of the addresses.
const OWNER_PORT: u32 = 1;
const UNSPECIFIED: &str = "0.0.0.0";

/// Source of the controller's probes.
fn probe_source() -> MacAddr {
    MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2])
}

fn cfg(policy: ConflictPolicy) -> Config {
    Config { address_conflicts: policy, ..Config::default() }
}

/// Host `a` with 10.0.0.1 at port 1 of the first switch, host `b` with 10.0.0.2 at the second. Returns their ports.
fn learn_two_hosts(net: &mut TestNetwork) -> (SwitchPort, SwitchPort) {
    let (a, b) = (switch_port(1, OWNER_PORT), switch_port(2, 2));
    net.receive(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
    net.receive(b, &who_has(mac('b'), "10.0.0.2", "10.0.0.9"));
    (a, b)
}

/// Asserts that exactly one probe was sent, to `a`, and compares it byte by byte.
#[track_caller]
fn assert_probed(net: &mut TestNetwork, at: SwitchPort) {
    let sent = net.take_sent();
    let probe = {
        let mut frame = who_has(probe_source(), UNSPECIFIED, "10.0.0.1");
        frame[..6].copy_from_slice(&mac('a').0);
        frame
    };
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].at, &sent[0].frame), (at, &probe));
}

/// Host `a` answers the probe; the answer is not passed to the next application.
fn answer(net: &mut TestNetwork, at: SwitchPort) {
    let verdict =
        net.receive_buffered(at, &is_at(mac('a'), "10.0.0.1", (probe_source(), UNSPECIFIED)));
    assert_eq!((verdict, net.take_released()), (Verdict::Stop, vec![7]));
}

#[test]
fn a_claim_of_an_ethernet_address_is_reverted_and_logged_if_the_owner_answers() {
    in_all_versions(&cfg(ConflictPolicy::Report), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_eq!(net.location(mac('a')), Some(b), "the claim is accepted");
        assert_probed(net, a);
        answer(net, a);
        assert_eq!(net.location(mac('a')), Some(a), "the owner answered");
        let log = net.take_log();
        assert_eq!(log.len(), 1);
        let expected = "MAC address conflict, claim reverted: owner: host=02:00:00:00:00:61 \
                        dpid=0000000000000001 port=1; claimant: dpid=0000000000000002 port=2";
        assert_eq!(log[0], expected);
        assert_eq!(net.metric("hosts_conflicts"), 1);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop, "claimed again");
        assert_eq!(net.location(mac('a')), Some(a));
        assert!(net.take_sent().is_empty(), "the owner is not probed again for 10 s");
        net.wait_ms(11_000);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_probed(net, a);
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(b), "the owner did not answer");
    });
}

#[test]
fn with_refuse_packets_from_a_claimed_ethernet_address_are_dropped() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(net.receive_buffered(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert_eq!(net.take_released(), [7], "the buffer is released");
        assert_probed(net, a);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert!(net.take_sent().is_empty(), "one probe per conflict");
        answer(net, a);
        assert!(net.take_log()[0].starts_with("MAC address conflict, claim rejected"));
        net.wait_ms(5_000);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert_eq!(net.location(mac('a')), Some(a));
        assert_eq!(
            net.receive(a, &plain(mac('a'), mac('z'))),
            Verdict::Continue,
            "the owner can send"
        );
        assert_eq!(net.metric("hosts_packets_rejected"), 2);
        net.wait_ms(6_000);
        net.receive(b, &plain(mac('a'), mac('z')));
        assert_probed(net, a);
    });
}

#[test]
fn with_refuse_a_host_has_moved_if_its_old_location_is_silent() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        // An answer from the location of the claim proves nothing.
        net.receive(b, &is_at(mac('a'), "10.0.0.1", (probe_source(), UNSPECIFIED)));
        assert_eq!(net.location(mac('a')), Some(a));
        net.wait_ms(750);
        assert_eq!(net.location(mac('a')), Some(b));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert!(net.take_log().is_empty());
    });
}

#[test]
fn a_host_whose_switch_is_disconnected_moves_at_once() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (_, b) = learn_two_hosts(net);
        net.disconnect_switch(1);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_eq!(net.location(mac('a')), Some(b));
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn a_claim_of_an_ip_address_is_reverted_and_logged_if_the_owner_answers() {
    in_all_versions(&cfg(ConflictPolicy::Report), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1")), Verdict::Continue);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"], "the claim is accepted");
        let vlan = sluice_openflow::VlanId(0);
        for worker in &net.workers {
            let (owner, _) = worker.network.view().host_by_addr(ip("10.0.0.1"), vlan).unwrap();
            assert_eq!(owner.mac, mac('b'));
        }
        assert_probed(net, a);
        answer(net, a);
        let log = net.take_log();
        let expected = "IP address conflict, claim reverted: addr=10.0.0.1 owner: host=02:00:00:00:00:61 \
                        dpid=0000000000000001 port=1; claimant: host=02:00:00:00:00:62 \
                        dpid=0000000000000002 port=2";
        assert_eq!(log[0], expected);
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"], "the owner answered");
        for worker in &net.workers {
            let (owner, _) = worker.network.view().host_by_addr(ip("10.0.0.1"), vlan).unwrap();
            assert_eq!(owner.mac, mac('a'));
        }
        let claim = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.receive(b, &claim), Verdict::Stop, "claimed again");
    });
}

#[test]
fn with_refuse_packets_that_claim_an_ip_address_are_dropped() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        let claim = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.receive_buffered(b, &claim), Verdict::Stop);
        assert_eq!(net.take_released(), [7]);
        assert_probed(net, a);
        answer(net, a);
        net.wait_ms(1000);
        assert_eq!(net.receive(b, &claim), Verdict::Stop);
        assert_eq!(
            net.receive(b, &plain(mac('b'), mac('z'))),
            Verdict::Continue,
            "other packets are forwarded"
        );
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
    });
}

#[test]
fn with_refuse_a_claimed_ip_address_is_taken_over_if_its_owner_is_silent() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (_, b) = learn_two_hosts(net);
        net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        net.wait_ms(750);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"]);
        // The previous owner does not get it back when it moves.
        net.wait_ms(1000);
        net.receive(switch_port(1, 5), &plain(mac('a'), mac('z')));
        net.wait_ms(1000);
        assert!(net.addrs(mac('a')).is_empty());
    });
}

#[test]
fn the_owner_of_an_ipv6_address_is_probed() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = (switch_port(1, 1), switch_port(2, 2));
        net.receive(a, &advertise(mac('a'), "2001:db8::1"));
        net.receive(b, &plain(mac('b'), mac('z')));
        assert_eq!(net.receive(b, &advertise(mac('b'), "2001:db8::1")), Verdict::Stop);
        let probe_addr = "fe80::c53:4cff:fe00:2";
        let ends = ((probe_source(), probe_addr), (mac('a'), "2001:db8::1"));
        let probe = neighbor_message((135, 0), ends.0, ends.1, "2001:db8::1", (1, probe_source()));
        let sent = net.take_sent();
        assert_eq!((sent[0].at, &sent[0].frame), (a, &probe));
        let reply = neighbor_message((136, 0x60), ends.1, ends.0, "2001:db8::1", (2, mac('a')));
        assert_eq!(net.receive(a, &reply), Verdict::Stop);
        assert_eq!(net.metric("hosts_conflicts"), 1);
        net.wait_ms(1000);
        assert!(net.addrs(mac('b')).is_empty());
    });
}

#[test]
fn two_hosts_that_claim_one_address_in_turn_cause_few_probes() {
    in_all_versions(&Config { moves_per_s_max: 3, ..cfg(ConflictPolicy::Report) }, |net| {
        let (a, b) = learn_two_hosts(net);
        for _ in 0..50 {
            net.receive(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.1"));
            net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        }
        assert!(net.take_sent().len() <= 2, "one probe to each");
        assert!(net.metric("hosts_moves_ignored") >= 40);
        assert!(net.take_log().iter().all(|line| line.contains("moves too often")));
    });
}

#[test]
fn with_off_claims_are_accepted_without_a_probe() {
    in_all_versions(&cfg(ConflictPolicy::Off), |net| {
        let (_, b) = learn_two_hosts(net);
        net.receive(b, &plain(mac('a'), mac('z')));
        net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        assert_eq!(net.location(mac('a')), Some(b));
        assert!(net.take_sent().is_empty());
    });
}
