//! The configuration of the engine, and its limits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sluice_io::{ReadSizes, TlsServer, WaitStrategy, sock};
use sluice_proto as proto;

/// The configuration of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Addresses on which switches are accepted over TCP.
    pub listen: Vec<SocketAddr>,
    /// Addresses on which switches are accepted over TLS.
    pub tls: Vec<TlsListeners>,
    /// The worker threads.
    pub workers: Workers,
    /// What the workers do for several messages at once.
    pub batching: Batching,
    /// The configuration of sessions.
    pub session: proto::Config,
    /// Options of each connection's socket.
    pub socket: sock::Options,
    /// Limits of memory and time.
    pub limits: Limits,
    /// Interval at which every switch moves to the next worker, for tests.
    pub move_interval: Option<Duration>,
}

/// Addresses on which switches are accepted over TLS, with the same settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsListeners {
    /// The addresses. No other [`TlsListeners`] may have one of them, with port 0 neither.
    pub listen: Vec<SocketAddr>,
    /// Certificate, key and authorities.
    pub server: TlsServer,
    /// Whether the certificate of a switch must have the name `dpid-` with the 16 hex digits of its datapath id.
    pub bind_datapath_id: bool,
}

impl TlsListeners {
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.listen.iter().map(|&addr| Endpoint { addr, transport: Transport::Tls })
    }
}

/// An address on which switches are accepted, and what they must use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub addr: SocketAddr,
    /// What connections use.
    pub transport: Transport,
}

/// What connections of switches use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// An address without TLS.
impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, transport: Transport::Tcp }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addr.fmt(f)?;
        match self.transport {
            Transport::Tcp => Ok(()),
            Transport::Tls => f.write_str(" (TLS)"),
        }
    }
}

impl Config {
    /// Whether the certificates of some switches must name their datapath ids.
    pub(crate) fn binds_datapath_ids(&self) -> bool {
        self.tls.iter().any(|tls| tls.bind_datapath_id)
    }

    /// Where switches are accepted.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        let tls = self.tls.iter().flat_map(TlsListeners::endpoints);
        self.listen.iter().map(|&addr| addr.into()).chain(tls)
    }
}

/// What the workers do for several messages at once. Everything by default; less is for measurements of what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Whether all packet-ins of a read are passed to the applications in one call, instead of one call for each.
    pub input: bool,
    /// Whether all messages to a switch that wait to be sent are sent in one write, instead of one write for each. An engine that sends
    /// all writes of an iteration in one system call, [`WorkerEngine::Uring`], does so in both cases.
    pub output: bool,
}

impl Default for Batching {
    fn default() -> Self {
        Self { input: true, output: true }
    }
}

/// The configuration of the worker threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// Number of threads; 0 for one per available core.
    pub threads: usize,
    /// The cores on which they run.
    pub pin: Pin,
    /// Whether an idle worker sleeps or polls.
    pub waiting: WaitStrategy,
    /// How much is read at a time, unless the engine is [`WorkerEngine::Uring`].
    pub read_sizes: ReadSizes,
    /// How they receive and send.
    pub engine: WorkerEngine,
    /// Whether switches move from a busy worker to one that is less busy.
    pub balancing: bool,
    /// Whether each worker processes what it has received. Otherwise all of them pull from a queue that they share: for measurements, and
    /// not with an engine that answers in the kernel.
    pub run_to_completion: bool,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            threads: 0,
            pin: Pin::default(),
            waiting: WaitStrategy::default(),
            read_sizes: ReadSizes::default(),
            engine: WorkerEngine::default(),
            balancing: true,
            run_to_completion: true,
        }
    }
}

/// How workers receive and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkerEngine {
    /// With `epoll`, and a system call for each read and each write.
    #[default]
    Epoll,
    /// With `io_uring`, and one system call for all small reads and writes of an iteration. Needs Linux 6.1.
    Uring,
    /// As [`Epoll`](Self::Epoll), and the kernel answers packet-ins in the place of the workers, as far as the application
    /// [publishes](sluice_sdk::App::publish_answers) how. Needs Linux 6.16 and privileges.
    Kernel,
    /// As [`Kernel`](Self::Kernel) while little is waiting and the kernel is quick, and the workers answer otherwise. If the kernel cannot,
    /// the workers answer everything, which is logged.
    Auto,
}

/// Hosts of each worker that the kernel knows, as many as `learning` has by default for one switch.
const HOSTS_IN_KERNEL: u32 = 131_072;

/// Switches that the kernel knows.
const SWITCHES_IN_KERNEL: u32 = 16_384;

/// Bytes of a socket buffer that the kernel answers while little is waiting: half a dozen packet-ins.
const INPUT_WHILE_IDLE: u32 = 600;

/// The same under any load.
const INPUT_ALWAYS: u32 = 16 << 10;

/// How long an answer of the kernel may wait for a processor before a worker would be quicker. To wake one takes some 50 microseconds.
const LATE: Duration = Duration::from_millis(1);

impl WorkerEngine {
    /// Whether a program answers in the kernel.
    pub(crate) fn is_in_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Auto)
    }

    /// The limits of the program that answers in the kernel, without memory for paths; `None` if there is none.
    pub(crate) fn kernel_limits(self, workers: usize) -> Option<sluice_kernel::Limits> {
        let (input_bytes, late) = match self {
            Self::Epoll | Self::Uring => return None,
            Self::Auto => (INPUT_WHILE_IDLE, Some(LATE)),
            Self::Kernel => (INPUT_ALWAYS, None),
        };
        Some(sluice_kernel::Limits {
            workers,
            sessions: SWITCHES_IN_KERNEL,
            hosts_per_worker: HOSTS_IN_KERNEL,
            input_bytes,
            late,
            paths: false,
        })
    }
}

/// The cores on which workers run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pin {
    /// Any core.
    Off,
    /// Each worker on a core of its own: the available cores in order, starting again if there are more workers.
    #[default]
    Each,
    /// The given cores in order, starting again if there are more workers.
    Cores(Vec<usize>),
}

/// Ports of one switch. No known switch has more; the controller ignores further ones, so that one connection cannot take the
/// memory and the time of others.
pub const PORTS_PER_SWITCH_MAX: usize = 4096;

/// Connections that a source may open at once with [`Limits::syn_filter`]. Many switches may be behind one address: those beyond wait until
/// [`SYN_INTERVAL`] has passed for each, and until they try again.
pub const SYN_BURST: u32 = 1024;

/// Time between two connections of a source after that.
pub const SYN_INTERVAL: Duration = Duration::from_millis(2);

/// Sources that the filter of SYNs remembers.
const SYN_SOURCES: u32 = 65_536;

impl Limits {
    /// What the kernel lets sources do before connections are accepted.
    pub(crate) fn syn_limit(&self) -> Option<sluice_kernel::SynLimit> {
        let (burst, interval, sources) = (SYN_BURST, SYN_INTERVAL, SYN_SOURCES);
        self.syn_filter.then_some(sluice_kernel::SynLimit { burst, interval, sources })
    }
}

/// Limits of memory and time.
///
/// `handshakes_max`, `syn_filter`, `switches_max`, `ports_max` and `backlog_bytes_max` are keys of the configuration. The defaults of the others
/// serve every network; only tests set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections in the handshake. It bounds the memory that a flood of connections costs.
    ///
    /// For one more, another connection is closed, or the new one is refused. Listeners share the number, where all TCP addresses
    /// count as one, and so does each [`TlsListeners`]: if one of them has more connections than the new one's would have, the
    /// connection to close is one of that listener; otherwise, it is one of the new one's. Among the connections of the listener,
    ///
    /// - if an address has more connections than the new one's would have, it is one of that address: the one that was accepted
    ///   first and has made no progress, or else the one whose progress is the oldest.
    /// - otherwise it is chosen among all in the same way, but progress must be older than `hello_grace`. If none is, the new
    ///   connection is refused.
    ///
    /// Progress is the `HELLO`, or with TLS the end of the TLS handshake, which comes first.
    ///
    /// Connections that claim a datapath id in use count as well, until the claim is decided, and those that wait for a busy worker.
    pub handshakes_max: usize,
    /// Whether the kernel drops SYNs of sources that open connections too fast: more than [`SYN_BURST`] at once, or then more than one every
    /// [`SYN_INTERVAL`]. So a flood costs neither a connection in the kernel nor a handshake. Needs privileges.
    pub syn_filter: bool,
    /// How long a peer that has made progress stays connected when `handshakes_max` is reached: long enough for the replies
    /// of a distant switch, and short enough that a flood of peers that send `HELLO` keeps no switch out.
    pub hello_grace: Duration,
    /// Bytes that a peer may send in the handshake: a `HELLO` and the descriptions of some thousand ports.
    pub handshake_bytes_max: usize,
    /// Connected switches. Each takes a file descriptor.
    ///
    /// For one more, the newest session of the address that has the most is closed if the new one's has fewer; otherwise the new
    /// one is refused.
    pub switches_max: usize,
    /// Ports of all connected switches, each with at most [`PORTS_PER_SWITCH_MAX`]. Most of the memory of an idle switch is for its
    /// ports.
    ///
    /// For a switch with more than are left, switches of the address that has the most ports are closed, those with the most ports
    /// first, as long as that address has more than the new one's would have; otherwise the new switch is refused.
    pub ports_max: usize,
    /// Bytes waiting to be sent to a switch above which no more messages are read from it.
    pub backlog_bytes_max: usize,
    /// Bytes waiting to be sent to all switches of a worker. If they do not suffice for `backlog_bytes_max` each, every
    /// switch with a backlog has an equal share.
    pub backlog_total_bytes_max: usize,
    /// How long a switch may stay unread because of its backlog, in addition to four round trips.
    ///
    /// After that it is read again, so that link probes arrive, and its other packet-ins are discarded until half of the
    /// backlog is left.
    pub unread_max: Duration,
    /// How long a switch may take less than 4 KiB of its backlog before it is disconnected.
    pub stuck_timeout: Duration,
    /// How long a connection may take to answer an echo request when another one has the same datapath id.
    pub duplicate_timeout: Duration,
    /// Weight of the messages and facts that may wait for a thread. A worker whose items do not fit keeps them, and reads no
    /// more from its switches until they do.
    pub queue_capacity: usize,
}

impl Limits {
    /// Reduces `handshakes_max` and `switches_max` so that there are at most `connections` together, a quarter of them in the
    /// handshake at most. There is always one of each.
    pub fn limit_connections(&mut self, connections: usize) {
        if self.handshakes_max.saturating_add(self.switches_max) > connections {
            self.handshakes_max = self.handshakes_max.min(connections / 4).max(1);
            let rest = connections.saturating_sub(self.handshakes_max);
            self.switches_max = self.switches_max.min(rest).max(1);
        }
    }
}

/// The ports to which switches connect: the registered one, and the one that was used before. §6.3.3.
const PORTS: [u16; 2] = [6653, 6633];

impl Default for Config {
    fn default() -> Self {
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        Self {
            listen: PORTS.iter().map(|&port| SocketAddr::new(any, port)).collect(),
            tls: vec![],
            workers: Workers::default(),
            batching: Batching::default(),
            session: proto::Config::default(),
            socket: sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() },
            limits: Limits::default(),
            move_interval: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes_max: 4096,
            syn_filter: false,
            hello_grace: Duration::from_millis(500),
            handshake_bytes_max: 256 << 10,
            switches_max: 12_288,
            // 42 for each switch.
            ports_max: 524_288,
            backlog_bytes_max: 256 << 10,
            backlog_total_bytes_max: 64 << 20,
            unread_max: Duration::from_secs(2),
            stuck_timeout: Duration::from_secs(30),
            duplicate_timeout: Duration::from_secs(2),
            queue_capacity: 4096,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_connections_are_reduced_only_as_far_as_needed() {
        let limited = |handshakes_max, switches_max, connections| {
            let mut limits = Limits { handshakes_max, switches_max, ..Limits::default() };
            limits.limit_connections(connections);
            (limits.handshakes_max, limits.switches_max)
        };
        assert_eq!(limited(4096, 12_288, 16_384), (4096, 12_288));
        assert_eq!(limited(4096, 12_288, 64), (16, 48));
        assert_eq!(limited(4, 12_288, 64), (4, 60));
        assert_eq!(limited(4096, 10, 64), (16, 10));
        assert_eq!(limited(4096, 12_288, 0), (1, 1));
    }
}
