//! A hub: floods every frame, and installs no flow entries.

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, Encoder, Ethernet, PacketOutRef, PortNo};
use sluice_sdk::{App, Ctx, Verdict, send_misses_up};

/// Configuration of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a table miss that switches of OpenFlow 1.3 and later send to the controller; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { miss_send_len: Action::WHOLE }
    }
}

/// Floods every frame through all ports but its own.
#[derive(Debug, Default)]
pub struct Hub {
    cfg: Config,
}

impl Hub {
    /// A hub with this configuration.
    pub fn new(cfg: &Config) -> Self {
        Self { cfg: cfg.clone() }
    }

    /// Applies a new configuration, to switches that connect from now on.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
    }
}

impl App for Hub {
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let written = send_misses_up(out, self.cfg.miss_send_len);
        debug_assert!(written.is_ok(), "every version can express it");
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let flood = [Action::output(PortNo::FLOOD)];
        let is_dropped = Ethernet::new(p.frame).is_none_or(|eth| eth.dst.is_bridge_reserved());
        let actions: &[_] = if is_dropped { &[] } else { &flood };
        if p.buffer_id.is_some() || !is_dropped {
            // Fails for a frame that fits a PACKET_IN but not a PACKET_OUT. It is lost.
            let _ = ctx.switch.packet_out(&PacketOutRef { actions, ..PacketOutRef::answer(p) });
        }
        Verdict::Stop
    }
}
