//! Switches whose certificates name their datapath ids, and others that claim these ids.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluice_engine::{Config, TlsListeners};
use sluice_openflow::{ErrorReason, Version};

use crate::test_engine::{TestEngine, config, wait_until};
use crate::test_peer::TestPeer;
use crate::tls_peer::{Authority, TlsPeer};

/// The datapath id that certificates name.
const CAMPUS: u64 = 5;

const RESERVED: &str = "datapath_id_reserved";

/// A controller of two networks, and what their switches need. Certificates of the campus name datapath ids.
struct TwoNetworks {
    test: TestEngine,
    campus: Authority,
    laboratory: Authority,
}

impl TwoNetworks {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let (campus, laboratory) = (Authority::new(), Authority::new());
        let test = TestEngine::new(|cfg| {
            cfg.tls = vec![
                listener(1, &campus, true),
                // Not the address of the first.
                listener(2, &laboratory, false),
            ];
            change(cfg);
        });
        Self { test, campus, laboratory }
    }

    fn connect_campus(&self, id: u64) -> TlsPeer {
        let client = self.campus.client(&format!("dpid-{id:016x}"));
        TlsPeer::connect_switch(self.tls_address(0), &client, id)
    }

    fn connect_laboratory(&self, id: u64) -> TlsPeer {
        TlsPeer::connect_switch(self.tls_address(1), &self.laboratory.client("switch"), id)
    }

    fn tls_address(&self, n: usize) -> SocketAddr {
        self.test.engine.as_ref().unwrap().tls_addresses()[n]
    }

    fn wait_for_switches(&self, n: u64) {
        let switches = || self.test.metric("switches_connected", "");
        wait_until(&format!("{n} switches"), || switches() == n);
    }
}

fn listener(host: u8, authority: &Authority, bind_datapath_id: bool) -> TlsListeners {
    let listen = vec![(Ipv4Addr::new(127, 0, 0, host), 0).into()];
    TlsListeners { listen, server: authority.server(), bind_datapath_id }
}

/// The other switch would answer a probe.
#[test]
fn a_switch_whose_certificate_names_its_datapath_id_replaces_one_without_at_once() {
    let networks = TwoNetworks::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(3600));
    let mut impostor = networks.connect_laboratory(CAMPUS);
    networks.wait_for_switches(1);
    let mut campus = networks.connect_campus(CAMPUS);
    impostor.expect_close();
    networks.test.expect_closed(1, RESERVED);
    networks.wait_for_switches(1);
    campus.expect_no_close();
}

/// The switch with the certificate does not answer a probe.
#[test]
fn a_switch_without_such_a_certificate_gets_no_datapath_id_of_one_with_it() {
    let networks = TwoNetworks::new(|cfg| cfg.limits.duplicate_timeout = Duration::ZERO);
    let campus = networks.connect_campus(CAMPUS);
    networks.wait_for_switches(1);
    let mut plain = TestPeer::connect(networks.test.addr);
    plain.complete_handshake(Version::V1_3, CAMPUS, usize::MAX);
    assert_eq!(plain.expect_close(), Some(ErrorReason::NOT_ALLOWED));
    networks.connect_laboratory(CAMPUS).expect_close();
    networks.test.expect_closed(2, RESERVED);
    // The id stays reserved when the switch is not connected.
    drop(campus);
    networks.wait_for_switches(0);
    networks.connect_laboratory(CAMPUS).expect_close();
    wait_until("the third", || networks.test.closed(RESERVED) == 3);
    let _other = networks.connect_laboratory(CAMPUS + 1);
    let _campus = networks.connect_campus(CAMPUS);
    networks.wait_for_switches(2);
}

/// The first switch does not answer the probe, for which it has an hour.
#[test]
fn a_switch_that_waits_for_a_datapath_id_makes_room_for_one_whose_certificate_names_it() {
    let networks = TwoNetworks::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(3600));
    let mut holder = TestPeer::connect_switch(networks.test.addr, Version::V1_3, CAMPUS);
    networks.wait_for_switches(1);
    let mut claimant = networks.connect_laboratory(CAMPUS);
    let _campus = networks.connect_campus(CAMPUS);
    assert_eq!(holder.expect_close(), None);
    claimant.expect_close();
    networks.test.expect_closed(2, RESERVED);
    networks.wait_for_switches(1);
}

#[test]
fn two_switches_whose_certificates_name_the_datapath_id_are_probed() {
    let networks = TwoNetworks::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_millis(50));
    let mut first = networks.connect_campus(CAMPUS);
    networks.wait_for_switches(1);
    let _second = networks.connect_campus(CAMPUS);
    first.expect_close();
    networks.test.expect_closed(1, "replaced_by_new_connection");
}

#[test]
fn datapath_ids_are_not_reserved_after_a_reload_that_requires_no_names_in_certificates() {
    let networks = TwoNetworks::new(|cfg| cfg.limits.duplicate_timeout = Duration::ZERO);
    let _campus = networks.connect_campus(CAMPUS);
    networks.wait_for_switches(1);
    let change = config(|cfg| {
        cfg.limits.duplicate_timeout = Duration::ZERO;
        cfg.tls =
            vec![listener(1, &networks.campus, false), listener(2, &networks.laboratory, false)];
    });
    let engine = networks.test.engine.as_ref().unwrap();
    engine.apply(change, |_| {}).unwrap();
    wait_until("a switch without a certificate that names the id", || {
        let mut plain = TestPeer::connect(networks.test.addr);
        plain.complete_handshake(Version::V1_3, CAMPUS, usize::MAX);
        networks.test.closed("replaced_by_new_connection") == 1
    });
}
