//! A connection that is not in a set.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::tls::TlsSession;
use crate::{ConnectionError, sock};

/// A TCP connection that is not in a set, with the state of TLS if it carries that.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Box<TlsSession>>,
    /// Bytes that were received and not reported. They precede those in the kernel.
    pub(crate) received: Vec<u8>,
    /// Bytes that were taken to be sent, and not by the kernel.
    pub(crate) unsent: Vec<u8>,
}

impl Connection {
    pub(crate) fn with_tls(stream: TcpStream, tls: TlsSession) -> Self {
        Self { tls: Some(Box::new(tls)), ..stream.into() }
    }

    /// A connection that leaves a set with bytes that are neither reported nor sent. It is reset if it is dropped with unreported
    /// ones, as a socket with unread bytes is.
    pub(crate) fn with_bytes(
        stream: TcpStream,
        tls: Option<Box<TlsSession>>,
        received: Vec<u8>,
        unsent: Vec<u8>,
    ) -> Self {
        if !received.is_empty() {
            sock::reset(&stream);
        }
        Self { stream, tls, received, unsent }
    }

    /// Before it is added to a set: undoes what [`with_bytes`](Self::with_bytes) has prepared.
    pub(crate) fn keep_open(&self) {
        if !self.received.is_empty() {
            sock::no_reset(&self.stream);
        }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A connection without TLS.
impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        Self { stream, tls: None, received: Vec::new(), unsent: Vec::new() }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends what the kernel takes of `unsent`, and removes it.
pub(crate) fn send_rest(stream: &TcpStream, unsent: &mut Vec<u8>) -> Result<(), ConnectionError> {
    if unsent.is_empty() {
        return Ok(());
    }
    match send(stream, unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(sent) if sent == unsent.len() => *unsent = Vec::new(),
        Ok(sent) => drop(unsent.drain(..sent)),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(error) => return Err(error.kind().into()),
    }
    Ok(())
}
