//! A doorkeeper: the first station that is seen at a port may speak there, no other may.

use std::collections::HashMap;
use std::time::Instant;

use sluice_apps::hub::Hub;
use sluice_engine::{Config, Engine, StartError};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Ethernet, Field, FlowMod, MacAddr, PortNo};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, Verdict};

#[derive(Debug, Default)]
struct Doorkeeper {
    residents: HashMap<(SwitchIndex, PortNo), MacAddr>,
}

impl App for Doorkeeper {
    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        self.residents.retain(|&(at, _), _| at != sw);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Stop };
        let (door, visitor) = ((ctx.switch_index, p.in_port), eth.src);
        if *self.residents.entry(door).or_insert(visitor) == visitor {
            return Verdict::Continue;
        }
        // A rule without actions drops. Every version can say this.
        let _ = ctx.switch.flow_mod(&FlowMod {
            buffer_id: p.buffer_id,
            matching: [Field::in_port(p.in_port), Field::eth_src(visitor)].into(),
            idle_timeout: 60,
            priority: 1000,
            ..FlowMod::default()
        });
        Verdict::Stop
    }
}

fn main() -> Result<(), StartError> {
    let engine = Engine::start(Config::default(), |_| (Doorkeeper::default(), Hub::default()))?;
    // Until the end of standard input: Control-D in a terminal.
    std::io::stdin().lines().for_each(drop);
    engine.stop();
    Ok(())
}

#[test]
fn a_second_station_at_a_port_is_shut_out() {
    let story = "
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 c>b
        s1 > flow_mod   drop match=in_port+eth_src eth_src=c idle_timeout=60
        s1 < packet_in  port=2 c>a
        s1 > packet_out flood
    ";
    sluice_testkit::transcript(|| (Doorkeeper::default(), Hub::default()), story);
}
