//! Why a conversation has to end.

use core::fmt;

use sluice_openflow::{ErrorReason, MessageType, ParseError, Version};

/// Why a conversation has to end. What the specification has an `ERROR` for was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    /// The bytes can no longer be cut into messages, or the handshake was malformed.
    Malformed(ParseError),
    /// The peer speaks no version that we do.
    NoCommonVersion(Version),
    /// A message of another version than the one agreed on.
    WrongVersion(Version),
    /// A message that has no place at this point, or that no switch sends.
    UnexpectedMessage(MessageType),
    /// The peer answered a question of the handshake with an error.
    HandshakeRejected(ErrorReason),
    /// The handshake was not done in time.
    HandshakeTimeout,
    /// No answer to the last `ECHO_REQUEST`.
    EchoTimeout,
    /// More malformed messages than a session may have.
    TooManyMalformed,
    /// A reply in many parts grew past its limit.
    MultipartReplyTooLarge,
    /// The replies in many parts of all switches together grew past their limit, and this one was next.
    MultipartBudgetExceeded,
}

impl SessionError {
    /// One word for counting.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NoCommonVersion(_) => "no_common_version",
            Self::WrongVersion(_) => "wrong_version",
            Self::UnexpectedMessage(_) => "out_of_turn",
            Self::HandshakeRejected(..) => "refused",
            Self::HandshakeTimeout => "slow_handshake",
            Self::EchoTimeout => "silent",
            Self::TooManyMalformed => "too_many_malformed",
            Self::MultipartReplyTooLarge => "reply_too_long",
            Self::MultipartBudgetExceeded => "no_room_for_reply",
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed: {error}"),
            Self::NoCommonVersion(theirs) => write!(f, "no common version: the peer has {theirs}"),
            Self::WrongVersion(v) => write!(f, "a message of version {v}, not the one agreed on"),
            Self::UnexpectedMessage(kind) => write!(f, "{kind} has no place here"),
            Self::HandshakeRejected(reason) => write!(f, "refused the handshake: {reason}"),
            Self::HandshakeTimeout => f.write_str("the handshake was not done in time"),
            Self::EchoTimeout => f.write_str("no answer to an echo request"),
            Self::TooManyMalformed => f.write_str("too many malformed messages"),
            Self::MultipartReplyTooLarge => f.write_str("a reply in parts grew past its limit"),
            Self::MultipartBudgetExceeded => {
                f.write_str("replies in parts of all switches together grew past their limit")
            }
        }
    }
}

impl core::error::Error for SessionError {}
