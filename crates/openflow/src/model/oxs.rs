//! Flow statistics as a list of fields (OXS). OpenFlow 1.5.1 §7.2.4.

use super::codec::Codec;
use super::reader::Reader;
use super::value::{Entries, NeutralForm, Value, ValueError, hex, number_to_value, unhex};
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, Result, Version};

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Elapsed {
    /// Whole seconds.
    pub sec: u32,
    /// Additional nanoseconds.
    pub nsec: u32,
}

/// One flow statistic (OXS field).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stat {
    /// How long the flow entry has been installed.
    Duration(Elapsed),
    /// Time since the last matching packet.
    IdleTime(Elapsed),
    /// Number of flow entries aggregated.
    FlowCount(u32),
    /// Matched packets.
    PacketCount(u64),
    /// Matched bytes.
    ByteCount(u64),
    /// An unknown statistic, kept unparsed.
    Other {
        /// `OFPXSC_*`.
        class: u16,
        /// Field number within the class in the upper 7 bits; the lowest bit is reserved.
        number: u8,
        /// Value; an experimenter's starts with the experimenter ID.
        value: Vec<u8>,
    },
}

/// The known statistics of one flow entry or of an aggregate; `None` if the switch does not report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counters {
    /// How long the flow entry has been installed.
    pub duration: Option<Elapsed>,
    /// Time since the last matching packet. Since 1.5.
    pub idle_time: Option<Elapsed>,
    /// Number of flow entries aggregated. Since 1.5.
    pub flow_count: Option<u32>,
    /// Matched packets.
    pub packet_count: Option<u64>,
    /// Matched bytes.
    pub byte_count: Option<u64>,
}

/// Statistics of one flow entry or of an aggregate, in the order of the message. `ofp_stats`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Statistics, each at most once.
    pub fields: Vec<Stat>,
}

/// Name, number and length of a flow statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatRow {
    /// Name: `OXS_OF_*` in lower case.
    pub name: &'static str,
    /// Field number within `OFPXSC_OPENFLOW_BASIC`.
    pub number: u8,
    /// Length of the value, bytes.
    pub bytes: u8,
}

/// `OFPXSC_OPENFLOW_BASIC`.
const BASIC: u16 = 0x8002;

impl Stat {
    /// The statistics that the specification defines.
    pub const ROWS: &'static [StatRow] = &[
        StatRow { name: "duration", number: 0, bytes: 8 },
        StatRow { name: "idle_time", number: 1, bytes: 8 },
        StatRow { name: "flow_count", number: 3, bytes: 4 },
        StatRow { name: "packet_count", number: 4, bytes: 8 },
        StatRow { name: "byte_count", number: 5, bytes: 8 },
    ];

    /// Field number and value; `None` for an unknown statistic.
    fn parts(&self) -> Option<(u8, u64)> {
        let whole = |elapsed: &Elapsed| u64::from(elapsed.sec) << 32 | u64::from(elapsed.nsec);
        Some(match self {
            Self::Duration(elapsed) => (0, whole(elapsed)),
            Self::IdleTime(elapsed) => (1, whole(elapsed)),
            Self::FlowCount(n) => (3, (*n).into()),
            Self::PacketCount(n) => (4, *n),
            Self::ByteCount(n) => (5, *n),
            Self::Other { .. } => return None,
        })
    }

    /// Name in text and neutral form; `oxs_8002_77` (class and number) if it is unknown.
    pub fn name(&self) -> String {
        match (self, self.parts()) {
            (Self::Other { class, number, .. }, _) => format!("oxs_{class:04x}_{number}"),
            (_, Some((number, _))) => {
                let row = Self::ROWS.iter().find(|row| row.number == number);
                row.map_or_else(String::new, |row| row.name.into())
            }
            (_, None) => String::new(),
        }
    }
}

/// A checked statistic within a message.
#[derive(Debug, Clone, Copy)]
enum RawStat<'a> {
    /// How long the flow entry has been installed.
    Duration(Elapsed),
    /// Time since the last matching packet.
    IdleTime(Elapsed),
    /// Number of flow entries aggregated.
    FlowCount(u32),
    /// Matched packets.
    PacketCount(u64),
    /// Matched bytes.
    ByteCount(u64),
    Other {
        class: u16,
        number: u8,
        value: &'a [u8],
    },
}

impl<'a> RawStat<'a> {
    /// Takes the statistic at the front of `r`.
    ///
    /// # Errors
    /// Truncated, or a length that differs from its row's.
    fn take(r: &mut Reader<'a>) -> Result<Self> {
        let at = r.at();
        let class = r.u16("oxs")?;
        let [number, len] = r.array("oxs")?;
        let value = r.take("oxs", len.into())?;
        let row = Stat::ROWS.iter().find(|row| class == BASIC && row.number << 1 == number);
        let Some(row) = row else {
            return Ok(Self::Other { class, number, value });
        };
        let bad_len = || {
            let expected = Expected::Exactly(row.bytes.into());
            r.length_error(at + 3, "oxs", len.into(), expected)
        };
        if len != row.bytes {
            return Err(bad_len());
        }
        let n = value.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        Self::of(row.number, n).ok_or_else(bad_len)
    }

    fn of(number: u8, n: u64) -> Option<Self> {
        let [sec, nsec] = [n >> 32, n & 0xffff_ffff].map(u32::try_from);
        let elapsed = Elapsed { sec: sec.ok()?, nsec: nsec.ok()? };
        Some(match number {
            0 => Self::Duration(elapsed),
            1 => Self::IdleTime(elapsed),
            3 => Self::FlowCount(elapsed.nsec),
            4 => Self::PacketCount(n),
            5 => Self::ByteCount(n),
            _ => return None,
        })
    }
}

impl From<RawStat<'_>> for Stat {
    fn from(raw: RawStat<'_>) -> Self {
        match raw {
            RawStat::Duration(elapsed) => Self::Duration(elapsed),
            RawStat::IdleTime(elapsed) => Self::IdleTime(elapsed),
            RawStat::FlowCount(n) => Self::FlowCount(n),
            RawStat::PacketCount(n) => Self::PacketCount(n),
            RawStat::ByteCount(n) => Self::ByteCount(n),
            RawStat::Other { class, number, value } => {
                Self::Other { class, number, value: value.to_vec() }
            }
        }
    }
}

impl Counters {
    /// Adds a statistic; `false` if it is a duplicate.
    fn add(&mut self, raw: RawStat<'_>) -> bool {
        match raw {
            RawStat::Duration(elapsed) => self.duration.replace(elapsed).is_none(),
            RawStat::IdleTime(elapsed) => self.idle_time.replace(elapsed).is_none(),
            RawStat::FlowCount(n) => self.flow_count.replace(n).is_none(),
            RawStat::PacketCount(n) => self.packet_count.replace(n).is_none(),
            RawStat::ByteCount(n) => self.byte_count.replace(n).is_none(),
            RawStat::Other { .. } => true,
        }
    }

    /// Takes the list of statistics at the front of `r` and calls `found` for each. Does not allocate.
    ///
    /// # Errors
    /// As for [`Stats`].
    fn each<'a>(r: &mut Reader<'a>, mut found: impl FnMut(RawStat<'a>)) -> Result<Self> {
        let mut head = r.clone();
        head.take("stats", 2)?;
        let at = head.at();
        let len = usize::from(head.u16("stats")?);
        let too_short = || r.length_error(at, "stats", len, Expected::AtLeast(4));
        let mut inner = head.sub("stats", len.checked_sub(4).ok_or_else(too_short)?)?;
        let mut seen = Self::default();
        while !inner.is_empty() {
            let twice = inner.error("oxs", ParseErrorKind::Duplicate);
            let raw = RawStat::take(&mut inner)?;
            if !seen.add(raw) {
                return Err(twice);
            }
            found(raw);
        }
        let at_most = Expected::saturating(Expected::AtMost, r.len() / 8 * 8);
        r.take("stats", len.next_multiple_of(8))
            .map_err(|_| r.length_error(at, "stats", len, at_most))?;
        Ok(seen)
    }

    /// Takes the list of statistics at the front of `r`.
    ///
    /// # Errors
    /// As for [`Stats`].
    pub(super) fn take(r: &mut Reader<'_>) -> Result<Self> {
        Self::each(r, |_| {})
    }
}

impl Codec for Stat {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        RawStat::take(r).map(Self::from)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if let Self::Other { class, number, value } = self {
            let wrong = |_| EncodeError::new("length of a flow statistic", out.version(), None);
            let len = u8::try_from(value.len()).map_err(wrong)?;
            class.encode(out)?;
            out.put(&[*number, len]);
            return value.encode(out);
        }
        let (number, n) = self.parts().unwrap_or_default();
        let row = Self::ROWS.iter().find(|row| row.number == number);
        let bytes = row.map_or(0, |row| row.bytes);
        BASIC.encode(out)?;
        out.put(&[number << 1, bytes]);
        out.put(n.to_be_bytes().get(8 - usize::from(bytes)..).unwrap_or_default());
        Ok(())
    }
}

impl Stats {
    /// How long the flow entry has been installed.
    pub fn duration(&self) -> Option<Elapsed> {
        self.fields.iter().find_map(|stat| match stat {
            Stat::Duration(elapsed) => Some(*elapsed),
            _ => None,
        })
    }

    /// Time since the last matching packet.
    pub fn idle_time(&self) -> Option<Elapsed> {
        self.fields.iter().find_map(|stat| match stat {
            Stat::IdleTime(elapsed) => Some(*elapsed),
            _ => None,
        })
    }

    /// Number of flow entries aggregated.
    pub fn flow_count(&self) -> Option<u32> {
        self.fields.iter().find_map(|stat| match stat {
            Stat::FlowCount(n) => Some(*n),
            _ => None,
        })
    }

    /// Matched packets.
    pub fn packet_count(&self) -> Option<u64> {
        self.fields.iter().find_map(|stat| match stat {
            Stat::PacketCount(n) => Some(*n),
            _ => None,
        })
    }

    /// Matched bytes.
    pub fn byte_count(&self) -> Option<u64> {
        self.fields.iter().find_map(|stat| match stat {
            Stat::ByteCount(n) => Some(*n),
            _ => None,
        })
    }
}

/// Encoded as 16 reserved bits, 16-bit length without padding, statistics, zeros up to a multiple of eight.
///
/// Parsing refuses truncated statistics, lengths that differ from the row's, and duplicates.
impl Codec for Stats {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut fields = vec![];
        Counters::each(r, |raw| fields.push(raw.into()))?;
        Ok(Self { fields })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        out.needs(Version::V1_5, "stats")?;
        let start = out.len();
        out.put(&[0u8; 4]);
        self.fields.iter().try_for_each(|stat| stat.encode(out))?;
        out.patch_len(start, 2)?;
        out.pad_to_8(start);
        Ok(())
    }
}

impl NeutralForm for Elapsed {
    fn to_value(&self, version: Version) -> Value {
        Value::Map(vec![
            ("sec".into(), self.sec.to_value(version)),
            ("nsec".into(), self.nsec.to_value(version)),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let sec = entries.read("sec", version)?.unwrap_or_default();
        let nsec = entries.read("nsec", version)?.unwrap_or_default();
        entries.finish()?;
        Ok(Self { sec, nsec })
    }
}

/// Neutral form: a map from names to values, in the order of the message; durations are maps of `sec` and `nsec`,
/// unknown statistics are hex.
impl NeutralForm for Stats {
    fn to_value(&self, version: Version) -> Value {
        let value = |stat: &Stat| match stat {
            Stat::Duration(elapsed) | Stat::IdleTime(elapsed) => elapsed.to_value(version),
            Stat::FlowCount(n) => n.to_value(version),
            Stat::PacketCount(n) | Stat::ByteCount(n) => number_to_value(*n),
            Stat::Other { value, .. } => Value::Text(hex(value)),
        };
        Value::Map(self.fields.iter().map(|stat| (stat.name().into(), value(stat))).collect())
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let Value::Map(entries) = value else {
            return Err(ValueError::new(format!("expected an object, found {}", value.kind())));
        };
        let read = |(name, value): &(std::borrow::Cow<'static, str>, Value)| {
            stat_of(name, value, version).map_err(|e| e.under(name))
        };
        Ok(Self { fields: entries.iter().map(read).collect::<Result<_, _>>()? })
    }
}

fn stat_of(name: &str, value: &Value, version: Version) -> Result<Stat, ValueError> {
    Ok(match name {
        "duration" => Stat::Duration(Elapsed::from_value(value, version)?),
        "idle_time" => Stat::IdleTime(Elapsed::from_value(value, version)?),
        "flow_count" => Stat::FlowCount(u32::from_value(value, version)?),
        "packet_count" => Stat::PacketCount(u64::from_value(value, version)?),
        "byte_count" => Stat::ByteCount(u64::from_value(value, version)?),
        _ => {
            let unknown = || ValueError::new("unknown flow statistic");
            let parts = name.strip_prefix("oxs_").and_then(|rest| rest.split_once('_'));
            let (class, number) = parts.filter(|_| !name.contains('+')).ok_or_else(unknown)?;
            Stat::Other {
                class: u16::from_str_radix(class, 16).map_err(|_| unknown())?,
                number: number.parse().map_err(|_| unknown())?,
                value: unhex(super::value::expect_text(value)?)?,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseError;

    fn read(text: &str) -> Result<Stats> {
        let bytes = unhex(text).unwrap();
        let mut r = Reader::new(Version::V1_5, &bytes, 16);
        let read = Stats::parse(&mut r)?;
        r.finish("stats")?;
        Ok(read)
    }

    fn both_ways(text: &str) -> Stats {
        let stats = read(text).unwrap();
        let (mut tx, mut xid) = (vec![], 1);
        stats.encode(&mut Encoder::new(&mut tx, Version::V1_5, &mut xid)).unwrap();
        assert_eq!(hex(&tx), text.replace(' ', ""));
        let value = stats.to_value(Version::V1_5);
        assert_eq!(Stats::from_value(&value, Version::V1_5), Ok(stats.clone()));
        stats
    }

    #[test]
    fn every_statistic_survives_a_roundtrip() {
        let stats = both_ways(
            "0000 003c 80020008 00000005 000003e8 80020208 00000002 00000001 80020604 00000007 \
             80020808 0000000000000064 80020a08 0000000000002710 00000000",
        );
        assert_eq!(stats.duration(), Some(Elapsed { sec: 5, nsec: 1000 }));
        assert_eq!(stats.idle_time(), Some(Elapsed { sec: 2, nsec: 1 }));
        assert_eq!(stats.flow_count(), Some(7));
        assert_eq!((stats.packet_count(), stats.byte_count()), (Some(100), Some(10_000)));
        let names: Vec<_> = stats.fields.iter().map(Stat::name).collect();
        assert!(Stat::ROWS.iter().all(|row| names.contains(&row.name.to_owned())));
        both_ways("0000 0004 00000000");
        // Open vSwitch, tests/ofp-print.at, flow statistics of 1.5.
        let stats = both_ways(
            "0000 0034 80020008 0000009829e6edc0 80020208 0000009800000000 80020808 0000000000000002 \
             80020a08 0000000000000080 00000000",
        );
        assert_eq!(stats.duration(), Some(Elapsed { sec: 152, nsec: 703_000_000 }));
    }

    #[test]
    fn an_unknown_statistic_is_kept_unparsed() {
        let stats = both_ways("0000 0010 ffff0208 0000abcd 00000009");
        let value = unhex("0000abcd00000009").unwrap();
        assert_eq!(stats.fields, [Stat::Other { class: 0xffff, number: 2, value }]);
        both_ways("0000 0008 80020400");
    }

    #[test]
    fn wrong_lengths_and_duplicate_statistics_are_refused() {
        let refused = |text| read(text).unwrap_err();
        let length = |n, expected| {
            ParseError::new("stats", 18, ParseErrorKind::Length).with_value(n, expected)
        };
        assert_eq!(refused("0000 0003 00000000"), length(3, Expected::AtLeast(4)));
        let unpadded = "0000 000c 80020604 00000001";
        assert_eq!(refused(unpadded), length(12, Expected::AtMost(8)));
        assert_eq!(refused("0000 000a 80020602 0001 000000000000").what, "oxs");
        assert_eq!(refused("0000 0010 80020608 00000001").why, ParseErrorKind::Length);
        assert_eq!(refused("0000 000c 80020608 00000001 00000000").why, ParseErrorKind::Truncated);
        let twice = "0000 0014 80020604 00000001 80020604 00000001 00000000";
        assert_eq!(refused(twice), ParseError::new("oxs", 28, ParseErrorKind::Duplicate));
    }
}
