//! Switches that refuse flow entries: packets are forwarded one by one or with a simpler match, until entries are accepted.

use sluice_openflow::FieldId;

use super::*;

/// Numbers of flow entries of `forwarding` in the tables of these switches, by the names of the fields that they match.
fn entries_by_match(network: &ModelNetwork, switches: &[usize]) -> BTreeMap<String, usize> {
    let mut entries_by_match = BTreeMap::new();
    for &n in switches {
        for entry in
            network.simulation.data_plane().switch(n).into_iter().flat_map(|s| s.flow_entries(0))
        {
            if entry.cookie >> 32 == 0x666f_7277 {
                let matching = entry.matching();
                let names = matching.iter().map(|field| field.id.name());
                *entries_by_match.entry(names.collect::<Vec<_>>().join(" ")).or_default() += 1;
            }
        }
    }
    entries_by_match
}

#[test]
fn unsupported_five_tuples_are_replaced_by_pairs_and_unsupported_pairs_by_destinations() {
    for (refused, field, simplified) in [
        (vec![], "eth_type", 0),
        (vec![FieldId::IP_PROTO], "eth_src", 1),
        (vec![FieldId::IP_PROTO, FieldId::ETH_SRC], "eth_dst", 2),
    ] {
        let switch =
            EmulatedSwitchConfig { unsupported_fields: refused, ..switch_config(Version::V1_3) };
        let matching = forwarding::Matching::FiveTuple;
        let forwarding = forwarding::Config { matching, ..forwarding::Config::default() };
        let mut network = ModelNetwork::new("ring,4", switch, forwarding);
        network.run_for(Duration::from_secs(5));
        assert_eq!(network.lost_pings(), []);
        network.run_for(Duration::from_secs(2));
        let before = network.metrics();
        assert_eq!(network.lost_pings(), []);
        let after = network.metrics();
        assert_eq!(after["forwarding_match_simplified"], simplified);
        assert_eq!(after["forwarding_switches_paused"], 0);
        let by_match = entries_by_match(&network, &[0, 1, 2, 3]);
        let has = |id: &str| by_match.keys().filter(|names| names.contains(id)).count();
        assert!(!by_match.is_empty() && has(field) == by_match.len(), "{field}: {by_match:?}");
        if simplified > 0 {
            assert_eq!(has("ip_proto"), 0, "{by_match:?}");
            assert_eq!(
                has("eth_src"),
                usize::from(simplified == 1) * by_match.len(),
                "{by_match:?}"
            );
        }
        // Paths installed after the last refusal remain installed.
        assert!(
            after["forwarding_flow_entries_refused"] >= before["forwarding_flow_entries_refused"]
        );
        network.run_for(Duration::from_secs(2));
        assert_eq!(network.lost_pings(), []);
        assert_eq!(
            network.metrics()["forwarding_flow_entries_refused"],
            after["forwarding_flow_entries_refused"]
        );
    }
}

/// A ring whose third switch does not support matching pairs. Flow entries do not expire.
fn ring_with_a_switch_that_refuses_pairs(shape: &str, version: Version) -> ModelNetwork {
    let forwarding = forwarding::Config { idle_timeout_s: 0, ..forwarding::Config::default() };
    let mut network = ModelNetwork::new(shape, switch_config(version), forwarding);
    network.simulation.data_plane_mut().1.set_unsupported_fields(2, vec![FieldId::ETH_SRC]);
    network.run_for(Duration::from_secs(5));
    assert_eq!(network.lost_pings(), []);
    network.run_for(Duration::from_secs(3));
    network
}

/// The third switch of this ring is in the middle of the only shortest path between its neighbors.
const RING_WITH_TRANSIT: &str = "ring,5";

/// No path passes through the third switch of this ring: there are others of the same length, which are chosen.
const RING_WITHOUT_TRANSIT: &str = "ring,4";

/// How many times the match of all flow entries was simplified, and for how many switches it is simplified now.
fn fallback_metrics(network: &ModelNetwork) -> [u64; 2] {
    let metrics = network.metrics();
    ["forwarding_match_simplified", "forwarding_switches_with_refused_match"]
        .map(|name| *metrics.get(name).unwrap())
}

/// All switches of a network except the third.
fn other_switches(network: &ModelNetwork) -> Vec<usize> {
    let switches = network.simulation.data_plane().topology().switches.len();
    (0..switches).filter(|&n| n != 2).collect()
}

/// Has all hosts except those at the third switch ping each other. Returns the pairs without a reply.
fn lost_pings_between_other_switches(network: &mut ModelNetwork) -> Vec<(usize, usize)> {
    let hosts = &network.simulation.data_plane().topology().hosts;
    let is_other = |n: usize| hosts.get(n).is_some_and(|host| host.port.switch != 2);
    let pairs = PingSummary::all_pairs(network.simulation.data_plane().topology());
    let pairs: Vec<_> = pairs.filter(|&(a, b)| is_other(a) && is_other(b)).collect();
    network.simulation.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs
}

/// Asserts that flow entries of these switches match pairs, or that none does.
#[track_caller]
fn assert_pairs(network: &ModelNetwork, switches: &[usize], are_pairs: bool) {
    let by_match = entries_by_match(network, switches);
    assert!(!by_match.is_empty());
    assert!(by_match.keys().all(|names| names.contains("eth_src") == are_pairs), "{by_match:?}");
}

#[test]
fn the_configured_match_is_restored_when_the_refusing_switch_disconnects_or_supports_it() {
    for version in [Version::V1_3, Version::V1_5] {
        for (shape, in_transit) in [(RING_WITH_TRANSIT, true), (RING_WITHOUT_TRANSIT, false)] {
            let simplified = u64::from(in_transit);
            let mut network = ring_with_a_switch_that_refuses_pairs(shape, version);
            let others = other_switches(&network);
            assert_eq!(network.lost_pings(), []);
            assert_eq!(fallback_metrics(&network), [simplified, 1]);
            assert_pairs(&network, &[2], false);
            assert_pairs(&network, &others, !in_transit);
            // The switch loses its control connection, and forwards with the flow entries that it has.
            network.apply(NetworkChange::PauseControlLink(2));
            network.run_for(Duration::from_secs(50));
            assert_eq!(fallback_metrics(&network), [simplified, 0]);
            assert_eq!(lost_pings_between_other_switches(&mut network), []);
            assert_pairs(&network, &others, true);
            assert_eq!(fallback_metrics(&network), [simplified, 0]);
            // It reconnects unchanged.
            network.apply(NetworkChange::ResumeControlLink(2));
            network.run_for(Duration::from_secs(40));
            assert_eq!(network.lost_pings(), []);
            network.run_for(Duration::from_secs(3));
            assert_eq!(network.lost_pings(), []);
            // Paths around it, which were installed meanwhile, are used further.
            assert_eq!(fallback_metrics(&network), [simplified, 1]);
            assert_pairs(&network, &[2], false);
            assert_pairs(&network, &others, true);
            // It reconnects with other firmware.
            network.simulation.data_plane_mut().1.set_unsupported_fields(2, vec![]);
            network.apply(NetworkChange::BreakControlConnection(2));
            network.run_for(Duration::from_secs(40));
            let refused = network.metrics()["forwarding_flow_entries_refused"];
            for _ in 0..2 {
                assert_eq!(network.lost_pings(), []);
                network.run_for(Duration::from_secs(3));
            }
            assert_pairs(&network, &others, true);
            assert_pairs(&network, &[2], true);
            assert_eq!(fallback_metrics(&network), [simplified, 0]);
            assert_eq!(network.metrics()["forwarding_flow_entries_refused"], refused);
        }
    }
}

#[test]
fn a_switch_that_reconnects_repeatedly_does_not_change_the_match_each_time() {
    let mut network = ring_with_a_switch_that_refuses_pairs(RING_WITH_TRANSIT, Version::V1_3);
    for _ in 0..20 {
        network.apply(NetworkChange::BreakControlConnection(2));
        network.run_for(Duration::from_secs(14));
        assert_eq!(network.lost_pings(), []);
    }
    // The configured match was tried once, after 10 s; the next attempt is due after 20 s.
    assert_eq!(fallback_metrics(&network), [2, 1]);
    network.run_for(Duration::from_secs(10));
    assert_eq!(network.lost_pings(), []);
    network.run_for(Duration::from_secs(60));
    assert_eq!(network.lost_pings(), []);
    assert_eq!(
        fallback_metrics(&network),
        [3, 1],
        "no further attempt while the switch stays connected"
    );
}

/// A leaf whose entries match pairs, where the spines distinguish connections: connections of one pair share an entry.
#[test]
fn connections_through_a_refusing_leaf_do_not_replace_each_others_entries() {
    let matching = forwarding::Matching::FiveTuple;
    let forwarding =
        forwarding::Config { matching, idle_timeout_s: 0, ..forwarding::Config::default() };
    let mut network =
        ModelNetwork::new("leafspine,2,2,3", switch_config(Version::V1_3), forwarding);
    let leaf = network.simulation.data_plane().topology().hosts.first().unwrap().port.switch;
    network.simulation.data_plane_mut().1.set_unsupported_fields(leaf, vec![FieldId::IP_PROTO]);
    network.run_for(Duration::from_secs(5));
    let ping_both = |network: &mut ModelNetwork| {
        for family in [IpFamily::V4, IpFamily::V6] {
            let pairs = PingSummary::all_pairs(network.simulation.data_plane().topology());
            let pings = network.simulation.ping(pairs, family, Duration::from_secs(3)).unwrap();
            assert_eq!(pings.lost_pairs, []);
        }
    };
    (0..3).for_each(|_| ping_both(&mut network));
    assert_eq!(fallback_metrics(&network), [0, 1]);
    let by_match = entries_by_match(&network, &[leaf]);
    assert!(by_match.keys().all(|names| !names.contains("ip_proto")), "{by_match:?}");
    let installed = |network: &ModelNetwork| network.metrics()["forwarding_paths_installed"];
    let before = installed(&network);
    (0..3).for_each(|_| ping_both(&mut network));
    assert_eq!(installed(&network), before);
}

/// Links that fail, hosts that move, and control connections that break, while one switch refuses matches.
#[test]
fn networks_with_one_refusing_switch_recover_from_faults_and_nothing_circulates() {
    let shapes = ["leafspine,2,4,2", "ring,5", "mesh,4", "tree,2,2", "torus,3,3"];
    let [mut only_own, mut everywhere] = [0, 0];
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let shape = *shapes.get(pick(&mut rng, shapes.len())).unwrap();
        let (matching, field) = if rng.below(2) == 0 {
            (forwarding::Matching::Pair, FieldId::ETH_SRC)
        } else {
            (forwarding::Matching::FiveTuple, FieldId::IP_PROTO)
        };
        let forwarding = forwarding::Config { matching, ..forwarding::Config::default() };
        let mut network = ModelNetwork::new(shape, switch_config(Version::V1_3), forwarding);
        let data_plane = network.simulation.data_plane();
        let switches = data_plane.topology().switches.len();
        let (hosts, links) = (data_plane.topology().hosts.len(), data_plane.topology().links.len());
        let refusing = pick(&mut rng, switches);
        let context = format!("seed {seed} {shape} {matching:?} switch {refusing}");
        network.simulation.data_plane_mut().1.set_unsupported_fields(refusing, vec![field]);
        network.run_for(Duration::from_secs(5));
        for _ in 0..20 {
            let link = pick(&mut rng, links);
            match rng.below(8) {
                0..=2 => network.apply(NetworkChange::CutLink(link)),
                3..=5 => network.apply(NetworkChange::RestoreLink(link)),
                6 => network.apply(NetworkChange::BreakControlConnection(refusing)),
                _ => {
                    let host = pick(&mut rng, hosts);
                    let to = network.simulation.data_plane().free_port(pick(&mut rng, switches));
                    if let Some(to) = to {
                        network.apply(NetworkChange::MoveHost(host, to));
                    }
                }
            }
            let pairs = (0..10).map(|_| (pick(&mut rng, hosts), pick(&mut rng, hosts)));
            let pairs: Vec<_> = pairs.filter(|(a, b)| a != b).collect();
            network.simulation.ping(pairs, IpFamily::V4, Duration::from_millis(300)).unwrap();
        }
        (0..links).for_each(|link| network.apply(NetworkChange::RestoreLink(link)));
        network.run_for(Duration::from_secs(40));
        for _ in 0..2 {
            network.lost_pings();
        }
        assert_eq!(network.lost_pings(), [], "{context}");
        network.run_for(Duration::from_secs(2));
        assert!(network.link_frames_max(Duration::from_secs(1)) < 20, "{context}");
        let others: Vec<_> = (0..switches).filter(|&n| n != refusing).collect();
        let [own, of_others] = [&[refusing][..], &others].map(|switches| {
            let by_match = entries_by_match(&network, switches);
            by_match.keys().filter(|names| names.contains(&*field.name())).count()
        });
        assert_eq!(own, 0, "{context}");
        only_own += u32::from(of_others > 0);
        everywhere += u32::from(of_others == 0);
    }
    assert!(only_own > 5 && everywhere > 5, "{only_own} {everywhere}");
}

/// Small tables, which flow entries of pairs fill until they expire.
#[test]
fn with_full_tables_no_packet_is_lost_and_a_tree_is_installed_when_they_have_room() {
    let switch = EmulatedSwitchConfig { table_entries_max: 7, ..switch_config(Version::V1_3) };
    let flooding = Flooding::Tree;
    let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
    let mut network = ModelNetwork::new("ring,4", switch, forwarding);
    network.run_for(Duration::from_secs(4));
    for _ in 0..4 {
        assert_eq!(network.lost_pings(), []);
        network.run_for(Duration::from_secs(4));
    }
    let metrics = network.metrics();
    assert!(
        metrics["forwarding_flow_entries_refused"] > 0 && metrics["forwarding_switches_paused"] > 0,
        "{metrics:?}"
    );
    assert!(network.tree().is_none_or(|tree| tree.phase != TreePhase::Active));
    network.assert_broadcasts_reach_all();
    // Idle entries of pairs expire, and flow entries are sent to the switches again: those of the tree two minutes after the second
    // refusal.
    network.run_for(Duration::from_secs(250));
    network.active_tree_generation();
    assert_eq!(network.metrics()["forwarding_switches_paused"], 0);
    network.assert_broadcasts_reach_all();
    let written = network.metrics()["forwarding_flow_entries_written"];
    let hosts = [(0, 1), (1, 0)];
    assert_eq!(
        network.simulation.ping(hosts, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs,
        []
    );
    assert!(
        network.metrics()["forwarding_flow_entries_written"] > written,
        "flow entries are written again"
    );
}
