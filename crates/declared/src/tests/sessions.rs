//! What depends on the session: what was left in the switch, roles, bundles, and how it reports entries.

use sluice_openflow::{PortNo, Role, Version};

use super::bench::{Bench, entry, flow};
use super::{Duration, Kind, S1, State};
use crate::reconcile::Notice;

/// A switch that was away while its flow entry was moved to another group.
#[test]
fn what_replaces_something_is_installed_before_it_is_removed() {
    for version in [Version::V1_3, Version::V1_4] {
        let group = |id: u32| {
            let text = format!("group_id={id},type=all,bucket=actions=output:1");
            entry(Kind::Group, &format!("g{id}"), "1", &text)
        };
        let mut bench = Bench::new();
        bench.connect(S1, version);
        bench.set([group(1), flow("a", "1", "in_port=1,actions=group:1")]);
        bench.settle();
        bench.disconnect(S1);
        bench.set([group(2)]);
        bench.set([flow("a", "1", "in_port=1,actions=group:2")]);
        bench.remove(Kind::Group, "g1");
        bench.connect(S1, version);
        bench.settle_and_look(|switch| assert_eq!(switch.tables.flows.len(), 1, "{version}"));
        bench.wait(Duration::from_secs(1));
        let groups: Vec<_> = bench.switch(S1).tables.groups.keys().copied().collect();
        assert_eq!((bench.state("a"), groups), (State::Installed, vec![2]));
    }
}

#[test]
fn the_removal_of_undeclared_entries_is_reported() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set((1..=3).map(|n| flow(&format!("e{n}"), "1", &format!("in_port={n},actions=drop"))));
    bench.settle();
    bench.disconnect(S1);
    bench.remove(Kind::Flow, "e1");
    bench.remove(Kind::Flow, "e2");
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert_eq!(bench.notices(), [Notice::Removed { switch: S1, count: 2 }]);
    // What is removed while it is connected was asked for.
    bench.remove(Kind::Flow, "e3");
    bench.settle();
    assert_eq!(bench.notices(), []);
}

#[test]
fn nothing_is_sent_to_a_switch_of_another_master() {
    for version in [Version::V1_3, Version::V1_4] {
        let mut bench = Bench::new();
        bench.connect(S1, version);
        bench.set([flow("a", "1", "in_port=1,actions=drop"), flow("b", "1", "actions=drop")]);
        bench.settle();
        bench.set_role(S1, Role::SLAVE);
        let changes = bench.switch(S1).changes;
        bench.set([flow("c", "1", "in_port=3,actions=drop")]);
        bench.remove(Kind::Flow, "b");
        bench.wait(Duration::from_secs(100));
        assert_eq!(bench.switch(S1).changes, changes);
        let not_master = State::Pending("not master".to_owned());
        assert_eq!([bench.state("a"), bench.state("c")], [State::Installed, not_master.clone()]);
        assert_eq!(bench.removals(), [("flow \"b\"".to_owned(), not_master)]);
        assert!(bench.has_tried());
        bench.set_role(S1, Role::MASTER);
        bench.wait(Duration::from_secs(1));
        assert_eq!([bench.state("a"), bench.state("c")], [State::Installed, State::Installed]);
        assert_eq!((bench.removals(), bench.switch(S1).tables.flows.len()), (vec![], 2));
        assert_eq!(bench.notices(), []);
    }
}

/// A refusal of another kind, even of `BAD_REQUEST`, says nothing about bundles.
#[test]
fn a_switch_that_refuses_a_change_has_bundles_nevertheless() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_4);
    bench.settle();
    let two = |port: u32| {
        [1, 2].map(|n| flow(&format!("e{n}"), "1", &format!("in_port={n},actions=output:{port}")))
    };
    // It does not know yet that another controller has become the master.
    bench.switch_mut(S1).is_slave = true;
    bench.set(two(1));
    bench.settle();
    assert_eq!(bench.state("e1"), State::Refused("BAD_REQUEST/IS_SLAVE".to_owned()));
    bench.switch_mut(S1).is_slave = false;
    bench.wait(Duration::from_secs(10));
    bench.set(two(2));
    bench.settle_and_look(|switch| {
        let ports: Vec<_> = switch.tables.flows.iter().map(|flow| &flow.instructions).collect();
        assert_eq!(ports[0], ports[1], "one after the other");
    });
    assert_eq!(bench.state("e1"), State::Installed);
}

#[test]
fn a_switch_with_1_3_is_sent_bundles_once_it_is_known_to_be_open_vswitch() {
    let two = |port: u32| {
        [1, 2].map(|n| flow(&format!("e{n}"), "1", &format!("in_port={n},actions=output:{port}")))
    };
    for is_open_vswitch in [false, true] {
        let mut bench = Bench::new();
        bench.connect(S1, Version::V1_3);
        bench.switch_mut(S1).has_bundles = true;
        bench.switch_mut(S1).ignores_bundles = !is_open_vswitch;
        bench.set(two(1));
        bench.wait(Duration::from_secs(20));
        assert_eq!(bench.switch(S1).tables.flows.len(), 2);
        bench.describe(S1, if is_open_vswitch { "Open vSwitch" } else { "chip" }, "None");
        bench.set(two(2));
        bench.wait(Duration::from_secs(60));
        assert_eq!(bench.notices(), []);
        assert_eq!(bench.switch(S1).committed > 0, is_open_vswitch);
    }
}

/// Modified again and again, though never directly after it was written.
#[test]
fn a_modification_by_another_program_is_not_taken_for_a_conversion() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([flow("a", "1", "in_port=1,actions=output:1")]);
    bench.settle();
    let good = bench.switch(S1).tables.flows.clone();
    for _ in 0..5 {
        bench.switch_mut(S1).tables.flows[0].instructions.clear();
        bench.wait(Duration::from_millis(10_500));
        assert_eq!(bench.switch(S1).tables.flows, good);
    }
}

#[test]
fn an_entry_that_the_switch_reports_differently_is_accepted_and_noted() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.switch_mut(S1).reported_ports = vec![PortNo(99)];
    bench.set([flow("a", "1", "in_port=1,actions=output:1")]);
    bench.wait(Duration::from_secs(11));
    let changes = bench.switch(S1).changes;
    assert_eq!(
        (bench.state("a"), bench.note("a")),
        (State::Installed, Some("reported differently by the switch"))
    );
    let converted = Notice::Converted { switch: S1, entry: "flow \"a\"".to_owned() };
    assert!(bench.notices().contains(&converted));
    bench.wait(Duration::from_secs(60));
    assert_eq!((bench.switch(S1).changes, bench.notices()), (changes, vec![]));
}

#[test]
fn a_refused_removal_is_listed_and_reported_once() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([flow("a", "1", "in_port=1,actions=drop")]);
    bench.settle();
    bench.switch_mut(S1).is_slave = true;
    bench.remove(Kind::Flow, "a");
    bench.wait(Duration::from_secs(300));
    let refused = State::Refused("BAD_REQUEST/IS_SLAVE".to_owned());
    assert_eq!(bench.removals(), [("flow \"a\"".to_owned(), refused)]);
    let notice = Notice::Refused {
        switch: S1,
        entry: "removal of flow \"a\"".to_owned(),
        reason: "BAD_REQUEST/IS_SLAVE".to_owned(),
    };
    assert_eq!(bench.notices(), [notice]);
    bench.switch_mut(S1).is_slave = false;
    bench.wait(Duration::from_secs(61));
    assert_eq!(bench.removals(), []);
}
