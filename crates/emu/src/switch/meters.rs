//! Meters, which drop or remark packets above a rate. §5.7, §7.3.4.4.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::{
    BandTypes, ErrorReason, FlowRemovedReason, MeterBand, MeterBandStats, MeterCapabilities,
    MeterCommand, MeterDesc, MeterFeatureFlags, MeterFeatures, MeterFlags, MeterId, MeterMod,
    MeterStats, Version,
};

use super::{EmulatedSwitch, SwitchOutput, error_reasons};

/// Highest number of an ordinary meter.
const METER_MAX: u32 = 0xffff_0000;
/// Most bands of a meter.
const BANDS_MAX: u8 = 16;
/// Number of drop precedence levels. RFC 2597.
const COLORS: u8 = 3;
const NANOS: u128 = 1_000_000_000;

/// What a meter does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeterResult {
    Pass,
    Drop,
    /// Forwards the packet with its drop precedence raised by this.
    Remark(u8),
}

/// The token bucket of a band, in billionths of a packet or bit.
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    left: u128,
    full: u128,
    /// Tokens per nanosecond; hence the billionths.
    rate: u128,
}

#[derive(Debug)]
struct Meter {
    flags: MeterFlags,
    bands: Vec<MeterBand>,
    tokens: Vec<TokenBucket>,
    filled: Instant,
    since: Instant,
    packets: u64,
    bytes: u64,
    band_stats: Vec<MeterBandStats>,
}

/// All meters by number.
#[derive(Debug)]
pub(crate) struct Meters {
    by_id: BTreeMap<u32, Meter>,
    capacity: u32,
}

impl EmulatedSwitch {
    pub(super) fn on_meter_mod(
        &mut self,
        now: Instant,
        meter_mod: &MeterMod,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        if meter_mod.command != MeterCommand::DELETE {
            return self.meters.change(now, meter_mod);
        }
        for deleted_id in self.meters.delete(meter_mod.meter_id) {
            let reason = FlowRemovedReason::METER_DELETE;
            self.remove_entries_where(
                now,
                |entry| entry.instruction_set.uses_meter(deleted_id),
                reason,
                out,
            );
        }
        Ok(())
    }
}

impl Meters {
    pub(crate) const fn new(meters_max: u32) -> Self {
        Self { by_id: BTreeMap::new(), capacity: meters_max }
    }

    fn change(&mut self, now: Instant, meter_mod: &MeterMod) -> Result<(), ErrorReason> {
        let id = meter_mod.meter_id.0;
        let old = self.by_id.get(&id);
        match (meter_mod.command, old) {
            (MeterCommand::ADD, None) => {
                if (id == 0 || id > METER_MAX) && meter_mod.meter_id != MeterId::CONTROLLER {
                    return Err(error_reasons::INVALID_METER);
                }
                if self.by_id.len() >= usize::try_from(self.capacity).unwrap_or(usize::MAX) {
                    return Err(error_reasons::OUT_OF_METERS);
                }
            }
            (MeterCommand::ADD, Some(_)) => return Err(error_reasons::METER_EXISTS),
            (MeterCommand::MODIFY, Some(_)) => {}
            (MeterCommand::MODIFY, None) => return Err(error_reasons::UNKNOWN_METER),
            _ => return Err(error_reasons::BAD_METER_COMMAND),
        }
        check(meter_mod)?;
        let (since, packets, bytes) =
            old.map_or((now, 0, 0), |old| (old.since, old.packets, old.bytes));
        let meter = Meter {
            flags: meter_mod.flags,
            tokens: meter_mod
                .bands
                .iter()
                .map(|band| TokenBucket::of(band, meter_mod.flags))
                .collect(),
            bands: meter_mod.bands.clone(),
            filled: now,
            since,
            packets,
            bytes,
            band_stats: vec![MeterBandStats::default(); meter_mod.bands.len()],
        };
        self.by_id.insert(id, meter);
        Ok(())
    }

    /// Deletes meters and returns their numbers; deleting a meter that does not exist is no error.
    fn delete(&mut self, id: MeterId) -> Vec<u32> {
        if id == MeterId::ALL {
            return std::mem::take(&mut self.by_id).into_keys().collect();
        }
        self.by_id.remove(&id.0).map(|_| id.0).into_iter().collect()
    }

    /// Meters a packet of `len` bytes. A meter that does not exist passes everything.
    pub(crate) fn pass(&mut self, now: Instant, id: u32, len: usize) -> MeterResult {
        let Some(meter) = self.by_id.get_mut(&id) else { return MeterResult::Pass };
        let bytes = u64::try_from(len).unwrap_or_default();
        meter.packets += 1;
        meter.bytes += bytes;
        let elapsed = now.saturating_duration_since(meter.filled).as_nanos();
        meter.filled = meter.filled.max(now);
        let in_packets = meter.flags.contains(MeterFlags::PKTPS);
        let cost = if in_packets { NANOS } else { u128::from(bytes) * 8 * NANOS };
        let mut over: Option<(u32, usize)> = None;
        for (n, tokens) in meter.tokens.iter_mut().enumerate() {
            if !tokens.spend(elapsed, cost) {
                let rate = meter.bands.get(n).map_or(0, rate);
                // Of all exceeded bands, the one with the highest rate applies. §5.7.1.
                over = over.max(Some((rate, n)));
            }
        }
        let Some((_, n)) = over else { return MeterResult::Pass };
        if let Some(stats) = meter.band_stats.get_mut(n) {
            stats.packet_band_count += 1;
            stats.byte_band_count += bytes;
        }
        match meter.bands.get(n) {
            Some(MeterBand::DscpRemark { prec_level, .. }) => MeterResult::Remark(*prec_level),
            _ => MeterResult::Drop,
        }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn selected(&self, id: MeterId) -> impl Iterator<Item = (&u32, &Meter)> {
        self.by_id.iter().filter(move |(it, _)| id == MeterId::ALL || **it == id.0)
    }

    /// Statistics of a meter, or of all; `references` counts the flow entries that use one.
    pub(crate) fn stats(
        &self,
        now: Instant,
        id: MeterId,
        references: impl Fn(u32) -> u32,
    ) -> Vec<MeterStats> {
        let stats = |(&meter_id, meter): (&u32, &Meter)| {
            let age = now.saturating_duration_since(meter.since);
            MeterStats {
                meter_id: MeterId(meter_id),
                ref_count: references(meter_id),
                packet_in_count: meter.packets,
                byte_in_count: meter.bytes,
                duration_sec: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
                duration_nsec: age.subsec_nanos(),
                band_stats: meter.band_stats.clone(),
            }
        };
        self.selected(id).map(stats).collect()
    }

    /// Configuration of a meter, or of all.
    pub(crate) fn descs(&self, id: MeterId) -> Vec<MeterDesc> {
        let desc = |(&meter_id, meter): (&u32, &Meter)| MeterDesc {
            flags: meter.flags,
            meter_id: MeterId(meter_id),
            bands: meter.bands.clone(),
        };
        self.selected(id).map(desc).collect()
    }

    pub(crate) fn features(&self, version: Version) -> MeterFeatures {
        if self.capacity == 0 {
            let features = (version >= Version::V1_5).then(MeterFeatureFlags::default);
            return MeterFeatures { features, ..MeterFeatures::default() };
        }
        MeterFeatures {
            max_meter: self.capacity,
            band_types: BandTypes::DROP | BandTypes::DSCP_REMARK,
            capabilities: MeterCapabilities::KBPS
                | MeterCapabilities::PKTPS
                | MeterCapabilities::BURST
                | MeterCapabilities::STATS,
            max_bands: BANDS_MAX,
            max_color: COLORS,
            features: (version >= Version::V1_5).then_some(
                MeterFeatureFlags::ACTION_SET
                    | MeterFeatureFlags::ANY_POSITION
                    | MeterFeatureFlags::MULTI_LIST,
            ),
        }
    }
}

impl TokenBucket {
    /// A full bucket: the burst size, or one second at the rate.
    fn of(band: &MeterBand, flags: MeterFlags) -> Self {
        let (rate, burst) = match *band {
            MeterBand::Drop { rate, burst_size }
            | MeterBand::DscpRemark { rate, burst_size, .. }
            | MeterBand::Experimenter { rate, burst_size, .. } => (rate, burst_size),
            MeterBand::Other { .. } => (0, 0),
        };
        let unit: u128 = if flags.contains(MeterFlags::PKTPS) { 1 } else { 1000 };
        let is_burst_said = flags.contains(MeterFlags::BURST) && burst > 0;
        let full = u128::from(if is_burst_said { burst } else { rate }) * unit * NANOS;
        Self { left: full, full, rate: u128::from(rate) * unit }
    }

    /// Adds tokens for the elapsed time, then takes `cost` if available.
    fn spend(&mut self, elapsed_ns: u128, cost: u128) -> bool {
        self.left = self.left.saturating_add(self.rate.saturating_mul(elapsed_ns)).min(self.full);
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

fn rate(band: &MeterBand) -> u32 {
    match *band {
        MeterBand::Drop { rate, .. } | MeterBand::DscpRemark { rate, .. } => rate,
        _ => 0,
    }
}

fn check(meter_mod: &MeterMod) -> Result<(), ErrorReason> {
    let both = MeterFlags::KBPS | MeterFlags::PKTPS;
    if meter_mod.flags.contains(both) || meter_mod.flags.0 > 0xf {
        return Err(error_reasons::BAD_METER_FLAGS);
    }
    if meter_mod.bands.len() > usize::from(BANDS_MAX) {
        return Err(error_reasons::OUT_OF_BANDS);
    }
    meter_mod.bands.iter().try_for_each(|band| match band {
        MeterBand::Drop { rate: 0, .. } | MeterBand::DscpRemark { rate: 0, .. } => {
            Err(error_reasons::BAD_RATE)
        }
        MeterBand::DscpRemark { prec_level, .. } if !(1..=COLORS).contains(prec_level) => {
            Err(error_reasons::BAD_BAND_VALUE)
        }
        MeterBand::Drop { .. } | MeterBand::DscpRemark { .. } => Ok(()),
        _ => Err(error_reasons::BAD_BAND),
    })
}
