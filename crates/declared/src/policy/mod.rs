//! Policies: flow entries of several switches that are replaced such that every packet is processed by the old or by the new ones on its
//! whole path (Reitblatt et al., *Abstractions for Network Update*, SIGCOMM 2012). See `docs/policies.md`.
//!
//! Packets carry the version in a VLAN tag: the switch where a packet enters adds the tag, and further switches match it.
//! `compile.rs` makes the entries of a version, `update.rs` replaces one version with another.

mod compile;
mod error;
mod retire;
#[cfg(test)]
mod tests;
mod update;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_openflow::DatapathId;

pub use self::compile::PolicyTopology;
pub use self::error::{FlowError, PolicyError};
pub use self::update::PolicyPlan;
use crate::entry::{Declaration, Entry, Selector};

/// Policies that may exist.
pub const POLICIES_MAX: usize = 64;

/// Flow entries of a policy, as declared.
pub const POLICY_FLOWS_MAX: usize = 4096;

/// Flow entries of one version of a policy, at all switches.
pub const POLICY_ENTRIES_MAX: usize = 16_384;

/// The VLAN ids that tag packets, unless the configuration says otherwise: two of them for each policy that is being replaced.
pub const DEFAULT_TAGS: RangeInclusive<u16> = 4000..=4031;

/// Longer than packets stay in the network, from when all switches have the ingress entries of a version until the transit entries of
/// the one before are removed.
pub const DRAIN_TIME: Duration = Duration::from_secs(5);

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
    /// The number of the change that put them into effect.
    pub revision: u64,
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
    /// The switches of the policy.
    pub switches: BTreeSet<DatapathId>,
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
    revision: u64,
    current: Option<VersionRecord>,
    retired: Vec<VersionRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VersionRecord {
    tag: u16,
    revision: u64,
    switches: Vec<u64>,
    ingress: Vec<Declaration>,
    transit: Vec<Declaration>,
}

impl Policy {
    /// All versions of which switches have entries.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Arc<PolicyVersion>> {
        self.current.iter().chain(&self.prepared).chain(&self.retired)
    }

    /// The entries that the switches are to have.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        let ingress = self.current.iter().flat_map(|version| &version.ingress);
        let transit = self.versions().flat_map(|version| &version.transit);
        ingress.chain(transit).cloned().collect()
    }

    /// The policy with another set of versions.
    pub(crate) fn with_versions(
        &self,
        current: Option<Arc<PolicyVersion>>,
        prepared: Option<Arc<PolicyVersion>>,
        retired: Vec<Arc<PolicyVersion>>,
    ) -> Self {
        let Self { name, flows, by, changed_at, revision, .. } = self;
        Self {
            name: name.clone(),
            flows: flows.clone(),
            by: by.clone(),
            changed_at: *changed_at,
            revision: *revision,
            current,
            prepared,
            retired,
        }
    }

    /// Whether the store has it: not while its first version is being prepared.
    pub(crate) fn is_stored(&self) -> bool {
        self.current.is_some() || !self.retired.is_empty()
    }

    /// What the store keeps. A version that is being prepared is not part of it: after a restart nothing uses it.
    pub(crate) fn to_record(&self) -> PolicyRecord {
        PolicyRecord {
            flows: self.flows.clone(),
            by: self.by.clone(),
            changed_at_unix_s: self.changed_at.as_secs(),
            revision: self.revision,
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
            revision: record.revision,
            current: record.current.map(version),
            prepared: None,
            retired: record.retired.into_iter().map(version).collect(),
        }
    }
}

impl PolicyVersion {
    /// Number of ingress entries, those of each switch counted.
    pub fn ingress_count(&self) -> usize {
        count(&self.ingress)
    }

    /// Number of transit entries, those of each switch counted.
    pub fn transit_count(&self) -> usize {
        count(&self.transit)
    }

    fn to_record(&self) -> VersionRecord {
        let declarations =
            |entries: &[Arc<Entry>]| entries.iter().map(|it| it.declaration.clone()).collect();
        let revision =
            self.transit.first().or_else(|| self.ingress.first()).map_or(0, |it| it.revision);
        VersionRecord {
            tag: self.tag,
            revision,
            switches: self.switches.iter().map(|switch| switch.0).collect(),
            ingress: declarations(&self.ingress),
            transit: declarations(&self.transit),
        }
    }

    fn from_record(record: VersionRecord, changed_at: Duration) -> Self {
        let VersionRecord { tag, revision, switches, ingress, transit } = record;
        let entries = |declarations: Vec<Declaration>| {
            let entry = |it| Arc::new(Entry::of_policy(it, revision, changed_at));
            declarations.into_iter().map(entry).collect()
        };
        Self {
            tag,
            switches: switches.into_iter().map(DatapathId).collect(),
            ingress: entries(ingress),
            transit: entries(transit),
        }
    }

    /// Whether the switches would get the same.
    fn is_same(&self, other: &Self) -> bool {
        let are_same = |a: &[Arc<Entry>], b: &[Arc<Entry>]| {
            let declarations = |entries: &[Arc<Entry>]| -> Vec<Declaration> {
                entries.iter().map(|entry| entry.declaration.clone()).collect()
            };
            declarations(a) == declarations(b)
        };
        self.tag == other.tag
            && self.switches == other.switches
            && are_same(&self.ingress, &other.ingress)
            && are_same(&self.transit, &other.transit)
    }
}

fn count(entries: &[Arc<Entry>]) -> usize {
    let switches = |entry: &Arc<Entry>| match &entry.declaration.switches {
        Selector::All => 0,
        Selector::Switches(list) => list.len(),
    };
    entries.iter().map(switches).sum()
}
