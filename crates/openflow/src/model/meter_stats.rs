//! Counters and descriptions of meters, asked for and told. §7.3.5.12 to 14.

use super::codec::versions::{V1_3, V1_4, V1_5};
use super::codec::{Codec, Encoding, ListItem};
use super::meter::{MeterBand, MeterFlags, MeterId};
use super::reader::Reader;
use super::rows::{flags, record};
use crate::{EncodeError, Encoder, Result};

record! {
    /// Asks for what is known of meters. §7.3.5.12, §7.3.5.13.
    pub struct MeterRequest: "meter request" {
        /// Which; [`MeterId::ALL`] for all.
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
    /// What a band did. §7.3.5.12.
    #[derive(Copy, Default)]
    pub struct MeterBandStats: "meter band_stats" {
        /// Packets above its rate.
        pub packet_band_count: u64,
        /// Bytes of them.
        pub byte_band_count: u64,
    }
    V1_3.. => [packet_band_count, byte_band_count,]
}

impl ListItem for MeterBandStats {}

record! {
    /// Counters of one meter; all ones where nobody counts. §7.3.5.12.
    #[derive(Default)]
    pub struct MeterStats: "meter_stats" {
        /// Which.
        pub meter_id: MeterId,
        /// Rules, in 1.5 also groups, that send packets through it. `flow_count` before 1.5.
        pub ref_count: u32,
        /// Packets that came to it.
        pub packet_in_count: u64,
        /// Bytes of them.
        pub byte_in_count: u64,
        /// Seconds that it has been there.
        pub duration_sec: u32,
        /// Nanoseconds more.
        pub duration_nsec: u32,
        /// One for each band.
        pub band_stats: Vec<MeterBandStats>,
    }
    V1_3.. => [
        meter_id, length, pad 6, ref_count, packet_in_count, byte_in_count, duration_sec,
        duration_nsec, band_stats,
    ]
}

impl ListItem for MeterStats {}

record! {
    /// How one meter is set. §7.3.5.13.
    #[derive(Default)]
    pub struct MeterDesc: "meter_desc" {
        /// How it counts.
        pub flags: MeterFlags,
        /// Which.
        pub meter_id: MeterId,
        /// What is done above which rate.
        pub bands: Vec<MeterBand>,
    }
    V1_3.. => [length, flags, meter_id, bands,]
}

impl ListItem for MeterDesc {}

flags! {
    /// Kinds of bands that a switch has: one bit for each number of a [`MeterBand`]. §7.3.5.14.
    pub struct BandTypes(u32);
    DROP = 2, V1_3, "Drops packets.";
    DSCP_REMARK = 4, V1_3, "Raises the drop precedence.";
}

flags! {
    /// Ways of counting that a switch has: the bits of [`MeterFlags`]. §7.3.5.14.
    pub struct MeterCapabilities(u32);
    KBPS = 1, V1_3, "Rates in kilobits per second.";
    PKTPS = 2, V1_3, "Rates in packets per second.";
    BURST = 4, V1_3, "Bursts count.";
    STATS = 8, V1_3, "Counters are kept.";
}

flags! {
    /// `OFPMFF_*`: where meters can stand. OpenFlow 1.5.0 §7.3.5.15.
    pub struct MeterFeatureFlags(u32);
    ACTION_SET = 1, V1_5, "In action sets.";
    ANY_POSITION = 2, V1_5, "Anywhere in a list of actions.";
    MULTI_LIST = 4, V1_5, "More than one in a list of actions.";
}

record! {
    /// What meters a switch can have. §7.3.5.14.
    #[derive(Default)]
    pub struct MeterFeatures: "meter_features" {
        /// How many meters.
        pub max_meter: u32,
        /// Of which kinds bands can be.
        pub band_types: BandTypes,
        /// How meters can count.
        pub capabilities: MeterCapabilities,
        /// How many bands a meter can have.
        pub max_bands: u8,
        /// How many steps of drop precedence there are.
        pub max_color: u8,
        /// Where meters can stand. Only in 1.5; Open vSwitch leaves it away there too.
        pub features: Option<MeterFeatureFlags>,
    }
    V1_3 | V1_4 => [max_meter, band_types, capabilities, max_bands, max_color, pad 2,]
    V1_5.. => [
        max_meter, band_types, capabilities, max_bands, max_color, pad 2, features as OptionalTrailer,
    ]
}

/// The features, or the end of the message.
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
