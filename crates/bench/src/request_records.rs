//! What became of the requests of one thread, by the loop in which they were sent or due.

use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::counts::{NotSent, NotSentReason};
use crate::distribution::LatencyDistribution;
use crate::latency::histogram;
use crate::plan::Plan;
use crate::timestamp::{TICK_NS, Timestamp, ticks};

/// Records for each loop what became of the requests of one thread, and converts times to timestamps.
#[derive(Debug)]
pub(crate) struct RequestRecorder {
    epoch: Instant,
    /// The newest timestamp, not wrapped.
    now: u64,
    /// When the first loop starts, in ticks since `epoch`.
    start: u64,
    loop_ticks: u64,
    measured: Range<usize>,
    loops_max: usize,
    loops: Vec<LoopRequests>,
    /// The loop of the last record, and the tick at which it starts.
    last: (usize, u64),
    /// The smallest age at which a request was given up, at most the timeout. Those that were not sent were not answered for that
    /// long either.
    unanswered_age_min: Timestamp,
}

/// The requests that were sent or due in one loop.
#[derive(Debug, Clone)]
pub(crate) struct LoopRequests {
    /// Latencies of those that were answered in time.
    pub(crate) answered: Histogram<u64>,
    /// Those that were sent and not answered in time.
    pub(crate) unanswered: u64,
    /// Those that were due and not sent.
    pub(crate) not_sent: NotSent,
}

impl LoopRequests {
    pub(crate) fn new() -> Self {
        Self { answered: histogram(), unanswered: 0, not_sent: NotSent::default() }
    }

    /// Adds the requests of another thread or loop.
    pub(crate) fn add(&mut self, other: &Self) {
        // Does not fail: histograms are resized as needed.
        let _ = self.answered.add(&other.answered);
        self.unanswered += other.unanswered;
        self.not_sent += other.not_sent;
    }

    /// Their latencies; those that were not answered take at least `unanswered_min_ns`.
    pub(crate) fn into_latencies(self, unanswered_min_ns: u64) -> LatencyDistribution {
        let unanswered = self.unanswered + self.not_sent.total();
        LatencyDistribution { answered: self.answered, unanswered, unanswered_min_ns }
    }
}

impl RequestRecorder {
    pub(crate) fn new(plan: &Plan, epoch: Instant) -> Self {
        let measured = plan.measured();
        Self {
            epoch,
            now: 0,
            start: 0,
            loop_ticks: ticks(plan.loop_time).max(1),
            measured: measured.start as usize..measured.end as usize,
            loops_max: plan.loops as usize,
            loops: Vec::new(),
            last: (0, 0),
            unanswered_age_min: Timestamp::try_from(ticks(plan.timeout)).unwrap_or(Timestamp::MAX),
        }
    }

    /// Sets the time at which the first loop starts.
    pub(crate) fn set_start(&mut self, start: Instant) {
        self.start = ticks(start.saturating_duration_since(self.epoch));
        self.last = (0, self.start);
        self.loops.resize_with(self.loops_max.min(1), LoopRequests::new);
    }

    /// The timestamp of `now`, or of the last call if that was later.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "timestamps wrap")]
    pub(crate) fn timestamp(&mut self, now: Instant) -> Timestamp {
        self.now = self.now.max(ticks(now.saturating_duration_since(self.epoch)));
        self.now as Timestamp
    }

    /// Calls `give_up`, in which requests are given up that have been outstanding for at least `age`, whatever the last timestamp says.
    pub(crate) fn give_up(&mut self, age: Duration, give_up: impl FnOnce(&mut Self)) {
        let before = self.unanswered_age_min;
        give_up(self);
        let age = Timestamp::try_from(ticks(age)).unwrap_or(Timestamp::MAX);
        self.unanswered_age_min = before.min(age);
    }

    /// The last timestamp.
    #[expect(clippy::cast_possible_truncation, reason = "timestamps wrap")]
    pub(crate) fn last_timestamp(&self) -> Timestamp {
        self.now as Timestamp
    }

    /// The timestamp of a time that is not more than a minute before the last one.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "timestamps wrap")]
    pub(crate) fn timestamp_of_past(&self, time: Instant) -> Timestamp {
        ticks(time.saturating_duration_since(self.epoch)) as Timestamp
    }

    /// Ticks between `time` and the last timestamp.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "timestamps wrap")]
    fn age(&self, time: Timestamp) -> Timestamp {
        (self.now as Timestamp).wrapping_sub(time)
    }

    /// The number of the loop in which something was sent or due.
    #[inline]
    fn loop_of(&mut self, time: Timestamp) -> usize {
        let time = self.now.saturating_sub(self.age(time).into());
        let (number, start) = self.last;
        if time.wrapping_sub(start) < self.loop_ticks {
            return number;
        }
        self.other_loop(time)
    }

    #[cold]
    fn other_loop(&mut self, time: u64) -> usize {
        let number = time.saturating_sub(self.start) / self.loop_ticks;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let number = number.min(self.loops_max.saturating_sub(1));
        self.last = (number, self.start + self.loop_ticks * number as u64);
        if self.loops.len() <= number {
            self.loops.resize_with(number + 1, LoopRequests::new);
        }
        number
    }

    /// Records `n` answers that arrive now, to requests sent or due at `since`; `true` if these belong to a measured loop.
    #[inline]
    pub(crate) fn record_answers(&mut self, since: Timestamp, n: u32) -> bool {
        let number = self.loop_of(since);
        let latency_ns = u64::from(self.age(since)) * TICK_NS;
        if let Some(requests) = self.loops.get_mut(number) {
            // Does not fail: the histogram is resized as needed.
            let _ = requests.answered.record_n(latency_ns, n.into());
        }
        self.measured.contains(&number)
    }

    /// The latencies of the requests of loop `number` that were answered until now.
    pub(crate) fn latencies(&self, number: u32) -> Option<Histogram<u64>> {
        self.loops.get(number as usize).map(|requests| requests.answered.clone())
    }

    /// Records that a request is given up that was sent or due at `since`; `true` if that belongs to a measured loop.
    pub(crate) fn record_unanswered(&mut self, since: Timestamp) -> bool {
        let number = self.loop_of(since);
        self.unanswered_age_min = self.unanswered_age_min.min(self.age(since));
        if let Some(requests) = self.loops.get_mut(number) {
            requests.unanswered += 1;
        }
        self.measured.contains(&number)
    }

    /// Records that a request which was due at `due` is not sent; `true` if it belongs to a measured loop.
    pub(crate) fn record_not_sent(&mut self, due: Timestamp, reason: NotSentReason) -> bool {
        let number = self.loop_of(due);
        if let Some(requests) = self.loops.get_mut(number) {
            requests.not_sent.add(reason, 1);
        }
        self.measured.contains(&number)
    }

    /// Records that `n` requests which were due in loop `number` are not sent; `true` if it is measured.
    pub(crate) fn record_not_sent_in(
        &mut self,
        number: usize,
        n: u64,
        reason: NotSentReason,
    ) -> bool {
        if self.loops.len() <= number {
            self.loops.resize_with(number + 1, LoopRequests::new);
        }
        if let Some(requests) = self.loops.get_mut(number) {
            requests.not_sent.add(reason, n);
        }
        self.measured.contains(&number)
    }

    /// The records of all loops, and the smallest age at which a request was given up, in nanoseconds.
    pub(crate) fn take(&mut self) -> (Vec<LoopRequests>, u64) {
        self.loops.resize_with(self.loops_max, LoopRequests::new);
        let unanswered_min_ns = u64::from(self.unanswered_age_min) * TICK_NS;
        (std::mem::take(&mut self.loops), unanswered_min_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use sluice_io::clock;

    use super::*;

    /// Three loops of a second, of which the second is measured; the first starts a second after the epoch.
    fn recorder() -> (RequestRecorder, Instant) {
        let plan = Plan { loops: 3, warmup: 1, cooldown: 1, ..Plan::default() };
        let epoch = clock::now();
        let mut recorder = RequestRecorder::new(&plan, epoch);
        recorder.set_start(epoch + Duration::from_secs(1));
        (recorder, epoch)
    }

    #[test]
    fn answers_belong_to_the_loop_in_which_their_requests_were_sent() {
        let (mut recorder, epoch) = recorder();
        let at = |ms: u64| epoch + Duration::from_millis(ms);
        let sent = [1000, 1999, 2000, 2999, 3000, 3999].map(|ms| recorder.timestamp(at(ms)));
        // After the last loop, during the drain.
        recorder.timestamp(at(4500));
        let measured = sent.map(|sent_at| recorder.record_answers(sent_at, 2));
        assert_eq!(measured, [false, false, true, true, false, false]);
        let (loops, _) = recorder.take();
        assert!(loops.iter().all(|of_loop| of_loop.answered.len() == 4));
        let [shortest, longest] = [loops[1].answered.min(), loops[1].answered.max()];
        assert!(
            shortest.abs_diff(1_501_000_000) < 1_501_000
                && longest.abs_diff(2_500_000_000) < 2_500_000
        );
    }

    #[test]
    fn unanswered_requests_count_in_the_loop_in_which_they_were_sent_or_due() {
        let (mut recorder, epoch) = recorder();
        let at = |ms: u64| epoch + Duration::from_millis(ms);
        let [sent, due] = [1500, 2500].map(|ms| recorder.timestamp(at(ms)));
        recorder.timestamp(at(7500));
        assert!(!recorder.record_unanswered(sent));
        assert!(recorder.record_not_sent(due, NotSentReason::SocketFull));
        recorder.record_not_sent_in(2, 5, NotSentReason::GeneratorLate);
        let (loops, unanswered_min_ns) = recorder.take();
        let unanswered: Vec<_> = loops.iter().map(|it| it.unanswered).collect();
        let not_sent: Vec<_> = loops.iter().map(|it| it.not_sent.total()).collect();
        assert_eq!((unanswered, not_sent), (vec![1, 0, 0], vec![0, 1, 5]));
        assert_eq!(unanswered_min_ns, 5_000_000_000, "the timeout");
    }

    #[test]
    fn timestamps_wrap_during_long_runs() {
        let plan = Plan { loops: 300, ..Plan::default() };
        let epoch = clock::now();
        let mut recorder = RequestRecorder::new(&plan, epoch);
        recorder.set_start(epoch);
        // Each is answered after 40 s.
        let mut outstanding = VecDeque::new();
        for second in 0..340 {
            outstanding.push_back(recorder.timestamp(epoch + Duration::from_secs(second)));
            if second >= 40 {
                recorder.record_answers(outstanding.pop_front().unwrap(), 1);
            }
        }
        let (loops, _) = recorder.take();
        assert!(loops.iter().all(|of_loop| of_loop.answered.len() == 1));
    }
}
