//! How a process works with a service manager such as systemd: listening sockets that it passes (`LISTEN_FDS`), the state that it
//! receives (`NOTIFY_SOCKET`), and its watchdog (`WATCHDOG_USEC`).

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use sd_notify::NotifyState;

/// A listening socket that the service manager has passed.
#[derive(Debug)]
pub struct PassedSocket {
    /// Its name: `FileDescriptorName=` of the socket unit.
    pub name: String,
    /// The listener. It does not block.
    pub listener: PassedListener,
}

/// A listener that the service manager has opened.
#[derive(Debug)]
pub enum PassedListener {
    /// A TCP listener with its address.
    Tcp(TcpListener, SocketAddr),
    /// A Unix socket with the path of its file, which belongs to the service manager.
    Unix(UnixListener, PathBuf),
}

/// Why the sockets that were passed cannot be used.
#[derive(Debug)]
pub enum PassedSocketError {
    /// The variables do not describe open file descriptors.
    Environment(io::Error),
    /// The file descriptor of this name is no listening stream socket.
    NotListening(String),
    /// The socket of this name is of neither TCP nor the Unix domain, or has no path.
    UnknownKind(String),
    /// The system has refused an operation on the socket of this name.
    Io(String, io::Error),
}

impl fmt::Display for PassedSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(error) => write!(
                f,
                "LISTEN_FDS and LISTEN_FDNAMES do not describe the sockets that were passed: {error}"
            ),
            Self::NotListening(name) => write!(
                f,
                "the passed file descriptor \"{name}\" is no listening stream socket: it needs ListenStream= and Accept=no in its socket unit"
            ),
            Self::UnknownKind(name) => write!(
                f,
                "the passed socket \"{name}\" is neither a TCP socket nor a Unix socket with a path"
            ),
            Self::Io(name, error) => {
                write!(f, "the passed socket \"{name}\" cannot be used: {error}")
            }
        }
    }
}

impl std::error::Error for PassedSocketError {}

/// The sockets were taken: their file descriptors must have one owner.
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets that the service manager has passed to this process, in its order. The first call returns them, later ones nothing; there are
/// none either if `LISTEN_PID` is another process.
///
/// Call it before anything else of the process opens files.
///
/// # Errors
/// The variables are invalid, or a file descriptor is no listener. The sockets are closed then.
pub fn passed_sockets() -> Result<Vec<PassedSocket>, PassedSocketError> {
    if ARE_TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    let count = sd_notify::listen_fds().map_err(PassedSocketError::Environment)?.len();
    if count == 0 {
        // The names are those of another process, then.
        return Ok(Vec::new());
    }
    let passed = sd_notify::listen_fds_with_names().map_err(PassedSocketError::Environment)?;
    let owned: Vec<(OwnedFd, String)> = passed
        .map(|(fd, name)| {
            // SAFETY: `LISTEN_PID` names this process, so that its service manager has opened the file descriptor for it, which
            // `listen_fds_with_names` has found open. Nothing else owns it: this function returns each once.
            (unsafe { OwnedFd::from_raw_fd(fd) }, name)
        })
        .collect();
    owned.into_iter().map(|(fd, name)| passed_socket(fd, name)).collect()
}

fn passed_socket(fd: OwnedFd, name: String) -> Result<PassedSocket, PassedSocketError> {
    if !is_listening_stream(&fd) {
        return Err(PassedSocketError::NotListening(name));
    }
    let failed = |error: io::Error| PassedSocketError::Io(name.clone(), error);
    let domain = sockopt::socket_domain(&fd).map_err(|e| failed(e.into()))?;
    let listener = if domain == AddressFamily::UNIX {
        let listener = UnixListener::from(fd);
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let path = address.as_pathname().map(PathBuf::from);
        PassedListener::Unix(
            listener,
            path.ok_or_else(|| PassedSocketError::UnknownKind(name.clone()))?,
        )
    } else if domain == AddressFamily::INET || domain == AddressFamily::INET6 {
        let listener = TcpListener::from(fd);
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        PassedListener::Tcp(listener, address)
    } else {
        return Err(PassedSocketError::UnknownKind(name));
    };
    Ok(PassedSocket { name, listener })
}

fn is_listening_stream(fd: impl AsFd) -> bool {
    sockopt::socket_type(&fd) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(&fd) == Ok(true)
}

/// What a service tells its service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceState<'a> {
    /// It serves, after a start or after it has read its configuration again.
    Ready,
    /// It reads its configuration again.
    Reloading,
    /// It stops.
    Stopping,
    /// It makes progress.
    Alive,
    /// What it does, for people.
    Status(&'a str),
}

/// Whether a service manager wants to know the state of this process.
pub fn is_notified() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Sends states to the service manager in one message; does nothing if there is none.
///
/// # Errors
/// The socket of the service manager cannot be reached.
pub fn notify(states: &[ServiceState<'_>]) -> io::Result<()> {
    let mut messages = Vec::with_capacity(states.len() + 1);
    for state in states {
        match state {
            ServiceState::Ready => messages.push(NotifyState::Ready),
            ServiceState::Reloading => {
                messages.push(NotifyState::Reloading);
                messages.push(NotifyState::monotonic_usec_now()?);
            }
            ServiceState::Stopping => messages.push(NotifyState::Stopping),
            ServiceState::Alive => messages.push(NotifyState::Watchdog),
            ServiceState::Status(text) => messages.push(NotifyState::Status(text)),
        }
    }
    sd_notify::notify(&messages)
}

/// The time after which the service manager ends this process if it has not sent [`ServiceState::Alive`]; `None` without a watchdog.
pub fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn classify(fd: impl Into<OwnedFd>) -> Result<PassedSocket, PassedSocketError> {
        passed_socket(fd.into(), "some".to_owned())
    }

    #[test]
    fn tcp_listeners_are_known_by_their_address() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let bound = listener.local_addr().unwrap();
        let passed = classify(listener).unwrap();
        let PassedListener::Tcp(listener, address) = passed.listener else { panic!("{passed:?}") };
        assert_eq!((passed.name.as_str(), address), ("some", bound));
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn sockets_that_do_not_listen_are_refused() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let (unix, _other) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let all: [OwnedFd; 4] = [connected.into(), datagrams.into(), unix.into(), file.into()];
        for fd in all {
            let error = classify(fd).unwrap_err();
            assert!(matches!(&error, PassedSocketError::NotListening(name) if name == "some"));
        }
    }

    #[test]
    fn a_process_that_no_service_manager_has_started_gets_no_socket() {
        assert!(passed_sockets().unwrap().is_empty());
        assert_eq!(watchdog_timeout(), None);
    }
}
