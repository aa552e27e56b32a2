//! IGMP and MLD messages: what reports and queries say, and the queries that the controller sends.
//!
//! IGMP: RFC 2236 (versions 1 and 2), RFC 3376 (version 3). MLD: RFC 2710 (version 1), RFC 3810 (version 2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use sluice_openflow::{EtherType, Ethernet, MacAddr, VlanId};

use crate::internet::{FRAME_BYTES_MIN, ICMPV6, icmpv6_sum, internet_sum};
use crate::packet::payload;

/// Source MAC address of queries; locally administered.
pub(super) const QUERY_MAC: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 3]);

/// Source of MLD queries, which must be link-local. No other address is higher, so that any router is elected querier instead
/// (RFC 3810 §7.6.2).
const QUERY_SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xffff, 0xffff, 0xffff, 0xffff);

/// Time within which hosts answer a general query. RFC 3376 §8.3.
pub(super) const RESPONSE_TIME: Duration = Duration::from_secs(10);

/// Time within which hosts answer a query for one group. RFC 3376 §8.8.
pub(super) const LAST_MEMBER_TIME: Duration = Duration::from_secs(1);

const IGMP: u8 = 2;
const PIM: u8 = 103;
const HOP_BY_HOP: u8 = 0;

/// Version 2, type Hello. RFC 7761 §4.9.
const PIM_HELLO: u8 = 0x20;

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// IPv4: IGMP.
    V4,
    /// IPv6: MLD.
    V6,
}

/// What a message is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GroupMessage {
    /// A host joins and leaves groups.
    Report(Vec<MembershipChange>),
    /// A query. One without a source address is of a switch and not of a router (RFC 4541 §2.1.1).
    Query { is_from_router: bool },
    /// A router is there (PIM).
    RouterHello,
    /// A report of which the switch has sent only a part.
    Truncated,
    /// A message of an unknown type, which is flooded (RFC 4541 §2.1.1).
    Unknown,
    /// An invalid message.
    Malformed,
}

/// A change of the groups of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MembershipChange {
    pub(super) group: IpAddr,
    pub(super) kind: ChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The host is a member of the group.
    Join,
    /// The host may be no member of the group any more.
    Leave,
}

/// The MAC address to which packets to a group are sent. RFC 1112 §6.4, RFC 2464 §7.
pub(super) fn mac_of(group: IpAddr) -> MacAddr {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            MacAddr([0x33, 0x33, a, b, c, d])
        }
    }
}

/// Whether frames to a MAC address may be sent to members only. Those to link-local groups of IPv4, to the well-known groups of
/// IPv6 and to solicited-node addresses reach all ports. RFC 4541 §2.1.2, §3.
pub(in super::super) const fn is_filterable(mac: MacAddr) -> bool {
    match mac.0 {
        [0x01, 0x00, 0x5e, 0, 0, _] | [0x33, 0x33, 0, 0, 0, _] | [0x33, 0x33, 0xff, ..] => false,
        [0x01, 0x00, 0x5e, b, ..] => b < 0x80,
        [0x33, 0x33, ..] => true,
        _ => false,
    }
}

/// Parses a frame to a group address; `is_complete` says whether `frame` is all of it. `None` if it is no such message.
pub(super) fn parse(eth: &Ethernet<'_>, frame: &[u8], is_complete: bool) -> Option<GroupMessage> {
    let packet = payload(eth, frame)?;
    match eth.ethertype {
        EtherType::IPV4 => parse_ipv4(packet, is_complete),
        EtherType::IPV6 => parse_ipv6(packet, is_complete),
        _ => None,
    }
}

fn parse_ipv4(packet: &[u8], is_complete: bool) -> Option<GroupMessage> {
    let (header, _) = packet.split_first_chunk::<20>()?;
    let &[
        version_ihl,
        _,
        len_high,
        len_low,
        _,
        _,
        flags,
        offset,
        _,
        protocol,
        _,
        _,
        ref addrs @ ..,
    ] = header;
    let (src, dst) = addrs.split_first_chunk::<4>()?;
    let dst: [u8; 4] = dst.try_into().ok()?;
    let (src, dst) = (Ipv4Addr::from(*src), Ipv4Addr::from(dst));
    if version_ihl >> 4 != 4 || !matches!(protocol, IGMP | PIM) || !dst.is_multicast() {
        return None;
    }
    let header_len = usize::from(version_ihl & 0xf) * 4;
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let is_fragment = (flags & 0x3f, offset) != (0, 0);
    let start = packet.get(header_len.max(20)..);
    let payload = packet.get(..len).and_then(|packet| packet.get(header_len.max(20)..));
    if protocol == PIM {
        // Its checksum does not cover all of the message in every version.
        return (start?.first() == Some(&PIM_HELLO) && !src.is_unspecified())
            .then_some(GroupMessage::RouterHello);
    }
    let Some(payload) = payload.filter(|_| !is_fragment && header_len >= 20) else {
        let is_report = start.is_some_and(|start| start.first() == Some(&IgmpType::REPORT_V3));
        return Some(cut_off(is_report && !is_complete));
    };
    if internet_sum(&[payload]) != 0xffff {
        return Some(GroupMessage::Malformed);
    }
    Some(parse_igmp(src, payload).unwrap_or(GroupMessage::Malformed))
}

const fn cut_off(is_truncated: bool) -> GroupMessage {
    if is_truncated { GroupMessage::Truncated } else { GroupMessage::Malformed }
}

/// Types of IGMP messages.
struct IgmpType;

impl IgmpType {
    const QUERY: u8 = 0x11;
    const REPORT_V1: u8 = 0x12;
    const REPORT_V2: u8 = 0x16;
    const LEAVE: u8 = 0x17;
    const REPORT_V3: u8 = 0x22;
}

fn parse_igmp(src: Ipv4Addr, message: &[u8]) -> Option<GroupMessage> {
    let (&[kind, _, _, _, ref rest @ ..], records) = message.split_first_chunk::<8>()?;
    let group = IpAddr::from(*rest);
    let single = |kind| {
        let change = MembershipChange { group, kind };
        group.is_multicast().then(|| GroupMessage::Report(vec![change]))
    };
    match kind {
        // Other lengths are to be ignored (RFC 3376 §7.1).
        IgmpType::QUERY => (message.len() == 8 || message.len() >= 12)
            .then_some(GroupMessage::Query { is_from_router: !src.is_unspecified() }),
        IgmpType::REPORT_V1 | IgmpType::REPORT_V2 => single(ChangeKind::Join),
        IgmpType::LEAVE => single(ChangeKind::Leave),
        IgmpType::REPORT_V3 => {
            let &[_, _, high, low] = rest;
            parse_records::<4>(u16::from_be_bytes([high, low]), records)
        }
        _ => Some(GroupMessage::Unknown),
    }
}

/// Types of MLD messages. RFC 3810 §5.
struct MldType;

impl MldType {
    const QUERY: u8 = 130;
    const REPORT_V1: u8 = 131;
    const DONE: u8 = 132;
    const REPORT_V2: u8 = 143;
}

fn parse_ipv6(packet: &[u8], is_complete: bool) -> Option<GroupMessage> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    let &[version, _, _, _, len_high, len_low, next_header, hop_limit, ref addrs @ ..] = header;
    let (src, dst) = addrs.split_first_chunk::<16>()?;
    let dst: [u8; 16] = dst.try_into().ok()?;
    let (src, dst) = (Ipv6Addr::from(*src), Ipv6Addr::from(dst));
    if version >> 4 != 6 || !dst.is_multicast() {
        return None;
    }
    if next_header == PIM {
        return (rest.first() == Some(&PIM_HELLO) && src.is_unicast_link_local())
            .then_some(GroupMessage::RouterHello);
    }
    // All of these messages have a hop-by-hop header (router alert). RFC 3810 §5.
    let (&[next_header, extension_len], _) = rest.split_first_chunk::<2>()?;
    let extension_len = usize::from(extension_len) * 8 + 8;
    if header.get(6) != Some(&HOP_BY_HOP) || next_header != ICMPV6 {
        return None;
    }
    let kind = *rest.get(extension_len)?;
    if !matches!(kind, MldType::QUERY | MldType::REPORT_V1 | MldType::DONE | MldType::REPORT_V2) {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let Some(message) = rest.get(..len).and_then(|rest| rest.get(extension_len..)) else {
        return Some(cut_off(kind == MldType::REPORT_V2 && !is_complete));
    };
    let is_valid_source =
        src.is_unicast_link_local() || (src.is_unspecified() && kind != MldType::QUERY);
    if hop_limit != 1 || !is_valid_source || icmpv6_sum(src, dst, message) != 0xffff {
        return Some(GroupMessage::Malformed);
    }
    Some(parse_mld(message).unwrap_or(GroupMessage::Malformed))
}

fn parse_mld(message: &[u8]) -> Option<GroupMessage> {
    let (&[kind, _, _, _, _, _, high, low], rest) = message.split_first_chunk::<8>()?;
    if kind == MldType::REPORT_V2 {
        return parse_records::<16>(u16::from_be_bytes([high, low]), rest);
    }
    let group = IpAddr::from(*rest.first_chunk::<16>()?);
    if kind == MldType::QUERY {
        let is_valid = message.len() == 24 || message.len() >= 28;
        return is_valid.then_some(GroupMessage::Query { is_from_router: true });
    }
    let kind = if kind == MldType::DONE { ChangeKind::Leave } else { ChangeKind::Join };
    group.is_multicast().then(|| GroupMessage::Report(vec![MembershipChange { group, kind }]))
}

/// Parses the `count` group records of a report of IGMP version 3 or MLD version 2, whose addresses have `N` bytes. RFC 3376 §4.2, RFC 3810 §5.2.
fn parse_records<const N: usize>(count: u16, mut rest: &[u8]) -> Option<GroupMessage>
where
    IpAddr: From<[u8; N]>,
{
    let mut changes = Vec::new();
    for _ in 0..count {
        let (&[kind, aux_words, high, low], after) = rest.split_first_chunk::<4>()?;
        let (&group, after) = after.split_first_chunk::<N>()?;
        let sources = usize::from(u16::from_be_bytes([high, low]));
        rest = after.get(sources * N + usize::from(aux_words) * 4..)?;
        let group = IpAddr::from(group);
        let kind = change_of_record(kind, sources > 0);
        if let Some(kind) = kind.filter(|_| group.is_multicast()) {
            changes.push(MembershipChange { group, kind });
        }
    }
    Some(GroupMessage::Report(changes))
}

/// What a group record says, apart from the sources. RFC 3376 §4.2.12.
const fn change_of_record(kind: u8, has_sources: bool) -> Option<ChangeKind> {
    const MODE_IS_INCLUDE: u8 = 1;
    const MODE_IS_EXCLUDE: u8 = 2;
    const CHANGE_TO_INCLUDE: u8 = 3;
    const CHANGE_TO_EXCLUDE: u8 = 4;
    const ALLOW_NEW_SOURCES: u8 = 5;
    const BLOCK_OLD_SOURCES: u8 = 6;
    match kind {
        MODE_IS_EXCLUDE | CHANGE_TO_EXCLUDE => Some(ChangeKind::Join),
        MODE_IS_INCLUDE | CHANGE_TO_INCLUDE | ALLOW_NEW_SOURCES if has_sources => {
            Some(ChangeKind::Join)
        }
        CHANGE_TO_INCLUDE => Some(ChangeKind::Leave),
        // Of these sources, perhaps the last ones.
        BLOCK_OLD_SOURCES if has_sources => Some(ChangeKind::Leave),
        _ => None,
    }
}

/// What a query asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    /// All groups; the next query of this kind follows after this time.
    General(Family, Duration),
    /// One group.
    Group(IpAddr),
}

/// The frame of a query: IGMP version 3 or MLD version 2.
pub(super) fn encode_query(query: Query, vlan: VlanId) -> Vec<u8> {
    let (group, response, interval) = match query {
        Query::General(Family::V4, interval) => {
            (Ipv4Addr::UNSPECIFIED.into(), RESPONSE_TIME, interval)
        }
        Query::General(Family::V6, interval) => {
            (Ipv6Addr::UNSPECIFIED.into(), RESPONSE_TIME, interval)
        }
        Query::Group(group) => (group, LAST_MEMBER_TIME, Duration::from_secs(125)),
    };
    let robustness_interval = [2, interval_code(interval)];
    match group {
        IpAddr::V4(group) => {
            let dst = if group.is_unspecified() { Ipv4Addr::new(224, 0, 0, 1) } else { group };
            // In tenths of a second.
            let response = u8::try_from(response.as_millis() / 100).unwrap_or(u8::MAX);
            let mut message = vec![IgmpType::QUERY, response, 0, 0];
            message.extend(group.octets());
            message.extend(robustness_interval);
            message.extend([0, 0]);
            set_checksum(&mut message, |message| internet_sum(&[message]));
            let mut packet = vec![0x46, 0xc0, 0, 36, 0, 0, 0, 0, 1, IGMP, 0, 0, 0, 0, 0, 0];
            packet.extend(dst.octets());
            packet.extend(ROUTER_ALERT_V4);
            let sum = (!internet_sum(&[&packet])).to_be_bytes();
            if let Some(checksum) = packet.get_mut(10..12) {
                checksum.copy_from_slice(&sum);
            }
            packet.extend(message);
            encode_frame(mac_of(dst.into()), vlan, EtherType::IPV4, &packet)
        }
        IpAddr::V6(group) => {
            let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let dst = if group.is_unspecified() { all_nodes } else { group };
            let response = u16::try_from(response.as_millis()).unwrap_or(0x7fff).to_be_bytes();
            let mut message = vec![MldType::QUERY, 0, 0, 0, response[0], response[1], 0, 0];
            message.extend(group.octets());
            message.extend(robustness_interval);
            message.extend([0, 0]);
            set_checksum(&mut message, |message| icmpv6_sum(QUERY_SOURCE_V6, dst, message));
            let mut packet = vec![0x60, 0, 0, 0, 0, 36, HOP_BY_HOP, 1];
            packet.extend(QUERY_SOURCE_V6.octets());
            packet.extend(dst.octets());
            packet.extend(ROUTER_ALERT_V6);
            packet.extend(message);
            encode_frame(mac_of(dst.into()), vlan, EtherType::IPV6, &packet)
        }
    }
}

/// The router alert option. RFC 2113.
const ROUTER_ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];

/// A hop-by-hop header with the router alert option for MLD, and padding. RFC 2711.
const ROUTER_ALERT_V6: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Writes the checksum of an IGMP or `ICMPv6` message, which is in its third and fourth byte.
fn set_checksum(message: &mut [u8], sum: impl Fn(&[u8]) -> u16) {
    let checksum = (!sum(message)).to_be_bytes();
    if let Some(place) = message.get_mut(2..4) {
        place.copy_from_slice(&checksum);
    }
}

fn encode_frame(dst: MacAddr, vlan: VlanId, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut frame = [dst.0, QUERY_MAC.0].concat();
    let mut min = FRAME_BYTES_MIN;
    if vlan.0 != 0 {
        frame.extend(EtherType::VLAN.0.to_be_bytes());
        frame.extend(vlan.0.to_be_bytes());
        min += 4;
    }
    frame.extend(ethertype.0.to_be_bytes());
    frame.extend(packet);
    frame.resize(frame.len().max(min), 0);
    frame
}

/// A time in seconds as a floating-point code, rounded down. RFC 3376 §4.1.7.
fn interval_code(time: Duration) -> u8 {
    let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX).min(31_744);
    if seconds < 128 {
        return u8::try_from(seconds).unwrap_or(127);
    }
    let exponent = seconds.ilog2() - 7;
    u8::try_from(0x80 | exponent << 4 | (seconds >> (exponent + 3) & 0xf)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_frame(frame: &[u8]) -> Option<GroupMessage> {
        parse(&Ethernet::new(frame).unwrap(), frame, true)
    }

    /// A frame with an IGMP message, whose checksum is set.
    fn igmp(src: [u8; 4], dst: [u8; 4], message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        set_checksum(&mut message, |message| internet_sum(&[message]));
        let len = u8::try_from(24 + message.len()).unwrap();
        let mut packet = vec![0x46, 0xc0, 0, len, 0, 0, 0, 0, 1, IGMP, 0, 0];
        packet.extend([src, dst, ROUTER_ALERT_V4].concat());
        packet.extend(message);
        encode_frame(mac_of(dst.into()), VlanId(0), EtherType::IPV4, &packet)
    }

    /// A frame with an MLD message, whose checksum is set.
    fn mld(src: &str, dst: &str, message: &[u8]) -> Vec<u8> {
        let [src, dst]: [Ipv6Addr; 2] = [src, dst].map(|addr| addr.parse().unwrap());
        let mut message = message.to_vec();
        set_checksum(&mut message, |message| icmpv6_sum(src, dst, message));
        let len = u8::try_from(8 + message.len()).unwrap();
        let mut packet = vec![0x60, 0, 0, 0, 0, len, HOP_BY_HOP, 1];
        packet.extend([src.octets(), dst.octets()].concat());
        packet.extend(ROUTER_ALERT_V6);
        packet.extend(message);
        encode_frame(mac_of(dst.into()), VlanId(7), EtherType::IPV6, &packet)
    }

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const GROUP: [u8; 4] = [239, 1, 2, 3];
    const GROUP_V6: &str = "ff15::abcd:1";

    fn change(group: &str, kind: ChangeKind) -> MembershipChange {
        MembershipChange { group: group.parse().unwrap(), kind }
    }

    fn report(changes: &[MembershipChange]) -> GroupMessage {
        GroupMessage::Report(changes.to_vec())
    }

    #[test]
    fn reports_and_leaves_of_versions_1_and_2() {
        let message = |kind| [&[kind, 0, 0, 0][..], &GROUP].concat();
        for (kind, expected) in
            [(0x12, ChangeKind::Join), (0x16, ChangeKind::Join), (0x17, ChangeKind::Leave)]
        {
            let frame = igmp(HOST, GROUP, &message(kind));
            assert_eq!(parse_frame(&frame), Some(report(&[change("239.1.2.3", expected)])));
        }
        let group: Ipv6Addr = GROUP_V6.parse().unwrap();
        let message = |kind| [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
        for (kind, expected) in [(131, ChangeKind::Join), (132, ChangeKind::Leave)] {
            let frame = mld("fe80::1", GROUP_V6, &message(kind));
            assert_eq!(parse_frame(&frame), Some(report(&[change(GROUP_V6, expected)])));
        }
    }

    #[test]
    fn each_kind_of_record() {
        let expected = [
            (1, None, Some(ChangeKind::Join)),
            (2, Some(ChangeKind::Join), Some(ChangeKind::Join)),
            (3, Some(ChangeKind::Leave), Some(ChangeKind::Join)),
            (4, Some(ChangeKind::Join), Some(ChangeKind::Join)),
            (5, None, Some(ChangeKind::Join)),
            (6, None, Some(ChangeKind::Leave)),
            (7, None, None),
        ];
        for (kind, without, with) in expected {
            let changes = |change: Option<ChangeKind>, group: &str| {
                let group = group.parse().unwrap();
                let changes = change.map(|kind| MembershipChange { group, kind });
                Some(report(&changes.into_iter().collect::<Vec<_>>()))
            };
            let start = [0x22, 0, 0, 0, 0, 0, 0, 1];
            let message = [&start[..], &[kind, 0, 0, 0], &GROUP].concat();
            assert_eq!(
                parse_frame(&igmp(HOST, [224, 0, 0, 22], &message)),
                changes(without, "239.1.2.3")
            );
            // One source, one word of auxiliary data.
            let message = [&start[..], &[kind, 1, 0, 1], &GROUP, &[0; 8]].concat();
            assert_eq!(
                parse_frame(&igmp(HOST, [224, 0, 0, 22], &message)),
                changes(with, "239.1.2.3")
            );
            let group: Ipv6Addr = GROUP_V6.parse().unwrap();
            let start = [143, 0, 0, 0, 0, 0, 0, 1];
            let message = [&start[..], &[kind, 0, 0, 1], &group.octets(), &[0; 16]].concat();
            assert_eq!(parse_frame(&mld("fe80::1", "ff02::16", &message)), changes(with, GROUP_V6));
        }
    }

    #[test]
    fn several_records_in_one_report() {
        let records =
            [[4, 0, 0, 0, 239, 1, 2, 3], [2, 0, 0, 0, 10, 0, 0, 1], [3, 0, 0, 0, 239, 1, 2, 4]];
        let message = [&[0x22, 0, 0, 0, 0, 0, 0, 3][..], records.as_flattened()].concat();
        let expected =
            [change("239.1.2.3", ChangeKind::Join), change("239.1.2.4", ChangeKind::Leave)];
        assert_eq!(parse_frame(&igmp(HOST, [224, 0, 0, 22], &message)), Some(report(&expected)));
    }

    #[test]
    fn queries_with_a_source_address_are_of_routers() {
        let query = |is_from_router| Some(GroupMessage::Query { is_from_router });
        let all = [224, 0, 0, 1];
        let v2 = [0x11, 100, 0, 0, 0, 0, 0, 0];
        let v3 = [&v2[..], &[2, 125, 0, 0]].concat();
        for message in [&v2[..], &v3] {
            assert_eq!(parse_frame(&igmp(HOST, all, message)), query(true));
            assert_eq!(parse_frame(&igmp([0; 4], all, message)), query(false));
        }
        assert_eq!(parse_frame(&igmp(HOST, all, &v3[..10])), Some(GroupMessage::Malformed));
        let message = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 20]].concat();
        let expected = GroupMessage::Query { is_from_router: true };
        assert_eq!(parse_frame(&mld("fe80::1", "ff02::1", &message)), Some(expected));
        for src in ["::", "fd00::1"] {
            let parsed = parse_frame(&mld(src, "ff02::1", &message));
            assert_eq!(parsed, Some(GroupMessage::Malformed), "{src}");
        }
    }

    #[test]
    fn our_own_queries_are_valid() {
        let interval = Duration::from_secs(125);
        let group = |text: &str| Query::Group(text.parse().unwrap());
        let queries = [
            (Query::General(Family::V4, interval), false, "01:00:5e:00:00:01"),
            (Query::General(Family::V6, interval), true, "33:33:00:00:00:01"),
            (group("239.1.2.3"), false, "01:00:5e:01:02:03"),
            (group(GROUP_V6), true, "33:33:ab:cd:00:01"),
        ];
        for (query, is_from_router, dst) in queries {
            for vlan in [VlanId(0), VlanId(7)] {
                let frame = encode_query(query, vlan);
                let eth = Ethernet::new(&frame).unwrap();
                assert_eq!((eth.dst, eth.vlan), (MacAddr::from_text(dst).unwrap(), vlan));
                let parsed = parse_frame(&frame);
                assert_eq!(parsed, Some(GroupMessage::Query { is_from_router }));
            }
        }
        let frame = encode_query(Query::General(Family::V4, interval), VlanId(0));
        assert_eq!(internet_sum(&[&frame[14..38]]), 0xffff, "checksum of the header");
        assert_eq!((frame.len(), &frame[38..40]), (60, &[0x11, 100][..]));
    }

    #[test]
    fn messages_of_other_protocols_over_igmp_are_unknown() {
        let dvmrp = igmp(HOST, [224, 0, 0, 4], &[0x13, 1, 0, 0, 0, 0, 3, 0xff]);
        assert_eq!(parse_frame(&dvmrp), Some(GroupMessage::Unknown));
    }

    #[test]
    fn long_intervals_are_rounded_down() {
        let code = |seconds| interval_code(Duration::from_secs(seconds));
        assert_eq!(
            [0, 127, 128, 135, 136, 31_744, 100_000].map(code),
            [0, 127, 0x80, 0x80, 0x81, 0xff, 0xff]
        );
    }

    #[test]
    fn routers_say_hello() {
        let mut frame = igmp(HOST, [224, 0, 0, 13], &[PIM_HELLO, 0, 0, 0]);
        frame[14 + 9] = PIM;
        assert_eq!(parse_frame(&frame), Some(GroupMessage::RouterHello));
        frame[14 + 24] = 0x21;
        assert_eq!(parse_frame(&frame), None);
    }

    #[test]
    fn invalid_messages_change_nothing() {
        let start = [0x22, 0, 0, 0, 0, 0];
        let record = [4, 0, 0, 0, 239, 1, 2, 3];
        let many = [&start[..], &[0xff, 0xff], &record].concat();
        let sources = [&start[..], &[0, 1], &[4, 0, 0xff, 0xff, 239, 1, 2, 3]].concat();
        let aux = [&start[..], &[0, 1], &[4, 0xff, 0, 0, 239, 1, 2, 3]].concat();
        for message in [&many, &sources, &aux] {
            let frame = igmp(HOST, [224, 0, 0, 22], message);
            assert_eq!(parse_frame(&frame), Some(GroupMessage::Malformed));
        }
        let frame = igmp(HOST, GROUP, &[&[0x16, 0, 0, 0][..], &HOST].concat());
        assert_eq!(parse_frame(&frame), Some(GroupMessage::Malformed), "no group");
        let mut frame = igmp(HOST, GROUP, &[&[0x16, 0, 0, 0][..], &GROUP].concat());
        frame[14 + 24 + 3] ^= 1;
        assert_eq!(parse_frame(&frame), Some(GroupMessage::Malformed), "checksum");
        let group: Ipv6Addr = GROUP_V6.parse().unwrap();
        let message = [&[131, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
        let frame = mld("fe80::1", GROUP_V6, &message);
        for (at, value) in [(18 + 7, 64), (18 + 8, 0x20), (18 + 40 + 8 + 3, 0x55)] {
            let mut frame = frame.clone();
            frame[at] = value;
            assert_eq!(parse_frame(&frame), Some(GroupMessage::Malformed), "{at}");
        }
    }

    #[test]
    fn any_part_of_a_message_is_parsed_without_a_panic() {
        let record = [4, 0, 0, 1, 239, 1, 2, 3, 10, 0, 0, 9];
        let v4 = igmp(HOST, [224, 0, 0, 22], &[&[0x22, 0, 0, 0, 0, 0, 0, 1][..], &record].concat());
        let group: Ipv6Addr = GROUP_V6.parse().unwrap();
        let record = [&[4, 0, 0, 1][..], &group.octets(), &[0; 16]].concat();
        let v6 = mld("fe80::1", "ff02::16", &[&[143, 0, 0, 0, 0, 0, 0, 1][..], &record].concat());
        for frame in [v4, v6] {
            let whole = parse_frame(&frame);
            assert!(matches!(whole, Some(GroupMessage::Report(_))), "{whole:?}");
            for len in 14..frame.len() {
                let Some(eth) = Ethernet::new(&frame[..len]) else { continue };
                for is_complete in [false, true] {
                    let part = parse(&eth, &frame[..len], is_complete);
                    let is_report = matches!(part, Some(GroupMessage::Report(_)));
                    assert!(!is_report || part == whole, "{len}: {part:?}");
                }
            }
            for at in 14..frame.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut frame = frame.clone();
                    frame[at] = value;
                    parse_frame(&frame);
                }
            }
        }
    }

    #[test]
    fn a_part_of_a_report_is_not_taken_for_a_whole_one() {
        let record = [4, 0, 0, 0, 239, 1, 2, 3];
        let records = [record; 20];
        let message = [&[0x22, 0, 0, 0, 0, 0, 0, 20][..], records.as_flattened()].concat();
        let frame = igmp(HOST, [224, 0, 0, 22], &message);
        let eth = Ethernet::new(&frame).unwrap();
        assert_eq!(parse(&eth, &frame[..128], false), Some(GroupMessage::Truncated));
        assert_eq!(parse(&eth, &frame[..128], true), Some(GroupMessage::Malformed));
    }

    #[test]
    fn link_local_groups_are_never_filtered() {
        let is_filterable = |group: &str| is_filterable(mac_of(group.parse().unwrap()));
        for group in ["224.0.0.251", "239.0.0.7", "ff02::1", "ff02::fb", "ff02::1:ff00:1234"] {
            assert!(!is_filterable(group), "{group}");
        }
        for group in ["224.0.1.1", "239.255.255.250", "ff02::1:3", "ff15::abcd:1"] {
            assert!(is_filterable(group), "{group}");
        }
        for mac in ["ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:0e", "01:00:5e:80:00:01"] {
            assert!(!super::is_filterable(MacAddr::from_text(mac).unwrap()), "{mac}");
        }
    }
}
