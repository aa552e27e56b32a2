//! A link between two TUN devices.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use sluice_io::tun::Tun;
use sluice_io::{Waker, clock, poll};

use super::command::{Direction, PerDirection};
use super::duplex::{Delivery, DuplexConfig, DuplexLink, RunState};
use super::report::LinkReport;

/// Packets read from one device before due packets are delivered; adds some tens of microseconds of lateness.
const BURST: usize = 16;

/// Packets delivered in one direction before the other has its turn.
const DELIVERED_MAX: usize = 64;

/// Longest IP packet in bytes.
const PACKET_MAX: usize = 65_535;

/// Two TUN devices and the link between them.
#[derive(Debug)]
pub(super) struct TunLink {
    /// Packets of a direction are read from its entry and written to the other one.
    ends: Arc<PerDirection<Tun>>,
    duplex: DuplexLink<Box<[u8]>>,
    waker: Waker,
    buffer: Box<[u8]>,
}

impl TunLink {
    pub(super) fn new(ends: Arc<PerDirection<Tun>>, waker: Waker, start: DuplexConfig) -> Self {
        let duplex = DuplexLink::new(clock::now(), start);
        Self { ends, duplex, waker, buffer: vec![0; PACKET_MAX].into_boxed_slice() }
    }

    /// Runs the event loop until a stop is requested.
    ///
    /// # Errors
    /// A TUN device was removed.
    pub(super) fn run(mut self) -> io::Result<LinkReport> {
        loop {
            let fds = [self.ends.up.as_fd(), self.ends.down.as_fd(), self.waker.as_fd()];
            let [up, down, woken] = poll::wait_readable(fds, self.duplex.deadline())?;
            let mut now = clock::now();
            for (direction, is_ready) in [(Direction::Up, up), (Direction::Down, down)] {
                if is_ready {
                    self.take(direction, now)?;
                }
                now = self.deliver(direction);
            }
            if woken {
                self.waker.clear();
            }
            if self.duplex.process_requests(now) == RunState::Stop {
                return Ok(self.duplex.finish(clock::now()));
            }
        }
    }

    fn take(&mut self, direction: Direction, now: Instant) -> io::Result<()> {
        for _ in 0..BURST {
            let Some(packet) = self.ends.get(direction).recv(&mut self.buffer)? else { break };
            let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            self.duplex.offer(direction, now, len, packet.into());
        }
        Ok(())
    }

    /// Delivers all packets that are due; returns the time afterwards.
    fn deliver(&mut self, direction: Direction) -> Instant {
        let to = match direction {
            Direction::Up => &self.ends.down,
            Direction::Down => &self.ends.up,
        };
        let mut now = clock::now();
        for _ in 0..DELIVERED_MAX {
            let Some(packet) = self.duplex.pop_due(direction, now) else { break };
            let taken =
                if to.send(&packet.item).is_ok() { Delivery::Accepted } else { Delivery::Refused };
            now = clock::now();
            self.duplex.record_delivery(direction, packet.due, now, packet.len, taken);
        }
        now
    }
}
