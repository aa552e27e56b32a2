//! Switches that have not confirmed the removal of a tree before their flow entries had expired are not part of the next trees for a while.

use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::backoff::Backoff;

/// Time for which such a switch is left out, from the end of the removal. It doubles each time: the others had no tree for two minutes.
const LEFT_OUT: Duration = Duration::from_secs(60);

/// Longest of these times.
const LEFT_OUT_MAX: Duration = Duration::from_secs(3600);

/// Switches that are remembered. Beyond, the one that would be forgotten first is forgotten at once.
const SWITCHES_MAX: usize = 1024;

/// Switches that have not confirmed the removal of a tree, in the order of their datapath ids.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedSwitches(Vec<(DatapathId, Backoff)>);

impl UnconfirmedSwitches {
    /// Notes that a switch has not confirmed the removal of a tree.
    pub(super) fn on_failure(&mut self, id: DatapathId, now: Instant) {
        if let Some((_, backoff)) = self.0.iter_mut().find(|(known, _)| *known == id) {
            return backoff.on_failure(now);
        }
        self.0.retain(|(_, backoff)| backoff.is_remembered(now));
        if self.0.len() >= SWITCHES_MAX {
            let ends = self.0.iter().map(|(_, backoff)| backoff.remembered_until());
            if let Some((at, _)) = ends.enumerate().min_by_key(|&(_, end)| end) {
                self.0.remove(at);
            }
        }
        let mut backoff = Backoff::new(LEFT_OUT, LEFT_OUT_MAX);
        backoff.on_failure(now);
        let at = self.0.partition_point(|&(known, _)| known < id);
        self.0.insert(at, (id, backoff));
    }

    /// The switches that are left out of new trees now, in the order of their datapath ids.
    pub(super) fn left_out(&self, now: Instant) -> Vec<DatapathId> {
        let active = self.0.iter().filter(|(_, backoff)| backoff.is_active(now));
        active.map(|&(id, _)| id).collect()
    }

    /// When the next switch may be part of a tree again.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        self.0.iter().filter_map(|(_, backoff)| backoff.end(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_would_be_forgotten_first_makes_room() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let mut switches = UnconfirmedSwitches::default();
        switches.on_failure(DatapathId(5), start);
        let mut now = start + LEFT_OUT;
        switches.on_failure(DatapathId(5), now);
        // In descending order.
        let max = SWITCHES_MAX as u64;
        for n in 0..max {
            now += Duration::from_millis(1);
            switches.on_failure(DatapathId(2 * max - n), now);
        }
        let left_out = switches.left_out(now);
        assert_eq!(left_out.len(), SWITCHES_MAX);
        assert!(left_out.is_sorted() && left_out.contains(&DatapathId(5)));
        assert!(!left_out.contains(&DatapathId(2 * max)), "the first one has made room");
        assert_eq!(switches.next_end(start), Some(start + 2 * LEFT_OUT + Duration::from_millis(2)));
    }
}
