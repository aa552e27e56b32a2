//! Meters: rates above which packets are dropped or marked. §7.3.4.4, §7.3.5.12 to 14.

use super::codec::versions::*;
use super::rows::{choice, codes, flags, record, tlv};

codes! {
    /// What a `METER_MOD` does.
    pub struct MeterCommand(u16);
    ADD = 0, V1_3, "A new meter.";
    MODIFY = 1, V1_3, "Other bands for a meter.";
    DELETE = 2, V1_3, "A meter goes.";
}

codes! {
    /// A meter by its number; the highest are not those of flows. §7.3.4.4.
    pub struct MeterId(u32);
    SLOWPATH = 0xffff_fffd, V1_3, "What the switch does in software.";
    CONTROLLER = 0xffff_fffe, V1_3, "What goes up to the controller.";
    ALL = 0xffff_ffff, V1_3, "Every meter, in requests and deletions.";
}

flags! {
    /// `OFPMF_*`: how a meter counts.
    pub struct MeterFlags(u16);
    KBPS = 1, V1_3, "Rates in kilobits per second.";
    PKTPS = 2, V1_3, "Rates in packets per second.";
    BURST = 4, V1_3, "Bursts count.";
    STATS = 8, V1_3, "Counters are kept.";
}

choice! {
    /// What is done above a rate. §7.3.4.4.
    pub enum MeterBand: "meter band" {
        /// Drops packets.
        Drop "drop" {
            /// Rate above which, in the unit of the meter.
            rate: u32,
            /// Size of bursts, in the unit of the meter.
            burst_size: u32,
        } = { V1_3.. => 1 [rate, burst_size, pad 4,] };
        /// Raises the drop precedence.
        DscpRemark "dscp_remark" {
            /// Rate above which, in the unit of the meter.
            rate: u32,
            /// Size of bursts, in the unit of the meter.
            burst_size: u32,
            /// Steps of drop precedence.
            prec_level: u8,
        } = { V1_3.. => 2 [rate, burst_size, prec_level, pad 3,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Rate above which, in the unit of the meter.
            rate: u32,
            /// Size of bursts, in the unit of the meter.
            burst_size: u32,
            /// Whose.
            experimenter: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [rate, burst_size, experimenter, data,] };
    }
}

tlv!(MeterBand, None, Request);

record! {
    /// Adds, changes or deletes a meter. §7.3.4.4.
    #[derive(Default)]
    pub struct MeterMod: "meter_mod" {
        /// What to do.
        pub command: MeterCommand,
        /// How the meter counts.
        pub flags: MeterFlags,
        /// Which meter.
        pub meter_id: MeterId,
        /// What is done above which rate.
        pub bands: Vec<MeterBand>,
    }
    V1_3.. => [command, flags, meter_id, bands,]
}
