//! Floods along a tree, and tables that are full, with Open vSwitch.

use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, Lab, OpenFlow, PATIENCE, binary, both_versions, let_pass, wait_until,
};

both_versions! {
    a_broadcast_comes_to_each_host_once_and_is_sent_by_the_controller_once() = once;
    a_full_table_loses_no_frame_and_is_used_again_when_there_is_room() = full;
}

/// Where metrics are served: the room has its own loopback.
const API: &str = "127.0.0.1:8653";

/// Broadcasts at a time.
const FRAMES: u32 = 100;

fn config(keys: &str) -> String {
    format!("experimental.settle_ms = 500\n{keys}\n")
}

fn controller(lab: &Lab, keys: &str) -> Controller {
    let room = lab.room();
    let config = room.write("sluice.toml", &config(keys));
    let mut command = room.command(&binary().to_string_lossy());
    let row = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--api", API, "--app", row, "--config"]).arg(config);
    Controller::with(command, room.dir())
}

/// The sum of all samples that are meant.
fn metric(lab: &Lab, is_meant: impl Fn(&str) -> bool) -> u64 {
    let mut curl = lab.room().command("curl");
    let said = curl.args(["-sf", &format!("http://{API}/metrics")]).output();
    let said = String::from_utf8(said.map(|said| said.stdout).unwrap_or_default());
    let text = said.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#') && is_meant(line));
    let values = lines
        .filter_map(|line| line.rsplit(' ').next()?.trim_end_matches(".0").parse::<u64>().ok());
    values.sum()
}

fn forwarding(lab: &Lab, name: &str) -> u64 {
    metric(lab, |line| line.starts_with(&format!("sluice_forwarding_{name} ")))
}

/// The first host sends frames to all, and each other one hears each of them once. Bytes that the controller sent
/// meanwhile, and frames that came up.
#[track_caller]
fn broadcast(lab: &Lab, hosts: &[Host; 4]) -> [u64; 2] {
    let said = || {
        let came_up = |line: &str| line.contains("\"PACKET_IN\"");
        [metric(lab, |line| line.starts_with("sluice_sent_bytes_total")), metric(lab, came_up)]
    };
    let [speaker, others @ ..] = hosts;
    let before = said();
    let heard_before = others.each_ref().map(Host::broadcasts_heard);
    speaker.broadcast(FRAMES);
    let heard = || -> Vec<_> {
        let now = others.iter().map(Host::broadcasts_heard);
        now.zip(heard_before).map(|(now, before)| now - before).collect()
    };
    let frames = u64::from(FRAMES);
    wait_until(PATIENCE, "all to hear all", || heard().iter().all(|&heard| heard >= frames));
    // What comes twice comes late.
    let_pass(Duration::from_millis(300));
    assert_eq!(heard(), [frames; 3]);
    let after = said();
    [after[0] - before[0], after[1] - before[1]]
}

fn once(version: OpenFlow) {
    let lab = Lab::ring(version, 4);
    let mut controller = controller(&lab, "forwarding.flood = \"controller\"");
    let hosts = [1, 2, 3, 4].map(|switch| lab.host(&format!("s{switch}")));
    lab.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(PATIENCE, "neighbours to reach", || host.ping(next, 1).lost() == 0);
    }
    let one_by_one = broadcast(&lab, &hosts);
    assert_eq!(forwarding(&lab, "floods_along_tree"), 0);
    lab.room().write("sluice.toml", &config("forwarding.flood = \"tree\""));
    controller.reload();
    wait_until(PATIENCE, "a tree", || forwarding(&lab, "tree") == 1);
    let along_tree = broadcast(&lab, &hosts);
    assert!(forwarding(&lab, "floods_along_tree") >= FRAMES.into());
    // The frames, and the probes of a second or two.
    for [_, came_up] in [one_by_one, along_tree] {
        assert!((FRAMES.into()..u64::from(FRAMES) * 2).contains(&came_up), "{came_up}");
    }
    // To one switch, and not to three.
    assert!(along_tree[0] * 3 < one_by_one[0] * 2, "{along_tree:?} of {one_by_one:?}");
    // The tree begins at the first switch, with both its links.
    lab.cut("s1", "s2");
    wait_until(PATIENCE, "the news", || forwarding(&lab, "tree") == 0);
    broadcast(&lab, &hosts);
    wait_until(PATIENCE, "another tree", || forwarding(&lab, "tree") == 1);
    broadcast(&lab, &hosts);
}

fn full(version: OpenFlow) {
    let lab = Lab::line(version, 2);
    let controller = controller(&lab, "experimental.refused_retry_s = 1");
    let hosts = [1, 1, 2, 2].map(|switch| lab.host(&format!("s{switch}")));
    // Room for what comes up, and for two rules.
    lab.limit_rules("s1", 5);
    lab.connect(&controller);
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
    assert!(forwarding(&lab, "refused") > 0);
    assert!(lab.flows("s1").len() <= 5);
    lab.unlimit_rules("s1");
    wait_until(PATIENCE, "it to be tried again", || forwarding(&lab, "refusing") == 0);
    reach();
    assert!(lab.flows("s1").len() > 10, "{:?}", lab.flows("s1"));
}
