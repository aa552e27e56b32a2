//! Links fail and return at random: flow entries never loop or lead into a failed link.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::{DatapathId, FieldId, FlowMod};
use sluice_sdk::view::SwitchPort;

use super::test_network::{Delivery, HOST, TestLinks, TestNetwork};
use super::{Config, Matching, flow_entries};

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

/// Packets of these hosts to all others, at all ports, do not circulate.
fn assert_nothing_circulates(net: &TestNetwork, hosts: &[u64], context: &str) {
    let links = net.links.iter().flatten().copied();
    let edges = (1..=SWITCHES).map(|n| SwitchPort::new(DatapathId(n), HOST));
    for at in links.chain(edges) {
        for (a, b) in hosts.iter().flat_map(|&a| (1..=SWITCHES).map(move |b| (a, b))) {
            let end = net.follow_entries_at(at, a, b);
            assert_ne!(end, Delivery::Loop, "{a} {b} at {at} {context}");
        }
    }
}

/// The switches whose flow entries of paths do not match source addresses, of those that have any.
fn switches_with_simple_entries(net: &TestNetwork) -> BTreeSet<u64> {
    let has_simple = |entries: &[FlowMod]| {
        let mut of_paths = entries.iter().filter(|entry| flow_entries::is_ours(entry.cookie));
        of_paths.any(|entry| entry.matching.get(FieldId::ETH_SRC).is_none())
    };
    let tables = net.tables.iter().filter(|(_, entries)| has_simple(entries));
    tables.map(|(&id, _)| id).collect()
}

/// Links fail and return, hosts move, and one switch refuses to match pairs; it reconnects now and then. Returns whether only its flow
/// entries were simpler, and whether those of all switches were.
fn check_refusing_switch(seed: u64, workers: usize) -> [bool; 2] {
    let mut rng = Rng::new(seed);
    let links = TestLinks::random(&mut rng, SWITCHES, 6);
    let mut net = TestNetwork::new(&Config::default(), &links, workers);
    let refusing = 1 + u64::from(rng.below(9));
    net.refusing.insert(refusing);
    let hosts: Vec<_> = (1..=SWITCHES).collect();
    let (mut failed, mut was_simple) = (Vec::new(), [false; 2]);
    for step in 0..40 {
        let context = format!("seed {seed} step {step} s{refusing} refuses");
        let host = 1 + u64::from(rng.below(9));
        match rng.below(8) {
            0..=2 if !net.links.is_empty() => {
                let n = rng.below(u32::try_from(net.links.len()).unwrap());
                failed.push(net.remove_link(usize::try_from(n).unwrap()));
            }
            3..=5 => failed.pop().into_iter().for_each(|ends| net.add_link(ends)),
            6 => net.move_host(host, 1 + u64::from(rng.below(9))),
            _ => net.disconnect_and_connect(refusing, &links, 20 + step),
        }
        net.now += Duration::from_secs(3);
        net.tick();
        assert_nothing_circulates(&net, &hosts, &context);
        let up = TestLinks { switches: SWITCHES, pairs: net.links.clone() };
        for _ in 0..20 {
            let a = 1 + u64::from(rng.below(9));
            let b = 1 + (a + u64::from(rng.below(8))) % SWITCHES;
            let [from, to] = [a, b].map(|host| net.location(host));
            let is_reachable = up.lengths(from.switch.0).contains_key(&to.switch.0);
            if from == to || !is_reachable {
                continue;
            }
            send_until_installed(&mut net, a, b, &context);
        }
        assert_nothing_circulates(&net, &hosts, &context);
        let simple = switches_with_simple_entries(&net);
        let is_everywhere = simple.len() > 1;
        was_simple[usize::from(is_everywhere)] |= simple.contains(&refusing);
    }
    was_simple
}

#[test]
fn if_one_switch_refuses_a_match_nothing_circulates_and_all_hosts_are_reached() {
    let was_simple = (0..20).map(|seed| check_refusing_switch(seed, 1 + (seed % 3) as usize));
    let [mut only_own, mut everywhere] = [0, 0];
    for [own, all] in was_simple {
        only_own += u32::from(own);
        everywhere += u32::from(all);
    }
    assert!(only_own > 5 && everywhere > 5, "{only_own} {everywhere}");
}

/// Sends packets from one host to another until a path between them is installed. One packet finds out that a switch
/// refuses the match, one that the path passes through it.
fn send_until_installed(net: &mut TestNetwork, a: u64, b: u64, context: &str) {
    for _ in 0..3 {
        net.now += Duration::from_millis(60);
        assert!(net.send(a, b), "{a} {b} {context}");
    }
    assert_eq!(net.follow_entries(a, b), Delivery::Out(net.location(b)), "{a} {b} {context}");
}

/// A ring, one of whose switches leads to host 9, and another each time. Two hosts move along the ring, so that flow entries of former
/// paths are left all around it. If a switch of the ring had simpler flow entries than the others, these would send packets
/// of one host along the path of the other, and on around the ring.
#[test]
fn former_paths_around_a_ring_do_not_form_a_loop_if_a_switch_refuses_a_match() {
    const RING: u64 = 5;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut below = |n: u64| u64::from(rng.below(u32::try_from(n).unwrap()));
        let mut links = TestLinks { switches: SWITCHES, pairs: Vec::new() };
        (1..=RING).for_each(|n| links.add(n, n % RING + 1));
        (1..=RING).for_each(|n| links.add(n, SWITCHES));
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        let (around, spokes) = links.pairs.split_at(links.pairs.len() / 2);
        for _ in spokes {
            net.remove_link(around.len());
        }
        let refusing = 1 + below(RING);
        net.refusing.insert(refusing);
        let mut spoke = 0;
        for step in 0..60 {
            let context = format!("seed {seed} step {step} s{refusing} refuses");
            spoke = (spoke + [1, 1, 1, 2][usize::try_from(below(4)).unwrap()]) % RING;
            net.add_link(spokes[usize::try_from(spoke).unwrap()]);
            for host in [1, 2] {
                if below(2) == 0 {
                    net.move_host(host, 1 + (spoke + RING - 2) % RING);
                    net.now += Duration::from_secs(1);
                    send_until_installed(&mut net, host, SWITCHES, &context);
                    assert_nothing_circulates(&net, &[1, 2], &context);
                }
            }
            net.remove_link(around.len());
            if below(10) == 0 {
                // The match is tried again after a while.
                net.disconnect_and_connect(refusing, &links, 20 + step);
                for _ in 0..4 {
                    net.now += Duration::from_secs(6);
                    net.tick();
                    assert_nothing_circulates(&net, &[1, 2], &context);
                }
            }
        }
    }
}
