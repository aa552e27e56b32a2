//! IGMP and MLD snooping of the application `forwarding`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod filtering;
mod frames;
mod limits;
mod queries;
mod random;
mod slow_switches;
mod switches;
mod test_network;

use std::time::Duration;

use sluice_apps::forwarding::multicast::{self, UnregisteredGroups};
use sluice_apps::forwarding::{Config, Flooding};
use sluice_sdk::view::SwitchPort;

use self::frames::{join, udp};
use self::test_network::TestNetwork;

/// Time after which all ports have been queried and hosts have answered, and a spanning tree is in use if configured.
const STARTUP_TIME: Duration = Duration::from_secs(16);

const GROUP: &str = "239.1.2.3";
const GROUP_V6: &str = "ff15::abcd:1";

/// Snooping, with floods by the controller.
fn config() -> Config {
    let multicast = Some(multicast::Config::default());
    let verify_interval = Duration::ZERO;
    Config { multicast, flooding: Flooding::Controller, verify_interval, ..Config::default() }
}

/// The same, where packets to groups without members go to routers only.
fn strict() -> Config {
    let unregistered = UnregisteredGroups::RouterPorts;
    let multicast = multicast::Config { unregistered, ..multicast::Config::default() };
    Config { multicast: Some(multicast), ..config() }
}

/// Two switches of two workers.
fn started(cfg: &Config) -> TestNetwork {
    let mut net = TestNetwork::new(cfg, 2, 2);
    net.wait(STARTUP_TIME);
    net
}

/// A host joins a group.
fn join_group(net: &mut TestNetwork, from: SwitchPort, group: &str) {
    net.send(from, &join(from, group, 0));
}

/// Where a packet to a group goes.
fn receivers(net: &mut TestNetwork, from: SwitchPort, group: &str) -> Vec<SwitchPort> {
    let text = format!("{:?}", net.now);
    net.send(from, &udp(from, group, 0, &text))
}

/// All edge ports but one.
fn all_but(net: &TestNetwork, from: SwitchPort) -> Vec<SwitchPort> {
    net.edges().into_iter().filter(|&at| at != from).collect()
}
