//! Flow monitors: notifications about changes of flow entries. OpenFlow 1.4.0 §7.3.5.17; a Nicira extension in 1.0 to
//! 1.2, an ONF extension in 1.3.

use super::codec::versions::*;
use super::codec::{Choice, Codec, Encoding, JointEncoding, ListItem};
use super::flow_removed::FlowRemovedReason;
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{BareMatch, Match};
use super::reader::Reader;
use super::rows::{choice, codes, flags, record};
use super::wire_types::Port16;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, PortNo, Result};

codes! {
    /// `OFPFMC_*`: command for a flow monitor. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorCommand(u8);
    ADD = 0, V1_4, "Create a monitor.";
    MODIFY = 1, V1_4, "Replace a monitor.";
    DELETE = 2, V1_4, "Delete a monitor.";
}

flags! {
    /// `OFPFMF_*`: what a monitor reports. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorFlags(u32 as u16);
    INITIAL = 1, V1_0, "Flow entries that exist when the monitor is created.";
    ADD = 2, V1_0, "Added flow entries.";
    REMOVED = 4, V1_0, "Removed flow entries.";
    MODIFY = 8, V1_0, "Modified flow entries.";
    INSTRUCTIONS = 16, V1_0, "Include the instructions.";
    NO_ABBREV = 32, V1_0, "Report the requester's own changes in full, not abbreviated.";
    ONLY_OWN = 64, V1_4, "Report only the requester's own changes.";
}

record! {
    /// Creates, replaces or deletes a flow monitor. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorRequest: "flow_monitor request" {
        /// Monitor number, chosen by the controller.
        pub monitor_id: u32,
        /// Only flow entries with an output to this port; [`PortNo::ANY`] does not restrict.
        pub out_port: PortNo,
        /// Only flow entries that use this group; [`GroupId::ANY`] does not restrict. Since 1.4.
        pub out_group: GroupId,
        /// Which changes are reported, and how.
        pub flags: FlowMonitorFlags,
        /// Only flow entries of this table; 255 is all tables.
        pub table_id: u8,
        /// Command. Since 1.4.
        pub command: FlowMonitorCommand,
        /// Only flow entries whose match is this one or more specific.
        pub matching: Match,
        /// Whether the match is encoded without its `ofp_match` header, as the ONF extension of 1.3 specifies; Open
        /// vSwitch encodes the header. Only 1.3.
        pub bare_match: bool,
    }
    V1_0..=V1_2 => [
        monitor_id, flags, out_port as Port16, sized, table_id, pad 5, matching in sized as BareMatch,
        align 0,
    ]
    V1_3 => [
        monitor_id, flags, sized, out_port, table_id, pad 3, matching and bare_match in sized as OnfMatch,
        align 0,
    ]
    V1_4.. => [monitor_id, out_port, out_group, flags, table_id, command, matching,]
}

impl Default for FlowMonitorRequest {
    fn default() -> Self {
        Self {
            monitor_id: 0,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowMonitorFlags::default(),
            table_id: 0xff,
            command: FlowMonitorCommand::ADD,
            matching: Match::default(),
            bare_match: false,
        }
    }
}

impl ListItem for FlowMonitorRequest {}

/// A match of the ONF extension, with or without its `ofp_match` header.
struct OnfMatch;

/// `OFPMT_OXM`.
const OFPMT_OXM: u16 = 1;

impl JointEncoding<Match, bool> for OnfMatch {
    fn parse(r: &mut Reader<'_>) -> Result<(Match, bool)> {
        let head = r.peek().first_chunk().map(|head| u32::from_be_bytes(*head));
        let expected =
            u16::try_from(r.len()).map(|len| u32::from(OFPMT_OXM) << 16 | u32::from(len));
        let bare_match = head.is_none() || head != expected.ok();
        if !bare_match {
            r.take("match", 4)?;
        }
        Ok((BareMatch::parse(r)?, bare_match))
    }

    fn encode(
        matching: &Match,
        bare_match: &bool,
        out: &mut Encoder<'_>,
    ) -> Result<(), EncodeError> {
        if *bare_match {
            return BareMatch::encode(matching, out);
        }
        let start = out.len();
        OFPMT_OXM.encode(out)?;
        out.put(&[0u8; 2]);
        BareMatch::encode(matching, out)?;
        out.patch_len(start, 2)
    }
}

record! {
    /// A flow entry that was added, modified or removed. OpenFlow 1.4.0 §7.3.5.17.
    #[derive(Default)]
    pub struct MonitoredFlow: "flow_update" {
        /// Table of the flow entry.
        pub table_id: u8,
        /// Why it was removed, if it was.
        pub reason: FlowRemovedReason,
        /// Seconds without a matching packet after which the flow entry expires; 0 is never.
        pub idle_timeout: u16,
        /// Seconds after which the flow entry expires; 0 is never.
        pub hard_timeout: u16,
        /// Priority.
        pub priority: u16,
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Match.
        pub matching: Match,
        /// Whether the match is encoded without its `ofp_match` header, as the ONF extension of 1.3 specifies; Open
        /// vSwitch encodes the header. Only 1.3.
        pub bare_match: bool,
        /// Instructions, if the monitor has [`FlowMonitorFlags::INSTRUCTIONS`].
        pub instructions: Vec<Instruction>,
    }
    V1_0..=V1_2 => [
        reason as Reason16, priority, idle_timeout, hard_timeout, sized, table_id, pad 1, cookie,
        matching in sized as BareMatch, align 4, instructions as PlainActions,
    ]
    V1_3 => [
        reason as Reason16, priority, idle_timeout, hard_timeout, sized, table_id, pad 1, cookie,
        matching and bare_match in sized as OnfMatch, align 4, instructions,
    ]
    V1_4.. => [
        table_id, reason, idle_timeout, hard_timeout, priority, pad 4, cookie, matching,
        instructions,
    ]
}

/// A reason in 16 bits.
struct Reason16;

impl Encoding<FlowRemovedReason> for Reason16 {
    fn parse(r: &mut Reader<'_>) -> Result<FlowRemovedReason> {
        let error = r.error("reason", ParseErrorKind::Value);
        let reason = r.u16("reason")?;
        let wrong = |_| error.with_value(reason.into(), Expected::AtMost(255));
        let reason = u8::try_from(reason).map_err(wrong)?;
        Ok(FlowRemovedReason::from_wire(reason, r.version()))
    }

    fn encode(value: &FlowRemovedReason, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        u16::from(value.to_wire(out.version())?).encode(out)
    }
}

choice! {
    /// A notification of a flow monitor. OpenFlow 1.4.0 §7.3.5.17.
    pub enum FlowUpdate: "flow_update" {
        /// A flow entry existed when the monitor was created. Before 1.4 reported as [`Added`](Self::Added).
        Initial "initial" (MonitoredFlow) = { V1_4.. => 0 };
        /// A flow entry was added.
        Added "added" (MonitoredFlow) = { V1_0..=V1_3 => 0, V1_4.. => 1 };
        /// A flow entry was removed.
        Removed "removed" (MonitoredFlow) = { V1_0..=V1_3 => 1, V1_4.. => 2 };
        /// A flow entry was modified.
        Modified "modified" (MonitoredFlow) = { V1_0..=V1_3 => 2, V1_4.. => 3 };
        /// Abbreviated report: a request of this controller was executed.
        Abbrev "abbrev" {
            /// Transaction ID of the request.
            xid: u32,
        } = { V1_0..=V1_3 => 3 [xid,], V1_4.. => 4 [xid,] };
        /// Reporting is paused because the controller does not keep up. A message of its own before 1.4.
        Paused "paused" = { V1_4.. => 5 [pad 4,] };
        /// Reporting has resumed. A message of its own before 1.4.
        Resumed "resumed" = { V1_4.. => 6 [pad 4,] };
    }
}

impl ListItem for FlowUpdate {}

/// Encoded as length, event number, body.
impl Codec for FlowUpdate {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut head = r.nested(Self::TYPE_NAME, ErrorContext::Request)?;
        let len = usize::from(head.u16(Self::TYPE_NAME)?);
        let event = head.u16(Self::TYPE_NAME)?;
        let wrong = |expected| r.length_error(r.at(), Self::TYPE_NAME, len, expected);
        if len % 8 != 0 {
            return Err(wrong(Expected::MultipleOf(8)));
        }
        let rest = len.checked_sub(4).ok_or_else(|| wrong(Expected::AtLeast(8)))?;
        let too_long = |_| wrong(Expected::saturating(Expected::AtMost, r.len()));
        let mut inner = head.sub(Self::TYPE_NAME, rest).map_err(too_long)?;
        let update = Self::parse_variant(event.into(), &mut inner)?;
        inner.finish(Self::TYPE_NAME)?;
        r.take(Self::TYPE_NAME, len)?;
        Ok(update)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (start, version) = (out.len(), out.version());
        let error = EncodeError::new(Self::TYPE_NAME, version, None);
        let event = u16::try_from(self.code(version)?).map_err(|_| error)?;
        out.put(&[0u8; 2]);
        event.encode(out)?;
        self.encode_body(out)?;
        if !(out.len() - start).is_multiple_of(8) {
            return Err(error);
        }
        out.patch_len(start, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::multipart::{MultipartReply, MultipartRequest};
    use crate::model::vectors::{RowCoverage, check_corrupted, check_vectors};
    use crate::model::{Message, PacketInProp};

    const FILE: &str = "flows.txt";

    #[test]
    fn flow_and_packet_vectors_parse_and_encode_as_recorded() {
        check_vectors(FILE);
    }

    #[test]
    fn damaged_flow_and_packet_vectors_never_panic() {
        check_corrupted(FILE);
    }

    #[test]
    fn every_flow_and_packet_row_has_a_vector_in_every_version() {
        let coverage = RowCoverage::of_file(FILE);
        let messages = [
            "packet_in",
            "nx_packet_in",
            "nx_packet_in2",
            "nx_resume",
            "flow_removed",
            "nx_flow_removed",
            "packet_out",
            "flow_mod",
            "nx_flow_mod",
            "flow_monitor_cancel",
            "flow_monitor_paused",
            "flow_monitor_resumed",
        ];
        coverage.assert_all::<Message>(&[""], |row| messages.contains(&row.name));
        let parts = [
            "flow_desc",
            "flow_stats",
            "aggregate_stats",
            "nx_flow",
            "nx_aggregate",
            "flow_monitor",
        ];
        coverage.assert_all::<MultipartRequest>(&["multipart_request.body"], |row| {
            parts.contains(&row.name)
        });
        coverage.assert_all::<MultipartReply>(&["multipart_reply.body"], |row| {
            parts.contains(&row.name)
        });
        coverage.assert_all::<FlowUpdate>(&["flow_monitor.updates"], |_| true);
        coverage.assert_all::<PacketInProp>(&["nx_packet_in2.properties"], |_| true);
        coverage.assert_all::<PacketInProp>(&["nx_resume.properties"], |_| true);
    }
}
