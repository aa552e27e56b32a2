//! Which links are found, and what ports are, over switches that are wired.

mod deceit;
mod links;
mod roles;

use std::time::Duration;

use sluice_apps::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_testkit::{Fabric, place};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The wire of [`pair`].
const A: SwitchPort = place(1, 1);
const B: SwitchPort = place(2, 2);

/// Two switches of four ports, one port of each joined by a wire.
fn pair(version: Version) -> Fabric<Topology> {
    let mut fabric = Fabric::new(version, [Topology::default()]);
    for id in [1, 2] {
        fabric.add(id, 4, 0);
    }
    fabric.wire(A, B, Duration::ZERO);
    fabric
}

/// The same in 1.3, connected and at rest.
fn settled_pair() -> Fabric<Topology> {
    let mut fabric = pair(Version::V1_3);
    fabric.up(1);
    fabric.up(2);
    fabric.run(S * 2);
    assert_eq!((links(&fabric), roles(&fabric, [A, B])), (2, [PortRole::Link; 2]));
    assert_eq!(fabric.gauge("topology_ports_edge"), 6);
    fabric
}

fn links(fabric: &Fabric<Topology>) -> usize {
    let found = fabric.view(0).links().count();
    assert_eq!(fabric.gauge("topology_links"), found as u64);
    found
}

fn roles<const N: usize>(fabric: &Fabric<Topology>, ports: [SwitchPort; N]) -> [PortRole; N] {
    ports.map(|port| fabric.view(0).port_role(port))
}
