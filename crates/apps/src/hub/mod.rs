//! A hub: every frame out of every port but the one it came from.

use sluice_openflow::{Action, Ethernet, Out, PacketIn, PacketOut, PortNo};
use sluice_sdk::{App, Ctx, Then};

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
    fn greet(&self, out: &mut Out<'_>) {
        let written = out.send_misses_up(self.cfg.miss_len);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    fn watches(&self) -> bool {
        true
    }

    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let flood = [Action::output(PortNo::FLOOD)];
        let stays = Ethernet::new(p.frame).is_none_or(|eth| eth.dst.is_bridge_reserved());
        let actions: &[_] = if stays { &[] } else { &flood };
        if p.buffer_id.is_some() || !stays {
            // A frame that just fits its PACKET_IN is too long for a PACKET_OUT, and lost as frames may be.
            let _ = ctx.here.packet_out(&PacketOut { actions, ..PacketOut::answer(p) });
        }
        Then::Done
    }
}
