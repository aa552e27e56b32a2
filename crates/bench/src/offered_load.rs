//! What is sent to whom and when: the load, carried out.

use std::time::Instant;

use sluice_io::{Io, clock};

use crate::emulated_switch::EmulatedSwitch;
use crate::latency::CoarseHistogram;
use crate::outstanding::{TICK_NS, Timestamp};
use crate::plan::{Load, Plan};
use crate::requests::{Buffering, RequestTemplates};
use crate::schedule::Schedule;

/// How far behind its own schedule a generator ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleLag {
    /// Half of the requests went at most so long after they were due, nanoseconds.
    pub p50_ns: u64,
    /// And 99 of a hundred.
    pub p99_ns: u64,
    /// And all.
    pub max_ns: u64,
}

/// What one thread sends.
#[derive(Debug)]
pub(crate) struct OfferedLoad {
    kind: LoadState,
    kept: Buffering,
    /// Most requests open on one switch.
    limit: u32,
    epoch: Instant,
}

#[derive(Debug)]
enum LoadState {
    Window,
    Total { total: i64, quantum: u32, cursor: usize, quota: Vec<u32> },
    Rate { schedule: Schedule, done: u64, due: u64, behind: CoarseHistogram, behind_max: u32 },
}

impl OfferedLoad {
    /// What thread `index` with `players` switches sends from `start` on; stamps count from `epoch`.
    pub(crate) fn new(
        plan: &Plan,
        start: Instant,
        epoch: Instant,
        index: usize,
        players: usize,
    ) -> Self {
        let kind = match plan.load {
            Load::Window(_) | Load::Unlimited => LoadState::Window,
            Load::WindowTotal(n) => {
                let total = (n as usize + plan.threads - 1 - index) / plan.threads;
                let each = total / players.max(1);
                let quantum = u32::try_from(each).unwrap_or(u32::MAX).max(1);
                let total = i64::try_from(total).unwrap_or(i64::MAX);
                LoadState::Total { total, quantum, cursor: 0, quota: vec![0; players] }
            }
            Load::Rate(rate) => {
                #[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
                let share = rate * players as f64 / f64::from(plan.switches);
                let schedule = Schedule::new(start, share, players);
                LoadState::Rate {
                    schedule,
                    done: 0,
                    due: 0,
                    behind: CoarseHistogram::new(),
                    behind_max: 0,
                }
            }
        };
        Self { kind, kept: plan.kept, limit: plan.open_max(), epoch }
    }

    /// When there will be something to send even if nothing is heard.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.kind {
            LoadState::Rate { schedule, due, .. } => Some(schedule.due_at(*due)),
            LoadState::Window | LoadState::Total { .. } => None,
        }
    }

    /// Names the switches that have something to send, though they may have heard nothing; `open` requests are open.
    #[inline]
    pub(crate) fn prepare(&mut self, open: i64, mut touch: impl FnMut(usize)) {
        match &mut self.kind {
            LoadState::Window => {}
            LoadState::Total { total, quantum, cursor, quota } => {
                let mut room = *total - open;
                for _ in 0..quota.len() {
                    if room <= 0 {
                        break;
                    }
                    let n = i64::from(*quantum).min(room);
                    if let Some(quota) = quota.get_mut(*cursor) {
                        *quota = u32::try_from(n).unwrap_or(0);
                    }
                    touch(*cursor);
                    *cursor = (*cursor + 1) % quota.len();
                    room -= n;
                }
            }
            LoadState::Rate { schedule, done, due, .. } => {
                *due = schedule.due(clock::now());
                schedule.switches(*done, *due).for_each(touch);
                *done = *due;
            }
        }
    }

    /// Sends what switch `at` may send; returns when it did so last, and how many ticks all that was sent had been due by
    /// then, together.
    #[inline]
    pub(crate) fn send(
        &mut self,
        at: usize,
        player: &mut EmulatedSwitch,
        io: &mut impl Io,
        requests: &mut RequestTemplates,
    ) -> Option<(Timestamp, i64)> {
        let (mut sent_at, mut overdue) = (None, 0);
        let chunk = u32::try_from(requests.per_chunk()).unwrap_or(u32::MAX);
        let (epoch, kept, limit) = (self.epoch, self.kept, self.limit);
        loop {
            let now = clock::now();
            let stamp = stamp(epoch, now);
            let room = player.room(stamp, limit);
            let wanted = match &mut self.kind {
                LoadState::Window => room,
                LoadState::Total { quota, .. } => {
                    quota.get_mut(at).map_or(0, std::mem::take).min(room)
                }
                LoadState::Rate { schedule, due, .. } => {
                    let backlog = schedule.due_for(at, *due).saturating_sub(player.asked);
                    room.min(u32::try_from(backlog).unwrap_or(u32::MAX))
                }
            };
            // A rest of a chunk waits until more can go with it, unless nothing else would bring us back.
            if wanted == 0 || (sent_at.is_some() && wanted < chunk / 4) {
                return sent_at.map(|stamp| (stamp, overdue));
            }
            let sent = player.send(io, requests, kept, wanted);
            sent_at = Some(stamp);
            if let LoadState::Rate { schedule, behind, behind_max, .. } = &mut self.kind {
                for _ in 0..sent {
                    let due = self::stamp(epoch, schedule.due_at_for(at, player.asked));
                    let late = stamp.wrapping_sub(due);
                    overdue += i64::from(late);
                    behind.record_n(late, 1);
                    *behind_max = late.max(*behind_max);
                    player.issue(1, due);
                    player.asked += 1;
                }
            } else {
                player.issue(sent, stamp);
            }
            if sent < wanted.min(chunk) || player.is_stuck() {
                return sent_at.map(|stamp| (stamp, overdue));
            }
        }
    }

    /// Forgets how far behind its schedule it ran.
    pub(crate) fn forget_behind(&mut self) {
        if let LoadState::Rate { behind, behind_max, .. } = &mut self.kind {
            behind.clear();
            *behind_max = 0;
        }
    }

    /// How far behind its schedule it ran, if it had one.
    pub(crate) fn behind(&self) -> Option<ScheduleLag> {
        match &self.kind {
            LoadState::Rate { behind, behind_max, .. } => Some(ScheduleLag {
                p50_ns: behind.quantile_ns(0.5),
                p99_ns: behind.quantile_ns(0.99),
                max_ns: u64::from(*behind_max) * TICK_NS,
            }),
            LoadState::Window | LoadState::Total { .. } => None,
        }
    }
}

/// `now` as a stamp.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "stamps come round")]
pub(crate) fn stamp(epoch: Instant, now: Instant) -> Timestamp {
    ((now - epoch).as_nanos() as u64 / TICK_NS) as u32
}
