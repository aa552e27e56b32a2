//! A generator thread, which emulates a share of the switches.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_io::{IoEvent, clock, cores};

use crate::Error;
use crate::bench_switch::{BenchSwitch, ReceiveContext, SessionCounts};
use crate::connect::GeneratorIo;
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::counts::ErrorCounts;
use crate::offered_load::OfferedLoad;
use crate::outstanding::{TICK_NS, TICKS_PER_S, Timestamp};
use crate::overtaken::AGE_MAX;
use crate::plan::Plan;
use crate::request_records::{RequestRecorder, ticks};
use crate::requests::RequestTemplates;

/// Interval at which every switch is checked for requests that timed out.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How long the thread waits for outstanding replies after the last loop, in addition to the timeout of a request.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The drain ends when no reply arrives for this long and all requests are answered or have timed out. The packet-out of the last
/// answer may arrive after its flow entry.
const SECOND_PART_MAX: Duration = Duration::from_millis(200);

/// Without an iteration of the event loop for this long, the process was stopped, and no latency can be measured.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(8);

/// No timestamp wraps while its request is remembered.
const _: () = {
    let (remembered_s, wrap_s) = (AGE_MAX / TICKS_PER_S, Timestamp::MAX / TICKS_PER_S);
    assert!(PAUSE_MAX.as_secs() <= (wrap_s - remembered_s) as u64);
};

/// A generator thread. It emulates every `threads`-th switch, from `index` on.
///
/// An event-loop iteration has one order: wait, process everything received, send.
pub(crate) struct Generator<I: GeneratorIo> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) index: usize,
    pub(crate) io: I,
    /// The clock of `io`, to be read while an event is borrowed from that.
    clock: I::Clock,
    pub(crate) switches: Vec<BenchSwitch>,
    pub(crate) templates: RequestTemplates,
    pub(crate) shared: Arc<SharedState>,
    /// Index of the switch in `switches`, by the slot of its connection.
    pub(crate) by_slot: Vec<usize>,
    pub(crate) pending: PendingSwitches,
    pub(crate) sessions: SessionCounts,
    events: Sender<ThreadEvent>,
    recorder: RequestRecorder,
    outstanding: OutstandingIntegral,
    waited: Duration,
    answered: u64,
    /// When the last iteration of the event loop waited for events.
    last_iteration: Instant,
    /// The longest time for which the process was stopped.
    paused: Duration,
    silence: Silence,
}

/// How long no request was answered although some were outstanding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    pub(crate) since: Instant,
    answered: u64,
    pub(crate) longest: Duration,
}

/// Switches to visit in the send step, each once: they received something, or their socket is writable again.
#[derive(Debug)]
pub(crate) struct PendingSwitches {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

/// Number of outstanding requests, and its integral over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutstandingIntegral {
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
            plan: Arc::clone(plan),
            index,
            clock: io.clock(),
            io,
            pending: PendingSwitches::new(switches.len()),
            switches,
            templates,
            shared: Arc::clone(shared),
            by_slot: Vec::new(),
            sessions: SessionCounts::default(),
            events,
            recorder: RequestRecorder::new(plan, now),
            outstanding: OutstandingIntegral::default(),
            waited: Duration::ZERO,
            answered: 0,
            last_iteration: now,
            paused: Duration::ZERO,
            silence: Silence::new(now),
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
        while self.io.now() < start {
            self.run_iteration(Some(start), None)?;
        }
        self.run_loops(start)
    }

    /// Resets all counts before the first request.
    fn prepare(&mut self) {
        let timeout_ticks = u32::try_from(ticks(self.plan.timeout));
        for switch in &mut self.switches {
            switch.prepare(&self.plan, timeout_ticks.unwrap_or(u32::MAX / 2));
        }
        self.sessions.errors = ErrorCounts::default();
        self.answered = 0;
    }

    /// Runs the loops, one directly after the other, then the drain.
    fn run_loops(&mut self, start: Instant) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let mut load = OfferedLoad::new(&plan, start, self.index, self.switches.len());
        self.recorder.set_start(start);
        self.silence.since = start;
        let mut before = self.snapshot();
        let (mut schedule_lag, mut longest_silence) = (None, Duration::ZERO);
        for number in 0..plan.loops {
            if number == plan.measured().start {
                load.reset_lag();
                self.silence = Silence { answered: self.answered, ..Silence::new(self.io.now()) };
            }
            self.run_loop(start + plan.loop_time * (number + 1), &mut load)?;
            if number + 1 == plan.measured().end {
                (schedule_lag, longest_silence) = (load.lag(), self.silence.longest);
            }
            let after = self.snapshot();
            self.report_loop(number, &before, &after);
            before = after;
            if self.shared.is_stopped() {
                return Ok(());
            }
        }
        // What has become due just before the end.
        self.send(self.io.now(), Some(&mut load));
        load.finish(&mut self.switches, &mut self.recorder);
        let drain_cut_short = self.drain()?;
        let result = ThreadResult { schedule_lag, longest_silence, ..self.result(drain_cut_short) };
        self.send_event(ThreadEvent::Finished(result));
        Ok(())
    }

    /// The result of the thread, after the drain.
    fn result(&mut self, drain_cut_short: bool) -> ThreadResult {
        for switch in &mut self.switches {
            switch.give_up(&mut self.recorder);
        }
        let (loops, unanswered_min_ns) = self.recorder.take();
        let connected = self.switches.iter().find_map(|switch| switch.conn);
        let switches = self.switches.iter();
        ThreadResult {
            thread: self.index,
            switches: switches.map(|switch| SwitchResult::new(switch, unanswered_min_ns)).collect(),
            loops,
            unanswered_min_ns,
            errors: self.sessions.errors.clone(),
            schedule_lag: None,
            drain_cut_short,
            paused: self.paused,
            longest_silence: Duration::ZERO,
            network: None,
            socket: connected.and_then(|id| self.io.effective_options(id)),
        }
    }

    fn run_loop(&mut self, end: Instant, load: &mut OfferedLoad) -> Result<(), Error> {
        let mut now = self.io.now();
        let mut sweep = now;
        while now < end && !self.shared.is_stopped() {
            if now >= sweep {
                self.expire_requests(Some(load));
                (0..self.switches.len()).for_each(|at| self.pending.add(at));
                self.send(now, Some(load));
                self.publish_sessions();
                sweep = now + SWEEP_INTERVAL;
            }
            let before = now;
            now = self.run_iteration(Some(end.min(sweep)), Some(load))?;
            self.silence.update(before, now, self.answered, self.outstanding.current);
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
        self.shared.publish_sessions(self.index, *ready_switches, errors.total());
    }

    fn snapshot(&mut self) -> LoopSnapshot {
        let time = self.io.now();
        self.outstanding.change(self.recorder.timestamp(time), 0);
        LoopSnapshot {
            time,
            cpu: clock::thread_cpu(),
            waited: self.waited,
            area: self.outstanding.area,
            answered: self.switches.iter().map(|switch| switch.counts.answered).collect(),
        }
    }

    fn report_loop(&mut self, number: u32, from: &LoopSnapshot, to: &LoopSnapshot) {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
        let outstanding_area_s = (to.area - from.area) as f64 * TICK_NS as f64 / 1e9;
        self.send_event(ThreadEvent::LoopFinished(ThreadLoopResult {
            thread: self.index,
            number,
            elapsed: to.time - from.time,
            answered: to.answered.iter().zip(&from.answered).map(|(to, from)| to - from).collect(),
            cpu: to.cpu.saturating_sub(from.cpu),
            waited: to.waited.saturating_sub(from.waited),
            outstanding_area_s,
            network: None,
        }));
    }

    /// Waits until each outstanding request is answered or has timed out, and for the second parts of answers; `true` if some were
    /// still outstanding at the time limit.
    fn drain(&mut self) -> Result<bool, Error> {
        let started_at = self.io.now();
        let end = started_at + DRAIN_MAX + self.plan.timeout;
        let (mut now, mut last, mut replies) = (started_at, started_at, self.matched_replies());
        while !self.shared.is_stopped() {
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
        let before = (self.plan.spin > Duration::ZERO).then(|| self.io.now());
        let now = self.io.wait(deadline)?;
        self.waited += before.map_or(Duration::ZERO, |before| now - before);
        let mut load = load;
        if now - self.last_iteration > PAUSE_MAX {
            self.recover_from_pause(now, load.as_deref_mut());
        }
        self.last_iteration = now;
        self.receive();
        self.send(now, load);
        self.shared.publish_answered(self.index, self.answered);
        Ok(now)
    }

    /// Gives up the outstanding requests after the process was stopped, as by a signal or with its machine: nobody knows when their
    /// answers arrived. They are recorded with the last timestamp before, since timestamps may have wrapped.
    #[cold]
    fn recover_from_pause(&mut self, now: Instant, load: Option<&mut OfferedLoad>) {
        self.paused = self.paused.max(now - self.last_iteration);
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
        let now = self.recorder.timestamp(self.io.now());
        self.outstanding.change(now, -i64::from(switch.outstanding()));
        switch.lifecycle.disconnect_reason = Some(reason);
    }

    fn send(&mut self, now: Instant, mut load: Option<&mut OfferedLoad>) {
        if let Some(load) = &mut load {
            let (switches, recorder) = (&mut self.switches, &mut self.recorder);
            let pending = &mut self.pending;
            load.prepare(now, self.outstanding.current, switches, recorder, |at| pending.add(at));
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
                    self.outstanding.area += overdue;
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

impl Silence {
    /// None before `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, answered: 0, longest: Duration::ZERO }
    }

    /// Updates it after an iteration of the event loop, which waited from `before` to `now`.
    #[inline]
    pub(crate) fn update(
        &mut self,
        before: Instant,
        now: Instant,
        answered: u64,
        outstanding: i64,
    ) {
        // The thread wakes up for each sweep: if it did not run for longer, nobody knows when the controller answered.
        let has_run = now - before < 2 * SWEEP_INTERVAL;
        if answered != self.answered || outstanding <= 0 || !has_run {
            (self.since, self.answered) = (now, answered);
        } else {
            self.longest = self.longest.max(now - self.since);
        }
    }
}

impl OutstandingIntegral {
    /// The integral up to the last change, in request-ticks.
    pub(crate) fn area(&self) -> i64 {
        self.area
    }

    #[inline]
    pub(crate) fn change(&mut self, now: Timestamp, by: i64) {
        self.area += self.current * i64::from(now.wrapping_sub(self.since));
        self.current += by;
        self.since = now;
    }
}
