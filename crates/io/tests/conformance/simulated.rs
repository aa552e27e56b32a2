//! What only a simulation can do.

use std::time::{Duration, Instant};

use sluice_io::simulated::{
    BufferSizes, ClockError, DescriptorUse, PeerId, PeerState, SimulatedIo, SimulatedKernel,
};
use sluice_io::{ConnId, Io, IoEvent, Wake, clock};

const LISTENER: ([u8; 4], u16) = ([10, 0, 0, 1], 6653);

/// A thread with a listener, in a kernel of this seed.
fn start(seed: u64, at: Instant) -> (SimulatedKernel, SimulatedIo) {
    let kernel = SimulatedKernel::new(seed, at);
    let mut io = kernel.add_thread(ClockError::default());
    io.listen(kernel.listen(LISTENER.into()).unwrap()).unwrap();
    (kernel, io)
}

fn connect(kernel: &SimulatedKernel, port: u16) -> PeerId {
    kernel.connect(LISTENER.into(), ([10, 0, 0, 2], port).into()).unwrap()
}

/// Accepts a connection.
fn accept(io: &mut SimulatedIo) -> ConnId {
    io.wait(None).unwrap();
    let Some(IoEvent::Accepted(conn, _, _)) = io.next_event() else { panic!("nothing to accept") };
    io.adopt(conn).unwrap()
}

#[test]
fn a_seed_repeats_the_order_of_events_and_the_time() {
    let at = clock::now();
    let log = |seed| {
        let (kernel, mut io) = start(seed, at);
        let mut log = vec![];
        let peers: Vec<_> = (0..40).map(|port| connect(&kernel, port)).collect();
        while log.len() < 40 {
            io.wait(None).unwrap();
            while let Some(event) = io.next_event() {
                let IoEvent::Accepted(conn, addr, _) = event else { panic!("{event:?}") };
                log.push((addr.port(), io.now()));
                io.adopt(conn).unwrap();
                let peer = peers[usize::from(addr.port())];
                assert_eq!(kernel.peer_send(peer, &addr.port().to_be_bytes()), 2);
            }
        }
        let mut waits = 0u32;
        while log.len() < 80 {
            let now = io.wait(None).unwrap();
            waits += 1;
            while let Some(event) = io.next_event() {
                let IoEvent::Data(_, &[high, low]) = event else { panic!("{event:?}") };
                log.push((u16::from_be_bytes([high, low]), now));
            }
        }
        (log, waits)
    };
    let logs: Vec<_> = (0..20).map(log).collect();
    assert_eq!(logs, (0..20).map(log).collect::<Vec<_>>());
    let order = |(log, _): &(Vec<(u16, Instant)>, u32)| -> Vec<_> {
        log[40..].iter().map(|&(port, _)| port).collect()
    };
    assert_ne!(order(&logs[0]), order(&logs[1]));
    assert!(logs.iter().any(|log| log.1 == 1) && logs.iter().any(|log| log.1 > 1));
}

#[test]
fn a_thread_is_ready_exactly_when_a_wait_returns_events() {
    let (kernel, mut io) = start(1, clock::now());
    let thread = io.thread();
    assert!(!kernel.is_ready(thread));
    let peer = connect(&kernel, 1);
    assert!(kernel.is_ready(thread));
    let id = accept(&mut io);
    assert!(!kernel.is_ready(thread));
    io.waker().wake();
    assert!(kernel.is_ready(thread) && kernel.is_woken(thread));
    io.wait(None).unwrap();
    assert!(matches!(io.next_event(), Some(IoEvent::Woken)));
    assert!(!kernel.is_ready(thread) && !kernel.is_woken(thread));

    kernel.set_buffer_sizes(peer, BufferSizes { receive: 4, send: 6 });
    assert_eq!(kernel.peer_send_room(peer), 4);
    assert_eq!(kernel.peer_send(peer, b"hello"), 4);
    assert_eq!((kernel.peer_send_room(peer), kernel.unread_bytes(peer)), (0, 4));
    assert!(kernel.is_ready(thread));
    io.wait(None).unwrap();
    assert!(matches!(io.next_event(), Some(IoEvent::Data(_, b"hell"))));
    assert_eq!(io.send(id, b"goodbye"), 6);
    assert!(!kernel.is_ready(thread));
    assert_eq!(kernel.unsent_bytes(peer), 6);
    assert_eq!(kernel.peer_receive(peer, 2), b"go");
    assert!(kernel.is_ready(thread), "it is writable");
    drop(io);
    assert!(!kernel.is_ready(thread));
    assert_eq!(kernel.open_connections(), 0);
    assert_eq!(kernel.peer_state(peer), PeerState::Open);
    assert_eq!(kernel.peer_receive(peer, 100), b"odby");
    assert_eq!(kernel.peer_state(peer), PeerState::EndOfStream);
}

/// A send that fails after the events were handled is reported by the next wait.
#[test]
fn a_failed_send_makes_the_thread_ready() {
    let (kernel, mut io) = start(1, clock::now());
    let peer = connect(&kernel, 1);
    let id = accept(&mut io);
    kernel.peer_reset(peer);
    io.wait(None).unwrap();
    assert!(matches!(io.next_event(), Some(IoEvent::Closed(closed, Some(_))) if closed == id));
    assert!(io.next_event().is_none() && !kernel.is_ready(io.thread()));

    let peer = connect(&kernel, 2);
    let id = accept(&mut io);
    io.wait(None).unwrap();
    assert!(io.next_event().is_none());
    kernel.peer_reset(peer);
    assert_eq!(io.send(id, b"more"), 4);
    assert!(kernel.is_ready(io.thread()));
}

#[test]
fn accepting_pauses_when_descriptors_run_out() {
    let at = clock::now();
    let (kernel, mut io) = start(1, at);
    let _peer = connect(&kernel, 1);
    kernel.fail_for_descriptors(DescriptorUse::Accept, 1);
    io.wait(None).unwrap();
    let Some(IoEvent::AcceptFailed(error)) = io.next_event() else { panic!("it did not fail") };
    assert!(sluice_io::limits::remedy(&error).is_some());
    assert!(io.next_event().is_none() && !kernel.is_ready(io.thread()));
    kernel.set_time(at + Duration::from_millis(50));
    io.wait(None).unwrap();
    assert!(io.next_event().is_none());
    let end = kernel.wait_end(io.thread()).unwrap();
    assert!(end < at + Duration::from_millis(101), "{:?}", end - at);
    kernel.set_time(end);
    accept(&mut io);
    assert_eq!(kernel.wait_end(io.thread()), None);
}

#[test]
fn accepting_resumes_when_a_connection_is_closed() {
    let (kernel, mut io) = start(1, clock::now());
    let _first = connect(&kernel, 1);
    io.wait(None).unwrap();
    let id = accept(&mut io);
    let _second = connect(&kernel, 1);
    kernel.fail_for_descriptors(DescriptorUse::Accept, 1);
    io.wait(None).unwrap();
    assert!(matches!(io.next_event(), Some(IoEvent::AcceptFailed(_))));
    io.close(id);
    io.wait(None).unwrap();
    accept(&mut io);
}

#[test]
fn a_connection_that_cannot_be_adopted_is_closed() {
    let (kernel, mut io) = start(1, clock::now());
    let peer = connect(&kernel, 1);
    kernel.fail_for_descriptors(DescriptorUse::Adopt, 1);
    io.wait(None).unwrap();
    let Some(IoEvent::Accepted(conn, _, _)) = io.next_event() else { panic!("nothing to accept") };
    assert!(io.adopt(conn).is_err());
    assert_eq!(kernel.peer_state(peer), PeerState::EndOfStream);
    assert_eq!(kernel.open_connections(), 0);
}

#[test]
fn each_thread_has_a_clock_of_its_own() {
    let at = clock::now();
    let kernel = SimulatedKernel::new(1, at);
    let exact = kernel.add_thread(ClockError::default());
    let offset = Duration::from_secs(2);
    let fast = kernel.add_thread(ClockError { offset, drift_ppm: 1000 });
    let shown = fast.now();
    assert!(shown >= at + offset && fast.now() > shown, "reading takes time");
    let later = Duration::from_secs(1000);
    kernel.set_time(at + later);
    let ahead = fast.now() - exact.now();
    assert!(ahead.abs_diff(Duration::from_secs(3)) < Duration::from_micros(5), "{ahead:?}");
    let ahead = fast.since_epoch().saturating_sub(exact.since_epoch());
    assert!(ahead.abs_diff(Duration::from_secs(3)) < Duration::from_micros(10), "{ahead:?}");
    let due = kernel.time_of(fast.thread(), at + Duration::from_secs(1004));
    assert!(due.saturating_duration_since(at + later) < Duration::from_secs(1), "{due:?}");
    assert_eq!(kernel.time_of(exact.thread(), at), at + later);
}
