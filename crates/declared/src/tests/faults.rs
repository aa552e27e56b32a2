//! Random faults with all kinds of entries: names, conflicts, meters, a full disk, and another program that adds groups.

use std::collections::BTreeSet;

use sluice_base::Rng;
use sluice_openflow::{DatapathId, FlowDesc, GroupDesc, GroupId, Role, Version};

use super::bench::{Bench, Loss, entry, flow};
use super::{Duration, Kind, State};
use crate::{Change, Declaration};

const SWITCHES: [DatapathId; 3] = [DatapathId(1), DatapathId(2), DatapathId(3)];

/// Entries with this output are changed together.
const PAIRS: u32 = 3;

fn version(at: DatapathId) -> Version {
    match at.0 {
        1 => Version::V1_0,
        2 => Version::V1_3,
        _ => Version::V1_4,
    }
}

/// A switch by datapath id, a name that is given, or the one that it states.
fn selector(rng: &mut Rng) -> &'static str {
    ["1", "2", "3", "core", "edge", "lab-2", "lab-3", "all"][rng.below(8) as usize]
}

/// What one request declares and removes.
fn random_change(bench: &Bench, rng: &mut Rng) -> Change {
    let mut change = Change::default();
    let mut set_or_remove = |rng: &mut Rng, declaration: Declaration| match rng.below(4) {
        0 if bench.is_declared(&declaration.key) => change.remove.push(declaration.key),
        1 | 2 => change.set.push(declaration),
        _ => {}
    };
    if rng.below(3) == 0 {
        // In one change without meters, which are in no bundle.
        let (n, port) = (rng.below(PAIRS), rng.below(3) + 1);
        let is_removal = rng.below(3) == 0;
        for (at, half) in ["a", "b"].into_iter().enumerate() {
            let text = format!("in_port={},actions=output:{port}", 100 + 2 * n as usize + at);
            let declaration = flow(&format!("pair{n}{half}"), "all", &text);
            if !is_removal {
                change.set.push(declaration);
            } else if bench.is_declared(&declaration.key) {
                change.remove.push(declaration.key);
            }
        }
        return change;
    }
    for n in 0..4 {
        let (at, port) = (selector(rng), rng.below(3) + 1);
        // Several have the same match, at switches that may turn out to be the same.
        let text = format!("in_port={},actions=output:{port}", n / 2);
        set_or_remove(rng, flow(&format!("e{n}"), at, &text));
    }
    for n in 1..=2 {
        // Refused by a switch with OpenFlow 1.0, and all that is in the same change.
        let at = ["2", "3", "lab-2", "lab-3"][rng.below(4) as usize];
        let port = rng.below(3) + 1;
        let text = format!("group_id={n},type=all,bucket=actions=output:{port}");
        set_or_remove(rng, entry(Kind::Group, &format!("g{n}"), at, &text));
        let text = format!("meter={n},kbps,band=type=drop,rate={}", 1000 * port);
        let at = selector(rng);
        set_or_remove(rng, entry(Kind::Meter, &format!("m{n}"), at, &text));
    }
    change
}

fn random_names(bench: &mut Bench, rng: &mut Rng) {
    let at = u64::from(rng.below(3)) + 1;
    let other = at % 3 + 1;
    match rng.below(3) {
        0 => bench.name(&[(at, "core")]),
        _ => bench.name(&[(at, "core"), (other, "edge")]),
    }
}

fn fault(bench: &mut Bench, others: &mut BTreeSet<(DatapathId, u32)>, rng: &mut Rng) {
    let at = SWITCHES[rng.below(3) as usize];
    match rng.below(18) {
        0 | 1 => {
            bench.connect(at, version(at));
            if at.0 > 1 && rng.below(2) == 0 {
                bench.describe(at, "Open vSwitch", &format!("lab-{}", at.0));
            }
        }
        2 => bench.disconnect(at),
        3 => bench.restart(),
        4 => {
            bench.power_cycle(at);
            others.retain(|(switch, _)| *switch != at);
        }
        5 => bench.lose(at, [Loss::Request, Loss::Answer][rng.below(2) as usize]),
        6 => bench.limit(at, rng.below(8) as usize),
        7 => bench.fill_disk(rng.below(2) == 0),
        8 => bench.set_role(at, [Role::SLAVE, Role::MASTER][rng.below(2) as usize]),
        9 => {
            let id = rng.below(2) + 1;
            // One that was ours before, or is just being added, cannot be told from ours if an answer is lost.
            if at.0 > 1 && bench.add_group_of_others(at, id) {
                others.insert((at, id));
                bench.wait(Duration::from_secs(11));
            }
        }
        10 => bench.modify_unpaired(at, rng),
        11 | 12 => random_names(bench, rng),
        13 => bench.wait(Duration::from_millis(rng.below(40_000).into())),
        _ => {
            let change = random_change(bench, rng);
            bench.try_apply(change);
        }
    }
}

/// A switch with bundles has both entries of a pair as the same change has made them, or neither.
fn assert_pairs_are_whole(bench: &Bench, seed: u64) {
    let Some(switch) = bench.find_switch(DatapathId(3)) else { return };
    let at_port = |port: u32| {
        let text = format!("in_port={port}");
        let is_there = |flow: &&FlowDesc| flow.matching.to_text() == text;
        switch.tables.flows.iter().find(is_there).map(|flow| &flow.instructions)
    };
    for n in 0..PAIRS {
        let (a, b) = (at_port(100 + 2 * n), at_port(101 + 2 * n));
        assert_eq!(a, b, "seed {seed}: pair {n}");
    }
}

/// As [`Bench::assert_converged`], with entries that have no place or that a version does not have.
fn assert_converged(bench: &Bench, seed: u64) {
    for at in SWITCHES {
        let (mut cookies, mut groups, mut meters) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (entry, state) in bench.states(at) {
            let name = entry.key();
            match state {
                State::Installed => {
                    let form = entry.form(version(at)).unwrap();
                    cookies.extend(form.cookie());
                    groups.extend((name.kind == Kind::Group).then(|| name.name.clone()));
                    meters += usize::from(name.kind == Kind::Meter);
                }
                State::Refused(reason) if reason.starts_with("the same as ") => {}
                State::Refused(_) if at.0 == 1 && name.kind != Kind::Flow => {}
                state => panic!("seed {seed}: {name} at {at}: {state}"),
            }
        }
        let tables = &bench.switch(at).tables;
        let found: BTreeSet<_> = tables.flows.iter().map(|flow| flow.cookie).collect();
        assert_eq!(found, cookies, "seed {seed}: {at}");
        assert_eq!(tables.flows.len(), found.len(), "seed {seed}: {at}");
        assert_eq!(tables.meters.len(), meters, "seed {seed}: {at}");
        let ours: BTreeSet<_> = tables
            .groups
            .values()
            .filter(|group| !group.buckets.is_empty())
            .map(|group| format!("g{}", group.group_id.0))
            .collect();
        assert_eq!(ours, groups, "seed {seed}: {at}");
    }
}

fn assert_unmodified(bench: &Bench, others: &BTreeSet<(DatapathId, u32)>, seed: u64) {
    for (at, id) in others {
        let unmodified = GroupDesc { group_id: GroupId(*id), ..GroupDesc::default() };
        let group = bench.switch(*at).tables.groups.get(id);
        assert_eq!(group, Some(&unmodified), "seed {seed}: {at}");
    }
}

#[test]
fn names_conflicts_full_disks_and_other_programs_leave_what_is_declared() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut bench = Bench::new();
        let mut others = BTreeSet::new();
        for _ in 0..80 {
            fault(&mut bench, &mut others, &mut rng);
            for _ in 0..rng.below(4) {
                bench.answer_one(&mut rng);
                assert_pairs_are_whole(&bench, seed);
            }
        }
        bench.fill_disk(false);
        for at in SWITCHES {
            bench.limit(at, 1000);
            bench.connect(at, version(at));
            bench.set_role(at, Role::MASTER);
        }
        bench.settle();
        bench.wait(Duration::from_secs(200));
        assert_unmodified(&bench, &others, seed);
        for (at, id) in others {
            bench.switch_mut(at).tables.groups.remove(&id);
        }
        bench.wait(Duration::from_secs(200));
        assert_converged(&bench, seed);
    }
}

/// Ten times as many switches hang as may be read at a time.
#[test]
fn a_switch_that_has_not_answered_a_change_is_read_before_those_that_never_answer() {
    let mut bench = Bench::new();
    let hung: Vec<_> = (100..140).map(DatapathId).collect();
    let ours = DatapathId(1);
    bench.connect(ours, Version::V1_3);
    bench.settle();
    for &at in &hung {
        bench.connect(at, Version::V1_3);
        bench.lose(at, Loss::Request);
        bench.answer_next(at);
    }
    for &at in &hung {
        bench.lose(at, Loss::Request);
        bench.answer_next(at);
    }
    // The first of them are read again.
    bench.wait_without_answers(Duration::from_secs(5));
    bench.lose(ours, Loss::Request);
    bench.set([flow("a", "1", "in_port=1,actions=drop")]);
    bench.answer_next(ours);
    bench.wait_without_answers(Duration::from_secs(2));
    for _ in 0..3 {
        bench.answer_next(ours);
    }
    assert_eq!(bench.state("a"), State::Installed);
}

/// A switch with OpenFlow 1.0 can only list all of its flow entries.
#[test]
fn a_switch_with_1_0_is_not_read_before_something_is_declared() {
    let mut bench = Bench::new();
    bench.connect(DatapathId(1), Version::V1_0);
    bench.connect(DatapathId(2), Version::V1_3);
    assert_eq!([1, 2].map(|id| bench.pending(DatapathId(id))), [0, 1]);
    bench.wait(Duration::from_secs(2000));
    assert_eq!(bench.switch(DatapathId(1)).read, 0);
    bench.set([flow("a", "1", "in_port=1,actions=drop")]);
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.state("a"), State::Installed);
    // What was removed while it was away is found.
    bench.disconnect(DatapathId(1));
    bench.remove_all();
    bench.restart();
    bench.connect(DatapathId(1), Version::V1_0);
    bench.wait(Duration::from_secs(1));
    assert!(bench.switch(DatapathId(1)).tables.flows.is_empty());
    bench.wait(Duration::from_secs(11));
    let read = bench.switch(DatapathId(1)).read;
    bench.wait(Duration::from_secs(2000));
    assert_eq!(bench.switch(DatapathId(1)).read, read);
}
