//! What the learning bridge does, as transcripts.

use std::time::Duration;

use sluice_apps::hub::Hub;
use sluice_apps::learning::{Config, Learning, Matching};
use sluice_testkit::transcript;

/// A bridge whose rules match so.
fn matching(matching: Matching) -> Learning {
    Learning::new(&Config { matching, ..Config::default() })
}

mod flooding {
    use super::*;

    #[test]
    fn the_unknown_is_flooded_and_the_known_forwarded() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>a     # b lives on port 1; nobody knows a
            s1 > packet_out flood in_port=1
            s1 < packet_in  port=2 a>b
            s1 > flow_mod   eth_dst=b output=1
            s1 > packet_out output=1 in_port=2
            ",
        );
    }

    #[test]
    fn groups_are_flooded_and_get_no_rule() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            s1 < packet_in  port=1 b>* buffer=7
            s1 > packet_out flood buffer=7
            s1 < packet_in  port=1 b>33:33:00:00:00:01
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b buffer=8   # b was learnt all the same
            s1 > flow_mod   eth_dst=b output=1 buffer=8
            ",
        );
    }

    #[test]
    fn reserved_addresses_stay_on_their_link_and_buffers_are_let_go() {
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
    fn switches_know_nothing_of_one_another() {
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
    fn one_message_releases_the_frame_that_the_switch_keeps() {
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
    fn rules_have_the_times_and_priority_that_were_set() {
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
            s1 > flow_mod   eth_dst=b output=1 buffer=7 idle_timeout=7 hard_timeout=70 priority=9 cookie=0
            ",
        );
    }

    #[test]
    fn a_rule_matches_the_destination() {
        transcript(
            || matching(Matching::Dst),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn a_rule_matches_the_pair() {
        transcript(
            || matching(Matching::Pair),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn a_rule_matches_the_pair_at_its_port() {
        transcript(
            || matching(Matching::PortPair),
            "
            s1 < packet_in  port=1 b>* buffer=6
            s1 > packet_out flood buffer=6
            s1 < packet_in  port=2 a>b buffer=7
            s1 > flow_mod   match=in_port+eth_src+eth_dst+vlan_vid in_port=2 eth_src=a eth_dst=b untagged output=1 buffer=7
            ",
        );
    }

    #[test]
    fn vlans_are_apart() {
        transcript(
            Learning::default,
            "
            s1 < packet_in  port=1 b>* vlan=5
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b            # the b of no VLAN is another
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b vlan=6
            s1 > packet_out flood
            s1 < packet_in  port=2 a>b vlan=5
            s1 > flow_mod   eth_dst=b vlan_vid=5 output=1
            s1 > packet_out output=1
            s1 < packet_in  port=3 b>a vlan=6     # no move: another b
            s1 > flow_mod   eth_dst=a vlan_vid=6 output=2
            s1 > packet_out output=2
            ",
        );
    }

    #[test]
    fn a_priority_tag_is_matched_and_names_no_vlan() {
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
    fn a_frame_to_where_it_came_from_is_dropped() {
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
    fn of_a_frame_cut_off_only_the_rule_is_written() {
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
    fn one_that_moves_is_learnt_there_and_the_rules_to_its_old_port_go() {
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
    fn one_that_moves_in_its_vlan_leaves_the_rules_of_others() {
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
    fn a_group_is_never_learnt() {
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
    fn the_aged_are_unknown() {
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
            s1 < packet_in  port=1 b>a buffer=9   # a spoke in between
            s1 > flow_mod   eth_dst=a output=2 buffer=9
            ",
        );
    }

    #[test]
    fn the_aged_are_unknown_after_a_day_too() {
        let host_timeout = Duration::from_secs(3600);
        transcript(
            || Learning::new(&Config { host_timeout, ..Config::default() }),
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            wait 65537s                            # seconds are counted round
            s1 < packet_in  port=2 a>b buffer=7
            s1 > packet_out flood buffer=7
            ",
        );
    }

    #[test]
    fn there_are_only_so_many_and_the_newest_stay() {
        transcript(
            || Learning::new(&Config { hosts_max: 2, ..Config::default() }),
            "
            s1 < packet_in  port=1 b>*
            s1 > packet_out flood
            wait 1s
            s1 < packet_in  port=2 c>*
            s1 > packet_out flood
            wait 1s
            s1 < packet_in  port=3 d>*            # one of the others goes
            s1 > packet_out flood
            s1 < packet_in  port=3 d>b vlan=9     # and one more
            s1 > packet_out flood
            s1 < packet_in  port=3 d>* vlan=9
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn those_at_a_port_that_goes_down_are_forgotten_with_their_rules() {
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
    fn a_reconnect_empties_nothing_in_the_switch() {
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
            s1 < packet_in  port=2 a>b            # what was known belonged to the session
            s1 > packet_out flood
            ",
        );
    }

    #[test]
    fn what_is_no_frame_does_no_harm() {
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

    /// A frame that fits its `PACKET_IN` may not fit a `PACKET_OUT`: what is around it is longer but in 1.3 and 1.4.
    #[test]
    fn what_is_too_long_to_send_back_does_no_harm() {
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

/// With a hub behind it, a bridge keeps for itself what it has answered.
#[test]
fn what_is_answered_is_not_passed_on() {
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
