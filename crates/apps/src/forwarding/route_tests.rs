//! Shortest paths through random networks, as the view of an application has them.

use std::collections::BTreeMap;

use sluice_base::Rng;
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::routes::{Hop, PathChoice, Routes};
use sluice_sdk::view::{Cable, SwitchPort};

use crate::forwarding::Config;
use crate::forwarding::test_network::{HOST, TestLinks, TestNetwork};

fn host_port(id: u64) -> SwitchPort {
    SwitchPort::new(DatapathId(id), HOST)
}

#[test]
fn both_directions_of_all_pairs_use_the_same_shortest_path() {
    for seed in 0..20 {
        let links = TestLinks::random(&mut Rng::new(seed), 12, 8);
        let net = TestNetwork::new(&Config::default(), &links, 1);
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        for a in 1..=12 {
            for (b, length) in links.lengths(a) {
                let choice = PathChoice::Symmetric(seed ^ (a.min(b) << 8 | a.max(b)));
                let path = routes.path(view, host_port(a), host_port(b), choice).unwrap();
                assert_eq!(path.len(), length + 1, "{a} {b} seed {seed}");
                assert_eq!((path[0].switch, path[0].in_port), (DatapathId(a), HOST));
                let last = path[length];
                assert_eq!((last.switch, last.out_port), (DatapathId(b), HOST));
                for pair in path.windows(2) {
                    let link = view.link_from(SwitchPort::new(pair[0].switch, pair[0].out_port));
                    let to = SwitchPort::new(pair[1].switch, pair[1].in_port);
                    assert_eq!(link.unwrap().to, to);
                }
                let mut back = routes.path(view, host_port(b), host_port(a), choice).unwrap();
                back.reverse();
                let turned = |hop: &Hop| (hop.switch, hop.out_port, hop.in_port);
                let straight = |hop: &Hop| (hop.switch, hop.in_port, hop.out_port);
                assert!(back.iter().map(turned).eq(path.iter().map(straight)));
            }
        }
    }
}

/// The search looks through those of the switch that has fewer.
#[test]
fn the_choice_among_parallel_links_does_not_depend_on_the_other_links_of_their_switches() {
    let out_ports = |at: Option<u64>| {
        let mut links = TestLinks { switches: 3, pairs: Vec::new() };
        for no in 1..=5 {
            let end = |id, no| SwitchPort::new(DatapathId(id), PortNo(no));
            links.pairs.push([end(1, no), end(2, 10 - no)]);
        }
        if let Some(at) = at {
            links.add(at, 3);
        }
        let net = TestNetwork::new(&Config::default(), &links, 1);
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        let out_port = |hash| {
            let choice = PathChoice::Symmetric(hash);
            routes.path(view, host_port(1), host_port(2), choice).unwrap()[0].out_port
        };
        (0..100).map(out_port).collect::<Vec<_>>()
    };
    let expected = out_ports(None);
    assert!((1..=5).all(|no| expected.contains(&PortNo(no))), "{expected:?}");
    assert_eq!([1, 2].map(|id| out_ports(Some(id))), [expected.clone(), expected]);
}

#[test]
fn paths_to_a_destination_form_a_tree() {
    let links = TestLinks::random(&mut Rng::new(5), 20, 40);
    let net = TestNetwork::new(&Config::default(), &links, 1);
    let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
    for to in 1..=20 {
        let mut outs = BTreeMap::new();
        for from in 1..=20 {
            for hop in routes
                .path(view, host_port(from), host_port(to), PathChoice::PerDestination(to))
                .unwrap()
            {
                assert_eq!(*outs.entry(hop.switch).or_insert(hop.out_port), hop.out_port);
            }
        }
    }
}

#[test]
fn paths_of_equal_length_are_used_evenly() {
    let net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(4, 3), 1);
    let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
    let (mut used, mut rng) = (BTreeMap::<_, u32>::new(), Rng::new(1));
    for _ in 0..4000 {
        let choice = PathChoice::Symmetric(rng.next_u64());
        let path = routes.path(view, host_port(5), host_port(7), choice).unwrap();
        *used.entry(path[1].switch).or_default() += 1;
    }
    assert!(used.len() == 4 && used.values().all(|n| (900..1100).contains(n)), "{used:?}");
}

#[test]
fn two_links_between_the_same_switches_are_two_paths() {
    let mut links = TestLinks { switches: 2, pairs: vec![] };
    (0..2).for_each(|_| links.add(1, 2));
    let net = TestNetwork::new(&Config::default(), &links, 1);
    let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
    let mut used = BTreeMap::<_, u32>::new();
    for hash in 0..100 {
        let path =
            routes.path(view, host_port(1), host_port(2), PathChoice::Symmetric(hash)).unwrap();
        *used.entry(path[0].out_port).or_default() += 1;
    }
    assert_eq!(used.len(), 2);
    assert_eq!(routes.reachable(view, DatapathId(1)), [DatapathId(1), DatapathId(2)]);
    assert!(routes.reachable(view, DatapathId(9)).is_empty());
}

#[test]
fn all_shortest_paths_are_listed_and_each_chosen_one_is_among_them() {
    let net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(4, 3), 1);
    let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
    let all = routes.shortest(view, host_port(5), host_port(7), 10);
    assert_eq!(all.len(), 4, "one through each spine: {all:?}");
    for hash in 0..50 {
        let choice = PathChoice::Symmetric(hash);
        let path = routes.path(view, host_port(5), host_port(7), choice).unwrap();
        assert!(all.contains(&path), "{path:?}");
    }
    assert_eq!(routes.shortest(view, host_port(5), host_port(7), 3).len(), 3);
    assert_eq!(routes.shortest(view, host_port(5), host_port(5), 10).len(), 1);
    assert!(routes.shortest(view, host_port(5), host_port(99), 10).is_empty());
}

#[test]
fn paths_avoid_drained_links_as_long_as_there_are_others() {
    for seed in 0..20 {
        let links = TestLinks::random(&mut Rng::new(seed), 12, 8);
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        let mut rng = Rng::new(seed);
        let mut rest = TestLinks { switches: 12, pairs: Vec::new() };
        for &[a, b] in &links.pairs {
            if rng.below(3) == 0 {
                net.drain(Cable::new(a, b), true);
            } else {
                rest.pairs.push([a, b]);
            }
        }
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        for a in 1..=12 {
            let lengths = rest.lengths(a);
            for b in 1..=12 {
                let choice = PathChoice::Symmetric(seed ^ (a.min(b) << 8 | a.max(b)));
                let path = routes.path(view, host_port(a), host_port(b), choice).unwrap();
                let drained = path.iter().filter(|hop| {
                    let link = view.link_from(SwitchPort::new(hop.switch, hop.out_port));
                    link.is_some_and(|link| view.is_drained(Cable::from(link)))
                });
                assert_eq!(drained.count() == 0, lengths.contains_key(&b), "{a} {b} {seed}");
                if let Some(length) = lengths.get(&b) {
                    assert_eq!(path.len(), length + 1, "{a} {b} {seed}");
                }
                let mut back = routes.path(view, host_port(b), host_port(a), choice).unwrap();
                back.reverse();
                let turned = |hop: &Hop| (hop.switch, hop.out_port, hop.in_port);
                let straight = |hop: &Hop| (hop.switch, hop.in_port, hop.out_port);
                assert!(back.iter().map(turned).eq(path.iter().map(straight)));
            }
        }
    }
}
