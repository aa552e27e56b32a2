//! Why a measurement did not come about.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a measurement did not come about, in one sentence that says what to do.
#[derive(Debug)]
pub enum Error {
    /// The plan contradicts itself, or asks for what cannot be.
    Plan(String),
    /// Nobody took the connection.
    ConnectFailed(SocketAddr, io::Error),
    /// Not one switch got through the handshake in time.
    HandshakeFailed {
        /// How many tried.
        switches: u32,
        /// How many of them were connected.
        connected: u32,
        /// How long they waited, seconds.
        after_s: u64,
        /// Why the last one was turned away, if the controller said so.
        reason: Option<String>,
    },
    /// The system does not let a process have so many connections.
    OpenFiles {
        /// Descriptors that are needed.
        needed: u64,
        /// Descriptors that are allowed.
        allowed: u64,
    },
    /// A core that is not there, or not allowed.
    Core(usize, io::Error),
    /// A congestion control that the system does not have.
    Congestion(String, io::Error),
    /// An address that cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// A file that cannot be written.
    Write(String, io::Error),
    /// What the system said at another place.
    System(io::Error),
    /// A thread ended in a way that it must not.
    Thread,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(what) => f.write_str(what),
            Self::ConnectFailed(addr, e) => write!(
                f,
                "no controller took a connection at {addr} ({e}): start one there, or name another place with -c and -p"
            ),
            Self::HandshakeFailed { switches, connected, after_s, reason: None } => write!(
                f,
                "none of {switches} switches got through the handshake in {after_s} s, {connected} were connected: \
                 check that an OpenFlow controller listens there and speaks the version given with --openflow"
            ),
            Self::HandshakeFailed { switches, reason: Some(reason), .. } => write!(
                f,
                "the controller turned all {switches} switches away ({reason}): try another version with --openflow"
            ),
            Self::OpenFiles { needed, allowed } => write!(
                f,
                "{needed} open files are needed and {allowed} are allowed: raise the limit with `ulimit -n {needed}`, \
                 or play fewer switches with -s"
            ),
            Self::Core(core, e) => {
                write!(f, "cannot run on core {core} ({e}): name another with --pin")
            }
            Self::Congestion(name, e) => write!(
                f,
                "the system has no congestion control {name} ({e}): \
                 /proc/sys/net/ipv4/tcp_available_congestion_control lists what it has for --congestion"
            ),
            Self::Listen(addr, e) => {
                write!(f, "cannot listen on {addr} ({e}): name another place with --listen")
            }
            Self::Write(path, e) => write!(f, "cannot write {path} ({e}): name another file"),
            Self::System(e) => write!(f, "the system refused: {e}"),
            Self::Thread => f.write_str("a thread of the bench ended early: please report this"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::System(e)
    }
}
