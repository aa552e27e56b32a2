//! A flow: the fields of a frame that a flow entry matches.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket};
use sluice_openflow::{EtherType, Ethernet, Field, FieldId, MacAddr, Match, PortNo, VlanId};
use sluice_sdk::LINK_PROBE_TYPES;

use super::Matching;

/// Lower values are lengths. IEEE 802.3 §3.2.6.
const ETHERTYPE_MIN: u16 = 0x600;

/// Packets in one direction that the same flow entries match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    /// `None` for untagged packets.
    pub(super) vlan: Option<VlanId>,
    protocol: FlowProtocol,
}

/// The protocol fields that are matched besides the addresses. No two values match the same packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FlowProtocol {
    /// None: all packets between the two addresses.
    Any,
    /// The Ethernet type of packets that are not IP.
    EtherType(u16),
    /// IP addresses, protocol and ports.
    Ip { src: IpAddr, dst: IpAddr, proto: u8, ports: Option<L4Ports> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct L4Ports {
    l4: L4Protocol,
    src: u16,
    dst: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum L4Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl L4Protocol {
    const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Source and destination port.
    const fn fields(self) -> [FieldId; 2] {
        match self {
            Self::Tcp => [FieldId::TCP_SRC, FieldId::TCP_DST],
            Self::Udp => [FieldId::UDP_SRC, FieldId::UDP_DST],
            Self::Sctp => [FieldId::SCTP_SRC, FieldId::SCTP_DST],
        }
    }
}

impl Flow {
    /// The flow of a frame; `None` if it is truncated so that flow entries would match other packets, too.
    pub(super) fn parse(eth: &Ethernet<'_>, frame: &[u8], matching: Matching) -> Option<Self> {
        let protocol = match matching {
            Matching::Dst | Matching::Pair => FlowProtocol::Any,
            Matching::FiveTuple => FlowProtocol::parse(eth.ethertype, frame)?,
        };
        let vlan = eth.tagged.then_some(eth.vlan);
        Some(Self { src: eth.src, dst: eth.dst, vlan, protocol })
    }

    /// The flow whose packets a flow entry of forwarding matches, which has this match and form. `None` if that is not how forwarding
    /// writes it. The source address of [`Matching::Dst`] is not known, and zero.
    pub(super) fn of_match(matching: Matching, fields: &Match) -> Option<Self> {
        let value = |id| fields.get(id).filter(|field| field.is_exact()).map(|field| field.value);
        let mac = |id| Some(MacAddr::from_u64(u64::try_from(value(id)?).ok()?));
        // `OFPVID_PRESENT`, which is not set for untagged packets.
        let vlan = value(FieldId::VLAN_VID).filter(|vlan| vlan & 0x1000 != 0);
        let vlan = vlan.and_then(|vlan| u16::try_from(vlan & 0xfff).ok()).map(VlanId);
        let (protocol, src) = match matching {
            Matching::Dst => (FlowProtocol::Any, MacAddr::default()),
            Matching::Pair => (FlowProtocol::Any, mac(FieldId::ETH_SRC)?),
            Matching::FiveTuple => (FlowProtocol::of_match(&value)?, mac(FieldId::ETH_SRC)?),
        };
        let flow = Self { src, dst: mac(FieldId::ETH_DST)?, vlan, protocol };
        let is_equal = |other: &Match| {
            other.iter().count() == fields.iter().count()
                && other.iter().all(|field| fields.get(field.id) == Some(field))
        };
        is_equal(&flow.to_match(matching, fields.in_port()?)).then_some(flow)
    }

    /// All untagged packets from one address to another.
    pub(super) const fn pair(src: MacAddr, dst: MacAddr) -> Self {
        Self { src, dst, vlan: None, protocol: FlowProtocol::Any }
    }

    /// Whether only Ethernet addresses and VLAN are matched.
    pub(super) fn is_pair(&self) -> bool {
        self.protocol == FlowProtocol::Any
    }

    /// Whether a switch may forward its packets to a group without the controller: nothing is learned from them, and nobody
    /// answers in the place of another host.
    pub(super) fn is_group_stream(&self) -> bool {
        /// Ports of DHCP for IPv4 and IPv6.
        const DHCP: [u16; 4] = [67, 68, 546, 547];
        let is_data = match self.protocol {
            FlowProtocol::EtherType(ethertype) => {
                let ethertype = EtherType(ethertype);
                ethertype != EtherType::ARP && !LINK_PROBE_TYPES.contains(&ethertype)
            }
            FlowProtocol::Ip { ports: Some(ports), .. } => !DHCP.contains(&ports.dst),
            FlowProtocol::Any | FlowProtocol::Ip { ports: None, .. } => false,
        };
        self.dst.is_group() && is_data
    }

    /// Whether IPv6 addresses are matched.
    pub(super) const fn is_ipv6(&self) -> bool {
        matches!(self.protocol, FlowProtocol::Ip { src: IpAddr::V6(_), .. })
    }

    /// The flow of the replies.
    pub(super) fn reversed(self) -> Self {
        let protocol = match self.protocol {
            FlowProtocol::Ip { src, dst, proto, ports } => {
                let ports = ports.map(|p| L4Ports { l4: p.l4, src: p.dst, dst: p.src });
                FlowProtocol::Ip { src: dst, dst: src, proto, ports }
            }
            other => other,
        };
        Self { src: self.dst, dst: self.src, vlan: self.vlan, protocol }
    }

    /// A hash that is the same for both directions.
    pub(super) fn hash_symmetric(&self, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        // The lower address comes first.
        let first = if self.src <= self.dst { *self } else { self.reversed() };
        first.hash(&mut hasher);
        hasher.finish()
    }

    /// A hash that is the same for all flows to the destination.
    pub(super) fn hash_dst(&self, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (seed, self.dst, self.vlan).hash(&mut hasher);
        hasher.finish()
    }

    /// All packets that have the fields of this flow which `matching` contains; source address included.
    pub(super) const fn simplified(self, matching: Matching) -> Self {
        match matching {
            Matching::Dst | Matching::Pair => Self { protocol: FlowProtocol::Any, ..self },
            Matching::FiveTuple => self,
        }
    }

    /// The match of its flow entry for packets from `in_port`. The fast path expects this order.
    pub(super) fn to_match(self, matching: Matching, in_port: PortNo) -> Match {
        let vlan = self.vlan.map_or_else(Field::untagged, Field::vlan);
        let (in_port, dst) = (Field::in_port(in_port), Field::eth_dst(self.dst));
        if matching == Matching::Dst {
            return [in_port, dst, vlan].into();
        }
        let pair = [in_port, Field::eth_src(self.src), dst, vlan];
        if self.is_pair() || matching == Matching::Pair {
            return pair.into();
        }
        pair.into_iter().chain(self.simplified(matching).protocol.fields()).collect()
    }
}

/// Source and destination address, protocol, whether it is a fragment other than the first, and payload.
type IpHeader<'a> = (IpAddr, IpAddr, IpNumber, bool, &'a [u8]);

impl FlowProtocol {
    fn parse(ethertype: EtherType, frame: &[u8]) -> Option<Self> {
        if ethertype != EtherType::IPV4 && ethertype != EtherType::IPV6 {
            return (ethertype.0 >= ETHERTYPE_MIN).then_some(Self::EtherType(ethertype.0));
        }
        let packet = LaxSlicedPacket::from_ethernet(frame).ok()?;
        let (src, dst, proto, is_later_fragment, payload): IpHeader<'_> = match packet
            .net
            .as_ref()?
        {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let (src, dst) = (header.source_addr().into(), header.destination_addr().into());
                let is_later_fragment = header.fragments_offset().value() != 0;
                (src, dst, header.protocol(), is_later_fragment, ip.payload().payload)
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                let (src, dst) = (header.source_addr().into(), header.destination_addr().into());
                let is_later_fragment = ip.extensions().clone().into_iter().any(|extension| {
                    matches!(extension, Ipv6ExtensionSlice::Fragment(fragment)
                        if fragment.fragment_offset().value() != 0)
                });
                (src, dst, ip.payload().ip_number, is_later_fragment, ip.payload().payload)
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let l4 = match proto {
            IpNumber::TCP => Some(L4Protocol::Tcp),
            IpNumber::UDP => Some(L4Protocol::Udp),
            IpNumber::SCTP => Some(L4Protocol::Sctp),
            _ => None,
        };
        let ports = match l4 {
            None => None,
            // Switches treat the ports of a fragment other than the first as 0. OpenFlow 1.0.0 §3.4.
            Some(l4) if is_later_fragment => Some(L4Ports { l4, src: 0, dst: 0 }),
            Some(l4) => {
                let &[a, b, c, d] = payload.first_chunk()?;
                let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Some(L4Ports { l4, src, dst })
            }
        };
        Some(Self::Ip { src, dst, proto: proto.0, ports })
    }

    /// The inverse of [`fields`](Self::fields); `value` is the value of a field.
    fn of_match(value: &impl Fn(FieldId) -> Option<u128>) -> Option<Self> {
        let Some(ethertype) = value(FieldId::ETH_TYPE) else { return Some(Self::Any) };
        let Some(proto) = value(FieldId::IP_PROTO) else {
            return u16::try_from(ethertype).ok().map(Self::EtherType);
        };
        let v4 = |id| Some(IpAddr::from(u32::try_from(value(id)?).ok()?.to_be_bytes()));
        let v6 = |id| Some(IpAddr::from(value(id)?.to_be_bytes()));
        let (src, dst) = match v4(FieldId::IPV4_SRC) {
            Some(src) => (src, v4(FieldId::IPV4_DST)?),
            None => (v6(FieldId::IPV6_SRC)?, v6(FieldId::IPV6_DST)?),
        };
        let port = |id| value(id).and_then(|port| u16::try_from(port).ok());
        let ports = L4Protocol::ALL.into_iter().find_map(|l4| {
            let [src, dst] = l4.fields();
            Some(L4Ports { l4, src: port(src)?, dst: port(dst)? })
        });
        Some(Self::Ip { src, dst, proto: u8::try_from(proto).ok()?, ports })
    }

    /// The fields matched besides Ethernet addresses and VLAN.
    fn fields(self) -> Vec<Field> {
        let (src, dst, proto, ports) = match self {
            Self::Any => return Vec::new(),
            Self::EtherType(ethertype) => return vec![Field::eth_type(ethertype)],
            Self::Ip { src, dst, proto, ports } => (src, dst, proto, ports),
        };
        let mut fields = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ethertype = Field::eth_type(EtherType::IPV4.0);
                vec![ethertype, Field::ip_proto(proto), Field::ipv4_src(src), Field::ipv4_dst(dst)]
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let ethertype = Field::eth_type(EtherType::IPV6.0);
                vec![ethertype, Field::ip_proto(proto), Field::ipv6_src(src), Field::ipv6_dst(dst)]
            }
            // Both addresses of a packet are of one family.
            _ => return Vec::new(),
        };
        if let Some(L4Ports { l4, src, dst }) = ports {
            let [src_id, dst_id] = l4.fields();
            fields.extend([Field::new(src_id, src.into()), Field::new(dst_id, dst.into())]);
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use sluice_openflow::{Encoder, Version};

    use super::*;

    const SRC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const DST: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn tcp(ports: [u16; 2]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(SRC, DST).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let (builder, mut frame) = (builder.tcp(ports[0], ports[1], 0, 1000), Vec::new());
        builder.write(&mut frame, b"payload").unwrap();
        frame
    }

    fn udp6(vlan: Option<u16>) -> Vec<u8> {
        let (src, dst, mut frame) = ([0xfd; 16], [0xfe; 16], Vec::new());
        let builder = PacketBuilder::ethernet2(SRC, DST);
        match vlan {
            Some(id) => {
                let builder = builder.single_vlan(id.try_into().unwrap()).ipv6(src, dst, 64);
                builder.udp(53, 54).write(&mut frame, b"payload").unwrap();
            }
            None => builder.ipv6(src, dst, 64).udp(53, 54).write(&mut frame, b"p").unwrap(),
        }
        frame
    }

    fn parse(frame: &[u8]) -> Option<Flow> {
        Flow::parse(&Ethernet::new(frame).unwrap(), frame, Matching::FiveTuple)
    }

    fn names(flow: Flow) -> String {
        let matching = flow.to_match(Matching::FiveTuple, PortNo(1));
        let names: Vec<_> = matching.iter().map(|field| field.id.name()).collect();
        names.join(" ")
    }

    #[test]
    fn flows_differ_by_port_and_both_directions_have_one_hash() {
        let there = parse(&tcp([1000, 80])).unwrap();
        let pair = "in_port eth_src eth_dst vlan_vid eth_type ip_proto";
        assert_eq!(names(there), format!("{pair} ipv4_src ipv4_dst tcp_src tcp_dst"));
        let value =
            |flow: Flow, id| flow.to_match(Matching::FiveTuple, PortNo(1)).get(id).unwrap().value;
        assert_eq!(value(there, FieldId::TCP_SRC), 1000);
        assert_eq!(value(there.reversed(), FieldId::TCP_SRC), 80);
        assert_eq!(there.reversed().reversed(), there);
        assert_eq!(there.hash_symmetric(1), there.reversed().hash_symmetric(1));
        assert_ne!(there.hash_symmetric(1), there.hash_symmetric(2));
        let other = parse(&tcp([1001, 80])).unwrap();
        assert_ne!(there, other);
        assert_ne!(there.hash_symmetric(1), other.hash_symmetric(1));
        let six = parse(&udp6(Some(5))).unwrap();
        assert_eq!(names(six), format!("{pair} ipv6_src ipv6_dst udp_src udp_dst"));
        assert_eq!((six.vlan, parse(&udp6(None)).unwrap().vlan), (Some(VlanId(5)), None));
    }

    #[test]
    fn a_flow_is_read_back_from_its_match_in_every_version() {
        let arp = [&DST[..], &SRC, &[8, 6, 0, 1]].concat();
        for frame in [tcp([1, 2]), udp6(Some(5)), udp6(None), arp] {
            for matching in [Matching::Dst, Matching::Pair, Matching::FiveTuple] {
                let eth = Ethernet::new(&frame).unwrap();
                let flow = Flow::parse(&eth, &frame, matching).unwrap();
                let fields = flow.to_match(matching, PortNo(7));
                let read = Flow::of_match(matching, &fields).unwrap();
                let src = if matching == Matching::Dst { MacAddr::default() } else { flow.src };
                assert_eq!(read, Flow { src, ..flow });
                for version in (1..=6).map(Version) {
                    let entry = sluice_openflow::FlowMod {
                        matching: fields.clone(),
                        ..sluice_openflow::FlowMod::default()
                    };
                    let Ok(bytes) = entry.to_vec(version, 1) else { continue };
                    let sluice_openflow::Message::FlowMod(parsed) =
                        sluice_openflow::Message::parse(&bytes).unwrap()
                    else {
                        panic!("{version}");
                    };
                    assert_eq!(Flow::of_match(matching, &parsed.matching), Some(read), "{version}");
                }
            }
        }
        let mut more: Match =
            Flow::parse(&Ethernet::new(&tcp([1, 2])).unwrap(), &tcp([1, 2]), Matching::Pair)
                .unwrap()
                .to_match(Matching::Pair, PortNo(7));
        assert_eq!(
            Flow::of_match(Matching::FiveTuple, &more).map(|flow| flow.is_pair()),
            Some(true)
        );
        more = more.iter().copied().chain([Field::eth_type(0x800)]).collect();
        assert_eq!(Flow::of_match(Matching::Pair, &more), None, "another program's entry");
    }

    #[test]
    fn later_fragments_have_port_0_as_in_switches() {
        let mut first = tcp([1000, 80]);
        first[14 + 6] = 0x20;
        assert_eq!(parse(&first), parse(&tcp([1000, 80])));
        let mut later = tcp([1000, 80]);
        later[14 + 7] = 1;
        assert_eq!(parse(&later), parse(&tcp([0, 0])));
    }

    #[test]
    fn other_protocols_are_matched_by_type_and_truncated_packets_not_at_all() {
        let arp = [&DST[..], &SRC, &[8, 6, 0, 1]].concat();
        assert_eq!(names(parse(&arp).unwrap()), "in_port eth_src eth_dst vlan_vid eth_type");
        let llc = [&DST[..], &SRC, &[0, 9, 0, 1]].concat();
        assert_eq!(parse(&llc), None);
        let frame = tcp([1000, 80]);
        for len in 14..14 + 20 + 4 {
            assert_eq!(parse(&frame[..len]), None, "{len}");
        }
        assert!(parse(&frame[..14 + 20 + 4]).is_some());
    }

    /// All matches meet the prerequisites of the specification; versions that lack a field refuse it.
    #[test]
    fn matches_meet_the_prerequisites() {
        for frame in [tcp([1, 2]), udp6(Some(5)), udp6(None)] {
            for matching in [Matching::Dst, Matching::Pair, Matching::FiveTuple] {
                let eth = Ethernet::new(&frame).unwrap();
                let flow = Flow::parse(&eth, &frame, matching).unwrap();
                let rule = crate::forwarding::flow_entries::flow_entry(
                    &crate::forwarding::Config { matching, ..Default::default() },
                    matching,
                    flow,
                    [PortNo(1), PortNo(2)],
                );
                assert_eq!(rule.matching.check(), Ok(()));
                for version in (1..=6).map(Version) {
                    let (mut tx, mut xid) = (Vec::new(), 1);
                    let written = Encoder::new(&mut tx, version, &mut xid).flow_mod(&rule);
                    let six = matching == Matching::FiveTuple && eth.ethertype == EtherType::IPV6;
                    assert_eq!(written.is_ok(), !six || version >= Version::V1_2, "{version}");
                }
            }
        }
    }
}
