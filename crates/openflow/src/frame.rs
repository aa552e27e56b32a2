//! The header that all messages share, and cutting a stream into messages. §7.1.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Kind, Result, Version, Why};

/// `struct ofp_header`, as it lies on the wire.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    pub(crate) length: U16,
    pub(crate) xid: U32,
}

/// Octets of the header, and so the least a message can have.
pub const HEADER_LEN: usize = size_of::<Header>();

/// One whole message, read in place: its header is proved, its body is not.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    header: &'a Header,
    octets: &'a [u8],
}

/// Cuts the first message off `octets`; `None` if it is not whole yet.
///
/// # Errors
/// `Length` if the header claims less than its own eight octets: no later octet of such a stream can be
/// trusted to start a message.
#[inline]
pub fn split(octets: &[u8]) -> Result<Option<(Frame<'_>, &[u8])>> {
    let Ok((header, _)) = Header::ref_from_prefix(octets) else { return Ok(None) };
    let len = usize::from(header.length.get());
    if len < HEADER_LEN {
        return Err(Error::new("header length", 2, Why::Length));
    }
    Ok(octets.split_at_checked(len).map(|(octets, rest)| (Frame { header, octets }, rest)))
}

impl<'a> Frame<'a> {
    /// Reads `octets`: exactly one message.
    ///
    /// # Errors
    /// `Short` or `Length` if it is less or more than one.
    pub fn new(octets: &'a [u8]) -> Result<Self> {
        match split(octets)? {
            Some((frame, [])) => Ok(frame),
            Some(_) => Err(Error::new("header length", 2, Why::Length)),
            None => Err(Error::new("message", 0, Why::Short)),
        }
    }

    /// The version octet.
    #[inline]
    pub fn version(self) -> Version {
        Version(self.header.version)
    }

    /// What the message is.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::from_wire(self.version(), self.header.kind)
    }

    /// The type octet as it is on the wire.
    #[inline]
    pub fn type_octet(self) -> u8 {
        self.header.kind
    }

    /// Whether it is a `PACKET_IN`, which has one number in all versions.
    #[inline]
    pub fn is_packet_in(self) -> bool {
        u16::from(self.header.kind) == Kind::PACKET_IN.0
    }

    /// The transaction id.
    #[inline]
    pub fn xid(self) -> u32 {
        self.header.xid.get()
    }

    /// What follows the header.
    #[inline]
    pub fn body(self) -> &'a [u8] {
        self.octets.get(HEADER_LEN..).unwrap_or_default()
    }

    /// The whole message, header included.
    #[inline]
    pub fn octets(self) -> &'a [u8] {
        self.octets
    }

    /// Reads the layout `T` that follows the header, and returns what follows it in turn.
    #[inline]
    pub(crate) fn fixed<T>(self, what: &'static str) -> Result<(&'a T, &'a [u8])>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        T::ref_from_prefix(self.body()).map_err(|_| Error::new(what, 8, Why::Short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_at_the_lengths_and_waits_for_the_rest() {
        let two = [4, 2, 0, 8, 0, 0, 0, 7, 4, 3, 0, 10, 0, 0, 0, 8, b'h', b'i'];
        let (first, rest) = split(&two).unwrap().unwrap();
        assert_eq!((first.kind(), first.xid()), (Kind::ECHO_REQUEST, 7));
        let (second, rest) = split(rest).unwrap().unwrap();
        assert_eq!((second.kind(), second.body()), (Kind::ECHO_REPLY, &b"hi"[..]));
        assert!(split(rest).unwrap().is_none());
        assert!(split(&two[8..17]).unwrap().is_none());
    }

    #[test]
    fn a_length_below_the_header_is_refused() {
        for len in 0..8 {
            let error = split(&[1, 0, 0, len, 0, 0, 0, 0]).unwrap_err();
            assert_eq!(error, Error::new("header length", 2, Why::Length));
        }
    }
}
