//! Port numbers. §7.2.1.

use core::fmt;

use crate::{EncodeError, Expected, Result, Version};

/// A port number, 32 bits in all versions: the reserved ones of 1.0 are widened. §7.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortNo(pub u32);

impl PortNo {
    /// Highest number of a real port.
    pub const MAX: Self = Self(0xffff_ff00);
    /// What the field `actset_output` says before an action set has an output. OpenFlow 1.5.0 §7.2.1.1.
    pub const UNSET: Self = Self(0xffff_fff7);
    /// Back out where it came in.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// Through the tables; in a `PACKET_OUT` only.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// As the switch would without OpenFlow.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports of the spanning tree but the ingress.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports but the ingress.
    pub const ALL: Self = Self(0xffff_fffc);
    /// Up to the controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The switch's own stack.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// Any port, or none: a wildcard in requests. `OFPP_NONE` in 1.0.
    pub const ANY: Self = Self(0xffff_ffff);

    /// The reserved ports and their names.
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

    /// Highest number of a real port in 1.0.
    const MAX_1_0: u16 = 0xff00;

    /// Widens a port number of 1.0.
    #[inline]
    pub const fn from_u16(n: u16) -> Self {
        if n < Self::MAX_1_0 { Self(n as u32) } else { Self(0xffff_0000 | n as u32) }
    }

    /// The number in 1.0.
    ///
    /// # Errors
    /// Names the port if 1.0 has no number for it.
    #[inline]
    pub fn to_u16(self) -> Result<u16, EncodeError> {
        // Real ports end at 0xfeff; the reserved ones, moved up, come round to the 256 numbers below them.
        if self.0.wrapping_add(0x100) < 0x1_0000 {
            #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
            Ok(self.0 as u16)
        } else {
            let (version, needs) = (Version::V1_0, Some(Version::V1_1));
            Err(EncodeError::new("port", version, needs).with_value(self.0, Expected::Unstated))
        }
    }

    /// Whether frames can come from and go to it: a real port, or the switch's own stack.
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
    fn reserved_ports_of_1_0_are_widened_and_narrowed() {
        assert_eq!(PortNo::from_u16(0xfffd), PortNo::CONTROLLER);
        assert_eq!(PortNo::FLOOD.to_u16(), Ok(0xfffb));
        assert_eq!(PortNo(0xfeff).to_u16(), Ok(0xfeff));
        assert_eq!(PortNo(0xff00).to_u16().unwrap_err().what, "port");
        let error = PortNo(0x1_0001).to_u16().unwrap_err().to_string();
        assert_eq!(error, "port 65537 requires OpenFlow 1.1; this session speaks 1.0");
    }
}
