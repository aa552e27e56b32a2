//! Two networks of Open vSwitch, each with a controller of its own, that are connected by cables between access ports: for each
//! controller, the other network is an unmanaged segment.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::time::Duration;

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, becomes_true, binary, both_versions,
    wait_until,
};

both_versions! {
    hosts_of_two_networks_with_one_cable_between_them_reach_each_other(&[("s2", "t1")]) = two_controllers;
    two_networks_with_two_cables_between_them_have_no_loop(&[("s2", "t1"), ("s1", "t2")]) = two_controllers;
}

/// Broadcasts of a host.
const BROADCASTS: u32 = 20;

/// Frames on all links meanwhile: one that circulates causes tens of thousands.
const FRAMES_MAX: u64 = 2_000;

/// How soon broadcasts arrive.
const ARRIVAL: Duration = Duration::from_secs(1);

/// The default applications; the second controller has its files in a folder of its own, and no metrics.
fn controllers(network: &OvsNetwork) -> [Controller; 2] {
    let env = network.env();
    let second = env.file("second");
    fs::create_dir_all(&second).unwrap();
    [(env.dir(), "--threads=2"), (&*second, "--no-api")].map(|(dir, option)| {
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["run", option]);
        Controller::with(command, dir)
    })
}

fn two_controllers(version: OpenFlow, cables: &[(&str, &str)]) {
    let mut network = OvsNetwork::line(TestEnv::shared(), version, 2);
    for (name, datapath_id) in [("t1", 11), ("t2", 12)] {
        network.bridge(name, datapath_id);
    }
    network.link("t1", "t2");
    let controllers = controllers(&network);
    let hosts = ["s1", "s2", "t1", "t2"].map(|bridge| network.host(bridge));
    for (controller, bridges) in controllers.iter().zip([["s1", "s2"], ["t1", "t2"]]) {
        for bridge in bridges {
            network.set_controller(bridge, controller);
        }
        controller.wait_for_sessions(2);
    }
    for (a, b) in cables {
        network.link(a, b);
    }
    let reach = || {
        for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
            // With two cables, hosts of the other network seem to move now and then, until their claims have been rejected.
            wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
                host.ping(next, 10).lost() == 0
            });
        }
    };
    reach();
    let links = [&[("s1", "s2"), ("t1", "t2")], cables].concat();
    let frames = || links.iter().map(|(a, b)| network.packets_on_link(a, b)).sum::<u64>();
    let [h1, .., h4] = &hosts;
    wait_until(LONG_TIMEOUT, "the broadcasts to arrive in the other network", || {
        let (frames_before, received_before) = (frames(), h4.broadcasts_received());
        let received = || h4.broadcasts_received() - received_before;
        h1.broadcast(BROADCASTS);
        let arrive = becomes_true(ARRIVAL, || received() >= BROADCASTS.into());
        // Each cable brings one copy.
        assert!(received() <= u64::from(BROADCASTS) * 2, "{} copies", received());
        let sent = frames() - frames_before;
        assert!(sent < FRAMES_MAX, "{sent} frames");
        arrive
    });
    reach();
    // Both controllers name the ports: the other one signs its probes by another secret.
    for (controller, first) in controllers.iter().zip([1, 11]) {
        let dpids = (first..first + 2).map(|dpid| format!("dpid={dpid:016x}"));
        let is_named = |dpid: &String| controller.logged(&["wrong signature", dpid]);
        assert!(dpids.filter(is_named).count() == cables.len(), "{}", controller.log());
    }
}
