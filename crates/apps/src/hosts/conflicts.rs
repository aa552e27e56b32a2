//! Hosts and addresses that are claimed at two places: how often they may move, and which claim is rejected.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_sdk::view::{HostId, SwitchPort};

/// How long a host that moved too often is kept at its port, and how long a rejected claim stays rejected.
pub(super) const HOLD: Duration = Duration::from_secs(10);

/// Conflicts at one time. Each lasts for as long as a host may take to answer a probe, or for [`HOLD`].
const CONFLICTS_MAX: usize = 4096;

/// Period in which moves are counted.
const SECOND: Duration = Duration::from_secs(1);

/// What moves or is claimed: a host, or one of its addresses.
pub(super) type Subject = (HostId, Option<IpAddr>);

/// Limits how often a host moves from port to port, and an address from host to host.
#[derive(Debug, Default)]
pub(super) struct MoveLimiter(HashMap<Subject, MoveCount>);

#[derive(Debug)]
struct MoveCount {
    since: Instant,
    moves: u32,
    blocked_until: Option<Instant>,
}

/// The decision about a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveDecision {
    Allowed,
    /// This move exceeds the limit; further moves are blocked for [`HOLD`].
    LimitExceeded,
    Blocked,
}

impl MoveLimiter {
    /// Counts a move and decides about it.
    pub(super) fn count(&mut self, subject: Subject, now: Instant, per_s_max: u32) -> MoveDecision {
        let none = || MoveCount { since: now, moves: 0, blocked_until: None };
        let count = self.0.entry(subject).or_insert_with(none);
        match count.blocked_until {
            Some(until) if now < until => return MoveDecision::Blocked,
            Some(_) => *count = none(),
            None if now.saturating_duration_since(count.since) >= SECOND => {
                (count.since, count.moves) = (now, 0);
            }
            None => {}
        }
        count.moves += 1;
        if count.moves <= per_s_max {
            return MoveDecision::Allowed;
        }
        count.blocked_until = Some(now + HOLD);
        MoveDecision::LimitExceeded
    }

    /// Removes counts that have no effect any more.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, count| {
            count.blocked_until.is_some_and(|until| now < until)
                || now.saturating_duration_since(count.since) < SECOND
        });
    }
}

/// A host or an address was claimed at a second place, and the owner at the first place was probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The host that claims the address; the owner itself if the claim is about its location.
    pub(super) claimant: HostId,
    /// The location of the owner before the claim.
    pub(super) from: SwitchPort,
    /// The location of the claim.
    pub(super) to: SwitchPort,
    /// When the conflict ends.
    pub(super) until: Instant,
    /// The owner answered the probe.
    pub(super) is_rejected: bool,
}

/// The current conflicts.
#[derive(Debug, Default)]
pub(super) struct Conflicts(BTreeMap<Subject, Conflict>);

impl Conflicts {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= CONFLICTS_MAX
    }

    pub(super) fn contains(&self, subject: Subject) -> bool {
        self.0.contains_key(&subject)
    }

    /// Whether there is a conflict in which the owner answered.
    pub(super) fn is_rejected(&self, subject: Subject) -> bool {
        self.0.get(&subject).is_some_and(|conflict| conflict.is_rejected)
    }

    pub(super) fn insert(&mut self, subject: Subject, conflict: Conflict) {
        self.0.insert(subject, conflict);
    }

    /// The host `id` answered a probe at a location about an address: rejects the claims that this disproves and calls
    /// `on_rejected` for each.
    pub(super) fn reject(
        &mut self,
        id: HostId,
        (at, addr): (SwitchPort, IpAddr),
        now: Instant,
        mut on_rejected: impl FnMut(Subject, &Conflict),
    ) {
        let last_addr = IpAddr::V6(Ipv6Addr::from(u128::MAX));
        for (&subject, conflict) in self.0.range_mut((id, None)..=(id, Some(last_addr))) {
            let concerns = subject.1.is_none_or(|claimed| claimed == addr);
            if concerns && conflict.from == at && !conflict.is_rejected && now <= conflict.until {
                (conflict.is_rejected, conflict.until) = (true, now + HOLD);
                on_rejected(subject, conflict);
            }
        }
    }

    /// Removes and returns the conflicts that have ended.
    pub(super) fn take_ended(&mut self, now: Instant) -> Vec<(Subject, Conflict)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let has_ended = |conflict: &Conflict| conflict.until < now;
        let ended = self.0.iter().filter(|(_, conflict)| has_ended(conflict));
        let ended = ended.map(|(&subject, &conflict)| (subject, conflict)).collect();
        self.0.retain(|_, conflict| !has_ended(conflict));
        ended
    }
}
