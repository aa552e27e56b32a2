//! What a link is to be.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::command::{Direction, PerDirection};
use super::error::Error;
use super::impairments::LinkImpairments;
use super::units::LossRatio;

/// The shortest packets that a device may be limited to: what every host of IPv4 must take (RFC 791).
pub const MTU_MIN: u16 = 576;

/// One end of a link between devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEndpoint {
    /// Network namespace, by name or file; `None` is that of the process.
    pub namespace: Option<String>,
    /// Name of the device.
    pub device: String,
    /// Its address, and how many bits of it are the network's.
    pub address: (IpAddr, u8),
}

/// What a link joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEndpoints {
    /// Two TUN devices: packets pass as the system sends them.
    Tun {
        /// Both ends; the direction is the one in which packets leave it.
        endpoints: PerDirection<LinkEndpoint>,
        /// Bytes of the longest packet.
        mtu: u16,
    },
    /// Connections that are taken at one address and made to another: bytes pass, and TCP ends at each side.
    TcpProxy {
        /// Where they are taken.
        listen: SocketAddr,
        /// Where they are made to.
        connect: SocketAddr,
    },
}

/// A link: what it joins and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// What it joins.
    pub endpoints: LinkEndpoints,
    /// What each direction does.
    pub impairments: PerDirection<LinkImpairments>,
    /// What chance starts from.
    pub seed: u64,
}

impl LinkConfig {
    /// Whether there can be such a link.
    ///
    /// # Errors
    /// `LossWithTcpProxy`.
    pub fn validate(&self) -> Result<(), Error> {
        let is_proxy = matches!(self.endpoints, LinkEndpoints::TcpProxy { .. });
        if is_proxy
            && Direction::ALL.iter().any(|&way| self.impairments.get(way).loss > LossRatio::NONE)
        {
            return Err(Error::LossWithTcpProxy);
        }
        Ok(())
    }
}

/// Why a text is no address of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address with its network, such as 10.9.0.1/30", self.0)
    }
}

impl std::error::Error for AddressError {}

/// Reads an address and the bits of its network: `10.9.0.1/30`.
///
/// # Errors
/// It is none.
pub fn parse_address(text: &str) -> Result<(IpAddr, u8), AddressError> {
    let read = text.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|&bits| bits <= bits_max)?;
        Some((address, bits))
    });
    read.ok_or_else(|| AddressError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_network() {
        assert_eq!(parse_address("10.9.0.1/30"), Ok(("10.9.0.1".parse().unwrap(), 30)));
        assert_eq!(parse_address("fd00::1/64"), Ok(("fd00::1".parse().unwrap(), 64)));
        for text in ["10.9.0.1", "10.9.0.1/33", "10.9.0/8", "fd00::1/129", "/30", "10.9.0.1/-1"] {
            let said = parse_address(text).unwrap_err().to_string();
            assert!(said.contains(text), "{said}");
        }
    }
}
