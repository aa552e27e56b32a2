//! Counts of requests, replies and `ERROR` messages.

use std::ops::AddAssign;

use sluice_openflow::ErrorReason;

/// Requests and replies of a whole run: warm-up, cool-down and drain included.
///
/// At the end, `sent = answered + late + never_answered`, and with an open-loop load, `sent + not_sent` were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Requests sent.
    pub sent: u64,
    /// Requests that were due and not sent.
    pub not_sent: NotSent,
    /// Requests answered while they were outstanding.
    pub answered: u64,
    /// Requests answered after they had timed out.
    pub late: u64,
    /// Requests that timed out, or were still outstanding at the end.
    pub never_answered: u64,
    /// Answers in two messages, a flow entry and a packet-out: counted once in `answered` or `late`, and once here.
    pub two_part: u64,
    /// Replies to a request that was answered before.
    pub duplicate: u64,
    /// Replies to requests that were never sent.
    pub unsolicited: u64,
    /// `FLOW_MOD`s that match no single request: no buffer id, and not both Ethernet addresses in the match.
    pub unmatched: u64,
    /// Broadcast packet-outs and flow entries, such as the flooding of host announcements.
    pub broadcasts: u64,
    /// Other `FLOW_MOD` and `PACKET_OUT` messages: deletions, link discovery probes.
    pub other: u64,
    /// `FLOW_MOD` and `PACKET_OUT` messages that are too short or of another version.
    pub malformed: u64,
}

impl RequestCounts {
    /// `FLOW_MOD` and `PACKET_OUT` messages received that may answer something: without deletions and link discovery probes.
    pub(crate) fn replies(&self) -> u64 {
        self.answered
            + self.late
            + self.two_part
            + self.duplicate
            + self.unsolicited
            + self.unmatched
            + self.broadcasts
            + self.malformed
    }
}

impl AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.not_sent += other.not_sent;
        self.answered += other.answered;
        self.late += other.late;
        self.never_answered += other.never_answered;
        self.two_part += other.two_part;
        self.duplicate += other.duplicate;
        self.unsolicited += other.unsolicited;
        self.unmatched += other.unmatched;
        self.broadcasts += other.broadcasts;
        self.other += other.other;
        self.malformed += other.malformed;
    }
}

/// Requests of an open-loop load that were due and not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotSent {
    /// The socket took no more bytes: the controller did not read.
    pub socket_full: u64,
    /// Too many requests of the switch were outstanding: the controller read, and did not answer.
    pub window_full: u64,
    /// The generator was too slow.
    pub generator_late: u64,
    /// The switch was not connected.
    pub disconnected: u64,
}

/// Why a request that was due was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSentReason {
    SocketFull,
    WindowFull,
    GeneratorLate,
    Disconnected,
}

impl NotSent {
    pub(crate) fn add(&mut self, reason: NotSentReason, n: u64) {
        *match reason {
            NotSentReason::SocketFull => &mut self.socket_full,
            NotSentReason::WindowFull => &mut self.window_full,
            NotSentReason::GeneratorLate => &mut self.generator_late,
            NotSentReason::Disconnected => &mut self.disconnected,
        } += n;
    }

    /// Number of requests that were not sent, for whatever reason.
    pub fn total(self) -> u64 {
        self.socket_full + self.window_full + self.generator_late + self.disconnected
    }
}

impl AddAssign for NotSent {
    fn add_assign(&mut self, other: Self) {
        self.socket_full += other.socket_full;
        self.window_full += other.window_full;
        self.generator_late += other.generator_late;
        self.disconnected += other.disconnected;
    }
}

/// `ERROR` messages received, by type and code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorCounts {
    /// Type and code, and the number of messages with them.
    pub by_reason: Vec<(ErrorReason, u64)>,
}

impl ErrorCounts {
    pub(crate) fn add(&mut self, reason: ErrorReason, n: u64) {
        match self.by_reason.iter_mut().find(|known| known.0 == reason) {
            Some(known) => known.1 += n,
            None => self.by_reason.push((reason, n)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.by_reason.iter().for_each(|&(reason, n)| self.add(reason, n));
    }

    /// Number of `ERROR` messages.
    pub fn total(&self) -> u64 {
        self.by_reason.iter().map(|&(_, n)| n).sum()
    }
}
