//! Hosts and addresses that are claimed at a second place: which claims are being verified or were rejected, and how often hosts
//! and addresses may move.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{HostId, SwitchPort};

use super::host_table::AddrSource;
use crate::rate_limit::RateLimit;

/// How long a host that moved too often is kept at its port, and how long a rejected claim stays rejected.
pub(super) const HOLD: Duration = Duration::from_secs(10);

/// Claims at one time, each of which lasts for as long as a host may take to answer a probe, or for [`HOLD`].
const CLAIMS_MAX: usize = 4096;

/// Claims from one port at one time, so that no port uses up the claims of others: as many as hosts may move to a port at once.
pub(super) const CLAIMS_PER_PORT_MAX: usize = 64;

/// What moves or is claimed: a host, or one of its addresses.
pub(super) type Subject = (HostId, Option<IpAddr>);

/// Limits how often a host moves from port to port, and an address from host to host.
#[derive(Debug, Default)]
pub(super) struct MoveLimiter(HashMap<Subject, MoveCount>);

#[derive(Debug, Default)]
struct MoveCount {
    moves: RateLimit,
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
        let count = self.0.entry(subject).or_default();
        match count.blocked_until {
            Some(until) if now < until => return MoveDecision::Blocked,
            Some(_) => *count = MoveCount::default(),
            None => {}
        }
        if count.moves.admit(per_s_max, now) {
            return MoveDecision::Allowed;
        }
        count.blocked_until = Some(now + HOLD);
        MoveDecision::LimitExceeded
    }

    /// Whether a host or an address moved too often a moment ago.
    pub(super) fn is_blocked(&self, subject: Subject, now: Instant) -> bool {
        let until = self.0.get(&subject).and_then(|count| count.blocked_until);
        until.is_some_and(|until| now < until)
    }

    /// Removes counts that have no effect any more.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, count| {
            count.blocked_until.is_some_and(|until| now < until) || !count.moves.is_over(now)
        });
    }
}

/// What is claimed, and where. A claim at one port does not affect those at others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimId {
    /// The host that is claimed, or that has the claimed address.
    pub(super) owner: HostId,
    /// The claimed IP address; `None` if the claim is about the location of the host.
    pub(super) addr: Option<IpAddr>,
    /// The port at which it was claimed.
    pub(super) to: SwitchPort,
}

impl ClaimId {
    pub(super) const fn subject(self) -> Subject {
        (self.owner, self.addr)
    }
}

/// How far the verification of a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// The owner was probed.
    Probed,
    /// The owner was probed once more, as the first probe or its answer may have been lost.
    ProbedAgain,
    /// The owner has answered.
    Rejected,
}

/// A host or an address is claimed at a second place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// The host that claims the address; the owner itself if the claim is about its location.
    pub(super) claimant: HostId,
    /// How the claim of an IP address became known.
    pub(super) source: AddrSource,
    /// The location of the owner.
    pub(super) from: SwitchPort,
    /// How long the owner may take to answer a probe.
    pub(super) timeout: Duration,
    pub(super) state: ClaimState,
    /// When its state changes.
    pub(super) due: Instant,
    /// A frame with the claim, to be forwarded if it is accepted.
    pub(super) frame: Option<Box<[u8]>>,
}

/// The current claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    all: BTreeMap<ClaimId, Claim>,
    due: BTreeSet<(Instant, ClaimId)>,
    count_by_port: HashMap<SwitchPort, usize>,
}

impl Claims {
    pub(super) fn state(&self, id: ClaimId) -> Option<ClaimState> {
        self.all.get(&id).map(|claim| claim.state)
    }

    /// Whether there may be one more claim from a port.
    pub(super) fn has_room(&self, at: SwitchPort) -> bool {
        let at_port = self.count_by_port.get(&at).copied().unwrap_or_default();
        self.all.len() < CLAIMS_MAX && at_port < CLAIMS_PER_PORT_MAX
    }

    /// Adds a claim of which there is none yet.
    pub(super) fn insert(&mut self, id: ClaimId, claim: Claim) {
        self.due.insert((claim.due, id));
        *self.count_by_port.entry(id.to).or_default() += 1;
        self.all.insert(id, claim);
    }

    /// Keeps the first frame with a claim that is being verified.
    pub(super) fn hold_frame(&mut self, id: ClaimId, frame: &[u8]) {
        if let Some(claim) = self.all.get_mut(&id)
            && claim.state != ClaimState::Rejected
        {
            claim.frame.get_or_insert_with(|| frame.into());
        }
    }

    /// The host `owner` was seen at a location, or answered a probe there about an address: rejects the claims that this disproves
    /// and calls `on_rejected` for each.
    pub(super) fn reject(
        &mut self,
        owner: HostId,
        (at, addr): (SwitchPort, Option<IpAddr>),
        now: Instant,
        mut on_rejected: impl FnMut(ClaimId, &Claim),
    ) {
        let [first_port, last_port] = [(0, 0), (u64::MAX, u32::MAX)]
            .map(|(switch, port)| SwitchPort::new(DatapathId(switch), PortNo(port)));
        let last_addr = IpAddr::V6(Ipv6Addr::from(u128::MAX));
        let first = ClaimId { owner, addr: None, to: first_port };
        let last = ClaimId { owner, addr: Some(last_addr), to: last_port };
        for (&id, claim) in self.all.range_mut(first..=last) {
            let concerns = id.addr.is_none() || id.addr == addr;
            if concerns && claim.from == at && claim.state != ClaimState::Rejected {
                self.due.remove(&(claim.due, id));
                (claim.state, claim.due, claim.frame) = (ClaimState::Rejected, now + HOLD, None);
                self.due.insert((claim.due, id));
                on_rejected(id, claim);
            }
        }
    }

    /// When the state of a claim changes next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|&(due, _)| due)
    }

    /// Removes and returns a claim whose state changes now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(ClaimId, Claim)> {
        let &(due, id) = self.due.first().filter(|&&(due, _)| due <= now)?;
        self.due.remove(&(due, id));
        if let Some(count) = self.count_by_port.get_mut(&id.to) {
            *count -= 1;
            if *count == 0 {
                self.count_by_port.remove(&id.to);
            }
        }
        self.all.remove(&id).map(|claim| (id, claim))
    }
}
