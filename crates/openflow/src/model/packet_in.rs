//! `PACKET_IN`: a packet sent to the controller. §7.4.1.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::field::{Field, FieldId};
use super::matching::{BareMatch, Match};
use super::reader::Reader;
use super::rows::{choice, codes, record, tlv};
use super::wire_types::BufferId;
use crate::{EncodeError, Encoder, PortNo, Result, Version};

codes! {
    /// `OFPR_*`: why a packet is sent to the controller. §7.4.1.
    pub struct PacketInReason(u16 as u8);
    NO_MATCH = 0, V1_0 ..= V1_3, "No matching flow entry, or the table-miss flow entry.";
    TABLE_MISS = 0, V1_4, "No matching flow entry, or the table-miss flow entry.";
    ACTION = 1, V1_0 ..= V1_3, "Output to the controller by an action.";
    APPLY_ACTION = 1, V1_4, "Output to the controller by an applied action.";
    INVALID_TTL = 2, V1_0, "Invalid TTL. Before 1.2 an extension of Open vSwitch.";
    ACTION_SET = 3, V1_4, "Output to the controller by the action set.";
    GROUP = 4, V1_4, "Output to the controller by a group bucket.";
    PACKET_OUT = 5, V1_4, "Output to the controller by a `PACKET_OUT`.";
}

record! {
    /// A packet sent to the controller. §7.4.1.
    pub struct PacketIn: "packet_in" {
        /// Buffer of the switch that holds the packet.
        pub buffer_id: Option<u32>,
        /// Length of the complete packet, bytes.
        pub total_len: u16,
        /// Why it is sent.
        pub reason: PacketInReason,
        /// Table of the flow entry that sent it. Since 1.1.
        pub table_id: u8,
        /// Cookie of the flow entry that sent it; all ones if unknown. Since 1.3.
        pub cookie: u64,
        /// Pipeline fields: ingress port, metadata and others. In 1.0 only the ingress port, in 1.1 also the physical
        /// port if it differs.
        pub matching: Match,
        /// The packet, possibly truncated.
        pub data: Vec<u8>,
    }
    V1_0 => [buffer_id as BufferId, total_len, matching as InPortOnly, reason, pad 1, data,]
    V1_1 => [buffer_id as BufferId, matching as InPortAndPhysical, total_len, reason, table_id, data,]
    V1_2 => [buffer_id as BufferId, total_len, reason, table_id, matching, pad 2, data,]
    V1_3.. => [buffer_id as BufferId, total_len, reason, table_id, cookie, matching, pad 2, data,]
}

/// Value of `cookie` without a flow entry.
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
    /// Ingress port.
    pub fn in_port(&self) -> Option<PortNo> {
        self.matching.in_port()
    }
}

/// A match of at most an ingress port, encoded as the port number ([`PortNo::ANY`] for none). Other fields require 1.2.
struct InPortOnly;

impl Encoding<Match> for InPortOnly {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let port = Some(PortNo::parse(r)?).filter(|&port| port != PortNo::ANY);
        Ok(port.map(Field::in_port).into_iter().collect())
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let [port] = ports(value, [FieldId::IN_PORT], Version::V1_2, out)?;
        port.unwrap_or(PortNo::ANY).encode(out)
    }
}

/// A match of ingress port and physical port, encoded as two port numbers; the physical port defaults to the ingress
/// port.
struct InPortAndPhysical;

impl Encoding<Match> for InPortAndPhysical {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let (port, physical) = (PortNo::parse(r)?, PortNo::parse(r)?);
        let in_port = Some(port).filter(|&port| port != PortNo::ANY).map(Field::in_port);
        let in_phy_port = Some(physical).filter(|&physical| physical != port);
        let in_phy_port = in_phy_port.map(|port| Field::new(FieldId::IN_PHY_PORT, port.0.into()));
        Ok(in_port.into_iter().chain(in_phy_port).collect())
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let ids = [FieldId::IN_PORT, FieldId::IN_PHY_PORT];
        let [port, physical] = ports(value, ids, Version::V1_2, out)?;
        let port = port.unwrap_or(PortNo::ANY);
        port.encode(out)?;
        physical.unwrap_or(port).encode(out)
    }
}

/// The ports that `matching` has in the fields `ids`.
///
/// # Errors
/// Names any other field, or a masked one, with the version `needs`.
pub(super) fn ports<const N: usize>(
    matching: &Match,
    ids: [FieldId; N],
    needs: Version,
    out: &Encoder<'_>,
) -> Result<[Option<PortNo>; N], EncodeError> {
    let mut found = [None; N];
    for oxm in &matching.fields {
        let slot = found.iter_mut().zip(ids).find(|(_, id)| oxm.id().same_as(*id));
        let field = oxm.field().filter(|field| field.is_exact());
        let port = field.and_then(|field| u32::try_from(field.value).ok()).map(PortNo);
        match (slot, port) {
            (Some((slot, _)), Some(port)) if slot.is_none() => *slot = Some(port),
            _ => {
                let what = oxm.id().row().map_or("field", |row| row.name);
                return Err(EncodeError::new(what, out.version(), Some(needs)));
            }
        }
    }
    Ok(found)
}

record! {
    /// `NXT_PACKET_IN`: a packet sent to the controller, with an extensible match for versions before 1.3.
    pub struct NxPacketIn: "nx_packet_in" {
        /// Buffer of the switch that holds the packet.
        pub buffer_id: Option<u32>,
        /// Length of the complete packet, bytes.
        pub total_len: u16,
        /// Why it is sent.
        pub reason: PacketInReason,
        /// Table of the flow entry that sent it.
        pub table_id: u8,
        /// Cookie of the flow entry that sent it; all ones if unknown.
        pub cookie: u64,
        /// Pipeline fields: ingress port, metadata and others.
        pub matching: Match,
        /// The packet, possibly truncated.
        pub data: Vec<u8>,
    }
    V1_0.. => [
        buffer_id as BufferId, total_len, reason, table_id, cookie, sized, pad 6,
        matching in sized as BareMatch, align 0, pad 2, data,
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
    /// Property of `NXT_PACKET_IN2` and `NXT_RESUME`: the packet, and the state in which the switch resumes it.
    pub enum PacketInProp: "packet_in property" {
        /// The packet, possibly truncated.
        Packet "packet" {
            /// Bytes of the packet.
            data: Vec<u8>,
        } = { V1_0.. => 0 [data,] };
        /// Length of the complete packet, if it is truncated.
        FullLen "full_len" {
            /// Length, bytes.
            len: u32,
        } = { V1_0.. => 1 [len,] };
        /// Buffer of the switch that holds the packet.
        BufferId "buffer_id" {
            /// Buffer ID.
            buffer_id: u32,
        } = { V1_0.. => 2 [buffer_id,] };
        /// Table of the flow entry that sent it.
        TableId "table_id" {
            /// Table number.
            table_id: u8,
        } = { V1_0.. => 3 [table_id,] };
        /// Cookie of the flow entry that sent it.
        Cookie "cookie" {
            /// Cookie.
            cookie: u64,
        } = { V1_0.. => 4 [pad 4, cookie,] };
        /// Why the packet is sent.
        Reason "reason" {
            /// Reason.
            reason: PacketInReason,
        } = { V1_0.. => 5 [reason,] };
        /// Pipeline fields: ingress port, metadata and others.
        Metadata "metadata" {
            /// Fields.
            matching: Match,
        } = { V1_0.. => 6 [matching as BareMatch,] };
        /// Data from the `controller2` action that sent it.
        Userdata "userdata" {
            /// The data.
            data: Vec<u8>,
        } = { V1_0.. => 7 [data,] };
        /// Opaque state of the switch, to be returned unchanged in `NXT_RESUME`.
        Continuation "continuation" {
            /// The state.
            data: Vec<u8>,
        } = { V1_0.. => 8 [data,] };
    }
}

tlv!(PacketInProp, Outside, Property);

record! {
    /// `NXT_PACKET_IN2`, a packet sent to the controller; and `NXT_RESUME`, a paused packet returned to the switch.
    #[derive(Default)]
    pub struct NxPacketIn2: "nx_packet_in2" {
        /// Properties.
        pub properties: Vec<PacketInProp>,
    }
    V1_0.. => [properties,]
}
