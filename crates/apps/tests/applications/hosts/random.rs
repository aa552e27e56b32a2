//! Random frames.

use sluice_apps::hosts::{Config, ConflictPolicy, Hosts};
use sluice_base::{HashSet, Rng};
use sluice_openflow::{MacAddr, Version, VlanId};
use sluice_sdk::view::PortRole;
use sluice_testkit::{AppWorker, switch_port};

use crate::hosts::frames::{
    advertise, dhcp, ip, is_at, mac, plain, solicit, tagged, truncated_tcp, udp, who_has,
};
use crate::hosts::lacp::lacp;
use crate::hosts::test_network::{PORTS, TestNetwork};

/// A frame from few hosts and addresses, sometimes tagged, truncated or with changed bytes.
fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let host = |n: u32| match n {
        20 => MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1]),
        21 => MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2]),
        n => MacAddr::from_u64(0x0200_0000_0000 + u64::from(n)),
    };
    let (src, dst) = (host(rng.below(20)), host(rng.below(22)));
    let ipv4 = |n: u32| format!("10.0.0.{n}");
    let ipv6 = |n: u32| format!("2001:db8::{n:x}");
    let (a, b) = (rng.below(30), rng.below(30));
    let mut frame = match rng.below(9) {
        0 => who_has(src, &ipv4(a), &ipv4(b)),
        1 => is_at(src, &ipv4(a), (dst, &ipv4(b))),
        2 => solicit(src, &ipv6(a), &ipv6(b)),
        3 => advertise(src, &ipv6(a)),
        4 => dhcp(src, dst, &ipv4(a), 5),
        5 => udp(src, &ipv4(a), 64),
        6 => udp(src, &ipv6(a), 255),
        7 => lacp(src, 1, 1, u8::try_from(rng.below(256)).unwrap()),
        _ => plain(src, dst),
    };
    if rng.below(4) == 0 {
        frame = tagged(&frame, u16::try_from(rng.below(3)).unwrap());
    }
    if rng.below(3) == 0 {
        for _ in 0..rng.below(6) {
            let at = rng.below(u32::try_from(frame.len()).unwrap()) as usize;
            frame[at] = u8::try_from(rng.below(256)).unwrap();
        }
    }
    if rng.below(4) == 0 {
        frame.truncate(rng.below(u32::try_from(frame.len() + 1).unwrap()) as usize);
    }
    frame
}

#[test]
fn after_random_frames_limits_hold_and_workers_agree() {
    let mut totals = [0; EVENTS.len()];
    for (seed, n) in (0..24).zip(0usize..) {
        let mut rng = Rng::new(seed);
        let policy = [ConflictPolicy::Off, ConflictPolicy::Report, ConflictPolicy::Refuse][n % 3];
        let cfg = Config {
            hosts_max: 15,
            addrs_max: 3,
            per_port_max: 6,
            address_conflicts: policy,
            timeout: std::time::Duration::from_secs(20),
            ..Config::default()
        };
        let version = Version(u8::try_from(1 + seed % 6).unwrap());
        let mut net = TestNetwork::new(version, 1 + n % 3, &cfg);
        for step in 0..2000 {
            random_step(&mut rng, &mut net);
            check(&net, &cfg, seed);
            if step % 32 == 0 {
                check_owners(&net, seed);
            }
        }
        for (total, metric) in totals.iter_mut().zip(EVENTS) {
            *total += net.metric(metric);
        }
    }
    for (total, metric) in totals.iter().zip(EVENTS) {
        assert!(*total > 20, "{metric}: {total}");
    }
}

/// Events that must have happened.
const EVENTS: [&str; 8] = [
    "hosts_moved",
    "hosts_expired",
    "hosts_requests_answered",
    "hosts_probes_sent",
    "hosts_packets_rejected",
    "hosts_not_learned_table_full",
    "hosts_evicted",
    "hosts_addresses_replaced",
];

fn random_step(rng: &mut Rng, net: &mut TestNetwork) {
    let at = switch_port(u64::from(1 + rng.below(2)), 1 + rng.below(PORTS));
    match rng.below(100) {
        0 => net.port_down(at),
        1 => net.set_role(at, PortRole::Link),
        2..6 => net.set_role(at, PortRole::Edge),
        6 => net.set_role(at, PortRole::SharedSegment(switch_port(1, 1 + rng.below(PORTS)))),
        7 if rng.below(5) == 0 => {
            net.disconnect_switch(at.switch.0);
            net.wait_ms(u64::from(rng.below(30)) * 1000);
            net.connect_switch(at.switch.0);
        }
        8..12 => net.wait_ms(u64::from(rng.below(4)) * 500),
        _ => {
            let frame = random_frame(rng);
            if rng.below(2) == 0 {
                net.receive(at, &frame);
            } else {
                net.receive_buffered(at, &frame);
            }
        }
    }
}

fn check(net: &TestNetwork, cfg: &Config, seed: u64) {
    let mut all = HashSet::default();
    for worker in &net.workers {
        let view = worker.network.view();
        assert!(view.host_count() <= cfg.hosts_max as usize, "seed {seed}");
        assert!(view.host_entry_count() <= 2 * cfg.hosts_max as usize, "seed {seed}");
        for (id, host) in view.hosts() {
            assert!(host.addrs.len() <= usize::from(cfg.addrs_max), "seed {seed}");
            assert!(!id.mac.is_group(), "seed {seed}");
            assert!(view.hosts_at(host.at).count() <= cfg.per_port_max as usize, "seed {seed}");
            if let Some(port) = view.port(host.at) {
                assert!(
                    port.is_up && port.role != PortRole::Link,
                    "seed {seed}: {host:?} {port:?}"
                );
            }
            all.insert((id, host.at, host.addrs.clone()));
        }
    }
    let known: HashSet<_> = all.iter().map(|(id, ..)| id).collect();
    assert_eq!(known.len(), all.len(), "seed {seed}: workers disagree: {all:?}");
}

fn check_owners(net: &TestNetwork, seed: u64) {
    for n in 0..30 {
        let addr = ip(&format!("10.0.0.{n}"));
        let owner = |worker: &AppWorker<Hosts>| {
            worker.network.view().host_by_addr(addr, VlanId(0)).map(|(id, _)| id)
        };
        let owners: HashSet<_> = net.workers.iter().map(owner).collect();
        assert_eq!(owners.len(), 1, "seed {seed}: workers disagree about {addr}");
    }
}

#[test]
fn truncated_frames_contain_the_same_addresses_or_none() {
    let mut net = TestNetwork::new(Version::V1_3, 1, &Config::default());
    let frames = [
        who_has(mac('a'), "10.0.0.1", "10.0.0.2"),
        solicit(mac('a'), "fe80::1", "fe80::2"),
        advertise(mac('a'), "fe80::1"),
        dhcp(mac('s'), mac('a'), "10.0.0.1", 5),
        truncated_tcp(mac('a'), 74),
        tagged(&tagged(&udp(mac('a'), "10.0.0.1", 64), 7), 8),
    ];
    for frame in frames {
        for len in 0..=frame.len() {
            net.receive(switch_port(1, 1), &frame[..len]);
        }
    }
    assert_eq!(net.addrs(mac('a')), ["10.0.0.1", "fe80::1"]);
    assert_eq!(net.location(mac('s')), Some(switch_port(1, 1)));
}
