//! Sending and receiving link probes does not allocate.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use allocation_counter::measure;
use sluice_apps::topology::Topology;
use sluice_openflow::view::{PacketIn, PacketOut};
use sluice_openflow::{
    DatapathId, Encoder, MessageType, PacketInReason, Port, PortNo, RawMessage, SwitchFeatures,
    Version, Versions, split_message,
};
use sluice_sdk::view::PortRole;
use sluice_sdk::{App, Ctx, Network, SwitchIndex};
use sluice_testkit::switch_port;

const PORTS: u32 = 64;

/// A switch whose ports 1 and 2 are linked to each other.
struct LoopedSwitch {
    app: Topology,
    network: Network,
    now: Instant,
    tx: Vec<u8>,
    urgent: Vec<u8>,
    next_xid: u32,
    probes: usize,
}

impl LoopedSwitch {
    fn call(&mut self, version: Version, call: impl FnOnce(&mut Topology, &mut Ctx<'_>)) {
        let encoder = Encoder::new(&mut self.tx, version, &mut self.next_xid);
        let id = DatapathId(1);
        let mut ctx =
            Ctx::new(self.now, SwitchIndex(0), id, encoder, &mut self.urgent, &mut self.network);
        call(&mut self.app, &mut ctx);
    }

    /// Advances the time by 250 ms. Probes sent to one of the linked ports are received at the other.
    fn tick(&mut self, version: Version) {
        self.now += Duration::from_millis(250);
        self.app.on_iteration(self.now);
        self.call(version, Topology::on_tick);
        let sent = std::mem::take(&mut self.urgent);
        let mut rest = &*sent;
        while let Ok(Some((msg, after))) = split_message(rest) {
            rest = after;
            if msg.kind() == MessageType::PACKET_OUT {
                self.probes += 1;
                self.receive(msg);
            }
        }
        self.urgent = sent;
        self.urgent.clear();
    }

    fn receive(&mut self, msg: RawMessage<'_>) {
        let Ok(out) = PacketOut::new(msg) else { panic!("no PACKET_OUT") };
        // The port in hex, after the chassis id.
        let in_port = match out.frame.get(36..44) {
            Some(b"00000001") => PortNo(2),
            Some(b"00000002") => PortNo(1),
            _ => return,
        };
        let total_len = u16::try_from(out.frame.len()).unwrap_or_default();
        let (reason, cookie) = (PacketInReason::ACTION, u64::MAX);
        let p = PacketIn {
            buffer_id: None,
            in_port,
            total_len,
            reason,
            table_id: 0,
            cookie,
            frame: out.frame,
        };
        self.call(msg.version(), |app, ctx| _ = app.on_packet_in(&p, ctx));
    }
}

#[test]
fn probes_are_sent_and_received_without_an_allocation() {
    for version in Versions::SUPPORTED.iter() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (app, network) = (Topology::default(), Network::new(0));
        let [tx, urgent] = [(); 2].map(|()| Vec::with_capacity(1 << 16));
        let mut switch = LoopedSwitch { app, network, now, tx, urgent, next_xid: 1, probes: 0 };
        let ports = (1..=PORTS).map(|no| Port { port_no: PortNo(no), ..Port::default() });
        let features = SwitchFeatures { ports: ports.collect(), ..SwitchFeatures::default() };
        switch.call(version, |app, ctx| app.on_switch_connected(&features, ctx));
        (0..80).for_each(|_| switch.tick(version));
        switch.network.take_facts();
        let view = switch.network.view();
        assert_eq!(view.port_role(switch_port(1, 1)), PortRole::Link, "{version}");
        assert_eq!(view.port_role(switch_port(1, 3)), PortRole::Edge, "{version}");
        let before = switch.probes;
        let allocated = measure(|| (0..80).for_each(|_| switch.tick(version)));
        assert_eq!(allocated.count_total, 0, "{version}");
        // LLDP every second to each port, and probes of unmanaged segments every 5 s to ports without a link.
        let (lldp, segment_probes) = (20, 20 / 5);
        let expected = PORTS * lldp + (PORTS - 2) * segment_probes;
        assert_eq!(switch.probes - before, expected as usize, "{version}");
    }
}
