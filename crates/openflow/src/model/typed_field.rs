//! Values of fields by their proper types, such as addresses and ports.
//!
//! The constructors and getters, one for each field, are generated from the rows of the [table](super::field_table).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::field::{Field, FieldId};
use super::matching::Match;
use crate::{MacAddr, PortNo, VlanId};

/// A type that values of fields can have.
pub trait FieldValue: Copy + private::Sealed {
    /// The value as a number.
    fn to_bits(self) -> u128;

    /// The value that is `bits` as a number; `None` if it does not fit.
    fn from_bits(bits: u128) -> Option<Self>;
}

mod private {
    pub trait Sealed {
        /// Whether masks are written as a prefix length where possible.
        const IS_IP: bool = false;
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl private::Sealed for $t {}

        impl FieldValue for $t {
            fn to_bits(self) -> u128 {
                self.into()
            }

            fn from_bits(bits: u128) -> Option<Self> {
                bits.try_into().ok()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128);

impl private::Sealed for MacAddr {}

impl FieldValue for MacAddr {
    fn to_bits(self) -> u128 {
        self.to_u64().into()
    }

    fn from_bits(bits: u128) -> Option<Self> {
        u64::from_bits(bits).filter(|bits| bits >> 48 == 0).map(Self::from_u64)
    }
}

impl private::Sealed for Ipv4Addr {
    const IS_IP: bool = true;
}

impl FieldValue for Ipv4Addr {
    fn to_bits(self) -> u128 {
        u32::from(self).into()
    }

    fn from_bits(bits: u128) -> Option<Self> {
        u32::from_bits(bits).map(Self::from)
    }
}

impl private::Sealed for Ipv6Addr {
    const IS_IP: bool = true;
}

impl FieldValue for Ipv6Addr {
    fn to_bits(self) -> u128 {
        self.into()
    }

    fn from_bits(bits: u128) -> Option<Self> {
        Some(Self::from(bits))
    }
}

impl private::Sealed for PortNo {}

impl FieldValue for PortNo {
    fn to_bits(self) -> u128 {
        self.0.into()
    }

    fn from_bits(bits: u128) -> Option<Self> {
        u32::from_bits(bits).map(Self)
    }
}

/// A value and the bits of it that are matched.
///
/// ```
/// use sluice_openflow::Match;
///
/// let matching: Match = "ip,nw_src=10.1.0.0/16".parse()?;
/// let source = matching.masked().ipv4_src().unwrap();
/// assert_eq!((source.value, source.prefix_len()), ([10, 1, 0, 0].into(), Some(16)));
/// assert!(source.matches([10, 1, 2, 3].into()) && !source.matches([10, 2, 0, 1].into()));
/// assert_eq!(source.to_string(), "10.1.0.0/16");
/// # Ok::<(), sluice_openflow::text::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Masked<T> {
    /// The value; 0 in the bits that are not matched.
    pub value: T,
    /// Ones in the bits that are matched; all ones for an exact match.
    pub mask: T,
    /// Width of the field in bits.
    pub width: u8,
}

impl<T: FieldValue> Masked<T> {
    fn of(field: &Field) -> Option<Self> {
        let ones = field.significant_bits();
        let mask = field.mask.unwrap_or(ones) & ones;
        let width = u8::try_from(ones.count_ones()).ok()?;
        Some(Self { value: T::from_bits(field.value & mask)?, mask: T::from_bits(mask)?, width })
    }

    /// Whether all bits are matched.
    pub fn is_exact(self) -> bool {
        self.mask.to_bits().count_ones() == u32::from(self.width)
    }

    /// The value, if all bits are matched.
    pub fn exact(self) -> Option<T> {
        self.is_exact().then_some(self.value)
    }

    /// Number of leading bits that are matched, if no others are: 24 for `10.0.0.0/24`.
    pub fn prefix_len(self) -> Option<u8> {
        let mask = self.mask.to_bits().checked_shl(128 - u32::from(self.width)).unwrap_or(0);
        let ones = mask.leading_ones();
        u8::try_from(ones).ok().filter(|_| ones == mask.count_ones())
    }

    /// Whether the matched bits of `value` are those of this value.
    pub fn matches(self, value: T) -> bool {
        value.to_bits() & self.mask.to_bits() == self.value.to_bits()
    }
}

/// The value, followed by `/` and the mask, or the length of the prefix for IP addresses, if it is not an exact match.
impl<T: FieldValue + fmt::Display> fmt::Display for Masked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)?;
        match self.prefix_len() {
            _ if self.is_exact() => Ok(()),
            Some(len) if T::IS_IP => write!(f, "/{len}"),
            _ => write!(f, "/{}", self.mask),
        }
    }
}

/// Typed access to the values and masks of a match, from [`Match::masked`].
#[derive(Debug, Clone, Copy)]
pub struct MaskedFields<'a> {
    matching: &'a Match,
}

impl MaskedFields<'_> {
    /// Value and mask of the field `id`; `None` if it is absent, or its value is not a `T`.
    pub fn value<T: FieldValue>(self, id: FieldId) -> Option<Masked<T>> {
        self.matching.get(id).and_then(Masked::of)
    }
}

impl Match {
    /// Typed access to values with their masks.
    ///
    /// ```
    /// use sluice_openflow::{Field, MacAddr, Match};
    ///
    /// let multicast = MacAddr([1, 0, 0, 0, 0, 0]);
    /// let matching = Match::from([Field::eth_dst(multicast).with_mask(multicast)]);
    /// assert_eq!(matching.eth_dst(), None);
    /// assert!(matching.masked().eth_dst().is_some_and(|dst| dst.matches(MacAddr::BROADCAST)));
    /// ```
    pub fn masked(&self) -> MaskedFields<'_> {
        MaskedFields { matching: self }
    }

    /// The value of the field `id` if it is matched exactly; `None` if it is absent or masked, or its value is not a `T`.
    pub fn value<T: FieldValue>(&self, id: FieldId) -> Option<T> {
        self.get(id)?.value_as()
    }

    /// The VLAN, if exactly one is matched: `VlanId(0)` for packets without a tag.
    pub fn vlan(&self) -> Option<VlanId> {
        self.vlan_vid().map(|vid| VlanId(vid & 0x0fff))
    }
}

impl Field {
    /// The value, if it is matched exactly and is a `T`.
    pub fn value_as<T: FieldValue>(&self) -> Option<T> {
        T::from_bits(self.value).filter(|_| self.is_exact())
    }

    /// The same field, matching only the bits that are ones in `mask`.
    #[must_use]
    pub fn with_mask<T: FieldValue>(self, mask: T) -> Self {
        let mask = mask.to_bits();
        Self { value: self.value & mask, ..self }.masked(mask)
    }

    /// The same field, matching only the leading `len` bits: `Field::ipv4_dst(addr).with_prefix(24)`.
    ///
    /// With `len` of the width of the field or more, the match is exact.
    #[must_use]
    pub fn with_prefix(self, len: u8) -> Self {
        let ones = self.significant_bits();
        if u32::from(len) >= ones.count_ones() {
            return self;
        }
        self.with_mask(ones & !(ones >> len))
    }
}

/// The type of a field's value, by its text format and length in bytes.
macro_rules! value_type {
    (Mac $bytes:tt) => {
        $crate::MacAddr
    };
    (Ipv4 $bytes:tt) => {
        core::net::Ipv4Addr
    };
    (Ipv6 $bytes:tt) => {
        core::net::Ipv6Addr
    };
    (Port 4) => {
        $crate::PortNo
    };
    ($format:ident 1) => {
        u8
    };
    ($format:ident 2) => {
        u16
    };
    ($format:ident 3) => {
        u32
    };
    ($format:ident 4) => {
        u32
    };
    ($format:ident 8) => {
        u64
    };
    ($format:ident 16) => {
        u128
    };
}

/// The value as a number, in constant functions.
macro_rules! value_bits {
    ($value:ident Mac $bytes:tt) => {
        $value.to_u64() as u128
    };
    ($value:ident Ipv4 $bytes:tt) => {
        $value.to_bits() as u128
    };
    ($value:ident Ipv6 $bytes:tt) => {
        $value.to_bits()
    };
    ($value:ident Port 4) => {
        $value.0 as u128
    };
    ($value:ident $format:ident 16) => {
        $value
    };
    ($value:ident $format:ident $bytes:tt) => {
        $value as u128
    };
}

/// The constructor of a field. Fields of variable length have none.
macro_rules! constructor {
    ($konst:ident $name:ident $format:ident 124; $bits:literal, $section:literal) => {};
    ($konst:ident $name:ident $format:ident $bytes:tt; $bits:literal, $section:literal) => {
        #[doc = concat!("The field `", stringify!($name), "` with this value, ", $bits, " bits. ", $section, ".")]
        #[inline]
        pub const fn $name(value: $crate::model::typed_field::value_type!($format $bytes)) -> Self {
            let bits = $crate::model::typed_field::value_bits!(value $format $bytes);
            Self::exact(FieldId::$konst, $bytes, bits)
        }
    };
}

/// The getter for the value of an exactly matched field. That of the ingress port also finds Nicira's field.
macro_rules! exact_getter {
    ($konst:ident $name:ident $format:ident 124; $bits:literal, $section:literal) => {};
    (IN_PORT $name:ident $format:ident $bytes:tt; $bits:literal, $section:literal) => {};
    ($konst:ident $name:ident $format:ident $bytes:tt; $bits:literal, $section:literal) => {
        #[doc = concat!("The value of `", stringify!($name), "` if it is matched exactly, ", $bits, " bits. ", $section, ".")]
        pub fn $name(&self) -> Option<$crate::model::typed_field::value_type!($format $bytes)> {
            self.value(FieldId::$konst)
        }
    };
}

/// The getter for value and mask of a field that can have a mask.
macro_rules! masked_getter {
    ($konst:ident $name:ident $format:ident 124 $masks:ident; $bits:literal, $section:literal) => {};
    ($konst:ident $name:ident $format:ident $bytes:tt No; $bits:literal, $section:literal) => {};
    ($konst:ident $name:ident $format:ident $bytes:tt $masks:ident; $bits:literal, $section:literal) => {
        #[doc = concat!("Value and mask of `", stringify!($name), "`, ", $bits, " bits. ", $section, ".")]
        pub fn $name(
            self,
        ) -> Option<$crate::Masked<$crate::model::typed_field::value_type!($format $bytes)>> {
            self.value(FieldId::$konst)
        }
    };
}

pub(crate) use {constructor, exact_getter, masked_getter, value_bits, value_type};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructed_fields_have_the_length_of_their_row() {
        for (field, id) in [
            (Field::in_port(PortNo(7)), FieldId::IN_PORT),
            (Field::eth_dst(MacAddr::BROADCAST), FieldId::ETH_DST),
            (Field::ipv4_src([10, 0, 0, 1].into()), FieldId::IPV4_SRC),
            (Field::ipv6_dst(1.into()), FieldId::IPV6_DST),
            (Field::tcp_dst(7), FieldId::TCP_DST),
            (Field::pbb_isid(7), FieldId::PBB_ISID),
            (Field::metadata(7), FieldId::METADATA),
            (Field::ct_label(7), FieldId::CT_LABEL),
        ] {
            assert_eq!(field, Field::new(id, field.value));
        }
    }

    #[test]
    fn getters_return_what_constructors_were_given() {
        let (mac, v4, v6) = (MacAddr([2, 0, 0, 0, 0, 9]), [10, 0, 0, 1].into(), 1.into());
        let matching = Match::from([
            Field::in_port(PortNo::LOCAL),
            Field::eth_src(mac),
            Field::vlan(VlanId(5)),
            Field::ipv4_dst(v4),
            Field::ipv6_src(v6),
            Field::tcp_dst(80),
        ]);
        assert_eq!(matching.in_port(), Some(PortNo::LOCAL));
        assert_eq!((matching.eth_src(), matching.eth_dst()), (Some(mac), None));
        assert_eq!((matching.vlan_vid(), matching.vlan()), (Some(0x1005), Some(VlanId(5))));
        assert_eq!((matching.ipv4_dst(), matching.ipv6_src()), (Some(v4), Some(v6)));
        assert_eq!((matching.tcp_dst(), matching.udp_dst()), (Some(80), None));
        assert_eq!(matching.value::<u8>(FieldId::ETH_SRC), None);
    }

    #[test]
    fn masks_are_prefixes_or_other_bits() {
        let v4: Ipv4Addr = [10, 1, 2, 3].into();
        let text = |field: Field| {
            let matching = Match::from([field]);
            matching.masked().ipv4_src().map(|source| source.to_string()).unwrap_or_default()
        };
        assert_eq!(text(Field::ipv4_src(v4)), "10.1.2.3");
        assert_eq!(text(Field::ipv4_src(v4).with_prefix(32)), "10.1.2.3");
        assert_eq!(text(Field::ipv4_src(v4).with_prefix(24)), "10.1.2.0/24");
        assert_eq!(text(Field::ipv4_src(v4).with_prefix(0)), "0.0.0.0/0");
        let odd = Ipv4Addr::from([255, 0, 0, 255]);
        assert_eq!(text(Field::ipv4_src(v4).with_mask(odd)), "10.0.0.3/255.0.0.255");
        let all: Ipv6Addr = u128::MAX.into();
        let v6 = Match::from([Field::ipv6_dst(all).with_prefix(64)]);
        assert_eq!(v6.masked().ipv6_dst().and_then(Masked::prefix_len), Some(64));
        assert_eq!(v6.ipv6_dst(), None);
        let tagged = Match::from([Field::tagged()]);
        assert_eq!(tagged.vlan(), None);
        assert_eq!(
            tagged.masked().vlan_vid().map(|vid| (vid.value, vid.mask, vid.width)),
            Some((0x1000, 0x1000, 13))
        );
    }
}
