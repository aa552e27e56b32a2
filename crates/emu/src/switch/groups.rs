//! Groups: changes, bucket selection, statistics. §5.6, §7.3.4.2.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::{
    Action, Bucket, BucketId, BucketStats, ErrorReason, FlowRemovedReason, GroupCapabilities,
    GroupCommand, GroupDesc, GroupFeatures, GroupId, GroupMod, GroupProp, GroupStats, GroupType,
    GroupTypes, PortNo, TableActions,
};
use sluice_pipeline::buckets::{self, GroupTable, has_watch};
use sluice_pipeline::{ActionSet, SelectedBucket};

use super::ports::EmulatedPorts;
use super::validation::ActionContext;
use super::{EmulatedSwitch, SwitchOutput, error_reasons};

/// Highest valid group number.
const GROUP_MAX: u32 = 0xffff_ff00;

#[derive(Debug)]
struct Group {
    kind: GroupType,
    buckets: Vec<Bucket>,
    /// The actions of each bucket, in the order of an action set.
    actions: Vec<Arc<[Action]>>,
    properties: Vec<GroupProp>,
    since: Instant,
    packets: u64,
    bytes: u64,
    bucket_stats: Vec<BucketStats>,
}

/// All groups by number.
#[derive(Debug)]
pub(crate) struct Groups {
    by_id: BTreeMap<GroupId, Group>,
    capacity: usize,
    buckets_max: usize,
}

/// The groups, and the ports that their buckets watch.
struct WatchedGroups<'s> {
    groups: &'s BTreeMap<GroupId, Group>,
    ports: &'s EmulatedPorts,
}

impl GroupTable for WatchedGroups<'_> {
    fn buckets(&self, id: GroupId) -> Option<&[Bucket]> {
        self.groups.get(&id).map(|group| group.buckets.as_slice())
    }

    fn is_port_live(&self, port: PortNo) -> bool {
        self.ports.is_up(port)
    }
}

impl EmulatedSwitch {
    pub(super) fn on_group_mod(
        &mut self,
        now: Instant,
        group_mod: &GroupMod,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let id = group_mod.group_id;
        if group_mod.command == GroupCommand::DELETE {
            for deleted_id in self.groups.delete(id)? {
                let reason = FlowRemovedReason::GROUP_DELETE;
                self.remove_entries_where(
                    now,
                    |entry| entry.instruction_set.uses_group(deleted_id),
                    reason,
                    out,
                );
            }
            return Ok(());
        }
        if id.0 > GROUP_MAX {
            return Err(error_reasons::INVALID_GROUP);
        }
        for bucket in &group_mod.buckets {
            self.check_actions(&bucket.actions, ActionContext::Bucket)?;
        }
        self.groups.change(now, group_mod)
    }
}

impl Groups {
    pub(crate) const fn new(groups_max: usize, buckets_max: usize) -> Self {
        Self { by_id: BTreeMap::new(), capacity: groups_max, buckets_max }
    }

    /// Adds or changes a group.
    fn change(&mut self, now: Instant, group_mod: &GroupMod) -> Result<(), ErrorReason> {
        let old = self.by_id.get(&group_mod.group_id);
        let mut kind = group_mod.group_type;
        let mut properties = group_mod.properties.clone();
        let buckets = match (group_mod.command, old) {
            (GroupCommand::ADD, Some(_)) => return Err(error_reasons::GROUP_EXISTS),
            (GroupCommand::ADD | GroupCommand::ADD_OR_MOD, None) => {
                if self.by_id.len() >= self.capacity {
                    return Err(error_reasons::OUT_OF_GROUPS);
                }
                group_mod.buckets.clone()
            }
            (GroupCommand::MODIFY | GroupCommand::ADD_OR_MOD, Some(_)) => group_mod.buckets.clone(),
            (GroupCommand::INSERT_BUCKET | GroupCommand::REMOVE_BUCKET, Some(old)) => {
                kind = old.kind;
                properties.clone_from(&old.properties);
                if group_mod.command == GroupCommand::INSERT_BUCKET {
                    with_inserted_buckets(&old.buckets, group_mod)?
                } else {
                    without_bucket(&old.buckets, group_mod.command_bucket_id)?
                }
            }
            (
                GroupCommand::MODIFY | GroupCommand::INSERT_BUCKET | GroupCommand::REMOVE_BUCKET,
                None,
            ) => return Err(error_reasons::UNKNOWN_GROUP),
            _ => return Err(error_reasons::BAD_GROUP_COMMAND),
        };
        self.check(group_mod.group_id, kind, &buckets)?;
        let actions = buckets
            .iter()
            .map(|bucket| ActionSet::from_actions(&bucket.actions).into_actions().into())
            .collect();
        let (since, packets, bytes) =
            old.map_or((now, 0, 0), |old| (old.since, old.packets, old.bytes));
        let bucket_stats = vec![BucketStats::default(); buckets.len()];
        let group =
            Group { kind, buckets, actions, properties, since, packets, bytes, bucket_stats };
        self.by_id.insert(group_mod.group_id, group);
        Ok(())
    }

    fn check(&self, id: GroupId, kind: GroupType, buckets: &[Bucket]) -> Result<(), ErrorReason> {
        if buckets.len() > self.buckets_max {
            return Err(error_reasons::OUT_OF_BUCKETS);
        }
        match kind {
            GroupType::INDIRECT if buckets.len() != 1 => return Err(error_reasons::INVALID_GROUP),
            GroupType::FF if !buckets.iter().all(has_watch) => {
                return Err(error_reasons::BAD_WATCH);
            }
            GroupType::ALL | GroupType::SELECT | GroupType::INDIRECT | GroupType::FF => {}
            _ => return Err(error_reasons::BAD_GROUP_TYPE),
        }
        let mut next: Vec<GroupId> = buckets.iter().flat_map(sends_to).collect();
        let mut visited = next.clone();
        while let Some(group) = next.pop() {
            if group == id {
                return Err(error_reasons::GROUP_LOOP);
            }
            let nested = self.by_id.get(&group).map_or(&[][..], |group| &group.buckets);
            for group in nested.iter().flat_map(sends_to) {
                if !visited.contains(&group) {
                    visited.push(group);
                    next.push(group);
                }
            }
        }
        Ok(())
    }

    /// Deletes groups and returns their numbers; deleting a group that does not exist is no error.
    fn delete(&mut self, id: GroupId) -> Result<Vec<GroupId>, ErrorReason> {
        if id == GroupId::ALL {
            return Ok(std::mem::take(&mut self.by_id).into_keys().collect());
        }
        if id.0 > GROUP_MAX {
            return Err(error_reasons::INVALID_GROUP);
        }
        let buckets = self.by_id.values().flat_map(|group| &group.buckets);
        if buckets.flat_map(sends_to).any(|group| group == id) {
            return Err(error_reasons::CHAINED_GROUP);
        }
        Ok(self.by_id.remove(&id).map(|_| id).into_iter().collect())
    }

    /// Selects buckets for a packet and updates counters; `hash` identifies the flow.
    pub(crate) fn select_buckets(
        &mut self,
        id: GroupId,
        len: u64,
        hash: u64,
        ports: &EmulatedPorts,
    ) -> Vec<SelectedBucket> {
        let Some(group) = self.by_id.get(&id) else { return vec![] };
        let table = WatchedGroups { groups: &self.by_id, ports };
        let candidates = buckets::candidates(&table, group.kind, &group.buckets);
        let selected: Vec<usize> = if group.kind == GroupType::SELECT {
            buckets::by_hash(&candidates, hash).into_iter().collect()
        } else {
            candidates.into_iter().map(|(n, _)| n).collect()
        };
        let Some(group) = self.by_id.get_mut(&id) else { return vec![] };
        group.packets += 1;
        group.bytes += len;
        for &n in &selected {
            if let Some(stats) = group.bucket_stats.get_mut(n) {
                stats.packet_count += 1;
                stats.byte_count += len;
            }
        }
        let actions = |index: usize| {
            let actions = Arc::clone(group.actions.get(index)?);
            Some(SelectedBucket { index, actions, is_alternative: false })
        };
        selected.into_iter().filter_map(actions).collect()
    }

    pub(crate) fn contains(&self, id: GroupId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn selected(&self, id: GroupId) -> impl Iterator<Item = (&GroupId, &Group)> {
        let all = [GroupId::ALL, GroupId::ANY].contains(&id);
        self.by_id.iter().filter(move |(it, _)| all || **it == id)
    }

    /// Statistics of a group, or of all; `references` counts the flow entries that use one.
    pub(crate) fn stats(
        &self,
        now: Instant,
        id: GroupId,
        references: impl Fn(GroupId) -> u32,
    ) -> Vec<GroupStats> {
        let stats = |(&group_id, group): (&GroupId, &Group)| {
            let age = now.saturating_duration_since(group.since);
            GroupStats {
                group_id,
                ref_count: references(group_id),
                packet_count: group.packets,
                byte_count: group.bytes,
                duration_sec: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
                duration_nsec: age.subsec_nanos(),
                bucket_stats: group.bucket_stats.clone(),
            }
        };
        self.selected(id).map(stats).collect()
    }

    /// Description of a group, or of all.
    pub(crate) fn descs(&self, id: GroupId) -> Vec<GroupDesc> {
        let desc = |(&group_id, group): (&GroupId, &Group)| GroupDesc {
            group_type: group.kind,
            group_id,
            buckets: group.buckets.clone(),
            properties: group.properties.clone(),
        };
        self.selected(id).map(desc).collect()
    }

    pub(crate) fn features(&self, actions: TableActions) -> GroupFeatures {
        // The bitmap has one bit for each action type, as that of tables in 1.2. §7.3.5.10.
        let actions = u32::try_from(actions.bits()).unwrap_or_default();
        GroupFeatures {
            types: GroupTypes::ALL | GroupTypes::SELECT | GroupTypes::INDIRECT | GroupTypes::FF,
            capabilities: GroupCapabilities::SELECT_WEIGHT
                | GroupCapabilities::SELECT_LIVENESS
                | GroupCapabilities::CHAINING
                | GroupCapabilities::CHAINING_CHECKS,
            max_groups: [u32::try_from(self.capacity).unwrap_or(u32::MAX); 4],
            actions: [actions; 4],
        }
    }
}

/// The old buckets with those of `group_mod` inserted. OpenFlow 1.5.0 §7.3.4.3.
fn with_inserted_buckets(old: &[Bucket], group_mod: &GroupMod) -> Result<Vec<Bucket>, ErrorReason> {
    let is_old = |it: &Bucket| old.iter().any(|other| other.bucket_id == it.bucket_id);
    if group_mod.buckets.iter().any(is_old) {
        return Err(error_reasons::BUCKET_EXISTS);
    }
    let index = match group_mod.command_bucket_id {
        BucketId::FIRST => 0,
        BucketId::LAST => old.len(),
        id => 1 + bucket_index(old, id).ok_or(error_reasons::UNKNOWN_BUCKET)?,
    };
    let (before, after) = old.split_at_checked(index).unwrap_or((old, &[]));
    Ok([before, &group_mod.buckets, after].concat())
}

/// The old buckets without those that `id` selects.
fn without_bucket(old: &[Bucket], id: BucketId) -> Result<Vec<Bucket>, ErrorReason> {
    let index = match id {
        BucketId::ALL => return Ok(vec![]),
        BucketId::FIRST => Some(0).filter(|_| !old.is_empty()),
        BucketId::LAST => old.len().checked_sub(1),
        id => bucket_index(old, id),
    };
    let mut buckets = old.to_vec();
    buckets.remove(index.ok_or(error_reasons::UNKNOWN_BUCKET)?);
    Ok(buckets)
}

/// The index of the bucket with this id.
fn bucket_index(buckets: &[Bucket], id: BucketId) -> Option<usize> {
    buckets.iter().position(|it| it.bucket_id == id)
}

/// Groups to which a bucket sends packets.
fn sends_to(bucket: &Bucket) -> impl Iterator<Item = GroupId> {
    bucket.actions.iter().filter_map(|it| match it {
        Action::Group { group_id } => Some(GroupId(*group_id)),
        _ => None,
    })
}
