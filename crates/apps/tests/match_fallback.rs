//! If a switch does not support a match, `forwarding` uses a simpler match in all switches. As transcripts.

use sluice_apps::forwarding::{Config, Flooding, Forwarding, Matching};
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

/// The second switch refuses the match: all flow entries with this match are deleted, and again a second later.
const MATCH_REFUSED: &str = "
    s2 < error bad_field
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
    wait 1s
    [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
    [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
";

#[track_caller]
fn run_after_refusal(script: &str) {
    run_on_linear(&Config::default(), &format!("{MATCH_REFUSED}\n{script}"));
}

#[test]
fn if_a_switch_refuses_a_match_all_switches_get_a_simpler_one_of_higher_priority() {
    run_on_linear(
        &Config::default(),
        "
        s2 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        s2 < error bad_field                                  # for a flow entry that was sent earlier
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=3 priority=101
        s3 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=2 priority=101
        s2 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        ",
    );
}

#[test]
fn the_configured_match_is_restored_ten_seconds_after_the_switch_has_disconnected() {
    run_after_refusal(
        "
        wait 60s
        s2 disconnects
        switch s2 removed
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        wait 1s
        [1.0] s1 > multipart_request                 # 1.0 cannot delete by cookie
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        [1.0] s3 > multipart_request
        ports s1:2 edge
        host c at s1:2
        s1 < packet_in  port=3 a>c
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=c eth_dst=a output=3 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=c output=2 priority=100
        s1 > packet_out output=2
        s2 connects                                      # its flow entries are unknown
        [1.3..] s2 > flow_mod output=controller priority=0
        s2 > multipart_request
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7454142881553448960
        ",
    );
}

#[test]
fn with_1_0_flow_entries_with_a_simpler_match_are_read_and_deleted_one_by_one() {
    transcript(
        || Forwarding::new(&Config { priority: 99, ..Config::default() }),
        "
        link s1:1 s2:1 up
        ports s1:3 s2:3 edge
        host a at s1:3
        host b at s2:3
        [1.0] s1 < packet_in  port=3 a>b
        [1.0] s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3
        [1.0] s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
        [1.0] s2 > packet_out output=3
        [1.0] s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1
        [1.0] s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3
        [1.0] s2 < error bad_field
        [1.0] s2 disconnects
        [1.0] switch s2 removed
        [1.0] wait 10s
        [1.0] wait 1s
        [1.0] s1 > multipart_request
        [1.0] s1 < aggregate_stats flows=2
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7381244169710206978 b:1 a:3    # their priority is 100
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100 out_port=1
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=a priority=100 out_port=3
        ",
    );
}

#[test]
fn the_configured_match_is_tried_again_after_a_reconnect_and_later_after_each_refusal() {
    run_after_refusal(
        "
        switch s2 removed
        wait 9s
        link s1:1 s2:1 up
        link s2:2 s3:1 up
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3 priority=100
        s2 < error bad_field                                  # as before
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        wait 1s
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        [1.0] s3 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        switch s2 removed
        link s1:1 s2:1 up
        wait 19s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        wait 1s
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        [1.0] s3 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        ",
    );
}

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
fn flow_entries_with_a_simpler_match_of_an_earlier_run_are_deleted() {
    transcript(
        || {
            let flooding = Flooding::Controller;
            Forwarding::new(&Config { priority: 99, flooding, ..Config::default() })
        },
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        ports s1:1 edge
        s1 < aggregate_stats flows=1
        s1 > multipart_request
        s1 < flow_stats cookie=7381244169710206978 b:1    # their priority is 100
        s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100 out_port=1
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
