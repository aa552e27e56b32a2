//! Links of a tree that have failed are not part of the next trees for a while.

use std::time::{Duration, Instant};

use sluice_sdk::view::{Cable, NetworkView};

use super::backoff::Backoff;
use super::state::SpanningTree;

/// Time for which a link of a tree that has failed is left out. It doubles each time.
const HOLD_DOWN: Duration = Duration::from_secs(2);

/// Longest of these times. Where a link that is left out is the only one between two parts of the network, the controller floods from
/// one to the other, which costs more than to install a tree again every few minutes.
const HOLD_DOWN_MAX: Duration = Duration::from_secs(300);

/// Links whose failures are remembered. Beyond, a link is used again at once; each link of a new tree is compared with them.
const LINKS_MAX: usize = 64;

/// Links of trees that have failed.
#[derive(Debug, Default)]
pub(super) struct UnstableLinks(Vec<(Cable, Backoff)>);

impl UnstableLinks {
    /// Notes which links of a tree have failed. If one of its switches is not connected, the reason may be the control connection.
    pub(super) fn note_failed(&mut self, tree: &SpanningTree, now: Instant, view: &NetworkView) {
        for &[a, b] in tree.links.iter() {
            let are_connected = [a, b].iter().all(|end| view.switch(end.switch).is_some());
            if are_connected && !view.is_link(a, b) {
                self.on_failure(Cable::new(a, b), now);
            }
        }
    }

    fn on_failure(&mut self, cable: Cable, now: Instant) {
        if let Some((_, backoff)) = self.0.iter_mut().find(|(failed, _)| *failed == cable) {
            return backoff.on_failure(now);
        }
        self.0.retain(|(_, backoff)| backoff.is_remembered(now));
        if self.0.len() < LINKS_MAX {
            let mut backoff = Backoff::new(HOLD_DOWN, HOLD_DOWN_MAX);
            backoff.on_failure(now);
            self.0.push((cable, backoff));
        }
    }

    /// The links that are left out of new trees now.
    pub(super) fn held_down(&self, now: Instant) -> Vec<Cable> {
        let active = self.0.iter().filter(|(_, backoff)| backoff.is_active(now));
        active.map(|&(cable, _)| cable).collect()
    }

    /// When the next link may be part of a tree again.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        self.0.iter().filter_map(|(_, backoff)| backoff.end(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, PortNo};
    use sluice_sdk::view::SwitchPort;

    use super::*;

    fn cable(n: u64) -> Cable {
        let port = |id| SwitchPort::new(DatapathId(id), PortNo(1));
        Cable::new(port(2 * n), port(2 * n + 1))
    }

    #[test]
    fn a_link_that_fails_again_is_left_out_for_twice_as_long_up_to_five_minutes() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let mut now = Instant::now();
        let mut links = UnstableLinks::default();
        for seconds in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!((links.held_down(now), links.next_end(now)), (vec![], None));
            links.on_failure(cable(1), now);
            let end = now + Duration::from_secs(seconds);
            assert_eq!(links.next_end(now), Some(end));
            assert_eq!(
                links.held_down(now + Duration::from_millis(1000 * seconds - 1)),
                [cable(1)]
            );
            now = end;
        }
        now += HOLD_DOWN_MAX;
        links.on_failure(cable(1), now);
        assert_eq!(links.next_end(now), Some(now + HOLD_DOWN));
    }

    #[test]
    fn a_bounded_number_of_links_is_remembered_and_each_for_a_limited_time() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut links = UnstableLinks::default();
        let max = LINKS_MAX as u64;
        (0..2 * max).for_each(|n| links.on_failure(cable(n), now));
        assert_eq!(links.held_down(now), (0..max).map(cable).collect::<Vec<_>>());
        let later = now + HOLD_DOWN + HOLD_DOWN_MAX;
        links.on_failure(cable(max), later);
        assert_eq!((links.held_down(later), links.0.len()), (vec![cable(max)], 1));
    }
}
