//! What forwarding does when a switch cannot match what it is asked to, as transcripts.

use sluice_apps::forwarding::{Config, Forwarding, Matching};
use sluice_testkit::transcript;

/// A line of three switches, a at the first one, b at the last one; the first packet has its rules loaded.
const LINE: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    ports s1:3 s3:3 edge
    host a at s1:3
    host b at s3:3
    s1 < packet_in  port=3 a>b
    s3 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
    s3 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
    s3 > packet_out output=3
    s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2
    s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
    s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1
    s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3
";

#[track_caller]
fn on_line(cfg: &Config, script: &str) {
    transcript(|| Forwarding::new(cfg), &format!("{LINE}\n{script}"));
}

/// The second switch cannot match so much, and all that was written goes, once more a second later.
const UNABLE: &str = "
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
fn on_unable(script: &str) {
    on_line(&Config::default(), &format!("{UNABLE}\n{script}"));
}

#[test]
fn a_switch_that_cannot_match_so_much_has_all_switches_get_simpler_rules_above_the_others() {
    on_line(
        &Config::default(),
        "
        s2 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        s2 < error bad_field                                  # of what was on its way
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=eth_dst+vlan_vid eth_dst=b output=3 priority=101
        s3 > flow_mod   match=eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s3 > packet_out output=3
        s2 > flow_mod   match=eth_dst+vlan_vid eth_dst=b output=2 priority=101
        s2 > flow_mod   match=eth_dst+vlan_vid eth_dst=a output=1 priority=101
        s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=a output=3 priority=101
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        ",
    );
}

#[test]
fn simpler_rules_go_a_while_after_who_needed_them_has_left() {
    on_unable(
        "
        wait 60s
        s2 disconnects
        switch s2 removed
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        wait 1s
        [1.0] s1 > multipart_request                 # its rules cannot be named
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        [1.0] s3 > multipart_request
        ports s1:2 edge
        host c at s1:2
        s1 < packet_in  port=3 a>c
        s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=c eth_dst=a output=3 priority=100
        s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=c output=2 priority=100
        s1 > packet_out output=2
        s2 connects                                      # with rules of which nobody knows
        [1.3..] s2 > flow_mod output=controller priority=0
        s2 > multipart_request
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        ",
    );
}

#[test]
fn simpler_rules_that_cannot_be_named_are_read_and_go_one_by_one() {
    transcript(
        || Forwarding::new(&Config { priority: 99, ..Config::default() }),
        "
        link s1:1 s2:1 up
        ports s1:3 s2:3 edge
        host a at s1:3
        host b at s2:3
        [1.0] s1 < packet_in  port=3 a>b
        [1.0] s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3
        [1.0] s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
        [1.0] s2 > packet_out output=3
        [1.0] s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1
        [1.0] s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3
        [1.0] s2 < error bad_field
        [1.0] s2 disconnects
        [1.0] switch s2 removed
        [1.0] wait 10s
        [1.0] wait 1s
        [1.0] s1 > multipart_request
        [1.0] s1 < aggregate_stats flows=2
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7381244169710206978 b:1 a:3    # their priority is 100
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=a priority=100
        ",
    );
}

#[test]
fn who_has_connected_again_is_tried_after_a_while_and_later_each_time_that_it_is_in_vain() {
    on_unable(
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
        s3 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
        s3 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s3 > packet_out output=3
        s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
        s2 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1 priority=100
        s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3 priority=100
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
fn a_switch_that_cannot_match_the_simplest_has_its_frames_sent_on_one_by_one() {
    transcript(
        || Forwarding::new(&Config { matching: Matching::Dst, ..Config::default() }),
        "
        ports s1:1 s1:2 edge
        host a at s1:1
        host b at s1:2
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=a output=1
        s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=b output=2
        s1 > packet_out output=2
        s1 < error bad_field
        wait 1s
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn simpler_rules_of_an_earlier_process_go_since_they_would_hide_others() {
    transcript(
        || Forwarding::new(&Config { priority: 99, ..Config::default() }),
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        s1 > multipart_request
        ports s1:1 edge
        s1 < aggregate_stats flows=1
        s1 > multipart_request
        s1 < flow_stats cookie=7381244169710206978 b:1    # their priority is 100
        s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100
        ",
    );
}

#[test]
fn a_full_table_is_no_reason_for_simpler_rules() {
    on_line(
        &Config::default(),
        "
        s2 < error table_full
        wait 1s
        s2 < packet_in  port=1 a>b
        s3 > packet_out output=3
        ",
    );
}
