//! Which switches get simpler flow entries, and which paths these form.

use sluice_apps::forwarding::{Config, Forwarding, Matching};
use sluice_testkit::transcript;

use crate::match_fallback::{
    PATH_WITH_SIMPLER_FIRST_HOP, run_after_refusal_at_edge, run_on_linear,
};

#[test]
fn if_the_first_switch_of_a_path_refuses_a_match_only_its_own_flow_entries_are_simpler() {
    run_on_linear(
        &Config::default(),
        &format!(
            "
            s1 < error bad_field
            [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
            s1 < error bad_field                                  # for a flow entry that was sent earlier
            {PATH_WITH_SIMPLER_FIRST_HOP}
            wait 1s
            [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
            "
        ),
    );
}

#[test]
fn if_the_last_switch_of_a_path_refuses_a_match_only_its_own_flow_entries_are_simpler() {
    run_on_linear(
        &Config::default(),
        "
        s3 < error bad_field
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        s3 < packet_in  port=1 a>b
        s3 > packet_out output=3
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=3 priority=101
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3 priority=100
        ",
    );
}

#[test]
fn if_a_switch_in_the_middle_refuses_a_match_all_switches_get_a_simpler_one_of_higher_priority() {
    run_on_linear(
        &Config::default(),
        "
        s2 < error bad_field
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        s2 < error bad_field                                  # for a flow entry that was sent earlier
        s2 < packet_in  port=1 a>b                            # forwarded by s1
        s3 > packet_out output=3
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=3 priority=101
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=2 priority=101
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
        ",
    );
}

/// A link appears, and with it a path that passes through the switch that has refused a match.
#[test]
fn if_a_path_passes_through_a_switch_with_simpler_flow_entries_all_switches_get_them() {
    run_after_refusal_at_edge(
        "
        link s1:2 s4:1 up
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.0]   s1 > multipart_request
        ports s4:3 edge
        host d at s4:3
        s4 < packet_in  port=3 d>b
        s3 > packet_out output=3
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206977
        s4 < packet_in  port=3 d>b
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=3 priority=101
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=d output=1 priority=101
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=2 priority=101
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=d output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=d output=2 priority=101
        s4 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s4 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=d output=3 priority=101
        ",
    );
}

/// Without a known source, the path starts at the link where the packet was received.
#[test]
fn a_path_from_an_unknown_source_passes_through_the_switch_where_it_starts() {
    run_after_refusal_at_edge(
        "
        link s1:2 s4:1 up
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.0]   s1 > multipart_request
        s1 < packet_in  port=2 d>b
        s3 > packet_out output=3
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206977
        s1 < packet_in  port=2 d>a                            # ends at s1
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
        s1 > packet_out output=3
        ",
    );
}

/// The path of a flow from a host at a leaf, where flow entries match destinations, through a spine to host c at another leaf.
fn path_through_spine(host: char) -> String {
    format!(
        "
        s4 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src={host} eth_dst=c output=3
        s4 > packet_out output=3
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src={host} eth_dst=c output=2
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=c output=2 priority=101
        "
    )
}

/// Hosts at one port of a leaf share its entry for packets to c: if their paths led through different spines, they would
/// replace it in turn.
#[test]
fn flows_that_share_a_simpler_entry_use_the_same_path() {
    let paths: Vec<_> = ('d'..='k')
        .map(|host| {
            format!(
                "
                host {host} at s1:3
                s3 < packet_in  port=1 {host}>c                   # forwarded by s1
                {}
                ",
                path_through_spine(host)
            )
        })
        .collect();
    let paths = paths.concat();
    transcript(
        || Forwarding::new(&Config { both_directions: false, ..Config::default() }),
        &format!(
            "
            link s1:1 s2:1 up
            link s1:2 s3:1 up
            link s4:1 s2:2 up
            link s4:2 s3:2 up
            ports s1:3 s1:4 s4:3 edge
            host a at s1:3
            host b at s1:4
            host c at s4:3
            s1 < packet_in  port=3 a>b
            s1 > flow_mod   eth_src=a eth_dst=b output=4
            s1 > packet_out output=4
            s1 < error bad_field
            [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
            s1 < packet_in  port=3 a>c
            {}
            {paths}
            ",
            path_through_spine('a')
        ),
    );
}

/// With flow entries that match destinations, the paths of both directions may differ. Here the one back passes through a spine that
/// has refused to match pairs.
#[test]
fn if_only_the_path_back_passes_through_a_refusing_switch_all_switches_get_simpler_flow_entries() {
    transcript(
        Forwarding::default,
        "
        link s1:1 s2:1 up
        link s1:2 s3:1 up
        link s4:1 s2:2 up
        link s4:2 s3:2 up
        ports s1:3 s1:4 s2:3 s2:4 s4:3 edge
        host a at s1:3
        host b at s1:4
        host c at s4:3
        host x at s2:3
        host y at s2:4
        s1 < packet_in  port=3 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s1 > flow_mod   eth_src=a eth_dst=b output=4
        s1 > packet_out output=4
        s1 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        s2 < packet_in  port=3 x>y
        s2 > flow_mod   eth_src=y eth_dst=x output=3
        s2 > flow_mod   eth_src=x eth_dst=y output=4
        s2 > packet_out output=4
        s2 < error bad_field
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        host e at s1:3
        s1 < packet_in  port=3 e>c
        s4 > packet_out output=3
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        ",
    );
}

#[test]
fn flow_entries_between_hosts_of_the_refusing_switch_are_simpler_too() {
    // In 1.0 and 1.3, packets on the fast path.
    transcript(
        || Forwarding::new(&Config { matching: Matching::FiveTuple, ..Config::default() }),
        "
        ports s1:1 s1:2 s2:1 s2:2 edge
        host a at s1:1
        host b at s1:2
        host c at s2:1
        host d at s2:2
        s1 < packet_in  port=1 a>b ethertype=88b8
        s1 > flow_mod   eth_type=35000 eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   eth_type=35000 eth_src=a eth_dst=b output=2 priority=100
        s1 > packet_out output=2
        s1 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206976
        s1 < packet_in  port=1 a>b ethertype=88b8
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=101
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=101
        s1 > packet_out output=2
        s2 < packet_in  port=1 c>d ethertype=88b8
        s2 > flow_mod   eth_type=35000 eth_src=d eth_dst=c output=1 priority=100
        s2 > flow_mod   eth_type=35000 eth_src=c eth_dst=d output=2 priority=100
        s2 > packet_out output=2
        s1 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        s1 < packet_in  port=1 a>b ethertype=88b8
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=102
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=2 priority=102
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn if_a_port_becomes_a_link_simpler_flow_entries_to_and_from_it_are_deleted() {
    run_after_refusal_at_edge(
        "
        ports s1:2 s2:3 edge
        link s1:2 s2:3 up                                     # the entries of s2 are as before
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.0] s1 > multipart_request
        [1.0] s1 < aggregate_stats flows=1
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7381244169710206978 b:2
        [1.0] s1 > multipart_request
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100 out_port=2
        [1.0] s1 < aggregate_stats flows=0
        wait 1s
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.0] s1 > multipart_request
        ",
    );
}

/// It says nothing about the match of entries; what should have been deleted is found later.
#[test]
fn a_switch_that_refuses_a_deletion_keeps_its_match() {
    let cfg = Config { matching: Matching::FiveTuple, ..Config::default() };
    let script = "
        link s1:1 s2:1 up
        link s2:2 s3:1 up
        ports s1:3 s3:3 edge
        host a at s1:3
        host b at s3:3
        link s2:2 s3:1 down
        [1.1..] s3 > flow_mod delete match= out_port=1
        [1.1..] s2 > flow_mod delete match= out_port=2
        [1.0]   s2 > multipart_request
        [1.0]   s3 > multipart_request
        [1.1..] s2 < error bad_field
        ";
    transcript(|| Forwarding::new(&cfg), script);
}
