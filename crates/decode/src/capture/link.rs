//! Packets of a capture: from the header of their link type to a TCP segment.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::Linktype;

/// How the packets of a network interface begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkType {
    Ethernet,
    /// Captured on all interfaces of a Linux machine ("cooked"): length of the pseudo header, and offset of the protocol in it.
    Cooked {
        header_len: usize,
        protocol_at: usize,
    },
    /// BSD loopback: four bytes with the address family.
    Loopback,
    /// Without a link header.
    Ip,
}

impl LinkType {
    /// Names of the supported link types, for error messages.
    pub(crate) const SUPPORTED: &'static str = "Ethernet, Linux cooked, raw IP, BSD loopback";

    /// The link type with this number in a capture; `None` if it is not supported.
    pub(crate) fn from_number(number: Linktype) -> Option<Self> {
        match number {
            Linktype::ETHERNET => Some(Self::Ethernet),
            Linktype::LINUX_SLL => Some(Self::Cooked { header_len: 16, protocol_at: 14 }),
            Linktype::LINUX_SLL2 => Some(Self::Cooked { header_len: 20, protocol_at: 0 }),
            Linktype::NULL | Linktype::LOOP => Some(Self::Loopback),
            // 12 and 14 are what Linux and OpenBSD call raw IP; files should have 101, but some do not.
            Linktype(12 | 14) | Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Some(Self::Ip),
            _ => None,
        }
    }

    /// What a packet contains.
    pub(crate) fn content(self, packet: &[u8]) -> PacketContent<'_> {
        self.slice(packet).map_or(PacketContent::Other, PacketContent::of)
    }

    fn slice(self, packet: &[u8]) -> Option<LaxSlicedPacket<'_>> {
        match self {
            Self::Ethernet => LaxSlicedPacket::from_ethernet(packet).ok(),
            Self::Cooked { header_len, protocol_at } => {
                let protocol = packet.get(protocol_at..protocol_at + 2)?.first_chunk()?;
                let ether_type = EtherType(u16::from_be_bytes(*protocol));
                Some(LaxSlicedPacket::from_ether_type(ether_type, packet.get(header_len..)?))
            }
            Self::Loopback => LaxSlicedPacket::from_ip(packet.get(4..)?).ok(),
            Self::Ip => LaxSlicedPacket::from_ip(packet).ok(),
        }
    }
}

/// What a packet contains.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PacketContent<'a> {
    Segment(TcpSegment<'a>),
    /// A part of a TCP segment, which IP has fragmented.
    Fragment,
    /// Neither TCP nor complete.
    Other,
}

impl<'a> PacketContent<'a> {
    /// The content of a packet whose network header has the `EtherType` `ether_type`.
    pub(crate) fn from_ether_type(ether_type: u16, packet: &'a [u8]) -> Self {
        Self::of(LaxSlicedPacket::from_ether_type(EtherType(ether_type), packet))
    }

    fn of(packet: LaxSlicedPacket<'a>) -> Self {
        let payload = match &packet.net {
            Some(LaxNetSlice::Ipv4(ip)) => Some(ip.payload()),
            Some(LaxNetSlice::Ipv6(ip)) => Some(ip.payload()),
            Some(LaxNetSlice::Arp(_)) | None => None,
        };
        if payload.is_some_and(|payload| payload.fragmented && payload.ip_number == IpNumber::TCP) {
            return Self::Fragment;
        }
        TcpSegment::new(packet).map_or(Self::Other, Self::Segment)
    }
}

/// A TCP segment with its addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpSegment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    /// The acknowledgment number, if the segment has one.
    pub(crate) ack: Option<u32>,
    pub(crate) is_syn: bool,
    pub(crate) is_fin: bool,
    pub(crate) is_reset: bool,
    pub(crate) payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    fn new(packet: LaxSlicedPacket<'a>) -> Option<Self> {
        let (Some(net), Some(TransportSlice::Tcp(tcp))) = (packet.net, packet.transport) else {
            return None;
        };
        let (from, to) = match &net {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()))
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()))
            }
            LaxNetSlice::Arp(_) => return None,
        };
        Some(Self {
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            is_syn: tcp.syn(),
            is_fin: tcp.fin(),
            is_reset: tcp.rst(),
            payload: tcp.payload(),
        })
    }
}
