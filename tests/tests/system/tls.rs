//! Switches that connect over TLS, and those that are not accepted.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::Stdio;

use sluice_system_tests::{
    Controller, OpenFlow, OvsNetwork, Pki, SHORT_TIMEOUT, TestEnv, becomes_true, binary,
    connect_from, wait_until,
};

/// Starts a controller with the default applications and TLS. With `bind`, certificates name datapath ids.
fn controller(env: &TestEnv, pki: &Pki, bind: &str) -> Controller {
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--no-api"]);
    command.args(pki.controller_arguments().split_whitespace());
    command.env("SLUICE_TLS__BIND_DATAPATH_ID", bind);
    Controller::with(command, env.dir())
}

#[test]
fn switches_with_certificates_of_their_own_stay_connected_while_those_of_the_controller_are_replaced()
 {
    let mut network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let pki = Pki::new(network.env(), "pki");
    pki.issue("controller");
    pki.issue("switch edge --dpid 1 --dpid 2 --dpid 3");
    let mut controller = controller(network.env(), &pki, "true");
    let address = controller.tls_address();
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.set_certificate(&pki, "edge");
    for bridge in ["s1", "s2"] {
        network.set_tls_controller(bridge, &address);
    }
    controller.wait_for_sessions(2);
    h1.assert_reaches(&h2);

    let pinging = h1.start_ping(&h2);
    pki.remove("controller");
    pki.issue("controller");
    controller.reload();
    controller.wait_for_log(&["certificates reloaded"]);
    pki.write("controller.pem", "damaged");
    controller.reload();
    let file = pki.file("controller.pem").display().to_string();
    controller.wait_for_log(&["configuration not reloaded", "tls.certificate", &file]);
    // A new connection uses the certificate that was read before.
    network.bridge("s3", 3);
    network.set_tls_controller("s3", &address);
    controller.wait_for_sessions(3);
    network.bridge("s4", 4);
    network.set_tls_controller("s4", &address);
    controller.wait_for_log(&["certificate_mismatch", "dpid-0000000000000004"]);
    assert_eq!(pinging.stop().lost(), 0);
    assert!(!controller.logged(&["switch disconnected"]), "{}", controller.log());
    assert_eq!(controller.sessions(), 3);
}

/// The first listener accepts any switch; the second one those of another authority, and each only with its own datapath id.
#[test]
fn tls_listeners_have_certificates_authorities_and_rules_of_their_own() {
    let mut network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let (open, strict) = (Pki::new(network.env(), "open"), Pki::new(network.env(), "strict"));
    open.issue("controller");
    open.issue("switch");
    strict.issue("controller");
    strict.issue("switch edge --dpid 3");
    let path = |name: &str| strict.file(name).display().to_string();
    let listeners = format!(
        "[{{ listen = [\"127.0.0.1:6660\"], certificate = \"{}\", key = \"{}\", client_ca = \"{}\", \
         client_auth = \"required\", bind_datapath_id = true }}]",
        path("controller.pem"),
        path("controller.key"),
        path("ca.pem")
    );
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--no-api"]);
    command.args(open.controller_arguments().split_whitespace());
    command.env("SLUICE_TLS__CLIENT_AUTH", "none").env("SLUICE_TLS__LISTENERS", listeners);
    let controller = Controller::with(command, network.env().dir());
    let (first, second) = (controller.tls_address(), "127.0.0.1:6660");

    network.set_certificate(&open, "switch");
    network.set_tls_controller("s1", &first);
    controller.wait_for_sessions(1);
    network.set_tls_controller("s2", second);
    // The switch does not know the authority of the second listener.
    controller.wait_for_log(&["tls_rejected_by_peer"]);
    network.set_unreachable_controller("s2");

    network.set_certificate(&strict, "edge");
    network.bridge("s3", 3);
    network.set_tls_controller("s3", second);
    controller.wait_for_sessions(2);
    network.bridge("s4", 4);
    network.set_tls_controller("s4", second);
    controller.wait_for_log(&["certificate_mismatch", "dpid-0000000000000004"]);
    assert_eq!(controller.sessions(), 2);
    // A switch of the first listener does not get the datapath id of one of the second.
    network.bridge("s5", 3);
    network.set_controller_at("s5", controller.address());
    controller.wait_for_log(&["datapath_id_reserved", "0000000000000003"]);
    assert_eq!(controller.sessions(), 2);
}

/// The peers have sent a part of their `ClientHello`, and nothing after it.
#[test]
fn a_flood_of_tls_handshakes_keeps_no_switch_out() {
    const PEERS: usize = 200;
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let pki = Pki::new(network.env(), "pki");
    pki.issue("controller");
    pki.issue("switch");
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1"]).args(pki.controller_arguments().split_whitespace());
    command.env("SLUICE_LIMITS__HANDSHAKES_MAX", "50");
    let controller = Controller::with(command, network.env().dir());
    let address = controller.tls_address();
    let to = address.parse().expect("an address");
    let peers: Vec<_> = network.env().within(|| {
        let connect = |_| {
            let mut peer = connect_from(Ipv4Addr::new(127, 0, 0, 2), to, None)?;
            peer.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])?;
            Ok::<_, std::io::Error>(peer)
        };
        (0..PEERS).map(connect).collect::<Result<_, _>>().expect("connected")
    });
    network.set_certificate(&pki, "switch");
    network.set_tls_controller("s1", &address);
    controller.wait_for_sessions(1);
    let refused = "connections_closed_total{reason=\"too_many_handshakes\"}";
    let is_counted =
        || network.env().metric(refused).is_some_and(|count| count >= PEERS as u64 - 50);
    assert!(becomes_true(SHORT_TIMEOUT, is_counted), "{}", controller.log());
    drop(peers);
}

/// Each peer completes its handshake, which costs the controller a signature, ends the connection, and begins again. They have the
/// address of the switches.
#[test]
fn a_flood_of_complete_tls_handshakes_disturbs_no_switch_and_keeps_none_out() {
    const PEERS: usize = 4;
    const HANDSHAKES_MIN: u64 = 200;
    let mut network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let pki = Pki::new(network.env(), "pki");
    pki.issue("controller");
    pki.issue("switch");
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1"]).args(pki.controller_arguments().split_whitespace());
    let controller = Controller::with(command, network.env().dir());
    let address = controller.tls_address();
    network.set_certificate(&pki, "switch");
    for bridge in ["s1", "s2"] {
        network.set_tls_controller(bridge, &address);
    }
    controller.wait_for_sessions(2);
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    h1.assert_reaches(&h2);

    let pinging = h1.start_ping(&h2);
    let path = |name| pki.file(name).display().to_string();
    let arguments = format!(
        "s_time -new -time 8 -connect {address} -cert {} -key {} -CAfile {}",
        path("switch.pem"),
        path("switch.key"),
        path("ca.pem")
    );
    let peer = |_| {
        let mut openssl = network.env().command("openssl");
        openssl.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        openssl.spawn().expect("openssl starts")
    };
    let mut peers: Vec<_> = (0..PEERS).map(peer).collect();
    let accepted = || network.env().metric("connections_accepted_total").unwrap_or(0);
    wait_until(SHORT_TIMEOUT, "handshakes", || accepted() >= HANDSHAKES_MIN);
    network.bridge("s3", 3);
    network.set_tls_controller("s3", &address);
    controller.wait_for_sessions(3);
    assert!(peers.iter_mut().all(|peer| matches!(peer.try_wait(), Ok(None))), "the flood lasts");
    assert_eq!(pinging.stop().lost(), 0);
    assert!(!controller.logged(&["switch disconnected"]), "{}", controller.log());
    for mut peer in peers {
        peer.wait().expect("waited for");
    }
}

#[test]
fn each_connection_that_is_not_accepted_has_its_reason_in_the_log() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let (pki, other) = (Pki::new(network.env(), "pki"), Pki::new(network.env(), "other"));
    pki.issue("controller");
    pki.issue_expired();
    other.issue("switch");
    // Trusts the controller.
    std::fs::copy(pki.file("ca.pem"), other.file("ca.pem")).expect("copied");
    let controller = controller(network.env(), &pki, "false");
    let address = controller.tls_address();

    network.set_certificate(&other, "switch");
    network.set_tls_controller("s1", &address);
    controller.wait_for_log(&["tls_unknown_ca"]);
    network.set_certificate(&pki, "expired");
    controller.wait_for_log(&["tls_certificate_expired"]);
    network.set_controller_at("s1", &address);
    controller.wait_for_log(&["tls_expected", "this port expects TLS"]);
    network.set_tls_controller("s1", controller.address());
    controller.wait_for_log(&["tls_on_tcp_port", "this port expects plain TCP"]);

    for (options, reason) in [
        (&[][..], "tls_no_certificate"),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..], "tls_version_not_supported"),
    ] {
        let mut client = network.env().command("openssl");
        client.args(["s_client", "-connect", &address]).args(options);
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Fails, as it has to.
        _ = client.status();
        assert!(
            becomes_true(SHORT_TIMEOUT, || controller.logged(&[reason])),
            "{}",
            controller.log()
        );
    }
    assert_eq!(controller.sessions(), 0);
}
