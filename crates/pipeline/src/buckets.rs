//! Which buckets of a group a packet passes. §5.6.1, §6.6.

use sluice_openflow::{Bucket, BucketProp, GroupId, GroupType, PortNo};

/// Maximum depth of nested groups that are followed to find a live bucket.
const WATCH_DEPTH_MAX: u8 = 16;
/// Maximum number of buckets that are looked at to find the live ones of a group; nested groups multiply them. Buckets beyond it
/// count as not live.
const WATCHED_MAX: u32 = 65_536;

/// What the liveness of buckets depends on.
pub trait GroupTable {
    /// The buckets of a group.
    fn buckets(&self, id: GroupId) -> Option<&[Bucket]>;

    /// Whether a port is live.
    fn is_port_live(&self, port: PortNo) -> bool;
}

/// The buckets that packets pass, with their share of the packets: of a fast failover group, the first live one; of a select
/// group, one of the live ones; of other groups, all.
pub fn candidates(
    table: &impl GroupTable,
    kind: GroupType,
    buckets: &[Bucket],
) -> Vec<(usize, u64)> {
    let mut left = WATCHED_MAX;
    match kind {
        GroupType::FF => {
            let live = buckets.iter().position(|bucket| is_live(table, bucket, 0, &mut left));
            live.into_iter().map(|n| (n, 1)).collect()
        }
        GroupType::SELECT => {
            let is_weighted = buckets.iter().any(|it| weight(it) > 0);
            let live = (0..)
                .zip(buckets)
                .filter(|(_, it)| !has_watch(it) || is_live(table, it, 0, &mut left));
            let shares = live.map(|(n, it)| (n, if is_weighted { weight(it) } else { 1 }));
            shares.filter(|&(_, share)| share > 0).collect()
        }
        _ => (0..buckets.len()).map(|n| (n, 1)).collect(),
    }
}

/// One of the candidates of a select group, by the hash of a flow.
pub fn by_hash(candidates: &[(usize, u64)], hash: u64) -> Option<usize> {
    let total: u64 = candidates.iter().map(|it| it.1).sum();
    let mut at = hash.checked_rem(total)?;
    candidates.iter().find_map(|&(n, share)| match at.checked_sub(share) {
        Some(rest) => {
            at = rest;
            None
        }
        None => Some(n),
    })
}

/// Whether the port or group that a bucket watches is live.
fn is_live(table: &impl GroupTable, bucket: &Bucket, depth: u8, left: &mut u32) -> bool {
    *left = left.saturating_sub(1);
    depth < WATCH_DEPTH_MAX
        && *left > 0
        && bucket.properties.iter().any(|it| match it {
            BucketProp::WatchPort { watch } => table.is_port_live(*watch),
            BucketProp::WatchGroup { watch } => table.buckets(*watch).is_some_and(|buckets| {
                buckets.iter().any(|it| !has_watch(it) || is_live(table, it, depth + 1, left))
            }),
            _ => false,
        })
}

/// Whether the bucket watches a port or a group.
pub fn has_watch(bucket: &Bucket) -> bool {
    let watch = |it: &BucketProp| match it {
        BucketProp::WatchPort { watch } => *watch != PortNo::ANY,
        BucketProp::WatchGroup { watch } => *watch != GroupId::ANY,
        _ => false,
    };
    bucket.properties.iter().any(watch)
}

/// The weight of a bucket; 0 if it has none.
fn weight(bucket: &Bucket) -> u64 {
    let weight = bucket.properties.iter().find_map(|it| match it {
        BucketProp::Weight { weight } => Some(u64::from(*weight)),
        _ => None,
    });
    weight.unwrap_or(0)
}
