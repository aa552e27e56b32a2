//! Match fields on the wire (OXM): header, value, mask. §7.2.3.2 to §7.2.3.5.

use super::codec::{Codec, ListItem};
use super::field::{EXPERIMENTER, Field, FieldId, KnownHeader};
use super::reader::Reader;
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, Result, Version};

/// A match field with its value, known or not.
///
/// A field that the version knows is parsed as a [`Field`]; all others are kept as they are. OpenFlow's headers are
/// known from the version that introduced them; Nicira's are known in every version; in Nicira's messages of 1.0 and
/// 1.1, so is any header of a field that has no Nicira header.
///
/// A field can have several headers, and each version encodes one of them: `tcp_flags` is Nicira's header in 1.0, the
/// ONF's in 1.3 and OpenFlow's in 1.5, but always the same [`FieldId`] here. A known header that the version would
/// not encode itself (Nicira's `eth_dst` in 1.3) keeps its own ID, so that it is encoded as it was received.
///
/// Parsing refuses truncated fields, values whose length does not match the table of fields, masks whose length
/// differs from the value's, and value bits outside the mask (§7.2.3.5). It does not check prerequisites, values, or
/// whether the field is maskable; see [`Match::check`](super::Match::check).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Oxm {
    /// A known field of up to 16 bytes.
    Field(Field),
    /// A field longer than 16 bytes, or an unknown one; encoded with this header.
    Wide {
        /// The field.
        id: FieldId,
        /// Value.
        value: Vec<u8>,
        /// Mask, as long as the value; `None` for an exact match.
        mask: Option<Vec<u8>>,
    },
}

impl Default for Oxm {
    fn default() -> Self {
        Self::Field(Field::default())
    }
}

impl From<Field> for Oxm {
    fn from(field: Field) -> Self {
        Self::Field(field)
    }
}

impl Oxm {
    /// The field's ID.
    pub fn id(&self) -> FieldId {
        match self {
            Self::Field(field) => field.id,
            Self::Wide { id, .. } => *id,
        }
    }

    /// The field, if it is known and has up to 16 bytes.
    pub fn field(&self) -> Option<&Field> {
        match self {
            Self::Field(field) => Some(field),
            Self::Wide { .. } => None,
        }
    }

    /// Whether it has a mask.
    pub fn is_masked(&self) -> bool {
        match self {
            Self::Field(field) => field.mask.is_some(),
            Self::Wide { mask, .. } => mask.is_some(),
        }
    }
}

/// Header of a match field: field, mask bit, payload length.
///
/// Headers without values occur in table features and in actions that copy between fields. §7.3.5.5.2, OpenFlow 1.5.1
/// §7.2.6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldHeader {
    /// The field.
    pub id: FieldId,
    /// `OXM_HASMASK`: whether a mask follows, or may follow.
    pub masked: bool,
    /// `oxm_length`: bytes of experimenter ID, value and mask.
    pub len: u8,
}

/// Bytes of the experimenter ID, if `id` has one.
const fn experimenter_len(id: FieldId) -> u8 {
    if id.class == EXPERIMENTER { 4 } else { 0 }
}

impl From<FieldId> for FieldHeader {
    /// Header of an exact value; the length is 0 if the field is unknown.
    fn from(id: FieldId) -> Self {
        let bytes = id.row().map_or(0, |row| row.bytes);
        Self { id, masked: false, len: experimenter_len(id) + bytes }
    }
}

impl FieldHeader {
    /// Header of a masked value; the length is 0 if the field is unknown.
    pub fn with_mask(id: FieldId) -> Self {
        let bytes = id.row().map_or(0, |row| row.bytes);
        Self { id, masked: true, len: experimenter_len(id) + 2 * bytes }
    }

    fn put(self, out: &mut Encoder<'_>) {
        let FieldId { class, number, experimenter } = self.id;
        let [high, low] = class.to_be_bytes();
        out.put(&[high, low, number << 1 | u8::from(self.masked), self.len]);
        if class == EXPERIMENTER {
            out.put(&experimenter.to_be_bytes());
        }
    }

    /// Bytes of value and mask.
    const fn payload(self) -> u8 {
        self.len - experimenter_len(self.id)
    }
}

impl Codec for FieldHeader {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let class = r.u16("oxm")?;
        let [number, len] = r.array("oxm")?;
        let len_at = r.at() - 1;
        let mut id = FieldId { class, number: number >> 1, experimenter: 0 };
        let masked = number & 1 == 1;
        if class == EXPERIMENTER {
            id.experimenter = r.u32("oxm experimenter")?;
        }
        let payload = len.checked_sub(experimenter_len(id)).ok_or_else(|| {
            let expected = Expected::AtLeast(experimenter_len(id).into());
            r.length_error(len_at, "oxm", len.into(), expected)
        })?;
        if id.number == FieldId::COOKIE.number & 0x7f && [8, 16].contains(&payload) && class == 1 {
            id = FieldId::COOKIE;
        }
        Ok(Self { id, masked, len })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.put(out);
        Ok(())
    }
}

impl ListItem for FieldHeader {}

impl ListItem for Oxm {}

/// A checked match field within a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawOxm<'a> {
    id: FieldId,
    /// Whether it is known and has up to 16 bytes.
    is_field: bool,
    value: &'a [u8],
    mask: Option<&'a [u8]>,
}

impl<'a> RawOxm<'a> {
    /// Takes the field at the front of `r`.
    ///
    /// # Errors
    /// As for [`Oxm`].
    pub(crate) fn take(r: &mut Reader<'a>) -> Result<Self> {
        let at = r.at();
        let header = FieldHeader::parse(r)?;
        let payload = r.take("oxm", header.payload().into())?;
        let half = if header.masked { payload.len() / 2 } else { payload.len() };
        let (value, mask) = payload.split_at(half);
        let mask = Some(mask).filter(|_| header.masked);
        if mask.is_some_and(|mask| mask.len() != value.len()) {
            let len = header.len.into();
            return Err(r.length_error(at + 3, "oxm", len, Expected::MultipleOf(2)));
        }
        let known = header.id.known().filter(|known| known.is_in(r.version()));
        let known = known.map(|known| known.row);
        let is_valid_len = known.is_none_or(|row| {
            let bytes = row.bytes.into();
            value.len() == bytes || (row.is_variable() && (1..bytes).contains(&value.len()))
        });
        if let Some(row) = known.filter(|_| !is_valid_len) {
            let bytes = usize::from(row.bytes) * if header.masked { 2 } else { 1 };
            let len = bytes + usize::from(experimenter_len(header.id));
            let of = if row.is_variable() { Expected::AtMost } else { Expected::Exactly };
            let expected = Expected::saturating(of, len);
            return Err(r.length_error(at + 3, row.name, header.len.into(), expected));
        }
        let outside = |(value, mask): (&u8, &u8)| value & !mask != 0;
        if mask.is_some_and(|mask| value.iter().zip(mask).any(outside)) {
            return Err(r.error_at(at, "oxm", ParseErrorKind::OutsideMask));
        }
        let is_field = known.is_some() && value.len() <= 16;
        let id = if is_field { header.id.normalized_in(r.version()) } else { header.id };
        Ok(Self { id, is_field, value, mask })
    }

    /// The field's ID.
    pub(crate) fn id(&self) -> FieldId {
        self.id
    }

    /// Value.
    pub(crate) fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The field, if it is known and has up to 16 bytes.
    pub(crate) fn field(self) -> Option<Field> {
        let Self { id, is_field, value, mask } = self;
        let len = u8::try_from(value.len()).ok().filter(|_| is_field)?;
        Some(Field { id, len, value: low(value), mask: mask.map(low) })
    }
}

impl From<RawOxm<'_>> for Oxm {
    fn from(raw: RawOxm<'_>) -> Self {
        let RawOxm { id, value, mask, .. } = raw;
        let wide = || Self::Wide { id, value: value.to_vec(), mask: mask.map(<[u8]>::to_vec) };
        raw.field().map_or_else(wide, Self::Field)
    }
}

impl Codec for Oxm {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        RawOxm::take(r).map(Self::from)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.encode_known(self.id().known(), out)
    }
}

impl Oxm {
    /// Encodes the field; `known` is what the field table has about its header.
    pub(super) fn encode_known(
        &self,
        known: Option<KnownHeader>,
        out: &mut Encoder<'_>,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Field(field) => field.encode(known, out),
            Self::Wide { id, value, mask } => {
                let bytes = value.len() + mask.as_ref().map_or(0, |_| value.len());
                let len =
                    u8::try_from(bytes).ok().and_then(|len| len.checked_add(experimenter_len(*id)));
                let len =
                    len.filter(|_| mask.as_ref().is_none_or(|mask| mask.len() == value.len()));
                let version = out.version();
                let wrong = EncodeError::new("length of a field", version, None);
                FieldHeader { id: *id, masked: mask.is_some(), len: len.ok_or(wrong)? }.put(out);
                out.put(value.as_slice());
                out.put(mask.as_deref().unwrap_or_default());
                Ok(())
            }
        }
    }
}

impl Field {
    /// Encodes header, value and mask. Value bits outside of the mask are encoded as zero.
    ///
    /// # Errors
    /// A field without a header in this version; a value that does not fit.
    fn encode(&self, known: Option<KnownHeader>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let version = out.version();
        let unsupported = || unsupported_field(self.id, version);
        let known = known.ok_or_else(unsupported)?;
        let id = known.encoded_in(version).ok_or_else(unsupported)?;
        if self.len != known.row.bytes && (!known.row.is_variable() || self.len == 0) {
            return Err(EncodeError::new("length of a field", version, None));
        }
        let max = self.value_bits();
        if self.len > 16 || self.value & !max != 0 || self.mask.unwrap_or_default() & !max != 0 {
            return Err(EncodeError::new("value wider than its field", version, None));
        }
        let len = experimenter_len(id) + (self.len << u8::from(self.mask.is_some()));
        FieldHeader { id, masked: self.mask.is_some(), len }.put(out);
        put_low(out, self.value & self.mask.unwrap_or(u128::MAX), self.len);
        if let Some(mask) = self.mask {
            put_low(out, mask, self.len);
        }
        Ok(())
    }
}

/// Appends the low `len` bytes of `value`, at most 16.
///
/// Appends sixteen bytes and cuts off the rest, since a copy whose length is known needs no function call.
fn put_low(out: &mut Encoder<'_>, value: u128, len: u8) {
    let unused = 16 - len.min(16);
    let shifted = value.checked_shl(8 * u32::from(unused)).unwrap_or_default();
    out.put(&shifted.to_be_bytes());
    out.truncate(out.len() - usize::from(unused));
}

/// The number in up to 16 bytes, most significant byte first.
fn low(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// The error for a field that `version` does not have.
pub(super) fn unsupported_field(id: FieldId, version: Version) -> EncodeError {
    let Some(row) = id.row() else {
        return EncodeError::new("unknown field", version, Some(Version::V1_2));
    };
    EncodeError::new(row.name, version, Some(row.since).filter(|&since| since > version))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    use crate::model::Match;
    use crate::model::value::{NeutralForm, hex, unhex};

    #[test]
    fn a_field_of_the_wrong_length_is_not_encoded() {
        let field = Field { len: 0, ..Field::new(FieldId::ETH_TYPE, 0) };
        let error = written(&Oxm::Field(field), Version::V1_3).unwrap_err();
        assert_eq!(error.to_string(), "length of a field cannot be encoded in OpenFlow 1.3");
    }

    fn written<T: Codec>(it: &T, version: Version) -> Result<String, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        it.encode(&mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(hex(&tx))
    }

    fn read<T: Codec>(version: Version, bytes: &str) -> Result<T> {
        let bytes = unhex(bytes).unwrap();
        let mut r = Reader::new(version, &bytes, 8);
        let read = T::parse(&mut r)?;
        r.finish("oxm")?;
        Ok(read)
    }

    #[test]
    fn every_header_of_the_field_table_has_a_vector() {
        let mut seen = BTreeSet::new();
        let lines = include_str!("../../tests/golden/fields.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (vector, _origin) = line.split_once(" # ").unwrap();
            let columns: Vec<_> = vector.split(' ').collect();
            let [version, bytes, name, value] = columns[..] else { panic!("{line}") };
            let version = Version::from_text(version).unwrap();
            let oxm: Oxm = read(version, bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!((oxm.name().as_str(), oxm.value_text().as_str()), (name, value), "{line}");
            assert_eq!(written(&oxm, version).unwrap(), bytes, "{line}");
            assert_eq!(Oxm::from_text(name, value).as_ref(), Ok(&oxm), "{line}");
            assert_eq!(
                Oxm::from_value(&oxm.to_value(version), version).as_ref(),
                Ok(&oxm),
                "{line}"
            );
            let head = bytes.len().min(if bytes.starts_with("ffff") { 16 } else { 8 });
            let header: FieldHeader = read(version, bytes.get(..head).unwrap()).unwrap();
            assert_eq!(written(&header, version).unwrap(), bytes[..head], "{line}");
            assert_eq!(FieldHeader::from_value(&header.to_value(version), version), Ok(header));
            seen.insert(header.id);
        }
        let headers = FieldId::ROWS.iter().flat_map(|row| row.headers);
        let missing: Vec<_> = headers.filter(|h| !seen.contains(&h.id)).map(|h| h.name).collect();
        assert!(missing.is_empty(), "tests/golden/fields.txt has no line for {missing:?}");
    }

    #[test]
    fn a_field_is_encoded_with_the_header_of_the_version() {
        let flags = Oxm::Field(Field::new(FieldId::TCP_FLAGS, 2));
        for (version, bytes) in [
            (Version::V1_0, "000144020002"),
            (Version::V1_2, "000144020002"),
            (Version::V1_3, "ffff54064f4e46000002"),
            (Version::V1_5, "800054020002"),
        ] {
            assert_eq!(written(&flags, version).unwrap(), bytes);
            assert_eq!(read(version, bytes), Ok(flags.clone()));
        }
        let isid = Oxm::Field(Field::new(FieldId::PBB_ISID, 1));
        let error = written(&isid, Version::V1_2).unwrap_err();
        assert_eq!(error.to_string(), "pbb_isid requires OpenFlow 1.3; this session speaks 1.2");
    }

    #[test]
    fn truncated_or_inconsistent_fields_are_refused() {
        let refused = |bytes| read::<Oxm>(Version::V1_3, bytes).unwrap_err();
        assert_eq!(
            (refused("800006").what, refused("800006").why),
            ("oxm", ParseErrorKind::Truncated)
        );
        assert_eq!(refused("80000606 0200000000").why, ParseErrorKind::Truncated);
        assert_eq!(
            (refused("80000605 0200000000").at, refused("80000605 0200000000").why),
            (11, ParseErrorKind::Length)
        );
        assert_eq!(refused("80007903 010203").why, ParseErrorKind::Length);
        assert_eq!(refused("ffff0003 0000abcd").why, ParseErrorKind::Length);
        assert_eq!(refused("80001708 0a000001 ffffff00").why, ParseErrorKind::OutsideMask);
        assert_eq!(refused("00015000").why, ParseErrorKind::Length);
    }

    #[test]
    fn values_that_do_not_fit_are_not_encoded() {
        let field = Field { len: 1, ..Field::new(FieldId::ETH_TYPE, 0x800) };
        assert!(written(&Oxm::Field(field), Version::V1_3).is_err());
        let (value, id) = (vec![0; 200], FieldId::TUN_METADATA0);
        let wide = Oxm::Wide { id, value: value.clone(), mask: Some(value) };
        assert!(written(&wide, Version::V1_3).is_err());
    }

    #[test]
    fn headers_without_values_survive_a_roundtrip() {
        for bytes in
            ["80000706", "8000070c", "80000606", "ffff5406 4f4e4600", "80007a00", "0001507c"]
        {
            let bytes = bytes.replace(' ', "");
            let header: FieldHeader = read(Version::V1_3, &bytes).unwrap();
            assert_eq!(written(&header, Version::V1_3).unwrap(), bytes);
            assert_eq!(
                FieldHeader::from_value(&header.to_value(Version::V1_3), Version::V1_3),
                Ok(header)
            );
        }
    }

    #[test]
    fn every_field_is_found_by_its_names_and_headers() {
        for row in FieldId::ROWS {
            assert_eq!(FieldId::from_name(row.name), Some(row.id));
            for name in row.aliases {
                assert_eq!(FieldId::from_name(name), Some(row.id), "{name}");
            }
            for header in row.headers {
                assert_eq!(FieldId::from_name(header.name), Some(header.id), "{}", header.name);
                assert_eq!(header.id.row().map(|row| row.name), Some(row.name));
                assert!(header.id.same_as(row.id));
            }
            let needed: Match =
                row.prerequisites.iter().map(|need| Field::new(need.id(), 0)).collect();
            assert!(needed.iter().all(|field| field.id.row().is_some()), "{}", row.name);
            assert_eq!(
                row.bytes,
                if row.bits == 20 || row.name == "nsh_spi" {
                    4
                } else if row.name == "tun_flags" {
                    2
                } else {
                    u8::try_from(row.bits.div_ceil(8)).unwrap()
                },
                "{}",
                row.name
            );
        }
    }
}
