//! Back-pressure of a connection: when its switch is not read, when its packet-ins are discarded, when it is given up, and
//! when the kernel's unsent data is capped.

use std::time::{Duration, Instant};

use sluice_io::{Reading, UnsentCap};

/// Round trips that a switch may stay unread: after a loss, or at the start of a connection, TCP needs several to send what
/// it could otherwise send in one.
const ROUND_TRIPS: u32 = 4;

/// A backlog that drains at up to this rate is slow.
const SLOW_BYTES_PER_S: f64 = 10e6;

/// How long the drain rate is measured. A shorter measurement shows how much room the kernel's buffer has, or that the
/// switch was busy for a moment.
const RATE_SPAN: Duration = Duration::from_millis(100);

/// Time without a backlog after which a slow switch may be as fast as others. See [`Backpressure::expire_slowness`].
pub(crate) const SLOW_TIME: Duration = Duration::from_secs(60);

/// Bytes that the kernel must take for a backlog to have made progress, unless it is less. A peer that takes a byte now and
/// then would otherwise hold a backlog for ever.
const PROGRESS_BYTES: usize = 4 << 10;

/// How a switch is read.
///
/// ```text
///            backlog > limit               backlog <= limit / 2
///  Reading ──────────────────▶ Paused ────────────────────────▶ Reading
///     ▲                          │ the oldest unread input has waited for too long
///     │ backlog <= limit / 2     ▼
///     └──────────────────── LaggingPaused ◀──────────────┐
///     ▲                          │ backlog <= limit      │ backlog > 2 × limit
///     │ backlog <= limit / 2     ▼                       │
///     └───────────────────── Lagging ────────────────────┘
///
///              the backlog has made no progress for too long
///  any state ─────────────────────────────────────────────────▶ Stuck
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadState {
    /// Messages are read and processed.
    #[default]
    Reading,
    /// Nothing is read, so that TCP slows the switch down.
    Paused,
    /// Messages are read, so that link probes arrive, and other packet-ins are discarded: the replies are taken, but so
    /// slowly that the input would wait for too long.
    Lagging,
    /// As [`Lagging`](Self::Lagging), but even so the backlog has grown too much: nothing is read.
    LaggingPaused,
    /// Nothing is read or expected any more: the connection is to be closed.
    Stuck,
}

impl ReadState {
    fn is_paused(self) -> bool {
        matches!(self, Self::Paused | Self::LaggingPaused | Self::Stuck)
    }

    fn is_lagging(self) -> bool {
        matches!(self, Self::Lagging | Self::LaggingPaused)
    }

    fn new(is_paused: bool, is_lagging: bool) -> Self {
        match (is_paused, is_lagging) {
            (false, false) => Self::Reading,
            (true, false) => Self::Paused,
            (false, true) => Self::Lagging,
            (true, true) => Self::LaggingPaused,
        }
    }
}

/// Bytes that each backlog may have, however many there are: with this, 16 384 backlogs have 64 MiB.
const SHARE_MIN: usize = 4 << 10;

/// Bytes of one read of any switch while the backlogs of a worker have half of the memory that they may have in all, at most and at
/// least.
const CAUTIOUS_READ_BYTES: (usize, usize) = (2 << 10, 8 << 10);

/// Bytes that each of `count` backlogs may have of the `total` that all may have.
pub(crate) fn backlog_share(total: usize, count: usize) -> usize {
    (total / count.max(1)).max(SHARE_MIN)
}

/// Bytes of one read while memory for `count` backlogs is short. Since one read is answered in full, this is by how much a backlog can
/// exceed its share.
pub(crate) fn cautious_read_bytes(total: usize, count: usize) -> usize {
    (backlog_share(total, count) / 2).clamp(CAUTIOUS_READ_BYTES.0, CAUTIOUS_READ_BYTES.1)
}

/// The limits of a backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BacklogLimits {
    /// Bytes above which no more messages are read.
    pub(crate) bytes_max: usize,
    /// How long the input of the switch may wait, in addition to [`ROUND_TRIPS`].
    pub(crate) unread_max: Duration,
    /// How long the backlog may make no progress.
    pub(crate) stuck_timeout: Duration,
}

/// The state of a connection's back-pressure: how long the input of the switch has been waiting while it was not read, and
/// how fast its backlog drains.
///
/// When reading stops, a mark is set. When reading resumes, the mark is put behind all bytes that have arrived until then. It is
/// reached when these have been read, even if reading stops again in between. So the age of the mark is how
/// long the oldest unread input has been waiting.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    state: ReadState,
    mark: Option<UnreadMark>,
    /// When the backlog made progress last; `None` without a backlog.
    progress_at: Option<Instant>,
    /// Bytes sent since then.
    sent_since: usize,
    rate: Option<RateSample>,
    /// The last measured rate was at most [`SLOW_BYTES_PER_S`].
    is_slow: bool,
    /// Since when a slow switch has had no backlog.
    drained_at: Option<Instant>,
    /// Round-trip time of the connection; zero while it is unknown.
    pub(crate) round_trip: Duration,
}

#[derive(Debug)]
struct UnreadMark {
    set_at: Instant,
    /// Bytes to be read before the mark is reached; `None` until reading resumes.
    unread_bytes: Option<usize>,
}

#[derive(Debug)]
struct RateSample {
    since: Instant,
    sent_bytes: usize,
}

impl Backpressure {
    /// Whether packet-ins other than link probes are discarded.
    #[inline]
    pub(crate) fn is_lagging(&self) -> bool {
        self.state.is_lagging()
    }

    /// Whether the switch is not read.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.state.is_paused()
    }

    /// Whether the connection is to be closed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.state == ReadState::Stuck
    }

    /// Whether unsent data in the kernel is capped.
    #[inline]
    pub(crate) fn unsent_cap(&self) -> UnsentCap {
        if self.is_slow { UnsentCap::On } else { UnsentCap::Off }
    }

    /// Forgets that a switch was slow if it has had no backlog for [`SLOW_TIME`]. Returns whether that was so.
    ///
    /// Without a backlog, the rate at which a switch can take data is unknown, so that it stays slow until the next one. Where the kernel
    /// answers in the place of the worker, that has to end: the kernel answers nothing while unsent data is capped.
    pub(crate) fn expire_slowness(&mut self, now: Instant) -> bool {
        let drained = self.drained_at.map(|at| now.saturating_duration_since(at));
        let is_over = self.is_slow && drained >= Some(SLOW_TIME);
        if is_over {
            (self.is_slow, self.rate) = (false, None);
        }
        is_over
    }

    /// Records that a read took `bytes` bytes out of the kernel's receive buffer. With TLS, these are encrypted.
    #[inline]
    pub(crate) fn record_read(&mut self, bytes: usize) {
        if let Some(unread) = self.mark.as_mut().and_then(|mark| mark.unread_bytes.as_mut()) {
            *unread = unread.saturating_sub(bytes);
            if *unread == 0 {
                self.mark = None;
            }
        }
    }

    /// Records that the kernel took `sent` bytes, and that `backlog` bytes wait. Returns whether the switch must be read
    /// from now on, or no more; after [`Reading::On`], [`resumed`](Self::resumed) must be called.
    #[inline]
    pub(crate) fn update(
        &mut self,
        now: Instant,
        sent: usize,
        backlog: usize,
        limits: BacklogLimits,
    ) -> Option<Reading> {
        if backlog == 0 && self.state == ReadState::Reading && !self.is_slow {
            // Without a backlog all the while, the rate would be that of our own output.
            (self.progress_at, self.rate) = (None, None);
            return None;
        }
        self.update_backlogged(now, sent, backlog, limits)
    }

    #[cold]
    fn update_backlogged(
        &mut self,
        now: Instant,
        sent: usize,
        backlog: usize,
        limits: BacklogLimits,
    ) -> Option<Reading> {
        self.record_progress(now, sent, backlog);
        if !self.is_slow && backlog == 0 {
            self.rate = None;
        } else {
            self.measure_rate(now, sent);
        }
        if self.is_stuck() {
            return None;
        }
        let max = limits.bytes_max;
        let is_lagging = backlog > max / 2
            && (self.is_lagging() || (sent > 0 && self.is_overdue(now, limits.unread_max)));
        // While packet-ins are discarded, input causes little output, so the switch is read despite its backlog.
        let max = if is_lagging { max.saturating_mul(2) } else { max };
        let is_paused = backlog > if self.is_paused() { max / 2 } else { max };
        self.transition(now, ReadState::new(is_paused, is_lagging))
    }

    fn transition(&mut self, now: Instant, to: ReadState) -> Option<Reading> {
        let was_paused = self.is_paused();
        self.state = to;
        match (was_paused, to.is_paused()) {
            (false, true) => {
                self.mark.get_or_insert(UnreadMark { set_at: now, unread_bytes: None });
                Some(Reading::Off)
            }
            (true, false) => Some(Reading::On),
            _ => None,
        }
    }

    /// Records that the switch is read again, with `unread_bytes` in the kernel's receive buffer.
    pub(crate) fn resumed(&mut self, unread_bytes: usize) {
        if let Some(mark) = &mut self.mark {
            mark.unread_bytes.get_or_insert(unread_bytes);
        }
        self.record_read(0);
    }

    /// A switch whose backlog makes no progress is paused if it is lagging, and stuck after a longer time.
    pub(crate) fn handle_timeouts(
        &mut self,
        now: Instant,
        backlog: usize,
        limits: BacklogLimits,
    ) -> Option<Reading> {
        let without_progress = now.saturating_duration_since(self.progress_at?);
        if without_progress > limits.stuck_timeout {
            return self.transition(now, ReadState::Stuck);
        }
        if !self.is_lagging() || without_progress <= self.unread_time_max(limits.unread_max) {
            return None;
        }
        let is_paused = backlog > limits.bytes_max || self.is_paused();
        self.transition(now, ReadState::new(is_paused, false))
    }

    /// Whether the oldest unread input has been waiting for too long.
    fn is_overdue(&self, now: Instant, unread_max: Duration) -> bool {
        let age = self.mark.as_ref().map(|mark| now.saturating_duration_since(mark.set_at));
        age.is_some_and(|age| age > self.unread_time_max(unread_max))
    }

    /// How long the input of the switch may wait.
    fn unread_time_max(&self, unread_max: Duration) -> Duration {
        unread_max + self.round_trip * ROUND_TRIPS
    }

    fn record_progress(&mut self, now: Instant, sent: usize, backlog: usize) {
        self.sent_since += sent;
        if backlog == 0 {
            self.progress_at = None;
            self.drained_at.get_or_insert(now);
            return;
        }
        self.drained_at = None;
        if self.progress_at.is_none() || self.sent_since >= PROGRESS_BYTES {
            (self.progress_at, self.sent_since) = (Some(now), 0);
        }
    }

    fn measure_rate(&mut self, now: Instant, bytes: usize) {
        let sample = self.rate.get_or_insert(RateSample { since: now, sent_bytes: 0 });
        sample.sent_bytes += bytes;
        let span = now.saturating_duration_since(sample.since);
        if span >= RATE_SPAN {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let bytes_per_s = sample.sent_bytes as f64 / span.as_secs_f64();
            self.is_slow = bytes_per_s <= SLOW_BYTES_PER_S;
            self.rate = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;

    const LIMITS: BacklogLimits = BacklogLimits {
        bytes_max: 1000,
        unread_max: Duration::from_millis(500),
        stuck_timeout: Duration::from_secs(30),
    };

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A connection that starts to be paused now.
    fn paused() -> (Instant, Backpressure) {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        assert_eq!(it.update(start, 0, 1001, LIMITS), Some(Reading::Off));
        (start, it)
    }

    #[test]
    fn the_shares_of_all_switches_together_exceed_the_total_by_half_at_most() {
        let Limits { backlog_total_bytes_max: total, switches_max, .. } = Limits::default();
        for count in [1, 2, 256, 800, switches_max] {
            let (share, read) = (backlog_share(total, count), cautious_read_bytes(total, count));
            assert!(count * share <= total, "{count} switches");
            assert!(count * (share + read) <= total * 3 / 2, "{count} switches");
        }
    }

    #[test]
    fn a_switch_is_paused_above_the_limit_and_read_again_at_half_of_it() {
        let (start, mut it) = paused();
        assert_eq!(it.update(start + ms(1), 500, 501, LIMITS), None);
        assert_eq!(it.state, ReadState::Paused);
        assert_eq!(it.update(start + ms(2), 1, 500, LIMITS), Some(Reading::On));
        assert_eq!(it.state, ReadState::Reading);
        assert_eq!(it.update(start + ms(3), 0, 1000, LIMITS), None);
    }

    #[test]
    fn nothing_is_discarded_while_the_input_is_reached_in_time_however_often_reading_pauses() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        for at in (0..5000).step_by(250) {
            assert_eq!(it.update(start + ms(at), 1, 1001, LIMITS), Some(Reading::Off));
            assert_eq!(it.update(start + ms(at + 100), 501, 500, LIMITS), Some(Reading::On));
            it.resumed(300);
            it.record_read(200);
            it.update(start + ms(at + 200), 1, 900, LIMITS);
            assert_eq!(it.state, ReadState::Reading, "at {at}");
            it.record_read(100);
        }
    }

    #[test]
    fn a_switch_lags_when_its_input_is_not_reached_in_time_even_if_reading_resumes_now_and_then() {
        let (start, mut it) = paused();
        for at in [100, 200, 300, 400, 500] {
            it.update(start + ms(at), 501, 500, LIMITS);
            // More has arrived each time; it is behind the mark.
            it.resumed(1000 + usize::try_from(at).unwrap());
            it.record_read(100);
            it.update(start + ms(at), 1, 1001, LIMITS);
            assert_eq!(it.state, ReadState::Paused, "at {at}");
        }
        it.update(start + ms(501), 1, 1001, LIMITS);
        assert_eq!(it.state, ReadState::LaggingPaused);
        assert_eq!(it.update(start + ms(502), 1, 1000, LIMITS), Some(Reading::On));
        assert_eq!(it.state, ReadState::Lagging);
        assert_eq!(it.update(start + ms(503), 1, 2001, LIMITS), Some(Reading::Off));
        assert_eq!(it.update(start + ms(504), 1, 500, LIMITS), Some(Reading::On));
        assert_eq!(it.state, ReadState::Reading);
    }

    #[test]
    fn a_pause_in_which_nothing_arrived_leaves_no_mark() {
        let (start, mut it) = paused();
        assert_eq!(it.update(start, 600, 400, LIMITS), Some(Reading::On));
        it.resumed(0);
        it.update(start + ms(5000), 1, 900, LIMITS);
        assert_eq!(it.state, ReadState::Reading);
    }

    #[test]
    fn a_long_round_trip_extends_the_time_that_input_may_wait() {
        let (start, mut it) = paused();
        it.round_trip = ms(1000);
        it.update(start + ms(4500), 1, 1001, LIMITS);
        assert_eq!(it.state, ReadState::Paused);
        it.update(start + ms(4501), 1, 1001, LIMITS);
        assert_eq!(it.state, ReadState::LaggingPaused);
    }

    #[test]
    fn a_lagging_switch_that_takes_nothing_more_is_paused() {
        let (start, mut it) = paused();
        it.update(start + ms(501), 1, 1001, LIMITS);
        it.update(start + ms(502), 5000, 990, LIMITS);
        assert_eq!(it.state, ReadState::Lagging);
        assert_eq!(it.handle_timeouts(start + ms(1002), 1100, LIMITS), None);
        assert_eq!(it.handle_timeouts(start + ms(1003), 1100, LIMITS), Some(Reading::Off));
        assert_eq!(it.state, ReadState::Paused);
    }

    #[test]
    fn a_switch_is_stuck_unless_it_takes_some_kilobytes_of_its_backlog_in_time() {
        let (start, mut it) = paused();
        for s in 1..=30 {
            it.update(start + ms(s * 1000), 1, 1001, LIMITS);
            assert_eq!(it.handle_timeouts(start + ms(s * 1000), 1001, LIMITS), None);
            assert!(!it.is_stuck());
        }
        it.update(start + ms(30_000), PROGRESS_BYTES, 1001, LIMITS);
        it.handle_timeouts(start + ms(60_000), 1001, LIMITS);
        assert!(!it.is_stuck());
        it.update(start + ms(60_000), 30, 1001, LIMITS);
        assert_eq!(it.handle_timeouts(start + ms(60_001), 1001, LIMITS), None, "it is paused");
        assert_eq!(it.state, ReadState::Stuck, "30 bytes in 30 seconds are no progress");
        assert_eq!(it.update(start + ms(60_002), 1001, 0, LIMITS), None);
        assert_eq!(it.state, ReadState::Stuck);
    }

    #[test]
    fn a_switch_without_a_backlog_is_never_stuck() {
        let (start, mut it) = paused();
        it.update(start + ms(1), 1001, 0, LIMITS);
        assert_eq!(it.handle_timeouts(start + ms(99_000), 0, LIMITS), None);
        assert_eq!(it.state, ReadState::Reading);
    }

    /// Sends `bytes` in each of 100 milliseconds; returns whether unsent data is not capped afterwards.
    fn is_fast(it: &mut Backpressure, start: Instant, bytes: usize) -> bool {
        for at in 0..100 {
            it.update(start + ms(at), bytes, usize::from(at % 10 == 9), LIMITS);
        }
        it.update(start + ms(100), bytes, 0, LIMITS);
        it.unsent_cap() == UnsentCap::Off
    }

    #[test]
    fn unsent_data_is_capped_while_a_lasting_backlog_drains_slowly() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        assert!(is_fast(&mut it, start, 1_000), "the backlog did not last");
        for at in 0..=100 {
            it.update(start + ms(1000 + at), 1_000, 1, LIMITS);
        }
        assert_eq!(it.unsent_cap(), UnsentCap::On);
        assert!(!is_fast(&mut it, start + ms(2000), 1_000));
        assert!(is_fast(&mut it, start + ms(3000), 100_000));
    }

    #[test]
    fn a_slow_switch_is_as_others_after_a_minute_without_a_backlog() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        for (at, backlog) in [(0, 1), (100, 1), (200, 0), (300, 1), (400, 0), (5000, 0)] {
            it.update(start + ms(at), 0, backlog, LIMITS);
        }
        let end = start + ms(400) + SLOW_TIME;
        assert!(!it.expire_slowness(start + ms(399) + SLOW_TIME));
        assert_eq!(it.unsent_cap(), UnsentCap::On);
        assert!(it.expire_slowness(end) && !it.expire_slowness(end));
        assert_eq!(it.unsent_cap(), UnsentCap::Off);
        for at in [0, 100] {
            it.update(end + ms(at), 0, 1, LIMITS);
        }
        assert_eq!(it.unsent_cap(), UnsentCap::On, "it is measured again");
    }
}
