//! `MULTIPART_REQUEST`, `MULTIPART_REPLY`: statistics and descriptions. §7.3.5.

use super::bundle::{BundleFeatures, BundleFeaturesRequest};
use super::codec::versions::*;
use super::codec::{Choice, Codec, experimenter_code};
use super::controller_status::ControllerStatus;
use super::desc::SwitchDesc;
use super::flow_monitor::{FlowMonitorRequest, FlowUpdate};
use super::flow_stats::{
    AggregateStats, FlowDesc, FlowStats, FlowStatsRequest, NxFlowStats, NxFlowStatsRequest,
};
use super::group_stats::{
    GroupDesc, GroupDescRequest, GroupFeatures, GroupStats, GroupStatsRequest,
};
use super::meter_stats::{MeterDesc, MeterFeatures, MeterRequest, MeterStats};
use super::nicira::NxIpfixStats;
use super::port::Port;
use super::port_stats::{PortDescRequest, PortStats, PortStatsRequest};
use super::queue::{Queue, QueueRequest, QueueStats};
use super::reader::Reader;
use super::rows::{choice, flags};
use super::table::{TableDesc, TableStats};
use super::table_features::TableFeatures;
use super::value::{Entries, NeutralForm, Value, ValueError};
use crate::{EncodeError, Encoder, Result, Version};

flags! {
    /// `OFPMPF_*`: flags of multipart messages. §7.3.5.
    pub struct MultipartFlags(u16);
    MORE = 1, V1_0, "More parts of the same request or reply follow.";
}

choice! {
    /// Body of a multipart request.
    ///
    /// In the rows, experimenter types (Nicira, ONF) are the experimenter ID in the upper 32 bits and the type below
    /// it.
    pub enum MultipartRequest: "multipart request" {
        /// Requests the [description](super::SwitchDesc) of the switch. §7.3.5.1.
        Desc "desc" = { V1_0.. => 0 };
        /// Requests the counters of all tables. §7.3.5.4.
        TableStats "table_stats" = { V1_0.. => 3 };
        /// Requests the counters of ports. §7.3.5.6.
        PortStats "port_stats" (PortStatsRequest) = { V1_0.. => 4 };
        /// Requests the capabilities of all tables, if it names none; otherwise configures them. §7.3.5.5.
        TableFeatures "table_features" {
            /// Tables to configure; empty to request all.
            tables: Vec<TableFeatures>,
        } = { V1_3.. => 12 [tables,] };
        /// Requests the ports. §7.3.5.7. Before 1.3 an extension of Open vSwitch.
        PortDesc "port_desc" (PortDescRequest) = { V1_0.. => 13 };
        /// Requests the counters of queues. §7.3.5.8.
        QueueStats "queue_stats" (QueueRequest) = { V1_0.. => 5 };
        /// Requests the configuration of all tables. OpenFlow 1.4.0 §7.3.5.16.
        TableDesc "table_desc" = { V1_4.. => 14 };
        /// Requests the queues. OpenFlow 1.4.0 §7.3.5.11.
        QueueDesc "queue_desc" (QueueRequest) = { V1_4.. => 15 };
        /// Requests flow entries with their counters; `OFPMP_FLOW` before 1.5. §7.3.5.2.
        FlowDesc "flow_desc" (FlowStatsRequest) = { V1_0.. => 1 };
        /// Requests the counters of flow entries. OpenFlow 1.5.0 §7.3.5.3.
        FlowStats "flow_stats" (FlowStatsRequest) = { V1_5.. => 17 };
        /// Requests counters summed over flow entries. §7.3.5.3.
        AggregateStats "aggregate_stats" (FlowStatsRequest) = { V1_0.. => 2 };
        /// Requests flow entries with their counters. Nicira, 1.0 only.
        NxFlow "nx_flow" (NxFlowStatsRequest) = { V1_0 => 0x2320_0000_0000 };
        /// Requests counters summed over flow entries. Nicira, 1.0 only.
        NxAggregate "nx_aggregate" (NxFlowStatsRequest) = { V1_0 => 0x2320_0000_0001 };
        /// Creates flow monitors. OpenFlow 1.4.0 §7.3.5.17; before 1.3 a Nicira extension, in 1.3 an ONF extension.
        FlowMonitor "flow_monitor" {
            /// Monitors.
            monitors: Vec<FlowMonitorRequest>,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0002 [monitors,],
            V1_3 => 0x4f4e_4600_0000_074e [monitors,],
            V1_4.. => 16 [monitors,],
        };
        /// Requests the counters of groups. §7.3.5.9. In 1.0 a Nicira extension.
        GroupStats "group_stats" (GroupStatsRequest) = { V1_0 => 0x2320_0000_0007, V1_1.. => 6 };
        /// Requests the groups. §7.3.5.10. In 1.0 a Nicira extension.
        GroupDesc "group_desc" (GroupDescRequest) = { V1_0 => 0x2320_0000_0008, V1_1.. => 7 };
        /// Requests the group features of the switch. §7.3.5.11. In 1.0 and 1.1 a Nicira extension.
        GroupFeatures "group_features" = { V1_0 | V1_1 => 0x2320_0000_0009, V1_2.. => 8 };
        /// Requests the counters of meters. §7.3.5.12.
        MeterStats "meter_stats" (MeterRequest) = { V1_3.. => 9 };
        /// Requests the meters; `OFPMP_METER_CONFIG` before 1.5. §7.3.5.13.
        MeterDesc "meter_desc" (MeterRequest) = { V1_3.. => 10 };
        /// Requests the meter features of the switch. §7.3.5.14.
        MeterFeatures "meter_features" = { V1_3.. => 11 };
        /// Requests the state of all controllers. OpenFlow 1.5.0 §7.3.5.
        ControllerStatus "controller_status" = { V1_5.. => 18 };
        /// Requests the supported bundles. OpenFlow 1.5.0 §7.3.5.
        BundleFeatures "bundle_features" (BundleFeaturesRequest) = { V1_5.. => 19 };
        /// Requests the counters of the bridge's IPFIX exporter. Nicira.
        NxIpfixBridge "nx_ipfix_bridge" = { V1_0.. => 0x2320_0000_0003 };
        /// Requests the counters of per-flow IPFIX exporters. Nicira.
        NxIpfixFlow "nx_ipfix_flow" = { V1_0.. => 0x2320_0000_0004 };
        /// Experimenter request without a row of its own. §7.3.5.15.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type. Before 1.2, if there is one, it is part of the data.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = {
            V1_0 | V1_1 => 0xffff [experimenter, data,],
            V1_2.. => 0xffff [experimenter, exp_type, data,],
        };
    }
}

choice! {
    /// Body of a multipart reply. Types are numbered as in [`MultipartRequest`].
    pub enum MultipartReply: "multipart reply" {
        /// Description of the switch. §7.3.5.1.
        Desc "desc" (Box<SwitchDesc>) = { V1_0.. => 0 };
        /// Counters of tables. §7.3.5.4.
        TableStats "table_stats" {
            /// Tables.
            tables: Vec<TableStats>,
        } = { V1_0.. => 3 [tables,] };
        /// Counters of ports. §7.3.5.6.
        PortStats "port_stats" {
            /// Ports.
            ports: Vec<PortStats>,
        } = { V1_0.. => 4 [ports,] };
        /// Capabilities of tables. §7.3.5.5.
        TableFeatures "table_features" {
            /// Tables.
            tables: Vec<TableFeatures>,
        } = { V1_3.. => 12 [tables,] };
        /// Ports. §7.3.5.7. Before 1.3 an extension of Open vSwitch.
        PortDesc "port_desc" {
            /// Ports.
            ports: Vec<Port>,
        } = { V1_0.. => 13 [ports,] };
        /// Counters of queues. §7.3.5.8.
        QueueStats "queue_stats" {
            /// Queues.
            queues: Vec<QueueStats>,
        } = { V1_0.. => 5 [queues,] };
        /// Configuration of tables. OpenFlow 1.4.0 §7.3.5.16.
        TableDesc "table_desc" {
            /// Tables.
            tables: Vec<TableDesc>,
        } = { V1_4.. => 14 [tables,] };
        /// Queues. OpenFlow 1.4.0 §7.3.5.11.
        QueueDesc "queue_desc" {
            /// Queues.
            queues: Vec<Queue>,
        } = { V1_4.. => 15 [queues,] };
        /// Flow entries with their counters; `OFPMP_FLOW` before 1.5. §7.3.5.2.
        FlowDesc "flow_desc" {
            /// Flow entries.
            flows: Vec<FlowDesc>,
        } = { V1_0.. => 1 [flows,] };
        /// Counters of flow entries. OpenFlow 1.5.0 §7.3.5.3.
        FlowStats "flow_stats" {
            /// Flow entries.
            flows: Vec<FlowStats>,
        } = { V1_5.. => 17 [flows,] };
        /// Counters summed over flow entries. §7.3.5.3.
        AggregateStats "aggregate_stats" (AggregateStats) = { V1_0.. => 2 };
        /// Flow entries with their counters. Nicira, 1.0 only.
        NxFlow "nx_flow" {
            /// Flow entries.
            flows: Vec<NxFlowStats>,
        } = { V1_0 => 0x2320_0000_0000 [flows,] };
        /// Counters summed over flow entries. Nicira, 1.0 only.
        NxAggregate "nx_aggregate" (AggregateStats) = { V1_0 => 0x2320_0000_0001 };
        /// Notifications of flow monitors. OpenFlow 1.4.0 §7.3.5.17; before 1.3 a Nicira extension, in 1.3 an ONF
        /// extension.
        FlowMonitor "flow_monitor" {
            /// Notifications.
            updates: Vec<FlowUpdate>,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0002 [updates,],
            V1_3 => 0x4f4e_4600_0000_074e [updates,],
            V1_4.. => 16 [updates,],
        };
        /// Counters of groups. §7.3.5.9. In 1.0 a Nicira extension.
        GroupStats "group_stats" {
            /// Groups.
            groups: Vec<GroupStats>,
        } = { V1_0 => 0x2320_0000_0007 [groups,], V1_1.. => 6 [groups,] };
        /// Groups. §7.3.5.10. In 1.0 a Nicira extension.
        GroupDesc "group_desc" {
            /// Groups.
            groups: Vec<GroupDesc>,
        } = { V1_0 => 0x2320_0000_0008 [groups,], V1_1.. => 7 [groups,] };
        /// Group features of the switch. §7.3.5.11. In 1.0 and 1.1 a Nicira extension.
        GroupFeatures "group_features" (GroupFeatures) = { V1_0 | V1_1 => 0x2320_0000_0009, V1_2.. => 8 };
        /// Counters of meters. §7.3.5.12.
        MeterStats "meter_stats" {
            /// Meters.
            meters: Vec<MeterStats>,
        } = { V1_3.. => 9 [meters,] };
        /// Meters; `OFPMP_METER_CONFIG` before 1.5. §7.3.5.13.
        MeterDesc "meter_desc" {
            /// Meters.
            meters: Vec<MeterDesc>,
        } = { V1_3.. => 10 [meters,] };
        /// Meter features of the switch. §7.3.5.14.
        MeterFeatures "meter_features" (MeterFeatures) = { V1_3.. => 11 };
        /// State of controllers. OpenFlow 1.5.0 §7.3.5.
        ControllerStatus "controller_status" {
            /// Controllers.
            controllers: Vec<ControllerStatus>,
        } = { V1_5.. => 18 [controllers,] };
        /// Supported bundles. OpenFlow 1.5.0 §7.3.5.
        BundleFeatures "bundle_features" (BundleFeatures) = { V1_5.. => 19 };
        /// Counters of the bridge's IPFIX exporter. Nicira.
        NxIpfixBridge "nx_ipfix_bridge" (NxIpfixStats) = { V1_0.. => 0x2320_0000_0003 };
        /// Counters of per-flow IPFIX exporters. Nicira.
        NxIpfixFlow "nx_ipfix_flow" {
            /// One for each collector set.
            exporters: Vec<NxIpfixStats>,
        } = { V1_0.. => 0x2320_0000_0004 [exporters,] };
        /// Experimenter reply without a row of its own. §7.3.5.15.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type. Before 1.2, if there is one, it is part of the data.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = {
            V1_0 | V1_1 => 0xffff [experimenter, data,],
            V1_2.. => 0xffff [experimenter, exp_type, data,],
        };
    }
}

/// One part of a multipart request or reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart<T> {
    /// Whether more parts follow.
    pub flags: MultipartFlags,
    /// Body of this part.
    pub body: T,
}

impl<T> Multipart<T> {
    /// A request or reply that is complete in one part.
    pub fn single(body: T) -> Self {
        Self { flags: MultipartFlags::default(), body }
    }
}

/// Multipart type of experimenter bodies.
const EXPERIMENTER: u16 = 0xffff;

/// Padding bytes after the type of a Nicira body.
const fn nicira_pad(version: Version) -> usize {
    if version.0 == V1_0 { 4 } else { 0 }
}

/// Bytes before the content of a Nicira body: experimenter ID, type and padding.
pub(crate) const fn nicira_header_len(version: Version) -> usize {
    8 + nicira_pad(version)
}

/// The number of the body of type `kind`, whose header is taken from `r` if it is one of Nicira.
pub(crate) fn multipart_code<T: Choice>(kind: u16, r: &mut Reader<'_>) -> Result<u64> {
    experimenter_code::<T>(kind, kind == EXPERIMENTER, nicira_pad(r.version()), r)
}

impl<T: Choice> Codec for Multipart<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let kind = r.u16("multipart type")?;
        let flags = MultipartFlags::parse(r)?;
        if r.version() > Version::V1_0 {
            r.take("multipart", 4)?;
        }
        let code = multipart_code::<T>(kind, r)?;
        Ok(Self { flags, body: T::parse_variant(code, r)? })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let code = self.body.code(out.version())?;
        u16::try_from(code).unwrap_or(EXPERIMENTER).encode(out)?;
        self.flags.encode(out)?;
        if out.version() > Version::V1_0 {
            out.put(&[0u8; 4]);
        }
        if code > u64::from(u16::MAX) {
            code.encode(out)?;
            out.put([0u8; 4].get(..nicira_pad(out.version())).unwrap_or_default());
        }
        self.body.encode_body(out)
    }
}

impl<T: NeutralForm> NeutralForm for Multipart<T> {
    fn to_value(&self, version: Version) -> Value {
        Value::Map(vec![
            ("flags".into(), self.flags.to_value(version)),
            ("body".into(), self.body.to_value(version)),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let flags = entries.read("flags", version)?.unwrap_or_default();
        let body = entries.read("body", version)?;
        entries.finish()?;
        Ok(Self { flags, body: body.ok_or_else(|| ValueError::new("missing entry `body`"))? })
    }
}
