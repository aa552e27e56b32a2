//! The null responder: a server that does the minimum that a controller must do.
//!
//! It completes handshakes, answers `ECHO_REQUEST`, and replies to each `PACKET_IN` with as many bytes as the `FLOW_MOD` of
//! a learning switch application has. Of a request, it reads the length and copies the buffer id, so that the load
//! generator can match the reply; or, if packets are not buffered, their addresses and the packet itself. The throughput of
//! a controller relative to the null responder shows how close it comes to the limit of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_io::{
    ConnId, Connection, Epoll, Io, IoEvent, Reading, WaitStrategy, Wake, Waker, cores, sock,
};
use sluice_openflow::{Encoder, MessageType, SwitchConfig, Version};

use crate::Error;
use crate::reply_templates::ReplyTemplates;

/// Length of a reply without a packet in each version, 1.0 first, in bytes: a `FLOW_MOD` with one action that matches port, both MAC
/// addresses and VLAN, as Sluice's learning switch sends it.
pub const REPLY_LENS: [usize; VERSIONS] = [80, 160, 112, 112, 112, 112];

/// Number of OpenFlow versions.
const VERSIONS: usize = 6;

/// Configuration of a null responder.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Number of threads; connections are distributed over them in turn.
    pub threads: usize,
    /// CPU cores that the threads are pinned to, in turn; empty for no pinning.
    pub pin: Vec<usize>,
    /// How long a thread polls its sockets before it sleeps.
    pub spin: Duration,
    /// Options of the sockets.
    pub socket: sock::Options,
    /// What of a request is copied into the reply.
    pub content: ReplyContent,
    /// `FLOW_MOD`s per reply, 1 to [`FLOW_MODS_MAX`]. The last one has the buffer id of the request; the others have none,
    /// like the flow entry for the reverse direction.
    pub flow_mods: u8,
    /// What the flow entries match, which is what their length depends on.
    pub matching: FlowMatch,
}

impl Config {
    /// One thread without polling, which replies with one flow-mod and copies the buffer id.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            threads: 1,
            pin: Vec::new(),
            spin: Duration::ZERO,
            socket: sock::Options::default(),
            content: ReplyContent::BufferId,
            flow_mods: 1,
            matching: FlowMatch::PortPair,
        }
    }
}

/// Maximum number of `FLOW_MOD`s per reply.
pub const FLOW_MODS_MAX: u8 = 8;

/// What of a request is copied into the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyContent {
    /// The buffer id, so that replies can be matched to requests.
    BufferId,
    /// Nothing, so that replies can only be counted.
    Constant,
    /// Both addresses, into the flow entries, and the packet, into a `PACKET_OUT`: for packets that are not buffered.
    /// Fast as long as all packets have the same length.
    Packet,
}

/// What a flow entry matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowMatch {
    /// Ingress port and both addresses, like Sluice's `learning`.
    PortPair,
    /// Both addresses, like Sluice's `forwarding`.
    Pair,
}

/// A running null responder.
#[derive(Debug)]
pub struct NullResponder {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl NullResponder {
    /// Starts to listen and to reply, on threads of its own.
    ///
    /// # Errors
    /// The address cannot be listened on, or another error of the operating system.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let listener = sock::listen(config.listen, &config.socket)
            .map_err(|e| Error::Listen(config.listen, e))?;
        let addr = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let (mut senders, mut wakers) = (Vec::new(), Vec::new());
        for index in 0..config.threads.max(1) {
            let io = Epoll::new(WaitStrategy { spin: config.spin })?;
            let (sender, accepted) = channel();
            senders.push((sender, io.waker()));
            wakers.push(io.waker());
            threads.push(ResponderThread::new(config, index, io, accepted, &stop));
        }
        if let Some(first) = threads.first_mut() {
            first.io.listen(listener)?;
            first.senders = senders;
        }
        let spawn = |thread: ResponderThread| {
            let name = format!("null-{}", thread.index);
            thread::Builder::new().name(name).spawn(move || thread.run())
        };
        let threads = threads.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self { addr, stop, wakers, threads })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until it ends, which happens only after [`stop`](Self::stop) or a failure.
    ///
    /// # Errors
    /// The failure.
    pub fn join(self) -> Result<(), Error> {
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Thread)?)
    }

    /// Stops it and waits for its threads.
    ///
    /// # Errors
    /// An earlier failure of a thread.
    pub fn stop(self) -> Result<(), Error> {
        self.stop.store(true, Relaxed);
        self.wakers.iter().for_each(Waker::wake);
        self.join()
    }
}

struct ResponderThread {
    config: Config,
    index: usize,
    io: Epoll,
    /// Where accepted connections are sent; empty on all threads but the first, which accepts.
    senders: Vec<(Sender<Connection>, Waker)>,
    accepted: Receiver<Connection>,
    next: usize,
    stop: Arc<AtomicBool>,
    connections: Vec<ResponderConnection>,
    replies: [ReplyTemplates; VERSIONS],
}

/// One connection.
#[derive(Debug, Default)]
struct ResponderConnection {
    /// The start of a message that has not been received completely.
    partial: Vec<u8>,
    unsent: Vec<u8>,
}

impl ResponderThread {
    fn new(
        config: &Config,
        index: usize,
        io: Epoll,
        accepted: Receiver<Connection>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let replies = [1, 2, 3, 4, 5, 6].map(|byte| ReplyTemplates::new(Version(byte), config));
        let (config, stop) = (config.clone(), Arc::clone(stop));
        Self {
            config,
            index,
            io,
            senders: Vec::new(),
            accepted,
            next: 0,
            stop,
            connections: Vec::new(),
            replies,
        }
    }

    fn run(mut self) -> Result<(), Error> {
        if let Some(&core) = self.config.pin.get(self.index % self.config.pin.len().max(1)) {
            cores::pin(core).map_err(|e| Error::Pin(core, e))?;
        }
        while !self.stop.load(Relaxed) {
            self.io.wait(None)?;
            while self.handle_event() {}
            while let Ok(connection) = self.accepted.try_recv() {
                self.adopt(connection);
            }
        }
        Ok(())
    }

    /// Handles the next event; `false` if there is none.
    fn handle_event(&mut self) -> bool {
        let Some(event) = self.io.next_event() else { return false };
        match event {
            IoEvent::Accepted(connection, _, _) => {
                if let Some((sender, waker)) = self.senders.get(self.next) {
                    // Fails only if that thread failed, and with it the responder.
                    let _ = sender.send(connection);
                    waker.wake();
                    self.next = (self.next + 1) % self.senders.len();
                }
            }
            IoEvent::Data(id, bytes) => {
                let Some(connection) = self.connections.get_mut(id.slot()) else { return true };
                let received = connection.receive(bytes, &mut self.replies);
                let Some((version, n)) = received else {
                    self.io.close(id);
                    return true;
                };
                let replies = self.replies.get(version_index(version));
                let replies = replies.map(|replies| replies.first(n));
                send(&mut self.io, id, connection, replies);
            }
            IoEvent::Writable(id) => {
                let Some(connection) = self.connections.get_mut(id.slot()) else { return true };
                send(&mut self.io, id, connection, None);
                if connection.unsent.is_empty() {
                    self.io.set_reading(id, Reading::On);
                }
            }
            _ => {}
        }
        true
    }

    fn adopt(&mut self, connection: Connection) {
        // On an error the connection is closed, and the load generator reports a missing switch.
        if self.config.socket.apply(&connection).is_err() {
            return;
        }
        let Ok(id) = self.io.adopt(connection) else { return };
        if self.connections.len() <= id.slot() {
            self.connections.resize_with(id.slot() + 1, ResponderConnection::default);
        }
        if let Some(connection) = self.connections.get_mut(id.slot()) {
            *connection = ResponderConnection::default();
        }
    }
}

/// Sends what is unsent, then `bytes`. Reading pauses while something remains unsent.
fn send(io: &mut Epoll, id: ConnId, connection: &mut ResponderConnection, bytes: Option<&[u8]>) {
    let bytes = bytes.unwrap_or_default();
    let unsent = &mut connection.unsent;
    if !unsent.is_empty() {
        let sent = io.send(id, unsent);
        unsent.drain(..sent.min(unsent.len()));
    }
    let sent = if unsent.is_empty() && !bytes.is_empty() { io.send(id, bytes) } else { 0 };
    unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
    if !unsent.is_empty() {
        io.set_reading(id, Reading::Off);
    }
}

impl ResponderConnection {
    /// Processes received bytes; returns their version and the number of requests. `None` if they are not OpenFlow.
    fn receive(
        &mut self,
        bytes: &[u8],
        replies: &mut [ReplyTemplates; VERSIONS],
    ) -> Option<(u8, usize)> {
        let mut n = 0;
        let mut version = 1;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            let used = self.complete_partial(rest)?;
            rest = rest.get(used..).unwrap_or_default();
            let partial = std::mem::take(&mut self.partial);
            let is_complete = matches!(
                *partial.as_slice(),
                [_, _, high, low, ..] if usize::from(u16::from_be_bytes([high, low])) == partial.len()
            );
            if !is_complete {
                self.partial = partial;
                return Some((version, 0));
            }
            self.process(&partial, replies, &mut n, &mut version)?;
            self.partial = partial;
            self.partial.clear();
        }
        let left = self.process(rest, replies, &mut n, &mut version)?;
        self.partial.extend_from_slice(rest.get(rest.len() - left..).unwrap_or_default());
        Some((version, n))
    }

    /// Appends to the partial message what it lacks; returns how many bytes were used.
    fn complete_partial(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        loop {
            let wanted = match *self.partial.as_slice() {
                [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => 4,
            };
            let missing = wanted.checked_sub(self.partial.len())?;
            let more = bytes.get(used..bytes.len().min(used + missing))?;
            self.partial.extend_from_slice(more);
            used += more.len();
            if missing == 0 || more.len() < missing {
                return Some(used);
            }
        }
    }

    /// Processes complete messages; returns how many bytes are left.
    fn process(
        &mut self,
        bytes: &[u8],
        replies: &mut [ReplyTemplates; VERSIONS],
        n: &mut usize,
        version: &mut u8,
    ) -> Option<usize> {
        let mut rest = bytes;
        *version = bytes.first().copied().unwrap_or(*version);
        let replies = replies.get_mut(version_index(*version))?;
        while let Some(head) = rest.first_chunk::<12>() {
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            if len < 8 {
                return None;
            }
            let Some((msg, after)) = rest.split_at_checked(len) else { return Some(rest.len()) };
            rest = after;
            if head[1] != 10 {
                self.handle_other(msg);
                continue;
            }
            replies.patch(msg, n, &mut self.unsent)?;
        }
        // The last message may be a header alone.
        while let Some(head) = rest.first_chunk::<8>() {
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            if len < 8 {
                return None;
            }
            let Some((msg, after)) = rest.split_at_checked(len) else { break };
            self.handle_other(msg);
            rest = after;
        }
        Some(rest.len())
    }

    /// Handles a message that is not a `PACKET_IN`: the handshake and `ECHO_REQUEST`.
    #[cold]
    fn handle_other(&mut self, msg: &[u8]) {
        let Some(&[version, message_type, _, _, a, b, c, d]) = msg.first_chunk::<8>() else {
            return;
        };
        let xid = u32::from_be_bytes([a, b, c, d]);
        let mut next_xid = xid;
        let mut out = Encoder::new(&mut self.unsent, Version(version), &mut next_xid);
        match message_type {
            // HELLO. A reply without a version bitmap offers this version and those below.
            0 => {
                let _ = out.raw_message(MessageType::HELLO, 1, &[]);
                out.features_request();
            }
            // ECHO_REQUEST.
            2 => _ = out.echo_reply(xid, msg.get(8..).unwrap_or_default()),
            // FEATURES_REPLY.
            6 => {
                _ = out.set_config(SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() });
            }
            _ => {}
        }
    }
}

/// Index of a version's reply templates. Every byte has one: unknown versions are answered in 1.5.
fn version_index(version: u8) -> usize {
    usize::from(version.saturating_sub(1)).min(VERSIONS - 1)
}
