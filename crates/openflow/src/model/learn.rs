//! The `learn` action: builds a flow entry from the packet. Open vSwitch, `struct nx_action_learn`,
//! `nx_action_learn2`.

use super::codec::versions::V1_0;
use super::codec::{Choice, Codec, Encoding, ListItem};
use super::oxm::FieldHeader;
use super::reader::Reader;
use super::rows::{choice, flags, record};
use super::value::{Entries, NeutralForm, Value, ValueError};
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, Result, Version};

flags! {
    /// `NX_LEARN_F_*`: options of [`learn`](super::Action::Learn).
    pub struct LearnFlags(u16);
    SEND_FLOW_REM = 1, V1_0, "Learned flow entries send a flow-removed message.";
    DELETE_LEARNED = 2, V1_0, "Delete the learned flow entries together with the flow entry that learned them.";
    WRITE_RESULT = 4, V1_0, "Write to `result_dst` whether the flow entry was learned.";
}

record! {
    /// The learned flow entry, except for its match and actions.
    #[derive(Default)]
    pub struct LearnedFlow: "learn" {
        /// Idle timeout, seconds; 0 is none.
        pub idle_timeout: u16,
        /// Hard timeout, seconds; 0 is none.
        pub hard_timeout: u16,
        /// Priority.
        pub priority: u16,
        /// Cookie.
        pub cookie: u64,
        /// Options.
        pub flags: LearnFlags,
        /// Table of the learned flow entry.
        pub table_id: u8,
        /// Idle timeout after a TCP connection ends, seconds; 0 leaves it unchanged.
        pub fin_idle_timeout: u16,
        /// Hard timeout after a TCP connection ends, seconds; 0 leaves it unchanged.
        pub fin_hard_timeout: u16,
    }
    V1_0.. => [idle_timeout, hard_timeout, priority, cookie, flags, table_id, pad 1, fin_idle_timeout,
        fin_hard_timeout,]
}

record! {
    /// Adds or modifies a flow entry built from the packet.
    #[derive(Default)]
    pub struct LearnAction: "learn" {
        /// The flow entry, except for its match and actions.
        pub rule: LearnedFlow,
        /// Its match and actions.
        pub flow_mod_specs: Vec<LearnSpec>,
    }
    V1_0.. => [rule, flow_mod_specs as Specs,]
}

/// Like [`LearnAction`], with a limit on learned flow entries and an optional result bit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learn2Action {
    /// The flow entry, except for its match and actions.
    pub rule: LearnedFlow,
    /// Maximum number of flow entries learned; 0 is unlimited.
    pub limit: u32,
    /// Bit of [`result_dst`](Self::result_dst) that receives the result.
    pub result_dst_ofs: u16,
    /// Field that receives the result: present exactly if [`LearnFlags::WRITE_RESULT`] is set.
    pub result_dst: Option<FieldHeader>,
    /// Its match and actions.
    pub flow_mod_specs: Vec<LearnSpec>,
}

impl Codec for Learn2Action {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let rule = LearnedFlow::parse(r)?;
        let (limit, result_dst_ofs) = (r.u32("limit")?, r.u16("result_dst_ofs")?);
        r.take("learn", 2)?;
        let writes = rule.flags.contains(LearnFlags::WRITE_RESULT);
        let result_dst = if writes { Some(FieldHeader::parse(r)?) } else { None };
        let flow_mod_specs = Specs::parse(r)?;
        Ok(Self { rule, limit, result_dst_ofs, result_dst, flow_mod_specs })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let writes = self.rule.flags.contains(LearnFlags::WRITE_RESULT);
        if writes != self.result_dst.is_some() {
            return Err(EncodeError::new("result_dst", out.version(), None));
        }
        self.rule.encode(out)?;
        self.limit.encode(out)?;
        self.result_dst_ofs.encode(out)?;
        0u16.encode(out)?;
        self.result_dst.iter().try_for_each(|header| header.encode(out))?;
        Specs::encode(&self.flow_mod_specs, out)
    }
}

impl NeutralForm for Learn2Action {
    fn to_value(&self, version: Version) -> Value {
        Value::Map(vec![
            ("rule".into(), self.rule.to_value(version)),
            ("limit".into(), self.limit.to_value(version)),
            ("result_dst_ofs".into(), self.result_dst_ofs.to_value(version)),
            ("result_dst".into(), self.result_dst.to_value(version)),
            ("flow_mod_specs".into(), self.flow_mod_specs.to_value(version)),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let read = Self {
            rule: entries.read("rule", version)?.unwrap_or_default(),
            limit: entries.read("limit", version)?.unwrap_or_default(),
            result_dst_ofs: entries.read("result_dst_ofs", version)?.unwrap_or_default(),
            result_dst: entries.read::<Option<_>>("result_dst", version)?.flatten(),
            flow_mod_specs: entries.read("flow_mod_specs", version)?.unwrap_or_default(),
        };
        entries.finish()?;
        Ok(read)
    }
}

choice! {
    /// Source of the bits of a [`LearnSpec`]. Bit 13 of its header.
    pub enum LearnSrc: "flow_mod_spec source" {
        /// Bits of a field of the packet.
        Field "field" {
            /// Source field.
            field: FieldHeader,
            /// First bit.
            offset: u16,
        } = { V1_0.. => 0 [field, offset,] };
        /// Bits given in the action.
        Immediate "immediate" {
            /// The bits, right-aligned in the smallest number of 16-bit words.
            value: Vec<u8>,
        } = { V1_0.. => 1 [value,] };
    }
}

choice! {
    /// Destination of the bits of a [`LearnSpec`]. Bits 12 and 11 of its header.
    pub enum LearnDst: "flow_mod_spec destination" {
        /// A match field of the learned flow entry.
        Match "match" {
            /// Field to match.
            field: FieldHeader,
            /// First bit.
            offset: u16,
        } = { V1_0.. => 0 [field, offset,] };
        /// A field that the learned flow entry sets.
        Load "load" {
            /// Field to set.
            field: FieldHeader,
            /// First bit.
            offset: u16,
        } = { V1_0.. => 1 [field, offset,] };
        /// The output port of the learned flow entry.
        Output "output" = { V1_0.. => 2 [] };
    }
}

/// Part of the match or of the actions of a learned flow entry: bits and their destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnSpec {
    /// Number of bits, at most 1023.
    pub n_bits: u16,
    /// Source of the bits.
    pub src: LearnSrc,
    /// Destination of the bits.
    pub dst: LearnDst,
}

/// Name of a [`LearnSpec`] in errors.
const SPEC: &str = "flow_mod_spec";

/// Bits of the header that hold the number of bits.
const N_BITS: u16 = 0x03ff;

impl ListItem for LearnSpec {}

impl Codec for LearnSpec {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let (wrong, head) = (r.error(SPEC, ParseErrorKind::Value), r.u16(SPEC)?);
        let (n_bits, src, dst) = (head & N_BITS, head >> 13, head >> 11 & 3);
        if head & 0xc400 != 0 || dst == 3 || (src, dst) == (1, 2) {
            return Err(wrong.with_value(head.into(), Expected::Unstated));
        }
        let src = if src == 0 {
            LearnSrc::parse_variant(0, r)?
        } else {
            LearnSrc::parse_variant(1, &mut r.sub(SPEC, immediate_len(n_bits))?)?
        };
        Ok(Self { n_bits, src, dst: LearnDst::parse_variant(dst.into(), r)? })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let version = out.version();
        let refused = |what| EncodeError::new(what, version, None);
        let (src, dst) = (self.src.code(version)?, self.dst.code(version)?);
        let head = match (src, dst) {
            (0, 0..=2) | (1, 0..=1) => src << 13 | dst << 11 | u64::from(self.n_bits),
            _ => return Err(refused(SPEC)),
        };
        if let LearnSrc::Immediate { value } = &self.src
            && value.len() != immediate_len(self.n_bits)
        {
            return Err(refused("immediate value of the wrong length"));
        }
        let head = u16::try_from(head).ok().filter(|_| self.n_bits <= N_BITS);
        head.filter(|&head| head != 0).ok_or_else(|| refused(SPEC))?.encode(out)?;
        self.src.encode_body(out)?;
        self.dst.encode_body(out)
    }
}

/// Length in bytes of an immediate value of `n_bits`.
fn immediate_len(n_bits: u16) -> usize {
    2 * usize::from(n_bits.div_ceil(16))
}

impl NeutralForm for LearnSpec {
    fn to_value(&self, version: Version) -> Value {
        Value::Map(vec![
            ("n_bits".into(), self.n_bits.to_value(version)),
            ("src".into(), self.src.to_value(version)),
            ("dst".into(), self.dst.to_value(version)),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let missing = |name| ValueError::new("is missing").under(name);
        let read = Self {
            n_bits: entries.read("n_bits", version)?.ok_or_else(|| missing("n_bits"))?,
            src: entries.read("src", version)?.ok_or_else(|| missing("src"))?,
            dst: entries.read("dst", version)?.ok_or_else(|| missing("dst"))?,
        };
        entries.finish()?;
        Ok(read)
    }
}

/// A list of [`LearnSpec`]s, up to the end of the action or its zero padding.
struct Specs;

impl Encoding<Vec<LearnSpec>> for Specs {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<LearnSpec>> {
        let mut specs = Vec::new();
        while !r.is_empty() && !r.peek().starts_with(&[0, 0]) && r.peek() != [0] {
            specs.push(LearnSpec::parse(r)?);
        }
        Ok(specs)
    }

    fn encode(value: &Vec<LearnSpec>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.encode(out)
    }
}
