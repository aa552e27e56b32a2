//! `sluice link` from outside, without privileges: what it refuses, and a relay.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

fn sluice(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("link").args(arguments.split_whitespace());
    command
}

#[test]
fn bad_arguments_get_one_sentence_that_names_the_option() {
    for (arguments, words) in [
        ("", "--to: name the network namespace"),
        ("--to x --delay 25", "--delay: \"25\" is not a time"),
        ("--to x --delay 25ms,", "--delay: its value is missing"),
        ("--to x --delay 2min", "--delay: \"2min\" is not a time"),
        ("--to x --jitter 1h", "--jitter: \"1h\" is not a time"),
        ("--to x --rate 10Mbps", "--rate: \"10Mbps\" is not a rate"),
        ("--to x --loss 0.5", "--loss: \"0.5\" is not a share"),
        ("--to x --queue 1TB", "--queue: \"1TB\" is not a number of bytes"),
        ("--to x --addresses 10.0.0.1/30", "--addresses: \"10.0.0.1/30\" is one address"),
        ("--to x --addresses 10.0.0.1,10.0.0.2", "--addresses: \"10.0.0.1\" is not an address"),
        ("--to x --device a/b", "--device: \"a/b\" is no name"),
        ("--to x --device 0123456789abcdef", "--device: \"0123456789abcdef\" is no name"),
        ("--to x --mtu 100", "--mtu: \"100\" is not a number of bytes, 576 to 65535"),
        ("--to x --series /nonexistent/x.csv", "--series: /nonexistent/x.csv: No such file"),
        ("--to x --control /nonexistent/x", "--control: /nonexistent/x: No such file"),
        ("--listen 127.0.0.1:0", "--connect: a relay needs"),
        ("--connect 127.0.0.1:1", "--listen: a relay needs"),
        ("--listen here --connect 127.0.0.1:1", "--listen: \"here\" is not an address"),
        ("--listen 127.0.0.1:0 --connect 127.0.0.1:1 --to x", "--listen: a relay has no name"),
        ("--listen 127.0.0.1:0 --connect 127.0.0.1:1 --loss 1%", "--loss: a relay carries"),
    ] {
        let Output { status, stderr, .. } = sluice(arguments).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{arguments}: {said}");
        assert!(said.starts_with(&format!("error: {words}")), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_relay_says_what_it_is_and_tells_at_the_end_what_it_did() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let mut relay = sluice(&format!("--listen 127.0.0.1:0 --connect {to} --delay 1ms"));
    relay.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut relay = relay.spawn().unwrap();
    let mut input = relay.stdin.take().unwrap();
    let mut output = BufReader::new(relay.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<_> = output.by_ref().take_while(|line| line != "ready").collect();
    let at = first[0].strip_prefix("relay: takes connections on ").unwrap();
    let at = at.split(',').next().unwrap();
    assert!(first[1].contains("TCP ends at each side"), "{first:?}");

    let mut near = TcpStream::connect(at).unwrap();
    let (mut far, _) = server.accept().unwrap();
    near.write_all(b"hello").unwrap();
    far.read_exact(&mut [0; 5]).unwrap();
    writeln!(input, "up rate 1Mbit").unwrap();
    assert_eq!(output.next().unwrap(), "ok: up rate 1Mbit");

    let pid = relay.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let report: Vec<_> = output.collect();
    assert!(report.iter().any(|line| line == "up: delivered: 1 packets, 5 bytes"), "{report:?}");
    assert!(report.iter().any(|line| line.starts_with("up: delay 1ms, jitter 0ns, rate 1Mbit,")));
    assert_eq!(relay.wait().unwrap().code(), Some(0));
}
