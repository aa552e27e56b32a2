//! Flow counters as the fixed fields of OpenFlow 1.0 to 1.4, where all ones means that the switch does not count.
//! §5.8.

use super::codec::{Codec, Encoding, PartialEncoding};
use super::oxs::{Elapsed, Stat, Stats};
use super::reader::Reader;
use crate::{EncodeError, Encoder, Result, Version};

/// The fields `duration_sec` and `duration_nsec`.
pub(crate) struct DurationFields;

impl DurationFields {
    const UNKNOWN: Elapsed = Elapsed { sec: u32::MAX, nsec: u32::MAX };
}

impl PartialEncoding<Stats> for DurationFields {
    fn parse(stats: &mut Stats, r: &mut Reader<'_>) -> Result<()> {
        stats.fields.extend(duration(r)?.map(Stat::Duration));
        Ok(())
    }

    fn encode(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let Elapsed { sec, nsec } = stats.duration().unwrap_or(Self::UNKNOWN);
        sec.encode(out)?;
        nsec.encode(out)
    }
}

/// The fields `packet_count` and `byte_count`, of a record that also has a [`DurationFields`].
pub(crate) struct CountFields;

impl PartialEncoding<Stats> for CountFields {
    fn parse(stats: &mut Stats, r: &mut Reader<'_>) -> Result<()> {
        let (packets, bytes) = packets_and_bytes(r)?;
        stats.fields.extend(packets.map(Stat::PacketCount));
        stats.fields.extend(bytes.map(Stat::ByteCount));
        Ok(())
    }

    fn encode(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        check_fields(stats, out, |stat| !matches!(stat, Stat::FlowCount(_)))?;
        encode_counts(stats, out)
    }
}

/// The fields `packet_count`, `byte_count` and `flow_count` of aggregate statistics.
pub(crate) struct AggregateFields;

impl Encoding<Stats> for AggregateFields {
    fn parse(r: &mut Reader<'_>) -> Result<Stats> {
        let mut stats = Stats::default();
        CountFields::parse(&mut stats, r)?;
        stats.fields.extend(unless_unknown(u32::parse(r)?, u32::MAX).map(Stat::FlowCount));
        Ok(stats)
    }

    fn encode(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        check_fields(stats, out, |stat| !matches!(stat, Stat::Duration(_)))?;
        encode_counts(stats, out)?;
        stats.flow_count().unwrap_or(u32::MAX).encode(out)
    }
}

/// Parses a duration; `None` if the switch does not know it.
pub(super) fn duration(r: &mut Reader<'_>) -> Result<Option<Elapsed>> {
    let elapsed = Elapsed { sec: r.u32("duration_sec")?, nsec: r.u32("duration_nsec")? };
    Ok(unless_unknown(elapsed, DurationFields::UNKNOWN))
}

/// Parses packet and byte count; `None` for one that the switch does not count.
pub(super) fn packets_and_bytes(r: &mut Reader<'_>) -> Result<(Option<u64>, Option<u64>)> {
    let packets = unless_unknown(u64::parse(r)?, u64::MAX);
    Ok((packets, unless_unknown(u64::parse(r)?, u64::MAX)))
}

fn unless_unknown<T: Copy + PartialEq>(n: T, unknown: T) -> Option<T> {
    Some(n).filter(|n| *n != unknown)
}

fn encode_counts(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    stats.packet_count().unwrap_or(u64::MAX).encode(out)?;
    stats.byte_count().unwrap_or(u64::MAX).encode(out)
}

/// Refuses statistics without a fixed field before 1.5 or in this record (`is_allowed`), and duplicates.
fn check_fields(
    stats: &Stats,
    out: &Encoder<'_>,
    is_allowed: impl Fn(&Stat) -> bool,
) -> Result<(), EncodeError> {
    let (mut seen, version) = (vec![], out.version());
    for stat in &stats.fields {
        let (what, has_field) = match stat {
            Stat::Duration(_) => ("duration", true),
            Stat::IdleTime(_) => ("idle_time", false),
            Stat::FlowCount(_) => ("flow_count", true),
            Stat::PacketCount(_) => ("packet_count", true),
            Stat::ByteCount(_) => ("byte_count", true),
            Stat::Other { .. } => ("statistic without a row", false),
        };
        if !has_field || !is_allowed(stat) || seen.contains(&what) {
            // Messages of Nicira have fixed fields in 1.5 too.
            let needs = Some(Version::V1_5).filter(|&needs| needs > version);
            return Err(EncodeError::new(what, version, needs));
        }
        seen.push(what);
    }
    Ok(())
}
