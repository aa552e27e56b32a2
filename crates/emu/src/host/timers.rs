//! Timers of a host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Instant;

use super::tcp::TcpKey;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Solicit a neighbour again, or give up.
    NeighbourState(IpAddr),
    /// A ping has timed out.
    Ping(u16),
    /// Send the next packet of a stream.
    Stream(u32),
    /// Retransmit a segment, or remove a closed connection.
    Tcp(TcpKey),
}

/// Timers in order of their time; equal ones in the order in which they were set.
///
/// Timers are never cancelled: the handler checks whether a timer is still needed.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    heap: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    n_set: u64,
}

impl TimerQueue {
    pub(super) fn set(&mut self, at: Instant, timer: Timer) {
        self.n_set += 1;
        self.heap.push(Reverse((at, self.n_set, timer)));
    }

    /// The next timer that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|&at| at <= now)?;
        self.heap.pop().map(|Reverse((_, _, timer))| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _, _))| at)
    }
}
