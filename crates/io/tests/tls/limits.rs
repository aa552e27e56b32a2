//! What is counted and limited: what is kept to be sent, what is received without plaintext, and room that is waited for.

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring::cipher_suite::TLS13_AES_256_GCM_SHA384;
use rustls::crypto::tls13::OkmBlock;
use rustls::version::{TLS12, TLS13};
use rustls::{ContentType, ProtocolVersion, Tls13CipherSuite};
use sluice_io::{ClientAuth, ConnId, ConnectionError, Epoll, Io, Reading, TlsError};

use crate::certificates::Authority;
use crate::raw_client::RawClient;
use crate::threads::{Thread, listen, pattern};
use crate::{pair, raw};

#[test]
fn what_is_taken_and_not_sent_is_counted_until_writable() {
    let mut it = pair::<Epoll>(&Authority::new("counted"));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    it.client.io.set_reading(it.client_id, Reading::Off);
    let bytes = pattern(64 << 20);
    let mut sent = it.server.io.send(it.server_id, &bytes);
    // Now exactly what is kept, with nothing left to the owner.
    let kept = it.server.io.unsent_bytes(it.server_id);
    assert!((1..=64 << 10).contains(&kept), "{kept}");
    it.client.io.set_reading(it.client_id, Reading::On);
    it.run_until("writable", |it| it.server.writable == 1);
    assert_eq!(it.server.io.unsent_bytes(it.server_id), 0);
    it.client.io.set_reading(it.client_id, Reading::Off);
    while it.server.io.unsent_bytes(it.server_id) == 0 {
        sent += it.server.io.send(it.server_id, &bytes[..64 << 10]);
    }
    it.client.io.set_reading(it.client_id, Reading::On);
    it.run_until("writable, though all was taken", |it| it.server.writable == 2);
    assert_eq!(it.server.io.unsent_bytes(it.server_id), 0);
    it.run_until("all", |it| it.client.received.len() == sent);
}

/// Encrypts records as the client does, also such as `rustls` does not send.
struct Records {
    suite: &'static Tls13CipherSuite,
    /// The secret from which the keys are derived (RFC 8446, section 7.2).
    secret: Vec<u8>,
    encrypter: Box<dyn MessageEncrypter>,
    number: u64,
}

impl Records {
    fn new(secret: Vec<u8>) -> Self {
        let suite = TLS13_AES_256_GCM_SHA384.tls13().unwrap();
        let encrypter = encrypter(suite, &secret);
        Self { suite, secret, encrypter, number: 0 }
    }

    fn data(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.record(ContentType::ApplicationData, plaintext)
    }

    /// Empty records, and then new keys, since `rustls` ends a connection after 32 empty records.
    fn without_plaintext(&mut self) -> Vec<u8> {
        let mut records: Vec<u8> = (0..30).flat_map(|_| self.data(b"")).collect();
        records.extend(self.record(ContentType::Handshake, &KEY_UPDATE));
        self.secret = expand(self.suite, &self.secret, "traffic upd", 48);
        self.encrypter = encrypter(self.suite, &self.secret);
        self.number = 0;
        records
    }

    fn record(&mut self, typ: ContentType, plaintext: &[u8]) -> Vec<u8> {
        let version = ProtocolVersion::TLSv1_2;
        let payload = OutboundChunks::Single(plaintext);
        let message = OutboundPlainMessage { typ, version, payload };
        let record = self.encrypter.encrypt(message, self.number).unwrap();
        self.number += 1;
        record.encode()
    }
}

/// `KeyUpdate` that asks for nothing (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1).
fn expand(suite: &Tls13CipherSuite, secret: &[u8], label: &str, len: u8) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let label_len = u8::try_from(label.len()).unwrap();
    let info = [&[0, len, label_len], label.as_bytes(), &[0]];
    let mut output = vec![0; len.into()];
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    expander.expand_slice(&info, &mut output).unwrap();
    output
}

fn encrypter(suite: &Tls13CipherSuite, secret: &[u8]) -> Box<dyn MessageEncrypter> {
    let key: [u8; 32] = expand(suite, secret, "key", 32).try_into().unwrap();
    let iv: [u8; 12] = expand(suite, secret, "iv", 12).try_into().unwrap();
    suite.aead_alg.encrypter(key.into(), iv.into())
}

/// A connection of which the client's records are made here.
fn with_records(authority: &Authority) -> (Thread, ConnId, std::net::TcpStream, Records) {
    let (server, id, RawClient { stream, secrets, .. }) = raw::<Epoll>(authority);
    let secret = secrets.client();
    (server, id, stream, Records::new(secret))
}

fn write(stream: &std::net::TcpStream, server: &mut Thread, mut bytes: &[u8]) {
    while !bytes.is_empty() && server.closed.is_none() {
        match std::io::Write::write(&mut &*stream, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(_) => server.run(),
        }
    }
}

#[test]
fn empty_records_and_new_keys_without_end_close_the_connection_and_a_few_do_not() {
    let (mut server, _, stream, mut records) = with_records(&Authority::new("empty"));
    // Together far more than the limit, but with data between them.
    for n in 1..20 {
        let few: Vec<u8> = (0..10).flat_map(|_| records.without_plaintext()).collect();
        write(&stream, &mut server, &[few, records.data(b"x")].concat());
        while server.received.len() < n {
            server.run();
            assert_eq!(server.closed, None);
        }
    }
    for _ in 0..100 {
        write(&stream, &mut server, &records.without_plaintext());
        server.run();
    }
    assert_eq!(server.closed, Some(Err(ConnectionError::Tls(TlsError::Protocol))));
    assert_eq!(server.received.len(), 19);
}

#[test]
fn a_read_is_as_long_as_its_records_however_small_they_are() {
    let (mut server, id, stream, mut records) = with_records(&Authority::new("small"));
    // Behind the last message of the handshake.
    write(&stream, &mut server, &records.data(b"hello"));
    while server.received != b"hello" {
        server.run();
    }
    let bytes: Vec<u8> = (0..50).flat_map(|_| records.data(b"message.")).collect();
    write(&stream, &mut server, &bytes);
    while server.io.unread_bytes(id) < bytes.len() {}
    let mut taken = 0;
    while taken < bytes.len() {
        let deadline = server.io.now() + std::time::Duration::from_secs(1);
        server.io.wait(Some(deadline)).unwrap();
        while let Some(event) = server.io.next_event() {
            let sluice_io::IoEvent::Data(_, data) = event else { continue };
            let len = data.len();
            taken += server.io.received_bytes(len);
            assert!(server.io.received_bytes(len) > len);
        }
    }
    assert_eq!((taken, server.io.unread_bytes(id)), (bytes.len(), 0));
}

/// The last message of the TLS handshake arrives together with data, and what was kept until then does not fit into the socket.
#[test]
fn what_is_kept_until_the_end_of_the_handshake_is_sent_even_if_data_arrives_with_it() {
    const KEPT: usize = 64 << 10;
    let authority = Authority::new("kept");
    let tls = authority.server(&ClientAuth::Required(authority.file()));
    let switch = authority.issue("switch", "switch", 2999);
    for version in [&TLS12, &TLS13] {
        let mut server = Thread::new();
        let addr = listen(&mut server, &tls);
        let mut client = RawClient::new(&authority, &switch, addr, version);
        let options =
            sluice_io::sock::Options { recv_buffer: Some(16 << 10), ..Default::default() };
        options.apply(&client.stream).unwrap();
        while server.accepted.is_empty() {
            server.run();
        }
        let connection = server.accepted.pop().unwrap();
        let options = sluice_io::sock::Options { send_buffer: Some(8 << 10), ..Default::default() };
        options.apply(&connection).unwrap();
        let id = server.io.adopt(connection).unwrap();
        assert_eq!(server.io.send(id, &pattern(KEPT)), KEPT);
        std::io::Write::write_all(&mut client.tls.writer(), b"data").unwrap();
        let mut received = client.shake_hands(&mut server);
        let encrypted = client.take_encrypted();
        client.send(&encrypted, &mut server);
        for _ in 0..2000 {
            server.run();
            received.extend(client.receive());
            if received.len() == KEPT {
                break;
            }
        }
        assert!(received == pattern(KEPT), "{} of {KEPT}", received.len());
        assert_eq!(server.received, b"data");
        assert_eq!(server.connected, 1);
    }
}

/// The owner has more to send and waits for room when the connection moves.
#[test]
fn a_connection_that_moves_is_writable_if_its_owner_has_waited_for_that() {
    let mut it = pair::<Epoll>(&Authority::new("moves"));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    let bytes = pattern(20 << 10);
    it.server.io.set_unsent_cap(it.server_id, sluice_io::UnsentCap::On);
    assert_eq!(it.server.io.send(it.server_id, &bytes), 16 << 10);
    assert_eq!(it.server.io.unsent_bytes(it.server_id), 0);
    let connection = it.server.io.release(it.server_id).unwrap();
    let id = it.server.io.adopt(connection).unwrap();
    assert_ne!(id, it.server_id);
    it.run_until("writable", |it| it.server.writable == 1);
}
