//! Parsing frames into fields, and rewriting fields.

use etherparse::{IpNumber, LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket};
use sluice_openflow::{Field, FieldId, Match, PortNo};

use crate::fields::PacketFields;

/// Length of an Ethernet header.
const ETHERNET_LEN: usize = 14;
/// Length of an IPv4, a TCP and a UDP header, without options.
const IPV4_LEN: usize = 20;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Length of a VLAN tag, and of an MPLS label stack entry.
const TAG_LEN: usize = 4;
/// `OFP_DL_TYPE_NOT_ETH_TYPE`: the type of a frame with a length field. OpenFlow 1.0.0 §5.2.3.
const NO_ETHERTYPE: u128 = 0x05ff;
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// TTL of a pushed label if the packet has none.
const TTL_DEFAULT: u8 = 64;

/// The header above Ethernet, tags and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkHeader {
    Ipv4,
    Ipv6,
    Arp,
}

/// The header above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportHeader {
    Tcp,
    Udp,
    Sctp,
    Icmpv4,
    Icmpv6,
}

/// Where the headers of a frame start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HeaderLayout {
    is_tagged: bool,
    /// Offset of the Ethernet type after all VLAN tags.
    ethertype: usize,
    mpls: Option<usize>,
    net: Option<(NetworkHeader, usize)>,
    /// Protocol number after IP extension headers.
    protocol: Option<u8>,
    transport: Option<(TransportHeader, usize)>,
}

/// Where the bits of a field are.
#[derive(Debug, Clone, Copy)]
struct FieldLocation {
    at: usize,
    bytes: usize,
    /// Number of bits below the field in its last byte.
    shift: u32,
    bits: u32,
}

impl FieldLocation {
    /// The same behind `at` bytes.
    const fn after(self, at: usize) -> Self {
        Self { at: self.at + at, ..self }
    }
}

/// A header with a TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TtlHeader {
    /// The outermost MPLS label.
    Mpls,
    /// The IPv4 or IPv6 header.
    Ip,
}

/// A frame in the pipeline.
#[derive(Debug)]
pub struct PacketInPipeline {
    /// The whole frame.
    pub bytes: Vec<u8>,
    /// Its input port.
    pub in_port: PortNo,
    /// Its fields, including metadata.
    pub fields: PacketFields,
    /// Frames and packet-ins that were sent for it.
    pub sent: u32,
    /// Copies that groups made of it.
    pub copies: u32,
    /// Whether its flow entries are recorded, and the controller does not get it.
    pub is_followed: bool,
    layout: HeaderLayout,
}

impl Clone for PacketInPipeline {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), ..*self }
    }

    /// Copies `from` into the memory of `self`.
    fn clone_from(&mut self, from: &Self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clone_from(&from.bytes);
        *self = Self { bytes, ..*from };
    }
}

impl PacketInPipeline {
    /// Parses a frame; `None` without a complete Ethernet header.
    pub fn new(in_port: PortNo, bytes: Vec<u8>) -> Option<Self> {
        let mut packet = Self::unparsed(in_port, bytes);
        packet.read()?;
        Some(packet)
    }

    /// A frame that is to be [read](Self::read).
    pub fn unparsed(in_port: PortNo, bytes: Vec<u8>) -> Self {
        let (fields, layout) = (PacketFields::NONE, HeaderLayout::default());
        let (sent, copies, is_followed) = (0, 0, false);
        let mut packet = Self { bytes, in_port, fields, sent, copies, is_followed, layout };
        packet.enter(in_port);
        packet
    }

    /// Replaces the frame by another one and parses it, in the same memory. `None` without a complete Ethernet header.
    pub fn replace(&mut self, in_port: PortNo, frame: &[u8]) -> Option<()> {
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        self.enter(in_port);
        self.read()
    }

    /// Starts the pipeline of another switch, at its input port.
    pub fn enter(&mut self, in_port: PortNo) {
        (self.in_port, self.sent, self.copies) = (in_port, 0, 0);
        self.fields.set(FieldId::IN_PORT, in_port.0.into());
        self.fields.set(FieldId::METADATA, 0);
        self.fields.set(FieldId::TUNNEL_ID, 0);
    }

    /// Parses the bytes; metadata and other fields outside the frame stay. `None` without a complete Ethernet header.
    pub fn read(&mut self) -> Option<()> {
        self.layout = HeaderLayout::of(&self.bytes)?;
        self.fields.keep_only(&[FieldId::IN_PORT, FieldId::METADATA, FieldId::TUNNEL_ID]);
        self.fields.set(FieldId::ETH_TYPE, self.ethertype());
        self.fields.set(FieldId::VLAN_VID, 0);
        for (at, fields) in self.layout.headers() {
            for &HeaderField { id, location } in fields {
                if let Some(value) = self.load(location.after(at)) {
                    self.fields.set(id, value);
                }
            }
        }
        if self.layout.is_tagged {
            let vid = self.fields.get(FieldId::VLAN_VID).unwrap_or_default();
            self.fields.set(FieldId::VLAN_VID, vid | TAG_IS_THERE);
        }
        for id in IN_NEIGHBOUR_DISCOVERY.into_iter().filter(|_| self.layout.is_icmpv6()) {
            let location = self.layout.locate_neighbour_discovery(id, &self.bytes);
            if let Some(value) = location.and_then(|it| self.load(it)) {
                self.fields.set(id, value);
            }
        }
        if let Some(protocol) = self.layout.protocol {
            self.fields.set(FieldId::IP_PROTO, protocol.into());
        }
        Some(())
    }

    fn ethertype(&self) -> u128 {
        let at = self.layout.ethertype;
        let ethertype =
            self.load(FieldLocation { at, bytes: 2, shift: 0, bits: 16 }).unwrap_or_default();
        if ethertype < 0x600 { NO_ETHERTYPE } else { ethertype }
    }

    fn load(&self, it: FieldLocation) -> Option<u128> {
        let bytes = self.bytes.get(it.at..it.at + it.bytes)?;
        let whole = if bytes.len() <= 8 {
            bytes.iter().fold(0u64, |whole, &byte| whole << 8 | u64::from(byte)).into()
        } else {
            bytes.iter().fold(0u128, |whole, &byte| whole << 8 | u128::from(byte))
        };
        Some(whole >> it.shift & low_bits(it.bits))
    }

    /// Overwrites bits of the frame and updates the checksums.
    fn store(&mut self, it: FieldLocation, value: u128) {
        let Some(bytes) = self.bytes.get(it.at..it.at + it.bytes) else { return };
        let whole = bytes.iter().fold(0u128, |whole, &byte| whole << 8 | u128::from(byte));
        let bits = low_bits(it.bits) << it.shift;
        let whole = whole & !bits | value << it.shift & bits;
        let new = whole.to_be_bytes();
        let new = new.get(16 - it.bytes..).unwrap_or_default();
        let delta = (it.at..).zip(bytes.iter().zip(new)).fold(0u64, |sum, (at, (old, new))| {
            // Subtracting is adding the one's complement. RFC 1624 §3.
            let shift = if at % 2 == 0 { 8 } else { 0 };
            sum + (0xffff - (u64::from(*old) << shift)) + (u64::from(*new) << shift)
        });
        let new = new.to_vec();
        if let Some(target) = self.bytes.get_mut(it.at..it.at + it.bytes) {
            target.copy_from_slice(&new);
        }
        for at in self.layout.checksums(it.at, &self.bytes).into_iter().flatten() {
            self.mend(at, delta);
        }
    }

    /// Updates the checksum at `at` by `delta`.
    fn mend(&mut self, at: usize, delta: u64) {
        let is_udp =
            matches!(self.layout.transport, Some((TransportHeader::Udp, udp)) if udp + 6 == at);
        let Some(target) = self.bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else {
            return;
        };
        let old = u16::from_be_bytes(*target);
        if is_udp && old == 0 {
            // The sender did not compute a checksum. RFC 768.
            return;
        }
        let mut sum = u64::from(!old) + delta;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let new = !u16::try_from(sum).unwrap_or_default();
        *target = if is_udp && new == 0 { [0xff; 2] } else { new.to_be_bytes() };
    }

    /// Sets the unmasked bits of a field. A field that the packet lacks is ignored, except for a VLAN tag, which 1.0
    /// and 1.1 then add. OpenFlow 1.0.0 §3.3.
    pub fn set_field(&mut self, field: &Field) {
        let id = field.id.canonical();
        if matches!(id, FieldId::VLAN_VID | FieldId::VLAN_PCP) && !self.layout.is_tagged {
            self.push_vlan(0x8100);
        }
        let old = self.fields.get(id);
        let mask = field.mask.unwrap_or(u128::MAX);
        let value = old.unwrap_or_default() & !mask | field.value & mask;
        if matches!(id, FieldId::METADATA | FieldId::TUNNEL_ID) {
            return self.fields.set(id, value);
        }
        if let Some(location) = self.layout.locate(id, &self.bytes) {
            self.store(location, value);
            let _ = self.read();
        }
    }

    fn ttl_at(&self, ttl: TtlHeader) -> Option<FieldLocation> {
        let at = match (ttl, self.layout) {
            (TtlHeader::Mpls, HeaderLayout { mpls: Some(at), .. }) => at + 3,
            (TtlHeader::Ip, HeaderLayout { net: Some((NetworkHeader::Ipv4, at)), .. }) => at + 8,
            (TtlHeader::Ip, HeaderLayout { net: Some((NetworkHeader::Ipv6, at)), .. }) => at + 7,
            _ => return None,
        };
        Some(FieldLocation { at, bytes: 1, shift: 0, bits: 8 })
    }

    /// The TTL, if the packet has this header.
    pub fn ttl(&self, ttl: TtlHeader) -> Option<u8> {
        u8::try_from(self.ttl_at(ttl).and_then(|at| self.load(at))?).ok()
    }

    /// Sets the TTL, if the packet has this header.
    pub fn set_ttl(&mut self, ttl: TtlHeader, hops: u8) {
        if let Some(at) = self.ttl_at(ttl) {
            self.store(at, hops.into());
        }
    }

    /// Raises the drop precedence of an assured forwarding class. RFC 2597 §6.
    pub fn raise_drop_precedence(&mut self, levels: u8) {
        let Some(dscp) = self.fields.get(FieldId::IP_DSCP) else { return };
        let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
        if (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0 {
            let precedence = (precedence + u128::from(levels)).min(3);
            self.set_field(&Field::new(FieldId::IP_DSCP, class << 3 | precedence << 1));
        }
    }

    /// Pushes a VLAN tag with the VLAN and priority of the outermost tag.
    pub fn push_vlan(&mut self, ethertype: u16) {
        let tci = if self.layout.is_tagged { [14, 15] } else { [usize::MAX; 2] };
        let tci = tci.map(|at| self.bytes.get(at).copied().unwrap_or_default());
        self.insert(12, &ethertype.to_be_bytes(), &tci);
    }

    /// Pops the outermost VLAN tag, if any.
    pub fn pop_vlan(&mut self) {
        if self.layout.is_tagged {
            self.remove(12, TAG_LEN);
        }
    }

    /// Pushes a label that copies the outermost one; without one, label 0 and the IP TTL.
    pub fn push_mpls(&mut self, ethertype: u16) {
        let at = self.layout.ethertype + 2;
        let below = self.layout.mpls.and_then(|at| self.bytes.get(at..)?.first_chunk().copied());
        let label = match below {
            Some([a, b, c, ttl]) => [a, b, c & !1, ttl],
            None => [0, 0, 1, self.ttl(TtlHeader::Ip).unwrap_or(TTL_DEFAULT)],
        };
        self.set_ethertype(ethertype);
        self.insert(at, &label, &[]);
    }

    /// Pops the outermost label, if any; the Ethernet type becomes `ethertype`.
    pub fn pop_mpls(&mut self, ethertype: u16) {
        if let Some(at) = self.layout.mpls {
            self.set_ethertype(ethertype);
            self.remove(at, TAG_LEN);
        }
    }

    fn set_ethertype(&mut self, ethertype: u16) {
        let at = self.layout.ethertype;
        if let Some(target) = self.bytes.get_mut(at..at + 2) {
            target.copy_from_slice(&ethertype.to_be_bytes());
        }
    }

    fn insert(&mut self, at: usize, first: &[u8], second: &[u8]) {
        if at <= self.bytes.len() {
            self.bytes.splice(at..at, first.iter().chain(second).copied());
            let _ = self.read();
        }
    }

    fn remove(&mut self, at: usize, len: usize) {
        if at + len <= self.bytes.len() {
            self.bytes.drain(at..at + len);
            let _ = self.read();
        }
    }

    /// The fields of the headers, as the match that only such packets have.
    ///
    /// # Cost
    /// Allocates.
    pub fn header_fields(&self) -> Match {
        let is_of_switch =
            |id| [FieldId::IN_PORT, FieldId::METADATA, FieldId::TUNNEL_ID].contains(&id);
        let is_untagged = |field: &Field| field.id == FieldId::VLAN_VID && field.value == 0;
        self.fields.iter().filter(|it| !is_of_switch(it.id) && !is_untagged(it)).collect()
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a frame has an Ethernet header")]
    pub fn len(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }
}

/// `OFPVID_PRESENT`.
const TAG_IS_THERE: u128 = 0x1000;

/// A field of a header.
#[derive(Debug, Clone, Copy)]
struct HeaderField {
    id: FieldId,
    /// Its location, relative to the start of the header.
    location: FieldLocation,
}

/// A field of whole bytes.
const fn whole(id: FieldId, at: usize, bytes: u8) -> HeaderField {
    bits(id, at, bytes, 0, 8 * bytes as u32)
}

/// A field of some bits of these bytes.
const fn bits(id: FieldId, at: usize, bytes: u8, shift: u32, bits: u32) -> HeaderField {
    HeaderField { id, location: FieldLocation { at, bytes: bytes as usize, shift, bits } }
}

/// Fields of the Ethernet header, of the first VLAN tag with it, and of an MPLS label.
const IN_ETHERNET: &[HeaderField] = &[whole(FieldId::ETH_DST, 0, 6), whole(FieldId::ETH_SRC, 6, 6)];
const IN_TAG: &[HeaderField] =
    &[bits(FieldId::VLAN_VID, 14, 2, 0, 12), bits(FieldId::VLAN_PCP, 14, 1, 5, 3)];
const IN_LABEL: &[HeaderField] = &[
    bits(FieldId::MPLS_LABEL, 0, 3, 4, 20),
    bits(FieldId::MPLS_TC, 2, 1, 1, 3),
    bits(FieldId::MPLS_BOS, 2, 1, 0, 1),
];

/// Fields of the header above Ethernet.
const IN_IPV4: &[HeaderField] = &[
    bits(FieldId::IP_DSCP, 1, 1, 2, 6),
    bits(FieldId::IP_ECN, 1, 1, 0, 2),
    whole(FieldId::IPV4_SRC, 12, 4),
    whole(FieldId::IPV4_DST, 16, 4),
];
const IN_IPV6: &[HeaderField] = &[
    bits(FieldId::IP_DSCP, 0, 2, 6, 6),
    bits(FieldId::IP_ECN, 0, 2, 4, 2),
    whole(FieldId::IPV6_SRC, 8, 16),
    whole(FieldId::IPV6_DST, 24, 16),
    bits(FieldId::IPV6_FLABEL, 1, 3, 0, 20),
];
const IN_ARP: &[HeaderField] = &[
    whole(FieldId::ARP_OP, 6, 2),
    whole(FieldId::ARP_SPA, 14, 4),
    whole(FieldId::ARP_TPA, 24, 4),
    whole(FieldId::ARP_SHA, 8, 6),
    whole(FieldId::ARP_THA, 18, 6),
];

/// Fields of the header above IP.
const IN_TCP: &[HeaderField] = &[
    whole(FieldId::TCP_SRC, 0, 2),
    whole(FieldId::TCP_DST, 2, 2),
    bits(FieldId::TCP_FLAGS, 12, 2, 0, 12),
];
const IN_UDP: &[HeaderField] = &[whole(FieldId::UDP_SRC, 0, 2), whole(FieldId::UDP_DST, 2, 2)];
const IN_SCTP: &[HeaderField] = &[whole(FieldId::SCTP_SRC, 0, 2), whole(FieldId::SCTP_DST, 2, 2)];
const IN_ICMPV4: &[HeaderField] =
    &[whole(FieldId::ICMPV4_TYPE, 0, 1), whole(FieldId::ICMPV4_CODE, 1, 1)];
const IN_ICMPV6: &[HeaderField] =
    &[whole(FieldId::ICMPV6_TYPE, 0, 1), whole(FieldId::ICMPV6_CODE, 1, 1)];

/// Fields of neighbour discovery, whose location depends on the message.
const IN_NEIGHBOUR_DISCOVERY: [FieldId; 3] =
    [FieldId::IPV6_ND_TARGET, FieldId::IPV6_ND_SLL, FieldId::IPV6_ND_TLL];

/// All fields at fixed offsets in the bytes of frames.
const IN_FRAMES: [&[HeaderField]; 11] = [
    IN_ETHERNET,
    IN_TAG,
    IN_LABEL,
    IN_IPV4,
    IN_IPV6,
    IN_ARP,
    IN_TCP,
    IN_UDP,
    IN_SCTP,
    IN_ICMPV4,
    IN_ICMPV6,
];

/// Whether a field can be set. SCTP ports cannot, since their checksum is not updated.
pub fn can_set(id: FieldId) -> bool {
    let id = id.canonical();
    let read_only = [FieldId::MPLS_BOS, FieldId::TCP_FLAGS, FieldId::SCTP_SRC, FieldId::SCTP_DST];
    matches!(id, FieldId::METADATA | FieldId::TUNNEL_ID)
        || IN_NEIGHBOUR_DISCOVERY.contains(&id)
        || (IN_FRAMES.iter().copied().flatten().any(|it| it.id == id) && !read_only.contains(&id))
}

const fn low_bits(n: u32) -> u128 {
    if n < 128 { (1 << n) - 1 } else { u128::MAX }
}

impl HeaderLayout {
    fn of(frame: &[u8]) -> Option<Self> {
        Self::of_usual(frame).or_else(|| Self::of_any(frame))
    }

    /// The layout of a complete TCP or UDP packet in an IPv4 header without options, and without tags: as [`of_any`](Self::of_any)
    /// finds it, in a tenth of the time.
    fn of_usual(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<34>()?;
        let ip_len = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let is_fragment = u16::from_be_bytes([head[20], head[21]]) & 0x3fff != 0;
        if head[12..15] != [0x08, 0x00, 0x45] || is_fragment || ETHERNET_LEN + ip_len > frame.len()
        {
            return None;
        }
        let (transport, header_len) = match head[23] {
            6 => (TransportHeader::Tcp, TCP_LEN),
            17 => (TransportHeader::Udp, UDP_LEN),
            _ => return None,
        };
        (ip_len >= IPV4_LEN + header_len).then_some(Self {
            is_tagged: false,
            ethertype: ETHERNET_LEN - 2,
            mpls: None,
            net: Some((NetworkHeader::Ipv4, ETHERNET_LEN)),
            protocol: Some(head[23]),
            transport: Some((transport, ETHERNET_LEN + IPV4_LEN)),
        })
    }

    /// The layout of any frame.
    fn of_any(frame: &[u8]) -> Option<Self> {
        let packet = LaxSlicedPacket::from_ethernet(frame).ok()?;
        let at = |part: &[u8]| part.as_ptr().addr().saturating_sub(frame.as_ptr().addr());
        let is_tag = |ext: &&LaxLinkExtSlice<'_>| matches!(ext, LaxLinkExtSlice::Vlan(_));
        let tags = packet.link_exts.iter().take_while(is_tag).count();
        let ethertype = ETHERNET_LEN - 2 + tags * TAG_LEN;
        let kind = frame.get(ethertype..)?.first_chunk().map(|kind| u16::from_be_bytes(*kind))?;
        let above = ethertype + 2;
        let has_label = MPLS.contains(&kind) && frame.len() >= above + TAG_LEN;
        let net = packet.net.as_ref().and_then(|net| match net {
            LaxNetSlice::Ipv4(it) => Some((NetworkHeader::Ipv4, at(it.header().slice()))),
            LaxNetSlice::Ipv6(it) => Some((NetworkHeader::Ipv6, at(it.header().slice()))),
            // The ARP fields are those of IPv4 over Ethernet.
            LaxNetSlice::Arp(it) if it.slice().get(4..6) == Some(&[6, 4]) => {
                Some((NetworkHeader::Arp, at(it.slice())))
            }
            LaxNetSlice::Arp(_) => None,
        });
        let payload = packet.ip_payload();
        let transport = payload.filter(|payload| !payload.fragmented).and_then(|payload| {
            let (transport, needs) = match payload.ip_number {
                IpNumber::TCP => (TransportHeader::Tcp, TCP_LEN),
                IpNumber::UDP => (TransportHeader::Udp, UDP_LEN),
                IpNumber::SCTP => (TransportHeader::Sctp, 12),
                IpNumber::ICMP => (TransportHeader::Icmpv4, 4),
                IpNumber::IPV6_ICMP => (TransportHeader::Icmpv6, 4),
                _ => return None,
            };
            (payload.payload.len() >= needs).then(|| (transport, at(payload.payload)))
        });
        Some(Self {
            is_tagged: tags > 0,
            ethertype,
            mpls: has_label.then_some(above),
            net,
            protocol: payload.map(|payload| payload.ip_number.0),
            transport,
        })
    }

    /// The headers of the frame: where each starts, and its fields.
    fn headers(&self) -> [(usize, &'static [HeaderField]); 5] {
        let (net, transport) = (self.net, self.transport);
        [
            (0, IN_ETHERNET),
            (0, if self.is_tagged { IN_TAG } else { &[] }),
            self.mpls.map_or((0, &[]), |at| (at, IN_LABEL)),
            net.map_or((0, &[]), |(header, at)| match header {
                NetworkHeader::Ipv4 => (at, IN_IPV4),
                NetworkHeader::Ipv6 => (at, IN_IPV6),
                NetworkHeader::Arp => (at, IN_ARP),
            }),
            transport.map_or((0, &[]), |(header, at)| match header {
                TransportHeader::Tcp => (at, IN_TCP),
                TransportHeader::Udp => (at, IN_UDP),
                TransportHeader::Sctp => (at, IN_SCTP),
                TransportHeader::Icmpv4 => (at, IN_ICMPV4),
                TransportHeader::Icmpv6 => (at, IN_ICMPV6),
            }),
        ]
    }

    /// Whether the frame may have fields of neighbour discovery.
    fn is_icmpv6(&self) -> bool {
        matches!(self.transport, Some((TransportHeader::Icmpv6, _)))
    }

    /// Where the canonical field `id` is.
    fn locate(&self, id: FieldId, frame: &[u8]) -> Option<FieldLocation> {
        let in_header = self.headers().into_iter().find_map(|(at, fields)| {
            fields.iter().find(|it| it.id == id).map(|it| it.location.after(at))
        });
        in_header.or_else(|| self.locate_neighbour_discovery(id, frame))
    }

    /// Where a field of neighbour discovery is. RFC 4861 §4.3, §4.4.
    fn locate_neighbour_discovery(&self, id: FieldId, frame: &[u8]) -> Option<FieldLocation> {
        let Some((TransportHeader::Icmpv6, at)) = self.transport else { return None };
        let message = frame.get(at..)?;
        let solicits = match message.first()? {
            135 => true,
            136 => false,
            _ => return None,
        };
        let location = match id {
            FieldId::IPV6_ND_TARGET if message.len() >= 24 => whole(id, 8, 16),
            FieldId::IPV6_ND_SLL if solicits => whole(id, option(message, 1)?, 6),
            FieldId::IPV6_ND_TLL if !solicits => whole(id, option(message, 2)?, 6),
            _ => return None,
        };
        Some(location.location.after(at))
    }

    /// The checksums that cover the byte at `at`.
    fn checksums(&self, at: usize, frame: &[u8]) -> [Option<usize>; 2] {
        let transport = self.transport.and_then(|(transport, start)| match transport {
            TransportHeader::Tcp => Some((start, start + 16)),
            TransportHeader::Udp => Some((start, start + 6)),
            TransportHeader::Icmpv4 | TransportHeader::Icmpv6 => Some((start, start + 2)),
            TransportHeader::Sctp => None,
        });
        let is_icmpv4 = matches!(self.transport, Some((TransportHeader::Icmpv4, _)));
        let (of_net, is_address) = match self.net {
            Some((NetworkHeader::Ipv4, net)) => (
                (net..net + 20).contains(&at).then_some(net + 10),
                (net + 12..net + 20).contains(&at) && !is_icmpv4,
            ),
            Some((NetworkHeader::Ipv6, net)) => (None, (net + 8..net + 40).contains(&at)),
            _ => (None, false),
        };
        let of_transport =
            transport.filter(|&(start, _)| is_address || (at >= start && at < frame.len()));
        [of_net, of_transport.map(|(_, checksum)| checksum)]
    }
}

/// The offset of the address in the option `kind` of a neighbour discovery message. RFC 4861 §4.6.1.
fn option(message: &[u8], kind: u8) -> Option<usize> {
    let mut at = 24;
    loop {
        let [found, eights] = *message.get(at..)?.first_chunk()?;
        let len = 8 * usize::from(eights);
        if len == 0 {
            return None;
        }
        if found == kind {
            return (message.len() >= at + 8).then_some(at + 2);
        }
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Frames near the usual ones: a byte or two of a UDP or TCP packet are changed, or it is cut off.
        #[test]
        fn the_layout_of_usual_frames_is_that_of_any(
            protocol in prop_oneof![Just(6u8), Just(17u8)],
            ip_len in prop_oneof![Just(46u16), 0..80u16],
            changes in proptest::collection::vec((12..38usize, any::<u8>()), 0..3),
            len in 14..80usize,
        ) {
            let mut frame = vec![0; 80];
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
            frame[23] = protocol;
            for (at, value) in changes {
                frame[at] = value;
            }
            frame.truncate(len);
            if let Some(usual) = HeaderLayout::of_usual(&frame) {
                prop_assert_eq!(Some(usual), HeaderLayout::of_any(&frame));
            }
        }
    }
}
