//! Packet headers that contain addresses of hosts, in their wire format.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use sluice_openflow::MacAddr;

/// IPv6. RFC 2464.
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;

/// An ARP packet for IPv4 over Ethernet. RFC 826.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Arp {
    /// Hardware type, protocol type, and the lengths of their addresses.
    pub(super) types: [u8; 6],
    pub(super) operation: U16,
    pub(super) sender_mac: MacAddr,
    pub(super) sender: [u8; 4],
    pub(super) target_mac: MacAddr,
    pub(super) target: [u8; 4],
}

impl Arp {
    /// `types` for IPv4 over Ethernet.
    pub(super) const IPV4_OVER_ETHERNET: [u8; 6] = [0, 1, 8, 0, 6, 4];
    pub(super) const REQUEST: U16 = U16::new(1);
    pub(super) const REPLY: U16 = U16::new(2);
}

/// The header of IPv4, without options. RFC 791.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv4 {
    /// Version, and length of the header in 32-bit words.
    pub(super) version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    /// Flags and fragment offset.
    pub(super) fragment: U16,
    pub(super) ttl: u8,
    pub(super) protocol: u8,
    checksum: U16,
    pub(super) src: [u8; 4],
    dst: [u8; 4],
}

/// The header of IPv6. RFC 8200.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv6 {
    /// Version, traffic class and flow label.
    pub(super) version_flow: U32,
    pub(super) payload_len: U16,
    pub(super) next_header: u8,
    pub(super) hop_limit: u8,
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
}

impl Ipv6 {
    /// Version 6, in `version_flow`.
    pub(super) const VERSION: u32 = 6 << 28;
    /// Hop limit of neighbor discovery messages, which shows that no router forwarded them. RFC 4861 §7.1.
    pub(super) const LINK_LOCAL_HOP_LIMIT: u8 = 255;
}

/// A neighbor solicitation or advertisement, without options. RFC 4861 §4.3, §4.4.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct NeighborMessage {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) checksum: U16,
    /// Of an advertisement: router, solicited, override, from the most significant bit.
    pub(super) flags: U32,
    pub(super) target: [u8; 16],
}

impl NeighborMessage {
    pub(super) const SOLICITATION: u8 = 135;
    pub(super) const ADVERTISEMENT: u8 = 136;
}

/// Source or target link-layer address option. RFC 4861 §4.6.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LinkAddrOption {
    pub(super) kind: u8,
    /// Length in units of eight bytes.
    pub(super) len: u8,
    pub(super) mac: MacAddr,
}

impl LinkAddrOption {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const TARGET: u8 = 2;
}

/// The header of UDP. RFC 768.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Udp {
    pub(super) src: U16,
    pub(super) dst: U16,
    len: U16,
    checksum: U16,
}

impl Udp {
    /// IP protocol number.
    pub(super) const PROTOCOL: u8 = 17;
}

/// A DHCP message, without options. RFC 2131 §2.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Dhcp {
    /// Operation, type and length of the hardware address, hops.
    pub(super) op: [u8; 4],
    xid: U32,
    secs: U16,
    flags: U16,
    ciaddr: [u8; 4],
    /// "Your" address: the address that the client is assigned.
    pub(super) yiaddr: [u8; 4],
    siaddr: [u8; 4],
    giaddr: [u8; 4],
    /// The Ethernet address of the client.
    pub(super) chaddr: MacAddr,
    chaddr_rest: [u8; 10],
    sname: [u8; 64],
    file: [u8; 128],
    pub(super) magic: [u8; 4],
}

impl Dhcp {
    pub(super) const SERVER: u16 = 67;
    pub(super) const CLIENT: u16 = 68;
    /// Value of `magic`. RFC 2131 §3.
    pub(super) const MAGIC: [u8; 4] = [99, 130, 83, 99];
    /// Option with the type of the message. RFC 2132 §9.6.
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const ACK: u8 = 5;
}

const _: () = assert!(size_of::<Arp>() == 28);
const _: () = assert!(size_of::<Ipv4>() == 20);
const _: () = assert!(size_of::<Ipv6>() == 40);
const _: () = assert!(size_of::<NeighborMessage>() == 24);
const _: () = assert!(size_of::<LinkAddrOption>() == 8);
const _: () = assert!(size_of::<Udp>() == 8);
const _: () = assert!(size_of::<Dhcp>() == 240);
