//! What an operator declares and Sluice keeps: static flow entries, groups and meters in the switches; policies; quarantined hosts;
//! drained links.
//!
//! [`Declared`] is the service: it validates changes, makes them durable in a [store], and keeps the switches as declared,
//! on a thread of its own. What is sent to which switch is decided by the [`reconcile::Reconciler`], which has no I/O: sessions,
//! answers and times go in, requests come out. See `docs/static-entries.md`.

mod change;
mod entry;
mod form;
mod names;
mod network_write;
mod operations;
mod policy;
mod quarantine;
pub mod reconcile;
mod reports;
mod runner;
mod service;
mod status;
pub mod store;
#[cfg(test)]
mod tests;

pub use change::{
    Change, ChangeError, Difference, DifferenceKind, ENTRIES_MAX, SWITCHES_OF_ENTRY_MAX,
};
pub use entry::{Declaration, Entry, EntryError, Key, Kind, Reserved, Selector};
pub use names::{NameError, NameOf, Names};
pub use policy::{
    DEFAULT_TAGS, FlowError, POLICIES_ENTRIES_MAX, POLICIES_MAX, POLICY_ENTRIES_MAX,
    POLICY_FLOWS_MAX, Policy, PolicyError, PolicyPlan, PolicyTopology, PolicyVersion,
    SwitchEntries,
};
pub use quarantine::{QUARANTINES_MAX, Quarantine, QuarantineError, QuarantineInfo};
pub use reports::ChangeReport;
pub use service::{Config, Declared, Waiter, WriteError};
pub use status::{Now, State, Status};
