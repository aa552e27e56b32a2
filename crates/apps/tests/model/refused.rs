//! Switches that refuse rules: traffic goes on frame by frame, or by simpler rules, and recovers.

use sluice_wire::FieldId;

use super::*;

/// What all rules of forwarding in all tables match: fields by name.
fn forms(story: &Story) -> BTreeMap<String, usize> {
    let mut forms = BTreeMap::new();
    for n in 0..story.net.fabric().topology().switches.len() {
        for entry in story.net.fabric().switch(n).into_iter().flat_map(|s| s.entries(0)) {
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
        let switch = Plan { refused_fields: refused, ..plan(Version::V1_3) };
        let matching = forwarding::Matching::FiveTuple;
        let forwarding = forwarding::Config { matching, ..forwarding::Config::default() };
        let mut story = Story::new("ring,4", switch, forwarding);
        story.pass(Duration::from_secs(5));
        assert_eq!(story.lost_pings(), []);
        story.pass(Duration::from_secs(2));
        let before = story.counts();
        assert_eq!(story.lost_pings(), []);
        let after = story.counts();
        assert_eq!(after["forwarding_simplified"], simplified);
        assert_eq!(after["forwarding_refusing"], 0);
        let forms = forms(&story);
        let has = |id: &str| forms.keys().filter(|names| names.contains(id)).count();
        assert!(!forms.is_empty() && has(form) == forms.len(), "{form}: {forms:?}");
        if simplified > 0 {
            assert_eq!(has("ip_proto"), 0, "{forms:?}");
            assert_eq!(has("eth_src"), usize::from(simplified == 1) * forms.len(), "{forms:?}");
        }
        // What was loaded after the last refusal holds.
        assert!(after["forwarding_refused"] >= before["forwarding_refused"]);
        story.pass(Duration::from_secs(2));
        assert_eq!(story.lost_pings(), []);
        assert_eq!(story.counts()["forwarding_refused"], after["forwarding_refused"]);
    }
}

/// Tables with room for what comes up, and little more: pairs fill them, and are idle after a while.
#[test]
fn full_tables_slow_nobody_down_and_a_tree_stands_when_there_is_room() {
    let switch = Plan { table_size: 7, ..plan(Version::V1_3) };
    let flooding = Flooding::Tree;
    let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
    let mut story = Story::new("ring,4", switch, forwarding);
    story.pass(Duration::from_secs(4));
    for _ in 0..4 {
        assert_eq!(story.lost_pings(), []);
        story.pass(Duration::from_secs(4));
    }
    let counts = story.counts();
    assert!(counts["forwarding_refused"] > 0 && counts["forwarding_refusing"] > 0, "{counts:?}");
    assert!(story.tree().is_none_or(|tree| tree.stage != Stage::Standing));
    story.all_hear_all();
    // Pairs go when they are idle, and who refused is asked again.
    story.pass(Duration::from_secs(150));
    story.standing();
    assert_eq!(story.counts()["forwarding_refusing"], 0);
    story.all_hear_all();
    let rules = story.counts()["forwarding_rules"];
    let hosts = [(0, 1), (1, 0)];
    assert_eq!(story.net.ping(hosts, Family::V4, Duration::from_secs(3)).unwrap().lost, []);
    assert!(story.counts()["forwarding_rules"] > rules, "rules are written again");
}
