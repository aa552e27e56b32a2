//! The application `hosts` on Open vSwitch.

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions, wait_until,
};

both_versions! {
    hosts_are_learned_probed_and_removed_when_silent() = lifetime;
    a_host_that_claims_the_addresses_of_another_is_blocked() = address_conflict;
}

/// A controller with `keys` in the section `[hosts]`, and the hub, which floods all other packets.
fn controller(network: &OvsNetwork, keys: &str) -> Controller {
    let text = format!("[experimental]\nsettle_ms = 500\n[hosts]\n{keys}\n");
    let file = network.env().write("sluice.toml", &text);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", "topology,hosts,hub", "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Value of the metric `sluice_<name>`, 0 if there is none.
fn count(network: &OvsNetwork, name: &str) -> u64 {
    network.env().metric(name).unwrap_or_default()
}

fn wait_for(network: &OvsNetwork, name: &str, at_least: u64) {
    let what = format!("{name} to be {at_least}");
    wait_until(LONG_TIMEOUT, &what, || count(network, name) >= at_least);
}

fn lifetime(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, "timeout_s = 1");
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    h1.enable_ipv6();
    h2.enable_ipv6();
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "both hosts to be known", || {
        h1.ping(&h2, 1);
        h1.ping_ipv6(&h2, 1);
        count(&network, "hosts") == 2 && count(&network, "hosts_addresses") >= 4
    });
    // From now on the controller answers ARP and neighbour requests for both.
    let answered = count(&network, "hosts_requests_answered_total");
    h1.forget_neighbours();
    assert_eq!(h1.ping(&h2, 3).lost(), 0);
    assert_eq!(h1.ping_ipv6(&h2, 3).lost(), 0);
    wait_for(&network, "hosts_requests_answered_total", answered + 2);
    // Silent hosts stay known because they answer probes.
    let probes = count(&network, "hosts_probes_sent_total");
    wait_for(&network, "hosts_probes_sent_total", probes + 12);
    assert_eq!((count(&network, "hosts"), count(&network, "hosts_expired_total")), (2, 0));
    h2.become_silent();
    wait_for(&network, "hosts_expired_total", 1);
}

fn address_conflict(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network, "address_conflicts = \"refuse\"");
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "both hosts to be known", || {
        h1.ping(&h2, 1);
        count(&network, "hosts") == 2 && count(&network, "hosts_addresses") >= 2
    });
    let claimant = network.duplicate_host(&h1, "s2");
    wait_until(LONG_TIMEOUT, "the claim to be refused", || {
        claimant.ping(&h2, 1);
        controller.logged(&["address conflict, claim rejected"])
    });
    assert_eq!(claimant.ping(&h2, 3).received, 0);
    assert_eq!(h1.ping(&h2, 3).lost(), 0, "the owner of the address is still reached");
    assert_eq!(count(&network, "hosts_moved_total"), 0);
}
