//! A connection that is not in a set.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::tls::TlsSession;

/// A TCP connection that is not in a set, with the state of TLS if it carries that.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Box<TlsSession>>,
}

impl Connection {
    pub(crate) fn with_tls(stream: TcpStream, tls: TlsSession) -> Self {
        Self { stream, tls: Some(Box::new(tls)) }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A connection without TLS.
impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        Self { stream, tls: None }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
