//! The links that nobody has cut, as far as is known: a switch that comes back most likely has those that it had.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sluice_sdk::view::{Fact, NetworkView, SwitchPort};

/// Links that are, and those that are not heard of because the switch at one of their ends is gone.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By the end where frames come in.
    links: HashMap<SwitchPort, Remembered>,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    from: SwitchPort,
    /// Since when it is not heard of.
    since: Option<Instant>,
}

impl Memory {
    /// Hears what is otherwise than before.
    pub(super) fn told(&mut self, fact: &Fact, now: Instant, view: &NetworkView) {
        match fact {
            Fact::Link(to, Some(link)) => {
                self.links.insert(*to, Remembered { from: link.from, since: None });
            }
            Fact::Link(to, None) => {
                let Some(link) = self.links.get_mut(to) else { return };
                let is_heard = |at: &SwitchPort| view.switch(at.switch).is_some();
                if is_heard(to) && is_heard(&link.from) {
                    self.links.remove(to);
                } else {
                    link.since.get_or_insert(now);
                }
            }
            Fact::Port(at, port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                if let Some(link) = self.links.remove(at) {
                    self.links.remove(&link.from);
                }
            }
            _ => {}
        }
    }

    /// Forgets what nobody has heard of for so long.
    pub(super) fn sweep(&mut self, now: Instant, hold: Duration) {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= hold;
        self.links.retain(|_, link| !link.since.is_some_and(is_over));
    }

    /// Where the link into a port began when it was heard of last.
    pub(super) fn partner(&self, at: SwitchPort) -> Option<SwitchPort> {
        self.links.get(&at).map(|link| link.from)
    }
}
