//! `PACKET_OUT`: a packet for the switch to send. §7.3.7.

use super::action::Action;
use super::codec::versions::*;
use super::matching::Match;
use super::packet_in::InPortOnly;
use super::rows::record;
use super::wire_types::BufferId;
use crate::PortNo;

record! {
    /// A packet for the switch to process with actions. §7.3.7.
    #[derive(Default)]
    pub struct PacketOut: "packet_out" {
        /// Buffer of the switch that holds the packet.
        pub buffer_id: Option<u32>,
        /// Ingress port of the packet ([`PortNo::ANY`] if absent); in 1.5 also other pipeline fields.
        pub matching: Match,
        /// Actions to apply.
        pub actions: Vec<Action>,
        /// The packet; empty if it is in a buffer.
        pub data: Vec<u8>,
    }
    V1_0 => [buffer_id as BufferId, matching as InPortOnly<V1_5>, sized, actions in sized, data,]
    V1_1..=V1_4 => [
        buffer_id as BufferId, matching as InPortOnly<V1_5>, sized, pad 6, actions in sized, data,
    ]
    V1_5.. => [buffer_id as BufferId, sized, pad 2, matching, actions in sized, data,]
}

impl PacketOut {
    /// Ingress port.
    pub fn in_port(&self) -> Option<PortNo> {
        self.matching.in_port()
    }
}
