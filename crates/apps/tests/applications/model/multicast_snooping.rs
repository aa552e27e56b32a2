//! Multicast snooping on emulated switches: what no host has joined goes to no port, and everything else to all.

use std::time::Duration;

use sluice_apps::forwarding::multicast::{self, UnregisteredGroups};
use sluice_apps::forwarding::{self, Flooding};
use sluice_emu::net::NetworkChange;
use sluice_openflow::{MacAddr, Version};

use crate::model::{ModelNetwork, STARTUP_TIME, switch_config};

/// Has the first host send a frame to a group. Returns how many hosts have received it.
fn receivers(network: &mut ModelNetwork, group: &str) -> usize {
    let number = network.traced_frames;
    network.traced_frames += 1;
    let group = MacAddr::from_text(group).unwrap();
    network.apply(NetworkChange::SendTracedMulticast(0, group, number));
    network.run_for(Duration::from_millis(60));
    let traces = network.simulation.data_plane().traces();
    assert!(traces.link_crossings_max(number) <= 1);
    let received: Vec<_> = traces.deliveries(number).map(|(_, times)| times).collect();
    assert!(received.iter().all(|&times| times <= 1), "{received:?}");
    received.iter().filter(|&&times| times == 1).count()
}

#[test]
fn groups_without_members_are_filtered_in_every_version_and_others_reach_every_host_once() {
    for unregistered in [UnregisteredGroups::RouterPorts, UnregisteredGroups::Flood] {
        for (version, flooding) in [
            (Version::V1_0, Flooding::Tree),
            (Version::V1_1, Flooding::Tree),
            (Version::V1_3, Flooding::Tree),
            (Version::V1_5, Flooding::Tree),
            (Version::V1_3, Flooding::Controller),
        ] {
            let multicast =
                Some(multicast::Config { unregistered, ..multicast::Config::default() });
            let forwarding =
                forwarding::Config { flooding, multicast, ..forwarding::Config::default() };
            let mut network = ModelNetwork::new("ring,4", switch_config(version), forwarding);
            network.run_for(2 * STARTUP_TIME);
            network.assert_broadcasts_reach_all();
            let expected = if unregistered == UnregisteredGroups::Flood { 3 } else { 0 };
            for group in ["01:00:5e:01:02:03", "33:33:00:01:00:03"] {
                assert_eq!(receivers(&mut network, group), expected, "{version} {flooding:?}");
            }
            for group in ["01:00:5e:00:00:fb", "33:33:00:00:00:fb", "33:33:ff:00:00:01"] {
                assert_eq!(receivers(&mut network, group), 3, "{version} {flooding:?}");
            }
            assert_eq!(network.metrics()["forwarding_flow_entries_refused"], 0);
            // Another tree, and other edge ports.
            network.apply(NetworkChange::CutLink(0));
            network.run_for(STARTUP_TIME);
            network.assert_broadcasts_reach_all();
            assert_eq!(receivers(&mut network, "01:00:5e:01:02:03"), expected);
        }
    }
}
