//! Links between Open vSwitch bridges are found, and missed at once.

use sluice_system_tests::{
    Controller, Lab, OpenFlow, SOON, binary, both_versions, every_version, wait_until,
};

every_version! {
    a_ring_is_found_and_a_cut_in_it_at_once() = ring;
}

both_versions! {
    a_switch_that_comes_back_has_its_links_again() = comes_back;
    a_bridge_of_others_between_two_switches_is_one_network() = foreign;
}

/// So rarely that what is found is found by the first probes, and what is gone is not gone for want of them.
const RARELY: &str =
    "topology.probe_interval_ms = 600000\nexperimental.shared_interval_ms = 600000\n";

/// Networks of others may lose a frame.
const OFTEN: &str = "topology.probe_interval_ms = 600000\nexperimental.shared_interval_ms = 1000\n";

/// A controller that runs `topology`, set so.
fn controller(lab: &Lab, config: &str) -> Controller {
    let room = lab.room();
    let config = room.write("sluice.toml", config);
    let mut command = room.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", "topology", "--config"]);
    command.arg(&config);
    Controller::with(command, room.dir())
}

fn metric(lab: &Lab, name: &str) -> Option<u64> {
    lab.room().metric(&format!("topology_{name}"))
}

/// Waits until so many links are found, and so many ports lead to hosts.
#[track_caller]
fn must_find(lab: &Lab, links: u64, edges: u64) {
    let mut found = (None, None);
    wait_until(SOON, &format!("{links} links and {edges} edges"), || {
        found = (metric(lab, "links"), metric(lab, "ports_edge"));
        found == (Some(links), Some(edges))
    });
    for wrong in ["lldp_forged", "lldp_malformed", "lldp_foreign", "ports_looped"] {
        assert_eq!(metric(lab, wrong), Some(0), "{wrong}");
    }
}

fn ring(version: OpenFlow) {
    let lab = Lab::ring(version, 4);
    let controller = controller(&lab, RARELY);
    let _hosts = ["s1", "s3"].map(|bridge| lab.host(bridge));
    lab.connect(&controller);
    must_find(&lab, 8, 2);
    assert_eq!(metric(&lab, "ports_link"), Some(8));
    lab.cut("s1", "s2");
    must_find(&lab, 6, 2);
    lab.mend("s1", "s2");
    must_find(&lab, 8, 2);
}

fn comes_back(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let controller = controller(&lab, RARELY);
    lab.connect(&controller);
    must_find(&lab, 4, 0);
    lab.unpoint("s2");
    must_find(&lab, 0, 0);
    // They led to a switch that is perhaps forwarding still.
    assert_eq!(metric(&lab, "ports_link"), Some(2));
    lab.point("s2", &controller);
    must_find(&lab, 4, 0);
}

fn foreign(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let controller = controller(&lab, OFTEN);
    // Nobody's switch: it learns and floods by itself, and keeps LLDP.
    lab.be_a_bridge("s2");
    lab.point("s1", &controller);
    lab.point("s3", &controller);
    must_find(&lab, 0, 0);
    wait_until(SOON, "two shared ports", || metric(&lab, "ports_shared") == Some(2));
}
