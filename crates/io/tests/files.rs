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

/// Counts failed and accepted connections for some time.
fn count_accepts(io: &mut Epoll, time: Duration) -> (u32, u32) {
    let end = clock::now() + time;
    let (mut failed, mut accepted) = (0, 0);
    while io.wait(Some(end)).unwrap() < end {
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
    (failed, accepted)
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
    let (failed, accepted) = count_accepts(&mut io, Duration::from_millis(350));
    assert!((1..=4).contains(&failed), "failed {failed} times");
    assert_eq!(accepted, 0);

    setrlimit(Resource::Nofile, limit).unwrap();
    let mut accepted = 0;
    let deadline = clock::now() + Duration::from_secs(20);
    while accepted < 3 && clock::now() < deadline {
        accepted += count_accepts(&mut io, Duration::from_millis(20)).1;
    }
    assert_eq!(accepted, 3);
}
