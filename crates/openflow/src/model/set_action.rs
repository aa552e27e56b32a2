//! The actions of OpenFlow 1.0 and 1.1 that set one field each, as rows, and the field of `set_field` in later
//! versions. OpenFlow 1.0.0 §5.2.4, 1.1.0 §A.2.5.

use super::action::Action;
use super::codec::{Codec, Encoding, Padding, encode_tlv_with};
use super::field::{Field, FieldId};
use super::oxm::{FieldHeader, Oxm};
use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, ParseErrorKind, Result, Version};

/// An action that sets one field: the position of the value within the action. All other bytes are zero.
#[derive(Debug)]
pub(crate) struct SetRow {
    /// Version that has the action.
    pub(crate) version: Version,
    /// Name in the specification, in lower case.
    pub(crate) name: &'static str,
    /// Action type, numbered as in [`Action`].
    pub(crate) code: u64,
    /// The field to set. Further entries are fields of other protocols that the same action sets.
    fields: &'static [FieldId],
    /// Bytes before the value.
    before: usize,
    /// Bytes of the value.
    bytes: usize,
    /// Position of the value's lowest bit.
    shift: u8,
    /// Bits of the field that are always set.
    always_set: u128,
}

macro_rules! rows {
    ($($version:ident $name:literal = $code:literal, [$($field:ident),*], $before:literal, $bytes:literal,
        $shift:literal, $always_set:literal;)*) => {
        &[$(SetRow {
            version: Version::$version,
            name: $name,
            code: $code,
            fields: &[$(FieldId::$field),*],
            before: $before,
            bytes: $bytes,
            shift: $shift,
            always_set: $always_set,
        }),*]
    };
}

/// All such actions: version, name, type; fields; bytes before the value, bytes of the value, shift, bits that are
/// always set.
pub(crate) const SET_ROWS: &[SetRow] = rows! {
    V1_0 "set_vlan_vid" = 1, [VLAN_VID], 0, 2, 0, 0x1000;
    V1_0 "set_vlan_pcp" = 2, [VLAN_PCP], 0, 1, 0, 0;
    V1_0 "set_dl_src" = 4, [ETH_SRC], 0, 6, 0, 0;
    V1_0 "set_dl_dst" = 5, [ETH_DST], 0, 6, 0, 0;
    V1_0 "set_nw_src" = 6, [IPV4_SRC], 0, 4, 0, 0;
    V1_0 "set_nw_dst" = 7, [IPV4_DST], 0, 4, 0, 0;
    V1_0 "set_nw_tos" = 8, [IP_DSCP], 0, 1, 2, 0;
    V1_0 "set_tp_src" = 9, [TCP_SRC, UDP_SRC], 0, 2, 0, 0;
    V1_0 "set_tp_dst" = 10, [TCP_DST, UDP_DST], 0, 2, 0, 0;
    V1_0 "set_mpls_label" = 0x2320_001e, [MPLS_LABEL], 2, 4, 0, 0;
    V1_0 "set_mpls_tc" = 0x2320_001f, [MPLS_TC], 0, 1, 0, 0;
    V1_1 "set_vlan_vid" = 1, [VLAN_VID], 0, 2, 0, 0x1000;
    V1_1 "set_vlan_pcp" = 2, [VLAN_PCP], 0, 1, 0, 0;
    V1_1 "set_dl_src" = 3, [ETH_SRC], 0, 6, 0, 0;
    V1_1 "set_dl_dst" = 4, [ETH_DST], 0, 6, 0, 0;
    V1_1 "set_nw_src" = 5, [IPV4_SRC], 0, 4, 0, 0;
    V1_1 "set_nw_dst" = 6, [IPV4_DST], 0, 4, 0, 0;
    V1_1 "set_nw_tos" = 7, [IP_DSCP], 0, 1, 2, 0;
    V1_1 "set_nw_ecn" = 8, [IP_ECN], 0, 1, 0, 0;
    V1_1 "set_tp_src" = 9, [TCP_SRC, UDP_SRC, SCTP_SRC], 0, 2, 0, 0;
    V1_1 "set_tp_dst" = 10, [TCP_DST, UDP_DST, SCTP_DST], 0, 2, 0, 0;
    V1_1 "set_mpls_label" = 13, [MPLS_LABEL], 0, 4, 0, 0;
    V1_1 "set_mpls_tc" = 14, [MPLS_TC], 0, 1, 0, 0;
};

impl SetRow {
    /// The row of action type `code` in `version`.
    fn of(version: Version, code: u64) -> Option<&'static Self> {
        SET_ROWS.iter().find(|row| (row.version, row.code) == (version, code))
    }

    /// The row that sets `field` in `version`.
    fn that_sets(version: Version, field: FieldId) -> Option<&'static Self> {
        let sets = |row: &&Self| row.fields.iter().any(|id| id.same_as(field));
        SET_ROWS.iter().filter(|row| row.version == version).find(sets)
    }

    /// Parses the action body. A value that the field cannot have is kept unparsed.
    fn parse(&self, r: &mut Reader<'_>) -> Result<Action> {
        let whole = r.peek();
        r.take(self.name, self.before)?;
        let bytes = r.take(self.name, self.bytes)?;
        let wire = bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
        let value = wire >> self.shift | self.always_set;
        let field = self.fields.first().map(|&id| Field::new(id, value));
        let fits = |field: &Field| {
            field.value & !field.significant_bits() == 0 && self.to_wire(field) == Some(wire)
        };
        if let Some(field) = field.filter(fits) {
            return Ok(Action::SetField { field: field.into() });
        }
        r.rest();
        Ok(Action::Other { code: self.code, body: whole.to_vec() })
    }

    /// The value as encoded in the action; `None` if it does not fit.
    fn to_wire(&self, field: &Field) -> Option<u128> {
        let bits_are_set = field.value & self.always_set == self.always_set;
        (bits_are_set && field.value & !field.significant_bits() == 0)
            .then_some((field.value & !self.always_set) << self.shift)
    }

    fn encode(&self, field: &Field, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let version = out.version();
        if !field.is_exact() {
            out.needs(Version::V1_5, MASK)?;
        }
        let lacks = EncodeError::new(self.name, version, Some(Version::V1_2));
        let bytes = self.to_wire(field).ok_or(lacks)?.to_be_bytes();
        let bytes = bytes.get(bytes.len() - self.bytes..).unwrap_or_default();
        encode_tlv_with(self.code, out, Padding::Inside, |out| {
            (0..self.before).try_for_each(|_| 0u8.encode(out))?;
            out.put(bytes);
            Ok(())
        })
    }
}

/// Parses action type `code` if it is one of [`SET_ROWS`].
pub(crate) fn parse_set(code: u64, r: &mut Reader<'_>) -> Option<Result<Action>> {
    SetRow::of(r.version(), code).map(|row| row.parse(r))
}

/// Encodes the action that sets `field` in OpenFlow 1.0 or 1.1.
///
/// # Errors
/// Names the field, and the first version that can set it.
pub(crate) fn encode_set(field: &Oxm, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let version = out.version();
    let row = SetRow::that_sets(version, field.id()).zip(field.field());
    if let Some((row, field)) = row {
        return row.encode(field, out);
    }
    let since = SET_ROWS
        .iter()
        .filter(|row| row.version > version)
        .find(|row| row.fields.iter().any(|id| id.same_as(field.id())));
    let what = field.id().row().map_or("set_field", |row| row.name);
    let needs = since.map(|row| row.version);
    let known = field.id().row().map_or(Version::V1_2, |row| row.since.max(Version::V1_2));
    Err(EncodeError::new(what, version, needs.or(Some(known))))
}

/// Named in errors about masks, which require OpenFlow 1.5.
const MASK: &str = "mask of set_field";

/// The field of a `set_field` action. §7.2.5.
pub(super) struct SetFieldOxm;

impl Encoding<Oxm> for SetFieldOxm {
    fn parse(r: &mut Reader<'_>) -> Result<Oxm> {
        let mut inner = r.nested("set_field", ErrorContext::SetField)?;
        let read = Oxm::parse(&mut inner)?;
        r.take("set_field", r.len() - inner.len())?;
        Ok(read)
    }

    fn encode(value: &Oxm, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.encode(out)
    }
}

/// The unmasked field of a `set_field` action before 1.5.
pub(super) struct UnmaskedOxm;

impl Encoding<Oxm> for UnmaskedOxm {
    fn parse(r: &mut Reader<'_>) -> Result<Oxm> {
        let masked =
            r.error("set_field mask", ParseErrorKind::OutsideMask).within(ErrorContext::SetField);
        let read = SetFieldOxm::parse(r)?;
        if read.is_masked() { Err(masked) } else { Ok(read) }
    }

    fn encode(value: &Oxm, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if value.is_masked() {
            out.needs(Version::V1_5, MASK)?;
        }
        value.encode(out)
    }
}

/// A field header in 14 bytes, padded with zeros.
pub(super) struct PaddedHeader14;

impl Encoding<FieldHeader> for PaddedHeader14 {
    fn parse(r: &mut Reader<'_>) -> Result<FieldHeader> {
        let mut inner = r.sub("field", 14)?;
        FieldHeader::parse(&mut inner)
    }

    fn encode(value: &FieldHeader, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let start = out.len();
        value.encode(out)?;
        (out.len() - start..14).try_for_each(|_| 0u8.encode(out))
    }
}
