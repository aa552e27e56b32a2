//! Tracking of connections, and numbers that an action has by itself or takes from a field. Open vSwitch,
//! `struct nx_action_conntrack`.

use super::action::Action;
use super::bit_range::BitRange;
use super::codec::Codec;
use super::codec::versions::V1_0;
use super::field::EXPERIMENTER;
use super::oxm::FieldHeader;
use super::reader::Reader;
use super::rows::{flags, record};
use super::value::{Entries, Plain, Value, ValueError};
use crate::{EncodeError, Encoder, ParseErrorKind, Result, Version};

flags! {
    /// `NX_CT_F_*`: how a connection is tracked.
    pub struct CtFlags(u16);
    COMMIT = 1, V1_0, "The connection is remembered.";
    FORCE = 2, V1_0, "In this direction, whatever was known.";
}

record! {
    /// Hands the packet to the tracker of connections.
    #[derive(Default)]
    pub struct CtAction: "ct" {
        /// How.
        pub flags: CtFlags,
        /// In which zone.
        pub zone: NumberSource<u16>,
        /// The table in which the tracked packet goes on, 255 for none.
        pub recirc_table: u8,
        /// Port of the protocol that opens connections of its own, 0 for none: 21 FTP, 69 TFTP.
        pub alg: u16,
        /// What is done within the tracker.
        pub actions: Vec<Action>,
    }
    V1_0.. => [flags, zone, recirc_table, pad 3, alg, actions,]
}

/// A number, or the bits of a field that are one.
///
/// On the wire a field of 32 bits, zero if there is none, then the number, or the range of bits in its first 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberSource<T> {
    /// The number.
    Immediate(T),
    /// The bits of a field.
    Field {
        /// Which.
        field: FieldHeader,
        /// Which of its bits.
        bits: BitRange,
    },
}

impl<T: Default> Default for NumberSource<T> {
    fn default() -> Self {
        Self::Immediate(T::default())
    }
}

impl<T: Codec> Codec for NumberSource<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        if r.peek().starts_with(&[0; 4]) {
            r.take("source", 4)?;
            return T::parse(r).map(Self::Immediate);
        }
        let too_long = r.error("source", ParseErrorKind::Value);
        let (field, bits) = (FieldHeader::parse(r)?, BitRange::parse(r)?);
        if field.id.class == EXPERIMENTER {
            return Err(too_long);
        }
        r.take("source", size_of::<T>() - size_of::<u16>())?;
        Ok(Self::Field { field, bits })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Immediate(number) => {
                0u32.encode(out)?;
                number.encode(out)
            }
            Self::Field { field, bits } => {
                if field.id.class == EXPERIMENTER {
                    let (what, version) = ("source with an experimenter's field", out.version());
                    return Err(EncodeError { what, version, needs: None });
                }
                field.encode(out)?;
                bits.encode(out)?;
                (size_of::<u16>()..size_of::<T>()).try_for_each(|_| 0u8.encode(out))
            }
        }
    }
}

/// A number, or an object of `field` and `bits`.
impl<T: Plain> Plain for NumberSource<T> {
    fn to_value(&self, version: Version) -> Value {
        match self {
            Self::Immediate(number) => number.to_value(version),
            Self::Field { field, bits } => Value::Map(vec![
                ("field".into(), field.to_value(version)),
                ("bits".into(), bits.to_value(version)),
            ]),
        }
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        if !matches!(value, Value::Map(_)) {
            return T::from_value(value, version).map(Self::Immediate);
        }
        let mut entries = Entries::of(value)?;
        let missing = |name| ValueError::new("is missing").under(name);
        let read = Self::Field {
            field: entries.read("field", version)?.ok_or_else(|| missing("field"))?,
            bits: entries.read("bits", version)?.ok_or_else(|| missing("bits"))?,
        };
        entries.finish()?;
        Ok(read)
    }
}
