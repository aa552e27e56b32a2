//! What makes a flow: the part of a frame that a rule matches.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket};
use sluice_wire::{EtherType, Ethernet, Field, FieldId, MacAddr, Match, VlanId};

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
