//! Groups of buckets, one, some or all of which a packet goes through. §5.6, §7.3.4.2.

use super::action::Action;
use super::codec::versions::*;
use super::codec::{Codec, Encoding, ListItem, PartialEncoding};
use super::group_prop::{BucketProp, GroupProp};
use super::reader::Reader;
use super::rows::{codes, record};
use crate::{EncodeError, Encoder, PortNo, Result, Version};

codes! {
    /// A group by its number.
    pub struct GroupId(u32);
    ALL = 0xffff_fffc, V1_1, "Every group, in requests and deletions.";
    ANY = 0xffff_ffff, V1_1, "Any group or none: a wildcard in requests and deletions.";
}

codes! {
    /// What a `GROUP_MOD` does.
    pub struct GroupCommand(u16);
    ADD = 0, V1_1, "A new group.";
    MODIFY = 1, V1_1, "Another type and other buckets for a group.";
    DELETE = 2, V1_1, "A group goes.";
    INSERT_BUCKET = 3, V1_5, "More buckets for a group.";
    REMOVE_BUCKET = 5, V1_5, "Buckets of a group go.";
    ADD_OR_MOD = 0x8000, V1_1, "A new group, or another type and other buckets for one. Open vSwitch.";
}

codes! {
    /// Through which of its buckets a group sends a packet.
    pub struct GroupType(u8);
    ALL = 0, V1_1, "All.";
    SELECT = 1, V1_1, "One, by weight.";
    INDIRECT = 2, V1_1, "The only one.";
    FF = 3, V1_1, "The first that is live.";
}

codes! {
    /// A bucket by its number, or a place among the buckets. OpenFlow 1.5.0 §7.3.4.3.
    pub struct BucketId(u32);
    FIRST = 0xffff_fffd, V1_5, "The first.";
    LAST = 0xffff_fffe, V1_5, "The last.";
    ALL = 0xffff_ffff, V1_5, "All; of a bucket, that its number is its place.";
}

record! {
    /// Actions that a packet goes through together. §7.3.4.2.
    pub struct Bucket: "bucket" {
        /// Its number. From 1.1 to 1.4, where buckets have none, its place in the group, counted from 0;
        /// [`BucketId::ALL`] stands for that too.
        pub bucket_id: BucketId,
        /// What is done with the packet.
        pub actions: Vec<Action>,
        /// Weight, and what it is live with. From 1.1 to 1.4 a weight of 0 and [`PortNo::ANY`] and [`GroupId::ANY`]
        /// to watch are not there.
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

/// The number that a bucket does not have on the wire.
struct ImplicitBucketId;

impl PartialEncoding<BucketId> for ImplicitBucketId {
    fn parse(_: &mut BucketId, _: &mut Reader<'_>) -> Result<()> {
        Ok(())
    }

    fn encode(_: &BucketId, _: &mut Encoder<'_>) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// Properties as the fields that 1.1 to 1.4 have in their place.
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
            let said_before = match property {
                BucketProp::Weight { weight } => weights.replace(*weight).is_some(),
                BucketProp::WatchPort { watch } => ports.replace(watch.0).is_some(),
                BucketProp::WatchGroup { watch } => groups.replace(*watch).is_some(),
                _ => true,
            };
            if said_before {
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

/// Buckets whose number is their place.
pub(crate) struct BucketsByPosition;

impl Encoding<Vec<Bucket>> for BucketsByPosition {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<Bucket>> {
        let mut buckets = Vec::<Bucket>::parse(r)?;
        for (bucket, place) in buckets.iter_mut().zip(0..) {
            bucket.bucket_id = BucketId(place);
        }
        Ok(buckets)
    }

    fn encode(buckets: &Vec<Bucket>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        for (bucket, place) in buckets.iter().zip(0..) {
            if ![BucketId(place), BucketId::ALL].contains(&bucket.bucket_id) {
                return out.needs(Version::V1_5, "bucket_id");
            }
            bucket.encode(out)?;
        }
        Ok(())
    }
}

record! {
    /// Adds, changes or deletes a group. §7.3.4.2. In 1.0 it is Nicira's, in the form of 1.5.
    pub struct GroupMod: "group_mod" {
        /// What to do.
        pub command: GroupCommand,
        /// Through which buckets packets go.
        pub group_type: GroupType,
        /// Which group.
        pub group_id: GroupId,
        /// Which bucket goes, or the one behind which new ones come.
        pub command_bucket_id: BucketId,
        /// The buckets.
        pub buckets: Vec<Bucket>,
        /// More of the group.
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
