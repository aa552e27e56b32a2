//! What hosts may send changes nothing.

use sluice_apps::topology::{Config, Secret};
use sluice_openflow::{EtherType, Ethernet};

use super::*;

/// The port of a host that means ill.
const ILL: SwitchPort = switch_port(2, 4);

/// The last probe that left at `at`, as LLDP or as a broadcast.
fn probe(
    network: &mut SimulatedNetwork<Topology>,
    at: SwitchPort,
    ethertype: EtherType,
) -> Vec<u8> {
    network.take_sent_frames();
    network.run_for(S * 10);
    let left = network.take_sent_frames();
    let mut left = left.into_iter().rev();
    let found = left.find(|(from, frame)| {
        *from == at && Ethernet::new(frame).is_some_and(|eth| eth.ethertype == ethertype)
    });
    found.map(|(_, frame)| frame).unwrap_or_default()
}

/// That nothing changes when these come in where a host is.
fn nothing_changes(network: &mut SimulatedNetwork<Topology>, frames: &[Vec<u8>], counted_as: &str) {
    let (version, before) = (network.view(0).version(), network.metric(counted_as));
    for frame in frames {
        network.inject_frame(ILL, frame);
        network.run_for(MS * 20);
    }
    assert_eq!(network.view(0).version(), version, "{counted_as}");
    let counted = network.metric(counted_as) - before;
    assert_eq!(counted, frames.len() as u64, "{counted_as}");
}

#[test]
fn a_probe_that_was_changed_is_forged() {
    let mut network = settled_pair();
    let live = probe(&mut network, switch_port(1, 2), EtherType::LLDP);
    // Where our own TLV says what is signed.
    let said = live.len() - 2 - 16 - 32..live.len() - 2;
    let forged: Vec<_> = said
        .map(|at| {
            let mut frame = live.clone();
            frame[at] ^= 1;
            frame
        })
        .collect();
    nothing_changes(&mut network, &forged, "topology_lldp_forged");
    // One of the other kind is none of this.
    let mut far = probe(&mut network, switch_port(1, 2), EtherType(0x88b6));
    far[12..14].copy_from_slice(&EtherType::LLDP.0.to_be_bytes());
    nothing_changes(&mut network, &[far], "topology_lldp_forged");
    let reports = network.take_reports();
    assert!(!reports.is_empty() && reports.len() < 5, "{reports:?}");
    assert!(reports[0].contains("port 4"), "{reports:?}");
}

#[test]
fn a_probe_of_another_secret_is_forged() {
    let secret = Secret::from_hex("00112233445566778899aabbccddeeff");
    assert!(secret.is_some());
    let with = |secret| Topology::new(&Config { secret, ..Config::default() });
    let mut network = SimulatedNetwork::new(Version::V1_3, [with(secret), with(None)]);
    network.add_switch(1, 4, 0);
    network.add_switch(2, 4, 1);
    network.add_link(A, B, Duration::ZERO);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 2);
    assert_eq!(network.view(0).links().count(), 0);
    assert!(network.metric("topology_lldp_forged") > 0);
}

#[test]
fn an_old_probe_is_expired() {
    let mut network = settled_pair();
    let old = probe(&mut network, switch_port(1, 2), EtherType::LLDP);
    network.run_for(S * 6);
    nothing_changes(&mut network, &vec![old; 3], "topology_probes_expired");
}

/// Of other devices, as Open vSwitch 3.1 writes it: chassis, port, time to live, system name.
#[test]
fn lldp_of_others_makes_no_link() {
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc];
    frame.extend([2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 3, 7, b'1', b'2', 6, 2, 0, 120]);
    frame.extend([10, 3, b's', b'w', b'7', 0, 0]);
    let mut network = settled_pair();
    nothing_changes(&mut network, &[frame.clone(), frame], "topology_lldp_foreign");
    assert_eq!(network.view(0).port_role(ILL), PortRole::Edge);
}

#[test]
fn what_is_cut_or_torn_is_malformed() {
    let mut network = settled_pair();
    for ethertype in [EtherType::LLDP, EtherType(0x88b6)] {
        let live = probe(&mut network, switch_port(1, 2), ethertype);
        let cut: Vec<_> = (14..live.len()).map(|len| live[..len].to_vec()).collect();
        nothing_changes(&mut network, &cut, "topology_lldp_malformed");
        let heads = [14, 15, 16, 33, 34, 35, 44, 45, 49, 53];
        let torn: Vec<_> = heads
            .iter()
            .map(|&at| {
                let mut frame = live.clone();
                frame[at] ^= 0x40;
                frame
            })
            .collect();
        nothing_changes(&mut network, &torn, "topology_lldp_malformed");
    }
}

#[test]
fn only_so_many_frames_of_a_port_are_looked_at_and_those_of_others_are_not_fewer() {
    let mut network = settled_pair();
    let forged = {
        let mut live = probe(&mut network, switch_port(1, 2), EtherType::LLDP);
        live[60] ^= 1;
        live
    };
    let before = network.metric("topology_lldp_forged");
    for _ in 0..10_000 {
        network.inject_frame(ILL, &forged);
        network.run_for(MS);
    }
    assert!(network.metric("topology_lldp_forged") - before <= 64 * 10 + 64);
    assert!(network.metric("topology_lldp_over_rate") > 9_000);
    assert_eq!(links(&network), 2);
}

/// A frame is of nobody's kind until it is one of these.
#[test]
fn other_frames_are_passed_on() {
    use sluice_apps::hub::Hub;
    sluice_testkit::transcript(
        || (Topology::default(), Hub::default()),
        "
        s1 < packet_in  port=1 b>a
        s1 > packet_out flood
        ",
    );
}
