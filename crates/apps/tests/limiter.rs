//! What the limiter does, as transcripts.

use sluice_apps::hub::Hub;
use sluice_apps::limiter::{Config, Limiter};
use sluice_testkit::transcript;

/// Four frames at once, and one a second.
fn narrow() -> (Limiter, Hub) {
    let cfg = Config { packets_per_s_max: 1, burst_packets: 4, block_s: 5, ..Config::default() };
    (Limiter::new(&cfg), Hub::default())
}

#[test]
fn a_port_that_sends_up_too_much_is_held_by_a_rule_and_others_are_not() {
    transcript(
        || {
            let cfg =
                Config { packets_per_s_max: 1, burst_packets: 4, ecn: false, ..Config::default() };
            (Limiter::new(&cfg), Hub::default())
        },
        "
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=5
        s1 < packet_in  port=1 a>b         # it was under way
        s1 < packet_in  port=1 a>b buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=2 b>a
        s1 > packet_out flood
        s2 < packet_in  port=1 b>a
        s2 > packet_out flood
        wait 5s
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        ",
    );
}

#[test]
fn what_knows_of_congestion_is_marked_before_the_port_is_held() {
    transcript(
        narrow,
        "
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        [1.2..] s1 > flow_mod set_ip_ecn=3+output=controller match=eth_type+ip_ecn+in_port in_port=1 eth_type=2048 ip_ecn=1 priority=1 hard_timeout=5
        [1.2..] s1 > flow_mod set_ip_ecn=3+output=controller match=eth_type+ip_ecn+in_port in_port=1 eth_type=2048 ip_ecn=2 priority=1 hard_timeout=5
        [1.2..] s1 > flow_mod set_ip_ecn=3+output=controller match=eth_type+ip_ecn+in_port in_port=1 eth_type=34525 ip_ecn=1 priority=1 hard_timeout=5
        [1.2..] s1 > flow_mod set_ip_ecn=3+output=controller match=eth_type+ip_ecn+in_port in_port=1 eth_type=34525 ip_ecn=2 priority=1 hard_timeout=5
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        ",
    );
}

/// A switch with meters, whose first port is held by one.
#[track_caller]
fn metered(script: &str) {
    let begin = "
        [1.3..] s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.3..] s1 > multipart_request
        [1.3..] s1 < meter_features max=100
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=100+output=controller match=in_port in_port=1 priority=2 hard_timeout=2
        ";
    transcript(
        || {
            let cfg = Config {
                packets_per_s_max: 1,
                burst_packets: 1,
                block_s: 2,
                ecn: false,
                ..Config::default()
            };
            (Limiter::new(&cfg), Hub::default())
        },
        &format!("{begin}{script}"),
    );
}

#[test]
fn a_switch_with_meters_holds_by_them_until_it_refuses_one() {
    metered(
        "
        [1.3..] s1 < packet_in  port=2 a>b
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=2 a>b
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=99+output=controller match=in_port in_port=2 priority=2 hard_timeout=2
        [1.3..] s1 < error bad_type
        [1.3..] s1 < packet_in  port=2 a>b
        [1.3..] s1 > flow_mod   drop match=in_port in_port=2 priority=2 hard_timeout=2
        wait 3s
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=2
        ",
    );
}

/// Two frames at once, and one a second.
fn very_narrow() -> (Limiter, Hub) {
    let cfg = Config {
        packets_per_s_max: 1,
        burst_packets: 2,
        block_s: 5,
        ecn: false,
        ..Config::default()
    };
    (Limiter::new(&cfg), Hub::default())
}

#[test]
fn a_host_that_floods_what_shows_links_has_that_held_and_nothing_else() {
    transcript(
        very_narrow,
        "
        ports s1:1 edge
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > flow_mod   drop in_port=1 eth_type=35020 priority=65535 hard_timeout=5   # LLDP
        s1 > flow_mod   drop in_port=1 eth_type=34998 priority=65535 hard_timeout=5   # probes for networks of others
        s1 < packet_in  port=1 a>b lldp    # it was under way
        s1 < packet_in  port=1 a>b         # the rest is its own
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=5
        ",
    );
}

#[test]
fn what_shows_that_a_link_is_alive_is_never_held() {
    transcript(
        very_narrow,
        "
        link s1:1 s2:1 up
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        ",
    );
}

#[test]
fn what_shows_links_is_held_by_a_meter_of_its_own() {
    metered(
        "
        [1.3..] s1 < packet_in  port=1 a>b lldp
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=1 a>b lldp
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=99+output=controller in_port=1 eth_type=35020 priority=65535
        [1.3..] s1 > flow_mod   meter=99+output=controller in_port=1 eth_type=34998 priority=65535
        ",
    );
}

#[test]
fn ports_of_hosts_can_be_held_from_the_beginning() {
    transcript(
        || {
            let cfg = Config { packets_per_s_max: 1, burst_packets: 1, proactive: true, ..Config::default() };
            (Limiter::new(&cfg), Hub::default())
        },
        "
        [1.3..] s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.3..] s1 > multipart_request
        ports s1:1 s1:2 edge
        link s1:3 s2:1 up
        wait 1s
        [1.3..] s1 < meter_features max=100
        wait 1s
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=100+output=controller match=in_port in_port=1 priority=2 hard_timeout=0
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=99+output=controller match=in_port in_port=2 priority=2 hard_timeout=0
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=1 a>b         # what the switch lets through is not counted once more
        [1.3..] s1 > packet_out flood
        link s1:2 s2:2 up
        wait 1s
        [1.3..] s1 > flow_mod   delete_strict match=in_port in_port=2 priority=2
        ",
    );
}

#[test]
fn without_a_rate_everything_passes() {
    transcript(
        || {
            let cfg = Config { packets_per_s_max: 0, burst_packets: 1, ..Config::default() };
            (Limiter::new(&cfg), Hub::default())
        },
        "
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        ",
    );
}
