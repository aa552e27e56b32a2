//! Random values of all types of the model; implementations for generated types are in the macros of `rows`.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::bundle::EmbeddedMessage;
use super::codec::{Choice, ChoiceRow, ListItem};
use super::learn::{Learn2Action, LearnDst, LearnFlags, LearnSpec, LearnSrc, LearnedFlow};
use super::value::{ByteString, FixedString};
use super::{
    BitRange, Elapsed, ElementId, ErrorCode, ErrorMsg, ErrorReason, ErrorRow, ErrorType, Field,
    FieldHeader, FieldId, MaskSupport, Match, Message, Multipart, MultipartFlags, NatRange,
    NumberSource, Oxm, QueueGetConfigReply, Stat, Stats, TableIds,
};
use crate::{DatapathId, MacAddr, PortNo, Version, Versions};

/// Alternatives that occurred: name of the set, name of the row.
pub(crate) type Rows = BTreeSet<(&'static str, &'static str)>;

/// Types with random values.
pub(crate) trait Sample: Sized {
    /// A random value.
    fn sample(rng: &mut Rng) -> Self;

    /// Adds the alternatives that the value contains to `seen`.
    fn rows(&self, _seen: &mut Rows) {}
}

/// A row of `codes!` or `flags!`: value, name, versions that have it.
type CodeRow<T> = (T, &'static str, Versions);

/// A variant: name, whether a version has it, and its constructor.
type Variant<T> = (&'static str, fn(u8) -> bool, fn(&mut Rng) -> T);

/// A seeded generator, with the version and the alternatives to generate.
#[derive(Debug)]
pub(crate) struct Rng {
    state: u64,
    /// The version that most generated values are valid in.
    pub(crate) version: Version,
    /// Number of enclosing lists and messages.
    depth: u8,
    /// For the next value of a set of alternatives: name of the set, index of the row to use.
    pub(crate) forced_rows: Vec<(&'static str, usize)>,
}

/// Maximum nesting of lists and messages; parsing allows up to `DEPTH_MAX`.
const SAMPLE_DEPTH_MAX: u8 = 4;

impl Rng {
    /// A generator for values of `version`.
    pub(crate) fn new(seed: u64, version: Version) -> Self {
        Self { state: seed, version, depth: 0, forced_rows: vec![] }
    }

    /// 64 bits, by the generator `SplitMix64`.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.bits() % n as u64).unwrap()
    }

    /// `true` with probability 1/`n`.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Whether to generate a value for a field; rarely for fields that the version lacks according to `has`.
    pub(crate) fn wants(&mut self, has: impl Fn(u8) -> bool) -> bool {
        has(self.version.0) || self.once_in(256)
    }

    /// The constructor of a random variant, usually one that the version has; `None` for an alternative without a row.
    pub(crate) fn variant<T>(
        &mut self,
        what: &str,
        variants: &[Variant<T>],
    ) -> Option<fn(&mut Self) -> T> {
        if let Some(at) = self.forced_rows.iter().position(|row| row.0 == what) {
            return Some(variants[self.forced_rows.swap_remove(at).1].2);
        }
        if self.once_in(variants.len() + 8) {
            return None;
        }
        let any_version = self.once_in(24);
        let candidates: Vec<_> =
            variants.iter().filter(|variant| any_version || variant.1(self.version.0)).collect();
        if candidates.is_empty() {
            return Some(variants[self.below(variants.len())].2);
        }
        Some(candidates[self.below(candidates.len())].2)
    }

    /// A code that none of `rows` has in any version.
    pub(crate) fn code_without_row(&mut self, rows: &[ChoiceRow]) -> u64 {
        let known = |code| {
            let mut all = rows.iter().flat_map(|row| (1..=6).map(|v| (row.code)(Version(v))));
            all.any(|known| known == Some(code))
        };
        loop {
            let code = if self.once_in(2) { self.bits() & 0xff } else { self.bits() & 0x7fff };
            if !known(code) {
                return code;
            }
        }
    }

    /// One of the rows that the version has; sometimes none.
    pub(crate) fn row<T: Copy>(&mut self, rows: &[CodeRow<T>]) -> Option<T> {
        let candidates: Vec<_> = rows.iter().filter(|row| row.2.contains(self.version)).collect();
        (!candidates.is_empty() && !self.once_in(8))
            .then(|| candidates[self.below(candidates.len())].0)
    }

    /// Calls `sample` one nesting level deeper; `None` at the maximum depth.
    fn nested<T>(&mut self, sample: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth == SAMPLE_DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let value = sample(self);
        self.depth -= 1;
        Some(value)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| u8::sample(self)).collect()
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Sample for $t {
            #[expect(clippy::allow_attributes, reason = "only the widest needs none")]
            #[allow(clippy::cast_possible_truncation, trivial_numeric_casts, reason = "random bits")]
            fn sample(rng: &mut Rng) -> Self {
                match rng.below(8) {
                    0 => 0,
                    1 => Self::MAX,
                    2 | 3 => (rng.bits() & 0xf) as Self,
                    _ => rng.bits() as Self,
                }
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl Sample for bool {
    fn sample(rng: &mut Rng) -> Self {
        rng.once_in(2)
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(rng: &mut Rng) -> Self {
        rng.once_in(2).then(|| T::sample(rng))
    }

    fn rows(&self, seen: &mut Rows) {
        if let Some(it) = self {
            it.rows(seen);
        }
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(rng: &mut Rng) -> Self {
        Self::new(T::sample(rng))
    }

    fn rows(&self, seen: &mut Rows) {
        (**self).rows(seen);
    }
}

impl<T: Sample + ListItem> Sample for Vec<T> {
    fn sample(rng: &mut Rng) -> Self {
        let len = if rng.once_in(3) { 0 } else { 1 + rng.below(3) };
        let list = rng.nested(|rng| (0..len).map(|_| T::sample(rng)).collect());
        list.unwrap_or_default()
    }

    fn rows(&self, seen: &mut Rows) {
        for it in self {
            it.rows(seen);
        }
    }
}

/// Mostly lengths that end at a multiple of eight bytes after a header of four or eight bytes.
impl Sample for Vec<u8> {
    fn sample(rng: &mut Rng) -> Self {
        let len = [0, 0, 4, 6, 8, 12, 1, 7][rng.below(8)];
        rng.bytes(len)
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(rng: &mut Rng) -> Self {
        rng.bytes(N).try_into().unwrap()
    }
}

impl<const N: usize> Sample for [u32; N] {
    fn sample(rng: &mut Rng) -> Self {
        core::array::from_fn(|_| u32::sample(rng))
    }
}

impl<const N: usize> Sample for FixedString<N> {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self(Sample::sample(rng)),
            n => Self::from(["", "eth0", "Brücke", "a name that fills all it has"][n % 4]),
        }
    }
}

impl Sample for ByteString {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

impl Sample for PortNo {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::NAMES[rng.below(Self::NAMES.len())].0,
            1 => Self(u32::sample(rng)),
            _ => Self(u32::from(u8::sample(rng))),
        }
    }
}

impl Sample for MacAddr {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

impl Sample for DatapathId {
    fn sample(rng: &mut Rng) -> Self {
        Self(u64::sample(rng))
    }
}

/// Usually of a known field.
impl Sample for FieldHeader {
    fn sample(rng: &mut Rng) -> Self {
        if rng.once_in(16) {
            let id = FieldId { class: 0x7000, number: u8::sample(rng) >> 1, experimenter: 0 };
            return Self { id, masked: bool::sample(rng), len: u8::sample(rng) };
        }
        let row = &FieldId::ROWS[rng.below(FieldId::ROWS.len())];
        let id = row.headers[rng.below(row.headers.len())].id;
        if row.bytes <= 63 && bool::sample(rng) { Self::with_mask(id) } else { id.into() }
    }
}

/// Usually a field that the version has, with its canonical header and a valid value and mask.
impl Sample for Oxm {
    fn sample(rng: &mut Rng) -> Self {
        if rng.once_in(32) {
            let id = FieldId { class: 0x7000, number: u8::sample(rng) >> 1, experimenter: 0 };
            let value = Vec::sample(rng);
            let mask = rng.once_in(2).then(|| vec![0xff; value.len()]);
            return Self::Wide { id, value, mask };
        }
        let any_version = rng.once_in(if rng.version < Version::V1_2 { 8 } else { 64 });
        let candidates: Vec<_> =
            FieldId::ROWS.iter().filter(|row| any_version || row.since <= rng.version).collect();
        let row = candidates[rng.below(candidates.len())];
        if row.bytes > 16 {
            let len = if row.is_variable() { 17 + rng.below(8) } else { row.bytes.into() };
            let value = rng.bytes(len);
            return Self::Wide { id: row.id, value, mask: None };
        }
        let value = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
        let mut field = Field::new(row.id, 0);
        field.value = value & field.significant_bits();
        if row.id == FieldId::VLAN_VID && field.value != 0 {
            field.value |= 0x1000;
        }
        if row.masks != MaskSupport::No && rng.once_in(3) {
            let bits = u32::from(row.bits);
            let prefix = field.significant_bits() << (rng.bits() % u64::from(bits))
                & field.significant_bits();
            let any = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
            let mask = if rng.once_in(2) { prefix } else { any & field.significant_bits() };
            // The structs of 1.0 and 1.1 do not distinguish a full mask from none.
            if rng.version >= Version::V1_2 || mask != field.significant_bits() {
                field = Field { value: field.value & mask, ..field }.masked(mask);
            }
        }
        Self::Field(field)
    }
}

/// Without duplicate fields.
impl Sample for Match {
    fn sample(rng: &mut Rng) -> Self {
        let mut seen = BTreeSet::new();
        let mut fields: Vec<Oxm> = (0..rng.below(4)).map(|_| Oxm::sample(rng)).collect();
        fields.retain(|oxm| seen.insert(oxm.id().canonical()));
        Self { fields }
    }
}

impl Sample for Elapsed {
    fn sample(rng: &mut Rng) -> Self {
        Self { sec: u32::sample(rng), nsec: u32::sample(rng) }
    }
}

impl Sample for Stats {
    fn sample(rng: &mut Rng) -> Self {
        let mut fields = vec![];
        for kind in 0..6 {
            if rng.once_in(3) {
                fields.push(match kind {
                    0 => Stat::Duration(Elapsed::sample(rng)),
                    1 => Stat::IdleTime(Elapsed::sample(rng)),
                    2 => Stat::FlowCount(u32::sample(rng)),
                    3 => Stat::PacketCount(u64::sample(rng)),
                    4 => Stat::ByteCount(u64::sample(rng)),
                    _ => {
                        let value = Vec::sample(rng);
                        Stat::Other { class: 0x8002, number: 0x20 | u8::sample(rng), value }
                    }
                });
            }
        }
        Self { fields }
    }
}

impl Sample for BitRange {
    fn sample(rng: &mut Rng) -> Self {
        Self::new(u16::sample(rng) & 0x1f, 1 + (u16::sample(rng) & 0x1f)).unwrap_or_default()
    }
}

impl<T: Sample> Sample for NumberSource<T> {
    fn sample(rng: &mut Rng) -> Self {
        if rng.once_in(2) {
            return Self::Immediate(T::sample(rng));
        }
        Self::Field { field: FieldHeader::sample(rng), bits: BitRange::sample(rng) }
    }
}

impl Sample for NatRange {
    fn sample(rng: &mut Rng) -> Self {
        let v4 = |n: Option<u32>| n.map(Ipv4Addr::from);
        let v6 = |bytes: Option<[u8; 16]>| bytes.map(Ipv6Addr::from);
        if !rng.once_in(8) {
            let addr = Ipv4Addr::from(u32::sample(rng));
            let ports = rng.once_in(2).then(|| u16::sample(rng));
            return Self { ipv4_min: Some(addr), proto_min: ports, ..Self::default() };
        }
        Self {
            ipv4_min: v4(Sample::sample(rng)),
            ipv4_max: v4(Sample::sample(rng)),
            ipv6_min: v6(Sample::sample(rng)),
            ipv6_max: v6(Sample::sample(rng)),
            proto_min: Sample::sample(rng),
            proto_max: Sample::sample(rng),
        }
    }
}

impl Sample for Learn2Action {
    fn sample(rng: &mut Rng) -> Self {
        let rule = LearnedFlow::sample(rng);
        let writes = rule.flags.contains(LearnFlags::WRITE_RESULT);
        Self {
            rule,
            limit: u32::sample(rng),
            result_dst_ofs: u16::sample(rng),
            result_dst: writes.then(|| FieldHeader::sample(rng)),
            flow_mod_specs: Vec::sample(rng),
        }
    }

    fn rows(&self, seen: &mut Rows) {
        self.flow_mod_specs.rows(seen);
    }
}

/// Immediate values have the length that the number of bits requires.
impl Sample for LearnSpec {
    fn sample(rng: &mut Rng) -> Self {
        let n_bits = 1 + (u16::sample(rng) & 0x3f);
        let (mut src, mut dst) = (LearnSrc::sample(rng), LearnDst::sample(rng));
        if let LearnSrc::Immediate { value } = &mut src {
            *value = rng.bytes(2 * usize::from(n_bits.div_ceil(16)));
            if dst == LearnDst::Output && !rng.once_in(16) {
                dst = LearnDst::Load { field: FieldHeader::sample(rng), offset: 0 };
            }
        }
        Self { n_bits, src, dst }
    }

    fn rows(&self, seen: &mut Rows) {
        self.src.rows(seen);
        self.dst.rows(seen);
    }
}

impl Sample for ErrorMsg {
    fn sample(rng: &mut Rng) -> Self {
        let rows = ErrorRow::all();
        let reason = match rng.below(8) {
            0 => ErrorReason::Experimenter {
                experimenter: u32::sample(rng),
                exp_type: u16::sample(rng),
            },
            1 => ErrorReason::Vendor {
                vendor: u32::sample(rng),
                kind: u16::sample(rng),
                code: u16::sample(rng),
            },
            2 => ErrorReason::Standard {
                kind: ErrorType::sample(rng),
                code: ErrorCode(u16::sample(rng).into()),
            },
            _ => rows[rng.below(rows.len())].reason,
        };
        Self { reason, data: Vec::sample(rng) }
    }
}

impl Sample for EmbeddedMessage {
    fn sample(rng: &mut Rng) -> Self {
        let message = rng.nested(Message::sample).unwrap_or(Message::BarrierRequest);
        Self { xid: u32::sample(rng), message: Box::new(message) }
    }

    fn rows(&self, seen: &mut Rows) {
        self.message.rows(seen);
    }
}

impl<T: Choice> Sample for ElementId<T> {
    fn sample(rng: &mut Rng) -> Self {
        let row = &T::ROWS[rng.below(T::ROWS.len())];
        match (row.code)(rng.version).map(u16::try_from) {
            Some(Ok(kind)) if !rng.once_in(8) => Self::new(kind),
            _ => Self::with_data(u16::sample(rng), Vec::sample(rng)),
        }
    }
}

impl Sample for TableIds {
    fn sample(rng: &mut Rng) -> Self {
        Self(Vec::sample(rng))
    }
}

/// Usually all queues belong to the port of the reply.
impl Sample for QueueGetConfigReply {
    fn sample(rng: &mut Rng) -> Self {
        let mut reply = Self { port: PortNo::sample(rng), queues: Vec::sample(rng) };
        if !rng.once_in(8) {
            reply.queues.iter_mut().for_each(|queue| queue.port_no = reply.port);
        }
        reply
    }

    fn rows(&self, seen: &mut Rows) {
        self.queues.rows(seen);
    }
}

impl<T: Sample> Sample for Multipart<T> {
    fn sample(rng: &mut Rng) -> Self {
        Self { flags: MultipartFlags::sample(rng), body: T::sample(rng) }
    }

    fn rows(&self, seen: &mut Rows) {
        self.body.rows(seen);
    }
}
