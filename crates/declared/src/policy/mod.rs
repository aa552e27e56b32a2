//! Policies: flow entries of several switches that are replaced such that every packet is processed by the old or by the new ones on its
//! whole path (Reitblatt et al., *Abstractions for Network Update*, SIGCOMM 2012). See `docs/policies.md`.
//!
//! Packets carry the version in a VLAN tag: the switch where a packet enters adds the tag, and further switches match it.
//! `compile.rs` makes the entries of a version, `update.rs` replaces one version with another.

mod compile;
mod error;
mod retire;
#[cfg(test)]
pub(crate) mod tests;
mod update;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_base::ordered;
use sluice_openflow::DatapathId;

pub use self::compile::PolicyTopology;
pub use self::error::{FlowError, PolicyError};
pub use self::update::PolicyPlan;
use crate::entry::{Declaration, Entry};

/// Policies that may exist.
pub const POLICIES_MAX: usize = 64;

/// Flow entries of a policy, as declared.
pub const POLICY_FLOWS_MAX: usize = 4096;

/// Flow entries of one version of a policy, at all switches.
pub const POLICY_ENTRIES_MAX: usize = 16_384;

/// Bytes of the texts of these entries.
const POLICY_BYTES_MAX: usize = 4 << 20;

/// Flow entries of all policies, with the versions that are being replaced.
pub const POLICIES_ENTRIES_MAX: usize = 65_536;

/// The VLAN ids that tag packets, unless the configuration says otherwise: two of them for each policy that is being replaced.
pub const DEFAULT_TAGS: RangeInclusive<u16> = 4000..=4031;

/// Flow entries that are replaced as a whole, for each packet.
#[derive(Debug)]
pub struct Policy {
    /// The name.
    pub name: String,
    /// As an operator has declared them.
    pub flows: Vec<Declaration>,
    /// Who has declared them: `token NAME`, `uid 1000` or `local`.
    pub by: String,
    /// When they were declared, since 1970-01-01 UTC.
    pub changed_at: Duration,
    /// What packets that enter the network are processed by; `None` if the policy is being removed.
    pub current: Option<Arc<PolicyVersion>>,
    /// A version whose transit entries are installed before it is put into effect.
    pub(crate) prepared: Option<Arc<PolicyVersion>>,
    /// Versions with which packets in flight may be tagged; only their transit entries are installed.
    pub retired: Vec<Arc<PolicyVersion>>,
}

/// What the switches get for one version of a policy.
#[derive(Debug)]
pub struct PolicyVersion {
    /// The VLAN id that marks packets of this version.
    pub tag: u16,
    /// The entries of each of its switches.
    pub entries: BTreeMap<DatapathId, SwitchEntries>,
    count: usize,
}

/// The entries of a version in one switch.
#[derive(Debug, Default)]
pub struct SwitchEntries {
    /// For packets that enter the network: they give packets that stay in it the tag.
    pub ingress: Vec<Arc<Entry>>,
    /// For packets that have the tag, and those that drop what a host sends with it.
    pub transit: Vec<Arc<Entry>>,
}

/// The record of a policy in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PolicyRecord {
    flows: Vec<Declaration>,
    by: String,
    changed_at_unix_s: u64,
    current: Option<VersionRecord>,
    retired: Vec<VersionRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VersionRecord {
    tag: u16,
    revision: u64,
    switches: Vec<SwitchRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SwitchRecord {
    dpid: u64,
    ingress: Vec<Declaration>,
    transit: Vec<Declaration>,
}

impl Policy {
    /// All versions of which switches have entries.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Arc<PolicyVersion>> {
        self.current.iter().chain(&self.prepared).chain(&self.retired)
    }

    /// The entries that the switches are to have.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let ingress = self.current.iter().flat_map(|version| version.ingress());
        ingress.chain(self.versions().flat_map(|version| version.transit()))
    }

    /// Number of entries of all versions, as if all were in effect.
    pub(crate) fn entry_count(&self) -> usize {
        self.versions().map(|version| version.count).sum()
    }

    /// The policy while the transit entries of a version are installed.
    fn preparing(name: &str, before: Option<&Self>, version: &Arc<PolicyVersion>) -> Self {
        let prepared = Some(Arc::clone(version));
        Self { prepared, ..Self::as_before(name, before) }
    }

    /// The policy beside a version that was not put into effect and whose transit entries are to be removed.
    fn with_retired(name: &str, before: Option<&Self>, version: &Arc<PolicyVersion>) -> Self {
        let mut policy = Self::as_before(name, before);
        policy.retired.push(Arc::clone(version));
        policy
    }

    fn as_before(name: &str, before: Option<&Self>) -> Self {
        Self {
            name: name.to_owned(),
            flows: before.map_or_else(Vec::new, |it| it.flows.clone()),
            by: before.map_or_else(String::new, |it| it.by.clone()),
            changed_at: before.map_or(Duration::ZERO, |it| it.changed_at),
            current: before.and_then(|it| it.current.clone()),
            prepared: None,
            retired: before.map_or_else(Vec::new, |it| it.retired.clone()),
        }
    }

    /// The policy while it is being removed.
    fn without_current(&self) -> Self {
        let mut policy = Self::as_before(&self.name, Some(self));
        policy.retired.extend(policy.current.take());
        policy
    }

    /// The policy without versions that were replaced; `None` if nothing is left.
    fn without_retired(&self) -> Option<Self> {
        let policy = Self { retired: vec![], ..Self::as_before(&self.name, Some(self)) };
        policy.current.is_some().then_some(policy)
    }

    /// Whether it is, or was, in effect: not while its first version is being prepared.
    pub fn was_applied(&self) -> bool {
        self.current.is_some() || !self.retired.is_empty()
    }

    /// What the store keeps. A version that is being prepared is not part of it: after a restart nothing uses it.
    pub(crate) fn to_record(&self) -> PolicyRecord {
        PolicyRecord {
            flows: self.flows.clone(),
            by: self.by.clone(),
            changed_at_unix_s: self.changed_at.as_secs(),
            current: self.current.as_deref().map(PolicyVersion::to_record),
            retired: self.retired.iter().map(|version| version.to_record()).collect(),
        }
    }

    pub(crate) fn from_record(name: String, record: PolicyRecord) -> Self {
        let changed_at = Duration::from_secs(record.changed_at_unix_s);
        let version = |it: VersionRecord| Arc::new(PolicyVersion::from_record(it, changed_at));
        Self {
            name,
            flows: record.flows,
            by: record.by,
            changed_at,
            current: record.current.map(version),
            prepared: None,
            retired: record.retired.into_iter().map(version).collect(),
        }
    }
}

impl PolicyVersion {
    /// The ingress entries of all switches.
    pub fn ingress(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().flat_map(|it| &it.ingress)
    }

    /// The transit entries of all switches.
    pub fn transit(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().flat_map(|it| &it.transit)
    }

    /// The switches of the policy.
    pub fn switches(&self) -> impl Iterator<Item = DatapathId> {
        self.entries.keys().copied()
    }

    fn to_record(&self) -> VersionRecord {
        let declarations =
            |entries: &[Arc<Entry>]| entries.iter().map(|it| it.declaration.clone()).collect();
        let switch = |(id, entries): (&DatapathId, &SwitchEntries)| SwitchRecord {
            dpid: id.0,
            ingress: declarations(&entries.ingress),
            transit: declarations(&entries.transit),
        };
        let revision = self.transit().next().map_or(0, |entry| entry.revision);
        VersionRecord {
            tag: self.tag,
            revision,
            switches: self.entries.iter().map(switch).collect(),
        }
    }

    fn from_record(record: VersionRecord, changed_at: Duration) -> Self {
        let VersionRecord { tag, revision, switches } = record;
        let of_switch = |declarations: Vec<Declaration>| -> Vec<Arc<Entry>> {
            let entry = |it| Arc::new(Entry::of_policy(it, revision, changed_at));
            declarations.into_iter().map(entry).collect()
        };
        let switch = |SwitchRecord { dpid, ingress, transit }| {
            let entries =
                SwitchEntries { ingress: of_switch(ingress), transit: of_switch(transit) };
            (DatapathId(dpid), entries)
        };
        let entries: BTreeMap<_, _> = ordered(switches.into_iter().map(switch));
        let count = entries.values().map(|it| it.ingress.len() + it.transit.len()).sum();
        Self { tag, entries, count }
    }

    /// Whether the switches would get the same.
    fn is_same(&self, other: &Self) -> bool {
        fn texts(version: &PolicyVersion) -> impl Iterator<Item = &Declaration> {
            version.ingress().chain(version.transit()).map(|entry| &entry.declaration)
        }
        self.tag == other.tag
            && self.switches().eq(other.switches())
            && texts(self).eq(texts(other))
    }
}
