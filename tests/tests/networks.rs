//! Hosts on Open vSwitch reach each other, and rules are what was meant.

use sluice_system_tests::{Controller, Host, Lab, OpenFlow, both_versions};

both_versions! {
    hosts_ping_each_other_through_one_switch(1) = ping_through;
    hosts_ping_each_other_through_three_switches(3) = ping_through;
    hosts_ping_each_other_through_eight_switches(8) = ping_through;
}

fn ping_through(version: OpenFlow, switches: u16) {
    let lab = Lab::line(version, switches);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host(&format!("s{switches}")));
    lab.connect(&controller);
    ping_without_loss(&h1, &h2);
    ping_without_loss(&h2, &h1);
}

/// One ping may be lost while everybody is learnt, and none after it.
#[track_caller]
fn ping_without_loss(from: &Host, to: &Host) {
    from.ping(to, 1);
    assert_eq!(from.ping(to, 20).lost(), 0);
}
