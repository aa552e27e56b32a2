//! OpenFlow messages: bytes to values and back, 1.0 to 1.5.
//!
//! Messages that arrive in bulk have views in the module [`view`]: the constructor validates the layout once and returns a
//! [`ParseError`] that says what is wrong and where; after that no accessor can fail. [`Encoder`] writes messages into a
//! transmit buffer. [`Message`] is the owned form of every message, the same for all versions.
//!
//! Nothing here does I/O, reads a clock, starts a thread or logs.
//!
//! ```
//! use sluice_openflow::{Action, Field, FlowMod, Instruction, MessageType, MacAddr, Encoder, PortNo, Version, split_message};
//!
//! let (mut tx, mut xid) = (Vec::new(), 1);
//! let mut out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
//! out.flow_mod(&FlowMod {
//!     matching: [Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 1]))].into(),
//!     instructions: vec![Instruction::apply([Action::output(PortNo(3))])],
//!     ..FlowMod::default()
//! })?;
//! let (frame, rest) = split_message(&tx)?.expect("one whole message");
//! assert_eq!(frame.kind(), MessageType::FLOW_MOD);
//! assert!(rest.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
    Action, Field, FieldHeader, FieldId, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved,
    FlowRemovedReason, Instruction, Match, MatchError, MatchErrorKind, Oxm, StatTriggerFlags,
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

/// The text syntax of `ovs-ofctl`: its errors, and how to show them.
pub mod text {
    pub use crate::model::text::{TextError, caret};
}

/// The neutral form of messages, from which JSON and other formats are made.
pub mod value {
    pub use crate::model::{Value, ValueError};
}

/// The tables of fields, errors and alternatives that codec, text form and documentation are derived from.
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

/// What the `buffer_id` field holds when the switch kept nothing. `OFP_NO_BUFFER`, §A.
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// `buffer_id` as a value: `None` if the switch kept nothing.
pub(crate) fn buffered(id: u32) -> Option<u32> {
    Some(id).filter(|&id| id != NO_BUFFER)
}

/// The examples of the README are tested as those of the documentation are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
