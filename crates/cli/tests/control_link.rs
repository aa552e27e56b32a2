//! `sluice control-link` without privileges: invalid arguments, and the TCP proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

fn sluice_link(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("control-link").args(arguments.split_whitespace());
    command
}

#[test]
fn an_invalid_argument_gives_a_one_line_error_that_names_the_option() {
    for (arguments, error) in [
        ("", "--to is missing: name the network namespace"),
        ("--to x --delay 25", "--delay: \"25\" is not a time"),
        ("--to x --delay 25ms,", "--delay: missing value"),
        ("--to x --delay 2min", "--delay: \"2min\" is not a time"),
        ("--to x --jitter 1h", "--jitter: \"1h\" is not a time"),
        ("--to x --rate 10Mbps", "--rate: \"10Mbps\" is not a rate"),
        ("--to x --loss 0.5", "--loss: \"0.5\" is not a percentage"),
        ("--to x --queue 1TB", "--queue: \"1TB\" is not a number of bytes"),
        (
            "--to x --addresses 10.0.0.1/30",
            "--addresses: expected two addresses FROM,TO, got \"10.0.0.1/30\"",
        ),
        ("--to x --addresses 10.0.0.1,10.0.0.2", "--addresses: \"10.0.0.1\" is not an address"),
        ("--to x --device a/b", "--device: invalid name \"a/b\""),
        ("--to x --device 0123456789abcdef", "--device: invalid name \"0123456789abcdef\""),
        ("--to x --mtu 100", "--mtu: \"100\" is not a number from 576 to 65535"),
        (
            "--to x --series /nonexistent/x.csv",
            "--series: cannot create /nonexistent/x.csv: No such file",
        ),
        (
            "--to x --control /nonexistent/x",
            "--control: cannot create /nonexistent/x: No such file",
        ),
        ("--listen 127.0.0.1:0", "--connect is missing: "),
        ("--connect 127.0.0.1:1", "--listen is missing: "),
        ("--listen here --connect 127.0.0.1:1", "--listen: \"here\" is not an address"),
        ("--listen 127.0.0.1:0 --connect 127.0.0.1:1 --to x", "--listen cannot be combined with"),
        (
            "--listen 127.0.0.1:0 --connect 127.0.0.1:1 --loss 1%",
            "--loss: not possible with a TCP proxy",
        ),
    ] {
        let Output { status, stderr, .. } = sluice_link(arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.starts_with(&format!("error: {error}")), "{arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_proxy_prints_its_address_when_ready_and_a_report_at_the_end() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = server.local_addr().unwrap();
    let mut proxy = sluice_link(&format!("--listen 127.0.0.1:0 --connect {connect} --delay 1ms"));
    proxy.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut proxy = proxy.spawn().unwrap();
    let mut input = proxy.stdin.take().unwrap();
    let mut output = BufReader::new(proxy.stdout.take().unwrap()).lines().map(Result::unwrap);
    let start: Vec<_> = output.by_ref().take_while(|line| line != "ready").collect();
    let listen = start[0].strip_prefix("proxy: listening on ").unwrap();
    let listen = listen.split(',').next().unwrap();
    assert!(start[1].contains("TCP ends at each side"), "{start:?}");

    let mut client = TcpStream::connect(listen).unwrap();
    let (mut accepted, _) = server.accept().unwrap();
    client.write_all(b"hello").unwrap();
    accepted.read_exact(&mut [0; 5]).unwrap();
    writeln!(input, "up rate 1Mbit").unwrap();
    assert_eq!(output.next().unwrap(), "ok: up rate 1Mbit");

    let pid = proxy.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let report: Vec<_> = output.collect();
    assert!(report.iter().any(|line| line == "up: delivered: 1 packets, 5 bytes"), "{report:?}");
    assert!(report.iter().any(|line| line.starts_with("up: delay 1ms, jitter 0ns, rate 1Mbit,")));
    assert_eq!(proxy.wait().unwrap().code(), Some(0));
}
