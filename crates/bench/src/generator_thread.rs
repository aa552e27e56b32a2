//! What generator threads have in common, whether they request flow entries or paths: their course from the first connection to the
//! drain, and what they report to the coordinator.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::{clock, cores};

use crate::Error;
use crate::coordination::{SharedState, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::paths::NetworkLoopCounts;
use crate::plan::Plan;
use crate::timestamp::TICK_NS;

/// Interval at which every switch is checked for requests that timed out.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Without an iteration of the event loop for this long, the process was stopped, and no latency can be measured.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The course of a generator thread. Its event loop runs from one call of [`iterate`](Self::iterate) to the next.
pub(crate) trait GeneratorThread: Sized {
    /// What all threads have.
    fn state(&mut self) -> &mut ThreadState;

    /// The current time.
    fn now(&self) -> Instant;

    /// Connects all switches and announces the hosts.
    fn prepare(&mut self) -> Result<(), Error>;

    /// One event-loop iteration that requests nothing. Returns the time at the end of the wait.
    fn iterate(&mut self, deadline: Option<Instant>) -> Result<Instant, Error>;

    /// The first loop starts at `start`.
    fn begin(&mut self, start: Instant);

    /// The first measured loop starts.
    fn begin_measured(&mut self) {}

    /// The last measured loop has ended.
    fn end_measured(&mut self) {}

    /// Runs one loop.
    fn run_loop(&mut self, end: Instant) -> Result<(), Error>;

    /// Waits for outstanding requests after the last loop; `true` if some were still outstanding at the time limit.
    fn drain(&mut self) -> Result<bool, Error>;

    /// Requests answered since the first.
    fn answered(&self) -> u64;

    /// The totals now.
    fn snapshot(&mut self) -> LoopSnapshot;

    /// The latencies of the requests that were sent in a loop and answered until now, if they are kept by the loop.
    ///
    /// # Cost
    /// A copy of a histogram.
    fn latencies(&self, number: u32) -> Option<Histogram<u64>>;

    /// The result after the drain; what the [state](ThreadState) knows is filled in by the caller.
    fn result(&mut self) -> ThreadResult;

    /// Runs the whole measurement; reports each step to the coordinator.
    fn run(mut self) {
        if let Err(e) = self.try_run() {
            self.state().send_event(ThreadEvent::Failed(e));
        }
    }

    /// The same with an error as the result.
    fn try_run(&mut self) -> Result<(), Error> {
        let (plan, index) = (Arc::clone(&self.state().plan), self.state().index);
        if let Some(&core) = plan.pin.get(index % plan.pin.len().max(1)) {
            cores::pin(core).map_err(|e| Error::Pin(core, e))?;
        }
        self.prepare()?;
        self.state().send_event(ThreadEvent::Ready);
        let start = loop {
            if self.state().shared.is_stopped() {
                return Ok(());
            }
            if let Some(start) = self.state().shared.start() {
                break start;
            }
            self.iterate(None)?;
        };
        self.run_until(start)?;
        self.run_loops(start)
    }

    /// Runs the event loop until a time, without requests.
    fn run_until(&mut self, until: Instant) -> Result<(), Error> {
        while self.now() < until && !self.state().shared.is_stopped() {
            self.iterate(Some(until))?;
        }
        Ok(())
    }

    /// Runs the loops, one directly after the other, then the drain.
    fn run_loops(&mut self, start: Instant) -> Result<(), Error> {
        let plan = Arc::clone(&self.state().plan);
        self.begin(start);
        self.state().silence = Silence::new(start, 0);
        let mut before = self.snapshot();
        let mut longest_silence = Duration::ZERO;
        for number in 0..plan.loops {
            if number == plan.measured().start {
                self.begin_measured();
                self.state().silence = Silence::new(self.now(), self.answered());
            }
            self.run_loop(start + plan.loop_time * (number + 1))?;
            if number + 1 == plan.measured().end {
                self.end_measured();
                longest_silence = self.state().silence.longest;
            }
            let after = self.snapshot();
            let has_latencies = plan.has_interim_latencies && plan.is_interim(number);
            let latencies = has_latencies.then(|| self.latencies(number)).flatten();
            let state = self.state();
            let result = before.until(&after, state.index, number);
            let result = ThreadLoopResult { latencies, ..result };
            state.send_event(ThreadEvent::LoopFinished(result));
            before = after;
            if state.shared.is_stopped() {
                return Ok(());
            }
        }
        let drain_cut_short = self.drain()?;
        let result = self.result();
        let state = self.state();
        let (thread, paused) = (state.index, state.paused);
        let result = ThreadResult { thread, drain_cut_short, paused, longest_silence, ..result };
        state.send_event(ThreadEvent::Finished(result));
        Ok(())
    }
}

/// State of any generator thread.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) plan: Arc<Plan>,
    /// Number of the thread.
    pub(crate) index: usize,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) silence: Silence,
    /// Time spent waiting for events; measured only if the thread spins.
    pub(crate) waited: Duration,
    events: Sender<ThreadEvent>,
    /// When the last iteration of the event loop waited for events.
    last_iteration: Instant,
    /// The longest time for which the process was stopped.
    paused: Duration,
}

impl ThreadState {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        index: usize,
        shared: &Arc<SharedState>,
        events: Sender<ThreadEvent>,
        now: Instant,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            index,
            shared: Arc::clone(shared),
            silence: Silence::new(now, 0),
            waited: Duration::ZERO,
            events,
            last_iteration: now,
            paused: Duration::ZERO,
        }
    }

    fn send_event(&self, event: ThreadEvent) {
        // The receiver is dropped only when the coordinator itself failed.
        let _ = self.events.send(event);
    }

    /// Records that the thread waited for events until `now`, and since `before` if it measures that. Returns for how long the
    /// process was stopped, as by a signal or with its machine, if it was.
    #[inline]
    pub(crate) fn end_wait(&mut self, before: Option<Instant>, now: Instant) -> Option<Duration> {
        self.waited +=
            before.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        let since_last = now.saturating_duration_since(self.last_iteration);
        self.last_iteration = now;
        if since_last <= PAUSE_MAX {
            return None;
        }
        self.paused = self.paused.max(since_last);
        Some(since_last)
    }
}

/// How long no request was answered although some were outstanding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    since: Instant,
    answered: u64,
    longest: Duration,
}

impl Silence {
    /// None before `now`, when so many requests have been answered.
    pub(crate) fn new(now: Instant, answered: u64) -> Self {
        Self { since: now, answered, longest: Duration::ZERO }
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

/// Totals of a thread at a boundary between two loops.
#[derive(Debug)]
pub(crate) struct LoopSnapshot {
    pub(crate) time: Instant,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
    /// Outstanding requests integrated over time, in request-ticks.
    pub(crate) area: i64,
    /// Requests answered, by switch.
    pub(crate) answered: Vec<u64>,
    /// Messages that the switches of a network executed.
    pub(crate) network: Option<NetworkLoopCounts>,
}

impl LoopSnapshot {
    /// Totals of a thread with these figures and the CPU time until now.
    pub(crate) fn new(state: &ThreadState, time: Instant, area: i64, answered: Vec<u64>) -> Self {
        let (cpu, waited) = (clock::thread_cpu(), state.waited);
        Self { time, cpu, waited, area, answered, network: None }
    }

    /// The figures of loop `number` of a thread, between this boundary and the next one.
    fn until(&self, next: &Self, thread: usize, number: u32) -> ThreadLoopResult {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
        let outstanding_area_s = (next.area - self.area) as f64 * TICK_NS as f64 / 1e9;
        let answered = next.answered.iter().zip(&self.answered).map(|(next, own)| next - own);
        ThreadLoopResult {
            thread,
            number,
            elapsed: next.time - self.time,
            answered: answered.collect(),
            cpu: next.cpu.saturating_sub(self.cpu),
            waited: next.waited.saturating_sub(self.waited),
            outstanding_area_s,
            latencies: None,
            network: next.network.zip(self.network).map(|(next, own)| NetworkLoopCounts {
                flow_mods: next.flow_mods - own.flow_mods,
                packet_outs: next.packet_outs - own.packet_outs,
            }),
        }
    }
}
