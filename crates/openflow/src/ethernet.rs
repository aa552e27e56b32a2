//! MAC addresses and the header of an Ethernet frame. IEEE 802.3, IEEE 802.1Q.

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A MAC address. IEEE 802 §8.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Parses six pairs of hex digits separated by colons: `02:00:00:00:00:01`.
    pub fn from_text(text: &str) -> Option<Self> {
        let (mut bytes, mut parts) = ([0; 6], text.split(':'));
        for byte in &mut bytes {
            let digits = parts.next().filter(|d| (1..=2).contains(&d.len()) && !d.contains('+'))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }

    /// The address whose 48 bits are the low bits of `n`.
    pub const fn from_u64(n: u64) -> Self {
        let [_, _, bytes @ ..] = n.to_be_bytes();
        Self(bytes)
    }

    /// The address as a 48-bit number.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let o = self.0;
        u64::from_be_bytes([0, 0, o[0], o[1], o[2], o[3], o[4], o[5]])
    }

    /// The address in the format of [`EthHeader::dst_bits`].
    #[inline]
    pub fn bits(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }

    /// Whether this is a multicast address or the broadcast address. IEEE 802 §8.2.2.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether a bridge must not forward frames to this address. IEEE 802.1D §7.12.6.
    #[inline]
    pub const fn is_bridge_reserved(self) -> bool {
        self.to_u64() & !0xf == 0x0180_c200_0000
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = self.0;
        write!(f, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", o[0], o[1], o[2], o[3], o[4], o[5])
    }
}

/// A VLAN ID, 12 bits; 0 for frames without a tag or with a priority tag only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct VlanId(pub u16);

/// An Ethernet type: the protocol that a frame carries. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// A C-tag follows. IEEE 802.1Q §9.6.
    pub const VLAN: Self = Self(0x8100);
    /// An S-tag follows. IEEE 802.1Q §9.6.
    pub const QINQ: Self = Self(0x88a8);
    /// IPv4. RFC 894.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6. RFC 2464.
    pub const IPV6: Self = Self(0x86dd);
    /// ARP. RFC 826.
    pub const ARP: Self = Self(0x0806);
    /// LACP and other slow protocols. IEEE 802.3, annex 57A.
    pub const SLOW_PROTOCOLS: Self = Self(0x8809);
    /// LLDP. IEEE 802.1AB.
    pub const LLDP: Self = Self(0x88cc);
    /// The second type for local experiments. IEEE 802 §9.2.4.
    pub const EXPERIMENT_2: Self = Self(0x88b6);

    #[inline]
    fn is_tag(ethertype: U16) -> bool {
        ethertype == U16::new(Self::VLAN.0) || ethertype == U16::new(Self::QINQ.0)
    }
}

/// The first 14 bytes of an Ethernet frame, read in place.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EthHeader {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    ethertype: U16,
}

impl EthHeader {
    /// Whether a VLAN tag follows the addresses.
    #[inline]
    pub fn is_tagged(&self) -> bool {
        EtherType::is_tag(self.ethertype)
    }

    /// The type field after the addresses; that of the tag if there is one.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }

    /// The destination as a number, for comparison and hashing only: the byte order is unspecified, the low 16 bits are 0.
    /// Costs a single load.
    #[inline]
    pub fn dst_bits(&self) -> u64 {
        self.as_bytes().first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes) << 16)
    }

    /// The source in the same format.
    #[inline]
    pub fn src_bits(&self) -> u64 {
        let (_, bytes) = self.as_bytes().split_at(6);
        bytes.first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes) << 16)
    }

    /// An address in the same format.
    pub fn bits_of_mac(mac: MacAddr) -> u64 {
        mac.0.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)) << 16
    }

    /// The address that is `bits` in this format. The low 16 bits do not matter.
    pub fn mac_of_bits(bits: u64) -> MacAddr {
        MacAddr(bits.to_le_bytes().last_chunk().copied().unwrap_or_default())
    }
}

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Tag {
    tci: U16,
    ethertype: U16,
}

/// Addresses and outermost VLAN of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet<'a> {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// The header in the frame.
    pub header: &'a EthHeader,
    /// VLAN ID of the outermost tag, 0 without a tag.
    pub vlan: VlanId,
    /// Whether the frame has a tag, even one for VLAN 0.
    pub tagged: bool,
    /// The type after the addresses and the outermost tag.
    pub ethertype: EtherType,
}

impl<'a> Ethernet<'a> {
    /// Parses the start of `frame`, which may be truncated; `None` if it is shorter than its header.
    #[inline]
    pub fn new(frame: &'a [u8]) -> Option<Self> {
        let (header, rest) = EthHeader::ref_from_prefix(frame).ok()?;
        let EthHeader { dst, src, ethertype } = *header;
        let (vlan, tagged, ethertype) = (VlanId(0), false, EtherType(ethertype.get()));
        let untagged = Self { dst, src, header, vlan, tagged, ethertype };
        if !header.is_tagged() {
            return Some(untagged);
        }
        let (tag, _) = Tag::ref_from_prefix(rest).ok()?;
        Some(Self {
            vlan: VlanId(tag.tci.get() & 0x0fff),
            tagged: true,
            ethertype: EtherType(tag.ethertype.get()),
            ..untagged
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_tag_is_the_vlan() {
        let frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0xe0, 5, 8, 0];
        let eth = Ethernet::new(&frame).unwrap();
        assert_eq!((eth.vlan, eth.tagged, eth.ethertype), (VlanId(5), true, EtherType::IPV4));
        assert_eq!(eth.src.to_string(), "02:00:00:00:00:02");
        assert_eq!(Ethernet::new(&frame[..13]), None);
        assert_eq!(Ethernet::new(&frame[..17]), None);
    }

    #[test]
    fn the_sixteen_reserved_addresses_are_known() {
        assert!(MacAddr::from_u64(0x0180_c200_0000).is_bridge_reserved());
        assert!(MacAddr::from_u64(0x0180_c200_000f).is_bridge_reserved());
        assert!(!MacAddr::from_u64(0x0180_c200_0010).is_bridge_reserved());
        assert!(MacAddr::BROADCAST.is_group() && !MacAddr::BROADCAST.is_bridge_reserved());
    }
}
