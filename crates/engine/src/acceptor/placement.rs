//! Switches that have completed the handshake: which ones get a place, and which worker serves them.

use std::net::SocketAddr;
use std::time::Instant;

use sluice_io::{ConnId, Io, Reading};
use sluice_openflow::{DatapathId, SwitchFeatures};
use sluice_sdk::App;

use super::AcceptorState;
use super::pending::{Origin, PendingConnection, WaitingSwitch};
use super::source::SourceNetwork;
use crate::close_reason::{CloseReason, certificate_name};
use crate::config::PORTS_PER_SWITCH_MAX;
use crate::connection::EstablishedConnection;
use crate::messages::{SessionId, SwitchLocation, ToWorker};
use crate::outstanding::OutstandingRequests;
use crate::worker::ports::limit_ports;

/// Switches that wait and are placed in one iteration, at most. What those that claim a datapath id in use take of the budget is known later.
const PLACED_MAX: usize = 32;

/// A switch that waits is not read any more once it has sent more than this. It is then not noticed that it disconnects.
const KEPT_MAX: usize = 16 << 10;

impl<I: Io, A: App> AcceptorState<I, A> {
    /// After the handshake: hands the switch over to a worker, probes the connection that has its datapath id, or has the switch wait
    /// until a worker has time for it.
    pub(super) fn complete_handshake(
        &mut self,
        io: &mut I,
        id: ConnId,
        mut features: Box<SwitchFeatures>,
    ) {
        let datapath_id = features.datapath_id;
        let ignored = limit_ports(&mut features.ports);
        if ignored > 0 {
            self.counters().ports_ignored.add(ignored as u64);
            if self.log.others.allow(self.now) {
                tracing::warn!(
                    dpid = %datapath_id, ignored,
                    "ports are ignored: they have the number of another port, or are more than {PORTS_PER_SWITCH_MAX}"
                );
            }
        }
        if features.auxiliary_id != 0 {
            return self.close(io, id, CloseReason::AuxiliaryConnection(datapath_id));
        }
        if self.is_bound(id) {
            if io.certificate_has_name(id, &certificate_name(datapath_id)) != Some(true) {
                return self.close(io, id, CloseReason::CertificateMismatch(datapath_id));
            }
            self.reserve(datapath_id);
        }
        self.place_or_wait(io, id, features);
    }

    /// Places a switch, or has it wait until a worker has time for it.
    fn place_or_wait(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        if self.waiting.is_empty() && self.has_time() {
            self.place_or_claim(io, id, features);
        } else {
            self.wait_for_worker(io, id, features);
        }
    }

    /// Whether a worker has time for a switch.
    fn has_time(&mut self) -> bool {
        self.budgets.update(&self.registry, self.now);
        (0..self.workers.len()).any(|worker| self.budgets.has_time(&self.registry, worker))
    }

    /// Has a switch wait until a worker has time for it.
    fn wait_for_worker(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        if !self.count_ports(io, id, features.ports.len()) {
            return;
        }
        let Some(pending) = self.handshakes.get_mut(id) else { return };
        if self.log.waiting.allow(self.now) {
            let (dpid, addr) = (features.datapath_id, pending.addr);
            tracing::info!(%dpid, %addr, "switch waits for a busy worker");
        }
        let key = self.waiting.insert(pending.origin, id);
        pending.waiting = Some(WaitingSwitch { key, features });
        self.publish_waiting_count();
        // One that has waited for its datapath id was not read.
        io.set_reading(id, Reading::On);
        self.limit_kept_bytes(io, id);
    }

    /// Places switches that wait, as long as there is time for them.
    pub(super) fn place_waiting(&mut self, io: &mut I) {
        for _ in 0..PLACED_MAX {
            if self.waiting.is_empty() || !self.has_time() {
                return;
            }
            let Some(id) = self.waiting.pop() else { return };
            self.release_ports(id);
            let waiting = self.handshakes.get_mut(id).and_then(|it| it.waiting.take());
            if let Some(WaitingSwitch { features, .. }) = waiting {
                self.place_or_claim(io, id, features);
            }
            self.publish_waiting_count();
        }
    }

    pub(super) fn publish_waiting_count(&self) {
        self.counters().switches_waiting.set(self.waiting.len() as u64);
    }

    /// Stops reading from a switch that waits and has sent much meanwhile.
    pub(super) fn limit_kept_bytes(&mut self, io: &mut I, id: ConnId) {
        let pending = self.handshakes.get_mut(id).filter(|it| it.is_complete);
        if pending.is_some_and(|it| it.buffers.received.len() > KEPT_MAX) {
            io.set_reading(id, Reading::Off);
        }
    }

    /// Hands a switch over to a worker, or probes the connection that has its datapath id.
    fn place_or_claim(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let datapath_id = features.datapath_id;
        let is_bound = self.is_bound(id);
        if !is_bound && self.is_reserved(datapath_id) {
            return self.close(io, id, CloseReason::DatapathIdReserved(datapath_id));
        }
        match self.switches.lookup(datapath_id) {
            None => self.place(io, id, features),
            Some(current) if is_bound && !self.switches.is_bound(current.session_id) => {
                self.replace_unbound(io, id, features, current);
            }
            Some(current) if self.claims.is_claimed(current.session_id) => {
                self.close(io, id, CloseReason::DuplicateDatapathId(datapath_id));
            }
            Some(current) => self.claim(io, id, features, current),
        }
    }

    /// Whether the certificate of a connection has to name its datapath id.
    fn is_bound(&mut self, id: ConnId) -> bool {
        self.handshakes.get_mut(id).is_some_and(|it| it.security.is_bound())
    }

    /// Lets only switches whose certificates name this datapath id have it, unless a reload has ended that rule.
    fn reserve(&mut self, datapath_id: DatapathId) {
        if self.cfg.binds_datapath_ids() {
            self.reserved_ids.insert(datapath_id, self.cfg.limits.switches_max);
        }
    }

    /// Whether only a switch whose certificate names this datapath id may have it.
    fn is_reserved(&self, datapath_id: DatapathId) -> bool {
        let current = self.switches.lookup(datapath_id);
        self.reserved_ids.contains(datapath_id)
            || current.is_some_and(|it| self.switches.is_bound(it.session_id))
    }

    /// For a connection whose certificate names the datapath id: closes the session that has it without such a certificate, and
    /// another connection that claims it.
    fn replace_unbound(
        &mut self,
        io: &mut I,
        id: ConnId,
        features: Box<SwitchFeatures>,
        current: SwitchLocation,
    ) {
        let datapath_id = features.datapath_id;
        if let Some(claimant) = self.claims.claimant(current.session_id) {
            if self.is_bound(claimant) {
                return self.close(io, id, CloseReason::DuplicateDatapathId(datapath_id));
            }
            self.close(io, claimant, CloseReason::DatapathIdReserved(datapath_id));
        }
        self.evict(current, CloseReason::DatapathIdReserved(datapath_id));
        self.wait_for_session(io, id, features, (current.session_id, None));
    }

    /// Has the connection wait until the session that has its datapath id has answered a probe or was closed.
    fn claim(
        &mut self,
        io: &mut I,
        id: ConnId,
        features: Box<SwitchFeatures>,
        current: SwitchLocation,
    ) {
        let deadline = self.now + self.cfg.limits.duplicate_timeout;
        let (session_id, dpid) = (current.session_id, features.datapath_id);
        if let Some(addr) = self.wait_for_session(io, id, features, (session_id, Some(deadline))) {
            tracing::info!(%dpid, %addr, "datapath id in use: probing its connection");
            self.send_to_worker(current.worker, ToWorker::Probe(session_id));
        }
    }

    /// Has the connection wait for the end of the session that has its datapath id, which is being closed unless it has until
    /// `deadline` to answer a probe. Returns the address of the connection, unless it is closed because there is no room.
    fn wait_for_session(
        &mut self,
        io: &mut I,
        id: ConnId,
        features: Box<SwitchFeatures>,
        (session_id, deadline): (SessionId, Option<Instant>),
    ) -> Option<SocketAddr> {
        let addr = self.handshakes.get_mut(id).map(|it| it.addr)?;
        if !self.count_ports(io, id, features.ports.len()) {
            return None;
        }
        self.claims.insert(session_id, id, features, deadline);
        io.set_reading(id, Reading::Off);
        Some(addr)
    }

    /// Counts the ports of a connection that waits. Returns `false` if there is no room for them: the connection is closed.
    fn count_ports(&mut self, io: &mut I, id: ConnId, ports: usize) -> bool {
        let Some(source) = self.handshakes.get_mut(id).map(|it| it.origin.source) else {
            return false;
        };
        if !self.make_room_for_ports(io, source, ports) {
            self.close(io, id, CloseReason::TooManyPorts);
            return false;
        }
        self.switches.count_waiting_ports(source, ports);
        if let Some(pending) = self.handshakes.get_mut(id) {
            pending.waiting_ports = ports;
        }
        true
    }

    /// Hands a switch over to a worker. If there are too many switches or ports, others of a source that has more are closed for it,
    /// or else this one.
    fn place(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(source) = self.handshakes.get_mut(id).map(|it| it.origin.source) else {
            return;
        };
        if self.switches.len() >= self.cfg.limits.switches_max {
            let Some(evicted) = self.switches.eviction_candidate(source) else {
                return self.close(io, id, CloseReason::TooManySwitches);
            };
            self.evict(evicted, CloseReason::TooManySwitches);
        }
        if !self.make_room_for_ports(io, source, features.ports.len()) {
            return self.close(io, id, CloseReason::TooManyPorts);
        }
        self.hand_over(io, id, features);
    }

    /// Closes switches, and connections that wait, of sources that have more ports than `source` with `ports`
    /// more, until there is room for these. Returns `false` if there is none.
    fn make_room_for_ports(&mut self, io: &mut I, source: SourceNetwork, ports: usize) -> bool {
        let ports_max = self.cfg.limits.ports_max;
        while self.switches.port_count() + ports > ports_max {
            let Some(larger) = self.switches.source_with_more_ports(source, ports) else {
                return false;
            };
            if !self.evict_ports_of(io, larger) {
                return false;
            }
        }
        true
    }

    /// Records that a switch has another number of ports. If there are too many, switches of the source with the most are closed.
    pub(super) fn on_ports_changed(&mut self, io: &mut I, session_id: SessionId, ports: usize) {
        self.switches.set_ports(session_id, ports);
        while self.switches.port_count() > self.cfg.limits.ports_max
            && let Some(largest) = self.switches.source_with_most_ports()
            && self.evict_ports_of(io, largest)
        {}
    }

    /// Closes the connection of a source that waits and has the most ports, or else its switch with the most.
    /// Returns `false` if there is neither.
    fn evict_ports_of(&mut self, io: &mut I, source: SourceNetwork) -> bool {
        if let Some(claimant) = self.handshakes.waiting_with_most_ports(source) {
            self.close(io, claimant, CloseReason::TooManyPorts);
        } else if let Some(evicted) = self.switches.session_with_most_ports(source) {
            self.evict(evicted, CloseReason::TooManyPorts);
        } else {
            return false;
        }
        true
    }

    /// Has a switch closed for another one.
    fn evict(&mut self, evicted: SwitchLocation, reason: CloseReason) {
        self.switches.stop_counting(evicted.session_id);
        self.send_to_worker(evicted.worker, ToWorker::Close(evicted.session_id, reason));
    }

    /// Stops counting the ports of a connection that waits.
    pub(super) fn release_ports(&mut self, id: ConnId) {
        if let Some(pending) = self.handshakes.get_mut(id) {
            let source = pending.origin.source;
            let ports = std::mem::take(&mut pending.waiting_ports);
            self.switches.uncount_waiting_ports(source, ports);
        }
    }

    /// Hands a switch over to the worker with the fewest switches, of those that have time, and are not saturated, if there are any.
    fn hand_over(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(conn) = io.release(id) else {
            // The connection has just failed.
            return self.close(io, id, CloseReason::ClosedByPeer);
        };
        let Some(pending) = self.handshakes.remove(id) else { return };
        self.publish_handshake_count();
        let PendingConnection { addr, origin, security, session, buffers, .. } = *pending;
        let Origin { source, .. } = origin;
        let datapath_id = features.datapath_id;
        self.last_session_id += 1;
        let session_id = SessionId(self.last_session_id);
        let ports = features.ports.len();
        let has_time = |worker| self.budgets.has_time(&self.registry, worker);
        let rank = |worker| (!has_time(worker), self.balancer.is_saturated(worker));
        let assigned = self.switches.assign(rank, datapath_id, session_id, source, ports);
        if security.is_bound() && self.cfg.binds_datapath_ids() {
            self.switches.bind(session_id);
        }
        let worker = assigned.worker;
        self.budgets.count(worker);
        let connection = EstablishedConnection {
            conn,
            session_id,
            addr,
            datapath_id,
            session,
            buffers,
            requests: OutstandingRequests::default(),
            counters: None,
            kernel_session: None,
        };
        self.send_to_worker(worker, ToWorker::Adopt(Box::new(connection), features));
    }

    /// Removes a switch, and places the connection that claims its datapath id, if any.
    pub(super) fn on_disconnected(&mut self, io: &mut I, session_id: SessionId) {
        let was_bound = self.switches.is_bound(session_id);
        let datapath_id = self.switches.remove(session_id);
        if let Some(datapath_id) = datapath_id.filter(|_| was_bound) {
            self.reserve(datapath_id);
        }
        if let Some(claim) = self.claims.remove(session_id) {
            self.release_ports(claim.claimant);
            self.place_or_wait(io, claim.claimant, claim.features);
        }
    }

    /// Closes the connection that claims the datapath id of a switch, since that has answered the probe.
    pub(super) fn on_probe_answered(&mut self, io: &mut I, session_id: SessionId) {
        if let Some(claim) = self.claims.refute(session_id) {
            let reason = CloseReason::DuplicateDatapathId(claim.features.datapath_id);
            self.close(io, claim.claimant, reason);
        }
    }

    /// Has a session closed that has not answered the probe, so that the claimant of its datapath id can take its place.
    pub(super) fn replace_session(&mut self, session_id: SessionId, datapath_id: DatapathId) {
        let location = self.switches.lookup(datapath_id);
        if let Some(location) = location.filter(|location| location.session_id == session_id) {
            let reason = CloseReason::ReplacedByNewConnection(datapath_id);
            self.send_to_worker(location.worker, ToWorker::Close(session_id, reason));
        }
    }
}
