//! Flows whose rules are on their way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::flow::Flow;

/// Flows that are remembered; of more, the packets cause a way to be loaded again.
const FLOWS_MAX: usize = 65_536;

/// Flows for which rules were written just now: a packet of theirs that comes up nevertheless was on its way before.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    until: HashMap<Flow, Instant>,
}

impl Waiting {
    /// Notes that rules for `flow` are on their way for `time`.
    pub(super) fn begin(&mut self, flow: Flow, now: Instant, time: Duration) {
        if self.until.len() >= FLOWS_MAX {
            self.sweep(now);
        }
        if self.until.len() < FLOWS_MAX {
            self.until.insert(flow, now + time);
        }
    }

    /// Whether rules for `flow` are on their way.
    pub(super) fn has(&self, flow: &Flow, now: Instant) -> bool {
        self.until.get(flow).is_some_and(|&until| now < until)
    }

    /// Forgets those that have arrived.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.until.retain(|_, until| now < *until);
    }

    /// Flows that are remembered.
    pub(super) fn len(&self) -> usize {
        self.until.len()
    }

    /// Forgets all: what was loaded may not be right any more.
    pub(super) fn clear(&mut self) {
        self.until.clear();
    }
}
