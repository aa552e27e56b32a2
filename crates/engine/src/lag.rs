//! How far behind a peer is with what it is answered, and how fast its link is.

use std::time::{Duration, Instant};

use sluice_io::Holding;

/// Round trips of a control link in which what waits for it is not late: after a loss, or at its beginning, TCP needs
/// some to send what it could have sent in one.
const ROUND_TRIPS: u32 = 4;

/// A peer that takes more octets in a second is fast.
const FAST: f64 = 10e6;
/// For so long it is looked at: what is taken in less says how much the kernel has room for, or that the peer had other
/// things to do.
const PACE_SPAN: Duration = Duration::from_millis(100);

/// So many times what was taken is foretold of what waits, and no more.
const FORETOLD: usize = 4;

/// Whether a peer takes its answers in time.
///
/// A mark is set in the stream of what the peer says: behind all that has come when answers begin to wait, read or not. A
/// peer has caught up with it when all before it is read and what it was answered is taken. So a mark's age is how long the
/// last of these waited, in the kernel and here.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    mark: Option<Mark>,
    is_late: bool,
    pace: Option<Pace>,
    /// It took much in a short time.
    is_fast: bool,
}

/// How much is taken in a time.
#[derive(Debug)]
struct Pace {
    since: Instant,
    sent: usize,
}

#[derive(Debug)]
struct Mark {
    set: Instant,
    /// Octets before it that are still to be read.
    unread: usize,
    /// Octets before it that are still to be taken, once all are read.
    unsent: Option<usize>,
    /// Octets taken since it was set.
    sent: usize,
}

impl Mark {
    fn new(set: Instant, unread: usize) -> Self {
        Self { set, unread, unsent: None, sent: 0 }
    }

    /// Notes what is taken; whether that is all before the mark.
    fn is_reached(&mut self, sent: usize, waiting: usize) -> bool {
        self.sent += sent;
        match &mut self.unsent {
            Some(unsent) => *unsent = unsent.saturating_sub(sent),
            None if self.unread == 0 => self.unsent = Some(waiting),
            None => {}
        }
        self.unsent == Some(0)
    }

    /// How long `waiting` octets will wait, or those of them that can be foretold.
    fn foretell(&self, age: Duration, waiting: usize) -> Duration {
        let foretold = waiting.min(self.sent.saturating_mul(FORETOLD));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        age.mul_f64(foretold as f64 / self.sent.max(1) as f64)
    }
}

impl Lag {
    /// Whether frames that come up now are not to be answered, so that the peer catches up.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    /// How much the kernel is to hold for the peer.
    #[inline]
    pub(crate) fn holding(&self) -> Holding {
        if self.is_fast { Holding::Much } else { Holding::Little }
    }

    /// So many octets of what the peer said were read.
    #[inline]
    pub(crate) fn read(&mut self, octets: usize) {
        if let Some(mark) = &mut self.mark {
            mark.unread = mark.unread.saturating_sub(octets);
        }
    }

    /// The peer took `sent` octets, and nothing waits.
    #[inline]
    pub(crate) fn none(&mut self, now: Instant, sent: usize) {
        (self.mark, self.is_late) = (None, false);
        if self.is_fast {
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
            self.is_fast = rate > FAST;
            self.pace = None;
        }
    }

    /// The peer took `sent` octets, and `waiting` wait; `unread` tells how many of its own were not read yet.
    pub(crate) fn some(
        &mut self,
        now: Instant,
        patience: Duration,
        (sent, waiting): (usize, usize),
        unread: impl FnOnce() -> usize,
    ) {
        self.look_at_pace(now, sent);
        let Some(mark) = &mut self.mark else {
            self.mark = Some(Mark::new(now, unread()));
            return;
        };
        let is_reached = mark.is_reached(sent, waiting);
        let age = now.saturating_duration_since(mark.set);
        if is_reached {
            self.is_late = mark.foretell(age, waiting) > patience;
            self.mark = Some(Mark::new(now, unread()));
        } else if sent > 0 {
            self.is_late |= age > patience;
        }
    }

    /// The peer took nothing for long: it is not late but stuck.
    pub(crate) fn stuck(&mut self) {
        self.is_late = false;
    }
}

/// How long answers may wait for a peer at the end of a link that takes so long there and back.
pub(crate) fn patience(answers_wait_max: Duration, round_trip: Duration) -> Duration {
    answers_wait_max + round_trip * ROUND_TRIPS
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn must_not_ask() -> usize {
        panic!("there is a mark already")
    }

    #[test]
    fn who_takes_what_waits_in_time_is_not_late_however_much_it_is() {
        let (start, mut lag) = (sluice_io::clock::now(), Lag::default());
        for at in 0..100 {
            // It says as much as it takes, and a hundred octets always wait at either end.
            lag.some(start + ms(at * 100), PATIENCE, (50, 100), || 100);
            lag.read(50);
            assert!(!lag.is_late(), "at {at}");
        }
    }

    #[test]
    fn who_takes_too_little_is_late_until_it_has_caught_up_with_the_mark() {
        let (start, mut lag) = (sluice_io::clock::now(), Lag::default());
        lag.some(start, PATIENCE, (10, 100), || 300);
        for at in 1..=5 {
            lag.read(50);
            lag.some(start + ms(at * 100), PATIENCE, (10, 100), must_not_ask);
            assert!(!lag.is_late(), "at {at}");
        }
        lag.some(start + ms(600), PATIENCE, (10, 100), must_not_ask);
        assert!(lag.is_late());
        // All is read, a hundred octets are what was answered to it.
        lag.read(50);
        lag.some(start + ms(700), PATIENCE, (10, 100), must_not_ask);
        for at in 8..17 {
            lag.some(start + ms(at * 100), PATIENCE, (10, 90), must_not_ask);
            assert!(lag.is_late(), "at {at}");
        }
        // 20 octets take 200 ms more.
        lag.some(start + ms(1700), PATIENCE, (10, 20), || 0);
        assert!(!lag.is_late());
    }

    #[test]
    fn who_takes_nothing_is_not_late() {
        let (start, mut lag) = (sluice_io::clock::now(), Lag::default());
        lag.some(start, PATIENCE, (10, 100), || 0);
        lag.some(start + ms(5000), PATIENCE, (0, 100), must_not_ask);
        assert!(!lag.is_late());
        lag.some(start + ms(6000), PATIENCE, (1, 100), must_not_ask);
        assert!(lag.is_late());
        lag.stuck();
        assert!(!lag.is_late());
    }

    #[test]
    fn who_took_long_is_late_at_once_when_more_waits_than_it_takes_in_time() {
        let (start, mut lag) = (sluice_io::clock::now(), Lag::default());
        lag.some(start, PATIENCE, (10, 100), || 0);
        lag.some(start + ms(100), PATIENCE, (0, 100), must_not_ask);
        lag.some(start + ms(200), PATIENCE, (100, 240), || 0);
        assert!(!lag.is_late(), "240 octets take 480 ms");
        lag.some(start + ms(300), PATIENCE, (50, 240), must_not_ask);
        lag.some(start + ms(680), PATIENCE, (240, 400), || 0);
        assert!(lag.is_late(), "400 octets take 660 ms");
        lag.none(start + ms(1340), 400);
        assert!(!lag.is_late());
    }

    /// Whether it is fast after it has taken so much in each of a hundred milliseconds.
    fn is_fast(lag: &mut Lag, start: Instant, octets: usize) -> bool {
        for at in 0..100 {
            if at % 10 == 9 {
                lag.some(start + ms(at), PATIENCE, (octets, 10), || 0);
            } else {
                lag.none(start + ms(at), octets);
            }
        }
        lag.none(start + ms(100), octets);
        lag.holding() == Holding::Much
    }

    #[test]
    fn the_kernel_holds_much_for_a_peer_that_takes_much_until_that_has_much_to_take_and_takes_little()
     {
        let (start, mut lag) = (sluice_io::clock::now(), Lag::default());
        assert_eq!(lag.holding(), Holding::Little);
        assert!(!is_fast(&mut lag, start, 1_000));
        assert!(is_fast(&mut lag, start + ms(1000), 100_000));
        assert!(is_fast(&mut lag, start + ms(2000), 1_000), "it did not have more to take");
        for at in 0..=100 {
            lag.some(start + ms(3000 + at), PATIENCE, (1_000, 10), || 0);
        }
        assert_eq!(lag.holding(), Holding::Little);
    }

    #[test]
    fn a_far_link_has_more_time() {
        assert_eq!(patience(ms(500), ms(0)), ms(500));
        assert_eq!(patience(ms(500), ms(1000)), ms(4500));
    }
}
