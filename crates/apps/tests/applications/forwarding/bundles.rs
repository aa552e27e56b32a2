//! Several ports to one device, as configured: what arrives at one of them counts as received at the one that is used.

use crate::forwarding::{run_with_defaults, run_without_tree};

/// Host a is a device with two cables to s1, host b is at s2.
const BUNDLE: &str = "
    link s1:1 s2:1 up
    ports s1:2 s1:3 bundle
    ports s1:4 s2:2 edge
    host a at s1:2
    host b at s2:2
    host c at s1:4
";

#[test]
fn packets_from_each_port_of_a_bundle_are_forwarded_and_replies_leave_by_the_one_that_is_used() {
    run_with_defaults(
        BUNDLE,
        "
        s1 < packet_in  port=3 a>b
        s2 > flow_mod   eth_src=a eth_dst=b in_port=1 output=2
        s2 > flow_mod   eth_src=b eth_dst=a in_port=2 output=1
        s2 > packet_out output=2
        s1 > flow_mod   eth_src=a eth_dst=b in_port=3 output=1
        s1 > flow_mod   eth_src=b eth_dst=a in_port=1 output=2
        s1 < packet_in  port=3 a>c
        s1 > flow_mod   eth_src=c eth_dst=a in_port=4 output=2
        s1 > flow_mod   eth_src=a eth_dst=c in_port=3 output=4
        s1 > packet_out output=4
        wait 1s
        s1 < packet_in  port=2 a>c
        s1 > flow_mod   eth_src=c eth_dst=a in_port=4 output=2
        s1 > flow_mod   eth_src=a eth_dst=c in_port=2 output=4
        s1 > packet_out output=4
        ",
    );
}

#[test]
fn a_flood_goes_out_of_one_port_of_a_bundle_and_never_back_to_its_device() {
    run_without_tree(
        BUNDLE,
        "
        s2 < packet_in  port=2 b>z
        s1 > packet_out output=2+output=4
        s1 < packet_in  port=3 a>z
        s1 > packet_out output=4
        s2 > packet_out output=2
        s1 < packet_in  port=2 a>y
        s1 > packet_out output=4
        s2 > packet_out output=2
        host d at s1:2
        s1 < packet_in  port=3 a>d                      # both are behind the device
        ",
    );
}

#[test]
fn when_a_host_leaves_a_bundle_the_flow_entries_for_its_packets_are_deleted_at_each_port() {
    run_without_tree(
        BUNDLE,
        "
        host a at s2:2
        [1.0]   s1 > multipart_request
        [1.1..] s1 > flow_mod delete match=in_port+eth_src eth_src=a in_port=2
        [1.1..] s1 > flow_mod delete match=in_port+eth_src eth_src=a in_port=3
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=a
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=a
        ",
    );
}

#[test]
fn when_another_port_of_a_bundle_is_used_the_flow_entries_for_what_arrives_there_stay() {
    run_without_tree(
        BUNDLE,
        "
        ports s1:3 s1:2 bundle
        host a at s1:3
        [1.0]   s1 > multipart_request
        [1.1..] s1 > flow_mod delete match=eth_dst eth_dst=a
        [1.1..] s2 > flow_mod delete match=eth_dst eth_dst=a
        ",
    );
}

#[test]
fn a_stream_from_any_port_of_a_bundle_gets_a_flow_entry_that_does_not_send_it_back() {
    let packet = "
        s1 < packet_in  port=3 a>01:00:5e:00:00:01 ethertype=88b8
        s1 > packet_out output=4
    ";
    let script = format!(
        "
        link s1:1 s2:1 down
        [1.0]   s1 > multipart_request
        [1.0]   s2 > multipart_request
        [1.1..] s2 > flow_mod delete match= out_port=1
        [1.1..] s1 > flow_mod delete match= out_port=1
        wait 1s
        [1.1..] s2 > flow_mod delete match= out_port=1
        [1.1..] s1 > flow_mod delete match= out_port=1
        wait 9s
        {}
        s1 > flow_mod   output=4 in_port=3 eth_src=a eth_dst=01:00:5e:00:00:01
        ",
        packet.repeat(10)
    );
    run_without_tree(BUNDLE, &script);
}
