//! What forwarding does when a switch cannot match what it is asked to, as transcripts.

use sluice_apps::forwarding::{Config, Forwarding, Matching};
use sluice_testkit::transcript;

/// A line of three switches, a at the first one, b at the last one; the first packet has its rules loaded.
const LINE: &str = "
    know link s1:1 s2:1
    know link s2:2 s3:1
    know edge s1:3 s3:3
    know host a s1:3
    know host b s3:3
    s1 < packet_in  port=3 a>b
    s3 > flow_mod   match=src+dst+vlan src=a dst=b port=3 priority=100
    s3 > flow_mod   match=src+dst+vlan src=b dst=a port=1
    s3 > packet_out port=3
    s2 > flow_mod   match=src+dst+vlan src=a dst=b port=2
    s2 > flow_mod   match=src+dst+vlan src=b dst=a port=1
    s1 > flow_mod   match=src+dst+vlan src=a dst=b port=1
    s1 > flow_mod   match=src+dst+vlan src=b dst=a port=3
";

#[track_caller]
fn on_line(cfg: &Config, script: &str) {
    transcript(|| Forwarding::new(cfg), &format!("{LINE}\n{script}"));
}

/// The second switch cannot match so much, and all that was written goes, once more a second later.
const UNABLE: &str = "
    s2 < unable
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
        s2 < unable
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206977
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206977
        s2 < unable                                  # of what was on its way
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=dst+vlan dst=b port=3 priority=101
        s3 > flow_mod   match=dst+vlan dst=a port=1 priority=101
        s3 > packet_out port=3
        s2 > flow_mod   match=dst+vlan dst=b port=2 priority=101
        s2 > flow_mod   match=dst+vlan dst=a port=1 priority=101
        s1 > flow_mod   match=dst+vlan dst=b port=1 priority=101
        s1 > flow_mod   match=dst+vlan dst=a port=3 priority=101
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
        s2 < down
        know lost s2
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        wait 1s
        [1.0] s1 > multipart_request                 # its rules cannot be named
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        [1.0] s3 > multipart_request
        know edge s1:2
        know host c s1:2
        s1 < packet_in  port=3 a>c
        s1 > flow_mod   match=src+dst+vlan src=c dst=a port=3 priority=100
        s1 > flow_mod   match=src+dst+vlan src=a dst=c port=2 priority=100
        s1 > packet_out port=2
        s2 < up                                      # with rules of which nobody knows
        [1.3..] s2 > flow_mod port=controller priority=0
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
        know link s1:1 s2:1
        know edge s1:3 s2:3
        know host a s1:3
        know host b s2:3
        [1.0] s1 < packet_in  port=3 a>b
        [1.0] s2 > flow_mod   match=src+dst+vlan src=a dst=b port=3
        [1.0] s2 > flow_mod   match=src+dst+vlan src=b dst=a port=1
        [1.0] s2 > packet_out port=3
        [1.0] s1 > flow_mod   match=src+dst+vlan src=a dst=b port=1
        [1.0] s1 > flow_mod   match=src+dst+vlan src=b dst=a port=3
        [1.0] s2 < unable
        [1.0] s2 < down
        [1.0] know lost s2
        [1.0] wait 10s
        [1.0] wait 1s
        [1.0] s1 > multipart_request
        [1.0] s1 < count 2
        [1.0] s1 > multipart_request
        [1.0] s1 < rules cookie=7381244169710206978 b:1 a:3    # their priority is 100
        [1.0] s1 > flow_mod   delete_strict match=dst+vlan dst=b priority=100
        [1.0] s1 > flow_mod   delete_strict match=dst+vlan dst=a priority=100
        ",
    );
}

#[test]
fn who_has_connected_again_is_tried_after_a_while_and_later_each_time_that_it_is_in_vain() {
    on_unable(
        "
        know lost s2
        wait 9s
        know link s1:1 s2:1
        know link s2:2 s3:1
        wait 9s
        wait 1s
        [1.1..] s1 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s2 > flow_mod delete match= cookie=7381244169710206978
        [1.1..] s3 > flow_mod delete match= cookie=7381244169710206978
        s1 < packet_in  port=3 a>b
        s3 > flow_mod   match=src+dst+vlan src=a dst=b port=3 priority=100
        s3 > flow_mod   match=src+dst+vlan src=b dst=a port=1 priority=100
        s3 > packet_out port=3
        s2 > flow_mod   match=src+dst+vlan src=a dst=b port=2 priority=100
        s2 > flow_mod   match=src+dst+vlan src=b dst=a port=1 priority=100
        s1 > flow_mod   match=src+dst+vlan src=a dst=b port=1 priority=100
        s1 > flow_mod   match=src+dst+vlan src=b dst=a port=3 priority=100
        s2 < unable                                  # as before
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
        know lost s2
        know link s1:1 s2:1
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
        know edge s1:1 s1:2
        know host a s1:1
        know host b s1:2
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   match=dst+vlan dst=a port=1
        s1 > flow_mod   match=dst+vlan dst=b port=2
        s1 > packet_out port=2
        s1 < unable
        wait 1s
        s1 < packet_in  port=1 a>b
        s1 > packet_out port=2
        ",
    );
}

#[test]
fn simpler_rules_of_an_earlier_process_go_since_they_would_hide_others() {
    transcript(
        || Forwarding::new(&Config { priority: 99, ..Config::default() }),
        "
        s1 < up
        [1.3..] s1 > flow_mod port=controller priority=0
        s1 > multipart_request
        know edge s1:1
        s1 < count 1
        s1 > multipart_request
        s1 < rules cookie=7381244169710206978 b:1    # their priority is 100
        s1 > flow_mod   delete_strict match=dst+vlan dst=b priority=100
        ",
    );
}

#[test]
fn a_full_table_is_no_reason_for_simpler_rules() {
    on_line(
        &Config::default(),
        "
        s2 < full
        wait 1s
        s2 < packet_in  port=1 a>b
        s3 > packet_out port=3
        ",
    );
}
