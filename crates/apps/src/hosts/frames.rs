//! Encodes the frames that the controller sends to hosts: ARP and neighbor discovery replies on behalf of other hosts, and
//! probes, which ask a host whether it is still at its port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use sluice_openflow::{EtherType, MacAddr};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes};

use super::headers::{Arp, ETHERTYPE_IPV6, Ipv6, LinkAddrOption, NeighborMessage};
use crate::internet::{FRAME_BYTES_MIN, ICMPV6, icmpv6_sum};

/// Source address of probes to hosts that have been silent; locally administered.
pub(super) const AGEING_PROBE_MAC: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1]);

/// Source address of probes to hosts whose MAC or IP address was also seen at another port; locally administered.
pub(super) const CONFLICT_PROBE_MAC: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2]);

/// A buffer for the longest of these frames with a VLAN tag.
pub(super) type FrameBuffer = ArrayVec<u8, 128>;

/// The Ethernet addresses of a frame, and its encoded VLAN tag (TPID and TCI); empty without a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeader<'a> {
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    pub(super) tag: &'a [u8],
}

/// The encoded tag for a VLAN ID; empty for 0.
pub(super) fn vlan_tag(vlan: u16) -> ArrayVec<u8, 4> {
    let tag = [EtherType::VLAN.0.to_be_bytes(), vlan.to_be_bytes()];
    if vlan == 0 { ArrayVec::new() } else { tag.as_flattened().iter().copied().collect() }
}

/// The reply to `asker` that `target` has the MAC address `header.src`; `None` if one is IPv4 and the other IPv6.
pub(super) fn encode_reply(
    header: FrameHeader<'_>,
    target: IpAddr,
    asker: IpAddr,
) -> Option<FrameBuffer> {
    match (target, asker) {
        (IpAddr::V4(target), IpAddr::V4(asker)) => {
            Some(encode_arp(header, Arp::REPLY, (header.src, target), (header.dst, asker)))
        }
        (IpAddr::V6(target), IpAddr::V6(asker)) => {
            // Router, solicited, override. The router flag is always set: without it, hosts would delete their routes through
            // a router, while the flag has no effect if the target is no router. RFC 4861 §7.2.5.
            let flags = 0xe000_0000;
            let message = (NeighborMessage::ADVERTISEMENT, flags, LinkAddrOption::TARGET);
            Some(encode_neighbor_message(header, (target, asker), message, target))
        }
        _ => None,
    }
}

/// The probe that asks `header.dst` whether it has `addr`. An ARP probe has no sender address, so that no host adds it to
/// its ARP table (RFC 5227 §2.1.1). Over IPv6 the reply to such a probe would be a multicast, so the sender is link-local.
pub(super) fn encode_probe(header: FrameHeader<'_>, addr: IpAddr) -> FrameBuffer {
    match addr {
        IpAddr::V4(addr) => {
            let sender = (header.src, Ipv4Addr::UNSPECIFIED);
            encode_arp(header, Arp::REQUEST, sender, (MacAddr([0; 6]), addr))
        }
        IpAddr::V6(addr) => {
            let message = (NeighborMessage::SOLICITATION, 0, LinkAddrOption::SOURCE);
            encode_neighbor_message(header, (link_local(header.src), addr), message, addr)
        }
    }
}

/// The link-local address derived from an Ethernet address. RFC 4291, appendix A.
pub(super) fn link_local(mac: MacAddr) -> Ipv6Addr {
    let mac = u128::from(mac.to_u64());
    let (high, low) = (mac >> 24 ^ 0x02_0000, mac & 0xff_ffff);
    Ipv6Addr::from(0xfe80 << 112 | high << 40 | 0xfffe << 24 | low)
}

fn encode_arp(
    header: FrameHeader<'_>,
    operation: U16,
    (sender_mac, sender): (MacAddr, Ipv4Addr),
    (target_mac, target): (MacAddr, Ipv4Addr),
) -> FrameBuffer {
    let (sender, target) = (sender.octets(), target.octets());
    let types = Arp::IPV4_OVER_ETHERNET;
    let arp = Arp { types, operation, sender_mac, sender, target_mac, target };
    let mut frame = encode_header(header, EtherType::ARP.0);
    append(&mut frame, arp.as_bytes());
    while frame.len() < FRAME_BYTES_MIN + header.tag.len() {
        frame.push(0);
    }
    frame
}

fn encode_neighbor_message(
    header: FrameHeader<'_>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    (kind, flags, option): (u8, u32, u8),
    target: Ipv6Addr,
) -> FrameBuffer {
    #[derive(IntoBytes, Immutable)]
    #[repr(C)]
    struct Packet(Ipv6, NeighborMessage, LinkAddrOption);
    const PAYLOAD_LEN: u16 = 32;
    let ip = Ipv6 {
        version_flow: U32::new(Ipv6::VERSION),
        payload_len: U16::new(PAYLOAD_LEN),
        next_header: ICMPV6,
        hop_limit: Ipv6::LINK_LOCAL_HOP_LIMIT,
        src: src.octets(),
        dst: dst.octets(),
    };
    let (checksum, flags, target) = (U16::ZERO, U32::new(flags), target.octets());
    let message = NeighborMessage { kind, code: 0, checksum, flags, target };
    let mut packet = Packet(ip, message, LinkAddrOption { kind: option, len: 1, mac: header.src });
    let payload = packet.as_bytes().get(size_of::<Ipv6>()..).unwrap_or_default();
    packet.1.checksum = U16::new(!icmpv6_sum(src, dst, payload));
    let mut frame = encode_header(header, ETHERTYPE_IPV6);
    append(&mut frame, packet.as_bytes());
    frame
}

fn encode_header(header: FrameHeader<'_>, ethertype: u16) -> FrameBuffer {
    let mut frame = FrameBuffer::new();
    for part in [&header.dst.0[..], &header.src.0, header.tag, &ethertype.to_be_bytes()] {
        append(&mut frame, part);
    }
    frame
}

fn append(frame: &mut FrameBuffer, bytes: &[u8]) {
    let written = frame.try_extend_from_slice(bytes);
    debug_assert!(written.is_ok(), "the buffer holds the longest of these frames");
}
