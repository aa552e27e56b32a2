//! Paths are installed for packets between known hosts.

use sluice_apps::forwarding::{Config, Matching};

use crate::forwarding::{LINEAR, SINGLE_SWITCH, run, run_with_defaults};

#[test]
fn the_first_packet_installs_the_path_in_both_directions_and_is_sent_out_at_its_end() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b untagged output=3 idle_timeout=60 hard_timeout=0 priority=100
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        ",
    );
}

#[test]
fn with_both_directions_off_each_packet_installs_its_own_direction() {
    run(
        LINEAR,
        &Config { both_directions: false, ..Config::default() },
        "
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s3 < packet_in  port=3 b>a
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s1 > packet_out output=3
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        ",
    );
}

#[test]
fn a_packet_from_an_unknown_host_installs_one_direction() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=4 c>b
        s3 > flow_mod   eth_src=c eth_dst=b output=3
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=c eth_dst=b output=2
        s1 > flow_mod   eth_src=c eth_dst=b output=1
        ",
    );
}

#[test]
fn between_hosts_of_one_switch_only_that_switch_gets_flow_entries() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > packet_out output=2 in_port=1
        wait 1s
        s1 < packet_in  port=1 a>b buffer=7
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2 buffer=7
        ",
    );
}

#[test]
fn a_buffered_packet_is_sent_out_at_the_end_of_the_path_and_its_buffer_is_released() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>b buffer=7
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s1 > packet_out drop buffer=7              # after the flow entries, which forward the packets buffered behind it
        ",
    );
}

#[test]
fn the_buffer_of_a_truncated_packet_is_released_by_its_flow_entry() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>b truncated buffer=7
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1 buffer=7
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s1 < packet_in  port=3 a>b truncated buffer=8    # sent before the flow entries were installed
        s1 > packet_out output=table buffer=8
        wait 1s
        s1 < packet_in  port=3 a>b truncated
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        ",
    );
}

#[test]
fn a_packet_to_a_host_at_the_port_where_it_was_received_is_dropped() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        host c at s1:1
        s1 < packet_in  port=1 c>a
        s1 < packet_in  port=1 c>a buffer=7
        s1 > packet_out drop buffer=7
        ",
    );
}

#[test]
fn without_a_path_packets_are_dropped() {
    run_with_defaults(
        "
        ports s1:1 s2:1 edge
        host a at s1:1
        host b at s2:1
        ",
        "
        s1 < packet_in  port=1 a>b
        s1 < packet_in  port=1 a>b buffer=7
        s1 > packet_out drop buffer=7
        ",
    );
}

#[test]
fn packets_to_a_host_at_a_pending_port_are_flooded() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        ports s1:2 pending
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=3
        ",
    );
}

#[test]
fn hosts_of_different_vlans_are_kept_apart() {
    run_with_defaults(
        LINEAR,
        "
        host a/5 at s1:3
        host b/5 at s2:3
        s1 < packet_in  port=3 a>b vlan=5
        s2 > flow_mod   eth_src=a eth_dst=b vlan_vid=5 output=3
        s2 > flow_mod   eth_src=b eth_dst=a vlan_vid=5 output=1
        s2 > packet_out output=3
        s1 > flow_mod   eth_src=a eth_dst=b vlan_vid=5 output=1
        s1 > flow_mod   eth_src=b eth_dst=a vlan_vid=5 output=3
        s1 < packet_in  port=3 a>b vlan=6
        s1 > packet_out output=4
        s2 > packet_out output=3
        s3 > packet_out output=3
        ",
    );
}

#[test]
fn flow_entries_have_the_configured_timeouts_and_priority() {
    let cfg = Config { idle_timeout_s: 7, hard_timeout_s: 70, priority: 9, ..Config::default() };
    run(
        SINGLE_SWITCH,
        &cfg,
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1 idle_timeout=7 hard_timeout=70 priority=9
        s1 > flow_mod   eth_src=a eth_dst=b output=2 idle_timeout=7 hard_timeout=70 priority=9
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn flow_entries_match_only_the_destination_if_configured() {
    run(
        SINGLE_SWITCH,
        &Config { matching: Matching::Dst, ..Config::default() },
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=a untagged output=1
        s1 > flow_mod   match=in_port+eth_dst+vlan_vid eth_dst=b untagged output=2
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn while_a_path_is_being_installed_further_packets_are_only_forwarded() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s1 < packet_in  port=3 a>b
        s3 > packet_out output=3
        s2 < packet_in  port=1 a>b
        s3 > packet_out output=3
        s3 < packet_in  port=1 a>b buffer=7
        s3 > packet_out output=3 buffer=7
        s3 < packet_in  port=3 b>a
        s1 > packet_out output=3
        ",
    );
}

#[test]
fn a_packet_in_from_the_middle_of_a_path_installs_the_path_from_its_source_if_that_is_known() {
    run_with_defaults(
        LINEAR,
        "
        s2 < packet_in  port=1 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        s2 < packet_in  port=1 d>b                  # the location of d is unknown
        s3 > flow_mod   eth_src=d eth_dst=b output=3
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=d eth_dst=b output=2
        s2 < packet_in  port=2 d>b                  # s3 has sent it back
        s3 > packet_out output=3
        wait 1s
        s2 < packet_in  port=2 d>b
        s3 > flow_mod   eth_src=d eth_dst=b output=3
        s3 > packet_out output=3
        ",
    );
}
