//! `CONTROLLER_STATUS`: the controllers that a switch is configured with. OpenFlow 1.5.0 §7.4.8.

use super::codec::ListItem;
use super::codec::versions::*;
use super::role::Role;
use super::rows::{choice, codes, record, tlv};
use super::value::ByteString;

codes! {
    /// `OFPCSR_*`: why a [`ControllerStatus`] is sent. OpenFlow 1.5.0 §7.4.8.
    pub struct ControllerStatusReason(u8);
    REQUEST = 0, V1_5, "Reply to a request.";
    CHANNEL_STATUS = 1, V1_5, "The control channel came up or went down.";
    ROLE = 2, V1_5, "The controller's role changed.";
    CONTROLLER_ADDED = 3, V1_5, "A controller was added.";
    CONTROLLER_REMOVED = 4, V1_5, "A controller was removed.";
    SHORT_ID = 5, V1_5, "The controller's short ID changed.";
    EXPERIMENTER = 6, V1_5, "Experimenter-defined reason.";
}

codes! {
    /// `OFPCT_STATUS_*`: state of a control channel. OpenFlow 1.5.0 §7.4.8.
    pub struct ChannelStatus(u8);
    UP = 0, V1_5, "Operational.";
    DOWN = 1, V1_5, "Not operational.";
}

choice! {
    /// Property of a [`ControllerStatus`]. OpenFlow 1.5.0 §7.4.8.
    pub enum ControllerStatusProp: "controller status property" {
        /// Address of the controller.
        Uri "uri" {
            /// Connection URI, such as `tls:192.168.34.23:6653`.
            uri: ByteString,
        } = { V1_5.. => 0 [uri,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(ControllerStatusProp, Outside, Property);

record! {
    /// State of one controller of the switch. OpenFlow 1.5.0 §7.4.8.
    #[derive(Default)]
    pub struct ControllerStatus: "controller_status" {
        /// Number that identifies the controller.
        pub short_id: u16,
        /// Its role.
        pub role: Role,
        /// Why the message is sent.
        pub reason: ControllerStatusReason,
        /// State of its control channel.
        pub channel_status: ChannelStatus,
        /// Properties.
        pub properties: Vec<ControllerStatusProp>,
    }
    V1_5.. => [length, short_id, role, reason, channel_status, pad 6, properties,]
}

impl ListItem for ControllerStatus {}
