//! Hosts that move, switches that restart or lose their connection, a controller that is killed: with `learning`.
//!
//! In 1.3 only: transcripts of the application cover the other versions.

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, wait_until,
};

#[test]
fn a_host_that_moves_to_another_port_is_reached_there() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 3);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, mut h2) = (network.host("s1"), network.host("s3"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.move_host(&mut h2, "s3", "s1");
    // It sends ARP requests, as hosts do when their link comes up.
    h2.forget_neighbours();
    wait_until(SHORT_TIMEOUT, "h2 at s1", || {
        h2.ping(&h1, 1).lost() == 0 && h1.ping(&h2, 1).lost() == 0
    });
    h1.assert_reaches(&h2);
    network.assert_forwards_to("s1", &h2);
}

#[test]
fn a_host_that_moves_without_a_port_going_down_is_reached_there() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 3);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s3"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    // No port goes down: the flow entries on the path still forward to s3, and traffic keeps them alive.
    h2.become_silent();
    let pinging = h1.start_ping(&h2);
    let h2 = network.duplicate_host(&h2, "s1");
    wait_until(SHORT_TIMEOUT, "h2 at s1", || {
        h2.ping(&h1, 1).lost() == 0 && h1.ping(&h2, 1).lost() == 0
    });
    pinging.stop();
    h1.assert_reaches(&h2);
    network.assert_forwards_to("s1", &h2);
}

#[test]
fn flow_entries_and_traffic_survive_a_killed_controller() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 3);
    let mut controller = Controller::new(network.env(), "--app learning");
    let (h1, h2, h3) = (network.host("s1"), network.host("s3"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    let pinging = h1.start_ping(&h2);
    let entries = network.flows("s2");
    controller.kill();
    assert_eq!(h1.ping(&h2, 20).lost(), 0);
    assert_eq!(network.flows("s2"), entries);
    controller.restart();
    controller.wait_for_sessions(6);
    h3.assert_reaches(&h2);
    let loss = pinging.stop();
    assert!(loss.sent > 10 && loss.lost() == 0, "{loss:?}");
    let left = network.flows("s2");
    assert!(entries.iter().all(|e| left.contains(e)), "{entries:#?} became {left:#?}");
}

#[test]
fn a_switch_whose_controller_was_removed_and_set_again_gets_a_new_session() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    // Open vSwitch empties the tables of a bridge that has no controller.
    network.clear_controller("s1");
    wait_until(SHORT_TIMEOUT, "s1 to delete its flow entries", || network.flows("s1").is_empty());
    // Its datapath cache drops such packets for some more seconds.
    assert_eq!(h1.ping(&h2, 5).received, 0);
    network.set_controller("s1", &controller);
    controller.wait_for_sessions(3);
    h1.assert_reaches(&h2);
}

#[test]
fn a_switch_whose_control_connection_breaks_silently_gets_a_new_session() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2, h3) = (network.host("s1"), network.host("s2"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.cut_control_network();
    wait_until(LONG_TIMEOUT, "the switches to notice", || {
        ["s1", "s2"].iter().all(|bridge| network.disconnections(bridge) > 0)
    });
    network.restore_control_network();
    controller.wait_for_sessions(4);
    h3.assert_reaches(&h2);
}

#[test]
fn a_switch_that_restarts_gets_its_flow_entries_again() {
    let mut network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.restart_switches();
    controller.wait_for_sessions(4);
    h1.assert_reaches(&h2);
}

#[test]
fn of_two_switches_with_one_datapath_id_the_first_stays_connected() {
    let mut network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    network.bridge("s1", 7);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.bridge("s2", 7);
    let (h3, h4) = (network.host("s2"), network.host("s2"));
    network.set_controller("s2", &controller);
    wait_until(SHORT_TIMEOUT, "s2 to be refused", || network.disconnections("s2") > 0);
    controller.wait_for_log(&["0000000000000007", "belongs to another connection"]);
    assert_eq!(h3.ping(&h4, 3).received, 0);
    let h5 = network.host("s1");
    h5.assert_reaches(&h1);
    assert_eq!((network.connections("s1"), network.disconnections("s1")), (1, 0));
}
