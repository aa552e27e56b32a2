//! What a link is to be.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::control::{Both, Way};
use super::error::Error;
use super::settings::Settings;
use super::units::Share;

/// The shortest packets that a device may be limited to: what every host of IPv4 must take (RFC 791).
pub const MTU_MIN: u16 = 576;

/// One end of a link between devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Network namespace, by name or file; `None` is that of the process.
    pub place: Option<String>,
    /// Name of the device.
    pub device: String,
    /// Its address, and how many bits of it are the network's.
    pub address: (IpAddr, u8),
}

/// What a link joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// Two TUN devices: packets pass as the system sends them.
    Tuns {
        /// Both ends; the direction is the one in which packets leave it.
        ends: Both<End>,
        /// Bytes of the longest packet.
        mtu: u16,
    },
    /// Connections that are taken at one address and made to another: bytes pass, and TCP ends at each side.
    Relay {
        /// Where they are taken.
        listen: SocketAddr,
        /// Where they are made to.
        connect: SocketAddr,
    },
}

/// A link: what it joins and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it joins.
    pub ends: Ends,
    /// What each direction does.
    pub settings: Both<Settings>,
    /// What chance starts from.
    pub seed: u64,
}

impl Plan {
    /// Whether there can be such a link.
    ///
    /// # Errors
    /// `LossOfRelay`.
    pub fn check(&self) -> Result<(), Error> {
        let is_relay = matches!(self.ends, Ends::Relay { .. });
        if is_relay && Way::BOTH.iter().any(|&way| self.settings.at(way).loss > Share::NONE) {
            return Err(Error::LossOfRelay);
        }
        Ok(())
    }
}

/// Why a text is no address of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEnd(String);

impl fmt::Display for BadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address with its network, such as 10.9.0.1/30", self.0)
    }
}

impl std::error::Error for BadEnd {}

/// Reads an address and the bits of its network: `10.9.0.1/30`.
///
/// # Errors
/// It is none.
pub fn address(text: &str) -> Result<(IpAddr, u8), BadEnd> {
    let read = text.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|&bits| bits <= bits_max)?;
        Some((address, bits))
    });
    read.ok_or_else(|| BadEnd(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_network() {
        assert_eq!(address("10.9.0.1/30"), Ok(("10.9.0.1".parse().unwrap(), 30)));
        assert_eq!(address("fd00::1/64"), Ok(("fd00::1".parse().unwrap(), 64)));
        for text in ["10.9.0.1", "10.9.0.1/33", "10.9.0/8", "fd00::1/129", "/30", "10.9.0.1/-1"] {
            let said = address(text).unwrap_err().to_string();
            assert!(said.contains(text), "{said}");
        }
    }
}
