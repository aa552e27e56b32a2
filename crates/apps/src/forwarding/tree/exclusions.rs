//! Links and switches that are not part of new trees for a while, since they have failed.

use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Cable, NetworkView};

use super::failures::{FailureLimits, Failures};
use super::state::SpanningTree;

/// Links of a tree that failed. Where such a link is the only one between two parts of the network, the controller floods from one to the
/// other. That costs more than to install a tree again every few minutes, which limits the time.
const LINKS: FailureLimits =
    FailureLimits { first: Duration::from_secs(2), max: Duration::from_secs(300), count: 64 };

/// Switches that did not confirm the removal of a tree until their flow entries had expired. The time begins with the end of the removal: the
/// others had no tree for two minutes.
const SWITCHES: FailureLimits =
    FailureLimits { first: Duration::from_secs(60), max: Duration::from_secs(3600), count: 1024 };

/// The failures for which links and switches are left out.
#[derive(Debug)]
pub(super) struct FailedParts {
    links: Failures<Cable>,
    switches: Failures<DatapathId>,
}

/// What no new tree includes now.
#[derive(Debug)]
pub(super) struct Exclusions {
    pub(super) links: Vec<Cable>,
    /// In the order of their datapath ids.
    switches: Vec<DatapathId>,
}

impl Default for FailedParts {
    fn default() -> Self {
        Self { links: Failures::new(LINKS), switches: Failures::new(SWITCHES) }
    }
}

impl FailedParts {
    /// Notes which links of a tree have failed. If one of its switches is not connected, the reason may be the control connection.
    pub(super) fn add_links(&mut self, tree: &SpanningTree, now: Instant, view: &NetworkView) {
        for &[a, b] in tree.links.iter() {
            let are_connected = [a, b].iter().all(|end| view.switch(end.switch).is_some());
            if are_connected && !view.is_link(a, b) {
                self.links.add(Cable::new(a, b), now);
            }
        }
    }

    /// Notes that a switch did not confirm the removal of a tree.
    pub(super) fn add_switch(&mut self, id: DatapathId, now: Instant) {
        self.switches.add(id, now);
    }

    pub(super) fn exclusions(&self, now: Instant) -> Exclusions {
        Exclusions { links: self.links.left_out(now), switches: self.switches.left_out(now) }
    }

    /// When the next link or switch may be part of a tree again.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = [self.links.next_end(now), self.switches.next_end(now)];
        ends.into_iter().flatten().min()
    }
}

impl Exclusions {
    pub(super) fn has_switch(&self, id: DatapathId) -> bool {
        self.switches.binary_search(&id).is_ok()
    }
}
