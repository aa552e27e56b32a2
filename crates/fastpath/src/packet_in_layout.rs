//! Layouts of the `PACKET_IN` messages that the burst loops answer.

use sluice_openflow::{EthHeader, NO_BUFFER, PortNo};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A `PACKET_IN` of an untagged frame, from its header to the Ethernet header of the frame.
pub(crate) trait PacketInLayout:
    Sized + FromBytes + Immutable + KnownLayout + Unaligned
{
    /// The first two bytes of the message: version and type.
    const VERSION_AND_TYPE: [u8; 2];

    /// Offset of the frame in the message.
    const FRAME_OFFSET: usize = size_of::<Self>() - size_of::<EthHeader>();

    /// Splits the first message off `bytes`; `None` if it is incomplete or of another layout. With `BUFFERED`, also
    /// `None` if the switch has not buffered the frame.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn split<const BUFFERED: bool>(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (p, _) = Self::ref_from_prefix(bytes).ok()?;
        let (version_and_type, len) = p.head();
        let len = usize::from(len.get());
        let has_layout = version_and_type == Self::VERSION_AND_TYPE
            && len >= size_of::<Self>()
            && (!BUFFERED || p.is_buffered())
            && p.matches_in_port_only()
            && !p.eth().is_tagged();
        if has_layout { Some((p, bytes.get(len..)?)) } else { None }
    }

    /// Splits off the first message, for which [`split`](Self::split) has succeeded before.
    #[inline]
    fn split_checked(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (p, _) = Self::ref_from_prefix(bytes).ok()?;
        Some((p, bytes.get(usize::from(p.head().1.get())..)?))
    }

    /// Version and type, and the length of the message.
    fn head(&self) -> ([u8; 2], U16);

    fn buffer_id(&self) -> [u8; 4];

    /// Length of the frame when the switch received it; the message may hold less of it.
    fn total_len(&self) -> U16;

    #[inline]
    fn is_buffered(&self) -> bool {
        self.buffer_id() != NO_BUFFER.to_be_bytes()
    }

    /// Whether the match has the ingress port and no other field.
    fn matches_in_port_only(&self) -> bool;

    /// The ingress port, unless it is a reserved one.
    fn in_port(&self) -> Option<PortNo>;

    fn eth(&self) -> &EthHeader;
}

/// OpenFlow 1.0.0 §5.4.1.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PacketInV1_0 {
    version_and_type: [u8; 2],
    len: U16,
    xid: [u8; 4],
    buffer_id: [u8; 4],
    total_len: U16,
    in_port: U16,
    reason: u8,
    pad: u8,
    eth: EthHeader,
}

impl PacketInLayout for PacketInV1_0 {
    const VERSION_AND_TYPE: [u8; 2] = [1, 10];

    #[inline]
    fn head(&self) -> ([u8; 2], U16) {
        (self.version_and_type, self.len)
    }

    #[inline]
    fn buffer_id(&self) -> [u8; 4] {
        self.buffer_id
    }

    #[inline]
    fn total_len(&self) -> U16 {
        self.total_len
    }

    #[inline]
    fn matches_in_port_only(&self) -> bool {
        true
    }

    #[inline]
    fn in_port(&self) -> Option<PortNo> {
        Some(PortNo(self.in_port.get().into())).filter(|port| port.0 < 0xff00)
    }

    #[inline]
    fn eth(&self) -> &EthHeader {
        &self.eth
    }
}

/// §7.4.1, with a match of the ingress port alone.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PacketInV1_3 {
    version_and_type: [u8; 2],
    len: U16,
    xid: [u8; 4],
    buffer_id: [u8; 4],
    total_len: U16,
    reason: u8,
    table_id: u8,
    cookie: [u8; 8],
    match_head: [u8; 8],
    in_port: U32,
    pad: [u8; 6],
    eth: EthHeader,
}

impl PacketInLayout for PacketInV1_3 {
    const VERSION_AND_TYPE: [u8; 2] = [4, 10];

    #[inline]
    fn head(&self) -> ([u8; 2], U16) {
        (self.version_and_type, self.len)
    }

    #[inline]
    fn buffer_id(&self) -> [u8; 4] {
        self.buffer_id
    }

    #[inline]
    fn total_len(&self) -> U16 {
        self.total_len
    }

    #[inline]
    fn matches_in_port_only(&self) -> bool {
        // Type and length of the match; class, field and length of its only field.
        self.match_head == [0, 1, 0, 12, 0x80, 0, 0, 4]
    }

    #[inline]
    fn in_port(&self) -> Option<PortNo> {
        Some(PortNo(self.in_port.get()))
    }

    #[inline]
    fn eth(&self) -> &EthHeader {
        &self.eth
    }
}
