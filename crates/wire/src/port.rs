//! Port numbers and descriptions. §7.2.1.

use core::fmt;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Inexpressible, MacAddr, Out, Result, Version, Why};

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
    pub fn to_u16(self) -> Result<u16, Inexpressible> {
        // Real ports end at 0xfeff; the reserved ones, moved up, come round to the 256 numbers below them.
        if self.0.wrapping_add(0x100) < 0x1_0000 {
            #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
            Ok(self.0 as u16)
        } else {
            let (version, needs) = (Version::V1_0, Some(Version::V1_1));
            Err(Inexpressible { what: "port number", version, needs })
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

/// `struct ofp_phy_port`. OpenFlow 1.0.0 §5.2.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed10 {
    port_no: U16,
    hw_addr: MacAddr,
    name: [u8; 16],
    config: U32,
    state: U32,
    features: [U32; 4],
}

/// `struct ofp_port` of 1.1 to 1.3. §7.2.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed13 {
    port_no: U32,
    pad: [u8; 4],
    hw_addr: MacAddr,
    pad2: [u8; 2],
    name: [u8; 16],
    config: U32,
    state: U32,
    features: [U32; 4],
    curr_speed: U32,
    max_speed: U32,
}

const _: () = assert!(size_of::<Fixed10>() == 48);
const _: () = assert!(size_of::<Fixed13>() == 64);

/// What a switch says of one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub port_no: PortNo,
    /// Its own address.
    pub hw_addr: MacAddr,
    /// Its name, padded with zeros.
    pub name: [u8; 16],
    /// `OFPPC_*` bits.
    pub config: u32,
    /// `OFPPS_*` bits.
    pub state: u32,
    /// Current, advertised, supported and peer features: `OFPPF_*` bits.
    pub features: [u32; 4],
    /// Current and highest bit rate, kbit/s; 0 where the version does not say.
    pub speed_kbps: [u32; 2],
}

impl Port {
    /// `OFPPC_PORT_DOWN`: an operator has turned the port off.
    pub const DOWN: u32 = 1;
    /// `OFPPS_LINK_DOWN`: nothing at the other end.
    pub const LINK_DOWN: u32 = 1;

    /// Octets of one description in `version`, `None` where it has no fixed length.
    pub const fn len_in(version: Version) -> Option<usize> {
        match version {
            Version::V1_0 => Some(size_of::<Fixed10>()),
            Version::V1_1 | Version::V1_2 | Version::V1_3 => Some(size_of::<Fixed13>()),
            _ => None,
        }
    }

    /// Whether the port can carry frames now.
    pub const fn is_up(&self) -> bool {
        self.config & Self::DOWN == 0 && self.state & Self::LINK_DOWN == 0
    }

    /// The name as text, cut at the first zero.
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|&c| c == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(self.name.get(..end).unwrap_or_default()).into_owned()
    }

    fn from_10(p: &Fixed10) -> Self {
        Self {
            port_no: PortNo::from_u16(p.port_no.get()),
            hw_addr: p.hw_addr,
            name: p.name,
            config: p.config.get(),
            state: p.state.get(),
            features: p.features.map(U32::get),
            speed_kbps: [0, 0],
        }
    }

    fn from_13(p: &Fixed13) -> Self {
        Self {
            port_no: PortNo(p.port_no.get()),
            hw_addr: p.hw_addr,
            name: p.name,
            config: p.config.get(),
            state: p.state.get(),
            features: p.features.map(U32::get),
            speed_kbps: [p.curr_speed.get(), p.max_speed.get()],
        }
    }

    /// Writes the description.
    ///
    /// # Errors
    /// Names what `out`'s version cannot say.
    pub fn emit(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        match out.version() {
            Version::V1_0 => out.put(&Fixed10 {
                port_no: self.port_no.to_u16()?.into(),
                hw_addr: self.hw_addr,
                name: self.name,
                config: self.config.into(),
                state: self.state.into(),
                features: self.features.map(U32::new),
            }),
            version if Self::len_in(version).is_some() => out.put(&Fixed13 {
                port_no: self.port_no.0.into(),
                pad: [0; 4],
                hw_addr: self.hw_addr,
                pad2: [0; 2],
                name: self.name,
                config: self.config.into(),
                state: self.state.into(),
                features: self.features.map(U32::new),
                curr_speed: self.speed_kbps[0].into(),
                max_speed: self.speed_kbps[1].into(),
            }),
            version => {
                return Err(Inexpressible { what: "port with properties", version, needs: None });
            }
        }
        Ok(())
    }
}

/// Reads the descriptions in `octets`, which start `at` octets into a message.
///
/// # Errors
/// `Length` unless they are a whole number of descriptions, `Version` where their form is not known.
///
/// # Cost
/// Allocates the list.
pub fn ports(version: Version, octets: &[u8], at: u16) -> Result<Vec<Port>> {
    let bad = Error::new("ports", at, Why::Length);
    match version {
        Version::V1_0 => {
            let ports = <[Fixed10]>::ref_from_bytes(octets).map_err(|_| bad)?;
            Ok(ports.iter().map(Port::from_10).collect())
        }
        Version::V1_1 | Version::V1_2 | Version::V1_3 => {
            let ports = <[Fixed13]>::ref_from_bytes(octets).map_err(|_| bad)?;
            Ok(ports.iter().map(Port::from_13).collect())
        }
        _ => Err(Error::new("ports", at, Why::Version)),
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
        assert_eq!(PortNo(0xff00).to_u16().unwrap_err().what, "port number");
        assert_eq!(PortNo(0x1_0001).to_u16().unwrap_err().needs, Some(Version::V1_1));
    }
}
