//! `PACKET_IN`: a frame the switch sends up. §7.4.1.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::field::{Field, FieldId};
use super::matching::{Match, Nxm};
use super::reader::Reader;
use super::rows::{choice, codes, record, tlv};
use super::wire_types::BufferId;
use crate::{EncodeError, Encoder, PortNo, Result, Version};

codes! {
    /// Why a frame came up. §7.4.1.
    pub struct PacketInReason(u8);
    NO_MATCH = 0, V1_0 ..= V1_3, "No rule matched, or the table-miss entry did.";
    TABLE_MISS = 0, V1_4, "No rule matched, or the table-miss entry did.";
    ACTION = 1, V1_0 ..= V1_3, "A rule said so.";
    APPLY_ACTION = 1, V1_4, "A rule said so, in actions that are applied at once.";
    INVALID_TTL = 2, V1_2, "Its time to live ran out.";
    ACTION_SET = 3, V1_4, "A rule said so, in the action set.";
    GROUP = 4, V1_4, "A group said so.";
    PACKET_OUT = 5, V1_4, "A `PACKET_OUT` said so.";
}

record! {
    /// A frame the switch sends up. §7.4.1.
    pub struct PacketIn: "packet_in" {
        /// Slot in which the switch keeps the frame.
        pub buffer_id: Option<u32>,
        /// Bytes of the whole frame.
        pub total_len: u16,
        /// Why it came up.
        pub reason: PacketInReason,
        /// Table of the rule that sent it. Since 1.1.
        pub table_id: u8,
        /// Mark of the rule that sent it; all ones if there is none. Since 1.3.
        pub cookie: u64,
        /// Where it came in, and what else of it is not in the frame. In 1.0 the port alone, in 1.1 also the physical
        /// one if it is another.
        pub matching: Match,
        /// The frame, perhaps truncated.
        pub data: Vec<u8>,
    }
    V1_0 => [buffer_id as BufferId, total_len, matching as InPortOnly<V1_2>, reason, pad 1, data,]
    V1_1 => [buffer_id as BufferId, matching as InPortAndPhysical, total_len, reason, table_id, data,]
    V1_2 => [buffer_id as BufferId, total_len, reason, table_id, matching, pad 2, data,]
    V1_3.. => [buffer_id as BufferId, total_len, reason, table_id, cookie, matching, pad 2, data,]
}

/// What `cookie` says where there is no rule.
const NO_COOKIE: u64 = u64::MAX;

impl Default for PacketIn {
    fn default() -> Self {
        Self {
            buffer_id: None,
            total_len: 0,
            reason: PacketInReason::default(),
            table_id: 0,
            cookie: NO_COOKIE,
            matching: Match::default(),
            data: vec![],
        }
    }
}

impl PacketIn {
    /// Where the frame came in.
    pub fn in_port(&self) -> Option<PortNo> {
        self.matching.in_port()
    }
}

/// A match of nothing but a port, as the number of the port, where other fields need the version `NEEDS`; without a
/// port it is [`PortNo::ANY`].
pub(crate) struct InPortOnly<const NEEDS: u8>;

impl<const NEEDS: u8> Encoding<Match> for InPortOnly<NEEDS> {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let port = Some(PortNo::parse(r)?).filter(|&port| port != PortNo::ANY);
        Ok(port.map(Field::in_port).into_iter().collect())
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let [port] = ports(value, [FieldId::IN_PORT], Version(NEEDS), out)?;
        port.unwrap_or(PortNo::ANY).encode(out)
    }
}

/// The same with the physical port behind it, which is the same one if nothing is said of it.
struct InPortAndPhysical;

impl Encoding<Match> for InPortAndPhysical {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let (port, physical) = (PortNo::parse(r)?, PortNo::parse(r)?);
        let in_port = Some(port).filter(|&port| port != PortNo::ANY).map(Field::in_port);
        let other = Some(physical).filter(|&physical| physical != port);
        let other = other.map(|other| Field::new(FieldId::IN_PHY_PORT, other.0.into()));
        Ok(in_port.into_iter().chain(other).collect())
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let ids = [FieldId::IN_PORT, FieldId::IN_PHY_PORT];
        let [port, physical] = ports(value, ids, Version::V1_2, out)?;
        let port = port.unwrap_or(PortNo::ANY);
        port.encode(out)?;
        physical.unwrap_or(port).encode(out)
    }
}

/// The ports that `matching` has under `ids`.
///
/// # Errors
/// Names another field, or one that is not a whole port, with `needs`.
fn ports<const N: usize>(
    matching: &Match,
    ids: [FieldId; N],
    needs: Version,
    out: &Encoder<'_>,
) -> Result<[Option<PortNo>; N], EncodeError> {
    let mut found = [None; N];
    for oxm in &matching.fields {
        let place = found.iter_mut().zip(ids).find(|(_, id)| oxm.id().same_as(*id));
        let field = oxm.field().filter(|field| field.is_whole());
        let port = field.and_then(|field| u32::try_from(field.value).ok()).map(PortNo);
        match (place, port) {
            (Some((place, _)), Some(port)) if place.is_none() => *place = Some(port),
            _ => {
                let what = oxm.id().row().map_or("field", |row| row.name);
                return Err(EncodeError { what, version: out.version(), needs: Some(needs) });
            }
        }
    }
    Ok(found)
}

record! {
    /// `NXT_PACKET_IN`: the same in Nicira's form, for versions before 1.3.
    pub struct NxPacketIn: "nx_packet_in" {
        /// Slot in which the switch keeps the frame.
        pub buffer_id: Option<u32>,
        /// Bytes of the whole frame.
        pub total_len: u16,
        /// Why it came up.
        pub reason: PacketInReason,
        /// Table of the rule that sent it.
        pub table_id: u8,
        /// Mark of the rule that sent it; all ones if there is none.
        pub cookie: u64,
        /// Where it came in, and what else of it is not in the frame.
        pub matching: Match,
        /// The frame, perhaps truncated.
        pub data: Vec<u8>,
    }
    V1_0.. => [
        buffer_id as BufferId, total_len, reason, table_id, cookie, sized, pad 6,
        matching in sized as Nxm, align 0, pad 2, data,
    ]
}

impl Default for NxPacketIn {
    fn default() -> Self {
        Self {
            buffer_id: None,
            total_len: 0,
            reason: PacketInReason::default(),
            table_id: 0,
            cookie: NO_COOKIE,
            matching: Match::default(),
            data: vec![],
        }
    }
}

choice! {
    /// What `NXT_PACKET_IN2` and `NXT_RESUME` say of a frame, and what the switch needs to go on with it.
    pub enum PacketInProp: "packet_in property" {
        /// The frame, perhaps truncated.
        Packet "packet" {
            /// Its bytes.
            data: Vec<u8>,
        } = { V1_0.. => 0 [data,] };
        /// Bytes of the whole frame, if it is truncated.
        FullLen "full_len" {
            /// How many.
            len: u32,
        } = { V1_0.. => 1 [len,] };
        /// Slot in which the switch keeps the frame.
        BufferId "buffer_id" {
            /// Which.
            buffer_id: u32,
        } = { V1_0.. => 2 [buffer_id,] };
        /// Table of the rule that sent it.
        TableId "table_id" {
            /// Which.
            table_id: u8,
        } = { V1_0.. => 3 [table_id,] };
        /// Mark of the rule that sent it.
        Cookie "cookie" {
            /// The mark.
            cookie: u64,
        } = { V1_0.. => 4 [pad 4, cookie,] };
        /// Why it came up.
        Reason "reason" {
            /// The reason.
            reason: PacketInReason,
        } = { V1_0.. => 5 [reason,] };
        /// Where it came in, and what else of it is not in the frame.
        Metadata "metadata" {
            /// The fields.
            matching: Match,
        } = { V1_0.. => 6 [matching as Nxm,] };
        /// What the action said that sent it.
        Userdata "userdata" {
            /// Bytes.
            data: Vec<u8>,
        } = { V1_0.. => 7 [data,] };
        /// Where the switch was when it stopped: its own business, sent back as it is.
        Continuation "continuation" {
            /// Bytes.
            data: Vec<u8>,
        } = { V1_0.. => 8 [data,] };
    }
}

tlv!(PacketInProp, Outside, Property);

record! {
    /// `NXT_PACKET_IN2`, a frame the switch sends up; `NXT_RESUME`, one that it shall go on with.
    #[derive(Default)]
    pub struct NxPacketIn2: "nx_packet_in2" {
        /// What there is to say.
        pub properties: Vec<PacketInProp>,
    }
    V1_0.. => [properties,]
}
