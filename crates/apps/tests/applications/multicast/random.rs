//! Random IGMP and MLD messages.

use sluice_base::Rng;

use crate::multicast::frames::{igmp, join, join_v2, leave, query, report};
use crate::multicast::test_network::{TestNetwork, at, mac};
use crate::multicast::{GROUP, GROUP_V6, receivers, started, strict};

fn byte(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).unwrap()
}

/// A valid message, or one with random bytes. The controller may receive only a part of it.
fn random_message(rng: &mut Rng) -> Vec<u8> {
    let from = at(1 + u64::from(rng.below(2)), 1 + rng.below(4));
    let group = ["239.1.2.3", "239.1.2.4", "ff15::abcd:1", "224.0.0.251"][rng.below(4) as usize];
    let vlan = [0, 5, 7][rng.below(3) as usize];
    match rng.below(6) {
        0 => join(from, group, vlan),
        1 => leave(from, group, vlan),
        2 => join_v2(from, "239.1.2.5"),
        3 => query(from, "10.0.0.9", vlan),
        4 => {
            let groups: Vec<_> = (0..=rng.below(40)).map(|n| format!("239.1.3.{n}")).collect();
            let kind = u8::try_from(rng.below(8)).unwrap();
            report(from, kind, &groups, vlan)
        }
        _ => {
            let message: Vec<_> = (0..8 + rng.below(64)).map(|_| byte(rng)).collect();
            igmp(mac(from), "10.0.0.1", "224.0.0.22", vlan, &message)
        }
    }
}

#[test]
fn after_random_messages_snooping_still_works() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut net: TestNetwork = started(&strict());
        for _ in 0..300 {
            net.miss_send_len =
                if rng.below(8) == 0 { 14 + rng.below(80) as usize } else { 65_535 };
            let from = at(1 + u64::from(rng.below(2)), 1 + rng.below(4));
            net.send(from, &random_message(&mut rng));
            if rng.below(10) == 0 {
                net.wait_s(rng.below(30).into());
            }
        }
        // Everything expires.
        net.miss_send_len = 65_535;
        net.wait_s(700);
        for group in [GROUP, GROUP_V6] {
            assert_eq!(receivers(&mut net, at(1, 1), group), [], "seed {seed}");
            net.send(at(2, 3), &join(at(2, 3), group, 0));
            assert_eq!(receivers(&mut net, at(1, 1), group), [at(2, 3)], "seed {seed}");
        }
    }
}
