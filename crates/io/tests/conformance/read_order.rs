//! The order in which ready connections are read.

use sluice_io::{ConnId, Io, IoEvent, Reading};

use crate::backends::Backend;
use crate::events::{Thread, pattern};

/// Bytes after which a connection is a bulk connection.
const FIRST_READ: usize = 16 << 10;

/// Bytes that a bulk connection has sent.
const BULK: usize = 60 << 10;

/// A thread with connections.
struct Connections<B: Backend> {
    backend: B,
    thread: Thread<B::Io>,
    ids: Vec<ConnId>,
    peers: Vec<B::Peer>,
}

impl<B: Backend> Connections<B> {
    fn new(count: usize) -> Self {
        let mut backend = B::new();
        let mut thread = Thread::new(backend.add_thread());
        let (listener, addr) = backend.listen();
        thread.io.listen(listener).unwrap();
        let (mut ids, mut peers) = (vec![], vec![]);
        for _ in 0..count {
            peers.push(backend.connect(addr).unwrap());
            thread.run_until("accepted", |it| !it.accepted.is_empty());
            let (conn, _) = thread.accepted.pop().unwrap();
            ids.push(thread.io.adopt(conn).unwrap());
        }
        Self { backend, thread, ids, peers }
    }

    /// The peer of connection `n` sends, and the bytes arrive.
    fn send(&mut self, n: usize, bytes: &[u8]) {
        let expected = self.thread.io.unread_bytes(self.ids[n]) + bytes.len();
        self.backend.send(&mut self.peers[n], bytes);
        while self.thread.io.unread_bytes(self.ids[n]) < expected {}
    }

    /// Has all connections before the last send much, and reads from them once.
    fn make_bulk(&mut self) {
        let bulk = self.ids.len() - 1;
        for n in 0..bulk {
            self.send(n, &pattern(0, BULK));
        }
        let is_read = |it: &Thread<B::Io>, id| it.bytes_of(id).len() >= FIRST_READ;
        let ids = self.ids.clone();
        // One at a time, so that no connection is read twice.
        while !ids[..bulk].iter().all(|&id| is_read(&self.thread, id)) {
            let now = self.thread.io.now();
            self.thread.io.wait(Some(now)).unwrap();
            while let Some(event) = self.thread.io.next_event() {
                let IoEvent::Data(id, bytes) = event else { panic!("{event:?}") };
                self.thread.bytes.entry(id).or_default().extend_from_slice(bytes);
            }
        }
    }
}

/// However many connections have much to read, one that has little is read first.
pub(crate) fn what_is_read_little_from_is_read_first<B: Backend>() {
    const BULK_CONNECTIONS: usize = 20;
    for _ in 0..20 {
        let mut it = Connections::<B>::new(BULK_CONNECTIONS + 1);
        it.make_bulk();
        for n in 0..BULK_CONNECTIONS {
            it.send(n, &pattern(0, FIRST_READ));
        }
        it.send(BULK_CONNECTIONS, b"little");
        let sparse = it.ids[BULK_CONNECTIONS];
        loop {
            let now = it.thread.io.now();
            it.thread.io.wait(Some(now)).unwrap();
            let mut order = vec![];
            while let Some(IoEvent::Data(id, _)) = it.thread.io.next_event() {
                order.push(id);
            }
            if let Some(position) = order.iter().position(|&id| id == sparse) {
                assert_eq!(position, 0, "{order:?}");
                break;
            }
        }
    }
}

/// A connection that waits to be read when reading is turned off is read after it is turned on.
pub(crate) fn reading_can_be_off_in_between<B: Backend>() {
    let mut it = Connections::<B>::new(4);
    it.make_bulk();
    let ids = it.ids.clone();
    for round in 0..10 {
        for (n, &id) in ids.iter().enumerate() {
            let reading = if (n + round) % 2 == 0 { Reading::On } else { Reading::Off };
            it.thread.io.set_reading(id, reading);
        }
        let now = it.thread.io.now();
        it.thread.io.wait(Some(now)).unwrap();
        it.thread.handle_events();
    }
    for &id in &ids {
        it.thread.io.set_reading(id, Reading::On);
    }
    it.thread.run_until("all", |thread| {
        ids[..3].iter().all(|&id| thread.bytes_of(id) == pattern(0, BULK))
    });
}
