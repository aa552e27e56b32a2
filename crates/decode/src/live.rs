//! Live captures: packets as the kernel hands them over.

use std::io::{self, Write};
use std::time::Duration;

use crate::MessageCounts;
use crate::capture::PacketContent;
use crate::connections::Connections;
use crate::counts::KernelCounts;
use crate::report::Reporter;

/// Decodes packets that are captured while they are sent.
///
/// [`Decoder::follow`](crate::Decoder::follow) makes one.
#[derive(Debug)]
pub struct LiveDecoder<W> {
    report: Reporter<W>,
    connections: Connections,
}

impl<W: Write> LiveDecoder<W> {
    pub(crate) fn new(report: Reporter<W>) -> Self {
        Self { report, connections: Connections::default() }
    }

    /// Decodes a packet that begins with the network header of `ether_type`, captured at `time` since 1970.
    ///
    /// # Errors
    /// Those of writing.
    pub fn receive(&mut self, ether_type: u16, packet: &[u8], time: Duration) -> io::Result<()> {
        let content = PacketContent::from_ether_type(ether_type, packet);
        self.connections.receive(content, time, &mut self.report)
    }

    /// Writes all messages of the packets so far, before the caller waits for more. `now` is the time since 1970.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        self.connections.check_idle(now, &mut self.report)?;
        self.report.flush()
    }

    /// Writes what is left at the end, and the table and counts that the options ask for.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self, kernel: KernelCounts) -> io::Result<MessageCounts> {
        self.connections.finish(&mut self.report)?;
        self.report.counts.kernel = Some(kernel);
        self.report.finish()?;
        Ok(self.report.counts)
    }
}
