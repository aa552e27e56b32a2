//! The connection of a switch, from the first attempt to its end.

use std::io;
use std::time::{Duration, Instant};

use sluice_io::ConnectionError;

use crate::Error;
use crate::plan::{ConnectAttempts, Plan};

/// Pause between two attempts to connect to a controller that is starting.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// When a switch reached each state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifecycle {
    pub(crate) connect_started: Option<Instant>,
    pub(crate) connected: Option<Instant>,
    /// The controller requested its features, so the switch may send packet-ins.
    pub(crate) ready: Option<Instant>,
    /// Why the connection ended, if it did.
    pub(crate) disconnect_reason: Option<String>,
}

impl Lifecycle {
    /// Whether an attempt to connect is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connect_started.is_some()
            && self.connected.is_none()
            && self.disconnect_reason.is_none()
    }

    /// Whether the switch is to connect: for the first time, or again after a failure.
    pub(crate) fn is_due(&self, plan: &Plan, now: Instant) -> bool {
        self.connect_started.is_none_or(|at| self.retries(plan) && now >= at + RETRY_INTERVAL)
    }

    /// Whether the connection has failed, and the switch is to connect again.
    pub(crate) fn retries(&self, plan: &Plan) -> bool {
        self.disconnect_reason.is_some() && plan.connect_attempts == ConnectAttempts::UntilTimeout
    }

    /// Whether the switch has not completed its handshake and may still do so.
    pub(crate) fn is_waiting(&self, plan: &Plan) -> bool {
        match self.disconnect_reason {
            None => self.ready.is_none(),
            Some(_) => self.retries(plan),
        }
    }

    /// Duration from the attempt to connect until the connection was open.
    pub(crate) fn connect_time(&self) -> Option<Duration> {
        Some(self.connected?.duration_since(self.connect_started?))
    }

    /// Duration from then until the switch was ready.
    pub(crate) fn handshake_time(&self) -> Option<Duration> {
        Some(self.ready?.duration_since(self.connected?))
    }
}

/// Why a connection ended that was closed by the controller, or with an error.
pub(crate) fn closed_reason(error: Option<ConnectionError>) -> String {
    error.map_or_else(|| "the controller closed the connection".into(), |e| e.to_string())
}

/// Why no switch can send requests; `None` if one has completed its handshake and is connected.
pub(crate) fn failure<'l>(
    plan: &Plan,
    switches: impl Iterator<Item = &'l Lifecycle> + Clone,
) -> Option<Error> {
    if switches.clone().any(|it| it.ready.is_some() && it.disconnect_reason.is_none()) {
        return None;
    }
    let connected = switches.clone().filter(|it| it.connected.is_some()).count();
    let reason = switches.clone().filter_map(|it| it.disconnect_reason.clone()).last();
    if switches.clone().any(|it| it.ready.is_some()) {
        return Some(Error::Disconnected(reason.unwrap_or_default()));
    }
    if connected == 0 {
        let target = plan.targets.first().copied();
        let target = target.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        let reason = reason.unwrap_or_else(|| "no answer".into());
        return Some(Error::ConnectFailed(target, io::Error::other(reason)));
    }
    Some(Error::HandshakeFailed {
        switches: u32::try_from(switches.count()).unwrap_or(u32::MAX),
        connected: u32::try_from(connected).unwrap_or(u32::MAX),
        after_s: plan.handshake_timeout.as_secs(),
        reason,
    })
}
