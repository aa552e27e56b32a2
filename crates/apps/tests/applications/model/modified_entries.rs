//! Another program deletes, modifies or replaces flow entries of each kind, and they are restored within the documented time.

use std::time::Duration;

use sluice_apps::forwarding::{self, Flooding};
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{HubKind, NetworkChange};
use sluice_openflow::{
    Action, Field, FlowMod, FlowModCommand, Instruction, MacAddr, PortNo, Version,
};
use sluice_sdk::flow_space::{BLOCKED_PORTS, EntryKind, GROUP_STREAMS, PATHS, TABLE_MISS, TREE};

use crate::model::{ModelNetwork, STARTUP_TIME, switch_config};

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

/// What the other program does to a flow entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Delete,
    Drop,
    OtherPort,
    TwoPorts,
    OtherPriority,
}

impl Damage {
    const ALL: [Self; 5] =
        [Self::Delete, Self::Drop, Self::OtherPort, Self::TwoPorts, Self::OtherPriority];

    fn apply(self, entry: &FlowMod) -> Vec<FlowMod> {
        let outputs = |ports: &[u32]| {
            let actions: Vec<_> = ports.iter().map(|&port| Action::output(PortNo(port))).collect();
            vec![Instruction::apply(actions)]
        };
        let command = |command| FlowMod { command, ..entry.clone() };
        let modify =
            |instructions| FlowMod { instructions, ..command(FlowModCommand::MODIFY_STRICT) };
        match self {
            Self::Delete => vec![command(FlowModCommand::DELETE_STRICT)],
            Self::Drop => vec![modify(vec![])],
            Self::OtherPort => {
                let to_first = entry.instructions == outputs(&[1]);
                vec![modify(outputs(if to_first { &[2] } else { &[1] }))]
            }
            Self::TwoPorts => vec![modify(outputs(&[1, 2]))],
            Self::OtherPriority => vec![
                command(FlowModCommand::DELETE_STRICT),
                FlowMod { priority: entry.priority - 1, ..entry.clone() },
            ],
        }
    }
}

/// Cookie and priority of the flow entry of an operator.
const FOREIGN: (u64, u16) = (0x1234, 50);

/// Adds a flow entry of an operator to a switch.
fn add_foreign(network: &mut ModelNetwork, switch: usize) {
    let (cookie, priority) = FOREIGN;
    let matching = [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 9, 9]))].into();
    let entry = FlowMod { cookie, priority, matching, ..FlowMod::default() };
    change(network, switch, [entry]);
}

#[track_caller]
fn assert_foreign_is_there(network: &ModelNetwork, switch: usize) {
    let switch = network.simulation.data_plane().switch(switch).unwrap();
    let foreign = switch.flow_entries(0).filter(|entry| (entry.cookie, entry.priority) == FOREIGN);
    assert_eq!(foreign.count(), 1);
}

fn change(network: &mut ModelNetwork, switch: usize, changes: impl IntoIterator<Item = FlowMod>) {
    let (now, data_plane) = network.simulation.data_plane_mut();
    for change in changes {
        assert!(data_plane.change_tables(now, switch, change).unwrap());
    }
}

/// The flow entries of a kind at a switch, as they were written, in the order of priority and match.
fn entries(network: &ModelNetwork, switch: usize, kind: &EntryKind) -> Vec<FlowMod> {
    let switch = network.simulation.data_plane().switch(switch).unwrap();
    let entries = switch.flow_entries(0).filter(|entry| kind.has_cookie(entry.cookie));
    let mut entries: Vec<_> = entries
        .map(|entry| FlowMod {
            cookie: entry.cookie,
            priority: entry.priority,
            matching: entry.matching(),
            idle_timeout: entry.idle_timeout_s,
            hard_timeout: entry.hard_timeout_s,
            flags: entry.flags,
            instructions: entry.instructions().to_vec(),
            ..FlowMod::default()
        })
        .collect();
    entries.sort_by_key(|entry| (entry.priority, format!("{:?}", entry.matching)));
    entries
}

/// Damages all entries of a kind at a switch in each way, one after another, and asserts that they are as before after `restore`.
#[track_caller]
fn assert_restored(
    network: &mut ModelNetwork,
    switch: usize,
    kind: &EntryKind,
    restore: impl Fn(&mut ModelNetwork),
) {
    // The cookies of streams are different each time.
    let shape = |entries: Vec<FlowMod>| -> Vec<_> {
        let shape = |entry: FlowMod| (entry.priority, entry.matching, entry.instructions);
        entries.into_iter().map(shape).collect()
    };
    add_foreign(network, switch);
    for damage in Damage::ALL {
        let expected = entries(network, switch, kind);
        assert!(!expected.is_empty(), "{damage:?}");
        let changes: Vec<_> = expected.iter().flat_map(|entry| damage.apply(entry)).collect();
        change(network, switch, changes);
        let expected = shape(expected);
        let is_changed = shape(entries(network, switch, kind)) != expected;
        assert!(is_changed || damage == Damage::Drop, "{damage:?}");
        restore(network);
        assert_eq!(shape(entries(network, switch, kind)), expected, "{damage:?}");
    }
    assert_foreign_is_there(network, switch);
}

/// Shorter than the default of 300 s, and than the idle timeout of the entries.
const VERIFY_INTERVAL: Duration = Duration::from_secs(20);

fn network_that_verifies(version: Version) -> ModelNetwork {
    let forwarding = forwarding::Config {
        verify_interval: VERIFY_INTERVAL,
        flooding: Flooding::Controller,
        ..forwarding::Config::default()
    };
    let mut network = ModelNetwork::new("linear,3", switch_config(version), forwarding);
    network.run_for(STARTUP_TIME);
    assert_eq!(network.lost_pings(), []);
    network
}

#[test]
fn flow_entries_of_paths_are_restored_within_the_interval_of_verifications() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_3, Version::V1_5] {
        let mut network = network_that_verifies(version);
        assert_restored(&mut network, 1, &PATHS, |network| {
            network.run_for(VERIFY_INTERVAL + Duration::from_secs(2));
            // Entries that are missing are installed with the next packets.
            assert_eq!(network.lost_pings(), [], "{version}");
        });
    }
}

#[test]
fn a_switch_whose_flow_entries_are_right_gets_no_changes() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = network_that_verifies(version);
        let written = |network: &ModelNetwork| -> Vec<_> {
            let switches = (0..3).map(|n| network.simulation.data_plane().switch(n).unwrap());
            let entries = switches.flat_map(|switch| switch.flow_entries(0));
            entries.map(|entry| (entry.added_at, entry.cookie, entry.priority)).collect()
        };
        let (before, metrics) = (written(&network), network.metrics());
        network.run_for(2 * VERIFY_INTERVAL);
        assert_eq!(written(&network), before, "{version}");
        for name in ["forwarding_stale_deletions", "forwarding_paths_installed"] {
            assert_eq!(network.metrics()[name], metrics[name], "{version} {name}");
        }
    }
}

#[test]
fn flow_entries_of_the_tree_are_restored_within_ten_seconds() {
    for version in [Version::V1_0, Version::V1_3] {
        for multicast in [None, Some(forwarding::multicast::Config::default())] {
            let forwarding = forwarding::Config {
                flooding: Flooding::Tree,
                multicast,
                ..forwarding::Config::default()
            };
            let mut network = ModelNetwork::new("linear,3", switch_config(version), forwarding);
            network.run_for(2 * STARTUP_TIME);
            network.active_tree_generation();
            assert_restored(&mut network, 1, &TREE, |network| {
                network.run_for(Duration::from_secs(11));
            });
            network.assert_broadcasts_reach_all();
        }
    }
}

/// A stream whose entry was modified is broken until the entry expires.
#[test]
fn flow_entries_of_streams_are_restored_within_five_minutes() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = ModelNetwork::with_flooding("linear,3", version, Flooding::Tree);
        network.run_for(STARTUP_TIME);
        let send = |network: &mut ModelNetwork, count, interval| {
            for _ in 0..count {
                let number = network.traced_frames;
                network.traced_frames += 1;
                network.apply(NetworkChange::SendTracedFrame(0, number));
                network.run_for(interval);
            }
        };
        let burst = Duration::from_millis(20);
        send(&mut network, 50, burst);
        assert_restored(&mut network, 0, &GROUP_STREAMS, |network| {
            send(network, 61, Duration::from_secs(5));
            send(network, 50, burst);
        });
    }
}

#[test]
fn flow_entries_that_block_a_port_of_a_segment_are_restored_within_thirty_seconds() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = ModelNetwork::with_flooding("linear,2", version, Flooding::Controller);
        let (now, data_plane) = network.simulation.data_plane_mut();
        let ports = [0, 1].map(|switch| data_plane.free_port(switch).unwrap());
        data_plane.add_hub(now, HubKind::Bridge, &ports, &[1], LinkImpairments::default()).unwrap();
        network.run_for(STARTUP_TIME);
        assert_restored(&mut network, 1, &BLOCKED_PORTS, |network| {
            network.run_for(Duration::from_secs(31));
        });
    }
}
