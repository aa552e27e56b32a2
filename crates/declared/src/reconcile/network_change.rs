//! A change that is made at all connected switches or at none: in two phases.
//!
//! ```text
//!  preparing ──▶ changing ──▶ ready ──▶ committing ──▶ made
//!      │            │           │           │
//!      └────────────┴───────────┴───────────┴──▶ refused
//! ```
//!
//! Switches that can say without an effect whether they would accept their part are prepared first. Those that cannot are changed when
//! all these are prepared. Then the change is ready: it becomes what is declared, and the prepared switches commit.
//! A switch that disconnects takes no part any more, and is made as declared when it connects.

use std::fmt;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::Reconciler;
use super::switch::{PartState, Switch};
use crate::change::AppliedChange;
use crate::names::SwitchNames;
use crate::status::Now;

/// How long all switches may take until the change is ready. Open vSwitch discards a bundle that is not used for 10 s.
pub(crate) const PREPARE_MAX: Duration = Duration::from_secs(8);

/// Why a switch has refused its part of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRefusal {
    /// The entry, if it is known.
    pub entry: Option<String>,
    /// Why.
    pub reason: String,
}

/// Which switch has refused a change, so that it was made nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRefusal {
    /// The switch.
    pub switch: DatapathId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it has refused.
    pub part: Box<PartRefusal>,
}

impl NetworkRefusal {
    fn new(switch: &Switch, part: PartRefusal) -> Self {
        let name = switch.names.shown().map(str::to_owned);
        Self { switch: switch.id(), name, part: Box::new(part) }
    }
}

impl SwitchNames {
    /// The name for people: the one that an operator has given, or else its own.
    fn shown(&self) -> Option<&str> {
        self.given.as_deref().or(self.own.as_deref())
    }
}

impl fmt::Display for PartRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = &self.entry {
            write!(f, "{entry}: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl fmt::Display for NetworkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "refused by switch {name} ({}): {}", self.switch, self.part),
            None => write!(f, "refused by switch {}: {}", self.switch, self.part),
        }
    }
}

/// What a change of the whole network has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkState {
    /// It waits for switches.
    InProgress,
    /// It can be decided: [`Reconciler::commit_network_change`].
    Ready,
    /// No switch has it, or those that have are put back.
    Refused(NetworkRefusal),
    /// All connected switches have it, so long after the commits were sent.
    Made(Duration),
}

#[derive(Debug)]
pub(super) struct NetworkChange {
    state: NetworkState,
    /// Whether all that can be prepared are, and the others are being changed.
    is_changing: bool,
    /// When the commits were sent.
    committing_since: Option<Instant>,
    deadline: Instant,
}

impl Reconciler {
    /// The name of a switch, if it is connected and has one.
    pub(crate) fn switch_name(&self, id: DatapathId) -> Option<&str> {
        self.switches.get(&id)?.names.shown()
    }

    /// Begins to prepare a change. It is not what is declared before it is committed. There is one at a time.
    pub(crate) fn start_network_change(&mut self, change: &AppliedChange, now: Now) {
        for switch in self.switches.values_mut() {
            switch.take_part(change, &self.entries, now);
        }
        self.network_change = Some(NetworkChange {
            state: NetworkState::InProgress,
            is_changing: false,
            committing_since: None,
            deadline: now.at + PREPARE_MAX,
        });
        self.tick(now);
    }

    /// What the change has come to; `None` if there is none.
    pub(crate) fn network_state(&self) -> Option<NetworkState> {
        self.network_change.as_ref().map(|change| change.state.clone())
    }

    /// Makes the change what is declared, after the store has recorded it.
    pub(crate) fn commit_network_change(&mut self, change: &AppliedChange, now: Now) {
        // The commits go out first, one after the other.
        for switch in self.switches.values_mut() {
            self.out.session = switch.session;
            switch.commit_part(&mut self.out);
        }
        if let Some(network_change) = &mut self.network_change {
            network_change.state = NetworkState::InProgress;
            network_change.committing_since = Some(now.at);
        }
        self.apply(change, now);
    }

    /// Forgets the change. What is not committed is given up, and put back where it had an effect.
    pub(crate) fn end_network_change(&mut self, now: Now) {
        self.network_change = None;
        for switch in self.switches.values_mut() {
            self.out.session = switch.session;
            switch.abandon_part(&mut self.out);
        }
        self.tick(now);
    }

    /// Goes on with the change as far as the switches are.
    pub(super) fn advance_network_change(&mut self, now: Now) {
        let Some(change) = &mut self.network_change else { return };
        if change.state != NetworkState::InProgress {
            return;
        }
        let parts = || {
            let switches = self.switches.values();
            switches.filter_map(|switch| Some((switch, &switch.part.as_ref()?.state)))
        };
        let refusal = parts().find_map(|(switch, state)| match state {
            PartState::Refused(part) => Some(NetworkRefusal::new(switch, part.clone())),
            _ => None,
        });
        let is_busy = |state: &PartState| match state {
            PartState::Waiting
            | PartState::Preparing
            | PartState::Changing
            | PartState::Committing => true,
            PartState::Held => change.is_changing,
            PartState::Prepared | PartState::Made | PartState::Left | PartState::Refused(_) => {
                false
            }
        };
        let busy = parts().find(|(_, state)| is_busy(state)).map(|(switch, _)| switch);
        change.state = match (refusal, busy) {
            (Some(refusal), _) => NetworkState::Refused(refusal),
            (None, Some(switch))
                if change.committing_since.is_none() && now.at >= change.deadline =>
            {
                NetworkState::Refused(NetworkRefusal::new(switch, switch.part_delay()))
            }
            (None, Some(_)) => return,
            (None, None) if change.is_changing => match change.committing_since {
                Some(since) => NetworkState::Made(now.at.saturating_duration_since(since)),
                None => NetworkState::Ready,
            },
            (None, None) => {
                change.is_changing = true;
                for switch in self.switches.values_mut() {
                    self.out.session = switch.session;
                    switch.start_held(&mut self.out);
                }
                return self.advance_network_change(now);
            }
        };
    }

    /// When the change is given up.
    pub(super) fn network_deadline(&self) -> Option<Instant> {
        let change = self.network_change.as_ref()?;
        let is_open = change.state == NetworkState::InProgress && change.committing_since.is_none();
        is_open.then_some(change.deadline)
    }
}
