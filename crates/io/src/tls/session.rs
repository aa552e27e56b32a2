//! TLS of one connection.

use std::fmt;
use std::io::{self, IoSlice, Read as _, Write};
use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::SupportedCipherSuite;

use super::certificate_names::has_name;
use super::error::{ConnectionError, TlsError};
use crate::READ_BYTES_MAX;

/// The first byte of a TLS connection: the content type of an alert or a handshake record.
const FIRST_BYTES: [u8; 2] = [0x15, 0x16];

/// Plaintext of one record at most (RFC 8446, section 5.1).
const RECORD_PLAINTEXT_MAX: usize = 16 << 10;

/// The largest record, with its header (RFC 8446, section 5.2; RFC 5246, section 6.2.3).
const RECORD_BYTES_MAX: usize = 5 + RECORD_PLAINTEXT_MAX + 2048;

/// Plaintext of one read at most: each of its bytes, and a record that an earlier read has begun.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = READ_BYTES_MAX + RECORD_BYTES_MAX;

/// Plaintext that is encrypted at a time. It bounds what is encrypted and not sent yet.
const ENCRYPT_BYTES_MAX: usize = 64 << 10;

/// Bytes that a peer may send before the end of the TLS handshake: a chain of certificates.
const HANDSHAKE_BYTES_MAX: usize = 128 << 10;

/// Bytes that a peer may send after the handshake without any plaintext: a record of which the end has not arrived, and a few empty
/// records and new keys before it.
const NO_PLAINTEXT_BYTES_MAX: usize = RECORD_BYTES_MAX + (16 << 10);

/// Records with TLS 1.2 that are none of data: the end of the handshake and alerts.
const OTHER_RECORDS_MAX: u64 = 64;

/// TLS of one connection. All plaintext is reported with the read that completes its record, so that nothing waits here for which
/// the socket would not become readable.
pub(crate) struct TlsSession {
    tls: rustls::Connection,
    /// Bytes received before the end of the handshake.
    handshake_bytes: usize,
    /// Bytes received after the handshake since the last plaintext.
    no_plaintext_bytes: usize,
    /// Bytes received after the handshake since the last call of [`take_received`](Self::take_received).
    received_bytes: usize,
    /// Bytes that [`send`](Self::send) has taken and the stream has not, apart from what encryption adds.
    unsent_bytes: usize,
    /// Records of data that were encrypted.
    records_sent: u64,
    /// The handshake of an accepted connection is complete, which is not reported yet.
    is_newly_established: bool,
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

/// What has become of received bytes.
pub(crate) struct TlsReception {
    /// Bytes of plaintext.
    pub(crate) plaintext: usize,
    /// Nothing more will be received.
    pub(crate) has_ended: bool,
    /// Why; `None` after an orderly end.
    pub(crate) error: Option<ConnectionError>,
    /// The handshake of an accepted connection is complete since these bytes.
    pub(crate) is_newly_established: bool,
}

impl TlsSession {
    pub(super) fn new(mut tls: rustls::Connection) -> Self {
        tls.set_buffer_limit(Some(ENCRYPT_BYTES_MAX));
        Self {
            tls,
            handshake_bytes: 0,
            no_plaintext_bytes: 0,
            received_bytes: 0,
            unsent_bytes: 0,
            records_sent: 0,
            is_newly_established: false,
            end: None,
            wants_writable: false,
        }
    }

    /// How the received stream has ended.
    pub(crate) fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Processes received bytes, and sends what TLS has to answer: messages of the handshake, or an alert. `plaintext` has room for
    /// [`PLAINTEXT_BYTES_MAX`].
    pub(crate) fn receive_and_reply(
        &mut self,
        stream: &TcpStream,
        bytes: &[u8],
        plaintext: &mut [u8],
    ) -> TlsReception {
        let plaintext = self.receive(bytes, plaintext);
        let flushed = self.flush(stream);
        let has_ended = self.end.is_some() || flushed.is_err();
        let error = self.end.map_or_else(|| flushed.err(), StreamEnd::error);
        let is_newly_established = self.take_newly_established() && !has_ended;
        TlsReception { plaintext, has_ended, error, is_newly_established }
    }

    /// Processes received bytes. Returns the number of bytes of `plaintext`, which has room for [`PLAINTEXT_BYTES_MAX`].
    pub(crate) fn receive(&mut self, mut bytes: &[u8], plaintext: &mut [u8]) -> usize {
        let received = bytes.len();
        let was_handshaking = self.tls.is_handshaking();
        if was_handshaking {
            self.check_handshake(bytes);
        }
        let mut len = 0;
        while self.end.is_none() && !bytes.is_empty() {
            let before = bytes.len();
            let processed = match self.tls.read_tls(&mut bytes) {
                Ok(_) => self.tls.process_new_packets(),
                Err(_) => Err(rustls::Error::HandshakeNotComplete),
            };
            match processed {
                Ok(state) if state.peer_has_closed() => self.end = Some(StreamEnd::Closed),
                Ok(_) => {}
                Err(error) => self.end = Some(StreamEnd::Failed((&error).into())),
            }
            let rest = plaintext.get_mut(len..).unwrap_or_default();
            // An error if there is nothing.
            let decrypted = self.tls.reader().read(rest).unwrap_or(0);
            len += decrypted;
            self.check_progress(before - bytes.len(), decrypted);
        }
        if was_handshaking && !self.tls.is_handshaking() {
            self.is_newly_established = matches!(self.tls, rustls::Connection::Server(_));
        }
        if !self.tls.is_handshaking() {
            self.received_bytes += received;
        }
        len
    }

    /// Ends a handshake that is none, or too large.
    fn check_handshake(&mut self, bytes: &[u8]) {
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

    /// Ends a connection on which much arrives that has no plaintext: it would cost time, and count as nothing elsewhere.
    fn check_progress(&mut self, received: usize, decrypted: usize) {
        if decrypted > 0 || self.tls.is_handshaking() {
            self.no_plaintext_bytes = 0;
            return;
        }
        self.no_plaintext_bytes += received;
        if self.no_plaintext_bytes > NO_PLAINTEXT_BYTES_MAX {
            self.end.get_or_insert(StreamEnd::Failed(TlsError::Protocol));
        }
    }

    /// Bytes received, encrypted, since the last call.
    pub(crate) fn take_received(&mut self) -> usize {
        std::mem::take(&mut self.received_bytes)
    }

    /// Whether the handshake of an accepted connection was completed since the last call.
    pub(crate) fn take_newly_established(&mut self) -> bool {
        std::mem::take(&mut self.is_newly_established)
    }

    /// The peer sends nothing more.
    pub(crate) fn receive_end(&mut self) -> StreamEnd {
        let is_unused = self.handshake_bytes == 0;
        let end =
            if is_unused { StreamEnd::Closed } else { StreamEnd::Failed(TlsError::Truncated) };
        *self.end.get_or_insert(end)
    }

    /// Encrypts and sends as much of `bytes` as `stream` takes, [`ENCRYPT_BYTES_MAX`] at a time. Of the last part, what the stream does
    /// not take is kept. Returns the number of bytes that were encrypted, or that are kept until the end of the handshake. `wanted` is
    /// the number of bytes that the owner has to send, `bytes` and more.
    ///
    /// # Errors
    /// Of the socket, or [`TlsError::KeyLimit`]. What was not taken before cannot be sent.
    pub(crate) fn send(
        &mut self,
        stream: &TcpStream,
        bytes: &[u8],
        wanted: usize,
    ) -> Result<usize, ConnectionError> {
        let mut rest = bytes;
        loop {
            self.flush(stream)?;
            if self.tls.wants_write() || rest.is_empty() {
                break;
            }
            let part = rest.get(..ENCRYPT_BYTES_MAX).unwrap_or(rest);
            let taken = self.encrypt(part)?;
            if taken == 0 {
                break;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        let taken = bytes.len() - rest.len();
        let keeps_encrypted = self.tls.wants_write() && !self.tls.is_handshaking();
        self.wants_writable = taken < wanted || keeps_encrypted;
        Ok(taken)
    }

    /// Encrypts `bytes`, at most [`ENCRYPT_BYTES_MAX`]; returns how many were taken.
    fn encrypt(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        let records = bytes.len().div_ceil(RECORD_PLAINTEXT_MAX) as u64;
        if self.records_sent + records > self.records_max() {
            return Err(ConnectionError::Tls(TlsError::KeyLimit));
        }
        // Fails after an error of the stream that is received, whose end is reported.
        let taken = self.tls.writer().write(bytes).map_err(|_| {
            let end = self.end.and_then(StreamEnd::error);
            end.unwrap_or(ConnectionError::Tls(TlsError::Protocol))
        })?;
        self.records_sent += records;
        self.unsent_bytes += taken;
        Ok(taken)
    }

    /// Records of data that may be encrypted with the keys of the connection. TLS 1.3 replaces them in time. TLS 1.2 cannot: with
    /// AES-GCM, `rustls` takes all bytes after 2^24 records, and sends none of them.
    fn records_max(&self) -> u64 {
        match self.tls.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls12(suite)) => {
                suite.common.confidentiality_limit.saturating_sub(OTHER_RECORDS_MAX)
            }
            _ => u64::MAX,
        }
    }

    /// Sends what is encrypted, as far as `stream` takes it.
    pub(crate) fn flush(&mut self, stream: &TcpStream) -> Result<(), ConnectionError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut SocketWriter(stream)) {
                Ok(_) if self.tls.is_handshaking() => {}
                Ok(sent) => self.unsent_bytes = self.unsent_bytes.saturating_sub(sent),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR) => break,
                    errno => return Err(errno.unwrap_or(Errno::IO).kind().into()),
                },
            }
        }
        if !self.tls.wants_write() && !self.tls.is_handshaking() {
            self.unsent_bytes = 0;
        }
        Ok(())
    }

    /// Number of bytes that [`send`](Self::send) has taken and the stream has not.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes.max(usize::from(self.tls.wants_write() && !self.tls.is_handshaking()))
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::Arc;

    use rustls::crypto::ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::version::TLS12;
    use rustls::{
        CipherSuiteCommon, ClientConfig, ClientConnection, RootCertStore, ServerConfig,
        ServerConnection, Tls12CipherSuite,
    };

    use super::*;
    use crate::tls::provider;

    /// A cipher suite of TLS 1.2 whose keys may encrypt so many records.
    fn suite(confidentiality_limit: u64) -> SupportedCipherSuite {
        let SupportedCipherSuite::Tls12(suite) = TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 else {
            panic!("not of TLS 1.2");
        };
        let common = CipherSuiteCommon { confidentiality_limit, ..suite.common };
        SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite { common, ..*suite })))
    }

    /// Two ends of a connection whose handshake is complete.
    fn sessions(suite: SupportedCipherSuite) -> [(TcpStream, TlsSession); 2] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["controller".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let mut provider = Arc::unwrap_or_clone(provider());
        provider.cipher_suites = vec![suite];
        let provider = Arc::new(provider);
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let server_config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let client_config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("controller").unwrap();
        let server_tls = ServerConnection::new(Arc::new(server_config)).unwrap();
        let client_tls = ClientConnection::new(Arc::new(client_config), name).unwrap();
        let mut ends = [
            (server, TlsSession::new(server_tls.into())),
            (client, TlsSession::new(client_tls.into())),
        ];
        for (stream, _) in &ends {
            stream.set_nonblocking(true).unwrap();
        }
        while ends.iter().any(|(_, session)| session.tls.is_handshaking()) {
            for end in &mut ends {
                end.1.flush(&end.0).unwrap();
                receive(end);
            }
        }
        ends
    }

    /// Plaintext of what has arrived.
    fn receive((stream, session): &mut (TcpStream, TlsSession)) -> Vec<u8> {
        let (mut received, mut plaintext) = (vec![], vec![0; PLAINTEXT_BYTES_MAX]);
        let mut bytes = vec![0; READ_BYTES_MAX];
        while let Ok(n) = (&mut &*stream).read(&mut bytes)
            && n > 0
        {
            let len = session.receive(&bytes[..n], &mut plaintext);
            received.extend_from_slice(&plaintext[..len]);
        }
        received
    }

    #[test]
    fn nothing_is_taken_that_keys_of_tls_1_2_may_not_encrypt() {
        let [(stream, mut server), mut client] = sessions(suite(OTHER_RECORDS_MAX + 5));
        for record in [b"1", b"2", b"3"] {
            assert_eq!(server.send(&stream, record, 1), Ok(1));
        }
        // Two records are left, and this needs three.
        let large = vec![b'x'; 2 * RECORD_PLAINTEXT_MAX + 1];
        let limit = Err(ConnectionError::Tls(TlsError::KeyLimit));
        assert_eq!(server.send(&stream, &large, large.len()), limit);
        assert_eq!(server.send(&stream, b"4", 1), Ok(1));
        assert_eq!(server.send(&stream, b"5", 1), Ok(1));
        assert_eq!(server.send(&stream, b"6", 1), limit);
        let mut received = vec![];
        while received.len() < 5 {
            received.extend(receive(&mut client));
        }
        assert_eq!((&received[..], client.1.end()), (&b"12345"[..], None));
    }

    #[test]
    fn keys_of_tls_1_2_may_encrypt_all_records_that_are_counted() {
        let [(stream, mut server), mut client] = sessions(suite(OTHER_RECORDS_MAX + 500));
        let mut received = vec![];
        for _ in 0..500 {
            assert_eq!(server.send(&stream, b"x", 1), Ok(1));
            received.extend(receive(&mut client));
        }
        while received.len() < 500 {
            received.extend(receive(&mut client));
        }
        assert_eq!(server.records_max(), 500);
    }
}
