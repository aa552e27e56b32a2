//! Layouts of the `PACKET_IN` messages that the burst loops answer.

use sluice_openflow::{EthHeader, NO_BUFFER, PortNo, Version};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Message type of `PACKET_IN`, the same in all versions. §7.1.
const PACKET_IN: u8 = 10;

/// Bytes of the checksum of a frame. Some switches count it in `total_len`, none sends it. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// Longest frame that is sent back; fits a `PACKET_OUT` of every version.
const FRAME_BYTES_MAX: usize = 60_000;

/// A frame in a burst of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BurstFrame<'a> {
    /// The burst from the frame on: the frame, then the messages after it.
    pub(crate) burst: &'a [u8],
    pub(crate) len: usize,
}

impl<'a> BurstFrame<'a> {
    /// The frame.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.burst.get(..self.len).unwrap_or_default()
    }
}

/// A `PACKET_IN` of an untagged frame, from its header to the Ethernet header of the frame.
pub(crate) trait PacketInLayout:
    Sized + FromBytes + Immutable + KnownLayout + Unaligned
{
    /// Offset of the frame in the message.
    const FRAME_OFFSET: usize = size_of::<Self>() - size_of::<EthHeader>();

    /// Splits the first message off `bytes`, which has to be of `version`, one of this layout; `None` if it is incomplete
    /// or different.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn split(bytes: &[u8], version: Version) -> Option<(&Self, &[u8])> {
        let (p, _) = Self::ref_from_prefix(bytes).ok()?;
        let (version_and_type, len) = p.head();
        let len = usize::from(len.get());
        let has_layout = version_and_type == [version.0, PACKET_IN]
            && len >= size_of::<Self>()
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

    /// The frame of the first message of `burst`, which is followed by `after`.
    #[inline]
    fn frame<'a>(burst: &'a [u8], after: &[u8]) -> BurstFrame<'a> {
        let len = (burst.len() - after.len()).saturating_sub(Self::FRAME_OFFSET);
        BurstFrame { burst: burst.get(Self::FRAME_OFFSET..).unwrap_or_default(), len }
    }

    /// Whether a frame that is not buffered came whole, and fits a `PACKET_OUT`.
    #[inline]
    fn can_send_back(&self, frame: BurstFrame<'_>) -> bool {
        let total_len = usize::from(self.total_len().get());
        frame.len + FCS_LEN >= total_len && frame.len <= FRAME_BYTES_MAX
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

/// §7.4.1, the same in 1.4, with a match of the ingress port alone.
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
