//! A generator thread, which emulates a share of the switches.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_io::{Epoll, Io, IoEvent, clock, cores};

use crate::Error;
use crate::bench_switch::{BenchSwitch, ReceiveContext, SessionCounts};
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::counts::ErrorCounts;
use crate::latency::LatencyRecorder;
use crate::offered_load::{OfferedLoad, timestamp};
use crate::outstanding::{TICK_NS, Timestamp};
use crate::plan::Plan;
use crate::requests::RequestTemplates;

/// Interval at which every switch is checked for requests that timed out.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How long the thread waits for outstanding replies after the last loop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The drain ends when no reply arrives for this long while requests are outstanding.
const DRAIN_QUIET: Duration = Duration::from_secs(1);

/// The drain ends when no reply arrives for this long and all requests are answered. The packet-out of the last answer may
/// arrive after its flow entry.
const SECOND_PART_MAX: Duration = Duration::from_millis(200);

/// A generator thread. It emulates every `threads`-th switch, from `index` on.
///
/// An event-loop iteration has one order: wait, process everything received, send.
pub(crate) struct Generator {
    pub(crate) plan: Arc<Plan>,
    pub(crate) index: usize,
    pub(crate) io: Epoll,
    pub(crate) switches: Vec<BenchSwitch>,
    pub(crate) templates: RequestTemplates,
    pub(crate) shared: Arc<SharedState>,
    /// Index of the switch in `switches`, by the slot of its connection.
    pub(crate) by_slot: Vec<usize>,
    pub(crate) pending: PendingSwitches,
    pub(crate) sessions: SessionCounts,
    events: Sender<ThreadEvent>,
    latencies: LatencyRecorder,
    epoch: Instant,
    outstanding: OutstandingIntegral,
    waited: Duration,
    answered: u64,
}

/// Switches to visit in the send step, each once: they received something, or their socket is writable again.
#[derive(Debug)]
pub(crate) struct PendingSwitches {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

/// Number of outstanding requests, and its integral over time.
#[derive(Debug, Clone, Copy, Default)]
struct OutstandingIntegral {
    current: i64,
    since: Timestamp,
    /// In request-ticks.
    area: i64,
}

/// Totals of a thread at a boundary between two loops.
struct LoopSnapshot {
    time: Instant,
    cpu: Duration,
    waited: Duration,
    area: i64,
    answered: Vec<u64>,
}

impl Generator {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        index: usize,
        io: Epoll,
        shared: &Arc<SharedState>,
        events: Sender<ThreadEvent>,
    ) -> Result<Self, Error> {
        let indices = (0..plan.switches).skip(index).step_by(plan.threads);
        let switches: Vec<_> = indices.map(|index| BenchSwitch::new(plan, index)).collect();
        let templates = RequestTemplates::new(plan.version, plan.frame_len)
            .map_err(|e| Error::Plan(format!("cannot encode requests: {e}")))?;
        Ok(Self {
            plan: Arc::clone(plan),
            index,
            io,
            pending: PendingSwitches::new(switches.len()),
            switches,
            templates,
            shared: Arc::clone(shared),
            by_slot: Vec::new(),
            sessions: SessionCounts::default(),
            events,
            latencies: LatencyRecorder::new(),
            epoch: clock::now(),
            outstanding: OutstandingIntegral::default(),
            waited: Duration::ZERO,
            answered: 0,
        })
    }

    /// Connects, announces hosts, runs all loops, drains; reports each step to the coordinator.
    pub(crate) fn run(mut self) {
        if let Err(e) = self.try_run() {
            self.send_event(ThreadEvent::Failed(e));
        }
    }

    fn send_event(&self, event: ThreadEvent) {
        // The receiver is dropped only when the coordinator itself failed.
        let _ = self.events.send(event);
    }

    fn try_run(&mut self) -> Result<(), Error> {
        if let Some(&core) = self.plan.pin.get(self.index % self.plan.pin.len().max(1)) {
            cores::pin(core).map_err(|e| Error::Pin(core, e))?;
        }
        self.connect()?;
        self.announce_hosts()?;
        self.prepare();
        self.send_event(ThreadEvent::Ready);
        let start = loop {
            if self.shared.is_stopped() {
                return Ok(());
            }
            if let Some(start) = self.shared.start() {
                break start;
            }
            self.run_iteration(None, None)?;
        };
        while clock::now() < start {
            self.run_iteration(Some(start), None)?;
        }
        self.run_loops(start)
    }

    /// Resets all counts before the first request.
    fn prepare(&mut self) {
        let timeout_ticks = u32::try_from(self.plan.timeout.as_nanos() / u128::from(TICK_NS));
        for switch in &mut self.switches {
            switch.prepare(&self.plan, timeout_ticks.unwrap_or(u32::MAX / 2));
        }
        self.sessions.errors = ErrorCounts::default();
        self.answered = 0;
    }

    /// Runs the loops, one directly after the other, then the drain.
    fn run_loops(&mut self, start: Instant) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let mut load = OfferedLoad::new(&plan, start, self.epoch, self.index, self.switches.len());
        let mut before = self.snapshot();
        let mut quantiles = Vec::new();
        for number in 0..plan.loops {
            if number == plan.measured().start {
                self.switches.iter_mut().for_each(|switch| switch.latencies.clear());
                load.reset_lag();
            }
            self.run_loop(start + plan.loop_time * (number + 1), &mut load)?;
            let after = self.snapshot();
            self.report_loop(number, &before, &after);
            before = after;
            if number + 1 == plan.measured().end {
                let switch_quantiles =
                    |s: &BenchSwitch| [0.5, 0.99, 1.0].map(|q| s.latencies.quantile_ns(q));
                quantiles = self.switches.iter().map(switch_quantiles).collect();
            }
            if self.shared.is_stopped() {
                return Ok(());
            }
        }
        let drain_cut_short = self.drain()?;
        let switches = self.switches.iter().zip(quantiles);
        self.send_event(ThreadEvent::Finished(ThreadResult {
            thread: self.index,
            switches: switches.map(|(s, quantiles)| SwitchResult::new(s, quantiles)).collect(),
            errors: self.sessions.errors.clone(),
            schedule_lag: load.lag(),
            drain_cut_short,
        }));
        Ok(())
    }

    fn run_loop(&mut self, end: Instant, load: &mut OfferedLoad) -> Result<(), Error> {
        let mut now = clock::now();
        let mut sweep = now;
        while now < end && !self.shared.is_stopped() {
            if now >= sweep {
                self.expire_requests();
                (0..self.switches.len()).for_each(|at| self.pending.add(at));
                self.send(Some(load));
                self.publish_sessions();
                sweep = now + SWEEP_INTERVAL;
            }
            now = self.run_iteration(Some(end.min(sweep)), Some(load))?;
        }
        Ok(())
    }

    /// Expires the requests of all switches that timed out, of those included to which nothing can be sent.
    fn expire_requests(&mut self) {
        // Not the time at which the iteration began: requests were sent since.
        let now = timestamp(self.epoch, clock::now());
        for switch in &mut self.switches {
            let before = switch.outstanding();
            switch.expire(now);
            let change = i64::from(switch.outstanding()) - i64::from(before);
            if change != 0 && switch.conn.is_some() {
                self.outstanding.change(now, change);
            }
        }
    }

    /// Publishes the connected switches and the errors for the live display.
    pub(crate) fn publish_sessions(&self) {
        let SessionCounts { ready_switches, errors } = &self.sessions;
        self.shared.publish_sessions(self.index, *ready_switches, errors.total());
    }

    fn snapshot(&self) -> LoopSnapshot {
        LoopSnapshot {
            time: clock::now(),
            cpu: clock::thread_cpu(),
            waited: self.waited,
            area: self.outstanding.area,
            answered: self.switches.iter().map(|switch| switch.counts.answered).collect(),
        }
    }

    fn report_loop(&mut self, number: u32, from: &LoopSnapshot, to: &LoopSnapshot) {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
        let outstanding_area_s = (to.area - from.area) as f64 * TICK_NS as f64 / 1e9;
        let latencies = self.latencies.take();
        self.send_event(ThreadEvent::LoopFinished(ThreadLoopResult {
            thread: self.index,
            number,
            elapsed: to.time - from.time,
            answered: to.answered.iter().zip(&from.answered).map(|(to, from)| to - from).collect(),
            latencies,
            cpu: to.cpu.saturating_sub(from.cpu),
            waited: to.waited.saturating_sub(from.waited),
            outstanding_area_s,
        }));
    }

    /// Waits for the replies to outstanding requests, and for the second parts of answers; `true` if replies were still
    /// arriving at the time limit.
    fn drain(&mut self) -> Result<bool, Error> {
        let started_at = clock::now();
        let (mut now, mut last, mut replies) = (started_at, started_at, self.matched_replies());
        while !self.shared.is_stopped() {
            self.expire_requests();
            let is_waiting = |it: &BenchSwitch| it.conn.is_some() && it.is_waiting();
            let quiet_max = if self.switches.iter().any(is_waiting) {
                DRAIN_QUIET.min(self.plan.timeout)
            } else {
                SECOND_PART_MAX
            };
            if now - last >= quiet_max {
                break;
            }
            if now - started_at >= DRAIN_MAX {
                return Ok(true);
            }
            now = self.run_iteration(Some((last + quiet_max).min(started_at + DRAIN_MAX)), None)?;
            let received = self.matched_replies();
            if received != replies {
                (replies, last) = (received, now);
            }
        }
        Ok(false)
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
        let before = (self.plan.spin > Duration::ZERO).then(clock::now);
        let now = self.io.wait(deadline)?;
        self.waited += before.map_or(Duration::ZERO, |before| now - before);
        self.receive();
        self.send(load);
        self.shared.publish_answered(self.index, self.answered);
        Ok(now)
    }

    fn receive(&mut self) {
        while let Some(event) = self.io.next_event() {
            let (IoEvent::Data(id, _)
            | IoEvent::Writable(id)
            | IoEvent::Connected(id)
            | IoEvent::Closed(id, _)) = event
            else {
                continue;
            };
            let Some(&at) = self.by_slot.get(id.slot()) else { continue };
            let Some(switch) = self.switches.get_mut(at) else { continue };
            if switch.conn != Some(id) {
                continue;
            }
            self.pending.add(at);
            match event {
                IoEvent::Data(_, bytes) => {
                    let now = clock::now();
                    let timestamp = timestamp(self.epoch, now);
                    let (latencies, sessions) = (&mut self.latencies, &mut self.sessions);
                    let mut ctx = ReceiveContext { now, timestamp, latencies, sessions };
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
                IoEvent::Connected(_) => switch.lifecycle.connected = Some(clock::now()),
                IoEvent::Closed(_, error) => {
                    let reason = error.map_or_else(
                        || "the controller closed the connection".into(),
                        |e| e.to_string(),
                    );
                    self.disconnected(at, reason);
                }
                _ => {}
            }
        }
    }

    #[cold]
    fn disconnected(&mut self, at: usize, reason: String) {
        let Some(switch) = self.switches.get_mut(at) else { return };
        switch.conn = None;
        self.sessions.ready_switches -= u64::from(switch.lifecycle.ready.is_some());
        let now = timestamp(self.epoch, clock::now());
        self.outstanding.change(now, -i64::from(switch.outstanding()));
        switch.lifecycle.disconnect_reason = Some(reason);
    }

    fn send(&mut self, mut load: Option<&mut OfferedLoad>) {
        if let Some(load) = &mut load {
            load.prepare(self.outstanding.current, |at| self.pending.add(at));
        }
        while let Some(at) = self.pending.pop() {
            let Some(switch) = self.switches.get_mut(at) else { continue };
            if switch.conn.is_none() || !switch.flush(&mut self.io) {
                continue;
            }
            if let Some(load) = &mut load {
                let before = switch.outstanding();
                let sent = load.send(at, switch, &mut self.io, &mut self.templates);
                let change = i64::from(switch.outstanding()) - i64::from(before);
                if let Some((sent_at, overdue)) = sent {
                    self.outstanding.area += overdue;
                    self.outstanding.change(sent_at, change);
                } else if change != 0 {
                    // Requests have left the ring.
                    self.outstanding.change(timestamp(self.epoch, clock::now()), change);
                }
            }
        }
    }
}

impl PendingSwitches {
    fn new(switches: usize) -> Self {
        Self { list: Vec::with_capacity(switches), is_in: vec![false; switches] }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: usize) {
        if let Some(is_in) = self.is_in.get_mut(at)
            && !std::mem::replace(is_in, true)
        {
            self.list.push(at);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let at = self.list.pop()?;
        if let Some(is_in) = self.is_in.get_mut(at) {
            *is_in = false;
        }
        Some(at)
    }
}

impl OutstandingIntegral {
    #[inline]
    fn change(&mut self, now: Timestamp, by: i64) {
        self.area += self.current * i64::from(now.wrapping_sub(self.since));
        self.current += by;
        self.since = now;
    }
}
