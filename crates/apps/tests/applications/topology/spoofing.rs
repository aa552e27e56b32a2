//! Frames that hosts may send do not change the topology.

use sluice_apps::topology::{Config, Secret};
use sluice_openflow::{EtherType, Ethernet};

use super::*;

/// The port of an attacker.
const ATTACKER: SwitchPort = switch_port(2, 4);

/// The last probe that was sent out of `at`: LLDP or broadcast, by its `EtherType`.
pub(super) fn capture_probe(
    network: &mut SimulatedNetwork<Topology>,
    at: SwitchPort,
    ethertype: EtherType,
) -> Vec<u8> {
    network.take_sent_frames();
    network.run_for(S * 10);
    let sent = network.take_sent_frames();
    let found = sent.into_iter().rev().find(|(from, frame)| {
        *from == at && Ethernet::new(frame).is_some_and(|eth| eth.ethertype == ethertype)
    });
    found.map(|(_, frame)| frame).unwrap_or_default()
}

/// Injects frames at the port of the attacker: the network view must not change, and each must be counted as `counted_as`.
fn assert_ignored(network: &mut SimulatedNetwork<Topology>, frames: &[Vec<u8>], counted_as: &str) {
    let (version, before) = (network.view(0).version(), network.metric(counted_as));
    for frame in frames {
        network.inject_frame(ATTACKER, frame);
        network.run_for(MS * 20);
    }
    assert_eq!(network.view(0).version(), version, "{counted_as}");
    let counted = network.metric(counted_as) - before;
    assert_eq!(counted, frames.len() as u64, "{counted_as}");
}

#[test]
fn a_modified_probe_is_rejected_as_forged() {
    let mut network = discovered_pair();
    let live = capture_probe(&mut network, switch_port(1, 2), EtherType::LLDP);
    // The signed fields and the signature of our TLV.
    let signed = live.len() - 2 - 16 - 36..live.len() - 2;
    let forged: Vec<_> = signed
        .map(|at| {
            let mut frame = live.clone();
            frame[at] ^= 1;
            frame
        })
        .collect();
    assert_ignored(&mut network, &forged, "topology_lldp_forged");
    // A broadcast probe is not valid as an LLDP probe.
    let mut broadcast = capture_probe(&mut network, switch_port(1, 2), EtherType(0x88b6));
    broadcast[12..14].copy_from_slice(&EtherType::LLDP.0.to_be_bytes());
    assert_ignored(&mut network, &[broadcast], "topology_lldp_forged");
    let reports = network.take_reports();
    assert!(!reports.is_empty() && reports.len() < 5, "{reports:?}");
    assert!(reports[0].contains("port=4"), "{reports:?}");
}

#[test]
fn a_probe_signed_with_another_secret_is_rejected_as_forged() {
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
fn a_probe_older_than_5_s_is_rejected_as_expired() {
    let mut network = discovered_pair();
    let old = capture_probe(&mut network, switch_port(1, 2), EtherType::LLDP);
    network.run_for(S * 6);
    assert_ignored(&mut network, &vec![old; 3], "topology_probes_expired");
}

/// As Open vSwitch 3.1 sends it: chassis, port, time to live, system name.
#[test]
fn lldp_of_other_devices_makes_no_link() {
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc];
    frame.extend([2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 3, 7, b'1', b'2', 6, 2, 0, 120]);
    frame.extend([10, 3, b's', b'w', b'7', 0, 0]);
    let mut network = discovered_pair();
    assert_ignored(&mut network, &[frame.clone(), frame], "topology_lldp_foreign");
    assert_eq!(network.view(0).port_role(ATTACKER), PortRole::Edge);
}

#[test]
fn truncated_and_corrupted_probes_are_rejected_as_malformed() {
    let mut network = discovered_pair();
    for ethertype in [EtherType::LLDP, EtherType(0x88b6)] {
        let live = capture_probe(&mut network, switch_port(1, 2), ethertype);
        let truncated: Vec<_> = (14..live.len()).map(|len| live[..len].to_vec()).collect();
        assert_ignored(&mut network, &truncated, "topology_lldp_malformed");
        let headers = [14, 15, 16, 33, 34, 35, 44, 45, 49, 53];
        let corrupted: Vec<_> = headers
            .iter()
            .map(|&at| {
                let mut frame = live.clone();
                frame[at] ^= 0x40;
                frame
            })
            .collect();
        assert_ignored(&mut network, &corrupted, "topology_lldp_malformed");
    }
}

#[test]
fn a_flood_of_forged_probes_at_one_port_does_not_affect_other_ports() {
    let mut network = discovered_pair();
    let forged = {
        let mut live = capture_probe(&mut network, switch_port(1, 2), EtherType::LLDP);
        live[60] ^= 1;
        live
    };
    let before = network.metric("topology_lldp_forged");
    for _ in 0..10_000 {
        network.inject_frame(ATTACKER, &forged);
        network.run_for(MS);
    }
    assert!(network.metric("topology_lldp_forged") - before <= 64 * 10 + 64);
    assert!(network.metric("topology_lldp_over_limit") > 9_000);
    assert_eq!(links(&network), 2);
}

#[test]
fn frames_that_are_not_probes_are_passed_to_the_next_application() {
    use sluice_apps::hub::Hub;
    sluice_testkit::transcript(
        || (Topology::default(), Hub::default()),
        "
        s1 < packet_in  port=1 b>a
        s1 > packet_out flood
        ",
    );
}
