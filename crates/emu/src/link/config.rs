//! The configuration of a link: its endpoints and impairments.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::command::{Direction, PerDirection};
use super::error::Error;
use super::impairments::LinkImpairments;
use super::units::LossRatio;

/// Smallest MTU of a TUN device: the datagram size that every IPv4 host must accept (RFC 791).
pub const MTU_MIN: u16 = 576;

/// One endpoint of a link between TUN devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEndpoint {
    /// Network namespace, by name or path; `None` is the namespace of this process.
    pub namespace: Option<String>,
    /// Name of the TUN device.
    pub device: String,
    /// IP address and prefix length.
    pub address: (IpAddr, u8),
}

/// What a link connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEndpoints {
    /// Two TUN devices, which carry IP packets unchanged.
    Tun {
        /// Both endpoints; `up` is the one where packets of the up direction enter.
        endpoints: PerDirection<LinkEndpoint>,
        /// MTU in bytes.
        mtu: u16,
    },
    /// A TCP proxy: each accepted connection is relayed through one to another address, and TCP ends at each side.
    TcpProxy {
        /// Address on which connections are accepted.
        listen: SocketAddr,
        /// Address to which connections are made.
        connect: SocketAddr,
    },
}

/// Endpoints, impairments and seed of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// What the link connects.
    pub endpoints: LinkEndpoints,
    /// The impairments of each direction.
    pub impairments: PerDirection<LinkImpairments>,
    /// Seed for loss and jitter.
    pub seed: u64,
}

impl LinkConfig {
    /// Checks that the impairments suit the endpoints.
    /// # Errors
    /// `LossWithTcpProxy`.
    pub fn validate(&self) -> Result<(), Error> {
        let is_proxy = matches!(self.endpoints, LinkEndpoints::TcpProxy { .. });
        if is_proxy
            && Direction::ALL
                .iter()
                .any(|&direction| self.impairments.get(direction).loss > LossRatio::NONE)
        {
            return Err(Error::LossWithTcpProxy);
        }
        Ok(())
    }
}

/// Why a text is not an address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address with a prefix length, such as 10.9.0.1/30", self.0)
    }
}

impl std::error::Error for AddressError {}

/// Parses an IP address with its prefix length: `10.9.0.1/30`.
/// # Errors
/// The text is not of this form, or the prefix length is too large.
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
    fn an_address_needs_a_prefix_length() {
        assert_eq!(parse_address("10.9.0.1/30"), Ok(("10.9.0.1".parse().unwrap(), 30)));
        assert_eq!(parse_address("fd00::1/64"), Ok(("fd00::1".parse().unwrap(), 64)));
        for text in ["10.9.0.1", "10.9.0.1/33", "10.9.0/8", "fd00::1/129", "/30", "10.9.0.1/-1"] {
            let error = parse_address(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
