//! The null responder: a server that does the minimum that a controller must do.
//!
//! It completes handshakes, answers `ECHO_REQUEST`, and replies to each `PACKET_IN` with as many bytes as the `FLOW_MOD` of
//! a learning switch application has. Of a request, it reads the length and copies the buffer id, so that the load
//! generator can match the reply. The throughput of a controller relative to the null responder shows how close it comes to
//! the limit of the machine.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_io::{
    ConnId, Epoll, Io, IoEvent, READ_BYTES_MAX, Reading, WaitStrategy, Wake, Waker, cores, sock,
};
use sluice_openflow::{
    Action, Encoder, Field, FlowMod, Instruction, MacAddr, MessageType, PortNo, SwitchConfig,
    Version, VlanId,
};

use crate::Error;

/// Length of a reply in each version, 1.0 first, in bytes: a `FLOW_MOD` with one action that matches port, both MAC
/// addresses and VLAN, as Sluice's learning switch sends it.
pub const REPLY_LENS: [usize; VERSIONS] = [80, 160, 112, 112, 112, 112];

/// Number of OpenFlow versions.
const VERSIONS: usize = 6;

/// Length of the shortest `PACKET_IN`; as many replies are prepared as requests fit into one read.
const REQUEST_LEN_MIN: usize = 18;

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
    senders: Vec<(Sender<TcpStream>, Waker)>,
    accepted: Receiver<TcpStream>,
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

/// Identical replies, in which only the buffer id is patched.
#[derive(Debug)]
struct ReplyTemplates {
    bytes: Vec<u8>,
    len: usize,
    buffer_id_at: usize,
}

impl ResponderThread {
    fn new(
        config: &Config,
        index: usize,
        io: Epoll,
        accepted: Receiver<TcpStream>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let replies =
            [1, 2, 3, 4, 5, 6].map(|byte| ReplyTemplates::new(Version(byte), config.flow_mods));
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
            while let Ok(stream) = self.accepted.try_recv() {
                self.adopt(stream);
            }
        }
        Ok(())
    }

    /// Handles the next event; `false` if there is none.
    fn handle_event(&mut self) -> bool {
        let Some(event) = self.io.next_event() else { return false };
        match event {
            IoEvent::Accepted(stream, _) => {
                if let Some((sender, waker)) = self.senders.get(self.next) {
                    // Fails only if that thread failed, and with it the responder.
                    let _ = sender.send(stream);
                    waker.wake();
                    self.next = (self.next + 1) % self.senders.len();
                }
            }
            IoEvent::Data(id, bytes) => {
                let Some(connection) = self.connections.get_mut(id.slot()) else { return true };
                let received = connection.receive(bytes, self.config.content, &mut self.replies);
                let Some((version, n)) = received else {
                    self.io.close(id);
                    return true;
                };
                let replies = self.replies.get(version_index(version));
                let replies = replies.and_then(|replies| replies.bytes.get(..n * replies.len));
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

    fn adopt(&mut self, stream: TcpStream) {
        // On an error the connection is closed, and the load generator reports a missing switch.
        if self.config.socket.apply(&stream).is_err() {
            return;
        }
        let Ok(id) = self.io.adopt(stream) else { return };
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
        content: ReplyContent,
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
            self.process(&partial, content, replies, &mut n, &mut version)?;
            self.partial = partial;
            self.partial.clear();
        }
        let left = self.process(rest, content, replies, &mut n, &mut version)?;
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
        content: ReplyContent,
        replies: &mut [ReplyTemplates; VERSIONS],
        n: &mut usize,
        version: &mut u8,
    ) -> Option<usize> {
        let mut rest = bytes;
        *version = bytes.first().copied().unwrap_or(*version);
        let replies = replies.get_mut(version_index(*version))?;
        let (len, at) = (replies.len, replies.buffer_id_at);
        let mut replies = replies.bytes.chunks_exact_mut(len).skip(*n);
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
            let reply = replies.next()?;
            *n += 1;
            if content == ReplyContent::BufferId
                && let Some(buffer_id) = reply.get_mut(at..at + 4)
            {
                buffer_id.copy_from_slice(&head[8..12]);
            }
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

impl ReplyTemplates {
    fn new(version: Version, flow_mods: u8) -> Self {
        let (mut tx, mut xid) = (vec![], 1);
        let fields = [
            Field::in_port(PortNo(1)),
            Field::eth_dst(MacAddr([0; 6])),
            Field::eth_src(MacAddr([0; 6])),
            Field::vlan(VlanId(0)),
        ];
        // Before 1.2 the match has a fixed length; without fields it matches no particular pair of addresses.
        let used = if version < Version::V1_2 { 0 } else { fields.len() };
        let flow_mod = FlowMod {
            matching: fields.into_iter().take(used).collect(),
            instructions: vec![Instruction::apply([Action::output(PortNo(2))])],
            ..FlowMod::default()
        };
        // Does not fail: all versions have these fields.
        let _ = Encoder::new(&mut tx, version, &mut xid).flow_mod(&flow_mod);
        let flow_mods = usize::from(flow_mods.clamp(1, FLOW_MODS_MAX));
        let buffer_id_at = if version == Version::V1_0 { 64 } else { 32 };
        let buffer_id_at = buffer_id_at + tx.len() * (flow_mods - 1);
        let reply = tx.repeat(flow_mods);
        let bytes = reply.repeat(READ_BYTES_MAX / REQUEST_LEN_MIN);
        Self { len: reply.len(), bytes, buffer_id_at }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::Versions;

    use super::*;

    #[test]
    fn a_reply_is_as_long_as_that_of_a_learning_switch() {
        let lens = Versions::SUPPORTED.iter().map(|version| ReplyTemplates::new(version, 1).len);
        assert_eq!(lens.collect::<Vec<_>>(), REPLY_LENS);
    }

    #[test]
    fn the_last_flow_mod_of_a_reply_has_the_buffer_id() {
        let mut connection = ResponderConnection::default();
        let mut replies = [1, 2, 3, 4, 5, 6].map(|byte| ReplyTemplates::new(Version(byte), 2));
        let mut request = vec![1, 10, 0, 18, 0, 0, 0, 1, 0, 0, 0, 7];
        request.resize(18, 0);
        let received = connection.receive(&request, ReplyContent::BufferId, &mut replies);
        assert_eq!(received, Some((1, 1)));
        let reply = &replies[0].bytes[..160];
        let buffer_ids = reply.chunks(80).map(|flow_mod| flow_mod[64..68].to_vec());
        assert_eq!(buffer_ids.collect::<Vec<_>>(), [vec![255; 4], vec![0, 0, 0, 7]]);
    }
}
