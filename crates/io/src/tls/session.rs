//! TLS of one connection.

use std::fmt;
use std::io::{self, IoSlice, Read as _, Write};
use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::certificate_names::has_name;
use super::error::{ConnectionError, TlsError};
use crate::READ_BYTES_MAX;

/// The first byte of a TLS connection: the content type of an alert or a handshake record.
const FIRST_BYTES: [u8; 2] = [0x15, 0x16];

/// The largest record, with its header (RFC 8446, section 5.2; RFC 5246, section 6.2.3).
const RECORD_BYTES_MAX: usize = 5 + (16 << 10) + 2048;

/// Plaintext of one read at most: each of its bytes, and a record that an earlier read has begun.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = READ_BYTES_MAX + RECORD_BYTES_MAX;

/// Plaintext that is encrypted at a time. It bounds what is encrypted and not sent yet.
const ENCRYPT_BYTES_MAX: usize = 64 << 10;

/// Bytes that a peer may send before the end of the TLS handshake: a chain of certificates.
const HANDSHAKE_BYTES_MAX: usize = 128 << 10;

/// TLS of one connection. All plaintext is reported with the read that completes its record, so that nothing waits here for which
/// the socket would not become readable.
pub(crate) struct TlsSession {
    tls: rustls::Connection,
    /// Bytes received before the end of the handshake.
    handshake_bytes: usize,
    end: Option<StreamEnd>,
    /// A `send` has taken less than all.
    wants_writable: bool,
}

/// How the received stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// By a `close_notify` alert, or before it began.
    Closed,
    Failed(TlsError),
}

impl StreamEnd {
    pub(crate) fn error(self) -> Option<ConnectionError> {
        match self {
            Self::Closed => None,
            Self::Failed(error) => Some(ConnectionError::Tls(error)),
        }
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").field("end", &self.end).finish_non_exhaustive()
    }
}

impl TlsSession {
    pub(super) fn new(mut tls: rustls::Connection) -> Self {
        tls.set_buffer_limit(Some(ENCRYPT_BYTES_MAX));
        Self { tls, handshake_bytes: 0, end: None, wants_writable: false }
    }

    /// How the received stream has ended.
    pub(crate) fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Processes received bytes. Returns the number of bytes of `plaintext`, which has room for [`PLAINTEXT_BYTES_MAX`].
    pub(crate) fn receive(&mut self, mut bytes: &[u8], plaintext: &mut [u8]) -> usize {
        if self.tls.is_handshaking() {
            if self.handshake_bytes == 0
                && !bytes.first().is_some_and(|byte| FIRST_BYTES.contains(byte))
            {
                self.end = Some(StreamEnd::Failed(TlsError::NotTls));
            }
            self.handshake_bytes += bytes.len();
            if self.handshake_bytes > HANDSHAKE_BYTES_MAX {
                self.end = Some(StreamEnd::Failed(TlsError::HandshakeTooLarge));
            }
        }
        let mut len = 0;
        while self.end.is_none() && !bytes.is_empty() {
            let processed = match self.tls.read_tls(&mut bytes) {
                Ok(_) => self.tls.process_new_packets(),
                Err(_) => Err(rustls::Error::HandshakeNotComplete),
            };
            match processed {
                Ok(state) if state.peer_has_closed() => self.end = Some(StreamEnd::Closed),
                Ok(_) => {}
                Err(error) => self.end = Some(StreamEnd::Failed((&error).into())),
            }
            // An error if there is nothing.
            len +=
                self.tls.reader().read(plaintext.get_mut(len..).unwrap_or_default()).unwrap_or(0);
        }
        len
    }

    /// The peer sends nothing more.
    pub(crate) fn receive_end(&mut self) -> StreamEnd {
        let is_unused = self.handshake_bytes == 0;
        let end =
            if is_unused { StreamEnd::Closed } else { StreamEnd::Failed(TlsError::Truncated) };
        *self.end.get_or_insert(end)
    }

    /// Encrypts and sends as much of `bytes` as `stream` takes, and one part of [`ENCRYPT_BYTES_MAX`] more, which is kept until the
    /// stream takes it. Returns the number of bytes that were encrypted. Before the end of the handshake, it keeps as much plaintext.
    /// `wanted` is the number of bytes that the owner has to send, `bytes` and more.
    pub(crate) fn send(
        &mut self,
        stream: &TcpStream,
        bytes: &[u8],
        wanted: usize,
    ) -> Result<usize, Errno> {
        let mut rest = bytes;
        loop {
            self.flush(stream)?;
            if self.tls.wants_write() || rest.is_empty() {
                break;
            }
            let part = rest.get(..ENCRYPT_BYTES_MAX).unwrap_or(rest);
            // Cannot fail: it writes to memory.
            let taken = self.tls.writer().write(part).unwrap_or(0);
            if taken == 0 {
                break;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        let taken = bytes.len() - rest.len();
        self.wants_writable = taken < wanted;
        Ok(taken)
    }

    /// Sends what is encrypted, as far as `stream` takes it.
    pub(crate) fn flush(&mut self, stream: &TcpStream) -> Result<(), Errno> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut SocketWriter(stream)) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR) => break,
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(())
    }

    /// Whether something is encrypted that the stream has not taken.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether room in the stream's send buffer is of use.
    pub(crate) fn wants_room(&self) -> bool {
        self.tls.wants_write() || self.wants_writable && !self.tls.is_handshaking()
    }

    /// Whether the owner waits for room, which there is: asked once.
    pub(crate) fn take_writable(&mut self) -> bool {
        std::mem::take(&mut self.wants_writable)
    }

    /// Tells the peer that nothing more will be sent, if it uses TLS.
    pub(crate) fn close(&mut self, stream: &TcpStream) {
        if self.end == Some(StreamEnd::Failed(TlsError::NotTls)) {
            return;
        }
        self.tls.send_close_notify();
        // A peer that has failed, or takes nothing, gets none.
        let _ = self.flush(stream);
    }

    /// Whether the certificate of the peer has this name.
    pub(crate) fn certificate_has_name(&self, name: &str) -> bool {
        let certificates = self.tls.peer_certificates().unwrap_or_default();
        certificates.first().is_some_and(|certificate| has_name(certificate, name))
    }
}

/// Writes to a socket without blocking and without SIGPIPE.
struct SocketWriter<'s>(&'s TcpStream);

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(self.0, parts, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
