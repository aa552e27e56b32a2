//! Port numbers. §7.2.1.

use core::fmt;

use crate::{EncodeError, Expected, Result, Version};

/// A port number, 32 bits; the reserved numbers of 1.0 are those of later versions here. §7.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortNo(pub u32);

impl PortNo {
    /// Highest number of a physical or logical port. `OFPP_MAX`.
    pub const MAX: Self = Self(0xffff_ff00);
    /// Value of the field `actset_output` while the action set has no output action. OpenFlow 1.5.0 §7.2.1.1.
    pub const UNSET: Self = Self(0xffff_fff7);
    /// The port on which the packet was received.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// Submits the packet to the first flow table; in a `PACKET_OUT` only.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// Forwarding as a switch without OpenFlow.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports of the spanning tree except the ingress port.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports except the ingress port.
    pub const ALL: Self = Self(0xffff_fffc);
    /// The controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The network stack of the switch itself.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// Wildcard in requests, or no port. `OFPP_NONE` in 1.0.
    pub const ANY: Self = Self(0xffff_ffff);

    /// The reserved ports with their names in lower case.
    pub const NAMES: &[(Self, &str)] = &[
        (Self::UNSET, "unset"),
        (Self::IN_PORT, "in_port"),
        (Self::TABLE, "table"),
        (Self::NORMAL, "normal"),
        (Self::FLOOD, "flood"),
        (Self::ALL, "all"),
        (Self::CONTROLLER, "controller"),
        (Self::LOCAL, "local"),
        (Self::ANY, "any"),
    ];

    /// Lowest reserved number in 1.0.
    const MAX_1_0: u16 = 0xff00;

    /// The port with this number in 1.0.
    #[inline]
    pub const fn from_u16(n: u16) -> Self {
        if n < Self::MAX_1_0 { Self(n as u32) } else { Self(0xffff_0000 | n as u32) }
    }

    /// The number in 1.0.
    ///
    /// # Errors
    /// OpenFlow 1.0 has no number for the port.
    #[inline]
    pub fn to_u16(self) -> Result<u16, EncodeError> {
        // Port numbers of 1.0 end at 0xfeff; adding 0x100 makes the reserved ones wrap around to 0 to 0xff.
        if self.0.wrapping_add(0x100) < 0x1_0000 {
            #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
            Ok(self.0 as u16)
        } else {
            let (version, needs) = (Version::V1_0, Some(Version::V1_1));
            Err(EncodeError::new("port", version, needs).with_value(self.0, Expected::Unstated))
        }
    }

    /// Whether packets can be received on and sent to it: a physical or logical port, or [`LOCAL`](Self::LOCAL).
    pub const fn is_real(self) -> bool {
        (self.0 <= Self::MAX.0 && self.0 != 0) || self.0 == Self::LOCAL.0
    }
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNSET => f.write_str("UNSET"),
            Self::IN_PORT => f.write_str("IN_PORT"),
            Self::TABLE => f.write_str("TABLE"),
            Self::NORMAL => f.write_str("NORMAL"),
            Self::FLOOD => f.write_str("FLOOD"),
            Self::ALL => f.write_str("ALL"),
            Self::CONTROLLER => f.write_str("CONTROLLER"),
            Self::LOCAL => f.write_str("LOCAL"),
            Self::ANY => f.write_str("ANY"),
            Self(n) => write!(f, "{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_of_1_0_survive_a_roundtrip() {
        assert_eq!(PortNo::from_u16(0xfffd), PortNo::CONTROLLER);
        assert_eq!(PortNo::FLOOD.to_u16(), Ok(0xfffb));
        assert_eq!(PortNo(0xfeff).to_u16(), Ok(0xfeff));
        assert_eq!(PortNo(0xff00).to_u16().unwrap_err().what, "port");
        let error = PortNo(0x1_0001).to_u16().unwrap_err().to_string();
        assert_eq!(error, "port 65537 requires OpenFlow 1.1; this session speaks 1.0");
    }
}
