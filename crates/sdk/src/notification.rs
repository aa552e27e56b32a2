//! What happens in the network, for people: what the engine and applications publish beside their facts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, MacAddr, SwitchFeatures, Version};

use crate::view::{AppEvent, HostId, SwitchPort};

/// Notifications of a worker's applications per second. More are only counted.
const NOTIFICATIONS_PER_S_MAX: u32 = 256;

/// Something that has happened and that no fact says. Views do not keep it; subscribers to the view receive it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Notification {
    /// A switch has connected.
    SwitchConnected {
        /// The switch.
        switch: DatapathId,
        /// From where.
        addr: SocketAddr,
        /// The negotiated version.
        version: Version,
        /// As described in the handshake.
        features: Arc<SwitchFeatures>,
    },
    /// A switch has disconnected.
    SwitchDisconnected {
        /// The switch.
        switch: DatapathId,
        /// The label of the reason, as in the metrics.
        reason: &'static str,
        /// The reason in words.
        text: String,
    },
    /// A port, or one of its hosts, sends too many packet-ins and is blocked or metered.
    PortBlocked(PortBlock),
    /// A port, or one of its hosts, is no longer blocked or metered.
    PortReleased(PortBlock),
    /// Two hosts use one address. The one that had it first answers, and so keeps it.
    AddressConflict {
        /// The host that has the address.
        owner: HostId,
        /// Its port.
        owner_at: SwitchPort,
        /// The IP address; `None` if both have the same Ethernet address.
        addr: Option<IpAddr>,
        /// The other host.
        claimant: HostId,
        /// Its port.
        claimant_at: SwitchPort,
        /// Whether packets of the other host are dropped.
        is_rejected: bool,
    },
    /// The flow entries that led to a port were deleted, since it leads elsewhere now, or nowhere: the next packets get other paths.
    PathsRepaired {
        /// The port.
        at: SwitchPort,
    },
    /// So many notifications of applications were not published: too many at a time.
    Suppressed(u64),
}

impl AppEvent for Notification {}

/// A block of a port or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortBlock {
    /// The port.
    pub at: SwitchPort,
    /// The host, if only packets of this one are blocked.
    pub host: Option<MacAddr>,
    /// Which packets are blocked.
    pub packets: &'static str,
    /// How many packet-ins are allowed.
    pub packets_per_s_max: u32,
    /// How long each block takes. It is repeated while too many are sent.
    pub block_s: u16,
}

/// Limits the rate of notifications.
#[derive(Debug, Default)]
pub(crate) struct NotificationLimit {
    /// Start of the current second.
    since: Option<Instant>,
    allowed: u32,
    suppressed: u64,
}

impl NotificationLimit {
    /// Whether a notification may be published now; and how many were suppressed, if that is to be published before it.
    pub(crate) fn admit(&mut self, now: Instant) -> (bool, Option<u64>) {
        let is_over = |since| now.saturating_duration_since(since) >= Duration::from_secs(1);
        let mut suppressed = None;
        if self.since.is_none_or(is_over) {
            suppressed = Some(self.suppressed).filter(|&count| count > 0);
            *self = Self { since: Some(now), ..Self::default() };
        }
        let is_allowed = self.allowed < NOTIFICATIONS_PER_S_MAX;
        self.allowed += u32::from(is_allowed);
        self.suppressed += u64::from(!is_allowed);
        (is_allowed, suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_over_the_limit_are_counted_and_the_count_is_published_with_the_next_second() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let mut limit = NotificationLimit::default();
        for n in 0..NOTIFICATIONS_PER_S_MAX + 3 {
            assert_eq!(limit.admit(start), (n < NOTIFICATIONS_PER_S_MAX, None));
        }
        assert_eq!(limit.admit(start + Duration::from_secs(1)), (true, Some(3)));
        assert_eq!(limit.admit(start + Duration::from_secs(2)), (true, None));
    }
}
