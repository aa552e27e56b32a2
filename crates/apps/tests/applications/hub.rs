//! The hub, as transcripts.

use sluice_apps::hub::Hub;
use sluice_testkit::transcript;

#[test]
fn every_packet_is_flooded_without_a_flow_entry() {
    transcript(
        Hub::default,
        "
        s1 < packet_in  port=1 b>a
        s1 > packet_out flood in_port=1
        s1 < packet_in  port=2 a>b buffer=7
        s1 > packet_out flood in_port=2 buffer=7
        s1 < packet_in  port=2 a>* vlan=5
        s1 > packet_out flood in_port=2
        ",
    );
}

#[test]
fn packets_to_reserved_addresses_are_dropped_and_their_buffers_released() {
    transcript(
        Hub::default,
        "
        s1 < packet_in  port=1 b>01:80:c2:00:00:0e
        s1 < packet_in  port=1 b>01:80:c2:00:00:0e buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in  port=1 b>01:80:c2:00:00:10
        s1 > packet_out flood
        ",
    );
}

#[test]
fn a_switch_gets_a_table_miss_entry_when_it_connects_with_1_3_or_later() {
    transcript(
        Hub::default,
        "
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0 idle_timeout=0 hard_timeout=0 match=
        s1 disconnects
        s1 connects
        [1.3..] s1 > flow_mod output=controller priority=0
        s1 < port_status port=1 down
        ",
    );
}

#[test]
fn malformed_frames_and_frames_too_long_for_a_packet_out_are_dropped() {
    transcript(
        Hub::default,
        "
        s1 < packet_in port=1 b>a length=13
        s1 < packet_in port=1 b>a length=13 buffer=7
        s1 > packet_out drop buffer=7
        s1 < packet_in port=1 b>a max_length
        [1.3..1.4] s1 > packet_out flood
        s1 < packet_in port=1 b>a
        s1 > packet_out flood
        ",
    );
}
