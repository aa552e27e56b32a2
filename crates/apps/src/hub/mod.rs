//! A hub: every frame out of every port but the one it came from.

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, Encoder, Ethernet, PacketOutRef, PortNo};
use sluice_sdk::{App, Ctx, Verdict};

/// How the hub is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a frame that come up where a rule sends misses up; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { miss_send_len: Action::WHOLE }
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
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let written = out.send_misses_up(self.cfg.miss_send_len);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    fn inspects_every_packet(&self) -> bool {
        true
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let flood = [Action::output(PortNo::FLOOD)];
        let stays = Ethernet::new(p.frame).is_none_or(|eth| eth.dst.is_bridge_reserved());
        let actions: &[_] = if stays { &[] } else { &flood };
        if p.buffer_id.is_some() || !stays {
            // A frame that just fits its PACKET_IN is too long for a PACKET_OUT, and lost as frames may be.
            let _ = ctx.switch.packet_out(&PacketOutRef { actions, ..PacketOutRef::answer(p) });
        }
        Verdict::Stop
    }
}
