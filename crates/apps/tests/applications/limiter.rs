//! The limiter, followed by a hub, as transcripts.

use sluice_apps::hub::Hub;
use sluice_apps::limiter::{Config, Limiter};
use sluice_testkit::transcript;

/// Ports may send a burst of four packets, and one per second.
fn limit_of_four() -> (Limiter, Hub) {
    let cfg = Config { packets_per_s_max: 1, burst_packets: 4, block_s: 5, ..Config::default() };
    (Limiter::new(&cfg), Hub::default())
}

#[test]
fn a_port_over_the_limit_is_blocked_by_a_flow_entry_and_other_ports_are_not() {
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
        s1 < packet_in  port=1 a>b         # sent before the flow entry was installed
        s1 < packet_in  port=1 a>b buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=2 b>a
        s1 > packet_out flood
        s2 < packet_in  port=1 b>a
        s2 > packet_out flood
        wait 5s
        s1 > barrier_request
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        ",
    );
}

#[test]
fn packets_that_support_ecn_are_marked_before_the_port_is_blocked() {
    transcript(
        limit_of_four,
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

/// Runs a script on a switch with meters, whose first port is already limited by one.
#[track_caller]
fn run_with_meters(script: &str) {
    let first_port_limited = "
        [1.3..] s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.3..] s1 > barrier_request
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
        &format!("{first_port_limited}{script}"),
    );
}

#[test]
fn ports_are_limited_by_meters_until_the_switch_refuses_one() {
    run_with_meters(
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
        [1.3..] s1 > barrier_request
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > packet_out flood
        [1.3..] s1 < packet_in  port=1 a>b
        [1.3..] s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=2
        ",
    );
}

/// Ports may send a burst of two packets, and one per second; no ECN.
fn limit_of_two() -> (Limiter, Hub) {
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
fn link_probes_of_a_host_have_a_limit_of_their_own() {
    transcript(
        limit_of_two,
        "
        ports s1:1 edge
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b lldp
        s1 > flow_mod   drop in_port=1 eth_type=35020 priority=65535 hard_timeout=5   # LLDP
        s1 > flow_mod   drop in_port=1 eth_type=34998 priority=65535 hard_timeout=5   # probes of unmanaged segments
        s1 < packet_in  port=1 a>b lldp    # sent before the flow entry was installed
        s1 < packet_in  port=1 a>b         # other packets are counted separately
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=5
        ",
    );
}

#[test]
fn link_probes_from_a_link_are_never_blocked() {
    transcript(
        limit_of_two,
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
fn link_probes_are_limited_by_a_meter_of_their_own() {
    run_with_meters(
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
fn with_proactive_edge_ports_are_limited_from_the_beginning() {
    transcript(
        || {
            let cfg = Config { packets_per_s_max: 1, burst_packets: 1, proactive: true, ..Config::default() };
            (Limiter::new(&cfg), Hub::default())
        },
        "
        [1.3..] s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.3..] s1 > barrier_request
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
        [1.3..] s1 < packet_in  port=1 a>b         # what the meter lets pass is not limited again
        [1.3..] s1 > packet_out flood
        link s1:2 s2:2 up
        wait 1s
        [1.3..] s1 > flow_mod   delete_strict match=in_port in_port=2 priority=2
        # Whether the switch has got this deletion is unknown.
        s1 loses changes
        [1.3..] s1 > flow_mod output=controller priority=0
        [1.3..] s1 > flow_mod   delete_strict match=in_port in_port=2 priority=2
        [1.3..] s1 > meter_mod
        [1.3..] s1 > meter_mod
        [1.3..] s1 > flow_mod   meter=100+output=controller match=in_port in_port=1 priority=2 hard_timeout=0
        wait 1s
        ",
    );
}

/// Hosts a and c at port 1. After what the port may send at once, of which `senders` send in turn.
fn run_with_two_hosts_at_a_port(senders: [&str; 4], script: &str) {
    const BURST: u32 = 40;
    let packets = senders.iter().cycle().take(BURST as usize);
    let burst = packets.map(|from| {
        format!(
            "
        s1 < packet_in  port=1 {from}>b
        s1 > packet_out flood"
        )
    });
    let burst: String = burst.collect();
    transcript(
        || {
            let cfg = Config {
                packets_per_s_max: 2,
                burst_packets: BURST,
                ecn: false,
                ..Config::default()
            };
            (Limiter::new(&cfg), Hub::default())
        },
        &format!(
            "
        host a at s1:1
        host c at s1:1
        {burst}
        {script}"
        ),
    );
}

#[test]
fn of_several_hosts_at_a_port_the_one_that_sends_most_is_blocked() {
    run_with_two_hosts_at_a_port(
        ["a", "a", "a", "c"],
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   drop match=in_port+eth_src in_port=1 eth_src=a priority=3 hard_timeout=5
        s1 < packet_in  port=1 a>b         # sent before the flow entry was installed
        s1 < packet_in  port=1 c>b
        s1 > packet_out flood
        s1 < packet_in  port=2 b>a
        s1 > packet_out flood
        ",
    );
}

#[test]
fn a_port_is_blocked_if_none_of_its_hosts_sends_most() {
    run_with_two_hosts_at_a_port(
        ["a", "c", "d", "e"],
        "
        s1 < packet_in  port=1 a>b
        s1 > flow_mod   drop match=in_port in_port=1 priority=2 hard_timeout=5
        s1 < packet_in  port=1 c>b
        ",
    );
}

#[test]
fn with_a_rate_of_0_nothing_is_limited() {
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
