//! What applications publish.

use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::app_fact::{AppEvent, AppRecord, EventFact, RecordFact};
use super::{Host, HostId, Link, PortInfo, SwitchInfo, SwitchPort};

/// Something that is true of the network from now on. `None` means that the thing is no longer there.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A switch, with all its ports.
    Switch(DatapathId, Option<SwitchInfo>),
    /// A port of a connected switch.
    Port(SwitchPort, Option<PortInfo>),
    /// The link from which a port receives frames.
    Link(SwitchPort, Option<Link>),
    /// A host.
    Host(HostId, Option<Host>),
    /// A value whose type belongs to an application. See [`Network::publish_record`](crate::Network::publish_record).
    Record(RecordFact),
    /// A message to all instances of an application, which no view keeps. See
    /// [`Network::publish_event`](crate::Network::publish_event).
    Event(EventFact),
}

impl Fact {
    /// Key and value of a [`Record`](Self::Record) of type `T`; the value is `None` if it was removed.
    pub fn record<T: AppRecord>(&self) -> Option<(T::Key, Option<&T>)> {
        match self {
            Self::Record(fact) => fact.get(),
            _ => None,
        }
    }

    /// The [`Event`](Self::Event), if it is of type `E`.
    pub fn event<E: AppEvent>(&self) -> Option<&E> {
        match self {
            Self::Event(fact) => fact.get(),
            _ => None,
        }
    }
}

/// When a fact was published, and by which worker. Of two facts about one thing, the one with the greater stamp is
/// used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    at: Instant,
    worker: usize,
}

impl Stamp {
    /// Published at `at` by worker `worker`.
    pub const fn new(at: Instant, worker: usize) -> Self {
        Self { at, worker }
    }

    /// When the fact was published.
    pub const fn at(self) -> Instant {
        self.at
    }

    /// `self`, or the next moment after `known` if that is later: the publisher of a fact knows the previous one.
    pub(crate) fn after(self, known: Option<Self>) -> Self {
        match known {
            Some(known) if self <= known => {
                Self { at: known.at + Duration::from_nanos(1), worker: self.worker }
            }
            _ => self,
        }
    }

    /// Whether the fact is no older than `time`.
    pub(super) fn is_within(self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= time
    }
}

/// A fact with its stamp.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFact {
    /// When it was published, and by whom.
    pub stamp: Stamp,
    /// The fact.
    pub fact: Fact,
}
