//! Switches that never answer a reading, and those that have to be verified beside them.

use sluice_openflow::{DatapathId, Version};

use super::bench::{Bench, entry, flow};
use super::{Duration, Kind, S1, State};

const SECOND: Duration = Duration::from_secs(1);

fn reconnect(bench: &mut Bench, ids: impl IntoIterator<Item = u64>) {
    for id in ids.into_iter().map(DatapathId) {
        bench.silence(id);
        bench.disconnect(id);
        bench.connect(id, Version::V1_3);
    }
}

fn declare(bench: &mut Bench, port: u64) {
    bench.set([flow("a", "1", &format!("in_port=1,actions=output:{port}"))]);
    bench.settle();
}

/// They are read when they connect, and reconnect before the reading has failed.
#[test]
fn silent_switches_that_reconnect_delay_neither_changes_nor_verification() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    declare(&mut bench, 1);
    let (mut read, mut unread_s) = (bench.switch(S1).read, 0);
    for round in 0..5 {
        reconnect(&mut bench, 100..300);
        for second in 0..29 {
            declare(&mut bench, 2 + round * 29 + second);
            assert_eq!(bench.state("a"), State::Installed, "round {round}, {second} s");
            bench.wait(SECOND);
            unread_s = if bench.switch(S1).read == read { unread_s + 1 } else { 0 };
            read = bench.switch(S1).read;
            assert!(unread_s <= 10, "not verified for {unread_s} s in round {round}");
        }
    }
}

/// They have answered the first reading, and take all slots with the second one.
#[test]
fn a_reading_that_waits_for_a_slot_holds_back_only_what_depends_on_it() {
    let mut bench = Bench::new();
    bench.set([flow("all", "all", "in_port=9,actions=drop")]);
    for id in (100..116).map(DatapathId) {
        bench.connect(id, Version::V1_3);
    }
    bench.wait(5 * SECOND);
    for id in (100..116).map(DatapathId) {
        bench.silence(id);
    }
    // They are due before this one is verified.
    bench.connect(S1, Version::V1_3);
    declare(&mut bench, 1);
    bench.wait(11 * SECOND);
    let read = bench.switch(S1).read;
    declare(&mut bench, 2);
    assert_eq!((bench.state("a"), bench.switch(S1).read), (State::Installed, read));
    bench.set([entry(Kind::Group, "g", "1", "group_id=1,type=all,bucket=actions=output:1")]);
    bench.set([flow("b", "1", "in_port=2,actions=group:1")]);
    bench.wait(5 * SECOND);
    assert!(bench.switch(S1).tables.groups.is_empty(), "sent before groups were read");
    let pending = |state| matches!(state, State::Pending(_));
    assert!(pending(bench.state("g")) && pending(bench.state("b")));
    bench.disconnect(DatapathId(100));
    bench.settle();
    assert_eq!([bench.state("g"), bench.state("b")], [State::Installed, State::Installed]);
}

/// A reading waits for the answers to changes in flight, and no other change starts before it.
#[test]
fn a_reading_that_is_due_ends_although_changes_never_pause() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    declare(&mut bench, 1);
    bench.wait(SECOND);
    let read = bench.switch(S1).read;
    for n in 2..40 {
        bench.set([flow("a", "1", &format!("in_port=1,actions=output:{n}"))]);
        bench.set([flow("b", "1", &format!("in_port=2,actions=output:{n}"))]);
        bench.pass(SECOND);
        bench.answer(S1);
    }
    assert!(bench.switch(S1).read >= read + 2, "{} readings", bench.switch(S1).read - read);
}

#[test]
fn switches_that_never_answered_do_not_take_the_slots_of_new_ones_when_they_reconnect() {
    let mut bench = Bench::new();
    reconnect(&mut bench, 100..108);
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert_eq!(bench.switch(S1).read, 0);
    reconnect(&mut bench, 100..108);
    bench.settle();
    assert_eq!(bench.switch(S1).read, 1);
    bench.disconnect(S1);
    bench.connect(S1, Version::V1_3);
    bench.settle();
    assert_eq!(bench.switch(S1).read, 2);
}
