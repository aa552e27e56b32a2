//! Layouts of the `PACKET_OUT` messages that the burst loops write.

use core::mem::offset_of;

use sluice_openflow::{Encoder, NO_BUFFER, PortNo, Version};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::packet_in_layout::BurstFrame;
use crate::template::LEN_SHORT;

/// Lengths in which a frame that is not longer is copied, and cut off after it. A copy of constant length takes a few
/// instructions. 64 bytes hold a frame of minimum length, 128 bytes a TCP SYN or a ping.
const CHUNKS: [usize; 2] = [64, 128];

/// A `PACKET_OUT` with an output as its only action, up to the frame.
pub(crate) trait PacketOutLayout:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it is encoded in this version.
    type Port;

    /// The versions that have this layout.
    const VERSIONS: &[Version];

    /// Offsets of buffer id, ingress port and output port, in the form of those of a `FLOW_MOD`.
    const OFFSETS: [usize; 6];

    /// Encodes `port`; `None` if the version has no number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Sets the values for a frame that the switch has not buffered, and the length of the whole message.
    fn set(&mut self, len: U16, xid: u32, ports: [Self::Port; 2]);

    /// Appends the message with a frame; the ports are ingress and output port. Returns `None`, and appends nothing, if
    /// the version has no number for one of the ports or the message would be too long.
    ///
    /// # Cost
    /// A short frame is copied without a function call if enough bytes of the burst follow it.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn append_with_frame(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        [in_port, out_port]: [PortNo; 2],
        BurstFrame { burst, len }: BurstFrame<'_>,
    ) -> Option<()> {
        let ports = [Self::port(in_port)?, Self::port(out_port)?];
        let message_len = u16::try_from(size_of::<Self>() + len).ok()?;
        let frame = burst.get(..len)?;
        out.append_copy(self)?.set(message_len.into(), xid, ports);
        let end = out.len() + len;
        if len <= CHUNKS[0] && burst.len() >= CHUNKS[0] {
            out.append_chunk::<{ CHUNKS[0] }>(burst);
            out.truncate(end);
        } else if len <= CHUNKS[1] && burst.len() >= CHUNKS[1] {
            out.append_chunk::<{ CHUNKS[1] }>(burst);
            out.truncate(end);
        } else {
            out.append_bytes(frame);
        }
        Some(())
    }
}

/// OpenFlow 1.0.0 §5.3.6.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PacketOutV1_0 {
    version_and_type: [u8; 2],
    len: U16,
    xid: U32,
    buffer_id: U32,
    in_port: U16,
    actions_len: [u8; 2],
    action_head: [u8; 4],
    out_port: U16,
    max_len: [u8; 2],
}

impl PacketOutLayout for PacketOutV1_0 {
    type Port = U16;

    const VERSIONS: &[Version] = &[Version::V1_0];

    const OFFSETS: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        LEN_SHORT,
        LEN_SHORT,
        LEN_SHORT,
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U16> {
        port.to_u16().ok().map(U16::new)
    }

    #[inline]
    fn set(&mut self, len: U16, xid: u32, ports: [U16; 2]) {
        self.len = len;
        self.xid.set(xid);
        self.buffer_id.set(NO_BUFFER);
        [self.in_port, self.out_port] = ports;
    }
}

/// §7.3.7, and the same in 1.4.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PacketOutV1_3 {
    version_and_type: [u8; 2],
    len: U16,
    xid: U32,
    buffer_id: U32,
    in_port: U32,
    actions_len: [u8; 8],
    action_head: [u8; 4],
    out_port: U32,
    max_len: [u8; 8],
}

impl PacketOutLayout for PacketOutV1_3 {
    type Port = U32;

    const VERSIONS: &[Version] = &[Version::V1_3, Version::V1_4];

    const OFFSETS: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        LEN_SHORT,
        LEN_SHORT,
        LEN_SHORT,
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U32> {
        Some(U32::new(port.0))
    }

    #[inline]
    fn set(&mut self, len: U16, xid: u32, ports: [U32; 2]) {
        self.len = len;
        self.xid.set(xid);
        self.buffer_id.set(NO_BUFFER);
        [self.in_port, self.out_port] = ports;
    }
}

const _: () = assert!(size_of::<PacketOutV1_0>() == 24 && size_of::<PacketOutV1_3>() == 40);
