//! Errors of a link.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use sluice_io::tun::TunError;

use super::command::Direction;

/// Why a link could not be opened, or failed.
#[derive(Debug)]
pub enum Error {
    /// The network namespace of one endpoint could not be opened: the direction that starts there, its name, the cause.
    Namespace(Direction, String, io::Error),
    /// Both endpoints are in one namespace, where the kernel would bypass the link.
    SameNamespace,
    /// A TUN device could not be created.
    Tun(TunError),
    /// The TCP proxy cannot listen on this address.
    Listen(SocketAddr, io::Error),
    /// Loss was configured for a TCP proxy, whose data TCP has already acknowledged.
    LossWithTcpProxy,
    /// The system is out of threads or file descriptors.
    System(io::Error),
    /// The link failed while it ran.
    Failed(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(_, name, e) if e.kind() == io::ErrorKind::NotFound => write!(
                f,
                "no network namespace {name}: `ip netns list` lists them, `ip netns add {name}` creates it"
            ),
            Self::Namespace(_, name, e) => {
                write!(f, "cannot open network namespace {name}: {e}: run as root")
            }
            Self::SameNamespace => f.write_str(
                "both endpoints are in the same network namespace, where the kernel would bypass the link: create \
                 another with `ip netns add` and name it",
            ),
            Self::Tun(e) => e.fmt(f),
            Self::Listen(at, e) => write!(f, "cannot listen on {at}: {e}: choose another address"),
            Self::LossWithTcpProxy => f.write_str(
                "loss: not possible with a TCP proxy, where TCP ends at each side: use a link between network \
                 namespaces",
            ),
            Self::System(e) => {
                write!(f, "{e}: check the limits of this user with `ulimit -a`")
            }
            Self::Failed(e) => {
                write!(f, "the link failed: {e}: its device or namespace may have been deleted")
            }
        }
    }
}

impl std::error::Error for Error {}
