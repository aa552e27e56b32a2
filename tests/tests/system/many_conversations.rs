//! A link that fails and returns again and again under load: all conversations arrive, and no flow entry is left behind.

use std::time::Duration;

use sluice_system_tests::{
    Controller, Conversations, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    both_versions, wait_until,
};

both_versions! {
    after_ten_link_failures_under_load_all_conversations_arrive_and_no_entry_is_stale() = link_failures;
}

/// Addresses of each of two hosts: 1 600 conversations between them, with 3 200 flow entries at each switch.
const ADDRESSES: u8 = 40;

/// Frames per second, of all conversations together.
const FRAMES_PER_S: u32 = 2000;

/// How often the link fails.
const FLAPS: usize = 10;

/// How soon after a failure all conversations arrive over the other path, and no entry to the failed link is left.
const REPAIRED_WITHIN: Duration = Duration::from_secs(8);

/// The links of the switch of the first host.
const LINKS: [[&str; 2]; 2] = [["s1", "s2"], ["s4", "s1"]];

/// Ports are pending for half a second, as with other tests that run on a busy machine.
const CONFIG: &str = "[experimental]\nsettle_ms = 500\n";

fn controller(network: &OvsNetwork) -> Controller {
    let file = network.env().write("sluice.toml", CONFIG);
    let mut command = network.env().command(&binary().to_string_lossy());
    let apps = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--app", apps, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

fn link_failures(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let controller = controller(&network);
    let (near, far) = (network.host("s1"), network.host("s3"));
    network.connect(&controller);
    let wait_for_links = |count| {
        wait_until(LONG_TIMEOUT, &format!("{count} links"), || {
            network.env().metric("topology_links") == Some(count)
        });
    };
    wait_for_links(8);
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || near.ping(&far, 1).lost() == 0);
    let conversations = Conversations::start(&near, &far, ADDRESSES, FRAMES_PER_S);
    let all_arrive = || conversations.arriving() == conversations.count();
    let assert_all_arrive = |when: &str| {
        wait_until(REPAIRED_WITHIN, &format!("all conversations to arrive {when}"), all_arrive);
    };
    let cut = |[a, b]: &[&str; 2]| network.cut_link(a, b);
    wait_until(LONG_TIMEOUT, "all conversations to arrive", all_arrive);
    // Traffic stays on its path when a link returns, so most conversations are on the link that fails next.
    for (link, _) in LINKS.iter().cycle().zip(0..FLAPS) {
        cut(link);
        wait_for_links(6);
        network.restore_link(link[0], link[1]);
        wait_for_links(8);
    }
    assert_all_arrive("after the failures");
    assert_ne!(network.entries_to_port("s1", 1), 0);
    cut(&LINKS[0]);
    let ends = [("s1", 1), ("s2", 1)];
    // Entries without traffic would expire after 60 s.
    for (bridge, port) in ends {
        wait_until(
            REPAIRED_WITHIN,
            &format!("the stale entries of {bridge} to be deleted"),
            || network.entries_to_port(bridge, port) == 0,
        );
    }
    assert_all_arrive("over the other path");
    for (bridge, port) in ends {
        assert_eq!(network.entries_to_port(bridge, port), 0, "{bridge} gets no such entry again");
    }
}
