//! What a frame of a known host costs `hosts`: nothing is allocated for it.

use std::alloc::System;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use sluice_apps::hosts::{Config, Hosts};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, MacAddr, PacketInReason, PortNo, SwitchFeatures, Version, Versions,
};
use sluice_sdk::view::{Fact, PortInfo, PortRole, SwitchInfo};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, Verdict};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SWITCH: DatapathId = DatapathId(1);

/// Hosts at each of two ports.
const HOST_COUNT: u8 = 100;

/// For what the test runner does meanwhile: it counts for the whole process. For a frame: none.
const ALLOCATIONS_MAX: usize = 20;

/// A host, and its port.
fn host(n: u8) -> (MacAddr, Ipv4Addr, PortNo) {
    (MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), PortNo(u32::from(n % 2 + 1)))
}

/// Host `n` broadcasts an ARP request for the address of host `of`.
fn request(n: u8, of: u8) -> Vec<u8> {
    let ((mac, ip, _), (_, target, _)) = (host(n), host(of));
    let start = [&[0xff; 6][..], &mac.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    [&start[..], &mac.0, &ip.octets(), &[0; 6], &target.octets(), &[0; 18]].concat()
}

/// A UDP packet over IPv4 from host `n`.
fn packet(n: u8) -> Vec<u8> {
    let ((mac, ip, _), (to, target, _)) = (host(n), host(n + 1));
    let start = [&to.0[..], &mac.0, &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    [&start[..], &ip.octets(), &target.octets(), &[0; 26]].concat()
}

/// The application with a switch whose ports are at the edge.
struct Stage {
    app: Hosts,
    network: Network,
    version: Version,
    now: Instant,
    tx: Vec<u8>,
    ahead: Vec<u8>,
    xid: u32,
}

impl Stage {
    fn new(version: Version) -> Self {
        #[expect(clippy::disallowed_methods, reason = "some time; it stands still")]
        let now = Instant::now();
        let cfg = Config { requests_per_s_max: u32::MAX, ..Config::default() };
        let mut network = Network::new(0);
        let port = |n: u32| PortInfo {
            name: n.to_string(),
            hw_addr: MacAddr([4, 0, 0, 0, 0, 1]),
            is_up: true,
            role: PortRole::Edge,
        };
        let ports: BTreeMap<_, _> = (1..=2).map(|n| (PortNo(n), port(n))).collect();
        network.publish(now, Fact::Switch(SWITCH, Some(SwitchInfo { ports })));
        let (tx, ahead, xid) = (Vec::new(), Vec::new(), 1);
        let mut stage = Self { app: Hosts::new(&cfg), network, version, now, tx, ahead, xid };
        stage.tell(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        stage
    }

    fn tell<T>(&mut self, tell: impl FnOnce(&mut Hosts, &mut Ctx<'_>) -> T) -> T {
        let here = Encoder::new(&mut self.tx, self.version, &mut self.xid);
        let (ahead, network) = (&mut self.ahead, &mut self.network);
        tell(&mut self.app, &mut Ctx::new(self.now, SwitchIndex(0), SWITCH, here, ahead, network))
    }

    fn hear(&mut self, in_port: PortNo, frame: &[u8]) -> Verdict {
        self.tx.clear();
        let p = PacketIn {
            buffer_id: None,
            in_port,
            total_len: 60,
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: 0,
            frame,
        };
        self.tell(|app, ctx| app.on_packet_in(&p, ctx))
    }
}

#[test]
fn a_frame_of_a_known_host_allocates_nothing() {
    for version in Versions::SPOKEN.iter() {
        let mut stage = Stage::new(version);
        // All of them are learnt, and the transmit buffer is as large as it gets.
        for n in 1..=HOST_COUNT {
            stage.hear(host(n).2, &request(n, n));
        }
        stage.hear(host(1).2, &request(1, 2));
        assert_eq!(stage.network.view().host_count(), usize::from(HOST_COUNT));
        let packets: Vec<_> = (1..=HOST_COUNT).map(packet).collect();
        // Neighbours are at different ports, and hosts that are two apart at one.
        let known: Vec<_> = (1..HOST_COUNT).map(|n| request(n, n + 1)).collect();
        let at_once: Vec<_> = (1..HOST_COUNT - 1).map(|n| request(n, n + 2)).collect();
        for (frames, then, what) in [
            (&packets, Verdict::Continue, "a packet"),
            (&known, Verdict::Stop, "a request that is answered"),
            (&at_once, Verdict::Continue, "a request that is passed on"),
        ] {
            let region = Region::new(ALLOCATOR);
            for _ in 0..50 {
                for (n, frame) in (1..).zip(frames) {
                    assert_eq!(stage.hear(host(n).2, frame), then, "{what} in {version}");
                }
            }
            let change = region.change();
            let allocations = change.allocations + change.reallocations;
            // The port that a frame is said to be from is a match in 1.5, which is written from a list.
            let is_in_a_list = then == Verdict::Stop && version == Version::V1_5;
            let expected = if is_in_a_list { 50 * frames.len() } else { 0 };
            let may = expected..=expected + ALLOCATIONS_MAX;
            assert!(may.contains(&allocations), "{what} in {version}: {change:?}");
        }
    }
}
