//! Metrics, and the longest recent round-trip time of the control connections.

use std::time::{Duration, Instant};

use sluice_sdk::AppMetric;
use sluice_sdk::view::PortRole;

use super::port::{Port, PortPhase};

/// Counters of this worker.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: u64,
    /// Probes with a valid signature.
    pub(super) received: u64,
    /// LLDP frames that are no probes.
    pub(super) foreign: u64,
    pub(super) malformed: u64,
    /// Probes with a wrong signature.
    pub(super) forged: u64,
    /// Probes that took too long.
    pub(super) expired: u64,
    /// Probes from a port that was down or deleted after they were sent.
    pub(super) outdated: u64,
    /// Frames beyond the rate limit of their port.
    pub(super) over_limit: u64,
    pub(super) links_lost: u64,
    /// Links that appeared at ports that had been edge ports for long.
    pub(super) unexpected_links: u64,
}

impl Counters {
    pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let rows = [
            (
                "topology_links_lost",
                "Links that failed or were removed, each direction on its own",
                self.links_lost,
            ),
            (
                "topology_unexpected_links",
                "Links that appeared at ports that had led to hosts for long, each direction on its own",
                self.unexpected_links,
            ),
            ("topology_probes_sent", "LLDP and broadcast probes sent", self.sent),
            ("topology_probes_received", "Valid probes received", self.received),
            (
                "topology_probes_expired",
                "Probes ignored as they were received too late",
                self.expired,
            ),
            (
                "topology_probes_outdated",
                "Probes ignored as their port has gone down since they were sent",
                self.outdated,
            ),
            ("topology_lldp_foreign", "LLDP frames of other devices received", self.foreign),
            (
                "topology_lldp_malformed",
                "Frames received that are neither valid LLDP nor a probe",
                self.malformed,
            ),
            ("topology_lldp_forged", "Probes received with a wrong signature", self.forged),
            (
                "topology_lldp_over_limit",
                "LLDP frames and probes ignored as their port received too many",
                self.over_limit,
            ),
        ];
        for (name, help, value) in rows {
            put(AppMetric::counter(name, help, value));
        }
    }
}

/// Numbers of links and of ports by role.
#[derive(Debug, Default)]
pub(super) struct PortCounts {
    links: u64,
    down: u64,
    pending: u64,
    edge: u64,
    link: u64,
    shared_segment: u64,
    looped: u64,
}

impl PortCounts {
    pub(super) fn add(&mut self, port: &Port) {
        self.links += u64::from(port.published_link().is_some());
        self.looped += u64::from(port.phase == PortPhase::Looped);
        let count = match port.role() {
            _ if !port.is_up() => &mut self.down,
            PortRole::Pending => &mut self.pending,
            PortRole::Edge | PortRole::Bundle(_) => &mut self.edge,
            PortRole::Link => &mut self.link,
            PortRole::SharedSegment(_) => &mut self.shared_segment,
        };
        *count += 1;
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.links += other.links;
        self.down += other.down;
        self.pending += other.pending;
        self.edge += other.edge;
        self.link += other.link;
        self.shared_segment += other.shared_segment;
        self.looped += other.looped;
    }

    pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let rows = [
            ("topology_links", "Links between switches, each direction on its own", self.links),
            ("topology_ports_down", "Ports that are down", self.down),
            ("topology_ports_pending", "Ports whose role is not known yet", self.pending),
            ("topology_ports_edge", "Edge ports", self.edge),
            ("topology_ports_link", "Ports at a link to another switch", self.link),
            (
                "topology_ports_shared_segment",
                "Ports at a segment that several ports of this network share",
                self.shared_segment,
            ),
            ("topology_ports_looped", "Ports that receive their own probes", self.looped),
        ];
        for (name, help, value) in rows {
            put(AppMetric::gauge(name, help, value));
        }
    }
}

/// A maximum is kept for one to two of these periods.
const PERIOD: Duration = Duration::from_secs(30);

/// The maximum of the durations that were added in the last [`PERIOD`] or two.
#[derive(Debug, Default)]
pub(super) struct RecentMax {
    current: Duration,
    previous: Duration,
    /// Start of the current period.
    since: Option<Instant>,
}

impl RecentMax {
    pub(super) fn add(&mut self, rtt: Duration, now: Instant) {
        // Begins the next period if the current one is over.
        self.get(now);
        self.current = self.current.max(rtt);
    }

    pub(super) fn get(&mut self, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= PERIOD {
            (self.previous, self.current, self.since) = (self.current, Duration::ZERO, Some(now));
        }
        self.current.max(self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_forgotten_after_two_periods() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut max, at) = (RecentMax::default(), |s| start + Duration::from_secs(s));
        max.add(Duration::from_secs(2), at(0));
        max.add(Duration::from_secs(1), at(40));
        assert_eq!(max.get(at(50)), Duration::from_secs(2));
        assert_eq!(max.get(at(70)), Duration::from_secs(1));
    }
}
