//! `sluice run` under a service manager: sockets that are passed, state, watchdog, and the replacement of one process by another.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sluice_system_tests::{
    SHORT_TIMEOUT, Service, ServiceManager, Stopwatch, TestEnv, binary, wait_until,
};

/// Where clients find the listeners of the units of the Debian package.
const SWITCHES: &str = "127.0.0.1:6653";
const API: &str = "127.0.0.1:8653";

/// A service manager that passes the sockets of the Debian package.
fn manager(env: &TestEnv) -> ServiceManager<'_> {
    let mut manager = ServiceManager::new(env);
    manager.listen("openflow", "[::]:6653");
    manager.listen("openflow", "[::]:6633");
    manager.listen("api", API);
    manager
}

/// The first bytes of a switch's connection: the type of the HELLO, or nothing if the connection was closed.
fn hello(mut switch: TcpStream) -> Option<u8> {
    switch.set_read_timeout(Some(SHORT_TIMEOUT)).unwrap();
    let mut header = [0; 8];
    switch.read_exact(&mut header).ok().map(|()| header[1])
}

fn answers_http(mut client: TcpStream) -> bool {
    client.set_read_timeout(Some(SHORT_TIMEOUT)).unwrap();
    let request = "GET /v1/controller HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    let sent = client.write_all(request.as_bytes());
    sent.and_then(|()| client.read_to_string(&mut answer)).is_ok() && answer.contains("200 OK")
}

#[test]
fn state_is_reported_from_the_start_to_the_end() {
    let env = TestEnv::shared();
    let manager = manager(&env);
    let mut service = manager.start("--threads 1");
    assert_eq!(manager.next_notification(), "READY=1\nSTATUS=0 switches connected\n");
    let opened = "the service manager has opened [::]:6653, [::]:6633, 127.0.0.1:8653";
    manager.wait_for_log(opened);
    service.reload();
    let reloading = manager.next_notification();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.next_notification(), "READY=1\n");
    service.terminate();
    assert_eq!(manager.next_notification(), "STOPPING=1\nSTATUS=stopping\n");
    assert_eq!(service.wait_for_end(), Some(0));
}

/// What happened to connections that were opened one after the other.
#[derive(Debug, Default)]
struct Connections {
    opened: u32,
    refused: u32,
    /// Those of switches that were closed before a HELLO, as the process that had accepted them ended.
    without_hello: u32,
}

/// Opens connections of switches and of clients until `stop`.
fn connect_until(stop: &AtomicBool) -> Connections {
    let mut result = Connections::default();
    let mut waiting = Vec::new();
    let pace = Stopwatch::start();
    while !stop.load(Relaxed) {
        for (address, is_switch) in [(SWITCHES, true), (API, false)] {
            let address: SocketAddr = address.parse().unwrap();
            match TcpStream::connect(address) {
                Ok(stream) if is_switch => waiting.push(stream),
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::ConnectionRefused, "{address}");
                    result.refused += 1;
                }
            }
            result.opened += 1;
        }
        pace.wait_until(Duration::from_millis(5) * (result.opened / 2));
    }
    let closed = waiting.into_iter().map(hello).filter(Option::is_none);
    result.without_hello = u32::try_from(closed.count()).unwrap();
    result
}

#[test]
fn no_connection_is_refused_while_a_process_replaces_another() {
    let env = TestEnv::shared();
    let manager = manager(&env);
    let mut old = manager.start("--threads 1");
    manager.wait_for("READY=1");
    let stop = AtomicBool::new(false);
    let connections = thread::scope(|scope| {
        let connecting = scope.spawn(|| env.within(|| connect_until(&stop)));
        // The gap between both: connections wait in the sockets.
        let waiting = || env.within(|| [SWITCHES, API].map(|to| TcpStream::connect(to).unwrap()));
        for _ in 0..10 {
            old.terminate();
            assert_eq!(old.wait_for_end(), Some(0));
            drop(waiting());
            let [switch, client] = waiting();
            old = manager.start("--threads 1");
            manager.wait_for("READY=1");
            assert_eq!(hello(switch), Some(0), "the new process answers");
            assert!(answers_http(client), "the new process answers");
        }
        stop.store(true, Relaxed);
        connecting.join().unwrap()
    });
    assert!(connections.opened > 100, "{connections:?}");
    assert_eq!(connections.refused, 0, "{connections:?}");
    // Those that an ending process had accepted: at most a few of each.
    assert!(connections.without_hello <= 15, "{connections:?}");
}

#[test]
fn the_watchdog_reports_progress_only_if_every_thread_makes_some() {
    let env = TestEnv::shared();
    let mut manager = manager(&env);
    manager.set_watchdog(Duration::from_secs(4));
    let service = manager.start("--threads 2");
    manager.wait_for("READY=1");
    // No connection arrives meanwhile: idle threads make progress as well.
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1");
    for thread in ["worker-1", "acceptor"] {
        let stopped = StoppedThread::new(&service, thread);
        // On a busy machine, another thread may not have made progress either.
        let is_report = |it: &str| it.starts_with("STATUS=no progress: ") && it.contains(thread);
        while !is_report(&manager.next_notification()) {}
        // A check that finds no progress reports nothing else.
        for _ in 0..2 {
            let next = manager.next_notification();
            assert!(is_report(&next), "{next}");
        }
        manager.wait_for_log("no progress for 1100 ms");
        drop(stopped);
        let after = manager.wait_for("STATUS=0 switches connected");
        assert!(after.iter().any(|it| it == "WATCHDOG=1\n"), "{after:?}");
    }
}

/// A thread that stands still until this is dropped.
struct StoppedThread(Child);

impl StoppedThread {
    fn new(service: &Service, name: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/stop_thread.py");
        let mut command = Command::new("python3");
        command.args([script, &service.pid().to_string(), name]);
        let mut tracer = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 7];
        tracer.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"stopped");
        Self(tracer)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn sockets_that_have_no_place_are_errors_that_say_what_to_do() {
    let env = TestEnv::shared();
    for (name, address, expected) in [
        (
            "web",
            "127.0.0.1:80",
            "unknown name \"web\" (known: openflow, openflow-tls, api); set FileDescriptorName=",
        ),
        (
            "openflow",
            "127.0.0.1:6653",
            "\"openflow\" that the service manager passed listens on 127.0.0.1:6653, which is not in listen;",
        ),
        ("api", "127.0.0.1:8654", "listens on 127.0.0.1:8654, which is not in api.listen;"),
        (
            "openflow-tls",
            "127.0.0.1:6654",
            "listens on 127.0.0.1:6654, which is not in tls.listen or tls.listeners;",
        ),
        ("openflow:api", "127.0.0.1:6655", "LISTEN_FDS and LISTEN_FDNAMES do not describe"),
    ] {
        let mut manager = ServiceManager::new(&env);
        manager.listen(name, address);
        assert_eq!(manager.start("--threads 1").wait_for_end(), Some(1), "{}", manager.log());
        assert!(manager.log().contains(expected), "{expected}: {}", manager.log());
        std::fs::remove_file(env.file("notify")).unwrap();
    }
}

#[test]
fn sockets_for_another_process_are_ignored() {
    let env = TestEnv::shared();
    let mut manager = ServiceManager::new(&env);
    manager.listen("web", "127.0.0.1:80");
    manager.set_listen_pid(1);
    let mut service = manager.start("--threads 1");
    manager.wait_for("READY=1");
    service.terminate();
    // The log is complete when the process has ended.
    assert_eq!(service.wait_for_end(), Some(0));
    assert!(!manager.log().contains("has opened"), "{}", manager.log());
}

/// The program of systemd passes sockets as systemd does, and starts the service with the first connection.
#[test]
fn systemd_starts_the_service_with_the_first_connection() {
    let env = TestEnv::shared();
    let mut command = env.command("systemd-socket-activate");
    command.args(["--listen", "[::]:6653", "--listen", API, "--fdname=openflow:api"]);
    command.arg(format!("--setenv=SLUICE_STATE__DIR={}", env.file("state").display()));
    command.args([&*binary().to_string_lossy(), "run", "--config", "/dev/null", "--threads", "1"]);
    let mut activated = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let connect = || env.within(|| TcpStream::connect(SWITCHES));
    wait_until(SHORT_TIMEOUT, "systemd-socket-activate to listen", || connect().is_ok());
    assert_eq!(hello(connect().unwrap()), Some(0));
    assert!(answers_http(env.within(|| TcpStream::connect(API)).unwrap()));
    activated.kill().unwrap();
    activated.wait().unwrap();
}

#[test]
fn a_datagram_socket_is_refused() {
    let env = TestEnv::shared();
    let mut command = env.command("systemd-socket-activate");
    command.args(["--datagram", "--listen", "127.0.0.1:6653", "--fdname=openflow"]);
    command.args([&*binary().to_string_lossy(), "run", "--config", "/dev/null"]);
    let mut activated = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let sender = env.within(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    // The program starts the service with the first datagram.
    wait_until(SHORT_TIMEOUT, "the end of the service", || {
        let _ = sender.send_to(b"x", "127.0.0.1:6653");
        activated.try_wait().unwrap().is_some()
    });
    let output = activated.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = "the passed file descriptor \"openflow\" is no listening stream socket: it needs ListenStream= and Accept=no";
    assert!(errors.contains(expected), "{errors}");
    assert_eq!(output.status.code(), Some(1));
}
