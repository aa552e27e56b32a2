//! Layouts of the `FLOW_MOD` messages that the burst loops write.

use core::mem::offset_of;

use sluice_openflow::{Encoder, EthHeader, MacAddr, NO_BUFFER, PortNo, Version};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::template::{LEN_MAX, LEN_SHORT};

/// A `FLOW_MOD` that matches ingress port, source, destination and VLAN, in this order, and has an output as its only
/// action.
pub(crate) trait PortFlowLayout:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it is encoded in this version.
    type Port;

    /// The versions that have this layout.
    const VERSIONS: &[Version];

    /// Offsets of buffer id, ingress port, source, destination, VLAN and output port.
    const OFFSETS: [usize; 6];

    /// Encodes `port`; `None` if the version has no number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Sets the values for an untagged frame; `ports` are ingress and output port.
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [Self::Port; 2]);

    /// Appends a copy of the message with the values for an untagged frame. Returns `None`, and appends nothing, if the
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
    ) -> Option<()> {
        let ports = [Self::port(in_port)?, Self::port(out_port)?];
        out.append_copy(self)?.set(xid, buffer_id, eth, ports);
        Some(())
    }
}

/// OpenFlow 1.0.0 §5.3.3.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PortFlowV1_0 {
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

impl PortFlowLayout for PortFlowV1_0 {
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
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [U16; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (eth.src, eth.dst);
        self.vlan = U16::MAX_VALUE;
        [self.in_port, self.out_port] = ports;
    }
}

/// §7.3.4.1, and the same in 1.4.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PortFlowV1_3 {
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

impl PortFlowLayout for PortFlowV1_3 {
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
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [U32; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (eth.src, eth.dst);
        self.vlan = U16::ZERO;
        [self.in_port, self.out_port] = ports;
    }
}

/// A `FLOW_MOD` that matches destination, source and VLAN, in this order, and has an output as its only action.
pub(crate) trait AddressFlowLayout:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it is encoded in this version.
    type Port: Copy;

    /// The versions that have this layout.
    const VERSIONS: &[Version];

    /// Offsets of buffer id, ingress port (none), source, destination, VLAN and output port.
    const OFFSETS: [usize; 6];

    /// Encodes `port`; `None` if the version has no number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Sets the values for untagged frames from `src` to `dst`.
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: Self::Port);

    /// Appends the flow entry for a frame and returns the next transaction id. Returns `None`, and appends nothing, if
    /// the version has no number for the output port.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn append_one(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        (buffer_id, eth): ([u8; 4], &EthHeader),
        [_, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let out_port = Self::port(out_port)?;
        out.append_copy(self)?.set(xid, buffer_id, eth.dst, eth.src, out_port);
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
        (buffer_id, eth): ([u8; 4], &EthHeader),
        [in_port, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let (in_port, out_port) = (Self::port(in_port)?, Self::port(out_port)?);
        let [reverse, forward] = out.append_two_copies(self)?;
        reverse.set(xid, NO_BUFFER.to_be_bytes(), eth.src, eth.dst, in_port);
        let next = xid.wrapping_add(1);
        forward.set(next, buffer_id, eth.dst, eth.src, out_port);
        Some(next.wrapping_add(1))
    }
}

/// OpenFlow 1.0.0 §5.3.3: the bytes are those of [`PortFlowV1_0`], since the match has all fields there, used or not.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub(crate) struct AddressFlowV1_0(PortFlowV1_0);

impl AddressFlowLayout for AddressFlowV1_0 {
    type Port = U16;

    const VERSIONS: &[Version] = &[Version::V1_0];

    const OFFSETS: [usize; 6] = {
        let [buffer_id, _, src, dst, vlan, out_port] = PortFlowV1_0::OFFSETS;
        [buffer_id, LEN_SHORT, src, dst, vlan, out_port]
    };

    #[inline]
    fn port(port: PortNo) -> Option<U16> {
        PortFlowV1_0::port(port)
    }

    #[inline]
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: U16) {
        let Self(flow) = self;
        flow.xid.set(xid);
        flow.buffer_id = buffer_id;
        (flow.dst, flow.src) = (dst, src);
        flow.vlan = U16::MAX_VALUE;
        flow.out_port = port;
    }
}

/// §7.3.4.1, and the same in 1.4.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct AddressFlowV1_3 {
    head: [u8; 4],
    xid: U32,
    fixed: [u8; 24],
    buffer_id: [u8; 4],
    flags: [u8; 12],
    match_head: [u8; 4],
    dst_head: [u8; 4],
    dst: MacAddr,
    src_head: [u8; 4],
    src: MacAddr,
    vlan_head: [u8; 4],
    vlan: U16,
    match_pad: [u8; 2],
    instruction_head: [u8; 8],
    action_head: [u8; 4],
    out_port: U32,
    max_len: [u8; 8],
}

impl AddressFlowLayout for AddressFlowV1_3 {
    type Port = U32;

    const VERSIONS: &[Version] = &[Version::V1_3, Version::V1_4];

    const OFFSETS: [usize; 6] = [
        offset_of!(Self, buffer_id),
        LEN_MAX,
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
    fn set(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: U32) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.dst, self.src) = (dst, src);
        self.vlan = U16::ZERO;
        self.out_port = port;
    }
}

const _: () = assert!(size_of::<PortFlowV1_0>() == 80 && size_of::<PortFlowV1_3>() == 112);
const _: () = assert!(size_of::<AddressFlowV1_3>() == 104);
