//! Broadcasts along a spanning tree, and full flow tables, on Open vSwitch.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    a_broadcast_reaches_each_host_once_and_leaves_the_controller_once() = broadcasts;
    a_full_flow_table_loses_no_packet_and_is_used_again_when_it_has_room() = full_table;
}

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// Broadcasts in one round.
const FRAMES: u32 = 100;

/// UDP port of the last broadcast of a round.
const PORT: u16 = 5006;

fn config(keys: &str) -> String {
    format!("experimental.settle_ms = 500\n{keys}\n")
}

fn controller(network: &OvsNetwork, keys: &str) -> Controller {
    let env = network.env();
    let config = env.write("sluice.toml", config(keys));
    let mut command = env.command(&binary().to_string_lossy());
    let apps = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--api", API, "--app", apps, "--config"]).arg(config);
    Controller::with(command, env.dir())
}

/// Sum of all samples for which `is_selected` is true.
fn metric(network: &OvsNetwork, is_selected: impl Fn(&str) -> bool) -> u64 {
    let mut curl = network.env().command("curl");
    let output = curl.args(["-sf", &format!("http://{API}/metrics")]).output();
    let text = String::from_utf8(output.map(|output| output.stdout).unwrap_or_default());
    let text = text.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#') && is_selected(line));
    let values = lines
        .filter_map(|line| line.rsplit(' ').next()?.trim_end_matches(".0").parse::<u64>().ok());
    values.sum()
}

fn forwarding(network: &OvsNetwork, name: &str) -> u64 {
    metric(network, |line| line.starts_with(&format!("sluice_forwarding_{name} ")))
}

/// The first host sends broadcasts; checks that every other host receives each of them once. Returns the bytes that the
/// controller sent meanwhile, and the packet-ins that it received.
#[track_caller]
fn broadcast(network: &OvsNetwork, hosts: &[Host; 4]) -> [u64; 2] {
    let counters = || {
        let is_packet_in = |line: &str| line.contains("\"PACKET_IN\"");
        [
            metric(network, |line| line.starts_with("sluice_sent_bytes_total")),
            metric(network, is_packet_in),
        ]
    };
    let [sender, others @ ..] = hosts;
    let before = counters();
    let received_before = others.each_ref().map(Host::broadcasts_received);
    sender.broadcast(FRAMES);
    let received = || -> Vec<_> {
        let now = others.iter().map(Host::broadcasts_received);
        now.zip(received_before).map(|(now, before)| now - before).collect()
    };
    let wait_for = |frames| {
        wait_until(LONG_TIMEOUT, &format!("{frames} broadcasts to arrive"), || {
            received().iter().all(|&n| n >= frames)
        });
    };
    let frames = u64::from(FRAMES);
    wait_for(frames);
    // Duplicates would arrive late, but before what is sent after them.
    sender.udp(0).send_to(b"last", ("10.0.0.255", PORT)).unwrap();
    wait_for(frames + 1);
    assert_eq!(received(), [frames + 1; 3]);
    let after = counters();
    [after[0] - before[0], after[1] - before[1]]
}

fn broadcasts(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let mut controller = controller(&network, "forwarding.flood = \"controller\"");
    let hosts = [1, 2, 3, 4].map(|switch| network.host(&format!("s{switch}")));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    let one_by_one = broadcast(&network, &hosts);
    assert_eq!(forwarding(&network, "floods_along_tree_total"), 0);
    network.env().write("sluice.toml", config("forwarding.flood = \"tree\""));
    controller.reload();
    wait_until(LONG_TIMEOUT, "a spanning tree", || forwarding(&network, "tree_active") == 1);
    let along_tree = broadcast(&network, &hosts);
    wait_until(LONG_TIMEOUT, "the count of floods along the tree", || {
        forwarding(&network, "floods_along_tree_total") >= FRAMES.into()
    });
    // The broadcasts, and the probes of a second or two.
    for [_, packet_ins] in [one_by_one, along_tree] {
        assert!((FRAMES.into()..u64::from(FRAMES) * 2).contains(&packet_ins), "{packet_ins}");
    }
    // The controller sends to one switch instead of three.
    assert!(along_tree[0] * 3 < one_by_one[0] * 2, "{along_tree:?} of {one_by_one:?}");
    // s1 is the root of the tree, which contains both its links.
    network.cut_link("s1", "s2");
    wait_until(LONG_TIMEOUT, "the failed link to be noticed", || {
        forwarding(&network, "tree_active") == 0
    });
    broadcast(&network, &hosts);
    wait_until(LONG_TIMEOUT, "another spanning tree", || forwarding(&network, "tree_active") == 1);
    broadcast(&network, &hosts);
}

fn full_table(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, "experimental.refused_retry_s = 1");
    let hosts = [1, 1, 2, 2].map(|switch| network.host(&format!("s{switch}")));
    // Room for the entries that send packets to the controller, and for two more.
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
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    reach();
    controller.wait_for_log(&["switch refused a flow entry;", "TABLE_FULL"]);
    assert!(forwarding(&network, "flow_entries_refused_total") > 0);
    assert!(network.flows("s1").len() <= 5);
    network.unlimit_flow_entries("s1");
    wait_until(LONG_TIMEOUT, "the switch to be used again", || {
        forwarding(&network, "switches_paused") == 0
    });
    reach();
    assert!(network.flows("s1").len() > 10, "{:?}", network.flows("s1"));
}
