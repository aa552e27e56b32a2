//! Meters: rates above which packets are dropped or remarked. §7.3.4.4.

use super::codec::versions::*;
use super::rows::{choice, codes, flags, record, tlv};

codes! {
    /// `OFPMC_*`: command of a [`MeterMod`]. §7.3.4.4.
    pub struct MeterCommand(u16);
    ADD = 0, V1_3, "Add a meter.";
    MODIFY = 1, V1_3, "Replace flags and bands of a meter.";
    DELETE = 2, V1_3, "Delete a meter.";
}

codes! {
    /// A meter number; the highest are virtual meters, which no flow entry uses. §7.3.4.4.
    pub struct MeterId(u32);
    SLOWPATH = 0xffff_fffd, V1_3, "Meter for the slow path of the switch.";
    CONTROLLER = 0xffff_fffe, V1_3, "Meter for the connection to the controller.";
    ALL = 0xffff_ffff, V1_3, "All meters, in requests and deletions.";
}

flags! {
    /// `OFPMF_*`: options of a meter. §7.3.4.4.
    pub struct MeterFlags(u16);
    KBPS = 1, V1_3, "Rates in kbit/s.";
    PKTPS = 2, V1_3, "Rates in packets per second.";
    BURST = 4, V1_3, "Burst sizes apply.";
    STATS = 8, V1_3, "Collect statistics.";
}

choice! {
    /// A meter band: what happens to packets above a rate. §7.3.4.4.
    pub enum MeterBand: "meter band" {
        /// Drops packets.
        Drop "drop" {
            /// Rate above which the band applies, in the unit of the meter.
            rate: u32,
            /// Burst size, in kbit or packets.
            burst_size: u32,
        } = { V1_3.. => 1 [rate, burst_size, pad 4,] };
        /// Increases the drop precedence in the DSCP field.
        DscpRemark "dscp_remark" {
            /// Rate above which the band applies, in the unit of the meter.
            rate: u32,
            /// Burst size, in kbit or packets.
            burst_size: u32,
            /// Number of drop precedence levels to add.
            prec_level: u8,
        } = { V1_3.. => 2 [rate, burst_size, prec_level, pad 3,] };
        /// Experimenter band.
        Experimenter "experimenter" {
            /// Rate above which the band applies, in the unit of the meter.
            rate: u32,
            /// Burst size, in kbit or packets.
            burst_size: u32,
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [rate, burst_size, experimenter, data,] };
    }
}

tlv!(MeterBand, None, Request);

record! {
    /// Adds, modifies or deletes a meter. §7.3.4.4.
    #[derive(Default)]
    pub struct MeterMod: "meter_mod" {
        /// What to do.
        pub command: MeterCommand,
        /// Options.
        pub flags: MeterFlags,
        /// Meter number.
        pub meter_id: MeterId,
        /// Bands.
        pub bands: Vec<MeterBand>,
    }
    V1_3.. => [command, flags, meter_id, bands,]
}
