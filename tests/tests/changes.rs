//! What happens to a network when its hosts, its switches or its controller come and go.

use sluice_system_tests::{Controller, Lab, OpenFlow, PATIENCE, SOON, both_versions, wait_until};

both_versions! {
    a_host_is_reached_where_its_cable_is_plugged_in_now() = replug;
    a_host_that_left_silently_is_reached_where_it_came_back() = silent_move;
    rules_and_traffic_outlive_a_controller_that_is_killed() = killed_controller;
    a_switch_that_dropped_its_controller_gets_a_fresh_session() = dropped_controller;
    a_switch_that_was_cut_off_gets_a_fresh_session() = cut;
    a_switch_that_lost_its_power_is_taught_again() = power_cycle;
    of_two_switches_with_one_datapath_id_the_live_one_stays() = impostor;
}

fn replug(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, mut h2) = (lab.host("s1"), lab.host("s3"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    lab.replug(&mut h2, "s3", "s1");
    // It makes itself heard, as hosts do when their link comes up.
    h2.forget_neighbours();
    wait_until(SOON, "h2 at s1", || h2.ping(&h1, 1).lost() == 0 && h1.ping(&h2, 1).lost() == 0);
    h1.must_reach(&h2);
    lab.must_lead_to("s1", &h2);
}

fn silent_move(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host("s3"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    // No port goes down: every rule on the way still points to s3, and its traffic keeps it.
    h2.leave();
    let pinging = h1.keep_pinging(&h2);
    let h2 = lab.twin(&h2, "s1");
    wait_until(SOON, "h2 at s1", || h2.ping(&h1, 1).lost() == 0 && h1.ping(&h2, 1).lost() == 0);
    pinging.stop();
    h1.must_reach(&h2);
    lab.must_lead_to("s1", &h2);
}

fn killed_controller(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let mut controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2, h3) = (lab.host("s1"), lab.host("s3"), lab.host("s1"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    let pinging = h1.keep_pinging(&h2);
    let rules = lab.flows("s2");
    controller.kill();
    assert_eq!(h1.ping(&h2, 20).lost(), 0);
    assert_eq!(lab.flows("s2"), rules);
    controller.restart();
    controller.wait_for_sessions(6);
    h3.must_reach(&h2);
    let loss = pinging.stop();
    assert!(loss.sent > 10 && loss.lost() == 0, "{loss:?}");
    let left = lab.flows("s2");
    assert!(rules.iter().all(|rule| left.contains(rule)), "{rules:#?} became {left:#?}");
}

fn dropped_controller(version: OpenFlow) {
    let lab = Lab::line(version, 2);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host("s2"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    // Open vSwitch empties the tables of a bridge that has no controller.
    lab.unpoint("s1");
    wait_until(SOON, "s1 to forget", || lab.flows("s1").is_empty());
    // It keeps in mind for some seconds that such frames are dropped.
    assert_eq!(h1.ping(&h2, 5).received, 0);
    lab.point("s1", &controller);
    controller.wait_for_sessions(3);
    h1.must_reach(&h2);
}

fn cut(version: OpenFlow) {
    let lab = Lab::line(version, 2);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2, h3) = (lab.host("s1"), lab.host("s2"), lab.host("s1"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    lab.cut_control();
    wait_until(PATIENCE, "the switches to notice", || {
        ["s1", "s2"].iter().all(|bridge| lab.disconnections(bridge) > 0)
    });
    lab.mend_control();
    controller.wait_for_sessions(4);
    h3.must_reach(&h2);
}

fn power_cycle(version: OpenFlow) {
    let mut lab = Lab::line(version, 2);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host("s2"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    lab.power_cycle();
    controller.wait_for_sessions(4);
    h1.must_reach(&h2);
}

fn impostor(version: OpenFlow) {
    let mut lab = Lab::new(version);
    lab.bridge("s1", 7);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host("s1"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    lab.bridge("s2", 7);
    let (h3, h4) = (lab.host("s2"), lab.host("s2"));
    lab.point("s2", &controller);
    wait_until(SOON, "s2 to be refused", || lab.disconnections("s2") > 0);
    controller.wait_for_log(&["0000000000000007", "connected already"]);
    assert_eq!(h3.ping(&h4, 3).received, 0);
    let h5 = lab.host("s1");
    h5.must_reach(&h1);
    assert_eq!((lab.connections("s1"), lab.disconnections("s1")), (1, 0));
}
