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
    pub enum Band: "meter band" {
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

tlv!(Band, None, Request);

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
        pub bands: Vec<Band>,
    }
    V1_3.. => [command, flags, meter_id, bands,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::model::Message;
    use crate::model::golden::{alternatives, both_ways, names};

    /// A message with all bands.
    #[test]
    fn bands_of_every_kind_are_read_and_written() {
        let bands = vec![
            Band::Drop { rate: 1024, burst_size: 128 },
            Band::DscpRemark { rate: 512, burst_size: 64, prec_level: 3 },
            Band::Experimenter {
                rate: 1,
                burst_size: 2,
                experimenter: 0x00ab_cdef,
                data: vec![7, 8],
            },
        ];
        let all = Message::MeterMod(MeterMod {
            command: MeterCommand::MODIFY,
            flags: MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS,
            meter_id: MeterId(5),
            bands,
        });
        let body = "0001 000d 00000005  0001 0010 00000400 00000080 00000000 \
                    0002 0010 00000200 00000040 03 000000  ffff 0012 00000001 00000002 00abcdef 0708";
        let mut values = vec![];
        for version in [Version::V1_3, Version::V1_4, Version::V1_5] {
            values.push(both_ways(version, 29, body, &all));
        }
        assert_eq!(alternatives(&values, "bands"), names::<Band>());
    }

    /// From the tests of Open vSwitch.
    #[test]
    fn a_meter_mod_of_open_vswitch_is_read_and_written() {
        let mod_ = Message::MeterMod(MeterMod {
            command: MeterCommand::ADD,
            flags: MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS,
            meter_id: MeterId(5),
            bands: vec![
                Band::Drop { rate: 1024, burst_size: 128 },
                Band::Drop { rate: 1024, burst_size: 128 },
            ],
        });
        let body = "0000 000d 00000005 0001 0010 00000400 00000080 00000000 0001 0010 00000400 00000080 00000000";
        both_ways(Version::V1_3, 29, body, &mod_);
    }

    #[test]
    fn virtual_meters_have_names() {
        assert_eq!(MeterId::CONTROLLER.name(), Some("CONTROLLER"));
        assert_eq!(MeterId(3).name(), None);
    }
}
