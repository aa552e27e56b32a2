//! The host that causes most of the packet-ins beyond the limit of a port.

use std::time::{Duration, Instant};

use sluice_openflow::MacAddr;

/// Packets that are counted before a host is held responsible.
const PACKETS_MIN: u32 = 16;

/// Packets are counted anew after this time.
const COUNTED_TIME: Duration = Duration::from_secs(1);

/// Finds the source of at least half of the packets, by the majority vote of Boyer and Moore.
#[derive(Debug)]
pub(super) struct MainSource {
    candidate: MacAddr,
    votes: u32,
    packets: u32,
    since: Instant,
}

impl MainSource {
    pub(super) fn new(now: Instant) -> Self {
        Self { candidate: MacAddr::BROADCAST, votes: 0, packets: 0, since: now }
    }

    /// Counts a packet.
    pub(super) fn add(&mut self, source: MacAddr, now: Instant) {
        if now.saturating_duration_since(self.since) > COUNTED_TIME {
            *self = Self::new(now);
        }
        self.packets += 1;
        if self.candidate == source {
            self.votes += 1;
        } else if self.votes > 0 {
            self.votes -= 1;
        } else {
            (self.candidate, self.votes) = (source, 1);
        }
    }

    /// Whether enough packets have been counted.
    pub(super) fn is_decided(&self) -> bool {
        self.packets >= PACKETS_MIN
    }

    /// The source of at least half of the packets, if a large majority has shown one.
    pub(super) fn host(&self) -> Option<MacAddr> {
        (self.is_decided() && self.votes * 2 >= self.packets).then_some(self.candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCANNER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn other(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 1, n])
    }

    fn source_of(packets: impl IntoIterator<Item = MacAddr>) -> Option<MacAddr> {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut source = MainSource::new(now);
        packets.into_iter().for_each(|packet| source.add(packet, now));
        source.host()
    }

    #[test]
    fn a_host_that_sends_most_is_found_and_many_that_send_a_little_are_not() {
        let beside_others = |n| if n % 5 == 0 { other(n) } else { SCANNER };
        assert_eq!(source_of((0..100).map(beside_others)), Some(SCANNER));
        let after_others = |n| if n < 10 { other(n) } else { SCANNER };
        assert_eq!(source_of((0..100).map(after_others)), Some(SCANNER));
        assert_eq!(source_of((0..100).map(other)), None, "made-up addresses");
        assert_eq!(source_of((0..100).map(|n| other(n % 2))), None, "two that send as much");
        assert_eq!(source_of([SCANNER; 10]), None, "too few packets");
    }

    #[test]
    fn packets_of_a_second_ago_do_not_count() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut source = MainSource::new(now);
        (0..100).for_each(|_| source.add(SCANNER, now));
        source.add(other(1), now + 2 * COUNTED_TIME);
        assert!(!source.is_decided());
    }
}
