//! The control connections of the model switches.

use std::io::ErrorKind;
use std::time::Instant;

use sluice_io::sock::EffectiveOptions;
use sluice_io::{ConnId, Epoll, Io, IoEvent, clock, sock};

use super::measurement::PathMeasurement;
use super::network::ModelNetwork;
use crate::bench_switch::{DisconnectReason, Lifecycle, UNSENT_MAX};
use crate::connect::CONNECTING_MAX;
use crate::{Error, Plan};

/// The control connections of all switches.
#[derive(Debug)]
pub(super) struct ControlConnections {
    io: Epoll,
    connections: Vec<ControlConnection>,
    /// The switch of each connection slot.
    by_slot: Vec<usize>,
    /// Number of switches whose handshake is complete.
    ready: u64,
}

/// The control connection of one switch.
#[derive(Debug, Default)]
pub(super) struct ControlConnection {
    conn: Option<ConnId>,
    pub(super) lifecycle: Lifecycle,
}

impl ControlConnections {
    pub(super) fn new(io: Epoll, switches: usize) -> Self {
        let connections = (0..switches).map(|_| ControlConnection::default()).collect();
        Self { io, connections, by_slot: vec![], ready: 0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ControlConnection> {
        self.connections.iter()
    }

    /// Options of one of the connections as the kernel has them.
    pub(super) fn effective_options(&mut self) -> Option<EffectiveOptions> {
        let id = self.connections.iter().find_map(|connection| connection.conn)?;
        self.io.effective_options(id)
    }

    /// Number of switches that are connected and whose handshake is complete.
    pub(super) fn ready(&self) -> u64 {
        self.ready
    }

    /// Whether a switch has neither completed its handshake nor lost its connection.
    pub(super) fn is_waiting(&self) -> bool {
        self.connections
            .iter()
            .any(|it| it.lifecycle.ready.is_none() && it.lifecycle.disconnect_reason.is_none())
    }

    /// Starts connecting further switches, a limited number at a time.
    pub(super) fn start_connecting(&mut self, plan: &Plan) -> Result<(), Error> {
        let is_connecting = |it: &&ControlConnection| {
            let Lifecycle { connect_started, connected, disconnect_reason, .. } = &it.lifecycle;
            connect_started.is_some() && connected.is_none() && disconnect_reason.is_none()
        };
        let connecting = self.connections.iter().filter(is_connecting).count();
        let is_new =
            |it: &(usize, &mut ControlConnection)| it.1.lifecycle.connect_started.is_none();
        let new = self.connections.iter_mut().enumerate().filter(is_new);
        for (switch, connection) in new.take(CONNECTING_MAX.saturating_sub(connecting)) {
            let target = plan.targets.get(switch % plan.targets.len().max(1));
            let Some(&target) = target else { return Ok(()) };
            connection.lifecycle.connect_started = Some(clock::now());
            let stream = sock::start_connect(target, &plan.socket).map_err(|e| match e.kind() {
                ErrorKind::NotFound => {
                    Error::Congestion(plan.socket.congestion.clone().unwrap_or_default(), e)
                }
                _ => Error::ConnectFailed(target, e),
            })?;
            let id = self.io.adopt_connecting(stream)?;
            connection.conn = Some(id);
            if self.by_slot.len() <= id.slot() {
                self.by_slot.resize(id.slot() + 1, usize::MAX);
            }
            if let Some(slot) = self.by_slot.get_mut(id.slot()) {
                *slot = switch;
            }
        }
        Ok(())
    }

    /// Fails unless all switches have completed the handshake: a network with missing switches has other paths.
    pub(super) fn check_ready(&self, plan: &Plan) -> Result<(), Error> {
        let all = self.connections.len() as u64;
        if self.ready == all {
            return Ok(());
        }
        let reason = self.connections.iter().find_map(|it| it.lifecycle.disconnect_reason.clone());
        let connected =
            self.connections.iter().filter(|it| it.lifecycle.connected.is_some()).count();
        if connected == 0 {
            let target = plan.targets.first().copied();
            let target = target.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
            let reason = reason.unwrap_or_else(|| "no answer".into());
            return Err(Error::ConnectFailed(target, std::io::Error::other(reason)));
        }
        if self.ready == 0 {
            return Err(Error::HandshakeFailed {
                switches: plan.switches,
                connected: u32::try_from(connected).unwrap_or(u32::MAX),
                after_s: plan.handshake_timeout.as_secs(),
                reason,
            });
        }
        Err(Error::SwitchesMissing { missing: all - self.ready, switches: all, reason })
    }

    /// Sends pending bytes, waits for an event or `until`, and processes everything received. Returns the
    /// time at the end of the wait.
    pub(super) fn run_once(
        &mut self,
        until: Option<Instant>,
        measurement: &mut PathMeasurement,
    ) -> Result<Instant, Error> {
        self.send(&mut measurement.network);
        let now = self.io.wait(until)?;
        while let Some(event) = self.io.next_event() {
            let network = &mut measurement.network;
            let (IoEvent::Data(id, _) | IoEvent::Connected(id) | IoEvent::Closed(id, _)) = event
            else {
                continue;
            };
            let Some(&switch) = self.by_slot.get(id.slot()) else { continue };
            let Some(connection) = self.connections.get_mut(switch) else { continue };
            if connection.conn != Some(id) {
                continue;
            }
            match event {
                IoEvent::Data(_, bytes) => {
                    let result = network.on_control_bytes(now, switch, bytes);
                    if connection.lifecycle.ready.is_none() && network.is_ready(switch) {
                        connection.lifecycle.ready = Some(clock::now());
                        self.ready += 1;
                    }
                    measurement.on_received(switch);
                    if let Err(error) = result {
                        let reason = DisconnectReason::Protocol(error).to_string();
                        self.close(now, switch, &mut measurement.network, reason);
                    }
                }
                IoEvent::Connected(_) => {
                    connection.lifecycle.connected = Some(clock::now());
                    network.on_connected(now, switch);
                }
                IoEvent::Closed(_, error) => {
                    let reason = error.map_or_else(
                        || "the controller closed the connection".into(),
                        |e| e.to_string(),
                    );
                    self.close(now, switch, network, reason);
                }
                _ => {}
            }
        }
        Ok(now)
    }

    #[cold]
    fn close(&mut self, now: Instant, switch: usize, network: &mut ModelNetwork, reason: String) {
        let Some(connection) = self.connections.get_mut(switch) else { return };
        let Some(id) = connection.conn.take() else { return };
        self.ready -= u64::from(connection.lifecycle.ready.is_some());
        connection.lifecycle.disconnect_reason = Some(reason);
        network.on_disconnected(now, switch);
        self.io.close(id);
    }

    fn send(&mut self, network: &mut ModelNetwork) {
        for switch in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(switch) else { return };
            let Some(out) = network.output(switch) else { return };
            let Some(conn) = connection.conn.filter(|_| !out.control.is_empty()) else { continue };
            if connection.lifecycle.connected.is_none() {
                continue;
            }
            let sent = self.io.send(conn, &out.control);
            out.control.drain(..sent.min(out.control.len()));
            if out.control.len() > UNSENT_MAX {
                let reason = DisconnectReason::RepliesNotRead.to_string();
                self.close(clock::now(), switch, network, reason);
            }
        }
    }
}
