//! `GET_CONFIG_REPLY`, `SET_CONFIG`: what a switch does with fragments, how much of a packet it sends up. §7.3.2.

use super::codec::versions::*;
use super::rows::{flags, record};

flags! {
    /// `OFPC_FRAG_*`: what becomes of fragments of IP; none set for nothing special. §7.3.2.
    pub struct ConfigFlags(u16);
    FRAG_NX_MATCH = 3, V1_0, "First fragments are matched; Nicira's.";
    FRAG_DROP = 1, V1_0, "Dropped.";
    FRAG_REASM = 2, V1_0, "Put together.";
    INVALID_TTL_TO_CONTROLLER = 4, V1_1 ..= V1_2, "Packets with an invalid TTL are sent up.";
}

record! {
    /// How a switch is set. §7.3.2.
    #[derive(Copy, Default)]
    pub struct SwitchConfig: "switch_config" {
        /// What becomes of fragments.
        pub flags: ConfigFlags,
        /// Bytes of a packet that are sent up without being asked for; `0xffff` for all of them.
        pub miss_send_len: u16,
    }
    V1_0.. => [flags, miss_send_len,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::roundtrip::message_both_ways;

    // Bytes of `tests/ofp-print.at` of Open vSwitch, in every version.
    #[test]
    fn a_configuration_is_the_same_in_all_versions() {
        for version in 1..=6 {
            let plain = SwitchConfig::default();
            message_both_ways(
                &format!("0{version}08000c00000003 00000000"),
                &Message::GetConfigReply(plain),
            );
            let set = SwitchConfig { flags: ConfigFlags::FRAG_DROP, miss_send_len: 255 };
            message_both_ways(
                &format!("0{version}09000c00000003 000100ff"),
                &Message::SetConfig(set),
            );
            message_both_ways(&format!("0{version}07000800000001"), &Message::GetConfigRequest);
        }
    }
}
