//! Switches that are selected by name, and several entries with the same match and priority.

use sluice_openflow::{DatapathId, Version};

use super::bench::{Bench, flow};
use super::{Duration, S1, State};

const S2: DatapathId = DatapathId(2);

/// To which ports the flow entries of a switch send.
fn ports(bench: &Bench, at: DatapathId) -> Vec<String> {
    let flows = &bench.switch(at).tables.flows;
    flows.iter().map(|flow| format!("{:?}", flow.instructions)).collect()
}

/// Entries for two names with the same match and different actions.
fn two_names() -> Bench {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.connect(S2, Version::V1_4);
    bench.name(&[(1, "core"), (2, "edge")]);
    bench.set([
        flow("a", "core", "in_port=1,actions=output:1"),
        flow("b", "edge", "in_port=1,actions=output:2"),
    ]);
    bench.settle();
    bench
}

#[test]
fn switches_whose_names_are_swapped_swap_their_entries() {
    let mut bench = two_names();
    let before = [ports(&bench, S1), ports(&bench, S2)];
    bench.name(&[(1, "edge"), (2, "core")]);
    assert!(!bench.has_tried());
    bench.settle();
    assert_eq!([ports(&bench, S2), ports(&bench, S1)], before);
    assert_eq!([bench.state("a"), bench.state("b")], [State::Installed, State::Installed]);
    assert!(bench.has_tried());
}

#[test]
fn an_entry_takes_the_place_that_a_new_name_frees() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.describe(S1, "switch", "lab");
    bench.name(&[(1, "core")]);
    bench.set([
        flow("a", "core", "in_port=1,actions=output:1"),
        flow("b", "lab", "in_port=1,actions=output:2"),
    ]);
    bench.settle();
    assert_eq!(bench.state("b"), State::Refused("the same as flow \"a\"".to_owned()));
    bench.name(&[(1, "spine")]);
    bench.settle();
    assert_eq!(bench.state("b"), State::Installed);
    let with_b = ports(&bench, S1);
    bench.name(&[(1, "core")]);
    bench.settle();
    assert_eq!((ports(&bench, S1), with_b.len()), (with_b, 1));
}

#[test]
fn a_name_that_the_switch_states_later_selects_it() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([flow("a", "lab", "in_port=1,actions=output:1")]);
    bench.settle();
    assert_eq!(ports(&bench, S1).len(), 0);
    bench.describe(S1, "switch", "lab");
    bench.wait(Duration::from_secs(1));
    assert_eq!((ports(&bench, S1).len(), bench.state("a")), (1, State::Installed));
}
