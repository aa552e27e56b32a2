//! The learning bridge, as transcripts.

use std::time::Duration;

use sluice_apps::hub::Hub;
use sluice_apps::learning::{Config, Learning, Matching};
use sluice_testkit::transcript;

fn learning_with(matching: Matching) -> Learning {
    Learning::new(&Config { matching, ..Config::default() })
}

mod flooding {
    use super::*;

    #[test]
    fn packets_to_unknown_hosts_are_flooded_and_to_known_hosts_forwarded() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>a     # b is learned at port 1; a is unknown
            s1 > packet_out flood in_port=1
            s1 < packet_in  port=2 a>b
            s1 > flow_mod   eth_dst=b output=1
            s1 > packet_out output=1 in_port=2
            ",
        );
    }

    #[test]
    fn broadcasts_and_multicasts_are_flooded_without_a_flow_entry() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=1 b>* buffer=7
            s1 > packet_out flood buffer=7
            s1 < packet_in  port=1 b>33:33:00:00:00:01
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b buffer=8   # b was learned
            s1 > flow_mod   eth_dst=b output=1 buffer=8
            ",
        );
    }

    #[test]
    fn packets_to_reserved_addresses_are_dropped_and_their_buffers_released() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>01:80:c2:00:00:00
            s1 < packet_in  port=1 b>01:80:c2:00:00:0f buffer=7
            s1 > packet_out drop buffer=7
            s1 < packet_in  port=1 b>01:80:c2:00:00:10
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn each_switch_has_its_own_table() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s2 < packet_in  port=2 a>b
            s2 > packet_out flood
            ",
        );
    }
}

mod forwarding {
    use super::*;

    #[test]
    fn the_flow_entry_releases_the_buffered_packet() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   eth_dst=b output=1 buffer=7
            s1 < packet_in  port=2 a>b buffer=0
            s1 > flow_mod   eth_dst=b output=1 buffer=0
            ",
        );
    }

    #[test]
    fn flow_entries_have_the_configured_timeouts_and_priority() {
        transcript(
            || {
                Learning::new(&Config {
                    idle_timeout_s: 7,
                    hard_timeout_s: 70,
                    priority: 9,
                    ..Config::default()
                })
            },
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   eth_dst=b output=1 buffer=7 idle_timeout=7 hard_timeout=70 priority=9 cookie=7810756270998159360
            ",
        );
    }

    #[test]
    fn with_dst_flow_entries_match_the_destination() {
        transcript(
            || learning_with(Matching::Dst),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn with_pair_flow_entries_match_source_and_destination() {
        transcript(
            || learning_with(Matching::Pair),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn with_port_pair_flow_entries_match_port_source_and_destination() {
        transcript(
            || learning_with(Matching::PortPair),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid in_port=2 eth_src=a eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn hosts_of_different_vlans_are_kept_apart() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>* vlan=5
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b            # b without a VLAN is another host
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b vlan=6
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b vlan=5
            s1 > flow_mod   eth_dst=b vlan_vid=5 output=1
            s1 > packet_out output=1
            s1 < packet_in  port=3 b>a vlan=6     # not a move: another host
            s1 > flow_mod   eth_dst=a vlan_vid=6 output=2
            s1 > packet_out output=2
            ",
        );
    }

    #[test]
    fn a_priority_tag_is_matched_and_belongs_to_no_vlan() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b priority_tagged
            s1 > flow_mod   eth_dst=b vlan_vid=0 output=1
            s1 > packet_out output=1
            ",
        );
    }

    #[test]
    fn a_packet_to_a_host_at_the_port_where_it_was_received_is_dropped() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=1 a>b
            s1 < packet_in  port=1 a>b buffer=7
            s1 > packet_out drop buffer=7
            s1 < packet_in  port=1 a>a buffer=8
            s1 > packet_out drop buffer=8
            ",
        );
    }

    #[test]
    fn a_truncated_packet_gets_a_flow_entry_but_no_packet_out() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b truncated
            s1 > flow_mod   eth_dst=b output=1
            s1 < packet_in  port=2 a>b truncated buffer=7
            s1 > flow_mod   eth_dst=b output=1 buffer=7
            ",
        );
    }
}

mod hosts {
    use super::*;

    #[test]
    fn a_host_that_moves_is_learned_at_its_new_port_and_flow_entries_to_the_old_one_are_deleted() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=3 b>*
            s1 > flow_mod   delete match=eth_dst+vlan_vid eth_dst=b untagged out_port=1
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   eth_dst=b output=3 buffer=7
            s1 < packet_in  port=3 b>a buffer=8
            s1 > flow_mod   eth_dst=a output=2 buffer=8
            ",
        );
    }

    #[test]
    fn when_a_host_moves_only_flow_entries_of_its_vlan_are_deleted() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>* vlan=5
            s1 > packet_out flood
            s1 < packet_in  port=3 b>* vlan=5
            s1 > flow_mod   delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=5 out_port=1
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn group_addresses_are_not_learned() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 01:00:5e:00:00:01>a
            s1 < packet_in  port=1 *>a buffer=7
            s1 > packet_out drop buffer=7
            s1 < packet_in  port=2 a>01:00:5e:00:00:01
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn hosts_expire_after_the_host_timeout() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            wait 300s
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   eth_dst=b output=1 buffer=7
            wait 1s
            s1 < packet_in  port=2 a>b buffer=8
            s1 > packet_out flood buffer=8
            s1 < packet_in  port=1 b>a buffer=9   # a has sent a packet since
            s1 > flow_mod   eth_dst=a output=2 buffer=9
            ",
        );
    }

    #[test]
    fn hosts_are_expired_after_the_clock_has_wrapped() {
        let host_timeout = Duration::from_secs(3600);
        transcript(
            || Learning::new(&Config { host_timeout, ..Config::default() }),
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            wait 65537s                            # the 16-bit clock in seconds has wrapped
            s1 < packet_in  port=2 a>b buffer=7
            s1 > packet_out flood buffer=7
            ",
        );
    }

    #[test]
    fn at_the_host_limit_an_older_host_is_evicted() {
        transcript(
            || Learning::new(&Config { hosts_max: 2, ..Config::default() }),
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            wait 1s
            s1 < packet_in  port=2 c>*
            s1 > packet_out flood
            wait 1s
            s1 < packet_in  port=3 d>*            # one of the other two is evicted
            s1 > packet_out flood
            s1 < packet_in  port=3 d>b vlan=9     # and another one
            s1 > packet_out flood
            s1 < packet_in  port=3 d>* vlan=9
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn hosts_and_flow_entries_of_a_port_that_goes_down_are_removed() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=2 c>*
            s1 > packet_out flood
            s1 < port_status port=1 down
            s1 > flow_mod   delete match= out_port=1
            s1 < packet_in  port=3 a>b
            s1 > packet_out flood
            s1 < packet_in  port=3 a>c buffer=7
            s1 > flow_mod   eth_dst=c output=2 buffer=7
            s1 < port_status port=2 deleted
            s1 > flow_mod   delete match= out_port=2
            s1 < packet_in  port=3 a>c
            s1 > packet_out flood
            s1 < port_status port=2 up
            ",
        );
    }
}

mod sessions {
    use super::*;

    #[test]
    fn flow_entries_are_kept_and_hosts_forgotten_when_a_switch_reconnects() {
        transcript(
            Learning::default,
            "
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0 idle_timeout=0 hard_timeout=0 match=
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 disconnects
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0 idle_timeout=0 hard_timeout=0 match=
            s1 < packet_in  port=2 a>b            # hosts are forgotten on disconnection
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn malformed_frames_are_dropped() {
        transcript(
            Learning::default,
            "
            s1 < packet_in port=1 b>a length=0
            s1 < packet_in port=1 b>a length=13
            s1 < packet_in port=1 b>a length=13 buffer=7
            s1 > packet_out drop buffer=7
            s1 < packet_in port=1 b>a vlan=5 length=16 buffer=8
            s1 > packet_out drop buffer=8
            ",
        );
    }

    /// A frame that fits into a `PACKET_IN` may not fit into a `PACKET_OUT`, whose other fields are longer except in 1.3 and 1.4.
    #[test]
    fn frames_too_long_for_a_packet_out_are_dropped() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>* max_length
            [1.3..1.4] s1 > packet_out flood
            s1 < packet_in  port=2 a>b
            s1 > flow_mod   eth_dst=b output=1
            s1 > packet_out output=1
            ",
        );
    }
}

#[test]
fn packets_that_learning_forwards_do_not_reach_the_next_application() {
    transcript(
        || (Learning::default(), Hub::default()),
        "
        s1 < packet_in  port=1 b>*
        s1 > packet_out flood
        s1 < packet_in  port=2 a>b buffer=7
        s1 > flow_mod   eth_dst=b output=1 buffer=7
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   delete eth_dst=a out_port=2
        ",
    );
}
