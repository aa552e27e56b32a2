//! What the application that knows hosts does with real ones, on Open vSwitch.

use sluice_system_tests::{Controller, Lab, OpenFlow, PATIENCE, binary, both_versions, wait_until};

both_versions! {
    hosts_are_known_asked_and_forgotten() = life;
    a_host_that_claims_what_another_one_has_is_not_obeyed() = claim;
}

/// A controller with `keys` of the section for hosts, which floods what is not answered.
fn controller(lab: &Lab, keys: &str) -> Controller {
    let text = format!("[experimental]\nsettle_ms = 500\n[hosts]\n{keys}\n");
    let file = lab.room().write("sluice.toml", &text);
    let mut command = lab.room().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", "topology,hosts,hub", "--config"]).arg(file);
    Controller::with(command, lab.room().dir())
}

/// What is counted under `name`.
fn count(lab: &Lab, name: &str) -> u64 {
    lab.room().metric(name).unwrap_or_default()
}

fn wait_for(lab: &Lab, name: &str, at_least: u64) {
    let what = format!("{name} to be {at_least}");
    wait_until(PATIENCE, &what, || count(lab, name) >= at_least);
}

fn life(version: OpenFlow) {
    let lab = Lab::line(version, 2);
    let controller = controller(&lab, "timeout_s = 1");
    let (h1, h2) = (lab.host("s1"), lab.host("s2"));
    h1.speak_ipv6();
    h2.speak_ipv6();
    lab.connect(&controller);
    wait_until(PATIENCE, "both to be known", || {
        h1.ping(&h2, 1);
        h1.ping_ipv6(&h2, 1);
        count(&lab, "hosts") == 2 && count(&lab, "hosts_addresses") >= 4
    });
    // Both are answered for from now on.
    let answered = count(&lab, "hosts_answered");
    h1.forget_neighbours();
    assert_eq!(h1.ping(&h2, 3).lost(), 0);
    assert_eq!(h1.ping_ipv6(&h2, 3).lost(), 0);
    wait_for(&lab, "hosts_answered", answered + 2);
    // Their own answers keep those that say nothing.
    let probes = count(&lab, "hosts_probes");
    wait_for(&lab, "hosts_probes", probes + 12);
    assert_eq!((count(&lab, "hosts"), count(&lab, "hosts_aged")), (2, 0));
    h2.leave();
    wait_for(&lab, "hosts_aged", 1);
}

fn claim(version: OpenFlow) {
    let lab = Lab::line(version, 2);
    let controller = controller(&lab, "address_conflicts = \"refuse\"");
    let (h1, h2) = (lab.host("s1"), lab.host("s2"));
    lab.connect(&controller);
    wait_until(PATIENCE, "both to be known", || {
        h1.ping(&h2, 1);
        count(&lab, "hosts") == 2 && count(&lab, "hosts_addresses") >= 2
    });
    let thief = lab.twin(&h1, "s2");
    wait_until(PATIENCE, "the claim to be refused", || {
        thief.ping(&h2, 1);
        controller.says(&[" claims ", "; not obeyed"])
    });
    assert_eq!(thief.ping(&h2, 3).received, 0);
    assert_eq!(h1.ping(&h2, 3).lost(), 0, "the victim goes on");
    assert_eq!(count(&lab, "hosts_moved"), 0);
}
