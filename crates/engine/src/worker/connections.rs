//! How a worker takes over switches, and how their connections end.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_io::{ConnId, Io};
use sluice_openflow::{DatapathId, SwitchFeatures, Version};
use sluice_sdk::{App, AppState, Notification, switch_name};

use super::{LoopControl, WorkerState, worker_counters};
use crate::close_reason::CloseReason;
use crate::connection::EstablishedConnection;
use crate::log_limit::LogLimiter;
use crate::messages::{RemoteSwitch, SessionId, SwitchLocation, ToAcceptor, ToWorker};
use crate::switch_counters::SwitchCounters;

impl<I: Io, A: App> WorkerState<I, A> {
    /// Processes the messages of other threads that were received.
    pub(super) fn process_messages(&mut self, io: &mut I) -> LoopControl {
        while let Some(message) = self.received.pop_front() {
            match message {
                ToWorker::Adopt(connection, features) => {
                    self.take_over(io, *connection, features);
                }
                ToWorker::Move(session_id, to) => self.start_move(session_id, to),
                ToWorker::SwitchMoving(datapath_id, switch, from) => {
                    self.acknowledge_move(datapath_id, switch, from);
                }
                ToWorker::MoveAcknowledged(session_id) => self.count_acknowledgment(session_id),
                ToWorker::Probe(session_id) => match self.moved.get(&session_id) {
                    Some(&to) => self.outgoing.send_to(to, ToWorker::Probe(session_id)),
                    None => self.probe(io, session_id),
                },
                ToWorker::Close(session_id, reason) => match self.moved.get(&session_id) {
                    Some(&to) => self.outgoing.send_to(to, ToWorker::Close(session_id, reason)),
                    None => {
                        if let Some(id) = self.switches.find(session_id) {
                            self.disconnect(io, id, reason);
                        }
                    }
                },
                ToWorker::SwitchConnected(datapath_id, switch) => {
                    let known = self.remote_switches.entry(datapath_id).or_insert(switch);
                    if known.location.session_id < switch.location.session_id {
                        *known = switch;
                    }
                }
                ToWorker::SwitchDisconnected(datapath_id, session_id) => {
                    let known = self.remote_switches.get(&datapath_id);
                    if known.is_some_and(|known| known.location.session_id == session_id) {
                        self.remote_switches.remove(&datapath_id);
                    }
                    self.forget_move(datapath_id, session_id);
                }
                ToWorker::Facts(facts) => self.apply_facts(&facts),
                ToWorker::Publish(records) => self.publish_records(records),
                ToWorker::Messages(batch) => self.queue_batch(io, &batch),
                ToWorker::Requests(requests) => {
                    for request in requests {
                        self.route_request(io, request);
                    }
                }
                ToWorker::Answers(answers) => self.receive_answers(answers),
                ToWorker::Subscribe(publisher) => self.subscribe(publisher),
                ToWorker::Capture(capture) => self.begin_capture(capture),
                ToWorker::ReadState(application, on_state) => {
                    let state = self.app.state_of(&application);
                    on_state(AppState::new(self.outgoing.worker(), state));
                }
                ToWorker::Configure(cfg, change) => {
                    self.cfg = cfg;
                    // The kernel has answered by the configuration before.
                    self.stop_kernel_everywhere();
                    change(&mut self.app);
                    for id in self.switches.ids() {
                        self.deadlines.set(id, self.now);
                    }
                }
                ToWorker::RunIteration => {}
                ToWorker::Stop => {
                    for id in self.switches.ids() {
                        self.disconnect(io, id, CloseReason::Shutdown);
                    }
                    self.log_counts(LogLimiter::take_rest);
                    return LoopControl::Stop;
                }
            }
        }
        LoopControl::Continue
    }

    /// Takes over a switch from the acceptor or another worker.
    fn take_over(
        &mut self,
        io: &mut I,
        connection: EstablishedConnection<I::Conn>,
        features: Box<SwitchFeatures>,
    ) {
        let (began, is_new) = (io.now(), connection.counters.is_none());
        self.adopt(io, connection, features);
        self.session_time.calls += io.now() - began;
        self.session_time.begun += u64::from(is_new);
    }

    /// Adds a switch: notifies the applications, and processes what was sent to it and what it has sent meanwhile.
    fn adopt(
        &mut self,
        io: &mut I,
        connection: EstablishedConnection<I::Conn>,
        features: Box<SwitchFeatures>,
    ) {
        let EstablishedConnection { conn, session_id, addr, datapath_id, .. } = connection;
        let (mut session, mut buffers) = (connection.session, connection.buffers);
        let (counted, released) = (connection.counters, connection.kernel_session);
        let mut requests = connection.requests;
        self.answers.outstanding += requests.message_count();
        session.move_reassembly_budget(&self.reassembly_budget);
        let id = match io.adopt(conn) {
            Ok(id) => id,
            Err(error) => {
                if self.session_log.failed.allow(self.now) {
                    tracing::warn!(dpid = %datapath_id, %addr, %error, "cannot register connection");
                }
                self.counters().connection_closed(CloseReason::ConnectionError(error.kind()));
                requests.disconnect(&mut self.answers);
                self.forget_counters(counted.as_ref());
                self.forget_move(datapath_id, session_id);
                return self.announce_end(datapath_id, session_id);
            }
        };
        let location = SwitchLocation { session_id, worker: self.outgoing.worker() };
        // Sent now, not at the end of the iteration: other workers can then send to the switch as soon as it counts as connected.
        let remote = RemoteSwitch { location, version: session.version() };
        self.outgoing.send_to_all(|| ToWorker::SwitchConnected(datapath_id, remote));
        self.outgoing.flush_to_workers();
        self.remote_switches.remove(&datapath_id);
        self.moved.remove(&session_id);
        let has_moved = counted.is_some();
        let received = buffers.received.take();
        buffers.reset_backpressure(io, id);
        buffers.backpressure.round_trip = session.handshake_duration();
        let backlog = buffers.backlog();
        let version = session.version();
        self.forget_counters(counted.as_ref());
        let features: Arc<SwitchFeatures> = features.into();
        let counters = counted.unwrap_or_else(|| {
            let since = io.since_epoch();
            Arc::new(SwitchCounters::new(datapath_id, version, addr, since, features.clone()))
        });
        counters.backlog_bytes.set(backlog as u64);
        self.counters().connected_switches.insert(counters.clone());
        self.counters().backlog_bytes.add(backlog as u64);
        self.backlog_count += usize::from(backlog > 0);
        self.counters().switch_connected(version);
        self.log_connected(addr, version, &features);
        if !has_moved {
            let features = features.clone();
            let switch = datapath_id;
            let connected = Notification::SwitchConnected { switch, addr, version, features };
            self.network.publish_event(self.now, connected);
        }
        let connection = EstablishedConnection {
            conn: (),
            session_id,
            addr,
            datapath_id,
            session,
            buffers,
            requests,
            counters: None,
            kernel_session: None,
        };
        self.switches.insert(id, connection, Arc::clone(&features), counters);
        // Before anything is sent, which must not overtake answers that the kernel has given for the worker before.
        self.begin_kernel_session(io, id, released);
        self.set_deadline(id);
        self.call_app(id, |app, ctx| app.on_switch_connected(&features, ctx));
        self.queue_parked_messages(io, id, datapath_id);
        // The messages of `on_switch_connected` precede replies.
        self.send_replies(io, id);
        // The acceptor may leave a backlog, and nothing reports yet that the connection is writable.
        self.flush_switch(io, id);
        let result = self.process_read(id, &received);
        self.send_replies(io, id);
        result.unwrap_or_else(|reason| self.disconnect(io, id, reason));
    }

    fn log_connected(&mut self, addr: SocketAddr, version: Version, features: &SwitchFeatures) {
        if self.session_log.connected.allow(self.now) {
            let (dpid, name) = (features.datapath_id, switch_name(features, None));
            let (worker, ports) = (self.outgoing.worker(), features.ports.len());
            tracing::info!(%dpid, name, %addr, %version, ports, worker, "switch connected");
        }
    }

    fn probe(&mut self, io: &mut I, session_id: SessionId) {
        let began = io.now();
        let Some(id) = self.switches.find(session_id) else { return };
        if let Some(switch) = self.switches.get_mut(id) {
            switch.is_probed = true;
            switch.session.probe(self.now, &mut self.urgent);
        }
        self.send_replies(io, id);
        self.session_time.calls += io.now() - began;
    }

    /// Closes the connection of a switch, or cleans up after it was closed, and notifies applications and other threads.
    pub(super) fn disconnect(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        let began = io.now();
        self.end_session(io, id, reason);
        self.session_time.calls += io.now() - began;
    }

    fn end_session(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        let Some(mut switch) = self.switches.remove(id) else { return };
        io.close(id);
        // After the connection is closed: nothing is lost that way.
        self.remove_from_kernel(&switch);
        switch.requests.disconnect(&mut self.answers);
        self.deadlines.remove(id);
        let (dpid, addr, version) = (switch.datapath_id, switch.addr, switch.session.version());
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        counters.connected_switches.remove(dpid);
        counters.connection_closed(reason);
        counters.switch_disconnected(version);
        let backlog = switch.counters.backlog_bytes.get();
        counters.backlog_bytes.sub(backlog);
        self.backlog_count -= usize::from(backlog > 0);
        let label = reason.label();
        let name = || switch_name(&switch.features, None);
        if reason.is_normal() {
            if self.session_log.disconnected.allow(self.now) {
                tracing::info!(%dpid, name = name(), %addr, %version, reason = label, "switch disconnected");
            }
        } else if self.session_log.failed.allow(self.now) {
            tracing::warn!(%dpid, name = name(), %addr, %version, reason = label, "switch disconnected: {reason}");
        }
        let text = reason.to_string();
        let disconnected = Notification::SwitchDisconnected { switch: dpid, reason: label, text };
        self.network.publish_event(self.now, disconnected);
        self.app.on_switch_disconnected(switch.index, self.now, &mut self.network);
        self.announce_end(dpid, switch.session_id);
    }

    /// Removes the counters of a switch that has moved from the list of its old worker.
    fn forget_counters(&self, counters: Option<&Arc<SwitchCounters>>) {
        if let Some(counters) = counters {
            self.registry.threads.iter().for_each(|it| it.connected_switches.remove_same(counters));
        }
    }

    /// Tells all other threads that a session is over.
    fn announce_end(&mut self, datapath_id: DatapathId, session_id: SessionId) {
        self.outgoing.send_to_all(|| ToWorker::SwitchDisconnected(datapath_id, session_id));
        self.outgoing.send_to_acceptor(ToAcceptor::Disconnected(session_id));
    }
}
