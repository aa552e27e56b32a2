//! Counters of rules in the places that 1.0 to 1.4 have for them, where all ones say that nobody counts. §5.8.

use super::codec::{Codec, Encoding, PartialEncoding};
use super::oxs::{Elapsed, Stat, Stats};
use super::reader::Reader;
use crate::{EncodeError, Encoder, Result, Version};

/// How long a rule has been there.
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

/// Packets and bytes of a rule, which has a [`Duration`] elsewhere.
pub(crate) struct CountFields;

impl PartialEncoding<Stats> for CountFields {
    fn parse(stats: &mut Stats, r: &mut Reader<'_>) -> Result<()> {
        let (packets, bytes) = packets_and_bytes(r)?;
        stats.fields.extend(packets.map(Stat::PacketCount));
        stats.fields.extend(bytes.map(Stat::ByteCount));
        Ok(())
    }

    fn encode(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        allow(stats, out, |stat| !matches!(stat, Stat::FlowCount(_)))?;
        put_counts(stats, out)
    }
}

/// Packets, bytes and number of some rules.
pub(crate) struct AggregateFields;

impl Encoding<Stats> for AggregateFields {
    fn parse(r: &mut Reader<'_>) -> Result<Stats> {
        let mut stats = Stats::default();
        CountFields::parse(&mut stats, r)?;
        stats.fields.extend(known(u32::parse(r)?, u32::MAX).map(Stat::FlowCount));
        Ok(stats)
    }

    fn encode(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        allow(stats, out, |stat| !matches!(stat, Stat::Duration(_)))?;
        put_counts(stats, out)?;
        stats.flow_count().unwrap_or(u32::MAX).encode(out)
    }
}

/// How long a rule has been there, if the switch tells.
pub(super) fn duration(r: &mut Reader<'_>) -> Result<Option<Elapsed>> {
    let elapsed = Elapsed { sec: r.u32("duration_sec")?, nsec: r.u32("duration_nsec")? };
    Ok(known(elapsed, DurationFields::UNKNOWN))
}

/// Packets and bytes of a rule, if the switch counts them.
pub(super) fn packets_and_bytes(r: &mut Reader<'_>) -> Result<(Option<u64>, Option<u64>)> {
    Ok((known(u64::parse(r)?, u64::MAX), known(u64::parse(r)?, u64::MAX)))
}

fn known<T: Copy + PartialEq>(n: T, unknown: T) -> Option<T> {
    Some(n).filter(|n| *n != unknown)
}

fn put_counts(stats: &Stats, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    stats.packet_count().unwrap_or(u64::MAX).encode(out)?;
    stats.byte_count().unwrap_or(u64::MAX).encode(out)
}

/// Refuses what no version before 1.5 has a place for, what `is_here` does not have one for, and what is there twice.
fn allow(
    stats: &Stats,
    out: &Encoder<'_>,
    is_here: impl Fn(&Stat) -> bool,
) -> Result<(), EncodeError> {
    let (mut before, version) = (vec![], out.version());
    for stat in &stats.fields {
        let (what, has_place) = match stat {
            Stat::Duration(_) => ("duration", true),
            Stat::IdleTime(_) => ("idle_time", false),
            Stat::FlowCount(_) => ("flow_count", true),
            Stat::PacketCount(_) => ("packet_count", true),
            Stat::ByteCount(_) => ("byte_count", true),
            Stat::Other { .. } => ("counter", false),
        };
        if !has_place || !is_here(stat) || before.contains(&what) {
            // Nicira's messages have these places in 1.5 too.
            let needs = Some(Version::V1_5).filter(|&needs| needs > version);
            return Err(EncodeError { what, version, needs });
        }
        before.push(what);
    }
    Ok(())
}
