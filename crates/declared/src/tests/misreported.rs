//! Switches that report what they do not have.

use sluice_openflow::{FlowDesc, PortNo, Version};
use sluice_sdk::flow_space::STATIC;

use super::bench::{Bench, flow};
use super::{Duration, S1, State};
use crate::reconcile::Notice;

fn put_back(notices: &[Notice]) -> usize {
    notices.iter().filter(|it| matches!(it, Notice::PutBack { .. })).count()
}

#[test]
fn an_entry_that_is_reported_differently_each_time_is_written_at_growing_intervals() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([
        flow("a", "1", "in_port=1,actions=output:1"),
        flow("b", "1", "in_port=2,actions=drop"),
    ]);
    bench.settle();
    bench.switch_mut(S1).reported_ports = vec![PortNo(98), PortNo(99)];
    let (read, changes) = (bench.switch(S1).read, bench.switch(S1).changes);
    bench.wait(Duration::from_secs(300));
    let (read, changes) = (bench.switch(S1).read - read, bench.switch(S1).changes - changes);
    // Every 10 s, and after each of the writes: at once, after 1 s, 2 s, 4 s, 8 s, 16 s, 32 s and then every 60 s.
    assert!(read <= 45 && (8..=12).contains(&changes), "{read} readings, {changes} changes");
    assert!(put_back(&bench.notices()) <= 12);
    // Another entry of the same change does not wait.
    let position = bench.switch(S1).tables.flows.iter().position(|it| it.instructions.is_empty());
    bench.switch_mut(S1).tables.flows.remove(position.unwrap());
    bench.wait(Duration::from_secs(11));
    assert_eq!((bench.state("b"), bench.switch(S1).tables.flows.len()), (State::Installed, 2));
    bench.switch_mut(S1).reported_ports.clear();
    bench.wait(Duration::from_secs(11));
    assert_eq!(bench.state("a"), State::Installed);
}

fn undeclared(count: u16) -> Vec<FlowDesc> {
    let flow = |priority| FlowDesc { priority, cookie: STATIC.cookie, ..FlowDesc::default() };
    (1..=count).map(flow).collect()
}

#[test]
fn undeclared_entries_are_deleted_in_parts_without_a_pause() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([flow("a", "1", "in_port=1,actions=output:1")]);
    bench.settle();
    bench.switch_mut(S1).tables.flows.extend(undeclared(5000));
    let read = bench.switch(S1).read;
    bench.wait(Duration::from_secs(11));
    assert_eq!(bench.switch(S1).tables.flows.len(), 1);
    assert_eq!(bench.switch(S1).read - read, 3);
}

#[test]
fn undeclared_entries_that_a_switch_invents_are_neither_kept_nor_deleted_without_a_limit() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([flow("a", "1", "in_port=1,actions=output:1")]);
    bench.settle();
    bench.switch_mut(S1).invented = undeclared(20_000);
    bench.wait_without_answers(Duration::from_secs(10));
    bench.answer(S1);
    assert_eq!(bench.removals().len(), 2048);
    let read = bench.switch(S1).read;
    bench.wait(Duration::from_secs(35));
    assert!(bench.switch(S1).read - read <= 5, "{} readings", bench.switch(S1).read - read);
    assert_eq!(bench.state("a"), State::Installed);
}
