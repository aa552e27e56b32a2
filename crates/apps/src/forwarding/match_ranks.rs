//! What the flow entries of each switch match: as configured, or simpler where switches have refused that.
//!
//! The *rank* of a match is the number of finer ones. A switch that has refused a match gets simpler flow entries by
//! itself, as long as no path passes through it: a packet that arrives at a port to hosts or leaves by one does not
//! circulate, whatever these entries match. Once a path enters and leaves the switch through links, it is *in transit*,
//! and all switches get entries of its rank. `docs/adr/0022-simpler-entries-at-the-edge.md` has the proof.

use std::collections::BTreeMap;

use sluice_openflow::{DatapathId, ErrorReason};
use sluice_sdk::view::{AppRecord, NetworkView};

use super::Matching;
use sluice_sdk::routes::Hop;

impl Matching {
    /// From the finest to the simplest.
    pub(super) const ALL: [Self; 3] = [Self::FiveTuple, Self::Pair, Self::Dst];

    /// The number of finer matches.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::FiveTuple => 0,
            Self::Pair => 1,
            Self::Dst => 2,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FiveTuple => "five-tuple",
            Self::Pair => "pair",
            Self::Dst => "dst",
        }
    }

    pub(super) fn of_rank(rank: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|matching| matching.rank() == rank)
    }

    /// The finest of the matches that are simpler.
    pub(super) fn simplified(self) -> Option<Self> {
        Self::of_rank(self.rank() + 1)
    }

    /// The simpler of two matches.
    pub(super) const fn or_simpler(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }
}

/// The simplest match that a switch has refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RefusedMatch {
    pub(super) refused: Matching,
    /// The error with which the switch refused it.
    pub(super) reason: ErrorReason,
    /// Whether a path enters and leaves the switch through links, so that all switches need a simpler match.
    pub(super) in_transit: bool,
}

impl AppRecord for RefusedMatch {
    type Key = DatapathId;
}

impl RefusedMatch {
    /// The finest match that the switch may support.
    pub(super) fn supported(self) -> Matching {
        self.refused.simplified().unwrap_or(self.refused)
    }
}

/// What the flow entries of each switch match.
#[derive(Debug)]
pub(super) struct MatchRanks {
    configured: Matching,
    /// What all switches support that are in transit.
    in_transit: Matching,
    /// What each switch supports that has refused a match.
    supported: BTreeMap<DatapathId, Matching>,
}

impl MatchRanks {
    /// If no switch has refused a match.
    pub(super) const fn new(configured: Matching) -> Self {
        Self { configured, in_transit: Matching::FiveTuple, supported: BTreeMap::new() }
    }

    /// A switch has refused another match than before, or that is forgotten.
    pub(super) fn update(&mut self, id: DatapathId, view: &NetworkView) {
        match view.record::<RefusedMatch>(id) {
            Some(refused) => self.supported.insert(id, refused.supported()),
            None => self.supported.remove(&id),
        };
        let refused = view.records::<RefusedMatch>().map(|(_, refused)| refused);
        let in_transit = refused.filter(|refused| refused.in_transit);
        self.in_transit = in_transit.fold(Matching::FiveTuple, |simplest, refused| {
            simplest.or_simpler(refused.supported())
        });
    }

    pub(super) const fn configure(&mut self, configured: Matching) {
        self.configured = configured;
    }

    /// What flow entries match at switches that have refused nothing finer.
    pub(super) const fn network(&self) -> Matching {
        self.configured.or_simpler(self.in_transit)
    }

    /// What the flow entries of a switch match.
    pub(super) fn at(&self, id: DatapathId) -> Matching {
        let network = self.network();
        self.supported.get(&id).map_or(network, |&supported| network.or_simpler(supported))
    }

    /// Whether the flow entries of a switch are simpler than those of other switches.
    pub(super) fn is_own(&self, id: DatapathId) -> bool {
        self.at(id) != self.network()
    }

    /// The switches with simpler flow entries than others that a path enters and leaves through links.
    pub(super) fn own_in_transit(
        &self,
        path: &[Hop],
        start: PathStart,
    ) -> impl Iterator<Item = DatapathId> {
        let first = usize::from(start == PathStart::EdgePort);
        let hops = path.get(first..path.len().saturating_sub(1)).unwrap_or_default();
        hops.iter().map(|hop| hop.switch).filter(|&id| self.is_own(id))
    }
}

/// Where a path starts. It always ends at an edge port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathStart {
    EdgePort,
    /// At the switch that sent the packet to the controller, as the location of its source is unknown.
    Link,
}
