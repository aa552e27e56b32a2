//! Two VLANs on Open vSwitch whose hosts have the same MAC and IP addresses, with the default applications.

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, both_versions, wait_until,
};

both_versions! {
    hosts_with_equal_addresses_in_two_vlans_reach_their_partners_only(super::Places::Parallel) = equal_addresses;
    hosts_with_equal_addresses_at_each_others_switch_reach_their_partners_only(super::Places::Crossed) = equal_addresses;
}

/// Where the hosts of the second VLAN are.
#[derive(Clone, Copy)]
enum Places {
    /// Each at the switch, and behind the port, of the host with its addresses.
    Parallel,
    /// Each at the switch of the other one.
    Crossed,
}

const VLANS: [u16; 2] = [10, 20];

/// Broadcasts of a round, and pings.
const FRAMES: u32 = 20;

/// Frames that a host receives besides these: probes, and ARP requests.
const OTHERS_MAX: u64 = 15;

fn received(hosts: &[Host; 2]) -> ([u64; 2], [u64; 2]) {
    (hosts.each_ref().map(Host::broadcasts_received), hosts.each_ref().map(Host::frames_received))
}

fn equal_addresses(version: OpenFlow, places: Places) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = Controller::new(network.env(), "");
    let devices = [("east", "s1"), ("west", "s2")];
    for (device, bridge) in devices {
        network.vlan_switch(device, bridge);
    }
    let add = |host: Host, (device, bridge): (&str, &str), vlan| {
        network.set_vlan(device, bridge, &host, vlan);
        host
    };
    let first = devices.map(|device| add(network.host(device.0), device, VLANS[0]));
    let [near, far] = match places {
        Places::Parallel => devices,
        Places::Crossed => [devices[1], devices[0]],
    };
    let second = [(near, &first[0]), (far, &first[1])]
        .map(|(device, twin)| add(network.duplicate_host(twin, device.0), device, VLANS[1]));
    network.connect(&controller);
    for [a, b] in [&first, &second] {
        wait_until(LONG_TIMEOUT, "the hosts of a VLAN to reach each other", || {
            a.ping(b, 1).lost() == 0 && b.ping(a, 1).lost() == 0
        });
    }
    for (talking, others) in [(&first, &second), (&second, &first)] {
        let [a, b] = talking;
        let before = (received(talking), received(others));
        a.broadcast(FRAMES);
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(from.ping(to, FRAMES).lost(), 0);
        }
        wait_until(LONG_TIMEOUT, "the broadcasts to arrive", || {
            received(talking).0[1] - before.0.0[1] >= FRAMES.into()
        });
        let after = received(others);
        assert_eq!(after.0, before.1.0, "broadcasts of the other VLAN");
        for (now, before) in after.1.into_iter().zip(before.1.1) {
            assert!(now - before < OTHERS_MAX, "{} frames of the other VLAN", now - before);
        }
    }
    // Each VLAN has flow entries of its own.
    for vlan in VLANS {
        let entries = network.flows_to("s1", &first[0]);
        let of_vlan = |value: Option<&str>| value == Some(&vlan.to_string());
        assert!(entries.iter().any(|entry| of_vlan(entry.value("dl_vlan"))), "{entries:#?}");
    }
    let log = controller.log();
    assert!(!log.contains("WARN"), "no host is taken for another one:\n{log}");
}
