//! What happens when a switch connects, and malformed packets.

use crate::forwarding::{LINEAR, run_without_tree};

#[test]
fn a_switch_gets_a_table_miss_entry_when_it_connects_with_1_3_or_later() {
    run_without_tree(
        "",
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0 idle_timeout=0 hard_timeout=0 match=
        s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        s1 disconnects
        ",
    );
}

#[test]
fn flow_entries_of_an_earlier_run_are_kept_if_not_stale_and_show_where_hosts_are() {
    run_without_tree(
        "",
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        ports s1:1 edge
        host c at s1:4
        s1 < aggregate_stats flows=4
        s1 > multipart_request
        [1.1..] ports s1:3 down
        [1.1..] s1 > flow_mod delete match= out_port=3
        [1.1..] s1 > flow_mod delete match=in_port in_port=3
        s1 < flow_stats cookie=7381244169710206976 a:1 b:2 a:1 e:3 c:2
        [1.0]   ports s1:3 down
        [1.0]   s1 > multipart_request                      # for entries to port 3; there is no reply
        [1.1..] s1 > flow_mod delete match= out_port=3
        ports s1:2 edge
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > packet_out output=2
        wait 9s
        [1.1..] s1 > flow_mod delete match= out_port=3      # deletions are sent twice
        [1.1..] s1 > flow_mod delete match=in_port in_port=3
        wait 1s                                             # by now other switches have reconnected
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=c out_port=2   # c is known to be at another port
        [1.0]   wait 30s
        [1.0]   s1 > multipart_request                      # for entries from port 3
        [1.0]   wait 30s
        [1.0]   s1 > multipart_request                      # again
        ",
    );
}

#[test]
fn flow_entries_of_other_controllers_are_ignored_and_large_tables_are_not_read() {
    run_without_tree(
        "",
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        s1 > multipart_request
        [1.1..] s1 > flow_mod delete match= cookie=7454142881553448960
        ports s1:1 s1:2 edge
        s1 < aggregate_stats flows=1
        s1 > multipart_request
        s1 < flow_stats cookie=7 b:2
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=2
        s2 connects
        [1.3..] s2 > flow_mod output=controller priority=0
        s2 > multipart_request
        [1.1..] s2 > flow_mod delete match= cookie=7454142881553448960
        s2 < aggregate_stats flows=20000
        s2 < flow_stats cookie=7381244169710206976 b:2
        ",
    );
}

#[test]
fn malformed_frames_and_frames_too_long_for_a_packet_out_are_dropped() {
    run_without_tree(
        LINEAR,
        "
        s1 < packet_in  port=3 a>b length=13
        s1 < packet_in  port=3 a>b length=13 buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=3 a>01:80:c2:00:00:0e buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=3 *>b
        s1 < packet_in  port=3 a>* max_length
        [1.3..1.4] s1 > packet_out output=4
        ",
    );
}
