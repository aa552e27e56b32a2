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
use super::value::{Entries, Plain, Value, ValueError};
use crate::{EncodeError, Encoder, Result, Version};

flags! {
    /// `OFPMPF_*`.
    pub struct MultipartFlags(u16);
    MORE = 1, V1_0, "Parts follow that belong to this one.";
}

choice! {
    /// What is asked.
    ///
    /// Numbers are those of the specification; of a body of Nicira or the ONF its type under their identity.
    pub enum MultipartRequest: "multipart request" {
        /// Maker, model, serial number.
        Desc "desc" = { V1_0.. => 0 };
        /// Counters of tables. §7.3.5.4.
        TableStats "table_stats" = { V1_0.. => 3 };
        /// Counters of ports. §7.3.5.6.
        PortStats "port_stats" (PortStatsRequest) = { V1_0.. => 4 };
        /// What tables can do, or shall do; of no table asks for that of all. §7.3.5.5.
        TableFeatures "table_features" {
            /// One each.
            tables: Vec<TableFeatures>,
        } = { V1_3.. => 12 [tables,] };
        /// What the ports are. §7.3.5.7. Before 1.3 it is Open vSwitch's, who took it over.
        PortDesc "port_desc" (PortDescRequest) = { V1_0.. => 13 };
        /// Counters of queues. §7.3.5.8.
        QueueStats "queue_stats" (QueueRequest) = { V1_0.. => 5 };
        /// How tables are set. OpenFlow 1.4.0 §7.3.5.16.
        TableDesc "table_desc" = { V1_4.. => 14 };
        /// What the queues are. OpenFlow 1.4.0 §7.3.5.11.
        QueueDesc "queue_desc" (QueueRequest) = { V1_4.. => 15 };
        /// Rules and their counters; `FLOW` before 1.5. §7.3.5.2.
        FlowDesc "flow_desc" (FlowStatsRequest) = { V1_0.. => 1 };
        /// Counters of rules. OpenFlow 1.5.0 §7.3.5.3.
        FlowStats "flow_stats" (FlowStatsRequest) = { V1_5.. => 17 };
        /// Counters of rules, summed. §7.3.5.3.
        AggregateStats "aggregate_stats" (FlowStatsRequest) = { V1_0.. => 2 };
        /// Rules and their counters, in Nicira's form.
        NxFlow "nx_flow" (NxFlowStatsRequest) = { V1_0 => 0x2320_0000_0000 };
        /// Counters of rules, summed, in Nicira's form.
        NxAggregate "nx_aggregate" (NxFlowStatsRequest) = { V1_0 => 0x2320_0000_0001 };
        /// Rules to tell the changes of. OpenFlow 1.4.0 §7.3.5.17; before 1.3 Nicira's, in 1.3 the ONF's.
        FlowMonitor "flow_monitor" {
            /// One each.
            monitors: Vec<FlowMonitorRequest>,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0002 [monitors,],
            V1_3 => 0x4f4e_4600_0000_074e [monitors,],
            V1_4.. => 16 [monitors,],
        };
        /// Counters of groups. §7.3.5.9. In 1.0 it is Nicira's.
        GroupStats "group_stats" (GroupStatsRequest) = { V1_0 => 0x2320_0000_0007, V1_1.. => 6 };
        /// What the groups are. §7.3.5.10. In 1.0 it is Nicira's.
        GroupDesc "group_desc" (GroupDescRequest) = { V1_0 => 0x2320_0000_0008, V1_1.. => 7 };
        /// What groups there can be. §7.3.5.11. In 1.0 and 1.1 it is Nicira's.
        GroupFeatures "group_features" = { V1_0 | V1_1 => 0x2320_0000_0009, V1_2.. => 8 };
        /// Counters of meters. §7.3.5.12.
        MeterStats "meter_stats" (MeterRequest) = { V1_3.. => 9 };
        /// How meters are set; `METER_CONFIG` before 1.5. §7.3.5.13.
        MeterDesc "meter_desc" (MeterRequest) = { V1_3.. => 10 };
        /// What meters there can be. §7.3.5.14.
        MeterFeatures "meter_features" = { V1_3.. => 11 };
        /// What controllers a switch has. OpenFlow 1.5.0 §7.3.5.
        ControllerStatus "controller_status" = { V1_5.. => 18 };
        /// What bundles can be. OpenFlow 1.5.0 §7.3.5.
        BundleFeatures "bundle_features" (BundleFeaturesRequest) = { V1_5.. => 19 };
        /// What the exporter of IPFIX of the bridge counted. Nicira's.
        NxIpfixBridge "nx_ipfix_bridge" = { V1_0.. => 0x2320_0000_0003 };
        /// What the exporters of IPFIX of flows counted. Nicira's.
        NxIpfixFlow "nx_ipfix_flow" = { V1_0.. => 0x2320_0000_0004 };
        /// What an experimenter asks and has no row here. §7.3.5.15.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number; before 1.2 it is part of the data, if there is one.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = {
            V1_0 | V1_1 => 0xffff [experimenter, data,],
            V1_2.. => 0xffff [experimenter, exp_type, data,],
        };
    }
}

choice! {
    /// What is told, numbered as in [`MultipartRequest`].
    pub enum MultipartReply: "multipart reply" {
        /// Maker, model, serial number.
        Desc "desc" (Box<SwitchDesc>) = { V1_0.. => 0 };
        /// Counters of tables. §7.3.5.4.
        TableStats "table_stats" {
            /// One each.
            tables: Vec<TableStats>,
        } = { V1_0.. => 3 [tables,] };
        /// Counters of ports. §7.3.5.6.
        PortStats "port_stats" {
            /// One each.
            ports: Vec<PortStats>,
        } = { V1_0.. => 4 [ports,] };
        /// What tables can do. §7.3.5.5.
        TableFeatures "table_features" {
            /// One each.
            tables: Vec<TableFeatures>,
        } = { V1_3.. => 12 [tables,] };
        /// What the ports are. §7.3.5.7. Before 1.3 it is Open vSwitch's, who took it over.
        PortDesc "port_desc" {
            /// One each.
            ports: Vec<Port>,
        } = { V1_0.. => 13 [ports,] };
        /// Counters of queues. §7.3.5.8.
        QueueStats "queue_stats" {
            /// One each.
            queues: Vec<QueueStats>,
        } = { V1_0.. => 5 [queues,] };
        /// How tables are set. OpenFlow 1.4.0 §7.3.5.16.
        TableDesc "table_desc" {
            /// One each.
            tables: Vec<TableDesc>,
        } = { V1_4.. => 14 [tables,] };
        /// What the queues are. OpenFlow 1.4.0 §7.3.5.11.
        QueueDesc "queue_desc" {
            /// One each.
            queues: Vec<Queue>,
        } = { V1_4.. => 15 [queues,] };
        /// Rules and their counters; `FLOW` before 1.5. §7.3.5.2.
        FlowDesc "flow_desc" {
            /// One each.
            flows: Vec<FlowDesc>,
        } = { V1_0.. => 1 [flows,] };
        /// Counters of rules. OpenFlow 1.5.0 §7.3.5.3.
        FlowStats "flow_stats" {
            /// One each.
            flows: Vec<FlowStats>,
        } = { V1_5.. => 17 [flows,] };
        /// Counters of rules, summed. §7.3.5.3.
        AggregateStats "aggregate_stats" (AggregateStats) = { V1_0.. => 2 };
        /// Rules and their counters, in Nicira's form.
        NxFlow "nx_flow" {
            /// One each.
            flows: Vec<NxFlowStats>,
        } = { V1_0 => 0x2320_0000_0000 [flows,] };
        /// Counters of rules, summed, asked for in Nicira's form.
        NxAggregate "nx_aggregate" (AggregateStats) = { V1_0 => 0x2320_0000_0001 };
        /// Changes of rules. OpenFlow 1.4.0 §7.3.5.17; before 1.3 Nicira's, in 1.3 the ONF's.
        FlowMonitor "flow_monitor" {
            /// One each.
            updates: Vec<FlowUpdate>,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0002 [updates,],
            V1_3 => 0x4f4e_4600_0000_074e [updates,],
            V1_4.. => 16 [updates,],
        };
        /// Counters of groups. §7.3.5.9. In 1.0 it is Nicira's.
        GroupStats "group_stats" {
            /// One each.
            groups: Vec<GroupStats>,
        } = { V1_0 => 0x2320_0000_0007 [groups,], V1_1.. => 6 [groups,] };
        /// What the groups are. §7.3.5.10. In 1.0 it is Nicira's.
        GroupDesc "group_desc" {
            /// One each.
            groups: Vec<GroupDesc>,
        } = { V1_0 => 0x2320_0000_0008 [groups,], V1_1.. => 7 [groups,] };
        /// What groups there can be. §7.3.5.11. In 1.0 and 1.1 it is Nicira's.
        GroupFeatures "group_features" (GroupFeatures) = { V1_0 | V1_1 => 0x2320_0000_0009, V1_2.. => 8 };
        /// Counters of meters. §7.3.5.12.
        MeterStats "meter_stats" {
            /// One each.
            meters: Vec<MeterStats>,
        } = { V1_3.. => 9 [meters,] };
        /// How meters are set; `METER_CONFIG` before 1.5. §7.3.5.13.
        MeterDesc "meter_desc" {
            /// One each.
            meters: Vec<MeterDesc>,
        } = { V1_3.. => 10 [meters,] };
        /// What meters there can be. §7.3.5.14.
        MeterFeatures "meter_features" (MeterFeatures) = { V1_3.. => 11 };
        /// What controllers a switch has. OpenFlow 1.5.0 §7.3.5.
        ControllerStatus "controller_status" {
            /// One each.
            controllers: Vec<ControllerStatus>,
        } = { V1_5.. => 18 [controllers,] };
        /// What bundles can be. OpenFlow 1.5.0 §7.3.5.
        BundleFeatures "bundle_features" (BundleFeatures) = { V1_5.. => 19 };
        /// What the exporter of IPFIX of the bridge counted. Nicira's.
        NxIpfixBridge "nx_ipfix_bridge" (NxIpfixStats) = { V1_0.. => 0x2320_0000_0003 };
        /// What the exporters of IPFIX of flows counted. Nicira's.
        NxIpfixFlow "nx_ipfix_flow" {
            /// One for each set of collectors.
            exporters: Vec<NxIpfixStats>,
        } = { V1_0.. => 0x2320_0000_0004 [exporters,] };
        /// What an experimenter tells and has no row here. §7.3.5.15.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number; before 1.2 it is part of the data, if there is one.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = {
            V1_0 | V1_1 => 0xffff [experimenter, data,],
            V1_2.. => 0xffff [experimenter, exp_type, data,],
        };
    }
}

/// One part of a request or of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart<T> {
    /// Whether it is the last.
    pub flags: MultipartFlags,
    /// What is asked or told.
    pub body: T,
}

impl<T> Multipart<T> {
    /// A request or reply that is complete in one part.
    pub fn single(body: T) -> Self {
        Self { flags: MultipartFlags::default(), body }
    }
}

/// The type of an experimenter's body.
const EXPERIMENTER: u16 = 0xffff;

/// Bytes between the type that Nicira gave a body and the body.
const fn nicira_pad(version: Version) -> usize {
    if version.0 == V1_0 { 4 } else { 0 }
}

impl<T: Choice> Codec for Multipart<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let kind = r.u16("multipart type")?;
        let flags = MultipartFlags::parse(r)?;
        if r.version() > Version::V1_0 {
            r.take("multipart", 4)?;
        }
        let code = experimenter_code::<T>(kind, kind == EXPERIMENTER, nicira_pad(r.version()), r)?;
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

impl<T: Plain> Plain for Multipart<T> {
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
        Ok(Self { flags, body: body.ok_or_else(|| ValueError::new("has no `body`"))? })
    }
}
