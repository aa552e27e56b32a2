//! How many times paths are installed for a TCP connection, on Open vSwitch.

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary, both_versions,
    wait_until,
};

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// Number of ports of four switches in a line and two hosts.
const PORTS: u64 = 8;

const CONNECTIONS: u64 = 5;

both_versions! {
    a_connection_through_four_switches_installs_paths_once(true, 1) = connections;
    a_connection_installs_paths_twice_if_each_direction_is_installed_alone(false, 2) = connections;
}

/// Number of path installations. There are more packet-ins: Open vSwitch sends further packets of a flow to the
/// controller for some milliseconds after the flow entry has been added; they install nothing.
fn paths_installed(network: &OvsNetwork) -> u64 {
    network.env().metric("forwarding_paths_installed_total").unwrap_or_default()
}

fn connections(version: OpenFlow, both_directions: bool, each: u64) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 4);
    let settings = format!(
        "[experimental]\nsettle_ms = 500\n[forwarding]\nmatch = \"five-tuple\"\nboth_directions = {both_directions}\n"
    );
    let file = network.env().write("sluice.toml", &settings);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API, "--config"]).arg(file);
    let controller = Controller::with(command, network.env().dir());
    let (a, b) = (network.host("s1"), network.host("s4"));
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    a.add_neighbour(&b);
    b.add_neighbour(&a);
    network.wait_for_probes(1);
    let before = paths_installed(&network);
    (0..CONNECTIONS).for_each(|_| a.open_connection(&b));
    let installed = || paths_installed(&network) - before;
    wait_until(SHORT_TIMEOUT, "the paths of all connections", || installed() >= CONNECTIONS * each);
    network.wait_for_probes(2 * PORTS);
    assert_eq!(installed(), CONNECTIONS * each);
}
