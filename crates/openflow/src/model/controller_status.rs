//! `CONTROLLER_STATUS`: what other controllers a switch has. OpenFlow 1.5.0 §7.4.8.

use super::codec::ListItem;
use super::codec::versions::*;
use super::role::Role;
use super::rows::{choice, codes, record, tlv};
use super::value::ByteString;

codes! {
    /// `OFPCSR_*`: why it is told. OpenFlow 1.5.0 §7.4.8.
    pub struct ControllerStatusReason(u8);
    REQUEST = 0, V1_5, "Asked for.";
    CHANNEL_STATUS = 1, V1_5, "The channel came up or went down.";
    ROLE = 2, V1_5, "The role changed.";
    CONTROLLER_ADDED = 3, V1_5, "A controller came.";
    CONTROLLER_REMOVED = 4, V1_5, "A controller went.";
    SHORT_ID = 5, V1_5, "The short id changed.";
    EXPERIMENTER = 6, V1_5, "An experimenter's reason.";
}

codes! {
    /// `OFPCT_STATUS_*`: whether the channel works. OpenFlow 1.5.0 §7.4.8.
    pub struct ChannelStatus(u8);
    UP = 0, V1_5, "It works.";
    DOWN = 1, V1_5, "It does not.";
}

choice! {
    /// Something more about a controller. OpenFlow 1.5.0 §7.4.8.
    pub enum ControllerStatusProp: "controller status property" {
        /// Where it is.
        Uri "uri" {
            /// As in `tls:192.168.34.23:6653`.
            uri: ByteString,
        } = { V1_5.. => 0 [uri,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(ControllerStatusProp, Outside, Property);

record! {
    /// A controller of the switch. OpenFlow 1.5.0 §7.4.8.
    #[derive(Default)]
    pub struct ControllerStatus: "controller_status" {
        /// What it is called among those of the switch.
        pub short_id: u16,
        /// What it may do.
        pub role: Role,
        /// Why it is told.
        pub reason: ControllerStatusReason,
        /// Whether its channel works.
        pub channel_status: ChannelStatus,
        /// More about it.
        pub properties: Vec<ControllerStatusProp>,
    }
    V1_5.. => [length, short_id, role, reason, channel_status, pad 6, properties,]
}

impl ListItem for ControllerStatus {}
