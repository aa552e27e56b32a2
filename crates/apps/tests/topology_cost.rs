//! What a probe costs: nothing is allocated for it.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::alloc::System;
use std::time::{Duration, Instant};

use sluice_apps::topology::Topology;
use sluice_openflow::view::{PacketIn, PacketOut};
use sluice_openflow::{
    DatapathId, Encoder, MessageType, PacketInReason, Port, PortNo, RawMessage, SwitchFeatures,
    Version, Versions, split_message,
};
use sluice_sdk::view::PortRole;
use sluice_sdk::{App, Ctx, Network, SwitchIndex};
use sluice_testkit::switch_port;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PORTS: u32 = 64;

/// A switch whose ports 1 and 2 are wired to each other.
struct Wired {
    app: Topology,
    network: Network,
    now: Instant,
    tx: Vec<u8>,
    ahead: Vec<u8>,
    next_xid: u32,
    probes: usize,
}

impl Wired {
    fn tell(&mut self, version: Version, tell: impl FnOnce(&mut Topology, &mut Ctx<'_>)) {
        let here = Encoder::new(&mut self.tx, version, &mut self.next_xid);
        let id = DatapathId(1);
        let mut ctx =
            Ctx::new(self.now, SwitchIndex(0), id, here, &mut self.ahead, &mut self.network);
        tell(&mut self.app, &mut ctx);
    }

    /// A quarter of a second: what is sent out of one of the wired ports comes in at the other.
    fn look(&mut self, version: Version) {
        self.now += Duration::from_millis(250);
        self.app.on_iteration(self.now);
        self.tell(version, Topology::on_tick);
        let sent = std::mem::take(&mut self.ahead);
        let mut rest = &*sent;
        while let Ok(Some((msg, after))) = split_message(rest) {
            rest = after;
            if msg.kind() == MessageType::PACKET_OUT {
                self.probes += 1;
                self.carry(msg);
            }
        }
        self.ahead = sent;
        self.ahead.clear();
    }

    fn carry(&mut self, msg: RawMessage<'_>) {
        let Ok(out) = PacketOut::new(msg) else { panic!("no PACKET_OUT") };
        // The port in hex, behind the chassis id.
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
        self.tell(msg.version(), |app, ctx| _ = app.on_packet_in(&p, ctx));
    }
}

#[test]
fn probes_are_sent_and_heard_without_an_allocation() {
    for version in Versions::SPOKEN.iter() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (app, network) = (Topology::default(), Network::new(0));
        let [tx, ahead] = [(); 2].map(|()| Vec::with_capacity(1 << 16));
        let mut wired = Wired { app, network, now, tx, ahead, next_xid: 1, probes: 0 };
        let ports = (1..=PORTS).map(|no| Port { port_no: PortNo(no), ..Port::default() });
        let features = SwitchFeatures { ports: ports.collect(), ..SwitchFeatures::default() };
        wired.tell(version, |app, ctx| app.on_switch_connected(&features, ctx));
        (0..80).for_each(|_| wired.look(version));
        wired.network.take_facts();
        let view = wired.network.view();
        assert_eq!(view.port_role(switch_port(1, 1)), PortRole::Link, "{version}");
        assert_eq!(view.port_role(switch_port(1, 3)), PortRole::Edge, "{version}");
        let (region, before) = (Region::new(ALLOCATOR), wired.probes);
        (0..80).for_each(|_| wired.look(version));
        let allocated = region.change().allocations;
        assert_eq!(allocated, 0, "{version}");
        let (seconds, far) = (20, 20 / 5);
        let expected = PORTS * seconds + (PORTS - 2) * far;
        assert_eq!(wired.probes - before, expected as usize, "{version}");
    }
}
