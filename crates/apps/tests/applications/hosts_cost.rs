//! Handling a packet from a known host does not allocate.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use allocation_counter::measure;
use sluice_apps::hosts::{Config, Hosts};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, MacAddr, PacketInReason, PortNo, SwitchFeatures, Version, Versions,
};
use sluice_sdk::view::{Fact, PortInfo, PortRole, SwitchInfo};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, Verdict};

const SWITCH: DatapathId = DatapathId(1);

/// Hosts, at two ports in turn.
const HOST_COUNT: u8 = 100;

/// Addresses and port of a host.
fn host(n: u8) -> (MacAddr, Ipv4Addr, PortNo) {
    (MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), PortNo(u32::from(n % 2 + 1)))
}

/// A broadcast ARP request of host `n` for the address of host `target`.
fn request(n: u8, target: u8) -> Vec<u8> {
    let ((mac, ip, _), (_, target, _)) = (host(n), host(target));
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
struct SingleSwitchWorker {
    app: Hosts,
    network: Network,
    version: Version,
    now: Instant,
    tx: Vec<u8>,
    urgent: Vec<u8>,
    next_xid: u32,
}

impl SingleSwitchWorker {
    fn new(version: Version) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let cfg = Config { requests_per_s_max: u32::MAX, ..Config::default() };
        let mut network = Network::new(0);
        let port = |n: u32| PortInfo {
            name: n.to_string().as_str().into(),
            hw_addr: MacAddr([4, 0, 0, 0, 0, 1]),
            is_up: true,
            role: PortRole::Edge,
        };
        let ports: BTreeMap<_, _> = (1..=2).map(|n| (PortNo(n), port(n))).collect();
        network.publish(now, Fact::Switch(SWITCH, Some(SwitchInfo { ports })));
        let (tx, urgent, next_xid) = (Vec::new(), Vec::new(), 1);
        let mut worker =
            Self { app: Hosts::new(&cfg), network, version, now, tx, urgent, next_xid };
        worker.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        worker
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Hosts, &mut Ctx<'_>) -> T) -> T {
        let encoder = Encoder::new(&mut self.tx, self.version, &mut self.next_xid);
        let (urgent, network) = (&mut self.urgent, &mut self.network);
        call(
            &mut self.app,
            &mut Ctx::new(self.now, SwitchIndex(0), SWITCH, encoder, urgent, network),
        )
    }

    fn receive(&mut self, in_port: PortNo, frame: &[u8]) -> Verdict {
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
        self.call(|app, ctx| app.on_packet_in(&p, ctx))
    }
}

#[test]
fn a_packet_from_a_known_host_is_handled_without_an_allocation() {
    for version in Versions::SUPPORTED.iter() {
        let mut worker = SingleSwitchWorker::new(version);
        // Learn all hosts and let the transmit buffer grow.
        for n in 1..=HOST_COUNT {
            worker.receive(host(n).2, &request(n, n));
        }
        worker.receive(host(1).2, &request(1, 2));
        assert_eq!(worker.network.view().host_count(), usize::from(HOST_COUNT));
        let packets: Vec<_> = (1..=HOST_COUNT).map(packet).collect();
        // Consecutive hosts are at different ports, every other host is at the same port.
        let known: Vec<_> = (1..HOST_COUNT).map(|n| request(n, n + 1)).collect();
        let same_port: Vec<_> = (1..HOST_COUNT - 1).map(|n| request(n, n + 2)).collect();
        for (frames, verdict, what) in [
            (&packets, Verdict::Continue, "a packet"),
            (&known, Verdict::Stop, "an ARP request that the controller answers"),
            (&same_port, Verdict::Continue, "an ARP request that is passed on"),
        ] {
            let allocated = measure(|| {
                for _ in 0..50 {
                    for (n, frame) in (1..).zip(frames) {
                        assert_eq!(
                            worker.receive(host(n).2, frame),
                            verdict,
                            "{what} in {version}"
                        );
                    }
                }
            });
            // In 1.5 the ingress port of a PACKET_OUT is a match, which is encoded from a list.
            let encodes_a_match = verdict == Verdict::Stop && version == Version::V1_5;
            let expected = if encodes_a_match { 50 * frames.len() as u64 } else { 0 };
            assert_eq!(allocated.count_total, expected, "{what} in {version}");
        }
    }
}
