//! Messages read in place: views that borrow the bytes of a [`RawMessage`](crate::RawMessage).
//!
//! The types at the crate root own what they hold. The types of the same name here borrow it: `new` checks the layout once
//! and copies nothing, and after that no accessor can fail. Use them for the messages that arrive in large numbers:
//! packet-ins, removed flow entries, flow statistics.
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
