//! What forwarding does, as transcripts. Topology and hosts are played.

use sluice_apps::forwarding::{Config, Forwarding, Matching};
use sluice_testkit::transcript;

/// A line of three switches, a at the first one, b at the last one.
const LINE: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    ports s1:3 s1:4 s2:3 s3:3 edge
    host a at s1:3
    host b at s3:3
";

/// A ring of four, a and b at opposite ends, with one way between them at first.
const RING: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    link s4:2 s1:2 up
    ports s1:3 s2:3 s3:3 s4:3 edge
    host a at s1:3
    host b at s3:3
";

/// One switch.
const ONE: &str = "
    ports s1:1 s1:2 s1:3 edge
    host a at s1:1
    host b at s1:2
";

#[track_caller]
fn on(network: &str, cfg: &Config, script: &str) {
    transcript(|| Forwarding::new(cfg), &format!("{network}\n{script}"));
}

#[track_caller]
fn usually(network: &str, script: &str) {
    on(network, &Config::default(), script);
}

mod ways {
    use super::*;

    #[test]
    fn the_first_packet_loads_the_whole_way_in_both_directions_and_goes_out_at_the_far_end() {
        usually(
            LINE,
            "
            s1 < packet_in  port=3 a>b
            s3 > flow_mod   match=eth_src+eth_dst+vlan_vid eth_src=a eth_dst=b untagged output=3 idle_timeout=60 hard_timeout=0 priority=100
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
    fn one_direction_can_be_enough() {
        on(
            LINE,
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
    fn who_asks_without_being_known_gets_one_direction() {
        usually(
            LINE,
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
    fn at_one_switch_nobody_else_is_written_to() {
        usually(
            ONE,
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
    fn a_frame_that_the_switch_keeps_is_let_go_as_it_goes_out_elsewhere() {
        usually(
            LINE,
            "
            s1 < packet_in  port=3 a>b buffer=7
            s3 > flow_mod   eth_src=a eth_dst=b output=3
            s3 > flow_mod   eth_src=b eth_dst=a output=1
            s3 > packet_out output=3
            s2 > flow_mod   eth_src=a eth_dst=b output=2
            s2 > flow_mod   eth_src=b eth_dst=a output=1
            s1 > flow_mod   eth_src=a eth_dst=b output=1
            s1 > flow_mod   eth_src=b eth_dst=a output=3
            s1 > packet_out drop buffer=7              # those that wait behind it went by the rule
            ",
        );
    }

    #[test]
    fn of_a_frame_cut_off_what_the_switch_keeps_goes_by_its_rule() {
        usually(
            LINE,
            "
            s1 < packet_in  port=3 a>b truncated buffer=7
            s3 > flow_mod   eth_src=a eth_dst=b output=3
            s3 > flow_mod   eth_src=b eth_dst=a output=1
            s2 > flow_mod   eth_src=a eth_dst=b output=2
            s2 > flow_mod   eth_src=b eth_dst=a output=1
            s1 > flow_mod   eth_src=a eth_dst=b output=1 buffer=7
            s1 > flow_mod   eth_src=b eth_dst=a output=3
            s1 < packet_in  port=3 a>b truncated buffer=8    # it came up before the rules were there
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
    fn a_frame_to_where_it_came_from_is_dropped() {
        usually(
            ONE,
            "
            host c at s1:1
            s1 < packet_in  port=1 c>a
            s1 < packet_in  port=1 c>a buffer=7
            s1 > packet_out drop buffer=7
            ",
        );
    }

    #[test]
    fn without_a_way_nothing_is_sent() {
        usually(
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
    fn a_host_at_a_port_that_leads_elsewhere_is_unknown() {
        usually(
            ONE,
            "
            ports s1:2 pending
            s1 < packet_in  port=1 a>b
            s1 > packet_out output=3
            ",
        );
    }

    #[test]
    fn vlans_are_apart() {
        usually(
            LINE,
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
}

mod rules {
    use super::*;

    #[test]
    fn they_have_the_times_and_priority_that_were_set() {
        let cfg =
            Config { idle_timeout_s: 7, hard_timeout_s: 70, priority: 9, ..Config::default() };
        on(
            ONE,
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
    fn one_can_match_the_destination() {
        on(
            ONE,
            &Config { matching: Matching::Dst, ..Config::default() },
            "
            s1 < packet_in  port=1 a>b
            s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=a untagged output=1
            s1 > flow_mod   match=eth_dst+vlan_vid eth_dst=b untagged output=2
            s1 > packet_out output=2
            ",
        );
    }
}

mod waiting {
    use super::*;

    #[test]
    fn while_rules_are_on_their_way_packets_are_only_sent_on() {
        usually(
            LINE,
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
    fn what_comes_up_later_has_the_way_of_its_host_loaded_wherever_it_comes_up() {
        usually(
            LINE,
            "
            s2 < packet_in  port=1 a>b
            s3 > flow_mod   eth_src=a eth_dst=b output=3
            s3 > flow_mod   eth_src=b eth_dst=a output=1
            s3 > packet_out output=3
            s2 > flow_mod   eth_src=a eth_dst=b output=2
            s2 > flow_mod   eth_src=b eth_dst=a output=1
            s1 > flow_mod   eth_src=a eth_dst=b output=1
            s1 > flow_mod   eth_src=b eth_dst=a output=3
            s2 < packet_in  port=1 d>b                  # nobody knows where d is
            s3 > flow_mod   eth_src=d eth_dst=b output=3
            s3 > packet_out output=3
            s2 > flow_mod   eth_src=d eth_dst=b output=2
            s2 < packet_in  port=2 d>b                  # and s3 sends it the wrong way
            s3 > packet_out output=3
            wait 1s
            s2 < packet_in  port=2 d>b
            s3 > flow_mod   eth_src=d eth_dst=b output=3
            s3 > packet_out output=3
            ",
        );
    }
}

mod repair {
    use super::*;

    #[test]
    fn a_cut_link_takes_the_rules_that_used_it_and_no_others() {
        usually(
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
            s3 > flow_mod   delete match= out_port=1
            s2 > flow_mod   delete match= out_port=2
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
            s3 > flow_mod   delete match= out_port=1
            s2 > flow_mod   delete match= out_port=2
            ",
        );
    }

    #[test]
    fn a_port_that_goes_down_takes_the_rules_that_used_it() {
        usually(
            ONE,
            "
            ports s1:2 down
            s1 > flow_mod   delete match= out_port=2
            s1 < port_status port=2 down
            ",
        );
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_another() {
        usually(
            LINE,
            "
            link s1:1 s4:1 up
            s2 > flow_mod   delete match= out_port=1
            s1 > flow_mod   delete match= out_port=1
            ",
        );
    }

    #[test]
    fn the_rules_to_the_old_port_of_a_host_that_moved_or_is_gone_go() {
        usually(
            LINE,
            "
            host b at s2:3
            [1.0] s3 > flow_mod   delete match=eth_dst eth_dst=b out_port=3
            [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=b
            [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=b
            [1.1..] s3 > flow_mod delete match=eth_dst eth_dst=b
            host b removed
            [1.0] s2 > flow_mod   delete match=eth_dst eth_dst=b out_port=3
            [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=b
            [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=b
            [1.1..] s3 > flow_mod delete match=eth_dst eth_dst=b
            host b/7 at s2:3
            host b/7 removed
            [1.0] s2 > flow_mod   delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7 out_port=3
            [1.1..] s1 > flow_mod delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7
            [1.1..] s2 > flow_mod delete match=eth_dst+vlan_vid eth_dst=b vlan_vid=7
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
    fn who_sends_to_a_host_that_nobody_knows_is_made_to_ask() {
        usually(
            LINE,
            "
            s2 < packet_in  port=1 a>z
            s2 > packet_out output=3
            s1 > flow_mod   delete match=eth_dst eth_dst=z out_port=1
            s1 > packet_out output=3+output=4
            s3 > packet_out output=3
            s2 < packet_in  port=1 a>z
            s2 > packet_out output=3
            s1 > packet_out output=3+output=4
            s3 > packet_out output=3
            ",
        );
    }

    #[test]
    fn a_switch_that_is_lost_keeps_its_rules() {
        usually(
            LINE,
            "
            switch s2 removed
            s1 < packet_in  port=3 a>b
            ",
        );
    }
}

mod unheard {
    use super::*;

    /// A switch whose control connection is cut forwards all the same.
    #[test]
    fn a_link_to_a_switch_that_nobody_hears_keeps_its_rules() {
        usually(
            LINE,
            "
            s2 disconnects
            switch s2 removed
            link s2:1 s1:1 up
            link s2:2 s3:1 up
            ",
        );
    }

    #[test]
    fn it_is_over_when_its_port_goes_down() {
        usually(
            LINE,
            "
            s2 disconnects
            switch s2 removed
            ports s1:1 down
            s1 > flow_mod   delete match= out_port=1
            ",
        );
    }

    #[test]
    fn or_when_the_port_leads_to_no_switch_any_more() {
        usually(
            LINE,
            "
            s2 disconnects
            switch s2 removed
            ports s1:1 pending
            ports s1:1 edge
            s1 > flow_mod   delete match= out_port=1
            ",
        );
    }

    #[test]
    fn or_when_the_switch_comes_back_with_its_ports_elsewhere() {
        usually(
            LINE,
            "
            s2 disconnects
            switch s2 removed
            link s2:3 s1:1 up
            s2 > flow_mod   delete match= out_port=1
            s1 > flow_mod   delete match= out_port=1
            ",
        );
    }
}

mod flooding {
    use super::*;

    #[test]
    fn what_is_for_all_goes_out_at_the_edge_of_all_switches() {
        usually(
            LINE,
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
    fn what_is_on_its_way_is_not_flooded_again() {
        usually(
            LINE,
            "
            s2 < packet_in  port=1 a>*
            s2 < packet_in  port=1 a>* buffer=7
            s2 > packet_out drop buffer=7
            ",
        );
    }

    #[test]
    fn nothing_comes_from_or_goes_to_ports_that_are_not_known() {
        usually(
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
    fn a_network_of_others_is_spoken_to_by_one_port() {
        usually(
            "
            link s1:1 s2:1 up
            ports s1:2 s2:2 shared_segment
            ports s1:3 s2:3 edge
            ",
            "
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
    fn a_frame_that_comes_round_by_a_way_unknown_to_us_ends() {
        usually(
            LINE,
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
    fn there_are_only_so_many_in_a_second() {
        on(
            ONE,
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
    fn of_a_frame_cut_off_only_what_the_switch_keeps_is_sent() {
        usually(
            LINE,
            "
            s1 < packet_in  port=3 a>* truncated
            s1 < packet_in  port=3 a>* truncated buffer=7
            s1 > packet_out output=4 buffer=7
            ",
        );
    }
}

mod refusals {
    use super::*;

    #[test]
    fn a_switch_that_refuses_a_rule_has_its_frames_sent_on_one_by_one_for_a_while() {
        usually(
            LINE,
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
            s1 < packet_in  port=3 a>b                       # the others get theirs
            s3 > flow_mod   eth_src=a eth_dst=b output=3
            s3 > flow_mod   eth_src=b eth_dst=a output=1
            s3 > packet_out output=3
            s2 > flow_mod   delete_strict eth_src=a eth_dst=b        # and nothing older stays
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
    fn at_one_switch_as_well() {
        usually(
            ONE,
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
}

mod sessions {
    use super::*;

    #[test]
    fn a_switch_comes_up_with_a_table_miss_entry_where_its_version_needs_one() {
        usually(
            "",
            "
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0 idle_timeout=0 hard_timeout=0 match=
            s1 > multipart_request
            s1 disconnects
            ",
        );
    }

    #[test]
    fn a_switch_that_comes_with_rules_keeps_them_and_says_who_is_where() {
        usually(
            "",
            "
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0
            s1 > multipart_request
            ports s1:1 edge
            host c at s1:4
            s1 < aggregate_stats flows=4
            s1 > multipart_request
            ports s1:3 down
            s1 > flow_mod   delete match= out_port=3
            s1 < flow_stats cookie=7381244169710206976 a:1 b:2 a:1 e:3 c:2
            s1 > flow_mod   delete match= out_port=3
            ports s1:2 edge
            s1 < packet_in  port=1 a>b
            s1 > flow_mod   eth_src=b eth_dst=a output=1
            s1 > flow_mod   eth_src=a eth_dst=b output=2
            s1 > packet_out output=2
            wait 9s
            s1 > flow_mod   delete match= out_port=3            # for the second time, as deletions are
            wait 1s                                             # other switches would be there by now
            s1 > flow_mod   delete match=eth_dst eth_dst=c out_port=2   # c is elsewhere, as is known
            ",
        );
    }

    #[test]
    fn rules_of_others_are_not_looked_at_nor_is_a_table_that_is_too_large() {
        usually(
            "",
            "
            s1 connects
            [1.3..] s1 > flow_mod output=controller priority=0
            s1 > multipart_request
            ports s1:1 s1:2 edge
            s1 < aggregate_stats flows=1
            s1 > multipart_request
            s1 < flow_stats cookie=7 b:2
            s1 < packet_in  port=1 a>b
            s1 > packet_out output=2
            s2 connects
            [1.3..] s2 > flow_mod output=controller priority=0
            s2 > multipart_request
            s2 < aggregate_stats flows=20000
            s2 < flow_stats cookie=7381244169710206976 b:2
            ",
        );
    }

    #[test]
    fn what_is_no_frame_or_too_long_to_send_on_does_no_harm() {
        usually(
            LINE,
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
}
