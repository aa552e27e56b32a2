//! The offered load of one thread: which switch sends how many requests, and when.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_io::Io;

use crate::bench_switch::BenchSwitch;
use crate::counts::NotSentReason;
use crate::latency::CoarseHistogram;
use crate::plan::{Load, Plan};
use crate::request_records::RequestRecorder;
use crate::requests::{Buffering, RequestTemplates};
use crate::schedule::Schedule;
use crate::timestamp::{TICK_NS, Timestamp, ticks};

/// Due requests that are processed in one event-loop iteration; a generator that is too slow for the rate must not stop receiving.
const DUE_MAX: u32 = 1 << 16;

/// How late requests of an open-loop load were sent, compared with the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleLag {
    /// Median lag of the generator, nanoseconds: of requests that could have been sent when they were due.
    pub p50_ns: u64,
    /// Its 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Its maximum, nanoseconds.
    pub max_ns: u64,
    /// Requests that were sent late since the controller did not read, or did not answer earlier ones.
    pub held_back: u64,
    /// The maximum by which these were late, nanoseconds.
    pub held_back_max_ns: u64,
}

impl ScheduleLag {
    /// That of two threads together: the percentiles of the one that was later.
    pub(crate) fn merge(self, other: Self) -> Self {
        let worse = if self.p99_ns >= other.p99_ns { self } else { other };
        Self {
            max_ns: self.max_ns.max(other.max_ns),
            held_back: self.held_back + other.held_back,
            held_back_max_ns: self.held_back_max_ns.max(other.held_back_max_ns),
            ..worse
        }
    }
}

/// The offered load of one thread.
#[derive(Debug)]
pub(crate) struct OfferedLoad {
    state: LoadState,
    buffering: Buffering,
    /// Maximum number of outstanding requests per switch.
    outstanding_max: u32,
    /// Nothing is sent from then on, but what was due before.
    end: Instant,
}

#[derive(Debug)]
enum LoadState {
    /// Closed loop: each switch has a window of its own.
    Window,
    /// Closed loop: all switches of the thread share a window of `total` requests, handed out `quantum` at a time.
    SharedWindow { total: i64, quantum: u32, cursor: usize, quota: Vec<u32> },
    /// Open loop.
    Rate(OpenLoop),
}

/// Requests that become due by a schedule. Each is sent, or not sent for a reason that is counted.
#[derive(Debug)]
struct OpenLoop {
    schedule: Schedule,
    start: Instant,
    /// No request is due from then on.
    end: Instant,
    loop_time: Duration,
    /// Age at which a request that was not sent is given up.
    timeout: Duration,
    /// The switch that sends the next request; they take turns.
    next_switch: usize,
    queues: Vec<DueQueue>,
    /// Most requests in a queue.
    queue_len_max: usize,
    lag: CoarseHistogram,
    lag_max: Timestamp,
    held_back: u64,
    held_back_max: Timestamp,
}

/// Requests of one switch that are due and not sent yet.
#[derive(Debug, Default)]
struct DueQueue {
    /// When each was due.
    due: VecDeque<Timestamp>,
    /// Why the last attempt to send did not send all.
    blocked: Option<NotSentReason>,
}

impl OfferedLoad {
    /// The load of thread `thread` with `switches` switches, from `start` on.
    pub(crate) fn new(plan: &Plan, start: Instant, thread: usize, switches: usize) -> Self {
        let state = match plan.load {
            Load::Window(_) | Load::Unlimited => LoadState::Window,
            Load::WindowTotal(n) => {
                let total = (n as usize + plan.threads - 1 - thread) / plan.threads;
                let each = total / switches.max(1);
                let quantum = u32::try_from(each).unwrap_or(u32::MAX).max(1);
                let total = i64::try_from(total).unwrap_or(i64::MAX);
                LoadState::SharedWindow { total, quantum, cursor: 0, quota: vec![0; switches] }
            }
            Load::Rate(rate) => LoadState::Rate(OpenLoop::new(plan, rate, start, thread, switches)),
        };
        let end = start + plan.loop_time * plan.loops;
        Self { state, buffering: plan.buffering, outstanding_max: plan.outstanding_max(), end }
    }

    /// When the next request is due by the schedule; `None` if only replies cause requests.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.state {
            LoadState::Rate(open_loop) => Some(open_loop.schedule.next_due()),
            LoadState::Window | LoadState::SharedWindow { .. } => None,
        }
    }

    /// Calls `add` with the index of every switch that has requests to send though it may have received nothing.
    ///
    /// `outstanding` is the number of outstanding requests of this thread.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        now: Instant,
        outstanding: i64,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
        mut add: impl FnMut(usize),
    ) {
        match &mut self.state {
            LoadState::Window => {}
            LoadState::SharedWindow { total, quantum, cursor, quota } => {
                let mut available = *total - outstanding;
                for _ in 0..quota.len() {
                    if available <= 0 {
                        break;
                    }
                    let takes_requests =
                        |switch: &BenchSwitch| switch.conn.is_some() && !switch.has_unsent();
                    if switches.get(*cursor).is_some_and(takes_requests) {
                        let n = i64::from(*quantum).min(available);
                        if let Some(quota) = quota.get_mut(*cursor) {
                            *quota = u32::try_from(n).unwrap_or(0);
                        }
                        add(*cursor);
                        available -= n;
                    }
                    *cursor = (*cursor + 1) % quota.len();
                }
            }
            LoadState::Rate(open_loop) => {
                open_loop.skip_outdated(now, switches, recorder);
                open_loop.prepare(now, switches, recorder, add);
            }
        }
    }

    /// Sends the requests that switch `at` may send. Returns when it last sent some, and the sum of the ticks by which
    /// all that it sent were overdue then.
    #[inline]
    pub(crate) fn send(
        &mut self,
        at: usize,
        switch: &mut BenchSwitch,
        io: &mut impl Io,
        templates: &mut RequestTemplates,
        recorder: &mut RequestRecorder,
    ) -> Option<(Timestamp, i64)> {
        let (mut sent_at, mut overdue) = (None, 0);
        let batch = u32::try_from(templates.batch_size()).unwrap_or(u32::MAX);
        let (buffering, limit) = (self.buffering, self.outstanding_max);
        let was_blocked = self.is_blocked(at);
        loop {
            let now = io.now();
            if now >= self.end && !matches!(self.state, LoadState::Rate(_)) {
                return sent_at.map(|sent_at| (sent_at, overdue));
            }
            let now = recorder.timestamp(now);
            let available = switch.available(now, limit, recorder);
            let wanted = match &mut self.state {
                LoadState::Window => available,
                LoadState::SharedWindow { quota, .. } => {
                    quota.get_mut(at).map_or(0, std::mem::take).min(available)
                }
                LoadState::Rate(open_loop) => open_loop.wanted(at, available),
            };
            // After the first batch of a closed loop, a small rest waits until more can be sent with it.
            let is_small_rest = sent_at.is_some()
                && wanted < batch / 4
                && !matches!(self.state, LoadState::Rate(_));
            if wanted == 0 || is_small_rest {
                return sent_at.map(|sent_at| (sent_at, overdue));
            }
            let sent = switch.send_requests(io, templates, buffering, wanted);
            sent_at = Some(now);
            let is_blocked = sent < wanted.min(batch) || switch.has_unsent();
            match &mut self.state {
                LoadState::Rate(open_loop) => {
                    let blocked = if is_blocked {
                        Some(NotSentReason::SocketFull)
                    } else {
                        (sent == available).then_some(NotSentReason::WindowFull)
                    };
                    overdue += open_loop.sent(at, switch, now, sent, was_blocked);
                    open_loop.set_blocked(at, blocked);
                }
                _ => switch.record_sent(sent, now),
            }
            if is_blocked {
                return sent_at.map(|sent_at| (sent_at, overdue));
            }
        }
    }

    /// Gives up due requests that could not be sent within the timeout, and those of switches that are not connected.
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
    ) {
        if let LoadState::Rate(open_loop) = &mut self.state {
            open_loop.expire(now, switches, recorder);
        }
    }

    /// Notes that the socket of switch `at` takes no more bytes.
    pub(crate) fn set_socket_full(&mut self, at: usize) {
        if let LoadState::Rate(open_loop) = &mut self.state {
            open_loop.set_blocked(at, Some(NotSentReason::SocketFull));
        }
    }

    /// Whether the last attempt to send requests of switch `at` did not send all that were due.
    #[inline]
    fn is_blocked(&self, at: usize) -> bool {
        match &self.state {
            LoadState::Rate(open_loop) => {
                open_loop.queues.get(at).is_some_and(|queue| queue.blocked.is_some())
            }
            LoadState::Window | LoadState::SharedWindow { .. } => false,
        }
    }

    /// Gives up all requests that are due and not sent yet, since the process was stopped.
    pub(crate) fn give_up(&mut self, switches: &mut [BenchSwitch], recorder: &mut RequestRecorder) {
        if let LoadState::Rate(open_loop) = &mut self.state {
            open_loop.give_up(switches, recorder);
        }
    }

    /// Gives up what is due and was not sent, after the last loop.
    pub(crate) fn finish(&mut self, switches: &mut [BenchSwitch], recorder: &mut RequestRecorder) {
        if let LoadState::Rate(open_loop) = &mut self.state {
            open_loop.finish(switches, recorder);
        }
    }

    /// Resets the schedule lag, at the end of the warm-up.
    pub(crate) fn reset_lag(&mut self) {
        if let LoadState::Rate(open_loop) = &mut self.state {
            open_loop.lag.clear();
            (open_loop.lag_max, open_loop.held_back, open_loop.held_back_max) = (0, 0, 0);
        }
    }

    /// The schedule lag since the last reset; `None` for closed-loop loads.
    pub(crate) fn lag(&self) -> Option<ScheduleLag> {
        match &self.state {
            LoadState::Rate(open_loop) => Some(ScheduleLag {
                p50_ns: open_loop.lag.quantile_ns(0.5),
                p99_ns: open_loop.lag.quantile_ns(0.99),
                max_ns: u64::from(open_loop.lag_max) * TICK_NS,
                held_back: open_loop.held_back,
                held_back_max_ns: u64::from(open_loop.held_back_max) * TICK_NS,
            }),
            LoadState::Window | LoadState::SharedWindow { .. } => None,
        }
    }
}

impl OpenLoop {
    fn new(plan: &Plan, rate: f64, start: Instant, thread: usize, switches: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
        let share = rate * switches as f64 / f64::from(plan.switches);
        let seed = plan.seed.wrapping_add(thread as u64);
        let queue = |_| DueQueue::default();
        Self {
            schedule: Schedule::new(start, share, plan.arrivals, seed),
            start,
            end: start + plan.loop_time * plan.loops,
            loop_time: plan.loop_time,
            timeout: plan.timeout,
            next_switch: 0,
            queues: (0..switches).map(queue).collect(),
            queue_len_max: plan.outstanding_max() as usize,
            lag: CoarseHistogram::new(),
            lag_max: 0,
            held_back: 0,
            held_back_max: 0,
        }
    }

    /// Queues the requests that have become due.
    fn prepare(
        &mut self,
        now: Instant,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
        mut add: impl FnMut(usize),
    ) {
        recorder.timestamp(now);
        let now = now.min(self.end);
        for _ in 0..DUE_MAX {
            let due_at = self.schedule.next_due();
            if due_at > now || due_at >= self.end {
                break;
            }
            self.schedule.advance();
            let at = self.next_switch;
            self.next_switch = if at + 1 < self.queues.len() { at + 1 } else { 0 };
            let (Some(queue), Some(switch)) = (self.queues.get_mut(at), switches.get_mut(at))
            else {
                continue;
            };
            let due = recorder.timestamp_of_past(due_at);
            if queue.due.len() < self.queue_len_max {
                queue.due.push_back(due);
                // A blocked switch is visited when its socket is writable, or when it has received something.
                if queue.blocked.is_none() {
                    add(at);
                }
            } else {
                switch.record_not_sent(due, queue.reason(switch), recorder);
            }
        }
    }

    /// How many requests switch `at` sends next, if so many are available in its window.
    #[inline]
    fn wanted(&mut self, at: usize, available: u32) -> u32 {
        let Some(queue) = self.queues.get_mut(at) else { return 0 };
        let due = u32::try_from(queue.due.len()).unwrap_or(u32::MAX);
        if due > 0 && available == 0 {
            queue.blocked = Some(NotSentReason::WindowFull);
        }
        due.min(available)
    }

    /// Records why an attempt to send did not send all that is due, if it did not.
    #[inline]
    fn set_blocked(&mut self, at: usize, reason: Option<NotSentReason>) {
        if let Some(queue) = self.queues.get_mut(at) {
            queue.blocked = if queue.due.is_empty() { None } else { reason };
        }
    }

    /// Records that `n` requests were sent at `now`, which the controller had held back if the switch `was_blocked`; returns the sum
    /// of the ticks by which they were overdue.
    fn sent(
        &mut self,
        at: usize,
        switch: &mut BenchSwitch,
        now: Timestamp,
        n: u32,
        was_blocked: bool,
    ) -> i64 {
        let Some(queue) = self.queues.get_mut(at) else { return 0 };
        let mut overdue = 0;
        for due in queue.due.drain(..queue.due.len().min(n as usize)) {
            let late = now.wrapping_sub(due);
            overdue += i64::from(late);
            if was_blocked {
                self.held_back += 1;
                self.held_back_max = self.held_back_max.max(late);
            } else {
                self.lag.record_n(late, 1);
                self.lag_max = self.lag_max.max(late);
            }
            switch.record_sent(1, due);
        }
        overdue
    }

    fn expire(
        &mut self,
        now: Timestamp,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
    ) {
        let timeout = Timestamp::try_from(ticks(self.timeout)).unwrap_or(Timestamp::MAX / 2);
        for (queue, switch) in self.queues.iter_mut().zip(switches) {
            let is_connected = switch.conn.is_some();
            while let Some(&due) = queue.due.front()
                && (!is_connected || now.wrapping_sub(due) > timeout)
            {
                queue.due.pop_front();
                switch.record_not_sent(due, queue.reason(switch), recorder);
            }
        }
    }

    fn finish(&mut self, switches: &mut [BenchSwitch], recorder: &mut RequestRecorder) {
        self.give_up(switches, recorder);
        self.skip_until(self.end, switches, recorder);
    }

    fn give_up(&mut self, switches: &mut [BenchSwitch], recorder: &mut RequestRecorder) {
        for (queue, switch) in self.queues.iter_mut().zip(&mut *switches) {
            let reason = queue.reason(switch);
            for due in queue.due.drain(..) {
                switch.record_not_sent(due, reason, recorder);
            }
        }
    }

    /// Gives up the requests that became due so long ago that they have timed out before they were queued.
    #[inline]
    fn skip_outdated(
        &mut self,
        now: Instant,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
    ) {
        if now.saturating_duration_since(self.schedule.next_due()) > self.timeout {
            let until = now.checked_sub(self.timeout).unwrap_or(now);
            self.skip_until(until.min(self.end), switches, recorder);
        }
    }

    /// Gives up the requests that become due before `end`: the generator was too slow to queue them.
    #[cold]
    fn skip_until(
        &mut self,
        end: Instant,
        switches: &mut [BenchSwitch],
        recorder: &mut RequestRecorder,
    ) {
        let reason = NotSentReason::GeneratorLate;
        while self.schedule.next_due() < end {
            let elapsed = (self.schedule.next_due() - self.start).as_nanos();
            let number = u32::try_from(elapsed / self.loop_time.as_nanos().max(1));
            let number = number.unwrap_or(u32::MAX - 1);
            let end_of_loop = self.start + self.loop_time * (number + 1);
            let skipped = self.schedule.skip_until(end.min(end_of_loop));
            let is_measured = recorder.record_not_sent_in(number as usize, skipped, reason);
            // They would have been sent by all switches in turn.
            if let Some(switch) = switches.get_mut(self.next_switch) {
                switch.counts.not_sent.add(reason, skipped);
                switch.latencies.unanswered += if is_measured { skipped } else { 0 };
            }
            self.next_switch = (self.next_switch + 1) % self.queues.len().max(1);
        }
    }
}

impl DueQueue {
    /// Why a request of the queue is not sent.
    fn reason(&self, switch: &BenchSwitch) -> NotSentReason {
        if switch.conn.is_none() {
            NotSentReason::Disconnected
        } else {
            self.blocked.unwrap_or(NotSentReason::GeneratorLate)
        }
    }
}
