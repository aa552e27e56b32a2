//! Rules whose changes are told as they happen. OpenFlow 1.4.0 §7.3.5.17; before 1.3 Nicira's, in 1.3 the ONF's.

use super::codec::versions::*;
use super::codec::{Choice, Codec, Encoding, JointEncoding, ListItem};
use super::flow_removed::FlowRemovedReason;
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{Match, Nxm};
use super::reader::Reader;
use super::rows::{choice, codes, flags, record};
use super::wire_types::Port16;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, ParseErrorKind, PortNo, Result};

codes! {
    /// What is done with a monitor. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorCommand(u8);
    ADD = 0, V1_0, "A new monitor.";
    MODIFY = 1, V1_4, "Another one in place of one.";
    DELETE = 2, V1_4, "A monitor goes.";
}

flags! {
    /// `OFPFMF_*`: what a monitor tells. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorFlags(u16);
    INITIAL = 1, V1_0, "Rules that are there already.";
    ADD = 2, V1_0, "New rules.";
    REMOVED = 4, V1_0, "Rules that go.";
    MODIFY = 8, V1_0, "Rules that change.";
    INSTRUCTIONS = 16, V1_0, "What the rules do.";
    NO_ABBREV = 32, V1_0, "The asker's own changes in full.";
    ONLY_OWN = 64, V1_4, "Nobody's changes but the asker's.";
}

record! {
    /// One monitor. OpenFlow 1.4.0 §7.3.5.17.
    pub struct FlowMonitorRequest: "flow_monitor request" {
        /// Its number, which the controller gives it.
        pub monitor_id: u32,
        /// Rules that output here; [`PortNo::ANY`] for all.
        pub out_port: PortNo,
        /// Rules that send to this group; [`GroupId::ANY`] for all. Since 1.4.
        pub out_group: GroupId,
        /// What it tells.
        pub flags: FlowMonitorFlags,
        /// Rules of a table; 255 for all.
        pub table_id: u8,
        /// What is done with it. Since 1.4.
        pub command: FlowMonitorCommand,
        /// Rules that this covers.
        pub matching: Match,
        /// Whether the match is its fields alone, as the ONF has it in 1.3; Open vSwitch has type and length before them.
        pub bare_match: bool,
    }
    V1_0..=V1_2 => [
        monitor_id, flags, out_port as Port16, sized, table_id, pad 5, matching in sized as Nxm,
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

/// The match of the ONF's messages, in as many bytes as a length elsewhere tells.
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
        Ok((Nxm::parse(r)?, bare_match))
    }

    fn encode(
        matching: &Match,
        bare_match: &bool,
        out: &mut Encoder<'_>,
    ) -> Result<(), EncodeError> {
        if *bare_match {
            return Nxm::encode(matching, out);
        }
        let start = out.len();
        OFPMT_OXM.encode(out)?;
        out.put(&[0u8; 2]);
        Nxm::encode(matching, out)?;
        out.patch_len(start, 2)
    }
}

record! {
    /// A rule that came, changed or went. OpenFlow 1.4.0 §7.3.5.17.
    #[derive(Default)]
    pub struct MonitoredFlow: "flow_update" {
        /// Its table.
        pub table_id: u8,
        /// Why it went, if it did.
        pub reason: FlowRemovedReason,
        /// Seconds without a packet after which it goes; 0 never.
        pub idle_timeout: u16,
        /// Seconds after which it goes; 0 never.
        pub hard_timeout: u16,
        /// Its priority.
        pub priority: u16,
        /// The controller's own mark.
        pub cookie: u64,
        /// What it matches.
        pub matching: Match,
        /// Whether the match is its fields alone, as the ONF has it in 1.3; Open vSwitch has type and length before them.
        pub bare_match: bool,
        /// What it does, if that was asked for.
        pub instructions: Vec<Instruction>,
    }
    V1_0..=V1_2 => [
        reason as Reason16, priority, idle_timeout, hard_timeout, sized, table_id, pad 1, cookie,
        matching in sized as Nxm, align 4, instructions as PlainActions,
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
        let wrong = r.error("reason", ParseErrorKind::Value);
        u8::try_from(r.u16("reason")?).map(FlowRemovedReason).map_err(|_| wrong)
    }

    fn encode(value: &FlowRemovedReason, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        u16::from(value.0).encode(out)
    }
}

choice! {
    /// What a monitor tells. OpenFlow 1.4.0 §7.3.5.17.
    pub enum FlowUpdate: "flow_update" {
        /// A rule was there already. Before 1.4 it is told as one that came.
        Initial "initial" (MonitoredFlow) = { V1_4.. => 0 };
        /// A rule came.
        Added "added" (MonitoredFlow) = { V1_0..=V1_3 => 0, V1_4.. => 1 };
        /// A rule went.
        Removed "removed" (MonitoredFlow) = { V1_0..=V1_3 => 1, V1_4.. => 2 };
        /// A rule changed.
        Modified "modified" (MonitoredFlow) = { V1_0..=V1_3 => 2, V1_4.. => 3 };
        /// What a request of the controller's own asked for was done.
        Abbrev "abbrev" {
            /// Transaction id of the request.
            xid: u32,
        } = { V1_0..=V1_3 => 3 [xid,], V1_4.. => 4 [xid,] };
        /// Changes come too fast and are not told for a while. Before 1.4 a message of its own.
        Paused "paused" = { V1_4.. => 5 [pad 4,] };
        /// Changes are told again. Before 1.4 a message of its own.
        Resumed "resumed" = { V1_4.. => 6 [pad 4,] };
    }
}

impl ListItem for FlowUpdate {}

/// The length of all, the number, the rest.
impl Codec for FlowUpdate {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut head = r.nested(Self::TYPE_NAME, ErrorContext::Request)?;
        let wrong = head.error(Self::TYPE_NAME, ParseErrorKind::Length);
        let len = usize::from(head.u16(Self::TYPE_NAME)?);
        let event = head.u16(Self::TYPE_NAME)?;
        let rest = len.checked_sub(4).filter(|_| len % 8 == 0).ok_or(wrong)?;
        let mut inner = head.sub(Self::TYPE_NAME, rest).map_err(|_| wrong)?;
        let read = Self::parse_variant(event.into(), &mut inner)?;
        inner.finish(Self::TYPE_NAME)?;
        r.take(Self::TYPE_NAME, len)?;
        Ok(read)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (start, version) = (out.len(), out.version());
        let unknown = EncodeError { what: Self::TYPE_NAME, version, needs: None };
        let event = u16::try_from(self.code(version)?).map_err(|_| unknown)?;
        out.put(&[0u8; 2]);
        event.encode(out)?;
        self.encode_body(out)?;
        if !(out.len() - start).is_multiple_of(8) {
            return Err(unknown);
        }
        out.patch_len(start, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::multipart::{MultipartReply, MultipartRequest};
    use crate::model::vectors::{Seen, damage, prove};
    use crate::model::{Message, PacketInProp};

    const FILE: &str = "flows.txt";

    #[test]
    fn flows_and_packets_are_read_as_the_file_says_and_come_back() {
        prove(FILE);
    }

    #[test]
    fn damaged_bytes_of_flows_and_packets_are_errors_or_something_else() {
        damage(FILE);
    }

    #[test]
    fn every_row_about_flows_and_packets_has_bytes_in_every_version() {
        let seen = Seen::of(FILE);
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
        seen.all::<Message>(&[""], |row| messages.contains(&row.name));
        let parts = [
            "flow_desc",
            "flow_stats",
            "aggregate_stats",
            "nx_flow",
            "nx_aggregate",
            "flow_monitor",
        ];
        seen.all::<MultipartRequest>(&["multipart_request.body"], |row| parts.contains(&row.name));
        seen.all::<MultipartReply>(&["multipart_reply.body"], |row| parts.contains(&row.name));
        seen.all::<FlowUpdate>(&["flow_monitor.updates"], |_| true);
        seen.all::<PacketInProp>(&["nx_packet_in2.properties"], |_| true);
        seen.all::<PacketInProp>(&["nx_resume.properties"], |_| true);
    }
}
