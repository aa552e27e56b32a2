//! Why a connection ended.

use std::fmt;
use std::io;

use sluice_openflow::DatapathId;
use sluice_proto::SessionError;

/// Why a connection ended, for the log and for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer hung up in order.
    HungUp,
    /// The system reported the connection broken.
    Broken(io::ErrorKind),
    /// The conversation could not go on.
    Fault(SessionError),
    /// It took nothing of what waited for it.
    Stuck,
    /// More peers than there may be before their proof: it was the one too many, or made room for it.
    TooManyHandshakes,
    /// More switches than there may be.
    TooManySessions,
    /// More bytes than a peer may send before its proof.
    TooMuchBeforeProof,
    /// A datapath id that a live connection has.
    Duplicate(DatapathId),
    /// Another connection with the same datapath id took its place, since it was dead.
    Replaced(DatapathId),
    /// An auxiliary connection, which is not used here. §6.3.5.
    Auxiliary(DatapathId),
    /// The engine ends.
    Stopping,
}

impl CloseReason {
    /// Every label that a connection's end is counted under.
    pub(crate) const LABELS: [&'static str; 19] = [
        "hung_up",
        "broken",
        "stuck",
        "too_many_handshakes",
        "too_many_sessions",
        "too_much_before_proof",
        "duplicate",
        "replaced",
        "auxiliary",
        "malformed",
        "no_common_version",
        "wrong_version",
        "out_of_turn",
        "refused",
        "slow_handshake",
        "silent",
        "too_many_malformed",
        "reply_too_long",
        "no_room_for_reply",
    ];

    /// One word for counting.
    pub const fn label(self) -> &'static str {
        match self {
            Self::HungUp | Self::Stopping => "hung_up",
            Self::Broken(_) => "broken",
            Self::Fault(fault) => fault.label(),
            Self::Stuck => "stuck",
            Self::TooManyHandshakes => "too_many_handshakes",
            Self::TooManySessions => "too_many_sessions",
            Self::TooMuchBeforeProof => "too_much_before_proof",
            Self::Duplicate(_) => "duplicate",
            Self::Replaced(_) => "replaced",
            Self::Auxiliary(_) => "auxiliary",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HungUp => f.write_str("the peer hung up"),
            Self::Broken(kind) => write!(f, "the connection broke: {kind}"),
            Self::Fault(fault) => fault.fmt(f),
            Self::Stuck => f.write_str("stuck: it takes nothing of what waits for it"),
            Self::TooManyHandshakes => {
                f.write_str("too many peers have yet to prove that they are switches")
            }
            Self::TooManySessions => f.write_str("too many switches"),
            Self::TooMuchBeforeProof => {
                f.write_str("too much said before the proof of being a switch")
            }
            Self::Duplicate(id) => write!(f, "datapath {id} is connected already, and alive"),
            Self::Replaced(id) => {
                write!(f, "datapath {id} connected again, and this connection is dead")
            }
            Self::Auxiliary(id) => {
                write!(f, "auxiliary connection of datapath {id}, not used here")
            }
            Self::Stopping => f.write_str("the controller ends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_in_the_list() {
        for fault in [
            SessionError::HandshakeTimeout,
            SessionError::EchoTimeout,
            SessionError::TooManyMalformed,
            SessionError::MultipartReplyTooLarge,
            SessionError::MultipartBudgetExceeded,
            SessionError::NoCommonVersion(sluice_openflow::Version::V1_1),
        ] {
            assert!(CloseReason::LABELS.contains(&CloseReason::Fault(fault).label()));
        }
        assert!(CloseReason::LABELS.contains(&CloseReason::Stuck.label()));
    }
}
