//! Ports that send too many reports, or invalid ones.

use std::time::Duration;

use sluice_apps::forwarding::Config;

use crate::multicast::frames::{igmp, join, join_v2, leave, query, report, udp};
use crate::multicast::test_network::{at, mac};
use crate::multicast::{GROUP, all_but, config, join_group, receivers, started, strict};

#[test]
fn a_port_with_too_many_groups_gets_everything_and_others_are_not_affected() {
    let (mut net, sender, busy) = (started(&strict()), at(1, 1), at(2, 4));
    join_group(&mut net, at(2, 3), GROUP);
    for high in 0..5 {
        for chunk in 0..4 {
            let group = |low| format!("239.2.{high}.{}", chunk * 64 + low);
            let groups: Vec<_> = (0..64).map(group).collect();
            net.send(busy, &report(busy, 4, &groups, 0));
        }
        net.wait_s(2);
    }
    assert_eq!(net.metric("forwarding_multicast_members"), 1025);
    assert_eq!(receivers(&mut net, sender, "239.2.0.7"), [busy]);
    assert_eq!(receivers(&mut net, sender, "239.2.4.255"), [busy], "beyond the limit");
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3), busy]);
    assert_eq!(net.metric("forwarding_multicast_ports_unfiltered"), 1);
    assert_eq!(net.log.len(), 1, "{:?}", net.log);
    assert!(net.log[0].contains("1024 groups") && net.log[0].ends_with("port=4"), "{:?}", net.log);
    net.wait_s(270);
    assert_eq!(receivers(&mut net, sender, GROUP), [], "all have expired");
    assert_eq!(net.metric("forwarding_multicast_ports_unfiltered"), 0);
}

#[test]
fn a_port_with_too_many_messages_gets_everything_and_others_are_not_affected() {
    let cfg = Config { floods_per_s_max: 100, ..strict() };
    let (mut net, sender, busy) = (started(&cfg), at(1, 1), at(2, 4));
    for n in 0..150 {
        net.send(busy, &join_v2(busy, &format!("239.2.0.{}", n % 10)));
    }
    net.send(busy, &join(busy, "239.3.0.1", 0));
    join_group(&mut net, at(2, 3), GROUP);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3), busy]);
    assert_eq!(receivers(&mut net, sender, "239.3.0.1"), [busy], "its report was dropped");
    assert_eq!(net.metric("forwarding_multicast_reports_over_limit"), 51);
    assert!(net.log[0].contains("floods_per_s_max = 100"), "{:?}", net.log);
}

/// Two hosts at one port would otherwise cause as many queries as they send reports.
#[test]
fn queries_for_groups_that_are_left_again_and_again_are_limited() {
    let (mut net, port) = (started(&config()), at(2, 4));
    let before = net.metric("forwarding_multicast_queries_sent");
    for _ in 0..400 {
        net.send(port, &join(port, GROUP, 0));
        net.send(port, &leave(port, GROUP, 0));
    }
    let queries = net.metric("forwarding_multicast_queries_sent") - before;
    assert!((64..=128).contains(&queries), "{queries}");
}

#[test]
fn invalid_messages_change_nothing_and_are_dropped() {
    let (mut net, sender, port) = (started(&strict()), at(1, 1), at(2, 4));
    let report = |count: u8, records: &[u8]| {
        let message = [&[0x22, 0, 0, 0, 0, 0, count, count][..], records].concat();
        igmp(mac(port), "10.0.0.1", "224.0.0.22", 0, &message)
    };
    let record = [4, 0, 0, 0, 239, 1, 2, 3];
    let mut wrong_checksum = join(port, GROUP, 0);
    *wrong_checksum.last_mut().unwrap() ^= 1;
    for frame in [report(0xff, &record), report(1, &record[..6]), wrong_checksum] {
        assert_eq!(net.send(port, &frame), []);
    }
    assert_eq!(net.metric("forwarding_multicast_malformed"), 3);
    assert_eq!(receivers(&mut net, sender, GROUP), []);
}

/// Before OpenFlow 1.3, switches send 128 bytes unless configured otherwise.
#[test]
fn a_port_gets_everything_if_only_a_part_of_its_report_is_known() {
    let (mut net, sender, port) = (started(&strict()), at(1, 1), at(2, 4));
    net.miss_send_len = 128;
    let groups: Vec<_> = (0..30).map(|n| format!("239.2.0.{n}")).collect();
    net.send(port, &report(port, 4, &groups, 0));
    assert_eq!(receivers(&mut net, sender, "239.2.0.29"), [port]);
    assert!(net.log[0].contains("session.miss_send_len"), "{:?}", net.log);
}

/// Some switches count the checksum in the length of a packet, so a few missing bytes are ambiguous.
#[test]
fn a_report_that_is_cut_off_by_a_few_bytes_is_not_malformed() {
    let (mut net, sender, port) = (started(&strict()), at(1, 1), at(2, 4));
    let groups: Vec<_> = (0..10).map(|n| format!("239.2.0.{n}")).collect();
    let frame = report(port, 4, &groups, 0);
    for missing in 1..=6 {
        net.miss_send_len = frame.len() - missing;
        net.send(port, &frame);
        assert_eq!(receivers(&mut net, sender, "239.2.0.9"), [port], "{missing}");
        // Unfiltered until the membership time has passed.
        net.miss_send_len = usize::MAX;
        net.wait_s(300);
        assert_eq!(receivers(&mut net, sender, "239.2.0.9"), [], "{missing}");
    }
    assert_eq!(net.metric("forwarding_multicast_malformed"), 0);
}

#[test]
fn beyond_64_vlans_multicasts_are_flooded() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    let send = |net: &mut crate::multicast::TestNetwork, vlan| {
        let text = format!("{:?}", net.now);
        net.send(sender, &udp(sender, GROUP, vlan, &text))
    };
    for vlan in 100..170 {
        send(&mut net, vlan);
    }
    net.wait_s(14);
    assert_eq!(send(&mut net, 100), []);
    assert_eq!(send(&mut net, 169), all_but(&net, sender));
    let port = at(2, 3);
    for frame in [join(port, GROUP, 169), query(port, "10.0.0.9", 169)] {
        assert_eq!(net.send(port, &frame), all_but(&net, port), "nothing is learned");
    }
    assert_eq!(net.metric("forwarding_multicast_router_ports"), 0);
    assert_eq!(net.metric("forwarding_multicast_members"), 0);
    assert!(net.log.iter().any(|line| line.ends_with("vlan=164")), "{:?}", net.log);
}

/// Each change is a fact for all workers, which compare all groups of the port.
#[test]
fn a_port_that_changes_all_the_time_is_published_a_few_times_per_second() {
    let (mut net, port) = (started(&config()), at(2, 4));
    let before = net.records;
    for n in 0..200 {
        net.send(port, &join(port, &format!("239.2.0.{n}"), 0));
    }
    assert!(net.records - before <= 8, "{}", net.records - before);
    assert_eq!(receivers(&mut net, at(1, 1), "239.2.0.3"), [port]);
    net.wait(Duration::from_millis(250));
    assert_eq!(receivers(&mut net, at(1, 1), "239.2.0.199"), [port]);
}
