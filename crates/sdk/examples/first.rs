//! Port security: only the first host that is seen at a port may use it.

use std::time::Instant;

use sluice_apps::hub::Hub;
use sluice_base::HashMap;
use sluice_engine::{Config, Engine};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Ethernet, Field, FlowMod, MacAddr, PortNo};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, Verdict};

#[derive(Debug, Default)]
struct PortSecurity {
    allowed: HashMap<(SwitchIndex, PortNo), MacAddr>,
}

impl App for PortSecurity {
    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, _: &mut Network) {
        self.allowed.retain(|&(switch, _), _| switch != sw);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Stop };
        let port = (ctx.switch_index, p.in_port);
        if *self.allowed.entry(port).or_insert(eth.src) == eth.src {
            return Verdict::Continue;
        }
        // A flow entry without instructions drops. Every version can express this one.
        let _ = ctx.switch.flow_mod(&FlowMod {
            buffer_id: p.buffer_id,
            matching: [Field::in_port(p.in_port), Field::eth_src(eth.src)].into(),
            idle_timeout: 60,
            priority: 1000,
            ..FlowMod::default()
        });
        Verdict::Stop
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints to its terminal")]
fn main() {
    let chain = |_worker| (PortSecurity::default(), Hub::default());
    let engine = Engine::start(Config::default(), chain).unwrap_or_else(|error| {
        eprintln!("first: {error}");
        std::process::exit(1);
    });
    println!("first: listening on {:?}; Ctrl-D ends it", engine.addresses());
    std::io::stdin().lines().for_each(drop);
    engine.stop();
}

#[test]
fn a_second_host_at_a_port_is_blocked() {
    let transcript = "
        s1 < packet_in  port=1 a>b
        s1 > packet_out flood
        s1 < packet_in  port=1 c>b
        s1 > flow_mod   drop match=in_port+eth_src eth_src=c idle_timeout=60
        s1 < packet_in  port=2 c>a
        s1 > packet_out flood
    ";
    sluice_testkit::transcript(|| (PortSecurity::default(), Hub::default()), transcript);
}
