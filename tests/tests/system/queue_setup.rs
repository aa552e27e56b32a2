//! Queues of Open vSwitch, for the tests that read them.

use sluice_system_tests::{Host, OvsNetwork, output_of};

/// Runs `ovs-vsctl` with the database of the network; `words` are separated by spaces.
#[track_caller]
pub(crate) fn vsctl(network: &OvsNetwork, words: &str) -> String {
    let mut vsctl = network.env().command("ovs-vsctl");
    let database = format!("--db=unix:{}", network.env().file("db.sock").display());
    output_of(vsctl.args(["--timeout=10", &database]).args(words.split_whitespace()))
}

/// Adds the queue `queue_id` to the port of `host`. Open vSwitch then has queue 0 there as well, which is the default.
#[track_caller]
pub(crate) fn add_queue(network: &OvsNetwork, host: &Host, queue_id: u32) {
    let find = format!("--bare --columns=name find interface ofport={}", host.port());
    let interface = vsctl(network, &find);
    vsctl(
        network,
        &format!(
            "-- --id=@queue create queue other-config:max-rate=20000000 \
             -- --id=@qos create qos type=linux-htb other-config:max-rate=100000000 queues:{queue_id}=@queue \
             -- set port {} qos=@qos",
            interface.trim()
        ),
    );
}
