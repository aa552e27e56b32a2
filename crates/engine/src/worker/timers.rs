//! What a worker does at intervals: timeouts of sessions and backlogs, ticks of the applications, their metrics.

use std::time::Duration;

use sluice_io::{ConnId, Io};
use sluice_sdk::App;

use super::WorkerState;
use crate::close_reason::CloseReason;

/// Interval of [`App::on_tick`], at which backlogs are checked too. Their timeouts are seconds long, so that this precision
/// is enough.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which the metrics of the applications are collected.
const APP_METRICS_INTERVAL: Duration = Duration::from_secs(1);

impl<I: Io, A: App> WorkerState<I, A> {
    /// Runs the timers that are due.
    pub(super) fn run_timers(&mut self, io: &mut I) {
        while let Some(id) = self.deadlines.pop_due(self.now) {
            self.check_session(io, id);
        }
        if self.now < self.next_tick_at {
            return;
        }
        self.next_tick_at = self.now + TICK_INTERVAL;
        self.network.expire(self.now);
        for id in self.switches.ids() {
            self.check_backlog(io, id);
            self.tick(io, id);
        }
        if self.now >= self.next_app_metrics_at {
            self.next_app_metrics_at = self.now + APP_METRICS_INTERVAL;
            self.collect_app_metrics();
        }
    }

    /// Checks the timeouts of a session whose deadline was due. Received data has moved it back in most cases.
    fn check_session(&mut self, io: &mut I, id: ConnId) {
        let Some(switch) = self.switches.get_mut(id) else { return };
        if switch.buffers.backpressure.is_paused() || self.outgoing.is_congested() {
            // What is missing may be waiting unread. `check_backlog` detects a dead switch in this case.
            switch.session.record_unread(self.now);
        }
        let result = switch.session.handle_timeouts(&self.cfg.session, self.now, &mut self.urgent);
        self.deadlines.set(id, switch.session.deadline(&self.cfg.session));
        self.send_replies(io, id);
        result.unwrap_or_else(|error| self.disconnect(io, id, CloseReason::Session(error)));
    }

    fn check_backlog(&mut self, io: &mut I, id: ConnId) {
        let limits = self.backlog_limits();
        let Some(switch) = self.switches.get_mut(id) else { return };
        if switch.buffers.backpressure.is_stuck(self.now, limits) {
            return self.disconnect(io, id, CloseReason::SendTimeout);
        }
        switch.buffers.handle_timeouts(io, id, self.now, limits);
    }

    /// Calls [`App::on_tick`] for a switch. While urgent messages wait for the switch, it gets no more of them.
    fn tick(&mut self, io: &mut I, id: ConnId) {
        let Some(switch) = self.switches.get_mut(id) else { return };
        let has_room = switch.buffers.transmit.has_no_urgent();
        self.call_app(id, A::on_tick);
        if !has_room && !self.urgent.is_empty() {
            self.counters().app_messages_dropped.add(1);
            self.urgent.clear();
        }
        self.send_replies(io, id);
        self.make_lost_changes(io, id);
    }

    fn collect_app_metrics(&self) {
        let mut metrics = Vec::new();
        self.app.metrics(&mut |metric| metrics.push(metric));
        if let Ok(mut published) = self.counters().app_metrics.lock() {
            *published = metrics;
        }
    }
}
