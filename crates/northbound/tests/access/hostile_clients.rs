//! Clients that want to be taken for others, or to keep others out.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use sluice_io::clock;
use sluice_northbound::tokens::Role;
use sluice_northbound::{AccessConfig, Config};

use super::test_server::{
    Folder, connect, connect_unix, exchange, request, start, status_of, with_access,
};
use super::{LOCAL, WRITE};

#[test]
fn pages_of_others_change_nothing() {
    let server = with_access(AccessConfig::default());
    for (headers, status, code) in [
        ("host: evil.example\r\n", 403, "host_not_allowed"),
        ("host: 127.0.0.1.evil.example\r\n", 403, "host_not_allowed"),
        ("host: localhost\r\norigin: http://evil.example\r\n", 403, "origin_not_allowed"),
        ("host: localhost\r\norigin: null\r\n", 403, "origin_not_allowed"),
        ("host: localhost\r\nhost: evil.example\r\n", 400, "header_repeated"),
        (
            "host: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
            415,
            "content_type_not_json",
        ),
        (
            "host: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 2\r\n\r\n{}",
            415,
            "content_type_not_json",
        ),
    ] {
        let (found, answer) = request(&server, "POST /v1/switches", headers);
        assert_eq!(found, status, "{headers}: {answer}");
        assert!(answer.contains(code), "{code} in {answer}");
    }
    let (status, answer) = request(&server, "GET http://evil.example/v1/switches", LOCAL);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("host_ambiguous"), "{answer}");
    // Clients of Ryu send JSON with the type of forms: there, only the body is refused.
    let form = "host: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 2\r\n\r\n{}";
    let (status, answer) = request(&server, "POST /stats/flowentry/add", form);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("dpid"), "{answer}");
}

#[test]
fn pages_of_others_open_no_stream() {
    let server = with_access(AccessConfig::default());
    for (site, expected) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200)] {
        let headers = format!("{LOCAL}sec-fetch-site: {site}\r\nsec-fetch-mode: no-cors\r\n");
        for path in ["/v1/events", "/v1/capture"] {
            assert_eq!(status_of(&server, &format!("GET {path}"), &headers), expected, "{site}");
        }
    }
}

#[test]
fn errors_of_the_api_of_ryu_have_its_form() {
    let server = with_access(AccessConfig::default());
    let long = "x".repeat((256 << 10) + 1);
    let long = format!("{LOCAL}content-length: {}\r\n\r\n{long}", long.len());
    for (line, rest, status, code) in [
        ("GET /stats/desc/%ff", LOCAL, 400, "invalid_value"),
        ("GET /v1.0/topology/links/%ff", LOCAL, 400, "invalid_value"),
        ("POST /stats/flowentry/add", long.as_str(), 413, "body_too_large"),
        ("POST /stats/role", long.as_str(), 413, "body_too_large"),
    ] {
        let (found, answer) = request(&server, line, rest);
        assert_eq!(found, status, "{line}: {answer}");
        assert!(answer.contains(&format!(r#"{{"error":{{"code":"{code}""#)), "{line}: {answer}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_and_named() {
    let server = with_access(AccessConfig::default());
    let head = "host: localhost\r\ncontent-type: application/json\r\n";
    let declared = format!("{head}content-length: 16777217\r\n\r\n");
    let (status, answer) = request(&server, "POST /v1/switches", &declared);
    assert_eq!(status, 413, "{answer}");
    assert!(answer.contains("larger than 16777216 bytes (16 MiB)"), "{answer}");
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(17));
    let (status, answer) = request(&server, "POST /v1/switches", &chunked);
    assert_eq!(status, 413, "{answer}");
    let huge = format!("{head}content-length: 18446744073709551615\r\n\r\n");
    let (status, answer) = request(&server, "POST /v1/switches", &huge);
    // The library answers with 431.
    assert!([400, 413, 431].contains(&status), "{status} {answer}");
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
}

#[test]
fn requests_with_two_lengths_are_not_taken_for_two_requests() {
    let server = with_access(AccessConfig::default());
    let smuggled = "GET /v1/switches HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head =
        "POST /v1/switches HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    for lengths in [
        "content-length: 4\r\ncontent-length: 0\r\n",
        "content-length: +4\r\n",
        "content-length: -1\r\n",
        "content-length: 4, 0\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding : chunked\r\n",
        " transfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, x\r\n",
        "content-length: 4\r\ntransfer-encoding: xchunked\r\n",
    ] {
        let (status, answer) =
            exchange(connect(&server), &format!("{head}{lengths}\r\n{smuggled}"));
        assert_eq!(status, 400, "{lengths}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{lengths}: {answer}");
    }
    // A proxy that believes the length would take the rest for the next request of somebody else.
    let both = format!(
        "{head}content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        5 + smuggled.len()
    );
    let (_, answer) = exchange(connect(&server), &both);
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

#[test]
fn heads_that_are_too_long_are_refused() {
    let server = with_access(AccessConfig::default());
    let long = format!("{LOCAL}authorization: Bearer {}\r\n", "x".repeat(64 << 10));
    let (status, _) = request(&server, "GET /v1/switches", &long);
    assert_eq!(status, 431);
    let many = format!("{LOCAL}{}", "a: b\r\n".repeat(1000));
    let (status, _) = request(&server, "GET /v1/switches", &many);
    assert_eq!(status, 431);
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
}

#[test]
fn slow_clients_and_many_connections_keep_nobody_out() {
    let folder = Folder::new("slow");
    let token = folder.add_token("r", Role::Read, None);
    let socket = folder.file("api.sock");
    let access = AccessConfig { tokens: Some(folder.tokens()), ..AccessConfig::default() };
    let server = start(Config {
        socket: Some(socket.clone()),
        access,
        ..Config::on(([127, 0, 0, 1], 0).into())
    });
    // Another client, which has sent nothing yet.
    let mut waiting = connect_unix(&socket);
    let body = format!(
        "POST /v1/switches HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 9\r\n\r\n{{"
    );
    let mut slow = Vec::new();
    for n in 0..500 {
        let mut client = connect(&server);
        let part = if n % 2 == 0 { body.as_bytes() } else { b"GET /v1/swi" };
        // Fails for those that were closed already.
        let _ = client.write_all(part);
        slow.push(client);
    }
    let start = clock::now();
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
    waiting.write_all(b"GET /v1/switches HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    assert!(clock::now() - start < Duration::from_secs(5));
}

#[test]
fn large_bodies_that_do_not_arrive_do_not_delay_small_requests() {
    let server = with_access(AccessConfig::default());
    let head =
        "POST /v1/switches HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = connect(&server);
        write!(client, "{head}content-length: 1000000\r\n\r\n{{").unwrap();
        clients.push(client);
    }
    let deadline = clock::now() + Duration::from_secs(10);
    loop {
        let large = format!("{head}content-length: 100000\r\nconnection: close\r\n\r\n");
        let client = connect(&server);
        client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let (status, answer) = exchange(client, &large);
        if status == 503 {
            assert!(answer.contains("busy"), "{answer}");
            break;
        }
        assert!(clock::now() < deadline, "{status} {answer}");
    }
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
    assert_eq!(request(&server, WRITE, LOCAL).0, 405);
}
