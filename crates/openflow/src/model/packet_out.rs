//! `PACKET_OUT`: a frame the switch shall send. §7.3.7.

use super::action::Action;
use super::codec::versions::*;
use super::matching::Match;
use super::packet_in::InPortOnly;
use super::rows::record;
use super::wire_types::BufferId;
use crate::PortNo;

record! {
    /// A frame the switch shall send. §7.3.7.
    #[derive(Default)]
    pub struct PacketOut: "packet_out" {
        /// Slot in which the switch keeps the frame.
        pub buffer_id: Option<u32>,
        /// The port it is treated as from, without which it is from [`PortNo::ANY`]; since 1.5 also fields that it gets
        /// beside those in the frame.
        pub matching: Match,
        /// What is done with it.
        pub actions: Vec<Action>,
        /// The frame; nothing if it is in a slot.
        pub data: Vec<u8>,
    }
    V1_0 => [buffer_id as BufferId, matching as InPortOnly<V1_5>, sized, actions in sized, data,]
    V1_1..=V1_4 => [
        buffer_id as BufferId, matching as InPortOnly<V1_5>, sized, pad 6, actions in sized, data,
    ]
    V1_5.. => [buffer_id as BufferId, sized, pad 2, matching, actions in sized, data,]
}

impl PacketOut {
    /// The port it is treated as from.
    pub fn in_port(&self) -> Option<PortNo> {
        self.matching.in_port()
    }
}
