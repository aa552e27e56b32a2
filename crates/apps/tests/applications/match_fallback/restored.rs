//! When the configured match is tried again, and what becomes of simpler flow entries.

use sluice_apps::forwarding::{Config, Flooding, Forwarding};
use sluice_testkit::transcript;

use crate::match_fallback::{
    PATH_WITH_SIMPLER_FIRST_HOP, REFUSED_AT_EDGE, run_after_refusal, run_after_refusal_at_edge,
    run_on_linear,
};

/// When a port becomes a link, and a second later: flow entries that send to it or match packets from it are deleted.
const LINK_PORT_CLEARED: &str = "
    [1.1..] s1 > flow_mod delete match= out_port=1
    [1.1..] s1 > flow_mod delete match=in_port in_port=1
    [1.0] s1 > multipart_request
    [1.0] s1 < aggregate_stats flows=0
    [1.0] s1 > multipart_request
    [1.0] s1 < aggregate_stats flows=0
";

#[test]
fn the_configured_match_is_restored_at_the_edge_ten_seconds_after_the_switch_has_reconnected() {
    run_after_refusal_at_edge(&format!(
        "
        {PATH_WITH_SIMPLER_FIRST_HOP}
        wait 60s
        switch s1 removed
        link s1:1 s2:1 up
        {LINK_PORT_CLEARED}
        ports s1:3 edge
        {PATH_WITH_SIMPLER_FIRST_HOP}
        wait 1s
        {LINK_PORT_CLEARED}
        wait 8s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1 priority=100
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3 priority=100
        s1 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        {PATH_WITH_SIMPLER_FIRST_HOP}
        wait 1s
        [1.0] s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        switch s1 removed
        link s1:1 s2:1 up
        {LINK_PORT_CLEARED}
        ports s1:3 edge
        wait 1s
        {LINK_PORT_CLEARED}
        wait 18s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        "
    ));
}

#[test]
fn the_simpler_flow_entries_of_a_refusing_switch_are_deleted_when_it_connects() {
    let flooding = Flooding::Controller;
    run_on_linear(
        &Config { flooding, ..Config::default() },
        &format!(
            "
            {REFUSED_AT_EDGE}
            s1 disconnects
            switch s1 removed
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0
            s1 > multipart_request
            [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
            [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
            "
        ),
    );
}

/// When the entries of all switches become finer, also simpler ones of the first switch are deleted: some may be between
/// links. But it gets simpler ones again.
#[test]
fn a_switch_that_has_refused_a_match_gets_simpler_flow_entries_even_if_the_others_get_finer_ones() {
    run_after_refusal_at_edge(
        "
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
        ports s1:2 edge
        host c at s1:2
        switch s2 removed
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        s1 < packet_in  port=3 a>c
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=c output=2 priority=101
        s1 > packet_out output=2
        link s1:1 s2:1 up
        link s2:2 s3:1 up
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3 priority=100
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s3 > packet_out output=3
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2 priority=100
        s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1 priority=100
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b output=1 priority=101
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a output=3 priority=101
        ",
    );
}

/// A path passes through the switch after it has reconnected, and before the match is tried again.
#[test]
fn the_match_is_tried_again_even_if_a_path_passed_through_the_switch_meanwhile() {
    run_after_refusal_at_edge(&format!(
        "
        switch s1 removed
        link s1:1 s2:1 up
        {LINK_PORT_CLEARED}
        wait 1s
        {LINK_PORT_CLEARED}
        [1.1..] link s1:2 s4:1 up
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.1..] s1 < packet_in  port=2 d>b
        [1.1..] s3 > packet_out output=3
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] wait 1s
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] wait 8s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s4 > flow_mod delete match= cookie=7381244169710206978
        "
    ));
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
        link s2:2 s3:1 up
        ports s1:3 s3:3 edge
        host a at s1:3
        host b at s3:3
        [1.0] s1 < packet_in  port=3 a>b
        [1.0] s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=3
        [1.0] s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
        [1.0] s3 > packet_out output=3
        [1.0] s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=2
        [1.0] s2 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=1
        [1.0] s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=1
        [1.0] s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3
        [1.0] s2 < error bad_field
        [1.0] s1 < packet_in  port=3 a>b
        [1.0] s3 > packet_out output=3
        [1.0] s2 disconnects
        [1.0] switch s2 removed
        [1.0] wait 10s
        [1.0] wait 1s
        [1.0] s1 > multipart_request
        [1.0] s3 > multipart_request
        [1.0] s1 < aggregate_stats flows=2
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7381244169710206978 b:1 a:3    # their priority is 100
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100 out_port=1
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=a priority=100 out_port=3
        ",
    );
}

/// A switch with simpler flow entries than others, which changes of its tables have not reached.
#[test]
fn when_flow_entries_are_listed_simpler_ones_of_a_refusing_switch_stay_except_between_links() {
    transcript(
        || Forwarding::new(&Config { priority: 99, ..Config::default() }),
        "
        ports s1:3 s1:4 edge
        host a at s1:3
        host b at s1:4
        s1 < packet_in  port=3 a>b
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=b eth_dst=a output=3 priority=99
        s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b output=4 priority=99
        s1 > packet_out output=4
        s1 < error bad_field
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        link s1:1 s2:1 up
        [1.1..] s1 > flow_mod delete match= out_port=1
        [1.1..] s1 > flow_mod delete match=in_port in_port=1
        [1.0]   s1 > multipart_request
        link s1:2 s2:2 up
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 > multipart_request
        s1 < aggregate_stats flows=3
        s1 > multipart_request
        s1 < flow_stats cookie=7381244169710206978 3:a>b:4 1:b>a:3 1:b>a:2   # their priority is 100
        s1 > flow_mod   delete_strict match=in_port+eth_src+eth_dst+vlan_vid in_port=1 eth_dst=a priority=100 out_port=2
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
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        s2 < packet_in  port=1 a>b
        s3 > packet_out output=3
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        wait 1s
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        [1.0] s3 > multipart_request
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
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
