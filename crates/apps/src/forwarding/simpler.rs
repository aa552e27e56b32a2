//! A switch that cannot match what it was asked to: all switches get simpler rules from then on.
//!
//! Rules of different forms overlap, so that one switch alone cannot have others. The simpler ones have a higher
//! priority: where both are, the way that was loaded last holds, as among rules of one form.

use sluice_app::view::Fact;
use sluice_app::{Ctx, Network};
use sluice_wire::{ErrorMsg, ErrorType};

use super::repair::Gone;
use super::{Config, Forwarding, Matching, rules};

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
            Self::FiveTuple => "five_tuple",
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

impl Forwarding {
    /// Rules have the form that was set, or the simplest that was needed so far.
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
        let rank = error.cookie().map(rules::rank);
        if error.reason.kind() != ErrorType::BAD_MATCH {
            return false;
        }
        let now = self.cfg.matching;
        if rank.is_some_and(|rank| rank < now.rank()) {
            return true;
        }
        let Some(next) = Matching::of_rank(now.rank() + 1) else { return false };
        if ctx.tell(Fact::Simpler(next.rank())) {
            let (id, reason) = (ctx.id, error.reason);
            ctx.network.report(|| {
                let (now, next) = (now.name(), next.name());
                format!("{id} cannot match what `forwarding.match = \"{now}\"` asks for ({reason}): all switches get rules by `{next}`")
            });
        }
        true
    }

    /// Rules have this form at least from now on, and finer ones go. Returns how many deletions that took.
    pub(super) fn be_simpler(
        &mut self,
        rank: u8,
        now: std::time::Instant,
        network: &mut Network,
    ) -> u64 {
        self.simplest = self.simplest.max(rank);
        let finer = self.cfg.matching.rank();
        self.take_form();
        if network.worker() == 0 {
            // All workers hear of it, and one counts.
            self.counts.simplified += u64::from(self.cfg.matching.rank() - finer);
        }
        let gone = (finer..self.cfg.matching.rank()).map(Gone::Finer);
        gone.map(|gone| self.repair.begin(gone, now, &self.switches, network)).sum()
    }
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
}
