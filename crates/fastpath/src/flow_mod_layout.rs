//! Layouts of the `FLOW_MOD` messages that the burst loops write.

use core::mem::offset_of;

use sluice_openflow::{Encoder, EthHeader, MacAddr, NO_BUFFER, PortNo, Version};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A `FLOW_MOD` that matches ingress port, source, destination and VLAN, in this order, and has an output as its only
/// action.
pub(crate) trait FlowModLayout:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it is encoded in this version.
    type Port: Copy;

    /// The versions that have this layout.
    const VERSIONS: &[Version];

    /// Offsets of buffer id, ingress port, source, destination, VLAN and output port.
    const OFFSETS: [usize; 6];

    /// Encodes `port`; `None` if the version has no number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Sets the values for untagged frames from `src` to `dst`; `ports` are ingress and output port.
    fn set(
        &mut self,
        xid: u32,
        buffer_id: [u8; 4],
        dst: MacAddr,
        src: MacAddr,
        ports: [Self::Port; 2],
    );

    /// Appends the flow entry for a frame, and returns the next transaction id. Returns `None`, and appends nothing, if the
    /// version has no number for one of the ports.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn append(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        buffer_id: [u8; 4],
        eth: &EthHeader,
        [in_port, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let ports = [Self::port(in_port)?, Self::port(out_port)?];
        out.append_copy(self)?.set(xid, buffer_id, eth.dst, eth.src, ports);
        Some(xid.wrapping_add(1))
    }

    /// Appends the flow entry for the replies to a frame, then that for the frame, and returns the next transaction id.
    /// Returns `None`, and appends nothing, if the version has no number for one of the ports.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn append_both(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        buffer_id: [u8; 4],
        eth: &EthHeader,
        [in_port, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let (in_port, out_port) = (Self::port(in_port)?, Self::port(out_port)?);
        let [reverse, forward] = out.append_two_copies(self)?;
        reverse.set(xid, NO_BUFFER.to_be_bytes(), eth.src, eth.dst, [out_port, in_port]);
        let next = xid.wrapping_add(1);
        forward.set(next, buffer_id, eth.dst, eth.src, [in_port, out_port]);
        Some(next.wrapping_add(1))
    }
}

/// OpenFlow 1.0.0 §5.3.3.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FlowModV1_0 {
    head: [u8; 4],
    xid: U32,
    wildcards: U32,
    in_port: U16,
    src: MacAddr,
    dst: MacAddr,
    vlan: U16,
    rest_of_match: [u8; 20],
    fixed: [u8; 16],
    buffer_id: [u8; 4],
    flags: [u8; 4],
    action_head: [u8; 4],
    out_port: U16,
    max_len: U16,
}

impl FlowModLayout for FlowModV1_0 {
    type Port = U16;

    const VERSIONS: &[Version] = &[Version::V1_0];

    const OFFSETS: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        offset_of!(Self, src),
        offset_of!(Self, dst),
        offset_of!(Self, vlan),
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U16> {
        port.to_u16().ok().map(U16::new)
    }

    #[inline]
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, ports: [U16; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (src, dst);
        self.vlan = U16::MAX_VALUE;
        [self.in_port, self.out_port] = ports;
    }
}

/// §7.3.4.1, and the same in 1.4.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FlowModV1_3 {
    head: [u8; 4],
    xid: U32,
    fixed: [u8; 24],
    buffer_id: [u8; 4],
    flags: [u8; 12],
    match_head: [u8; 4],
    in_port_head: [u8; 4],
    in_port: U32,
    src_head: [u8; 4],
    src: MacAddr,
    dst_head: [u8; 4],
    dst: MacAddr,
    vlan_head: [u8; 4],
    vlan: U16,
    match_pad: [u8; 2],
    instruction_head: [u8; 8],
    action_head: [u8; 4],
    out_port: U32,
    max_len: [u8; 8],
}

impl FlowModLayout for FlowModV1_3 {
    type Port = U32;

    const VERSIONS: &[Version] = &[Version::V1_3, Version::V1_4];

    const OFFSETS: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        offset_of!(Self, src),
        offset_of!(Self, dst),
        offset_of!(Self, vlan),
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U32> {
        Some(U32::new(port.0))
    }

    #[inline]
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, ports: [U32; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (src, dst);
        self.vlan = U16::ZERO;
        [self.in_port, self.out_port] = ports;
    }
}

const _: () = assert!(size_of::<FlowModV1_0>() == 80 && size_of::<FlowModV1_3>() == 112);
