//! Match fields: identifiers, properties, values. §7.2.3.7.

use core::cmp::Ordering;
use std::borrow::Cow;
use std::sync::LazyLock;

use super::codec::{NICIRA, ONF};
use crate::{Version, VlanId};

/// Identifies a match field by its OXM header: class, number and experimenter. An open set. §7.2.3.2.
///
/// Some fields have several headers, for example one of OpenFlow and one of Nicira. The constants are the canonical
/// headers; [`canonical`](Self::canonical) converts the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldId {
    /// OXM class, `OFPXMC_*`.
    pub class: u16,
    /// Number within the class, 7 bits. [`COOKIE`](Self::COOKIE) has an eighth bit, which is not encoded, to
    /// distinguish it from another field with the same number.
    pub number: u8,
    /// Experimenter ID if the class is `OFPXMC_EXPERIMENTER`, otherwise 0.
    pub experimenter: u32,
}

/// `OFPXMC_EXPERIMENTER`.
pub(crate) const EXPERIMENTER: u16 = 0xffff;

/// Experimenter ID of the fields of the Network Service Header (NSH).
const NSH: u32 = 0x005a_d650;

/// The text format of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFormat {
    /// Decimal number.
    Decimal,
    /// Hexadecimal number, `0x800`.
    Hex,
    /// MAC address, `02:00:00:00:00:01`.
    Mac,
    /// IPv4 address, with a prefix length or a mask.
    Ipv4,
    /// IPv6 address, with a prefix length or a mask.
    Ipv6,
    /// Port number, or the name of a reserved port.
    Port,
    /// VLAN ID in decimal; `none` for untagged packets, `any` for all tagged ones. A hexadecimal number is the value
    /// of the field, including the bit `OFPVID_PRESENT`.
    Vlan,
    /// Names of flags with their bits: `+syn-ack` with a mask, `syn|ack` without.
    Flags(&'static [(&'static str, u32)]),
    /// Namespace and type, `(1,0x800)`.
    PacketType,
    /// IP fragments: `no`, `yes`, `first`, `later` or `not_later`.
    Frag,
}

/// Whether a field can be matched with a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskSupport {
    /// The field is not maskable.
    No,
    /// Open vSwitch allows any mask, the specification none.
    Nicira,
    /// Any mask is allowed.
    Any,
}

/// A condition that a match must fulfil to contain a field. §7.2.3.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prerequisite {
    /// The match contains the field, with any value.
    Present(FieldId),
    /// The match contains the field with one of these values, without a mask.
    OneOf(FieldId, &'static [u128]),
    /// The match contains the field with these bits set.
    Bits(FieldId, u128),
}

/// Conditions that must all be met.
pub type Prerequisites = &'static [Prerequisite];

impl Prerequisite {
    /// The required field.
    pub const fn id(self) -> FieldId {
        match self {
            Self::Present(id) | Self::OneOf(id, _) | Self::Bits(id, _) => id,
        }
    }

    /// Whether `field` fulfils the condition.
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

/// A header of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldHeaderRow {
    /// Class, number and experimenter.
    pub id: FieldId,
    /// Name in Open vSwitch, `OXM_OF_ETH_DST`.
    pub name: &'static str,
    /// First version that has the header; 1.0 for Nicira's, which occur in Nicira's messages of any version.
    pub since: Version,
}

/// Properties of a match field: a row of the field table.
#[derive(Debug, Clone, Copy)]
pub struct FieldRow {
    /// Canonical header.
    pub id: FieldId,
    /// Name in text and in the neutral form: that of the specification, in lower case.
    pub name: &'static str,
    /// Number of significant bits.
    pub bits: u16,
    /// Bytes of a value; the maximum, if the length is [variable](Self::is_variable).
    pub bytes: u8,
    /// Text format of values.
    pub format: FieldFormat,
    /// Whether the field is maskable.
    pub masks: MaskSupport,
    /// First version whose match can contain the field.
    pub since: Version,
    /// Conditions that a match with this field must fulfil.
    pub prerequisites: Prerequisites,
    /// All headers, the canonical one first.
    pub headers: &'static [FieldHeaderRow],
    /// Other names of the field in `ovs-ofctl`.
    pub aliases: &'static [&'static str],
    /// Where the field is specified.
    pub section: &'static str,
}

impl FieldRow {
    /// Whether values can be shorter than [`bytes`](Self::bytes).
    pub const fn is_variable(&self) -> bool {
        self.bytes > 16
    }

    /// Nicira's header of the field.
    pub fn nxm(&self) -> Option<FieldId> {
        self.headers.iter().map(|header| header.id).find(|id| id.class <= 1)
    }

    /// Whether Open vSwitch or the specification allows masks.
    pub fn maskable(&self) -> bool {
        self.masks != MaskSupport::No
    }
}

/// Defines the field table and the constants of [`FieldId`].
macro_rules! fields {
    ($($konst:ident: $name:ident, $bits:literal in $bytes:tt, $form:ident $(($of:ident))?, $masks:ident,
        $since:ident, $needs:ident,
        [$own:ident($number:literal, $osince:ident) $(, $header:ident($hnumber:literal, $hsince:ident))*],
        [$($aka:literal),*],
        $section:literal;)*) => {
        impl FieldId {
            $(#[doc = concat!("`", stringify!($name), "`, ", $bits, " bits. ", $section, ".")]
            pub const $konst: Self = super::field::header_id(stringify!($own), $number);)*

            /// The field table: all known fields.
            pub const ROWS: &'static [super::field::FieldRow] = ROWS;
        }

        /// Constructors of exactly matched fields, or of fields to set: one for each row of the table of fields with up to
        /// 16 bytes.
        impl super::field::Field {
            $( super::typed_field::constructor!($konst $name $form $bytes; $bits, $section); )*
        }

        /// Values of fields that are matched exactly; `None` if the field is absent or has a mask. See
        /// [`masked`](Self::masked) for values with masks.
        impl super::Match {
            $( super::typed_field::exact_getter!($konst $name $form $bytes; $bits, $section); )*
        }

        /// One getter for each field that can have a mask.
        impl super::MaskedFields<'_> {
            $( super::typed_field::masked_getter!($konst $name $form $bytes $masks; $bits, $section); )*
        }

        /// [`FieldId::ROWS`], as a static.
        static ROWS: &[super::field::FieldRow] = &[$(super::field::FieldRow {
                id: FieldId::$konst,
                name: stringify!($name),
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

/// Prefixes of header names with their class and experimenter; a prefix precedes its own prefixes.
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

const fn starts_with(mut text: &[u8], mut prefix: &[u8]) -> bool {
    while let [a, after @ ..] = prefix {
        match text {
            [b, rest @ ..] if *a == *b => (text, prefix) = (rest, after),
            _ => return false,
        }
    }
    true
}

/// The header called `name`, whose prefix determines the class.
pub(super) const fn header_id(name: &str, number: u8) -> FieldId {
    let mut classes = CLASSES;
    while let [(prefix, class, experimenter), rest @ ..] = classes {
        if starts_with(name.as_bytes(), prefix.as_bytes()) {
            return FieldId { class: *class, number, experimenter: *experimenter };
        }
        classes = rest;
    }
    FieldId { class: 0, number: u8::MAX, experimenter: 0 }
}

/// A header in the field table.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownHeader {
    /// Index of its row in [`FieldId::ROWS`].
    pub(super) row_index: usize,
    /// The row.
    pub(super) row: &'static FieldRow,
    header: &'static FieldHeaderRow,
}

impl KnownHeader {
    /// Whether `version` has the header; see [`FieldId::is_known_in`].
    pub(super) fn is_in(self, version: Version) -> bool {
        self.header.since <= version
            || (version < Version::V1_2
                && self.row.headers.iter().all(|header| header.since > Version::V1_0))
    }

    /// The header by which `version` encodes the field: this one, if the version has it.
    pub(super) fn encoded_in(self, version: Version) -> Option<FieldId> {
        if self.is_in(version) {
            return Some(self.header.id);
        }
        self.row.headers.iter().map(|header| header.id).find(|id| id.is_known_in(version))
    }
}

/// All headers, by index of the class in [`CLASSES`] and number. Measured in `lab/codec`.
static BY_ID: LazyLock<Vec<[Option<KnownHeader>; 1 << u8::BITS]>> = LazyLock::new(|| {
    let mut all = vec![[None; 1 << u8::BITS]; CLASSES.len()];
    for (row_index, row) in FieldId::ROWS.iter().enumerate() {
        for header in row.headers {
            let class = class_index(header.id).and_then(|class| all.get_mut(class));
            if let Some(entry) =
                class.and_then(|class| class.get_mut(usize::from(header.id.number)))
            {
                *entry = Some(KnownHeader { row_index, row, header });
            }
        }
    }
    all
});

/// Index of the class in [`CLASSES`].
fn class_index(id: FieldId) -> Option<usize> {
    CLASSES.iter().position(|&(_, class, of)| class == id.class && of == id.experimenter)
}

/// All names, sorted; names of rows take precedence over names of headers.
static BY_NAME: LazyLock<Vec<(&'static str, FieldId)>> = LazyLock::new(|| {
    let row_names = FieldId::ROWS.iter().map(|row| (row.name, row.id));
    let aliases =
        FieldId::ROWS.iter().flat_map(|row| row.aliases.iter().map(|&name| (name, row.id)));
    let headers = FieldId::ROWS.iter().flat_map(|row| row.headers);
    let header_names = headers.map(|header| (header.name, header.id));
    let mut all: Vec<_> = row_names.chain(aliases).chain(header_names).collect();
    all.sort_by(|a, b| compare_names(a.0, b.0));
    all.dedup_by(|a, b| a.0.eq_ignore_ascii_case(b.0));
    all
});

/// Compares without regard to case.
fn compare_names(a: &str, b: &str) -> Ordering {
    let lower = |text: &'_ str| text.bytes().map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    lower(a).cmp(&lower(b))
}

impl FieldId {
    /// The field called `name`, in any case: `eth_dst`, an alias in `ovs-ofctl` such as `dl_dst`, or a header such as
    /// `NXM_OF_ETH_DST`. `None` if it is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        let at = BY_NAME.binary_search_by(|row| compare_names(row.0, name)).ok()?;
        BY_NAME.get(at).map(|row| row.1)
    }

    /// The header in the field table; `None` if it is unknown.
    pub(super) fn known(self) -> Option<KnownHeader> {
        *BY_ID.get(class_index(self)?)?.get(usize::from(self.number))?
    }

    /// Properties of the field; `None` if it is unknown.
    pub fn row(self) -> Option<&'static FieldRow> {
        self.known().map(|known| known.row)
    }

    /// Name of the header in Open vSwitch, `OXM_OF_ETH_DST`.
    pub fn header_name(self) -> Option<&'static str> {
        self.known().map(|known| known.header.name)
    }

    /// Name in text and in the neutral form: `eth_dst` for the canonical header, `nxm_of_eth_dst` for others,
    /// `oxm_8000_99` (class, number, and the experimenter ID if there is one) for unknown fields.
    pub fn name(self) -> Cow<'static, str> {
        match self.known() {
            Some(known) if known.row.id == self => known.row.name.into(),
            Some(known) => known.header.name.to_ascii_lowercase().into(),
            None => self.numeric_name().into(),
        }
    }

    /// Name made of class, number and experimenter ID: `oxm_8000_99`, `oxm_ffff_5_0000abcd`.
    pub(crate) fn numeric_name(self) -> String {
        let experimenter = match self.class {
            EXPERIMENTER => format!("_{:08x}", self.experimenter),
            _ => String::new(),
        };
        format!("oxm_{:04x}_{}{experimenter}", self.class, self.number)
    }

    /// Parses a [`numeric_name`](Self::numeric_name).
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

    /// The canonical header of the field.
    #[must_use]
    pub fn canonical(self) -> Self {
        self.row().map_or(self, |row| row.id)
    }

    /// Whether both headers are of the same field.
    pub fn same_as(self, other: Self) -> bool {
        self == other || self.canonical() == other.canonical()
    }

    /// Nicira's header of the field, or this one if there is none.
    #[must_use]
    pub fn nxm(self) -> Self {
        self.row().and_then(FieldRow::nxm).unwrap_or(self)
    }

    /// Whether `version` has the header. Before 1.2 only Nicira's messages contain headers: Nicira's, and any header of
    /// fields that have no Nicira header.
    pub(crate) fn is_known_in(self, version: Version) -> bool {
        self.known().is_some_and(|known| known.is_in(version))
    }
}

impl FieldId {
    /// The ID for a header parsed in `version`: the canonical one, if `version` encodes the field with this header.
    pub(crate) fn normalized_in(self, version: Version) -> Self {
        let canonical = self.canonical();
        if canonical == self
            || canonical.known().and_then(|known| known.encoded_in(version)) == Some(self)
        {
            canonical
        } else {
            self
        }
    }
}

/// A match field with its value and optional mask, up to 16 bytes; [`Oxm`](super::Oxm) also has longer and unknown
/// fields.
///
/// Constructors for common fields: [`eth_dst`](Self::eth_dst), [`ipv4_src`](Self::ipv4_src),
/// [`tcp_dst`](Self::tcp_dst) and others; [`new`](Self::new) makes any field.
///
/// ```
/// use sluice_openflow::{Field, FieldId};
///
/// let subnet = Field::ipv4_dst([10, 0, 0, 0].into()).masked(0xff00_0000);
/// assert_eq!(subnet.value_text(), "10.0.0.0/8");
/// assert_eq!(Field::from_text(FieldId::IPV4_DST, "10.0.0.0/8")?, subnet);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Field {
    /// The field.
    pub id: FieldId,
    /// Bytes of the encoded value, 1 to 16.
    pub len: u8,
    /// The value, right-aligned.
    pub value: u128,
    /// Mask with ones for the bits to match; `None` for an exact match.
    pub mask: Option<u128>,
}

/// `OFPVID_PRESENT`: the bit of `vlan_vid` that is set for tagged packets. §7.2.3.7.
pub(crate) const VID_PRESENT: u128 = 0x1000;

impl Field {
    /// The field `id` with `value`, exactly matched. Unknown fields and fields of variable length get as many bytes as
    /// the value needs.
    pub fn new(id: FieldId, value: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "128 bits are 16 bytes")]
        let needed = (128 - value.leading_zeros()).div_ceil(8).max(1) as u8;
        let len = id.row().map_or(needed, |row| if row.is_variable() { needed } else { row.bytes });
        Self { id, len, value, mask: None }
    }

    /// The same field with a mask: ones for the bits to match.
    #[must_use]
    pub const fn masked(self, mask: u128) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// All bits of a value of `len` bytes.
    pub(crate) const fn value_bits(&self) -> u128 {
        match self.len {
            0 => 0,
            len if len < 16 => u128::MAX >> (128 - 8 * len as u32),
            _ => u128::MAX,
        }
    }

    /// The significant bits of the field; all bits of the value, if the field is unknown.
    pub(crate) fn significant_bits(&self) -> u128 {
        match self.id.row() {
            Some(row) if row.bits < 128 => (1 << row.bits) - 1,
            _ => self.value_bits(),
        }
    }

    /// Whether all significant bits are matched.
    pub fn is_exact(&self) -> bool {
        self.mask.is_none_or(|mask| mask & self.significant_bits() == self.significant_bits())
    }

    /// The canonical form of the same match: canonical header, no mask that covers all bits, zeros outside the mask.
    pub(crate) fn normalized(&self) -> Self {
        let mask = self.mask.filter(|_| !self.is_exact());
        let value = self.value & mask.unwrap_or(u128::MAX);
        Self { id: self.id.canonical(), value, mask, ..*self }
    }

    pub(super) const fn exact(id: FieldId, len: u8, value: u128) -> Self {
        Self { id, len, value, mask: None }
    }

    /// Matches packets tagged with `vlan`.
    #[inline]
    pub const fn vlan(vlan: VlanId) -> Self {
        Self::exact(FieldId::VLAN_VID, 2, VID_PRESENT | vlan.0 as u128)
    }

    /// Matches packets with any VLAN tag.
    pub const fn tagged() -> Self {
        Self::exact(FieldId::VLAN_VID, 2, VID_PRESENT).masked(VID_PRESENT)
    }

    /// Matches untagged packets.
    #[inline]
    pub const fn untagged() -> Self {
        Self::exact(FieldId::VLAN_VID, 2, 0)
    }
}
