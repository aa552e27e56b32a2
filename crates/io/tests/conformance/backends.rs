//! The backends, and their peers, as the tests see them.

use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use sluice_io::simulated::{
    ClockError, PeerId, PeerState, SimulatedIo, SimulatedKernel, SimulatedListener,
};
use sluice_io::{Connection, Epoll, Io, Uring, WaitStrategy, sock};

/// A kind of [`Io`], and the peers of its connections.
pub(crate) trait Backend {
    type Io: Io;
    type Peer;

    fn new() -> Self;

    /// The set of another thread.
    fn add_thread(&self) -> Self::Io;

    /// A listener, and its address.
    fn listen(&self) -> (<Self::Io as Io>::Listener, SocketAddr);

    fn connect(&mut self, addr: SocketAddr) -> std::io::Result<Self::Peer>;

    fn addr(&self, peer: &Self::Peer) -> SocketAddr;

    /// Sends all of `bytes`.
    fn send(&self, peer: &mut Self::Peer, bytes: &[u8]);

    /// Receives at least one byte and at most `max`, or nothing at the end.
    fn receive(&self, peer: &mut Self::Peer, max: usize) -> Result<Vec<u8>, PeerState>;

    fn close(&self, peer: Self::Peer);

    fn reset(&self, peer: Self::Peer);
}

/// A set of sockets.
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

/// A [`SocketSet`] with connections over the loopback interface.
pub(crate) struct Loopback<I>(PhantomData<I>);

impl<I: SocketSet> Backend for Loopback<I> {
    type Io = I;
    type Peer = TcpStream;

    fn new() -> Self {
        Self(PhantomData)
    }

    fn add_thread(&self) -> I {
        I::create()
    }

    fn listen(&self) -> (TcpListener, SocketAddr) {
        let options = sock::Options { send_buffer: Some(32 << 10), ..sock::Options::default() };
        let listener = sock::listen((Ipv4Addr::LOCALHOST, 0).into(), &options).unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    }

    fn connect(&mut self, addr: SocketAddr) -> std::io::Result<TcpStream> {
        let peer = TcpStream::connect(addr)?;
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        peer.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        Ok(peer)
    }

    fn addr(&self, peer: &TcpStream) -> SocketAddr {
        peer.local_addr().unwrap()
    }

    fn send(&self, peer: &mut TcpStream, bytes: &[u8]) {
        peer.write_all(bytes).unwrap();
    }

    fn receive(&self, peer: &mut TcpStream, max: usize) -> Result<Vec<u8>, PeerState> {
        let mut bytes = vec![0; max];
        match peer.read(&mut bytes) {
            Ok(0) => Err(PeerState::EndOfStream),
            Ok(n) => Ok(bytes[..n].to_vec()),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Err(PeerState::Reset),
            Err(e) => panic!("{e}"),
        }
    }

    fn close(&self, peer: TcpStream) {
        drop(peer);
    }

    fn reset(&self, peer: TcpStream) {
        sock::reset(&peer);
    }
}

/// [`SimulatedIo`].
pub(crate) struct Simulated {
    kernel: SimulatedKernel,
    last_port: u16,
}

impl Backend for Simulated {
    type Io = SimulatedIo;
    type Peer = (PeerId, SocketAddr);

    fn new() -> Self {
        let kernel = SimulatedKernel::new(0x5eed, sluice_io::clock::now());
        Self { kernel, last_port: 40_000 }
    }

    fn add_thread(&self) -> SimulatedIo {
        self.kernel.add_thread(ClockError::default())
    }

    fn listen(&self) -> (SimulatedListener, SocketAddr) {
        let listen_on = |port| {
            let addr = ([127, 0, 0, 1], port).into();
            Some((self.kernel.listen(addr).ok()?, addr))
        };
        (6653..).find_map(listen_on).unwrap()
    }

    fn connect(&mut self, addr: SocketAddr) -> std::io::Result<Self::Peer> {
        self.last_port += 1;
        let from = ([127, 0, 0, 1], self.last_port).into();
        Ok((self.kernel.connect(addr, from)?, from))
    }

    fn addr(&self, peer: &Self::Peer) -> SocketAddr {
        peer.1
    }

    fn send(&self, peer: &mut Self::Peer, bytes: &[u8]) {
        assert_eq!(self.kernel.peer_send(peer.0, bytes), bytes.len());
    }

    fn receive(&self, peer: &mut Self::Peer, max: usize) -> Result<Vec<u8>, PeerState> {
        match self.kernel.peer_state(peer.0) {
            PeerState::Open => {
                let bytes = self.kernel.peer_receive(peer.0, max);
                assert!(!bytes.is_empty(), "nothing to receive");
                Ok(bytes)
            }
            end => Err(end),
        }
    }

    fn close(&self, peer: Self::Peer) {
        self.kernel.peer_close(peer.0);
    }

    fn reset(&self, peer: Self::Peer) {
        self.kernel.peer_reset(peer.0);
    }
}
