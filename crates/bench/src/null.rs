//! The ceiling: a responder that answers without looking.
//!
//! It is the least that any controller must do: shake hands, answer `ECHO_REQUEST`, and for each `PACKET_IN` return as
//! many bytes as a learning controller's `FLOW_MOD` has. Of a request it looks at the length; the four bytes of the
//! buffer number are copied, so that the bench can tie the reply.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_io::{
    ConnId, Epoll, Io, IoEvent, READ_BYTES_MAX, Reading, WaitStrategy, Waker, cores, sock,
};
use sluice_openflow::{
    Action, Encoder, Field, FlowMod, Instruction, MacAddr, PortNo, SwitchConfig, Version, VlanId,
};

use crate::Error;

/// Bytes of an answer in each version, 1.0 first: a `FLOW_MOD` that matches port, both addresses and VLAN, with one
/// action, as Sluice's learning application sends it.
pub const ANSWER_LENS: [usize; VERSIONS] = [80, 160, 112, 112, 112, 112];

/// Versions that are answered.
const VERSIONS: usize = 6;

/// The shortest message that can be in one read; there are as many answers ready as fit into one.
const REQUEST_LEN_MIN: usize = 18;

/// How a responder runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Threads that answer; connections go to them in turn.
    pub threads: usize,
    /// Cores for the threads, in turn; none leaves it to the system.
    pub pin: Vec<usize>,
    /// How long a thread asks again and again before it blocks.
    pub spin: Duration,
    /// What is set on the sockets.
    pub socket: sock::Options,
    /// Whether the buffer number of a request is copied into its answer.
    pub copy: ReplyContent,
    /// Rules in an answer. All but the last are for no buffer, as the rule for the other direction is.
    pub rules: u8,
}

/// Rules that an answer may have.
pub const RULES_MAX: u8 = 8;

/// Whether the buffer number of a request is copied into its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyContent {
    /// It is: the bench can tie answers to requests.
    BufferId,
    /// Nothing is: the bench can only count messages.
    Nothing,
}

/// A responder that runs.
#[derive(Debug)]
pub struct NullResponder {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl NullResponder {
    /// Listens and answers, on threads of its own.
    ///
    /// # Errors
    /// An address that cannot be listened on; what else the system says.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let listener = sock::listen(config.listen, &config.socket)
            .map_err(|e| Error::Listen(config.listen, e))?;
        let addr = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = Vec::new();
        let (mut mail, mut wakers) = (Vec::new(), Vec::new());
        for index in 0..config.threads.max(1) {
            let io = Epoll::new(WaitStrategy { spin: config.spin })?;
            let (to, from) = channel();
            mail.push((to, io.waker()));
            wakers.push(io.waker());
            workers.push(Worker::new(config, index, io, from, &stop));
        }
        if let Some(first) = workers.first_mut() {
            first.io.listen(listener)?;
            first.mail = mail;
        }
        let spawn = |worker: Worker| {
            let name = format!("null-{}", worker.index);
            thread::Builder::new().name(name).spawn(move || worker.run())
        };
        let threads = workers.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self { addr, stop, wakers, threads })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until it ends, which without [`stop`](Self::stop) only a failure makes it do.
    ///
    /// # Errors
    /// The failure.
    pub fn join(self) -> Result<(), Error> {
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Thread)?)
    }

    /// Ends it.
    ///
    /// # Errors
    /// A failure it had before.
    pub fn stop(self) -> Result<(), Error> {
        self.stop.store(true, Relaxed);
        self.wakers.iter().for_each(Waker::wake);
        self.join()
    }
}

struct Worker {
    config: Config,
    index: usize,
    io: Epoll,
    /// The others, on the one that accepts.
    mail: Vec<(Sender<TcpStream>, Waker)>,
    from: Receiver<TcpStream>,
    next: usize,
    stop: Arc<AtomicBool>,
    peers: Vec<Peer>,
    answers: [Answers; VERSIONS],
}

/// One connection.
#[derive(Debug, Default)]
struct Peer {
    torn: Vec<u8>,
    pending: Vec<u8>,
}

/// Answers in a row, all alike but for the buffer number.
#[derive(Debug)]
struct Answers {
    bytes: Vec<u8>,
    len: usize,
    buffer_at: usize,
}

impl Worker {
    fn new(
        config: &Config,
        index: usize,
        io: Epoll,
        from: Receiver<TcpStream>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let answers = [1, 2, 3, 4, 5, 6].map(|byte| Answers::new(Version(byte), config.rules));
        let (config, stop) = (config.clone(), Arc::clone(stop));
        Self {
            config,
            index,
            io,
            mail: Vec::new(),
            from,
            next: 0,
            stop,
            peers: Vec::new(),
            answers,
        }
    }

    fn run(mut self) -> Result<(), Error> {
        if let Some(&core) = self.config.pin.get(self.index % self.config.pin.len().max(1)) {
            cores::pin(core).map_err(|e| Error::Core(core, e))?;
        }
        while !self.stop.load(Relaxed) {
            self.io.wait(None)?;
            while self.one_event() {}
            while let Ok(stream) = self.from.try_recv() {
                self.adopt(stream);
            }
        }
        Ok(())
    }

    fn one_event(&mut self) -> bool {
        let Some(event) = self.io.next_event() else { return false };
        match event {
            IoEvent::Accepted(stream, _) => {
                if let Some((to, waker)) = self.mail.get(self.next) {
                    // A thread that is gone has failed, and the whole responder with it.
                    let _ = to.send(stream);
                    waker.wake();
                    self.next = (self.next + 1) % self.mail.len();
                }
            }
            IoEvent::Data(id, bytes) => {
                let Some(peer) = self.peers.get_mut(id.slot()) else { return true };
                let n = peer.hear(bytes, self.config.copy, &mut self.answers);
                let Some((version, n)) = n else {
                    self.io.close(id);
                    return true;
                };
                let answers = self.answers.get(rank(version));
                let answers = answers.and_then(|all| all.bytes.get(..n * all.len));
                say(&mut self.io, id, peer, answers);
            }
            IoEvent::Writable(id) => {
                let Some(peer) = self.peers.get_mut(id.slot()) else { return true };
                say(&mut self.io, id, peer, None);
                if peer.pending.is_empty() {
                    self.io.set_reading(id, Reading::On);
                }
            }
            _ => {}
        }
        true
    }

    fn adopt(&mut self, stream: TcpStream) {
        // A connection that cannot be set or taken is closed: the bench says that a switch is missing.
        if self.config.socket.apply(&stream).is_err() {
            return;
        }
        let Ok(id) = self.io.adopt(stream) else { return };
        if self.peers.len() <= id.slot() {
            self.peers.resize_with(id.slot() + 1, Peer::default);
        }
        if let Some(peer) = self.peers.get_mut(id.slot()) {
            *peer = Peer::default();
        }
    }
}

/// Sends what waits, then `bytes`; what does not go is kept, and nothing is read until it is gone.
fn say(io: &mut Epoll, id: ConnId, peer: &mut Peer, bytes: Option<&[u8]>) {
    let bytes = bytes.unwrap_or_default();
    if !peer.pending.is_empty() {
        let sent = io.send(id, &peer.pending);
        peer.pending.drain(..sent.min(peer.pending.len()));
    }
    let sent = if peer.pending.is_empty() && !bytes.is_empty() { io.send(id, bytes) } else { 0 };
    peer.pending.extend_from_slice(bytes.get(sent..).unwrap_or_default());
    if !peer.pending.is_empty() {
        io.set_reading(id, Reading::Off);
    }
}

impl Peer {
    /// Reads messages; returns their version and how many requests there were. `None` if these are no messages.
    fn hear(
        &mut self,
        bytes: &[u8],
        copy: ReplyContent,
        answers: &mut [Answers; VERSIONS],
    ) -> Option<(u8, usize)> {
        let mut n = 0;
        let mut version = 1;
        let mut rest = bytes;
        if !self.torn.is_empty() {
            let used = self.mend(rest)?;
            rest = rest.get(used..).unwrap_or_default();
            let torn = std::mem::take(&mut self.torn);
            let whole = matches!(*torn.as_slice(), [_, _, high, low, ..] if usize::from(u16::from_be_bytes([high, low])) == torn.len());
            if !whole {
                self.torn = torn;
                return Some((version, 0));
            }
            self.walk(&torn, copy, answers, &mut n, &mut version)?;
            self.torn = torn;
            self.torn.clear();
        }
        let left = self.walk(rest, copy, answers, &mut n, &mut version)?;
        self.torn.extend_from_slice(rest.get(rest.len() - left..).unwrap_or_default());
        Some((version, n))
    }

    /// Completes the torn message as far as `bytes` go; returns how many were used.
    fn mend(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        loop {
            let wanted = match *self.torn.as_slice() {
                [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => 4,
            };
            let missing = wanted.checked_sub(self.torn.len())?;
            let more = bytes.get(used..bytes.len().min(used + missing))?;
            self.torn.extend_from_slice(more);
            used += more.len();
            if missing == 0 || more.len() < missing {
                return Some(used);
            }
        }
    }

    /// Walks over whole messages; returns how many bytes are left.
    fn walk(
        &mut self,
        bytes: &[u8],
        copy: ReplyContent,
        answers: &mut [Answers; VERSIONS],
        n: &mut usize,
        version: &mut u8,
    ) -> Option<usize> {
        let mut rest = bytes;
        *version = bytes.first().copied().unwrap_or(*version);
        let answers = answers.get_mut(rank(*version))?;
        let (len, at) = (answers.len, answers.buffer_at);
        let mut places = answers.bytes.chunks_exact_mut(len).skip(*n);
        while let Some(head) = rest.first_chunk::<12>() {
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            if len < 8 {
                return None;
            }
            let Some((msg, after)) = rest.split_at_checked(len) else { return Some(rest.len()) };
            rest = after;
            if head[1] != 10 {
                self.hear_rare(msg);
                continue;
            }
            let place = places.next()?;
            *n += 1;
            if copy == ReplyContent::BufferId
                && let Some(place) = place.get_mut(at..at + 4)
            {
                place.copy_from_slice(&head[8..12]);
            }
        }
        // The last message may be a header alone.
        while let Some(head) = rest.first_chunk::<8>() {
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            if len < 8 {
                return None;
            }
            let Some((msg, after)) = rest.split_at_checked(len) else { break };
            self.hear_rare(msg);
            rest = after;
        }
        Some(rest.len())
    }

    /// Shakes hands, and answers `ECHO_REQUEST`.
    #[cold]
    fn hear_rare(&mut self, msg: &[u8]) {
        let Some(&[version, kind, _, _, a, b, c, d]) = msg.first_chunk::<8>() else { return };
        let xid = u32::from_be_bytes([a, b, c, d]);
        let mut next_xid = xid;
        let mut out = Encoder::new(&mut self.pending, Version(version), &mut next_xid);
        match kind {
            0 => {
                // A header alone says: this version, and those below.
                let _ = out.raw(sluice_openflow::MessageType::HELLO, 1, &[]);
                out.features_request();
            }
            2 => _ = out.echo_reply(xid, msg.get(8..).unwrap_or_default()),
            6 => _ = out.set_config(SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() }),
            _ => {}
        }
    }
}

/// The place of a version's answers. Any byte has one: who speaks what nobody does is answered in 1.5.
fn rank(version: u8) -> usize {
    usize::from(version.saturating_sub(1)).min(VERSIONS - 1)
}

impl Answers {
    fn new(version: Version, rules: u8) -> Self {
        let (mut tx, mut xid) = (vec![], 1);
        let fields = [
            Field::in_port(PortNo(1)),
            Field::eth_dst(MacAddr([0; 6])),
            Field::eth_src(MacAddr([0; 6])),
            Field::vlan(VlanId(0)),
        ];
        // A fixed match is as long without them, and says then that it is for no pair of addresses.
        let wanted = if version < Version::V1_2 { 0 } else { fields.len() };
        let rule = FlowMod {
            matching: fields.into_iter().take(wanted).collect(),
            instructions: vec![Instruction::apply([Action::output(PortNo(2))])],
            ..FlowMod::default()
        };
        // Every version can say it.
        let _ = Encoder::new(&mut tx, version, &mut xid).flow_mod(&rule);
        let rules = usize::from(rules.clamp(1, RULES_MAX));
        let buffer_at = if version == Version::V1_0 { 64 } else { 32 } + tx.len() * (rules - 1);
        let answer = tx.repeat(rules);
        Self {
            len: answer.len(),
            bytes: answer.repeat(READ_BYTES_MAX / REQUEST_LEN_MIN),
            buffer_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_a_learning_controllers() {
        let lens =
            sluice_openflow::Versions::SPOKEN.iter().map(|version| Answers::new(version, 1).len);
        assert_eq!(lens.collect::<Vec<_>>(), ANSWER_LENS);
    }

    #[test]
    fn the_last_rule_of_an_answer_has_the_buffer() {
        let mut peer = Peer::default();
        let mut answers = [1, 2, 3, 4, 5, 6].map(|byte| Answers::new(Version(byte), 2));
        let mut request = vec![1, 10, 0, 18, 0, 0, 0, 1, 0, 0, 0, 7];
        request.resize(18, 0);
        assert_eq!(peer.hear(&request, ReplyContent::BufferId, &mut answers), Some((1, 1)));
        let answer = &answers[0].bytes[..160];
        let buffers = answer.chunks(80).map(|rule| rule[64..68].to_vec());
        assert_eq!(buffers.collect::<Vec<_>>(), [vec![255; 4], vec![0, 0, 0, 7]]);
    }
}
