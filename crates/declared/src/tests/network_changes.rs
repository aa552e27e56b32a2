//! Changes of the whole network: at all switches or at none.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::{DatapathId, FlowDesc, Version};

use super::bench::{Bench, Decision, Loss, entry, flow};
use crate::change::Change;
use crate::{Kind, State};

const S1: DatapathId = DatapathId(1);
const S2: DatapathId = DatapathId(2);
const S3: DatapathId = DatapathId(3);

/// Switches with an old entry.
fn network(versions: &[Version]) -> Bench {
    let mut bench = Bench::new();
    for (id, version) in (1..).zip(versions) {
        bench.connect(DatapathId(id), *version);
    }
    bench.set([flow("policy", "all", "in_port=1,actions=output:1")]);
    bench.settle();
    bench
}

/// The change from the old to the new policy, of two entries.
fn new_policy() -> Change {
    let set = vec![
        flow("policy", "all", "in_port=1,actions=output:2"),
        flow("more", "all", "in_port=2,actions=output:2"),
    ];
    Change { set, ..Change::default() }
}

fn flows(bench: &Bench, ids: &[DatapathId]) -> BTreeMap<DatapathId, Vec<FlowDesc>> {
    ids.iter().map(|&id| (id, bench.switch(id).tables.flows.clone())).collect()
}

fn refusal(decision: Decision) -> String {
    match decision {
        Decision::Refused(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_is_made_at_all_switches() {
    for versions in [[Version::V1_4; 3], [Version::V1_0, Version::V1_3, Version::V1_5]] {
        let mut bench = network(&versions);
        assert_eq!(bench.change_everywhere(new_policy()), Decision::Made);
        assert_eq!(
            [bench.state("policy"), bench.state("more")],
            [State::Installed, State::Installed]
        );
        for id in [S1, S2, S3] {
            assert_eq!(bench.switch(id).tables.flows.len(), 2, "{id}");
        }
        bench.wait(Duration::from_secs(30));
        bench.assert_converged(0);
    }
}

#[test]
fn if_one_switch_refuses_no_other_one_changes_anything() {
    let mut bench = network(&[Version::V1_4; 3]);
    let ids = [S1, S2, S3];
    let before = (flows(&bench, &ids), ids.map(|id| bench.switch(id).changes));
    bench.limit(S2, 1);
    let reason = refusal(bench.change_everywhere(new_policy()));
    assert_eq!(
        reason,
        "refused by switch 0000000000000002: flow \"more\": FLOW_MOD_FAILED/TABLE_FULL"
    );
    assert_eq!((flows(&bench, &ids), ids.map(|id| bench.switch(id).changes)), before);
    bench.wait(Duration::from_secs(120));
    assert_eq!((flows(&bench, &ids), ids.map(|id| bench.switch(id).changes)), before);
    assert_eq!(bench.state("policy"), State::Installed);
    // When there is room, the same change is made.
    bench.limit(S2, 2);
    assert_eq!(bench.change_everywhere(new_policy()), Decision::Made);
}

/// 1.0 has no bundles; the model switch has none with 1.3.
#[test]
fn a_switch_without_bundles_is_changed_when_all_others_are_prepared_and_put_back() {
    let mut bench = network(&[Version::V1_4, Version::V1_3, Version::V1_0]);
    let ids = [S1, S2, S3];
    let before = flows(&bench, &ids);
    for full in ids {
        let sent = bench.switch(S2).changes;
        bench.limit(full, 1);
        let reason = refusal(bench.change_everywhere(new_policy()));
        assert!(reason.contains(&full.to_string()) && reason.contains("FULL"), "{reason}");
        bench.wait(Duration::from_secs(2));
        assert_eq!(flows(&bench, &ids), before, "{full}");
        // It has received nothing if one that can be prepared has refused.
        assert_eq!(bench.switch(S2).changes == sent, full == S1, "{full}");
        bench.limit(full, 1000);
    }
    bench.assert_converged(0);
}

#[test]
fn a_change_that_cannot_be_stored_is_refused_at_once() {
    let mut bench = network(&[Version::V1_4, Version::V1_4]);
    let mut change = new_policy();
    let text = "group_id=1,type=all,bucket=actions=output:1";
    change.set.push(entry(Kind::Group, "g", "1", text));
    let before = flows(&bench, &[S1, S2]);
    bench.fill_disk(true);
    bench.start_everywhere(change);
    bench.settle();
    let reason = refusal(bench.decide().expect("undecided"));
    assert!(reason.ends_with(": the disk is full"), "{reason}");
    bench.fill_disk(false);
    bench.settle();
    assert_eq!(flows(&bench, &[S1, S2]), before);
    bench.assert_converged(0);
}

#[test]
fn meters_are_changed_in_order_and_put_back() {
    let mut bench = network(&[Version::V1_4, Version::V1_4]);
    let mut change = new_policy();
    change.set.push(entry(Kind::Meter, "slow", "1", "meter=1,kbps,band=type=drop,rate=1000"));
    let before = flows(&bench, &[S1, S2]);
    bench.limit(S1, 1);
    let reason = refusal(bench.change_everywhere(change.clone()));
    assert!(reason.contains("flow \"more\""), "{reason}");
    bench.wait(Duration::from_secs(2));
    assert_eq!(flows(&bench, &[S1, S2]), before);
    assert!(bench.switch(S1).tables.meters.is_empty());
    bench.limit(S1, 1000);
    assert_eq!(bench.change_everywhere(change), Decision::Made);
    assert_eq!(bench.switch(S1).tables.meters.len(), 1);
}

#[test]
fn what_a_version_cannot_express_refuses_the_change() {
    let mut bench = network(&[Version::V1_4, Version::V1_0]);
    let mut change = new_policy();
    change.set.push(entry(Kind::Meter, "slow", "all", "meter=1,kbps,band=type=drop,rate=1000"));
    let reason = refusal(bench.change_everywhere(change));
    assert!(reason.starts_with("refused by switch 0000000000000002: meter \"slow\""), "{reason}");
}

#[test]
fn a_switch_that_does_not_answer_ends_the_change_in_time() {
    let mut bench = network(&[Version::V1_4; 2]);
    let before = flows(&bench, &[S1, S2]);
    bench.start_everywhere(new_policy());
    for _ in 0..10 {
        bench.answer(S1);
    }
    assert_eq!(bench.decide(), None);
    bench.pass(Duration::from_secs(8));
    let reason = refusal(bench.decide().unwrap());
    assert_eq!(reason, "refused by switch 0000000000000002: no answer in time");
    bench.settle();
    assert_eq!(flows(&bench, &[S1, S2]), before);
    assert!(bench.switch(S1).open_bundles() == 0 && bench.switch(S2).open_bundles() == 0);
}

#[test]
fn a_switch_that_disconnects_takes_no_part_and_is_made_as_declared_later() {
    let mut bench = network(&[Version::V1_4; 2]);
    bench.start_everywhere(new_policy());
    for _ in 0..4 {
        bench.answer(S1);
        bench.answer(S2);
    }
    bench.disconnect(S2);
    assert_eq!(bench.change_everywhere(Change::default()), Decision::Made);
    assert_eq!(bench.switch(S2).tables.flows.len(), 1);
    bench.connect(S2, Version::V1_4);
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.switch(S2).tables.flows.len(), 2);
}

#[test]
fn a_commit_that_is_refused_is_undone_everywhere() {
    let mut bench = network(&[Version::V1_4; 3]);
    let ids = [S1, S2, S3];
    let before = flows(&bench, &ids);
    bench.start_everywhere(new_policy());
    while !bench.is_ready() {
        bench.settle();
    }
    // Somebody else has taken the room.
    bench.limit(S2, 1);
    bench.settle();
    assert_eq!(bench.decide(), None);
    bench.settle();
    assert!(matches!(bench.decide(), Some(Decision::Undone(_))));
    bench.wait(Duration::from_secs(2));
    assert_eq!(flows(&bench, &ids), before);
    assert_eq!(bench.state("policy"), State::Installed);
}

#[test]
fn a_controller_that_is_killed_while_it_prepares_changes_nothing() {
    for answers in 0..12 {
        let mut bench = network(&[Version::V1_4, Version::V1_0]);
        let before = flows(&bench, &[S1, S2]);
        bench.start_everywhere(new_policy());
        for _ in 0..answers {
            bench.answer(S1);
            bench.answer(S2);
        }
        bench.restart();
        bench.connect(S1, Version::V1_4);
        bench.connect(S2, Version::V1_0);
        bench.wait(Duration::from_secs(2));
        assert_eq!(flows(&bench, &[S1, S2]), before, "{answers} answers");
    }
}

/// A change with more messages than one request has.
#[test]
fn long_changes_are_tried_in_parts() {
    let mut bench = network(&[Version::V1_4; 2]);
    let entry =
        |n: u32| flow(&format!("e{n}"), "all", &format!("table=1,priority={n},actions=drop"));
    let change = Change { set: (1..=900).map(entry).collect(), ..Change::default() };
    bench.limit(S2, 800);
    let reason = refusal(bench.change_everywhere(change.clone()));
    assert!(
        reason.contains("BUNDLE_FAILED/MSG_FAILED") || reason.contains("TABLE_FULL"),
        "{reason}"
    );
    assert_eq!([S1, S2].map(|id| bench.switch(id).tables.flows.len()), [1, 1]);
    bench.limit(S2, 901);
    assert_eq!(bench.change_everywhere(change), Decision::Made);
    assert_eq!([S1, S2].map(|id| bench.switch(id).tables.flows.len()), [901, 901]);
}

/// With bundles: whatever happens until a switch refuses, no switch has anything of the new policy then. And whatever happens, all
/// switches end with what is declared.
#[test]
fn no_switch_has_the_new_policy_after_a_refusal_whatever_happens() {
    let (mut made, mut refused, mut undone) = (0, 0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let is_mixed = seed % 4 == 0;
        let version = |at: DatapathId| match at.0 {
            1 if is_mixed => Version::V1_0,
            2 if is_mixed => Version::V1_3,
            _ => Version::V1_4,
        };
        let ids = [S1, S2, S3];
        let mut bench = Bench::new();
        for at in ids {
            bench.connect(at, version(at));
        }
        for _ in 0..8 {
            bench.wait(Duration::from_secs(2));
            let before = flows(&bench, &ids);
            let change = bench.random_change(&mut rng);
            bench.start_everywhere(change);
            for _ in 0..60 {
                let at = ids[rng.below(3) as usize];
                match rng.below(40) {
                    0 => bench.disconnect(at),
                    1 => bench.connect(at, version(at)),
                    2 => bench.lose(at, [Loss::Request, Loss::Answer][rng.below(2) as usize]),
                    3 | 4 => bench.limit(at, rng.below(6) as usize),
                    5 => bench.pass(Duration::from_millis(rng.below(3000).into())),
                    6 if rng.below(10) == 0 => bench.restart(),
                    _ => bench.answer_one(&mut rng),
                }
                let decision = bench.decide();
                match &decision {
                    Some(Decision::Refused(_)) if !is_mixed => {
                        refused += 1;
                        let is_old = |at: &DatapathId| {
                            let now = &bench.switch(*at).tables.flows;
                            now.iter().all(|flow| before[at].contains(flow))
                        };
                        assert!(ids.iter().all(is_old), "seed {seed}: {decision:?}");
                    }
                    Some(Decision::Undone(_)) => undone += 1,
                    Some(Decision::Made) => made += 1,
                    _ => {}
                }
            }
            bench.end_change();
            for at in ids {
                bench.limit(at, 1000);
                bench.connect(at, version(at));
            }
        }
        bench.try_all_again();
        bench.assert_converged(seed);
    }
    assert!(made > 200 && refused > 200 && undone > 5, "{made} {refused} {undone}");
}
