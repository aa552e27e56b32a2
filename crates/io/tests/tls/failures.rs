//! Handshakes that fail, and certificates that cannot be used.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use sluice_io::{ClientAuth, ConnectionError, Epoll, Io, TlsClient, TlsError, TlsServer};

use crate::certificates::{Authority, Identity};
use crate::threads::{Pair, Thread, listen};

type End = Result<(), ConnectionError>;

fn tls(error: TlsError) -> End {
    Err(ConnectionError::Tls(error))
}

/// How a connection with this client ends on the side of the server.
fn end_with(server: &TlsServer, client: &TlsClient) -> End {
    let mut it = Pair::<Epoll>::connect(server, client);
    it.run_until("closed", |it| it.server.closed.is_some());
    it.run_until("closed", |it| it.client.closed.is_some());
    assert_eq!(it.server.received, b"");
    it.server.closed.unwrap()
}

/// How a connection ends on which these bytes arrive.
fn end_after(server: &TlsServer, bytes: &[u8]) -> End {
    let mut thread = Thread::new();
    let addr = listen(&mut thread, server);
    let mut peer = TcpStream::connect(addr).unwrap();
    while thread.accepted.is_empty() {
        thread.run();
    }
    thread.io.adopt(thread.accepted.pop().unwrap()).unwrap();
    peer.write_all(bytes).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    while thread.closed.is_none() {
        thread.run();
    }
    // The connection is closed in order: otherwise the peer could lose the alert.
    peer.read_to_end(&mut vec![]).unwrap();
    thread.closed.unwrap()
}

/// A `ClientHello` of TLS 1.1.
fn client_hello_of_tls_1_1() -> Vec<u8> {
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    // No session id; TLS_RSA_WITH_AES_128_CBC_SHA; no compression.
    body.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    [&[0x16, 3, 1, 0, length + 4, 1, 0, 0, length], &body[..]].concat()
}

#[test]
fn each_certificate_that_is_not_accepted_has_a_reason() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.server(&ClientAuth::Required(ours.file()));
    let of = |identity: &Identity| {
        let identity = (identity.certificate.as_path(), identity.key.as_path());
        TlsClient::load(&ours.file(), Some(identity)).unwrap()
    };
    let end = |identity: &Identity| end_with(&server, &of(identity));
    assert_eq!(end(&theirs.issue("switch", "switch", 2999)), tls(TlsError::UnknownCa));
    assert_eq!(end(&ours.issue("switch", "switch", 2001)), tls(TlsError::CertificateExpired));
    assert_eq!(end_with(&server, &ours.client(None)), tls(TlsError::NoCertificate));
    // Alert unknown_ca.
    let stranger = theirs.client(Some(&ours.issue("switch", "switch", 2999)));
    assert_eq!(end_with(&server, &stranger), tls(TlsError::RejectedByPeer(48)));
}

#[test]
fn each_peer_that_speaks_something_else_has_a_reason() {
    let authority = Authority::new("else");
    let server = authority.server(&ClientAuth::None);
    assert_eq!(end_after(&server, &[4, 0, 0, 8, 0, 0, 0, 1]), tls(TlsError::NotTls));
    assert_eq!(end_after(&server, &client_hello_of_tls_1_1()), tls(TlsError::VersionNotSupported));
    assert_eq!(end_after(&server, &[0x16, 3, 1]), tls(TlsError::Truncated));
    assert_eq!(end_after(&server, b""), Ok(()), "only looks whether the port is open");
}

#[test]
fn without_client_authentication_a_peer_needs_no_certificate() {
    let authority = Authority::new("none");
    let mut it =
        Pair::<Epoll>::connect(&authority.server(&ClientAuth::None), &authority.client(None));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("data", |it| it.server.received == b"hello");
    assert_eq!(it.server.io.certificate_has_name(it.server_id, "switch"), Some(false));
}

#[test]
fn the_names_of_a_certificate_are_its_dns_names_and_the_first_word_of_its_common_name() {
    let authority = Authority::new("names");
    let server = authority.server(&ClientAuth::Required(authority.file()));
    let switch = authority.issue("dpid-01 id:1234", "dpid-02", 2999);
    let mut it = Pair::<Epoll>::connect(&server, &authority.client(Some(&switch)));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("data", |it| it.server.received == b"hello");
    let mut has_name = |name| it.server.io.certificate_has_name(it.server_id, name);
    for (name, expected) in [("dpid-01", true), ("dpid-02", true), ("dpid-0", false), ("", false)] {
        assert_eq!(has_name(name), Some(expected), "{name}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let authority = Authority::new("files");
    let (one, other) =
        (authority.issue("one", "one", 2999), authority.issue("other", "other", 2999));
    let empty = authority.folder.join("empty.pem");
    fs::write(&empty, "").unwrap();
    let missing = authority.folder.join("missing.pem");
    let is_missing = |reason: &str| reason.starts_with("cannot be read: No such file");
    let ca = ClientAuth::Required(authority.file());
    let error = |certificate, key, ca: &ClientAuth| {
        let error = TlsServer::load(certificate, key, ca).unwrap_err();
        (error.path, error.reason)
    };
    let (path, reason) = error(&missing, &one.key, &ca);
    assert_eq!((path, is_missing(&reason)), (missing.clone(), true));
    let (path, reason) = error(&empty, &one.key, &ca);
    assert_eq!((path, reason.starts_with("no certificate")), (empty.clone(), true));
    let (path, reason) = error(&one.certificate, &empty, &ca);
    assert_eq!((path, reason.starts_with("no private key")), (empty.clone(), true));
    let (path, reason) = error(&one.certificate, &other.key, &ca);
    assert_eq!(path, other.key);
    assert!(reason.starts_with("cannot be used with "), "{reason}");
    let (path, _) = error(&one.certificate, &one.key, &ClientAuth::Required(empty.clone()));
    assert_eq!(path, empty);
    let large = authority.folder.join("large.pem");
    let certificate = fs::read_to_string(&one.certificate).unwrap();
    fs::write(&large, certificate.repeat((1 << 20) / certificate.len() + 1)).unwrap();
    let (path, reason) = error(&large, &one.key, &ca);
    assert_eq!((path, &reason[..]), (large, "larger than 1 MiB"));
    let again = TlsServer::load(&one.certificate, &one.key, &ca).unwrap();
    assert_eq!(again, TlsServer::load(&one.certificate, &one.key, &ca).unwrap());
    assert_ne!(again, TlsServer::load(&other.certificate, &other.key, &ca).unwrap());
}
