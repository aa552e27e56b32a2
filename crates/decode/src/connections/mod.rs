//! The TCP connections of a capture: segments to messages, in bounded memory.

mod connection;
mod conversation;
mod held;
mod reassembly;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use sluice_base::{HashMap, sort_by, sort_by_key};

use crate::capture::PacketContent;
use crate::pairing::Pairing;
use crate::report::Reporter;
use connection::Connection;

/// Connections whose state is kept. Beyond it, those without packets for the longest time are evicted; a connection takes about
/// 500 bytes besides its buffers.
const CONNECTIONS_MAX: usize = 32_768;

/// The part of the connections that is evicted at a time, so that the oldest ones are seldom searched.
const EVICTED_SHARE: usize = 64;

/// Bytes that wait for missing segments, for the rest of a message, or for a datapath id, in all connections together. Beyond it,
/// the connections without packets for the longest time are evicted.
const BUFFERED_BYTES_MAX: usize = 64 << 20;

/// Interval of capture time at which connections without new packets are checked for lost bytes.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// The end with the lower address.
    A,
    /// The other end.
    B,
}

impl End {
    pub(crate) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Addresses of the ends of a connection, the lower one first.
type Endpoints = (SocketAddr, SocketAddr);

/// The TCP connections of a capture.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_endpoints: HashMap<Endpoints, Connection>,
    buffered_bytes: usize,
    pairing: Pairing,
    /// Number of packets so far, by which the times of last use are compared.
    packets: u64,
    /// Number of the last new connection.
    number: u64,
    /// Time of the last packet.
    last: Duration,
    next_check: Duration,
}

impl Connections {
    /// Processes a segment and reports the messages that it completes.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn receive<W: Write>(
        &mut self,
        content: PacketContent<'_>,
        time: Duration,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let segment = match content {
            PacketContent::Segment(segment) => segment,
            PacketContent::Fragment => {
                report.counts.fragments += 1;
                return Ok(());
            }
            PacketContent::Other => return Ok(()),
        };
        self.check_idle(time, report)?;
        let (from, endpoints) = if segment.from <= segment.to {
            (End::A, (segment.from, segment.to))
        } else {
            (End::B, (segment.to, segment.from))
        };
        if !self.by_endpoints.contains_key(&endpoints) {
            // Only these start something that can be decoded.
            if !segment.is_syn && segment.payload.is_empty() {
                return Ok(());
            }
            self.make_room(report)?;
            self.number += 1;
            let connection = Connection::new(self.number, endpoints.into());
            self.by_endpoints.insert(endpoints, connection);
        }
        let Some(connection) = self.by_endpoints.get_mut(&endpoints) else { return Ok(()) };
        self.packets += 1;
        connection.last_packet = self.packets;
        let before = connection.buffered_bytes();
        connection.receive(&segment, from, time, &mut self.pairing, report)?;
        self.buffered_bytes = self.buffered_bytes + connection.buffered_bytes() - before;
        if self.buffered_bytes > BUFFERED_BYTES_MAX {
            self.free_buffers(report)?;
        }
        Ok(())
    }

    /// Skips bytes that connections without new packets have waited for long enough, at the capture time `now`.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn check_idle<W: Write>(
        &mut self,
        now: Duration,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        self.last = now;
        if now < self.next_check || self.buffered_bytes == 0 {
            return Ok(());
        }
        self.next_check = now + CHECK_INTERVAL;
        for connection in self.by_endpoints.values_mut() {
            let before = connection.buffered_bytes();
            if before > 0 {
                connection.skip_lost_bytes(now, &mut self.pairing, report)?;
                self.buffered_bytes = self.buffered_bytes + connection.buffered_bytes() - before;
            }
        }
        Ok(())
    }

    /// Reports what is left at the end of the capture.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn finish<W: Write>(mut self, report: &mut Reporter<W>) -> io::Result<()> {
        let mut connections: Vec<_> = self.by_endpoints.drain().collect();
        sort_by_key(&mut connections, |(endpoints, _)| *endpoints);
        for (_, mut connection) in connections {
            connection.finish(self.last, &mut self.pairing, report)?;
        }
        Ok(())
    }

    /// Evicts the oldest connections if there are as many as there may be.
    fn make_room<W: Write>(&mut self, report: &mut Reporter<W>) -> io::Result<()> {
        if self.by_endpoints.len() < CONNECTIONS_MAX {
            return Ok(());
        }
        let count = (CONNECTIONS_MAX / EVICTED_SHARE).max(1);
        for endpoints in self.oldest(count) {
            self.evict(endpoints, report)?;
        }
        Ok(())
    }

    /// Evicts the oldest connections until the buffers have half of the bytes that they may have.
    fn free_buffers<W: Write>(&mut self, report: &mut Reporter<W>) -> io::Result<()> {
        for endpoints in self.oldest(self.by_endpoints.len()) {
            if self.buffered_bytes <= BUFFERED_BYTES_MAX / 2 {
                break;
            }
            let has_buffers = |connection: &Connection| connection.buffered_bytes() > 0;
            if self.by_endpoints.get(&endpoints).is_some_and(has_buffers) {
                self.evict(endpoints, report)?;
            }
        }
        Ok(())
    }

    /// The `count` connections without packets for the longest time, oldest first. Closed ones are the oldest.
    fn oldest(&self, count: usize) -> Vec<Endpoints> {
        let age = |connection: &Connection| (!connection.is_closed(), connection.last_packet);
        let mut ages: Vec<_> = self
            .by_endpoints
            .iter()
            .map(|(endpoints, connection)| (age(connection), *endpoints))
            .collect();
        if count < ages.len() {
            ages.select_nth_unstable(count);
            ages.truncate(count);
        }
        sort_by(&mut ages, Ord::cmp);
        ages.into_iter().map(|(_, endpoints)| endpoints).collect()
    }

    fn evict<W: Write>(
        &mut self,
        endpoints: Endpoints,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let Some(mut connection) = self.by_endpoints.remove(&endpoints) else { return Ok(()) };
        self.buffered_bytes -= connection.buffered_bytes();
        if !connection.is_closed() {
            report.counts.evicted_connections += 1;
        }
        connection.finish(self.last, &mut self.pairing, report)
    }
}
