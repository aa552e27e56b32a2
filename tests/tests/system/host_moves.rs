//! Hosts on Open vSwitch that move silently: without a gratuitous ARP, and with permanent ARP entries.
//!
//! All ports are up before the controller is connected and stay up, so that a host is noticed by its packets alone.

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    both_versions, wait_until,
};

both_versions! {
    a_host_that_moves_silently_to_another_switch_is_reached("s2", "s1", "pair") = silent_move;
    a_host_that_moves_silently_to_another_port_is_reached("s2", "s2", "pair") = silent_move;
    a_host_that_moves_silently_is_reached_with_entries_for_connections("s2", "s1", "five-tuple") = silent_move;
    a_host_that_moves_silently_is_reached_with_entries_for_destinations("s2", "s1", "dst") = silent_move;
    a_host_whose_port_was_down_is_known_again("pair", true) = replugged;
    a_host_at_the_port_of_another_that_was_unplugged_is_known("dst", false) = replugged;
    a_host_that_moves_silently_and_returns_is_reached() = away_and_back;
    two_hosts_that_exchange_their_places_are_reached("s1", "s2") = exchanged_places;
    two_hosts_that_exchange_their_ports_are_reached("s1", "s1") = exchanged_places;
}

/// Echo requests after a move, over two seconds.
const PINGS: u32 = 40;

/// Of these, how many may be lost: those of a second.
const LOST_MAX: u32 = 20;

/// Frames on the link during [`PINGS`]: at most a few for each, and probes. A frame that circulates causes thousands.
const FRAMES_MAX: u64 = 1_000;

fn controller(network: &OvsNetwork, matching: &str) -> Controller {
    let file =
        network.env().write("sluice.toml", format!("[forwarding]\nmatch = \"{matching}\"\n"));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Permanent ARP entries in both directions, and flow entries because of a ping.
fn converse(a: &Host, b: &Host) {
    a.add_neighbour(b);
    b.add_neighbour(a);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(b, 1).lost() == 0);
    assert_eq!(a.ping(b, 3).lost(), 0);
}

/// Pings `partner` from the new place of a host.
#[track_caller]
fn assert_reaches_again(network: &OvsNetwork, place: &Host, partner: &Host) {
    place.add_neighbour(partner);
    let frames = network.packets_on_link("s1", "s2");
    let loss = place.ping(partner, PINGS);
    assert!(loss.lost() <= LOST_MAX, "{loss:?}");
    let frames = network.packets_on_link("s1", "s2") - frames;
    assert!(frames < FRAMES_MAX, "{frames} frames on the link for {PINGS} pings");
}

/// Both switches have entries for the pair of hosts; the host moves from `old` to `new`.
fn silent_move(version: OpenFlow, old: &str, new: &str, matching: &str) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, matching);
    let (partner, host) = (network.host("s1"), network.host(old));
    let place = network.vacant_place(new);
    network.connect(&controller);
    converse(&host, &partner);
    host.become_silent();
    place.take_addresses_of(&host);
    assert_reaches_again(&network, &place, &partner);
    assert_eq!(partner.ping(&host, 3).lost(), 0);
    let to = format!("to_name=\"{new}\"");
    wait_until(SHORT_TIMEOUT, "the event", || controller.logged(&[" INFO ", "host moved", &to]));
}

/// Two hosts at `first` and `second` exchange their places; both speak to a host at `s1`.
fn exchanged_places(version: OpenFlow, first: &str, second: &str) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, "pair");
    let (partner, a, b) = (network.host("s1"), network.host(first), network.host(second));
    network.connect(&controller);
    converse(&a, &partner);
    converse(&b, &partner);
    a.become_silent();
    let [at_a, at_b] = [&a, &b];
    at_b.take_addresses_of(&a);
    at_a.take_addresses_of(&b);
    assert_reaches_again(&network, at_b, &partner);
    assert_reaches_again(&network, at_a, &partner);
}

/// A host moves away and returns.
fn away_and_back(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, "pair");
    let (partner, host) = (network.host("s1"), network.host("s2"));
    let place = network.vacant_place("s1");
    network.connect(&controller);
    converse(&host, &partner);
    host.become_silent();
    place.take_addresses_of(&host);
    assert_reaches_again(&network, &place, &partner);
    place.become_silent();
    host.take_addresses_of(&host);
    assert_reaches_again(&network, &host, &partner);
}

/// The port of a host goes down and up. Entries for packets from that port are left, which would hide a host there.
fn replugged(version: OpenFlow, matching: &str, is_same: bool) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, matching);
    let (partner, host) = (network.host("s1"), network.host("s2"));
    let other = network.vacant_place("s1");
    network.connect(&controller);
    converse(&host, &partner);
    let wait_for_hosts = |count| {
        let what = format!("{count} known hosts");
        wait_until(LONG_TIMEOUT, &what, || network.env().metric("hosts") == Some(count));
    };
    wait_for_hosts(2);
    network.disable_port(&host);
    wait_for_hosts(1);
    let now_there = if is_same { &host } else { &other };
    host.take_addresses_of(now_there);
    host.add_neighbour(&partner);
    partner.add_neighbour(now_there);
    network.enable_port(&host);
    wait_until(LONG_TIMEOUT, "the host to be known", || {
        host.ping(&partner, 1);
        network.env().metric("hosts") == Some(2)
    });
    assert_eq!(host.ping(&partner, 3).lost(), 0);
}
