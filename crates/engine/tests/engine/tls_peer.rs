//! Certificates for a test, and peers that speak TLS.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sluice_io::{
    ClientAuth, ConnId, ConnectionError, Epoll, Io, IoEvent, TlsClient, TlsServer, WaitStrategy,
    sock,
};
use sluice_openflow::{DatapathId, MessageType, Version, split_message};
use sluice_proto::{SwitchProfile, SwitchSession};

use crate::test_engine::wait_until;

/// An authority that issues the certificates of a controller and of switches.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: TestFile,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = TestFile::new(&params.self_signed(&key).unwrap().pem());
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Certificate and key of a new certificate with this name.
    fn issue(&self, name: &str) -> [TestFile; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        [&certificate.pem(), &key.serialize_pem()].map(|text| TestFile::new(text))
    }

    /// The side of the controller, which requires certificates of this authority.
    pub(crate) fn server(&self) -> TlsServer {
        let [certificate, key] = self.issue("controller");
        let client_auth = ClientAuth::Required(self.certificate.0.clone());
        TlsServer::load(&certificate.0, &key.0, &client_auth).unwrap()
    }

    /// The side of a switch, whose certificate has this name.
    pub(crate) fn client(&self, name: &str) -> TlsClient {
        let [certificate, key] = self.issue(name);
        TlsClient::load(&self.certificate.0, Some((&certificate.0, &key.0))).unwrap()
    }
}

/// A file that is removed when it is dropped.
struct TestFile(PathBuf);

impl TestFile {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("engine-tls-{}-{number}.pem", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A peer that speaks TLS.
pub(crate) struct TlsPeer {
    pub(crate) io: Epoll,
    pub(crate) id: ConnId,
    received: Vec<u8>,
    pub(crate) closed: Option<Result<(), ConnectionError>>,
}

impl TlsPeer {
    /// Connects, and returns when the engine's `HELLO` was received: the TLS handshake is complete.
    pub(crate) fn connect(addr: SocketAddr, client: &TlsClient) -> Self {
        let mut io = Epoll::new(WaitStrategy::default()).unwrap();
        let stream = sock::start_connect(addr, &sock::Options::default()).unwrap();
        let id = io.adopt_connecting(client.connect(stream).unwrap()).unwrap();
        let mut peer = Self { io, id, received: vec![], closed: None };
        wait_until("the end of the TLS handshake", || {
            peer.run();
            !peer.received.is_empty()
        });
        peer
    }

    /// Connects as the switch with datapath id `id`, and completes the handshake or is closed.
    pub(crate) fn connect_switch(addr: SocketAddr, client: &TlsClient, id: u64) -> Self {
        let mut peer = Self::connect(addr, client);
        let (datapath_id, version) = (DatapathId(id), Version::V1_3);
        let profile = SwitchProfile { datapath_id, version, n_ports: 4, n_buffers: 256 };
        let mut tx = Vec::new();
        let mut switch = SwitchSession::open(profile, &mut tx);
        let mut is_complete = false;
        wait_until("the end of the handshake", || {
            while let Some((message, _)) = split_message(&peer.received).unwrap() {
                switch.on_message(message, &mut tx).unwrap();
                // The last message of the handshake that concerns the switch.
                is_complete |= message.kind() == MessageType::SET_CONFIG;
                let len = message.bytes().len();
                peer.received.drain(..len);
            }
            if peer.closed.is_none() {
                assert_eq!(peer.io.send(peer.id, &tx), tx.len());
                tx.clear();
                peer.run();
            }
            is_complete || peer.closed.is_some()
        });
        peer
    }

    /// Sends and receives what there is.
    pub(crate) fn run(&mut self) {
        let deadline = self.io.now() + Duration::from_millis(1);
        self.io.wait(Some(deadline)).unwrap();
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Data(_, bytes) => self.received.extend_from_slice(bytes),
                IoEvent::Closed(_, error) => self.closed = Some(error.map_or(Ok(()), Err)),
                _ => {}
            }
        }
    }

    /// Waits until the connection is closed.
    pub(crate) fn expect_close(&mut self) {
        wait_until("the end of the connection", || {
            self.run();
            self.closed.is_some()
        });
    }
    /// Checks that the connection stays open.
    #[track_caller]
    pub(crate) fn expect_no_close(&mut self) {
        for _ in 0..20 {
            self.run();
        }
        assert_eq!(self.closed, None);
    }
}
