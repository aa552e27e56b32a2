//! How connections are accepted.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::{ConnId, Connection, IoEvent, TlsServer, clock};

/// Connections accepted from each listener per wait, so that a flood of connections does not delay others for long.
pub(crate) const ACCEPTS_MAX: u32 = 64;

/// Pause after accepting failed for lack of file descriptors or memory, since the listener stays ready all the time.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The result of accepting a connection.
pub(crate) enum Accept {
    /// A connection, or why one that was accepted could not be prepared.
    One(IoEvent<'static, Connection>),
    /// There is none.
    None,
    /// Nothing can be accepted now.
    Failed(io::Error),
}

/// Accepts one connection from a listener.
pub(crate) fn accept(id: ConnId, listener: &TcpListener, tls: Option<&TlsServer>) -> Accept {
    match listener.accept() {
        Ok((stream, addr)) => {
            let connection = stream.set_nonblocking(true).and_then(|()| match tls {
                Some(tls) => tls.accept(stream),
                None => Ok(stream.into()),
            });
            Accept::One(match connection {
                Ok(connection) => {
                    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                    IoEvent::Accepted(connection, addr, id)
                }
                Err(e) => IoEvent::AcceptFailed(e),
            })
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Accept::None,
        Err(e) => Accept::Failed(e),
    }
}

/// Whether the error is a lack of file descriptors or memory.
pub(crate) fn is_out_of_resources(error: &io::Error) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| errors.contains(&errno))
}

/// Listeners on which accepting has failed, until it is tried again.
#[derive(Debug, Default)]
pub(crate) struct PausedListeners {
    ids: Vec<ConnId>,
    resume_at: Option<Instant>,
}

impl PausedListeners {
    pub(crate) fn add(&mut self, id: ConnId) {
        self.ids.push(id);
        self.resume_at = Some(clock::now() + ACCEPT_PAUSE);
    }

    /// A connection was closed: there is a file descriptor for the next one.
    pub(crate) fn end_pause(&mut self) {
        self.resume_at = None;
    }

    /// Until when to wait at most, if it is `deadline` otherwise, and the listeners whose pause is over.
    pub(crate) fn resume(&mut self, deadline: Option<Instant>) -> (Option<Instant>, Vec<ConnId>) {
        if self.ids.is_empty() {
            return (deadline, Vec::new());
        }
        if let Some(resume_at) = self.resume_at.filter(|&at| clock::now() < at) {
            return (deadline.into_iter().chain([resume_at]).min(), Vec::new());
        }
        (deadline, std::mem::take(&mut self.ids))
    }
}
