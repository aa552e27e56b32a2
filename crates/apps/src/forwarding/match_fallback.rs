//! If a switch refuses a match, its flow entries get a simpler one, or those of all switches if a path passes through
//! it, until that switch has disconnected or reconnected.
//!
//! Simpler flow entries have a higher priority: where both exist, the path that was installed last is used, as among
//! entries with one match. When finer matches are used again, the simpler entries are deleted, since they would hide the
//! finer ones.

use std::time::Instant;

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, ErrorType};
use sluice_sdk::view::{NetworkView, PortInfo, PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::flow_entries::EntrySelector;
use super::match_ranks::{MatchRanks, PathStart, RefusedMatch};
use super::repair::{REPEAT_AFTER, Stale};
use super::{Forwarding, Matching, debug_assert_encoded, flow_entries};
use sluice_sdk::routes::Hop;

/// Switches whose refused match is recorded. The controller forwards the packets of others one by one.
pub(super) const REFUSED_MATCHES_MAX: usize = 4096;

impl Forwarding {
    /// Applies a change of what the flow entries of this switch match, or those of all.
    pub(super) fn apply_matching(&mut self, at: Option<DatapathId>) {
        self.pending.clear();
        for fast_path in self.fast_paths.iter_mut().flatten() {
            if at.is_none_or(|id| fast_path.switch == id) {
                fast_path.configure(&self.cfg, &self.ranks);
            }
        }
    }

    /// Handles a refused flow entry. Returns `true` if the switch does not support the match and a simpler one can be
    /// used. An entry with a simpler match may already be in flight.
    pub(super) fn fall_back(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) -> bool {
        if error.reason.kind() != ErrorType::BAD_MATCH {
            return false;
        }
        let refused =
            error.cookie().and_then(|cookie| Matching::of_rank(flow_entries::rank(cookie)));
        let Some(refused) = refused.filter(|refused| refused.simplified().is_some()) else {
            return false;
        };
        let (id, reason, view) = (ctx.datapath_id, error.reason, ctx.view());
        let known = view.record::<RefusedMatch>(id);
        if known.is_some_and(|known| known.refused.rank() >= refused.rank()) {
            return true;
        }
        if known.is_none() && view.records::<RefusedMatch>().count() >= REFUSED_MATCHES_MAX {
            return self.ranks.at(id).rank() > refused.rank();
        }
        let in_transit = known.is_some_and(|known| known.in_transit);
        ctx.publish_record(id, Some(RefusedMatch { refused, reason, in_transit }));
        true
    }

    /// If paths pass through switches with simpler flow entries than others, has all switches get simpler ones. Returns
    /// whether that is so: the paths cannot be installed before.
    pub(super) fn simplify_for_transit(
        &self,
        paths: [(&[Hop], PathStart); 2],
        ctx: &mut Ctx<'_>,
    ) -> bool {
        let mut is_needed = false;
        let own =
            paths.into_iter().flat_map(|(path, start)| self.ranks.own_in_transit(path, start));
        for id in own {
            is_needed = true;
            if let Some(&refused) = ctx.view().record::<RefusedMatch>(id) {
                ctx.publish_record(id, Some(RefusedMatch { in_transit: true, ..refused }));
            }
        }
        is_needed
    }

    /// A switch has disconnected or reconnected: after a while, the match that it refused is tried again.
    pub(super) fn schedule_retry(&mut self, id: DatapathId, now: Instant, view: &NetworkView) {
        if let Some(&RefusedMatch { in_transit, .. }) = view.record(id) {
            self.retries.schedule(id, in_transit, now, self.cfg.refused_retry);
        }
    }

    /// Deletes flow entries of a switch whose match is simpler than this: it may not have received the deletions that were
    /// sent when finer matches came into use.
    pub(super) fn delete_simpler_entries(&mut self, than: Matching, ctx: &mut Ctx<'_>) {
        let selector = EntrySelector::of(ctx.switch.version());
        let simpler = than.rank() + 1..=self.retries.simplest_used;
        for deletion in simpler.filter_map(|rank| selector.delete_by_rank(rank)) {
            debug_assert_encoded(ctx.switch.flow_mod(&deletion));
            self.counters.stale_deletions += 1;
        }
    }

    /// Forgets matches refused by switches that disconnected or reconnected long enough ago. All workers do this,
    /// with the same result.
    pub(super) fn expire_refused_matches(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.retries.take_due(ctx.now) {
            ctx.publish_record::<RefusedMatch>(id, None);
        }
    }

    /// A port has changed. If it leads to another switch now, the simpler flow entries of its switch to and from it are
    /// deleted, as they would pass packets on from one link to another. Returns the number of deletions sent.
    pub(super) fn delete_simpler_at_link(
        &mut self,
        at: SwitchPort,
        port: Option<&PortInfo>,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        let is_link = port.is_some_and(|port| port.is_up && port.role == PortRole::Link);
        if !is_link || !self.ranks.is_own(at.switch) {
            return 0;
        }
        self.repair.delete_stale(Stale::LinkPort(at), now, &mut self.switches, network)
    }

    /// A switch has refused another match than is recorded, or that is forgotten. Returns the number of deletions sent.
    pub(super) fn on_refused_match(
        &mut self,
        id: DatapathId,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        let is_refused = network.view().record::<RefusedMatch>(id).is_some();
        self.switches.set_refused_match(id, is_refused);
        if !is_refused {
            self.retries.cancel(id);
        } else if network.view().switch(id).is_none() {
            self.schedule_retry(id, now, network.view());
        }
        let ranks = |ranks: &MatchRanks| [ranks.network(), ranks.at(id)];
        let [old_network, old_own] = ranks(&self.ranks);
        self.ranks.update(id, network.view());
        let [new_network, new_own] = ranks(&self.ranks);
        let (base, mut deleted) = (self.cfg.refused_retry, 0);
        if old_network != new_network {
            let change = [old_network, new_network];
            self.retries.network_changed(change, now, base);
            deleted += self.change_matching(None, change, id, now, network);
        }
        if old_own != new_own {
            let change = [old_own, new_own];
            self.retries.own_changed(id, change, now, base);
            let is_covered = old_own == old_network && new_own == new_network;
            if !is_covered {
                deleted += self.change_matching(Some(id), change, id, now, network);
            }
        }
        deleted
    }

    /// Uses another match at this switch or at all, because of what the switch `id` has refused. Returns the number of
    /// deletions sent.
    fn change_matching(
        &mut self,
        at: Option<DatapathId>,
        [old, new]: [Matching; 2],
        id: DatapathId,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        self.apply_matching(at);
        let hosts = network.fast_path_hosts();
        match at {
            Some(at) => hosts.mark_changed(at),
            None => self.fast_paths.iter().flatten().for_each(|it| hosts.mark_changed(it.switch)),
        }
        self.report_change([old, new], id, at.is_none(), network);
        self.repair.keep_matching(new.rank(), at);
        if new.rank() < old.rank() {
            self.switches.query_again(at, now + REPEAT_AFTER);
        }
        let range = old.rank().min(new.rank())..=old.rank().max(new.rank());
        let obsolete = range.filter(|&rank| rank != new.rank());
        let stale = obsolete.map(|rank| Stale::Matching { rank, at });
        stale.map(|stale| self.repair.delete_stale(stale, now, &mut self.switches, network)).sum()
    }

    /// Logs and counts a change of what flow entries match. All workers receive the fact; one does this.
    fn report_change(
        &mut self,
        [old, new]: [Matching; 2],
        id: DatapathId,
        is_everywhere: bool,
        network: &mut Network,
    ) {
        if network.worker() != 0 {
            return;
        }
        if is_everywhere && new.rank() > old.rank() {
            self.counters.match_simplified += u64::from(new.rank() - old.rank());
        }
        let configured = self.cfg.matching;
        let refused = network.view().record::<RefusedMatch>(id).copied();
        network.report(|| match refused.filter(|_| new.rank() > old.rank()) {
            Some(refused) => refused_message(refused, id, is_everywhere),
            None => restored_message(new, configured, id, is_everywhere),
        });
    }
}

/// Log line when simpler matches are used.
fn refused_message(it: RefusedMatch, id: DatapathId, is_everywhere: bool) -> String {
    let (refused, simpler, reason) = (it.refused.name(), it.supported().name(), it.reason);
    let consequence = if is_everywhere {
        format!(
            ", and a path passes through it; the flow entries of all switches match \"{simpler}\" instead"
        )
    } else {
        format!("; only its own flow entries match \"{simpler}\" instead")
    };
    format!(
        "switch does not support forwarding.match = \"{refused}\"{consequence} dpid={id} reason=\"{reason}\""
    )
}

/// Log line when finer matches are used again.
fn restored_message(
    matching: Matching,
    configured: Matching,
    id: DatapathId,
    is_everywhere: bool,
) -> String {
    let (name, as_configured) =
        (matching.name(), if matching == configured { ", as configured" } else { "" });
    let switches = if is_everywhere { "all switches" } else { "a switch" };
    format!(
        "flow entries of {switches} match \"{name}\" again{as_configured}: the switch that refused this has disconnected or reconnected dpid={id}"
    )
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{ErrorCode, ErrorReason};
    use sluice_sdk::view::{Fact, RecordFact};

    use super::*;
    use crate::forwarding::Config;
    use crate::forwarding::test_network::{TestLinks, TestNetwork};

    const BAD_FIELD: ErrorReason =
        ErrorReason::Standard { kind: ErrorType::BAD_MATCH, code: ErrorCode(6) };

    const REFUSED_PAIR: RefusedMatch =
        RefusedMatch { refused: Matching::Pair, reason: BAD_FIELD, in_transit: false };

    #[test]
    fn packets_of_a_switch_whose_refused_match_cannot_be_recorded_are_forwarded_one_by_one() {
        let mut links = TestLinks { switches: 2, pairs: Vec::new() };
        links.add(1, 2);
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        net.refusing.insert(1);
        for id in (0..REFUSED_MATCHES_MAX).map(|n| DatapathId(100 + n as u64)) {
            net.publish(&Fact::Record(RecordFact::new(id, Some(REFUSED_PAIR))));
        }
        assert!(net.send(1, 2));
        let worker = &net.workers[0];
        assert!(worker.app.switches.is_paused(DatapathId(1), net.now));
        assert_eq!(worker.network.view().record::<RefusedMatch>(DatapathId(1)), None);
        assert!(net.send(1, 2));
    }

    #[test]
    fn the_log_line_says_whose_flow_entries_are_simpler_and_why() {
        let refused = REFUSED_PAIR;
        let why = "switch does not support forwarding.match = \"pair\"";
        let id = format!("dpid={} reason=\"{BAD_FIELD}\"", DatapathId(7));
        assert_eq!(
            refused_message(refused, DatapathId(7), false),
            format!("{why}; only its own flow entries match \"dst\" instead {id}")
        );
        assert_eq!(
            refused_message(refused, DatapathId(7), true),
            format!(
                "{why}, and a path passes through it; the flow entries of all switches match \"dst\" instead {id}"
            )
        );
    }

    #[test]
    fn the_log_line_says_if_the_match_is_the_configured_one() {
        let why = "the switch that refused this has disconnected or reconnected";
        let id = DatapathId(7);
        let message = |configured, is_everywhere| {
            restored_message(Matching::Pair, configured, id, is_everywhere)
        };
        assert_eq!(
            message(Matching::Pair, true),
            format!(
                "flow entries of all switches match \"pair\" again, as configured: {why} dpid={id}"
            )
        );
        assert_eq!(
            message(Matching::FiveTuple, false),
            format!("flow entries of a switch match \"pair\" again: {why} dpid={id}")
        );
    }
}
