//! Description of a switch: manufacturer, hardware, software, serial number. §7.3.5.1.

use super::codec::versions::*;
use super::rows::record;
use super::value::FixedString;

record! {
    /// Description of a switch. §7.3.5.1.
    #[derive(Default)]
    pub struct SwitchDesc: "desc" {
        /// Manufacturer.
        pub mfr: FixedString<256>,
        /// Hardware.
        pub hw: FixedString<256>,
        /// Software.
        pub sw: FixedString<256>,
        /// Serial number.
        pub serial: FixedString<32>,
        /// Human-readable description of the datapath.
        pub dp: FixedString<256>,
    }
    V1_0.. => [mfr, hw, sw, serial, dp,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::model::roundtrip::{both_ways, parse};
    use crate::model::{Message, Multipart, MultipartFlags, MultipartReply, MultipartRequest};

    fn padded_hex(text: &str, len: usize) -> String {
        let digits = crate::model::value::hex(text.as_bytes());
        format!("{digits:0<width$}", width = 2 * len)
    }

    // Strings from Open vSwitch, tests/ofp-print.at.
    #[test]
    fn a_description_survives_a_roundtrip_in_every_version() {
        let desc = SwitchDesc {
            mfr: "Nicira, Inc.".into(),
            hw: "Open vSwitch".into(),
            sw: "1.1.0pre2".into(),
            serial: "None".into(),
            dp: "None".into(),
        };
        let texts = [
            padded_hex("Nicira, Inc.", 256),
            padded_hex("Open vSwitch", 256),
            padded_hex("1.1.0pre2", 256),
            padded_hex("None", 32),
            padded_hex("None", 256),
        ];
        let more = MultipartFlags::MORE;
        let asked =
            Message::MultipartRequest(Multipart { flags: more, body: MultipartRequest::Desc });
        let body = MultipartReply::Desc(Box::new(desc));
        let told = Message::MultipartReply(Multipart { flags: MultipartFlags(0), body });
        for version in (1..=6).map(Version) {
            let old = version == Version::V1_0;
            let (ask, tell, pad) = if old { (16, 17, "") } else { (18, 19, "00000000") };
            both_ways(version, ask, &format!("0000 0001 {pad}"), &asked);
            both_ways(version, tell, &format!("0000 0000 {pad} {}", texts.concat()), &told);
        }
        let cut = format!("0413 0330 00000001 0000 0000 00000000 {}", texts[..4].concat());
        assert_eq!(
            parse(&cut).unwrap_err().to_string(),
            "dp at byte 816: truncated (needs 256 bytes, 0 left)"
        );
    }
}
