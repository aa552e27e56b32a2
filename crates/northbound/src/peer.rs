//! Who is at the other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp {
        address: SocketAddr,
        has_tls: bool,
    },
    /// A process of this machine on the Unix socket; `None` if the system does not tell its user.
    Unix {
        uid: Option<u32>,
    },
}

/// Connections and failures are counted by it: one client has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An IPv4 address, or the 64 bits of an IPv6 address that one network has.
    Address(IpAddr),
    User(Option<u32>),
}

impl Peer {
    /// Whether it is on this machine.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Self::Tcp { address, .. } => address.ip().to_canonical().is_loopback(),
            Self::Unix { .. } => true,
        }
    }

    /// Whether others can read what is exchanged with it.
    pub(crate) fn is_exposed(self) -> bool {
        !self.is_local() && !matches!(self, Self::Tcp { has_tls: true, .. })
    }

    pub(crate) fn source(self) -> Source {
        match self {
            Self::Unix { uid } => Source::User(uid),
            Self::Tcp { address, .. } => Source::Address(match address.ip().to_canonical() {
                IpAddr::V6(ip) if !ip.is_loopback() => {
                    let [a, b, c, d, ..] = ip.segments();
                    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
                }
                ip => ip,
            }),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { address, .. } => address.fmt(f),
            Self::Unix { .. } => f.write_str("unix"),
        }
    }
}
