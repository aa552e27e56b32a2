//! A link between two TUN devices: packets as the system sends them.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use sluice_io::tun::Tun;
use sluice_io::{Waker, clock, poll};

use super::command::{Direction, PerDirection};
use super::duplex::{Delivery, DuplexConfig, DuplexLink, RunState};
use super::report::LinkReport;

/// Packets taken from one end before those that are due are looked at: what is late by this is some tens of
/// microseconds.
const BURST: usize = 16;

/// Packets let out in one direction before the other has its turn.
const DELIVERED_MAX: usize = 64;

/// Bytes of the longest packet of IP.
const PACKET_MAX: usize = 65_535;

/// Two devices and what is on the way between them.
#[derive(Debug)]
pub(super) struct TunLink {
    /// Where packets of each direction come from; they leave by the other.
    ends: Arc<PerDirection<Tun>>,
    course: DuplexLink<Box<[u8]>>,
    waker: Waker,
    buffer: Box<[u8]>,
}

impl TunLink {
    pub(super) fn new(ends: Arc<PerDirection<Tun>>, waker: Waker, start: DuplexConfig) -> Self {
        let course = DuplexLink::new(clock::now(), start);
        Self { ends, course, waker, buffer: vec![0; PACKET_MAX].into_boxed_slice() }
    }

    /// Carries packets until told to stop.
    ///
    /// # Errors
    /// A device is gone.
    pub(super) fn run(mut self) -> io::Result<LinkReport> {
        loop {
            let fds = [self.ends.up.as_fd(), self.ends.down.as_fd(), self.waker.as_fd()];
            let [up, down, woken] = poll::wait_readable(fds, self.course.deadline())?;
            let mut now = clock::now();
            for (way, is_ready) in [(Direction::Up, up), (Direction::Down, down)] {
                if is_ready {
                    self.take(way, now)?;
                }
                now = self.deliver(way);
            }
            if woken {
                self.waker.clear();
            }
            if self.course.process_requests(now) == RunState::Stop {
                return Ok(self.course.finish(clock::now()));
            }
        }
    }

    fn take(&mut self, way: Direction, now: Instant) -> io::Result<()> {
        for _ in 0..BURST {
            let Some(packet) = self.ends.get(way).recv(&mut self.buffer)? else { break };
            let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            self.course.offer(way, now, len, packet.into());
        }
        Ok(())
    }

    /// Lets everything out that is due; the time then.
    fn deliver(&mut self, way: Direction) -> Instant {
        let to = match way {
            Direction::Up => &self.ends.down,
            Direction::Down => &self.ends.up,
        };
        let mut now = clock::now();
        for _ in 0..DELIVERED_MAX {
            let Some(packet) = self.course.pop_due(way, now) else { break };
            let taken =
                if to.send(&packet.item).is_ok() { Delivery::Accepted } else { Delivery::Refused };
            now = clock::now();
            self.course.record_delivery(way, packet.due, now, packet.len, taken);
        }
        now
    }
}
