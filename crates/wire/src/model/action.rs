//! What is done with a packet. §7.2.5.

use super::codec::versions::*;
use super::rows::{choice, tlv};
use crate::PortNo;

choice! {
    /// One action, of any version.
    pub enum Action: "action" {
        /// Sends the packet out of a port.
        Output "output" {
            /// Where to.
            port: PortNo,
            /// Octets to send if it is the controller; all ones for all.
            max_len: u16,
        } = { V1_0 => 0 [port, max_len,], V1_1.. => 0 [port, max_len, pad 6,] };
    }
}

tlv!(Action, Inside, Action, extended);
