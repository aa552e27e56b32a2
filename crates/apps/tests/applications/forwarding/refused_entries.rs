//! Switches that refuse flow entries because their table is full.

use crate::forwarding::{LINEAR, SINGLE_SWITCH, run_with_defaults};

#[test]
fn after_table_full_the_packets_of_a_switch_are_forwarded_one_by_one_for_ten_seconds() {
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
        s2 < error table_full
        wait 1s
        s2 < packet_in  port=1 a>b
        s3 > packet_out output=3
        s2 < packet_in  port=2 b>a
        s1 > packet_out output=3
        s1 < packet_in  port=3 a>b                       # the other switches get their flow entries
        s3 > flow_mod   eth_src=a eth_dst=b output=3
        s3 > flow_mod   eth_src=b eth_dst=a output=1
        s3 > packet_out output=3
        s2 > flow_mod   delete_strict eth_src=a eth_dst=b        # an older flow entry would be stale
        s2 > flow_mod   delete_strict eth_src=b eth_dst=a
        s1 > flow_mod   eth_src=a eth_dst=b output=1
        s1 > flow_mod   eth_src=b eth_dst=a output=3
        wait 10s
        s2 < packet_in  port=1 a>b
        s3 > flow_mod   eth_src=a eth_dst=b output=3
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
fn after_table_full_packets_between_hosts_of_the_switch_are_forwarded_one_by_one() {
    run_with_defaults(
        SINGLE_SWITCH,
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   eth_src=b eth_dst=a output=1
        s1 > flow_mod   eth_src=a eth_dst=b output=2
        s1 > packet_out output=2
        s1 < error table_full
        wait 1s
        s1 < packet_in  port=1 a>b
        s1 > packet_out output=2
        s1 < packet_in  port=2 b>a buffer=7
        s1 > packet_out output=1 buffer=7
        ",
    );
}
