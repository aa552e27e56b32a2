//! Many broadcasts from one host: a spanning tree is installed for them, and switches forward them without the controller.

use std::time::Duration;

use sluice_apps::forwarding::{Flooding, TreePhase};
use sluice_emu::net::NetworkChange;
use sluice_openflow::{MacAddr, Version};

use crate::model::{ModelNetwork, STARTUP_TIME};

/// Time between two frames of the stream.
const INTERVAL: Duration = Duration::from_millis(4);

/// Has the first host send `frames` broadcasts. Returns how many of them did not reach every other host once.
fn send_stream(network: &mut ModelNetwork, frames: u32) -> usize {
    send_frames(network, frames, INTERVAL, |number| NetworkChange::SendTracedFrame(0, number))
}

/// The same for frames to a group.
fn send_multicasts(network: &mut ModelNetwork, frames: u32, interval: Duration) -> usize {
    let group = MacAddr([0x01, 0, 0x5e, 1, 2, 3]);
    send_frames(network, frames, interval, |number| {
        NetworkChange::SendTracedMulticast(0, group, number)
    })
}

fn send_frames(
    network: &mut ModelNetwork,
    frames: u32,
    interval: Duration,
    send: impl Fn(u32) -> NetworkChange,
) -> usize {
    let first = network.traced_frames;
    for number in first..first + frames {
        network.apply(send(number));
        network.run_for(interval);
    }
    network.traced_frames += frames;
    network.run_for(Duration::from_millis(100));
    let hosts = network.simulation.data_plane().topology().hosts.len();
    let traces = network.simulation.data_plane().traces();
    let is_complete = |number: &u32| {
        let received: Vec<_> = traces.deliveries(*number).map(|(_, times)| times).collect();
        assert!(traces.link_crossings_max(*number) <= 1, "{number}");
        assert!(received.iter().all(|&times| times <= 1), "{number}: {received:?}");
        received == vec![1; hosts - 1]
    };
    (first..first + frames).filter(|number| !is_complete(number)).count()
}

fn has_active_tree(network: &ModelNetwork) -> bool {
    network.tree().is_some_and(|tree| tree.phase == TreePhase::Active)
}

/// A ring of four switches that has been in use for some time, without a tree.
fn ring(version: Version) -> ModelNetwork {
    let mut network = ModelNetwork::with_flooding("ring,4", version, Flooding::Auto);
    network.run_for(STARTUP_TIME);
    network.assert_broadcasts_reach_all();
    assert!(!has_active_tree(&network));
    network
}

#[test]
fn a_stream_leaves_the_controller_and_reaches_every_host_once() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = ring(version);
        assert_eq!(send_stream(&mut network, 1000), 0, "while the tree is installed");
        assert!(has_active_tree(&network));
        let floods = network.metrics()["forwarding_floods"];
        assert_eq!(send_stream(&mut network, 1000), 0, "by the flow entries");
        assert_eq!(network.metrics()["forwarding_floods"], floods);
        network.run_for(Duration::from_secs(120));
        assert!(!has_active_tree(&network), "nobody needs it any more");
        network.assert_broadcasts_reach_all();
    }
}

#[test]
fn a_stream_is_flooded_by_the_controller_when_a_link_of_the_tree_fails() {
    let mut network = ring(Version::V1_3);
    send_stream(&mut network, 1000);
    assert!(has_active_tree(&network));
    network.apply(NetworkChange::CutLink(0));
    // Until the ports are known to be down, and those in flight when the entries are deleted.
    let lost = send_stream(&mut network, 1000);
    assert!(lost <= 50, "{lost}");
    assert!(has_active_tree(&network), "another tree");
    assert_eq!(send_stream(&mut network, 100), 0);
}

#[test]
fn a_host_that_is_added_gets_the_stream() {
    let mut network = ring(Version::V1_3);
    send_stream(&mut network, 1000);
    let to = network.simulation.data_plane().free_port(0).unwrap();
    network.apply(NetworkChange::MoveHost(1, to));
    send_stream(&mut network, 1500);
    assert_eq!(send_stream(&mut network, 100), 0);
}

/// A flow entry of 1.0 cannot match all group addresses, so the tree carries broadcasts only.
#[test]
fn between_several_switches_of_1_0_the_controller_floods_multicasts_up_to_its_limit() {
    let mut network = ring(Version::V1_0);
    assert_eq!(send_multicasts(&mut network, 1000, INTERVAL), 0, "every host gets every frame");
    assert!(has_active_tree(&network), "for broadcasts");
    let metrics = network.metrics();
    assert_eq!(send_multicasts(&mut network, 1000, INTERVAL), 0);
    assert_eq!(network.metrics()["forwarding_floods"], metrics["forwarding_floods"] + 1000);
    assert_eq!(network.metrics()["forwarding_group_streams"], 0);
    // Two seconds at twice the limit of 1 000 frames per second.
    let lost = send_multicasts(&mut network, 4000, Duration::from_micros(500));
    assert!((1_000..=2_000).contains(&lost), "{lost}");
    let over_limit = network.metrics()["forwarding_floods_over_limit"];
    assert_eq!(over_limit - metrics["forwarding_floods_over_limit"], lost as u64);
}

#[test]
fn one_switch_of_1_0_forwards_multicasts_without_the_controller() {
    let mut network = ModelNetwork::with_flooding("single,4", Version::V1_0, Flooding::Auto);
    network.run_for(STARTUP_TIME);
    network.assert_broadcasts_reach_all();
    assert_eq!(send_multicasts(&mut network, 100, INTERVAL), 0);
    let floods = network.metrics()["forwarding_floods"];
    assert_eq!(send_multicasts(&mut network, 4000, Duration::from_micros(500)), 0);
    assert_eq!(network.metrics()["forwarding_floods"], floods);
}
