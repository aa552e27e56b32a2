//! The control connections of the model switches.

use std::time::Instant;

use sluice_io::sock::EffectiveOptions;
use sluice_io::{ConnId, Epoll, Io, IoEvent, clock};

use super::measurement::PathMeasurement;
use super::network::ModelNetwork;
use crate::bench_switch::{DisconnectReason, UNSENT_MAX};
use crate::connect::{self, CONNECTING_MAX, SwitchesBySlot};
use crate::lifecycle::{self, Lifecycle, RETRY_INTERVAL, closed_reason};
use crate::{Error, Plan};

/// The control connections of all switches.
#[derive(Debug)]
pub(super) struct ControlConnections {
    io: Epoll,
    connections: Vec<ControlConnection>,
    by_slot: SwitchesBySlot,
    /// Number of switches whose handshake is complete.
    ready: u64,
}

/// The control connection of one switch.
#[derive(Debug, Default)]
struct ControlConnection {
    conn: Option<ConnId>,
    lifecycle: Lifecycle,
}

impl ControlConnections {
    pub(super) fn new(io: Epoll, switches: usize) -> Self {
        let connections = (0..switches).map(|_| ControlConnection::default()).collect();
        Self { io, connections, by_slot: SwitchesBySlot::default(), ready: 0 }
    }

    /// The connections of all switches.
    pub(super) fn lifecycles(&self) -> impl Iterator<Item = &Lifecycle> + Clone {
        self.connections.iter().map(|connection| &connection.lifecycle)
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

    /// Whether a switch has not completed its handshake and may still do so.
    pub(super) fn is_waiting(&self, plan: &Plan) -> bool {
        self.lifecycles().any(|it| it.is_waiting(plan))
    }

    /// Starts connecting further switches, a limited number at a time. Returns when to try those again that have failed.
    pub(super) fn start_connecting(
        &mut self,
        plan: &Plan,
        now: Instant,
    ) -> Result<Option<Instant>, Error> {
        let connecting = self.lifecycles().filter(|it| it.is_connecting()).count();
        let all = self.connections.iter_mut().enumerate();
        let due = all.filter(|(_, it)| it.lifecycle.is_due(plan, now));
        for (switch, connection) in due.take(CONNECTING_MAX.saturating_sub(connecting)) {
            let id = connect::start(&mut self.io, plan, switch)?;
            connection.conn = Some(id);
            connection.lifecycle = Lifecycle { connect_started: Some(now), ..Lifecycle::default() };
            self.by_slot.insert(id, switch);
        }
        Ok(self.lifecycles().any(|it| it.retries(plan)).then_some(now + RETRY_INTERVAL))
    }

    /// Fails unless all switches have completed the handshake: a network with missing switches has other paths.
    pub(super) fn check_ready(&self, plan: &Plan) -> Result<(), Error> {
        let switches = self.connections.len() as u64;
        if self.ready == switches {
            return Ok(());
        }
        let reason = self.lifecycles().find_map(|it| it.disconnect_reason.clone());
        let missing = switches - self.ready;
        Err(lifecycle::failure(plan, self.lifecycles()).unwrap_or(Error::SwitchesMissing {
            missing,
            switches,
            reason,
        }))
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
            let Some((id, switch)) = self.by_slot.switch_of(&event) else { continue };
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
                IoEvent::Writable(_) => network.pending.add(switch),
                IoEvent::Connected(_) => {
                    connection.lifecycle.connected = Some(clock::now());
                    network.on_connected(now, switch);
                }
                IoEvent::Closed(_, error) => {
                    self.close(now, switch, network, closed_reason(error));
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
        while let Some(switch) = network.pending.pop() {
            let Some(connection) = self.connections.get_mut(switch) else { continue };
            let Some(out) = network.output(switch) else { continue };
            let Some(conn) = connection.conn.filter(|_| !out.control.is_empty()) else { continue };
            let sent = self.io.send(conn, &out.control);
            out.control.drain(..sent.min(out.control.len()));
            if out.control.len() > UNSENT_MAX {
                let reason = DisconnectReason::RepliesNotRead.to_string();
                self.close(clock::now(), switch, network, reason);
            }
        }
    }
}
