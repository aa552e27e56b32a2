//! Extracts addresses of hosts from a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_openflow::{EtherType, Ethernet, MacAddr};
use zerocopy::FromBytes;

use super::headers::{Arp, Dhcp, ETHERTYPE_IPV6, Ipv4, Ipv6, LinkAddrOption, NeighborMessage, Udp};
use crate::internet::ICMPV6;
use crate::packet::payload;

/// What a packet reveals about the address of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressInfo {
    /// Nothing.
    None,
    /// An IP packet with this source address, which is probably an address of the host that sent the frame.
    Source(IpAddr),
    /// An ARP request or neighbor solicitation.
    Request {
        /// Address of the sender; `None` if it has none yet, or the message is about another host.
        sender: Option<IpAddr>,
        /// The address to resolve.
        target: IpAddr,
    },
    /// An ARP reply or neighbor advertisement with the address of the sender; `None` if it is about another host.
    Reply(Option<IpAddr>),
    /// A DHCP server assigned an address to a host.
    DhcpLease {
        client: MacAddr,
        addr: IpAddr,
        /// The address of the server, or of the relay that has forwarded the message.
        server: IpAddr,
    },
}

/// TTLs and hop limits that hosts send packets with. A packet with another one was forwarded by a router.
const INITIAL_TTLS: [u8; 4] = [32, 64, 128, 255];

impl AddressInfo {
    /// Parses `frame`, which may be truncated; `eth` is its Ethernet header. A malformed packet yields `None`.
    #[inline]
    pub(super) fn parse(eth: &Ethernet<'_>, frame: &[u8]) -> Self {
        let packet = payload(eth, frame).unwrap_or_default();
        let info = match eth.ethertype {
            EtherType::ARP => parse_arp(eth.src, packet),
            EtherType::IPV4 => parse_ipv4(packet),
            EtherType(ETHERTYPE_IPV6) => parse_ipv6(eth.src, packet),
            _ => None,
        };
        info.unwrap_or(Self::None)
    }
}

fn parse_arp(src: MacAddr, packet: &[u8]) -> Option<AddressInfo> {
    let (arp, _) = Arp::ref_from_prefix(packet).ok()?;
    let is_own = arp.sender_mac == src;
    let sender = Some(IpAddr::from(arp.sender)).filter(|&addr| is_own && is_host_addr(addr));
    match arp.operation {
        _ if arp.types != Arp::IPV4_OVER_ETHERNET => None,
        Arp::REQUEST => Some(AddressInfo::Request { sender, target: arp.target.into() }),
        Arp::REPLY => Some(AddressInfo::Reply(sender)),
        _ => None,
    }
}

#[inline]
fn parse_ipv4(packet: &[u8]) -> Option<AddressInfo> {
    let (ip, _) = Ipv4::ref_from_prefix(packet).ok()?;
    if ip.version_ihl >> 4 != 4 {
        return None;
    }
    if ip.protocol == Udp::PROTOCOL
        && let Some(lease) = parse_dhcp_ack(ip, packet)
    {
        return Some(lease);
    }
    source(ip.src.into(), ip.ttl)
}

fn source(addr: IpAddr, ttl: u8) -> Option<AddressInfo> {
    (INITIAL_TTLS.contains(&ttl) && is_host_addr(addr)).then_some(AddressInfo::Source(addr))
}

/// Parses a DHCP acknowledgement. Offers and messages that are truncated before their type are not leases.
#[inline]
fn parse_dhcp_ack(ip: &Ipv4, packet: &[u8]) -> Option<AddressInfo> {
    let header_len = usize::from(ip.version_ihl & 0xf) * 4;
    let (udp, message) = Udp::ref_from_prefix(packet.get(header_len..)?).ok()?;
    if (udp.src.get(), udp.dst.get()) != (Dhcp::SERVER, Dhcp::CLIENT)
        || ip.fragment.get() & 0x1fff != 0
    {
        return None;
    }
    let (dhcp, options) = Dhcp::ref_from_prefix(message).ok()?;
    // A reply, to a client with an Ethernet address.
    let [2, 1, 6, _] = dhcp.op else { return None };
    let addr = IpAddr::from(dhcp.yiaddr);
    let is_ack = dhcp.magic == Dhcp::MAGIC && dhcp_message_type(options) == Some(Dhcp::ACK);
    let (client, server) = (dhcp.chaddr, ip.src.into());
    (is_ack && is_host_addr(addr)).then_some(AddressInfo::DhcpLease { client, addr, server })
}

fn dhcp_message_type(mut options: &[u8]) -> Option<u8> {
    const PAD: u8 = 0;
    const END: u8 = 0xff;
    loop {
        let &[code, ref rest @ ..] = options else { return None };
        match code {
            PAD => options = rest,
            END => return None,
            _ => {
                let &[len, ref rest @ ..] = rest else { return None };
                if code == Dhcp::MESSAGE_TYPE {
                    return rest.first().copied();
                }
                options = rest.get(usize::from(len)..)?;
            }
        }
    }
}

#[inline]
fn parse_ipv6(src: MacAddr, packet: &[u8]) -> Option<AddressInfo> {
    let (ip, rest) = Ipv6::ref_from_prefix(packet).ok()?;
    if ip.version_flow.get() >> 28 != 6 {
        return None;
    }
    if ip.next_header == ICMPV6
        && ip.hop_limit == Ipv6::LINK_LOCAL_HOP_LIMIT
        && let Some(info) = parse_neighbor_discovery(src, ip, rest)
    {
        return Some(info);
    }
    source(ip.src.into(), ip.hop_limit)
}

fn parse_neighbor_discovery(src: MacAddr, ip: &Ipv6, packet: &[u8]) -> Option<AddressInfo> {
    let (message, options) = NeighborMessage::ref_from_prefix(packet).ok()?;
    let target = IpAddr::from(message.target);
    if message.code != 0 || !is_host_addr(target) {
        return None;
    }
    // With the Ethernet address of another host in its option, the message is about that host.
    let is_own = |kind| link_addr(options, kind).is_none_or(|mac| mac == src);
    match message.kind {
        NeighborMessage::SOLICITATION => {
            let sender = Some(IpAddr::from(ip.src));
            let is_own = is_own(LinkAddrOption::SOURCE);
            let sender = sender.filter(|&addr| is_own && is_host_addr(addr));
            Some(AddressInfo::Request { sender, target })
        }
        NeighborMessage::ADVERTISEMENT => {
            Some(AddressInfo::Reply(Some(target).filter(|_| is_own(LinkAddrOption::TARGET))))
        }
        _ => None,
    }
}

/// The Ethernet address in the first option, which is where hosts put it.
fn link_addr(options: &[u8], kind: u8) -> Option<MacAddr> {
    let (option, _) = LinkAddrOption::ref_from_prefix(options).ok()?;
    (option.kind == kind && option.len == 1).then_some(option.mac)
}

/// Whether it can be the unicast address of one host.
fn is_host_addr(addr: IpAddr) -> bool {
    !addr.is_unspecified()
        && !addr.is_loopback()
        && !addr.is_multicast()
        && addr != IpAddr::V4(Ipv4Addr::BROADCAST)
        && !matches!(addr, IpAddr::V6(addr) if is_ipv4_mapped(addr))
}

/// IPv4-mapped addresses do not occur on a link. RFC 4291 §2.5.5.2.
fn is_ipv4_mapped(addr: Ipv6Addr) -> bool {
    addr.to_ipv4_mapped().is_some()
}
