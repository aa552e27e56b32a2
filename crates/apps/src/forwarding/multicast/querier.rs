//! When queries are sent to a port.

use std::time::{Duration, Instant};

use super::Timing;
use super::messages::RESPONSE_TIME;

/// How long after the time within which hosts answer a query all answers have arrived.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);

/// Shortest time between two queries because a host has appeared.
const HOST_QUERY_INTERVAL: Duration = Duration::from_secs(10);

/// The general queries to a port in a VLAN.
#[derive(Debug)]
pub(super) struct PortQueries {
    last: Instant,
    /// When all answers to the first one have arrived.
    answered_at: Instant,
    next: Instant,
    was_answered: bool,
}

impl PortQueries {
    /// The first query is sent now. `delay` is the time that it needs to the switch and the answers back.
    pub(super) fn start(delay: Duration, timing: Timing, now: Instant) -> Self {
        let answered_at = now + RESPONSE_TIME + ANSWER_MARGIN + delay;
        // Of two at the startup. RFC 3376 §8.6, §8.7.
        let next = now + timing.query_interval() / 4;
        Self { last: now, answered_at, next, was_answered: false }
    }

    /// A host has appeared, which may be a member of groups since it was at another port.
    pub(super) fn on_host(&mut self) {
        self.next = self.next.min(self.last + HOST_QUERY_INTERVAL);
    }

    /// When something is due: a query, or that hosts had time to answer.
    pub(super) fn due(&self) -> Instant {
        if self.was_answered { self.next } else { self.next.min(self.answered_at) }
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

    /// Whether a query is due; it counts as sent.
    pub(super) fn take_due(&mut self, timing: Timing, now: Instant) -> bool {
        let is_due = self.next <= now;
        if is_due {
            (self.last, self.next) = (now, now + timing.query_interval());
        }
        is_due
    }
}
