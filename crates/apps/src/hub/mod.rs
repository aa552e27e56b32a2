//! A hub: every frame out of every port but the one it came from.

use sluice_app::{App, Ctx, Then};
use sluice_wire::{Action, Ethernet, Features, PacketIn, PacketOut, PortNo};

/// How the hub is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Octets of a frame that come up where a rule sends misses up; [`Action::WHOLE`] for all.
    pub miss_len: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { miss_len: Action::WHOLE }
    }
}

/// Floods every frame and writes no rule for any.
#[derive(Debug, Default)]
pub struct Hub {
    cfg: Config,
}

impl Hub {
    /// A hub set so.
    pub fn new(cfg: &Config) -> Self {
        Self { cfg: cfg.clone() }
    }

    /// Sets it otherwise, for switches that come up from now on.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
    }
}

impl App for Hub {
    fn switch_up(&mut self, _: &Features, ctx: &mut Ctx<'_>) {
        let written = ctx.here.send_misses_up(self.cfg.miss_len);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let Some(eth) = Ethernet::new(p.frame) else { return Then::PassOn };
        let flood = [Action::output(PortNo::FLOOD)];
        let actions: &[_] = if eth.dst.is_bridge_reserved() { &[] } else { &flood };
        if p.buffer_id.is_some() || !actions.is_empty() {
            let written = ctx.here.packet_out(&PacketOut { actions, ..PacketOut::answer(p) });
            debug_assert!(written.is_ok(), "every version can say it");
        }
        Then::Done
    }
}
