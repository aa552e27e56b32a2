//! Networks that change at random: what the rules do then.

use std::time::Duration;

use sluice_base::Rng;
use sluice_openflow::DatapathId;
use sluice_sdk::view::SwitchPort;

use super::testing::{End, HOST, Net, Wires};
use super::{Config, Matching};

const SWITCHES: u64 = 9;

/// After each change no frame goes round or into a dead link; misses install paths, and then all arrive by
/// the rules alone.
fn changes(seed: u64, cfg: &Config, workers: usize) {
    let mut rng = Rng::new(seed);
    let wires = Wires::random(&mut rng, SWITCHES, 6);
    let (mut net, mut dead) = (Net::new(cfg, &wires, workers), Vec::new());
    for step in 0..30 {
        let told = format!("seed {seed} step {step} {:?}", cfg.matching);
        if rng.below(2) == 0 && !net.links.is_empty() {
            let n = rng.below(u32::try_from(net.links.len()).unwrap());
            dead.push(net.cut(usize::try_from(n).unwrap()));
        } else if let Some(ends) = dead.pop() {
            net.link(ends);
        }
        let known = Wires { switches: SWITCHES, all: net.links.clone() };
        none_goes_round(&net, &told);
        for _ in 0..20 {
            let a = 1 + u64::from(rng.below(9));
            let b = 1 + (a + u64::from(rng.below(8))) % SWITCHES;
            net.now += Duration::from_millis(60);
            let reachable = known.lengths(a).contains_key(&b);
            assert_eq!(net.send(a, b), reachable, "{a} {b} {told}");
            if reachable {
                let there = SwitchPort::new(DatapathId(b), HOST);
                assert_eq!(net.walk(a, b), End::Out(there), "{a} {b} {told}");
            }
        }
        none_goes_round(&net, &told);
    }
}

fn none_goes_round(net: &Net, told: &str) {
    for (a, b) in (1..=SWITCHES).flat_map(|a| (1..=SWITCHES).map(move |b| (a, b))) {
        let end = if a == b { continue } else { net.walk(a, b) };
        assert!(!matches!(end, End::Loop | End::Dead(_)), "{a} {b} {end:?} {told}");
    }
}

#[test]
fn whatever_links_die_and_live_no_frame_goes_round_and_all_arrive() {
    for seed in 0..30 {
        for matching in [Matching::Pair, Matching::Dst] {
            changes(seed, &Config { matching, ..Config::default() }, 1 + (seed % 3) as usize);
        }
    }
}
