//! Broadcasts, multicasts and packets to unknown hosts.

use sluice_apps::forwarding::Config;

use crate::forwarding::{LINEAR, SINGLE_SWITCH, run, run_with_defaults};

#[test]
fn broadcasts_multicasts_and_unknown_destinations_are_flooded_to_all_edge_ports() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>*
        s1 > packet_out output=4 in_port=3
        s2 > packet_out output=3
        s3 > packet_out output=3
        s2 < packet_in  port=3 d>33:33:00:00:00:01 buffer=7
        s2 > packet_out drop buffer=7
        s1 > packet_out output=3+output=4
        s3 > packet_out output=3
        s3 < packet_in  port=3 b>z
        s1 > packet_out output=3+output=4
        s2 > packet_out output=3
        ",
    );
}

#[test]
fn broadcasts_received_from_a_link_are_not_flooded_again() {
    run_with_defaults(
        LINEAR,
        "
        s2 < packet_in  port=1 a>*
        s2 < packet_in  port=1 a>* buffer=7
        s2 > packet_out drop buffer=7
        ",
    );
}

#[test]
fn packets_from_pending_ports_are_dropped_and_floods_go_to_edge_ports_only() {
    run_with_defaults(
        "
        ports s1:1 s1:2 edge
        ports s1:3 pending
        link s1:4 s2:4 up
        ",
        "
        s1 < packet_in  port=3 a>*
        s1 < packet_in  port=3 a>b buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=1 a>*
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn floods_enter_and_leave_an_unmanaged_segment_at_one_port() {
    run_with_defaults(
        "
        link s1:1 s2:1 up
        ports s1:3 s2:3 edge
        ",
        "
        ports s1:2 s2:2 shared_segment
        s2 > flow_mod   drop match=in_port in_port=2 priority=65533 hard_timeout=30
        s2 < packet_in  port=3 a>*
        s1 > packet_out output=2+output=3
        s1 < packet_in  port=2 x>*
        s1 > packet_out output=3
        s2 > packet_out output=3
        s2 < packet_in  port=2 x>33:33:00:00:00:01
        ",
    );
}

#[test]
fn packets_from_the_other_ports_of_an_unmanaged_segment_are_dropped_until_one_is_designated() {
    run_with_defaults(
        "
        link s1:1 s2:1 up
        ",
        "
        ports s1:2 s2:2 shared_segment
        s2 > flow_mod   drop match=in_port in_port=2
        wait 9s
        wait 2s
        s2 > flow_mod   drop match=in_port in_port=2
        ports s1:2 down
        [1.0]   s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        ports s2:2 shared_segment
        s2 > flow_mod   delete_strict match=in_port in_port=2 priority=65533
        ",
    );
}

#[test]
fn a_broadcast_that_returns_over_an_undiscovered_link_is_not_flooded_again() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>*
        s1 > packet_out output=4
        s2 > packet_out output=3
        s3 > packet_out output=3
        s3 < packet_in  port=3 a>*
        s1 < packet_in  port=4 a>* buffer=7
        s1 > packet_out drop buffer=7
        wait 1s
        s3 < packet_in  port=3 a>*
        s1 > packet_out output=3+output=4
        s2 > packet_out output=3
        ",
    );
}

#[test]
fn floods_per_port_and_second_are_limited() {
    run(
        SINGLE_SWITCH,
        &Config { floods_per_s_max: 2, ..Config::default() },
        "
        s1 < packet_in  port=1 a>*
        s1 > packet_out output=2+output=3
        s1 < packet_in  port=1 a>*
        s1 > packet_out output=2+output=3
        s1 < packet_in  port=1 a>*
        s1 < packet_in  port=2 b>*
        s1 > packet_out output=1+output=3
        wait 1s
        s1 < packet_in  port=1 a>*
        s1 > packet_out output=2+output=3
        ",
    );
}

#[test]
fn a_truncated_broadcast_is_flooded_only_by_the_switch_that_buffers_it() {
    run_with_defaults(
        LINEAR,
        "
        s1 < packet_in  port=3 a>* truncated
        s1 < packet_in  port=3 a>* truncated buffer=7
        s1 > packet_out output=4 buffer=7
        ",
    );
}
