//! The control link between switches and controller.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::time::Duration;

use sluice_emu::link::{LinkConfig, LinkEndpoints, LinkImpairments, PerDirection, RunningLink};

use crate::definition::LinkSettings;

/// Port of the link in command lines.
pub(super) const PORT: u16 = 7000;

/// A link to the controller, which is open until this is dropped.
pub(super) struct ControlLink {
    controller: SocketAddr,
    /// `None` if nothing is changed.
    link: Option<RunningLink>,
}

impl ControlLink {
    /// Opens the link.
    pub(super) fn open(settings: &LinkSettings, controller: SocketAddr) -> Result<Self, String> {
        if settings.is_ideal() {
            return Ok(Self { controller, link: None });
        }
        let delay = Duration::try_from_secs_f64(settings.delay_ms / 1e3)
            .map_err(|error| format!("invalid delay of the control link: {error}"))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let rate_bps = NonZeroU64::new((settings.rate_mbit * 1e6).ceil() as u64);
        let impairments = LinkImpairments { delay, rate_bps, ..LinkImpairments::default() };
        let config = LinkConfig {
            endpoints: LinkEndpoints::TcpProxy {
                listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                connect: controller,
            },
            impairments: PerDirection::from_fn(|_| impairments),
            seed: 0,
        };
        // If the link fails, its connections end, which the measurement shows.
        let link = RunningLink::open(&config, None, || {})
            .map_err(|error| format!("the control link could not be opened: {error}"))?;
        Ok(Self { controller, link: Some(link) })
    }

    /// Where switches connect.
    pub(super) fn target(&self) -> SocketAddr {
        self.link.as_ref().and_then(RunningLink::listen_addr).unwrap_or(self.controller)
    }
}

impl Drop for ControlLink {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            // Its counters are not shown.
            let _ = link.close();
        }
    }
}

/// The command that opens the same link to a controller on the default port, followed by `&`; empty for an ideal link.
pub(super) fn link_command(settings: &LinkSettings) -> String {
    if settings.is_ideal() {
        return String::new();
    }
    let rate = if settings.rate_mbit > 0.0 {
        format!(" --rate {}Mbit", settings.rate_mbit)
    } else {
        String::new()
    };
    format!(
        "sluice control-link --listen localhost:{PORT} --connect localhost:6653 --delay {}ms{rate} & ",
        settings.delay_ms
    )
}
