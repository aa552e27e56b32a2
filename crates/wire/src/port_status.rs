//! `PORT_STATUS`: a port came, went or changed. §7.4.3.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Frame, Inexpressible, Kind, Out, Port, Result, Why, port};

/// What became of a port. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortReason(pub u8);

impl PortReason {
    /// It came.
    pub const ADD: Self = Self(0);
    /// It went.
    pub const DELETE: Self = Self(1);
    /// Something of it changed.
    pub const MODIFY: Self = Self(2);
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    reason: u8,
    pad: [u8; 7],
}

/// What became of which port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortStatus {
    /// What.
    pub reason: PortReason,
    /// Of which, as it is now.
    pub port: Port,
}

impl PortStatus {
    /// Reads `msg`.
    ///
    /// # Errors
    /// `Short` or `Length` unless there is exactly one port.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (fixed, rest) = msg.fixed::<Fixed>("port_status")?;
        let ports = port::ports(msg.version(), rest, 16)?;
        let [port] = ports[..] else { return Err(Error::new("port", 16, Why::Length)) };
        Ok(Self { reason: PortReason(fixed.reason), port })
    }

    /// Writes the message, as a switch would.
    ///
    /// # Errors
    /// Names what the version cannot say.
    pub fn emit(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        out.message_with_xid(Kind::PORT_STATUS, 0, |out| {
            out.put(&Fixed { reason: self.reason.0, pad: [0; 7] });
            self.port.emit(out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MacAddr, PortNo, Version};

    #[test]
    fn a_port_comes_back_as_written() {
        for version in [Version::V1_0, Version::V1_3] {
            let port = Port {
                port_no: PortNo(7),
                hw_addr: MacAddr([2, 0, 0, 0, 0, 7]),
                name: *b"s1-eth7\0\0\0\0\0\0\0\0\0",
                config: 0,
                state: 0,
                features: [0; 4],
                speed_kbps: [0; 2],
            };
            let status = PortStatus { reason: PortReason::ADD, port };
            let (mut tx, mut xid) = (vec![], 1);
            status.emit(&mut Out::new(&mut tx, version, &mut xid)).unwrap();
            assert_eq!(PortStatus::parse(Frame::new(&tx).unwrap()), Ok(status));
        }
    }
}
