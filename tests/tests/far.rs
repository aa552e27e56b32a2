//! How often the controller is asked about a connection, with Open vSwitch.

use std::time::Duration;

use sluice_system_tests::{
    Controller, Lab, OpenFlow, PATIENCE, SOON, binary, both_versions, let_pass, wait_until,
};

/// Where metrics are served: the room has its own loopback.
const API: &str = "127.0.0.1:8653";

/// How old what is shown there may be.
const SHOWN: Duration = Duration::from_millis(1500);

const CONNECTIONS: u64 = 5;

both_versions! {
    a_connection_through_four_switches_asks_once(true, 1) = connections;
    and_twice_if_only_one_direction_is_loaded(false, 2) = connections;
}

/// How often ways were loaded. More comes up: Open vSwitch goes on for some milliseconds to send up what it has just
/// sent up, though there is a rule by then; that is known to wait and loads nothing.
fn loaded(lab: &Lab) -> u64 {
    lab.room().metric("forwarding_paths").unwrap_or_default()
}

fn connections(version: OpenFlow, both_directions: bool, each: u64) {
    let lab = Lab::line(version, 4);
    let settings = format!(
        "[experimental]\nsettle_ms = 500\n[forwarding]\nmatch = \"five-tuple\"\nboth_directions = {both_directions}\n"
    );
    let file = lab.room().write("sluice.toml", &settings);
    let mut command = lab.room().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API, "--config"]).arg(file);
    let controller = Controller::with(command, lab.room().dir());
    let (a, b) = (lab.host("s1"), lab.host("s4"));
    lab.connect(&controller);
    wait_until(PATIENCE, "the hosts to reach", || a.ping(&b, 1).lost() == 0);
    a.know(&b);
    b.know(&a);
    let_pass(SHOWN);
    let before = loaded(&lab);
    (0..CONNECTIONS).for_each(|_| a.open(&b));
    let shown = || loaded(&lab) - before;
    wait_until(SOON, "all to be asked about", || shown() >= CONNECTIONS * each);
    let_pass(SHOWN);
    assert_eq!(shown(), CONNECTIONS * each);
}
