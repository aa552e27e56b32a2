//! Captures of packet-ins, for threads that are no workers.

use std::time::Instant;

use sluice_io::Io;
use sluice_openflow::DatapathId;
use sluice_openflow::view::PacketIn;
use sluice_sdk::{App, CaptureSender};

use super::WorkerState;

/// Captures of a worker at a time. A further one gets nothing of it.
const CAPTURES_MAX: usize = 8;

impl<I: Io, A: App> WorkerState<I, A> {
    /// Begins to copy packet-ins.
    pub(super) fn begin_capture(&mut self, capture: CaptureSender) {
        self.check_captures();
        if self.captures.len() < CAPTURES_MAX {
            self.captures.push(capture);
            // Captures get every packet-in.
            self.close_all_gates();
        }
    }

    /// Forgets captures whose other ends were dropped. Four times a second.
    pub(super) fn check_captures(&mut self) {
        if self.captures.is_empty() {
            return;
        }
        self.captures.retain(CaptureSender::is_open);
        if self.captures.is_empty() {
            // They are opened again.
            self.close_all_gates();
        }
    }
}

/// Offers packet-ins to all captures.
#[cold]
pub(super) fn offer<'p>(
    captures: &[CaptureSender],
    now: Instant,
    switch: DatapathId,
    packet_ins: impl Iterator<Item = PacketIn<'p>>,
) {
    for packet_in in packet_ins {
        for capture in captures {
            capture.offer(now, switch, &packet_in);
        }
    }
}
