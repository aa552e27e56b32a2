//! What the recorded control messages are: discovery, requests for paths, and responses to them.

use sluice_emu::live::{MessageSender, RecordedMessage};
use sluice_emu::topology::PortRef;
use sluice_openflow::{EtherType, FlowModCommand, MessageType, RawMessage, view};

/// Ethernet type of the broadcast discovery frames of Floodlight and ONOS, which pass bridges that do not forward LLDP.
const BDDP: u16 = 0x8942;

/// The types of messages that tests need.
pub(crate) const RECORDED: [MessageType; 4] = [
    MessageType::PACKET_IN,
    MessageType::PORT_STATUS,
    MessageType::PACKET_OUT,
    MessageType::FLOW_MOD,
];

/// Whether a frame is one by which controllers discover links.
pub(crate) fn is_discovery_frame(frame: &[u8]) -> bool {
    let ethertype = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let (outer, inner) = (ethertype(12), ethertype(16));
    let tags = [EtherType::VLAN.0, EtherType::QINQ.0];
    let ethertype = if outer.is_some_and(|it| tags.contains(&it)) { inner } else { outer };
    ethertype.is_some_and(|it| it == EtherType::LLDP.0 || it == BDDP)
}

/// Whether this is a discovery message that the controller has sent.
pub(crate) fn is_discovery_message(message: &RecordedMessage) -> bool {
    let packet_out = of_kind(message, MessageSender::Controller, MessageType::PACKET_OUT)
        .and_then(|raw| view::PacketOut::new(raw).ok());
    packet_out.is_some_and(|it| is_discovery_frame(it.frame))
}

/// The port at which a discovery frame arrived, if this message reports one to the controller.
pub(crate) fn reported_port(message: &RecordedMessage) -> Option<PortRef> {
    let packet_in = packet_in(message)?;
    is_discovery_frame(packet_in.frame)
        .then_some(PortRef { switch: message.switch, port: packet_in.in_port })
}

/// The packet-in, if it is one.
pub(crate) fn packet_in(message: &RecordedMessage) -> Option<view::PacketIn<'_>> {
    let raw = of_kind(message, MessageSender::Switch, MessageType::PACKET_IN)?;
    view::PacketIn::new(raw).ok()
}

/// Whether this is a notification that a port has changed.
pub(crate) fn is_port_status(message: &RecordedMessage) -> bool {
    of_kind(message, MessageSender::Switch, MessageType::PORT_STATUS).is_some()
}

/// Whether this adds or modifies a flow entry.
pub(crate) fn is_flow_entry(message: &RecordedMessage) -> bool {
    let deletes = [FlowModCommand::DELETE, FlowModCommand::DELETE_STRICT];
    of_kind(message, MessageSender::Controller, MessageType::FLOW_MOD)
        .and_then(|raw| view::FlowMod::new(raw).ok())
        .is_some_and(|it| !deletes.contains(&it.command))
}

fn of_kind(
    message: &RecordedMessage,
    sender: MessageSender,
    kind: MessageType,
) -> Option<RawMessage<'_>> {
    let raw = RawMessage::new(&message.bytes).ok()?;
    (message.sender == sender && raw.kind() == kind).then_some(raw)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Instant;

    use sluice_openflow::{
        Action, Encoder, Field, FlowMod, Message, PacketIn, PacketOutRef, PortNo, Version,
    };

    use super::*;

    /// A frame of an Ethernet type.
    pub(crate) fn frame(ethertype: u16) -> Vec<u8> {
        let addresses = [1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1];
        [&addresses[..], &ethertype.to_be_bytes(), &[0; 46]].concat()
    }

    fn recorded(
        at: Instant,
        switch: usize,
        sender: MessageSender,
        bytes: Vec<u8>,
    ) -> RecordedMessage {
        RecordedMessage { at, switch, sender, bytes }
    }

    pub(crate) fn packet_out(at: Instant, switch: usize, frame: &[u8]) -> RecordedMessage {
        let (mut bytes, mut xid) = (Vec::new(), 1);
        let packet_out = PacketOutRef {
            buffer_id: None,
            in_port: PortNo::CONTROLLER,
            actions: &[Action::output(PortNo(1))],
            frame,
        };
        Encoder::new(&mut bytes, Version::V1_3, &mut xid).packet_out(&packet_out).unwrap();
        recorded(at, switch, MessageSender::Controller, bytes)
    }

    pub(crate) fn packet_in_of(
        at: Instant,
        switch: usize,
        port: u32,
        frame: &[u8],
    ) -> RecordedMessage {
        let packet_in = PacketIn {
            matching: [Field::in_port(PortNo(port))].into_iter().collect(),
            data: frame.to_vec(),
            ..PacketIn::default()
        };
        let bytes = Message::PacketIn(packet_in).to_vec(Version::V1_3, 1).unwrap();
        recorded(at, switch, MessageSender::Switch, bytes)
    }

    pub(crate) fn flow_mod(at: Instant, switch: usize, command: FlowModCommand) -> RecordedMessage {
        let flow_mod = FlowMod { command, ..FlowMod::default() };
        let bytes = flow_mod.to_vec(Version::V1_3, 1).unwrap();
        recorded(at, switch, MessageSender::Controller, bytes)
    }

    #[test]
    fn discovery_frames_are_lldp_and_bddp_also_with_a_tag() {
        assert!(is_discovery_frame(&frame(0x88cc)));
        assert!(is_discovery_frame(&frame(0x8942)));
        assert!(!is_discovery_frame(&frame(0x0800)));
        let mut tagged = frame(0x8100);
        tagged[16..18].copy_from_slice(&[0x88, 0xcc]);
        assert!(is_discovery_frame(&tagged));
        assert!(!is_discovery_frame(&[0; 13]));
    }

    #[test]
    fn messages_are_recognised_by_type_sender_and_content() {
        let now = sluice_io::clock::now();
        let sent = packet_out(now, 2, &frame(0x88cc));
        assert!(is_discovery_message(&sent) && reported_port(&sent).is_none());
        assert!(!is_discovery_message(&packet_out(now, 2, &frame(0x0800))));
        let received = packet_in_of(now, 2, 7, &frame(0x88cc));
        assert_eq!(reported_port(&received), Some(PortRef { switch: 2, port: PortNo(7) }));
        assert!(!is_discovery_message(&received));
        assert!(is_flow_entry(&flow_mod(now, 0, FlowModCommand::ADD)));
        assert!(!is_flow_entry(&flow_mod(now, 0, FlowModCommand::DELETE)));
        // As if the switch had sent it.
        let own = RecordedMessage { sender: MessageSender::Switch, ..sent };
        assert!(!is_discovery_message(&own));
    }
}
