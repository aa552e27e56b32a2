//! If a switch refuses a match, the flow entries of all switches get a simpler one until that switch has disconnected or reconnected.
//!
//! Rules of different forms overlap, so that one switch alone cannot have others. The simpler ones have a higher
//! priority: where both are, the way that was loaded last holds, as among rules of one form. When rules become finer again,
//! the simpler ones go, since they would hide them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, ErrorType};
use sluice_sdk::view::{AppRecord, NetworkView};
use sluice_sdk::{Ctx, Network};

use super::repair::{AGAIN_AFTER, Gone};
use super::rules::Named;
use super::{Config, Forwarding, Matching, rules, say};

/// The simplest form of flow entry whose match a switch has refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RefusedMatch {
    /// [`Matching::rank`] of that form.
    pub(super) rank: u8,
}

impl AppRecord for RefusedMatch {
    type Key = DatapathId;
}

/// The rank of the simplest form that a switch has refused, if it has refused any.
pub(super) fn refused_rank(view: &NetworkView, id: DatapathId) -> Option<u8> {
    view.record(id).map(|&RefusedMatch { rank }| rank)
}

/// [`refused_rank`] of all switches that have refused any.
fn refused_ranks(view: &NetworkView) -> impl Iterator<Item = u8> {
    view.records().map(|(_, &RefusedMatch { rank })| rank)
}

impl Matching {
    /// From the finest to the simplest.
    const ALL: [Self; 3] = [Self::FiveTuple, Self::Pair, Self::Dst];

    /// How many forms are finer.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::FiveTuple => 0,
            Self::Pair => 1,
            Self::Dst => 2,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::FiveTuple => "five-tuple",
            Self::Pair => "pair",
            Self::Dst => "dst",
        }
    }

    fn of_rank(rank: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.rank() == rank)
    }
}

/// The same, with the form of this rank if that is simpler than what was set.
fn simplified(cfg: &Config, rank: u8) -> Config {
    let Some(matching) = Matching::of_rank(rank.max(cfg.matching.rank())) else {
        return cfg.clone();
    };
    let steps = matching.rank() - cfg.matching.rank();
    Config { matching, priority: cfg.priority.saturating_add(steps.into()), ..cfg.clone() }
}

/// Switches that are remembered with what they could not match. Beyond, those that change nothing are not.
const UNABLE_MAX: usize = 4096;

/// When what switches could not match is forgotten, so that a finer form is tried again.
///
/// Each time, all ways are loaded anew, twice if it is in vain. So a switch must have left, or have come again, a while
/// ago, and that while is twice as long each time that a finer form did not last as long.
#[derive(Debug, Default)]
pub(super) struct Retries {
    due: BTreeMap<DatapathId, Instant>,
    /// When rules became finer, until they become simpler.
    finer_since: Option<Instant>,
    /// How often in a row that did not last.
    in_vain: u32,
    /// The rank of the simplest form that there has been: switches that were away may have rules of it.
    simplest: u8,
}

/// The least and the most time that must pass, whatever is set and however often it was in vain.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

impl Retries {
    /// How long it takes; `base` before anything was in vain.
    fn time(&self, base: Duration) -> Duration {
        let [least, most] = RETRY;
        let base = base.max(least);
        base.saturating_mul(1 << self.in_vain.min(16)).min(base.max(most))
    }

    fn became_finer(&mut self, now: Instant) {
        self.finer_since = Some(now);
    }

    fn became_simpler(&mut self, now: Instant, base: Duration) {
        if let Some(since) = self.finer_since.take() {
            let has_lasted = now.saturating_duration_since(since) >= self.time(base);
            self.in_vain = if has_lasted { 0 } else { self.in_vain.saturating_add(1) };
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<DatapathId> {
        let due = self.due.iter().filter(|&(_, &at)| at <= now).map(|(&id, _)| id).collect();
        self.due.retain(|_, at| *at > now);
        due
    }
}

impl Forwarding {
    /// Rules have the form that was set, or the finest that all switches can match.
    pub(super) fn take_form(&mut self) {
        self.cfg = simplified(&self.configured, self.simplest);
        self.waiting.clear();
        for local in self.locals.iter_mut().flatten() {
            local.configure(&self.cfg);
        }
    }

    /// A switch refused a rule: whether it is because it cannot match so much, and others can be written. A rule that is
    /// simpler already may be on its way.
    pub(super) fn simplify(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) -> bool {
        if error.reason.kind() != ErrorType::BAD_MATCH {
            return false;
        }
        let refused = error.cookie().and_then(|cookie| Matching::of_rank(rules::rank(cookie)));
        let next = refused.and_then(|form| Matching::of_rank(form.rank() + 1));
        let (Some(refused), Some(next)) = (refused, next) else { return false };
        let (id, reason, view) = (ctx.datapath_id, error.reason, ctx.view());
        if refused_rank(view, id).is_some_and(|known| known >= refused.rank()) {
            return true;
        }
        let is_step = next.rank() > self.cfg.matching.rank()
            && refused_ranks(view).all(|known| known < refused.rank());
        if !is_step && refused_ranks(view).count() >= UNABLE_MAX {
            return true;
        }
        ctx.publish_record(id, Some(RefusedMatch { rank: refused.rank() }));
        if is_step {
            ctx.network.report(|| {
                let (refused, next) = (refused.name(), next.name());
                format!("{id} does not support `forwarding.match = \"{refused}\"` ({reason}): flow entries of all switches match `{next}` instead")
            });
        }
        true
    }

    /// A switch has left, or has come again: after a while, it is not held against it any more what it refused before.
    pub(super) fn moved(&mut self, id: DatapathId, now: Instant, view: &NetworkView) {
        if refused_rank(view, id).is_some() {
            let due = now + self.retries.time(self.cfg.refused_retry);
            self.retries.due.insert(id, due);
        }
    }

    /// A switch has come that may have been away when rules became finer: what would hide them goes.
    pub(super) fn uncover(&mut self, ctx: &mut Ctx<'_>) {
        let named = Named::of(ctx.switch.version());
        let simpler = self.cfg.matching.rank() + 1..=self.retries.simplest;
        for rule in simpler.filter_map(|rank| named.delete_form(rank)) {
            say(ctx.switch.flow_mod(&rule));
            self.counters.stale_deletions += 1;
        }
    }

    /// Forgets what switches refused that have left, or have come again, a while ago. All workers do, and agree.
    pub(super) fn forget_unable(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.retries.take_due(ctx.now) {
            ctx.publish_record::<RefusedMatch>(id, None);
        }
    }

    /// A switch is known to refuse rules of a form, or no longer. Returns how many deletions it led to.
    pub(super) fn told_unable(
        &mut self,
        id: DatapathId,
        rank: Option<u8>,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        self.retries.due.remove(&id);
        self.switches.set_unable(id, rank.is_some());
        if network.view().switch(id).is_none() {
            self.moved(id, now, network.view());
        }
        let most = refused_ranks(network.view()).max();
        self.simplest = most.map_or(0, |rank| rank.saturating_add(1));
        let (old, new) = (self.cfg.matching, simplified(&self.configured, self.simplest).matching);
        if new == old {
            return 0;
        }
        self.take_form();
        self.repair.spare_form(new.rank());
        // All workers hear of it, and one says so.
        let is_first = network.worker() == 0;
        if new.rank() > old.rank() {
            self.retries.became_simpler(now, self.cfg.refused_retry);
            self.retries.simplest = self.retries.simplest.max(new.rank());
            if is_first {
                self.counters.match_simplified += u64::from(new.rank() - old.rank());
            }
        } else {
            self.retries.became_finer(now);
            self.switches.ask_again(now + AGAIN_AFTER);
            if is_first {
                network.report(|| again(new, self.configured.matching));
            }
        }
        let others = Matching::ALL.into_iter().filter(|&form| form != new).map(Matching::rank);
        let range = old.rank().min(new.rank())..=old.rank().max(new.rank());
        let gone = others.filter(|rank| range.contains(rank)).map(Gone::Form);
        gone.map(|gone| self.repair.begin(gone, now, &self.switches, network)).sum()
    }
}

/// What is said when rules are finer again.
fn again(form: Matching, configured: Matching) -> String {
    let (name, as_configured) =
        (form.name(), if form == configured { ", as configured" } else { "" });
    format!(
        "flow entries of all switches match `{name}` again{as_configured}: the switch that refused this has disconnected or reconnected"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_simpler_and_above_the_one_before() {
        let steps = |matching, priority| {
            let cfg = Config { matching, priority, ..Config::default() };
            [0, 1, 2, 9].map(|rank| {
                let now = simplified(&cfg, rank);
                (now.matching, now.priority)
            })
        };
        let (five, pair, dst) = (Matching::FiveTuple, Matching::Pair, Matching::Dst);
        assert_eq!(steps(five, 100), [(five, 100), (pair, 101), (dst, 102), (five, 100)]);
        assert_eq!(steps(pair, 7), [(pair, 7), (pair, 7), (dst, 8), (pair, 7)]);
        assert_eq!(steps(dst, 65_535)[2], (dst, 65_535));
    }

    #[test]
    fn it_is_said_whether_rules_are_as_configured() {
        let why = "the switch that refused this has disconnected or reconnected";
        let [pair, five] =
            [Matching::Pair, Matching::FiveTuple].map(|set| again(Matching::Pair, set));
        assert_eq!(
            pair,
            format!("flow entries of all switches match `pair` again, as configured: {why}")
        );
        assert_eq!(five, format!("flow entries of all switches match `pair` again: {why}"));
    }

    #[test]
    fn the_time_doubles_while_it_is_in_vain_and_begins_anew_when_it_was_not() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let (start, s) = (Instant::now(), Duration::from_secs);
        let (mut retries, base) = (Retries::default(), s(10));
        let mut now = start;
        let mut fail_after = |time| {
            retries.became_finer(now);
            now += time;
            retries.became_simpler(now, base);
            // A second step of the same trouble.
            retries.became_simpler(now, base);
            retries.time(base)
        };
        assert_eq!([fail_after(s(1)), fail_after(s(19)), fail_after(s(1))], [s(20), s(40), s(80)]);
        assert_eq!([fail_after(s(80)), fail_after(s(9))], [s(10), s(20)]);
        assert_eq!((0..40).map(|_| fail_after(s(0))).max(), Some(s(3600)));
        let others = [Duration::ZERO, s(7200)];
        assert_eq!(others.map(|base| Retries::default().time(base)), [s(1), s(7200)]);
    }
}
