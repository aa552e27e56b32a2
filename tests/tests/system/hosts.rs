//! The application `hosts` on Open vSwitch.

use std::thread;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    hosts_are_learned_probed_and_removed_when_silent() = lifetime;
    a_host_that_claims_the_addresses_of_another_is_blocked() = address_conflict;
    claims_from_another_switch_do_not_disturb_the_owner("s2") = many_claims;
    claims_from_another_port_do_not_disturb_the_owner("s1") = many_claims;
    one_gratuitous_arp_is_enough_to_take_over_an_address() = takeover;
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

/// The bytes of the address of a host: the last byte is its number.
fn addresses(host: &Host) -> ([u8; 6], [u8; 4]) {
    let byte = |text: &str, radix| u8::from_str_radix(text, radix).unwrap_or_default();
    let number = host.ipv4().rsplit('.').next().map_or(0, |number| byte(number, 10));
    ([0, 0, 0, 0, 0, number], [10, 0, 0, number])
}

/// A gratuitous ARP request, by which `mac` states that it has the address `ip`.
fn gratuitous_arp(mac: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
    let request = [0, 1, 8, 0, 6, 4, 0, 1];
    let mut frame = [&[0xff; 6][..], &mac, &[8, 6], &request, &mac, &ip, &[0; 6], &ip].concat();
    frame.resize(60, 0);
    frame
}

fn default_controller(network: &OvsNetwork) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    Controller::with(command, network.env().dir())
}

/// A host at `switch` claims the MAC address and the IP address of another, a hundred times per second each.
fn many_claims(version: OpenFlow, switch: &str) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = default_controller(&network);
    let (victim, partner) = (network.host("s1"), network.host("s2"));
    let claimant = network.host(switch);
    network.connect(&controller);
    for host in [&victim, &claimant] {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(&partner, 1).lost() == 0
        });
    }
    let ((victim_mac, victim_ip), (mac, _)) = (addresses(&victim), addresses(&claimant));
    // To an unknown host, so that no flow entry matches.
    let as_victim = {
        let mut frame = [&[2, 0, 0, 0, 0, 9][..], &victim_mac, &[0x88, 0xb5]].concat();
        frame.resize(60, 0);
        frame
    };
    let claims = [as_victim, gratuitous_arp(mac, victim_ip), gratuitous_arp(victim_mac, victim_ip)];
    let pinging = victim.start_fast_ping(&partner);
    pinging.wait_for_replies(10);
    thread::scope(|scope| {
        for claim in &claims {
            scope.spawn(|| claimant.send_frames(claim, 500, 100));
        }
    });
    pinging.wait_for_replies(10);
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() * 20 <= loss.sent, "{loss:?}");
    controller.wait_for_log(&["address conflict, claim rejected"]);
    partner.forget_neighbours();
    assert_eq!(partner.ping(&victim, 5).lost(), 0, "ARP requests are answered with its address");
    assert_eq!(count(&network, "hosts_moved_total"), 0);
}

/// The owner of an address fails silently, and a host at another switch announces once that it has the address now.
fn takeover(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = default_controller(&network);
    let (owner, partner, backup) = (network.host("s1"), network.host("s1"), network.host("s2"));
    network.connect(&controller);
    for host in [&owner, &backup] {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            partner.ping(host, 1).lost() == 0
        });
    }
    owner.become_silent();
    backup.add_address_of(&owner);
    backup.send_frames(&gratuitous_arp(addresses(&backup).0, addresses(&owner).1), 1, 1);
    let loss = partner.ping(&owner, 40);
    assert!(loss.lost() <= 20, "{loss:?}");
}
