//! `sluice show` of networks of Open vSwitch, which is the witness for what it lists.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions, output_of,
    wait_until,
};

both_versions! {
    the_network_is_shown_as_it_is() = network;
}

/// What `sluice show` prints.
fn show(network: &OvsNetwork, arguments: &str) -> String {
    let mut command = network.env().command(&binary().to_string_lossy());
    output_of(command.arg("show").args(arguments.split_whitespace()))
}

/// Rows below the titles, in cells.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

fn network(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (name, id) in [("s1", 1), ("s2", 2)] {
        network.bridge(name, id);
    }
    network.link("s1", "s2");
    let [a, b] = ["s1", "s2"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);

    let switches = show(&network, "switches");
    let listed: Vec<_> = rows(&switches).iter().map(|row| [row[0], row[1], row[2]]).collect();
    let expected = [["0000000000000001", "s1"], ["0000000000000002", "s2"]];
    let number = if version == OpenFlow::V10 { "1.0" } else { "1.3" };
    assert_eq!(listed, expected.map(|[dpid, name]| [dpid, name, number]), "{switches}");

    let port = network.link_port("s1", "s2").to_string();
    let links = show(&network, "links");
    assert_eq!(rows(&links).len(), 2, "{links}");
    let from_s1 = rows(&links).into_iter().find(|row| row[0] == "0000000000000001").unwrap();
    assert_eq!([from_s1[1], from_s1[3]], [port.as_str(), "0000000000000002"], "{links}");

    let ports = show(&network, "ports s1");
    let link = rows(&ports).into_iter().find(|row| row[0] == port).unwrap();
    assert_eq!([link[2], link[3], link[5]], ["yes", "link", "0000000000000002"], "{ports}");

    let hosts = show(&network, &format!("hosts --mac {} --switch s2", b.mac()));
    assert_eq!(rows(&hosts).len(), 1, "{hosts}");
    assert_eq!(rows(&hosts)[0][2], "0000000000000002", "{hosts}");

    for bridge in ["s1", "s2"] {
        let flows = show(&network, &format!("flows {bridge}"));
        assert_eq!(flows.lines().count(), network.flows(bridge).len(), "{flows}");
        // Fails if the file and the switch have different flow entries.
        let file = network.env().write("flows.txt", &flows);
        network.ofctl("diff-flows", bridge, &[&file.to_string_lossy()]);
        let json = show(&network, &format!("flows {bridge} --json"));
        assert!(json.contains(r#""owner":"forwarding""#), "{json}");
    }
}
