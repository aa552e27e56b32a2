//! Links that are taken out of service, and how far that is.
//!
//! An operator publishes a [`DrainedLink`] through [`Controller::publish`](crate::Controller::publish). An application that forwards
//! uses other links then, as far as there are any, and publishes a [`DrainProgress`] for each end.

use std::fmt;
use std::time::Duration;

use super::{AppRecord, Link, NetworkView, SwitchPort};

/// Cables that may be out of service at a time: many fewer than a network has, so that whoever publishes more errs.
pub const DRAINED_CABLES_MAX: usize = 1024;

/// The two ports that a cable connects, whichever direction is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cable {
    low: SwitchPort,
    high: SwitchPort,
}

/// A cable that is to carry no traffic, so that it can be unplugged. It stays so while it is unplugged, until the record is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainedLink {
    /// When that was asked for, since 1970-01-01 UTC.
    pub requested_at: Duration,
}

/// What a switch still sends into a cable that is to carry no traffic. The worker of the switch publishes it for the port of the
/// switch, a few times a second at most; without it nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainProgress {
    /// Flow entries of forwarding that send into the cable.
    pub entries: u32,
    /// Those of them for which there is no other path: they stay.
    pub without_alternative: u32,
    /// Flow entries of others that send into the cable: of an operator, or of another program. They are left alone.
    pub foreign_entries: u32,
    /// Whether the port has sent next to nothing but link probes in the last seconds; `false` if that is not known.
    pub is_quiet: bool,
}

impl Cable {
    /// The cable between two ports.
    pub fn new(a: SwitchPort, b: SwitchPort) -> Self {
        Self { low: a.min(b), high: a.max(b) }
    }

    /// The ports at its ends, the lower one first.
    pub const fn ends(self) -> [SwitchPort; 2] {
        [self.low, self.high]
    }
}

impl From<&Link> for Cable {
    fn from(link: &Link) -> Self {
        Self::new(link.from, link.to)
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.low, self.high)
    }
}

impl DrainProgress {
    /// Whether the cable can be unplugged at this end without losing a packet.
    pub const fn is_done(&self) -> bool {
        self.entries == 0 && self.foreign_entries == 0 && self.is_quiet
    }
}

impl AppRecord for DrainedLink {
    type Key = Cable;
}

impl AppRecord for DrainProgress {
    type Key = SwitchPort;
}

impl NetworkView {
    /// Whether a cable is to carry no traffic.
    pub fn is_drained(&self, cable: Cable) -> bool {
        self.record::<DrainedLink>(cable).is_some()
    }

    /// The cables that are to carry no traffic, in the order of their ends, plugged in or not.
    pub fn drained_cables(&self) -> impl Iterator<Item = (Cable, &DrainedLink)> {
        self.records::<DrainedLink>()
    }

    /// Numbers of changes of all that paths depend on: switches, ports, links, and which of these are drained. What was computed from
    /// them is valid while both stay the same.
    pub fn path_version(&self) -> (u64, u64) {
        (self.version(), self.records_version::<DrainedLink>())
    }

    /// Numbers of changes of switches, links and drained cables, which is all that paths between switches depend on.
    pub(crate) fn route_version(&self) -> (u64, u64) {
        (self.links_version(), self.records_version::<DrainedLink>())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sluice_openflow::{DatapathId, MacAddr, PortNo};

    use super::super::{Fact, PortInfo, PortRole, SwitchInfo};
    use super::*;
    use crate::Network;

    #[test]
    fn a_cable_is_the_same_from_both_ends() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let at = |switch, port| SwitchPort::new(DatapathId(switch), PortNo(port));
        let (cable, back) = (Cable::new(at(2, 1), at(1, 7)), Cable::new(at(1, 7), at(2, 1)));
        assert_eq!((cable, cable.ends()), (back, [at(1, 7), at(2, 1)]));
        let mut network = Network::new(0);
        let before = network.view().path_version();
        let drained = DrainedLink { requested_at: Duration::from_secs(1) };
        assert!(network.publish_record(now, cable, Some(drained)));
        assert!(network.view().is_drained(back));
        assert_ne!(network.view().path_version(), before);
        assert!(network.publish_record::<DrainedLink>(now, back, None));
        assert!(!network.view().is_drained(cable));
        assert_eq!(network.view().drained_cables().count(), 0);
    }

    #[test]
    fn a_port_that_goes_down_changes_no_route() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut network = Network::new(0);
        let at = SwitchPort::new(DatapathId(1), PortNo(1));
        let port = PortInfo {
            name: "p1".into(),
            hw_addr: MacAddr([2; 6]),
            is_up: true,
            role: PortRole::Edge,
        };
        let switch = SwitchInfo { ports: [(at.port, port.clone())].into() };
        let from = SwitchPort::new(DatapathId(2), PortNo(1));
        let is_route_change = |network: &mut Network, fact| {
            let before = (network.view().version(), network.view().route_version());
            network.publish(now, fact);
            let after = (network.view().version(), network.view().route_version());
            assert_ne!(before.0, after.0);
            before.1 != after.1
        };
        assert!(is_route_change(&mut network, Fact::Switch(at.switch, Some(switch))));
        let down = PortInfo { is_up: false, ..port };
        assert!(!is_route_change(&mut network, Fact::Port(at, Some(down))));
        assert!(!is_route_change(&mut network, Fact::Port(at, None)));
        assert!(is_route_change(&mut network, Fact::Link(at, Some(Link { from, to: at }))));
        assert!(is_route_change(&mut network, Fact::Link(at, None)));
        assert!(is_route_change(&mut network, Fact::Switch(at.switch, None)));
    }

    #[test]
    fn a_cable_can_be_unplugged_when_nothing_sends_into_it() {
        let done = DrainProgress { is_quiet: true, ..DrainProgress::default() };
        assert!(done.is_done());
        assert!(!DrainProgress::default().is_done(), "nothing is known of its traffic");
        assert!(!DrainProgress { entries: 1, ..done }.is_done());
        assert!(!DrainProgress { foreign_entries: 1, ..done }.is_done());
    }
}
