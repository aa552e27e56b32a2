//! The control connections of all switches; discovery probes are carried over the links.

use std::io;
use std::time::Instant;

use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, sock};
use sluice_openflow::{
    Action, Encoder, MacAddr, MessageType, PortNo, RawMessage, Version, split_message, view,
};
use sluice_proto::{SwitchProfile, SwitchSession};

use super::flow_entry::PathFlowEntry;
use super::wiring::{PortPeer, Wiring};
use super::{PathsConfig, send_packet_in};

/// Ethernet types of discovery probes: LLDP, and the BDDP of ONOS and Floodlight (0x8942).
const PROBE_ETHERTYPES: [[u8; 2]; 2] = [[0x88, 0xcc], [0x89, 0x42]];

/// A message of the controller that matters for the measurement.
#[derive(Debug, Clone, Copy)]
pub(super) enum ControllerMessage {
    FlowEntry(PathFlowEntry),
    /// A packet-out to a port.
    PacketOut {
        out_port: PortNo,
        dst: MacAddr,
        src: MacAddr,
    },
}

/// The control connections of all switches.
#[derive(Debug)]
pub(super) struct SwitchConnections {
    io: Epoll,
    connections: Vec<SwitchConnection>,
    /// The switch of each connection slot.
    owners: Vec<usize>,
    /// Probes in transit, with the port at which they arrive.
    probes: Vec<(usize, PortNo, Vec<u8>)>,
}

/// The control connection of one switch.
#[derive(Debug)]
struct SwitchConnection {
    conn: Option<ConnId>,
    session: SwitchSession,
    version: Version,
    /// The start of an incomplete message.
    partial: Vec<u8>,
    tx: Vec<u8>,
}

impl SwitchConnections {
    pub(super) fn new(config: &PathsConfig, waiting: WaitStrategy) -> io::Result<Self> {
        let mut connections =
            Self { io: Epoll::new(waiting)?, connections: vec![], owners: vec![], probes: vec![] };
        let socket = sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() };
        for (n, switch) in config.topology.switches.iter().enumerate() {
            let stream = sock::start_connect(config.controller, &socket)?;
            let conn = connections.io.adopt_connecting(stream)?;
            if connections.owners.len() <= conn.slot() {
                connections.owners.resize(conn.slot() + 1, usize::MAX);
            }
            if let Some(owner) = connections.owners.get_mut(conn.slot()) {
                *owner = n;
            }
            let profile = SwitchProfile {
                datapath_id: switch.datapath_id,
                version: config.version,
                n_ports: u16::try_from(switch.n_ports).unwrap_or(u16::MAX),
                n_buffers: 0,
            };
            let mut tx = Vec::new();
            let session = SwitchSession::open(profile, &mut tx);
            let (conn, version, partial) = (Some(conn), config.version, vec![]);
            connections.connections.push(SwitchConnection { conn, session, version, partial, tx });
        }
        Ok(connections)
    }

    /// Number of switches that are not connected.
    pub(super) fn disconnected(&self) -> usize {
        let is_known = |connection: &&SwitchConnection| {
            connection.conn.is_some() && connection.session.is_ready()
        };
        self.connections.len() - self.connections.iter().filter(is_known).count()
    }

    /// Sends a message of a switch.
    pub(super) fn send(&mut self, switch: usize, encode: impl FnOnce(&mut Encoder<'_>)) {
        if let Some(connection) = self.connections.get_mut(switch) {
            encode(&mut connection.session.encoder(&mut connection.tx));
        }
    }

    /// Sends pending bytes, waits for an event or `until`, and reports flow entries and packet-outs with the time and
    /// switch.
    pub(super) fn run_once(
        &mut self,
        until: Instant,
        wiring: &Wiring,
        mut on_message: impl FnMut(Instant, usize, ControllerMessage),
    ) -> io::Result<Instant> {
        self.flush();
        let now = self.io.wait(Some(until))?;
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    let switch = self.owners.get(id.slot()).copied().unwrap_or(usize::MAX);
                    let Some(connection) = self.connections.get_mut(switch) else { continue };
                    let mut on_message = |message| on_message(now, switch, message);
                    let carry = |port, frame: &[u8], probes: &mut Vec<_>| {
                        if let PortPeer::Switch(there) = wiring.peer(switch, port) {
                            probes.push((there.switch, there.port, frame.to_vec()));
                        }
                    };
                    let probes = &mut self.probes;
                    if !connection.receive(bytes, &mut on_message, &mut |port, frame| {
                        carry(port, frame, probes);
                    }) {
                        connection.conn = None;
                        self.io.close(id);
                    }
                }
                IoEvent::Closed(id, _) => {
                    let switch = self.owners.get(id.slot()).copied().unwrap_or(usize::MAX);
                    if let Some(connection) = self.connections.get_mut(switch) {
                        connection.conn = None;
                    }
                }
                _ => {}
            }
        }
        for (switch, port, frame) in std::mem::take(&mut self.probes) {
            self.send(switch, |out| send_packet_in(port, &frame, out));
        }
        Ok(now)
    }

    fn flush(&mut self) {
        for connection in &mut self.connections {
            if let Some(conn) = connection.conn.filter(|_| !connection.tx.is_empty()) {
                let sent = self.io.send(conn, &connection.tx);
                connection.tx.drain(..sent);
            }
        }
    }
}

impl SwitchConnection {
    /// Handles received bytes; `false` if the connection must be closed.
    fn receive(
        &mut self,
        bytes: &[u8],
        on_message: &mut impl FnMut(ControllerMessage),
        carry: &mut impl FnMut(PortNo, &[u8]),
    ) -> bool {
        let mut partial = std::mem::take(&mut self.partial);
        let mut rest = if partial.is_empty() {
            bytes
        } else {
            partial.extend_from_slice(bytes);
            &partial
        };
        loop {
            match split_message(rest) {
                Ok(Some((msg, after))) => {
                    rest = after;
                    if !self.handle_message(msg, on_message, carry) {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        self.partial = rest.to_vec();
        true
    }

    fn handle_message(
        &mut self,
        msg: RawMessage<'_>,
        on_message: &mut impl FnMut(ControllerMessage),
        carry: &mut impl FnMut(PortNo, &[u8]),
    ) -> bool {
        match msg.kind() {
            MessageType::FLOW_MOD => {
                if let Some(entry) = PathFlowEntry::parse(self.version, msg.bytes()) {
                    on_message(ControllerMessage::FlowEntry(entry));
                }
                true
            }
            MessageType::PACKET_OUT => {
                let Ok(packet_out) = view::PacketOut::new(msg) else { return false };
                let Ok(actions) = packet_out.actions() else { return false };
                let Some(start) = packet_out.frame.first_chunk::<14>() else { return true };
                let [dst, src] = [0, 6].map(|at| mac(start, at));
                let is_probe = PROBE_ETHERTYPES.contains(&[start[12], start[13]]);
                for action in actions {
                    let Action::Output { port, .. } = action else { continue };
                    if is_probe {
                        carry(port, packet_out.frame);
                    } else {
                        on_message(ControllerMessage::PacketOut { out_port: port, dst, src });
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
