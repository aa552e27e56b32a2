//! Messages read in place: views that borrow the bytes of a [`RawMessage`](crate::RawMessage).
//!
//! The types at the crate root own what they hold. The types of the same name here borrow it: `new` checks the layout once
//! and copies nothing, and after that no accessor can fail, except those that parse actions and instructions. Use them for
//! the messages that arrive in large numbers: packet-ins, flow entries, removed flow entries, flow statistics.
//!
//! ```
//! use sluice_openflow::{RawMessage, PortNo, view};
//!
//! # let mut bytes = vec![1, 10, 0, 32, 0, 0, 0, 0, 0, 0, 1, 2, 0, 64, 0, 3, 0, 0];
//! # bytes.extend([7; 14]);
//! let packet = view::PacketIn::new(RawMessage::new(&bytes)?)?;
//! assert_eq!(packet.in_port, PortNo(3));
//! assert_eq!(packet.frame.len(), 14);
//! # Ok::<(), sluice_openflow::ParseError>(())
//! ```

pub use crate::error_msg::ErrorMsg;
pub use crate::flow_mod::FlowMod;
pub use crate::flow_removed::FlowRemoved;
pub use crate::flow_stats::{FlowStats, flow_stats};
pub use crate::match_view::Match;
pub use crate::multipart::Multipart;
pub use crate::packet_in::{PacketIn, PacketIns};
pub use crate::packet_out::PacketOut;

#[cfg(test)]
mod tests {
    use crate::{
        FlowRemoved, MultipartReply, MultipartType, ParseErrorKind, PortStatus, RawMessage,
        RoleRequest, SwitchConfig, SwitchFeatures, Version, ports, view,
    };

    #[test]
    fn unsupported_versions_are_refused() {
        for version in [0, 7, 0x99, 0xff] {
            let mut bytes = vec![0; 160];
            (bytes[0], bytes[3]) = (version, 160);
            let msg = RawMessage::new(&bytes).unwrap();
            let body = &bytes[8..];
            let flow_stats =
                |kind| view::flow_stats(Version(version), kind, body, 8).next().unwrap().map(drop);
            let results = [
                ("ErrorMsg", view::ErrorMsg::new(msg).map(drop)),
                ("FlowMod", view::FlowMod::new(msg).map(drop)),
                ("FlowRemoved", view::FlowRemoved::new(msg).map(drop)),
                ("Multipart", view::Multipart::new(msg).map(drop)),
                ("PacketIn", view::PacketIn::new(msg).map(drop)),
                ("PacketOut", view::PacketOut::new(msg).map(drop)),
                ("flow_stats", flow_stats(MultipartType::FLOW)),
                ("flow_stats of 1.5", flow_stats(MultipartType::FLOW_STATS)),
                ("ports", ports(Version(version), body, 8).map(drop)),
                (
                    "multipart body",
                    MultipartReply::parse_body(Version(version), MultipartType::DESC, body)
                        .map(drop),
                ),
                ("flow_removed", FlowRemoved::parse_raw(msg).map(drop)),
                ("port_status", PortStatus::parse_raw(msg).map(drop)),
                ("role_request", RoleRequest::parse_raw(msg).map(drop)),
                ("switch_config", SwitchConfig::parse_raw(msg).map(drop)),
                ("features_reply", SwitchFeatures::parse_raw(msg).map(drop)),
            ];
            for (name, result) in results {
                let why = result.map_err(|error| error.why);
                assert_eq!(why, Err(ParseErrorKind::Version), "{name} of version {version}");
            }
        }
    }
}
