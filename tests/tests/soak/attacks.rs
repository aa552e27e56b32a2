//! Peers that misbehave.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use sluice_base::Rng;
use sluice_system_tests::{BackgroundTraffic, connect_from};

use crate::peer::{Peer, Profile, broadcast, kind, message};
use crate::subject::{Subject, closed, metric};

/// The address of all of them.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Time between two steps of an attack.
const STEP: Duration = Duration::from_millis(20);

/// Connections that an attack keeps. With one more at each step, the oldest is older than the timeout of handshakes.
const PEERS: usize = 150;

/// Backlog above which the controller stops reading from a switch (`limits.backlog_bytes_max`).
const BACKLOG_BYTES_MAX: u64 = 256 << 10;

/// How an attack shows.
#[derive(Debug, Clone, Copy)]
enum Evidence {
    /// Connections end with this reason.
    Closed(&'static str),
    /// More bytes wait than for one switch that is served as usual.
    Backlog,
}

impl Evidence {
    fn value(self) -> u64 {
        match self {
            Self::Closed(reason) => closed(reason),
            Self::Backlog => metric("sluice_backlog_bytes", ""),
        }
    }
}

/// A kind of peers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Makes the step that is called again and again.
    steps: fn(SocketAddr) -> Box<dyn FnMut(u32) + Send>,
    evidence: Evidence,
}

/// Peers that misbehave until this is dropped.
pub(crate) struct Attacking {
    attack: Attack,
    before: u64,
    _steps: BackgroundTraffic,
}

impl Attack {
    pub(crate) fn begin(self, subject: &Subject<'_>) -> Attacking {
        let before = self.evidence.value();
        let step = (self.steps)(subject.to);
        Attacking { attack: self, before, _steps: BackgroundTraffic::send(STEP, step) }
    }
}

impl Attacking {
    pub(crate) fn name(&self) -> &'static str {
        self.attack.name
    }

    /// Whether the metrics show it.
    pub(crate) fn is_counted(&self) -> bool {
        let value = self.attack.evidence.value();
        match self.attack.evidence {
            Evidence::Backlog => value > BACKLOG_BYTES_MAX,
            Evidence::Closed(_) => value > self.before,
        }
    }
}

/// Switches that stop in the middle of a message. Their echo requests time out, which takes 15 s.
pub(crate) const STALLED_SWITCHES: Attack = Attack {
    name: "switches that stall in a message",
    steps: |to| {
        let stall = move |n: u64| {
            let mut peer = Peer::connect_switch(ATTACKER, to, Profile::attacking(n))?;
            let packet_in = message(kind::PACKET_IN, [0; 4], &broadcast([6, 0, 0, 0, 0, 2]));
            let (half, _) = packet_in.split_at(packet_in.len() / 2);
            peer.send_bytes(half).map(|()| peer)
        };
        let mut peers = Vec::new();
        Box::new(move |step| {
            if step < 4 {
                peers.extend(stall(step.into()));
            }
        })
    },
    evidence: Evidence::Closed("echo_timeout"),
};

/// All others.
pub(crate) const ATTACKS: [Attack; 8] = [
    Attack {
        name: "slow readers",
        steps: |to| {
            let mut peers = Vec::new();
            Box::new(move |step| {
                if step < 8 {
                    peers.extend(slow_reader(to, 10 + u64::from(step)));
                }
                peers.retain_mut(|peer: &mut SlowReader| peer.step().is_ok());
            })
        },
        evidence: Evidence::Backlog,
    },
    Attack {
        name: "handshakes that stall in a message",
        steps: |to| Box::new(keep(PEERS, move || sending(to, &[4, 0, 0]))),
        evidence: Evidence::Closed("handshake_timeout"),
    },
    Attack {
        name: "half-open handshakes",
        steps: |to| Box::new(keep(PEERS, move || sending(to, &message(kind::HELLO, [0; 4], &[])))),
        evidence: Evidence::Closed("handshake_timeout"),
    },
    Attack {
        name: "resets",
        steps: |to| {
            Box::new(move |step| {
                let hello = message(kind::HELLO, [0; 4], &[]);
                let stream = match step % 2 {
                    0 => sending(to, &hello),
                    _ => switch(to, 20).map(|peer| peer.stream),
                };
                // Without a time to linger, the kernel sends RST in the place of FIN.
                if let Ok(stream) = stream {
                    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                }
            })
        },
        evidence: Evidence::Closed("connection_reset"),
    },
    Attack {
        name: "garbage",
        steps: |to| {
            let mut rng = Rng::new(17);
            Box::new(keep(PEERS, move || {
                let mut garbage: Vec<u8> =
                    (0..200).map(|_| rng.below(256).to_le_bytes()[0]).collect();
                // A length that is received completely, so that the controller does not wait for more.
                let len = 8 + u16::from(rng.below(150).to_le_bytes()[0]);
                garbage.splice(2..4, len.to_be_bytes());
                sending(to, &garbage)
            }))
        },
        evidence: Evidence::Closed("unexpected_message"),
    },
    Attack {
        name: "switches that send garbage",
        steps: |to| {
            Box::new(move |_| {
                // The length is less than that of a header.
                let malformed = [4, kind::PACKET_IN, 0, 7, 0, 0, 0, 0];
                if let Ok(mut peer) = switch(to, 30) {
                    // The controller closes the connection then.
                    while peer.send_bytes(&malformed).is_ok() && peer.receive().is_ok() {}
                }
            })
        },
        evidence: Evidence::Closed("malformed_message"),
    },
    Attack {
        name: "switches that leave at once",
        steps: |to| Box::new(move |step| drop(switch(to, 40 + u64::from(step % 4)))),
        evidence: Evidence::Closed("closed_by_peer"),
    },
    Attack {
        name: "TLS on the port for TCP",
        steps: |to| {
            // The header of a record, and that of a ClientHello (RFC 8446 §4 and §5.1).
            Box::new(keep(PEERS, move || sending(to, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])))
        },
        evidence: Evidence::Closed("tls_on_tcp_port"),
    },
];

/// A step that opens a connection, and keeps the last `count`.
fn keep(count: usize, mut open: impl FnMut() -> io::Result<TcpStream>) -> impl FnMut(u32) {
    let mut streams = VecDeque::new();
    move |_| {
        streams.extend(open());
        if streams.len() > count {
            streams.pop_front();
        }
    }
}

/// Connects and sends `bytes`.
pub(crate) fn sending(to: SocketAddr, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = connect_from(ATTACKER, to, None)?;
    stream.write_all(bytes)?;
    Ok(stream)
}

/// Connects the `n`-th switch of the attacker, and waits until it is answered.
pub(crate) fn switch(to: SocketAddr, n: u64) -> io::Result<Peer> {
    Peer::connect_switch(ATTACKER, to, Profile::attacking(n))
}

/// A switch that sends echo requests as fast as the controller takes them, and reads little.
struct SlowReader {
    peer: Peer,
    requests: Vec<u8>,
    /// Position in the requests.
    at: usize,
}

fn slow_reader(to: SocketAddr, n: u64) -> io::Result<SlowReader> {
    let mut peer = Peer::connect_with(ATTACKER, to, Some(4096))?;
    peer.complete_handshake(Profile::attacking(n))?;
    peer.stop_blocking()?;
    let requests = message(kind::ECHO_REQUEST, [0; 4], &[0; 1000]).repeat(200);
    Ok(SlowReader { peer, requests, at: 0 })
}

impl SlowReader {
    fn step(&mut self) -> io::Result<()> {
        self.peer.try_read(1000)?;
        let rest = self.requests.get(self.at..).unwrap_or_default();
        self.at = (self.at + self.peer.try_send(rest)?) % self.requests.len();
        Ok(())
    }
}
