//! The HTTP server, tested by a client.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_northbound::{Server, serve};
use sluice_openflow::DatapathId;
use sluice_sdk::view::{ViewPublisher, ViewSubscription};
use sluice_sdk::{Answer, Controller, OnAnswer, Request, SwitchSession};

/// Half of the time limits of the server, so that a response within it did not wait for one of them.
const AT_ONCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct OneMetric;

impl MetricsSource for OneMetric {
    fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
        let value = MetricValue::Counter(42);
        emit(MetricSample {
            name: "messages_received",
            help: "Messages",
            labels: Vec::new(),
            value,
        });
    }
}

/// A controller without switches.
struct NoSwitches;

impl Controller for NoSwitches {
    fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
        on_answer(Answer::NotConnected);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        ViewPublisher::new(notify).1
    }

    fn switches(&self) -> Vec<SwitchSession> {
        vec![]
    }
}

fn server() -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    serve(listen, Arc::new(OneMetric), Arc::new(NoSwitches)).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

/// Sends a request on a new connection; returns the whole response.
fn request(server: &Server, line: &str) -> String {
    let mut client = connect(server);
    write!(client, "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

/// Requests the metrics on an open connection and reads the response.
fn request_on(client: &mut TcpStream) {
    write!(client, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"# EOF\n") {
        let mut buffer = [0; 4096];
        let len = client.read(&mut buffer).unwrap();
        assert_ne!(len, 0, "the connection was closed");
        response.extend(buffer.into_iter().take(len));
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
    let response = request(&server(), "GET /metrics");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(response.contains(kind), "{response}");
    assert!(response.contains("\nsluice_messages_received_total 42\n"), "{response}");
    assert!(response.ends_with("# EOF\n"), "{response}");
}

#[test]
fn the_root_links_to_the_metrics() {
    let response = request(&server(), "GET /");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("href=\"/metrics\""), "{response}");
}

#[test]
fn other_paths_are_not_found() {
    let server = server();
    for line in ["GET /metrics/", "GET /favicon.ico", "POST /x", "GET /../etc/passwd"] {
        let response = request(&server, line);
        assert!(response.starts_with("HTTP/1.1 404 Not Found\r\n"), "{line}: {response}");
    }
}

#[test]
fn a_connection_serves_more_than_one_request() {
    let server = server();
    let mut client = connect(&server);
    for _ in 0..3 {
        request_on(&mut client);
    }
}

#[test]
fn a_head_that_is_too_long_is_rejected() {
    let server = server();
    let mut client = connect(&server);
    // The server may close before it has read all of it.
    let _ = write!(client, "GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let mut response = Vec::new();
    match client.read_to_end(&mut response) {
        Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
        Ok(_) => assert!(response.starts_with(b"HTTP/1.1 431 ")),
    }
}

#[test]
fn clients_that_send_requests_slowly_do_not_delay_others() {
    let server = server();
    let mut kept = connect(&server);
    request_on(&mut kept);
    let mut slow: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    for client in &mut slow {
        // Fails for those that were closed already.
        let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n");
    }
    let mut good = connect(&server);
    good.set_read_timeout(Some(AT_ONCE)).unwrap();
    request_on(&mut good);
    kept.set_read_timeout(Some(AT_ONCE)).unwrap();
    request_on(&mut kept);
    assert!(is_closed(&mut slow[0]), "the oldest was closed");
}

#[test]
fn clients_that_stay_connected_do_not_delay_others() {
    let server = server();
    let mut idle: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    for client in &mut idle[100..] {
        request_on(client);
    }
    for _ in 0..50 {
        let mut more = connect(&server);
        more.set_read_timeout(Some(AT_ONCE)).unwrap();
        request_on(&mut more);
        idle.push(more);
    }
    assert!(is_closed(&mut idle[100]), "the oldest was closed");
}

#[test]
fn a_port_in_use_is_an_error() {
    let server = server();
    let error =
        serve(server.address().unwrap(), Arc::new(OneMetric), Arc::new(NoSwitches)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn dropping_the_server_closes_its_connections_and_frees_its_port() {
    let server = server();
    let address = server.address().unwrap();
    let mut client = connect(&server);
    drop(server);
    assert!(is_closed(&mut client));
    assert!(TcpStream::connect(address).is_err());
}
