//! A fat tree of 20 switches of Open vSwitch with 16 hosts, and the default applications.

use std::thread;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    all_hosts_of_a_fat_tree_reach_each_other_before_and_after_a_core_link_fails() = core_link;
}

/// Links of the fat tree, each direction counts.
const LINKS: u64 = 2 * 32;

/// Waits until each host reaches all others: all hosts ping at the same time.
#[track_caller]
fn assert_all_reach(hosts: &[Host]) {
    thread::scope(|scope| {
        for (n, host) in hosts.iter().enumerate() {
            scope.spawn(move || {
                for other in hosts.iter().cycle().skip(n + 1).take(hosts.len() - 1) {
                    wait_until(
                        LONG_TIMEOUT,
                        &format!("{} from {}", other.ipv4(), host.ipv4()),
                        || host.ping(other, 1).lost() == 0,
                    );
                }
            });
        }
    });
}

fn core_link(version: OpenFlow) {
    let network = OvsNetwork::fat_tree(TestEnv::shared(), version);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, network.env().dir());
    let hosts: Vec<_> = (0..16).map(|n| network.host(&format!("s{}", 1 + n / 2))).collect();
    network.connect(&controller);
    let wait_for_links = |count| {
        wait_until(LONG_TIMEOUT, &format!("{count} links"), || {
            network.env().metric("topology_links") == Some(count)
        });
    };
    wait_for_links(LINKS);
    assert_all_reach(&hosts);
    let port = network.link_port("s9", "s17");
    assert_ne!(network.entries_to_port("s9", port), 0, "the link is in use");
    network.cut_link("s9", "s17");
    wait_for_links(LINKS - 2);
    assert_all_reach(&hosts);
    assert_eq!(network.entries_to_port("s9", port), 0);
}
