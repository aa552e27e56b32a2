//! Fields of packets, and matches on them. §7.2.3.

use std::borrow::Cow;
use std::sync::Arc;

use sluice_openflow::{Field, FieldId, Match, MatchError, Oxm, Version};

/// Number of field slots: OpenFlow's own fields by their number, `tcp_flags` in the last slot.
const FIELD_SLOTS: usize = 40;
const TCP_FLAGS: u8 = 39;

/// Fields that do not identify a flow: they differ between its packets, or are set by the switch.
const NOT_OF_FLOWS: [FieldId; 5] = [
    FieldId::METADATA,
    FieldId::IP_DSCP,
    FieldId::IP_ECN,
    FieldId::TCP_FLAGS,
    FieldId::IPV6_FLABEL,
];

/// The slot of a canonical field.
const fn own_slot(id: FieldId) -> u8 {
    let flags = FieldId::TCP_FLAGS;
    if id.class == flags.class && id.number == flags.number { TCP_FLAGS } else { id.number }
}

/// A number for each field that a packet can have, in any of its encodings; `None` for a field that is not modelled.
pub fn field_slot(id: FieldId) -> Option<u8> {
    match id.canonical() {
        FieldId::TCP_FLAGS => Some(TCP_FLAGS),
        // Physical ports are the same as logical ones here; provider backbone bridging is not supported.
        FieldId::IN_PHY_PORT | FieldId::PBB_ISID => None,
        own if own.class == FieldId::IN_PORT.class && own.number < TCP_FLAGS => Some(own.number),
        _ => None,
    }
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy)]
pub struct PacketFields {
    /// By slot; those of fields that the packet does not have are arbitrary.
    values: [u128; FIELD_SLOTS],
    present: u64,
}

/// The fields that identify a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowKey {
    present: u64,
    values: Box<[u128]>,
}

impl PacketFields {
    /// No field at all.
    pub const NONE: Self = Self { values: [0; FIELD_SLOTS], present: 0 };

    /// Sets the canonical field `id`.
    pub fn set(&mut self, id: FieldId, value: u128) {
        let slot = own_slot(id);
        if let Some(at) = self.values.get_mut(usize::from(slot)) {
            *at = value;
            self.present |= 1 << slot;
        }
    }

    /// Removes all fields but these canonical ones.
    pub fn keep_only(&mut self, ids: &[FieldId]) {
        self.present &= ids.iter().fold(0u64, |bits, &id| bits | 1 << own_slot(id));
    }

    /// The value of the canonical field `id`, if the packet has it.
    pub fn get(&self, id: FieldId) -> Option<u128> {
        let slot = own_slot(id);
        let value = self.values.get(usize::from(slot)).copied();
        value.filter(|_| self.present & 1 << slot != 0)
    }

    /// All fields that the packet has, those of the switch included, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Field> {
        let present = (0u8..).zip(&self.values).filter(|(slot, _)| self.present & 1 << slot != 0);
        present.map(|(slot, &value)| {
            let own = FieldId { number: slot, ..FieldId::IN_PORT };
            Field::new(if slot == TCP_FLAGS { FieldId::TCP_FLAGS } else { own }, value)
        })
    }

    fn at(&self, slot: u8) -> u128 {
        self.values.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// The flow of this packet.
    ///
    /// # Cost
    /// Allocates.
    pub fn flow(&self) -> FlowKey {
        let not = NOT_OF_FLOWS.iter().fold(0u64, |bits, &id| bits | 1 << own_slot(id));
        let present = self.present & !not;
        let places = (0u8..).zip(&self.values).filter(|(n, _)| present & 1 << n != 0);
        FlowKey { present, values: places.map(|(_, value)| *value).collect() }
    }

    /// A hash that is equal for all packets of a flow, whatever their input port (64-bit FNV-1a).
    pub fn flow_hash(&self) -> u64 {
        let not = NOT_OF_FLOWS.iter().fold(0u64, |bits, &id| bits | 1 << own_slot(id));
        let present = self.present & !(not | 1 << own_slot(FieldId::IN_PORT));
        let places = (0u8..).zip(&self.values).filter(|(n, _)| present & 1 << n != 0);
        let hash = places
            .flat_map(|(_, value)| value.to_be_bytes())
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        // The low bits of FNV depend only on the low bits of the input.
        hash ^ hash >> 32
    }
}

/// The matched fields by slot, with the bits that matter; no slot occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FieldMask {
    present: u64,
    bits: Arc<[(u8, u128)]>,
}

/// A match in canonical form: two matches with the same meaning are equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NormalizedMatch {
    /// The matched bits.
    pub mask: FieldMask,
    /// Their values, in the order of the mask.
    pub values: Arc<[u128]>,
}

/// Why a match cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableMatch {
    /// The field is not modelled, or excluded.
    UnsupportedField(FieldId),
    /// The match is invalid.
    Invalid(MatchError),
}

impl FieldMask {
    /// Whether both are copies of one mask.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bits, &other.bits)
    }

    /// Extracts the matched bits of `fields`; `false` if a field is missing.
    pub fn extract(&self, fields: &PacketFields, values: &mut Vec<u128>) -> bool {
        let has_all = fields.present & self.present == self.present;
        if has_all {
            values.clear();
            values.extend(self.bits.iter().map(|&(slot, bits)| fields.at(slot) & bits));
        }
        has_all
    }
}

impl NormalizedMatch {
    /// Normalizes `matching` as `version` defines it; fields in `unsupported` are unsupported.
    ///
    /// Before 1.2, a field without its prerequisites is ignored. OpenFlow 1.0.0 §3.4.
    ///
    /// # Errors
    /// The error for the first invalid field.
    pub fn new(
        matching: &Match,
        version: Version,
        unsupported: &[FieldId],
    ) -> Result<Self, UnusableMatch> {
        let matching = if version < Version::V1_2 {
            Cow::Owned(without_unmet_prerequisites(matching.clone()))
        } else {
            Cow::Borrowed(matching)
        };
        matching.check().map_err(UnusableMatch::Invalid)?;
        let mut bits = Vec::with_capacity(matching.fields.len());
        for oxm in &matching.fields {
            let refused = UnusableMatch::UnsupportedField(oxm.id());
            let field = oxm.field().map(canonical_field).ok_or(refused)?;
            let slot = field_slot(field.id).ok_or(refused)?;
            if unsupported.iter().any(|id| id.same_as(field.id)) {
                return Err(refused);
            }
            let mask = field.mask.unwrap_or(u128::MAX) & field_bits(field.id);
            if mask != 0 {
                bits.push((slot, mask, field.value & mask));
            }
        }
        bits.sort_unstable();
        Ok(Self {
            mask: FieldMask {
                present: bits.iter().fold(0, |present, (slot, ..)| present | 1 << slot),
                bits: bits.iter().map(|&(slot, mask, _)| (slot, mask)).collect(),
            },
            values: bits.iter().map(|&(_, _, value)| value).collect(),
        })
    }

    /// The index of the value of a field.
    pub fn position(&self, id: FieldId) -> Option<usize> {
        let slot = field_slot(id)?;
        self.mask.bits.iter().position(|&(it, _)| it == slot)
    }

    /// Whether it has an exact `value` of the canonical field `id`.
    pub fn has_exact(&self, id: FieldId, value: u128) -> bool {
        let own = own_slot(id);
        self.iter().any(|(slot, mask, it)| slot == own && it == value && mask == field_bits(id))
    }

    fn iter(&self) -> impl Iterator<Item = (u8, u128, u128)> {
        let pairs = self.mask.bits.iter().zip(self.values.iter());
        pairs.map(|(&(slot, mask), &value)| (slot, mask, value))
    }

    /// Whether a packet matches.
    pub fn matches(&self, fields: &PacketFields) -> bool {
        fields.present & self.mask.present == self.mask.present
            && self.iter().all(|(slot, mask, value)| fields.at(slot) & mask == value)
    }

    /// Whether every packet matches.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether this matches every packet that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.iter().all(|(slot, mask, value)| {
            let same = other.iter().find(|it| it.0 == slot);
            same.is_some_and(|it| it.1 & mask == mask && it.2 & mask == value)
        })
    }

    /// Whether some packet could match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.iter().all(|(slot, mask, value)| {
            let same = other.iter().find(|it| it.0 == slot);
            same.is_none_or(|it| (it.2 ^ value) & it.1 & mask == 0)
        })
    }
}

/// All significant bits of a field.
pub fn field_bits(id: FieldId) -> u128 {
    let bits = id.row().map_or(128, |row| row.bits);
    1u128.checked_shl(bits.into()).map_or(u128::MAX, |end| end - 1)
}

/// Converts the type of service of 1.0, with its two undefined bits, to the DSCP field.
fn canonical_field(field: &Field) -> Field {
    match field.id {
        FieldId::NW_TOS => Field::new(FieldId::IP_DSCP, field.value >> 2),
        _ => *field,
    }
}

/// Removes fields without their prerequisites, repeatedly.
fn without_unmet_prerequisites(mut matching: Match) -> Match {
    let is_unmet = |oxm: &Oxm, matching: &Match| {
        let needs = oxm.id().row().map_or(&[][..], |row| row.prerequisites);
        !needs.iter().all(|need| matching.iter().any(|field| need.is_met_by(field)))
    };
    while let Some(at) = matching.fields.iter().position(|oxm| is_unmet(oxm, &matching)) {
        matching.fields.remove(at);
    }
    matching
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sluice_openflow::MatchErrorKind;

    use super::*;

    fn pattern(fields: &[Field]) -> NormalizedMatch {
        NormalizedMatch::new(&fields.iter().copied().collect(), Version::V1_3, &[]).unwrap()
    }

    fn subnet(byte: u8, prefix: u32) -> NormalizedMatch {
        let addr = u128::from(u32::from(Ipv4Addr::new(10, byte, 0, 0)));
        let mask = u128::from(u32::MAX << (32 - prefix));
        let field = Field::new(FieldId::IPV4_DST, addr).masked(mask);
        pattern(&[Field::eth_type(0x0800), field])
    }

    #[test]
    fn matches_with_the_same_meaning_are_equal() {
        let (a, b) = (Field::eth_type(0x0806), Field::new(FieldId::ARP_OP, 1));
        assert_eq!(pattern(&[a, b]), pattern(&[b, a]));
        let all = Field::new(FieldId::METADATA, 7).masked(u128::from(u64::MAX));
        assert_eq!(pattern(&[all]), pattern(&[Field::new(FieldId::METADATA, 7)]));
        assert_eq!(
            pattern(&[Field::new(FieldId::METADATA, 0).masked(0)]),
            NormalizedMatch::default()
        );
    }

    #[test]
    fn a_wider_match_covers_a_narrower_one_and_disjoint_matches_do_not_overlap() {
        let (wide, narrow, other) = (subnet(0, 8), subnet(1, 16), subnet(2, 16));
        assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        assert!(wide.overlaps(&narrow) && narrow.overlaps(&wide));
        assert!(!narrow.overlaps(&other) && !narrow.covers(&other));
        let by_port = pattern(&[Field::in_port(sluice_openflow::PortNo(1))]);
        assert!(by_port.overlaps(&narrow) && !by_port.covers(&narrow));
        assert!(NormalizedMatch::default().covers(&narrow));
    }

    #[test]
    fn a_field_without_its_prerequisite_is_rejected_and_ignored_in_1_0() {
        let alone: Match = [Field::new(FieldId::TCP_SRC, 80)].into();
        assert!(matches!(
            NormalizedMatch::new(&alone, Version::V1_3, &[]),
            Err(UnusableMatch::Invalid(MatchError {
                id: FieldId::TCP_SRC,
                why: MatchErrorKind::MissingPrerequisite(_)
            }))
        ));
        assert_eq!(
            NormalizedMatch::new(&alone, Version::V1_0, &[]),
            Ok(NormalizedMatch::default())
        );
        let chain: Match = [Field::ip_proto(6), Field::new(FieldId::TCP_SRC, 80)].into();
        assert_eq!(
            NormalizedMatch::new(&chain, Version::V1_0, &[]),
            Ok(NormalizedMatch::default())
        );
    }

    #[test]
    fn unsupported_fields_are_rejected() {
        let register: Match = [Field::new(FieldId::XREG0, 1)].into();
        assert_eq!(
            NormalizedMatch::new(&register, Version::V1_3, &[]),
            Err(UnusableMatch::UnsupportedField(FieldId::XREG0))
        );
        let port: Match = [Field::in_port(sluice_openflow::PortNo(1))].into();
        let unsupported = [FieldId::IN_PORT];
        assert_eq!(
            NormalizedMatch::new(&port, Version::V1_3, &unsupported),
            Err(UnusableMatch::UnsupportedField(FieldId::IN_PORT))
        );
    }
}
