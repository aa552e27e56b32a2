//! What a frame says about addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_openflow::{EtherType, Ethernet, MacAddr};
use zerocopy::FromBytes;

use super::packet::{Arp, Dhcp, ETHERTYPE_IPV6, Ipv4, Ipv6, LinkAddr, Neighbour, Udp};

/// What a frame says about addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// Nothing.
    Other,
    /// It is from this address, which is perhaps that of the host that sent it.
    From(IpAddr),
    /// It asks who has an address: an ARP request or a neighbour solicitation.
    Request {
        /// The address of who asks; `None` if it has none yet, or says so for another.
        sender: Option<IpAddr>,
        /// The address that is asked for.
        target: IpAddr,
    },
    /// It says who has an address: an ARP reply or a neighbour advertisement. `None` if it says so for another.
    Reply(Option<IpAddr>),
    /// A DHCP server gives this host an address.
    Lease(MacAddr, IpAddr),
}

/// What hop counts begin with: a packet that has another one was forwarded by a router.
const FIRST_HOPS: [u8; 4] = [32, 64, 128, 255];

impl Topic {
    /// Reads `frame`, perhaps truncated, of which `eth` is the start. What is not well-formed says nothing.
    #[inline]
    pub(super) fn of(eth: &Ethernet<'_>, frame: &[u8]) -> Self {
        let packet = frame.get(if eth.tagged { 18 } else { 14 }..).unwrap_or_default();
        let topic = match eth.ethertype {
            EtherType::ARP => arp(eth.src, packet),
            EtherType::IPV4 => ipv4(packet),
            EtherType(ETHERTYPE_IPV6) => ipv6(eth.src, packet),
            _ => None,
        };
        topic.unwrap_or(Self::Other)
    }
}

fn arp(src: MacAddr, packet: &[u8]) -> Option<Topic> {
    let (arp, _) = Arp::ref_from_prefix(packet).ok()?;
    let is_own = arp.sender_mac == src;
    let sender = Some(IpAddr::from(arp.sender)).filter(|&addr| is_own && is_of_a_host(addr));
    match arp.operation {
        _ if arp.kind != Arp::KIND => None,
        Arp::REQUEST => Some(Topic::Request { sender, target: arp.target.into() }),
        Arp::REPLY => Some(Topic::Reply(sender)),
        _ => None,
    }
}

#[inline]
fn ipv4(packet: &[u8]) -> Option<Topic> {
    let (ip, _) = Ipv4::ref_from_prefix(packet).ok()?;
    if ip.version_ihl >> 4 != 4 {
        return None;
    }
    if ip.protocol == Udp::PROTOCOL
        && let Some(lease) = lease(ip, packet)
    {
        return Some(lease);
    }
    from(ip.src.into(), ip.ttl)
}

fn from(addr: IpAddr, hops: u8) -> Option<Topic> {
    (FIRST_HOPS.contains(&hops) && is_of_a_host(addr)).then_some(Topic::From(addr))
}

/// What a DHCP server confirms. An offer is not taken for it, so a message that is cut off before it says what it is
/// says nothing.
#[inline]
fn lease(ip: &Ipv4, packet: &[u8]) -> Option<Topic> {
    let header_len = usize::from(ip.version_ihl & 0xf) * 4;
    let (udp, message) = Udp::ref_from_prefix(packet.get(header_len..)?).ok()?;
    if (udp.src.get(), udp.dst.get()) != (Dhcp::SERVER, Dhcp::CLIENT)
        || ip.fragment.get() & 0x1fff != 0
    {
        return None;
    }
    let (dhcp, options) = Dhcp::ref_from_prefix(message).ok()?;
    // A reply, to an Ethernet address.
    let [2, 1, 6, _] = dhcp.op else { return None };
    let addr = IpAddr::from(dhcp.yiaddr);
    let is_ack = dhcp.magic == Dhcp::MAGIC && message_type(options) == Some(Dhcp::ACK);
    (is_ack && is_of_a_host(addr)).then_some(Topic::Lease(dhcp.chaddr, addr))
}

fn message_type(mut options: &[u8]) -> Option<u8> {
    loop {
        let &[code, ref rest @ ..] = options else { return None };
        match code {
            0 => options = rest,
            0xff => return None,
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
fn ipv6(src: MacAddr, packet: &[u8]) -> Option<Topic> {
    let (ip, rest) = Ipv6::ref_from_prefix(packet).ok()?;
    if ip.version_flow.get() >> 28 != 6 {
        return None;
    }
    if ip.next_header == Ipv6::ICMP
        && ip.hop_limit == Ipv6::HOP_LIMIT
        && let Some(topic) = neighbour(src, ip, rest)
    {
        return Some(topic);
    }
    from(ip.src.into(), ip.hop_limit)
}

fn neighbour(src: MacAddr, ip: &Ipv6, packet: &[u8]) -> Option<Topic> {
    let (message, options) = Neighbour::ref_from_prefix(packet).ok()?;
    let target = IpAddr::from(message.target);
    if message.code != 0 || !is_of_a_host(target) {
        return None;
    }
    // An option that has another Ethernet address speaks for another host.
    let is_own = |kind| link_addr(options, kind).is_none_or(|mac| mac == src);
    match message.kind {
        Neighbour::SOLICITATION => {
            let sender = Some(IpAddr::from(ip.src));
            let is_own = is_own(LinkAddr::SOURCE);
            let sender = sender.filter(|&addr| is_own && is_of_a_host(addr));
            Some(Topic::Request { sender, target })
        }
        Neighbour::ADVERTISEMENT => {
            Some(Topic::Reply(Some(target).filter(|_| is_own(LinkAddr::TARGET))))
        }
        _ => None,
    }
}

/// The Ethernet address in the first option, which is where it stands.
fn link_addr(options: &[u8], kind: u8) -> Option<MacAddr> {
    let (option, _) = LinkAddr::ref_from_prefix(options).ok()?;
    (option.kind == kind && option.len == 1).then_some(option.mac)
}

/// Whether it can be that of one host of the link.
fn is_of_a_host(addr: IpAddr) -> bool {
    !addr.is_unspecified()
        && !addr.is_loopback()
        && !addr.is_multicast()
        && addr != IpAddr::V4(Ipv4Addr::BROADCAST)
        && !matches!(addr, IpAddr::V6(addr) if is_mapped(addr))
}

/// Such addresses are of no link. RFC 4291 §2.5.5.2.
fn is_mapped(addr: Ipv6Addr) -> bool {
    addr.to_ipv4_mapped().is_some()
}
