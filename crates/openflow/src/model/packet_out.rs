//! `PACKET_OUT`: a packet for the switch to send. §7.3.7.

use super::action::Action;
use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::field::{Field, FieldId};
use super::matching::Match;
use super::packet_in::ports;
use super::reader::Reader;
use super::rows::record;
use super::wire_types::BufferId;
use crate::{EncodeError, Encoder, ErrorContext, ParseErrorKind, PortNo, Result, Version};

record! {
    /// A packet for the switch to process with actions. §7.3.7.
    #[derive(Default)]
    pub struct PacketOut: "packet_out" {
        /// Buffer of the switch that holds the packet.
        pub buffer_id: Option<u32>,
        /// Ingress port of the packet, absent if it was not received on a port; in 1.5 also other pipeline fields.
        ///
        /// An absent port is encoded as `OFPP_CONTROLLER`, in 1.0 as `OFPP_NONE`.
        pub matching: Match,
        /// Actions to apply.
        pub actions: Vec<Action>,
        /// The packet; empty if it is in a buffer.
        pub data: Vec<u8>,
    }
    V1_0 => [buffer_id as BufferId, matching as IngressPort, sized, actions in sized, data,]
    V1_1..=V1_4 => [
        buffer_id as BufferId, matching as IngressPort, sized, pad 6, actions in sized, data,
    ]
    V1_5.. => [
        buffer_id as BufferId, sized, pad 2, matching as IngressMatch, actions in sized, data,
    ]
}

impl PacketOut {
    /// Ingress port; [`PortNo::CONTROLLER`] if the packet was not received on a port.
    pub fn in_port(&self) -> PortNo {
        self.matching.in_port().unwrap_or(PortNo::CONTROLLER)
    }
}

/// The ingress port of a packet that was not received on a port: `OFPP_CONTROLLER` (§7.3.7), but in 1.0 `OFPP_NONE`, the
/// number of [`PortNo::ANY`] (OpenFlow 1.0.0 §5.3.6). Open vSwitch accepts both in 1.0.
#[inline]
pub(crate) fn controller_port(version: Version) -> PortNo {
    if version == Version::V1_0 { PortNo::ANY } else { PortNo::CONTROLLER }
}

/// A match of at most an ingress port, encoded as the port number. Other fields require 1.5.
struct IngressPort;

impl Encoding<Match> for IngressPort {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let port = PortNo::parse(r)?;
        let is_none = r.version() == Version::V1_0 && port == PortNo::ANY;
        Ok(if is_none { Match::default() } else { [Field::in_port(port)].into() })
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let [port] = ports(value, [FieldId::IN_PORT], Version::V1_5, out)?;
        port.unwrap_or_else(|| controller_port(out.version())).encode(out)
    }
}

/// A match of pipeline fields, one of which is the ingress port. OpenFlow 1.5.0 §7.3.6.
struct IngressMatch;

impl Encoding<Match> for IngressMatch {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let missing = r.error("in_port", ParseErrorKind::Missing).within(ErrorContext::Match);
        Match::parse(r).and_then(|matching| matching.in_port().map(|_| matching).ok_or(missing))
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if value.in_port().is_some() {
            return value.encode(out);
        }
        let mut fields = value.fields.clone();
        fields.insert(0, Field::in_port(PortNo::CONTROLLER).into());
        Match { fields }.encode(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::roundtrip::{parse, written};
    use crate::model::value::hex;
    use crate::{PacketOutRef, RawMessage, view};

    #[test]
    fn a_packet_without_an_ingress_port_comes_from_the_controller_in_every_version() {
        for version in (1..=6).map(Version) {
            let bytes = written(&Message::PacketOut(PacketOut::default()), version).unwrap();
            let in_port = match version {
                Version::V1_0 => &bytes[12..14],
                Version::V1_5 => &bytes[24..28],
                _ => &bytes[12..16],
            };
            let expected: &[u8] = match version {
                Version::V1_0 => &[0xff, 0xff],
                _ => &[0xff, 0xff, 0xff, 0xfd],
            };
            assert_eq!(in_port, expected, "{version}");

            let Message::PacketOut(parsed) = parse(&hex(&bytes)).unwrap() else { panic!() };
            assert_eq!(parsed.in_port(), PortNo::CONTROLLER, "{version}");
            let view = view::PacketOut::new(RawMessage::new(&bytes).unwrap()).unwrap();
            assert_eq!(view.in_port, PortNo::CONTROLLER, "{version}");

            let (mut tx, mut xid) = (vec![], 1);
            let packet_out = PacketOutRef {
                buffer_id: None,
                in_port: PortNo::CONTROLLER,
                actions: &[],
                frame: &[],
            };
            Encoder::new(&mut tx, version, &mut xid).packet_out(&packet_out).unwrap();
            assert_eq!(tx[8..], bytes[8..], "{version}");
        }
    }

    #[test]
    fn the_number_of_the_controller_survives_a_roundtrip_in_1_0() {
        let bytes = "010d0010 00000001 ffffffff fffd 0000";
        let message = parse(bytes).unwrap();
        assert_eq!(
            hex(&written(&message, Version::V1_0).unwrap())[16..],
            bytes.replace(' ', "")[16..]
        );
    }
}
