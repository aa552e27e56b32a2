//! The connections of the switches: bytes in and out, probes carried over links.

use std::io;
use std::time::Instant;

use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, sock};
use sluice_openflow::{
    Action, Encoder, MacAddr, MessageType, PacketOutView, PortNo, RawMessage, Version,
    split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};

use super::said::Rule;
use super::wiring::{End, Wiring};
use super::{Plan, comes_up};

/// What the frames are by which controllers look for links: LLDP, and what some send through networks of others.
const PROBES: [[u8; 2]; 2] = [[0x88, 0xcc], [0x89, 0x42]];

/// What a controller said to a switch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said {
    Rule(Rule),
    /// A frame goes out of a port.
    RawMessage {
        out_port: PortNo,
        dst: MacAddr,
        src: MacAddr,
    },
}

/// The connections of all switches.
#[derive(Debug)]
pub(super) struct Lines {
    io: Epoll,
    all: Vec<Line>,
    /// Whose connection is in which slot.
    owners: Vec<usize>,
    /// Probes on their way: where they come in.
    probes: Vec<(usize, PortNo, Vec<u8>)>,
}

/// The connection of one switch.
#[derive(Debug)]
struct Line {
    conn: Option<ConnId>,
    session: SwitchSession,
    version: Version,
    /// What was heard of a message whose rest has not come.
    torn: Vec<u8>,
    tx: Vec<u8>,
}

impl Lines {
    pub(super) fn new(plan: &Plan, waiting: WaitStrategy) -> io::Result<Self> {
        let mut lines =
            Self { io: Epoll::new(waiting)?, all: vec![], owners: vec![], probes: vec![] };
        let socket = sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() };
        for (n, switch) in plan.topology.switches.iter().enumerate() {
            let stream = sock::start_connect(plan.to, &socket)?;
            let conn = lines.io.adopt_connecting(stream)?;
            if lines.owners.len() <= conn.slot() {
                lines.owners.resize(conn.slot() + 1, usize::MAX);
            }
            if let Some(owner) = lines.owners.get_mut(conn.slot()) {
                *owner = n;
            }
            let plan = SwitchProfile {
                datapath_id: switch.datapath_id,
                version: plan.version,
                n_ports: u16::try_from(switch.n_ports).unwrap_or(u16::MAX),
                n_buffers: 0,
            };
            let mut tx = Vec::new();
            let session = SwitchSession::open(plan, &mut tx);
            let (conn, version, torn) = (Some(conn), plan.version, vec![]);
            lines.all.push(Line { conn, session, version, torn, tx });
        }
        Ok(lines)
    }

    /// Switches that the controller does not know, or knows no more.
    pub(super) fn unknown(&self) -> usize {
        let is_known = |line: &&Line| line.conn.is_some() && line.session.is_ready();
        self.all.len() - self.all.iter().filter(is_known).count()
    }

    /// A switch says something.
    pub(super) fn say(&mut self, switch: usize, say: impl FnOnce(&mut Encoder<'_>)) {
        if let Some(line) = self.all.get_mut(switch) {
            say(&mut line.session.encoder(&mut line.tx));
        }
    }

    /// Sends what was said, waits until something happens or `until` has come, and hands on what is heard of rules and
    /// frames: when, and by which switch.
    pub(super) fn turn(
        &mut self,
        until: Instant,
        wiring: &Wiring,
        mut hear: impl FnMut(Instant, usize, Said),
    ) -> io::Result<Instant> {
        self.send();
        let now = self.io.wait(Some(until))?;
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    let switch = self.owners.get(id.slot()).copied().unwrap_or(usize::MAX);
                    let Some(line) = self.all.get_mut(switch) else { continue };
                    let mut hear = |said| hear(now, switch, said);
                    let carry = |port, frame: &[u8], probes: &mut Vec<_>| {
                        if let End::Switch(there) = wiring.end(switch, port) {
                            probes.push((there.switch, there.port, frame.to_vec()));
                        }
                    };
                    let probes = &mut self.probes;
                    if !line.hear(bytes, &mut hear, &mut |port, frame| carry(port, frame, probes)) {
                        line.conn = None;
                        self.io.close(id);
                    }
                }
                IoEvent::Closed(id, _) => {
                    let switch = self.owners.get(id.slot()).copied().unwrap_or(usize::MAX);
                    if let Some(line) = self.all.get_mut(switch) {
                        line.conn = None;
                    }
                }
                _ => {}
            }
        }
        for (switch, port, frame) in std::mem::take(&mut self.probes) {
            self.say(switch, |out| comes_up(port, &frame, out));
        }
        Ok(now)
    }

    fn send(&mut self) {
        for line in &mut self.all {
            if let Some(conn) = line.conn.filter(|_| !line.tx.is_empty()) {
                let sent = self.io.send(conn, &line.tx);
                line.tx.drain(..sent);
            }
        }
    }
}

impl Line {
    /// Reads what came; whether the conversation goes on.
    fn hear(
        &mut self,
        bytes: &[u8],
        hear: &mut impl FnMut(Said),
        carry: &mut impl FnMut(PortNo, &[u8]),
    ) -> bool {
        let mut torn = std::mem::take(&mut self.torn);
        let mut rest = if torn.is_empty() {
            bytes
        } else {
            torn.extend_from_slice(bytes);
            &torn
        };
        loop {
            match split_message(rest) {
                Ok(Some((msg, after))) => {
                    rest = after;
                    if !self.message(msg, hear, carry) {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        self.torn = rest.to_vec();
        true
    }

    fn message(
        &mut self,
        msg: RawMessage<'_>,
        hear: &mut impl FnMut(Said),
        carry: &mut impl FnMut(PortNo, &[u8]),
    ) -> bool {
        match msg.kind() {
            MessageType::FLOW_MOD => {
                if let Some(rule) = Rule::read(self.version, msg.bytes()) {
                    hear(Said::Rule(rule));
                }
                true
            }
            MessageType::PACKET_OUT => {
                let Ok(said) = PacketOutView::new(msg) else { return false };
                let Ok(actions) = said.actions() else { return false };
                let Some(start) = said.frame.first_chunk::<14>() else { return true };
                let [dst, src] = [0, 6].map(|at| mac(start, at));
                let is_probe = PROBES.contains(&[start[12], start[13]]);
                for action in actions {
                    let Action::Output { port, .. } = action else { continue };
                    if is_probe {
                        carry(port, said.frame);
                    } else {
                        hear(Said::RawMessage { out_port: port, dst, src });
                    }
                }
                true
            }
            _ => self.session.on_message(msg, &mut self.tx).is_ok(),
        }
    }
}

fn mac(start: &[u8; 14], at: usize) -> MacAddr {
    let bytes = start.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or_else(MacAddr::default, |&bytes| MacAddr(bytes))
}
