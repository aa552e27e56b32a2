//! What became of requests and replies, and what else came.

use std::ops::AddAssign;

use sluice_openflow::ErrorReason;

/// What became of requests and replies, over the whole run: warm-up, cool-down and drain included.
///
/// `sent = answered + late + never_answered` holds at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered while they were open.
    pub answered: u64,
    /// Requests answered after they were given up.
    pub late: u64,
    /// Requests given up, or still open at the end.
    pub never_answered: u64,
    /// Answers in two halves, a rule and a frame: counted once above, and once here.
    pub paired: u64,
    /// Answers to a request that was answered before.
    pub twice: u64,
    /// Answers to requests that were never sent.
    pub unasked: u64,
    /// Rules that cannot be tied to a request: no buffer, and not both addresses in the match.
    pub untied: u64,
    /// Frames for everybody, as announcements cause.
    pub announcements: u64,
    /// `FLOW_MOD` and `PACKET_OUT` messages that answer nobody: deletions, searches for links.
    pub other: u64,
    /// Such messages that are shorter than they must be.
    pub malformed: u64,
}

impl RequestCounts {
    /// `FLOW_MOD` and `PACKET_OUT` messages that came.
    pub(crate) fn heard(&self) -> u64 {
        self.answered
            + self.late
            + self.paired
            + self.twice
            + self.unasked
            + self.untied
            + self.announcements
            + self.other
            + self.malformed
    }
}

impl AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.late += other.late;
        self.never_answered += other.never_answered;
        self.paired += other.paired;
        self.twice += other.twice;
        self.unasked += other.unasked;
        self.untied += other.untied;
        self.announcements += other.announcements;
        self.other += other.other;
        self.malformed += other.malformed;
    }
}

/// `ERROR` messages received, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorCounts {
    /// Why, and how many.
    pub kinds: Vec<(ErrorReason, u64)>,
}

impl ErrorCounts {
    /// Adds `n` of one kind.
    pub(crate) fn add(&mut self, reason: ErrorReason, n: u64) {
        match self.kinds.iter_mut().find(|known| known.0 == reason) {
            Some(known) => known.1 += n,
            None => self.kinds.push((reason, n)),
        }
    }

    /// Adds what another counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.kinds.iter().for_each(|&(reason, n)| self.add(reason, n));
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.kinds.iter().map(|&(_, n)| n).sum()
    }
}
