//! Discovery of links and port roles, on simulated switches with links between them.

mod bundles;
mod links;
mod roles;
mod room;
mod spoofing;
mod unexpected_links;

use std::time::Duration;

use sluice_apps::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_testkit::{SimulatedNetwork, switch_port};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The ends of the link of [`pair`].
const A: SwitchPort = switch_port(1, 1);
const B: SwitchPort = switch_port(2, 2);

/// Two switches with four ports each and one link between them. They are not connected to the controller yet.
fn pair(version: Version) -> SimulatedNetwork<Topology> {
    let mut network = SimulatedNetwork::new(version, [Topology::default()]);
    for id in [1, 2] {
        network.add_switch(id, 4, 0);
    }
    network.add_link(A, B, Duration::ZERO);
    network
}

/// The same in OpenFlow 1.3, connected, with all links and port roles discovered.
fn discovered_pair() -> SimulatedNetwork<Topology> {
    let mut network = pair(Version::V1_3);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 2);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
    assert_eq!(network.metric("topology_ports_edge"), 6);
    network
}

fn links(network: &SimulatedNetwork<Topology>) -> usize {
    let found = network.view(0).links().count();
    assert_eq!(network.metric("topology_links"), found as u64);
    found
}

fn roles<const N: usize>(
    network: &SimulatedNetwork<Topology>,
    ports: [SwitchPort; N],
) -> [PortRole; N] {
    ports.map(|port| network.view(0).port_role(port))
}
