//! What is counted, for people; and the longest way to a switch.

use std::time::{Duration, Instant};

use sluice_sdk::AppMetric;
use sluice_sdk::view::PortRole;

use super::port::{Phase, Port};

/// Frames by what became of them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) foreign: u64,
    pub(super) malformed: u64,
    pub(super) forged: u64,
    pub(super) expired: u64,
    pub(super) late: u64,
    pub(super) over_rate: u64,
    pub(super) links_lost: u64,
}

impl Counts {
    pub(super) fn show(&self, put: &mut dyn FnMut(AppMetric)) {
        let rows = [
            ("topology_links_lost", "Links that were there and went", self.links_lost),
            ("topology_probes_sent", "Probes that were sent", self.sent),
            ("topology_probes_received", "Probes of ours that came in", self.received),
            ("topology_probes_expired", "Probes of ours that were too old", self.expired),
            ("topology_probes_late", "Probes of ours from ports that had gone", self.late),
            ("topology_lldp_foreign", "Frames of LLDP of other devices", self.foreign),
            ("topology_lldp_malformed", "Frames that are no LLDP and no probes", self.malformed),
            ("topology_lldp_forged", "Frames that claimed to be probes of ours", self.forged),
            ("topology_lldp_over_rate", "Frames of ports with too many of them", self.over_rate),
        ];
        for (name, help, value) in rows {
            put(AppMetric::counter(name, help, value));
        }
    }
}

/// Ports by what they lead to.
#[derive(Debug, Default)]
pub(super) struct Ports {
    links: u64,
    down: u64,
    settling: u64,
    edge: u64,
    link: u64,
    shared: u64,
    looped: u64,
}

impl Ports {
    pub(super) fn add(&mut self, port: &Port) {
        self.links += u64::from(port.told_link.is_some());
        self.looped += u64::from(port.phase == Phase::Looped);
        let count = match port.role() {
            _ if !port.is_up() => &mut self.down,
            PortRole::Pending => &mut self.settling,
            PortRole::Edge => &mut self.edge,
            PortRole::Link => &mut self.link,
            PortRole::SharedSegment(_) => &mut self.shared,
        };
        *count += 1;
    }

    pub(super) fn show(&self, put: &mut dyn FnMut(AppMetric)) {
        let rows = [
            ("topology_links", "Links between switches, each direction apart", self.links),
            ("topology_ports_down", "Ports that carry nothing", self.down),
            ("topology_ports_settling", "Ports that may lead anywhere yet", self.settling),
            ("topology_ports_edge", "Ports that lead to hosts", self.edge),
            ("topology_ports_link", "Ports that lead to switches of this network", self.link),
            ("topology_ports_shared", "Ports that share a network of others", self.shared),
            ("topology_ports_looped", "Ports at which comes in what leaves there", self.looped),
        ];
        for (name, help, value) in rows {
            put(AppMetric::gauge(name, help, value));
        }
    }
}

/// For how long what was the greatest is remembered, once to twice.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The greatest of what was added lately.
#[derive(Debug, Default)]
pub(super) struct Greatest {
    lately: Duration,
    before: Duration,
    since: Option<Instant>,
}

impl Greatest {
    pub(super) fn add(&mut self, rtt: Duration, now: Instant) {
        // Turns to the next period if it is time.
        self.get(now);
        self.lately = self.lately.max(rtt);
    }

    pub(super) fn get(&mut self, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= REMEMBERED {
            (self.before, self.lately, self.since) = (self.lately, Duration::ZERO, Some(now));
        }
        self.lately.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_the_greatest_is_forgotten_after_a_while() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut greatest, at) = (Greatest::default(), |s| start + Duration::from_secs(s));
        greatest.add(Duration::from_secs(2), at(0));
        greatest.add(Duration::from_secs(1), at(40));
        assert_eq!(greatest.get(at(50)), Duration::from_secs(2));
        assert_eq!(greatest.get(at(70)), Duration::from_secs(1));
    }
}
