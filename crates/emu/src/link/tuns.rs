//! A link between two TUN devices: packets as the system sends them.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use sluice_io::tun::Tun;
use sluice_io::{Waker, clock, poll};

use super::control::{Both, Way};
use super::course::{Course, Start, Taken, Then};
use super::report::Report;

/// Packets taken from one end before those that are due are looked at: what is late by this is some tens of
/// microseconds.
const BURST: usize = 16;

/// Packets let out in one direction before the other has its turn.
const DELIVERED_MAX: usize = 64;

/// Bytes of the longest packet of IP.
const PACKET_MAX: usize = 65_535;

/// Two devices and what is on the way between them.
#[derive(Debug)]
pub(super) struct Tuns {
    /// Where packets of each direction come from; they leave by the other.
    ends: Arc<Both<Tun>>,
    course: Course<Box<[u8]>>,
    waker: Waker,
    buffer: Box<[u8]>,
}

impl Tuns {
    pub(super) fn new(ends: Arc<Both<Tun>>, waker: Waker, start: Start) -> Self {
        let course = Course::new(clock::now(), start);
        Self { ends, course, waker, buffer: vec![0; PACKET_MAX].into_boxed_slice() }
    }

    /// Carries packets until told to stop.
    ///
    /// # Errors
    /// A device is gone.
    pub(super) fn run(mut self) -> io::Result<Report> {
        loop {
            let fds = [self.ends.up.as_fd(), self.ends.down.as_fd(), self.waker.as_fd()];
            let [up, down, woken] = poll::wait_readable(fds, self.course.deadline())?;
            let mut now = clock::now();
            for (way, is_ready) in [(Way::Up, up), (Way::Down, down)] {
                if is_ready {
                    self.take(way, now)?;
                }
                now = self.deliver(way);
            }
            if woken {
                self.waker.clear();
            }
            if self.course.obey(now) == Then::Stop {
                return Ok(self.course.end(clock::now()));
            }
        }
    }

    fn take(&mut self, way: Way, now: Instant) -> io::Result<()> {
        for _ in 0..BURST {
            let Some(packet) = self.ends.at(way).recv(&mut self.buffer)? else { break };
            let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            self.course.offer(way, now, len, packet.into());
        }
        Ok(())
    }

    /// Lets everything out that is due; the time then.
    fn deliver(&mut self, way: Way) -> Instant {
        let to = match way {
            Way::Up => &self.ends.down,
            Way::Down => &self.ends.up,
        };
        let mut now = clock::now();
        for _ in 0..DELIVERED_MAX {
            let Some(packet) = self.course.pop_due(way, now) else { break };
            let taken = if to.send(&packet.item).is_ok() { Taken::Yes } else { Taken::No };
            now = clock::now();
            self.course.left(way, packet.due, now, packet.len, taken);
        }
        now
    }
}
