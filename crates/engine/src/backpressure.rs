//! How late a peer is heard since its answers wait, and how fast it takes them.

use std::time::{Duration, Instant};

use sluice_io::UnsentCap;

/// Round trips of a control link in which nobody is late: after a loss, or at its beginning, TCP needs some to send what it
/// could have sent in one.
const ROUND_TRIPS: u32 = 4;

/// A peer that takes more bytes in a second is fast.
const FAST: f64 = 10e6;
/// For so long it is looked at: what is taken in less says how much the kernel has room for, or that the peer had other
/// things to do.
const PACE_SPAN: Duration = Duration::from_millis(100);

/// Whether a peer is heard in time.
///
/// A peer that is not read from has a mark set behind all that it has said by the time it is read from again. The
/// mark is reached when all before it is read, however often the reading stops meanwhile. So its age is how long the first of what
/// was said meanwhile had to wait.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    mark: Option<Mark>,
    is_late: bool,
    pace: Option<Pace>,
    /// It had something to take all the while, and took little.
    is_thin: bool,
}

#[derive(Debug)]
struct Mark {
    set: Instant,
    /// Bytes before it that are still to be read; not known before it is read from again.
    unread: Option<usize>,
}

/// How much is taken in a time.
#[derive(Debug)]
struct Pace {
    since: Instant,
    sent: usize,
}

impl Backpressure {
    /// Whether frames that come up now are not to be answered, so that the peer is heard and catches up.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    /// How much the kernel is to hold for the peer.
    #[inline]
    pub(crate) fn holding(&self) -> UnsentCap {
        if self.is_thin { UnsentCap::On } else { UnsentCap::Off }
    }

    /// So many bytes of what the peer said were read.
    #[inline]
    pub(crate) fn read(&mut self, bytes: usize) {
        if let Some(unread) = self.mark.as_mut().and_then(|mark| mark.unread.as_mut()) {
            *unread = unread.saturating_sub(bytes);
            if *unread == 0 {
                self.mark = None;
            }
        }
    }

    /// The peer is not read from, from now on.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.mark.get_or_insert(Mark { set: now, unread: None });
    }

    /// The peer is read from again, and has said so much meanwhile.
    pub(crate) fn go_on(&mut self, unread: usize) {
        if let Some(mark) = &mut self.mark {
            mark.unread.get_or_insert(unread);
        }
        self.read(0);
    }

    /// The peer takes what waits. It is late if the mark is older than this.
    pub(crate) fn judge(&mut self, now: Instant, patience: Duration) {
        let age = self.mark.as_ref().map(|mark| now.saturating_duration_since(mark.set));
        self.is_late |= age.is_some_and(|age| age > patience);
    }

    /// The peer has taken so much of what waits that it can be answered again, or it takes nothing at all.
    #[inline]
    pub(crate) fn forgive(&mut self) {
        self.is_late = false;
    }

    /// The peer took `sent` bytes, and more wait or not.
    #[inline]
    pub(crate) fn took(&mut self, now: Instant, sent: usize, more_wait: bool) {
        if !self.is_thin && !more_wait {
            // Only a peer that has something to take all the while shows that it takes little.
            self.pace = None;
        } else {
            self.look_at_pace(now, sent);
        }
    }

    fn look_at_pace(&mut self, now: Instant, sent: usize) {
        let pace = self.pace.get_or_insert(Pace { since: now, sent: 0 });
        pace.sent += sent;
        let span = now.saturating_duration_since(pace.since);
        if span >= PACE_SPAN {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let rate = pace.sent as f64 / span.as_secs_f64();
            self.is_thin = rate <= FAST;
            self.pace = None;
        }
    }
}

/// How long a peer at the end of a link that takes so long there and back may be left unread.
pub(crate) fn patience(unread_max: Duration, round_trip: Duration) -> Duration {
    unread_max + round_trip * ROUND_TRIPS
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn who_is_read_to_the_mark_in_time_is_not_late_however_often_the_reading_stops() {
        let (start, mut lag) = (sluice_io::clock::now(), Backpressure::default());
        for at in (0..5000).step_by(250) {
            lag.pause(start + ms(at));
            lag.judge(start + ms(at + 100), PATIENCE);
            lag.go_on(300);
            lag.read(200);
            lag.judge(start + ms(at + 200), PATIENCE);
            assert!(!lag.is_late(), "at {at}");
            lag.read(100);
        }
    }

    #[test]
    fn who_is_not_read_to_the_mark_is_late_though_the_reading_goes_on_now_and_then() {
        let (start, mut lag) = (sluice_io::clock::now(), Backpressure::default());
        for at in [0, 100, 200, 300, 400, 500] {
            lag.pause(start + ms(at));
            lag.judge(start + ms(at), PATIENCE);
            assert!(!lag.is_late(), "at {at}");
            // More has come each time, which is behind the mark.
            lag.go_on(1000 + usize::try_from(at).unwrap());
            lag.read(100);
        }
        lag.judge(start + ms(501), PATIENCE);
        assert!(lag.is_late());
        lag.forgive();
        lag.read(399);
        lag.judge(start + ms(600), PATIENCE);
        assert!(lag.is_late());
        lag.forgive();
        lag.read(1);
        lag.judge(start + ms(700), PATIENCE);
        assert!(!lag.is_late());
    }

    #[test]
    fn who_said_nothing_meanwhile_has_no_mark() {
        let (start, mut lag) = (sluice_io::clock::now(), Backpressure::default());
        lag.pause(start);
        lag.go_on(0);
        lag.judge(start + ms(5000), PATIENCE);
        assert!(!lag.is_late());
    }

    /// Whether it is fast after it has taken so much in each of a hundred milliseconds.
    fn is_fast(lag: &mut Backpressure, start: Instant, bytes: usize) -> bool {
        for at in 0..100 {
            lag.took(start + ms(at), bytes, at % 10 == 9);
        }
        lag.took(start + ms(100), bytes, false);
        lag.holding() == UnsentCap::Off
    }

    #[test]
    fn the_kernel_holds_much_for_a_peer_that_takes_much_until_that_has_much_to_take_and_takes_little()
     {
        let (start, mut lag) = (sluice_io::clock::now(), Backpressure::default());
        assert!(is_fast(&mut lag, start, 1_000), "it did not have more to take");
        for at in 0..=100 {
            lag.took(start + ms(1000 + at), 1_000, true);
        }
        assert_eq!(lag.holding(), UnsentCap::On);
        assert!(!is_fast(&mut lag, start + ms(2000), 1_000));
        assert!(is_fast(&mut lag, start + ms(3000), 100_000));
    }

    #[test]
    fn a_far_link_has_more_time() {
        assert_eq!(patience(ms(500), ms(0)), ms(500));
        assert_eq!(patience(ms(500), ms(1000)), ms(4500));
    }
}
