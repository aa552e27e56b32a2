//! Properties of groups and buckets. OpenFlow 1.5.0 §7.3.4.3.

use super::codec::versions::*;
use super::codec::{
    Choice, Codec, ListItem, Padding, PartialEncoding, experimenter_code, parse_tlv,
};
use super::group::GroupId;
use super::matching::{BareMatch, Match};
use super::reader::Reader;
use super::rows::{choice, tlv};
use super::value::FixedString;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, PortNo, Result};

choice! {
    /// Property of a [`Bucket`](super::Bucket). OpenFlow 1.5.0 §7.3.4.3.
    pub enum BucketProp: "bucket property" {
        /// Relative weight, in select groups.
        Weight "weight" {
            /// Weight relative to the other buckets.
            weight: u16,
        } = { V1_0.. => 0 [weight, pad 2,] };
        /// Port whose state decides whether the bucket is live.
        WatchPort "watch_port" {
            /// Port number.
            watch: PortNo,
        } = { V1_0.. => 1 [watch by Port32,] };
        /// Group whose state decides whether the bucket is live.
        WatchGroup "watch_group" {
            /// Group number.
            watch: GroupId,
        } = { V1_0.. => 2 [watch,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0 | V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(BucketProp, Outside, Property);

/// A port number in 32 bits in every version.
struct Port32;

impl PartialEncoding<PortNo> for Port32 {
    fn parse(port: &mut PortNo, r: &mut Reader<'_>) -> Result<()> {
        port.0 = r.u32("watch")?;
        Ok(())
    }

    fn encode(port: &PortNo, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        port.0.encode(out)
    }
}

choice! {
    /// Property of a group. OpenFlow 1.5.0 §7.3.4.3.
    pub enum GroupProp: "group property" {
        /// How a select group selects a bucket. Netronome extension of Open vSwitch.
        SelectionMethod "selection_method" {
            /// Name of the method, `hash` or `dp_hash`.
            selection_method: FixedString<16>,
            /// Parameter, whose meaning depends on the method.
            selection_method_param: u64,
            /// Fields used for the selection; each value is a mask.
            fields: Match,
        } = {
            V1_0 | V1_5.. => 0x1540_0000_0001 [
                pad 4, selection_method, selection_method_param, fields as BareMatch,
            ],
        };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0 | V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

/// Property type that is followed by an experimenter ID and type.
const EXPERIMENTER: u16 = 0xffff;

impl ListItem for GroupProp {}

impl Codec for GroupProp {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        parse_tlv(r, Padding::Outside, ErrorContext::Property, |kind, r| {
            experimenter_code::<Self>(kind, kind == EXPERIMENTER, 0, r)
        })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (start, code) = (out.len(), self.code(out.version())?);
        u16::try_from(code).unwrap_or(EXPERIMENTER).encode(out)?;
        out.put(&[0u8; 2]);
        if code > EXPERIMENTER.into() {
            code.encode(out)?;
        }
        self.encode_body(out)?;
        out.patch_len(start, 2)?;
        out.pad_to_8(start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::multipart::{MultipartReply, MultipartRequest};
    use crate::model::vectors::{RowCoverage, check_corrupted, check_vectors};
    use crate::model::{Message, MeterBand};

    const FILE: &str = "groups.txt";

    #[test]
    fn group_and_meter_vectors_parse_and_encode_as_recorded() {
        check_vectors(FILE);
    }

    #[test]
    fn damaged_group_and_meter_vectors_never_panic() {
        check_corrupted(FILE);
    }

    #[test]
    fn every_group_and_meter_row_has_a_vector_in_every_version() {
        let coverage = RowCoverage::of_file(FILE);
        let is_group_or_meter =
            |name: &str| name.starts_with("group_") || name.starts_with("meter_");
        coverage.assert_all::<Message>(&[""], |row| is_group_or_meter(row.name));
        coverage.assert_all::<MultipartRequest>(&["multipart_request.body"], |row| {
            is_group_or_meter(row.name)
        });
        coverage.assert_all::<MultipartReply>(&["multipart_reply.body"], |row| {
            is_group_or_meter(row.name)
        });
        coverage.assert_all::<BucketProp>(&["group_mod.buckets.properties"], |_| true);
        coverage.assert_all::<GroupProp>(&["group_mod.properties"], |_| true);
        coverage.assert_all::<MeterBand>(&["meter_mod.bands"], |_| true);
    }
}
