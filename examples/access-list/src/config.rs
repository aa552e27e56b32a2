//! The section `[app.access-list]` of the configuration.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The configuration of the access list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Networks whose packets are dropped.
    pub deny: Vec<Prefix>,
    /// Seconds after which an entry that a switch has refused is written again.
    pub retry_s: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { deny: Vec::new(), retry_s: 10 }
    }
}

impl Config {
    /// How long to wait after a refusal.
    pub fn retry(&self) -> Duration {
        Duration::from_secs(self.retry_s.into())
    }
}

/// A network: an IPv4 address and the number of bits of it that count, such as `10.9.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    address: Ipv4Addr,
    len: u8,
}

impl Prefix {
    /// The first address of the network.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// How many bits of the address count.
    pub fn bits(self) -> u8 {
        self.len
    }

    /// Whether an address is in the network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0)
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let invalid =
            |what| format!("invalid network \"{text}\" ({what}; expected for example 10.9.0.0/16)");
        let (address, len) = text.split_once('/').ok_or_else(|| invalid("no slash"))?;
        let address = address.parse().map_err(|_| invalid("no IPv4 address before the slash"))?;
        let len = len.parse().ok().filter(|len| *len <= 32);
        let len = len.ok_or_else(|| invalid("no number from 0 to 32 after the slash"))?;
        let prefix = Self { address, len };
        if address.to_bits() & !prefix.mask() != 0 {
            return Err(invalid("the address has bits behind the prefix"));
        }
        Ok(prefix)
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Result<Prefix, String> {
        text.to_owned().try_into()
    }

    #[test]
    fn a_prefix_contains_the_addresses_of_its_network() {
        let network = prefix("10.9.0.0/16").unwrap();
        assert!(network.contains([10, 9, 255, 1].into()));
        assert!(!network.contains([10, 10, 0, 1].into()));
        assert!(prefix("0.0.0.0/0").unwrap().contains([1, 2, 3, 4].into()));
        assert_eq!(network.to_string(), "10.9.0.0/16");
    }

    #[test]
    fn an_invalid_prefix_is_rejected_with_what_is_wrong() {
        for (text, what) in [
            ("10.9.0.0", "no slash"),
            ("10.9/16", "no IPv4 address before the slash"),
            ("10.9.0.0/33", "no number from 0 to 32 after the slash"),
            ("10.9.0.1/16", "the address has bits behind the prefix"),
        ] {
            let error =
                format!("invalid network \"{text}\" ({what}; expected for example 10.9.0.0/16)");
            assert_eq!(prefix(text), Err(error));
        }
    }
}
