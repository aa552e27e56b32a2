//! Requests that are answered in the place of a host.

use sluice_apps::hosts::Config;
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::PortRole;

use crate::frames::{advertise, is_at, mac, neighbour, plain, solicit, tagged, who_has};
use crate::net::{Net, each, place};

/// `b` with an address of each family at the second switch, in the VLAN and outside.
fn begin(net: &mut Net) {
    for frame in [who_has(mac('b'), "10.0.0.2", "10.0.0.2"), advertise(mac('b'), "2001:db8::2")] {
        net.frame(place(2, 2), &frame);
        net.frame(place(2, 2), &tagged(&frame, 5));
    }
    assert!(net.sent().is_empty(), "announcements go on");
}

#[test]
fn an_arp_request_for_a_known_host_is_answered() {
    each(&Config::default(), |net| {
        begin(net);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        let reply = is_at(mac('b'), "10.0.0.2", (mac('a'), "10.0.0.1"));
        assert_eq!(net.frame(place(1, 1), &request), Verdict::Stop);
        assert_eq!(net.kept(place(1, 1), &tagged(&request, 5 | 3 << 13)), Verdict::Stop);
        let sent = net.sent();
        assert_eq!((sent[0].at, &sent[0].frame), (place(1, 1), &reply));
        assert_eq!(sent[1].frame, tagged(&reply, 5 | 3 << 13), "in its VLAN");
        assert_eq!(net.released(), [7]);
        assert_eq!(net.gauge("hosts_answered"), 2);
        assert_eq!(net.at(mac('a')), Some(place(1, 1)), "who asks is learnt");
    });
}

#[test]
fn a_solicitation_for_a_known_host_is_answered() {
    each(&Config::default(), |net| {
        begin(net);
        let request = solicit(mac('a'), "2001:db8::1", "2001:db8::2");
        assert_eq!(net.frame(place(1, 1), &request), Verdict::Stop);
        let ends = ((mac('b'), "2001:db8::2"), (mac('a'), "2001:db8::1"));
        let flags = 0xe0;
        let reply = neighbour((136, flags), ends.0, ends.1, "2001:db8::2", (2, mac('b')));
        let sent = net.sent();
        assert_eq!((sent[0].at, &sent[0].frame), (place(1, 1), &reply));
    });
}

#[test]
fn all_else_is_passed_on() {
    each(&Config::default(), |net| {
        begin(net);
        let mut to_one = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        to_one[..6].copy_from_slice(&mac('b').0);
        for (what, at, frame) in [
            ("unknown", place(1, 1), who_has(mac('a'), "10.0.0.1", "10.0.0.3")),
            ("in another VLAN", place(1, 1), tagged(&who_has(mac('a'), "10.0.0.1", "10.0.0.2"), 6)),
            ("at the same port", place(2, 2), who_has(mac('c'), "10.0.0.3", "10.0.0.2")),
            ("announcement", place(1, 1), who_has(mac('a'), "10.0.0.1", "10.0.0.1")),
            ("ARP probe", place(1, 1), who_has(mac('a'), "0.0.0.0", "10.0.0.2")),
            ("ND probe", place(1, 1), solicit(mac('a'), "::", "2001:db8::2")),
            ("to one", place(1, 1), to_one),
            ("ARP reply", place(1, 1), is_at(mac('a'), "10.0.0.1", (mac('b'), "10.0.0.2"))),
            ("advertisement", place(1, 1), advertise(mac('a'), "fe80::1")),
        ] {
            assert_eq!(net.frame(at, &frame), Verdict::Continue, "{what}");
        }
        net.role(place(1, 3), PortRole::Link);
        let request = who_has(mac('d'), "10.0.0.4", "10.0.0.2");
        assert_eq!(net.frame(place(1, 3), &request), Verdict::Continue, "between switches");
        net.down(2);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        assert_eq!(
            net.frame(place(1, 1), &request),
            Verdict::Continue,
            "nobody can be reached there"
        );
        assert!(net.sent().is_empty());
    });
}

#[test]
fn answers_can_be_turned_off() {
    each(&Config { proxy: false, ..Config::default() }, |net| {
        begin(net);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.2");
        assert_eq!(net.frame(place(1, 1), &request), Verdict::Continue);
        assert!(net.sent().is_empty());
    });
}

#[test]
fn what_goes_to_the_addresses_that_ask_goes_no_further() {
    each(&Config::default(), |net| {
        for n in [1, 2] {
            let ours = MacAddr([0x0e, 0x53, 0x4c, 0, 0, n]);
            assert_eq!(net.frame(place(1, 1), &plain(mac('a'), ours)), Verdict::Stop);
            assert_eq!(net.frame(place(1, 1), &plain(ours, mac('a'))), Verdict::Continue);
            assert_eq!(net.at(ours), None);
        }
    });
}

#[test]
fn a_storm_of_requests_is_dropped_beyond_its_limit() {
    each(&Config { requests_per_s_max: 10, ..Config::default() }, |net| {
        begin(net);
        net.wait_ms(1000);
        let request = who_has(mac('a'), "10.0.0.1", "10.0.0.77");
        for n in 0..25 {
            let then = net.kept(place(1, 1), &request);
            assert_eq!(then, if n < 10 { Verdict::Continue } else { Verdict::Stop }, "{n}");
        }
        assert_eq!(net.released().len(), 15);
        assert_eq!(net.gauge("hosts_requests_dropped"), 15);
        let reports = net.reports();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("more than 10 ARP"), "{reports:?}");
        assert_eq!(net.frame(place(1, 1), &plain(mac('a'), mac('b'))), Verdict::Continue);
        let other = who_has(mac('c'), "10.0.0.3", "10.0.0.77");
        assert_eq!(net.frame(place(1, 2), &other), Verdict::Continue, "another port");
        net.wait_ms(1000);
        assert_eq!(net.frame(place(1, 1), &request), Verdict::Continue, "another second");
    });
}
