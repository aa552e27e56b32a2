//! A peer of the controller that speaks as much OpenFlow 1.3 as a switch needs, and what a switch should not send.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use sluice_system_tests::{LONG_TIMEOUT, connect_from};

const VERSION: u8 = 4;

/// Message types, §A.1.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0;
    pub(crate) const ECHO_REQUEST: u8 = 2;
    pub(crate) const ECHO_REPLY: u8 = 3;
    pub(crate) const FEATURES_REQUEST: u8 = 5;
    pub(crate) const FEATURES_REPLY: u8 = 6;
    pub(crate) const PACKET_IN: u8 = 10;
    pub(crate) const PORT_STATUS: u8 = 12;
    pub(crate) const PACKET_OUT: u8 = 13;
    pub(crate) const MULTIPART_REQUEST: u8 = 18;
    pub(crate) const MULTIPART_REPLY: u8 = 19;
    pub(crate) const BARRIER_REQUEST: u8 = 20;
    pub(crate) const BARRIER_REPLY: u8 = 21;
}

/// Types of multipart messages.
pub(crate) const FLOW: u16 = 1;
pub(crate) const PORT_DESC: u16 = 13;

/// Bytes of the description of a port.
pub(crate) const PORT_LEN: usize = 64;

/// Descriptions in one part of a port description.
const PORTS_PER_PART: usize = 1000;

/// What a switch reports in the handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    pub(crate) datapath_id: u64,
    pub(crate) ports: u32,
}

impl Profile {
    /// A switch with four ports.
    pub(crate) fn new(datapath_id: u64) -> Self {
        Self { datapath_id, ports: 4 }
    }

    /// The attacker's `n`-th switch.
    pub(crate) fn attacking(n: u64) -> Self {
        Self::new(1000 + n)
    }
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) xid: [u8; 4],
    pub(crate) body: Vec<u8>,
}

/// A connection to the controller.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

impl Peer {
    /// Connects from `source` and sends nothing.
    pub(crate) fn connect(source: Ipv4Addr, to: SocketAddr) -> io::Result<Self> {
        Self::connect_with(source, to, None)
    }

    /// Connects from `source` with a receive buffer of `bytes`.
    pub(crate) fn connect_with(
        source: Ipv4Addr,
        to: SocketAddr,
        bytes: Option<usize>,
    ) -> io::Result<Self> {
        let stream = connect_from(source, to, bytes)?;
        stream.set_read_timeout(Some(LONG_TIMEOUT))?;
        stream.set_write_timeout(Some(LONG_TIMEOUT))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Connects as a switch, and returns when the controller has answered its first packet-in.
    pub(crate) fn connect_switch(
        source: Ipv4Addr,
        to: SocketAddr,
        profile: Profile,
    ) -> io::Result<Self> {
        let mut peer = Self::connect(source, to)?;
        peer.complete_handshake(profile)?;
        Ok(peer)
    }

    /// Performs the handshake of a switch, sends a packet-in, and waits for a packet-out.
    pub(crate) fn complete_handshake(&mut self, profile: Profile) -> io::Result<()> {
        self.send_handshake(profile)?;
        self.send(kind::PACKET_IN, [0; 4], &broadcast([6, 0, 0, 0, 0, 1]))?;
        loop {
            let message = self.receive()?;
            if message.kind == kind::PACKET_OUT {
                return Ok(());
            }
            self.answer(&message)?;
        }
    }

    /// Performs the handshake of a switch, whose datapath id may be in use.
    pub(crate) fn send_handshake(&mut self, profile: Profile) -> io::Result<()> {
        self.send(kind::HELLO, [0; 4], &[])?;
        loop {
            let message = self.receive()?;
            match message.kind {
                kind::FEATURES_REQUEST => {
                    let features = features(profile.datapath_id);
                    self.send(kind::FEATURES_REPLY, message.xid, &features)?;
                }
                kind::MULTIPART_REQUEST if multipart_type(&message) == PORT_DESC => {
                    return self.send_ports(message.xid, profile.ports);
                }
                _ => self.answer(&message)?,
            }
        }
    }

    /// Waits for the request of the features, and returns its transaction id. The request of the port descriptions has the next.
    pub(crate) fn exchange_hello(&mut self) -> io::Result<u32> {
        self.send(kind::HELLO, [0; 4], &[])?;
        loop {
            let message = self.receive()?;
            if message.kind == kind::FEATURES_REQUEST {
                return Ok(u32::from_be_bytes(message.xid));
            }
        }
    }

    /// Sends an echo request and waits for the reply, answering what the controller asks for meanwhile.
    pub(crate) fn echo(&mut self) -> io::Result<()> {
        self.request_echo()?;
        self.await_echo()
    }

    pub(crate) fn request_echo(&mut self) -> io::Result<()> {
        self.send(kind::ECHO_REQUEST, [0; 4], &[])
    }

    /// Waits for an echo reply, answering what the controller asks for meanwhile.
    pub(crate) fn await_echo(&mut self) -> io::Result<()> {
        loop {
            let message = self.receive()?;
            if message.kind == kind::ECHO_REPLY {
                return Ok(());
            }
            self.answer(&message)?;
        }
    }

    /// Sends a part of a multipart reply.
    pub(crate) fn send_part(
        &mut self,
        xid: [u8; 4],
        kind: u16,
        more: More,
        body: &[u8],
    ) -> io::Result<()> {
        let flags = u16::from(more == More::Yes);
        let head = [kind.to_be_bytes(), flags.to_be_bytes(), [0; 2], [0; 2]].concat();
        self.send(kind::MULTIPART_REPLY, xid, &[&head, body].concat())
    }

    fn send_ports(&mut self, xid: [u8; 4], ports: u32) -> io::Result<()> {
        let numbers: Vec<_> = (1..=ports).collect();
        let mut chunks = numbers.chunks(PORTS_PER_PART).peekable();
        while let Some(part) = chunks.next() {
            let more = if chunks.peek().is_some() { More::Yes } else { More::No };
            let body: Vec<u8> = part.iter().flat_map(|&n| port(n, LinkState::Up)).collect();
            self.send_part(xid, PORT_DESC, more, &body)?;
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, kind: u8, xid: [u8; 4], body: &[u8]) -> io::Result<()> {
        self.stream.write_all(&message(kind, xid, body))
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Answers a request as a switch without flow entries.
    fn answer(&mut self, request: &Received) -> io::Result<()> {
        match request.kind {
            kind::ECHO_REQUEST => self.send(kind::ECHO_REPLY, request.xid, &request.body),
            kind::BARRIER_REQUEST => self.send(kind::BARRIER_REPLY, request.xid, &[]),
            kind::MULTIPART_REQUEST if multipart_type(request) == FLOW => {
                self.send_part(request.xid, FLOW, More::No, &[])
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(message) = self.next_message() {
                return Ok(message);
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(Error::from(ErrorKind::UnexpectedEof)),
                n => self.received.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn next_message(&mut self) -> Option<Received> {
        let head = self.received.first_chunk::<8>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (kind, xid) = (head[1], [head[4], head[5], head[6], head[7]]);
        let body = self.received.get(8..len)?.to_vec();
        self.received.drain(..len);
        Some(Received { kind, xid, body })
    }

    /// From now on sends and reads what is possible at once.
    pub(crate) fn stop_blocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    /// Sends as much of `bytes` as the connection takes; returns how much.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        none_if_blocked(self.stream.write(bytes))
    }

    /// Reads at most `len` bytes and discards them; returns how many.
    pub(crate) fn try_read(&mut self, len: usize) -> io::Result<usize> {
        none_if_blocked(self.stream.read(&mut vec![0; len]))
    }

    /// Limits the time that a read may take.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }
}

fn none_if_blocked(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

/// Whether more parts of a multipart reply follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

/// State of a port's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    Up,
    Down,
}

/// A message as bytes.
pub(crate) fn message(kind: u8, xid: [u8; 4], body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + body.len()).unwrap();
    [&[VERSION, kind], &len.to_be_bytes()[..], &xid, body].concat()
}

/// The body of a `PORT_STATUS` about the new port `n`.
pub(crate) fn new_port(n: u32) -> Vec<u8> {
    [&[0; 8][..], &port(n, LinkState::Up)].concat()
}

/// The body of a `PORT_STATUS` about the modification of port `n`.
pub(crate) fn port_status(n: u32, state: LinkState) -> Vec<u8> {
    const MODIFY: u8 = 2;
    [&[MODIFY, 0, 0, 0, 0, 0, 0, 0][..], &port(n, state)].concat()
}

/// The body of a packet-in at port 1 with a broadcast of `src`, §A.4.1.
pub(crate) fn broadcast(src: [u8; 6]) -> Vec<u8> {
    const NO_BUFFER: [u8; 4] = [0xff; 4];
    const FRAME_LEN: u16 = 60;
    let mut body = NO_BUFFER.to_vec();
    body.extend(FRAME_LEN.to_be_bytes());
    // Reason, table, cookie.
    body.extend([0; 10]);
    // A match with the input port, padded to a multiple of 8.
    body.extend([0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
    body.extend([0; 2]);
    let frame_at = body.len();
    body.extend([0xff; 6]);
    body.extend(src);
    body.extend([0x08, 0x00]);
    body.resize(frame_at + usize::from(FRAME_LEN), 0);
    body
}

/// The body of a `FEATURES_REPLY`.
fn features(datapath_id: u64) -> Vec<u8> {
    const BUFFERS: u32 = 0;
    const TABLES_AND_PADDING: [u8; 4] = [1, 0, 0, 0];
    const CAPABILITIES_AND_RESERVED: [u8; 8] = [0; 8];
    [
        &datapath_id.to_be_bytes()[..],
        &BUFFERS.to_be_bytes(),
        &TABLES_AND_PADDING,
        &CAPABILITIES_AND_RESERVED,
    ]
    .concat()
}

/// The description of port `n`, §A.2.1.
fn port(n: u32, state: LinkState) -> [u8; PORT_LEN] {
    const LINK_DOWN: u8 = 1;
    const LIVE: u8 = 4;
    let mut port = [0; PORT_LEN];
    port[..4].copy_from_slice(&n.to_be_bytes());
    port[8] = 2;
    port[10..14].copy_from_slice(&n.to_be_bytes());
    port[39] = if state == LinkState::Up { LIVE } else { LINK_DOWN };
    port
}

fn multipart_type(request: &Received) -> u16 {
    request.body.first_chunk().map_or(0, |&kind| u16::from_be_bytes(kind))
}
