//! A generator thread, which emulates a share of the switches.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::IoEvent;

use crate::Error;
use crate::bench_switch::{BenchSwitch, ReceiveContext, SessionCounts};
use crate::connect::{GeneratorIo, SwitchesBySlot};
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadResult};
use crate::counts::ErrorCounts;
use crate::generator_thread::{
    GeneratorThread, LoopSnapshot, PAUSE_MAX, SWEEP_INTERVAL, ThreadState,
};
use crate::lifecycle::closed_reason;
use crate::offered_load::{OfferedLoad, ScheduleLag};
use crate::outstanding::OutstandingIntegral;
use crate::overtaken::AGE_MAX;
use crate::pending::PendingSwitches;
use crate::plan::Plan;
use crate::request_records::RequestRecorder;
use crate::requests::RequestTemplates;
use crate::timestamp::{TICKS_PER_S, Timestamp, ticks};

/// How long the thread waits for outstanding replies after the last loop, in addition to the timeout of a request.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The drain ends when no reply arrives for this long and all requests are answered or have timed out. The packet-out of the last
/// answer may arrive after its flow entry.
const SECOND_PART_MAX: Duration = Duration::from_millis(200);

/// No timestamp wraps while its request is remembered.
const _: () = {
    let (remembered_s, wrap_s) = (AGE_MAX / TICKS_PER_S, Timestamp::MAX / TICKS_PER_S);
    assert!(PAUSE_MAX.as_secs() <= (wrap_s - remembered_s) as u64);
};

/// A generator thread. It emulates every `threads`-th switch, from `index` on.
///
/// An event-loop iteration has one order: wait, process everything received, send.
pub(crate) struct Generator<I: GeneratorIo> {
    pub(crate) thread: ThreadState,
    pub(crate) io: I,
    /// The clock of `io`, to be read while an event is borrowed from that.
    clock: I::Clock,
    pub(crate) switches: Vec<BenchSwitch>,
    pub(crate) templates: RequestTemplates,
    /// Indices in `switches`.
    pub(crate) by_slot: SwitchesBySlot,
    pub(crate) pending: PendingSwitches,
    pub(crate) sessions: SessionCounts,
    recorder: RequestRecorder,
    outstanding: OutstandingIntegral,
    answered: u64,
    /// `None` before the first loop, and while a loop runs.
    load: Option<OfferedLoad>,
    /// That of the measured loops.
    schedule_lag: Option<ScheduleLag>,
}

impl<I: GeneratorIo> Generator<I> {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        index: usize,
        io: I,
        shared: &Arc<SharedState>,
        events: Sender<ThreadEvent>,
    ) -> Result<Self, Error> {
        let indices = (0..plan.switches).skip(index).step_by(plan.threads);
        let switches: Vec<_> = indices.map(|index| BenchSwitch::new(plan, index)).collect();
        let templates = RequestTemplates::new(plan.version, plan.frame_len)
            .map_err(|e| Error::Plan(format!("cannot encode requests: {e}")))?;
        let now = io.now();
        Ok(Self {
            thread: ThreadState::new(plan, index, shared, events, now),
            clock: io.clock(),
            io,
            pending: PendingSwitches::new(switches.len()),
            switches,
            templates,
            by_slot: SwitchesBySlot::default(),
            sessions: SessionCounts::default(),
            recorder: RequestRecorder::new(plan, now),
            outstanding: OutstandingIntegral::default(),
            answered: 0,
            load: None,
            schedule_lag: None,
        })
    }

    /// Resets all counts before the first request.
    fn reset_counts(&mut self) {
        let timeout_ticks = u32::try_from(ticks(self.thread.plan.timeout));
        for switch in &mut self.switches {
            switch.prepare(&self.thread.plan, timeout_ticks.unwrap_or(u32::MAX / 2));
        }
        self.sessions.errors = ErrorCounts::default();
        self.answered = 0;
    }

    /// Offers `load` until `end`.
    fn offer(&mut self, end: Instant, load: &mut OfferedLoad) -> Result<(), Error> {
        let mut now = self.io.now();
        let mut sweep = now;
        while now < end && !self.thread.shared.is_stopped() {
            if now >= sweep {
                self.expire_requests(Some(load));
                (0..self.switches.len()).for_each(|at| self.pending.add(at));
                self.send(now, Some(load));
                self.publish_sessions();
                sweep = now + SWEEP_INTERVAL;
            }
            let before = now;
            now = self.run_iteration(Some(end.min(sweep)), Some(load))?;
            let (answered, outstanding) = (self.answered, self.outstanding.current());
            self.thread.silence.update(before, now, answered, outstanding);
        }
        Ok(())
    }

    /// Expires the requests of all switches that timed out, of those included to which nothing can be sent.
    fn expire_requests(&mut self, load: Option<&mut OfferedLoad>) {
        // Not the time at which the iteration began: requests were sent since.
        let now = self.recorder.timestamp(self.io.now());
        for switch in &mut self.switches {
            let before = switch.outstanding();
            switch.expire(now, &mut self.recorder);
            let change = i64::from(switch.outstanding()) - i64::from(before);
            if change != 0 && switch.conn.is_some() {
                self.outstanding.change(now, change);
            }
        }
        if let Some(load) = load {
            load.expire(now, &mut self.switches, &mut self.recorder);
        }
    }

    /// Publishes the connected switches and the errors for the live display.
    pub(crate) fn publish_sessions(&self) {
        let SessionCounts { ready_switches, errors } = &self.sessions;
        self.thread.shared.publish_sessions(self.thread.index, *ready_switches, errors.total());
    }

    /// Messages received that belong to a request.
    fn matched_replies(&self) -> u64 {
        let counts = self.switches.iter().map(|switch| &switch.counts);
        counts.map(|c| c.answered + c.late + c.two_part + c.duplicate).sum()
    }

    /// One event-loop iteration: wait, process everything received, send. Returns the time at the end of the wait.
    #[inline]
    pub(crate) fn run_iteration(
        &mut self,
        deadline: Option<Instant>,
        load: Option<&mut OfferedLoad>,
    ) -> Result<Instant, Error> {
        let due = load.as_ref().and_then(|load| load.next_due());
        let deadline = deadline.into_iter().chain(due).min();
        let mut load = load;
        let now = self.wait_and_receive(deadline, load.as_deref_mut())?;
        self.send(now, load);
        self.thread.shared.publish_answered(self.thread.index, self.answered);
        Ok(now)
    }

    /// The first two steps of an iteration. The switches that have received something are pending then.
    #[inline]
    pub(crate) fn wait_and_receive(
        &mut self,
        deadline: Option<Instant>,
        load: Option<&mut OfferedLoad>,
    ) -> Result<Instant, Error> {
        let before = (self.thread.plan.spin > Duration::ZERO).then(|| self.io.now());
        let now = self.io.wait(deadline)?;
        if self.thread.end_wait(before, now).is_some() {
            self.recover_from_pause(load);
        }
        self.receive();
        Ok(now)
    }

    /// Gives up the outstanding requests after the process was stopped, as by a signal or with its machine: nobody knows when their
    /// answers arrived. They are recorded with the last timestamp before, since timestamps may have wrapped.
    #[cold]
    fn recover_from_pause(&mut self, load: Option<&mut OfferedLoad>) {
        let (switches, outstanding) = (&mut self.switches, &mut self.outstanding);
        self.recorder.give_up(PAUSE_MAX, |recorder| {
            if let Some(load) = load {
                load.give_up(switches, recorder);
            }
            let now = recorder.last_timestamp();
            for switch in switches {
                let n = i64::from(switch.outstanding());
                switch.give_up(recorder);
                switch.forget_requests();
                if switch.conn.is_some() {
                    outstanding.change(now, -n);
                }
            }
        });
    }

    fn receive(&mut self) {
        while let Some(event) = self.io.next_event() {
            let Some((id, at)) = self.by_slot.switch_of(&event) else { continue };
            let Some(switch) = self.switches.get_mut(at) else { continue };
            if switch.conn != Some(id) {
                continue;
            }
            self.pending.add(at);
            let now = (self.clock)();
            match event {
                IoEvent::Data(_, bytes) => {
                    let timestamp = self.recorder.timestamp(now);
                    let (recorder, sessions) = (&mut self.recorder, &mut self.sessions);
                    let mut ctx = ReceiveContext { now, timestamp, recorder, sessions };
                    let (outstanding, answered) = (switch.outstanding(), switch.counts.answered);
                    let result = switch.receive(bytes, &mut ctx);
                    self.answered += switch.counts.answered - answered;
                    let change = i64::from(switch.outstanding()) - i64::from(outstanding);
                    self.outstanding.change(timestamp, change);
                    if let Err(reason) = result {
                        self.disconnected(at, reason.to_string());
                        self.io.close(id);
                    }
                }
                IoEvent::Connected(_) => switch.lifecycle.connected = Some(now),
                IoEvent::Closed(_, error) => self.disconnected(at, closed_reason(error)),
                _ => {}
            }
        }
    }

    #[cold]
    fn disconnected(&mut self, at: usize, reason: String) {
        let Some(switch) = self.switches.get_mut(at) else { return };
        switch.conn = None;
        self.sessions.ready_switches -= u64::from(switch.lifecycle.ready.is_some());
        let now = self.recorder.timestamp(self.io.now());
        self.outstanding.change(now, -i64::from(switch.outstanding()));
        switch.lifecycle.disconnect_reason = Some(reason);
    }

    fn send(&mut self, now: Instant, mut load: Option<&mut OfferedLoad>) {
        if let Some(load) = &mut load {
            let (switches, recorder) = (&mut self.switches, &mut self.recorder);
            let pending = &mut self.pending;
            load.prepare(now, self.outstanding.current(), switches, recorder, |at| pending.add(at));
        }
        while let Some(at) = self.pending.pop() {
            let Some(switch) = self.switches.get_mut(at) else { continue };
            if switch.conn.is_none() {
                continue;
            }
            if !switch.flush(&mut self.io) {
                if let Some(load) = &mut load {
                    load.set_socket_full(at);
                }
                continue;
            }
            if let Some(load) = &mut load {
                let before = switch.outstanding();
                let (io, templates) = (&mut self.io, &mut self.templates);
                let sent = load.send(at, switch, io, templates, &mut self.recorder);
                let change = i64::from(switch.outstanding()) - i64::from(before);
                if let Some((sent_at, overdue)) = sent {
                    self.outstanding.add_area(overdue);
                    self.outstanding.change(sent_at, change);
                } else if change != 0 {
                    // Requests have left the ring.
                    let now = self.recorder.timestamp(self.io.now());
                    self.outstanding.change(now, change);
                }
            }
        }
    }
}

impl<I: GeneratorIo> GeneratorThread for Generator<I> {
    fn state(&mut self) -> &mut ThreadState {
        &mut self.thread
    }

    fn now(&self) -> Instant {
        self.io.now()
    }

    fn prepare(&mut self) -> Result<(), Error> {
        self.connect()?;
        self.announce_hosts()?;
        self.reset_counts();
        self.check_connected()
    }

    fn iterate(&mut self, deadline: Option<Instant>) -> Result<Instant, Error> {
        self.run_iteration(deadline, None)
    }

    fn begin(&mut self, start: Instant) {
        let (index, switches) = (self.thread.index, self.switches.len());
        self.load = Some(OfferedLoad::new(&self.thread.plan, start, index, switches));
        self.recorder.set_start(start);
    }

    fn begin_measured(&mut self) {
        if let Some(load) = &mut self.load {
            load.reset_lag();
        }
    }

    fn end_measured(&mut self) {
        self.schedule_lag = self.load.as_ref().and_then(OfferedLoad::lag);
    }

    fn run_loop(&mut self, end: Instant) -> Result<(), Error> {
        let Some(mut load) = self.load.take() else { return Ok(()) };
        let result = self.offer(end, &mut load);
        self.load = Some(load);
        result
    }

    /// Waits until each outstanding request is answered or has timed out, and for the second parts of answers.
    fn drain(&mut self) -> Result<bool, Error> {
        if let Some(mut load) = self.load.take() {
            // What has become due just before the end.
            self.send(self.io.now(), Some(&mut load));
            load.finish(&mut self.switches, &mut self.recorder);
        }
        let started_at = self.io.now();
        let end = started_at + DRAIN_MAX + self.thread.plan.timeout;
        let (mut now, mut last, mut replies) = (started_at, started_at, self.matched_replies());
        while !self.thread.shared.is_stopped() {
            self.expire_requests(None);
            let is_waiting = |it: &BenchSwitch| it.conn.is_some() && it.is_waiting();
            let is_complete = !self.switches.iter().any(is_waiting);
            if is_complete && now - last >= SECOND_PART_MAX {
                break;
            }
            if now >= end {
                return Ok(!is_complete);
            }
            let wake = if is_complete { last + SECOND_PART_MAX } else { now + SWEEP_INTERVAL };
            now = self.run_iteration(Some(wake.min(end)), None)?;
            let received = self.matched_replies();
            if received != replies {
                (replies, last) = (received, now);
            }
        }
        Ok(false)
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn snapshot(&mut self) -> LoopSnapshot {
        let time = self.io.now();
        let area = self.outstanding.area_until(self.recorder.timestamp(time));
        let answered = self.switches.iter().map(|switch| switch.counts.answered);
        LoopSnapshot::new(&self.thread, time, area, answered.collect())
    }

    fn latencies(&self, number: u32) -> Option<Histogram<u64>> {
        self.recorder.latencies(number)
    }

    fn result(&mut self) -> ThreadResult {
        for switch in &mut self.switches {
            switch.give_up(&mut self.recorder);
        }
        let (loops, unanswered_min_ns) = self.recorder.take();
        let connected = self.switches.iter().find_map(|switch| switch.conn);
        let socket = connected.and_then(|id| self.io.effective_options(id));
        // In order, so that the controller does not take a TLS stream for truncated.
        for id in self.switches.iter().filter_map(|switch| switch.conn) {
            self.io.close(id);
        }
        let switches = self.switches.iter();
        ThreadResult {
            switches: switches.map(|switch| SwitchResult::new(switch, unanswered_min_ns)).collect(),
            errors: self.sessions.errors.clone(),
            schedule_lag: self.schedule_lag,
            socket,
            loops,
            unanswered_min_ns,
            ..ThreadResult::default()
        }
    }
}
