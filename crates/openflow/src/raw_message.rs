//! The header of all messages, and splitting a stream into messages. §7.1.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::model::reader::number;
use crate::{Expected, MessageType, ParseError, ParseErrorKind, Result, Version};

/// `struct ofp_header`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    pub(crate) length: U16,
    pub(crate) xid: U32,
}

/// Length of the header, the minimum length of a message.
pub const HEADER_LEN: usize = size_of::<Header>();

/// The bytes of one message: the header is checked, the body is not.
#[derive(Debug, Clone, Copy)]
pub struct RawMessage<'a> {
    header: &'a Header,
    bytes: &'a [u8],
}

/// Splits the first message off `bytes`; `None` if it is incomplete.
///
/// # Errors
/// `Length` if the length in the header is less than 8. The rest of the stream cannot be split then and should be
/// discarded.
#[inline]
pub fn split_message(bytes: &[u8]) -> Result<Option<(RawMessage<'_>, &[u8])>> {
    let Ok((header, _)) = Header::ref_from_prefix(bytes) else { return Ok(None) };
    let len = usize::from(header.length.get());
    if len < HEADER_LEN {
        return Err(invalid_length(len, Expected::AtLeast(8)));
    }
    Ok(bytes.split_at_checked(len).map(|(bytes, rest)| (RawMessage { header, bytes }, rest)))
}

/// The error that the header has the invalid length `len`.
#[cold]
fn invalid_length(len: usize, expected: Expected) -> ParseError {
    ParseError::new("header", 2, ParseErrorKind::Length).with_value(number(len), expected)
}

/// The error that `what`, `at` bytes into a message, needs more bytes than are `left`.
#[cold]
pub(crate) fn truncated(what: &'static str, at: u16, needed: usize, left: usize) -> ParseError {
    let expected = Expected::saturating(Expected::Bytes, needed);
    ParseError::new(what, at, ParseErrorKind::Truncated).with_value(number(left), expected)
}

impl<'a> RawMessage<'a> {
    /// The message in `bytes`, which must be exactly one.
    ///
    /// # Errors
    /// `Truncated` or `Length` if `bytes` are less or more than one message.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        match split_message(bytes)? {
            Some((frame, [])) => Ok(frame),
            Some((first, _)) => {
                let expected = Expected::saturating(Expected::Exactly, bytes.len());
                Err(invalid_length(first.bytes.len(), expected))
            }
            None => {
                let header = Header::ref_from_prefix(bytes).ok();
                let len = header.map_or(HEADER_LEN, |(header, _)| header.length.get().into());
                let error = ParseError::new("message", 0, ParseErrorKind::Truncated);
                let expected = Expected::saturating(Expected::Bytes, len);
                Err(error.with_value(number(bytes.len()), expected))
            }
        }
    }

    /// Version in the header.
    #[inline]
    pub fn version(self) -> Version {
        Version(self.header.version)
    }

    /// Type of the message.
    #[inline]
    pub fn kind(self) -> MessageType {
        MessageType::from_wire(self.version(), self.header.kind)
    }

    /// The type byte in the header.
    #[inline]
    pub fn type_byte(self) -> u8 {
        self.header.kind
    }

    /// Whether this is a `PACKET_IN`, which has the same number in all versions.
    #[inline]
    pub fn is_packet_in(self) -> bool {
        u16::from(self.header.kind) == MessageType::PACKET_IN.0
    }

    /// Transaction ID.
    #[inline]
    pub fn xid(self) -> u32 {
        self.header.xid.get()
    }

    /// The bytes after the header.
    #[inline]
    pub fn body(self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// The whole message, with its header.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The layout `T` after the header, and the bytes after that.
    #[inline]
    pub(crate) fn fixed<T>(self, what: &'static str) -> Result<(&'a T, &'a [u8])>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        T::ref_from_prefix(self.body())
            .map_err(|_| truncated(what, 8, size_of::<T>(), self.body().len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_split_by_the_lengths_of_its_messages() {
        let two = [4, 2, 0, 8, 0, 0, 0, 7, 4, 3, 0, 10, 0, 0, 0, 8, b'h', b'i'];
        let (first, rest) = split_message(&two).unwrap().unwrap();
        assert_eq!((first.kind(), first.xid()), (MessageType::ECHO_REQUEST, 7));
        let (second, rest) = split_message(rest).unwrap().unwrap();
        assert_eq!((second.kind(), second.body()), (MessageType::ECHO_REPLY, &b"hi"[..]));
        assert!(split_message(rest).unwrap().is_none());
        assert!(split_message(&two[8..17]).unwrap().is_none());
    }

    #[test]
    fn bytes_that_are_not_exactly_one_message_are_refused() {
        let error = |bytes: &[u8]| RawMessage::new(bytes).unwrap_err().to_string();
        let long = [4, 2, 0, 8, 0, 0, 0, 7, 1];
        assert_eq!(error(&long), "header at byte 2: invalid length 8 (must be 9)");
        let short = [4, 2, 0, 9, 0, 0, 0, 7];
        assert_eq!(error(&short), "message at byte 0: truncated (needs 9 bytes, 8 left)");
        assert_eq!(error(&[4]), "message at byte 0: truncated (needs 8 bytes, 1 left)");
    }

    #[test]
    fn a_length_below_the_header_is_refused() {
        for len in 0..8 {
            let error = split_message(&[1, 0, 0, len, 0, 0, 0, 0]).unwrap_err().to_string();
            let text = format!("header at byte 2: invalid length {len} (must be at least 8)");
            assert_eq!(error, text);
        }
    }
}
