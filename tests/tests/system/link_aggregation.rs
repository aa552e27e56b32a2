//! Devices that aggregate links: a bridge of Open vSwitch that no controller manages, with a host behind it.

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    a_device_with_two_cables_to_one_switch_uses_one_and_then_the_other(["s1", "s1"]) = device;
    a_device_with_cables_to_two_switches_uses_one_and_then_the_other(["s1", "s2"]) = device;
    a_device_without_lacp_sends_through_two_cables_to_one_switch() = static_bundle;
}

fn device(version: OpenFlow, switches: [&str; 2]) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = Controller::new(network.env(), "");
    network.aggregating_device("bond", &switches);
    let behind = network.host("bond");
    let others = [network.host("s1"), network.host("s2")];
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the device to use one cable", || {
        network.cables_in_use("bond").len() == 1
    });
    for _ in 0..2 {
        // In one try: on a busy machine, the device may miss the controller's frames for three seconds, and give a cable up.
        wait_until(LONG_TIMEOUT, "all pings, through one cable", || {
            let used = network.cables_in_use("bond");
            let all = |from: &Host, to: &Host| from.ping(to, 20).lost() == 0;
            others.iter().all(|other| all(other, &behind) && all(&behind, other))
                && network.cables_in_use("bond") == used
        });
        for cable in network.cables_in_use("bond") {
            network.cut_cable("bond", cable);
            wait_until(LONG_TIMEOUT, "the device to use the other cable", || {
                network.cables_in_use("bond") == [3 - cable]
            });
            network.restore_cable("bond", cable);
        }
    }
    let log = controller.log();
    let mut warnings = log.lines().filter(|line| line.contains("WARN"));
    assert!(warnings.all(|line| line.contains("port of a link aggregation is in use")), "{log}");
}

/// Frames on the cables during a few dozen pings: a flood that went back to the device would circulate.
const FRAMES_MAX: u64 = 1_000;

fn static_bundle(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let others = [network.host("s1"), network.host("s2")];
    let (behind, [first, second]) = network.static_bundle("bond", "s1", &others[0]);
    let config = format!("topology.bundles = [\"1:{first}+{second}\"]\n");
    let config = network.env().write("sluice.toml", &config);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--config"]).arg(&config);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    let reach_each_other = || {
        let all = |from: &Host, to: &Host| from.ping(to, 10).lost() == 0;
        others.iter().all(|other| all(&behind, other) && all(other, &behind))
    };
    wait_until(LONG_TIMEOUT, "all pings, through both cables", reach_each_other);
    let frames = || {
        [1, 2].map(|n| network.packets_on_link("bond", &format!("cable{n}"))).iter().sum::<u64>()
    };
    let before = frames();
    assert!(reach_each_other());
    let sent = frames() - before;
    assert!((80..FRAMES_MAX).contains(&sent), "{sent} frames for 40 pings");
    for cable in [1, 2] {
        network.cut_cable("bond", cable);
        wait_until(LONG_TIMEOUT, "all pings, through one cable", reach_each_other);
        network.restore_cable("bond", cable);
        wait_until(LONG_TIMEOUT, "all pings, through both cables again", reach_each_other);
    }
    let log = controller.log();
    assert!(!log.contains("WARN"), "{log}");
}
