//! When to log that the kernel drops SYNs.

use std::time::{Duration, Instant};

/// Time between two log lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// What was logged about dropped SYNs.
#[derive(Debug, Default)]
pub(crate) struct DroppedSyns {
    logged: u64,
    logged_at: Option<Instant>,
}

impl DroppedSyns {
    /// How many were dropped since the last log line, if it is time for another one. `dropped` is the number since the start.
    pub(crate) fn take_due(&mut self, dropped: u64, now: Instant) -> Option<u64> {
        let is_time = self.logged_at.is_none_or(|at| now - at >= INTERVAL);
        if dropped == self.logged || !is_time {
            return None;
        }
        let new = dropped - self.logged;
        *self = Self { logged: dropped, logged_at: Some(now) };
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_logged_at_once_and_then_once_a_minute() {
        let (mut syns, start) = (DroppedSyns::default(), sluice_io::clock::now());
        let mut log = |dropped, s| syns.take_due(dropped, start + Duration::from_secs(s));
        assert_eq!(log(0, 0), None);
        assert_eq!(log(3, 1), Some(3));
        assert_eq!(log(50, 60), None);
        assert_eq!(log(80, 61), Some(77));
        assert_eq!(log(80, 600), None);
        assert_eq!(log(81, 600), Some(1));
    }
}
