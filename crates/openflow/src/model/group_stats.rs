//! Counters and descriptions of groups, asked for and told. §7.3.5.9 to 11.

use super::codec::ListItem;
use super::codec::versions::*;
use super::group::{Bucket, BucketsByPosition, GroupId, GroupType};
use super::group_prop::GroupProp;
use super::rows::{flags, record};

record! {
    /// Asks for the counters of groups. §7.3.5.9.
    pub struct GroupStatsRequest: "group_stats request" {
        /// Which; [`GroupId::ALL`] for all.
        pub group_id: GroupId,
    }
    V1_0.. => [group_id, pad 4,]
}

impl Default for GroupStatsRequest {
    fn default() -> Self {
        Self { group_id: GroupId::ALL }
    }
}

record! {
    /// Asks what the groups are. §7.3.5.10.
    pub struct GroupDescRequest: "group_desc request" {
        /// Which; [`GroupId::ALL`], the only answer from 1.1 to 1.4, for all.
        pub group_id: GroupId,
    }
    V1_0 | V1_5.. => [group_id, pad 4,]
    V1_1..=V1_4 => []
}

impl Default for GroupDescRequest {
    fn default() -> Self {
        Self { group_id: GroupId::ALL }
    }
}

record! {
    /// Counters of one bucket. §7.3.5.9.
    #[derive(Copy, Default)]
    pub struct BucketStats: "bucket_counter" {
        /// Packets that went through it.
        pub packet_count: u64,
        /// Bytes of them.
        pub byte_count: u64,
    }
    V1_0.. => [packet_count, byte_count,]
}

impl ListItem for BucketStats {}

record! {
    /// Counters of one group; all ones where nobody counts. §7.3.5.9.
    #[derive(Default)]
    pub struct GroupStats: "group_stats" {
        /// Which.
        pub group_id: GroupId,
        /// Rules and groups that send packets to it.
        pub ref_count: u32,
        /// Packets that went through it.
        pub packet_count: u64,
        /// Bytes of them.
        pub byte_count: u64,
        /// Seconds that it has been there. Not in 1.1 and 1.2.
        pub duration_sec: u32,
        /// Nanoseconds more. Not in 1.1 and 1.2.
        pub duration_nsec: u32,
        /// One for each bucket.
        pub bucket_stats: Vec<BucketStats>,
    }
    V1_1 | V1_2 => [
        length, pad 2, group_id, ref_count, pad 4, packet_count, byte_count, bucket_stats,
    ]
    V1_0 | V1_3.. => [
        length, pad 2, group_id, ref_count, pad 4, packet_count, byte_count, duration_sec,
        duration_nsec, bucket_stats,
    ]
}

impl ListItem for GroupStats {}

record! {
    /// What one group is. §7.3.5.10.
    #[derive(Default)]
    pub struct GroupDesc: "group_desc" {
        /// Through which buckets packets go.
        pub group_type: GroupType,
        /// Which.
        pub group_id: GroupId,
        /// The buckets.
        pub buckets: Vec<Bucket>,
        /// More of the group.
        pub properties: Vec<GroupProp>,
    }
    V1_0 | V1_5.. => [
        length, group_type, pad 1, group_id, sized, pad 6, buckets in sized, properties,
    ]
    V1_1..=V1_4 => [length, group_type, pad 1, group_id, buckets as BucketsByPosition,]
}

impl ListItem for GroupDesc {}

flags! {
    /// Types of groups that a switch has: one bit for each [`GroupType`]. §7.3.5.11.
    pub struct GroupTypes(u32);
    ALL = 1, V1_0, "Through all buckets.";
    SELECT = 2, V1_0, "Through one, by weight.";
    INDIRECT = 4, V1_0, "Through the only one.";
    FF = 8, V1_0, "Through the first that is live.";
}

flags! {
    /// `OFPGFC_*`: what groups of a switch can do. §7.3.5.11.
    pub struct GroupCapabilities(u32);
    SELECT_WEIGHT = 1, V1_0, "Groups that select heed weights.";
    SELECT_LIVENESS = 2, V1_0, "Groups that select heed what is live.";
    CHAINING = 4, V1_0, "Groups send to groups.";
    CHAINING_CHECKS = 8, V1_0, "Loops of groups are refused.";
}

record! {
    /// What groups a switch can have. §7.3.5.11.
    #[derive(Default)]
    pub struct GroupFeatures: "group_features" {
        /// Types there are.
        pub types: GroupTypes,
        /// What they can do.
        pub capabilities: GroupCapabilities,
        /// How many groups there can be of each type, in the order of their numbers.
        pub max_groups: [u32; 4],
        /// Actions in each type, in the order of their numbers: one bit for each number of an action.
        pub actions: [u32; 4],
    }
    V1_0.. => [types, capabilities, max_groups, actions,]
}
