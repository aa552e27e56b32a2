//! Hosts that are at two places: how often one may move, and who has what two claim.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_sdk::view::{HostId, SwitchPort};

/// How long a host that moved too often is held where it was, and a claim that was refused stays so.
pub(super) const HOLD: Duration = Duration::from_secs(10);

/// Claims that are open at one time. One lasts for as long as a host may take to answer, or for [`HOLD`].
const CLAIMS_MAX: usize = 4096;

/// The time in which moves are counted.
const SECOND: Duration = Duration::from_secs(1);

/// How often each host moved, and each address went from one host to another, of late.
#[derive(Debug, Default)]
pub(super) struct Moves(HashMap<Claimed, Moved>);

#[derive(Debug)]
struct Moved {
    since: Instant,
    times: u32,
    held_until: Option<Instant>,
}

/// Whether a host may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Move,
    /// From now on it may not.
    NoMore,
    /// It may not, still.
    Not,
}

impl Moves {
    /// Counts a move.
    pub(super) fn count(&mut self, what: Claimed, now: Instant, per_s_max: u32) -> May {
        let fresh = Moved { since: now, times: 0, held_until: None };
        let moved = self.0.entry(what).or_insert(fresh);
        match moved.held_until {
            Some(until) if now < until => return May::Not,
            Some(_) => *moved = Moved { since: now, times: 0, held_until: None },
            None if now.saturating_duration_since(moved.since) >= SECOND => {
                (moved.since, moved.times) = (now, 0);
            }
            None => {}
        }
        moved.times += 1;
        if moved.times <= per_s_max {
            return May::Move;
        }
        moved.held_until = Some(now + HOLD);
        May::NoMore
    }

    /// Forgets what says nothing any more.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, moved| {
            moved.held_until.is_some_and(|until| now < until)
                || now.saturating_duration_since(moved.since) < SECOND
        });
    }
}

/// What is claimed: a host, as being elsewhere, or one of its addresses.
pub(super) type Claimed = (HostId, Option<IpAddr>);

/// Somebody claims what a host has that was asked whether it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// Who claims it; the host itself, or who says to be it.
    pub(super) by: HostId,
    /// Where the host was.
    pub(super) from: SwitchPort,
    /// Where it is claimed.
    pub(super) to: SwitchPort,
    /// When it is over.
    pub(super) until: Instant,
    pub(super) is_refused: bool,
}

/// All claims that are open.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<Claimed, Claim>);

impl Claims {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= CLAIMS_MAX
    }

    pub(super) fn is_open(&self, claimed: Claimed) -> bool {
        self.0.contains_key(&claimed)
    }

    /// Whether it was claimed, and who has it answered a moment ago.
    pub(super) fn is_refused(&self, claimed: Claimed) -> bool {
        self.0.get(&claimed).is_some_and(|claim| claim.is_refused)
    }

    pub(super) fn open(&mut self, claimed: Claimed, claim: Claim) {
        self.0.insert(claimed, claim);
    }

    /// The host `id` was asked at `at` about `addr`, and answered: the claims that this makes untrue are refused, and
    /// handed to `refuse`.
    pub(super) fn answered(
        &mut self,
        id: HostId,
        (at, addr): (SwitchPort, IpAddr),
        now: Instant,
        mut refuse: impl FnMut(Claimed, &Claim),
    ) {
        let last = IpAddr::V6(Ipv6Addr::from(u128::MAX));
        for (&claimed, claim) in self.0.range_mut((id, None)..=(id, Some(last))) {
            let is_about = claimed.1.is_none_or(|claimed| claimed == addr);
            if is_about && claim.from == at && !claim.is_refused && now <= claim.until {
                (claim.is_refused, claim.until) = (true, now + HOLD);
                refuse(claimed, claim);
            }
        }
    }

    /// Takes those that are over.
    pub(super) fn take_over(&mut self, now: Instant) -> Vec<(Claimed, Claim)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let is_over = |claim: &Claim| claim.until < now;
        let over = self.0.iter().filter(|(_, claim)| is_over(claim));
        let over = over.map(|(&claimed, &claim)| (claimed, claim)).collect();
        self.0.retain(|_, claim| !is_over(claim));
        over
    }
}
