//! A doorkeeper: the first station that is seen at a port may speak there, no other may.

use std::collections::HashMap;
use std::time::Instant;

use sluice_apps::hub::Hub;
use sluice_engine::{Config, Engine, StartError};
use sluice_openflow::{Ethernet, Field, FlowMod, MacAddr, PacketIn, PortNo};
use sluice_sdk::{App, Ctx, Network, Sw, Then};

#[derive(Debug, Default)]
struct Doorkeeper {
    residents: HashMap<(Sw, PortNo), MacAddr>,
}

impl App for Doorkeeper {
    fn switch_down(&mut self, sw: Sw, _: Instant, _: &mut Network) {
        self.residents.retain(|&(at, _), _| at != sw);
    }

    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let Some(eth) = Ethernet::new(p.frame) else { return Then::Done };
        let (door, visitor) = ((ctx.sw, p.in_port), eth.src);
        if *self.residents.entry(door).or_insert(visitor) == visitor {
            return Then::PassOn;
        }
        // A rule without actions drops. Every version can say this.
        let _ = ctx.here.flow_mod(&FlowMod {
            buffer_id: p.buffer_id,
            matching: [Field::in_port(p.in_port), Field::eth_src(visitor)].into(),
            idle_timeout: 60,
            priority: 1000,
            ..FlowMod::default()
        });
        Then::Done
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
        s1 > flow_mod   drop match=in_port+src src=c idle=60
        s1 < packet_in  port=2 c>a
        s1 > packet_out flood
    ";
    sluice_testkit::transcript(|| (Doorkeeper::default(), Hub::default()), story);
}
