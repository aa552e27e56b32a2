//! What makes a flow: the part of a frame that a rule matches.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket};
use sluice_openflow::{EtherType, Ethernet, Field, FieldId, MacAddr, Match, VlanId};

use super::Matching;

/// Numbers below are lengths. IEEE 802.3 §3.2.6.
const ETHERTYPE_MIN: u16 = 0x600;

/// Frames of one direction that the same rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    /// `None` without a tag.
    pub(super) vlan: Option<VlanId>,
    inner: Inner,
}

/// What is told apart within a pair of addresses. No two of these match the same frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Inner {
    /// Nothing.
    All,
    /// What is not IP, by its type.
    Other(u16),
    /// IP.
    Ip { src: IpAddr, dst: IpAddr, proto: u8, ports: Option<Ports> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ports {
    kind: PortKind,
    src: u16,
    dst: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PortKind {
    Tcp,
    Udp,
    Sctp,
}

impl Flow {
    /// The flow of a frame; `None` if so much of it is not there that rules would match another one.
    pub(super) fn read(eth: &Ethernet<'_>, frame: &[u8], matching: Matching) -> Option<Self> {
        let inner = match matching {
            Matching::Dst | Matching::Pair => Inner::All,
            Matching::FiveTuple => Inner::read(eth.ethertype, frame)?,
        };
        let vlan = eth.tagged.then_some(eth.vlan);
        Some(Self { src: eth.src, dst: eth.dst, vlan, inner })
    }

    /// All frames from one address to another, without a tag.
    pub(super) const fn pair(src: MacAddr, dst: MacAddr) -> Self {
        Self { src, dst, vlan: None, inner: Inner::All }
    }

    /// Whether nothing is told apart within its pair of addresses.
    pub(super) fn is_pair(&self) -> bool {
        self.inner == Inner::All
    }

    /// Whether it is a conversation of IPv6.
    pub(super) const fn is_ipv6(&self) -> bool {
        matches!(self.inner, Inner::Ip { src: IpAddr::V6(_), .. })
    }

    /// The flow of the answers.
    pub(super) fn reversed(self) -> Self {
        let inner = match self.inner {
            Inner::Ip { src, dst, proto, ports } => {
                let ports = ports.map(|p| Ports { kind: p.kind, src: p.dst, dst: p.src });
                Inner::Ip { src: dst, dst: src, proto, ports }
            }
            other => other,
        };
        Self { src: self.dst, dst: self.src, vlan: self.vlan, inner }
    }

    /// A number that both directions have in common.
    pub(super) fn hash_both(&self, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        // The end with the lower address is first.
        let first = if self.src <= self.dst { *self } else { self.reversed() };
        first.hash(&mut hasher);
        hasher.finish()
    }

    /// A number that all flows to the destination have in common.
    pub(super) fn hash_dst(&self, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (seed, self.dst, self.vlan).hash(&mut hasher);
        hasher.finish()
    }

    /// What rules for it match.
    pub(super) fn to_match(self, matching: Matching) -> Match {
        let vlan = self.vlan.map_or_else(Field::untagged, Field::vlan);
        let dst = Field::eth_dst(self.dst);
        if matching == Matching::Dst {
            return [dst, vlan].into();
        }
        let pair = [dst, Field::eth_src(self.src), vlan];
        pair.into_iter().chain(self.inner.fields()).collect()
    }
}

/// Addresses, protocol, whether it is a fragment but the first, what follows the headers.
type Read<'a> = (IpAddr, IpAddr, IpNumber, bool, &'a [u8]);

impl Inner {
    fn read(ethertype: EtherType, frame: &[u8]) -> Option<Self> {
        if ethertype != EtherType::IPV4 && ethertype != EtherType::IPV6 {
            return (ethertype.0 >= ETHERTYPE_MIN).then_some(Self::Other(ethertype.0));
        }
        let packet = LaxSlicedPacket::from_ethernet(frame).ok()?;
        let (src, dst, proto, is_later, payload): Read<'_> = match packet.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let (src, dst) = (header.source_addr().into(), header.destination_addr().into());
                let is_later = header.fragments_offset().value() != 0;
                (src, dst, header.protocol(), is_later, ip.payload().payload)
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                let (src, dst) = (header.source_addr().into(), header.destination_addr().into());
                let is_later = ip.extensions().clone().into_iter().any(|extension| {
                    matches!(extension, Ipv6ExtensionSlice::Fragment(fragment)
                        if fragment.fragment_offset().value() != 0)
                });
                (src, dst, ip.payload().ip_number, is_later, ip.payload().payload)
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let kind = match proto {
            IpNumber::TCP => Some(PortKind::Tcp),
            IpNumber::UDP => Some(PortKind::Udp),
            IpNumber::SCTP => Some(PortKind::Sctp),
            _ => None,
        };
        let ports = match kind {
            None => None,
            // Switches take the ports of a fragment that is not the first for 0. OpenFlow 1.0.0 §3.4.
            Some(kind) if is_later => Some(Ports { kind, src: 0, dst: 0 }),
            Some(kind) => {
                let &[a, b, c, d] = payload.first_chunk()?;
                let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Some(Ports { kind, src, dst })
            }
        };
        Some(Self::Ip { src, dst, proto: proto.0, ports })
    }

    /// What is matched besides addresses and VLAN.
    fn fields(self) -> Vec<Field> {
        let (src, dst, proto, ports) = match self {
            Self::All => return Vec::new(),
            Self::Other(ethertype) => return vec![Field::eth_type(ethertype)],
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
            // Both ends of a packet are of one kind.
            _ => return Vec::new(),
        };
        if let Some(Ports { kind, src, dst }) = ports {
            let [src_id, dst_id] = match kind {
                PortKind::Tcp => [FieldId::TCP_SRC, FieldId::TCP_DST],
                PortKind::Udp => [FieldId::UDP_SRC, FieldId::UDP_DST],
                PortKind::Sctp => [FieldId::SCTP_SRC, FieldId::SCTP_DST],
            };
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

    fn read(frame: &[u8]) -> Option<Flow> {
        Flow::read(&Ethernet::new(frame).unwrap(), frame, Matching::FiveTuple)
    }

    fn names(flow: Flow) -> String {
        let matching = flow.to_match(Matching::FiveTuple);
        let names: Vec<_> = matching.iter().map(|field| field.id.name()).collect();
        names.join(" ")
    }

    #[test]
    fn conversations_are_told_apart_and_both_directions_are_one() {
        let there = read(&tcp([1000, 80])).unwrap();
        let pair = "eth_dst eth_src vlan_vid eth_type ip_proto";
        assert_eq!(names(there), format!("{pair} ipv4_src ipv4_dst tcp_src tcp_dst"));
        let value = |flow: Flow, id| flow.to_match(Matching::FiveTuple).get(id).unwrap().value;
        assert_eq!(value(there, FieldId::TCP_SRC), 1000);
        assert_eq!(value(there.reversed(), FieldId::TCP_SRC), 80);
        assert_eq!(there.reversed().reversed(), there);
        assert_eq!(there.hash_both(1), there.reversed().hash_both(1));
        assert_ne!(there.hash_both(1), there.hash_both(2));
        let other = read(&tcp([1001, 80])).unwrap();
        assert_ne!(there, other);
        assert_ne!(there.hash_both(1), other.hash_both(1));
        let six = read(&udp6(Some(5))).unwrap();
        assert_eq!(names(six), format!("{pair} ipv6_src ipv6_dst udp_src udp_dst"));
        assert_eq!((six.vlan, read(&udp6(None)).unwrap().vlan), (Some(VlanId(5)), None));
    }

    #[test]
    fn later_fragments_have_ports_0_as_switches_see_them() {
        let mut first = tcp([1000, 80]);
        first[14 + 6] = 0x20;
        assert_eq!(read(&first), read(&tcp([1000, 80])));
        let mut later = tcp([1000, 80]);
        later[14 + 7] = 1;
        assert_eq!(read(&later), read(&tcp([0, 0])));
    }

    #[test]
    fn what_is_not_ip_is_matched_by_type_and_what_cannot_be_told_apart_not_at_all() {
        let arp = [&DST[..], &SRC, &[8, 6, 0, 1]].concat();
        assert_eq!(names(read(&arp).unwrap()), "eth_dst eth_src vlan_vid eth_type");
        let llc = [&DST[..], &SRC, &[0, 9, 0, 1]].concat();
        assert_eq!(read(&llc), None);
        let frame = tcp([1000, 80]);
        for len in 14..14 + 20 + 4 {
            assert_eq!(read(&frame[..len]), None, "{len}");
        }
        assert!(read(&frame[..14 + 20 + 4]).is_some());
    }

    /// A switch by the book takes what is matched, and versions without a field for it say so.
    #[test]
    fn matches_are_fit_for_switches() {
        for frame in [tcp([1, 2]), udp6(Some(5)), udp6(None)] {
            for matching in [Matching::Dst, Matching::Pair, Matching::FiveTuple] {
                let eth = Ethernet::new(&frame).unwrap();
                let flow = Flow::read(&eth, &frame, matching).unwrap();
                let rule = crate::forwarding::rules::rule(
                    &crate::forwarding::Config { matching, ..Default::default() },
                    flow,
                    sluice_openflow::PortNo(1),
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
