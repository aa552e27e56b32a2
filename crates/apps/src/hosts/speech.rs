//! Frames that the controller writes: answers in the place of a host, and questions whether one is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use sluice_openflow::{EtherType, MacAddr};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes};

use super::packet::{Arp, ETHERTYPE_IPV6, Ipv6, LinkAddr, Neighbour};

/// Who asks whether a host that was silent is there: an address that is administered here.
pub(super) const PROBE: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 1]);

/// Who asks whether a host is still where another one claims not to be.
pub(super) const VERIFY: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2]);

/// Shortest frame of Ethernet, without its checksum. IEEE 802.3 §4A.4.2.
const FRAME_MIN: usize = 60;

/// Neither the longest of these frames nor a tag more goes beyond.
pub(super) type Frame = ArrayVec<u8, 128>;

/// Two ends of a link, and what lies between the Ethernet addresses and the type: nothing, or a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) from: MacAddr,
    pub(super) to: MacAddr,
    pub(super) tag: &'a [u8],
}

/// A tag for `vlan`, nothing for 0.
pub(super) fn tag(vlan: u16) -> ArrayVec<u8, 4> {
    let tag = [EtherType::VLAN.0.to_be_bytes(), vlan.to_be_bytes()];
    if vlan == 0 { ArrayVec::new() } else { tag.as_flattened().iter().copied().collect() }
}

/// Says to `asker` that `target` is at `ends.from`; `None` if they are not of one family.
pub(super) fn answer(ends: Ends<'_>, target: IpAddr, asker: IpAddr) -> Option<Frame> {
    match (target, asker) {
        (IpAddr::V4(target), IpAddr::V4(asker)) => {
            Some(arp(ends, Arp::REPLY, (ends.from, target), (ends.to, asker)))
        }
        (IpAddr::V6(target), IpAddr::V6(asker)) => {
            // Solicited, override. Router as well, whether it is one or not: a host that hears that a router is none
            // forgets its routes, and one that hears that a host is a router does nothing. RFC 4861 §7.2.5.
            let message = (Neighbour::ADVERTISEMENT, 0xe000_0000, LinkAddr::TARGET);
            Some(neighbour(ends, (target, asker), message, target))
        }
        _ => None,
    }
}

/// Asks the host at `ends.to` whether it has `addr`. An ARP probe has no address of who asks, so that nobody notes one.
/// RFC 5227 §2.1.1. Over IPv6 that would be answered to all, so there it has a link-local one.
pub(super) fn question(ends: Ends<'_>, addr: IpAddr) -> Frame {
    match addr {
        IpAddr::V4(addr) => {
            let sender = (ends.from, Ipv4Addr::UNSPECIFIED);
            arp(ends, Arp::REQUEST, sender, (MacAddr([0; 6]), addr))
        }
        IpAddr::V6(addr) => {
            let message = (Neighbour::SOLICITATION, 0, LinkAddr::SOURCE);
            neighbour(ends, (link_local(ends.from), addr), message, addr)
        }
    }
}

/// The link-local address that comes from an Ethernet address. RFC 4291, appendix A.
fn link_local(mac: MacAddr) -> Ipv6Addr {
    let mac = u128::from(mac.to_u64());
    let (high, low) = (mac >> 24 ^ 0x02_0000, mac & 0xff_ffff);
    Ipv6Addr::from(0xfe80 << 112 | high << 40 | 0xfffe << 24 | low)
}

fn arp(
    ends: Ends<'_>,
    operation: U16,
    (sender_mac, sender): (MacAddr, Ipv4Addr),
    (target_mac, target): (MacAddr, Ipv4Addr),
) -> Frame {
    let (sender, target) = (sender.octets(), target.octets());
    let arp = Arp { kind: Arp::KIND, operation, sender_mac, sender, target_mac, target };
    let mut frame = begin(ends, EtherType::ARP.0);
    put(&mut frame, arp.as_bytes());
    while frame.len() < FRAME_MIN + ends.tag.len() {
        frame.push(0);
    }
    frame
}

fn neighbour(
    ends: Ends<'_>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    (kind, flags, option): (u8, u32, u8),
    target: Ipv6Addr,
) -> Frame {
    #[derive(IntoBytes, Immutable)]
    #[repr(C)]
    struct Packet(Ipv6, Neighbour, LinkAddr);
    const PAYLOAD_LEN: u16 = 32;
    let ip = Ipv6 {
        version_flow: U32::new(Ipv6::VERSION),
        payload_len: U16::new(PAYLOAD_LEN),
        next_header: Ipv6::ICMP,
        hop_limit: Ipv6::HOP_LIMIT,
        src: src.octets(),
        dst: dst.octets(),
    };
    let (checksum, flags, target) = (U16::ZERO, U32::new(flags), target.octets());
    let message = Neighbour { kind, code: 0, checksum, flags, target };
    let mut packet = Packet(ip, message, LinkAddr { kind: option, len: 1, mac: ends.from });
    packet.1.checksum = checksum_of(&packet.0, packet.1.as_bytes(), packet.2.as_bytes());
    let mut frame = begin(ends, ETHERTYPE_IPV6);
    put(&mut frame, packet.as_bytes());
    frame
}

fn begin(ends: Ends<'_>, ethertype: u16) -> Frame {
    let mut frame = Frame::new();
    for part in [&ends.to.0[..], &ends.from.0, ends.tag, &ethertype.to_be_bytes()] {
        put(&mut frame, part);
    }
    frame
}

fn put(frame: &mut Frame, bytes: &[u8]) {
    let written = frame.try_extend_from_slice(bytes);
    debug_assert!(written.is_ok(), "the longest of them fits");
}

/// The checksum of a message of ICMP over IPv6, over a pseudo-header as well. RFC 4443 §2.3.
fn checksum_of(ip: &Ipv6, message: &[u8], option: &[u8]) -> U16 {
    let words = [&ip.src[..], &ip.dst, message, option];
    let words = words.iter().flat_map(|part| part.as_chunks::<2>().0);
    let pseudo = u64::from(ip.payload_len.get()) + u64::from(ip.next_header);
    let mut sum = words.map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>() + pseudo;
    while let high @ 1.. = sum >> 16 {
        sum = (sum & 0xffff) + high;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was folded to 16 bits")]
    U16::new(!(sum as u16))
}
