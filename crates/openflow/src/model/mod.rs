//! One owned model of every message, read off rows.

#![allow(clippy::wildcard_imports, reason = "rows name any of the versions")]

mod action;
#[cfg(test)]
mod action_vectors;
mod async_config;
mod bit_range;
pub(crate) mod borrowed;
mod bundle;
pub(crate) mod codec;
mod config;
mod controller_status;
mod counter_fields;
mod ct;
mod desc;
mod encap;
mod error_msg;
mod error_table;
mod errors;
mod features;
mod field;
mod field_table;
mod field_text;
mod flow_mod;
mod flow_monitor;
mod flow_removed;
mod flow_stats;
mod group;
mod group_prop;
mod group_stats;
mod hello;
mod instruction;
mod layout;
mod learn;
pub(crate) mod match_fixed;
pub(crate) mod matching;
mod message;
mod meter;
mod meter_stats;
pub(crate) mod multipart;
mod name_table;
#[cfg(test)]
mod name_table_tests;
mod named;
mod nat;
mod nicira;
mod nicira_action;
pub(crate) mod oxm;
mod oxs;
mod packet_in;
mod packet_out;
mod port;
mod port_mod;
mod port_stats;
mod queue;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod random_values;
pub(crate) mod reader;
mod role;
#[cfg(test)]
mod roundtrip;
pub(crate) mod rows;
pub(crate) mod serde_impls;
#[cfg(test)]
mod session_tests;
mod set_action;
#[cfg(test)]
mod support_page;
mod table;
mod table_bitmaps;
mod table_features;
pub(crate) mod text;
mod typed_field;
pub(crate) mod value;
#[cfg(test)]
mod vectors;
mod wire_types;

pub use action::Action;
pub use async_config::{
    AsyncConfig, AsyncProp, ControllerStatusReasons, FlowRemovedReasons, FlowStatsReasons,
    PacketInReasons, PortReasons, RequestForwardReasons, RoleReasons, TableReasons,
};
pub use bit_range::BitRange;
pub use bundle::{
    BundleAddMessage, BundleControl, BundleCtrlType, BundleFeatureFlags, BundleFeatures,
    BundleFeaturesProp, BundleFeaturesRequest, BundleFlags, BundleProp, BundleTime,
    EmbeddedMessage,
};
pub use codec::ChoiceRow;
pub use config::{ConfigFlags, SwitchConfig};
pub use controller_status::{
    ChannelStatus, ControllerStatus, ControllerStatusProp, ControllerStatusReason,
};
pub use ct::{CtAction, CtFlags, NumberSource};
pub use desc::SwitchDesc;
pub use encap::EncapProp;
pub use error_msg::ErrorMsg;
pub use errors::{ErrorCode, ErrorNumbers, ErrorReason, ErrorRow, ErrorType};
pub use features::{ActionBits, Capabilities, SwitchFeatures};
pub use field::{
    Field, FieldFormat, FieldHeaderRow, FieldId, FieldRow, MaskSupport, Prerequisite, Prerequisites,
};
pub use flow_mod::{FlowMod, FlowModCommand, FlowModFlags, NxFlowMod};
pub use flow_monitor::{
    FlowMonitorCommand, FlowMonitorFlags, FlowMonitorRequest, FlowUpdate, MonitoredFlow,
};
pub use flow_removed::{FlowRemoved, FlowRemovedReason, NxFlowRemoved};
pub use flow_stats::{
    AggregateStats, FlowDesc, FlowStats, FlowStatsReason, FlowStatsRequest, NxFlowStats,
    NxFlowStatsRequest,
};
pub use group::{Bucket, BucketId, GroupCommand, GroupId, GroupMod, GroupType};
pub use group_prop::{BucketProp, GroupProp};
pub use group_stats::{
    BucketStats, GroupCapabilities, GroupDesc, GroupDescRequest, GroupFeatures, GroupStats,
    GroupStatsRequest, GroupTypes,
};
pub use hello::{Hello, HelloElement};
pub use instruction::{Instruction, StatTriggerFlags};
pub use learn::{
    Learn2Action, LearnAction, LearnDst, LearnFlags, LearnSpec, LearnSrc, LearnedFlow,
};
pub use matching::{Match, MatchError, MatchErrorKind};
pub use message::Message;
pub use meter::{MeterBand, MeterCommand, MeterFlags, MeterId, MeterMod};
pub use meter_stats::{
    BandTypes, MeterBandStats, MeterCapabilities, MeterDesc, MeterFeatureFlags, MeterFeatures,
    MeterRequest, MeterStats,
};
pub use multipart::{Multipart, MultipartFlags, MultipartReply, MultipartRequest};
pub use nat::{NatAction, NatFlags, NatRange};
pub use nicira::{
    NxCtFlush, NxCtProp, NxCtTupleProp, NxFlowFormat, NxIpfixStats, NxPacketInFormat, NxRole,
    NxTlvCommand, NxTlvMap, NxTlvTableMod, NxTlvTableReply,
};
pub use nicira_action::{
    BundleAction, BundleAlgorithm, BundleLoadAction, Controller2Prop, HashFields, MultipathAction,
    MultipathAlgorithm, SampleDirection,
};
pub use oxm::{FieldHeader, Oxm};
pub use oxs::{Counters, Elapsed, Stat, StatRow, Stats};
pub use packet_in::{NxPacketIn, NxPacketIn2, PacketIn, PacketInProp, PacketInReason};
pub use packet_out::PacketOut;
pub(crate) use packet_out::controller_port;
pub use port::{
    EthernetPort, OpticalFeatures, Port, PortConfig, PortFeatures, PortProp, PortReason, PortState,
    PortStatus,
};
pub use port_mod::{EthernetMod, PortMod, PortModProp};
pub use port_stats::{
    EthernetStats, OpticalStatsFlags, PortDescRequest, PortStats, PortStatsProp, PortStatsRequest,
};
pub use queue::{
    Queue, QueueGetConfigReply, QueueGetConfigRequest, QueueProp, QueueRequest, QueueStats,
    QueueStatsProp,
};
pub use role::{Role, RoleProp, RoleReason, RoleRequest, RoleStatus};
pub use table::{
    EvictionFlags, TableConfig, TableDesc, TableMod, TableModProp, TableReason, TableStats,
    TableStatus,
};
pub use table_bitmaps::{TableActions, TableFields, TableInstructions};
pub use table_features::{
    ActionId, ElementId, InstructionId, TableFeatureFlags, TableFeatureProp, TableFeatures,
    TableFeaturesCommand, TableIds,
};
pub use typed_field::{FieldValue, Masked, MaskedFields};
pub use value::{ByteString, FixedString, Value, ValueError};
