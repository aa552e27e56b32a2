//! Times of the monotonic clock as workers have them, and as the program has them.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sluice_io::clock;

/// How far apart the two readings of the clock are at most, unless the thread is interrupted each time.
const READINGS_APART: Duration = Duration::from_micros(1);

/// How often the clock is read for that.
const ATTEMPTS: usize = 100;

/// One time in both forms. The clock cannot be read in both at once: the form of the program is the later reading, so that nothing is held for
/// too short a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    at: Instant,
    since_boot: Duration,
}

impl Epoch {
    /// The current time.
    pub(crate) fn now() -> Self {
        let (mut nearest, mut epoch) = Self::read();
        for _ in 1..ATTEMPTS {
            if nearest <= READINGS_APART {
                break;
            }
            let (apart, other) = Self::read();
            if apart < nearest {
                (nearest, epoch) = (apart, other);
            }
        }
        epoch
    }

    /// The current time, and how far apart the readings are at most.
    fn read() -> (Duration, Self) {
        let at = clock::now();
        let epoch = Self { at, since_boot: monotonic() };
        (clock::now().saturating_duration_since(at), epoch)
    }

    /// A time as the program has it.
    pub(crate) fn to_nanoseconds(self, time: Instant) -> u64 {
        let time = match time.checked_duration_since(self.at) {
            Some(later) => self.since_boot + later,
            None => self.since_boot.saturating_sub(self.at.saturating_duration_since(time)),
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// A time that the program has.
    pub(crate) fn instant(self, nanoseconds: u64) -> Instant {
        let time = Duration::from_nanos(nanoseconds);
        match time.checked_sub(self.since_boot) {
            Some(later) => self.at + later,
            None => self.at.checked_sub(self.since_boot.saturating_sub(time)).unwrap_or(self.at),
        }
    }
}

/// The clock of the program.
fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_in_both_forms() {
        let epoch = Epoch::now();
        let at = epoch.at + Duration::from_secs(3);
        let nanoseconds = epoch.to_nanoseconds(at);
        assert_eq!(u128::from(nanoseconds), (epoch.since_boot + Duration::from_secs(3)).as_nanos());
        assert_eq!(epoch.instant(nanoseconds), at);
        let before = epoch.instant(0);
        assert_eq!(epoch.to_nanoseconds(before), 0);
    }

    #[test]
    fn reports_are_not_of_a_later_time_and_nothing_is_held_for_too_short_a_time() {
        for _ in 0..1000 {
            let epoch = Epoch::now();
            let (before, now, of_program) = (monotonic(), clock::now(), monotonic());
            assert!(epoch.instant(u64::try_from(of_program.as_nanos()).unwrap()) <= clock::now());
            assert!(u128::from(epoch.to_nanoseconds(now)) >= before.as_nanos());
        }
    }
}
