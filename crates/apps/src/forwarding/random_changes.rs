//! Links fail and return at random: flow entries never loop or lead into a failed link.

use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::DatapathId;
use sluice_sdk::view::SwitchPort;

use super::test_network::{Delivery, HOST, TestLinks, TestNetwork};
use super::{Config, Matching};

const SWITCHES: u64 = 9;

/// After each change, no flow entry loops or leads into a failed link. Table misses install paths, and then all
/// packets arrive by flow entries alone.
fn check_random_changes(seed: u64, cfg: &Config, workers: usize) {
    let mut rng = Rng::new(seed);
    let links = TestLinks::random(&mut rng, SWITCHES, 6);
    let (mut net, mut failed) = (TestNetwork::new(cfg, &links, workers), Vec::new());
    for step in 0..30 {
        let context = format!("seed {seed} step {step} {:?}", cfg.matching);
        if rng.below(2) == 0 && !net.links.is_empty() {
            let n = rng.below(u32::try_from(net.links.len()).unwrap());
            failed.push(net.remove_link(usize::try_from(n).unwrap()));
        } else if let Some(ends) = failed.pop() {
            net.add_link(ends);
        }
        let up = TestLinks { switches: SWITCHES, pairs: net.links.clone() };
        assert_no_loops(&net, &context);
        for _ in 0..20 {
            let a = 1 + u64::from(rng.below(9));
            let b = 1 + (a + u64::from(rng.below(8))) % SWITCHES;
            net.now += Duration::from_millis(60);
            let reachable = up.lengths(a).contains_key(&b);
            assert_eq!(net.send(a, b), reachable, "{a} {b} {context}");
            if reachable {
                let goal = SwitchPort::new(DatapathId(b), HOST);
                assert_eq!(net.follow_entries(a, b), Delivery::Out(goal), "{a} {b} {context}");
            }
        }
        assert_no_loops(&net, &context);
    }
}

fn assert_no_loops(net: &TestNetwork, context: &str) {
    for (a, b) in (1..=SWITCHES).flat_map(|a| (1..=SWITCHES).map(move |b| (a, b))) {
        let end = if a == b { continue } else { net.follow_entries(a, b) };
        assert!(
            !matches!(end, Delivery::Loop | Delivery::LinkDown(_)),
            "{a} {b} {end:?} {context}"
        );
    }
}

#[test]
fn after_random_link_changes_nothing_loops_and_reachable_hosts_are_reached() {
    for seed in 0..30 {
        for matching in [Matching::Pair, Matching::Dst] {
            check_random_changes(
                seed,
                &Config { matching, ..Config::default() },
                1 + (seed % 3) as usize,
            );
        }
    }
}
