//! Links that appear between ports of which one has been an edge port for long: a cable that was plugged in would have brought both
//! ports up. Hosts that relay probes cause them, too.

use std::time::{Duration, Instant};

use sluice_sdk::view::SwitchPort;

use super::LOST_PROBES_MAX;
use super::port::Port;
use super::probe::{Probe, ProbeKind};
use super::switch::ProbeSettings;

/// What to do with a link that appears between two ports of which one has been an edge port for long, so that hosts may be relaying
/// probes. In either case it is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnexpectedLinks {
    /// Take it for a link when probes have been received over it for three intervals, and for an unmanaged segment until then.
    Report,
    /// Take it for an unmanaged segment.
    Refuse,
}

/// For how long the switches have been connected and a port has been an edge port at least: this, and this many probe intervals.
const SETTLED: Duration = Duration::from_secs(10);
const SETTLED_PROBES: u32 = 4;

/// A link that would have appeared earlier if it were a cable.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnexpectedLink {
    from: SwitchPort,
    to: SwitchPort,
    /// Time between two probes.
    interval: Duration,
}

impl UnexpectedLink {
    /// The link that a probe shows which was received at the port `to` of a switch that connected at `connected_at`, if it is
    /// unexpected. A link that the port had before is not.
    pub(super) fn new(
        kind: ProbeKind,
        probe: &Probe,
        to: &Port,
        connected_at: Instant,
        settings: &ProbeSettings,
        now: Instant,
    ) -> Option<Self> {
        let stated = |ms: u32| Duration::from_millis(ms.into());
        let interval = stated(probe.interval_ms);
        let settled = SETTLED.max(interval.max(settings.lldp_interval) * SETTLED_PROBES);
        let connected_for = now.saturating_duration_since(connected_at);
        let are_connected = connected_for.min(stated(probe.connected_ms)) >= settled;
        let was_edge = to.edge_for(now).max(stated(probe.edge_ms)) >= settled;
        let is_other = to.last_peer() != Some(probe.from) && probe.from != to.at;
        (kind == ProbeKind::Lldp && are_connected && was_edge && is_other).then_some(Self {
            from: probe.from,
            to: to.at,
            interval,
        })
    }

    /// How long its probes have to be received until it is used.
    pub(super) fn confirm_after(&self, policy: UnexpectedLinks) -> Duration {
        match policy {
            UnexpectedLinks::Report => self.interval * LOST_PROBES_MAX,
            UnexpectedLinks::Refuse => Duration::MAX,
        }
    }

    /// The log line about it.
    pub(super) fn warning(&self, policy: UnexpectedLinks) -> String {
        let what = match policy {
            UnexpectedLinks::Report => "is used if it stays",
            UnexpectedLinks::Refuse => "is taken for an unmanaged segment",
        };
        let SwitchPort { switch, port } = self.to;
        format!(
            "link appears at a port that led to hosts, and {what}; a cable was plugged in, or hosts relay probes dpid={switch} port={port} from_dpid={} from_port={}",
            self.from.switch, self.from.port
        )
    }
}
