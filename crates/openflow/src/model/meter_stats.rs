//! Counters, configuration and features of meters: requests and replies. §7.3.5.12 to §7.3.5.14.

use super::codec::versions::{V1_3, V1_4, V1_5};
use super::codec::{Codec, Encoding, ListItem};
use super::meter::{MeterBand, MeterFlags, MeterId};
use super::reader::Reader;
use super::rows::{flags, record};
use crate::{EncodeError, Encoder, Result};

record! {
    /// Requests counters or configuration of meters. §7.3.5.12, §7.3.5.13.
    pub struct MeterRequest: "meter request" {
        /// Meter number; [`MeterId::ALL`] is all meters.
        pub meter_id: MeterId,
    }
    V1_3.. => [meter_id, pad 4,]
}

impl Default for MeterRequest {
    fn default() -> Self {
        Self { meter_id: MeterId::ALL }
    }
}

record! {
    /// Counters of one meter band. §7.3.5.12.
    #[derive(Copy, Default)]
    pub struct MeterBandStats: "meter band_stats" {
        /// Packets above the rate of the band.
        pub packet_band_count: u64,
        /// Bytes above the rate of the band.
        pub byte_band_count: u64,
    }
    V1_3.. => [packet_band_count, byte_band_count,]
}

impl ListItem for MeterBandStats {}

record! {
    /// Counters of one meter; all ones where the switch does not count. §7.3.5.12.
    #[derive(Default)]
    pub struct MeterStats: "meter_stats" {
        /// Meter number.
        pub meter_id: MeterId,
        /// Number of flow entries (in 1.5 also groups) that refer to the meter. `flow_count` before 1.5.
        pub ref_count: u32,
        /// Packets processed.
        pub packet_in_count: u64,
        /// Bytes processed.
        pub byte_in_count: u64,
        /// Seconds that the meter has been alive.
        pub duration_sec: u32,
        /// Additional nanoseconds.
        pub duration_nsec: u32,
        /// Counters of each band.
        pub band_stats: Vec<MeterBandStats>,
    }
    V1_3.. => [
        meter_id, length, pad 6, ref_count, packet_in_count, byte_in_count, duration_sec,
        duration_nsec, band_stats,
    ]
}

impl ListItem for MeterStats {}

record! {
    /// Configuration of one meter. §7.3.5.13.
    #[derive(Default)]
    pub struct MeterDesc: "meter_desc" {
        /// Options.
        pub flags: MeterFlags,
        /// Meter number.
        pub meter_id: MeterId,
        /// Bands.
        pub bands: Vec<MeterBand>,
    }
    V1_3.. => [length, flags, meter_id, bands,]
}

impl ListItem for MeterDesc {}

flags! {
    /// Bitmap of supported band types: one bit for each type of a [`MeterBand`]. §7.3.5.14.
    pub struct BandTypes(u32);
    DROP = 2, V1_3, "Drop packets.";
    DSCP_REMARK = 4, V1_3, "Increase the drop precedence in the DSCP field.";
}

flags! {
    /// Supported [`MeterFlags`]. §7.3.5.14.
    pub struct MeterCapabilities(u32);
    KBPS = 1, V1_3, "Rates in kbit/s.";
    PKTPS = 2, V1_3, "Rates in packets per second.";
    BURST = 4, V1_3, "Burst sizes.";
    STATS = 8, V1_3, "Statistics.";
}

flags! {
    /// `OFPMFF_*`: where the meter action can be used. OpenFlow 1.5.0 §7.3.5.15.
    pub struct MeterFeatureFlags(u32);
    ACTION_SET = 1, V1_5, "In action sets.";
    ANY_POSITION = 2, V1_5, "At any position of an action list.";
    MULTI_LIST = 4, V1_5, "Several times in an action list.";
}

record! {
    /// Meter features of a switch. §7.3.5.14.
    #[derive(Default)]
    pub struct MeterFeatures: "meter_features" {
        /// Maximum number of meters.
        pub max_meter: u32,
        /// Supported band types.
        pub band_types: BandTypes,
        /// Supported meter options.
        pub capabilities: MeterCapabilities,
        /// Maximum number of bands per meter.
        pub max_bands: u8,
        /// Maximum color value (drop precedence levels).
        pub max_color: u8,
        /// Where the meter action can be used. Since 1.5; Open vSwitch omits it there.
        pub features: Option<MeterFeatureFlags>,
    }
    V1_3 | V1_4 => [max_meter, band_types, capabilities, max_bands, max_color, pad 2,]
    V1_5.. => [
        max_meter, band_types, capabilities, max_bands, max_color, pad 2, features as OptionalTrailer,
    ]
}

/// Feature flags, absent if the message ends before them.
struct OptionalTrailer;

impl Encoding<Option<MeterFeatureFlags>> for OptionalTrailer {
    fn parse(r: &mut Reader<'_>) -> Result<Option<MeterFeatureFlags>> {
        if r.is_empty() {
            return Ok(None);
        }
        let features = MeterFeatureFlags::parse(r)?;
        r.take("meter_features", 4)?;
        Ok(Some(features))
    }

    fn encode(value: &Option<MeterFeatureFlags>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let Some(features) = value else { return Ok(()) };
        features.encode(out)?;
        out.put(&[0u8; 4]);
        Ok(())
    }
}
