//! Address conflicts: a host claims the Ethernet or IP address of another host.

use sluice_apps::hosts::{Config, ConflictPolicy};
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::SwitchPort;
use sluice_testkit::switch_port;

use crate::hosts::frames::{advertise, dhcp, is_at, mac, neighbor_message, plain, who_has};
use crate::hosts::test_network::{SentFrame, TestNetwork, in_all_versions};

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
fn with_report_a_claim_of_an_ethernet_address_is_ignored_and_logged_if_the_owner_answers() {
    in_all_versions(&cfg(ConflictPolicy::Report), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue, "forwarded");
        assert_eq!(net.location(mac('a')), Some(a), "not accepted yet");
        assert_probed(net, a);
        answer(net, a);
        let log = net.take_log();
        assert_eq!(log.len(), 1);
        let expected = "MAC address conflict, claim ignored: owner: host=02:00:00:00:00:61 \
                        dpid=0000000000000001 port=1; claimant: dpid=0000000000000002 port=2";
        assert_eq!(log[0], expected);
        assert_eq!(net.metric("hosts_conflicts"), 1);
        net.wait_ms(1_000);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue, "claimed again");
        assert_eq!(net.location(mac('a')), Some(a));
        assert!(net.take_sent().is_empty(), "the owner is not probed again for 10 s");
        net.wait_ms(10_000);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_probed(net, a);
        net.wait_ms(500);
        assert_eq!(net.location(mac('a')), Some(b), "the owner did not answer");
        assert!(net.take_resubmitted().is_empty(), "the packet was forwarded before");
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
        net.wait_between_ticks(49);
        assert_eq!(net.take_sent().len(), 1);
        net.wait_between_ticks(1);
        assert_eq!(net.take_sent().len(), 1, "the first probe may have been lost");
        net.wait_between_ticks(49);
        assert_eq!(net.location(mac('a')), Some(a));
        net.wait_between_ticks(1);
        assert_eq!(net.location(mac('a')), Some(b), "after 100 ms");
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert!(net.take_log().is_empty());
    });
}

/// A packet that announces a move, for example a gratuitous ARP, may be the only one.
#[test]
fn with_refuse_the_first_packet_of_a_host_that_has_moved_is_forwarded_later() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (_, b) = learn_two_hosts(net);
        let moved = who_has(mac('a'), "10.0.0.1", "10.0.0.1");
        let takes_over = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        for frame in [moved, takes_over] {
            net.receive(b, &frame);
            net.receive(b, &frame);
            assert!(net.take_resubmitted().is_empty());
            net.wait_ms(100);
            let resubmitted = net.take_resubmitted();
            assert_eq!(resubmitted, [SentFrame { at: b, frame: frame.clone() }]);
            assert_eq!(net.receive(b, &frame), Verdict::Continue);
        }
        assert_eq!(net.location(mac('a')), Some(b));
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"]);
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
fn with_report_a_claim_of_an_ip_address_is_ignored_and_logged_if_the_owner_answers() {
    in_all_versions(&cfg(ConflictPolicy::Report), |net| {
        let (a, b) = learn_two_hosts(net);
        let claim = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.receive(b, &claim), Verdict::Continue);
        assert_probed(net, a);
        answer(net, a);
        let log = net.take_log();
        let expected = "IP address conflict, claim ignored: addr=10.0.0.1 owner: host=02:00:00:00:00:61 \
                        dpid=0000000000000001 port=1; claimant: host=02:00:00:00:00:62 \
                        dpid=0000000000000002 port=2";
        assert_eq!(log[0], expected);
        net.wait_ms(1_000);
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        assert_eq!(net.receive(b, &claim), Verdict::Continue, "claimed again");
        assert!(net.take_sent().is_empty());
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

/// It used to lose the address for good if it was the last that it had stated.
#[test]
fn a_host_gets_its_address_back_from_one_that_does_not_answer_for_it() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        assert_eq!(answered_address(net), Some(mac('a')));
        net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        net.wait_ms(750);
        assert_eq!(answered_address(net), Some(mac('b')), "its owner was silent");
        net.receive(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.1"));
        net.wait_ms(750);
        assert_eq!(answered_address(net), Some(mac('a')), "the other host was silent");
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
fn two_hosts_that_take_over_one_address_in_turn_cause_few_probes() {
    in_all_versions(&Config { moves_per_s_max: 3, ..cfg(ConflictPolicy::Report) }, |net| {
        let (a, b) = learn_two_hosts(net);
        for _ in 0..50 {
            net.receive(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.1"));
            net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
            net.wait_between_ticks(50);
        }
        let probes = net.take_sent().len();
        assert!(probes <= 2 * 4 * net.workers.len(), "{probes}");
        assert!(net.metric("hosts_moves_ignored") > 0);
        assert!(net.take_log().iter().all(|line| line.contains("moves too often")));
    });
}

#[test]
fn a_host_without_a_known_address_is_probed_for_its_link_local_address() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = (switch_port(1, 1), switch_port(2, 2));
        net.receive(a, &plain(mac('a'), mac('z')));
        net.receive(b, &plain(mac('a'), mac('z')));
        let (probe_addr, addr) = ("fe80::c53:4cff:fe00:2", "fe80::ff:fe00:61");
        let ends = ((probe_source(), probe_addr), (mac('a'), addr));
        let probe = neighbor_message((135, 0), ends.0, ends.1, addr, (1, probe_source()));
        assert_eq!(net.take_sent(), [SentFrame { at: a, frame: probe }]);
        let reply = neighbor_message((136, 0x60), ends.1, ends.0, addr, (2, mac('a')));
        net.receive(a, &reply);
        net.wait_ms(500);
        assert_eq!(net.location(mac('a')), Some(a));
        net.receive(switch_port(2, 3), &plain(mac('a'), mac('z')));
        net.wait_ms(500);
        assert_eq!(net.location(mac('a')), Some(switch_port(2, 3)), "it does not answer");
    });
}

/// Claims at one port do not use up those at another.
#[test]
fn claims_of_one_port_beyond_a_limit_are_dropped_without_a_probe() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let host = |n: u64| MacAddr::from_u64(0x0200_0000_1000 + n);
        let (a, b) = (switch_port(1, 1), switch_port(2, 2));
        for n in 0..100 {
            net.receive(a, &who_has(host(n), &format!("10.0.1.{n}"), "10.0.0.9"));
        }
        net.take_sent();
        for _ in 0..3 {
            for n in 0..100 {
                assert_eq!(net.receive(b, &plain(host(n), mac('z'))), Verdict::Stop);
            }
        }
        assert_eq!(net.take_sent().len(), 64);
        assert_eq!(net.metric("hosts_claims_not_verified"), 3 * 36);
        assert!(net.take_log()[0].contains("dpid=0000000000000002 port=2"));
        assert_eq!(net.receive(switch_port(2, 3), &plain(host(99), mac('z'))), Verdict::Stop);
        assert_eq!(net.take_sent().len(), 1, "another port");
        net.wait_ms(100);
        assert_eq!(net.location(host(0)), Some(b), "the host is not at its old port");
        assert_eq!(net.location(host(80)), Some(a));
        net.receive(b, &plain(host(80), mac('z')));
        assert_eq!(net.take_sent().len(), 66, "65 second probes, and one of this claim");
    });
}

/// Otherwise claims at any port would prevent the owner from moving.
/// It is not verified, since the host could not be learned there.
#[test]
fn with_refuse_a_claim_at_a_port_that_is_full_is_dropped() {
    let cfg = Config { per_port_max: 1, ..cfg(ConflictPolicy::Refuse) };
    in_all_versions(&cfg, |net| {
        let (a, b) = (switch_port(1, OWNER_PORT), switch_port(2, 2));
        net.learn_and_confirm(&[(a, mac('a'), "10.0.0.1"), (b, mac('b'), "10.0.0.2")]);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert_eq!((net.location(mac('a')), net.take_sent().len()), (Some(a), 0));
    });
}

#[test]
fn a_rejected_claim_does_not_affect_claims_at_other_ports() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        net.receive(b, &plain(mac('a'), mac('z')));
        answer(net, a);
        assert_eq!(net.receive(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        let new = switch_port(2, 5);
        net.receive(new, &plain(mac('a'), mac('z')));
        net.wait_ms(250);
        assert_eq!(net.location(mac('a')), Some(new), "the owner has moved");
    });
}

#[test]
fn a_host_whose_port_is_down_moves_and_loses_its_address_at_once() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        net.port_down(a);
        assert_eq!(net.receive(b, &who_has(mac('a'), "10.0.0.1", "10.0.0.9")), Verdict::Continue);
        assert_eq!(net.location(mac('a')), Some(b));
        net.port_down(b);
        let takes_over = who_has(mac('c'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.receive(switch_port(1, 5), &takes_over), Verdict::Continue);
        assert_eq!(net.addrs(mac('c')), ["10.0.0.1"]);
        assert!(net.take_sent().is_empty());
    });
}

#[test]
fn a_host_that_does_not_use_its_last_address_any_more_is_probed_for_the_others() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        net.receive(a, &who_has(mac('a'), "10.0.0.7", "10.0.0.9"));
        net.receive(b, &plain(mac('a'), mac('z')));
        assert_eq!(net.take_sent().len(), 2);
        answer(net, a);
        net.wait_ms(500);
        assert_eq!(net.location(mac('a')), Some(a));
    });
}

#[test]
fn a_lease_of_an_address_in_use_is_accepted_if_its_owner_is_silent() {
    for is_there in [false, true] {
        in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
            let (a, _) = learn_two_hosts(net);
            net.receive(switch_port(2, 7), &dhcp(mac('s'), mac('b'), "10.0.0.1", 5));
            assert_probed(net, a);
            if is_there {
                answer(net, a);
            }
            net.wait_ms(100);
            let leased = net.addrs(mac('b')).contains(&"10.0.0.1".to_owned());
            assert_eq!(leased, !is_there);
        });
    }
}

/// Otherwise no host behind a slow control connection could answer in time.
/// A DHCP server with its own address assigns 10.0.0.1 to a host.
fn lease(net: &mut TestNetwork, server: char, client: char) {
    let at = switch_port(2, 7);
    let own_address = if server == 's' { "10.0.0.254" } else { "10.0.0.66" };
    net.receive(at, &who_has(mac(server), own_address, "10.0.0.9"));
    let mut ack = dhcp(mac(server), mac(client), "10.0.0.1", 5);
    if server != 's' {
        // The source address.
        ack[29] = 66;
    }
    net.receive(at, &ack);
    net.take_sent();
}

#[test]
fn the_owner_of_a_leased_address_has_a_second_to_answer() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        lease(net, 's', 'a');
        let claim = who_has(mac('b'), "10.0.0.1", "10.0.0.9");
        net.receive(b, &claim);
        net.wait_ms(900);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"], "100 ms without a lease");
        answer(net, a);
        assert_eq!(net.metric("hosts_conflicts"), 1);
        net.wait_ms(11_000);
        net.receive(b, &claim);
        net.wait_ms(2000);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"], "it is silent");
    });
}

/// Whether its sender is a server that has the address of the message, or not.
#[test]
fn a_forged_lease_gives_no_host_an_address_and_takes_no_lease() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        lease(net, 's', 'a');
        lease(net, 'x', 'b');
        net.wait_ms(200);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        answer(net, a);
        net.wait_ms(11_000);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.9"));
        net.wait_ms(900);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"], "its lease still counts");
        answer(net, a);
        net.wait_ms(1000);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
    });
}

/// From a sender that does not have the source address of the message.
#[test]
fn a_lease_of_an_unknown_server_is_no_evidence() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (_, b) = learn_two_hosts(net);
        net.receive(switch_port(2, 7), &dhcp(mac('s'), mac('a'), "10.0.0.1", 5));
        net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.9"));
        net.wait_ms(200);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"]);
    });
}

#[test]
fn a_host_at_a_switch_with_a_long_round_trip_time_has_more_time_to_answer() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        net.set_rtt(1, 400);
        net.tick(250);
        let (a, b) = learn_two_hosts(net);
        net.receive(b, &plain(mac('a'), mac('z')));
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(a));
        answer(net, a);
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(a));
        net.receive(switch_port(2, 3), &plain(mac('a'), mac('z')));
        net.wait_ms(1_250);
        assert_eq!(net.location(mac('a')), Some(switch_port(2, 3)));
    });
}

/// Its host cannot have answered.
#[test]
fn a_host_at_a_switch_that_takes_no_probes_has_more_time_to_answer() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = learn_two_hosts(net);
        net.has_room = false;
        net.tick(250);
        net.has_room = true;
        net.receive(b, &plain(mac('a'), mac('z')));
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(a));
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

/// The owner answers the probes that reach its port. Returns how many there were.
fn answer_probes(net: &mut TestNetwork, at: SwitchPort) -> usize {
    let probes = net.take_sent();
    let is_probe = |sent: &&SentFrame| sent.at == at && sent.frame[..6] == mac('a').0;
    let count = probes.iter().filter(is_probe).count();
    for _ in 0..count {
        net.receive(at, &is_at(mac('a'), "10.0.0.1", (probe_source(), UNSPECIFIED)));
    }
    count
}

/// The Ethernet address with which the controller answers an ARP request for 10.0.0.1.
fn answered_address(net: &mut TestNetwork) -> Option<MacAddr> {
    net.take_sent();
    net.receive(switch_port(1, 7), &who_has(mac('c'), "10.0.0.3", "10.0.0.1"));
    let sent = net.take_sent();
    let answer = sent.iter().find(|sent| sent.frame[..6] == mac('c').0)?;
    Some(MacAddr(answer.frame[6..12].try_into().unwrap()))
}

#[test]
fn claims_of_both_addresses_do_not_take_over_either() {
    for policy in [ConflictPolicy::Report, ConflictPolicy::Refuse] {
        for claimant in [switch_port(2, 2), switch_port(1, 2)] {
            in_all_versions(&cfg(policy), |net| {
                let (a, _) = learn_two_hosts(net);
                net.receive(claimant, &plain(mac('a'), mac('z')));
                net.tick(1);
                net.receive(claimant, &who_has(mac('d'), "10.0.0.1", "10.0.0.9"));
                answer_probes(net, a);
                net.wait_ms(1_000);
                assert_eq!(net.location(mac('a')), Some(a));
                assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
                assert_eq!(answered_address(net), Some(mac('a')));
                assert_eq!(net.metric("hosts_conflicts"), 2);
            });
        }
    }
}

#[test]
fn a_hundred_claims_per_second_do_not_move_a_host_that_answers() {
    for policy in [ConflictPolicy::Report, ConflictPolicy::Refuse] {
        in_all_versions(&cfg(policy), |net| {
            let (a, b) = learn_two_hosts(net);
            let mut probes = 0;
            for _ in 0..2_000 {
                net.receive(b, &plain(mac('a'), mac('z')));
                net.receive(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.9"));
                assert_eq!(net.location(mac('a')), Some(a));
                assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
                probes += answer_probes(net, a);
                net.tick(10);
            }
            assert_eq!(net.metric("hosts_moved"), 0);
            assert!(probes <= 6, "{probes} probes in 20 s");
            assert_eq!(answered_address(net), Some(mac('a')));
        });
    }
}

/// After a restart of the controller, hosts are known from their flow entries, which keep their packets from the controller.
#[test]
fn a_host_without_a_known_ip_address_shows_by_its_next_packet_that_it_is_there() {
    in_all_versions(&cfg(ConflictPolicy::Refuse), |net| {
        let (a, b) = (switch_port(1, OWNER_PORT), switch_port(2, 2));
        net.receive(a, &plain(mac('a'), mac('z')));
        net.receive(b, &plain(mac('a'), mac('z')));
        net.wait_ms(300);
        net.receive(a, &plain(mac('a'), mac('z')));
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(a));
        assert_eq!(net.metric("hosts_conflicts"), 1);
        net.wait_ms(11_000);
        net.receive(b, &plain(mac('a'), mac('z')));
        net.wait_ms(1_000);
        assert_eq!(net.location(mac('a')), Some(b), "it has sent nothing since the claim");
    });
}
