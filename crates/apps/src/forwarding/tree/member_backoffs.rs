//! For how long a switch is left out of trees, or gets no entries for groups, and what is remembered of that while it is disconnected.

use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::backoff::Backoff;

/// Time after which a switch that refused a flow entry of a tree, or confirmed it too late, is tried again. It doubles each time.
pub(super) const RETRY: Duration = Duration::from_secs(60);

/// The same for entries for groups: each attempt may remove the tree for some seconds.
const GROUPS_RETRY: Duration = Duration::from_secs(600);

/// Time for which a switch is left out that did not confirm the deletion of its entries in time, or before it disconnected: each time may
/// cost the others their tree for two minutes. It doubles each time. A connection that was lost at a bad moment costs next to nothing.
const UNCONFIRMED_RETRY: Duration = Duration::from_secs(1);

/// Longest of these times; a switch that has not failed for as long after one is over starts anew.
const RETRY_MAX: Duration = Duration::from_secs(3600);

/// Switches without a connection whose failures are remembered. If there are more, the one with the least time left is forgotten. Those that
/// only did not confirm a deletion go first, since any client can fail to do so, under any datapath id. Networks have fewer switches that
/// fail, and an entry takes some dozen bytes.
const KEPT_MAX: usize = 1024;

/// Times without flow entries of a switch.
#[derive(Debug)]
pub(super) struct Backoffs {
    /// While it is not part of a tree, as it refused an entry or confirmed it too late.
    pub(super) left_out: Backoff,
    /// While it gets no entries for groups.
    pub(super) without_groups: Backoff,
    /// While it is not part of a tree, as it disconnected before it confirmed that it has no entries, or confirmed it late.
    pub(super) unconfirmed: Backoff,
}

impl Default for Backoffs {
    fn default() -> Self {
        Self {
            left_out: Backoff::new(RETRY, RETRY_MAX),
            without_groups: Backoff::new(GROUPS_RETRY, RETRY_MAX),
            unconfirmed: Backoff::new(UNCONFIRMED_RETRY, RETRY_MAX),
        }
    }
}

impl Backoffs {
    fn are_remembered(&self, now: Instant) -> bool {
        let all = [&self.left_out, &self.without_groups, &self.unconfirmed];
        all.iter().any(|backoff| backoff.is_remembered(now))
    }

    /// How much it matters to remember them: whether the switch had entries of a tree when it failed, and until when it is remembered.
    fn value(&self, now: Instant) -> (bool, Option<Instant>) {
        let [left_out, without_groups, unconfirmed] =
            [&self.left_out, &self.without_groups, &self.unconfirmed]
                .map(Backoff::remembered_until);
        let had_entries = left_out.max(without_groups).filter(|&until| now < until);
        (had_entries.is_some(), had_entries.or(unconfirmed))
    }
}

/// Those of switches that have disconnected.
#[derive(Debug, Default)]
pub(super) struct KeptBackoffs(Vec<(DatapathId, Backoffs)>);

impl KeptBackoffs {
    /// Remembers the failures of a switch that has disconnected, if any count, and forgets those of another one if there are too many.
    pub(super) fn keep(&mut self, id: DatapathId, backoffs: Backoffs, now: Instant) {
        if !backoffs.are_remembered(now) {
            return;
        }
        self.0.retain(|(_, backoffs)| backoffs.are_remembered(now));
        self.0.push((id, backoffs));
        if self.0.len() > KEPT_MAX {
            let values = self.0.iter().map(|(_, backoffs)| backoffs.value(now));
            if let Some((at, _)) = values.enumerate().min_by_key(|&(_, value)| value) {
                self.0.swap_remove(at);
            }
        }
    }

    /// Those of a switch that connects again.
    pub(super) fn take(&mut self, id: DatapathId) -> Option<Backoffs> {
        let at = self.0.iter().position(|(known, _)| *known == id)?;
        Some(self.0.swap_remove(at).1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any client can disconnect before it confirms a deletion, under any datapath id.
    #[test]
    fn clients_that_confirm_nothing_do_not_have_failures_of_other_switches_forgotten() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut kept = KeptBackoffs::default();
        let fail = |kept: &mut KeptBackoffs, id: u64, had_entries: bool| {
            let (mut backoffs, now) = (Backoffs::default(), now + Duration::from_millis(id));
            if had_entries {
                backoffs.left_out.on_failure(now);
            } else {
                backoffs.unconfirmed.on_failure(now);
            }
            kept.keep(DatapathId(id), backoffs, now);
        };
        let has = |kept: &KeptBackoffs, id| kept.0.iter().any(|(known, _)| known.0 == id);
        let max = KEPT_MAX as u64;
        // The last ones fill it: the first of them is forgotten, and no switch that had entries.
        (0..10).for_each(|id| fail(&mut kept, id, true));
        (10..=max).for_each(|id| fail(&mut kept, id, false));
        assert_eq!(kept.len(), KEPT_MAX);
        assert!((0..10).all(|id| has(&kept, id)) && !has(&kept, 10) && has(&kept, max));
        // A switch that had entries replaces one of them as well.
        fail(&mut kept, max + 1, true);
        assert!(has(&kept, max + 1) && !has(&kept, 11) && has(&kept, 12));
        // If there are only such switches, it replaces the one that would be forgotten first, and others are forgotten at once.
        (max + 2..2 * max - 9).for_each(|id| fail(&mut kept, id, true));
        assert!(has(&kept, 0) && !has(&kept, max));
        fail(&mut kept, 2 * max, false);
        assert!(has(&kept, 0) && !has(&kept, 2 * max));
        fail(&mut kept, 2 * max, true);
        assert!(!has(&kept, 0) && has(&kept, 1) && has(&kept, 2 * max));
        assert_eq!(kept.len(), KEPT_MAX);
    }
}
