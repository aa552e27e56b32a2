//! Who claims what another one has.

use sluice_apps::hosts::{Config, Guard};
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::SwitchPort;

use crate::frames::{advertise, ip, is_at, mac, neighbour, plain, who_has};
use crate::net::{Net, each, place};

const VICTIM: u32 = 1;
const NIL: &str = "0.0.0.0";

/// Who asks.
fn verifier() -> MacAddr {
    MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2])
}

fn cfg(guard: Guard) -> Config {
    Config { guard, ..Config::default() }
}

/// `a` with 10.0.0.1 at port 1 of the first switch, `b` with 10.0.0.2 at the second.
fn begin(net: &mut Net) -> (SwitchPort, SwitchPort) {
    let (a, b) = (place(1, VICTIM), place(2, 2));
    net.frame(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
    net.frame(b, &who_has(mac('b'), "10.0.0.2", "10.0.0.9"));
    (a, b)
}

/// The question that went to `a`, checked to the byte.
#[track_caller]
fn must_be_asked(net: &mut Net, at: SwitchPort) {
    let sent = net.sent();
    let question = {
        let mut frame = who_has(verifier(), NIL, "10.0.0.1");
        frame[..6].copy_from_slice(&mac('a').0);
        frame
    };
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].at, &sent[0].frame), (at, &question));
}

/// `a` answers, and what it says goes no further.
fn answer(net: &mut Net, at: SwitchPort) {
    let then = net.kept(at, &is_at(mac('a'), "10.0.0.1", (verifier(), NIL)));
    assert_eq!((then, net.released()), (Verdict::Stop, vec![7]));
}

#[test]
fn a_stolen_ethernet_address_is_reported() {
    each(&cfg(Guard::Report), |net| {
        let (a, b) = begin(net);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_eq!(net.at(mac('a')), Some(b), "it is obeyed");
        must_be_asked(net, a);
        answer(net, a);
        assert_eq!(net.at(mac('a')), Some(a), "who answers is there");
        let reports = net.reports();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("claims to be 02:00:00:00:00:61, who is at"), "{reports:?}");
        assert!(reports[0].contains(&a.to_string()) && reports[0].contains(&b.to_string()));
        assert_eq!(net.gauge("hosts_contested"), 1);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Stop, "and again");
        assert_eq!(net.at(mac('a')), Some(a));
        assert!(net.sent().is_empty(), "nobody is asked while that is fresh");
        net.wait_ms(11_000);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        must_be_asked(net, a);
        net.wait_ms(1_000);
        assert_eq!(net.at(mac('a')), Some(b), "it did not answer");
    });
}

#[test]
fn a_stolen_ethernet_address_is_not_obeyed_if_so_configured() {
    each(&cfg(Guard::Refuse), |net| {
        let (a, b) = begin(net);
        assert_eq!(net.kept(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert_eq!(net.released(), [7], "the switch lets go of it");
        must_be_asked(net, a);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert!(net.sent().is_empty(), "once is enough");
        answer(net, a);
        assert!(net.reports()[0].ends_with("not obeyed"));
        net.wait_ms(5_000);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        assert_eq!(net.at(mac('a')), Some(a));
        assert_eq!(
            net.frame(a, &plain(mac('a'), mac('z'))),
            Verdict::Continue,
            "the victim speaks"
        );
        assert_eq!(net.gauge("hosts_refused_claims"), 2);
        net.wait_ms(6_000);
        net.frame(b, &plain(mac('a'), mac('z')));
        must_be_asked(net, a);
    });
}

#[test]
fn who_moved_is_obeyed_when_nobody_answers() {
    each(&cfg(Guard::Refuse), |net| {
        let (a, b) = begin(net);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Stop);
        // An answer from where it is claimed, and one about another address, prove nothing.
        net.frame(b, &is_at(mac('a'), "10.0.0.1", (verifier(), NIL)));
        assert_eq!(net.at(mac('a')), Some(a));
        net.wait_ms(750);
        assert_eq!(net.at(mac('a')), Some(b));
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert!(net.reports().is_empty());
    });
}

#[test]
fn who_moved_away_from_a_dead_port_is_obeyed_at_once() {
    each(&cfg(Guard::Refuse), |net| {
        let (_, b) = begin(net);
        net.down(1);
        assert_eq!(net.frame(b, &plain(mac('a'), mac('z'))), Verdict::Continue);
        assert_eq!(net.at(mac('a')), Some(b));
        assert!(net.sent().is_empty());
    });
}

#[test]
fn a_stolen_ip_address_is_reported() {
    each(&cfg(Guard::Report), |net| {
        let (a, b) = begin(net);
        assert_eq!(net.frame(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1")), Verdict::Continue);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"], "it is obeyed");
        let vlan = sluice_openflow::VlanId(0);
        for worker in &net.workers {
            let (owner, _) = worker.network.view().host_by_addr(ip("10.0.0.1"), vlan).unwrap();
            assert_eq!(owner.mac, mac('b'));
        }
        must_be_asked(net, a);
        answer(net, a);
        let reports = net.reports();
        assert!(reports[0].contains("02:00:00:00:00:62 claims 10.0.0.1, which"), "{reports:?}");
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"], "who answers has it");
        for worker in &net.workers {
            let (owner, _) = worker.network.view().host_by_addr(ip("10.0.0.1"), vlan).unwrap();
            assert_eq!(owner.mac, mac('a'));
        }
        let theft = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.frame(b, &theft), Verdict::Stop, "and again");
    });
}

#[test]
fn a_stolen_ip_address_is_not_obeyed_if_so_configured() {
    each(&cfg(Guard::Refuse), |net| {
        let (a, b) = begin(net);
        let theft = who_has(mac('b'), "10.0.0.1", "10.0.0.1");
        assert_eq!(net.kept(b, &theft), Verdict::Stop);
        assert_eq!(net.released(), [7]);
        must_be_asked(net, a);
        answer(net, a);
        net.wait_ms(1000);
        assert_eq!(net.frame(b, &theft), Verdict::Stop);
        assert_eq!(
            net.frame(b, &plain(mac('b'), mac('z'))),
            Verdict::Continue,
            "all else is its own"
        );
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2"]);
        assert_eq!(net.addrs(mac('a')), ["10.0.0.1"]);
    });
}

#[test]
fn an_ip_address_that_nobody_answers_for_goes_to_who_claims_it() {
    each(&cfg(Guard::Refuse), |net| {
        let (_, b) = begin(net);
        net.frame(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        net.wait_ms(750);
        assert_eq!(net.addrs(mac('b')), ["10.0.0.2", "10.0.0.1"]);
        // The one who had it has it no more, also when it moves.
        net.wait_ms(1000);
        net.frame(place(1, 5), &plain(mac('a'), mac('z')));
        net.wait_ms(1000);
        assert!(net.addrs(mac('a')).is_empty());
    });
}

#[test]
fn an_ipv6_address_is_asked_for_as_well() {
    each(&cfg(Guard::Refuse), |net| {
        let (a, b) = (place(1, 1), place(2, 2));
        net.frame(a, &advertise(mac('a'), "2001:db8::1"));
        net.frame(b, &plain(mac('b'), mac('z')));
        assert_eq!(net.frame(b, &advertise(mac('b'), "2001:db8::1")), Verdict::Stop);
        let ours = "fe80::c53:4cff:fe00:2";
        let ends = ((verifier(), ours), (mac('a'), "2001:db8::1"));
        let question = neighbour((135, 0), ends.0, ends.1, "2001:db8::1", (1, verifier()));
        let sent = net.sent();
        assert_eq!((sent[0].at, &sent[0].frame), (a, &question));
        let said = neighbour((136, 0x60), ends.1, ends.0, "2001:db8::1", (2, mac('a')));
        assert_eq!(net.frame(a, &said), Verdict::Stop);
        assert_eq!(net.gauge("hosts_contested"), 1);
        net.wait_ms(1000);
        assert!(net.addrs(mac('b')).is_empty());
    });
}

#[test]
fn two_that_claim_one_address_in_turns_do_not_make_the_network_talk() {
    each(&Config { moves_per_s_max: 3, ..cfg(Guard::Report) }, |net| {
        let (a, b) = begin(net);
        for _ in 0..50 {
            net.frame(a, &who_has(mac('a'), "10.0.0.1", "10.0.0.1"));
            net.frame(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        }
        assert!(net.sent().len() <= 2, "one question to each");
        assert!(net.gauge("hosts_held") >= 40);
        assert!(net.reports().iter().all(|report| report.contains("moves too often")));
    });
}

#[test]
fn nobody_is_asked_if_so_configured() {
    each(&cfg(Guard::Off), |net| {
        let (_, b) = begin(net);
        net.frame(b, &plain(mac('a'), mac('z')));
        net.frame(b, &who_has(mac('b'), "10.0.0.1", "10.0.0.1"));
        assert_eq!(net.at(mac('a')), Some(b));
        assert!(net.sent().is_empty());
    });
}
