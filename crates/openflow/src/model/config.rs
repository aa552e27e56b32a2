//! `GET_CONFIG_REPLY`, `SET_CONFIG`: handling of IP fragments, and length of packet-ins. §7.3.2.

use super::codec::versions::*;
use super::rows::{flags, record};

flags! {
    /// `OFPC_FRAG_*`: handling of IP fragments; no flag set is normal handling. §7.3.2.
    pub struct ConfigFlags(u32 as u16);
    FRAG_NX_MATCH = 3, V1_0, "Match the ports of first fragments. Nicira.";
    FRAG_DROP = 1, V1_0, "Drop fragments.";
    FRAG_REASM = 2, V1_0, "Reassemble fragments.";
    INVALID_TTL_TO_CONTROLLER = 4, V1_1 ..= V1_2, "Send packets with an invalid TTL to the controller.";
}

record! {
    /// Configuration of a switch. §7.3.2.
    #[derive(Copy, Default)]
    pub struct SwitchConfig: "switch_config" {
        /// Handling of IP fragments.
        pub flags: ConfigFlags,
        /// Bytes of a packet that are sent to the controller on a table miss; 0xffff sends the whole packet
        /// unbuffered.
        pub miss_send_len: u16,
    }
    V1_0.. => [flags, miss_send_len,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::roundtrip::message_both_ways;

    // Bytes from Open vSwitch, tests/ofp-print.at, in every version.
    #[test]
    fn a_switch_configuration_survives_a_roundtrip_in_every_version() {
        for version in 1..=6 {
            let default = SwitchConfig::default();
            message_both_ways(
                &format!("0{version}08000c00000003 00000000"),
                &Message::GetConfigReply(default),
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
