//! If a switch does not support a match, `forwarding` uses a simpler match there, or in all switches if a path passes through it. As
//! transcripts.

mod restored;
mod simpler;

use sluice_apps::forwarding::{Config, Forwarding, Matching};
use sluice_testkit::transcript;

/// Three switches in a line, host a at the first, host b at the last; the path between them has been installed.
const LINEAR: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    ports s1:3 s3:3 edge
    host a at s1:3
    host b at s3:3
    s1 < packet_in  port=3 a>b
    s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
    s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
    s3 > packet_out output=3
    s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2
    s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
    s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1
    s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3
";

#[track_caller]
fn run_on_linear(cfg: &Config, script: &str) {
    transcript(|| Forwarding::new(cfg), &format!("{LINEAR}\n{script}"));
}

/// The second switch, through which the path leads, refuses the match. Its entries are deleted; the next packet shows that all
/// switches need a simpler match, so theirs are deleted as well. Deletions are repeated a second later.
const MATCH_REFUSED: &str = "
    s2 < error bad_field
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    s1 < packet_in  port=3 a>b
    s3 > packet_out output=3
    [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    wait 1s
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
";

#[track_caller]
fn run_after_refusal(script: &str) {
    run_on_linear(&Config::default(), &format!("{MATCH_REFUSED}\n{script}"));
}

/// The first switch refuses the match: only its own entries with this match are deleted, and again a second later.
const REFUSED_AT_EDGE: &str = "
    s1 < error bad_field
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
    wait 1s
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
";

#[track_caller]
fn run_after_refusal_at_edge(script: &str) {
    run_on_linear(&Config::default(), &format!("{REFUSED_AT_EDGE}\n{script}"));
}

/// A path from the first switch, which has simpler flow entries, to the last.
const PATH_WITH_SIMPLER_FIRST_HOP: &str = "
    s1 < packet_in  port=3 a>b
    s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
    s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
    s3 > packet_out output=3
    s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
    s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
    s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
    s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
";

#[test]
fn packets_of_a_switch_that_refuses_the_simplest_match_are_forwarded_one_by_one() {
    transcript(
        || Forwarding::new(&Config { matching: Matching::Dst, ..Config::default() }),
        "
        ports s1:1 s1:2 edge
        host a at s1:1
        host b at s1:2
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=2
        s1 > packet_out output=2
        s1 < error bad_field
        wait 1s
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn a_full_table_does_not_cause_a_simpler_match() {
    run_on_linear(
        &Config::default(),
        "
        s2 < error table_full
        wait 1s
        s2 < packet_in  port=1 a>b
        s3 > packet_out output=3
        ",
    );
}
