//! Parses and builds OpenFlow messages, versions 1.0 to 1.5, with the Nicira extensions of Open vSwitch.
//!
//! - [`Message`] is any message, owned, the same for all versions: [`Message::parse`], [`Message::to_vec`].
//! - [`FlowMod`], [`Match`], [`Field`], [`Action`] and [`Instruction`] make up flow entries. They are written and parsed in the syntax
//!   of `ovs-ofctl` by `Display` and `FromStr`.
//! - [`view`] has borrowed messages for high rates: checked once, read in place. [`split_message`] splits a stream, [`Encoder`]
//!   appends messages to a transmit buffer.
//! - [`ParseError`] and [`EncodeError`] state the offending value and what was expected.
//!
//! Nothing here does I/O, reads a clock, starts a thread or logs. A bare § in these pages means OpenFlow 1.3.5.
//!
//! ```
//! use sluice_openflow::{Action, Field, FlowMod, MacAddr, Message, PortNo, Version};
//!
//! // Build: packets to this address go to port 3.
//! let to = MacAddr([2, 0, 0, 0, 0, 1]);
//! let flow = FlowMod::add([Field::eth_dst(to)], [Action::output(PortNo(3))]);
//! let bytes = flow.to_vec(Version::V1_3, 1)?;
//!
//! // Parse.
//! let Message::FlowMod(parsed) = Message::parse(&bytes)? else { panic!("not a flow entry") };
//! assert_eq!(parsed, flow);
//!
//! // Match, and the same as text.
//! assert_eq!(parsed.matching.eth_dst(), Some(to));
//! assert_eq!(parsed.to_string(), "dl_dst=02:00:00:00:00:01,actions=output:3");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! `serde` (off by default): `Serialize` and `Deserialize` for the owned types, with the names of [`Message::to_value`].

mod datapath_id;
mod echo;
mod encoder;
mod error;
mod error_msg;
mod ethernet;
mod flow_mod;
mod flow_removed;
mod flow_stats;
mod match_view;
mod message_body;
mod message_type;
mod model;
mod multipart;
mod packet_in;
mod packet_out;
mod port_no;
mod raw_message;
mod version;
pub mod view;

// Bytes, versions and identities.
pub use datapath_id::DatapathId;
pub use encoder::Encoder;
pub use error::{EncodeError, ErrorContext, Expected, ParseError, ParseErrorKind, Result};
pub use ethernet::{EthHeader, EtherType, Ethernet, MacAddr, VlanId};
pub use message_body::ports;
pub use message_type::MessageType;
pub use multipart::MultipartType;
pub use packet_out::PacketOutRef;
pub use port_no::PortNo;
pub use raw_message::{HEADER_LEN, RawMessage, split_message};
pub use version::{Version, Versions};

// Any message.
pub use model::Message;

// Flow entries: match, instructions, actions.
pub use model::{
    Action, Field, FieldHeader, FieldId, FieldValue, FlowMod, FlowModCommand, FlowModFlags,
    FlowRemoved, FlowRemovedReason, Instruction, Masked, MaskedFields, Match, MatchError,
    MatchErrorKind, Oxm, StatTriggerFlags,
};

// Packets to and from the controller.
pub use model::{PacketIn, PacketInReason, PacketOut};

// Sessions and switches: handshake, configuration, roles, asynchronous messages, errors.
pub use model::{
    ActionBits, AsyncConfig, AsyncProp, Capabilities, ChannelStatus, ConfigFlags, ControllerStatus,
    ControllerStatusProp, ControllerStatusReason, ControllerStatusReasons, EmbeddedMessage,
    ErrorCode, ErrorMsg, ErrorReason, ErrorType, FlowRemovedReasons, FlowStatsReasons, Hello,
    HelloElement, PacketInReasons, PortReasons, RequestForwardReasons, Role, RoleProp, RoleReason,
    RoleReasons, RoleRequest, RoleStatus, SwitchConfig, SwitchFeatures, TableReasons,
};

// Ports and queues.
pub use model::{
    EthernetMod, EthernetPort, EthernetStats, OpticalFeatures, OpticalStatsFlags, Port, PortConfig,
    PortDescRequest, PortFeatures, PortMod, PortModProp, PortProp, PortReason, PortState,
    PortStats, PortStatsProp, PortStatsRequest, PortStatus, Queue, QueueGetConfigReply,
    QueueGetConfigRequest, QueueProp, QueueRequest, QueueStats, QueueStatsProp,
};

// Groups and meters.
pub use model::{
    BandTypes, Bucket, BucketId, BucketProp, BucketStats, GroupCapabilities, GroupCommand,
    GroupDesc, GroupDescRequest, GroupFeatures, GroupId, GroupMod, GroupProp, GroupStats,
    GroupStatsRequest, GroupType, GroupTypes, MeterBand, MeterBandStats, MeterCapabilities,
    MeterCommand, MeterDesc, MeterFeatureFlags, MeterFeatures, MeterFlags, MeterId, MeterMod,
    MeterRequest, MeterStats,
};

// Tables.
pub use model::{
    ActionId, ElementId, EvictionFlags, InstructionId, TableActions, TableConfig, TableDesc,
    TableFeatureFlags, TableFeatureProp, TableFeatures, TableFeaturesCommand, TableFields,
    TableIds, TableInstructions, TableMod, TableModProp, TableReason, TableStats, TableStatus,
};

// Statistics and descriptions, bundles, monitors of flow entries.
pub use model::{
    AggregateStats, BundleAddMessage, BundleControl, BundleCtrlType, BundleFeatureFlags,
    BundleFeatures, BundleFeaturesProp, BundleFeaturesRequest, BundleFlags, BundleProp, BundleTime,
    ByteString, Counters, Elapsed, FixedString, FlowDesc, FlowMonitorCommand, FlowMonitorFlags,
    FlowMonitorRequest, FlowStats, FlowStatsReason, FlowStatsRequest, FlowUpdate, MonitoredFlow,
    Multipart, MultipartFlags, MultipartReply, MultipartRequest, Stat, Stats, SwitchDesc,
};

/// Errors of the text syntax of `ovs-ofctl`, and how to display them.
pub mod text {
    pub use crate::model::text::{TextError, caret};
}

/// Messages as trees of plain values, for JSON and other formats.
pub mod value {
    pub use crate::model::{Value, ValueError};
}

/// The tables of fields and errors from which codec, text syntax and documentation are derived.
pub mod spec {
    pub use crate::model::{
        ChoiceRow, ErrorNumbers, ErrorRow, FieldFormat, FieldHeaderRow, FieldRow, MaskSupport,
        Prerequisite, Prerequisites, StatRow,
    };
}

/// Parameters of Nicira's actions and messages, the extensions that Open vSwitch implements.
pub mod nicira {
    pub use crate::model::{
        BitRange, BundleAction, BundleAlgorithm, BundleLoadAction, Controller2Prop, CtAction,
        CtFlags, EncapProp, HashFields, Learn2Action, LearnAction, LearnDst, LearnFlags, LearnSpec,
        LearnSrc, LearnedFlow, MultipathAction, MultipathAlgorithm, NatAction, NatFlags, NatRange,
        NumberSource, NxCtFlush, NxCtProp, NxCtTupleProp, NxFlowFormat, NxFlowMod, NxFlowRemoved,
        NxFlowStats, NxFlowStatsRequest, NxIpfixStats, NxPacketIn, NxPacketIn2, NxPacketInFormat,
        NxRole, NxTlvCommand, NxTlvMap, NxTlvTableMod, NxTlvTableReply, PacketInProp,
        SampleDirection,
    };
}

/// Value of the field `buffer_id` if the switch has not buffered the packet: `OFP_NO_BUFFER`.
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// The buffer ID; `None` if the switch has not buffered the packet.
pub(crate) fn buffered(id: u32) -> Option<u32> {
    Some(id).filter(|&id| id != NO_BUFFER)
}

/// The examples of the README are tested as those of the documentation are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
