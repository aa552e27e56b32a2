//! A process that has no file left. A test of its own: files are the whole process's.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the failures of a test's helpers are its own"
)]

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_io::{Epoll, Io, IoEvent, WaitStrategy, clock, limits};

/// Waits for a moment; returns how often something was told, and how many of that was a connection.
fn listen_for(io: &mut Epoll, time: Duration) -> (u32, u32) {
    let end = clock::now() + time;
    let (mut refused, mut accepted) = (0, 0);
    while io.wait(Some(end)).unwrap() < end {
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::AcceptFailed(error) => {
                    assert!(error.to_string().starts_with("Too many open files"), "{error}");
                    assert!(limits::remedy(&error).unwrap().contains("ulimit -n"));
                    refused += 1;
                }
                IoEvent::Accepted(..) => accepted += 1,
                event => panic!("{event:?}"),
            }
        }
    }
    (refused, accepted)
}

#[test]
fn without_files_it_rests_and_then_accepts_who_waited() {
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    io.listen(listener).unwrap();
    let _peers: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();

    let limit = getrlimit(Resource::Nofile);
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    let none = Rlimit { current: Some(u64::try_from(lowest).unwrap()), ..limit };
    setrlimit(Resource::Nofile, none).unwrap();
    let (refused, accepted) = listen_for(&mut io, Duration::from_millis(350));
    assert!((1..=4).contains(&refused), "it asked {refused} times");
    assert_eq!(accepted, 0);

    setrlimit(Resource::Nofile, limit).unwrap();
    let mut all = 0;
    let late = clock::now() + Duration::from_secs(20);
    while all < 3 && clock::now() < late {
        all += listen_for(&mut io, Duration::from_millis(20)).1;
    }
    assert_eq!(all, 3);
}
