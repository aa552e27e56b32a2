//! `PACKET_OUT`: a packet for the switch to send. §7.3.7.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::match_view::in_port;
use crate::model::codec::Codec;
use crate::model::controller_port;
use crate::model::reader::Reader;
use crate::{
    Action, EncodeError, Encoder, Expected, Field, Match, MessageType, NO_BUFFER, ParseError,
    ParseErrorKind, PortNo, RawMessage, Result, Version, buffered, view,
};

/// `struct ofp_packet_out` of 1.0; then actions, then the frame. OpenFlow 1.0.0 §5.3.6.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed10 {
    buffer_id: U32,
    in_port: U16,
    actions_len: U16,
}

/// `struct ofp_packet_out` of 1.1 to 1.4.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed13 {
    buffer_id: U32,
    in_port: U32,
    actions_len: U16,
    pad: [u8; 6],
}

/// `struct ofp_packet_out` of 1.5; then match, actions, frame. OpenFlow 1.5.0 §7.3.6.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed15 {
    buffer_id: U32,
    actions_len: U16,
    pad: [u8; 2],
}

/// A `PACKET_OUT` to encode, with borrowed actions and frame.
#[derive(Debug, Clone, Copy)]
pub struct PacketOutRef<'a> {
    /// ID of the packet buffered in the switch; `frame` is empty then.
    pub buffer_id: Option<u32>,
    /// Port on which the packet was received; [`PortNo::CONTROLLER`] if it was not received on a port, encoded as
    /// `OFPP_NONE` in 1.0.
    pub in_port: PortNo,
    /// Actions; an empty list drops the packet.
    pub actions: &'a [Action],
    /// The Ethernet frame, unless it is buffered in the switch.
    pub frame: &'a [u8],
}

impl<'a> PacketOutRef<'a> {
    /// Returns the packet of `p` to its switch, from its buffer if it has one, without actions: it is dropped.
    #[inline]
    pub fn answer(p: &view::PacketIn<'a>) -> Self {
        let frame = if p.buffer_id.is_some() { &[] } else { p.frame };
        Self { buffer_id: p.buffer_id, in_port: p.in_port, actions: &[], frame }
    }
}

/// A `PACKET_OUT` of any version, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOut<'a> {
    /// ID of the packet buffered in the switch; `None` if `frame` is the packet.
    pub buffer_id: Option<u32>,
    /// Port on which the packet was received; [`PortNo::CONTROLLER`] if it was not received on a port.
    pub in_port: PortNo,
    actions: &'a [u8],
    actions_at: usize,
    version: Version,
    /// The Ethernet frame; empty if it is buffered in the switch.
    pub frame: &'a [u8],
}

impl<'a> PacketOut<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// `Truncated` if the fixed part is incomplete, `Length` if match or actions are longer than the message, `Version` for
    /// an unsupported version.
    #[inline]
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let version = msg.version().known()?;
        let (buffer_id, in_port, actions_len, rest) = match version {
            Version::V1_0 => {
                let (p, rest) = msg.fixed::<Fixed10>("packet_out")?;
                let in_port = match PortNo::from_u16(p.in_port.get()) {
                    PortNo::ANY => PortNo::CONTROLLER,
                    port => port,
                };
                (p.buffer_id, in_port, p.actions_len, rest)
            }
            Version::V1_5 => {
                let (p, _) = msg.fixed::<Fixed15>("packet_out")?;
                let (in_port, rest) = in_port(msg, 16)?;
                (p.buffer_id, in_port, p.actions_len, rest)
            }
            _ => {
                let (p, rest) = msg.fixed::<Fixed13>("packet_out")?;
                (p.buffer_id, PortNo(p.in_port.get()), p.actions_len, rest)
            }
        };
        let actions_at = msg.bytes().len() - rest.len();
        let actions_len = actions_len.get();
        let (actions, frame) =
            rest.split_at_checked(usize::from(actions_len)).ok_or_else(|| {
                let expected = Expected::saturating(Expected::AtMost, rest.len());
                ParseError::new("actions_len", actions_len_at(version), ParseErrorKind::Length)
                    .with_value(actions_len.into(), expected)
            })?;
        Ok(Self {
            buffer_id: buffered(buffer_id.get()),
            in_port,
            actions,
            actions_at,
            version,
            frame,
        })
    }

    /// Parses the actions.
    ///
    /// # Errors
    /// An invalid action, and its position in the message.
    ///
    /// # Cost
    /// Allocates the list.
    pub fn actions(self) -> Result<Vec<Action>> {
        Vec::parse(&mut Reader::new(self.version, self.actions, self.actions_at))
    }
}

/// Offset of `actions_len` from the start of the message.
const fn actions_len_at(version: Version) -> u16 {
    match version {
        Version::V1_0 => 14,
        Version::V1_5 => 12,
        _ => 16,
    }
}

impl Encoder<'_> {
    /// Appends a `PACKET_OUT`; returns its transaction ID.
    ///
    /// # Errors
    /// States what the version cannot express; nothing is appended then.
    #[inline]
    pub fn packet_out(&mut self, p: &PacketOutRef<'_>) -> Result<u32, EncodeError> {
        self.message(MessageType::PACKET_OUT, |out| {
            let start = out.len();
            let buffer_id = p.buffer_id.unwrap_or(NO_BUFFER).into();
            let actions_len = U16::ZERO;
            let len_at = match out.version() {
                Version::V1_0 => {
                    let in_port = match p.in_port {
                        PortNo::CONTROLLER => controller_port(Version::V1_0),
                        port => port,
                    };
                    let in_port = in_port.to_u16()?.into();
                    out.put(&Fixed10 { buffer_id, in_port, actions_len });
                    6
                }
                Version::V1_5 => {
                    out.put(&Fixed15 { buffer_id, actions_len, pad: [0; 2] });
                    Match::from([Field::in_port(p.in_port)]).encode(out)?;
                    4
                }
                _ => {
                    let in_port = p.in_port.0.into();
                    out.put(&Fixed13 { buffer_id, in_port, actions_len, pad: [0; 6] });
                    8
                }
            };
            let actions_at = out.len();
            p.actions.iter().try_for_each(|action| action.encode(out))?;
            out.patch(start + len_at, out.len() - actions_at)?;
            out.put(p.frame);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_out_survives_a_roundtrip_in_every_version() {
        for version in 1..=6 {
            let (mut tx, mut xid) = (vec![], 1);
            let actions = [Action::output(PortNo::FLOOD)];
            let written = PacketOutRef {
                buffer_id: None,
                in_port: PortNo(3),
                actions: &actions,
                frame: b"frame",
            };
            Encoder::new(&mut tx, Version(version), &mut xid).packet_out(&written).unwrap();
            let parsed = PacketOut::new(RawMessage::new(&tx).unwrap()).unwrap();
            assert_eq!((parsed.buffer_id, parsed.in_port), (None, PortNo(3)));
            assert_eq!(
                (parsed.actions().unwrap(), parsed.frame),
                (actions.to_vec(), &b"frame"[..])
            );
        }
    }
}
