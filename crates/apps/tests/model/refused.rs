//! Switches that refuse rules: traffic goes on frame by frame, or by simpler rules, and recovers.

use sluice_openflow::FieldId;

use super::*;

/// What all rules of forwarding in the tables of these switches match: fields by name.
fn forms(story: &Story, switches: &[usize]) -> BTreeMap<String, usize> {
    let mut forms = BTreeMap::new();
    for &n in switches {
        for entry in story.net.data_plane().switch(n).into_iter().flat_map(|s| s.flow_entries(0)) {
            if entry.cookie >> 32 == 0x666f_7277 {
                let names = entry.matching.iter().map(|field| field.id.name());
                *forms.entry(names.collect::<Vec<_>>().join(" ")).or_default() += 1;
            }
        }
    }
    forms
}

#[test]
fn who_cannot_match_conversations_gets_pairs_and_who_cannot_match_pairs_gets_destinations() {
    for (refused, form, simplified) in [
        (vec![], "eth_type", 0),
        (vec![FieldId::IP_PROTO], "eth_src", 1),
        (vec![FieldId::IP_PROTO, FieldId::ETH_SRC], "eth_dst", 2),
    ] {
        let switch = EmulatedSwitchConfig { unsupported_fields: refused, ..plan(Version::V1_3) };
        let matching = forwarding::Matching::FiveTuple;
        let forwarding = forwarding::Config { matching, ..forwarding::Config::default() };
        let mut story = Story::new("ring,4", switch, forwarding);
        story.pass(Duration::from_secs(5));
        assert_eq!(story.lost_pings(), []);
        story.pass(Duration::from_secs(2));
        let before = story.counts();
        assert_eq!(story.lost_pings(), []);
        let after = story.counts();
        assert_eq!(after["forwarding_match_simplified"], simplified);
        assert_eq!(after["forwarding_switches_paused"], 0);
        let forms = forms(&story, &[0, 1, 2, 3]);
        let has = |id: &str| forms.keys().filter(|names| names.contains(id)).count();
        assert!(!forms.is_empty() && has(form) == forms.len(), "{form}: {forms:?}");
        if simplified > 0 {
            assert_eq!(has("ip_proto"), 0, "{forms:?}");
            assert_eq!(has("eth_src"), usize::from(simplified == 1) * forms.len(), "{forms:?}");
        }
        // What was loaded after the last refusal holds.
        assert!(
            after["forwarding_flow_entries_refused"] >= before["forwarding_flow_entries_refused"]
        );
        story.pass(Duration::from_secs(2));
        assert_eq!(story.lost_pings(), []);
        assert_eq!(
            story.counts()["forwarding_flow_entries_refused"],
            after["forwarding_flow_entries_refused"]
        );
    }
}

/// A ring with rules by pair that no time takes away, of which the third switch cannot match them.
fn with_one_that_cannot(version: Version) -> Story {
    let forwarding = forwarding::Config { idle_timeout_s: 0, ..forwarding::Config::default() };
    let mut story = Story::new("ring,4", plan(version), forwarding);
    story.net.data_plane_mut().1.set_unsupported_fields(2, vec![FieldId::ETH_SRC]);
    story.pass(Duration::from_secs(5));
    assert_eq!(story.lost_pings(), []);
    story.pass(Duration::from_secs(3));
    story
}

/// How many times rules have become simpler, and how many switches are the reason for what they are.
fn simpler(story: &Story) -> [u64; 2] {
    let counts = story.counts();
    ["forwarding_match_simplified", "forwarding_switches_with_refused_match"]
        .map(|name| *counts.get(name).unwrap())
}

/// Every host but those at the third switch pings every other one of them.
fn lost_by_the_others(story: &mut Story) -> Vec<(usize, usize)> {
    let hosts = &story.net.data_plane().topology().hosts;
    let is_other = |n: usize| hosts.get(n).is_some_and(|host| host.port.switch != 2);
    let pairs = PingSummary::all_pairs(story.net.data_plane().topology());
    let pairs: Vec<_> = pairs.filter(|&(a, b)| is_other(a) && is_other(b)).collect();
    story.net.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs
}

#[test]
fn rules_are_as_configured_again_when_who_refused_them_has_left_or_has_learnt() {
    for version in [Version::V1_3, Version::V1_5] {
        let mut story = with_one_that_cannot(version);
        assert_eq!(story.lost_pings(), []);
        assert_eq!(simpler(&story), [1, 1]);
        // It is not heard any more, and passes frames on by the rules that it has.
        story.fault(NetworkChange::PauseControlLink(2));
        story.pass(Duration::from_secs(50));
        assert_eq!(simpler(&story), [1, 0]);
        let finer = forms(&story, &[0, 1, 3]);
        assert!(finer.keys().all(|names| names.contains("eth_src")), "{version}: {finer:?}");
        assert_eq!(lost_by_the_others(&mut story), []);
        assert_eq!(simpler(&story), [1, 0]);
        // It comes back as it was.
        story.fault(NetworkChange::ResumeControlLink(2));
        story.pass(Duration::from_secs(40));
        assert_eq!(story.lost_pings(), []);
        story.pass(Duration::from_secs(3));
        assert_eq!(story.lost_pings(), []);
        assert_eq!(simpler(&story), [2, 1]);
        // It comes back with other firmware.
        story.net.data_plane_mut().1.set_unsupported_fields(2, vec![]);
        story.fault(NetworkChange::BreakControlConnection(2));
        story.pass(Duration::from_secs(40));
        let refused = story.counts()["forwarding_flow_entries_refused"];
        for _ in 0..2 {
            assert_eq!(story.lost_pings(), []);
            story.pass(Duration::from_secs(3));
        }
        let finer = forms(&story, &[0, 1, 2, 3]);
        assert!(finer.keys().all(|names| names.contains("eth_src")), "{version}: {finer:?}");
        assert!(finer.values().sum::<usize>() >= 12, "{version}: {finer:?}");
        assert_eq!(simpler(&story), [2, 0]);
        assert_eq!(story.counts()["forwarding_flow_entries_refused"], refused);
    }
}

#[test]
fn who_comes_again_and_again_does_not_have_rules_change_each_time() {
    let mut story = with_one_that_cannot(Version::V1_3);
    for _ in 0..20 {
        story.fault(NetworkChange::BreakControlConnection(2));
        story.pass(Duration::from_secs(14));
        assert_eq!(story.lost_pings(), []);
    }
    // Once it was tried after 10 s; the next time would be after 20 s.
    assert_eq!(simpler(&story), [2, 1]);
    story.pass(Duration::from_secs(10));
    assert_eq!(story.lost_pings(), []);
    story.pass(Duration::from_secs(60));
    assert_eq!(story.lost_pings(), []);
    assert_eq!(simpler(&story), [3, 1], "who stays is not asked again");
}

/// Tables with room for what comes up, and little more: pairs fill them, and are idle after a while.
#[test]
fn full_tables_slow_nobody_down_and_a_tree_stands_when_there_is_room() {
    let switch = EmulatedSwitchConfig { table_entries_max: 7, ..plan(Version::V1_3) };
    let flooding = Flooding::Tree;
    let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
    let mut story = Story::new("ring,4", switch, forwarding);
    story.pass(Duration::from_secs(4));
    for _ in 0..4 {
        assert_eq!(story.lost_pings(), []);
        story.pass(Duration::from_secs(4));
    }
    let counts = story.counts();
    assert!(
        counts["forwarding_flow_entries_refused"] > 0 && counts["forwarding_switches_paused"] > 0,
        "{counts:?}"
    );
    assert!(story.tree().is_none_or(|tree| tree.phase != TreePhase::Active));
    story.all_hear_all();
    // Pairs go when they are idle, and who refused is asked again.
    story.pass(Duration::from_secs(150));
    story.standing();
    assert_eq!(story.counts()["forwarding_switches_paused"], 0);
    story.all_hear_all();
    let rules = story.counts()["forwarding_flow_entries_written"];
    let hosts = [(0, 1), (1, 0)];
    assert_eq!(story.net.ping(hosts, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs, []);
    assert!(story.counts()["forwarding_flow_entries_written"] > rules, "rules are written again");
}
