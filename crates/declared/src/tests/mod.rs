//! The reconciler against model switches that refuse, lose answers, disconnect and are changed by others.

mod bench;
mod faults;
mod misreported;
mod model_switch;
mod network_changes;
mod ownership;
mod policies;
mod quarantine;
mod selection;
mod sessions;
mod silent_switches;

use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::{DatapathId, GroupDesc, GroupId, Version};

use crate::{Kind, State};
use bench::{Bench, Loss, entry, flow};

const S1: DatapathId = DatapathId(1);

#[test]
fn an_entry_is_installed_when_its_switch_connects() {
    let mut bench = Bench::new();
    bench.set([flow("a", "1", "priority=200,in_port=1,actions=drop")]);
    assert_eq!(bench.state("a"), State::Pending(State::NOT_CONNECTED.to_owned()));
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert_eq!(bench.state("a"), State::Installed);
    assert_eq!(bench.switch(S1).tables.flows.len(), 1);
}

#[test]
fn nothing_is_sent_about_what_stays_the_same() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_4);
    bench.set([
        flow("a", "1", "priority=200,in_port=1,actions=drop"),
        flow("b", "all", "in_port=2,actions=output:1"),
    ]);
    bench.settle();
    let sent = bench.switch(S1).changes;
    bench.set([
        flow("a", "1", "priority=200,in_port=1,actions=drop"),
        flow("c", "1", "in_port=3,actions=drop"),
    ]);
    bench.settle();
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.switch(S1).changes, sent + 1);
    // After a restart of the controller, too.
    bench.restart();
    bench.connect(S1, Version::V1_4);
    bench.settle();
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.switch(S1).changes, sent + 1);
}

#[test]
fn what_others_remove_or_modify_is_put_back() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut bench = Bench::new();
        bench.connect(S1, version);
        bench.set([
            flow("a", "1", "in_port=1,actions=output:7"),
            flow("b", "1", "in_port=2,actions=output:7"),
        ]);
        bench.settle();
        let before = bench.switch(S1).tables.flows.clone();
        bench.switch_mut(S1).tables.flows.remove(0);
        bench.switch_mut(S1).tables.flows[0].instructions.clear();
        bench.wait(Duration::from_secs(12));
        bench.settle();
        let mut after = bench.switch(S1).tables.flows.clone();
        after.sort_by_key(|flow| flow.cookie);
        let mut before = before;
        before.sort_by_key(|flow| flow.cookie);
        assert_eq!(after, before, "{version}");
        assert_eq!([bench.state("a"), bench.state("b")], [State::Installed, State::Installed]);
    }
}

#[test]
fn a_change_is_made_as_a_whole_or_not_at_all() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
        for has_bundles in [false, true] {
            let mut bench = Bench::new();
            bench.connect(S1, version);
            if has_bundles {
                bench.describe(S1, "Open vSwitch", "None");
            }
            bench.switch_mut(S1).has_bundles = has_bundles && version >= Version::V1_3;
            bench.switch_mut(S1).tables.flows_max = 3;
            bench.set([flow("old", "1", "in_port=9,actions=output:1")]);
            bench.settle();
            let old = bench.switch(S1).tables.flows.clone();
            let entry = |n: u32| flow(&format!("e{n}"), "1", &format!("in_port={n},actions=drop"));
            bench.set((1..=3).map(entry).chain([flow("old", "1", "in_port=9,actions=output:2")]));
            bench.settle();
            assert_eq!(bench.switch(S1).tables.flows, old, "{version} {has_bundles}");
            for name in ["e1", "e2", "e3", "old"] {
                let State::Refused(reason) = bench.state(name) else { unreachable!("{name}") };
                assert!(
                    reason.contains("TABLE_FULL") || reason.contains("TABLES_FULL"),
                    "{reason}"
                );
            }
            bench.switch_mut(S1).tables.flows_max = 100;
            bench.wait(Duration::from_secs(5));
            bench.settle();
            assert_eq!(bench.switch(S1).tables.flows.len(), 4, "{version} {has_bundles}");
            assert_eq!(bench.state("old"), State::Installed);
        }
    }
}

fn group_ids(bench: &Bench) -> Vec<u32> {
    bench.switch(S1).tables.groups.keys().copied().collect()
}

#[test]
fn groups_and_meters_are_removed_when_they_are_undeclared_even_after_a_restart() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench
        .switch_mut(S1)
        .tables
        .groups
        .insert(77, GroupDesc { group_id: GroupId(77), ..GroupDesc::default() });
    bench.set([
        entry(Kind::Group, "g2", "1", "group_id=2,type=all,bucket=actions=group:1"),
        entry(Kind::Group, "g1", "1", "group_id=1,type=all,bucket=actions=output:1"),
        entry(Kind::Meter, "m1", "1", "meter=1,kbps,band=type=drop,rate=1000"),
        flow("a", "1", "in_port=1,actions=group:2"),
    ]);
    bench.settle();
    assert_eq!(group_ids(&bench), [1, 2, 77]);
    assert_eq!(bench.switch(S1).tables.meters.len(), 1);
    bench.disconnect(S1);
    bench.remove_all();
    bench.restart();
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert_eq!(group_ids(&bench), [77]);
    assert!(bench.switch(S1).tables.meters.is_empty() && bench.switch(S1).tables.flows.is_empty());
}

fn version(at: DatapathId) -> Version {
    match at.0 {
        1 => Version::V1_0,
        2 => Version::V1_3,
        _ => Version::V1_4,
    }
}

/// Whatever happens: when it stops, each switch has what is declared, and nothing else of ours.
#[test]
fn switches_have_what_is_declared_after_any_sequence_of_faults() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut bench = Bench::new();
        let switches: Vec<_> = (1..=3).map(DatapathId).collect();
        for _ in 0..60 {
            let at = switches[rng.below(3) as usize];
            match rng.below(12) {
                0 | 1 => bench.connect(at, version(at)),
                2 => bench.disconnect(at),
                3 => bench.restart(),
                4 => bench.power_cycle(at),
                5 => bench.lose(at, [Loss::Request, Loss::Answer][rng.below(2) as usize]),
                6 => bench.remove_behind_our_back(at, &mut rng),
                7 => bench.limit(at, rng.below(6) as usize),
                8 => bench.wait(Duration::from_millis(rng.below(40_000).into())),
                _ => bench.change(&mut rng),
            }
            for _ in 0..rng.below(4) {
                bench.answer_one(&mut rng);
            }
        }
        for at in switches {
            bench.limit(at, 1000);
            bench.connect(at, version(at));
        }
        bench.try_all_again();
        bench.assert_converged(seed);
    }
}
