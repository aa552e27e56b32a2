//! Frames with given fields, such as `icmp,dl_src=…,nw_dst=10.0.0.2` in the syntax of `ovs-ofctl`.

use std::error::Error;
use std::fmt;

use etherparse::{IpNumber, PacketBuilder};
use sluice_openflow::{Field, FieldId, Match, PortNo};

use crate::fields::field_slot;
use crate::packet::{PacketInPipeline, TtlHeader, can_set};

/// Bytes above the headers.
const PAYLOAD_LEN: usize = 32;

/// TTL and hop limit of packets unless a field says it.
const TTL_DEFAULT: u8 = 64;

/// Ethernet and IP addresses of packets unless fields say them, from RFC 7042 and RFC 5737.
const MACS_DEFAULT: [[u8; 6]; 2] = [[0, 0, 0x5e, 0, 0x53, 1], [0, 0, 0x5e, 0, 0x53, 2]];
const IPV4_DEFAULT: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
const IPV6_DEFAULT: [[u8; 16]; 2] = [ipv6(1), ipv6(2)];

/// An address of the prefix for documentation. RFC 3849.
const fn ipv6(n: u8) -> [u8; 16] {
    [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]
}

/// Why there is no frame with the given fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The field cannot be set in a frame: it is set by the switch, or not modelled.
    NotInFrames(FieldId),
    /// The field has a mask.
    Masked(FieldId),
    /// The frame has no such field: one that it requires is not given, such as the Ethernet type.
    WithoutPrerequisite(FieldId),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInFrames(id) => {
                write!(f, "{}: a packet cannot be given this field", id.name())
            }
            Self::Masked(id) => write!(f, "{}: a packet has a value without a mask", id.name()),
            Self::WithoutPrerequisite(id) => {
                write!(
                    f,
                    "{}: the packet has no such field (what kind of packet is it?)",
                    id.name()
                )
            }
        }
    }
}

impl Error for FrameError {}

/// A frame with these fields. Others have defaults: addresses for documentation, a TTL of 64, an ICMP echo request; the type of a
/// frame without `eth_type` is that of local experiments. The input port is ignored.
///
/// # Errors
/// The first field that the frame cannot have.
pub fn frame(fields: &Match) -> Result<Vec<u8>, FrameError> {
    let exact = |id: FieldId| fields.get(id).map(|field| field.value);
    let number = |id| exact(id).and_then(|value| u16::try_from(value).ok());
    let ethertype = number(FieldId::ETH_TYPE).unwrap_or(ETHERTYPE_EXPERIMENT);
    let protocol = exact(FieldId::IP_PROTO).and_then(|value| u8::try_from(value).ok());
    let icmpv6_type = exact(FieldId::ICMPV6_TYPE).and_then(|value| u8::try_from(value).ok());
    let bytes = skeleton(ethertype, protocol.unwrap_or_default(), icmpv6_type);
    // Cannot fail: the skeleton has an Ethernet header.
    let mut packet = PacketInPipeline::new(PortNo::ANY, bytes)
        .ok_or(FrameError::WithoutPrerequisite(FieldId::ETH_TYPE))?;
    for oxm in &fields.fields {
        let id = oxm.id();
        let field = oxm.field().ok_or(FrameError::NotInFrames(id))?;
        set(&mut packet, field)?;
    }
    Ok(packet.bytes)
}

fn set(packet: &mut PacketInPipeline, field: &Field) -> Result<(), FrameError> {
    let id = field.id.canonical();
    match id {
        FieldId::IN_PORT | FieldId::ETH_TYPE | FieldId::IP_PROTO => return Ok(()),
        FieldId::NW_TTL => {
            let ttl = u8::try_from(field.value).unwrap_or(u8::MAX);
            packet.ttl(TtlHeader::Ip).ok_or(FrameError::WithoutPrerequisite(id))?;
            packet.set_ttl(TtlHeader::Ip, ttl);
            return Ok(());
        }
        // Untagged.
        FieldId::VLAN_VID if field.value == 0 => return Ok(()),
        FieldId::METADATA | FieldId::TUNNEL_ID => return Err(FrameError::NotInFrames(id)),
        _ => {}
    }
    if field_slot(id).is_none() || !(can_set(id) || is_settable_in_new_frames(id)) {
        return Err(FrameError::NotInFrames(id));
    }
    if !field.is_exact() {
        return Err(FrameError::Masked(id));
    }
    let is_tag = [FieldId::VLAN_VID, FieldId::VLAN_PCP].contains(&id);
    if !is_tag && packet.fields.get(id).is_none() {
        return Err(FrameError::WithoutPrerequisite(id));
    }
    packet.set_field(field);
    Ok(())
}

/// Fields that actions cannot set, but that a frame may have from the start.
fn is_settable_in_new_frames(id: FieldId) -> bool {
    [FieldId::SCTP_SRC, FieldId::SCTP_DST, FieldId::TCP_FLAGS, FieldId::MPLS_BOS].contains(&id)
}

/// Local experimental Ethernet type. IEEE 802 §9.2.4.
const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;

/// A frame of this kind with default values.
fn skeleton(ethertype: u16, protocol: u8, icmpv6_type: Option<u8>) -> Vec<u8> {
    let [src, dst] = MACS_DEFAULT;
    let ethernet = PacketBuilder::ethernet2(src, dst);
    let payload = [0; PAYLOAD_LEN];
    let mut frame = Vec::new();
    // Writing to a vector fails only if lengths exceed those of the headers.
    let _ = match ethertype {
        0x0800 | 0x86dd => {
            let ip = if ethertype == 0x0800 {
                ethernet.ipv4(IPV4_DEFAULT[0], IPV4_DEFAULT[1], TTL_DEFAULT)
            } else {
                ethernet.ipv6(IPV6_DEFAULT[0], IPV6_DEFAULT[1], TTL_DEFAULT)
            };
            match (ethertype, protocol) {
                (_, 6) => ip.tcp(0, 0, 0, 0).write(&mut frame, &payload),
                (_, 17) => ip.udp(0, 0).write(&mut frame, &payload),
                (0x0800, 1) => ip.icmpv4_echo_request(1, 1).write(&mut frame, &payload),
                (0x86dd, 58) => match icmpv6_type {
                    Some(kind @ (135 | 136)) => {
                        let discovery = neighbour_discovery(kind);
                        ip.icmpv6_raw(kind, 0, [0; 4]).write(&mut frame, &discovery)
                    }
                    _ => ip.icmpv6_echo_request(1, 1).write(&mut frame, &payload),
                },
                _ => ip.write(&mut frame, IpNumber(protocol), &payload),
            }
        }
        0x0806 => return arp_request(),
        _ => {
            frame.extend(dst.into_iter().chain(src).chain(ethertype.to_be_bytes()));
            // A single label if it is MPLS.
            frame.extend([0, 0, 1, TTL_DEFAULT]);
            frame.extend(payload);
            Ok(())
        }
    };
    frame
}

/// Target and link layer address option of a neighbor solicitation or advertisement. RFC 4861 §4.3, §4.4.
fn neighbour_discovery(kind: u8) -> Vec<u8> {
    let option = if kind == 135 { 1 } else { 2 };
    let [src, _] = MACS_DEFAULT;
    IPV6_DEFAULT[1].into_iter().chain([option, 1]).chain(src).collect()
}

/// An ARP request.
fn arp_request() -> Vec<u8> {
    let ([src, _], [sender, target]) = (MACS_DEFAULT, IPV4_DEFAULT);
    let mut frame = vec![0xff; 6];
    frame.extend(src);
    // Type, and the addresses that follow: Ethernet, IPv4, their lengths; a request. RFC 826.
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(src);
    frame.extend(sender);
    frame.extend([0; 6]);
    frame.extend(target);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(frame: Vec<u8>) -> String {
        PacketInPipeline::new(PortNo(1), frame).unwrap().header_fields().to_text()
    }

    #[test]
    fn frames_have_the_fields_that_are_given() {
        for text in [
            "icmp,vlan_tci=0x0000/0x1fff,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,\
             nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_tos=4,nw_ecn=1",
            "tcp,nw_dst=10.0.0.2,tp_src=1,tp_dst=80,tcp_flags=0x2",
            "udp,dl_vlan=7,dl_vlan_pcp=3,nw_dst=10.0.0.2,tp_dst=53",
            "sctp,tp_dst=53",
            "tcp6,ipv6_src=fe80::1,ipv6_dst=fe80::2,tp_dst=80,ipv6_label=0x5",
            "icmp6,icmp_type=135,nd_target=fe80::2,nd_sll=02:00:00:00:00:01",
            "icmp6,icmp_type=136,nd_target=fe80::2,nd_tll=02:00:00:00:00:01",
            "arp,arp_op=2,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=02:00:00:00:00:01",
            "mpls,mpls_label=5,mpls_tc=2",
            "dl_type=0x88cc,dl_dst=01:80:c2:00:00:0e",
            "ip,nw_proto=47,nw_dst=10.0.0.2",
            "dl_dst=02:00:00:00:00:02",
        ] {
            let wanted: Match = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let made = frame(&wanted).unwrap_or_else(|e| panic!("{text}: {e}"));
            let packet = PacketInPipeline::new(PortNo(1), made).unwrap();
            for field in wanted.iter() {
                let mask = field.mask.unwrap_or(u128::MAX);
                let found = packet.fields.get(field.id.canonical()).map(|value| value & mask);
                assert_eq!(found, Some(field.value), "{text}: {field}");
            }
        }
    }

    #[test]
    fn checksums_are_right() {
        for text in ["icmp,nw_src=10.0.0.1", "tcp,tp_dst=5", "udp6,ipv6_dst=fe80::1", "icmp6"] {
            let made = frame(&text.parse().unwrap()).unwrap();
            let sliced = etherparse::SlicedPacket::from_ethernet(&made).unwrap();
            let net = etherparse::PacketHeaders::from_ethernet_slice(&made).unwrap();
            let etherparse::NetHeaders::Ipv4(ip, _) = net.net.clone().unwrap() else {
                let etherparse::NetHeaders::Ipv6(ip, _) = net.net.unwrap() else { panic!() };
                let transport = net.transport.unwrap();
                match transport {
                    etherparse::TransportHeader::Udp(udp) => {
                        let sum = udp.calc_checksum_ipv6(&ip, net.payload.slice()).unwrap();
                        assert_eq!(sum, udp.checksum, "{text}");
                    }
                    etherparse::TransportHeader::Icmpv6(icmp) => {
                        let sum = icmp.icmp_type.calc_checksum(
                            ip.source,
                            ip.destination,
                            net.payload.slice(),
                        );
                        assert_eq!(sum.unwrap(), icmp.checksum, "{text}");
                    }
                    other => panic!("{other:?}"),
                }
                continue;
            };
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum, "{text}");
            assert!(sliced.transport.is_some());
        }
    }

    #[test]
    fn fields_that_no_frame_has_are_errors() {
        for (text, error) in [
            ("metadata=5", FrameError::NotInFrames(FieldId::METADATA)),
            ("reg0=5", FrameError::NotInFrames(FieldId::REG0)),
            ("ip,nw_dst=10.0.0.0/8", FrameError::Masked(FieldId::IPV4_DST)),
        ] {
            assert_eq!(frame(&text.parse().unwrap()), Err(error), "{text}");
        }
        let alone: Match = [Field::tcp_dst(80)].into();
        let error = FrameError::WithoutPrerequisite(FieldId::TCP_DST);
        assert_eq!(frame(&alone), Err(error));
        let text = text_of(frame(&"in_port=7,arp".parse().unwrap()).unwrap());
        assert!(text.starts_with("arp,"), "{text}");
    }
}
