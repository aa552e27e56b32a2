//! Fields that rules match and actions set. §7.2.3.7.

use core::cmp::Ordering;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use super::codec::{NICIRA, ONF};
use crate::{MacAddr, PortNo, Version, VlanId};

/// A field by its header: class, number within it, and whose class it is. An open set. §7.2.3.2.
///
/// Some fields have more than one header, Nicira's beside OpenFlow's; [`canonical`](Self::canonical) is the one that
/// the constants here are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldId {
    /// `OFPXMC_*`.
    pub class: u16,
    /// Number within the class, 7 bits; [`COOKIE`](Self::COOKIE) has an eighth, which the wire does not.
    pub number: u8,
    /// Whose class it is if it is an experimenter's, otherwise 0.
    pub experimenter: u32,
}

/// `OFPXMC_EXPERIMENTER`.
pub(crate) const EXPERIMENTER: u16 = 0xffff;

/// Whose header the Network Service Header's fields have.
const NSH: u32 = 0x005a_d650;

/// How a value is written in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFormat {
    /// A decimal number.
    Decimal,
    /// A hexadecimal number.
    Hex,
    /// An IEEE 802 address.
    Mac,
    /// An address, its mask as a number of leading bits where it is one.
    Ipv4,
    /// An address, its mask as a number of leading bits where it is one.
    Ipv6,
    /// A port by name or number.
    Port,
    /// The number of a VLAN in decimal, `none` without a tag, `any` with one; hexadecimal is the field as it is.
    Vlan,
    /// Flags by name.
    Flags(&'static [(&'static str, u32)]),
    /// A name space and a type in it, `(1,0x800)`.
    PacketType,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Frag,
}

/// Whether a mask may come with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskSupport {
    /// None.
    No,
    /// Open vSwitch takes any, the specification none.
    Nicira,
    /// Any.
    Any,
}

/// What must be matched together with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prerequisite {
    /// A field, whatever its value.
    Present(FieldId),
    /// A field, with one of these values.
    OneOf(FieldId, &'static [u128]),
    /// A field, with these bits set.
    Bits(FieldId, u128),
}

/// All of it.
pub type Prerequisites = &'static [Prerequisite];

impl Prerequisite {
    /// The field it is about.
    pub const fn id(self) -> FieldId {
        match self {
            Self::Present(id) | Self::OneOf(id, _) | Self::Bits(id, _) => id,
        }
    }

    /// Whether `field` is what is needed.
    pub fn is_met_by(self, field: &Field) -> bool {
        let mask = field.mask.unwrap_or(u128::MAX);
        field.id.same_as(self.id())
            && match self {
                Self::Present(_) => true,
                Self::OneOf(_, values) => field.is_exact() && values.contains(&field.value),
                Self::Bits(_, bits) => field.value & mask & bits == bits,
            }
    }
}

impl core::fmt::Display for Prerequisite {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = self.id().name();
        match self {
            Self::Present(_) => f.write_str(&name),
            Self::OneOf(id, values) => {
                for (n, value) in values.iter().enumerate() {
                    let field = Field::new(*id, *value);
                    write!(f, "{}{name}={}", if n > 0 { " or " } else { "" }, field.value_text())?;
                }
                Ok(())
            }
            Self::Bits(id, bits) => {
                let field = Field::new(*id, *bits).masked(*bits);
                write!(f, "{name}={}", field.value_text())
            }
        }
    }
}

/// One of the headers that a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldHeaderRow {
    /// The header.
    pub id: FieldId,
    /// Name as Open vSwitch spells it, `OXM_OF_ETH_DST`.
    pub name: &'static str,
    /// The first version with it; Nicira's stand in its own messages of any version.
    pub since: Version,
}

/// What there is to know of one field.
#[derive(Debug, Clone, Copy)]
pub struct FieldRow {
    /// The field's own header.
    pub id: FieldId,
    /// Name in text and neutral form: the specification's in lower case.
    pub name: &'static str,
    /// Significant bits.
    pub bits: u16,
    /// Bytes of a value; the most there may be if [`is_variable`](Self::is_variable).
    pub bytes: u8,
    /// How values are written.
    pub format: FieldFormat,
    /// Whether masks are allowed.
    pub masks: MaskSupport,
    /// The first version whose own match can have it.
    pub since: Version,
    /// What must be matched as well.
    pub prerequisites: Prerequisites,
    /// All its headers, its own first.
    pub headers: &'static [FieldHeaderRow],
    /// Other names that `ovs-ofctl` knows it by.
    pub aliases: &'static [&'static str],
    /// Who says so.
    pub section: &'static str,
}

impl FieldRow {
    /// Whether values may have fewer bytes.
    pub const fn is_variable(&self) -> bool {
        self.bytes > 16
    }

    /// Nicira's header of the field, if it has one.
    pub fn nxm(&self) -> Option<FieldId> {
        self.headers.iter().map(|header| header.id).find(|id| id.class <= 1)
    }

    /// Whether a mask may come with it, in Open vSwitch at least.
    pub fn maskable(&self) -> bool {
        self.masks != MaskSupport::No
    }
}

/// The rows, from which the constants are made as well.
macro_rules! fields {
    ($($konst:ident: $name:literal, $bits:literal in $bytes:literal, $form:ident $(($of:ident))?, $masks:ident,
        $since:ident, $needs:ident,
        [$own:ident($number:literal, $osince:ident) $(, $header:ident($hnumber:literal, $hsince:ident))*],
        [$($aka:literal),*],
        $section:literal;)*) => {
        impl FieldId {
            $(#[doc = concat!("`", $name, "`, ", stringify!($bits), " bits. ", $section, ".")]
            pub const $konst: Self = super::field::header_id(stringify!($own), $number);)*

            /// Every field that has a name.
            pub const ROWS: &'static [super::field::FieldRow] = ROWS;
        }

        /// As [`FieldId::ROWS`], at one address.
        static ROWS: &[super::field::FieldRow] = &[$(super::field::FieldRow {
                id: FieldId::$konst,
                name: $name,
                bits: $bits,
                bytes: $bytes,
                format: FieldFormat::$form $(($of))?,
                masks: MaskSupport::$masks,
                since: Version::$since,
                prerequisites: $needs,
                headers: &[
                    super::field::FieldHeaderRow {
                        id: FieldId::$konst,
                        name: stringify!($own),
                        since: Version::$osince,
                    },
                    $(super::field::FieldHeaderRow {
                        id: super::field::header_id(stringify!($header), $hnumber),
                        name: stringify!($header),
                        since: Version::$hsince,
                    },)*
                ],
                aliases: &[$($aka),*],
                section: $section,
            }),*];
    };
}

pub(crate) use fields;

/// The classes, by how the names of their headers start; the longest first.
const CLASSES: &[(&str, u16, u32)] = &[
    ("OXM_OF_PKT_REG", 0x8001, 0),
    ("OXM_OF_", 0x8000, 0),
    ("NXM_OF_", 0, 0),
    ("NXM_NX_", 1, 0),
    ("ERICOXM_OF_", 0x1000, 0),
    ("ONFOXM_ET_", EXPERIMENTER, ONF),
    ("NXOXM_ET_", EXPERIMENTER, NICIRA),
    ("NXOXM_NSH_", EXPERIMENTER, NSH),
];

const fn starts_with(mut text: &[u8], mut start: &[u8]) -> bool {
    while let [a, after @ ..] = start {
        match text {
            [b, rest @ ..] if *a == *b => (text, start) = (rest, after),
            _ => return false,
        }
    }
    true
}

/// The header numbered `number` in the class that its name starts with.
pub(super) const fn header_id(name: &str, number: u8) -> FieldId {
    let mut classes = CLASSES;
    while let [(start, class, experimenter), rest @ ..] = classes {
        if starts_with(name.as_bytes(), start.as_bytes()) {
            return FieldId { class: *class, number, experimenter: *experimenter };
        }
        classes = rest;
    }
    FieldId { class: 0, number: u8::MAX, experimenter: 0 }
}

/// A row with its place in the table, and one of its headers.
type Header = (usize, &'static FieldRow, &'static FieldHeaderRow);

/// Every header, by the place of its class in [`CLASSES`] and its number: lab/codec.
static BY_ID: LazyLock<Vec<[Option<Header>; 1 << u8::BITS]>> = LazyLock::new(|| {
    let mut all = vec![[None; 1 << u8::BITS]; CLASSES.len()];
    for (n, row) in FieldId::ROWS.iter().enumerate() {
        for header in row.headers {
            let class = class_index(header.id).and_then(|class| all.get_mut(class));
            if let Some(place) =
                class.and_then(|class| class.get_mut(usize::from(header.id.number)))
            {
                *place = Some((n, row, header));
            }
        }
    }
    all
});

/// Which of the [`CLASSES`] `id` is of.
fn class_index(id: FieldId) -> Option<usize> {
    CLASSES.iter().position(|&(_, class, of)| class == id.class && of == id.experimenter)
}

/// Every name, in the order of the names; those of rows hide those of headers.
static BY_NAME: LazyLock<Vec<(&'static str, FieldId)>> = LazyLock::new(|| {
    let of_rows = FieldId::ROWS.iter().map(|row| (row.name, row.id));
    let aka = FieldId::ROWS.iter().flat_map(|row| row.aliases.iter().map(|&name| (name, row.id)));
    let headers = FieldId::ROWS.iter().flat_map(|row| row.headers);
    let of_headers = headers.map(|header| (header.name, header.id));
    let mut all: Vec<_> = of_rows.chain(aka).chain(of_headers).collect();
    all.sort_by(|a, b| compare(a.0, b.0));
    all.dedup_by(|a, b| a.0.eq_ignore_ascii_case(b.0));
    all
});

/// In the order of letters, be they large or small.
fn compare(a: &str, b: &str) -> Ordering {
    let small = |text: &'_ str| text.bytes().map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    small(a).cmp(&small(b))
}

impl FieldId {
    /// The field called `name`: the name of a row, another that `ovs-ofctl` has for it, or that of a header
    /// (`NXM_OF_ETH_DST`). `None` for what has no row.
    pub fn from_name(name: &str) -> Option<Self> {
        let at = BY_NAME.binary_search_by(|row| compare(row.0, name)).ok()?;
        BY_NAME.get(at).map(|row| row.1)
    }

    fn header(self) -> Option<Header> {
        *BY_ID.get(class_index(self)?)?.get(usize::from(self.number))?
    }

    /// What there is to know of the field, `None` if nothing is.
    pub fn row(self) -> Option<&'static FieldRow> {
        self.header().map(|(_, row, _)| row)
    }

    /// Place of its row in [`ROWS`](Self::ROWS).
    pub(super) fn row_index(self) -> Option<usize> {
        self.header().map(|(n, _, _)| n)
    }

    /// Name of the header as Open vSwitch spells it.
    pub fn header_name(self) -> Option<&'static str> {
        self.header().map(|(_, _, header)| header.name)
    }

    /// Name in the neutral form and in text: the row's; of a second header its own, in lower case; of what has no row
    /// `oxm_8000_99`, for class and number, with the experimenter behind it if there is one.
    pub fn name(self) -> Cow<'static, str> {
        match self.header() {
            Some((_, row, _)) if row.id == self => row.name.into(),
            Some((_, _, header)) => header.name.to_ascii_lowercase().into(),
            None => self.numeric_name().into(),
        }
    }

    /// Class, number and experimenter, `oxm_8000_99`.
    pub(crate) fn numeric_name(self) -> String {
        let whose = match self.class {
            EXPERIMENTER => format!("_{:08x}", self.experimenter),
            _ => String::new(),
        };
        format!("oxm_{:04x}_{}{whose}", self.class, self.number)
    }

    /// Reads what [`numeric_name`](Self::numeric_name) writes.
    pub(crate) fn from_numeric_name(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("oxm_").filter(|text| !text.contains('+'))?.split('_');
        let class = parts.next().filter(|digits| digits.len() == 4)?;
        let class = u16::from_str_radix(class, 16).ok()?;
        let number = parts.next()?.parse().ok().filter(|number| *number < 0x80)?;
        let experimenter = match parts.next() {
            Some(digits) if class == EXPERIMENTER => u32::from_str_radix(digits, 16).ok()?,
            None if class != EXPERIMENTER => 0,
            _ => return None,
        };
        parts.next().is_none().then_some(Self { class, number, experimenter })
    }

    /// The field's own header.
    #[must_use]
    pub fn canonical(self) -> Self {
        self.row().map_or(self, |row| row.id)
    }

    /// Whether both are headers of one field.
    pub fn same_as(self, other: Self) -> bool {
        self == other || self.canonical() == other.canonical()
    }

    /// The header that Nicira's own messages and actions prefer.
    #[must_use]
    pub fn nxm(self) -> Self {
        self.row().and_then(FieldRow::nxm).unwrap_or(self)
    }

    /// Whether `version` knows the header. Before 1.2 only Nicira's messages have headers at all; they know Nicira's,
    /// and for a field without one any other.
    pub(crate) fn is_known_in(self, version: Version) -> bool {
        let Some((_, row, header)) = self.header() else { return false };
        header.since <= version
            || (version < Version::V1_2 && row.headers.iter().all(|h| h.since > Version::V1_0))
    }

    /// The header of the same field to write in `version`: this one if it is known there.
    pub(crate) fn header_in(self, version: Version) -> Option<Self> {
        if self.is_known_in(version) {
            return Some(self);
        }
        let headers = self.row()?.headers.iter().map(|header| header.id);
        headers.into_iter().find(|id| id.is_known_in(version))
    }
}

impl FieldId {
    /// What a header read in `version` is: the field's own if `version` writes it so.
    pub(crate) fn normalized_in(self, version: Version) -> Self {
        let own = self.canonical();
        if own == self || own.header_in(version) == Some(self) { own } else { self }
    }
}

/// One field with its value, and a mask if only part of it counts. Of 16 bytes at most; see
/// [`Oxm`](super::Oxm) for longer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Field {
    /// Which field.
    pub id: FieldId,
    /// Bytes of the value on the wire.
    pub len: u8,
    /// The value, in the low bits.
    pub value: u128,
    /// The bits that count; `None` if all do.
    pub mask: Option<u128>,
}

/// `OFPVID_PRESENT`: the `vlan_vid` bit that says that there is a tag. §7.2.3.7.
pub(crate) const VID_PRESENT: u128 = 0x1000;

impl Field {
    /// The field `id` with `value`. One byte, if nothing is known of the field; of a field of variable length as many
    /// as the value needs.
    pub fn new(id: FieldId, value: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "128 bits are 16 bytes")]
        let needed = (128 - value.leading_zeros()).div_ceil(8).max(1) as u8;
        let len = id.row().map_or(needed, |row| if row.is_variable() { needed } else { row.bytes });
        Self { id, len, value, mask: None }
    }

    /// The same, with a mask.
    #[must_use]
    pub const fn masked(self, mask: u128) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// All bits that the value has room for.
    pub(crate) const fn value_bits(&self) -> u128 {
        match self.len {
            0 => 0,
            len if len < 16 => u128::MAX >> (128 - 8 * len as u32),
            _ => u128::MAX,
        }
    }

    /// The bits of a whole value: those of the row, or all there is room for.
    pub(crate) fn significant_bits(&self) -> u128 {
        match self.id.row() {
            Some(row) if row.bits < 128 => (1 << row.bits) - 1,
            _ => self.value_bits(),
        }
    }

    /// Whether all bits count.
    pub fn is_exact(&self) -> bool {
        self.mask.is_none_or(|mask| mask & self.significant_bits() == self.significant_bits())
    }

    /// The same meaning in one form: the field's own header, no mask where all bits count, nothing in the bits that
    /// do not.
    pub(crate) fn normalized(&self) -> Self {
        let mask = self.mask.filter(|_| !self.is_exact());
        let value = self.value & mask.unwrap_or(u128::MAX);
        Self { id: self.id.canonical(), value, mask, ..*self }
    }

    pub(super) const fn exact(id: FieldId, len: u8, value: u128) -> Self {
        Self { id, len, value, mask: None }
    }

    /// Frames that came in at `port`.
    #[inline]
    pub const fn in_port(port: PortNo) -> Self {
        Self::exact(FieldId::IN_PORT, 4, port.0 as u128)
    }

    /// Frames to `addr`.
    #[inline]
    pub const fn eth_dst(addr: MacAddr) -> Self {
        Self::exact(FieldId::ETH_DST, 6, addr.to_u64() as u128)
    }

    /// Frames from `addr`.
    #[inline]
    pub const fn eth_src(addr: MacAddr) -> Self {
        Self::exact(FieldId::ETH_SRC, 6, addr.to_u64() as u128)
    }

    /// Frames that carry `ethertype`.
    pub const fn eth_type(ethertype: u16) -> Self {
        Self::exact(FieldId::ETH_TYPE, 2, ethertype as u128)
    }

    /// Frames with a tag for `vlan`.
    #[inline]
    pub const fn vlan(vlan: VlanId) -> Self {
        Self::exact(FieldId::VLAN_VID, 2, VID_PRESENT | vlan.0 as u128)
    }

    /// Frames with a tag, whichever it is.
    pub const fn tagged() -> Self {
        Self::exact(FieldId::VLAN_VID, 2, VID_PRESENT).masked(VID_PRESENT)
    }

    /// Frames without a tag.
    #[inline]
    pub const fn untagged() -> Self {
        Self::exact(FieldId::VLAN_VID, 2, 0)
    }

    /// Packets of `protocol` above IP.
    pub const fn ip_proto(protocol: u8) -> Self {
        Self::exact(FieldId::IP_PROTO, 1, protocol as u128)
    }

    /// Packets from `addr`.
    pub fn ipv4_src(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::IPV4_SRC, 4, u32::from(addr).into())
    }

    /// Packets to `addr`.
    pub fn ipv4_dst(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::IPV4_DST, 4, u32::from(addr).into())
    }

    /// Packets from `addr`.
    pub fn ipv6_src(addr: Ipv6Addr) -> Self {
        Self::exact(FieldId::IPV6_SRC, 16, addr.to_bits())
    }

    /// Packets to `addr`.
    pub fn ipv6_dst(addr: Ipv6Addr) -> Self {
        Self::exact(FieldId::IPV6_DST, 16, addr.to_bits())
    }
}
