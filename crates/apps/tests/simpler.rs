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
