use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use clap::Parser;
use serde_json::json;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    api: ApiArgs,
}

fn client(arguments: &[&str]) -> Result<ApiClient, String> {
    let arguments = std::iter::once("x").chain(arguments.iter().copied());
    Command::try_parse_from(arguments).map_err(|error| error.to_string())?.api.client()
}

/// Answers one request on `stream`; the thread returns the request.
fn answer<S>(
    accept: impl FnOnce() -> S + Send + 'static,
    answer: &'static str,
) -> JoinHandle<String>
where
    S: std::io::Read + std::io::Write,
{
    thread::spawn(move || {
        let mut stream = accept();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"}") {
            let len = stream.read(&mut buffer).unwrap();
            assert_ne!(len, 0, "the request ends");
            request.extend(&buffer[..len]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    })
}

#[test]
fn an_address_names_a_host_or_a_socket() {
    let tcp = |has_tls, host: &str, port| Ok(Target::Tcp { has_tls, host: host.to_owned(), port });
    for (text, target) in [
        ("127.0.0.1:8653", tcp(false, "127.0.0.1", 8653)),
        ("8080", tcp(false, "127.0.0.1", 8080)),
        ("localhost", tcp(false, "localhost", 8653)),
        ("http://[::1]:1/", tcp(false, "::1", 1)),
        ("https://controller.example:443", tcp(true, "controller.example", 443)),
        ("unix:/run/sluice/api.sock", Ok(Target::Unix("/run/sluice/api.sock".into()))),
        ("unix:///run/x", Ok(Target::Unix("/run/x".into()))),
    ] {
        assert_eq!(parse_target(text), target, "{text}");
    }
    for text in [
        "",
        "unix:",
        "unix:relative",
        "ftp://x",
        "http://",
        "http://x/v1",
        "http://a@b",
        "x:port",
        "x:70000",
        "http://x?y=1",
        "a b",
    ] {
        let error = parse_target(text).unwrap_err();
        assert!(error.contains("invalid address of the API"), "{text}: {error}");
    }
}

#[test]
fn a_token_is_not_sent_to_another_machine_in_clear_text() {
    let error = client(&["--api", "10.0.0.1:8653", "--token", "t"]).unwrap_err();
    assert!(error.contains("clear text"), "{error}");
    for arguments in [
        ["--api", "10.0.0.1:8653", "--token", "t", "--token-without-tls"].as_slice(),
        &["--api", "localhost:8653", "--token", "t"],
        &["--api", "[::1]:8653", "--token", "t"],
        &["--api", "unix:/x", "--token", "t"],
        &["--api", "10.0.0.1:8653"],
    ] {
        assert!(client(arguments).is_ok(), "{arguments:?}");
    }
    let error = client(&["--token", "two\r\nlines"]).unwrap_err();
    assert!(error.contains("a character that no token has"), "{error}");
    assert!(!format!("{:?}", client(&["--token", "secret"]).unwrap()).contains("secret"));
}

#[test]
fn a_token_may_be_in_a_file() {
    let path = std::env::temp_dir().join(format!("sluice-token-{}", std::process::id()));
    std::fs::write(&path, "abc\n").unwrap();
    let file = path.to_str().unwrap();
    let read = client(&["--token-file", file]).unwrap();
    assert_eq!(read.authorization.unwrap(), "Bearer abc");
    std::fs::remove_file(&path).unwrap();
    assert!(client(&["--token-file", file]).unwrap_err().contains(file));
}

#[test]
fn a_request_has_a_host_a_token_and_a_body_and_an_error_has_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let body = r#"{"error":{"code":"busy","message":"too many"}}"#;
    assert_eq!(body.len(), 46);
    let server = answer(
        move || listener.accept().unwrap().0,
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 46\r\n\r\n{\"error\":{\"code\":\"busy\",\"message\":\"too many\"}}",
    );
    let client = client(&["--api", &address, "--token", "abc"]).unwrap();
    let failure = client.post("/v1/x", &json!({"a": 1})).unwrap_err();
    assert_eq!(failure.to_string(), "too many");
    assert_eq!((failure.status, failure.code.as_str()), (Some(503), "busy"));
    let request = server.join().unwrap();
    for expected in [
        "POST /v1/x HTTP/1.1\r\n",
        &format!("host: {address}\r\n"),
        "authorization: Bearer abc\r\n",
        "content-type: application/json\r\n",
        "content-length: 7\r\n",
        "\r\n\r\n{\"a\":1}",
    ] {
        assert!(request.contains(expected), "{expected:?} in {request}");
    }
}

#[test]
fn a_unix_socket_is_asked() {
    let path = std::env::temp_dir().join(format!("sluice-client-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let server = answer(
        move || listener.accept().unwrap().0,
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    );
    let client = client(&["--api", &format!("unix:{}", path.display())]).unwrap();
    assert_eq!(client.get("/v1/hosts", &[("ip", "::1"), ("x", "a&b")]).unwrap(), "{}");
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /v1/hosts?ip=%3A%3A1&x=a%26b HTTP/1.1\r\n"), "{request}");
    std::fs::remove_file(&path).unwrap();
    let failure = client.get("/v1/x", &[]).unwrap_err();
    assert_eq!((failure.status, failure.code.as_str()), (None, ""));
    assert!(failure.message.contains("is `sluice run` running?"), "{failure}");
}

#[test]
fn a_port_of_another_protocol_is_named_with_what_to_do() {
    let accept_one = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (address, move || listener.accept().unwrap().0)
    };
    let (address, accept) = accept_one();
    let server = answer(accept, "\x04\0\0\x08\0\0\0\x01");
    let failure = client(&["--api", &address]).unwrap().get("/v1/x", &[]).unwrap_err();
    assert!(failure.message.contains("the peer does not speak HTTP"), "{failure}");
    assert!(failure.message.contains("https://"), "{failure}");
    server.join().unwrap();

    let (address, accept) = accept_one();
    // A ClientHello ends with anything: what is sent does not depend on it.
    let server = thread::spawn(move || {
        let mut stream = accept();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    let api = format!("https://{address}");
    let failure = client(&["--api", &api]).unwrap().get("/v1/x", &[]).unwrap_err();
    assert!(failure.message.contains("the peer does not speak TLS"), "{failure}");
    server.join().unwrap();
}

#[test]
fn names_are_encoded() {
    assert_eq!(of_switch("s1", "ports"), "/v1/switches/s1/ports");
    assert_eq!(of_switch("a/b é", "flows"), "/v1/switches/a%2Fb%20%C3%A9/flows");
    assert_eq!(of_port("s1", "1/2", "/drain"), "/v1/switches/s1/ports/1%2F2/drain");
}
