//! Groups and their buckets. §5.6, §7.3.4.2.

use super::action::Action;
use super::codec::versions::*;
use super::codec::{Codec, Encoding, ListItem, PartialEncoding};
use super::group_prop::{BucketProp, GroupProp};
use super::reader::Reader;
use super::rows::{codes, record};
use crate::{EncodeError, Encoder, PortNo, Result, Version};

codes! {
    /// A group number. §7.3.4.2.
    pub struct GroupId(u32);
    ALL = 0xffff_fffc, V1_0, "All groups, in requests and deletions.";
    ANY = 0xffff_ffff, V1_0, "Any group or none: does not restrict requests and deletions.";
}

codes! {
    /// `OFPGC_*`: command of a [`GroupMod`]. §7.3.4.2. In 1.0, Nicira's extension has all of them.
    pub struct GroupCommand(u32 as u16);
    ADD = 0, V1_0, "Add a group.";
    MODIFY = 1, V1_0, "Replace type and buckets of a group.";
    DELETE = 2, V1_0, "Delete a group.";
    INSERT_BUCKET = 3, V1_0..=V1_0 | V1_5, "Insert buckets into a group.";
    REMOVE_BUCKET = 5, V1_0..=V1_0 | V1_5, "Remove buckets from a group.";
    ADD_OR_MOD = 0x8000, V1_0, "Add a group, or replace its type and buckets if it exists. Open vSwitch.";
}

codes! {
    /// `OFPGT_*`: which buckets of a group process a packet. §5.6.1.
    pub struct GroupType(u8);
    ALL = 0, V1_0, "All buckets.";
    SELECT = 1, V1_0, "One bucket, selected by weight.";
    INDIRECT = 2, V1_0, "The only bucket.";
    FF = 3, V1_0, "Fast failover: the first live bucket.";
}

codes! {
    /// A bucket number, or a position among the buckets. OpenFlow 1.5.0 §7.3.4.3.
    pub struct BucketId(u32);
    FIRST = 0xffff_fffd, V1_0..=V1_0 | V1_5, "The first bucket.";
    LAST = 0xffff_fffe, V1_0..=V1_0 | V1_5, "The last bucket.";
    ALL = 0xffff_ffff, V1_0..=V1_0 | V1_5, "All buckets. As the number of a bucket: its position in the group.";
}

record! {
    /// A list of actions of a group. §7.3.4.2.
    pub struct Bucket: "bucket" {
        /// Bucket number. In 1.1 to 1.4, where buckets have no number, the position in the group, from 0;
        /// [`BucketId::ALL`] stands for that as well.
        pub bucket_id: BucketId,
        /// Actions applied to the packet.
        pub actions: Vec<Action>,
        /// Weight and liveness. In 1.1 to 1.4 these are fixed fields; a weight of 0, and `ANY` as port or group to
        /// watch, are read as absent.
        pub properties: Vec<BucketProp>,
    }
    V1_0 | V1_5.. => [length, sized, bucket_id, actions in sized, properties,]
    V1_1..=V1_4 => [length, bucket_id by ImplicitBucketId, properties as FixedBucketProps, actions,]
}

impl ListItem for Bucket {}

impl Default for Bucket {
    fn default() -> Self {
        Self { bucket_id: BucketId::ALL, actions: vec![], properties: vec![] }
    }
}

/// The bucket number that is not encoded in 1.1 to 1.4.
struct ImplicitBucketId;

impl PartialEncoding<BucketId> for ImplicitBucketId {
    fn parse(_: &mut BucketId, _: &mut Reader<'_>) -> Result<()> {
        Ok(())
    }

    fn encode(_: &BucketId, _: &mut Encoder<'_>) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// Bucket properties as the fixed fields of 1.1 to 1.4.
struct FixedBucketProps;

impl Encoding<Vec<BucketProp>> for FixedBucketProps {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<BucketProp>> {
        let (weight, watch_port) = (r.u16("weight")?, PortNo(r.u32("watch_port")?));
        let watch_group = GroupId(r.u32("watch_group")?);
        r.take("bucket", 4)?;
        let weight = Some(weight).filter(|&w| w != 0).map(|weight| BucketProp::Weight { weight });
        let port = Some(watch_port).filter(|&watch| watch != PortNo::ANY);
        let group = Some(watch_group).filter(|&watch| watch != GroupId::ANY);
        let port = port.map(|watch| BucketProp::WatchPort { watch });
        let group = group.map(|watch| BucketProp::WatchGroup { watch });
        Ok([weight, port, group].into_iter().flatten().collect())
    }

    fn encode(properties: &Vec<BucketProp>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (mut weights, mut ports, mut groups) = (None, None, None);
        for property in properties {
            let is_duplicate = match property {
                BucketProp::Weight { weight } => weights.replace(*weight).is_some(),
                BucketProp::WatchPort { watch } => ports.replace(watch.0).is_some(),
                BucketProp::WatchGroup { watch } => groups.replace(*watch).is_some(),
                _ => true,
            };
            if is_duplicate {
                return out.needs(Version::V1_5, "bucket property");
            }
        }
        weights.unwrap_or(0).encode(out)?;
        ports.unwrap_or(PortNo::ANY.0).encode(out)?;
        groups.unwrap_or(GroupId::ANY).encode(out)?;
        out.put(&[0u8; 4]);
        Ok(())
    }
}

/// Buckets numbered by their position.
pub(crate) struct BucketsByPosition;

impl Encoding<Vec<Bucket>> for BucketsByPosition {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<Bucket>> {
        let mut buckets = Vec::<Bucket>::parse(r)?;
        for (bucket, position) in buckets.iter_mut().zip(0..) {
            bucket.bucket_id = BucketId(position);
        }
        Ok(buckets)
    }

    fn encode(buckets: &Vec<Bucket>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        for (bucket, position) in buckets.iter().zip(0..) {
            if ![BucketId(position), BucketId::ALL].contains(&bucket.bucket_id) {
                return out.needs(Version::V1_5, "bucket_id");
            }
            bucket.encode(out)?;
        }
        Ok(())
    }
}

record! {
    /// Adds, modifies or deletes a group. §7.3.4.2. In 1.0 a Nicira extension, encoded as in 1.5.
    pub struct GroupMod: "group_mod" {
        /// What to do.
        pub command: GroupCommand,
        /// Which buckets process a packet.
        pub group_type: GroupType,
        /// Group number.
        pub group_id: GroupId,
        /// Bucket to remove, or after which buckets are inserted. Since 1.5.
        pub command_bucket_id: BucketId,
        /// Buckets.
        pub buckets: Vec<Bucket>,
        /// Properties. Since 1.5.
        pub properties: Vec<GroupProp>,
    }
    V1_0 | V1_5.. => [
        command, group_type, pad 1, group_id, sized, pad 2, command_bucket_id, buckets in sized,
        properties,
    ]
    V1_1..=V1_4 => [command, group_type, pad 1, group_id, buckets as BucketsByPosition,]
}

impl Default for GroupMod {
    fn default() -> Self {
        Self {
            command: GroupCommand::ADD,
            group_type: GroupType::ALL,
            group_id: GroupId(0),
            command_bucket_id: BucketId::ALL,
            buckets: vec![],
            properties: vec![],
        }
    }
}
