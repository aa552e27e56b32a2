//! Why a measurement could not be carried out.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a measurement could not be carried out. The message also says what to do.
#[derive(Debug)]
pub enum Error {
    /// The plan is invalid or contradicts itself.
    Plan(String),
    /// No connection to the controller could be opened.
    ConnectFailed(SocketAddr, io::Error),
    /// No switch completed the handshake in time.
    HandshakeFailed {
        /// Switches that tried.
        switches: u32,
        /// How many of them were connected.
        connected: u32,
        /// How long they waited, in seconds.
        after_s: u64,
        /// Why the last connection ended, if one did.
        reason: Option<String>,
    },
    /// All switches were disconnected before the first request; why the last of them was.
    Disconnected(String),
    /// Not all switches of a network are connected and have completed the handshake.
    SwitchesMissing {
        /// Switches that are not.
        missing: u64,
        /// Switches of the network.
        switches: u64,
        /// Why the connection of one of them ended, if it did.
        reason: Option<String>,
    },
    /// The limit of open files is too low.
    OpenFiles {
        /// File descriptors needed.
        needed: u64,
        /// File descriptors allowed.
        allowed: u64,
    },
    /// A CPU core that does not exist or is not allowed.
    Pin(usize, io::Error),
    /// A congestion control algorithm that the system does not have, or that this user may not use.
    Congestion(String, io::Error),
    /// An address that cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The command that restarts the controller failed.
    Restart(String, String),
    /// A file that cannot be read, or does not contain a report: its name and why.
    Read(String, String),
    /// Standard output cannot be written.
    Output(io::Error),
    /// A file that cannot be written.
    Write(String, io::Error),
    /// Another error of the operating system.
    System(io::Error),
    /// A generator thread ended unexpectedly.
    Thread,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(what) => f.write_str(what),
            Self::ConnectFailed(addr, e) => write!(
                f,
                "cannot connect to a controller at {addr}: {e}; start one there (`sluice run`), \
                 or give its address with -c and its port with -p"
            ),
            Self::HandshakeFailed { switches, connected, after_s, reason: None } => write!(
                f,
                "no OpenFlow handshake completed within {after_s} s ({connected} of {switches} switches connected); \
                 check that an OpenFlow controller listens there and supports the version given with --openflow"
            ),
            Self::HandshakeFailed { switches, reason: Some(reason), .. } => write!(
                f,
                "the OpenFlow handshake of all {switches} switches failed ({reason}); try another version with --openflow"
            ),
            Self::Disconnected(reason) => write!(
                f,
                "all switches were disconnected before the first request: {reason}; see the log of the controller"
            ),
            Self::SwitchesMissing { missing, switches, reason } => {
                write!(
                    f,
                    "{missing} of {switches} switches did not complete the OpenFlow handshake, or were disconnected afterwards"
                )?;
                match reason {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                }
            }
            Self::OpenFiles { needed, allowed } => write!(
                f,
                "{needed} open files are needed, the limit is {allowed}; raise it with `ulimit -n {needed}`, \
                 or use fewer connections"
            ),
            Self::Pin(core, e) => {
                write!(f, "cannot run on CPU core {core}: {e}; give another one with --pin")
            }
            Self::Congestion(name, e) => write!(
                f,
                "cannot use the congestion control `{name}`: {e}; give `system` with --congestion, or one of those in \
                 /proc/sys/net/ipv4/tcp_available_congestion_control (without privileges: tcp_allowed_congestion_control)"
            ),
            Self::Listen(addr, e) => {
                write!(f, "cannot listen on {addr}: {e}; give another address with --listen")
            }
            Self::Restart(command, why) => {
                write!(f, "cannot restart the controller with `{command}`: {why}")
            }
            Self::Read(path, why) => write!(f, "cannot compare {path}: {why}"),
            Self::Output(e) => write!(f, "cannot write to standard output: {e}"),
            Self::Write(path, e) => write!(f, "cannot write {path}: {e}"),
            Self::System(e) => write!(f, "system error: {e}"),
            Self::Thread => {
                f.write_str("a generator thread ended unexpectedly; please report this as a bug")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::System(e)
    }
}
