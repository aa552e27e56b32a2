//! Flow entries that lead along failed links or to old locations of hosts are deleted.

use crate::forwarding::{LINEAR, RING, SINGLE_SWITCH, run_with_defaults};

#[test]
fn when_a_link_fails_only_the_flow_entries_that_use_it_are_deleted() {
    run_with_defaults(
        RING,
        "
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=2
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        link s3:2 s4:1 up
        wait 1s
        link s2:2 s3:1 down
        [1.1..] s3 > flow_mod delete match= out_port=1
        [1.1..] s2 > flow_mod delete match= out_port=2
        [1.0] s2 > multipart_request
        [1.0] s3 > multipart_request
        s2 < packet_in  port=1 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=2
        s3 > packet_out output=3
        s4 > flow_mod   eth_src=a eth_dst=b output=1
        s4 > flow_mod   eth_src=b eth_dst=a output=2
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        link s2:2 s3:1 up
        link s2:2 s3:1 down
        [1.1..] s3 > flow_mod delete match= out_port=1
        [1.1..] s2 > flow_mod delete match= out_port=2
        ",
    );
}

#[test]
fn when_a_port_goes_down_the_flow_entries_that_use_it_are_deleted() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        ports s1:2 down
        [1.1..] s1 > flow_mod delete match= out_port=2
        [1.1..] s1 > flow_mod delete match=in_port in_port=2
        [1.0] s1 > multipart_request
        ",
    );
}

#[test]
fn when_a_link_leads_to_another_switch_its_flow_entries_are_deleted() {
    run_with_defaults(
        LINEAR,
        "
        link s1:1 s4:1 up
        [1.1..] s2 > flow_mod delete match= out_port=1
        [1.1..] s1 > flow_mod delete match= out_port=1
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        ",
    );
}

#[test]
fn flow_entries_to_and_from_a_host_that_moved_or_was_removed_are_deleted() {
    run_with_defaults(
        LINEAR,
        "
        host b at s2:3
        [1.1..] s3 > flow_mod delete match=in_port+eth_src eth_src=b in_port=3
        [1.1..] s3 > flow_mod delete match=eth_dst eth_dst=b
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=b
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=b
        [1.0] s3 > multipart_request
        host b removed
        [1.1..] s2 > flow_mod delete match=in_port+eth_src eth_src=b in_port=3
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=b
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=b
        [1.1..] s3 > flow_mod delete match=eth_dst eth_dst=b
        [1.0] s2 > multipart_request
        host b/7 at s2:3
        host b/7 removed
        [1.1..] s2 > flow_mod delete match=in_port+eth_src+vlan_vid eth_src=b vlan_vid=7
        [1.1..] s2 > flow_mod delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7
        [1.1..] s1 > flow_mod delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7
        [1.1..] s3 > flow_mod delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7
        host b at s2:3
        s2 < packet_in  port=1 a>b
        s2 > packet_out output=3
        s2 > flow_mod   eth_src=a eth_dst=b output=3
        s2 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        ",
    );
}

#[test]
fn an_unknown_destination_from_a_link_has_the_flow_entry_that_sent_it_deleted() {
    run_with_defaults(
        LINEAR,
        "
        s2 < packet_in  port=1 a>z
        [1.0] s1 > multipart_request
        s2 > packet_out output=3
        s1 > packet_out output=4                            # not where a is
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=z out_port=1
        s3 > packet_out output=3
        s2 < packet_in  port=1 a>z
        s2 > packet_out output=3
        s1 > packet_out output=4
        s3 > packet_out output=3
        ",
    );
}

#[test]
fn when_a_switch_disconnects_no_flow_entry_is_deleted() {
    run_with_defaults(
        LINEAR,
        "
        switch s2 removed
        s1 < packet_in  port=3 a>b
        ",
    );
}

/// A switch without a control connection continues to forward.
#[test]
fn flow_entries_over_a_link_to_a_disconnected_switch_are_kept() {
    run_with_defaults(
        LINEAR,
        "
        s2 disconnects
        switch s2 removed
        link s2:1 s1:1 up
        link s2:2 s3:1 up
        ",
    );
}

#[test]
fn flow_entries_to_a_disconnected_switch_are_deleted_when_the_port_goes_down() {
    run_with_defaults(
        LINEAR,
        "
        s2 disconnects
        switch s2 removed
        ports s1:1 down
        [1.1..] s1 > flow_mod delete match= out_port=1
        [1.0] s1 > multipart_request
        ",
    );
}

#[test]
fn flow_entries_to_a_disconnected_switch_are_deleted_when_the_port_becomes_an_edge_port() {
    run_with_defaults(
        LINEAR,
        "
        s2 disconnects
        switch s2 removed
        ports s1:1 pending
        ports s1:1 edge
        [1.1..] s1 > flow_mod delete match= out_port=1
        [1.0] s1 > multipart_request
        ",
    );
}

#[test]
fn flow_entries_to_a_disconnected_switch_are_deleted_when_it_reconnects_with_another_link() {
    run_with_defaults(
        LINEAR,
        "
        s2 disconnects
        switch s2 removed
        link s2:3 s1:1 up
        [1.1..] s2 > flow_mod delete match= out_port=1
        [1.1..] s1 > flow_mod delete match= out_port=1
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        ",
    );
}

#[test]
fn after_lost_changes_the_flow_entries_that_are_wrong_are_deleted_and_no_others() {
    run_with_defaults(
        LINEAR,
        "
        ports s2:4 down
        [1.1..] s2 > flow_mod delete match= out_port=4
        [1.1..] s2 > flow_mod delete match=in_port in_port=4
        [1.0]   s2 > multipart_request
        wait 1s
        [1.1..] s2 > flow_mod delete match= out_port=4
        [1.1..] s2 > flow_mod delete match=in_port in_port=4
        s2 loses changes
        [1.3..] s2 > flow_mod output=controller priority=0
        [1.1..] s2 > flow_mod delete match= cookie=7454142881553448960
        s2 > multipart_request
        s2 < aggregate_stats flows=7
        s2 > multipart_request
        s2 < flow_stats cookie=7381244169710206976 a:1 b:1 a:2 b:2 z:2 b:2 a:4
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=b out_port=1
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=a out_port=2
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=z out_port=2
        [1.1..] s2 > flow_mod delete match= out_port=4
        s3 loses changes
        [1.3..] s3 > flow_mod output=controller priority=0
        [1.1..] s3 > flow_mod delete match= cookie=7454142881553448960
        s3 > multipart_request
        s3 < aggregate_stats flows=4
        s3 > multipart_request
        s3 < flow_stats cookie=7381244169710206976 b:3 3:b>a:1 3:a>b:1 1:a>b:3
        [1.1..] s3 > flow_mod delete match=eth_dst eth_dst=b out_port=1
        [1.1..] s3 > flow_mod delete match=in_port+eth_src in_port=3 eth_src=a
        [1.0] s3 > multipart_request
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 > multipart_request
        s1 < aggregate_stats flows=0
        ",
    );
}

#[test]
fn after_lost_changes_a_path_that_was_being_installed_is_installed_again() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > packet_out output=2
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=2
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 > multipart_request
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > packet_out output=2
        ",
    );
}

#[test]
fn after_lost_changes_the_flow_entries_of_a_switch_that_does_not_list_them_are_deleted() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 > multipart_request
        s1 < aggregate_stats flows=7
        s1 > multipart_request
        s1 < error bad_type
        [1.0]   s1 > multipart_request                      # for port 1
        [1.0]   s1 < aggregate_stats flows=20000
        [1.0]   s1 > multipart_request                      # for port 2
        [1.0]   s1 > flow_mod delete match= out_port=1      # too many to be listed
        [1.0]   s1 < aggregate_stats flows=0
        [1.0]   s1 > multipart_request
        [1.0]   s1 < aggregate_stats flows=0
        [1.0]   s1 > multipart_request
        [1.0]   s1 < aggregate_stats flows=0
        [1.1..] s1 > flow_mod delete match=
        [1.1..] s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        [1.1..] s1 > multipart_request
        [1.1..] wait 29s
        [1.1..] wait 1s
        [1.1..] s1 > flow_mod delete match=
        [1.1..] s1 < aggregate_stats flows=7
        ",
    );
}

#[test]
fn flow_entries_that_a_switch_does_not_count_are_listed() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 > multipart_request
        s1 < flow_stats cookie=0                            # not a count
        s1 > multipart_request
        s1 < flow_stats cookie=7381244169710206976 z:2
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=z out_port=2
        [1.0]   s1 > multipart_request
        ",
    );
}

/// Deletions of 1.0 have no cookie, and would also delete the entries of an operator or of another application.
#[test]
fn with_1_0_stale_flow_entries_are_listed_and_deleted_one_by_one() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        [1.0] ports s1:2 down
        [1.0] s1 > multipart_request
        [1.0] s1 < aggregate_stats flows=3
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7381244169710206976 b:2 c:2
        [1.0] s1 > multipart_request                        # for entries that match the port
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=b priority=100 out_port=2
        [1.0] s1 > flow_mod   delete_strict match=eth_dst+vlan_vid eth_dst=c priority=100 out_port=2
        [1.0] s1 < aggregate_stats flows=1
        [1.0] s1 > multipart_request
        [1.0] s1 < flow_stats cookie=7 b:2
        ",
    );
}

#[test]
fn with_1_0_both_ends_of_a_link_list_their_stale_flow_entries_at_once() {
    run_with_defaults(
        LINEAR,
        "
        [1.0] ports s2:1 down                               # the other end is up, as when a port is removed
        [1.0] s1 > multipart_request
        [1.0] s2 > multipart_request
        ",
    );
}

#[test]
fn with_1_0_a_switch_that_does_not_list_its_flow_entries_delays_other_deletions_for_30_s() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        [1.0] ports s1:2 down
        [1.0] s1 > multipart_request
        [1.0] ports s1:3 down
        [1.0] wait 30s
        [1.0] s1 > multipart_request                        # for port 3
        [1.0] ports s1:1 down
        [1.0] s1 < error bad_type
        [1.0] s1 > multipart_request                        # for port 1
        [1.0] s1 < aggregate_stats flows=0
        [1.0] s1 > multipart_request
        ",
    );
}
