//! Why a conversation has to end.

use core::fmt;

use sluice_openflow::{ErrorReason, MessageType, ParseError, Version};

/// Why a conversation has to end. What the specification has an `ERROR` for was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The bytes can no longer be cut into messages, or the handshake was malformed.
    Malformed(ParseError),
    /// The peer speaks no version that we do.
    NoCommonVersion(Version),
    /// A message of another version than the one agreed on.
    WrongVersion(Version),
    /// A message that has no place at this point, or that no switch sends.
    OutOfTurn(MessageType),
    /// The peer answered a question of the handshake with an error.
    Refused(ErrorReason),
    /// The handshake was not done in time.
    SlowHandshake,
    /// No answer to the last `ECHO_REQUEST`.
    Silent,
    /// More malformed messages than a session may have.
    TooManyMalformed,
    /// A reply in many parts grew past its limit.
    ReplyTooLong,
    /// The replies in many parts of all switches together grew past their limit, and this one was next.
    NoRoomForReply,
}

impl Fault {
    /// One word for counting.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NoCommonVersion(_) => "no_common_version",
            Self::WrongVersion(_) => "wrong_version",
            Self::OutOfTurn(_) => "out_of_turn",
            Self::Refused(..) => "refused",
            Self::SlowHandshake => "slow_handshake",
            Self::Silent => "silent",
            Self::TooManyMalformed => "too_many_malformed",
            Self::ReplyTooLong => "reply_too_long",
            Self::NoRoomForReply => "no_room_for_reply",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed: {error}"),
            Self::NoCommonVersion(theirs) => write!(f, "no common version: the peer has {theirs}"),
            Self::WrongVersion(v) => write!(f, "a message of version {v}, not the one agreed on"),
            Self::OutOfTurn(kind) => write!(f, "{kind} has no place here"),
            Self::Refused(reason) => write!(f, "refused the handshake: {reason}"),
            Self::SlowHandshake => f.write_str("the handshake was not done in time"),
            Self::Silent => f.write_str("no answer to an echo request"),
            Self::TooManyMalformed => f.write_str("too many malformed messages"),
            Self::ReplyTooLong => f.write_str("a reply in parts grew past its limit"),
            Self::NoRoomForReply => {
                f.write_str("replies in parts of all switches together grew past their limit")
            }
        }
    }
}

impl core::error::Error for Fault {}
