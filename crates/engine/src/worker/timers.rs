//! What a worker does at intervals: timeouts of sessions and backlogs, ticks of the applications, their metrics.

use std::time::Duration;

use sluice_io::{ConnId, Io};
use sluice_openflow::{MessageType, split_message};
use sluice_sdk::App;

use super::{WorkerState, count_sent, worker_counters};
use crate::close_reason::CloseReason;
use crate::log_limit::LogLimiter;
use crate::messages::ToAcceptor;

/// Interval of [`App::on_tick`], at which backlogs are checked too. Their timeouts are seconds long, so that this precision
/// is enough.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// Ports of the switches whose timers are run in one iteration of the event loop, at most, or one switch with more: about a
/// millisecond. Each switch counts as [`SWITCH_WEIGHT`] ports more. The others follow in the next iterations, so that reads wait
/// no longer, however many ports there are.
const PORTS_PER_ITERATION: usize = 8192;

/// What the timers of a switch without ports cost, in ports.
const SWITCH_WEIGHT: usize = 8;

/// Interval at which the metrics of the applications are collected.
const APP_METRICS_INTERVAL: Duration = Duration::from_secs(1);

impl<I: Io, A: App> WorkerState<I, A> {
    /// Runs the timers that are due.
    pub(super) fn run_timers(&mut self, io: &mut I) {
        while let Some(id) = self.deadlines.pop_due(self.now) {
            self.check_session(io, id);
        }
        if self.now >= self.next_tick_at && self.ticking.is_empty() {
            self.next_tick_at = self.now + TICK_INTERVAL;
            self.network.expire(self.now);
            self.check_subscribers();
            self.check_captures();
            self.check_kernel();
            self.log_suppressed();
            self.ticking.extend(self.switches.ids());
        }
        self.tick_switches(io);
        if self.now >= self.next_app_metrics_at {
            self.next_app_metrics_at = self.now + APP_METRICS_INTERVAL;
            self.collect_app_metrics();
        }
    }

    /// Logs how many lines were suppressed.
    fn log_suppressed(&mut self) {
        let now = self.now;
        self.log_counts(|limiter| limiter.take_suppressed(now));
    }

    /// Logs how many lines were suppressed: what `take` returns of each limiter.
    pub(super) fn log_counts(&mut self, take: impl Fn(&mut LogLimiter) -> Option<u64>) {
        let worker = self.outgoing.worker();
        self.session_log.log_suppressed(worker, &take);
        if let Some(lines) = take(&mut self.log_limit) {
            tracing::warn!(lines, worker, "log lines suppressed");
        }
    }

    /// Runs the timers of the next switches.
    fn tick_switches(&mut self, io: &mut I) {
        let mut done = 0;
        while let Some(&id) = self.ticking.front() {
            let weight = self.switches.port_count(id) + SWITCH_WEIGHT;
            if done > 0 && done + weight > PORTS_PER_ITERATION {
                break;
            }
            done += weight;
            self.ticking.pop_front();
            self.attach_to_kernel(io, id);
            self.report_ports(id);
            self.check_backlog(io, id);
            self.tick(io, id);
        }
    }

    /// Sends the acceptor the number of ports of a switch if it has changed, and lets other threads know the ports.
    fn report_ports(&mut self, id: ConnId) {
        let Some(switch) = self.switches.get_mut(id) else { return };
        if let Some(count) = switch.take_changed_port_count() {
            let session_id = switch.session_id;
            self.outgoing.send_to_acceptor(ToAcceptor::PortsChanged(session_id, count));
        }
        if let Some(features) = switch.take_changed_features() {
            switch.counters.set_features(features);
        }
    }

    /// Checks the timeouts of a session whose deadline was due. Received data has moved it back in most cases.
    fn check_session(&mut self, io: &mut I, id: ConnId) {
        self.expire_requests(id);
        let Some(switch) = self.switches.get_mut(id) else { return };
        if switch.buffers.backpressure.is_paused() || self.outgoing.is_congested() {
            // What is missing may be waiting unread. `check_backlog` detects a dead switch in this case.
            switch.session.record_unread(self.now);
        }
        let result = switch.session.handle_timeouts(&self.cfg.session, self.now, &mut self.urgent);
        self.set_deadline(id);
        self.send_replies(io, id);
        result.unwrap_or_else(|error| self.disconnect(io, id, CloseReason::Session(error)));
    }

    fn check_backlog(&mut self, io: &mut I, id: ConnId) {
        let limits = self.backlog_limits();
        let Some(switch) = self.switches.get_mut(id) else { return };
        switch.buffers.handle_timeouts(io, id, self.now, limits);
        if switch.buffers.backpressure.is_stuck() {
            return self.disconnect(io, id, CloseReason::SendTimeout);
        }
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let backlog = switch.buffers.backlog();
        count_sent(counters, &switch.counters, 0, backlog, &mut self.backlog_count);
        if self.queue_packet_out_barrier(id) {
            self.flush_switch(io, id);
        }
    }

    /// Calls [`App::on_tick`] for a switch. While urgent messages wait for the switch, it gets no more of them: link probes are
    /// dropped, and changes of its tables are made when there is room.
    fn tick(&mut self, io: &mut I, id: ConnId) {
        let Some(switch) = self.switches.get_mut(id) else { return };
        let has_room = switch.buffers.transmit.has_no_urgent();
        self.call_app(id, A::on_tick);
        if !has_room && !self.urgent.is_empty() {
            self.drop_urgent(id);
        }
        if !(self.tx.is_empty() && self.urgent.is_empty()) {
            self.send_replies(io, id);
        }
        self.make_lost_changes(io, id);
    }

    /// Drops the urgent messages of the applications to a switch.
    fn drop_urgent(&mut self, id: ConnId) {
        let urgent = std::mem::take(&mut self.urgent);
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let mut messages = &urgent[..];
        while let Ok(Some((message, rest))) = split_message(messages) {
            messages = rest;
            if message.kind() == MessageType::PACKET_OUT {
                counters.app_messages_dropped.add(1);
            } else if let Some(switch) = self.switches.get_mut(id) {
                switch.buffers.has_lost_changes = true;
                counters.changes_deferred.add(1);
            }
        }
        self.urgent = urgent;
        self.urgent.clear();
    }

    fn collect_app_metrics(&self) {
        let mut metrics = Vec::new();
        self.app.metrics(&mut |metric| metrics.push(metric));
        if let Ok(mut published) = self.counters().app_metrics.lock() {
            *published = metrics;
        }
    }
}
