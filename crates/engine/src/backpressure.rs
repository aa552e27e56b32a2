//! Decides when packet-ins of a backlogged switch are shed, and when the kernel's unsent data is capped.

use std::time::{Duration, Instant};

use sluice_io::UnsentCap;

/// Round trips that a switch may stay unread: after a loss, or at the start of a connection, TCP needs several to send what
/// it could otherwise send in one.
const ROUND_TRIPS: u32 = 4;

/// A backlog that drains at up to this rate is slow.
const SLOW_BYTES_PER_S: f64 = 10e6;

/// How long the drain rate is measured. A shorter measurement shows how much room the kernel's buffer has, or that the
/// switch was busy for a moment.
const RATE_SPAN: Duration = Duration::from_millis(100);

/// How long the input of a switch has been waiting while it was not read, and how fast its backlog drains.
///
/// When reading stops, a mark is set. When reading resumes, the mark is put behind all bytes that have arrived until then. It is
/// reached when these have been read, even if reading stops again in between. So the age of the mark is how
/// long the oldest unread input has been waiting.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    mark: Option<UnreadMark>,
    is_shedding: bool,
    rate: Option<RateSample>,
    /// The last measured rate was at most [`SLOW_BYTES_PER_S`].
    is_slow: bool,
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
    /// Whether packet-ins other than link probes are discarded, so that the switch can be read while its backlog drains.
    #[inline]
    pub(crate) fn is_shedding(&self) -> bool {
        self.is_shedding
    }

    /// Whether unsent data in the kernel is capped.
    #[inline]
    pub(crate) fn unsent_cap(&self) -> UnsentCap {
        if self.is_slow { UnsentCap::On } else { UnsentCap::Off }
    }

    /// Records a read.
    #[inline]
    pub(crate) fn record_read(&mut self, bytes: usize) {
        if let Some(unread) = self.mark.as_mut().and_then(|mark| mark.unread_bytes.as_mut()) {
            *unread = unread.saturating_sub(bytes);
            if *unread == 0 {
                self.mark = None;
            }
        }
    }

    /// Records that reading stops.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.mark.get_or_insert(UnreadMark { set_at: now, unread_bytes: None });
    }

    /// Records that reading resumes, with `unread_bytes` in the kernel's receive buffer.
    pub(crate) fn resume(&mut self, unread_bytes: usize) {
        if let Some(mark) = &mut self.mark {
            mark.unread_bytes.get_or_insert(unread_bytes);
        }
        self.record_read(0);
    }

    /// Starts shedding if the oldest unread input has been waiting for more than `unread_max`.
    pub(crate) fn check_unread_time(&mut self, now: Instant, unread_max: Duration) {
        let age = self.mark.as_ref().map(|mark| now.saturating_duration_since(mark.set_at));
        self.is_shedding |= age.is_some_and(|age| age > unread_max);
    }

    /// Stops shedding: the backlog is small enough again, or does not drain at all.
    #[inline]
    pub(crate) fn stop_shedding(&mut self) {
        self.is_shedding = false;
    }

    /// Records that the kernel took `bytes`, and whether a backlog is left.
    #[inline]
    pub(crate) fn record_sent(&mut self, now: Instant, bytes: usize, has_backlog: bool) {
        if !self.is_slow && !has_backlog {
            // Without a backlog all the while, the rate would be that of our own output.
            self.rate = None;
        } else {
            self.measure_rate(now, bytes);
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

/// How long the input of a switch may wait, given the round-trip time of its connection.
pub(crate) fn unread_time_max(unread_max: Duration, round_trip: Duration) -> Duration {
    unread_max + round_trip * ROUND_TRIPS
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNREAD_MAX: Duration = Duration::from_millis(500);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn nothing_is_shed_while_the_mark_is_reached_in_time_however_often_reading_pauses() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        for at in (0..5000).step_by(250) {
            it.pause(start + ms(at));
            it.check_unread_time(start + ms(at + 100), UNREAD_MAX);
            it.resume(300);
            it.record_read(200);
            it.check_unread_time(start + ms(at + 200), UNREAD_MAX);
            assert!(!it.is_shedding(), "at {at}");
            it.record_read(100);
        }
    }

    #[test]
    fn shedding_starts_when_the_mark_is_not_reached_in_time_even_if_reading_resumes_now_and_then() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        for at in [0, 100, 200, 300, 400, 500] {
            it.pause(start + ms(at));
            it.check_unread_time(start + ms(at), UNREAD_MAX);
            assert!(!it.is_shedding(), "at {at}");
            // More has arrived each time; it is behind the mark.
            it.resume(1000 + usize::try_from(at).unwrap());
            it.record_read(100);
        }
        it.check_unread_time(start + ms(501), UNREAD_MAX);
        assert!(it.is_shedding());
        it.stop_shedding();
        it.record_read(399);
        it.check_unread_time(start + ms(600), UNREAD_MAX);
        assert!(it.is_shedding());
        it.stop_shedding();
        it.record_read(1);
        it.check_unread_time(start + ms(700), UNREAD_MAX);
        assert!(!it.is_shedding());
    }

    #[test]
    fn a_pause_in_which_nothing_arrived_leaves_no_mark() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        it.pause(start);
        it.resume(0);
        it.check_unread_time(start + ms(5000), UNREAD_MAX);
        assert!(!it.is_shedding());
    }

    /// Sends `bytes` in each of 100 milliseconds; returns whether unsent data is not capped afterwards.
    fn is_fast(it: &mut Backpressure, start: Instant, bytes: usize) -> bool {
        for at in 0..100 {
            it.record_sent(start + ms(at), bytes, at % 10 == 9);
        }
        it.record_sent(start + ms(100), bytes, false);
        it.unsent_cap() == UnsentCap::Off
    }

    #[test]
    fn unsent_data_is_capped_while_a_lasting_backlog_drains_slowly() {
        let (start, mut it) = (sluice_io::clock::now(), Backpressure::default());
        assert!(is_fast(&mut it, start, 1_000), "the backlog did not last");
        for at in 0..=100 {
            it.record_sent(start + ms(1000 + at), 1_000, true);
        }
        assert_eq!(it.unsent_cap(), UnsentCap::On);
        assert!(!is_fast(&mut it, start + ms(2000), 1_000));
        assert!(is_fast(&mut it, start + ms(3000), 100_000));
    }

    #[test]
    fn a_long_round_trip_extends_the_unread_time() {
        assert_eq!(unread_time_max(ms(500), ms(0)), ms(500));
        assert_eq!(unread_time_max(ms(500), ms(1000)), ms(4500));
    }
}
