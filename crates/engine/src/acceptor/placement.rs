//! Switches that have completed the handshake: which ones get a place, and which worker serves them.

use sluice_io::{ConnId, Io, Reading};
use sluice_openflow::{DatapathId, SwitchFeatures};
use sluice_sdk::App;

use super::AcceptorState;
use super::pending::PendingConnection;
use crate::close_reason::CloseReason;
use crate::connection::EstablishedConnection;
use crate::messages::{SessionId, SwitchLocation, ToWorker};

impl<I: Io, A: App> AcceptorState<I, A> {
    /// After the handshake: hands the switch over to a worker, or probes the connection that has its datapath id.
    pub(super) fn complete_handshake(
        &mut self,
        io: &mut I,
        id: ConnId,
        features: Box<SwitchFeatures>,
    ) {
        let datapath_id = features.datapath_id;
        if features.auxiliary_id != 0 {
            return self.close(io, id, CloseReason::AuxiliaryConnection(datapath_id));
        }
        match self.switches.lookup(datapath_id) {
            None => self.place(io, id, features),
            Some(current) if self.claims.is_claimed(current.session_id) => {
                self.close(io, id, CloseReason::DuplicateDatapathId(datapath_id));
            }
            Some(current) => self.claim(io, id, features, current),
        }
    }

    /// Has the connection wait until the session that has its datapath id has answered a probe or was closed.
    fn claim(
        &mut self,
        io: &mut I,
        id: ConnId,
        features: Box<SwitchFeatures>,
        current: SwitchLocation,
    ) {
        let Some(addr) = self.handshakes.get_mut(id).map(|pending| pending.addr) else { return };
        let dpid = features.datapath_id;
        tracing::info!(%dpid, %addr, "datapath id in use: probing its connection");
        let deadline = self.now + self.cfg.limits.duplicate_timeout;
        self.claims.insert(current.session_id, id, features, deadline);
        io.set_reading(id, Reading::Off);
        self.send_to_worker(current.worker, ToWorker::Probe(current.session_id));
    }

    /// Hands a switch over to a worker. If there are too many, a switch of a source that has more of them is closed for it, or else
    /// this one.
    fn place(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(source) = self.handshakes.get_mut(id).map(|pending| pending.source) else {
            return;
        };
        if self.switches.len() >= self.cfg.limits.switches_max {
            let Some(evicted) = self.switches.eviction_candidate(source) else {
                return self.close(io, id, CloseReason::TooManySwitches);
            };
            self.switches.stop_counting(evicted.session_id);
            let close = ToWorker::Close(evicted.session_id, CloseReason::TooManySwitches);
            self.send_to_worker(evicted.worker, close);
        }
        self.hand_over(io, id, features);
    }

    /// Hands a switch over to the worker with the fewest switches.
    fn hand_over(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(conn) = io.release(id) else {
            // The connection has just failed.
            return self.close(io, id, CloseReason::ClosedByPeer);
        };
        let Some(pending) = self.handshakes.remove(id) else { return };
        self.publish_handshake_count();
        let PendingConnection { addr, source, session, buffers, .. } = *pending;
        let datapath_id = features.datapath_id;
        self.last_session_id += 1;
        let session_id = SessionId(self.last_session_id);
        let SwitchLocation { worker, .. } = self.switches.assign(datapath_id, session_id, source);
        let connection =
            EstablishedConnection { conn, session_id, addr, datapath_id, session, buffers };
        self.send_to_worker(worker, ToWorker::Adopt(Box::new(connection), features));
    }

    /// Removes a switch, and places the connection that claims its datapath id, if any.
    pub(super) fn on_disconnected(&mut self, io: &mut I, session_id: SessionId) {
        self.switches.remove(session_id);
        if let Some(claim) = self.claims.remove(session_id) {
            self.place(io, claim.claimant, claim.features);
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
