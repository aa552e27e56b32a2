//! The offered load of one thread: which switch sends how many requests, and when.

use std::time::Instant;

use sluice_io::{Io, clock};

use crate::bench_switch::BenchSwitch;
use crate::latency::CoarseHistogram;
use crate::outstanding::{TICK_NS, Timestamp};
use crate::plan::{Load, Plan};
use crate::requests::{Buffering, RequestTemplates};
use crate::schedule::Schedule;

/// How late a generator thread sent its requests, compared with the schedule of an open-loop load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleLag {
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Maximum, nanoseconds.
    pub max_ns: u64,
}

/// The offered load of one thread.
#[derive(Debug)]
pub(crate) struct OfferedLoad {
    state: LoadState,
    buffering: Buffering,
    /// Maximum number of outstanding requests per switch.
    outstanding_max: u32,
    epoch: Instant,
}

#[derive(Debug)]
enum LoadState {
    /// Closed loop: each switch has a window of its own.
    Window,
    /// Closed loop: all switches of the thread share a window of `total` requests, handed out `quantum` at a time.
    SharedWindow { total: i64, quantum: u32, cursor: usize, quota: Vec<u32> },
    /// Open loop.
    Rate { schedule: Schedule, prepared: u64, due: u64, lag: CoarseHistogram, lag_max: u32 },
}

impl OfferedLoad {
    /// The load of thread `thread` with `switches` switches, from `start` on. Timestamps count from `epoch`.
    pub(crate) fn new(
        plan: &Plan,
        start: Instant,
        epoch: Instant,
        thread: usize,
        switches: usize,
    ) -> Self {
        let state = match plan.load {
            Load::Window(_) | Load::Unlimited => LoadState::Window,
            Load::WindowTotal(n) => {
                let total = (n as usize + plan.threads - 1 - thread) / plan.threads;
                let each = total / switches.max(1);
                let quantum = u32::try_from(each).unwrap_or(u32::MAX).max(1);
                let total = i64::try_from(total).unwrap_or(i64::MAX);
                LoadState::SharedWindow { total, quantum, cursor: 0, quota: vec![0; switches] }
            }
            Load::Rate(rate) => {
                #[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
                let share = rate * switches as f64 / f64::from(plan.switches);
                let schedule = Schedule::new(start, share, switches);
                let lag = CoarseHistogram::new();
                LoadState::Rate { schedule, prepared: 0, due: 0, lag, lag_max: 0 }
            }
        };
        Self { state, buffering: plan.buffering, outstanding_max: plan.outstanding_max(), epoch }
    }

    /// When the next request is due by the schedule; `None` if only replies cause requests.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.state {
            LoadState::Rate { schedule, due, .. } => Some(schedule.due_at(*due)),
            LoadState::Window | LoadState::SharedWindow { .. } => None,
        }
    }

    /// Calls `add` with the index of every switch that has requests to send though it may have received nothing.
    ///
    /// `outstanding` is the number of outstanding requests of this thread.
    #[inline]
    pub(crate) fn prepare(&mut self, outstanding: i64, mut add: impl FnMut(usize)) {
        match &mut self.state {
            LoadState::Window => {}
            LoadState::SharedWindow { total, quantum, cursor, quota } => {
                let mut available = *total - outstanding;
                for _ in 0..quota.len() {
                    if available <= 0 {
                        break;
                    }
                    let n = i64::from(*quantum).min(available);
                    if let Some(quota) = quota.get_mut(*cursor) {
                        *quota = u32::try_from(n).unwrap_or(0);
                    }
                    add(*cursor);
                    *cursor = (*cursor + 1) % quota.len();
                    available -= n;
                }
            }
            LoadState::Rate { schedule, prepared, due, .. } => {
                *due = schedule.due(clock::now());
                schedule.switches(*prepared, *due).for_each(add);
                *prepared = *due;
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
    ) -> Option<(Timestamp, i64)> {
        let (mut sent_at, mut overdue) = (None, 0);
        let batch = u32::try_from(templates.batch_size()).unwrap_or(u32::MAX);
        let (epoch, buffering, limit) = (self.epoch, self.buffering, self.outstanding_max);
        loop {
            let now = clock::now();
            let now = timestamp(epoch, now);
            let available = switch.available(now, limit);
            let wanted = match &mut self.state {
                LoadState::Window => available,
                LoadState::SharedWindow { quota, .. } => {
                    quota.get_mut(at).map_or(0, std::mem::take).min(available)
                }
                LoadState::Rate { schedule, due, .. } => {
                    let backlog = schedule.due_for(at, *due).saturating_sub(switch.scheduled_sent);
                    available.min(u32::try_from(backlog).unwrap_or(u32::MAX))
                }
            };
            // After the first batch, a small rest waits until more can be sent with it.
            if wanted == 0 || (sent_at.is_some() && wanted < batch / 4) {
                return sent_at.map(|sent_at| (sent_at, overdue));
            }
            let sent = switch.send_requests(io, templates, buffering, wanted);
            sent_at = Some(now);
            if let LoadState::Rate { schedule, lag, lag_max, .. } = &mut self.state {
                for _ in 0..sent {
                    let due = timestamp(epoch, schedule.due_at_for(at, switch.scheduled_sent));
                    let late = now.wrapping_sub(due);
                    overdue += i64::from(late);
                    lag.record_n(late, 1);
                    *lag_max = late.max(*lag_max);
                    switch.record_sent(1, due);
                    switch.scheduled_sent += 1;
                }
            } else {
                switch.record_sent(sent, now);
            }
            if sent < wanted.min(batch) || switch.has_unsent() {
                return sent_at.map(|sent_at| (sent_at, overdue));
            }
        }
    }

    /// Resets the schedule lag, at the end of the warm-up.
    pub(crate) fn reset_lag(&mut self) {
        if let LoadState::Rate { lag, lag_max, .. } = &mut self.state {
            lag.clear();
            *lag_max = 0;
        }
    }

    /// The schedule lag since the last reset; `None` for closed-loop loads.
    pub(crate) fn lag(&self) -> Option<ScheduleLag> {
        match &self.state {
            LoadState::Rate { lag, lag_max, .. } => Some(ScheduleLag {
                p50_ns: lag.quantile_ns(0.5),
                p99_ns: lag.quantile_ns(0.99),
                max_ns: u64::from(*lag_max) * TICK_NS,
            }),
            LoadState::Window | LoadState::SharedWindow { .. } => None,
        }
    }
}

/// `now` in ticks since `epoch`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "timestamps wrap")]
pub(crate) fn timestamp(epoch: Instant, now: Instant) -> Timestamp {
    ((now - epoch).as_nanos() as u64 / TICK_NS) as u32
}
