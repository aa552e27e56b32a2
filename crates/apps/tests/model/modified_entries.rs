//! Another program modifies permanent flow entries: a switch reports entries that are removed, but not these.

use std::time::Duration;

use sluice_apps::forwarding::Flooding;
use sluice_openflow::{FlowMod, FlowModCommand, Instruction, Version};
use sluice_sdk::flow_space::TABLE_MISS;

use crate::ModelNetwork;

/// The permanent entries of the first switch: priority, match and instructions.
fn permanent_entries(network: &ModelNetwork) -> Vec<(u16, Vec<Instruction>)> {
    let switch = network.simulation.data_plane().switch(0).unwrap();
    let entries = switch.flow_entries(0).filter(|entry| entry.cookie == TABLE_MISS.cookie);
    let mut entries: Vec<_> =
        entries.map(|entry| (entry.priority, entry.instructions().to_vec())).collect();
    entries.sort_by_key(|(priority, _)| *priority);
    entries
}

/// Changes each permanent entry of the first switch.
fn change_permanent_entries(network: &mut ModelNetwork, change: impl Fn(FlowMod) -> FlowMod) {
    let switch = network.simulation.data_plane().switch(0).unwrap();
    let entries = switch.flow_entries(0).filter(|entry| entry.cookie == TABLE_MISS.cookie);
    let changes = entries.map(|entry| {
        let (priority, matching) = (entry.priority, entry.matching());
        change(FlowMod { priority, matching, ..FlowMod::default() })
    });
    let changes: Vec<_> = changes.collect();
    let (now, data_plane) = network.simulation.data_plane_mut();
    for change in changes {
        assert!(data_plane.change_tables(now, 0, change).unwrap());
    }
}

#[test]
fn permanent_entries_that_another_program_modifies_or_replaces_are_written_again() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_3, Version::V1_5] {
        let mut network = ModelNetwork::with_flooding("linear,2", version, Flooding::Controller);
        let expected = permanent_entries(&network);
        let with_table_miss = version >= Version::V1_3;
        assert_eq!(expected.len(), if with_table_miss { 3 } else { 2 }, "{version}");
        let command = FlowModCommand::MODIFY_STRICT;
        let drops = |entry| FlowMod { command, instructions: vec![], ..entry };
        let replaces = |entry| FlowMod { cookie: 0x1234, ..entry };
        for (n, change) in [&drops as &dyn Fn(FlowMod) -> FlowMod, &replaces].iter().enumerate() {
            change_permanent_entries(&mut network, change);
            assert_ne!(permanent_entries(&network), expected);
            network.run_for(Duration::from_secs(301));
            assert_eq!(permanent_entries(&network), expected, "{version}");
            let metrics = network.metrics();
            let restored = [
                metrics["topology_probe_entries_restored"],
                metrics["forwarding_table_miss_restored"],
            ];
            let times = n as u64 + 1;
            assert_eq!(restored, [times, if with_table_miss { times } else { 0 }], "{version}");
        }
        network.run_for(Duration::from_secs(600));
        assert_eq!(network.metrics()["topology_probe_entries_restored"], 2, "{version}");
    }
}
