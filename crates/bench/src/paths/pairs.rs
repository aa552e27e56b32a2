//! Which hosts request a path next.

use std::time::{Duration, Instant};

use super::wiring::Wiring;

/// Minimum time between two requests of one pair of hosts. Controllers remember for a while that they have installed a path,
/// and do not install it again meanwhile: Sluice for 50 ms and one and a half round trips.
pub(super) const PAIR_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// All pairs of hosts at the greatest distance, each in turn.
///
/// A pair consists of a host and the one `offset` places after it; all pairs with one offset are a round.
#[derive(Debug)]
pub(super) struct HostPairSequence {
    /// Hosts for which another host is at the greatest distance.
    hosts: Vec<usize>,
    /// Position in `hosts` of the next source.
    next: usize,
    offset: usize,
    /// When the last round of each offset ended.
    ended: Vec<Option<Instant>>,
    /// Whether a host takes part in an outstanding request.
    is_busy: Vec<bool>,
    pairs: usize,
}

/// The next pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextPair {
    /// Source and destination, which are busy from now on.
    Ready(usize, usize),
    /// All pairs have been requested a short time ago; the next request may be sent at this time.
    NotBefore(Instant),
    /// One host of each further pair of the round is busy.
    Busy,
}

impl HostPairSequence {
    pub(super) fn new(wiring: &Wiring) -> Self {
        let all = 0..wiring.hosts().len();
        let has_far = |&a: &usize| all.clone().any(|b| wiring.is_far(a, b));
        let hosts: Vec<_> = all.clone().filter(has_far).collect();
        let far = |&a: &usize| hosts.iter().filter(|&&b| wiring.is_far(a, b)).count();
        let pairs = hosts.iter().map(far).sum::<usize>() / 2;
        let ended = vec![None; hosts.len() / 2 + 1];
        let is_busy = vec![false; all.len()];
        Self { hosts, next: 0, offset: 1, ended, is_busy, pairs }
    }

    /// Number of different pairs.
    pub(super) fn pairs(&self) -> usize {
        self.pairs
    }

    /// Most pairs that take part at a time: a quarter of the hosts are sources, so that half of them are free and the next
    /// pair is another one than those that have just been measured.
    pub(super) fn outstanding_max(&self) -> usize {
        (self.hosts.len() / 4).max(1)
    }

    /// The next pair of which both hosts are free.
    pub(super) fn next(&mut self, wiring: &Wiring, now: Instant) -> NextPair {
        let n = self.hosts.len();
        for _ in 0..n {
            let ended = self.ended.get(self.offset).copied().flatten();
            if let Some(until) =
                ended.map(|at| at + PAIR_INTERVAL_MIN).filter(|&at| self.next == 0 && at > now)
            {
                return NextPair::NotBefore(until);
            }
            let pair = [self.next, (self.next + self.offset) % n];
            let [source, destination] =
                pair.map(|at| self.hosts.get(at).copied().unwrap_or(usize::MAX));
            self.advance(now);
            let are_free = !self.is_busy(source) && !self.is_busy(destination);
            if are_free && wiring.is_far(source, destination) {
                self.set_busy([source, destination], true);
                return NextPair::Ready(source, destination);
            }
        }
        NextPair::Busy
    }

    /// The hosts take part in no request any more.
    pub(super) fn release(&mut self, source: usize, destination: usize) {
        self.set_busy([source, destination], false);
    }

    fn is_busy(&self, host: usize) -> bool {
        self.is_busy.get(host).copied().unwrap_or(true)
    }

    fn set_busy(&mut self, hosts: [usize; 2], is_busy: bool) {
        for host in hosts {
            if let Some(slot) = self.is_busy.get_mut(host) {
                *slot = is_busy;
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        let n = self.hosts.len();
        self.next += 1;
        // With the offset of half of the hosts, the second half of the round would be the first in the other direction.
        let end = if 2 * self.offset == n { n / 2 } else { n };
        if self.next >= end {
            if let Some(ended) = self.ended.get_mut(self.offset) {
                *ended = Some(now);
            }
            self.next = 0;
            self.offset = if self.offset >= n / 2 { 1 } else { self.offset + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_emu::topology::Topology;
    use sluice_io::clock;

    use super::*;

    fn sequence(topology: &str) -> (Wiring, HostPairSequence) {
        let wiring = Wiring::new(&Topology::from_text(topology).unwrap());
        let pairs = HostPairSequence::new(&wiring);
        (wiring, pairs)
    }

    #[test]
    fn every_pair_is_requested_once_before_any_is_requested_again() {
        for (topology, n) in [("linear,3,1", 1), ("single,6", 15), ("leafspine,2,3,3", 27)] {
            let (wiring, mut pairs) = sequence(topology);
            assert_eq!(pairs.pairs(), n, "{topology}");
            let (now, mut seen) = (clock::now(), vec![]);
            for _ in 0..n {
                let NextPair::Ready(a, b) = pairs.next(&wiring, now) else { panic!("{seen:?}") };
                pairs.release(a, b);
                seen.push((a.min(b), a.max(b)));
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), n, "{topology}");
        }
    }

    #[test]
    fn a_pair_is_not_requested_again_before_the_minimum_interval() {
        let (wiring, mut pairs) = sequence("linear,3,1");
        let now = clock::now();
        assert_eq!(pairs.next(&wiring, now), NextPair::Ready(0, 2));
        pairs.release(0, 2);
        assert_eq!(pairs.next(&wiring, now), NextPair::NotBefore(now + PAIR_INTERVAL_MIN));
        assert_eq!(pairs.next(&wiring, now + PAIR_INTERVAL_MIN), NextPair::Ready(0, 2));
    }

    #[test]
    fn a_host_takes_part_in_one_request_at_a_time() {
        let (wiring, mut pairs) = sequence("single,8");
        let now = clock::now();
        let mut hosts = vec![];
        while let NextPair::Ready(a, b) = pairs.next(&wiring, now) {
            hosts.extend([a, b]);
        }
        hosts.sort_unstable();
        assert_eq!(hosts, (0..8).collect::<Vec<_>>());
        assert_eq!((pairs.outstanding_max(), pairs.next(&wiring, now)), (2, NextPair::Busy));
    }
}
