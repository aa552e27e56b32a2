//! Accepting without free file descriptors. A test binary of its own, since it changes the limit of the process.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_io::{Epoll, Io, IoEvent, WaitStrategy, clock, limits};

/// Waits until so many connections have been accepted, or so many accepts have failed.
fn await_accepts(io: &mut Epoll, failures: u32, acceptances: u32) {
    let end = clock::now() + Duration::from_secs(20);
    let (mut failed, mut accepted) = (0, 0);
    while failed < failures || accepted < acceptances {
        assert!(io.wait(Some(end)).unwrap() < end, "{failed} failures, {accepted} accepted");
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::AcceptFailed(error) => {
                    assert!(error.to_string().starts_with("Too many open files"), "{error}");
                    assert!(limits::remedy(&error).unwrap().contains("ulimit -n"));
                    failed += 1;
                }
                IoEvent::Accepted(..) => accepted += 1,
                event => panic!("{event:?}"),
            }
        }
    }
    assert!(failed == 0 || accepted == 0, "{failed} failures, {accepted} accepted");
}

#[test]
fn accepting_pauses_without_file_descriptors_and_then_continues() {
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    io.listen(listener).unwrap();
    let _peers: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();

    let limit = getrlimit(Resource::Nofile);
    let lowest_free = File::open("/dev/null").unwrap().as_raw_fd();
    let none = Rlimit { current: Some(u64::try_from(lowest_free).unwrap()), ..limit };
    setrlimit(Resource::Nofile, none).unwrap();
    let start = clock::now();
    await_accepts(&mut io, 3, 0);
    // It pauses for 100 ms after each failure.
    assert!(clock::now() - start >= Duration::from_millis(200));

    setrlimit(Resource::Nofile, limit).unwrap();
    await_accepts(&mut io, 0, 3);
}
