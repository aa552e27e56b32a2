//! What applications tell one another.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::{Host, HostId, Link, PortInfo, Stand, SwitchInfo, SwitchPort, Tree};

/// Something about the network; `None` is that it is there no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A switch, with all its ports.
    Switch(DatapathId, Option<SwitchInfo>),
    /// One port of a switch that is there.
    Port(SwitchPort, Option<PortInfo>),
    /// The link that comes in at a port.
    Link(SwitchPort, Option<Link>),
    /// A host.
    Host(HostId, Option<Host>),
    /// What was heard about a host at a switch that is perhaps another worker's. No view keeps it: it is for the worker
    /// that serves the host's own switch, or asked.
    Heard(HostId, Heard),
    /// A switch cannot match as much as rules asked for: the simplest form of rules that it refused, in ranks of the
    /// application that writes them. `None` if it may match all, as far as is known.
    Unable(DatapathId, Option<u8>),
    /// The tree along which frames for all go. One worker alone says so.
    Tree(Tree),
    /// Whether a switch came with rules of an earlier process that pass on what is for all from this port: what is behind it
    /// may have such rules as well, be it connected or not.
    Old(SwitchPort, bool),
    /// How far a switch is with trees; `None` if it may have rules of any.
    Stand(DatapathId, Option<Stand>),
}

/// What is heard about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// When it was asked whether it is there and has an address, it answered.
    Answered(SwitchPort, IpAddr),
    /// A DHCP server gave it this address.
    Leased(IpAddr),
}

/// When something came to be, and which worker says so; the later one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    at: Instant,
    by: usize,
}

impl Stamp {
    /// Said at `at` by worker `by`.
    pub const fn new(at: Instant, by: usize) -> Self {
        Self { at, by }
    }

    /// When.
    pub const fn at(self) -> Instant {
        self.at
    }

    /// The same, or the next moment after `known`: who says something has heard what is known.
    pub(crate) fn after(self, known: Option<Self>) -> Self {
        match known {
            Some(known) if self <= known => {
                Self { at: known.at + Duration::from_nanos(1), by: self.by }
            }
            _ => self,
        }
    }

    pub(super) fn is_within(self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= time
    }
}

/// A fact, and when it came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedFact {
    /// When, and who says so.
    pub stamp: Stamp,
    /// What.
    pub fact: Fact,
}
