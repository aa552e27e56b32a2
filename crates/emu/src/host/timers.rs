//! What a host must do later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Instant;

use super::tcp::TcpKey;

/// What time it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Asks for a neighbour again, or gives it up.
    NeighbourState(IpAddr),
    /// A ping is lost.
    Ping(u16),
    /// The next packet of a stream.
    Stream(u32),
    /// A segment is sent again, or a closed connection is forgotten.
    Tcp(TcpKey),
}

/// Timers in the order of their times; equal ones in the order in which they were set.
///
/// None is ever taken back: whose time has come looks whether it still matters.
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

    /// A timer whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|&at| at <= now)?;
        self.heap.pop().map(|Reverse((_, _, timer))| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _, _))| at)
    }
}
