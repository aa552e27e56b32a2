//! Why there is no link.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use sluice_io::tun::TunError;

use super::command::Direction;

/// Why there is no link, or no longer.
#[derive(Debug)]
pub enum Error {
    /// The namespace of the end that packets of this direction leave is not to be found.
    Namespace(Direction, String, io::Error),
    /// Both ends are in one namespace, where the system would carry packets past the link.
    SameNamespace,
    /// There can be no device.
    Tun(TunError),
    /// The relay cannot listen there.
    Listen(SocketAddr, io::Error),
    /// A relay cannot lose what TCP has delivered already.
    LossWithTcpProxy,
    /// The system has no more threads or files.
    System(io::Error),
    /// It ended by itself.
    Failed(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(_, name, e) if e.kind() == io::ErrorKind::NotFound => write!(
                f,
                "there is no network namespace {name}: `ip netns list` shows those there are, `ip \
                 netns add {name}` makes one"
            ),
            Self::Namespace(_, name, e) => {
                write!(f, "the network namespace {name} cannot be opened: {e}: run this as root")
            }
            Self::SameNamespace => f.write_str(
                "both ends are in one network namespace, where the system carries packets past the \
                 link: make another with `ip netns add` and name it",
            ),
            Self::Tun(e) => e.fmt(f),
            Self::Listen(at, e) => write!(f, "cannot listen on {at}: {e}: choose another address"),
            Self::LossWithTcpProxy => f.write_str(
                "loss: a relay carries whole streams and loses nothing: use a link between namespaces",
            ),
            Self::System(e) => {
                write!(f, "{e}: look at `ulimit -a` for what this user may have")
            }
            Self::Failed(e) => {
                write!(f, "the link broke: {e}: its device or namespace may have been deleted")
            }
        }
    }
}

impl std::error::Error for Error {}
