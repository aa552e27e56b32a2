//! Port security: only the first host that is seen at a port may use it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Ethernet, Field, FlowMod, MacAddr, PortNo};
use sluice_sdk::allocation::Allocation;
use sluice_sdk::flow_space::EntryKind;
use sluice_sdk::{App, Application, Ctx, Network, SwitchIndex, Verdict};

const ENTRIES: EntryKind = EntryKind::with_prefix("port-security", *b"psec", 3000..=3000);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    /// Seconds of silence after which another host is no longer blocked.
    idle_timeout_s: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { idle_timeout_s: 60 }
    }
}

#[derive(Debug, Default)]
struct PortSecurity {
    config: Config,
    allowed: BTreeMap<(SwitchIndex, PortNo), MacAddr>,
}

impl Application for PortSecurity {
    const NAME: &'static str = "port-security";
    const DESCRIPTION: &'static str = "only the first host that is seen at a port may use it";
    const ALLOCATION: Allocation = Allocation::of_entries(&[ENTRIES]);
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), ..Self::default() }
    }

    fn configure(&mut self, config: &Config) {
        self.config = config.clone();
    }
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
            cookie: ENTRIES.cookie,
            buffer_id: p.buffer_id,
            matching: [Field::in_port(p.in_port), Field::eth_src(eth.src)].into(),
            idle_timeout: self.config.idle_timeout_s,
            priority: ENTRIES.priority(),
            ..FlowMod::default()
        });
        Verdict::Stop
    }
}

fn main() -> ExitCode {
    sluice_cli::main(sluice_cli::Registry::default().with::<PortSecurity>())
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
    let chain = || (PortSecurity::default(), sluice_apps::hub::Hub::default());
    sluice_testkit::transcript(chain, transcript);
}
