//! Streams of multicasts and broadcasts that switches forward by themselves.

use std::time::Duration;

use sluice_apps::forwarding::{Config, Flooding};

use crate::forwarding::{LINEAR, SINGLE_SWITCH, run};

/// High bits of the cookies.
const COOKIE: u64 = 0x6772_6f75_0000_0000;

/// Group of the streams.
const GROUP: &str = "01:00:5e:00:00:01";

/// Runs the script when the ports have been edge ports for long enough, without a spanning tree.
fn run_settled(topology: &str, cfg: &Config, script: &str) {
    let cfg = Config { flooding: Flooding::Controller, ..cfg.clone() };
    run(topology, &cfg, &format!("wait 10s\n{script}"));
}

fn run_with_defaults(topology: &str, script: &str) {
    run_settled(topology, &Config::default(), script);
}

/// Packets of a stream from host a at port 1 of `SINGLE_SWITCH`, which the controller floods.
fn packets(count: usize, spec: &str) -> String {
    let packet = format!("s1 < packet_in port=1 {spec}\ns1 > packet_out output=2+output=3\n");
    packet.repeat(count)
}

/// The same for a stream that gets its flow entry, the `n`th, with the tenth packet.
fn installed(n: u64) -> String {
    let cookie = COOKIE | n;
    let packets = packets(10, &format!("a>{GROUP} ethertype=88b8"));
    format!(
        "{packets}s1 > flow_mod output=2+output=3 untagged in_port=1 eth_src=a \
         eth_dst={GROUP} eth_type=35000 idle_timeout=30 hard_timeout=300 priority=100 cookie={cookie}\n"
    )
}

#[test]
fn the_tenth_packet_of_a_stream_within_a_second_installs_a_flow_entry() {
    run_with_defaults(SINGLE_SWITCH, &installed(1));
    let slow = format!(
        "{}wait 1s\n{}",
        packets(9, &format!("a>{GROUP} ethertype=88b8")),
        packets(9, &format!("a>{GROUP} ethertype=88b8"))
    );
    run_with_defaults(SINGLE_SWITCH, &slow);
}

/// A switch that does not respond yet may be behind it as well.
#[test]
fn a_stream_from_a_port_that_has_just_become_an_edge_port_is_flooded_by_the_controller() {
    let packets = packets(16, &format!("a>{GROUP} ethertype=88b8"));
    let script = format!(
        "{packets}wait 9s\n{packets}ports s1:1 pending\nports s1:1 edge\nwait 9s\n{packets}wait 1s\n{}",
        installed(1)
    );
    run(SINGLE_SWITCH, &Config::default(), &script);
}

#[test]
fn packets_in_flight_install_nothing_and_later_ones_install_the_entry_again() {
    let cfg = Config { path_pending: Duration::from_secs(2), ..Config::default() };
    let script = format!("{}{}", installed(1), packets(1, &format!("a>{GROUP} ethertype=88b8")));
    run_settled(SINGLE_SWITCH, &cfg, &script);
    let script = format!("{}wait 3s\n{}", installed(1), installed(2));
    run_settled(SINGLE_SWITCH, &cfg, &script);
}

#[test]
fn packets_from_which_something_may_be_learned_install_nothing() {
    for spec in ["a>* ethertype=0806", "a>01:00:5e:00:00:01", "z>01:00:5e:00:00:01 ethertype=88b8"]
    {
        run_with_defaults(SINGLE_SWITCH, &packets(16, spec));
    }
}

#[test]
fn flow_entries_follow_the_edge_ports_and_the_location_of_the_source() {
    let match_words = format!("in_port=1 eth_src=a eth_dst={GROUP}");
    let script = format!(
        "{}
        ports s1:4 edge
        wait 1s
        s1 > flow_mod output=2+output=3+output=4 {match_words} cookie={}
        host a at s1:3
        [1.1..] s1 > flow_mod delete match=in_port+eth_src in_port=1 eth_src=a
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=a
        [1.0]   s1 > multipart_request                  # for entries to the host at port 1
        wait 1s
        s1 > flow_mod delete_strict {match_words} priority=100
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=a out_port=1   # deletions are sent twice
        [1.1..] s1 > flow_mod delete match=in_port+eth_src in_port=1 eth_src=a
        ",
        installed(1),
        COOKIE | 2
    );
    run_with_defaults(SINGLE_SWITCH, &script);
}

#[test]
fn a_stream_whose_entry_has_expired_gets_another_one() {
    let expired = format!("s1 < flow_removed cookie={}\nwait 1s\n", COOKIE | 1);
    run_with_defaults(SINGLE_SWITCH, &format!("{}{expired}{}", installed(1), installed(2)));
}

#[test]
fn a_switch_that_refuses_the_entry_gets_none_for_a_while() {
    let script = format!(
        "{}s1 < error table_full\n{}wait 11s\n{}",
        installed(1),
        packets(6, &format!("a>{GROUP} ethertype=88b8")),
        installed(2)
    );
    run_with_defaults(SINGLE_SWITCH, &script);
}

#[test]
fn without_a_spanning_tree_the_controller_floods_to_other_switches() {
    let packet = format!(
        "s1 < packet_in port=3 a>{GROUP} ethertype=88b8
        s1 > packet_out output=4
        s2 > packet_out output=3
        s3 > packet_out output=3\n"
    );
    run_with_defaults(LINEAR, &packet.repeat(16));
}
