//! Floods along a tree, and tables that are full, with Open vSwitch.

use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, OpenFlow, OvsNetwork, PATIENCE, TestEnv, binary, both_versions, sleep_for,
    wait_until,
};

both_versions! {
    a_broadcast_comes_to_each_host_once_and_is_sent_by_the_controller_once() = once;
    a_full_table_loses_no_frame_and_is_used_again_when_there_is_room() = full;
}

/// Where metrics are served: the env has its own loopback.
const API: &str = "127.0.0.1:8653";

/// Broadcasts at a time.
const FRAMES: u32 = 100;

fn config(keys: &str) -> String {
    format!("experimental.settle_ms = 500\n{keys}\n")
}

fn controller(network: &OvsNetwork, keys: &str) -> Controller {
    let env = network.env();
    let config = env.write("sluice.toml", &config(keys));
    let mut command = env.command(&binary().to_string_lossy());
    let row = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--api", API, "--app", row, "--config"]).arg(config);
    Controller::with(command, env.dir())
}

/// The sum of all samples that are meant.
fn metric(network: &OvsNetwork, is_meant: impl Fn(&str) -> bool) -> u64 {
    let mut curl = network.env().command("curl");
    let said = curl.args(["-sf", &format!("http://{API}/metrics")]).output();
    let said = String::from_utf8(said.map(|said| said.stdout).unwrap_or_default());
    let text = said.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#') && is_meant(line));
    let values = lines
        .filter_map(|line| line.rsplit(' ').next()?.trim_end_matches(".0").parse::<u64>().ok());
    values.sum()
}

fn forwarding(network: &OvsNetwork, name: &str) -> u64 {
    metric(network, |line| line.starts_with(&format!("sluice_forwarding_{name} ")))
}

/// The first host sends frames to all, and each other one hears each of them once. Bytes that the controller sent
/// meanwhile, and frames that came up.
#[track_caller]
fn broadcast(network: &OvsNetwork, hosts: &[Host; 4]) -> [u64; 2] {
    let said = || {
        let came_up = |line: &str| line.contains("\"PACKET_IN\"");
        [
            metric(network, |line| line.starts_with("sluice_sent_bytes_total")),
            metric(network, came_up),
        ]
    };
    let [speaker, others @ ..] = hosts;
    let before = said();
    let heard_before = others.each_ref().map(Host::broadcasts_received);
    speaker.broadcast(FRAMES);
    let heard = || -> Vec<_> {
        let now = others.iter().map(Host::broadcasts_received);
        now.zip(heard_before).map(|(now, before)| now - before).collect()
    };
    let frames = u64::from(FRAMES);
    wait_until(PATIENCE, "all to hear all", || heard().iter().all(|&heard| heard >= frames));
    // What comes twice comes late.
    sleep_for(Duration::from_millis(300));
    assert_eq!(heard(), [frames; 3]);
    let after = said();
    [after[0] - before[0], after[1] - before[1]]
}

fn once(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::new(), version, 4);
    let mut controller = controller(&network, "forwarding.flood = \"controller\"");
    let hosts = [1, 2, 3, 4].map(|switch| network.host(&format!("s{switch}")));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(PATIENCE, "neighbours to reach", || host.ping(next, 1).lost() == 0);
    }
    let one_by_one = broadcast(&network, &hosts);
    assert_eq!(forwarding(&network, "floods_along_tree"), 0);
    network.env().write("sluice.toml", &config("forwarding.flood = \"tree\""));
    controller.reload();
    wait_until(PATIENCE, "a tree", || forwarding(&network, "tree") == 1);
    let along_tree = broadcast(&network, &hosts);
    assert!(forwarding(&network, "floods_along_tree") >= FRAMES.into());
    // The frames, and the probes of a second or two.
    for [_, came_up] in [one_by_one, along_tree] {
        assert!((FRAMES.into()..u64::from(FRAMES) * 2).contains(&came_up), "{came_up}");
    }
    // To one switch, and not to three.
    assert!(along_tree[0] * 3 < one_by_one[0] * 2, "{along_tree:?} of {one_by_one:?}");
    // The tree begins at the first switch, with both its links.
    network.cut_link("s1", "s2");
    wait_until(PATIENCE, "the news", || forwarding(&network, "tree") == 0);
    broadcast(&network, &hosts);
    wait_until(PATIENCE, "another tree", || forwarding(&network, "tree") == 1);
    broadcast(&network, &hosts);
}

fn full(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::new(), version, 2);
    let controller = controller(&network, "experimental.refused_retry_s = 1");
    let hosts = [1, 1, 2, 2].map(|switch| network.host(&format!("s{switch}")));
    // TestEnv for what comes up, and for two rules.
    network.limit_flow_entries("s1", 5);
    network.connect(&controller);
    let reach = || {
        for a in &hosts {
            for b in hosts.iter().filter(|b| b.mac() != a.mac()) {
                assert_eq!(a.ping(b, 3).lost(), 0);
            }
        }
    };
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(PATIENCE, "neighbours to reach", || host.ping(next, 1).lost() == 0);
    }
    reach();
    controller.wait_for_log(&["refused a rule of forwarding", "TABLE_FULL"]);
    assert!(forwarding(&network, "refused") > 0);
    assert!(network.flows("s1").len() <= 5);
    network.unlimit_flow_entries("s1");
    wait_until(PATIENCE, "it to be tried again", || forwarding(&network, "refusing") == 0);
    reach();
    assert!(network.flows("s1").len() > 10, "{:?}", network.flows("s1"));
}
