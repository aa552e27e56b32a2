//! A client that sends encrypted bytes in parts of its choice.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, KeyLog, RootCertStore, SupportedProtocolVersion};

use crate::certificates::{Authority, Identity};
use crate::threads::{SocketSet, Thread};

/// A client that sends encrypted bytes in parts of its choice.
pub(crate) struct RawClient {
    pub(crate) tls: ClientConnection,
    pub(crate) stream: TcpStream,
    pub(crate) secrets: Secrets,
}

/// The secrets of the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<Mutex<Vec<u8>>>);

impl Secrets {
    /// The one from which TLS 1.3 derives the first keys for data of the client.
    pub(crate) fn client(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().unwrap() = secret.to_vec();
        }
    }
}

impl RawClient {
    pub(crate) fn new(
        authority: &Authority,
        identity: &Identity,
        addr: SocketAddr,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let mut config = builder
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&identity.key).unwrap(),
            )
            .unwrap();
        let secrets = Secrets::default();
        config.key_log = Arc::new(secrets.clone());
        let name = ServerName::try_from("controller").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        tls.set_buffer_limit(None);
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { tls, stream, secrets }
    }

    /// What is to be sent, encrypted.
    pub(crate) fn take_encrypted(&mut self) -> Vec<u8> {
        let mut bytes = vec![];
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Processes what has arrived; returns the plaintext.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut plaintext = vec![];
        while self.tls.read_tls(&mut self.stream).is_ok_and(|n| n > 0) {
            self.tls.process_new_packets().unwrap();
            let _ = self.tls.reader().read_to_end(&mut plaintext);
        }
        plaintext
    }

    /// Sends `bytes` as they are; `server` runs if there is no room.
    pub(crate) fn send<I: SocketSet>(&mut self, mut bytes: &[u8], server: &mut Thread<I>) {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(_) => server.run(),
            }
        }
    }

    /// Completes the handshake with `server`; returns the plaintext that has arrived with it.
    pub(crate) fn shake_hands<I: SocketSet>(&mut self, server: &mut Thread<I>) -> Vec<u8> {
        let mut received = vec![];
        for _ in 0..1000 {
            let bytes = self.take_encrypted();
            self.send(&bytes, server);
            if !self.tls.is_handshaking() {
                return received;
            }
            server.run();
            received.extend(self.receive());
        }
        panic!("the handshake does not end");
    }
}
