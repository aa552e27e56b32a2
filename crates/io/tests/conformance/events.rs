//! What a thread has been told about its connections.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use sluice_io::{ConnId, ConnectionError, Io, IoEvent};

use crate::backends::Backend;

/// A thread that records the events of its set.
pub(crate) struct Thread<I: Io> {
    pub(crate) io: I,
    pub(crate) accepted: Vec<(I::Conn, SocketAddr)>,
    /// All bytes of each connection.
    pub(crate) bytes: BTreeMap<ConnId, Vec<u8>>,
    /// The length of each read.
    pub(crate) reads: Vec<usize>,
    pub(crate) writable: Vec<ConnId>,
    pub(crate) closed: Vec<(ConnId, Option<ErrorKind>)>,
    pub(crate) wakes: usize,
}

impl<I: Io> Thread<I> {
    pub(crate) fn new(io: I) -> Self {
        Self {
            io,
            accepted: vec![],
            bytes: BTreeMap::new(),
            reads: vec![],
            writable: vec![],
            closed: vec![],
            wakes: 0,
        }
    }

    /// Handles the events since the last wait.
    pub(crate) fn handle_events(&mut self) {
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Accepted(conn, addr, _) => self.accepted.push((conn, addr)),
                IoEvent::Data(id, bytes) => {
                    assert!(!bytes.is_empty());
                    self.reads.push(bytes.len());
                    self.bytes.entry(id).or_default().extend_from_slice(bytes);
                }
                IoEvent::Writable(id) => self.writable.push(id),
                IoEvent::Closed(id, error) => {
                    self.closed.push((id, error.map(ConnectionError::kind)));
                }
                IoEvent::Woken => self.wakes += 1,
                IoEvent::Connected(_) | IoEvent::NothingReceived(_) | IoEvent::AcceptFailed(_) => {
                    panic!("{event:?}")
                }
            }
        }
    }

    /// Waits for events until `condition`.
    pub(crate) fn run_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if condition(self) {
                return;
            }
            let deadline = self.io.now() + Duration::from_millis(10);
            self.io.wait(Some(deadline)).unwrap();
            self.handle_events();
        }
        panic!("not in time: {what}");
    }

    /// Handles everything that is ready.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50 {
            let now = self.io.now();
            self.io.wait(Some(now)).unwrap();
            self.handle_events();
        }
    }

    pub(crate) fn bytes_of(&self, id: ConnId) -> &[u8] {
        self.bytes.get(&id).map_or(&[], |bytes| bytes)
    }
}

/// A thread, one of its connections, and the peer of that.
pub(crate) struct Connected<B: Backend> {
    pub(crate) backend: B,
    pub(crate) thread: Thread<B::Io>,
    pub(crate) id: ConnId,
    pub(crate) peer: B::Peer,
}

impl<B: Backend> Connected<B> {
    pub(crate) fn new() -> Self {
        let mut backend = B::new();
        let mut thread = Thread::new(backend.add_thread());
        let (listener, addr) = backend.listen();
        thread.io.listen(listener).unwrap();
        let peer = backend.connect(addr).unwrap();
        thread.run_until("accepted", |it| !it.accepted.is_empty());
        let (conn, from) = thread.accepted.pop().unwrap();
        assert_eq!(from, backend.addr(&peer));
        let id = thread.io.adopt(conn).unwrap();
        Self { backend, thread, id, peer }
    }

    /// Waits until the thread can read `bytes` bytes.
    pub(crate) fn await_unread(&mut self, bytes: usize) {
        let deadline = self.thread.io.now() + Duration::from_secs(10);
        while self.thread.io.unread_bytes(self.id) < bytes {
            assert!(self.thread.io.now() < deadline, "{bytes} bytes have not arrived");
        }
    }

    /// Has the thread send until the connection takes no more; returns what it took.
    pub(crate) fn fill(&mut self) -> Vec<u8> {
        let mut sent = vec![];
        loop {
            let bytes = pattern(sent.len(), 64 << 10);
            let taken = self.thread.io.send(self.id, &bytes);
            sent.extend_from_slice(&bytes[..taken]);
            if taken < bytes.len() {
                return sent;
            }
            assert!(sent.len() < 1 << 30, "it takes everything");
        }
    }

    /// What the peer receives until it has `len` bytes.
    pub(crate) fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut received = vec![];
        while received.len() < len {
            let max = len - received.len();
            received.extend(self.backend.receive(&mut self.peer, max).unwrap());
        }
        received
    }
}

/// Bytes `at..at + len` of a stream in which each place can be recognized.
pub(crate) fn pattern(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}
