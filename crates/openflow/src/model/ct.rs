//! The `ct` action, and numbers that are either given or read from a field. Open vSwitch, `struct
//! nx_action_conntrack`.

use super::action::Action;
use super::bit_range::BitRange;
use super::codec::Codec;
use super::codec::versions::V1_0;
use super::field::EXPERIMENTER;
use super::oxm::FieldHeader;
use super::reader::Reader;
use super::rows::{flags, record};
use super::value::{Entries, NeutralForm, Value, ValueError};
use crate::{EncodeError, Encoder, ParseErrorKind, Result, Version};

flags! {
    /// `NX_CT_F_*`: options of [connection tracking](super::Action::Ct).
    pub struct CtFlags(u16);
    COMMIT = 1, V1_0, "Commit the connection to the connection tracker.";
    FORCE = 2, V1_0, "Replace an existing connection if the packet is in the opposite direction.";
}

record! {
    /// Sends the packet through the connection tracker.
    #[derive(Default)]
    pub struct CtAction: "ct" {
        /// Options.
        pub flags: CtFlags,
        /// Connection tracking zone.
        pub zone: NumberSource<u16>,
        /// Table in which the tracked packet continues; 255 does not recirculate.
        pub recirc_table: u8,
        /// Application layer gateway, by well-known port: 21 is FTP, 69 is TFTP, 0 is none.
        pub alg: u16,
        /// Actions executed in the connection tracker, such as [`Action::Nat`].
        pub actions: Vec<Action>,
    }
    V1_0.. => [flags, zone, recirc_table, pad 3, alg, actions,]
}

/// A number, or bits of a field that hold one.
///
/// Encoded as a 32-bit field header (0 for a plain number), then the number or the [`BitRange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberSource<T> {
    /// A given number.
    Immediate(T),
    /// Bits of a field.
    Field {
        /// Source field.
        field: FieldHeader,
        /// Bits of the field.
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
        let experimenter = r.error("source", ParseErrorKind::Value);
        let (field, bits) = (FieldHeader::parse(r)?, BitRange::parse(r)?);
        if field.id.class == EXPERIMENTER {
            return Err(experimenter);
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
                    let (what, version) = ("source with an experimenter field", out.version());
                    return Err(EncodeError::new(what, version, None));
                }
                field.encode(out)?;
                bits.encode(out)?;
                (size_of::<u16>()..size_of::<T>()).try_for_each(|_| 0u8.encode(out))
            }
        }
    }
}

/// Neutral form: a number, or a map with `field` and `bits`.
impl<T: NeutralForm> NeutralForm for NumberSource<T> {
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
        let missing = |name| ValueError::new("missing").under(name);
        let read = Self::Field {
            field: entries.read("field", version)?.ok_or_else(|| missing("field"))?,
            bits: entries.read("bits", version)?.ok_or_else(|| missing("bits"))?,
        };
        entries.finish()?;
        Ok(read)
    }
}
