//! Counters, descriptions and features of groups: requests and replies. §7.3.5.9 to §7.3.5.11.
//!
//! OpenFlow 1.0 has no groups; the layouts of `V1_0` are those of Open vSwitch's Nicira extension.

use super::codec::ListItem;
use super::codec::versions::*;
use super::group::{Bucket, BucketsByPosition, GroupId, GroupType};
use super::group_prop::GroupProp;
use super::rows::{flags, record};

record! {
    /// Requests the counters of groups. §7.3.5.9.
    pub struct GroupStatsRequest: "group_stats request" {
        /// Group number; [`GroupId::ALL`] is all groups.
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
    /// Requests the descriptions of groups. §7.3.5.10.
    pub struct GroupDescRequest: "group_desc request" {
        /// Group number; [`GroupId::ALL`] is all groups. In 1.1 to 1.4 it is not encoded and must be `ALL`.
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
        /// Packets processed.
        pub packet_count: u64,
        /// Bytes processed.
        pub byte_count: u64,
    }
    V1_0.. => [packet_count, byte_count,]
}

impl ListItem for BucketStats {}

record! {
    /// Counters of one group. A counter that the switch does not support has all bits set. §7.3.5.9.
    #[derive(Default)]
    pub struct GroupStats: "group_stats" {
        /// Group number.
        pub group_id: GroupId,
        /// Number of flow entries and groups that refer to the group.
        pub ref_count: u32,
        /// Packets processed by the group.
        pub packet_count: u64,
        /// Bytes processed by the group.
        pub byte_count: u64,
        /// Seconds that the group has been alive. Not in 1.1 and 1.2.
        pub duration_sec: u32,
        /// Nanoseconds in addition to `duration_sec`. Not in 1.1 and 1.2.
        pub duration_nsec: u32,
        /// Counters of each bucket.
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
    /// Description of one group. §7.3.5.10.
    #[derive(Default)]
    pub struct GroupDesc: "group_desc" {
        /// Type, which determines the buckets that process a packet.
        pub group_type: GroupType,
        /// Group number.
        pub group_id: GroupId,
        /// Buckets.
        pub buckets: Vec<Bucket>,
        /// Properties. Since 1.5.
        pub properties: Vec<GroupProp>,
    }
    V1_0 | V1_5.. => [
        length, group_type, pad 1, group_id, sized, pad 6, buckets in sized, properties,
    ]
    V1_1..=V1_4 => [length, group_type, pad 1, group_id, buckets as BucketsByPosition,]
}

impl ListItem for GroupDesc {}

flags! {
    /// Bitmap of supported group types: one bit for each [`GroupType`]. §7.3.5.11.
    pub struct GroupTypes(u32);
    ALL = 1, V1_0, "All buckets.";
    SELECT = 2, V1_0, "One bucket, selected by weight.";
    INDIRECT = 4, V1_0, "The only bucket.";
    FF = 8, V1_0, "Fast failover: the first live bucket.";
}

flags! {
    /// `OFPGFC_*`: capabilities of groups. §7.3.5.11.
    pub struct GroupCapabilities(u32);
    SELECT_WEIGHT = 1, V1_0, "Weights in select groups.";
    SELECT_LIVENESS = 2, V1_0, "Liveness in select groups.";
    CHAINING = 4, V1_0, "Groups can refer to groups.";
    CHAINING_CHECKS = 8, V1_0, "Loops of groups are detected and refused.";
}

record! {
    /// Group features of a switch. §7.3.5.11.
    #[derive(Default)]
    pub struct GroupFeatures: "group_features" {
        /// Supported group types.
        pub types: GroupTypes,
        /// Capabilities.
        pub capabilities: GroupCapabilities,
        /// Maximum number of groups of each type, in the order of type numbers.
        pub max_groups: [u32; 4],
        /// Bitmap of supported actions for each type, in the order of type numbers.
        pub actions: [u32; 4],
    }
    V1_0.. => [types, capabilities, max_groups, actions,]
}
