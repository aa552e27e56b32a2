//! Frames that hosts send, built by a foreign library (etherparse).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{ArpEthIpv4Packet, ArpOperation, IpNumber, PacketBuilder, PacketBuilderStep};
use sluice_openflow::MacAddr;

/// The Ethernet address of the host with this letter.
pub(crate) fn mac(letter: char) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, u8::try_from(letter).unwrap()])
}

/// Parses an IP address.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A frame without an IP packet.
pub(crate) fn plain(src: MacAddr, dst: MacAddr) -> Vec<u8> {
    ethernet(src, dst, 0x88b5, &[0; 46])
}

pub(crate) fn ethernet(src: MacAddr, dst: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst.0[..], &src.0, &ethertype.to_be_bytes(), payload].concat()
}

/// Adds a VLAN tag to a frame.
pub(crate) fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let (addrs, rest) = frame.split_at(12);
    [addrs, &[0x81, 0], &vlan.to_be_bytes(), rest].concat()
}

fn v4(text: &str) -> [u8; 4] {
    text.parse::<Ipv4Addr>().unwrap().octets()
}

fn v6(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

pub(crate) fn arp(
    operation: ArpOperation,
    sender: (MacAddr, &str),
    target: (MacAddr, &str),
    (src, dst): (MacAddr, MacAddr),
) -> Vec<u8> {
    let packet = ArpEthIpv4Packet {
        operation,
        sender_mac: sender.0.0,
        sender_ipv4: v4(sender.1),
        target_mac: target.0.0,
        target_ipv4: v4(target.1),
    };
    let mut frame = ethernet(src, dst, 0x0806, &packet.to_bytes());
    frame.resize(60, 0);
    frame
}

/// An ARP request from `src`, which has the address `sender`, for `target`.
pub(crate) fn who_has(src: MacAddr, sender: &str, target: &str) -> Vec<u8> {
    let unknown = MacAddr::default();
    arp(ArpOperation::REQUEST, (src, sender), (unknown, target), (src, MacAddr::BROADCAST))
}

/// An ARP reply from `src` to `dst`: `src` has `addr`.
pub(crate) fn is_at(src: MacAddr, addr: &str, (dst, asker): (MacAddr, &str)) -> Vec<u8> {
    arp(ArpOperation::REPLY, (src, addr), (dst, asker), (src, dst))
}

fn built<T>(
    builder: PacketBuilderStep<T>,
    write: impl FnOnce(PacketBuilderStep<T>, &mut Vec<u8>),
) -> Vec<u8> {
    let mut frame = Vec::new();
    write(builder, &mut frame);
    frame
}

/// A UDP packet from `from` with this TTL or hop limit.
pub(crate) fn udp(src: MacAddr, from: &str, ttl: u8) -> Vec<u8> {
    let ends = PacketBuilder::ethernet2(src.0, mac('z').0);
    let builder = match ip(from) {
        IpAddr::V4(from) => ends.ipv4(from.octets(), [192, 0, 2, 1], ttl),
        IpAddr::V6(from) => ends.ipv6(from.octets(), v6("2001:db8::99"), ttl),
    };
    built(builder.udp(1000, 2000), |b, frame| b.write(frame, b"payload").unwrap())
}

/// A neighbor solicitation (135) or advertisement (136) with a link-layer address option.
pub(crate) fn neighbor_message(
    (kind, flags): (u8, u8),
    (src, from): (MacAddr, &str),
    (dst, to): (MacAddr, &str),
    target: &str,
    option: (u8, MacAddr),
) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(src.0, dst.0).ipv6(v6(from), v6(to), 255);
    let payload = [&v6(target)[..], &[option.0, 1], &option.1.0].concat();
    let message = builder.icmpv6_raw(kind, 0, [flags, 0, 0, 0]);
    built(message, |b, frame| b.write(frame, &payload).unwrap())
}

/// The solicited-node multicast address of `target`.
pub(crate) fn solicited(target: &str) -> (MacAddr, String) {
    let [.., a, b, c] = v6(target);
    (MacAddr([0x33, 0x33, 0xff, a, b, c]), format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}"))
}

/// A neighbor solicitation from `src`, which has the address `from`, for `target`.
pub(crate) fn solicit(src: MacAddr, from: &str, target: &str) -> Vec<u8> {
    let (dst, group) = solicited(target);
    neighbor_message((135, 0), (src, from), (dst, &group), target, (1, src))
}

/// An unsolicited neighbor advertisement: `src` has `target`.
pub(crate) fn advertise(src: MacAddr, target: &str) -> Vec<u8> {
    let all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
    neighbor_message((136, 0x20), (src, target), (all, "ff02::1"), target, (2, src))
}

/// A DHCP message of type 2 (offer) or 5 (acknowledgement).
pub(crate) fn dhcp(server: MacAddr, client: MacAddr, addr: &str, kind: u8) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..3].copy_from_slice(&[2, 1, 6]);
    message[16..20].copy_from_slice(&v4(addr));
    message[28..34].copy_from_slice(&client.0);
    // The server identifier precedes the message type.
    message.extend([99, 130, 83, 99, 0, 54, 4, 10, 0, 0, 254, 53, 1, kind, 255]);
    let ends = PacketBuilder::ethernet2(server.0, client.0);
    let builder = ends.ipv4([10, 0, 0, 254], v4(addr), 64).udp(67, 68);
    built(builder, |b, frame| b.write(frame, &message).unwrap())
}

/// A TCP packet, truncated to `len` bytes.
pub(crate) fn truncated_tcp(src: MacAddr, len: usize) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2(src.0, mac('z').0).ipv4([10, 0, 0, 9], [10, 0, 0, 8], 64);
    let mut frame = Vec::new();
    builder.write(&mut frame, IpNumber::TCP, &[0; 40]).unwrap();
    frame.truncate(len);
    frame
}
