//! `PACKET_IN`: a packet that the switch sends to the controller. §7.4.1.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::match_view::in_port;
use crate::model::codec::Codec;
use crate::{
    EncodeError, Encoder, Field, Match, MessageType, NO_BUFFER, PacketInReason, ParseError,
    ParseErrorKind, PortNo, RawMessage, Result, Version, buffered, split_message,
};

/// `struct ofp_packet_in` of 1.0; then the frame. OpenFlow 1.0.0 §5.4.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed10 {
    buffer_id: U32,
    total_len: U16,
    in_port: U16,
    reason: u8,
    pad: u8,
}

/// `struct ofp_packet_in` of 1.1; then the frame. OpenFlow 1.1.0 §A.4.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed11 {
    buffer_id: U32,
    in_port: U32,
    in_phy_port: U32,
    total_len: U16,
    reason: u8,
    table_id: u8,
}

/// `struct ofp_packet_in` of 1.2; then match, 2 bytes of padding, the frame. OpenFlow 1.2 §A.4.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed12 {
    buffer_id: U32,
    total_len: U16,
    reason: u8,
    table_id: u8,
}

/// `struct ofp_packet_in` of 1.3 and later; then match, 2 bytes of padding, the frame.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed13 {
    buffer_id: U32,
    total_len: U16,
    reason: u8,
    table_id: u8,
    cookie: U64,
}

const _: () = assert!(size_of::<Fixed10>() == 10);
const _: () = assert!(size_of::<Fixed11>() == 16);
const _: () = assert!(size_of::<Fixed12>() == 8);
const _: () = assert!(size_of::<Fixed13>() == 16);

/// A `PACKET_IN` of any version, read in place.
///
/// [`new`](Self::new) checks the layout once; after that no accessor can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketIn<'a> {
    /// ID of the packet buffered in the switch; `None` if it is not buffered.
    pub buffer_id: Option<u32>,
    /// Port on which the packet was received.
    pub in_port: PortNo,
    /// Length of the received frame; [`frame`](Self::frame) may be shorter.
    pub total_len: u16,
    /// Why the packet was sent to the controller.
    pub reason: PacketInReason,
    /// Table of the flow entry that sent it to the controller; 0 in 1.0.
    pub table_id: u8,
    /// Cookie of that flow entry; all ones before 1.3. §7.4.1.
    pub cookie: u64,
    /// The Ethernet frame, which may be truncated.
    pub frame: &'a [u8],
}

/// The error that padding and frame are missing after the match, which starts at `at`.
#[cold]
fn frame_missing(at: u16) -> ParseError {
    ParseError::new("frame", at, ParseErrorKind::Length)
}

/// Value of `cookie` in versions without it.
const NO_COOKIE: u64 = u64::MAX;

impl<'a> PacketIn<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// `Truncated` if the fixed part is incomplete, `Length` if the match is longer than the message, `Missing` without
    /// the `IN_PORT` field that §7.4.1 requires.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        if msg.version() == Version::V1_0 { Self::new_10(msg) } else { Self::new_11_on(msg) }
    }

    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn new_11_on(msg: RawMessage<'a>) -> Result<Self> {
        match msg.version() {
            Version::V1_1 => Self::new_11(msg),
            Version::V1_2 => {
                let (p, _) = msg.fixed::<Fixed12>("packet_in")?;
                Self::with_match(msg, 16, p.buffer_id, p.total_len, p.reason, p.table_id, NO_COOKIE)
            }
            Version::V1_3 | Version::V1_4 | Version::V1_5 => {
                let (p, _) = msg.fixed::<Fixed13>("packet_in")?;
                let cookie = p.cookie.get();
                Self::with_match(msg, 24, p.buffer_id, p.total_len, p.reason, p.table_id, cookie)
            }
            version => Err(version.unsupported()),
        }
    }

    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn new_10(msg: RawMessage<'a>) -> Result<Self> {
        let (p, frame) = msg.fixed::<Fixed10>("packet_in")?;
        Ok(Self {
            buffer_id: buffered(p.buffer_id.get()),
            in_port: PortNo::from_u16(p.in_port.get()),
            total_len: p.total_len.get(),
            reason: PacketInReason::from_wire(p.reason, Version::V1_0),
            table_id: 0,
            cookie: NO_COOKIE,
            frame,
        })
    }

    fn new_11(msg: RawMessage<'a>) -> Result<Self> {
        let (p, frame) = msg.fixed::<Fixed11>("packet_in")?;
        Ok(Self {
            buffer_id: buffered(p.buffer_id.get()),
            in_port: PortNo(p.in_port.get()),
            total_len: p.total_len.get(),
            reason: PacketInReason::from_wire(p.reason, Version::V1_1),
            table_id: p.table_id,
            cookie: NO_COOKIE,
            frame,
        })
    }

    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn with_match(
        msg: RawMessage<'a>,
        at: u16,
        buffer_id: U32,
        total_len: U16,
        reason: u8,
        table_id: u8,
        cookie: u64,
    ) -> Result<Self> {
        let (in_port, rest) = in_port(msg, at)?;
        Ok(Self {
            buffer_id: buffered(buffer_id.get()),
            in_port,
            total_len: total_len.get(),
            reason: PacketInReason::from_wire(reason, msg.version()),
            table_id,
            cookie,
            frame: rest.get(2..).ok_or_else(|| frame_missing(at))?,
        })
    }

    /// Appends the message as a switch sends it.
    ///
    /// # Errors
    /// States what the version cannot express.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (buffer_id, total_len) =
            (self.buffer_id.unwrap_or(NO_BUFFER).into(), self.total_len.into());
        let (reason, table_id) = (self.reason.to_wire(out.version())?, self.table_id);
        out.message_with_xid(MessageType::PACKET_IN, 0, |out| {
            match out.version() {
                Version::V1_0 => {
                    let in_port = self.in_port.to_u16()?.into();
                    out.put(&Fixed10 { buffer_id, total_len, in_port, reason, pad: 0 });
                }
                Version::V1_1 => {
                    let in_port = self.in_port.0.into();
                    let in_phy_port = in_port;
                    let fixed =
                        Fixed11 { buffer_id, in_port, in_phy_port, total_len, reason, table_id };
                    out.put(&fixed);
                }
                version => {
                    out.put(&Fixed12 { buffer_id, total_len, reason, table_id });
                    if version > Version::V1_2 {
                        out.put(&U64::new(self.cookie));
                    }
                    Match::from([Field::in_port(self.in_port)]).encode(out)?;
                    out.put(&[0u8; 2]);
                }
            }
            out.put(self.frame);
            Ok(())
        })
    }
}

/// Iterates over the `PACKET_IN` messages at the front of a stream.
///
/// Ends at the first message that has another type or version, is invalid or incomplete;
/// [`rest`](Self::rest) starts with that message.
#[derive(Debug)]
pub struct PacketIns<'a> {
    rest: &'a [u8],
    version: Version,
    taken: u64,
}

impl<'a> PacketIns<'a> {
    /// The messages of `version` at the front of `bytes`.
    #[inline]
    pub const fn new(version: Version, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, version, taken: 0 }
    }

    /// The bytes that are not yet parsed.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The OpenFlow version of the messages.
    #[inline]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Number of messages parsed so far.
    #[inline]
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Continues at `rest`, the bytes after `taken` more messages. For code that parses messages from
    /// [`rest`](Self::rest) itself, as `sluice-fastpath` does.
    #[inline]
    pub const fn skip_to(&mut self, rest: &'a [u8], taken: u64) {
        self.rest = rest;
        self.taken += taken;
    }
}

impl<'a> Iterator for PacketIns<'a> {
    type Item = PacketIn<'a>;

    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn next(&mut self) -> Option<PacketIn<'a>> {
        let (msg, rest) = split_message(self.rest).ok()??;
        if !msg.is_packet_in() || msg.version() != self.version {
            return None;
        }
        let p = PacketIn::new(msg).ok()?;
        self.rest = rest;
        self.taken += 1;
        Some(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cbench sends messages whose `total_len` contradicts their length.
    #[test]
    fn the_frame_extends_to_the_end_of_the_message_whatever_total_len_is() {
        let mut msg = vec![1, 10, 0, 32, 0, 0, 0, 0, 0, 0, 1, 2, 0, 64, 0, 3, 0, 0];
        msg.extend([7; 14]);
        let p = PacketIn::new(RawMessage::new(&msg).unwrap()).unwrap();
        assert_eq!((p.buffer_id, p.in_port, p.total_len), (Some(258), PortNo(3), 64));
        assert_eq!(p.frame, [7; 14]);
    }

    #[test]
    fn a_packet_in_survives_a_roundtrip_in_every_version() {
        for version in 1..=6 {
            let version = Version(version);
            let p = PacketIn {
                buffer_id: None,
                in_port: PortNo(3),
                total_len: 60,
                reason: PacketInReason::ACTION,
                table_id: if version == Version::V1_0 { 0 } else { 5 },
                cookie: if version < Version::V1_3 { NO_COOKIE } else { 77 },
                frame: b"frame",
            };
            let (mut tx, mut xid) = (vec![], 1);
            p.encode(&mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
            assert_eq!(PacketIn::new(RawMessage::new(&tx).unwrap()), Ok(p), "{version}");
        }
    }

    #[test]
    fn a_long_unknown_field_does_not_hide_the_frame() {
        let mut msg = vec![4, 10, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        msg.extend([0; 8]);
        msg.extend([0, 1, 0, 48, 0, 1, 40 << 1, 32]);
        msg.extend([7; 32]);
        msg.extend([0x80, 0, 0, 4, 0, 0, 0, 9]);
        msg.extend([0, 0, b'f']);
        msg[3] = 75;
        let p = PacketIn::new(RawMessage::new(&msg).unwrap()).unwrap();
        assert_eq!((p.in_port, p.frame), (PortNo(9), &b"f"[..]));
    }

    #[test]
    fn a_match_without_in_port_is_refused() {
        let mut msg = vec![4, 10, 0, 34, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        msg.extend([0; 8]);
        msg.extend([0, 1, 0, 4, 0, 0, 0, 0, 0, 0]);
        let error = PacketIn::new(RawMessage::new(&msg).unwrap()).unwrap_err();
        assert_eq!(
            error,
            ParseError::new("in_port", 24, ParseErrorKind::Missing)
                .within(crate::ErrorContext::Match)
        );
    }
}
