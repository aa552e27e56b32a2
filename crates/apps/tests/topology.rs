//! Which links are found, and what ports are, over switches that are wired.

use std::time::Duration;

use sluice_app::view::Role;
use sluice_apps::topology::Topology;
use sluice_testkit::{Fabric, place};
use sluice_wire::{Version, Versions};

const MS: Duration = Duration::from_millis(1);

/// Two switches of four ports, port 1 of the one wired to port 2 of the other.
fn pair(version: Version) -> Fabric<Topology> {
    let mut fabric = Fabric::new(version, [Topology::default()]);
    for id in [1, 2] {
        fabric.add(id, 4, 0);
    }
    fabric.wire(place(1, 1), place(2, 2), Duration::ZERO);
    fabric
}

#[test]
fn a_wire_is_a_link_in_both_directions_and_all_else_is_an_edge() {
    for version in Versions::SPOKEN.iter() {
        let mut fabric = pair(version);
        fabric.up(1);
        fabric.run(MS * 100);
        fabric.up(2);
        fabric.run(MS);
        let view = fabric.view(0);
        let (a, b) = (place(1, 1), place(2, 2));
        assert_eq!(view.link_from(a).map(|link| link.to), Some(b), "{version}");
        assert_eq!(view.link_from(b).map(|link| link.to), Some(a), "{version}");
        assert_eq!([view.role(a), view.role(b)], [Role::Link; 2], "{version}");
        assert_eq!(view.role(place(1, 2)), Role::Settling);
        fabric.run(MS * 750);
        let view = fabric.view(0);
        assert_eq!(view.role(place(1, 2)), Role::Edge);
        assert_eq!(view.role(place(2, 1)), Role::Edge);
        assert_eq!(view.links().count(), 2);
        assert_eq!(fabric.gauge("topology_ports_edge"), 6);
    }
}
