//! The server as a client sees it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_northbound::{Server, serve};

/// Half of what the server gives a slow client.
const AT_ONCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct One;

impl MetricsSource for One {
    fn collect(&self, put: &mut dyn FnMut(MetricSample)) {
        let value = MetricValue::Counter(42);
        put(MetricSample {
            name: "messages_received",
            help: "Messages",
            labels: Vec::new(),
            value,
        });
    }
}

fn server() -> Server {
    serve(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(One)).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

/// The whole answer to one request, head and all.
fn ask(server: &Server, line: &str) -> String {
    let mut client = connect(server);
    write!(client, "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks and reads the whole answer; the connection stays.
fn ask_on(client: &mut TcpStream) {
    write!(client, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"# EOF\n") {
        let mut some = [0; 4096];
        let len = client.read(&mut some).unwrap();
        assert_ne!(len, 0, "closed early");
        answer.extend(some.into_iter().take(len));
    }
}

fn is_closed(client: &mut TcpStream) -> bool {
    match client.read(&mut [0; 1]) {
        Ok(len) => len == 0,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn metrics_are_openmetrics_text() {
    let answer = ask(&server(), "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(answer.contains(kind), "{answer}");
    assert!(answer.contains("\nsluice_messages_received_total 42\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
}

#[test]
fn the_root_links_to_the_metrics() {
    let answer = ask(&server(), "GET /");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("href=\"/metrics\""), "{answer}");
}

#[test]
fn anything_else_is_not_found() {
    let server = server();
    for line in ["GET /metrics/", "GET /favicon.ico", "POST /x", "GET /../etc/passwd"] {
        let answer = ask(&server, line);
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{line}: {answer}");
    }
}

#[test]
fn a_connection_serves_more_than_one_request() {
    let server = server();
    let mut client = connect(&server);
    for _ in 0..3 {
        ask_on(&mut client);
    }
}

#[test]
fn a_head_too_long_is_refused() {
    let server = server();
    let mut client = connect(&server);
    // The server may close before it has read all of it.
    let _ = write!(client, "GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let mut answer = Vec::new();
    match client.read_to_end(&mut answer) {
        Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
        Ok(_) => assert!(answer.starts_with(b"HTTP/1.1 431 ")),
    }
}

/// Answered long before those who hold the places have taken too long.
#[test]
fn whoever_is_slow_to_ask_delays_nobody() {
    let server = server();
    let mut kept = connect(&server);
    ask_on(&mut kept);
    let mut slow: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    for client in &mut slow {
        // Those who made room for others may hear of it by now.
        let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n");
    }
    let mut good = connect(&server);
    good.set_read_timeout(Some(AT_ONCE)).unwrap();
    ask_on(&mut good);
    kept.set_read_timeout(Some(AT_ONCE)).unwrap();
    ask_on(&mut kept);
    assert!(is_closed(&mut slow[0]), "the oldest made room");
}

#[test]
fn whoever_has_asked_and_stays_delays_nobody() {
    let server = server();
    let mut idle: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    for client in &mut idle[100..] {
        ask_on(client);
    }
    for _ in 0..50 {
        let mut more = connect(&server);
        more.set_read_timeout(Some(AT_ONCE)).unwrap();
        ask_on(&mut more);
        idle.push(more);
    }
    assert!(is_closed(&mut idle[100]), "the oldest made room");
}

#[test]
fn a_port_in_use_is_told_before_anything_runs() {
    let server = server();
    let error = serve(server.address(), Arc::new(One)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn dropping_the_server_closes_its_connections_and_frees_its_port() {
    let server = server();
    let address = server.address();
    let mut client = connect(&server);
    drop(server);
    assert!(is_closed(&mut client));
    assert!(TcpStream::connect(address).is_err());
}
