//! A DHCP server and clients on Open vSwitch, with the default applications.

use sluice_system_tests::{
    Controller, DhcpServer, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    hosts_obtain_their_addresses_through_the_network() = addresses;
}

fn addresses(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let env = network.env();
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, env.dir());
    let [server, near, far] = ["s1", "s1", "s2"].map(|bridge| network.host(bridge));
    let _dhcp = DhcpServer::start(&server, &[&near, &far]);
    for client in [&near, &far] {
        client.remove_addresses();
    }
    network.connect(&controller);
    for client in [&near, &far] {
        wait_until(LONG_TIMEOUT, "an address", || client.obtain_address(env));
    }
    for (from, to) in [(&near, &far), (&far, &server), (&server, &near)] {
        from.assert_reaches(to);
    }
    // The server may be asked again, through flow entries or not.
    wait_until(LONG_TIMEOUT, "an address again", || far.obtain_address(env));
    far.assert_reaches(&near);
    let log = controller.log();
    assert!(!log.contains("WARN"), "no claim is rejected:\n{log}");
}
