//! Frames that hosts and routers send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_openflow::{EtherType, Ethernet, FieldId, MacAddr};
use sluice_sdk::view::SwitchPort;

use crate::multicast::test_network::mac;

const UDP: u8 = 17;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;

/// The MAC address of a group.
pub(crate) fn group_mac(group: &str) -> MacAddr {
    match group.parse().unwrap() {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            MacAddr([1, 0, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            MacAddr([0x33, 0x33, a, b, c, d])
        }
    }
}

/// Ethernet header; no tag for VLAN 0.
fn header(src: MacAddr, dst: MacAddr, vlan: u16, ethertype: EtherType) -> Vec<u8> {
    let mut frame = [dst.0, src.0].concat();
    if vlan != 0 {
        frame.extend([EtherType::VLAN.0.to_be_bytes(), vlan.to_be_bytes()].concat());
    }
    frame.extend(ethertype.0.to_be_bytes());
    frame
}

fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

fn ipv4(dst: Ipv4Addr, src: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 1, protocol, 0, 0];
    packet.extend([src.octets(), dst.octets()].concat());
    packet.extend(payload);
    packet
}

/// A UDP packet to a group, whose payload is `text`.
pub(crate) fn udp(from: SwitchPort, group: &str, vlan: u16, text: &str) -> Vec<u8> {
    let group_addr = group.parse().unwrap();
    let len = u16::try_from(8 + text.len()).unwrap().to_be_bytes();
    let udp = [&[0x13, 0x88, 0x13, 0x89, len[0], len[1], 0, 0], text.as_bytes()].concat();
    let (dst, src) = (group_mac(group), mac(from));
    match group_addr {
        IpAddr::V4(group) => {
            let packet = ipv4(group, Ipv4Addr::new(10, 0, 0, 1), UDP, &udp);
            [header(src, dst, vlan, EtherType::IPV4), packet].concat()
        }
        IpAddr::V6(group) => {
            let mut packet = vec![0x60, 0, 0, 0, len[0], len[1], UDP, 64];
            packet.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
            packet.extend(group.octets());
            packet.extend(udp);
            [header(src, dst, vlan, EtherType::IPV6), packet].concat()
        }
    }
}

/// The fields of a UDP packet over IPv4 that flow entries match.
pub(crate) fn udp_fields(frame: &[u8]) -> Vec<(FieldId, u128)> {
    let eth = Ethernet::new(frame).unwrap();
    let start = if eth.tagged { 18 } else { 14 };
    let number = |bytes: &[u8]| bytes.iter().fold(0u128, |n, &byte| n << 8 | u128::from(byte));
    if eth.ethertype != EtherType::IPV4 {
        return vec![];
    }
    let ip = &frame[start..];
    let mut fields = vec![
        (FieldId::IP_PROTO, number(&ip[9..10])),
        (FieldId::IPV4_SRC, number(&ip[12..16])),
        (FieldId::IPV4_DST, number(&ip[16..20])),
    ];
    if ip[9] == UDP {
        fields.push((FieldId::UDP_SRC, number(&ip[20..22])));
        fields.push((FieldId::UDP_DST, number(&ip[22..24])));
    }
    fields
}

/// An IGMP message in a frame.
pub(crate) fn igmp(src: MacAddr, ip: &str, dst: &str, vlan: u16, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let checksum = (!sum(&[&message])).to_be_bytes();
    message[2..4].copy_from_slice(&checksum);
    let packet = ipv4(dst.parse().unwrap(), ip.parse().unwrap(), IGMP, &message);
    [header(src, group_mac(dst), vlan, EtherType::IPV4), packet].concat()
}

/// An MLD message in a frame.
fn mld(src: MacAddr, dst: &str, vlan: u16, message: &[u8]) -> Vec<u8> {
    let [from, to]: [Ipv6Addr; 2] = ["fe80::1", dst].map(|addr| addr.parse().unwrap());
    let mut message = message.to_vec();
    let len = u8::try_from(message.len()).unwrap();
    let pseudo = [0, 0, 0, len, 0, 0, 0, ICMPV6];
    let checksum = (!sum(&[&from.octets(), &to.octets(), &pseudo, &message])).to_be_bytes();
    message[2..4].copy_from_slice(&checksum);
    let mut frame = header(src, group_mac(dst), vlan, EtherType::IPV6);
    frame.extend([0x60, 0, 0, 0, 0, len + 8, 0, 1]);
    frame.extend([from.octets(), to.octets()].concat());
    frame.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
    frame.extend(message);
    frame
}

fn addr_bytes(group: &str) -> Vec<u8> {
    match group.parse().unwrap() {
        IpAddr::V4(group) => group.octets().to_vec(),
        IpAddr::V6(group) => group.octets().to_vec(),
    }
}

/// A report of IGMP version 3 or MLD version 2 with one record for each group.
pub(crate) fn report<T: AsRef<str>>(
    from: SwitchPort,
    kind: u8,
    groups: &[T],
    vlan: u16,
) -> Vec<u8> {
    let count = u16::try_from(groups.len()).unwrap().to_be_bytes();
    let records: Vec<_> = groups
        .iter()
        .flat_map(|group| [vec![kind, 0, 0, 0], addr_bytes(group.as_ref())].concat())
        .collect();
    let is_ipv4 = groups[0].as_ref().parse::<Ipv4Addr>().is_ok();
    let kind = if is_ipv4 { 0x22 } else { 143 };
    let message = [&[kind, 0, 0, 0, 0, 0, count[0], count[1]][..], &records].concat();
    if is_ipv4 {
        igmp(mac(from), "10.0.0.1", "224.0.0.22", vlan, &message)
    } else {
        mld(mac(from), "ff02::16", vlan, &message)
    }
}

/// A report that the host has joined a group: IGMP version 3 or MLD version 2.
pub(crate) fn join(from: SwitchPort, group: &str, vlan: u16) -> Vec<u8> {
    report(from, 4, &[group], vlan)
}

/// A report that the host has left a group: IGMP version 3 or MLD version 2.
pub(crate) fn leave(from: SwitchPort, group: &str, vlan: u16) -> Vec<u8> {
    report(from, 3, &[group], vlan)
}

/// A report of IGMP version 2, which is sent to the group.
pub(crate) fn join_v2(from: SwitchPort, group: &str) -> Vec<u8> {
    let message = [&[0x16, 0, 0, 0][..], &addr_bytes(group)].concat();
    igmp(mac(from), "10.0.0.1", group, 0, &message)
}

/// A general query of a router; from 0.0.0.0 it is of a switch.
pub(crate) fn query(from: SwitchPort, source: &str, vlan: u16) -> Vec<u8> {
    let message = [0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    igmp(mac(from), source, "224.0.0.1", vlan, &message)
}

/// What is asked for by a query of the controller: the group, `0.0.0.0` or `::` for all; `None` for other frames. With its VLAN.
pub(crate) fn asked_for(frame: &[u8]) -> Option<(IpAddr, u16)> {
    let eth = Ethernet::new(frame)?;
    let ip = frame.get(if eth.tagged { 18 } else { 14 }..)?;
    let vlan = eth.vlan.0;
    if eth.ethertype == EtherType::IPV4 && ip[9] == IGMP && ip[24] == 0x11 {
        let group: [u8; 4] = ip[28..32].try_into().unwrap();
        assert_eq!((&ip[12..16], sum(&[&ip[24..36]])), (&[0; 4][..], 0xffff));
        return Some((group.into(), vlan));
    }
    if eth.ethertype == EtherType::IPV6 && ip[6] == 0 && ip[48] == 130 {
        let group: [u8; 16] = ip[56..72].try_into().unwrap();
        assert_eq!(&ip[8..10], [0xfe, 0x80]);
        return Some((group.into(), vlan));
    }
    None
}
