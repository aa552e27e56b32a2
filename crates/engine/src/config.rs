//! How the engine is set, and what it will not go beyond.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sluice_io::{WaitStrategy, sock};
use sluice_proto as proto;

/// How the engine is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where switches connect.
    pub listen: Vec<SocketAddr>,
    /// Threads that serve.
    pub workers: Workers,
    /// How sessions are held.
    pub session: proto::Config,
    /// What is set on every connection.
    pub socket: sock::Options,
    /// What is not gone beyond.
    pub limits: Limits,
}

/// Threads that serve.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workers {
    /// How many; 0 for one per core.
    pub threads: usize,
    /// Where they run.
    pub pin: Pin,
    /// How they wait.
    pub waiting: WaitStrategy,
}

/// Which core a worker runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pin {
    /// Any.
    Off,
    /// The first on the first core that the process may use, and so on round.
    #[default]
    Each,
    /// The first on the first of these, and so on round.
    Cores(Vec<usize>),
}

/// What is not gone beyond. Every limit has a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Peers that have not proved yet that they are switches: a flood of connections costs no more memory than this
    /// many. For one more, the one that has been silent for longest is ended, or else the one whose `HELLO` is the
    /// oldest, if it is older than `hello_grace`. A host with more than half of the places makes room first.
    pub handshakes_max: usize,
    /// How long a peer that has said `HELLO` keeps its place when there is no other: long enough for a switch far
    /// away to answer what it is asked, and so short that a flood which says `HELLO` keeps no switch out.
    pub hello_grace: Duration,
    /// Bytes such a peer may send before its proof: a `HELLO`, and the descriptions of some thousand ports.
    pub handshake_bytes_max: usize,
    /// Switches. A file descriptor each.
    pub switches_max: usize,
    /// Bytes that a switch may leave unread before it is read from no more.
    pub backlog_bytes_max: usize,
    /// For how long, and four round trips more, what a switch says may stay unread since its backlog is above the limit.
    /// Then it is read, and frames that come up are left out until half of the limit waits: what shows links must be heard.
    pub unread_max: Duration,
    /// Messages from switch to switch that may wait at one thread: at worst 64 KiB each, mostly a hundred bytes. Those
    /// beyond are lost, as are those to a switch whose backlog is above its limit.
    pub mail_max: usize,
    /// How long a switch may take nothing of what waits for it.
    pub stuck_timeout: Duration,
    /// How long the connection that has a datapath id may take to show that it is alive when another claims it.
    pub duplicate_timeout: Duration,
}

/// The ports that switches try: the registered one, and the one that was used before. §6.3.3.
const PORTS: [u16; 2] = [6653, 6633];

impl Default for Config {
    fn default() -> Self {
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        Self {
            listen: PORTS.iter().map(|&port| SocketAddr::new(any, port)).collect(),
            workers: Workers::default(),
            session: proto::Config::default(),
            socket: sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() },
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes_max: 4096,
            hello_grace: Duration::from_millis(500),
            handshake_bytes_max: 256 << 10,
            switches_max: 12_288,
            backlog_bytes_max: 256 << 10,
            unread_max: Duration::from_secs(2),
            mail_max: 4096,
            stuck_timeout: Duration::from_secs(30),
            duplicate_timeout: Duration::from_secs(2),
        }
    }
}
