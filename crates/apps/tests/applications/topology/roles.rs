//! Roles of ports that do not lead to exactly one switch.

use std::net::Ipv4Addr;

use sluice_apps::hosts::Hosts;
use sluice_openflow::{EtherType, Ethernet, MacAddr};
use sluice_testkit::claims::arp;

use super::*;

/// Three switches whose first ports are connected by an unmanaged segment.
fn with_shared_segment(workers: usize) -> SimulatedNetwork<Topology> {
    let apps = (0..workers).map(|_| Topology::default());
    let mut network = SimulatedNetwork::new(Version::V1_3, apps);
    for id in 1..=3u8 {
        network.add_switch(id.into(), 2, usize::from(id) % workers);
    }
    network.add_unmanaged_segment(&[switch_port(1, 1), switch_port(2, 1), switch_port(3, 1)]);
    network
}

const SEGMENT: [SwitchPort; 3] = [switch_port(1, 1), switch_port(2, 1), switch_port(3, 1)];

#[test]
fn the_smallest_port_is_the_designated_port_of_a_shared_segment() {
    for workers in 1..=3 {
        let mut network = with_shared_segment(workers);
        for id in [3, 1, 2] {
            network.connect(id);
            network.run_for(MS * 10);
        }
        assert_eq!(roles(&network, SEGMENT), [PortRole::Pending; 3]);
        // When the ports would have become edge ports.
        network.run_for(MS * 500);
        assert_eq!(roles(&network, SEGMENT), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
        network.run_for(S * 60);
        assert_eq!(roles(&network, SEGMENT), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
        assert_eq!(network.view(0).links().count(), 0);
        assert_eq!(network.metric("topology_ports_shared_segment"), 3);
        network.bring_port_down(switch_port(1, 1));
        network.run_for(MS);
        let second = PortRole::SharedSegment(switch_port(2, 1));
        assert_eq!(roles(&network, SEGMENT), [PortRole::Pending, second, second]);
        network.disconnect(2);
        network.run_for(S);
        assert_eq!(network.view(0).port_role(switch_port(3, 1)), PortRole::Edge);
    }
}

/// The worker of a port learns at once that another worker has received its probe, not only by the probe in the other direction. Over a slow
/// control link, that one arrives only after the first port has become an edge port.
#[test]
fn a_port_at_a_segment_is_known_to_both_workers_when_one_has_received_a_probe() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [(); 2].map(|()| Topology::default()));
    network.add_switch(1, 2, 0);
    network.add_switch(2, 2, 1);
    network.add_unmanaged_segment(&SEGMENT[..2]);
    network.set_control_delay(1, MS * 100);
    network.bring_port_down(SEGMENT[1]);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 2);
    network.bring_port_up(SEGMENT[1]);
    // The packet-in has arrived, and the packet-out with the other probe has not.
    network.run_for(MS * 110);
    network.remove_unmanaged_segments();
    network.run_for(S);
    let segment = PortRole::SharedSegment(SEGMENT[0]);
    assert_eq!(roles(&network, [SEGMENT[0], SEGMENT[1]]), [segment; 2]);
}

/// The first probe of a port is lost, since the device at the other end of its cable forwards only a moment later. Frames of a host
/// that is known at another port show that something connects the two.
#[test]
fn a_pending_port_that_receives_frames_of_a_known_host_is_probed_again() {
    for (workers, after_tick) in
        [1, 2].into_iter().flat_map(|n| (0..10).map(move |m| (n, MS * 25 * m)))
    {
        let app = |_| (Topology::default(), Hosts::default());
        let mut network = SimulatedNetwork::new(Version::V1_3, (0..workers).map(app));
        network.add_switch(1, 2, 0);
        network.add_switch(2, 2, workers - 1);
        let [known, new] = [SEGMENT[0], SEGMENT[1]];
        network.bring_port_down(new);
        // Probes of the other port arrive too late.
        network.set_control_delay(1, MS * 100);
        network.connect(1);
        network.connect(2);
        network.run_for(S * 20);
        let frame = arp(MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), true);
        network.inject_frame(known, &frame);
        network.run_for(MS * 110 + after_tick);
        assert_eq!(network.view(0).hosts().count(), 1);
        network.bring_port_up(new);
        network.run_for(MS * 100);
        network.add_unmanaged_segment(&[known, new]);
        network.inject_frame(new, &frame);
        for _ in 0..200 {
            network.run_for(MS * 10);
            let role = network.view(0).port_role(new);
            assert_ne!(role, PortRole::Edge, "{workers} workers, {after_tick:?} after a tick");
        }
        assert_eq!(network.view(0).port_role(new), PortRole::SharedSegment(known));
    }
}

/// A host has moved to the port: it is delayed for one more settling time, whatever it sends.
#[test]
fn a_pending_port_is_probed_again_only_once() {
    let app = (Topology::default(), Hosts::default());
    let mut network = SimulatedNetwork::new(Version::V1_3, [app]);
    network.add_switch(1, 2, 0);
    let [known, new] = [switch_port(1, 1), switch_port(1, 2)];
    network.bring_port_down(new);
    network.connect(1);
    network.run_for(S * 2);
    let frame = arp(MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), true);
    network.inject_frame(known, &frame);
    network.run_for(MS * 10);
    network.bring_port_up(new);
    for _ in 0..100 {
        network.inject_frame(new, &frame);
        network.run_for(MS * 10);
    }
    assert_eq!(network.view(0).port_role(new), PortRole::Edge);
}

/// It is known what is connected. Otherwise a host that sends back what it receives could have any port probed four times a second, with the source
/// addresses of hosts there.
#[test]
fn frames_at_a_looped_port_have_no_other_port_probed() {
    let mut network =
        SimulatedNetwork::new(Version::V1_3, [(Topology::default(), Hosts::default())]);
    network.add_switch(1, 2, 0);
    let [known, looped] = [switch_port(1, 1), switch_port(1, 2)];
    network.add_one_way_link(looped, looped, Duration::ZERO);
    network.connect(1);
    network.run_for(S * 2);
    let frame = arp(MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), true);
    network.inject_frame(known, &frame);
    network.run_for(MS * 10);
    assert_eq!(network.view(0).hosts().count(), 1);
    network.take_sent_frames();
    for _ in 0..100 {
        network.inject_frame(looped, &frame);
        network.run_for(MS * 100);
    }
    let is_broadcast_probe =
        |frame: &[u8]| Ethernet::new(frame).is_some_and(|eth| eth.ethertype == EtherType(0x88b6));
    let sent = network.take_sent_frames();
    let probes =
        sent.iter().filter(|(at, frame)| *at == known && is_broadcast_probe(frame)).count();
    assert!(probes <= 2, "{probes} in 10 s, of which one is due in 5");
}

/// Delivers the last frame of a type that was sent out of `from` to the port `to`.
fn inject_sent(
    network: &mut SimulatedNetwork<Topology>,
    from: SwitchPort,
    ethertype: EtherType,
    to: SwitchPort,
) {
    let sent = network.take_sent_frames();
    let is_it = |frame: &[u8]| Ethernet::new(frame).is_some_and(|eth| eth.ethertype == ethertype);
    let last = sent.iter().rfind(|(at, frame)| *at == from && is_it(frame));
    assert!(last.is_some(), "no such frame was sent");
    if let Some((_, frame)) = last {
        network.inject_frame(to, frame);
    }
    network.run_for(MS);
}

/// When a controller is restarted, the LLDP of a switch may arrive before its neighbor has connected, and its broadcast probe
/// after that. The link was taken for an unmanaged segment, and its frames were dropped.
#[test]
fn a_port_that_has_received_only_a_broadcast_probe_may_still_be_at_a_link() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    for id in [1, 2] {
        network.add_switch(id, 4, 0);
        network.connect(id);
    }
    network.run_for(MS);
    let [near, far] = [switch_port(1, 1), switch_port(2, 1)];
    inject_sent(&mut network, near, EtherType(0x88b6), far);
    assert_eq!(network.view(0).port_role(far), PortRole::Pending);
    // The answer is LLDP, which is answered, too.
    inject_sent(&mut network, far, EtherType::LLDP, near);
    inject_sent(&mut network, near, EtherType::LLDP, far);
    assert_eq!(roles(&network, [near, far]), [PortRole::Link; 2]);
    assert_eq!(links(&network), 2);
}

#[test]
fn edge_ports_that_are_connected_later_become_a_shared_segment() {
    let mut network = discovered_pair();
    network.add_unmanaged_segment(&[switch_port(1, 4), switch_port(2, 4)]);
    network.run_for(S * 6);
    assert_eq!(
        roles(&network, [switch_port(1, 4), switch_port(2, 4)]),
        [PortRole::SharedSegment(switch_port(1, 4)); 2]
    );
    assert_eq!(links(&network), 2);
}

/// A device between the ports forwards LLDP, which no bridge should.
#[test]
fn three_ports_that_receive_each_others_lldp_are_a_shared_segment() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    for id in 1..=3 {
        network.add_switch(id, 2, 0);
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        network.add_link(SEGMENT[a], SEGMENT[b], Duration::ZERO);
    }
    for id in 1..=3 {
        network.connect(id);
    }
    network.run_for(S * 10);
    assert_eq!(roles(&network, SEGMENT), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
    assert_eq!(links(&network), 0);
    network.disconnect(3);
    network.run_for(S * 5);
    assert_eq!(links(&network), 2);
    assert_eq!(roles(&network, [switch_port(1, 1), switch_port(2, 1)]), [PortRole::Link; 2]);
}

#[test]
fn a_port_that_receives_its_own_probes_stays_pending() {
    let mut network = discovered_pair();
    let looped = switch_port(1, 3);
    network.add_one_way_link(looped, looped, Duration::ZERO);
    network.run_for(S * 2);
    assert_eq!(network.view(0).port_role(looped), PortRole::Pending);
    assert_eq!(network.metric("topology_ports_looped"), 1);
    let reports = network.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("receives its own probes"), "{reports:?}");
    network.run_for(S * 20);
    assert_eq!((links(&network), network.take_reports().len()), (2, 0));
    network.remove_link(looped);
    network.run_for(S * 20);
    assert_eq!(network.view(0).port_role(looped), PortRole::Edge);
}

/// A probe that another switch received may take that long to arrive.
#[test]
fn a_port_stays_pending_for_the_longest_control_round_trip() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 2, 0);
    network.add_switch(2, 2, 0);
    network.set_control_delay(2, MS * 500);
    network.connect(2);
    network.run_for(S * 2);
    network.connect(1);
    network.run_for(MS * 900);
    assert_eq!(network.view(0).port_role(A), PortRole::Pending);
    network.run_for(MS * 600);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
}

#[test]
fn a_port_that_is_down_is_not_probed() {
    let mut network = pair(Version::V1_3);
    network.bring_port_down(switch_port(1, 2));
    network.connect(1);
    network.run_for(S * 5);
    assert_eq!(network.view(0).port_role(switch_port(1, 2)), PortRole::Pending);
    assert_eq!(network.metric("topology_ports_down"), 1);
    let sent = network.take_sent_frames();
    assert!(sent.iter().all(|(at, _)| *at != switch_port(1, 2)));
    network.bring_port_up(switch_port(1, 2));
    network.run_for(S);
    assert_eq!(network.view(0).port_role(switch_port(1, 2)), PortRole::Edge);
}

/// A switch that reports ever new ports costs no more than a large one.
#[test]
fn ports_beyond_4096_of_a_switch_are_ignored() {
    const PORTS: usize = 4096;
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 4100, 0);
    network.connect(1);
    network.run_for(MS);
    let known = |network: &SimulatedNetwork<Topology>| {
        network.view(0).switch(A.switch).unwrap().ports.len()
    };
    assert_eq!(known(&network), PORTS);
    for no in 5000..5100 {
        network.bring_port_up(switch_port(1, no));
    }
    network.run_for(MS);
    assert_eq!(known(&network), PORTS);
    let reports = network.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("port=5000") && reports[0].contains("4096"), "{reports:?}");
    network.run_for(S * 2);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
}
