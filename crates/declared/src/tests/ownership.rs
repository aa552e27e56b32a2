//! Groups and meters, which have no cookie: those of other programs stay, those of ours are removed.

use sluice_openflow::{DatapathId, GroupDesc, GroupId, MeterDesc, MeterId, Version};

use super::bench::{Bench, entry, flow};
use super::{Duration, Kind, Loss, S1, State};
use crate::Declaration;

fn group(id: u32, port: u32) -> Declaration {
    let text = format!("group_id={id},type=all,bucket=actions=output:{port}");
    entry(Kind::Group, &format!("g{id}"), "1", &text)
}

fn meter(id: u32) -> Declaration {
    let text = format!("meter={id},kbps,band=type=drop,rate=1000");
    entry(Kind::Meter, &format!("m{id}"), "1", &text)
}

/// Groups and meters of another program, without buckets and bands.
fn add_of_others(bench: &mut Bench, ids: &[u32]) {
    let tables = &mut bench.switch_mut(S1).tables;
    for &id in ids {
        tables.groups.insert(id, GroupDesc { group_id: GroupId(id), ..GroupDesc::default() });
        tables.meters.insert(id, MeterDesc { meter_id: MeterId(id), ..MeterDesc::default() });
    }
}

fn assert_of_others(bench: &Bench, ids: &[u32]) {
    let tables = &bench.switch(S1).tables;
    for id in ids {
        assert!(tables.groups.get(id).is_some_and(|it| it.buckets.is_empty()), "group {id}");
        assert!(tables.meters.get(id).is_some_and(|it| it.bands.is_empty()), "meter {id}");
    }
}

#[test]
fn groups_and_meters_of_other_programs_stay_as_they_are() {
    for version in [Version::V1_3, Version::V1_4] {
        let mut bench = Bench::new();
        bench.connect(S1, version);
        bench.settle();
        add_of_others(&mut bench, &[7]);
        bench.set([group(7, 1), flow("a", "1", "in_port=1,actions=group:7")]);
        bench.set([meter(7)]);
        bench.wait(Duration::from_secs(100));
        let exists = State::Refused("exists already, added by another program".to_owned());
        assert_eq!([bench.state("g7"), bench.state("m7")], [exists.clone(), exists]);
        assert!(bench.switch(S1).tables.flows.is_empty() && bench.owned().is_empty());
        bench.disconnect(S1);
        bench.restart();
        bench.connect(S1, version);
        bench.wait(Duration::from_secs(100));
        bench.remove_all();
        bench.wait(Duration::from_secs(100));
        assert_of_others(&bench, &[7]);
    }
}

#[test]
fn a_number_is_used_when_the_other_program_has_removed_its_group() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.settle();
    add_of_others(&mut bench, &[7]);
    bench.set([group(7, 1)]);
    bench.wait(Duration::from_secs(300));
    bench.switch_mut(S1).tables.groups.clear();
    bench.wait(Duration::from_secs(11));
    assert_eq!((bench.state("g7"), bench.owned()), (State::Installed, vec![7]));
}

/// Between the last reading and the message that adds a group.
#[test]
fn a_group_that_another_program_adds_at_the_same_time_is_neither_taken_over_nor_undone() {
    for lose_answer_of_undo in [false, true] {
        let mut bench = Bench::new();
        bench.connect(S1, Version::V1_3);
        bench.set([group(1, 1), meter(1)]);
        bench.settle();
        add_of_others(&mut bench, &[7, 8, 9]);
        bench.set([group(2, 1), group(7, 1), group(8, 1), group(9, 1)]);
        if lose_answer_of_undo {
            bench.answer_next(S1);
            bench.lose(S1, Loss::Answer);
        }
        bench.wait(Duration::from_secs(100));
        assert_of_others(&bench, &[7, 8, 9]);
        assert_eq!(
            bench.switch(S1).tables.groups.keys().copied().collect::<Vec<_>>(),
            [1, 7, 8, 9]
        );
        assert_eq!(bench.owned(), [1, 1]);
        bench.remove_all();
        bench.wait(Duration::from_secs(100));
        assert_of_others(&bench, &[7, 8, 9]);
    }
}

#[test]
fn a_group_that_is_there_as_declared_is_used_and_stays() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([group(7, 1)]);
    bench.settle();
    bench.disconnect(S1);
    bench.forget_owned();
    bench.restart();
    bench.connect(S1, Version::V1_3);
    bench.wait(Duration::from_secs(30));
    assert_eq!((bench.state("g7"), bench.owned()), (State::Installed, vec![]));
    bench.remove_all();
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.switch(S1).tables.groups.len(), 1);
}

#[test]
fn what_is_in_a_switch_stays_ours_while_nothing_can_be_stored() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.set([group(1, 1), meter(1)]);
    bench.settle();
    bench.fill_disk(true);
    bench.set([group(1, 2), group(2, 1), meter(1)]);
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.state("g2"), State::Pending("the disk is full".to_owned()));
    bench.remove(Kind::Meter, "m1");
    bench.remove(Kind::Group, "g2");
    bench.wait(Duration::from_secs(100));
    assert_eq!((bench.state("g1"), bench.owned()), (State::Installed, vec![1, 1]));
    assert!(bench.switch(S1).tables.meters.is_empty());
    bench.fill_disk(false);
    bench.wait(Duration::from_secs(30));
    assert_eq!(bench.owned(), [1]);
    bench.remove_all();
    bench.settle();
    assert!(bench.switch(S1).tables.groups.is_empty() && bench.owned().is_empty());
}

/// A peer may use another datapath id in each session.
#[test]
fn the_groups_of_16_384_switches_that_have_disconnected_are_remembered() {
    let mut bench = Bench::new();
    bench.own_groups((1001..=1000 + 16_384).map(|id| (DatapathId(id), 1)));
    bench.restart();
    bench.connect(S1, Version::V1_3);
    bench.set([group(1, 1)]);
    bench.settle();
    bench.disconnect(S1);
    assert!(bench.owns(S1, 1) && !bench.owns(DatapathId(1001), 1));
    assert_eq!(bench.owned().len(), 16_384);
    // One without groups takes no place.
    bench.connect(DatapathId(2), Version::V1_3);
    bench.settle();
    bench.disconnect(DatapathId(2));
    assert_eq!(bench.owned().len(), 16_384);
    bench.remove_all();
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert!(bench.switch(S1).tables.groups.is_empty() && !bench.owns(S1, 1));
}

/// Each sends to the next one, which has to be there before.
#[test]
fn a_long_chain_of_groups_is_installed_in_the_order_of_use() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    let of_chain = |id: u32| {
        let text = format!("group_id={id},type=indirect,bucket=actions=group:{}", id + 1);
        entry(Kind::Group, &format!("g{id}"), "1", &text)
    };
    let started = sluice_io::clock::now();
    bench.set((1..2000).map(of_chain).chain([group(2000, 1)]));
    bench.settle();
    assert_eq!((bench.state("g1"), bench.switch(S1).tables.groups.len()), (State::Installed, 2000));
    assert!(sluice_io::clock::now() - started < Duration::from_secs(60));
}
