//! OpenFlow messages: bytes to values and back, 1.0 to 1.5.
//!
//! The contract of every view in this crate: `new` proves the layout once, with an [`Error`] that says what is
//! wrong and where; after that no getter can fail. What arrives in bulk is read in place, what is written goes
//! straight into a transmit buffer through [`Encoder`]. Beside the views stands one owned, version-neutral
//! [`Message`], for tests, dumps and applications that are not in a hurry.
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

mod body;
mod datapath_id;
mod echo;
mod encoder;
mod error;
mod error_msg;
mod eth;
mod flow_mod;
mod flow_removed;
mod flow_stats;
mod match_view;
mod message_type;
pub mod model;
mod multipart;
mod packet_in;
mod packet_out;
mod port;
mod raw_message;
mod version;

pub use body::ports;
pub use datapath_id::DatapathId;
pub use encoder::Encoder;
pub use error::{EncodeError, ErrorContext, ParseError, ParseErrorKind, Result};
pub use error_msg::ErrorMsg;
pub use eth::{EthHeader, EtherType, Ethernet, MacAddr, VlanId};
pub use flow_mod::FlowModView;
pub use flow_removed::FlowRemovedView;
pub use flow_stats::{FlowStatsView, flow_stats};
pub use match_view::MatchView;
pub use message_type::MessageType;
pub use model::{
    Action, ActionBits, Capabilities, ConfigFlags, Counters, Elapsed, ErrorCode, ErrorReason,
    ErrorRow, ErrorType, EthernetPort, Field, FieldId, FieldRow, FlowMod, FlowModCommand,
    FlowModFlags, FlowRemoved, FlowRemovedReason, Hello, HelloElement, Instruction, Match, Message,
    PacketInReason, Port, PortConfig, PortFeatures, PortProp, PortReason, PortState, PortStatus,
    Role, RoleRequest, SwitchConfig, SwitchDesc, SwitchFeatures,
};
pub use multipart::{Multipart, MultipartType};
pub use packet_in::{PacketIn, PacketIns};
pub use packet_out::{PacketOut, PacketOutView};
pub use port::PortNo;
pub use raw_message::{HEADER_LEN, RawMessage, split_message};
pub use version::{Version, Versions};

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
