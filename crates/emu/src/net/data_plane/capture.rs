//! Captures frames at hosts.

use std::collections::BTreeSet;
use std::time::Instant;

/// Most frames that are kept until they are taken: about 150 MB of 128 bytes each. Later ones are discarded.
const CAPTURED_MAX: usize = 1 << 20;

/// A frame that arrived at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When it arrived.
    pub at: Instant,
    /// Index of the host.
    pub host: usize,
    /// The frame, without FCS.
    pub frame: Vec<u8>,
}

/// The hosts whose frames are captured, and the frames.
#[derive(Debug, Default)]
pub(super) struct HostCapture {
    hosts: BTreeSet<usize>,
    frames: Vec<CapturedFrame>,
}

impl HostCapture {
    pub(super) fn start(&mut self, host: usize) {
        self.hosts.insert(host);
    }

    pub(super) fn record(&mut self, at: Instant, host: usize, frame: &[u8]) {
        if self.hosts.contains(&host) && self.frames.len() < CAPTURED_MAX {
            self.frames.push(CapturedFrame { at, host, frame: frame.to_vec() });
        }
    }

    pub(super) fn take(&mut self) -> Vec<CapturedFrame> {
        std::mem::take(&mut self.frames)
    }
}
