//! Two sets of connections, of which one has a listener with TLS.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use sluice_io::{
    ConnId, Connection, ConnectionError, Epoll, Io, IoEvent, TlsClient, TlsServer, Uring,
    WaitStrategy, sock,
};

/// A kind of set of sockets.
pub(crate) trait SocketSet: Io<Conn = Connection, Listener = TcpListener> {
    fn create() -> Self;
}

impl SocketSet for Epoll {
    fn create() -> Self {
        Self::new(WaitStrategy::default()).unwrap()
    }
}

impl SocketSet for Uring {
    fn create() -> Self {
        Self::new(WaitStrategy::default()).unwrap()
    }
}

/// A set of connections, and what it has reported.
pub(crate) struct Thread<I = Epoll> {
    pub(crate) io: I,
    pub(crate) accepted: Vec<Connection>,
    pub(crate) received: Vec<u8>,
    pub(crate) writable: usize,
    pub(crate) connected: usize,
    pub(crate) closed: Option<Result<(), ConnectionError>>,
}

impl Thread {
    pub(crate) fn new() -> Self {
        Self::start()
    }
}

impl<I: SocketSet> Thread<I> {
    pub(crate) fn start() -> Self {
        let io = I::create();
        Self { io, accepted: vec![], received: vec![], writable: 0, connected: 0, closed: None }
    }

    /// One iteration that does not block for long.
    pub(crate) fn run(&mut self) {
        let deadline = self.io.now() + Duration::from_millis(1);
        self.io.wait(Some(deadline)).unwrap();
        self.handle_events();
    }

    /// Handles what is reported without waiting.
    pub(crate) fn handle_events(&mut self) {
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Accepted(connection, _, _) => self.accepted.push(connection),
                IoEvent::Data(_, bytes) => {
                    assert!(!bytes.is_empty());
                    self.received.extend_from_slice(bytes);
                }
                IoEvent::Writable(_) => self.writable += 1,
                IoEvent::Closed(_, error) => {
                    assert_eq!(self.closed, None, "closed twice");
                    self.closed = Some(error.map_or(Ok(()), Err));
                }
                IoEvent::Connected(_) => self.connected += 1,
                IoEvent::Woken | IoEvent::NothingReceived(_) => {}
                IoEvent::AcceptFailed(error) => panic!("{error}"),
            }
        }
    }
}

/// Opens a listener with TLS.
pub(crate) fn listen<I: SocketSet>(thread: &mut Thread<I>, server: &TlsServer) -> SocketAddr {
    let options = sock::Options { send_buffer: Some(32 << 10), ..sock::Options::default() };
    let listener = sock::listen((Ipv4Addr::LOCALHOST, 0).into(), &options).unwrap();
    let addr = listener.local_addr().unwrap();
    let id = thread.io.listen(listener).unwrap();
    thread.io.set_tls(id, Some(server));
    addr
}

/// Two ends of a connection.
pub(crate) struct Pair<I = Epoll> {
    pub(crate) server: Thread<I>,
    pub(crate) server_id: ConnId,
    pub(crate) client: Thread,
    pub(crate) client_id: ConnId,
}

impl<I: SocketSet> Pair<I> {
    /// Connects; the handshake is not complete.
    pub(crate) fn connect(server_tls: &TlsServer, client_tls: &TlsClient) -> Self {
        let (mut server, mut client) = (Thread::<I>::start(), Thread::new());
        let addr = listen(&mut server, server_tls);
        let options = sock::Options { send_buffer: Some(32 << 10), ..sock::Options::default() };
        let stream = sock::start_connect(addr, &options).unwrap();
        let client_id = client.io.adopt_connecting(client_tls.connect(stream).unwrap()).unwrap();
        while server.accepted.is_empty() {
            server.run();
        }
        let server_id = server.io.adopt(server.accepted.pop().unwrap()).unwrap();
        Self { server, server_id, client, client_id }
    }

    /// Runs both until `condition`.
    pub(crate) fn run_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..5000 {
            if condition(self) {
                return;
            }
            self.client.run();
            self.server.run();
        }
        panic!(
            "not in time: {what}; server {:?}, client {:?}",
            self.server.closed, self.client.closed
        );
    }
}

/// Bytes of a stream in which each place can be recognized.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}
