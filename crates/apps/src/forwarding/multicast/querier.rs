//! When queries are sent to a port.

use std::time::{Duration, Instant};

use super::Timing;
use super::messages::RESPONSE_TIME;

/// Queries to a port that has come up, or of a switch that has connected. RFC 3376 §8.7.
const STARTUP_QUERIES: u32 = 2;

/// How long after the time within which hosts answer a query all answers have arrived.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);

/// Shortest time between two queries because a host has appeared.
const HOST_QUERY_INTERVAL: Duration = Duration::from_secs(10);

/// The general queries to a port in a VLAN.
#[derive(Debug)]
pub(super) struct PortQueries {
    sent: u32,
    last: Instant,
    /// Whether the next query is sent even if a router sends queries.
    is_forced: bool,
    /// When all answers to the first one have arrived.
    answered_at: Instant,
    next: Instant,
    was_answered: bool,
}

/// Which queries are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DueQuery {
    /// One that is sent in any case.
    Forced,
    /// One that is sent if no router sends queries.
    Periodic,
}

impl PortQueries {
    /// The first query is sent now. `delay` is the time that it needs to the switch and the answers back.
    pub(super) fn start(delay: Duration, timing: Timing, now: Instant) -> Self {
        let answered_at = now + RESPONSE_TIME + ANSWER_MARGIN + delay;
        // RFC 3376 §8.6.
        let next = now + timing.query_interval() / 4;
        Self { sent: 1, last: now, is_forced: true, answered_at, next, was_answered: false }
    }

    /// A host has appeared, which may be a member of groups since it was at another port.
    pub(super) fn on_host(&mut self) {
        let at = self.last + HOST_QUERY_INTERVAL;
        if at < self.next {
            (self.next, self.is_forced) = (at, true);
        }
    }

    /// Whether hosts had time to answer.
    pub(super) fn is_answered(&self, now: Instant) -> bool {
        self.answered_at <= now
    }

    /// Whether hosts had time to answer; `true` only once.
    pub(super) fn take_answered(&mut self, now: Instant) -> bool {
        let is_new = self.is_answered(now) && !self.was_answered;
        self.was_answered |= is_new;
        is_new
    }

    /// The query that is due, if one is; it counts as sent.
    pub(super) fn take_due(&mut self, timing: Timing, now: Instant) -> Option<DueQuery> {
        if now < self.next {
            return None;
        }
        self.sent = self.sent.saturating_add(1);
        let is_forced = std::mem::replace(&mut self.is_forced, self.sent < STARTUP_QUERIES);
        (self.last, self.next) = (now, now + timing.query_interval());
        Some(if is_forced { DueQuery::Forced } else { DueQuery::Periodic })
    }
}
