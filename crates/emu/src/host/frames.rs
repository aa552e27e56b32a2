//! Ethernet frames that hosts send, without frame check sequence.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::err::packet::BuildWriteError;
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header,
    Ipv6Extensions, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpHeader, ether_type,
};
use sluice_openflow::MacAddr;

/// TTL or hop limit of ordinary packets.
const HOPS: u8 = 64;

/// Hop limit of neighbour discovery, which proves that the packet was not routed. RFC 4861 §7.1.
pub(super) const HOPS_ON_LINK: u8 = 255;

/// Message types of neighbour discovery. RFC 4861 §4.3, §4.4.
pub(super) const SOLICITATION: u8 = 135;
pub(super) const ADVERTISEMENT: u8 = 136;

/// Source and destination IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IpPair {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Source and destination of a frame on both layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameAddresses {
    pub(super) from: MacAddr,
    pub(super) to: MacAddr,
    pub(super) ends: IpPair,
}

impl FrameAddresses {
    fn builder(&self, next: IpNumber, hops: u8) -> PacketBuilderStep<IpHeaders> {
        let ip = match self.ends {
            IpPair::V4(from, to) => {
                // The payload length is set when the packet is written, so it is always valid here.
                let header = Ipv4Header::new(0, hops, next, from.octets(), to.octets());
                IpHeaders::Ipv4(header.unwrap_or_default(), Ipv4Extensions::default())
            }
            IpPair::V6(from, to) => IpHeaders::Ipv6(
                Ipv6Header {
                    next_header: next,
                    hop_limit: hops,
                    source: from.octets(),
                    destination: to.octets(),
                    ..Ipv6Header::default()
                },
                Ipv6Extensions::default(),
            ),
        };
        PacketBuilder::ethernet2(self.from.0, self.to.0).ip(ip)
    }

    pub(super) fn echo(&self, echo: EchoKind, id: u16, seq: u16, data: &[u8]) -> Vec<u8> {
        match (self.ends, echo) {
            (IpPair::V4(..), EchoKind::Request) => {
                let b = self.builder(IpNumber::ICMP, HOPS).icmpv4_echo_request(id, seq);
                written(b.size(data.len()), |w| b.write(w, data))
            }
            (IpPair::V4(..), EchoKind::Reply) => {
                let b = self.builder(IpNumber::ICMP, HOPS).icmpv4_echo_reply(id, seq);
                written(b.size(data.len()), |w| b.write(w, data))
            }
            (IpPair::V6(..), EchoKind::Request) => {
                let b = self.builder(IpNumber::IPV6_ICMP, HOPS).icmpv6_echo_request(id, seq);
                written(b.size(data.len()), |w| b.write(w, data))
            }
            (IpPair::V6(..), EchoKind::Reply) => {
                let b = self.builder(IpNumber::IPV6_ICMP, HOPS).icmpv6_echo_reply(id, seq);
                written(b.size(data.len()), |w| b.write(w, data))
            }
        }
    }

    pub(super) fn udp(&self, from: u16, to: u16, data: &[u8]) -> Vec<u8> {
        let b = self.builder(IpNumber::UDP, HOPS).udp(from, to);
        written(b.size(data.len()), |w| b.write(w, data))
    }

    pub(super) fn tcp(&self, header: TcpHeader, data: &[u8]) -> Vec<u8> {
        let b = self.builder(IpNumber::TCP, HOPS).tcp_header(header);
        written(b.size(data.len()), |w| b.write(w, data))
    }

    /// A neighbour discovery message about `target`, with the sender's link-layer address as its option.
    pub(super) fn neighbour(&self, kind: u8, flags: u8, target: Ipv6Addr) -> Vec<u8> {
        let mut data = [0; 24];
        let (address, option) = data.split_at_mut(16);
        address.copy_from_slice(&target.octets());
        let whose = if kind == SOLICITATION { 1 } else { 2 };
        let bytes = [whose, 1].into_iter().chain(self.from.0);
        option.iter_mut().zip(bytes).for_each(|(target, byte)| *target = byte);
        let b = self.builder(IpNumber::IPV6_ICMP, HOPS_ON_LINK);
        let b = b.icmpv6_raw(kind, 0, [flags, 0, 0, 0]);
        written(b.size(data.len()), |w| b.write(w, &data))
    }
}

/// Whether an echo message is a request or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoKind {
    Request,
    Reply,
}

/// An ARP packet for IPv4 over Ethernet. RFC 826.
pub(super) fn arp(to: MacAddr, packet: &ArpEthIpv4Packet) -> Vec<u8> {
    let mut frame = Vec::with_capacity(14 + ArpEthIpv4Packet::LEN);
    frame.extend(to.0);
    frame.extend(packet.sender_mac);
    frame.extend(ether_type::ARP.0.to_be_bytes());
    frame.extend(packet.to_bytes());
    frame
}

/// An ARP request for `target`.
pub(super) fn arp_request(mac: MacAddr, from: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let packet = ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: mac.0,
        sender_ipv4: from.octets(),
        target_mac: [0; 6],
        target_ipv4: target.octets(),
    };
    arp(MacAddr::BROADCAST, &packet)
}

/// The MAC address of a multicast or broadcast IP address. RFC 1112 §6.4, RFC 2464 §7.
pub(super) fn group(to: IpAddr) -> Option<MacAddr> {
    match to {
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some(MacAddr::BROADCAST),
        IpAddr::V4(to) if to.is_multicast() => {
            let [_, b, c, d] = to.octets();
            Some(MacAddr([1, 0, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(to) if to.is_multicast() => {
            let [.., a, b, c, d] = to.octets();
            Some(MacAddr([0x33, 0x33, a, b, c, d]))
        }
        _ => None,
    }
}

/// The solicited-node multicast address of `target`. RFC 4291 §2.7.1.
pub(super) fn solicited(target: Ipv6Addr) -> Ipv6Addr {
    let low = u128::from(target) & 0xff_ffff;
    Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// The frame that `write` writes; empty if the packet is too long, which no caller causes.
fn written(len: usize, write: impl FnOnce(&mut Vec<u8>) -> Result<(), BuildWriteError>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(len);
    match write(&mut frame) {
        Ok(()) => frame,
        Err(_) => Vec::new(),
    }
}
